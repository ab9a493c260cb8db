"""Orders, splits and seeds of data loading, against PyTorch for the same seeds."""

from __future__ import annotations

import inspect

import pytest
import torch
import torch.multiprocessing
import torch.utils.data

import tocha
import tocha.multiprocessing
import tocha.utils.data

BOTH = (tocha, torch)


def both(run):
    ours, theirs = (run(m) for m in BOTH)
    assert ours == theirs


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", [1, 7, 100, 1000])
def test_samplers(seed, n):
    def run(m):
        d = m.utils.data
        found = []
        for options in (
            {},
            {"replacement": True},
            {"num_samples": 3 * n + 1},
            {"replacement": True, "num_samples": 65},
            {"num_samples": 1},
        ):
            g = m.Generator().manual_seed(seed)
            found.append(list(d.RandomSampler(range(n), generator=g, **options)))
            found.append(m.rand(1, generator=g).item())
        m.manual_seed(seed)
        found.append(list(d.RandomSampler(range(n))))
        found.append(list(d.SubsetRandomSampler(range(3, n + 3))))
        found.append(list(d.WeightedRandomSampler(list(range(1, n + 1)), 50)))
        found.append(list(d.WeightedRandomSampler(list(range(1, n + 1)), n, False)))
        found.append([p.indices for p in d.random_split(range(n), [0.2, 0.5, 0.3])])
        found.append(m.rand(1).item())
        for shuffle in (True, False):
            for drop in (True, False):
                sampler = d.DistributedSampler(range(n), 3, 1, shuffle, seed, drop)
                sampler.set_epoch(seed)
                found.append(list(sampler) if n >= 3 or not drop else [])
        return found

    both(run)


class Draws:
    """The numbers that a worker draws."""

    def __init__(self, m):
        self.m = m

    def __len__(self):
        return 12

    def __getitem__(self, i):
        return i, self.m.initial_seed(), self.m.rand(1).item()


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": 0, "seeded": True},
        {"num_workers": 2},
        {"num_workers": 2, "persistent_workers": True},
        {"num_workers": 2, "seeded": True, "persistent_workers": True},
        {"num_workers": 1, "batch_size": None},
    ],
)
def test_loader_order_and_seeds(options):
    def run(m):
        chosen = {"batch_size": 4, **options}
        if chosen.pop("seeded", False):
            chosen["generator"] = m.Generator().manual_seed(21)
        m.manual_seed(9)
        loader = m.utils.data.DataLoader(Draws(m), shuffle=True, collate_fn=list, **chosen)
        return [list(loader) for _ in range(3)], m.rand(1).item()

    both(run)


def test_signatures():
    for name in tocha.utils.data.__all__:
        ours, theirs = (getattr(m.utils.data, name) for m in BOTH)
        for method in ("__init__",) if inspect.isclass(theirs) else (None,):
            a, b = (getattr(x, method) if method else x for x in (ours, theirs))
            if inspect.isfunction(a) and inspect.isfunction(b):
                assert list(inspect.signature(a).parameters) == list(inspect.signature(b).parameters), name
    assert set(torch.multiprocessing.__all__) <= {n for n in dir(tocha.multiprocessing)}
