"""torch._C._functorch: what packages ask of tensors inside of transforms, by PyTorch's names."""

from __future__ import annotations

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


def _add_batch_dim(tensor: Any, in_dim: int, level: int) -> Any:
    """A tensor as a batch of the level: what vmap hands to the function."""
    return _C._wrap_level(tensor, _C._levels()[level - 1][0], in_dim)


def _remove_batch_dim(tensor: Any, level: int, batch_size: int, out_dim: int) -> Any:
    """The batch that a tensor of the level stands for, along out_dim."""
    at = _C._levels()[level - 1][0]
    found = _C._unwrap_level(tensor, at)
    if found is None:
        shape = [batch_size, *tensor.shape]
        return _C._outside(at, lambda: tensor.expand(shape).movedim(0, out_dim))
    inner, dim = found
    return _C._outside(at, lambda: inner.movedim(dim, out_dim))
