"""Scalar formulas: tracing, rewriting, differentiation and the C++ they become, held to their values in Python."""

import ctypes
import gc
import itertools
import math
import os
import pathlib
import random
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tocha.codegen.cpp_scalar import REGISTERS, Names, emit, literal, vectorizes
from tocha.ir import dtypes as dt
from tocha.ir import scalar as s
from tocha.ir.derivative import Saved, gradient, saved
from tocha.ir.node import PRIMITIVES
from tocha.ir.rewrite import recognize, simplify

ROOT = pathlib.Path(__file__).resolve().parent.parent
INF, NAN = math.inf, math.nan
F32, F64, I8, I32, I64 = dt.float32, dt.float64, dt.int8, dt.int32, dt.int64
LEAVES = {"constant", "input", "param", "output", "grad", "index"}


def x32(i=0):
    return s.Input(i, F32)


def same_bits(a, b):
    return repr(a) == repr(b)


# Dtypes


def test_dtypes_have_the_native_names_codes_and_sizes():
    header = (ROOT / "csrc/core/dtype.h").read_text()
    for d in dt.DTYPES:
        assert f'{d.cpp}, "{d.name}", {d.code})' in header
        assert dt.by_name(d.name) is d
    assert [d.itemsize for d in dt.DTYPES] == [1, 1, 1, 2, 4, 8, 2, 4, 8, 2, 2, 4, 8, 8, 16, 1, 1, 4, 1, 1, 1]
    assert dt.bfloat16.compute is F32 and dt.complex64.compute is dt.complex64
    assert dt.complex32.compute is dt.complex64 and dt.complex32.is_reduced
    assert dt.real_of(dt.complex128) is F64 and dt.complex_of(F32) is dt.complex64


@pytest.mark.parametrize("dtype, numpy_type", [(dt.float16, np.float16), (F32, np.float32)])
def test_rounding_is_numpys(dtype, numpy_type):
    generator = random.Random(1)
    values = [generator.uniform(-1, 1) * 2.0 ** generator.randint(-160, 130) for _ in range(3000)]
    values += [65504.0, 65519.9, 65520.0, 2.0**-24, 2.0**-25, 2.0**-25 * 1.01, -0.0, INF, NAN, 3.4028235677973366e38]
    with np.errstate(over="ignore"):
        for value in values:
            assert same_bits(dtype.convert(value), float(numpy_type(value)))
            assert same_bits(dtype.format.round(value), float(numpy_type(value)))


def test_small_formats():
    assert dt.float8_e4m3fn.convert(448.0) == 448.0 and dt.float8_e4m3fn.convert(464.0) == 448.0
    assert dt.float8_e4m3fn.convert(465.0) == 448.0 and dt.float8_e4m3fn.convert(-INF) == -448.0
    assert dt.float8_e5m2.convert(61440.0) == INF and dt.float8_e5m2.convert(61439.0) == 57344.0
    assert dt.float8_e4m3fnuz.convert(247.9) == 240.0 and math.isnan(dt.float8_e4m3fnuz.convert(248.0))
    assert math.copysign(1, dt.float8_e5m2fnuz.convert(-1e-9)) == 1 and math.isnan(dt.float8_e5m2fnuz.convert(INF))
    assert dt.float8_e8m0fnu.convert(-3.0) == 4.0 and dt.float8_e8m0fnu.convert(0.0) == 2.0**-127
    assert dt.bfloat16.convert(1.00390625) == 1.0 and dt.bfloat16.convert(1.01171875) == 1.015625


def test_lossless_conversions():
    yes = [(dt.bool_, dt.float16), (I8, dt.float16), (dt.uint8, dt.bfloat16), (dt.int16, F32), (I32, F64)]
    yes += [(dt.float16, F32), (dt.float8_e5m2, dt.float16), (dt.float8_e4m3fn, dt.bfloat16), (F32, dt.complex64)]
    no = [(dt.int16, dt.float16), (I32, F32), (I8, dt.uint64), (dt.float16, dt.bfloat16), (F64, F32), (F32, I64)]
    no += [(dt.complex64, F64), (dt.uint16, dt.float16), (F32, dt.bool_), (dt.float8_e5m2, dt.float8_e4m3fn)]
    assert all(dt.is_lossless(*pair) for pair in yes)
    assert not any(dt.is_lossless(*pair) for pair in no)


