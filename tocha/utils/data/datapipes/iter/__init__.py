"""Ready-made pipes over iterables: the simple ones. Those that read files, fork or shuffle are not built."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from tocha.utils.data._utils.collate import default_collate
from tocha.utils.data.datapipes._decorator import functional_datapipe
from tocha.utils.data.datapipes.datapipe import IterDataPipe

__all__ = ["Batcher", "Collator", "Concater", "Filter", "IterableWrapper", "Mapper", "UnBatcher", "Zipper"]


class IterableWrapper(IterDataPipe):
    """A pipe over an iterable, which is copied first unless told otherwise.

    >>> list(IterableWrapper(range(4)).map(lambda x: x * x).filter(lambda x: x % 2 == 0).batch(2))
    [[0, 4]]
    """

    def __init__(self, iterable: Iterable, deepcopy: bool = True):
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        yield from copy.deepcopy(self.iterable) if self.deepcopy else self.iterable

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]


@functional_datapipe("map")
class Mapper(IterDataPipe):
    """fn of each item; with input_col of one or several of its columns, put at output_col."""

    def __init__(self, datapipe: Any, fn: Callable, input_col: Any = None, output_col: Any = None):
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        self.datapipe, self.fn, self.input_col, self.output_col = datapipe, fn, input_col, output_col

    def _apply(self, item: Any) -> Any:
        if self.input_col is None:
            return self.fn(item)
        several = isinstance(self.input_col, list | tuple)
        found = self.fn(*(item[c] for c in self.input_col)) if several else self.fn(item[self.input_col])
        into = self.output_col if self.output_col is not None else self.input_col[0] if several else self.input_col
        changed = list(item) if isinstance(item, tuple) else copy.copy(item)
        if into == -1 and self.output_col == -1:
            changed.append(found)
        else:
            changed[into] = found
        return tuple(changed) if isinstance(item, tuple) else changed

    def __iter__(self) -> Iterator[Any]:
        return map(self._apply, self.datapipe)

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("collate")
class Collator(Mapper):
    """Batches of samples as tensors."""

    def __init__(self, datapipe: Any, conversion: Any = default_collate, collate_fn: Callable | None = None):
        super().__init__(datapipe, collate_fn if collate_fn is not None else conversion)


@functional_datapipe("filter")
class Filter(IterDataPipe):
    """The items for which filter_fn (of a column, with input_col) says yes."""

    def __init__(self, datapipe: Any, filter_fn: Callable, input_col: Any = None):
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def _asks(self, item: Any) -> bool:
        if self.input_col is None:
            return self.filter_fn(item)
        if isinstance(self.input_col, list | tuple):
            return self.filter_fn(*(item[c] for c in self.input_col))
        return self.filter_fn(item[self.input_col])

    def __iter__(self) -> Iterator[Any]:
        return filter(self._asks, self.datapipe)


class DataChunk(list):
    """The items of a batch."""

    def __init__(self, items: Iterable):
        super().__init__(items)
        self.items = list(self)

    def raw_iterator(self) -> Iterator[Any]:
        """The items."""
        yield from self.items


@functional_datapipe("batch")
class Batcher(IterDataPipe):
    """Items in lists of batch_size; the last may be shorter, or is dropped."""

    def __init__(self, datapipe: Any, batch_size: int, drop_last: bool = False, wrapper_class: type = DataChunk):
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for item in self.datapipe:
            batch.append(item)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        size = len(self.datapipe)
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcher(IterDataPipe):
    """The items of batches, unbatch_level deep; -1: down to what is no list."""

    def __init__(self, datapipe: Any, unbatch_level: int = 1):
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def _items(self, item: Any, level: int) -> Iterator[Any]:
        if level == 0 or (level < 0 and not isinstance(item, list)):
            yield item
        elif not isinstance(item, list):
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")
        else:
            for inner in item:
                yield from self._items(inner, level - 1)

    def __iter__(self) -> Iterator[Any]:
        for item in self.datapipe:
            yield from self._items(item, self.unbatch_level)


@functional_datapipe("concat")
class Concater(IterDataPipe):
    """One pipe after the other."""

    def __init__(self, *datapipes: Any):
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self.datapipes)

    def __len__(self) -> int:
        return sum(len(d) for d in self.datapipes)


@functional_datapipe("zip")
class Zipper(IterDataPipe):
    """Tuples of one item of each pipe, while all have some."""

    def __init__(self, *datapipes: Any):
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        return zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(len(d) for d in self.datapipes)
