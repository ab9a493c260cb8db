"""Nested tensors: batches of tensors whose sizes differ, without padding.

The jagged layout (`layout=tocha.jagged`) is the one to use: one dimension is ragged, values lie one after the other, and offsets
say where each component begins. The strided layout holds components of any sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tocha import _C
from tocha.nested import _indexing, _operators, _pointwise, _products, _saved, _strided  # noqa: F401, their forms
from tocha.nested._internal.nested_tensor import NestedTensor as _NestedTensor  # noqa: F401
from tocha.nested._internal.nested_tensor import Tensor, _rebuild_njt, build, is_nested, offsets_from  # noqa: F401

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]


def _is_any_nested(t: Any) -> bool:
    return is_nested(t) or _strided.is_strided_nested(t)


def _check_layout(layout: Any) -> None:
    if layout not in (None, _C.strided, _C.jagged):
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")


def _jagged_of(tensors: Sequence[Tensor], dtype: Any, device: Any) -> Tensor:
    """Components of one number of dims that differ in at most one size, joined along that one; histories are kept."""
    if not tensors:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    first = tensors[0]
    for what in ("dtype", "device"):
        if any(getattr(t, what) != getattr(first, what) for t in tensors):
            raise RuntimeError(f"When constructing a nested tensor, all tensors in list must have the same {what}")
    if any(t.dim() != first.dim() for t in tensors):
        raise RuntimeError("When constructing a nested tensor, all tensors in list must have the same dim")
    if first.dim() == 0:
        raise RuntimeError("Cannot construct a nested tensor from a list of zero-dim tensors")
    differing = [d for d in range(first.dim()) if any(t.size(d) != first.size(d) for t in tensors)]
    if len(differing) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the jagged layout only represents shapes of the form (B, *_0, D_0, D_1, ..., D_N), where *_i is a ragged dimension"
        )
    at = differing[0] if differing else 0
    lengths = [t.size(at) for t in tensors]
    values = _C.cat(list(tensors), at).to(dtype=dtype or first.dtype, device=device or first.device)
    offsets = offsets_from(_C.tensor(lengths, dtype=_C.int64, device=values.device))
    return build(values, offsets, None, at + 1, (min(lengths), max(lengths)))


def nested_tensor(
    tensor_list: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A nested tensor of a list of tensors, or of lists of numbers; a leaf, without their histories.

    >>> import tocha
    >>> nt = tocha.nested.nested_tensor([tocha.ones(2, 3), tocha.zeros(1, 3)], layout=tocha.jagged)
    >>> nt.offsets()
    tensor([0, 2, 3])
    """
    _check_layout(layout)
    if pin_memory:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    parts = [
        t.detach().clone() if isinstance(t, Tensor) else _C.tensor(t, dtype=dtype, device=device) for t in tensor_list
    ]
    if layout == _C.jagged:
        made: Tensor = _jagged_of(parts, dtype, device)
    else:
        made = _strided.from_components([t.to(dtype=dtype or t.dtype, device=device or t.device) for t in parts])
    return made.requires_grad_(requires_grad)


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> Tensor:
    """A nested tensor of a list of tensors, or of a dense one's slices, with their histories.

    >>> import tocha
    >>> tocha.nested.as_nested_tensor(tocha.ones(2, 3, 4), layout=tocha.jagged).offsets()
    tensor([0, 3, 6])
    """
    _check_layout(layout)
    wanted = _C.strided if layout is None else layout
    if _is_any_nested(ts):
        if ts.layout != wanted:
            raise RuntimeError("as_nested_tensor(): Converting between nested tensor layouts is not supported")
        return ts.to(dtype=dtype or ts.dtype, device=device or ts.device)
    if not isinstance(ts, Tensor | list | tuple) or (
        isinstance(ts, list | tuple) and not all(isinstance(t, Tensor) for t in ts)
    ):
        raise TypeError("as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors")
    if isinstance(ts, Tensor) and ts.dim() < 2:
        raise RuntimeError("as_nested_tensor(): Expected tensor argument to have dim() > 1")
    if wanted == _C.jagged and isinstance(ts, Tensor):
        rows = ts.reshape(-1, *ts.shape[2:]).to(dtype=dtype or ts.dtype, device=device or ts.device)
        offsets = (
            _C.arange(0, ts.size(0) * ts.size(1) + 1, max(ts.size(1), 1))
            if ts.size(1)
            else _C.zeros(ts.size(0) + 1, dtype=_C.int64)
        )
        return build(rows, offsets, None, 1, (ts.size(1), ts.size(1)))
    parts = list(ts.unbind()) if isinstance(ts, Tensor) else list(ts)
    if wanted == _C.jagged:
        return _jagged_of(parts, dtype, device)
    return _strided.from_components([t.to(dtype=dtype or t.dtype, device=device or t.device) for t in parts])


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """A nested tensor of values and of where its components begin, or how long they are; a view of the values.

    >>> import tocha
    >>> nt = tocha.nested.nested_tensor_from_jagged(tocha.arange(5.0), tocha.tensor([0, 2, 5]))
    >>> nt.unbind()
    (tensor([0., 1.]), tensor([2., 3., 4.]))
    """
    if offsets is None:
        if lengths is None:
            raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
        offsets, lengths = offsets_from(lengths), None
    for name, part in (("offsets", offsets), ("lengths", lengths)):
        if part is not None and part.dim() != 1:
            raise AssertionError(f"{name} must be 1D, but got {part.dim()}D")
        if part is not None and part.dtype not in (_C.int64, _C.int32):
            raise RuntimeError(f"[nested_tensor_from_jagged] {name} must be int32 or int64, got {part.dtype}")
    if lengths is not None and lengths.size(0) != offsets.size(0) - 1:
        raise AssertionError(
            f"offsets and lengths batch sizes must match: offsets.shape[0] - 1 = {offsets.size(0) - 1}, lengths.shape[0] = {lengths.size(0)}"
        )
    if offsets.numel() == 0:
        raise RuntimeError("[nested_tensor_from_jagged] offsets must have at least one element")
    ragged = 1 if jagged_dim is None else jagged_dim
    if not 1 <= ragged <= values.dim():
        raise RuntimeError(f"[nested_tensor_from_jagged] jagged_dim must be in [1, {values.dim()}], got {ragged}")
    return build(values, offsets, lengths, ragged, (min_seqlen, max_seqlen))


