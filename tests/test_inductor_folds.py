"""Compiled folds: vectors of every type, states in registers across rows, searches by blocks; values are eager's."""

from __future__ import annotations

import math

import pytest

import tocha
import tocha.nn.functional as F
from tests.test_inductor_kernels import compiled, randn
from tocha._dynamo.testing import CompileCounterWithBackend
from tocha._inductor.utils import run_and_get_code
from tocha.ir import symbolic as s
from tocha.ir.kernels import refine
from tocha.testing import assert_close

pytestmark = pytest.mark.usefixtures("kernel_cache")

OTHERS = [tocha.float64, tocha.int64, tocha.int32, tocha.uint8, tocha.bool, tocha.bfloat16, tocha.float16]
LENGTHS = [*((n, tocha.float32) for n in (1, 9, 17, 130, 1030)), *((n, t) for t in OTHERS for n in (17, 1030))]
WIDTHS = [*((n, tocha.float32) for n in (3, 5, 64, 200, 513, 700)), *((n, t) for t in OTHERS[:3] for n in (5, 513))]


def values(*shape: int, dtype: tocha.dtype, seed: int = 0) -> tocha.Tensor:
    """Few different values, so that there are ties."""
    x = (randn(*shape, seed=seed) * 3).round()
    return x.abs().to(dtype) if dtype is tocha.uint8 else x.to(dtype)


@pytest.mark.parametrize(("n", "dtype"), LENGTHS)
def test_extremes_and_their_places_of_every_length(n, dtype):
    x, y = values(3, n, dtype=dtype), values(n, 5, dtype=dtype)
    compiled(lambda x, y: (x.max(-1), y.min(0), x.amax(), y.amin(0)), x, y, exact=True)
    if dtype is not tocha.bool:
        compiled(lambda x, y: (x.argmin(-1), y.argmax(0), x.amin(-1), x.amax(-1)), x, y, exact=True)


@pytest.mark.parametrize(("n", "dtype"), LENGTHS)
def test_truths_of_every_length(n, dtype):
    x, y = values(5, n, dtype=dtype), values(n, 5, dtype=dtype)
    x[0, 0] = y[0, 0] = 0
    rows = lambda x: (x.any(-1), (x > 1).all(), (x > 1).any(-1), x.count_nonzero())  # noqa: E731
    columns = lambda y: (y.all(0), (y < 9).any(0), y.count_nonzero(0), y.any(0))  # noqa: E731
    compiled(lambda x, y: (*rows(x), *columns(y)), x, y, exact=True)


@pytest.mark.parametrize(("width", "dtype"), WIDTHS)
def test_folds_across_rows_of_every_width(width, dtype):
    x, y = values(37, width, dtype=dtype), values(36, width, dtype=dtype)
    compiled(lambda x, y: (x.sum(0), *y.aminmax(dim=0)), x, y, exact=True)
    compiled(lambda x: (x.amax(0), x.amin(0), (x != 0).any(0), (x != 0).all(0)), x, exact=True)


def test_sums_of_the_greatest_integers_wrap():
    x = tocha.full((3, 70), 2**63 - 1, dtype=tocha.int64)
    x[1] = -(2**63)
    compiled(lambda x: (x.sum(-1), x.amax(-1), x.amin(-1), x.abs().amax(-1), (-x).amin(-1)), x, exact=True)
    compiled(lambda x: (x.argmax(-1), x.argmin(-1), x.max(0), x.min(0)), x, exact=True)


def test_places_where_nothing_beats_the_start():
    for low in (-math.inf, math.nan):
        x = tocha.full((2, 600), low)
        compiled(lambda x: (x.max(-1), x.argmax(0)), x, exact=True)
        compiled(lambda x: ((-x).min(-1), (-x).argmin(0)), x, exact=True)
    x = tocha.full((2, 600), -(2**63), dtype=tocha.int64)
    compiled(lambda x: x.max(-1), x, exact=True)


