"""Which fake mode a piece of work belongs to: PyTorch's name for the question."""

from __future__ import annotations

from typing import Any

from tocha._subclasses.fake_tensor import FakeTensor, FakeTensorMode, active_mode
from tocha.utils import _pytree as pytree


def active_fake_mode() -> FakeTensorMode | None:
    """The innermost mode that is active."""
    return active_mode()


def detect_fake_mode(inputs: Any = None) -> FakeTensorMode | None:
    """The mode that is active or to which the tensors among the inputs belong; they must not belong to different ones."""
    found = [(m, "active fake mode") for m in [active_mode()] if m is not None]
    flat = [] if inputs is None else pytree.tree_leaves(inputs)
    found += [(t.fake_mode, f"fake tensor input {i}") for i, t in enumerate(flat) if isinstance(t, FakeTensor)]
    if not found:
        return None
    mode, source = found[0]
    for other, where in found[1:]:
        if other is not mode:
            raise AssertionError(f"fake mode ({mode}) from {source} doesn't match mode ({other}) from {where}")
    return mode
