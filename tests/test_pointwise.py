"""What is special about pointwise operators: promotion, Python's operators, refusals, complex views, layouts, long arguments."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import tocha
from tocha.nn import functional as F


def values(t):
    return t.resolve_conj().resolve_neg().numpy()


# Promotion


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (lambda: tocha.tensor([1, 2]) + 1, tocha.int64),
        (lambda: tocha.tensor([1, 2]) + 1.5, tocha.float32),
        (lambda: tocha.tensor([1, 2], dtype=tocha.int8) + tocha.tensor([1, 2], dtype=tocha.uint8), tocha.int16),
        (lambda: tocha.tensor([1.0], dtype=tocha.float16) * tocha.tensor(2.0, dtype=tocha.float64), tocha.float16),
        (lambda: tocha.tensor([1.0], dtype=tocha.float16) * tocha.tensor([2.0], dtype=tocha.bfloat16), tocha.float32),
        (lambda: tocha.tensor([1, 2]) / 2, tocha.float32),
        (lambda: tocha.tensor([1, 2]) // 2, tocha.int64),
        (lambda: tocha.tensor([True]) * 2, tocha.int64),
        (lambda: tocha.tensor([1.0]) * 1j, tocha.complex64),
        (lambda: tocha.tensor([1, 2]).exp(), tocha.float32),
        (lambda: tocha.tensor([1, 2]) == 1.0, tocha.bool),
        (lambda: tocha.float_power(tocha.tensor([1.0]), 2), tocha.float64),
        (lambda: tocha.where(tocha.tensor([True]), 1, 2.0), tocha.float32),
        (lambda: tocha.clamp(tocha.tensor([1, 2]), 0.5, 3), tocha.float32),
        (lambda: tocha.tensor([3 + 4j]).abs(), tocha.float32),
        (lambda: tocha.ldexp(tocha.tensor([1.0], dtype=tocha.float16), tocha.tensor([2])), tocha.float16),
    ],
)
def test_result_dtype(make, dtype):
    assert make().dtype is dtype


# Python's operators


@pytest.mark.parametrize(
    "symbol", ["+", "-", "*", "//", "%", "**", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!="]
)
def test_operators_with_numbers_on_either_side(symbol):
    a = np.array([1, 2, 3, 5])
    t = tocha.tensor(a)
    for left, right in ((t, 2), (2, t), (t, t)):
        expected = eval(f"x {symbol} y", {"x": a if left is t else left, "y": a if right is t else right})
        np.testing.assert_array_equal(eval(f"x {symbol} y", {"x": left, "y": right}).numpy(), expected)


def test_reversed_operators_are_attributes():
    t = tocha.tensor([2.0, 4.0])
    assert t.__rsub__(1).tolist() == [-1, -3]
    assert t.__rdiv__(8).tolist() == [4, 2]
    assert t.__rpow__(2).tolist() == [4, 16]
    assert tocha.tensor([3]).__rand__(6).tolist() == [2]


def test_augmented_assignment_works_in_place():
    t = u = tocha.tensor([1.0, 2.0])
    t += 1
    t *= 2
    t /= 4
    t **= 2
    assert t is u
    assert t.tolist() == [1.0, 2.25]


def test_foreign_operands_are_left_to_python():
    t = tocha.ones(2)
    assert (t == "a") is False
    with pytest.raises(TypeError):
        t + "a"


# Division


@pytest.mark.parametrize("dtype", [tocha.int64, tocha.float32])
@pytest.mark.parametrize("divisor", [3, -3])
def test_division_rounds_as_python_does(dtype, divisor):
    a = list(range(-7, 8))
    t = tocha.tensor(a, dtype=dtype)
    assert (t // divisor).tolist() == [x // divisor for x in a]
    assert (t % divisor).tolist() == [x % divisor for x in a]
    assert tocha.fmod(t, divisor).tolist() == [math.fmod(x, divisor) for x in a]
    assert tocha.div(t, divisor, rounding_mode="trunc").tolist() == [int(x / divisor) for x in a]


@pytest.mark.parametrize(
    "divide",
    [lambda x: x // 0, lambda x: x % 0, lambda x: tocha.fmod(x, 0), lambda x: tocha.div(x, 0, rounding_mode="trunc")],
)
def test_integers_refuse_division_by_zero(divide):
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        divide(tocha.tensor([1, 2]))
    divide(tocha.tensor([], dtype=tocha.int64))  # nothing is divided


def test_least_integer_does_not_trap():
    least = tocha.tensor([-128], dtype=tocha.int8)
    assert (least // -1).item() == -128
    assert (least % -1).item() == 0
    assert (-least).item() == least.abs().item() == -128


# Refusals


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: tocha.tensor([True]) - tocha.tensor([True]), "bool"),
        (lambda: 1 - tocha.tensor([True]), "bool"),
        (lambda: -tocha.tensor([True]), "bool"),
        (lambda: tocha.add(tocha.tensor([1]), 1, alpha=0.5), "alpha"),
        (lambda: tocha.tensor([2]) ** -1, "negative integer powers"),
        (lambda: tocha.tensor([1]).add_(0.5), "can't be cast"),
        (lambda: tocha.ones(3).add_(tocha.ones(2, 3)), "broadcast shape"),
        (lambda: tocha.ones(3) + tocha.ones(4), "must match"),
        (lambda: tocha.ones(1, 3).expand(2, 3).add_(1), "single memory location"),
        (lambda: tocha.tensor([1j]).abs_(), "complex"),
        (lambda: tocha.ones(2).float_power_(2), "Double"),
        (lambda: tocha.clamp(tocha.ones(2)), "must not be None"),
        (lambda: tocha.where(tocha.ones(2), 1, 2), "boolean"),
        (lambda: tocha.lerp(tocha.ones(2), tocha.ones(2).double(), 0.5), "end"),
        (lambda: tocha.isclose(tocha.ones(2), tocha.ones(2).double()), "did not match"),
        (lambda: tocha.imag(tocha.ones(2)), "non-complex"),
        (lambda: tocha.polygamma(-1, tocha.ones(2)), "negative"),
        (lambda: F.celu(tocha.ones(2), 0.0), "alpha"),
        (lambda: F.gelu(tocha.ones(2), approximate="best"), "approximate"),
        (lambda: F.prelu(tocha.ones(2, 3), tocha.ones(2)), "channel size"),
        (lambda: F.glu(tocha.ones(3)), "even"),
    ],
)
def test_refusals_say_what_is_wrong(call, says):
    with pytest.raises(RuntimeError, match=says):
        call()


def test_unsupported_dtypes_are_named():
    with pytest.raises(NotImplementedError, match=r"\[erf\].*ComplexFloat"):
        tocha.erf(tocha.tensor([1j]))


# Layouts and aliases


def test_results_keep_their_operands_layout():
    x = tocha.ones(2, 3, 4, 5).contiguous(memory_format=tocha.channels_last)
    assert x.exp().stride() == (x * 2).stride() == (x + tocha.ones(3, 1, 1)).stride() == x.stride()
    assert tocha.ones(3, 4).t().sin().stride() == (1, 4)


def test_out_is_filled_resized_and_returned():
    out = tocha.empty(0)
    assert tocha.add(tocha.ones(3), 1, out=out) is out
    assert out.tolist() == [2, 2, 2]
    y = tocha.ones(3, dtype=tocha.float64)
    assert tocha.exp(tocha.zeros(3), out=y).dtype is tocha.float64


def test_in_place_through_views():
    x = tocha.zeros(3, 3)
    x.t()[0].add_(tocha.tensor([1.0, 2.0, 3.0]))
    assert x[:, 0].tolist() == [1, 2, 3]


# Complex


def test_parts_are_views():
    z = tocha.tensor([1 + 2j, 3 - 4j])
    z.real.fill_(7)
    z.imag.mul_(10)
    assert z.tolist() == [7 + 20j, 7 - 40j]
    assert tocha.real(tocha.ones(2)).dtype is tocha.float32


def test_conjugation_is_lazy_and_writes_through():
    z = tocha.tensor([1 + 2j])
    c = z.conj()
    assert c.is_conj() and not c.conj().is_conj() and not c.resolve_conj().is_conj()
    assert c.imag.is_neg()
    np.testing.assert_array_equal(values(c + 1), [2 - 2j])
    np.testing.assert_array_equal(values(c.imag), [-2])
    c.mul_(2j)
    np.testing.assert_array_equal(values(z), [4 - 2j])


def test_pairs_of_reals_are_complex_numbers():
    x = tocha.arange(6.0).reshape(3, 2)
    z = tocha.view_as_complex(x)
    z.mul_(2)
    assert x.tolist() == [[0, 2], [4, 6], [8, 10]]
    assert tocha.view_as_real(z).stride() == (2, 1)
    with pytest.raises(RuntimeError, match="stride 1"):
        tocha.view_as_complex(tocha.ones(2, 3).t())
    with pytest.raises(RuntimeError, match="conjugated"):
        tocha.view_as_real(z.conj())


# Values at the edges


def test_circular_functions_of_great_arguments():
    # A few great arguments among ordinary ones: the run takes the long way.
    x = np.concatenate([np.linspace(-5, 5, 1000), [1e10, 3e37, -2e20, math.inf, math.nan]])
    for dtype, error in ((np.float32, 2e-7), (np.float64, 3e-16)):
        a = x.astype(dtype)
        with np.errstate(all="ignore"):
            for name in ("sin", "cos"):
                exact = getattr(np, name)(a.astype(np.float64))
                np.testing.assert_allclose(getattr(tocha, name)(tocha.tensor(a)).numpy(), exact, rtol=0, atol=error)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainders_are_exact(dtype):
    rng = np.random.default_rng(0)
    a = (rng.standard_normal(20000) * 10.0 ** rng.integers(-20, 20, 20000)).astype(dtype)
    b = (rng.standard_normal(20000) * 10.0 ** rng.integers(-20, 20, 20000)).astype(dtype)
    # The first runs have small quotients throughout and take the short way.
    b[:8192] = (
        a[:8192] / dtype(2.0) ** rng.integers(-3, 20, 8192) * (1 + rng.standard_normal(8192) * 1e-3).astype(dtype)
    )
    a[:64] = b[:64] * rng.integers(-9, 9, 64)
    x, y = tocha.tensor(a), tocha.tensor(b)
    np.testing.assert_array_equal(tocha.fmod(x, y).numpy(), np.fmod(a, b))
    np.testing.assert_array_equal((x % y).numpy(), np.where(np.fmod(a, b) == 0, np.fmod(a, b), np.remainder(a, b)))
    # floor(a / b) by exact arithmetic where it is small enough to be represented
    few = slice(0, 2000)
    exact = [Fraction(float(p)) // Fraction(float(q)) for p, q in zip(a[few], b[few], strict=True)]
    np.testing.assert_array_equal((x // y).numpy()[few], np.array(exact, dtype=np.float64))


@pytest.mark.parametrize("dtype", [tocha.float16, tocha.float32, tocha.float64])
def test_remainders_by_infinity(dtype):
    # All of these are within the quick loops' reach, which the neighbours decide.
    x = tocha.tensor([0.0, 3.0, -0.0, 5.0], dtype=dtype)
    y = tocha.tensor([math.inf, math.inf, math.inf, 2.0], dtype=dtype)
    assert tocha.fmod(x, y).tolist() == [0, 3, 0, 1]
    assert tocha.remainder(x, y).tolist() == [0, 3, 0, 1]
    assert tocha.floor_divide(x, y).tolist() == [0, 0, 0, 2]
    assert tocha.remainder(-x, y).tolist() == [0, math.inf, 0, 1]


def test_numbers_beside_any_layout():
    x = np.arange(5000.0)
    t = tocha.tensor(x)
    np.testing.assert_array_equal((t * 2).numpy(), x * 2)
    np.testing.assert_array_equal((t[::3] + 1).numpy(), x[::3] + 1)
    np.testing.assert_array_equal((t.reshape(50, 100).t() - tocha.tensor([1])).numpy(), x.reshape(50, 100).T - 1)
    np.testing.assert_array_equal(tocha.where(t > 2500, t, 0).numpy(), np.where(x > 2500, x, 0))


def test_powers_by_shortcuts():
    x = tocha.tensor([-2.0, 0.5, 4.0])
    for p in (0, 1, 2, 3, -1, -2):
        np.testing.assert_allclose((x**p).numpy(), x.numpy() ** float(p), rtol=1e-6)
    np.testing.assert_allclose((x.abs() ** 0.5).numpy(), np.sqrt(x.abs().numpy()), rtol=1e-6)
    assert (tocha.tensor([3]) ** 2).dtype is tocha.int64


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64", "uint8", "complex64"])
def test_cubes_are_two_products(dtype):
    x = (tocha.arange(-30, 70) / 7).to(getattr(tocha, dtype)).reshape(10, 10)
    for cube in (x**3, x.t() ** 3, x.clone().pow_(3)):
        wanted = x * x * x
        assert tocha.equal(cube if cube.stride() == x.stride() else cube.t(), wanted)
    if x.is_floating_point() or x.is_complex():
        leaf = x.clone().requires_grad_()
        (slope,) = tocha.autograd.grad(leaf**3, leaf, tocha.ones_like(x))
        assert tocha.allclose(slope, (3 * (x * x)).conj(), rtol=1e-2 if x.itemsize == 2 else 1e-6)


@pytest.mark.parametrize("width", [1, 7, 63, 64, 100, 1024, 2500])
def test_rows_that_do_not_run_together(width):
    rng = np.random.default_rng(width)
    a, b = (rng.standard_normal((5, 3, width + 3)).astype(np.float32) for _ in range(2))
    x, y = tocha.from_numpy(a), tocha.from_numpy(b)
    row, column, part = b[0, :1, :width], b[:, :1, 5 % b.shape[2], None], np.s_[:, :, 2 : 2 + width]
    wide = tocha.zeros(5, 3, 2 * width)
    out = wide[:, :, ::2]
    for ours, theirs in (
        (x[part] + tocha.from_numpy(row), a[part] + row),
        (x[part] - tocha.from_numpy(column), a[part] - column),
        (tocha.from_numpy(column) * tocha.from_numpy(row), column * row),
        (x[part] + y[part].double(), a[part] + b[part].astype(np.float64)),
        (x[part] * y.flip(1)[part], a[part] * b[:, ::-1][part]),
        (tocha.add(x[part], y[part], out=out), a[part] + b[part]),
        (tocha.complex(x, y).conj()[part] * 2j, (a - 1j * b)[part] * 2j),
    ):
        assert np.array_equal(ours.resolve_conj().numpy(), theirs)
    assert np.array_equal(wide[:, :, 1::2].numpy(), np.zeros((5, 3, width), np.float32))


@pytest.mark.parametrize("exponent", [4, 5, 7, 15, -3, -4, -15])
def test_small_whole_powers_are_the_nearest_floats(exponent):
    x = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    x[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-30]
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.longdouble), exponent).astype(np.float32)
    np.testing.assert_array_equal(tocha.tensor(x).pow(exponent).numpy(), expected)
    np.testing.assert_array_equal(tocha.compile(lambda t: t**exponent)(tocha.tensor(x)).numpy(), expected)


@pytest.mark.parametrize("dtype", [tocha.float32, tocha.float64])
def test_erfinv_is_the_same_wherever_an_element_lies(dtype):
    inner = tocha.linspace(-0.99, 0.99, 2001, dtype=dtype)
    ends = tocha.tensor([0.9901, -0.999, 0.9999999, 1, -1, 2, math.nan], dtype=dtype)
    mixed = tocha.cat([inner, ends])[tocha.randperm(2008, generator=tocha.Generator().manual_seed(0))]
    found = tocha.erfinv(mixed)
    for i in range(0, 2008, 7):
        np.testing.assert_array_equal(found[i : i + 1].numpy(), tocha.erfinv(mixed[i : i + 1].clone()).numpy())
    near = tocha.erfinv(inner)
    np.testing.assert_allclose(tocha.erf(near.double()).numpy(), inner.double().numpy(), rtol=1e-6, atol=1e-12)
    assert tocha.erfinv(ends)[3:5].tolist() == [math.inf, -math.inf] and tocha.erfinv(ends)[5:].isnan().all()


def test_nan_passes_or_not():
    nan = math.nan
    a, b = tocha.tensor([1.0, nan]), tocha.tensor([nan, 2.0])
    assert tocha.maximum(a, b).isnan().all()
    assert tocha.fmax(a, b).tolist() == [1, 2]
    assert tocha.clamp(tocha.tensor([nan, 5.0]), 0, 1).tolist()[1] == 1
    assert tocha.nan_to_num(tocha.tensor([nan, math.inf], dtype=tocha.float16)).tolist() == [0, 65504]
    assert tocha.xlogy(tocha.tensor([0.0]), tocha.tensor([0.0])).item() == 0
    assert tocha.isclose(a, a, equal_nan=True).all() and not tocha.isclose(a, a).all()


def test_lerp_reaches_its_end():
    start, end = tocha.tensor([1e8]), tocha.tensor([0.1])
    assert tocha.lerp(start, end, 1.0).item() == end.item()
    assert tocha.lerp(start, end, 0.0).item() == start.item()


def test_where_of_a_condition_lists_coordinates():
    rows, columns = tocha.where(tocha.tensor([[True, False], [False, True]]))
    assert rows.tolist() == columns.tolist() == [0, 1]
    assert tocha.where(tocha.tensor(5.0))[0].tolist() == [0]


def test_next_halves():
    one = tocha.ones(1, dtype=tocha.bfloat16)
    assert (tocha.nextafter(one, one * 2) - 1).item() == 2.0**-7
    assert (tocha.nextafter(one.half(), one.half() * 2) - 1).item() == 2.0**-10


def test_whole_tensors_compare():
    assert tocha.equal(tocha.ones(2), tocha.ones(2).double())
    assert not tocha.equal(tocha.ones(2), tocha.ones(2, 1))
    assert tocha.allclose(tocha.ones(2), tocha.ones(2) + 1e-9)
    assert tocha.equal(tocha.ones(0), tocha.ones(0))


def test_activations_change_their_input_when_asked():
    for f in (F.relu, F.relu6, F.elu, F.selu, F.celu, F.silu, F.mish, F.hardtanh, F.hardswish, F.leaky_relu):
        x = tocha.tensor([-1.0, 2.0])
        expected = f(x)
        assert x.tolist() == [-1, 2]
        assert f(x, inplace=True) is x
        assert x.tolist() == expected.tolist()


# Vectors


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "tanh", "sigmoid", "sin", "cos", "erf"])
def test_results_do_not_depend_on_position(name):
    f = getattr(tocha, name)
    x = tocha.linspace(-3, 60000, 67)
    whole = f(x)
    for start, count in ((0, 1), (1, 66), (3, 16), (5, 33), (66, 1), (20, 47)):
        part = f(x[start : start + count].clone())
        np.testing.assert_array_equal(values(part), values(whole)[start : start + count])
    np.testing.assert_array_equal(values(f(x[::2])), values(whole)[::2])


COMPOSITES_IN_PLACE = {
    "clamp": lambda x: (0.2, 0.8),
    "clamp_tensors": lambda x: (x * 0 + 0.2, x.new_tensor(0.8)),
    "pow": lambda x: (2,),
    "square": lambda x: (),
    "nan_to_num": lambda x: (),
    "logit": lambda x: (1e-3,),
    "ldexp": lambda x: (x * 0 + 1,),
    "mvlgamma": lambda x: (1,),
    "float_power": lambda x: (2.0,),
}


@pytest.mark.parametrize("name", COMPOSITES_IN_PLACE)
@pytest.mark.parametrize("dtype", [tocha.float32, tocha.float64, tocha.bfloat16])
def test_composites_in_place_give_what_they_return(name, dtype):
    method = name.removesuffix("_tensors")
    base = (tocha.rand(6, 8, dtype=tocha.float64) * 0.6 + 0.2).to(dtype)
    for view in (lambda t: t, lambda t: t.T, lambda t: t[::2, 1:], lambda t: t[:, 3]):
        x = base.clone()
        part = view(x)
        rest = COMPOSITES_IN_PLACE[name](part)
        expected = getattr(part, method)(*rest)
        if expected.dtype != dtype:  # float_power, which refuses what is not float64
            continue
        before, pointer = part._version, part.data_ptr()
        assert getattr(part, method + "_")(*rest) is part
        assert tocha.equal(part, expected) and part._version == before + 1 and part.data_ptr() == pointer


def test_composites_in_place_where_writing_straight_would_be_wrong():
    x = tocha.arange(6.0)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to"):
        x[:4].clamp_(x[2:], tocha.tensor(100.0))
    x[::2][:2].clamp_(x[1:3], tocha.tensor(100.0))  # which reads what it writes
    assert x.tolist() == [1, 1, 2, 3, 4, 5]
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        tocha.ones(2).clamp_(tocha.ones(3, 2), tocha.ones(2))
    with pytest.raises(RuntimeError, match="can't be cast"):
        tocha.ones(2, dtype=tocha.int64).clamp_(0.5, 1.5)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        tocha.ones(1).expand(3).clamp_(0, 1)
    y = tocha.tensor([1 + 1j, 2 - 1j]).conj()
    assert y.square_().tolist() == [(1 - 1j) ** 2, (2 + 1j) ** 2]


def test_composites_in_place_take_no_memory():
    x = tocha.rand(1 << 22)
    before = tocha._C._cpu_memory()
    x.clamp_(0.1, 0.9).square_()
    after = tocha._C._cpu_memory()
    assert after["peak"] - max(before["peak"], before["in_use"]) < 4096 and after["in_use"] == before["in_use"]


def test_composites_in_place_are_recorded():
    x = tocha.tensor([0.5, 2.0], requires_grad=True)
    y = x * 1
    y.clamp_(0.0, 1.0)
    y.sum().backward()
    assert x.grad.tolist() == [1, 0]
    with pytest.raises(RuntimeError):
        x.clamp_(0, 1)


def test_polynomials_of_very_high_degree():
    """Beyond the longest recurrence: values by the recurrences with 40 digits."""
    n = 2**17 + 1
    p = tocha.special.legendre_polynomial_p(
        tocha.tensor([0.3, 0.9999, -0.3, 1.00000001, 1, -1, 2], dtype=tocha.float64), n
    )
    wanted = [0.002108573224343889, 0.014748031782254238, -0.002108573224343889, 10477248.693117059, 1, -1, math.nan]
    assert p.tolist() == pytest.approx(wanted, rel=1e-8, nan_ok=True)
    x = tocha.tensor([1e-9, 0.001, 0.3, 3, 50, -1e-4, 0, 1e4], dtype=tocha.float64)
    wanted = [0.99986893129493751, -0.16569533952294186, 0.046527091950970347, -0.10003808980165681]
    wanted += [-50339181.678781459, 210.74335930925041, 1, math.nan]
    assert tocha.special.laguerre_polynomial_l(x, n).tolist() == pytest.approx(wanted, rel=1e-9, nan_ok=True)
    # Just outside (-1, 1) the four kinds of Chebyshev's grow slowly: the formulas continue the recurrences.
    for kind in "tuvw":
        f = getattr(tocha.special, f"chebyshev_polynomial_{kind}")
        for x in (1 + 1e-10, -1 - 1e-10, 0.6):
            at = tocha.tensor(x, dtype=tocha.float64)
            before, last = f(at, n - 2).item(), f(at, n - 1).item()  # by recurrence outside
            assert f(at, n).item() == pytest.approx(2 * x * last - before, rel=1e-6)


def test_lgamma_of_floats_is_rounded_right_also_around_its_zeros():
    zeros = [-2.4570247, -2.7476827, -3.1435809, -3.9552943, -4.0393618, -4.9915447, -6.9998016]
    near = np.concatenate([np.float32(z) + np.arange(-40, 41) * np.spacing(np.float32(z)) for z in zeros])
    spread = np.linspace(-12, 30, 4001)
    x = np.concatenate([near, spread, -np.logspace(-40, 30, 300)]).astype(np.float32)
    want = np.array([math.lgamma(v) if v > 0 or v != math.floor(v) else math.inf for v in x.tolist()])
    got = tocha.from_numpy(x).lgamma().numpy().astype(np.float64)
    finite = np.isfinite(want)
    assert (got[~finite] == math.inf).all()
    got, want = got[finite], want[finite]
    assert (np.abs(got - want) <= 0.52 * np.spacing(np.abs(want).astype(np.float32))).all()


def test_an_element_does_not_depend_on_its_neighbours():
    x = tocha.linspace(-9, 20, 700)
    for name in ("lgamma", "digamma", "sin", "cos"):
        together = getattr(x * (1e6 if name in ("sin", "cos") else 1), name)()
        apart = tocha.stack([getattr(v * (1e6 if name in ("sin", "cos") else 1), name)() for v in x])
        assert together.tolist() == pytest.approx(apart.tolist(), abs=0, nan_ok=True)


def test_in_place_forms_whose_long_way_reads_what_they_write():
    x = tocha.linspace(-9, 20, 700)
    assert x.clone().lgamma_().tolist() == x.lgamma().tolist()


@pytest.mark.parametrize(
    "call", ["pow(a, b, out=a)", "clamp(a, b, out=a)", "div(a, b, rounding_mode='floor', out=a)", "max(a, b, out=a)"]
)
def test_an_operand_is_not_resized(call):
    scope = {"a": tocha.tensor([1.0, 2.0]), "b": tocha.ones(3, 2)}
    with pytest.raises(RuntimeError, match=r"output with shape \[2\] doesn't match the broadcast shape \[3, 2\]"):
        eval(f"tocha.{call}", {"tocha": tocha, **scope})
    assert scope["a"].tolist() == [1.0, 2.0]


def test_memory_that_is_resized_is_read_before():
    a, b = tocha.tensor([1.0, 2.0]), tocha.ones(2, 2)
    with pytest.warns(UserWarning, match="was resized"):
        tocha.add(a, b, out=a[:])
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        tocha.add(a, b, out=tocha.ones(1).expand(3))
    assert a.tolist() == [2.0, 3.0]
