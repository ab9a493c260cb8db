"""The worker processes of a DataLoader: what runs in them, and the loader's handle on each."""

from __future__ import annotations

import multiprocessing
import os
import random
import select
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tocha import _C
from tocha.random import manual_seed
from tocha.utils.data import _utils
from tocha.utils.data._utils.exceptions import ExceptionWrapper
from tocha.utils.data._utils.fetch import make_fetcher
from tocha.utils.data._utils.transport import (
    BatchReader,
    BatchWriter,
    Channel,
    channel_pair,
    decode_request,
    encode_request,
)

__all__ = ["WorkerInfo", "get_worker_info"]

# Blocks that a worker keeps beyond those of the batches it has been asked for: what the consumer still holds.
_SPARE_BLOCKS = 6

# What a worker meets when it writes to a loader that is gone or has had enough.
_LOADER_GONE = (BrokenPipeError, ConnectionResetError)


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What get_worker_info tells a worker about itself."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker of a DataLoader: its id, the number of workers, its seed and its copy of the dataset; else None.

    >>> tocha.utils.data.get_worker_info() is None
    True
    """
    return _worker_info


@dataclass
class WorkerTask:
    """All that a worker is told when it starts."""

    dataset: Any
    iterable: bool
    auto_collation: bool
    collate_fn: Callable
    drop_last: bool
    base_seed: int
    init_fn: Callable[[int], None] | None
    num_workers: int
    prefetch_factor: int

    def new_fetcher(self) -> Any:
        """A fetcher at the dataset's beginning."""
        return make_fetcher(self.dataset, self.iterable, self.auto_collation, self.collate_fn, self.drop_last)


class Exhausted:
    """A worker's answer when its copy of an iterable dataset has no more samples."""


class NewEpoch:
    """The loader's word to a persistent worker that another pass begins."""


class _Parent:
    """Tells whether the process that made this one is still there."""

    def __init__(self) -> None:
        self.process = multiprocessing.parent_process()
        # A fork server stands between the two: then the ids differ from the beginning and say nothing.
        self.is_direct = self.process is not None and self.process.pid == os.getppid()

    def is_alive(self) -> bool:
        if self.process is None or (self.is_direct and self.process.pid != os.getppid()):
            return False
        return self.process.is_alive()


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """What a worker's numbers of NumPy begin from."""
    import numpy as np

    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return [int(word) for word in np.random.SeedSequence(words).generate_state(4)]


def _seed(task: WorkerTask, worker_id: int) -> None:
    seed = task.base_seed + worker_id
    random.seed(seed)
    manual_seed(seed)
    import numpy as np

    np.random.seed(_generate_state(task.base_seed, worker_id))


class _Worker:
    """The loop of a worker process: take a request, fetch, answer, until the loader closes the channel."""

    def __init__(self, task: WorkerTask, worker_id: int, sock: socket.socket) -> None:
        self.task = task
        self.id = worker_id
        self.channel = Channel(sock)
        self.writer = BatchWriter(self.channel, task.prefetch_factor + _SPARE_BLOCKS)
        self.parent = _Parent()
        self.fetcher: Any = None
        self.failure: ExceptionWrapper | None = None

    def run(self) -> None:
        """Serves requests until nobody asks any more."""
        try:
            self.prepare()
            while True:
                self.answer(self.next_request())
        except (EOFError, *_LOADER_GONE):
            pass

    def prepare(self) -> None:
        """Seeds, announces who this is and calls the user's set-up; a failure is the answer to every request."""
        global _worker_info
        _C.set_num_threads(1)
        _seed(self.task, self.id)
        task = self.task
        _worker_info = WorkerInfo(self.id, task.num_workers, task.base_seed + self.id, task.dataset)
        try:
            if task.init_fn is not None:
                task.init_fn(self.id)
            self.fetcher = task.new_fetcher()
        except Exception:
            self.failure = self._caught()

    def next_request(self) -> Any:
        """Waits for the loader; EOFError when it closed the channel or died."""
        waiting = select.poll()
        waiting.register(self.channel, select.POLLIN)
        while (message := self.channel.take()) is None:
            if waiting.poll(_utils.MP_STATUS_CHECK_INTERVAL * 1000):
                self.channel.fill()
            elif not self.parent.is_alive():
                raise EOFError
        return decode_request(message[1])

    def answer(self, request: Any) -> None:
        """Does what a request says."""
        if isinstance(request, NewEpoch):
            self._begin_epoch()
            return
        reply = self.failure or self._fetch(request)
        try:
            self.writer.send(reply)
        except _LOADER_GONE:
            raise
        except Exception:  # it cannot be pickled
            failure = reply if isinstance(reply, ExceptionWrapper) else self._caught()
            self.writer.send(failure.without_type() if failure is reply else failure)

    def _begin_epoch(self) -> None:
        if not self.task.iterable:
            return
        try:
            self.fetcher = self.task.new_fetcher()
            self.failure = None
        except Exception:
            self.failure = self._caught()

    def _fetch(self, index: Any) -> Any:
        try:
            return self.fetcher.fetch(index)
        except StopIteration:
            if not self.task.iterable:
                return self._caught()
            return Exhausted()
        except Exception:
            return self._caught()

    def _caught(self) -> ExceptionWrapper:
        return ExceptionWrapper(where=f"in DataLoader worker process {self.id}")


