"""Differences that random programs found (fuzz_known.py), one minimal program each; PyTorch is the judge."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tocha


def answer(lib: Any, program: Callable[[Any], Any]) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return str(program(lib))
        except Exception as e:
            return type(e).__name__


def same(program: Callable[[Any], Any]) -> None:
    assert answer(tocha, program) == answer(torch, program)


def first(lib: Any, x: list[Any], f: Callable[[Any], Any]) -> list[Any]:
    leaf = lib.tensor(x, requires_grad=True)
    f(leaf).sum().backward()
    return [round(v, 4) for v in leaf.grad.reshape(-1).tolist()]


def written_over(y: Any) -> Any:
    y.mul_(2)
    return y


@pytest.mark.parametrize("exponent", [0.5, -0.5, -1, -2, 2, 3, 1, 0, 0.25, 5, -3])
def test_a_power_may_be_written_over(exponent: float) -> None:
    same(lambda m: first(m, [1.0, 2.0], lambda x: written_over(x**exponent)))


@pytest.mark.parametrize("exponent", [0.5, -0.5, -1, -2, 4, 5, -3])
def test_a_power_keeps_its_base(exponent: float) -> None:
    def program(m: Any) -> Any:
        x = m.tensor([1.0, 2.0], requires_grad=True)
        base = x * 1
        y = base**exponent
        base.fill_(3)
        y.sum().backward()
        return x.grad.tolist()

    same(program)


@pytest.mark.parametrize("exponent", [0.5, -0.5, -1, -2, 4, 5, -3])
@pytest.mark.parametrize("value", [0.0, 4.0, -4.0, math.inf, math.nan, 1 + 2j])
def test_derivatives_of_powers(exponent: float, value: complex) -> None:
    def program(m: Any) -> Any:
        x = m.tensor([value], requires_grad=True)
        (g,) = m.autograd.grad((x**exponent).sum(), x, create_graph=True)
        (h,) = m.autograd.grad(g.sum(), x)
        parts = [m.view_as_real(v.resolve_conj()) if v.is_complex() else v for v in (g.detach(), h)]
        return [f"{v + 0.0:.3g}" for p in parts for v in p.reshape(-1).tolist()]

    same(program)


@pytest.mark.parametrize("name", ["max", "min", "median", "nanmedian"])
def test_nan_reaches_only_the_chosen_element(name: str) -> None:
    same(lambda m: first(m, [[-2.0], [3.0], [-5.0]], lambda x: getattr(x, name)() * math.nan))


@pytest.mark.parametrize("correction", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("name", ["var", "std"])
def test_gradient_without_degrees_of_freedom(name: str, rows: int, correction: int) -> None:
    data = [[1.0, 2.0], [3.0, 1.0]][:rows]
    same(lambda m: [v + 0.0 for v in first(m, data, lambda x: getattr(x, name)(0, correction=correction))])


def test_a_saved_input_that_was_detached_in_place() -> None:
    def program(m: Any) -> Any:
        x = m.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        z = y * y
        y.detach_()
        z.sum().backward()
        return x.grad.tolist()

    assert answer(torch, program) == "RuntimeError"
    same(program)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("n", [1, 3, 8, 17, 40])
def test_low_bytes_of_floats_that_do_not_fit(dtype: str, n: int) -> None:
    values = ([300.0, -1.0, 1e10, -1e10, 3e9, 1e20, -300.5, math.inf, -math.inf, math.nan] * 4)[:n]
    same(lambda m: m.tensor(values).to(getattr(m, dtype)).to(m.uint8).tolist())


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (3,)])
@pytest.mark.parametrize(
    "name, dtype", [("softmax", "int64"), ("log_softmax", "bool"), ("cummax", "complex64"), ("cummin", "complex64")]
)
def test_no_elements_have_no_wrong_dtype(name: str, dtype: str, shape: tuple[int, ...]) -> None:
    same(lambda m: getattr(m.zeros(shape, dtype=getattr(m, dtype)), name)(0)[0].numel())


def test_patches_of_one_picture_are_no_view() -> None:
    def program(m: Any) -> Any:
        x = m.arange(12.0).view(1, 3, 4).requires_grad_()
        columns = m.nn.functional.unfold(x, 2)
        columns[:, 1:] += 0.5
        picture = m.nn.functional.fold(columns, (3, 4), 2)
        picture[..., 1:] *= 2
        picture.sum().backward()
        return picture._is_view(), x.grad.tolist()

    same(program)


@pytest.mark.parametrize("dtypes", [("complex64", "complex64"), ("float32", "float32"), ("complex64", "int64")])
def test_layout_of_ldexp(dtypes: tuple[str, str]) -> None:
    def program(m: Any) -> Any:
        exponents = m.ones(2, 2, 3).to(getattr(m, dtypes[1])).permute(2, 1, 0)
        return m.ldexp(m.ones(1).to(getattr(m, dtypes[0])), exponents).stride()

    same(program)


def test_rms_norm_of_complex_numbers_is_contiguous() -> None:
    same(lambda m: m.nn.functional.rms_norm(m.ones(4, 3, dtype=m.complex64).t(), (4,)).stride())


@pytest.mark.parametrize("order", [math.inf, -math.inf])
@pytest.mark.parametrize("dim", [None, -2, -1])
def test_extreme_norms_of_complex_numbers(order: float, dim: int | None) -> None:
    """The norm and abs() round differently: no element need be equal to its norm."""

    def program(m: Any) -> Any:
        parts = m.arange(240.0, dtype=m.float64).mul(0.37).sin().view(40, 1, 3, 2)
        leaf = m.view_as_complex(parts).requires_grad_()
        factors = m.view_as_complex(m.arange(30.0, dtype=m.float64).mul(0.73).cos().view(3, 5, 2))
        m.norm(leaf.matmul(factors), order, dim=dim, keepdim=True).sum().backward()
        return [round(v, 6) + 0.0 for v in m.view_as_real(leaf.grad).reshape(-1).tolist()]

    same(program)


@pytest.mark.parametrize("order", [1, 2, 3, 0, 0.5, -1, math.inf])
@pytest.mark.parametrize(
    "shape, dim", [((1, 3), 0), ((3, 1), -1), ((1,), None), ((), None), ((1, 3), None), ((1, 1, 3), (0, 1))]
)
def test_the_norm_of_a_single_element_does_not_overflow(order: float, shape: tuple[int, ...], dim: Any) -> None:
    def program(m: Any) -> Any:
        x = m.tensor([1e30, -3.0, 2e-30])[: math.prod(shape)].view(shape)
        return [f"{v:.5g}" for v in m.linalg.vector_norm(x, order, dim).reshape(-1).tolist()]

    same(program)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("shape", [(), (1,), (0,)])
@pytest.mark.parametrize("dtype", ["complex64", "bool", "float32"])
def test_an_extreme_of_one_number(name: str, shape: tuple[int, ...], dtype: str) -> None:
    def program(m: Any) -> Any:
        values, indices = getattr(m.ones(shape, dtype=getattr(m, dtype)), name)(-1)
        return values.tolist(), indices.tolist()

    same(program)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_slope_of_logit_at_its_ends(sign: float) -> None:
    same(lambda m: first(m, [0.0, -0.0, 1.0, 0.5, 2.0, -1.0], lambda x: x.logit() * sign))


@pytest.mark.parametrize("weight", ["float16", "float32", "float64", "complex64", "int64", None])
@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool"])
def test_integers_mixed_by_a_number_in_a_tensor(dtype: str, weight: str | None) -> None:
    def program(m: Any) -> Any:
        a, b = (m.tensor(v).to(getattr(m, dtype)) for v in ([1, 2, 10], [5, 6, 0]))
        mixed = m.lerp(a, b, 0.5 if weight is None else m.tensor(0.5).to(getattr(m, weight)))
        return mixed.tolist(), str(mixed.dtype).partition(".")[2]

    same(program)


@pytest.mark.parametrize("grad", [math.inf, -math.inf, 0.0, 2.0])
@pytest.mark.parametrize("name", ["silu", "sinc"])
def test_an_infinite_gradient_stays_one(name: str, grad: float) -> None:
    def program(m: Any) -> Any:
        x = m.tensor([0.0, -0.0, -1.0, 3.0, -3.0, 0.5, 100.0, 1.0], requires_grad=True)
        y = (getattr(m, name, None) or getattr(m.nn.functional, name))(x)
        (found,) = m.autograd.grad(y, x, m.full_like(x, grad).detach())
        return [round(v, 4) + 0.0 for v in found.tolist()]

    same(program)


@pytest.mark.parametrize("correction", [0, 1, 2, 5])
@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
def test_spread_of_one_number_along_a_dim(name: str, correction: int) -> None:
    def program(m: Any) -> Any:
        x = m.tensor(3.0, requires_grad=True)
        found = getattr(m, name)(x, -1, correction=correction)
        sum(found).backward() if isinstance(found, tuple) else found.backward()
        return x.grad.item()

    same(program)


@pytest.mark.parametrize("repeats", [1, 3, 8, 9])
@pytest.mark.parametrize("order", [2, 1, 3])
@pytest.mark.parametrize("number", [complex(math.nan, math.inf), complex(math.inf, 1), complex(math.nan, 1), 3 + 4j])
def test_norm_of_complex_infinities(number: complex, order: float, repeats: int) -> None:
    same(lambda m: round(m.linalg.vector_norm(m.tensor([number] * repeats), order).item(), 3))


SHAPES = [
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
    ((2, 3), (3, 0)),
    ((0, 2, 3), (3, 4)),
    ((2, 2, 0), (2, 0, 4)),
    ((2, 0), (0,)),
]


@pytest.mark.parametrize("shapes", [*SHAPES, ((2, 3), (3, 2)), ((0,), (0,)), ((3,), (3,))], ids=str)
@pytest.mark.parametrize("name", ["matmul", "linear", "inner", "mm", "mv", "bmm"])
def test_products_of_nothing_in_bool(name: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    def program(m: Any) -> Any:
        a, b = (m.zeros(s, dtype=m.bool) for s in shapes)
        if name in ("linear", "inner") and b.ndim > 1:
            b = b.mT
        found = m.nn.functional.linear(a, b) if name == "linear" else getattr(m, name)(a, b)
        return tuple(found.shape), str(found.dtype).partition(".")[2], found.tolist()

    same(program)


ODD = [((1, 2, 1, 1), (2, 1, 10, 10)), ((3, 1), (1, 10)), ((1, 1, 1, 3), (1, 2, 3, 2)), ((2, 1, 3), (3, 7, 1))]


@pytest.mark.parametrize("geometry", ODD, ids=str)
@pytest.mark.parametrize(
    "f",
    [
        lambda m, x: x <= 0,
        lambda m, x: x + m.tensor(1.0),
        lambda m, x: 2 - x,
        lambda m, x: x.exp(),
        lambda m, x: x + x,
        lambda m, x: m.where(x > 0, x, 0.0),
        lambda m, x: x * m.ones(x.shape, dtype=m.float64),
        lambda m, x: (x <= 0)[..., None] | (x > 0)[..., None, :],
    ],
)
def test_strides_of_dims_of_size_one(
    f: Callable[[Any, Any], Any], geometry: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    same(lambda m: f(m, m.arange(1.0, 60.0).as_strided(*geometry)).stride())


@pytest.mark.parametrize("dim", [1, -2, 0, None])
@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_a_quantile_along_a_dim_that_is_not_there(name: str, dim: int | None) -> None:
    same(lambda m: getattr(m.tensor(2.0), name)(0.5, dim).tolist())


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [None, 0, 1, -1])
@pytest.mark.parametrize("q", [0.5, [0.5], [0.1, 0.2, 0.3]], ids=str)
@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "nearest", "midpoint"])
def test_quantiles_are_no_views(interpolation: str, q: Any, dim: int | None, keepdim: bool) -> None:
    def program(m: Any) -> Any:
        x = m.tensor([[1.0, 5.0, 2.0, 7.0], [3.0, 4.0, 0.0, 6.0]])
        found = m.quantile(x, m.tensor(q), dim, keepdim, interpolation=interpolation)
        return found.tolist(), found.stride(), found._is_view()

    same(program)


@pytest.mark.parametrize("shape", [(0, 3), (2, 3)], ids=str)
def test_products_that_bools_have_not(shape: tuple[int, ...]) -> None:
    same(lambda m: m.linalg.cross(*[m.ones(shape, dtype=m.bool)] * 2).tolist())
    same(lambda m: m.tensordot(*[m.ones(shape, dtype=m.bool)] * 2).tolist())
    same(lambda m: m.tensordot(*[m.ones(shape, dtype=m.int64)] * 2).tolist())


@pytest.mark.parametrize("geometry", [((1, 2), (1, 1)), ((1, 1, 2), (3, 5, 1)), ((2, 2), (1, 1)), ((0, 2), (1, 1))])
def test_odd_strides_of_dims_of_size_one_are_no_matter_to_complex_views(geometry: Any) -> None:
    same(lambda m: m.view_as_complex(m.arange(20.0).as_strided(*geometry)).stride())


@pytest.mark.parametrize("name", ["asin", "acos", "asinh", "acosh", "atan"])
@pytest.mark.parametrize("value", [1e30 - 2j, 1e20 + 1j, -1e30 + 1j, 2 - 0.5j], ids=str)
def test_derivatives_of_inverse_functions_far_out(name: str, value: complex) -> None:
    def program(m: Any) -> Any:
        x = m.tensor(value, dtype=m.complex64, requires_grad=True)
        getattr(m, name)(x).real.backward()
        return bool(m.isfinite(x.grad))

    same(program)


FORMATS = ["channels_last", "contiguous_format", "preserve_format"]
GEOMETRIES = [
    ((2, 3, 4, 4), (48, 1, 12, 3)),
    ((2, 3, 4, 4), (48, 16, 4, 1)),
    ((2, 1, 3, 3), (9, 9, 3, 1)),
    ((2, 1, 3, 3), (9, 1, 3, 1)),
    ((4, 3, 1, 1), (3, 1, 1, 1)),
    ((4, 3, 1, 1), (3, 1, 3, 3)),
    ((1, 1, 1, 1), (7, 1, 1, 1)),
    ((0, 3, 2, 2), (12, 1, 6, 3)),
    ((2, 3, 4, 5), (60, 20, 1, 4)),
]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("name", FORMATS)
def test_to_a_memory_format(name: str, geometry: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    def program(m: Any) -> Any:
        x = m.arange(120.0).as_strided(*geometry)
        ways = [x.to(memory_format=getattr(m, name)), x.to(m.float32, memory_format=getattr(m, name))]
        return [(y is x, y.stride()) for y in ways]

    same(program)


def test_to_the_contiguous_format_leaves_a_matrix_as_it_is() -> None:
    same(lambda m: m.zeros(2, 3).T.to(memory_format=m.contiguous_format).stride())


@pytest.mark.parametrize("array", [np.zeros((3, 2)).T, np.zeros((0, 3)), np.zeros((4, 6))[:, ::2]], ids=str)
def test_a_tensor_lies_as_the_array_does_that_it_copies(array: Any) -> None:
    same(lambda m: m.tensor(array).stride())
    same(lambda m: m.tensor(array, dtype=m.float32).stride())


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)], ids=str)
@pytest.mark.parametrize("shape", [(1, 5, 1), (3, 1, 2), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_how_powers_of_two_lie(shape: tuple[int, ...], order: tuple[int, ...], dtype: str) -> None:
    def program(m: Any) -> Any:
        x = m.zeros(shape, dtype=getattr(m, dtype))
        n = m.zeros(shape).permute(order)
        n = n if n.shape == x.shape else n[:1, :1]
        return m.ldexp(x, n).stride(), (2.0**n).stride(), m.pow(2, n).stride()

    same(program)


IN_PLACE_VIEWS = {
    "t_": lambda y: y.t_(),
    "transpose_": lambda y: y.transpose_(0, 1),
    "unsqueeze_": lambda y: y.unsqueeze_(0),
    "squeeze_": lambda y: y.unsqueeze(0).squeeze_(0),
    "several": lambda y: y.unsqueeze_(0).transpose_(0, -1).squeeze_(-1),
    "of a view": lambda y: y[:, 1:].t_(),
    "detach_": lambda y: y.detach_(),
}


@pytest.mark.parametrize("name", IN_PLACE_VIEWS)
def test_tangents_follow_views_in_place(name: str) -> None:
    def program(m: Any) -> Any:
        x = m.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])

        def f(a: Any) -> Any:
            return IN_PLACE_VIEWS[name](a * a)

        def along(a: Any) -> Any:
            return m.func.jvp(f, (a,), (m.ones_like(a),))[1]

        with m.autograd.forward_ad.dual_level():
            moved = m.autograd.forward_ad.unpack_dual(f(m.autograd.forward_ad.make_dual(x, m.ones_like(x))))
        return (
            None if moved.tangent is None else moved.tangent.tolist(),
            along(x).tolist(),
            m.func.jacfwd(f)(x).tolist(),
            m.vmap(along)(m.stack([x, x + 1])).tolist(),
            m.func.jvp(along, (x,), (m.ones_like(x),))[1].tolist(),
        )

    same(program)


@pytest.mark.parametrize("grad", [math.nan, math.inf, 2.0])
@pytest.mark.parametrize("value", [0.0, -0.0, 2.0, math.nan])
def test_copysign_passes_nan_on(value: float, grad: float) -> None:
    def program(m: Any) -> Any:
        x = m.tensor([value], requires_grad=True)
        m.copysign(x, m.tensor([-1.0])).backward(m.tensor([grad]))
        return x.grad.tolist()

    same(program)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int64", "uint8"])
@pytest.mark.parametrize("start", [2.5, -1.3, 0.123456789, 1])
def test_one_power_of_the_number_that_was_given(start: float, dtype: str) -> None:
    same(lambda m: m.logspace(start, 5, 1, dtype=getattr(m, dtype)).tolist())


def test_a_step_that_rounds_to_zero() -> None:
    same(lambda m: m.arange(0.5, 3.5, 0.25, dtype=m.int64).tolist())


@pytest.mark.parametrize("base", ["float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("value", [-2.0, 2.0, 0.0])
def test_the_logarithm_of_a_real_base_is_as_precise_as_its_power(base: str, value: float) -> None:
    def program(m: Any) -> Any:
        exponent = m.tensor([1 + 2j], dtype=m.complex128, requires_grad=True)
        power = m.pow(m.tensor([value], dtype=getattr(m, base)), exponent)
        m.view_as_real(power).sum().backward()
        return [round(v, 12) for v in m.view_as_real(exponent.grad).reshape(-1).tolist()]

    same(program)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("sizes", [(2, 0, 3), (0, 2, 3), (2, 3, 0), (2, 3, 0, 3)], ids=str)
@pytest.mark.parametrize("name", ["instance_norm", "batch_norm"])
def test_normalisation_of_nothing(name: str, sizes: tuple[int, ...], own: bool, running: bool, affine: bool) -> None:
    def program(m: Any) -> Any:
        c = sizes[1]
        parameters = [m.ones(c, requires_grad=True), m.ones(c, requires_grad=True)] if affine else [None, None]
        statistics = [m.zeros(c), m.ones(c)] if running else [None, None]
        x = m.zeros(sizes, requires_grad=True)
        y = getattr(m, name)(x, *parameters, *statistics, own, 0.1, 1e-5, True)
        y.sum().backward()
        grads = [p.grad.tolist() for p in parameters] if affine else []
        return y.tolist(), x.grad.tolist(), grads, [t.tolist() for t in statistics if t is not None]

    same(program)


@pytest.mark.parametrize("dtype", ["int64", "int32", "float32", "bool", "uint8"])
@pytest.mark.parametrize("name", ["scatter", "scatter_add", "scatter_reduce"])
def test_an_index_of_nothing_may_have_any_dtype(name: str, dtype: str) -> None:
    extra = ("sum",) if name == "scatter_reduce" else ()
    same(lambda m: getattr(m.ones(3), name)(0, m.zeros(0, dtype=getattr(m, dtype)), m.ones(3), *extra).tolist())


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (2, 0, 3), (0, 2, 3), (0,), (0, 3, 3)], ids=str)
def test_cholesky_of_nothing(sizes: tuple[int, ...]) -> None:
    same(lambda m: (lambda y: (tuple(y.shape), y.stride()))(m.cholesky(m.ones(sizes))))


@pytest.mark.parametrize("value", [1e3, 1e5, 1e8, 1e15, 1e30])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_derivatives_of_erfcx_far_out(dtype: str, value: float) -> None:
    x = tocha.tensor(value, dtype=getattr(tocha, dtype), requires_grad=True)
    (slope,) = tocha.autograd.grad(tocha.special.erfcx(x), x, create_graph=True)
    (bend,) = tocha.autograd.grad(slope, x)
    root = math.sqrt(math.pi)
    near = {"rel": 1e-5, "abs": 1e-38}
    assert slope.item() == pytest.approx(-1 / (root * value**2), **near)
    assert bend.item() == pytest.approx(2 / (root * value**3), **near)


def test_derivatives_of_erfcx_meet() -> None:
    x = tocha.tensor([25.0, 25.0 + 1e-9], dtype=tocha.float64, requires_grad=True)
    (slope,) = tocha.autograd.grad(tocha.special.erfcx(x).sum(), x, create_graph=True)
    (bend,) = tocha.autograd.grad(slope.sum(), x)
    assert slope[0].item() == pytest.approx(slope[1].item(), rel=1e-9)
    assert bend[0].item() == pytest.approx(bend[1].item(), rel=1e-7)


@pytest.mark.parametrize("y", [(3, 1), (2, 4), (4,), (1, 3, 2, 2)], ids=str)
@pytest.mark.parametrize("x", [(1, 2, 1, 1), (2, 3), (3, 4), (2, 4)], ids=str)
@pytest.mark.parametrize("dim", [-1, 0])
@pytest.mark.parametrize("name", ["trapezoid", "cumulative_trapezoid"])
def test_trapezoids_of_points_in_more_dims(name: str, y: tuple[int, ...], x: tuple[int, ...], dim: int) -> None:
    def program(m: Any) -> Any:
        points = m.arange(float(math.prod(x))).reshape(x)
        return getattr(m, name)(m.arange(float(math.prod(y))).reshape(y), points, dim=dim).tolist()

    same(program)


def test_view_copy_of_what_no_view_shows() -> None:
    same(lambda m: m.view_copy(m.arange(6).reshape(2, 3).t(), (-1,)).tolist())


NUMBERS = {
    "clamp": lambda m, x: x.clamp(0, 1),
    "clamp_min": lambda m, x: x.clamp_min(0),
    "clamp by a tensor": lambda m, x: m.clamp(x, min=m.tensor(0.0)),
    "lerp": lambda m, x: m.lerp(x, x, 0.5),
    "pow": lambda m, x: x.abs() ** 2.7,
    "mul": lambda m, x: x * 2,
}


@pytest.mark.parametrize("geometry", [((1, 3, 1, 5), (1, 1, 3, 3)), ((1, 1, 4, 5), (1, 9, 5, 1)), ((2, 1, 3, 1), (3, 7, 1, 2))], ids=str)  # fmt: skip
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_are_parameters_do_not_count_for_the_layout(name: str, geometry: Any) -> None:
    same(lambda m: NUMBERS[name](m, m.arange(40.0).as_strided(*geometry)).stride())


@pytest.mark.parametrize("dims", [(0, 3, 1, 2), (0, 2, 3, 1), (1, 0, 2, 3)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rms_norm_keeps_channels_last(dtype: str, dims: tuple[int, ...]) -> None:
    def program(m: Any) -> Any:
        x = m.arange(120.0).reshape(2, 3, 4, 5).permute(dims).to(getattr(m, dtype))
        y = m.nn.functional.rms_norm(x, x.shape[-1:], m.full(x.shape[-1:], 2.0, dtype=x.dtype))
        return y.stride(), [round(v, 2) for v in y.float().reshape(-1).tolist()]

    same(program)


def test_logaddexp_of_far_complex_numbers() -> None:
    def program(m: Any) -> Any:
        x = m.tensor([69.0 + 0j, 1e30 + 0j], requires_grad=True)
        m.logaddexp(x, x.flip(0)).real.sum().backward()
        return x.grad.tolist()

    same(program)


def test_layouts_beside_conjugates() -> None:
    def program(m: Any) -> Any:
        x = m.ones(1, 33, 1, 5, dtype=m.complex64).permute(3, 0, 1, 2)
        negated = m.ones(3, 4, dtype=m.complex64).conj().imag
        scattered = m.slice_scatter(negated, m.ones(2, 4), 0, 1)
        return (x + x.adjoint().expand(5, 3, -1, 33)).stride(), scattered.stride(), scattered.is_neg()

    same(program)


@pytest.mark.parametrize("exponent", [2, 3, 0.5, -1, -2, 1, 0, 2 + 0j])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int64"])
def test_powers_in_double_precision_of_one_number(exponent: complex, dtype: str) -> None:
    def program(m: Any) -> Any:
        x = m.tensor([1.3, 0.7, 2.9], dtype=m.float64)
        x = (m.complex(x * 0, x) if dtype.startswith("complex") else x).to(getattr(m, dtype))
        return m.float_power(x, exponent).numpy().round(13).tolist()  # PyTorch's roots are a unit off on x86-64

    same(program)


@pytest.mark.parametrize("exponent", [0j, 1 + 0j, 2 + 0j, 3 + 0j, 0.5 + 0j, -1 + 0j, -0.5 + 0j, -2 + 0j])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_exponents_that_are_real(exponent: complex, dtype: str) -> None:
    def program(m: Any) -> Any:
        x = m.tensor([1.3, 0.7, 2.9], dtype=m.float64)
        return (m.complex(x * 0, x).to(getattr(m, dtype)) ** exponent).tolist()

    same(program)


def rounded(t: Any) -> list[complex]:
    return [complex(round(z.real, 2) + 0.0, round(z.imag, 2) + 0.0) for z in t.reshape(-1).tolist()]


@pytest.mark.parametrize("part", [0, 1, 2, 3, 0.5, -1, -0.5, -2])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_exponents_with_an_imaginary_part_are_not_their_real_part(part: float, dtype: str) -> None:
    def program(m: Any) -> Any:
        x = m.tensor([1 + 2j, 0.3 - 1j], dtype=getattr(m, dtype), requires_grad=True)
        y = x ** complex(part, 2)
        y.abs().sum().backward()
        return rounded(y), rounded(x.grad), rounded(x.detach().clone().pow_(complex(part, 2)))

    same(program)


@pytest.mark.parametrize("name", ["addmm", "addbmm", "baddbmm", "addmv", "addr", "add", "sub"])
@pytest.mark.parametrize("factor", [1 + 2j, 2j, 1 + 0j])
def test_complex_factors_are_not_their_real_part(name: str, factor: complex) -> None:
    def program(m: Any) -> Any:
        shapes = {"addmm": [(2, 2)] * 3, "addbmm": [(2, 2), (3, 2, 2), (3, 2, 2)], "baddbmm": [(3, 2, 2)] * 3}
        shapes |= {"addmv": [(2,), (2, 2), (2,)], "addr": [(2, 2), (2,), (2,)]}
        given = [
            m.complex(m.arange(math.prod(s)) - 2.0, m.arange(math.prod(s)) * 0.5).reshape(s).requires_grad_()
            for s in shapes.get(name, [(2, 2)] * 2)
        ]
        rest = {"beta": factor} if name in shapes else {}
        y = getattr(m, name)(*given, alpha=factor, **rest)
        y.abs().sum().backward()
        return rounded(y), [rounded(g.grad) for g in given]

    same(program)


@pytest.mark.parametrize("exponents", ["bfloat16", "float16", "float32", "float64", "int64", "complex64"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("dims", [0, 1])
def test_complex_numbers_times_powers_of_two(dtype: str, exponents: str, dims: int) -> None:
    def program(m: Any) -> Any:
        x = m.tensor([1 + 2j, 0.3 - 1j], dtype=getattr(m, dtype))
        other = m.tensor([1.3, 2.7]).to(getattr(m, exponents))
        result = m.ldexp(x, other if dims else other[0])
        return result.dtype.itemsize, rounded(result)

    same(program)
