"""Addition, multiplication, division and their relatives, element by element."""

from __future__ import annotations

import math
from functools import partial

from tocha.ir import dtypes as dt
from tocha.ir import scalar as s
from tocha.operators.record import (
    BINARY,
    COMPLEX,
    COMPLEX32,
    FLOAT8,
    FLOATS,
    INT_TO_FLOAT,
    INTS,
    NUMERIC,
    REAL,
    UNARY,
    UNSIGNED,
    composite,
    gradient,
    no_kernel,
    op,
    pointwise,
    reduced_floats,
    rule,
)
from tocha.operators.rules import (
    contiguous_strides,
    is_integral,
    is_known,
    is_number,
    number,
    result_type,
    wants_gradient,
)

HALVES = frozenset({"direct_half"})  # memory-bound: no buffer of float32 between
STORED = frozenset({"stored"})  # the formula sees half types as they are

# Sums and products


@rule
def check_alpha(self: "Tensor", other: "Tensor", alpha: "Scalar", name: "str") -> "none":
    result = result_type(self, other)
    if alpha.is_boolean() and result != dt.bool_:
        raise RuntimeError(f"[{name}] Boolean alpha only supported for Boolean results: the result is {result}")
    if alpha.is_floating() and is_integral(result):
        raise RuntimeError(
            f"[{name}] For integral input tensors, argument alpha must not be a floating point number: got {alpha} for {result}"
        )
    if alpha.is_complex() and not result.is_complex:
        raise RuntimeError(
            f"[{name}] For non-complex input tensors, argument alpha must not be a complex number: got {alpha} for {result}"
        )


@rule
def refuse_bool(self: "Tensor", other: "Tensor") -> "none":
    if self.dtype == dt.bool_ and other.dtype == dt.bool_:
        raise RuntimeError(
            "[sub] Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead."
        )
    if self.dtype == dt.bool_ or other.dtype == dt.bool_:
        raise RuntimeError(
            "[sub] Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
        )


def check_add(self, other, alpha):
    if not alpha.is_integral():
        check_alpha(self, other, alpha, "add")


def check_sub(self, other, alpha):
    refuse_bool(self, other)
    if not alpha.is_integral():
        check_alpha(self, other, alpha, "sub")


@pointwise(
    "add(Operand self, Operand other, *, Scalar alpha=1) -> Tensor",
    dtypes=(*REAL, *COMPLEX, *COMPLEX32),
    types={"check": check_add, "params": ("rounded",)},
    variants=BINARY,
    operator="__add__",
    tags=HALVES | {"numbers_first", "number_is_tensor"},
    aten=("add.Tensor", "add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", "add.out"),
    core=True,
    word="add_stub",
)
def add(x, y, alpha):
    """self + alpha * other, with broadcasting and type promotion."""
    if x.dtype is dt.bool_:
        return x | (y & alpha)
    return s.madd(alpha, y, x) if x.dtype.is_floating else x + alpha * y


@pointwise(
    "sub(Operand self, Operand other, *, Scalar alpha=1) -> Tensor",
    node="SubBackward0|self=RsubBackward1",
    dtypes=(*NUMERIC, *COMPLEX, *COMPLEX32),
    types={"check": check_sub, "params": ("rounded",)},
    variants=BINARY,
    operator="__sub__",
    aliases=("subtract",),
    tags=HALVES | {"numbers_first", "number_is_tensor"},
    aten=("sub.Tensor", "sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", "sub.out"),
    core=True,
    word="add_stub",
)
def sub(x, y, alpha):
    """self - alpha * other."""
    return s.madd(-alpha, y, x) if x.dtype.is_floating else x - alpha * y


@composite(
    "rsub(Tensor self, Operand other, *, Scalar alpha=1) -> Tensor",
    node="RsubBackward0|other=RsubBackward1",
    variants="function",
    aten=("rsub.Tensor", "rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"),
    tags=frozenset({"pointwise"}),
    whole=True,
)
def rsub(self, other, alpha):
    """other - alpha * self."""
    return op.sub(other, self, alpha=alpha)


@pointwise(
    "mul(Operand self, Operand other) -> Tensor",
    dtypes=(*REAL, *UNSIGNED, *COMPLEX, *COMPLEX32),
    types={"in": ("T", "scalar"), "refused": reduced_floats("mul_cpu")},
    variants=BINARY,
    operator="__mul__",
    aliases=("multiply",),
    tags=HALVES | {"number_is_tensor"},
    aten=("mul.out",),
    core=True,
)
def mul(x, y):
    """self * other."""
    if x.dtype is dt.bool_:
        return x & y
    return x * y


