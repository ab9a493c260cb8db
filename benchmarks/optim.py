"""Optimizer steps of tocha and PyTorch, side by side: many small parameters, and a few great ones. Prints time ratios.

python benchmarks/optim.py [name ...]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch

import tocha

OPTIMIZERS = {
    "SGD": {"lr": 1e-3},
    "SGD momentum": {"lr": 1e-3, "momentum": 0.9},
    "Adam": {},
    "AdamW": {},
    "Adam amsgrad": {"amsgrad": True},
    "NAdam": {},
    "RAdam": {},
    "Adamax": {},
    "Adagrad": {},
    "Adadelta": {},
    "RMSprop": {},
    "RMSprop centered": {"centered": True, "momentum": 0.9},
    "Rprop": {},
    "ASGD": {},
}
SHAPES = {"50 of 64": [(64,)] * 50, "50 of 32x32": [(32, 32)] * 50, "4 of 1024x1024": [(1024, 1024)] * 4}
REPEATS = {"50 of 64": 15, "50 of 32x32": 15, "4 of 1024x1024": 4}
BURST = 5


def stepper(t, name: str, options: dict, shapes: list) -> Callable[[], None]:
    t.manual_seed(0)
    params = [t.nn.Parameter(t.randn(*shape)) for shape in shapes]
    for p in params:
        p.grad = t.randn(*p.shape)
    optimizer = getattr(t.optim, name.split()[0])(params, **options)
    optimizer.step()
    return optimizer.step


def best(steps: list[Callable[[], None]], repeats: int) -> list[float]:
    """The best time of each, in turns so that all meet the same machine; a few at a time, as steps meet a warm cache."""
    times = [float("inf")] * len(steps)
    for _ in range(repeats):
        for i, step in enumerate(steps):
            time.sleep(0.01)  # until the other's threads no longer wait for work
            for _ in range(BURST):
                start = time.perf_counter()
                step()
                times[i] = min(times[i], time.perf_counter() - start)
    return times


def main() -> None:
    wanted = sys.argv[1:] or list(OPTIMIZERS)
    tocha.set_num_threads(2)
    torch.set_num_threads(2)
    print(f"{'':18}{'parameters':>18}{'tocha µs':>12}{'torch µs':>12}{'foreach':>12}{'ratio':>8}{'to best':>9}")
    for name in wanted:
        for label, shapes in SHAPES.items():
            options = OPTIMIZERS[name]
            forms = [(tocha, options), (torch, options), (torch, {**options, "foreach": True})]
            mine, theirs, foreach = best([stepper(t, name, o, shapes) for t, o in forms], REPEATS[label])
            numbers = f"{mine * 1e6:12.1f}{theirs * 1e6:12.1f}{foreach * 1e6:12.1f}"
            print(f"{name:18}{label:>18}{numbers}{theirs / mine:8.1f}{min(theirs, foreach) / mine:9.1f}", flush=True)


if __name__ == "__main__":
    main()
