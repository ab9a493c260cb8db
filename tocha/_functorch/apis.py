"""The transforms under PyTorch's name for this module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha._functorch.eager_transforms import grad, grad_and_value
from tocha._functorch.vmap import _process_batched_inputs, vmap

__all__ = ["chunk_vmap", "grad", "grad_and_value", "vmap"]


def chunk_vmap(
    func: Callable, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", chunks: int = 2
) -> Callable:
    """vmap in so many pieces, one after the other.

    >>> import tocha
    >>> chunk_vmap(tocha.sin, chunks=3)(tocha.zeros(4))
    tensor([0., 0., 0., 0.])
    """
    if chunks < 1:
        raise ValueError(f"chunk_vmap: chunks should be at least 1. (got {chunks})")

    def mapped(*args: Any, **kwargs: Any) -> Any:
        size, *_ = _process_batched_inputs(in_dims, args, func)
        piece = -(-size // chunks) if size else None
        return vmap(func, in_dims, out_dims, randomness, chunk_size=piece)(*args, **kwargs)

    return mapped