def check_neg(self):
    if self.dtype == dt.bool_:
        raise RuntimeError(
            "[neg] Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
        )


@pointwise(
    "neg(Tensor self) -> Tensor",
    dtypes=(*NUMERIC, *COMPLEX, *COMPLEX32),
    types={"out_words": "Found dtype {out} but expected {result}", "check": check_neg},
    variants=UNARY,
    operator="__neg__",
    aliases=("negative",),
    core=True,
)
def neg(x):
    """-self."""
    return -x


@composite("positive(Tensor(a) self) -> Tensor(a)", operator="__pos__", tags=frozenset({"pointwise"}))
def positive(self):
    """self itself, unless it is bool."""
    if self.dtype == dt.bool_:
        raise RuntimeError("[positive] The `+` operator, on a bool tensor is not supported.")
    return self


# Division

division = partial(pointwise, dtypes=NUMERIC, variants=BINARY)
PRECISE = {"in": ("T", "scalar")}


@pointwise(
    "div(Operand self, Operand other) -> Tensor",
    node="DivBackward0|self=MulBackward0",
    dtypes=(*FLOATS, *COMPLEX),
    types={"in": ("T", "scalar"), "refused": reduced_floats("div_cpu")},
    promote=INT_TO_FLOAT,
    variants=BINARY,
    operator="__truediv__",
    aliases=("divide", "true_divide"),
    tags=HALVES | {"keeps_inputs", "number_is_tensor"},
    aten=("div.out",),
    core=True,
)
def div(x, y):
    """self / other; integers divide to floats."""
    return x / y


@pointwise(
    "_reciprocal_times(Tensor self, Operand other) -> Tensor",
    dtypes=(dt.float32, dt.float64),
    promote=INT_TO_FLOAT,
    variants="function",
)
def reciprocal_times(x, y):
    """(1 / self) * other."""
    return s.reciprocal(x) * y


@composite("rdiv(Tensor self, Operand other) -> Tensor", variants="", reverse="__truediv__")
def rdiv(self, other):
    """other / self where other is a number: the reciprocal of self, times it, each rounded."""
    fused = self.dtype != dt.float16 and self.dtype != dt.bfloat16 and not self.is_complex() and not other.is_complex()
    if fused and not wants_gradient(self):
        return op._reciprocal_times(self, other)
    return op.reciprocal(self) * other


@composite(
    "div.rounding(Operand self, Operand other, *, str? rounding_mode) -> Tensor",
    node="DivBackward2",
    variants=BINARY,
    aliases=("divide",),
    samples=lambda t: [((t(3, 4), t(4)), {"rounding_mode": "floor"}), ((t(3, 4), 0.3), {"rounding_mode": "trunc"})],
    aten=("div.Tensor_mode", "div.Scalar_mode", "div.out_mode"),
    core=True,
    tags=frozenset({"pointwise"}),
    whole=True,
)
def div_rounding(self, other, rounding_mode):
    """self / other, rounded: "floor" toward minus infinity, "trunc" toward zero, None not at all."""
    if rounding_mode is None:
        return op.div(self, other)
    if rounding_mode == "floor":
        return op._divide_floor(self, other)
    if rounding_mode != "trunc":
        raise RuntimeError(
            f"[div] div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
        )
    return op._divide_trunc(self, other)


@division(
    "floor_divide(Operand self, Operand other) -> Tensor",
    types={**PRECISE, "refused": reduced_floats("div_floor_cpu")},
    operator="__floordiv__",
    expensive=True,
    tags=frozenset({"no_derivative"}),
    aten=("floor_divide", "floor_divide.Scalar", "floor_divide_.Tensor"),
    word="div_floor_cpu",
)
def floor_divide(x, y):
    """self / other, rounded toward minus infinity."""
    return x // y


@division(
    "_divide_floor(Operand self, Operand other) -> Tensor",
    types={**PRECISE, "refused": reduced_floats("div_floor_cpu")},
    expensive=True,
    variants="function",
    word="div_floor_cpu",
)
def divide_floor(x, y):
    """floor_divide with a derivative: zero."""
    return x // y


@division(
    "_divide_trunc(Operand self, Operand other) -> Tensor",
    types={"refused": reduced_floats("div_trunc_cpu")},
    variants="function",
    tags=STORED,
    word="div_trunc_cpu",
)
def divide_trunc(x, y):
    """self / other, rounded toward zero."""
    if x.dtype.is_reduced:  # what is cut is the quotient as the half type has it: 2.9999 may have become 3
        return s.trunc(s.compute(s.cast(s.compute(x) / s.compute(y), x.dtype)))
    return s.truncdiv(x, y)


