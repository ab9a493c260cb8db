"""Masks: filling, selecting and scattering where they hold, and the positions of what is not zero."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators import interpreter
from tocha.operators.record import composite, facts, gradient, native, op, rule
from tocha.operators.rules import Out, broadcast_shapes, c_name, fill_value

_DYNAMIC = frozenset({"dynamic"})
_ANY_DEVICE = frozenset({"any_device"})


@composite(
    "masked_fill(Tensor self, Tensor mask, Operand value) -> Tensor",
    node="MaskedFillBackward1|value=MaskedFillBackward0",
    samples=lambda t: [((t(3, 4), t.mask(4), 2), {}), ((t(3, 4), t.mask(3, 1), t()), {})],
)
def masked_fill(self, mask, value):
    """self, with a value where the mask holds."""
    if mask.dtype != dt.bool_:
        raise RuntimeError(
            f"[masked_fill] masked_fill_ only supports boolean masks, but got mask with dtype {c_name(mask.dtype)}"
        )
    if value.ndim != 0:
        raise RuntimeError(
            f"[masked_fill] masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    return op.where(mask, fill_value(value, self.dtype), self).contiguous()


@rule
def where_masked(grad: "Tensor", mask: "Tensor") -> "Tensor":
    return op.where(mask, grad, 0)


@rule
def where_not_masked(grad: "Tensor", mask: "Tensor") -> "Tensor":
    return op.where(mask, 0, grad)


@gradient(masked_fill, "self")
def masked_fill_gradient(grad, mask):
    return where_not_masked(grad, mask)


@gradient(masked_fill, "value")
def masked_fill_value_gradient(grad, mask):
    return where_masked(grad, mask).sum()


@native(
    "masked_fill_(Tensor self, Tensor mask, Operand value) -> Tensor",
    node="MaskedFillBackward1|value=MaskedFillBackward0",
    tags=_ANY_DEVICE | {"any_overlap"},
    variants="method",
    samples=lambda t: [((t(3, 4), t.mask(4), 2), {}), ((t(3, 4), t.mask(3, 1), t()), {})],
)
def masked_fill_(self, mask, value):
    """Sets self to a value where the mask holds."""


@facts(masked_fill_)
def masked_fill_facts(self, mask, value):
    if mask.dtype != dt.bool_:
        raise RuntimeError(
            f"[masked_fill_] masked_fill_ only supports boolean masks, but got mask with dtype {c_name(mask.dtype)}"
        )
    if value.ndim != 0:
        raise RuntimeError(
            f"[masked_fill_] masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    interpreter.check_takes("masked_fill_", self, mask.sizes)
    fill_value(value, self.dtype)
    return interpreter.written(self)


@gradient(masked_fill_, "self")
def masked_fill_inplace_gradient(grad, mask):
    return where_not_masked(grad, mask)


@gradient(masked_fill_, "value")
def masked_fill_inplace_value_gradient(grad, mask):
    return where_masked(grad, mask).sum()


@native(
    "masked_select(Tensor self, Tensor mask) -> Tensor",
    algorithm="selection",
    tags=_DYNAMIC | {"out_apart", "dynamic_output_shape"},
    variants="function, method, out",
    samples=lambda t: [((t(3, 4), t.mask(3, 4)), {})],
    types={"out_words": "masked_select(): self and result must have the same scalar type: {result} and {out}"},
)
def masked_select(self, mask):
    """The elements where the mask holds, as a 1-d tensor."""


@facts(masked_select)
def masked_select_facts(self, mask):
    interpreter.broadcast(self.sizes, mask.sizes, "masked_select")
    return self.fresh([interpreter.current().unknown_size("masked_select")])


@gradient(masked_select, "self")
def masked_select_gradient(grad, self, mask):
    sizes = broadcast_shapes(self.shape, mask.shape, "masked_select")
    return grad.new_zeros(sizes).masked_scatter_(mask, grad)


@native(
    "masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
    tags=_DYNAMIC | _ANY_DEVICE,
    samples=lambda t: [((t(3, 4), t.mask(3, 4), t(12)), {})],
    core=True,
)
def masked_scatter(self, mask, source):
    """self, with consecutive elements of source where the mask holds."""


@facts(masked_scatter)
def masked_scatter_facts(self, mask, source):
    sizes = interpreter.broadcast(self.sizes, mask.sizes, "masked_scatter")
    return self.fresh(sizes)


@native(
    "masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor",
    algorithm="selection",
    variants="",
    samples=lambda t: [((t(3, 4), t.mask(3, 4), [2, 7]), {})],
)
def masked_scatter_backward(grad_output, mask, sizes):
    """The gradient where the mask holds, for the elements of the source that went there; the rest of it was not used."""
    return Out(sizes, grad_output.dtype)


@gradient(masked_scatter_backward, "grad_output")
def masked_scatter_backward_gradient(grad, grad_output, mask):
    return op.masked_scatter(op.zeros_like(grad_output), mask, grad)


@gradient(masked_scatter, "self")
def masked_scatter_gradient(grad, mask):
    return where_not_masked(grad, mask)


@gradient(masked_scatter, "source")
def masked_scatter_source_gradient(grad, mask, source):
    return op.masked_scatter_backward(grad, mask, source.shape)


@native(
    "masked_scatter_(Tensor self, Tensor mask, Tensor source) -> Tensor",
    tags=_ANY_DEVICE,
    variants="method",
    samples=lambda t: [((t(3, 4), t.mask(3, 4), t(12)), {})],
)
def masked_scatter_(self, mask, source):
    """Writes consecutive elements of source where the mask holds."""


@gradient(masked_scatter_, "self")
def masked_scatter_inplace_gradient(grad, mask):
    return where_not_masked(grad, mask)


@gradient(masked_scatter_, "source")
def masked_scatter_inplace_source_gradient(grad, mask, source):
    return op.masked_scatter_backward(grad, mask, source.shape)


@native(
    "nonzero(Tensor self) -> Tensor",
    algorithm="selection",
    tags=_DYNAMIC | {"out_apart", "dynamic_output_shape"},
    variants="function, method, out",
    aliases=("argwhere",),
    core=True,
    types={"out_words": "nonzero: Expected out tensor to have scalar type {result} but got scalar type{out}"},
)
def nonzero(self):
    """The coordinates of the elements that are not zero, one row each."""


@facts(nonzero)
def nonzero_facts(self):
    count = interpreter.current().unknown_size("nonzero")
    return self.fresh([count, self.ndim], [1, count], dt.int64)


@native("_nonzero_tuple(Tensor self) -> Tensor[]", algorithm="selection", variants="function")
def _nonzero_tuple(self):
    """The coordinates of the elements that are not zero, one tensor for each dim: what an index takes."""


@facts(_nonzero_tuple)
def nonzero_tuple_facts(self):
    count = interpreter.current().unknown_size("nonzero")
    return [self.fresh([count], dtype=dt.int64) for _ in range(max(self.ndim, 1))]


@native(
    "nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor",
    algorithm="selection",
    variants="function, method, out",
    samples=lambda t: [((t(3, 4),), {"size": 5}), ((t(3, 4),), {"size": 20, "fill_value": 7})],
)
def nonzero_static(self, size, fill_value):
    """The first `size` rows of nonzero, filled up with fill_value."""
    if size < 0:
        raise RuntimeError(f"[nonzero_static] 'size' must be an non-negative integer, got {size}")
    return Out([size, self.ndim], dt.int64)
