"""The sampler that gives every process of a distributed program its own part of a dataset."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from typing import Any

from tocha import _C
from tocha.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


def _process_group() -> Any:
    """tocha.distributed, once a default process group exists in it."""
    try:
        distributed = importlib.import_module("tocha.distributed")
    except ImportError:
        distributed = None
    if distributed is None or not distributed.is_available():
        raise RuntimeError("Requires distributed package to be available")
    return distributed


class DistributedSampler(Sampler[Any]):
    """Every num_replicas-th index, beginning at rank; all replicas shuffle alike.

    Call `set_epoch` before each epoch, or every epoch has the same order. Indices at the beginning are repeated
    until the dataset can be shared out evenly; with drop_last the tail is dropped instead.

    >>> sampler = tocha.utils.data.DistributedSampler(range(7), num_replicas=2, rank=1, shuffle=False)
    >>> list(sampler)
    [1, 3, 5, 0]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None:
            num_replicas = int(_process_group().get_world_size())
        if rank is None:
            rank = int(_process_group().get_rank())
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        n = len(dataset)
        self.num_samples = n // num_replicas if drop_last else math.ceil(n / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def _order(self) -> list[int]:
        n = len(self.dataset)
        if not self.shuffle:
            return list(range(n))
        return _C.randperm(n, generator=_C.Generator().manual_seed(self.seed + self.epoch)).tolist()

    def __iter__(self) -> Iterator[Any]:
        order = self._order()
        if len(order) < self.total_size:
            order = (order * math.ceil(self.total_size / len(order)))[: self.total_size]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass shuffle by this epoch's number."""
        self.epoch = epoch
