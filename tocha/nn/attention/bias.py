"""Causal biases that scaled_dot_product_attention takes as attn_mask without their being built."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C

Tensor = _C.Tensor

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """To which corner of the scores the diagonal of a causal bias is aligned."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A causal mask known by its kind and size; as attn_mask of attention it becomes is_causal where it can."""

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        room = _C.empty((seq_len_q, seq_len_kv), dtype=_C.bool, device="meta")
        return Tensor._make_subclass(cls, room, False)

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        self.variant = variant
        self.seq_len_q = seq_len_q
        self.seq_len_kv = seq_len_kv
        if seq_len_q > seq_len_kv and variant == CausalVariant.LOWER_RIGHT:
            warnings.warn(
                "Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!", stacklevel=3
            )

    def _materialize(self, device: Any = None) -> Tensor:
        """The mask as a tensor of booleans, True where attention is allowed."""
        offset = self.seq_len_kv - self.seq_len_q if self.variant == CausalVariant.LOWER_RIGHT else 0
        return _C.ones((self.seq_len_q, self.seq_len_kv), dtype=_C.bool, device=device).tril(offset)

    def __repr__(self) -> str:  # type: ignore[override]
        return repr(self._materialize())

    @classmethod
    def __torch_function__(
        cls, func: Callable, types: Sequence[type], args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if getattr(func, "__name__", "") != "scaled_dot_product_attention":
            return super().__torch_function__(func, types, args, kwargs)
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        kwargs |= dict(zip(names, args, strict=False))
        if kwargs.get("is_causal"):
            raise ValueError("CausalBias should not be used with causal=True")
        bias = kwargs["attn_mask"]
        square = bias.seq_len_q == bias.seq_len_kv
        if square or bias.variant == CausalVariant.UPPER_LEFT:
            kwargs |= {"attn_mask": None, "is_causal": True}
        else:
            kwargs["attn_mask"] = bias._materialize(kwargs["query"].device)
        return func(**kwargs)


def _size(name: str, size: tuple[int, ...]) -> tuple[int, int]:
    if len(size) != 2:
        raise AssertionError(f"{name} only supports 2D tensors")
    return size[0], size[1]


def causal_upper_left(*size: int) -> CausalBias:
    """The causal bias whose diagonal begins in the upper left corner.

    >>> causal_upper_left(2, 3)
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    return CausalBias(CausalVariant.UPPER_LEFT, *_size("causal_upper_left", size))


def causal_lower_right(*size: int) -> CausalBias:
    """The causal bias whose diagonal ends in the lower right corner.

    >>> causal_lower_right(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    return CausalBias(CausalVariant.LOWER_RIGHT, *_size("causal_lower_right", size))