# Nodes


def test_equal_expressions_are_one_object():
    x, y = x32(), x32(1)
    assert (x + y) * 2 is (x + y) * 2
    assert x + y is not y + x
    assert s.constant(0.0, F32) is not s.constant(-0.0, F32)
    assert s.constant(NAN, F32) is s.constant(NAN, F32)
    assert s.constant(1, F32) is s.constant(1.0, F32) and s.constant(1, F64) is not s.constant(1, F32)


def test_dead_nodes_leave_no_trace():
    from tocha.ir.node import _interned

    gc.collect()  # what other tests left must not go in between
    before = set(_interned)
    node = s.exp(s.Input(77, F64) * 3.25)
    assert set(_interned) - before
    del node
    assert not set(_interned) - before


def test_nodes_are_immutable_and_have_no_truth():
    x = x32()
    with pytest.raises(AttributeError):
        x.dtype = F64
    with pytest.raises(TypeError, match="where"):
        bool(x > 0)
    with pytest.raises(TypeError):
        x in [x32(1)]  # noqa: B015
    assert {x: 1}[x32()] == 1


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: s.Input(0, I32) + 0.5, "0.5"),
        (lambda: s.Input(0, I8) + 300, "does not fit"),
        (lambda: x32() + s.Input(1, F64), "different dtypes"),
        (lambda: s.Input(0, I32) / 2, "not defined for int32"),
        (lambda: x32() + 1j, "1j"),
        (lambda: s.Input(0, dt.float16) + 1, "cast"),
        (lambda: s.exp(1.0), "must be a node"),
        (lambda: s.exp(x32(), x32()), "1 operands"),
        (lambda: s.where(x32(), x32(), x32()), "wants a bool"),
        (lambda: s.Input(0, dt.bool_) + 1, "not defined for bool"),
    ],
)
def test_ill_typed_formulas_are_refused(build, message):
    with pytest.raises(TypeError, match=message):
        build()


def test_trace():
    (y,) = s.trace(lambda x, alpha: x + alpha * 2, [dt.float16], [("alpha", F32)], [dt.float16])
    assert repr(y) == "cast(add(cast(input0:f16), mul(param0:f32, 2.0:f32)))" and y.dtype is dt.float16
    with pytest.raises(TypeError, match="must return nodes"):
        s.trace(lambda x: 1.0, [F32])


# Rewriting

X, Y = s.Input(0, F32), s.Input(1, F32)
N, M = s.Input(0, I32), s.Input(1, I32)
P, Q = s.Input(0, dt.bool_), s.Input(1, dt.bool_)
Z = s.Input(0, dt.complex64)


