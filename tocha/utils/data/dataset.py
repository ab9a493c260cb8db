"""Datasets: what a DataLoader reads samples from, by index (Dataset) or one after another (IterableDataset)."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from tocha import _C

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """Samples by index: subclasses define `__getitem__`, and `__len__` for the samplers.

    A subclass may define `__getitems__(indices)` too, which gives a whole batch of samples at once.

    >>> class Squares(tocha.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, i):
    ...         return i * i
    >>> both = Squares() + Squares()
    >>> len(both), both[5]
    (8, 1)
    """

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[_T_co]) -> ConcatDataset[_T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co], Iterable[_T_co]):
    """Samples one after another: subclasses define `__iter__`.

    Every worker of a DataLoader iterates over its own copy; `get_worker_info` tells a copy which part is its own.

    >>> class Count(tocha.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter([1, 2, 3])
    >>> list(tocha.utils.data.DataLoader(Count(), batch_size=2))
    [tensor([1, 2]), tensor([3])]
    """

    def __add__(self, other: Dataset[_T_co]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[_C.Tensor, ...]]):
    """The i-th sample holds the i-th slice of every tensor.

    >>> tocha.utils.data.TensorDataset(tocha.arange(3), tocha.ones(3, 2))[1]
    (tensor(1), tensor([1., 1.]))
    """

    tensors: tuple[_C.Tensor, ...]

    def __init__(self, *tensors: _C.Tensor) -> None:
        if any(t.size(0) != tensors[0].size(0) for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[_C.Tensor, ...]:
        return tuple([t[index] for t in self.tensors])

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset[Any]):
    """Several datasets side by side: a sample is the tuple of their samples, or a dict when they are given by name.

    >>> tocha.utils.data.StackDataset(x=[1, 2], y="ab")[1]
    {'x': 2, 'y': 'b'}
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or"
                "``dict``- (via ``kwargs``) like input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        lengths = {len(d) for d in self._parts()}
        if len(lengths) != 1:
            raise ValueError("Size mismatch between datasets")
        self._length = lengths.pop()

    def _parts(self) -> Iterable[Any]:
        return self.datasets.values() if isinstance(self.datasets, dict) else self.datasets

    def _sample(self, values: Iterable[Any]) -> Any:
        return dict(zip(self.datasets, values)) if isinstance(self.datasets, dict) else tuple(values)

    def __getitem__(self, index: Any) -> Any:
        return self._sample([d[index] for d in self._parts()])

    def __getitems__(self, indices: list) -> list:
        columns = []
        for dataset in self._parts():
            column = _items(dataset, indices)
            if len(column) != len(indices):
                raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(column)}")
            columns.append(column)
        return [self._sample(row) for row in zip(*columns)]

    def __len__(self) -> int:
        return self._length


def _items(dataset: Any, indices: list) -> list:
    """The samples of a batch, by one call where the dataset has `__getitems__`."""
    if callable(getattr(dataset, "__getitems__", None)):
        return dataset.__getitems__(indices)
    return [dataset[i] for i in indices]


class ConcatDataset(Dataset[_T_co]):
    """Datasets one after another, as one.

    >>> tocha.utils.data.ConcatDataset(["abc", "de"])[3]
    'd'
    """

    datasets: list[Any]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Where each dataset ends."""
        return list(itertools.accumulate(len(d) for d in sequence))

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> _T_co:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        start = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][idx - start]

    @property
    def cummulative_sizes(self) -> list[int]:
        """The old spelling of cumulative_sizes."""
        warnings.warn(
            "`cummulative_sizes` attribute is renamed to `cumulative_sizes`", category=FutureWarning, stacklevel=2
        )
        return self.cumulative_sizes


class ChainDataset(IterableDataset[Any]):
    """Iterable datasets one after another, as one.

    >>> class Count(tocha.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter([1, 2])
    >>> list(tocha.utils.data.ChainDataset([Count(), Count()]))
    [1, 2, 1, 2]
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _parts(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._parts():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(d) for d in self._parts())  # type: ignore[arg-type]


class Subset(Dataset[_T_co]):
    """Some samples of a dataset, by their indices.

    >>> tocha.utils.data.Subset("abcd", [3, 0])[0]
    'd'
    """

    dataset: Any
    indices: Sequence[int]

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[_T_co]:
        return _items(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def _lengths_of_fractions(total: int, fractions: Sequence[float]) -> list[int]:
    """Rounded down; what is left over goes to the first parts, one each."""
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    lengths = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(lengths)):
        lengths[i % len(lengths)] += 1
    for i, length in enumerate(lengths):
        if length == 0:
            warnings.warn(f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=3)
    return lengths


def random_split(
    dataset: Any,
    lengths: Sequence[int | float],
    generator: _C.Generator | None = _C.default_generator,
) -> list[Subset]:
    """Splits a dataset at random into parts of the given lengths, or fractions that add up to 1.

    >>> parts = tocha.utils.data.random_split(range(10), [0.7, 0.3], tocha.Generator().manual_seed(3))
    >>> [p.indices for p in parts]
    [[6, 0, 3, 7, 8, 5, 1], [9, 2, 4]]
    """
    total = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _lengths_of_fractions(total, lengths)
    if sum(lengths) != total:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    sizes = [int(n) for n in lengths]
    order = _C.randperm(total, generator=generator).tolist()
    return [Subset(dataset, order[end - n : end]) for n, end in zip(sizes, itertools.accumulate(sizes))]