@division(
    "remainder(Operand self, Operand other) -> Tensor",
    node="RemainderBackward1|other=RemainderBackward0",
    operator="__mod__",
    expensive=True,
    aten=("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"),
    core=True,
)
def remainder(x, y):
    """What floor_divide leaves; it has the sign of other."""
    return x % y


@division(
    "fmod(Tensor self, Operand other) -> Tensor", node="FmodBackward1|other=FmodBackward0", expensive=True, core=True
)
def fmod(x, y):
    """What division toward zero leaves; it has the sign of self."""
    return s.fmod(x, y)


@pointwise(
    "reciprocal(Tensor self) -> Tensor", dtypes=(*FLOATS, *COMPLEX), promote=INT_TO_FLOAT, variants=UNARY, core=True
)
def reciprocal(x):
    """1 / self."""
    return s.reciprocal(x)


@pointwise("gcd(Tensor self, Tensor other) -> Tensor", dtypes=INTS, variants=UNARY, expensive=True)
def gcd(x, y):
    """The greatest common divisor, never negative."""
    return s.gcd(x, y)


@pointwise("lcm(Tensor self, Tensor other) -> Tensor", dtypes=INTS, variants=UNARY, expensive=True)
def lcm(x, y):
    """The least common multiple, never negative."""
    return s.lcm(x, y)


# Powers and roots


@pointwise(
    "_power(Operand self, Operand exponent) -> Tensor",
    dtypes=(*NUMERIC, *COMPLEX),
    types={"in": ("T", "checked")},
    variants="function",
    expensive=True,
    word="pow",
)
def power(x, y):
    """self to the power of exponent, without shortcuts."""
    return x**y


# sqrt, reciprocal and rsqrt as powers: their gradients keep self, as those of powers do, and the result may be written over.
shortcut = partial(pointwise, dtypes=(*FLOATS, *COMPLEX), variants="function")


@shortcut("_power_half(Tensor self) -> Tensor", word="pow")
def power_half(x):
    """self to the power of 0.5."""
    return s.sqrt(x)


@gradient(power_half, "self")
def power_half_gradient(grad, self):
    return grad * s.conjugate(0.5 * s.rsqrt(self))


@shortcut("_power_less_one(Tensor self) -> Tensor")
def power_less_one(x):
    """self to the power of -1."""
    return s.reciprocal(x)


@gradient(power_less_one, "self")
def power_less_one_gradient(grad, self):
    inverse = s.reciprocal(self)
    return grad * s.conjugate(-1 * inverse * inverse)


@shortcut("_power_less_half(Tensor self) -> Tensor")
def power_less_half(x):
    """self to the power of -0.5."""
    return s.rsqrt(x)


@gradient(power_less_half, "self")
def power_less_half_gradient(grad, self):
    inverse = s.rsqrt(self)
    return grad * s.conjugate(-0.5 * inverse * inverse * inverse)


@shortcut("_power_less_two(Tensor self) -> Tensor")
def power_less_two(x):
    """self to the power of -2."""
    return s.reciprocal(x * x)


@gradient(power_less_two, "self")
def power_less_two_gradient(grad, self):
    inverse = s.reciprocal(self)
    return grad * s.conjugate(-2 * inverse * inverse * inverse)


@pointwise(
    "_power_three(Tensor self) -> Tensor",
    dtypes=(*NUMERIC, *UNSIGNED, *COMPLEX, *COMPLEX32),
    variants="function",
    tags=STORED,
)
def power_three(x):
    """self to the power of 3: two products, each rounded."""
    square = s.cast(s.compute(x) * s.compute(x), x.dtype)
    return s.compute(square) * s.compute(x)


@gradient(power_three, "self")
def power_three_gradient(grad, self):
    return grad * s.conjugate(3 * (self * self))


MOST_WHOLE = 15  # the greatest exponent that is made of squares