@pytest.mark.parametrize(
    "before, after",
    [
        (X * 1, X),
        (X * -1, -X),
        (X - 0.0, X),
        (X + 0.0, X + 0.0),
        (X + -0.0, X),
        (X * 0, X * 0),
        (N + 0, N),
        (0 * N, s.constant(0, I32)),
        (N - N, s.constant(0, I32)),
        (0 - N, -N),
        (-(-X), X),  # noqa: B002
        (X + -Y, X - Y),
        (-X * -Y, X * Y),
        (-X * 3, X * -3),
        (X / 4, X * 0.25),
        (X / 3, X / 3),
        (1 / X, s.reciprocal(X)),
        (X**2, X * X),
        (X**3, X * X * X),
        (X**0.5, s.sqrt(X)),
        (X**-1, s.reciprocal(X)),
        (X**1, X),
        (X**0, s.constant(1, F32)),
        (X**1.5, X**1.5),
        (N**3, N * N * N),
        (s.where(True, X, Y), X),
        (s.where(X > 1, Y, Y), Y),
        (s.where(~P, X, Y), s.where(P, Y, X)),
        (s.where(P, s.where(P, X, Y), Y), s.where(P, X, Y)),
        (~~P, P),
        (~(X == Y), X != Y),
        (~(X < Y), ~(X < Y)),
        (P & True, P),
        (P | True, s.constant(True, dt.bool_)),
        (P & P, P),
        (abs(-X), abs(X)),
        (s.cast(s.cast(N, F64), I32), N),
        (s.cast(s.cast(N, F32), I32), s.cast(s.cast(N, F32), I32)),
        (s.cast(s.cast(s.Input(0, dt.float16), F32), F64), s.cast(s.Input(0, dt.float16), F64)),
        (s.real(s.make_complex(X, Y)), X),
        (s.make_complex(s.real(Z), s.imag(Z)), Z),
        (s.real(s.cast(X, dt.complex64)), X),
        (s.conj(s.conj(Z)), Z),
        (X + (s.constant(2, F32) * 3 - 6), X + 0.0),
        (s.constant(1, F32) / 3 + X, s.constant(1 / 3, F32) + X),
        (s.constant(7, I32) // -2 + N, s.constant(-4, I32) + N),
        (s.constant(7, I32) // 0, s.constant(7, I32) // 0),
        (s.constant(100, I8) + s.constant(100, I8), s.constant(-56, I8)),
        (s.exp(s.constant(1, F32)), s.exp(s.constant(1, F32))),
    ],
)
def test_simplify(before, after):
    assert simplify([before])[0] is after


def test_recognize():
    assert recognize([1 / (1 + s.exp(-X))])[0] is s.sigmoid(X)
    assert recognize([s.log(1 + X * Y)])[0] is s.log1p(X * Y)


def random_formula(generator, depth):
    if depth == 0:
        numbers = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, INF, NAN, 3.7]
        return generator.choice([X, Y, s.constant(generator.choice(numbers), F32)])
    a, b = random_formula(generator, depth - 1), random_formula(generator, depth - 1)
    unary = [lambda: -a, lambda: abs(a), lambda: s.floor(a), lambda: s.sign(a), lambda: s.sqrt(a)]
    binary = [lambda: a + b, lambda: a - b, lambda: a * b, lambda: a / b, lambda: s.maximum(a, b), lambda: s.fmin(a, b)]
    binary += [lambda: s.where(a < b, a, b), lambda: s.where(~(a == b), a, b), lambda: s.ceil(b)]
    return generator.choice(unary + binary + binary)()


def test_simplify_keeps_every_value():
    generator = random.Random(7)
    special = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e-45, 3e38, -2.5]
    for _ in range(300):
        formula = random_formula(generator, generator.randint(1, 5))
        (short,) = simplify([formula])
        assert len(s.topological([short])) <= len(s.topological([formula]))
        for values in itertools.product(special, special):
            assert same_bits(s.evaluate([formula], values), s.evaluate([short], values)), formula


def random_integer_formula(generator, depth, dtype):
    if depth == 0:
        leaves = [s.Input(0, dtype), s.Input(1, dtype), s.constant(generator.choice([0, 1, 2, 7]), dtype)]
        return generator.choice(leaves)
    a, b = (random_integer_formula(generator, depth - 1, dtype) for _ in range(2))
    choices = [lambda: -a, lambda: abs(a), lambda: ~a, lambda: a + b, lambda: a - b, lambda: a * b, lambda: a & b]
    choices += [lambda: a | b, lambda: s.maximum(a, b), lambda: s.where(~(a == b), a, b), lambda: s.where(a < b, a, b)]
    return generator.choice(choices)()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64"])
def test_simplify_keeps_every_integer(dtype):
    dtype, generator = getattr(dt, dtype), random.Random(11)
    special = [dtype.convert(n) for n in (0, 1, 2, 127, 128, 200, 255, -1)]
    for _ in range(300):
        formula = random_integer_formula(generator, generator.randint(1, 5), dtype)
        (short,) = simplify([formula])
        for values in itertools.product(special, special):
            assert s.evaluate([formula], values) == s.evaluate([short], values), formula


def test_deep_formulas():
    node = X
    for _ in range(20000):
        node = s.sin(node) * 1
    assert len(s.topological(simplify([node]))) == 20001


