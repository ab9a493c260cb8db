"""DataLoader: batches from a dataset, in this process or from worker processes. The iterators are in _iterators."""

from __future__ import annotations

import multiprocessing as python_multiprocessing
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from tocha import _C
from tocha.utils.data._iterators import (
    _BaseDataLoaderIter,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)
from tocha.utils.data._utils.collate import default_collate, default_convert
from tocha.utils.data._utils.worker import get_worker_info
from tocha.utils.data.dataset import IterableDataset
from tocha.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_T_co = TypeVar("_T_co", covariant=True)
_collate_fn_t = Callable[[list[Any]], Any]
_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _DatasetKind:
    Map = 0
    Iterable = 1


class _InfiniteConstantSampler(Sampler[None]):
    """None for ever: an iterable dataset needs no indices."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[_T_co]):
    """Iterates over a dataset in batches.

    dataset: anything with `__getitem__` and `__len__`, or an IterableDataset.
    batch_size: samples per batch; None turns batching off.
    shuffle: a new random order in every pass.
    sampler, batch_sampler: the order, as indices or as lists of indices.
    num_workers: processes that load ahead; 0 loads in this one.
    collate_fn: joins a list of samples into a batch (default_collate).
    pin_memory: copies tensors to page-locked memory, if there is an accelerator.
    drop_last: leaves out a last batch that is too short.
    timeout: seconds to wait for a batch of a worker; 0 waits as long as it takes.
    worker_init_fn: called in every worker with its number, before it loads anything.
    multiprocessing_context: how workers start: "fork", "spawn", "forkserver" or a context.
    generator: what the order and the workers' seeds are drawn from.
    prefetch_factor: batches that each worker loads ahead (2).
    persistent_workers: keeps the workers from one pass to the next.
    in_order: False gives batches as they come.

    >>> loader = tocha.utils.data.DataLoader(range(7), batch_size=3)
    >>> len(loader), [batch.tolist() for batch in loader]
    (3, [[0, 1, 2], [3, 4, 5], [6]])
    """

    dataset: Any
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Any
    batch_sampler: Any
    pin_memory_device: str
    prefetch_factor: int | None
    __multiprocessing_context: Any
    __initialized = False

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler | Iterable | None = None,
        batch_sampler: Sampler[list] | Iterable[list] | None = None,
        num_workers: int = 0,
        collate_fn: Callable | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: _C.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self._dataset_kind = _DatasetKind.Iterable if isinstance(dataset, IterableDataset) else _DatasetKind.Map
        if self._dataset_kind == _DatasetKind.Iterable:
            _check_iterable(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            sampler = self._default_sampler(bool(shuffle), generator)
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self.__initialized = True
        self._IterableDataset_len_called: int | None = None
        self._iterator: Any = None
        self.check_worker_number_rationality()

    def _default_sampler(self, shuffle: bool, generator: _C.Generator | None) -> Sampler:
        if self._dataset_kind == _DatasetKind.Iterable:
            return _InfiniteConstantSampler()
        return RandomSampler(self.dataset, generator=generator) if shuffle else SequentialSampler(self.dataset)

    @property
    def multiprocessing_context(self) -> Any:
        """The context that makes the workers, or None for the default one."""
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        self.__multiprocessing_context = None if context is None else _checked_context(context, self.num_workers)

    def __setattr__(self, attr: str, val: Any) -> None:
        if self.__initialized and attr in _FIXED:
            raise ValueError(f"{attr} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(attr, val)

    def __iter__(self) -> Iterator[Any]:
        if not (self.persistent_workers and self.num_workers > 0):
            return self._get_iterator()
        if self._iterator is None or self._iterator.is_shut_down:
            self._iterator = self._get_iterator()
        else:
            self._iterator.reset(self)
        return self._iterator

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        return _MultiProcessingDataLoaderIter(self)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        # Remembered, so that an iterator can warn when the dataset turns out to be longer than it says.
        length = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warns when there are more workers than processors to run them."""
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if self.num_workers and available and self.num_workers > available:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested max number "
                f"of worker in current system is {available}, which is smaller than what this DataLoader is going to "
                "create. Please be aware that excessive worker creation might get DataLoader running slow or even "
                "freeze, lower the worker number to avoid potential slowness/freeze if necessary.",
                stacklevel=3,
            )


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent: bool) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
            "multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    given = {
        "shuffle": None if shuffle is False else shuffle,
        "sampler": sampler,
        "batch_sampler": batch_sampler,
    }
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )


def _checked_context(context: Any, num_workers: int) -> Any:
    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
            f"num_workers={num_workers}"
        )
    if isinstance(context, str):
        methods = python_multiprocessing.get_all_start_methods()
        if context not in methods:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {methods!r}, but got "
                f"multiprocessing_context={context!r}"
            )
        return python_multiprocessing.get_context(context)
    if not isinstance(context, python_multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start method, "
            f"but got multiprocessing_context={context}"
        )
    return context