@pointwise(
    "_product_of_squares(Tensor self, int exponent) -> Tensor",
    dtypes=(dt.float32, dt.float16, dt.bfloat16),
    types={"params": (dt.int64,)},
    variants="function",
    tags=frozenset({"no_gradient"}),
)
def product_of_squares(x, exponent):
    """self to a whole power of at most MOST_WHOLE, in double: what its roundings lose a float's last place does not see."""
    one = s.constant(1.0, dt.float64)
    squares = [s.cast(x, dt.float64)]
    while len(squares) < 4:
        squares.append(squares[-1] * squares[-1])
    product, rest = one, s.abs(exponent)
    for bit, square in zip((8, 4, 2, 1), reversed(squares), strict=True):
        product = product * s.where(rest >= bit, square, one)
        rest = s.where(rest >= bit, rest - bit, rest)
    return s.cast(s.where(exponent < 0, s.reciprocal(product), product), s.compute(x).dtype)


@composite("_power_whole(Tensor self, int exponent) -> Tensor", variants="function")
def power_whole(self, exponent):
    """self to the power of a small whole number."""
    if self.dtype in (dt.float32, dt.float16, dt.bfloat16):
        return op._product_of_squares(self, exponent)
    return op._power(self, exponent)


@gradient(power_whole, "self")
def power_whole_gradient(grad, self, exponent):
    return grad * (op.pow(self, exponent - 1) * exponent)


@rule
def plainly(t: "Tensor") -> "Tensor":
    """t contiguous, also in the strides of dims of size one."""
    strides = contiguous_strides(t.shape)
    each = t.contiguous()
    return each if each.strides == strides else op.as_strided(each, t.shape, strides)


@rule
def is_small_whole(p: "Scalar") -> "bool":
    if p.is_complex():
        return False
    value = p.to_double()
    # The bounds come first: infinity and NaN have no floor.
    return value >= -MOST_WHOLE and value <= MOST_WHOLE and value == math.floor(value)


@composite(
    "pow(Tensor self, Operand exponent) -> Tensor",
    node="PowBackward1|self=PowBackward2|exponent=PowBackward0",
    variants=BINARY,
    operator="__pow__",
    aten=("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow_.Tensor", "pow_.Scalar"),
    core=True,
    tags=frozenset({"pointwise"}),
    whole=True,
)
def pow(self, exponent):
    """self to the power of exponent."""
    if is_number(exponent) and not is_number(self):
        p = number(exponent)
        result = result_type(self, exponent)
        if is_integral(result) and p.is_integral() and p.to_int() < 0:
            raise RuntimeError(f"[pow] Integers to negative integer powers are not allowed: exponent {p} for {result}")
        # Small exponents are products and roots, which are quicker and exact.
        if result == self.dtype and is_known(p):
            if p == 0:
                return op.fill(self, 1)
            if p == 1:
                return self.clone()
            if p == 2:
                return op.mul(self, self)
            if p == 3:
                return op._power_three(self)
            if p == 0.5 and not is_integral(result):
                return op._power_half(self)
            if p == -1 and not is_integral(result):
                return op._power_less_one(self)
            if p == -0.5 and not is_integral(result):
                return op._power_less_half(self)
            if p == -2 and not is_integral(result):
                return op._power_less_two(self)
            if is_small_whole(p) and result in (dt.float32, dt.float16, dt.bfloat16):
                return op._power_whole(self, p.to_int())
    # PyTorch's powers of a number are contiguous.
    return op._power(self, plainly(exponent) if is_number(self) else exponent)


@composite(
    "pow.Scalar(Scalar self, Tensor exponent) -> Tensor",
    node="PowBackward2",
    variants="function, out",
    core=("pow.Scalar",),
    tags=frozenset({"pointwise"}),
    whole=True,
)
def pow_scalar(self, exponent):
    """The number self to the power of each exponent; contiguous."""
    return op._power(self, plainly(exponent))


def check_float_power(self, exponent):
    wide = dt.complex128 if self.is_complex() or exponent.is_complex() else dt.float64
    if self.dtype != wide:
        raise RuntimeError(
            f"[float_power_] the base given to float_power_ has dtype {self.dtype} but the operation's result requires dtype {wide}"
        )


def check_float_power_out(out0, self, exponent):
    wide = dt.complex128 if self.is_complex() or exponent.is_complex() else dt.float64
    if out0.dtype != wide:
        raise RuntimeError(
            f"[float_power] the output given to float_power has dtype {out0.dtype} but the operation's result requires dtype {wide}"
        )