# Gradients

# Where functions are smooth and defined: bounds per operand. Others are tried on (-2, 2).
DOMAIN = {
    "sqrt": [(0.2, 3)],
    "rsqrt": [(0.2, 3)],
    "log": [(0.2, 3)],
    "log2": [(0.2, 3)],
    "log10": [(0.2, 3)],
    "log1p": [(-0.5, 3)],
    "asin": [(-0.9, 0.9)],
    "acos": [(-0.9, 0.9)],
    "acosh": [(1.2, 3)],
    "atanh": [(-0.9, 0.9)],
    "pow": [(0.3, 2), (-2, 2)],
    "erfinv": [(-0.9, 0.9)],
    "ndtri": [(0.1, 0.9)],
    "lgamma": [(0.3, 4)],
    "digamma": [(0.3, 4)],
    "polygamma": [None, (0.3, 4)],
    "zeta": [(1.5, 4), (0.5, 3)],
    "igamma": [(0.5, 4), (0.5, 4)],
    "igammac": [(0.5, 4), (0.5, 4)],
    "reciprocal": [(0.3, 2)],
    "div": [(-2, 2), (0.4, 2)],
    "floordiv": [(2.1, 2.9), (1.2, 1.3)],
    "truncdiv": [(2.1, 2.9), (1.2, 1.3)],
    "fmod": [(2.1, 2.3), (0.9, 1.0)],
    "remainder": [(2.1, 2.3), (0.9, 1.0)],
    "copysign": [(0.3, 2), (-2, -1)],
    "clamp": [(-2, 2), (-1, -0.5), (0.5, 1)],
    "frexp_mantissa": [(1.1, 1.9)],
    "floor": [(0.2, 0.8)],
    "ceil": [(0.2, 0.8)],
    "trunc": [(0.2, 0.8)],
    "round": [(0.6, 1.4)],
}


POSITIVE = {
    name: [(0.3, 3)]
    for name in ("bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0",
                 "scaled_modified_bessel_k1")
}  # fmt: skip


def differentiable(kind):
    return sorted(
        name
        for name, op in PRIMITIVES.items()
        if name not in LEAVES
        and op.gradients
        and kind in op.signature.kinds
        and "b" not in op.signature.operands
        and name not in ("cast", "nextafter")
    )


def operand(op, position, dtype):
    return s.constant(2, I32) if op.signature.operands[position] == "i" else s.Input(position, dtype)


@pytest.mark.parametrize("name", differentiable(dt.Kind.FLOATING))
def test_gradient_is_the_finite_difference(name):
    op = PRIMITIVES[name]
    y = op(*(operand(op, i, F64) for i in range(op.arity)))
    domain = DOMAIN.get(name, [(-2, 2)] * op.arity)
    wanted = [i for i, rule in enumerate(op.gradients) if rule is not None and op.signature.operands[i] == "T"]
    if y.dtype is dt.complex128:
        y = 0.3 * s.real(y) - 2 * s.imag(y)
    formulas = gradient([y], wanted)
    generator = random.Random(name)
    for _ in range(5):
        point = [0.0 if bounds is None else generator.uniform(*bounds) for bounds in domain]
        value = s.evaluate([y], point)
        analytic = s.evaluate(formulas, point, saved=value, grads=[1.75])
        for index, found in zip(wanted, analytic):
            h = 1e-5
            ends = [[p + e * (i == index) for i, p in enumerate(point)] for e in (-h, h)]
            low, high = (s.evaluate([y], end)[0] for end in ends)
            assert found == pytest.approx(1.75 * (high - low) / (2 * h), rel=2e-6, abs=2e-8), (point, index)


