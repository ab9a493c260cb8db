"""Samplers: in which order a DataLoader visits a dataset."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from tocha import _C

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

_T_co = TypeVar("_T_co", covariant=True)

# Draws with replacement come in groups of this size: that is part of the random stream.
_GROUP = 32


def draw_seed(generator: _C.Generator | None = None) -> int:
    """A seed from the generator (the default one when there is none)."""
    return int(_C.empty((), dtype=_C.int64).random_(generator=generator).item())


def _check_positive(name: str, value: Any, bools: bool = False) -> None:
    if not isinstance(value, int) or (isinstance(value, bool) and not bools) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


class Sampler(Generic[_T_co]):
    """Base of all samplers: subclasses define `__iter__` over indices or lists of indices, and `__len__` if known.

    >>> class Backwards(tocha.utils.data.Sampler):
    ...     def __init__(self, data):
    ...         self.data = data
    ...     def __iter__(self):
    ...         return reversed(range(len(self.data)))
    >>> list(tocha.utils.data.DataLoader([10, 20, 30], sampler=Backwards([10, 20, 30])))
    [tensor([30]), tensor([20]), tensor([10])]
    """

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """From the first sample to the last.

    >>> list(tocha.utils.data.SequentialSampler([10, 20, 30]))
    [0, 1, 2]
    """

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """All samples in random order, or num_samples of them; with replacement if asked for.

    >>> list(tocha.utils.data.RandomSampler(range(5), generator=tocha.Generator().manual_seed(5)))
    [1, 3, 0, 4, 2]
    """

    data_source: Sized
    replacement: bool

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: _C.Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        _check_positive("num_samples", self.num_samples, bools=True)

    @property
    def num_samples(self) -> int:
        """How many indices one pass gives."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        return itertools.chain.from_iterable(self._groups())

    def _groups(self) -> Iterator[list[int]]:
        """The indices in the portions they are drawn in, each when it is needed."""
        n = len(self.data_source)
        generator = self.generator
        if generator is None:
            generator = _C.Generator().manual_seed(draw_seed())
        if self.replacement:
            full, rest = divmod(self.num_samples, _GROUP)
            for size in itertools.chain(itertools.repeat(_GROUP, full), [rest]):
                yield _C.randint(n, (size,), dtype=_C.int64, generator=generator).tolist()
        else:
            full, rest = divmod(self.num_samples, n)
            for _ in range(full):
                yield _C.randperm(n, generator=generator).tolist()
            yield _C.randperm(n, generator=generator).tolist()[:rest]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order.

    >>> sorted(tocha.utils.data.SubsetRandomSampler([0, 2, 5]))
    [0, 2, 5]
    """

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: _C.Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in _C.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with probabilities in proportion to their weights.

    >>> sampler = tocha.utils.data.WeightedRandomSampler([0.0, 1.0, 3.0], 4, generator=tocha.Generator().manual_seed(0))
    >>> 0 in set(sampler)
    False
    """

    weights: _C.Tensor
    num_samples: int
    replacement: bool

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: _C.Generator | None = None,
    ) -> None:
        _check_positive("num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        as_tensor = _C.as_tensor(weights, dtype=_C.float64)
        if as_tensor.dim() != 1:
            raise ValueError(f"weights should be a 1d sequence but given weights have shape {tuple(as_tensor.shape)}")
        self.weights = as_tensor
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = _C.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Groups the indices of another sampler into lists.

    >>> list(tocha.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool) -> None:
        _check_positive("batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