@composite(
    "float_power(Operand self, Operand exponent) -> Tensor",
    node="PowBackward1|self=PowBackward2|exponent=PowBackward0",
    types={"check_inplace": check_float_power, "check_out": check_float_power_out},
    variants=BINARY,
    aten=(
        "float_power_.Tensor",
        "float_power_.Scalar",
        "float_power.Tensor_Tensor",
        "float_power.Tensor_Scalar",
        "float_power.Scalar(Scalar self, Tensor exponent) -> Tensor",
    ),
    tags=frozenset({"pointwise"}),
)
def float_power(self, exponent):
    """self to the power of exponent, computed in double precision."""
    wide = dt.complex128 if self.is_complex() or exponent.is_complex() else dt.float64
    raised = exponent.contiguous() if is_number(self) else exponent
    return op.pow(self.to(wide), raised if is_number(exponent) else raised.to(wide))


@composite("square(Tensor self) -> Tensor", node="PowBackward0", variants=UNARY, tags=frozenset({"pointwise"}))
def square(self):
    """self * self; the square of a bool is an integer."""
    if self.dtype == dt.bool_:
        return op.mul(self, self).to(dt.int64)
    return op.mul(self, self)


root = partial(pointwise, dtypes=(*FLOATS, *COMPLEX), promote=INT_TO_FLOAT, variants=UNARY)


@root("sqrt(Tensor self) -> Tensor", core=True, word="sqrt_vml_cpu")
def sqrt(x):
    """The square root; NaN for negative numbers."""
    return s.sqrt(x)


@root("rsqrt(Tensor self) -> Tensor", core=True)
def rsqrt(x):
    """1 / sqrt(self)."""
    return s.rsqrt(x)


@pointwise("hypot(Tensor self, Tensor other) -> Tensor", dtypes=FLOATS, variants=BINARY, expensive=True)
def hypot(x, y):
    """sqrt(self**2 + other**2) without overflow on the way."""
    return s.hypot(x, y)


# Sign and magnitude


def no_complex_inplace(self):
    if self.is_complex():
        raise RuntimeError(f"[abs_] In-place abs is not supported for complex tensors: got {self.dtype}")


def check_abs_out(out0, self):
    if out0.dtype != self.dtype and not self.is_complex():
        raise RuntimeError(f"[abs] Found dtype {out0.dtype} but expected {self.dtype}")


@pointwise(
    "abs(Tensor self) -> Tensor",
    dtypes=(*NUMERIC, *COMPLEX, *COMPLEX32, *FLOAT8[:4]),
    types={
        "out": ("real",),
        "check_inplace": no_complex_inplace,
        "check_out": check_abs_out,
        "like_self": COMPLEX,
    },
    variants=UNARY,
    operator="__abs__",
    aliases=("absolute",),
    core=True,
)
def abs(x):
    """The absolute value; of a complex number, its distance from 0."""
    return s.abs(x)


@pointwise(
    "sign(Tensor self) -> Tensor",
    dtypes=REAL,
    types={
        "out_words": "Found dtype {out} but expected {result}",
        "refused": {
            COMPLEX: NotImplementedError(
                "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."
            )
        },
    },
    variants=BINARY,
    core=True,
)
def sign(x):
    """-1, 0 or 1."""
    return x if x.dtype is dt.bool_ else s.sign(x)


@pointwise(
    "sgn(Tensor self) -> Tensor",
    dtypes=(*REAL, *COMPLEX, *COMPLEX32),
    variants=BINARY,
    word="sign_cpu",
    types={"out_words": "Found dtype {out} but expected {result}"},
)
def sgn(x):
    """sign, and for complex numbers self / abs(self)."""
    if x.dtype.is_complex:
        return s.phase(x, s.abs(x))
    return x if x.dtype is dt.bool_ else s.sign(x)


@pointwise(
    "copysign(Tensor self, Operand other) -> Tensor",
    node="CopysignBackward0|other=CopysignBackward1",
    dtypes=FLOATS,
    promote=INT_TO_FLOAT,
    variants=BINARY,
    aten=("copysign.out",),
)
def copysign(x, y):
    """self's magnitude with other's sign."""
    return s.copysign(x, y)


def check_heaviside(self, values):
    if self.is_complex() or values.is_complex():
        raise RuntimeError(
            f"[heaviside] heaviside is not yet implemented for complex tensors. Got {self.dtype} and {values.dtype}"
        )
    if self.dtype != values.dtype:
        raise RuntimeError(
            f"[heaviside] heaviside is not yet implemented for tensors with different dtypes. Got {self.dtype} and {values.dtype}"
        )