@pytest.mark.parametrize("name", differentiable(dt.Kind.COMPLEX))
def test_complex_gradient_is_the_finite_difference(name):
    op = PRIMITIVES[name]
    y = op(*(s.Input(i, dt.complex128) for i in range(op.arity)))
    formulas = gradient([y], range(op.arity))
    generator = random.Random(name)
    arriving = 0.7 - 0.4j if y.dtype.is_complex else 0.7

    def loss(point):
        value = s.evaluate([y], point)[0]
        return (value * arriving.conjugate()).real

    for _ in range(5):
        point = [complex(generator.uniform(0.2, 1.5), generator.uniform(0.2, 1.5)) for _ in range(op.arity)]
        analytic = s.evaluate(formulas, point, saved=s.evaluate([y], point), grads=[arriving])
        for index, found in enumerate(analytic):
            h = 1e-6
            by = [
                (
                    loss([p + e * (i == index) for i, p in enumerate(point)])
                    - loss([p - e * (i == index) for i, p in enumerate(point)])
                )
                / (2 * h)
                for e in (h, 1j * h)
            ]
            assert abs(found - complex(*by)) < 1e-6 * (1 + abs(found)), (point, index)


@pytest.mark.parametrize(
    "formula, point, expected",
    [
        (s.maximum, (2.0, 2.0), (0.5, 0.5)),
        (s.maximum, (NAN, 1.0), (1.0, 1.0)),
        (s.minimum, (1.0, 2.0), (1.0, 0.0)),
        (s.fmax, (2.0, 2.0), (1.0, 0.0)),
        (s.fmax, (NAN, 1.0), (0.0, 1.0)),
        (s.abs, (0.0,), (0.0,)),
        (s.relu, (0.0,), (0.0,)),
        (s.relu, (NAN,), (1.0,)),
        (lambda x: s.clamp(x, -1.0, 1.0), (1.0,), (1.0,)),
        (lambda x: s.clamp(x, -1.0, 1.0), (-1.5,), (0.0,)),
        (lambda x: s.clamp(x, -1.0, 1.0), (NAN,), (0.0,)),
        (s.clamp, (1.0, 3.0, 2.0), (0.0, 0.0, 1.0)),
        (s.clamp_min, (0.0, 1.0), (0.0, 1.0)),
        (s.atan2, (0.0, 0.0), (0.0, 0.0)),
        (s.pow, (0.0, 0.0), (0.0, 0.0)),
        (s.pow, (0.0, -1.0), (-INF, -INF)),
        (s.pow, (2.0, 0.0), (0.0, math.log(2.0))),
        (s.i1, (0.0,), (0.5,)),
        (s.i1e, (0.0,), (0.5,)),
        (s.sqrt, (0.0,), (INF,)),
        (s.sign, (3.0,), (0.0,)),
        (s.copysign, (0.0, -1.0), (0.0, 0.0)),
        (lambda x: s.where(x > 0, x * s.log(x), 0.0), (0.0,), (0.0,)),
        (lambda x: s.where(x > 0, s.sqrt(x), -x), (0.0,), (-1.0,)),
    ],
)
def test_gradient_at_kinks_is_pytorchs(formula, point, expected):
    outputs = s.trace(formula, [F64] * len(point))
    formulas = gradient(outputs, range(len(point)))
    found = s.evaluate(formulas, point, saved=s.evaluate(outputs, point), grads=[1.0])
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    "formula, inputs, outputs",
    [
        (s.sigmoid, (), (0,)),
        (s.tanh, (), (0,)),
        (s.exp, (), (0,)),
        (s.sqrt, (), (0,)),
        (s.relu, (), (0,)),
        (s.sin, (0,), ()),
        (lambda x: x * s.sigmoid(x), (0,), ()),
        (lambda x: x + 3, (), ()),
        (s.floor, (), ()),
    ],
)
def test_what_gradients_save(formula, inputs, outputs):
    for dtype in (F32, dt.bfloat16):
        needed = saved(gradient(s.trace(formula, [dtype], None, [dtype]), [0]))
        assert (needed.inputs, needed.outputs) == (inputs, outputs)


