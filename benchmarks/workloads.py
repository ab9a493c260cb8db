"""What a benchmark file yields: the same call on tocha and on PyTorch, with the ratio it should reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from harness import Remote

import tocha


@dataclass
class Workload:
    group: str
    name: str
    ours: Callable[[], object] | Remote
    theirs: Callable[[], object] | Remote
    target: float | None = None


def pair(group: str, name: str, make: Callable, target: float | None = None) -> Workload:
    """make(module, convert) returns the call to time; convert turns a NumPy array into that module's tensor."""
    return Workload(group, name, make(tocha, lambda a: tocha.tensor(a)), make(torch, lambda a: torch.tensor(a)), target)