@pytest.mark.parametrize("dtype", [tocha.float32, tocha.float64, tocha.bfloat16])
def test_the_first_nan_is_found_in_every_block(dtype):
    x = randn(9, 1030)
    for row, at in enumerate((0, 3, 15, 16, 511, 512, 1024, 1029)):
        x[row, at] = x[row, min(at + 7, 1029)] = math.nan
    x = x.to(dtype)
    compiled(lambda x: (x.argmax(-1), x.argmin(-1)), x, exact=True)
    compiled(lambda x: x.max(-1), x, exact=True)
    compiled(lambda x: (x * 2).argmax(-1), x, exact=True)
    compiled(lambda x: (x.amax(-1), x.amin(-1)), x, exact=True)


def test_a_place_belongs_to_its_value():
    x = tocha.zeros(2, 64)
    x[0, ::2] = -0.0
    x[1, 1::2] = -0.0
    value, place = tocha.compile(lambda x: x.max(-1))(x)
    assert tocha.equal(value.signbit(), x.gather(-1, place[:, None])[:, 0].signbit())


def test_folds_of_several_dims_and_all_of_them():
    x = values(6, 5, 70, dtype=tocha.float32)
    compiled(lambda x: (x.amax((0, 2)), x.any(-1).all(0)), x, exact=True)
    compiled(lambda x: (x.sum((0, 1)), x.amin((0, 1))), x, exact=True)
    compiled(lambda x: x.argmax(), x, exact=True)
    compiled(lambda x: x.argmax(), randn(300, 500), exact=True)
    compiled(lambda x: x.logsumexp((0, 1)), x)


@pytest.mark.parametrize("width", [5, 16, 100])
def test_dear_folds_across_rows(width):
    x = randn(50, width)
    x[:, 0] = -math.inf
    x[3, 1] = math.inf
    x[4, 2] = math.nan
    assert ("vec::Pack" in compiled(lambda x: x.logsumexp(0), x).source) is (width > 1)
    compiled(lambda x: x.double().logsumexp(0), x)


def test_what_folds_go_by():
    def source(f, dtype, *shape):
        return compiled(f, values(*shape, dtype=dtype), exact=True).source

    assert "vec::I64 " in source(lambda x: x.sum(-1), tocha.int64, 20, 64)
    assert "vec::I32 " in source(lambda x: x.amax(-1), tocha.int32, 20, 64)
    assert "vec::truths" in source(lambda x: x.any(-1), tocha.bool, 20, 64)
    assert "vec::I32 " in source(lambda x: (x > 0).any(-1), tocha.float32, 20, 64)
    for f in (lambda x: x.max(-1), lambda x: (x * 2).argmin(-1)):
        text = source(f, tocha.float32, 20, 64)
        assert "vec::any(" in text and "kLanes" not in text
    for f in (lambda x: x.amax(0), lambda x: (x * 2).sum(0), lambda x: (x > 0).all(0)):
        assert "vec::kGroup" in source(f, tocha.float32, 64, 128)


def test_a_fold_that_one_thread_does_is_not_cut():
    assert len(compiled(lambda x: x.sum(), randn(20000)).kernels) == 1
    assert len(compiled(lambda x: x.sum(), randn(200000)).kernels) == 2


@pytest.mark.parametrize("dtype", [tocha.float16, tocha.bfloat16])
@pytest.mark.parametrize("shape", [(4, 1024), (3, 77), (70000,)])
def test_small_floats_are_folded_as_they_are_read(shape, dtype):
    x = (randn(*shape) * 3).to(dtype)
    for fold in (tocha.Tensor.sum, tocha.Tensor.amax, tocha.Tensor.amin):
        code = compiled(lambda x, fold=fold: fold(x, -1), x).source
        assert "row_strip" not in code and "vec::load(p" in code


def test_extremes_of_states_take_their_short_form():
    assert "vec::highest(" in compiled(lambda x: x.amax(1), randn(8, 1024), exact=True).source


