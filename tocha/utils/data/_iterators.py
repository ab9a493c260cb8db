"""What iter(DataLoader) gives: batches made here, or by worker processes that load ahead."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import select
import time
import warnings
import weakref
from collections import deque
from typing import Any

from tocha import _C
from tocha.autograd._record_function import record_function
from tocha.utils.data import _utils
from tocha.utils.data._utils.exceptions import ExceptionWrapper
from tocha.utils.data._utils.fetch import make_fetcher
from tocha.utils.data._utils.pin_memory import has_accelerator, pin_memory
from tocha.utils.data._utils.worker import Exhausted, WorkerHandle, WorkerTask, shut_down, stop_now
from tocha.utils.data.sampler import draw_seed

__all__: list[str] = []

_SHARDING_HINT = (
    "For multiprocessing data-loading, this could be caused by not properly configuring the IterableDataset replica at "
    "each worker. Please see https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
)


def _uses_pinned_memory(loader: Any) -> bool:
    if not loader.pin_memory:
        return False
    if loader.pin_memory_device:
        warnings.warn(
            "pin_memory_device is deprecated, the current accelerator will be used as the device,"
            f"ignore pin_memory_device='{loader.pin_memory_device}'.",
            stacklevel=5,
        )
    if not has_accelerator():
        warnings.warn(
            "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.",
            stacklevel=5,
        )
        return False
    return True


class _BaseDataLoaderIter:
    """What both kinds share: the sampler's position, counting and pinning."""

    is_shut_down = False

    def __init__(self, loader: Any) -> None:
        self._dataset = loader.dataset
        self._iterable = loader._dataset_kind == 1
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._pin_memory = _uses_pinned_memory(loader)
        self._timeout = loader.timeout
        self._collate_fn = loader.collate_fn
        # Drawn without workers too: the random order that follows is the same for any number of them.
        self._base_seed = draw_seed(loader.generator)
        self._begin(loader)

    def _begin(self, loader: Any) -> None:
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        if _C._profiler_is_watching():
            with record_function(f"enumerate(DataLoader)#{type(self).__name__}.__next__"):
                return self._next()
        return self._next()

    def _next(self) -> Any:
        data = self._next_data()
        self._num_yielded += 1
        if self._iterable:
            self._warn_if_too_long()
        return pin_memory(data) if self._pin_memory else data

    def _warn_if_too_long(self) -> None:
        said = self._IterableDataset_len_called
        if said is not None and self._num_yielded > said:
            message = (
                f"Length of IterableDataset {self._dataset} was reported to be {said}(when accessing len(dataloader)), "
                f"but {self._num_yielded} samples have been fetched. "
            )
            warnings.warn(message + (_SHARDING_HINT if self._num_workers > 0 else ""), stacklevel=3)

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        fetcher = make_fetcher(self._dataset, self._iterable, self._auto_collation, self._collate_fn, self._drop_last)
        self._fetch = fetcher.fetch

    def _next_data(self) -> Any:
        return self._fetch(next(self._sampler_iter))


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Asks its workers for batches ahead of time and gives them out in order.

    Every worker has a socket of its own and answers its requests one after another, so the next batch in order is the
    next answer of a known worker. No lock and no queue is shared: a worker that dies at any point leaves nothing locked,
    and its socket tells at once.
    """

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._in_order = loader.in_order
        self._persistent = loader.persistent_workers
        self._prefetch = loader.prefetch_factor or 0
        self._failure = ""
        self._workers: list[WorkerHandle] = []
        self._owner = os.getpid()
        self._finalizer = weakref.finalize(self, shut_down, self._workers, self._owner)
        try:
            self._start(loader)
        except BaseException:
            self._finalizer()
            raise
        self._poll = select.poll()
        self._by_descriptor: dict[int, WorkerHandle] = {}
        for worker in self._workers:
            for descriptor in (worker.channel.fileno(), worker.process.sentinel):
                self._poll.register(descriptor, select.POLLIN)
                self._by_descriptor[descriptor] = worker
        self._ask_ahead()

    def _start(self, loader: Any) -> None:
        task = WorkerTask(
            dataset=self._dataset,
            iterable=self._iterable,
            auto_collation=self._auto_collation,
            collate_fn=self._collate_fn,
            drop_last=self._drop_last,
            base_seed=self._base_seed,
            init_fn=loader.worker_init_fn,
            num_workers=self._num_workers,
            prefetch_factor=self._prefetch,
        )
        context = loader.multiprocessing_context or multiprocessing
        for worker_id in range(self._num_workers):
            self._workers.append(WorkerHandle(context, task, worker_id))

    @property
    def is_shut_down(self) -> bool:  # type: ignore[override]
        """Whether the workers have been sent home, or are another process's."""
        return not self._finalizer.alive or os.getpid() != self._owner

    def reset(self, loader: Any) -> None:
        """Begins another pass with the same workers."""
        self._begin(loader)
        for worker in self._workers:
            worker.begin_epoch()
        self._ask_ahead()

    # -- Asking.

    def _ask_ahead(self) -> None:
        self._order: deque[WorkerHandle] = deque()  # who owes the next batches, in order
        self._turns = itertools.cycle(self._workers)
        for _ in range(max(1, self._prefetch * self._num_workers)):
            self._ask()

    def _ask(self) -> None:
        """Asks for one more batch, if there is one and a worker for it."""
        worker = self._next_worker()
        if worker is None:
            return
        try:
            index = next(self._sampler_iter)
        except StopIteration:
            return
        try:
            worker.ask(index)
        except (BrokenPipeError, ConnectionResetError):
            self._fail(worker)
        self._order.append(worker)
        self._watch(worker)

    def _next_worker(self) -> WorkerHandle | None:
        candidates = (next(self._turns) for _ in range(self._num_workers))
        if self._in_order:
            return next((w for w in candidates if w.active), None)
        return min((w for w in candidates if w.active), key=lambda w: w.owed, default=None)

    def _watch(self, worker: WorkerHandle) -> None:
        """Waits for room in the socket only while something is to be sent."""
        if worker.channel.has_unsent:
            self._poll.modify(worker.channel.fileno(), select.POLLIN | select.POLLOUT)

    # -- Receiving.

    def _next_data(self) -> Any:
        if os.getpid() != self._owner:
            raise RuntimeError("the workers of this DataLoader's iterator belong to the process that made it")
        if self._failure:
            raise RuntimeError(self._failure)
        if self.is_shut_down:
            raise StopIteration
        try:
            return self._receive()
        except Exception:
            raise
        except BaseException:  # Ctrl-C in the middle of a message: what follows in the stream cannot be trusted
            self._give_up("DataLoader was interrupted while it waited for a batch")
            raise

    def _receive(self) -> Any:
        deadline = time.monotonic() + self._timeout if self._timeout > 0 else None
        self._handle_events(0)
        while self._order:
            worker, message = self._await_answer(deadline)
            self._ask()
            data = worker.reader.read(message)
            if isinstance(data, ExceptionWrapper):
                data.reraise()
            if not isinstance(data, Exhausted):
                return data
            worker.active = False
        if not self._persistent:
            self._finalizer()
        raise StopIteration

    def _await_answer(self, deadline: float | None) -> tuple[WorkerHandle, Any]:
        while True:
            for worker in [self._order[0]] if self._in_order else self._workers:
                message = worker.take()
                if message is not None:
                    self._order.remove(worker)
                    return worker, message
            self._wait(deadline)

    def _wait(self, deadline: float | None) -> None:
        patience = _utils.MP_STATUS_CHECK_INTERVAL
        if deadline is not None:
            patience = min(patience, deadline - time.monotonic())
            if patience <= 0:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
        if self._handle_events(patience * 1000):
            return
        for worker in self._workers:
            if not worker.process.is_alive():
                self._fail(worker)

    def _handle_events(self, milliseconds: float) -> bool:
        """Reads and writes what sockets are ready for; says whether anything happened."""
        events = self._poll.poll(milliseconds)
        for descriptor, event in events:
            worker = self._by_descriptor[descriptor]
            if descriptor != worker.channel.fileno():
                self._fail(worker)
            try:
                if event & select.POLLOUT:
                    worker.channel.flush()
                    if not worker.channel.has_unsent:
                        self._poll.modify(descriptor, select.POLLIN)
                if event & ~select.POLLOUT:
                    worker.channel.fill()
            except (EOFError, BrokenPipeError, ConnectionResetError):
                self._fail(worker)
        return bool(events)

    def _fail(self, worker: WorkerHandle) -> None:
        """Reports a worker that ended by itself."""
        self._give_up(worker.describe_death())
        raise RuntimeError(self._failure) from None

    def _give_up(self, reason: str) -> None:
        self._failure = reason
        stop_now(self._workers)
        self._finalizer()