def narrow(tensor: Tensor, dim: int, start: Any, length: Any, layout: Any = None) -> Tensor:
    """A part of each row of a dense tensor, [batch, n, ...]: from start, so many as length says. A view of the tensor.

    >>> import tocha
    >>> x = tocha.arange(6.0).reshape(2, 3)
    >>> tocha.nested.narrow(x, 1, tocha.tensor([0, 1]), tocha.tensor([2, 2]), layout=tocha.jagged).unbind()
    (tensor([0., 1.]), tensor([4., 5.]))
    """
    _check_layout(layout)
    if layout != _C.jagged:
        if not isinstance(start, int) or not isinstance(length, int):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        return as_nested_tensor(list(tensor.narrow(dim, start, length).unbind()))
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    if tensor.dim() < 2:
        raise RuntimeError(f"[narrow] expected a tensor of at least 2 dims, got {tensor.dim()}")
    count, size = tensor.size(0), tensor.size(1)
    starts, lengths = (
        _C.as_tensor(n, dtype=_C.int64).expand(count) if not isinstance(n, Tensor) else n for n in (start, length)
    )
    begin = _C.arange(count) * size + starts
    end = (begin[-1:] + lengths[-1:]) if count else begin
    return build(tensor.reshape(-1, *tensor.shape[2:]), _C.cat([begin, end]), lengths, 1)


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """What the mask keeps of each row of a dense tensor, as components.

    >>> import tocha
    >>> tocha.nested.masked_select(tocha.arange(4.0).reshape(2, 2), tocha.tensor([[True, False], [True, True]])).unbind()
    (tensor([0.]), tensor([2., 3.]))
    """
    if tensor.layout != _C.strided:
        raise RuntimeError(f"torch.nested.masked_select requires a strided tensor, got {tensor.layout}")
    if mask.layout != _C.strided:
        raise RuntimeError(f"torch.nested.masked_select requires a strided mask, got: {mask.layout}")
    whole = mask.expand(tensor.shape)
    lengths = whole.reshape(whole.size(0), -1).sum(1) if whole.dim() > 1 else whole.sum().reshape(1)
    return build(tensor.masked_select(mask), offsets_from(lengths))


def to_padded_tensor(input: Tensor, padding: float, output_size: Any = None) -> Tensor:
    """The components in one dense tensor, filled up with `padding`.

    >>> import tocha
    >>> nt = tocha.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=tocha.jagged)
    >>> tocha.nested.to_padded_tensor(nt, 0.0)
    tensor([[1., 2.],
            [3., 0.]])
    """
    if not _is_any_nested(input):
        raise RuntimeError(f"to_padded_tensor() expects a nested tensor, got one of layout {input.layout}")
    return input.to_padded_tensor(padding, output_size)  # type: ignore[attr-defined]