@pytest.mark.parametrize("width", [3, 8, 40])
def test_sums_of_pairs_go_across_the_coordinates_that_lie_side_by_side(width):
    """The largest operand has one number for each pair: it is not what the fold goes along."""
    x, y, weights = randn(30, width), randn(50, width, seed=1), randn(30, 50, seed=2)
    c = compiled(lambda x, y, w: ((x[:, None] - y).abs() * w[..., None]).sum(1), x, y, weights)
    assert [k.kind for k in c.kernels] == ["lanes" if width >= 8 else "rows"]


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, math.inf])
def test_gradients_of_distances(p):
    x, y = randn(9, 11), randn(12, 11, seed=1)
    y[3] = x[2]  # points that meet
    far, grad = tocha.cdist(x, y, p), randn(9, 12, seed=2)
    c = compiled(lambda g, x, y, far: tocha.ops.aten._cdist_backward(g, x, y, p, far), grad, x, y, far)
    assert len(c.kernels) == len(c.items) == 1


def test_truths_are_counted_on_vectors():
    x = values(40, 70, dtype=tocha.float32)
    c = compiled(lambda x: ((x == 0).float().sum(-1), (x > 1).float().sum(0)), x, exact=True)
    assert "row_strip" not in c.source
    compiled(lambda x: (x == 0).double().sum(-1), x.double(), exact=True)


@pytest.mark.parametrize("width", [2, 3, 5, 6, 7, 9, 12, 17, 31])
def test_folds_across_few_columns(width):
    """Of so few GCC made reductions that lost half of what they counted."""
    x = values(33, width, dtype=tocha.float32)
    x[3:7] = 0

    def counts(x):
        return (
            (x > 0).sum(0), x.count_nonzero(0), (x < 1).sum(0, dtype=tocha.int32), x.double().count_nonzero(0),
            x.to(tocha.int64).count_nonzero(0), (x > 0).int().sum(0), tocha.where(x > 0, 1, 0).sum(0), (x > 0).any(0), (x <= 9).all(0),
        )  # fmt: skip

    compiled(counts, x, exact=True)
    for f in (lambda x: (x > 0).sum(0), lambda x: x.count_nonzero(0), lambda x: tocha.where(x > 1, 3, -2).sum(0)):
        compiled(f, x, exact=True)


@pytest.mark.parametrize("shape", [(2, 24, 5, 500), (3, 16, 520), (4, 1, 64, 512)])
def test_sizes_that_are_no_multiples_of_a_block(shape):
    x = randn(*shape)
    compiled(lambda x: tocha.nn.functional.normalize(x, dim=-2).softmax(-2), x)
    compiled(lambda x: (x - x.mean(-2, keepdim=True)) / x.std(-2, keepdim=True).add(1), x)


def test_neighbouring_dims_of_results_are_lanes_together():
    assert "task % 2 * 512" in compiled(lambda x: x.sum(1), randn(3, 9, 20, 40)).source  # of 800


def test_divisions_that_rows_would_repeat_are_stored():
    code = compiled(lambda x: x * (1 / x.exp().sum(1, keepdim=True)), randn(8, 16, 40)).source
    assert not any("/ xt" in line for line in code[code.index("void kernel_1") :].splitlines())
    along = compiled(lambda x: x * (1 / x.exp().sum(2, keepdim=True)), randn(8, 16, 40))
    assert len(along.kernels) == 1  # along a row it stays the same


@pytest.mark.parametrize("format", [tocha.contiguous_format, tocha.channels_last])
@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.adaptive_avg_pool2d(x, 1),
        lambda x: F.adaptive_avg_pool2d(x, 3),
        lambda x: F.adaptive_max_pool2d(x, 1),
    ],
)
def test_adaptive_pools_of_sizes_that_change_are_compiled_once(pool, format):
    counter = CompileCounterWithBackend("inductor")
    f = tocha.compile(pool, backend=counter, dynamic=True)
    for n in (6, 7, 13):
        x = randn(2, 3, n, n + 1).to(memory_format=format).requires_grad_()
        y = x.detach().clone().requires_grad_()
        got, want = f(x), pool(y)
        assert_close(got, want)
        got.square().sum().backward()
        want.square().sum().backward()
        assert_close(x.grad, y.grad)
    assert counter.frame_count == 1


