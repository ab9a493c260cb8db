"""Helpers of torch.nn.functional that packages' own layers call by their private names: of attention, of norms, of softmax."""

from __future__ import annotations

import warnings
from typing import Any

from tocha import _C
from tocha.nn.functional_attention import _as_bias, _check_shapes, _projected
from tocha.nn.functional_misc import _warn_of_implicit_dim

Tensor = _C.Tensor


def _in_projection_packed(q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None = None) -> list[Tensor]:
    """Query, key and value through one packed weight."""
    return list(_projected((q, k, v), w, b))


def _in_projection(
    q: Tensor, k: Tensor, v: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor,
    b_q: Tensor | None = None, b_k: Tensor | None = None, b_v: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Query, key and value through weights of their own."""
    width = q.shape[-1]
    for name, weight, x in (("w_q", w_q, q), ("w_k", w_k, k), ("w_v", w_v, v)):
        if tuple(weight.shape) != (width, x.shape[-1]):
            raise AssertionError(f"expecting {name} shape of {(width, x.shape[-1])}, but got {tuple(weight.shape)}")
    linear = _C._nn.linear
    return linear(q, w_q, b_q), linear(k, w_k, b_k), linear(v, w_v, b_v)


def _mha_shape_check(
    query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None, num_heads: int
) -> bool:
    """Whether there is a batch dim; refuses ranks that do not go together."""
    return _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)


def _none_or_dtype(input: Any) -> Any:
    """The dtype of a tensor, or None for None."""
    if input is not None and not isinstance(input, Tensor):
        raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")
    return None if input is None else input.dtype


def _canonical_mask(
    mask: Tensor | None, mask_name: str, other_type: Any, other_name: str, target_type: Any, check_other: bool = True
) -> Tensor | None:
    """A mask as what is added to scores: minus infinity where a bool mask is True."""
    if mask is not None and check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.",
            stacklevel=2,
        )
    return _as_bias(mask, mask_name, target_type)


def _check_key_padding_mask(key_padding_mask: Tensor, src_len: int, bsz: int) -> None:
    for place, expected in enumerate((bsz, src_len)):
        if key_padding_mask.shape[place] != expected:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{place}] to be {expected}, but got {key_padding_mask.shape[place]}"
            )


def _get_softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    """The dim of a softmax that was not told one, with a warning."""
    _warn_of_implicit_dim(name, stacklevel + 1)
    return 0 if ndim in (0, 1, 3) else 1


def _verify_batch_size(size: Any) -> None:
    """Refuses to normalize with the statistics of one value."""
    count = size[0]
    for n in size[2:]:
        count *= n
    if count == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")