def worker_main(task: WorkerTask, worker_id: int, sock: socket.socket) -> None:
    """The entry of a worker process."""
    try:
        _Worker(task, worker_id, sock).run()
    except KeyboardInterrupt:
        sys.exit(1)  # the loader's process gets it too, and tells


# ---- The loader's side.


class WorkerHandle:
    """A worker as the loader sees it: process, channel, and how many answers it owes."""

    def __init__(self, context: Any, task: WorkerTask, worker_id: int) -> None:
        self.id = worker_id
        self.active = True
        self.owed = 0  # answers not read yet
        self.stale = 0  # how many of them belong to a pass that was given up
        self.channel, theirs = channel_pair()
        self.reader = BatchReader()
        self.process = context.Process(target=worker_main, args=(task, worker_id, theirs), daemon=True)
        try:
            self.process.start()
        except BaseException:
            self.channel.close()
            raise
        finally:
            theirs.close()

    def ask(self, request: Any) -> None:
        """Asks for a batch."""
        self.channel.post(None, encode_request(request))
        self.owed += 1

    def begin_epoch(self) -> None:
        """Lets a persistent worker start again; what it still owes will be dropped."""
        self.stale = self.owed
        self.active = True
        self.channel.post(None, encode_request(NewEpoch()))

    def take(self) -> tuple[Any, bytes, list[int]] | None:
        """The next answer of this pass, if it has arrived; `reader.read` unpickles it."""
        while (message := self.channel.take()) is not None:
            self.owed -= 1
            if self.stale == 0:
                return message
            self.stale -= 1
            self.reader.read(message)  # also gives its memory back
        return None

    def describe_death(self) -> str:
        """How a worker that should be alive has ended."""
        self.process.join(_utils.MP_STATUS_CHECK_INTERVAL)
        code = self.process.exitcode
        who = f"DataLoader worker (pid {self.process.pid})"
        if code is not None and code < 0:
            number = signal.Signals(-code)
            hint = ""
            if number == signal.SIGBUS:
                hint = (
                    "It is possible that dataloader's workers are out of shared memory. "
                    "Please try to raise your shared memory limit."
                )
            return f"{who} is killed by signal: {signal.strsignal(number)}. {hint}"
        return (
            f"{who} exited unexpectedly with exit code {code}. Details are lost due to multiprocessing. "
            "Rerunning with num_workers=0 may give better error trace."
        )


def stop_now(workers: list[WorkerHandle]) -> None:
    """Stops workers whatever they do."""
    for worker in workers:
        worker.process.terminate()


def shut_down(workers: list[WorkerHandle], owner: int) -> None:
    """Ends workers: they leave when their channel closes; those that do not in time are stopped."""
    if os.getpid() != owner:
        return  # a fork's child: they are its parent's
    for worker in workers:
        worker.channel.close()
    for worker in workers:
        worker.process.join(_utils.MP_STATUS_CHECK_INTERVAL)
        for stop in (worker.process.terminate, worker.process.kill):
            if worker.process.is_alive():
                stop()
                worker.process.join(_utils.MP_STATUS_CHECK_INTERVAL)
    workers.clear()
