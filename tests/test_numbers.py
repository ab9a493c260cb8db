"""Python numbers on their way into elements: rounding to half types, and refusal of what a dtype cannot hold."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import tocha
from tocha.ir.dtypes import DTYPES
from tocha.operators.held import check_held

INF, NAN = float("inf"), float("nan")


def rounded(x: np.ndarray) -> list:
    return tocha.from_numpy(x.astype(np.float32)).bfloat16().tolist()


def test_products_take_numbers_in_full() -> None:
    x = np.arange(1, 200, dtype=np.float32)
    b = tocha.from_numpy(x).bfloat16()
    x = b.float().numpy()
    assert (b * 0.1).tolist() == (0.1 * b).tolist() == rounded(x * np.float32(0.1))
    assert (b / 0.1).tolist() == rounded(x / np.float32(0.1))
    assert (b * tocha.tensor(0.1)).tolist() == rounded(x * np.float32(0.1))
    assert b.clone().mul_(0.1).tolist() == tocha._foreach_mul([b], 0.1)[0].tolist() == rounded(x * np.float32(0.1))
    assert tocha.lerp(b, b + 1, 0.1).dtype == tocha.bfloat16


def test_other_operators_round_numbers_first() -> None:
    b = tocha.arange(1, 200).bfloat16()
    tenth = tocha.tensor(0.1).bfloat16()
    for f in (operator.add, operator.sub, operator.mod, operator.pow, operator.eq, operator.lt):
        assert f(b, 0.1).tolist() == f(b, tenth).tolist(), f
    assert (b == 257.0).tolist() == (b == 256.0).tolist()
    assert tocha.add(b, b, alpha=0.1).tolist() == tocha.add(b, b, alpha=tenth.item()).tolist()
    whole = tocha.full((199,), 257)  # so are integers that come as a tensor
    assert (b + whole).tolist() == (b + 256.0).tolist()


def test_a_wider_out_gets_rounded_results() -> None:
    b = tocha.linspace(0, 3, 50).bfloat16()
    out = tocha.empty(50)
    assert tocha.exp(b, out=out).tolist() == tocha.exp(b).tolist()


def test_a_number_divided_is_its_product_with_the_reciprocal() -> None:
    x = np.linspace(0.1, 9, 200, dtype=np.float32)
    assert (7 / tocha.from_numpy(x)).tolist() == ((np.float32(1) / x) * np.float32(7)).tolist()
    assert (1 / tocha.tensor([0.0, -0.0, INF])).tolist() == [INF, -INF, 0]
    assert (2 / tocha.tensor([4, 5])).tolist() == (tocha.tensor([4.0, 5.0]).reciprocal() * 2).tolist()
    x = tocha.tensor([2.0], requires_grad=True)
    y = 7 / x
    assert type(y.grad_fn).__name__ == "MulBackward0"
    y += 1
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [-1.75]


FILLS = {
    "full": lambda d, v: tocha.full((1,), v, dtype=d),
    "fill_": lambda d, v: tocha.zeros(1, dtype=d).fill_(v),
    "masked_fill": lambda d, v: tocha.zeros(1, dtype=d).masked_fill(tocha.tensor([True]), v),
    "masked_fill_": lambda d, v: tocha.zeros(1, dtype=d).masked_fill_(tocha.tensor([True]), v),
    "index_fill": lambda d, v: tocha.zeros(1, dtype=d).index_fill(0, tocha.tensor([0]), v),
    "scatter": lambda d, v: tocha.zeros(1, dtype=d).scatter(0, tocha.tensor([0]), v),
}


@pytest.mark.parametrize("f", FILLS.values(), ids=FILLS.keys())
def test_fills_refuse_what_does_not_fit(f) -> None:
    for dtype, number in (
        (tocha.int64, 2**63), (tocha.int64, NAN), (tocha.int64, INF), (tocha.int64, 1e19), (tocha.uint8, 300),
        (tocha.uint8, -0.5), (tocha.uint8, -256), (tocha.int8, 2**64 - 1), (tocha.float32, 1e300),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=r"value cannot be converted to type .* without overflow"):
            f(dtype, number)
    assert f(tocha.int64, 1.9).tolist() == [1]
    assert f(tocha.uint8, -1).tolist() == [255]
    assert f(tocha.bool, NAN).tolist() == [True]
    assert f(tocha.float32, INF).tolist() == [INF]


@pytest.mark.parametrize("f", FILLS.values(), ids=FILLS.keys())
def test_complex_numbers_fill_real_tensors_only_without_an_imaginary_part(f) -> None:
    with pytest.raises(RuntimeError, match=r"without overflow|Converting complex Scalar to non-complex type"):
        f(tocha.float64, 1 + 2j)
    if f is FILLS["index_fill"]:
        with pytest.raises(RuntimeError, match="Converting complex Scalar to non-complex type"):
            f(tocha.float64, 1 + 0j)
    else:
        assert f(tocha.float64, 1 + 0j).tolist() == [1]


def test_names_of_types_in_the_message() -> None:
    for dtype, name in ((tocha.int32, "int"), (tocha.int64, "int64_t"), (tocha.uint8, "uint8_t")):
        with pytest.raises(RuntimeError, match=f"to type {name} without overflow"):
            tocha.full((1,), 2**63, dtype=dtype)


def test_numbers_beyond_half_types_are_refused_and_tensors_round_to_infinity() -> None:
    x = tocha.zeros(2, dtype=tocha.float16)
    assert tocha.full((1,), 1e300, dtype=tocha.float16).tolist() == [INF]
    for refused in (
        lambda: tocha.full((2,), 65510.0, dtype=tocha.float16),
        lambda: x.fill_(1e300),
        lambda: x.masked_fill(tocha.tensor([True, False]), 70000),
    ):
        with pytest.raises(RuntimeError, match="c10::Half without overflow"):
            refused()
    assert tocha.full((2,), 70000.0, dtype=tocha.bfloat16).tolist() == [70144.0, 70144.0]
    assert tocha.where(tocha.tensor([True, False]), x, 70000.0).tolist() == [0.0, INF]
    x[0] = 70000
    x[tocha.tensor([False, True])] = -1e300
    assert x.tolist() == [INF, -INF]


def test_parameters_and_bounds_are_checked_and_operands_wrap() -> None:
    x = tocha.ones(2, dtype=tocha.uint8)
    for refused in (
        lambda: x.clamp(0, 300),
        lambda: x.clamp_(max=300),
        lambda: tocha.where(tocha.tensor([True, False]), x, 300),
        lambda: x.add(x, alpha=300),
        lambda: tocha.nn.functional.threshold(x, 2, 300),
        lambda: tocha.linspace(0, 300, 3, dtype=tocha.uint8),
        lambda: tocha.zeros(1, dtype=tocha.int64).masked_fill(tocha.tensor([True]), tocha.tensor(NAN)),
    ):
        with pytest.raises(RuntimeError, match="value cannot be converted to type"):
            refused()
    assert (x + 300).tolist() == [45, 45]
    assert (x * 300).tolist() == [44, 44]


def same_compiled(f, *args) -> None:
    """A compiled call gives what the uncompiled one does, or is refused as it is."""
    tocha._dynamo.reset()  # or numbers that change from call to call are symbols
    try:
        wanted = f(*[a.clone() for a in args])
    except RuntimeError as e:
        with pytest.raises(RuntimeError, match="value cannot be converted to type") as found:
            tocha.compile(f)(*[a.clone() for a in args])
        assert str(e).partition(" overflow")[0] in str(found.value)
    else:
        tocha.testing.assert_close(tocha.compile(f)(*[a.clone() for a in args]), wanted, equal_nan=True)


WRITES = {
    "fill_": lambda x, v: x.fill_(v),
    "assignment": lambda x, v: x.__setitem__(0, v),
    "masked_fill_": lambda x, v: x.masked_fill_(x == 0, v),
    "masked_fill": lambda x, v: x.masked_fill(x == 0, v),
    "full_like": lambda x, v: tocha.full_like(x, v),
    "new_full": lambda x, v: x.new_full((2,), v),
    "where": lambda x, v: tocha.where(x == 0, x, v),
    "constant_pad_nd": lambda x, v: tocha.constant_pad_nd(x, (1, 1), v),
    "fill_diagonal_": lambda x, v: x.unsqueeze(0).fill_diagonal_(v),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_compiled_writes_refuse_what_does_not_fit(write) -> None:
    for dtype, number in ((tocha.uint8, 300), (tocha.uint8, -1), (tocha.float32, 2j), (tocha.float32, INF), (tocha.int32, 2**40)):  # fmt: skip

        def f(x, number=number):
            return write(x, number), x

        same_compiled(f, tocha.zeros(3, dtype=dtype))


def test_compiled_parameters_and_bounds_are_checked() -> None:
    x = tocha.ones(3, dtype=tocha.uint8)
    for f in (
        lambda x: x.clamp(0, 300),
        lambda x: x.addcmul(x, x, value=300),
        lambda x: x.add(x, alpha=300),
        lambda x: tocha.nn.functional.threshold(x, 2, 300),
        lambda x: x + 300,
    ):
        same_compiled(f, x)
    same_compiled(lambda x: tocha.where(x == 0, x, 70000.0), tocha.zeros(2, dtype=tocha.float16))
    same_compiled(lambda x: x.masked_fill(x == 0, 70000.0), tocha.zeros(2, dtype=tocha.float16))
    same_compiled(lambda x: x.clamp(max=70000.0), tocha.zeros(2, dtype=tocha.float16))


@pytest.mark.parametrize("d", DTYPES, ids=str)
def test_which_numbers_a_dtype_holds(d) -> None:
    """What the interpreter of records says is what kernels do."""
    numbers = [
        0,
        1,
        255,
        256,
        -1,
        -128,
        -255,
        -256,
        2**15,
        2**31,
        -(2**31),
        2**63 - 1,
        -(2**63),
        2**64 - 1,
        0.5,
        448.0,
        449.0,
    ]
    numbers += [
        65504.0,
        65520.0,
        3.39e38,
        3.4e38,
        1e39,
        -1e39,
        2.0**63,
        2.0**64,
        2.0**65,
        1e308,
        INF,
        -INF,
        NAN,
        1j,
        2 + 0j,
        1e39 + 1j,
        -0.5,
    ]
    for number in numbers:
        try:
            tocha.empty(2, dtype=getattr(tocha, d.name.removesuffix("_"))).fill_(number)
        except RuntimeError as e:
            with pytest.raises(RuntimeError) as found:
                check_held(d, number)
            assert str(found.value).partition(":")[0] == str(e).partition(":")[0]
        else:
            check_held(d, number)


def test_assigned_ints_are_int64() -> None:
    x = tocha.zeros(2, dtype=tocha.int64)
    for index in (0, slice(0, 1), tocha.tensor([0])):
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            x[index] = 2**63
    with pytest.raises(RuntimeError, match="without overflow"):
        x[0] = NAN
    assert x.tolist() == [0, 0]


def test_elements_of_floats_may_overflow() -> None:
    assert tocha.tensor([1e300]).tolist() == [INF]
    with pytest.raises(RuntimeError, match="to type uint8 without overflow"):
        tocha.tensor([300], dtype=tocha.uint8)


def test_integrals_of_bytes() -> None:
    y = tocha.tensor([200, 200, 200], dtype=tocha.uint8)
    assert tocha.trapezoid(y, dx=1.0).item() == 528  # the sum of the ends wraps around, the sum of all does not
    assert tocha.trapezoid(tocha.empty(2, 0), dx=2.0).tolist() == [0, 0]


def test_cumulative_trapezoid_halves_before_it_sums():
    y = tocha.tensor([1.9e38, 1e30, 1.9e38, 1e30])
    assert tocha.cumulative_trapezoid(y).isfinite().all()
    assert tocha.cumulative_trapezoid(tocha.tensor([1, 2, 4, 7]), dx=0.5).tolist() == [0.75, 2.25, 5.0]


REAL_NUMBERS = {
    "histc": lambda x, c: tocha.histc(x, 4, min=c, max=9),
    "histc of a top": lambda x, c: tocha.histc(x, 4, min=0, max=c),
    "std": lambda x, c: x.std(correction=c),
    "cond": lambda x, c: tocha.linalg.cond(tocha.eye(2), c),
    "matrix_norm": lambda x, c: tocha.linalg.matrix_norm(tocha.eye(2), c),
    "trapezoid": lambda x, c: tocha.trapezoid(x, dx=c),
    "cumulative_trapezoid": lambda x, c: tocha.cumulative_trapezoid(x, dx=c),
    "rrelu": lambda x, c: tocha.nn.functional.rrelu(x, lower=c),
    "softshrink": lambda x, c: tocha.nn.functional.softshrink(x, c),
    "renorm": lambda x, c: tocha.renorm(x[None], 2, 0, c),
}


@pytest.mark.parametrize("f", REAL_NUMBERS.values(), ids=REAL_NUMBERS.keys())
def test_no_imaginary_part_is_dropped(f) -> None:
    """Where a real number is wanted, a complex one is not taken for its real part."""
    with pytest.raises(RuntimeError, match=r"without overflow|real number|real-valued|non-complex scalar"):
        f(tocha.arange(5.0), 1 + 2j)


def test_complex_steps_of_a_gradient() -> None:
    x = tocha.tensor([0.0, 1.0, 4.0, 9.0])
    for spacing in (1 + 2j, [1 + 2j]):
        (found,) = tocha.gradient(x, spacing=spacing)
        (plain,) = tocha.gradient(x)
        assert tocha.allclose(found, plain / (1 + 2j))


@pytest.mark.parametrize("p", [1 + 2j, 2j, 0j, 2 - 1j])
def test_gradients_of_complex_powers(p) -> None:
    """Eager, and in steps that others see; the second derivative as well."""
    x = tocha.tensor([0.5 + 1j, 2.0, -1.5j], dtype=tocha.complex128, requires_grad=True)
    assert tocha.autograd.gradcheck(lambda t: t**p, (x,))
    assert tocha.autograd.gradgradcheck(lambda t: t**p, (x,))
    (want,) = tocha.autograd.grad((x**p).abs().sum(), x)
    seen = tocha.compile(lambda t: (t**p).abs().sum(), backend="aot_eager")
    assert tocha.allclose(tocha.autograd.grad(seen(x), x)[0], want)