def test_gradient_follows_dtypes():
    y = s.trace(lambda a, b: s.cast(a, dt.complex64) * b, [F32, dt.complex64])
    a, b = gradient(y, [0, 1])
    assert a.dtype is F32 and b.dtype is dt.complex64
    (half,) = gradient(s.trace(s.sigmoid, [dt.float16], None, [dt.float16]), [0])
    assert half.dtype is dt.float16
    assert gradient(s.trace(lambda x: x > 0, [F32]), [0]) == (None,)
    assert gradient(s.trace(lambda n: s.exp(s.cast(n, F32)), [I32]), [0]) == (None,)
    assert gradient(s.trace(s.floor, [F32]), [0])[0] is s.constant(0, F32)
    assert saved([None]) == Saved((), (), (), ())
    with pytest.raises(s.NoDerivative, match="zeta"):
        gradient(s.trace(s.zeta, [F32, F32]), [0])


def test_gradient_of_several_results():
    outputs = s.trace(lambda x: (s.sin(x), x * x), [F64])
    (formula,) = gradient(outputs, [0])
    (found,) = s.evaluate([formula], [0.3], grads=[2.0, 5.0], saved=s.evaluate(outputs, [0.3]))
    assert found == pytest.approx(2 * math.cos(0.3) + 5 * 0.6)


# C++


