"""torch._C._functorch: what packages ask of tensors inside of transforms, by PyTorch's names."""

from __future__ import annotations

import importlib
from typing import Any

from tocha import _C


def _number(at: int) -> int:
    """PyTorch numbers the levels that are open from one on."""
    return next((i for i, level in enumerate(_C._levels(), 1) if level[0] == at), -1)


def is_functorch_wrapped_tensor(tensor: Any) -> bool:
    """Whether a tensor is of a transform that is under way."""
    return _C._level_of(tensor) is not None


def is_batchedtensor(tensor: Any) -> bool:
    """Whether a tensor stands for a batch, inside of vmap."""
    found = _C._level_of(tensor)
    return found is not None and found[2] >= 0


def is_gradtrackingtensor(tensor: Any) -> bool:
    """Whether a tensor is one that a transform differentiates by."""
    found = _C._level_of(tensor)
    return found is not None and found[2] < 0


def maybe_get_bdim(tensor: Any) -> int:
    """The dimension of the batch that a tensor stands for; -1 for others."""
    found = _C._level_of(tensor)
    return -1 if found is None else found[2]


def maybe_get_level(tensor: Any) -> int:
    """The level that a tensor belongs to; -1 for tensors outside of transforms."""
    found = _C._level_of(tensor)
    return -1 if found is None else _number(found[0])


def maybe_current_level() -> int | None:
    """How many transforms are under way; None for none."""
    return len(_C._levels()) or None


def get_unwrapped(tensor: Any) -> Any:
    """The value that a tensor of a transform has one level outside."""
    found = _C._level_of(tensor)
    if found is None:
        raise RuntimeError("No wrappers present!")
    return found[1]


def __getattr__(name: str) -> Any:
    if name in ("_add_batch_dim", "_remove_batch_dim"):  # vmap's own: not loaded when the alias is switched on
        return getattr(importlib.import_module("tocha._functorch.vmap"), name)
    raise AttributeError(f"module 'torch._C._functorch' has no attribute {name!r}")
