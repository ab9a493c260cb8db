"""Choosing, bounding and mixing elements."""

from __future__ import annotations

from functools import partial

from tocha.ir import dtypes as dt
from tocha.ir import scalar as s
from tocha.operators.record import (
    BINARY,
    COMPLEX,
    COMPLEX32,
    FLOATS,
    NUMERIC,
    REAL,
    STORED,
    UNARY,
    composite,
    gradient,
    op,
    pointwise,
    rule,
)  # fmt: skip
from tocha.operators.rules import c_name, is_integral, is_number, refuse_dtype, warn_once

# Choice


def check_where(condition):
    if condition.dtype != dt.bool_ and condition.dtype != dt.uint8:
        raise RuntimeError(
            f"[where] where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype}"
        )
    if condition.dtype == dt.uint8:
        warn_once(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future version of tocha. Use a boolean condition instead."
        )


@pointwise(
    "where(Tensor condition, Operand input, Operand other) -> Tensor",
    dtypes=STORED,
    types={
        "out_words": "Expected out type to be {result} but got {out}",
        "in": (dt.bool_, "filled", "filled"),
        "check": check_where,
    },
    variants="function, out",
    tags=frozenset({"direct_half"}),
    aten=(
        "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
        "where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor",
        "where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor",
        "where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor",
    ),
    core=("where.self",),
)
def where(condition, x, y):
    """input where the condition holds, else other."""
    return s.where(condition, x, y)


@composite(
    "where.method(Tensor self, Tensor condition, Operand other) -> Tensor",
    variants="method",
    samples=lambda t: [((t(3, 4), t.mask(3, 4), t(4)), {})],
    aten=(),
)
def where_method(self, condition, other):
    """self where the condition holds, else other."""
    return op.where(condition, self, other)


@composite(
    "where.condition(Tensor condition) -> Tensor[]",
    variants="function",
    tags=frozenset({"reads_values"}),
    aten=("where",),
)
def where_condition(condition):
    """The coordinates of the elements that are not zero, one tensor per dim."""
    listed = condition.unsqueeze(0) if condition.ndim == 0 else condition
    return op.nonzero(listed).unbind(1)


# Bounds

_BOUNDS = {"refused": {COMPLEX: NotImplementedError("clamp is not supported for complex types")}}
bound = partial(pointwise, dtypes=NUMERIC)


@bound(
    "_clamp(Tensor self, Operand min, Operand max) -> Tensor",
    types={"in": ("T", "checked", "checked"), **_BOUNDS},
    variants="function",
    word="clamp_scalar_cpu",
)
def clamp_between(x, min, max):
    """self kept within [min, max]; max where they cross."""
    return s.clamp(x, min, max)


def check_least(self, min):
    if self.dtype == dt.bool_ and is_number(min) and min.dtype == dt.bool_:
        refuse_dtype("clamp_min", self.dtype)


def check_most(self, max):
    if self.dtype == dt.bool_ and is_number(max) and max.dtype == dt.bool_:
        refuse_dtype("clamp_max", self.dtype)


@bound(
    "clamp_min(Tensor self, Operand min) -> Tensor",
    node="ClampMinBackward1|min=ClampMinBackward0",
    dtypes=REAL,
    types={"in": ("T", "checked"), "check": check_least, **_BOUNDS},
    variants=UNARY,
    aten=("clamp_min.Tensor", "clamp_min"),
    word="clamp_min_scalar_cpu",
)
def clamp_min(x, min):
    """self, or min where that is greater."""
    return x | min if x.dtype is dt.bool_ else s.clamp_min(x, min)


@bound(
    "clamp_max(Tensor self, Operand max) -> Tensor",
    node="ClampMaxBackward1|max=ClampMaxBackward0",
    dtypes=REAL,
    types={"in": ("T", "checked"), "check": check_most, **_BOUNDS},
    variants=UNARY,
    aten=("clamp_max.Tensor", "clamp_max"),
    word="clamp_max_scalar_cpu",
)
def clamp_max(x, max):
    """self, or max where that is smaller."""
    return x & max if x.dtype is dt.bool_ else s.clamp_max(x, max)


# A tensor without dims is one before it is a number, or it would get no gradient: its overload comes first.


@composite(
    "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
    node="ClampBackward0",
    variants=UNARY,
    aliases=("clip",),
    samples=lambda t: [((t(3, 4), t(3, 4), t(4)), {}), ((t(3, 4),), {"min": t(4)})],
    core=True,
    tags=frozenset({"pointwise"}),
    whole=True,
)
def clamp_tensor(self, min, max):
    """self kept within [min, max]; either may be None."""
    if min is None:
        if max is None:
            raise RuntimeError("[clamp] torch.clamp: At least one of 'min' or 'max' must not be None")
        return op.clamp_max(self, max)
    if max is None:
        return op.clamp_min(self, min)
    return op._clamp(self, min, max)


@composite(
    "clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
    node="ClampBackward1",
    variants=UNARY,
    aliases=("clip",),
    samples=lambda t: [((t(3, 4), 0.3, 0.6), {}), ((t(3, 4),), {"max": 0.5})],
    core=True,
    tags=frozenset({"pointwise"}),
    whole=True,
)
def clamp(self, min, max):
    """self kept within [min, max]; either may be None."""
    if min is None:
        if max is None:
            raise RuntimeError("[clamp] torch.clamp: At least one of 'min' or 'max' must not be None")
        return op.clamp_max(self, max)
    if max is None:
        return op.clamp_min(self, min)
    return op._clamp(self, min, max)