def test_emitted_text():
    code = emit(s.trace(lambda x, y, a: s.exp(x * (a * 2)) + s.exp(x * (a * 2)) * y, [F32] * 2, [("a", F32)]),
                Names(["x", "y"], ["a"]))  # fmt: skip
    assert code.prologue == ("const float t0 = (a * 2.0f);",)
    assert code.body == (
        "const float t1 = (x * t0);",
        "const float t2 = math::exp(t1);",
        "const float t3 = (t2 * y);",
        "const float t4 = (t2 + t3);",
    )
    assert code.results == ("t4",) and not code.faults
    wide = emit(
        s.trace(lambda x, a: s.where(x > a, s.exp(x), 0), [F32], [("a", F32)]), Names(["x"], ["a"]), vector=REGISTERS
    )
    assert wide.prologue == () and wide.body == (
        "const auto t0 = (x > math::splat(a));",
        "const auto t1 = math::exp(x);",
        "const auto t2 = (t0 ? t1 : math::splat(0.0f));",
    )
    division = emit(s.trace(lambda n, m: n // m, [I32] * 2), Names(["n", "m"]))
    assert division.faults and division.body == ("const int32_t t0 = math::floordiv(n, m, fault);",)


def test_what_vectorizes():
    assert vectorizes(s.trace(lambda x, a: s.exp(x) * a, [F32], [("a", F32)]))
    assert not vectorizes(s.trace(lambda x, y: x * y, [F32, F32]))  # the compiler does that as well
    assert not vectorizes(s.trace(lambda x: s.exp(x), [F64]))
    assert not vectorizes(s.trace(lambda x: s.exp(x) + s.digamma(x), [F32]))  # one has no vector form
    assert not vectorizes(s.trace(lambda x: s.exp(x) > 1, [F32]))
    assert not vectorizes(s.trace(lambda x, a: s.exp(a) + 0 * a, [F32], [("a", F32)]))


@pytest.mark.parametrize(
    "value, dtype, text",
    [
        (0.1, F32, "0.10000000149011612f"),
        (0.1, F64, "0.1"),
        (-0.0, F32, "(-0.0f)"),
        (-INF, F64, "(-__builtin_inf())"),
        (NAN, F32, '__builtin_nanf("")'),
        (1e30, F32, "1.0000000150474662e+30f"),
        (1.5, dt.float16, "Half(1.5f)"),
        (-5, I8, "int8_t(-5)"),
        (-(2**63), I64, "INT64_MIN"),
        (-(2**31), I32, "INT32_MIN"),
        (2**64 - 1, dt.uint64, "uint64_t(18446744073709551615ULL)"),
        (True, dt.bool_, "true"),
        (1 - 2j, dt.complex64, "Complex<float>(1.0f, (-2.0f))"),
    ],
)
def test_literals(value, dtype, text):
    assert literal(dtype.convert(value), dtype) == text


PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
import test_ir_scalar as t
print(t.determined_text())
"""


def determined_text():
    """Code of a formula and its gradients, to be compared between traces and between processes."""
    outputs = simplify(s.trace(lambda x, y, a: (s.tanh(x * a) / s.hypot(x, y), s.where(x > y, x**a, y)),
                               [F32, F32], [("a", F32)]))  # fmt: skip
    nodes = [*outputs, *gradient(outputs, [0, 1])]
    code = emit(nodes, Names(["x", "y"], ["a"], ["o0", "o1"], ["g0", "g1"]))
    return "\n".join(code.prologue + code.body + code.results)


def test_text_is_the_same_every_time():
    assert determined_text() == determined_text()


def test_text_is_the_same_in_every_process():
    program = PROGRAM.format(tests=str(pathlib.Path(__file__).parent))
    path = os.pathsep.join([str(pathlib.Path(dt.__file__).parents[2]), *sys.path])
    texts = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        run = [sys.executable, "-c", program]
        texts.add(subprocess.run(run, capture_output=True, text=True, check=True, env=environment).stdout)
    assert texts == {determined_text() + "\n"}


COMPILER = shutil.which("g++") or shutil.which("clang++")
HEADERS = ("vecmath/vecmath", "engine/scalar_ops", "special/special", "vecmath/complex", "vecmath/exp_below_zero")
NUMPY = {d: np.dtype(d.name) for d in dt.DTYPES if hasattr(np, d.name) or d is dt.bool_}


class Kernels:
    """Formulas of one output compiled into one library, each a loop over arrays."""

    def __init__(self):
        self.formulas = []

    def add(self, formula, dtypes):
        self.formulas.append((formula, dtypes))
        return len(self.formulas) - 1

    def source(self):
        lines = [f'#include "cpu/{h}.h"' for h in HEADERS]
        lines.append("using namespace tocha;")
        for k, (formula, dtypes) in enumerate(self.formulas):
            code = emit([formula], Names([f"x{i}[i]" for i in range(len(dtypes))]))
            pointers = [f"[[maybe_unused]] const {d.cpp}* x{i}" for i, d in enumerate(dtypes)]
            lines += [
                f'extern "C" unsigned k{k}({", ".join(pointers)}, {formula.dtype.cpp}* out, int64_t n) {{',
                "unsigned fault = 0;",
                *code.prologue,
                "for (int64_t i = 0; i < n; ++i) {",
                *code.body,
                f"out[i] = {code.results[0]};",
                "}",
                "return fault;",
                "}",
            ]
        return "\n".join(lines)

    def build(self, folder):
        source = folder / "kernels.cpp"
        source.write_text(self.source())
        library = folder / "kernels.so"
        flags = ["-std=c++20", "-O1", "-ffp-contract=off", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
        command = [COMPILER, *flags, f"-I{ROOT}/csrc", str(source), "-o", str(library)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:4000]
        self.library = ctypes.CDLL(str(library))

    def run(self, k, columns):
        """The results, and whether there was a fault."""
        formula, dtypes = self.formulas[k]
        arrays = [np.array(column, NUMPY[d]) for column, d in zip(columns, dtypes)]
        out = np.zeros(len(columns[0]), NUMPY[formula.dtype])
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, out)]
        fault = self.library[f"k{k}"](*pointers, ctypes.c_int64(len(out)))
        return out.tolist(), fault


def sample_values(dtype, generator):
    if dtype is dt.bool_:
        return [False, True]
    if dtype.is_integer:
        low, high = dtype.smallest_integer, dtype.largest_integer
        near = {low, low + 1, high, high - 1, 0, 1, 2, 3, 5, 7, 8, 31, 32, 63, 64, 100, -1, -2, -3, -7, -100}
        return sorted(v for v in near | {generator.randint(low, high) for _ in range(6)} if low <= v <= high)
    if dtype.is_floating:
        fixed = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 0.1, INF, -INF, NAN, 1e-45, 6e-39, 3e38, 1e10]
        fixed += [-1e10, 300.0, 2.0**31, -(2.0**31), 2.0**63, 1e19, -1e19, 70000.7, 4294967295.0, 16777217.0]
        return [dtype.convert(v) for v in fixed + [generator.uniform(-9, 9) for _ in range(6)]]
    return [complex(a, b) for a in (0.0, -1.5, 2.25) for b in (-0.5, 0.0, 3.0)]


def exact_cases():
    """Every primitive that must agree with Python bit for bit, in every dtype it takes."""
    for name, op in PRIMITIVES.items():
        if name in LEAVES or not op.exact or name == "cast":
            continue
        for dtype in NUMPY:
            if dtype.kind not in op.signature.kinds or (dtype.is_reduced and not op.signature.takes_reduced):
                continue
            if dtype.is_complex or (dtype is dt.float16):
                continue
            kinds = {"T": dtype, "b": dt.bool_, "i": I32}
            dtypes = [kinds[letter] for letter in op.signature.operands]
            yield f"{name}-{dtype.code}", op(*(s.Input(i, d) for i, d in enumerate(dtypes))), dtypes
    for source, target in itertools.product(NUMPY, NUMPY):
        if source is not target and not source.is_reduced and not target.is_reduced:
            yield f"cast-{source.code}-{target.code}", s.cast(s.Input(0, source), target), [source]
    for small in (dt.float16, dt.bfloat16, *(d for d in dt.DTYPES if d.is_float8)):
        yield f"through-{small.code}", s.cast(s.cast(x32(), small), F32), [F32]
    yield "bitcast", s.bitcast(x32(), I32), [F32]


def close_cases():
    """Every other primitive at ordinary points, in float64 and complex128."""
    for name, op in PRIMITIVES.items():
        if name in LEAVES or name in ("bitcast", "nextafter", "cast"):
            continue
        if not op.exact and dt.Kind.FLOATING in op.signature.kinds:
            yield name, op(*(operand(op, i, F64) for i in range(op.arity))), [F64] * op.arity
        if dt.Kind.COMPLEX in op.signature.kinds and "b" not in op.signature.operands:
            formula = op(*(s.Input(i, dt.complex128) for i in range(op.arity)))
            yield f"{name}-c128", formula, [dt.complex128] * op.arity


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    if COMPILER is None:
        pytest.skip("no C++ compiler")
    kernels = Kernels()
    cases = {}
    for name, formula, dtypes in itertools.chain(exact_cases(), close_cases()):
        cases[name] = kernels.add(formula, dtypes)
    kernels.build(tmp_path_factory.mktemp("kernels"))
    return kernels, cases


def test_compiled_primitives_give_pythons_bits(compiled):
    kernels, cases = compiled
    wrong = []
    for name, formula, dtypes in exact_cases():
        generator = random.Random(name)
        points = list(itertools.product(*(sample_values(d, generator) for d in dtypes)))
        if len(points) > 3000:
            points = generator.sample(points, 3000)
        defined = [p for p in points if not divides_by_zero(formula, p)]
        found, fault = kernels.run(cases[name], list(zip(*defined)))
        assert fault == 0
        for point, value in zip(defined, found):
            expected = s.evaluate([formula], point)[0]
            if not same_bits(value, expected):
                wrong.append((name, point, value, expected))
        if len(defined) < len(points):
            assert kernels.run(cases[name], list(zip(*points)))[1] == 1, name
    assert not wrong, wrong[:20]


def divides_by_zero(formula, point):
    try:
        s.evaluate([formula], point)
    except ZeroDivisionError:
        return True
    return False


def test_compiled_functions_are_close_to_python(compiled):
    kernels, cases = compiled
    for name, formula, dtypes in close_cases():
        generator = random.Random(name)
        domain = DOMAIN.get(name) or POSITIVE.get(name) or [(-2, 2)] * len(dtypes)
        points = [[0.0 if b is None else generator.uniform(*b) for b in domain] for _ in range(8)]
        if name.endswith("-c128"):
            points = [[complex(*(generator.uniform(-2, 2) for _ in "ri")) for _ in dtypes] for _ in range(8)]
        if "polynomial" in name:
            points = [[x, float(n)] for (x, _), n in zip(points, itertools.cycle(range(6)))]
        found, _ = kernels.run(cases[name], list(zip(*points)))
        expected = [s.evaluate([formula], point)[0] for point in points]
        assert found == pytest.approx(expected, rel=1e-10, abs=1e-12), name