def test_folds_over_dims_that_change_go_along_memory():
    f = tocha.compile(lambda x: x.sum((2, 3)), dynamic=True)
    x = randn(2, 3, 40, 50)
    got, sources = run_and_get_code(f, x)
    assert_close(got, x.sum((2, 3)))
    assert "row_strip" not in sources[0]


LONG_SUMS = {
    "a row": (lambda x: x.exp().mean(), (1000003,)),
    "rows": (lambda x: (x * 2).sum(-1), (2, 500009)),
    "columns": (lambda x: (x * 2).sum(0), (500009, 4)),
    "columns of dear elements": (lambda x: x.exp().sum(0), (100003, 17)),
    "both sides of a dim": (lambda x: (x * 2).sum((0, 2)), (8009, 3, 129)),
    "without vectors": (lambda x: tocha.complex(x, x).sum().imag, (1000003,)),
    "strips": (lambda x: x.i0().sum(), (1000003,)),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", LONG_SUMS)
def test_long_sums_of_equal_numbers_are_exact(name, dynamic):
    """Each addition is rounded in the same direction: one by one, a thousandth of a million is lost."""
    f, size = LONG_SUMS[name]
    x = tocha.full(size, 0.7)
    found = tocha.compile(f, dynamic=dynamic)(x)
    assert_close(found.double(), f(x.double()), rtol=3e-5, atol=0)


@pytest.mark.parametrize("dim", [0, 1])
def test_long_sums_beside_other_folds(dim):
    """Maxima, places and truths have states of other types in the same pass."""
    x = values(9001, 20, dtype=tocha.float32)
    x = x if dim == 0 else x.t().contiguous()
    x.select(1 - dim, 3).fill_(1)
    x.select(1 - dim, 4)[8500] = 40
    compiled(lambda x: (x.sum(dim), (x > 2).any(dim), x.max(dim), (x >= 1).all(dim), x.var(dim)), x)


def test_bags_of_symbolic_sizes_are_summed_side_by_side():
    def f(w, i):
        return F.embedding(i, w).sum(1)

    tocha._dynamo.reset()
    c = tocha.compile(f, dynamic=True)
    for n, m in ((7, 5), (40, 3)):
        w, i = tocha.randint(9, (20, n + m)).float(), tocha.randint(0, 20, (n, m))
        found, codes = run_and_get_code(c, w, i)
        assert_close(found, f(w, i))
        assert all("row_strip" not in code for code in codes)  # of one result, elements that lie far apart


def test_sizes_that_are_symbols_are_refined():
    n, m = s.symbol("n"), s.symbol("m")
    assert refine([n, s.mul(m, 8)], [s.mul(n, m), 8]) == [n, m, 8]
    assert refine([s.mul(n, m)], [n, m]) == [n, m]
    assert refine([n, 2], [2, n]) is None and refine([s.add(n, m)], [n, m]) is None


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [tocha.float32, tocha.bfloat16])
def test_what_is_left_of_a_row_of_dear_elements_is_part_of_a_pack(dtype, dynamic):
    """Lanes behind the end of a row are the next row's, or nobody's: they do not count, whatever they hold."""

    def f(x):
        return x.logsumexp(-1), x.softmax(-1), x.tanh().amax(-1), (x * x).exp().sum((0, 2))

    tocha._dynamo.reset()
    c = tocha.compile(f, dynamic=dynamic)
    for n in (17, 31) if dynamic else (31,):
        x = values(2, 5, n, dtype=tocha.float32).mul(0.2).to(dtype)
        found, codes = run_and_get_code(c, x)
        assert_close(found, f(x))
        assert dtype is tocha.bfloat16 or all("auto rest" not in code for code in codes)
        x[:, 1::2] = float("nan")
        for a, b in zip(c(x)[:3], f(x)[:3]):
            assert_close(a[:, ::2], b[:, ::2])
            assert a[:, 1::2].isnan().all()