@pointwise(
    "heaviside(Tensor self, Tensor values) -> Tensor",
    dtypes=REAL,
    types={
        "out_words": "heaviside is not yet implemented for tensors with different dtypes: {result} and {out}",
        "check": check_heaviside,
    },
    tags=frozenset({"no_derivative"}),
    variants=BINARY,
)
def heaviside(x, values):
    """0 for negative elements, 1 for positive ones, values at 0."""
    return x | values if x.dtype is dt.bool_ else s.heaviside(x, values)


# Pieces of floating-point numbers


@pointwise(
    "nextafter(Tensor self, Tensor other) -> Tensor", dtypes=FLOATS, variants=BINARY, expensive=True, tags=STORED
)
def nextafter(x, y):
    """The next floating-point number after self toward other."""
    return s.nextafter(x, y)


@pointwise(
    "_scale(Tensor self, Tensor exponent) -> Tensor", dtypes=FLOATS, types={"in": ("T", dt.int32)}, variants="function"
)
def scale(x, exponent):
    """self * 2**exponent in self's dtype, with one rounding."""
    return s.ldexp(x, exponent)


@composite(
    "ldexp(Tensor self, Tensor other) -> Tensor",
    node="LdexpBackward0",
    variants=UNARY,
    aten=("ldexp.Tensor", "ldexp_", "ldexp.out"),
    tags=frozenset({"pointwise"}),
)
def ldexp(self, other):
    """self * 2**other."""
    if self.is_floating_point() and is_integral(other.dtype):
        if other.dtype == dt.bool_:
            raise NotImplementedError("[ldexp] \"ldexp_cpu_exp\" not implemented for 'Bool'")
        return op._scale(self, other)
    if self.is_complex():
        return op.mul(self, op.pow(op.scalar_tensor(2.0, dtype=self.dtype, device=self.device), other))
    # Powers of a number are contiguous; beside anything but float32 and integers PyTorch's lie as other does.
    plain = self.dtype == dt.float32 or is_integral(self.dtype)
    return op.mul(self, op.pow(2.0, other) if plain else op._power(2.0, other))


@gradient(ldexp, "self")
def ldexp_self_gradient(grad, other):
    return op.ldexp(grad, other.conj())


@gradient(ldexp, "other")
def ldexp_other_gradient(grad, result):
    return grad * (result * math.log(2)).conj()


def check_frexp(self):
    if not self.is_floating_point():
        raise RuntimeError(f"[frexp] torch.frexp() only supports floating-point dtypes, got {self.dtype}")


@pointwise(
    "frexp(Tensor self) -> (Tensor mantissa, Tensor exponent)",
    dtypes=FLOATS,
    types={
        "out_words": (
            "torch.frexp() expects mantissa to have dtype {c_result} but got {c_out}",
            "torch.frexp() expects exponent to have int dtype but got {c_out}",
        ),
        "out": ("T", dt.int32),
        "check": check_frexp,
        "like_self": FLOATS,
    },
    variants="function, method, out",
    aten=("frexp.Tensor", "frexp.Tensor_out"),
)
def frexp(x):
    """Mantissa in [0.5, 1) and exponent, such that self is mantissa * 2**exponent."""
    return s.frexp_mantissa(x), s.frexp_exponent(x)


# Order


def _no_complex(name):
    return {"refused": {COMPLEX: RuntimeError(f"{name} not implemented for complex tensors.")}}


def _whole(name, word):
    """Of integers PyTorch asks another kernel."""
    return {"refused": {**_no_complex(name)["refused"], UNSIGNED: no_kernel(word)}}


extreme = partial(pointwise, dtypes=REAL, variants="function, method, out")


@extreme("maximum(Tensor self, Tensor other) -> Tensor", types=_no_complex("maximum"), core=True)
def maximum(x, y):
    """The greater of two elements; NaN if either is."""
    return x | y if x.dtype is dt.bool_ else s.maximum(x, y)


@extreme("minimum(Tensor self, Tensor other) -> Tensor", types=_no_complex("minimum"), core=True)
def minimum(x, y):
    """The smaller of two elements; NaN if either is."""
    return x & y if x.dtype is dt.bool_ else s.minimum(x, y)


@extreme("fmax(Tensor self, Tensor other) -> Tensor", types=_whole("fmax", "maximum_cpu"))
def fmax(x, y):
    """The greater of two elements; NaN only if both are."""
    return x | y if x.dtype is dt.bool_ else s.fmax(x, y)


@extreme("fmin(Tensor self, Tensor other) -> Tensor", types=_whole("fmin", "minimum_cpu"))
def fmin(x, y):
    """The smaller of two elements; NaN only if both are."""
    return x & y if x.dtype is dt.bool_ else s.fmin(x, y)
