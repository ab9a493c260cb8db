"""Optimizer steps of tocha and PyTorch: many small parameters, and a few great ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from workloads import Workload

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
    "Rprop": {},
    "ASGD": {},
}
SHAPES = {"50 of 64": [(64,)] * 50, "4 of 1024x1024": [(1024, 1024)] * 4}
TARGETS = {("Adam", "50 of 64"): 20.0}


def stepper(t, name: str, options: dict, shapes: list) -> Callable[[], None]:
    t.manual_seed(0)
    params = [t.nn.Parameter(t.randn(*shape)) for shape in shapes]
    for p in params:
        p.grad = t.randn(*p.shape)
    return getattr(t.optim, name.split()[0])(params, **options).step


def workloads() -> Iterator[Workload]:
    for label, shapes in SHAPES.items():
        for name, options in OPTIMIZERS.items():
            ours, theirs = (stepper(t, name, options, shapes) for t in (tocha, torch))
            yield Workload(f"optimizer steps, {label}", name, ours, theirs, TARGETS.get((name, label)))
