"""From indices to a batch: what the loop of a DataLoader or of its workers does with one entry of the sampler."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

__all__ = ["make_fetcher"]


class _Fetcher:
    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Callable, drop_last: bool) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, index: Any) -> Any:
        """The batch for one entry of the sampler; StopIteration when there are no more."""
        raise NotImplementedError


class MapFetcher(_Fetcher):
    """Takes the samples of a map-style dataset by their indices."""

    def fetch(self, index: Any) -> Any:
        """The batch for a list of indices, or the sample for one index where there is no batching."""
        if not self.auto_collation:
            return self.collate_fn(self.dataset[index])
        get_all = getattr(self.dataset, "__getitems__", None)
        if get_all:
            return self.collate_fn(get_all(index))
        dataset = self.dataset
        return self.collate_fn([dataset[i] for i in index])


class IterableFetcher(_Fetcher):
    """Takes the next samples of an iterable dataset; the indices only say how many."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Callable, drop_last: bool) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.samples = iter(dataset)
        self.ended = False

    def fetch(self, index: Any) -> Any:
        """The next batch, shorter at the end, or the next sample where there is no batching."""
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.samples))
        wanted = len(index)
        batch = list(itertools.islice(self.samples, wanted))
        self.ended = len(batch) < wanted
        if not batch or (self.drop_last and self.ended):
            raise StopIteration
        return self.collate_fn(batch)


def make_fetcher(dataset: Any, iterable: bool, auto_collation: bool, collate_fn: Callable, drop_last: bool) -> _Fetcher:
    """The fetcher for the dataset's kind."""
    kind = IterableFetcher if iterable else MapFetcher
    return kind(dataset, auto_collation, collate_fn, drop_last)