@rule
def largest(d: "dtype") -> "float":
    """The largest finite number of a floating dtype, or of a complex one's parts."""
    if d == dt.float16:
        return 65504.0
    if d == dt.bfloat16:
        return 3.3895313892515355e38
    if d == dt.float64 or d == dt.complex128:
        return 1.7976931348623157e308
    return 3.4028234663852886e38


@pointwise(
    "_replace_special(Tensor self, float nan, float posinf, float neginf) -> Tensor",
    dtypes=(*FLOATS, *COMPLEX),
    types={"params": ("real", "real", "real"), "like_self": (*FLOATS, *COMPLEX)},
    variants="function",
    word="nan_to_num",
)
def replace_special(x, nan, posinf, neginf):
    """self with NaN and the infinities replaced, in each part of a complex number."""

    def part(x):
        return s.where(s.isnan(x), nan, s.where(x == float("inf"), posinf, s.where(x == float("-inf"), neginf, x)))

    if x.dtype.is_complex:
        return s.make_complex(part(s.real(x)), part(s.imag(x)))
    return part(x)


@gradient(replace_special, "self")
def replace_special_gradient(grad, self):
    def part(g, x):
        return s.where(s.abs(x) < float("inf"), g, g * 0)  # the product keeps what is not finite

    if self.dtype.is_complex:
        return s.make_complex(part(s.real(grad), s.real(self)), part(s.imag(grad), s.imag(self)))
    return part(grad, self)


@composite(
    "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
    node="NanToNumBackward0",
    variants=UNARY,
    tags=frozenset({"pointwise"}),
    whole=True,
    types={"out_words": "nan_to_num: dtype of out: {out} should be same as input: {result}"},
)
def nan_to_num(self, nan, posinf, neginf):
    """self with NaN as 0 and infinities as the largest finite numbers, or as given."""
    if is_integral(self.dtype):
        return self.clone()
    top = largest(self.dtype)
    return op._replace_special(
        self, 0.0 if nan is None else nan, top if posinf is None else posinf, -top if neginf is None else neginf
    )


# Mixtures


def check_lerp(self, end, weight):
    if end.dtype != self.dtype:
        raise RuntimeError(f"[lerp] expected dtype {c_name(self.dtype)} for `end` but got dtype {c_name(end.dtype)}")
    if weight.ndim > 0 and weight.dtype != self.dtype:
        raise RuntimeError(
            f"[lerp] expected dtype {c_name(self.dtype)} for `weight` but got dtype {c_name(weight.dtype)}"
        )
    # Integers are mixed only by a number in a tensor of floats, whose dtype the result has.
    floats = self.is_floating_point() or self.is_complex()
    if not floats and (is_number(weight) or is_integral(weight.dtype)):
        if not is_number(weight):
            raise NotImplementedError(f"[lerp] \"lerp_kernel_tensor\" not implemented for '{self.dtype}'")
        refuse_dtype("lerp", self.dtype)
    if weight.is_complex() and not self.is_complex() and is_number(weight):
        raise RuntimeError(f"[lerp] value cannot be converted to type {c_name(self.dtype)} without overflow")


@pointwise(
    "lerp(Tensor self, Tensor end, Operand weight) -> Tensor",
    node="LerpBackward1|weight=LerpBackward0",
    dtypes=(*FLOATS, *COMPLEX),
    types={"in": ("T", "T", "number"), "check": check_lerp},
    variants=BINARY,
    word="lerp_kernel_scalar",
)
def lerp(x, end, weight):
    """self + weight * (end - self)."""
    # From the nearer side, so that weight 1 gives end exactly.
    size = s.abs(weight)
    return s.where(size < 0.5, x + weight * (end - x), end - (end - x) * (1 - weight))


# Shares of an infinite gradient that are added, never subtracted.


@gradient(lerp, "self")
def lerp_gradient(grad, weight):
    return grad * s.conjugate(1 - weight)


@gradient(lerp, "end")
def lerp_gradient_of_end(grad, weight):
    return grad * s.conjugate(weight)


@gradient(lerp, "weight")
def lerp_gradient_of_weight(grad, self, end):
    return grad * s.conjugate(end - self)


@pointwise(
    "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    tags=frozenset({"numbers_first"}),
    dtypes=(*NUMERIC, *COMPLEX, *COMPLEX32),
    variants=BINARY,
    word="addcmul_cpu_out",
)
def addcmul(x, a, b, value):
    """self + value * tensor1 * tensor2."""
    return x + value * a * b


def check_addcdiv(tensor1, tensor2):
    if is_integral(tensor1.dtype) and is_integral(tensor2.dtype):
        raise RuntimeError(
            f"[addcdiv] Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true division of tensor1 and tensor2: tensor1 is {tensor1.dtype}, tensor2 is {tensor2.dtype}. Use div with rounding_mode='trunc', or make them floats."
        )


@pointwise(
    "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    tags=frozenset({"numbers_first"}),
    dtypes=(*FLOATS, *COMPLEX),
    types={"check": check_addcdiv},
    variants=BINARY,
    word="addcdiv_cpu_out",
)
def addcdiv(x, a, b, value):
    """self + value * tensor1 / tensor2."""
    return x + value * a / b


@gradient(addcdiv, "self")
def addcdiv_gradient(grad):
    return grad


@gradient(addcdiv, "tensor1")
def addcdiv_gradient_of_dividend(grad, tensor2, value):
    return grad * s.conjugate(value / tensor2)


@gradient(addcdiv, "tensor2")
def addcdiv_gradient_of_divisor(grad, tensor1, tensor2, value):
    return -grad * s.conjugate(value * tensor1 / (tensor2 * tensor2))
