"""The quality of compiled kernels: what folds, tiles, strips and joined kernels look like, and that their values are eager's."""

from __future__ import annotations

import math

import pytest

import tocha
import tocha.nn as nn
import tocha.nn.functional as F
from tocha._functorch.aot_autograd import aot_function
from tocha._inductor import compilation, compile_fx, graph
from tocha._inductor.graph import lower_graph
from tocha._inductor.programs import CompiledGraph, compile_graph
from tocha.fx.experimental.proxy_tensor import make_fx
from tocha.ir import symbolic as s
from tocha.ir.assumptions import Assumptions
from tocha.ir.kernels import MANY, Kernel
from tocha.ir.loops import Call
from tocha.testing import assert_close

pytestmark = pytest.mark.usefixtures("kernel_cache")


def randn(*shape: int, seed: int = 0, **kwargs) -> tocha.Tensor:
    return tocha.randn(shape, generator=tocha.Generator().manual_seed(seed), **kwargs)


def compiled(f, *args, exact: bool = False) -> CompiledGraph:
    """f compiled for these arguments, and held against eager on them."""
    found: list[CompiledGraph] = []

    def keep(graph, inputs):
        found.append(compile_graph(graph))
        return found[-1]

    with tocha.no_grad():
        got, want = aot_function(f, fw_compiler=keep)(*args), f(*args)
    for g, w in zip(leaves(got), leaves(want), strict=True):
        assert (g.shape, g.stride(), g.dtype) == (w.shape, w.stride(), w.dtype)
        if exact:
            assert tocha.equal(g.nan_to_num(7.0), w.nan_to_num(7.0))
        else:
            assert_close(g, w, rtol=2e-5, atol=1e-5, equal_nan=True)
    return found[0]


def test_an_index_that_is_the_same_for_a_row_is_read_and_checked_once():
    index = tocha.tensor([3, 0, -1, 3, 2, 1])
    c = compiled(lambda w, i: (w[i] * 2).sum(-1), randn(4, 64), index)
    assert c.source.index("checked_index(") < c.source.index("auto step") and "vec::load" in c.source
    c = compiled(lambda w, i: (w[i] - 1).exp(), randn(4, 64), index)
    assert c.source.index("checked_index(") < c.source.index("auto step") and "vec::Whole()" in c.source
    along = compiled(lambda w, i: w[:, i] + 1, randn(4, 64), index, exact=True)
    assert along.source.index("checked_index(") > along.source.index("#pragma GCC ivdep")
    with pytest.raises(IndexError, match="out of"):
        tocha.compile(lambda w, i: w[i] * 2)(randn(4, 64), index + 4)


def test_the_backward_of_a_batch_norm_sums_once_and_apart_from_what_it_writes():
    def f(grad, x, weight, mean, spread):
        return tocha.ops.aten._batch_norm_backward(grad, x, weight, mean, spread, True, 1e-5, True, True)

    sizes = (8, 64, 6, 6)  # as many channels as pictures times a part of the channels
    c = compiled(f, randn(*sizes) * 0.1, randn(*sizes, seed=1), randn(64), randn(64, seed=2), randn(64).abs() + 1)
    assert [len(k.loops) for k in c.kernels] == [2, 1]


def test_a_conversion_of_long_integers_is_not_repeated_for_every_row():
    def f(x, slopes):
        i = tocha.arange(32)
        return x + slopes[:, None, None] * (i[None, :] - i[:, None]).float()

    c = compiled(f, randn(4, 8, 32, 32), randn(8), exact=True)
    assert [k.name for k in c.kernels] == ["kernel_0", "kernel_1"]
    assert c.source.index("math::cast<float>") < c.source.index("void kernel_1")


def leaves(x):
    return [y for part in x for y in leaves(part)] if isinstance(x, tuple | list) else [x]


# ---- folds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 7, 8, 9, 15, 16, 17, 31, 64, 70, 511, 513, 1030])
@pytest.mark.parametrize("dtype", [tocha.float32, tocha.float64])
def test_folds_of_every_length(n, dtype):
    x = randn(3, n, dtype=dtype)
    compiled(lambda x: (x.sum(-1), x.amax(-1), x.amin(-1), (x * x + 1).mean(-1)), x)
    compiled(lambda x: x.exp().sum(-1), x)


def test_a_cheap_fold_keeps_several_vectors_in_registers():
    c = compiled(lambda x: (x * x).sum(-1), randn(20, 64))
    assert "vec::F32" in c.source and "vec::load" in c.source and "kLanes" not in c.source
    assert "rest(" not in c.source  # 64 elements are whole vectors
    assert "rest(" in compiled(lambda x: (x * x).sum(-1), randn(20, 65)).source


def test_a_dear_fold_computes_strips_first():
    c = compiled(lambda x: x.i0().sum(-1), randn(20, 700))
    assert "row_strip" in c.source and "vec::F32" in c.source


def test_a_fold_of_an_exponential_goes_by_packs():
    c = compiled(lambda x: x.exp().sum(-1), randn(20, 700))
    # 700 are no whole packs.
    assert "row_strip" not in c.source and "vec::Pack&" in c.source and "vec::First{" in c.source
    c = compiled(lambda x: x.softmax(-1), randn(20, 64))
    assert "vec::Pack&" in c.source and "vec::First{" not in c.source


def test_a_dear_fold_of_what_packs_do_not_read_goes_by_packs_from_strips():
    at = tocha.arange(700)
    c = compiled(lambda x: tocha.where(at == tocha.arange(20)[:, None], -1e9, x * 2).logsumexp(-1), randn(20, 700))
    assert "row_strip" in c.source and "vec::Pack&" in c.source


def test_folds_of_several_dims():
    compiled(lambda x: (x.sum((0, 2)), x.amax((0, 2)), x.var((0, 2))), randn(5, 6, 37))
    compiled(lambda x: x.sum((1, 3)), randn(3, 4, 5, 18))


def test_maxima_of_nans_and_zeros():
    x = randn(4, 40)
    x[1, 17] = math.nan
    x[2] = -math.inf
    compiled(lambda x: (x.amax(-1), x.amin(-1), x.abs().amax(-1)), x, exact=True)


def test_folds_of_nothing():
    compiled(lambda x: (x.sum(-1), (x + 1).sum(-1)), tocha.zeros(3, 0), exact=True)
    compiled(lambda x: x.sum(0), tocha.zeros(0, 5), exact=True)
    compiled(lambda x: (x + 1).roll(0, 0) * 2, tocha.zeros(0, 0, 0), exact=True)


@pytest.mark.parametrize("dtype", [tocha.int64, tocha.int32, tocha.bfloat16, tocha.float16, tocha.bool])
def test_folds_of_other_dtypes(dtype):
    x = (randn(5, 33) * 4).to(dtype)
    compiled(lambda x: x.sum(-1), x)
    compiled(lambda x: (x.any(-1), x.all(-1)), x)


def test_places_of_maxima():
    compiled(lambda x: (x.argmax(-1), x.argmin(0), x.max(-1)), randn(6, 50))


@pytest.mark.parametrize("correction", [0, 1])
@pytest.mark.parametrize("shape", [(4, 40), (3, 1), (600, 3)])
def test_variances(correction, shape):
    x = randn(*shape) + 1000
    compiled(lambda x: (x.var(-1, correction=correction), x.std(0, correction=correction)), x)


def test_a_long_fold_over_a_dim_that_is_cut_whole():
    compiled(lambda x, m: (x * m).sum() / m.sum().clamp(min=1), randn(64, 4096), (randn(64, 4096, seed=1) > 0).float())


def test_softmax_takes_the_short_exponential():
    for dim in (-1, 0, 1):
        c = compiled(lambda x, d=dim: (x * 0.5).softmax(d), randn(9, 33, 20))
        assert "exp_below_zero" in c.source
    assert "exp_below_zero" not in compiled(lambda x: (x - x.amin(-1, True)).exp(), randn(4, 33)).source
    assert (
        "exp_below_zero" not in compiled(lambda x, y: (y - x.amax(-1, True)).exp(), randn(4, 33), randn(4, 33)).source
    )


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tocha.stack((x[..., 0::2] - x[..., 1::2], x[..., 0::2] * x[..., 1::2]), -1).flatten(-2),
        lambda x: tocha.stack((x, x + 1, x * 2), -1),
        lambda x: tocha.stack([x[..., 2] - x[..., 3], x[..., 0], x[..., 1] / 2, x[..., 4]], -1),
        lambda x: tocha.cat((x[..., :1] * 2, x[..., 3:4]), -1),
        lambda x: x[..., :2] + tocha.arange(2.0),
        lambda x: (x[..., None] + tocha.tensor([0.5, -0.5, 2.0])).exp(),
        lambda x: x[..., :4].reshape(*x.shape[:-1], 2, 2).transpose(-1, -2) + 1,
        lambda x: tocha.stack((x.long() // 3, x.long() % 3), -1),
        lambda x: tocha.where(tocha.arange(3) == 1, x[..., :3], -x[..., :3]),
        lambda x: nn.functional.pad(x[..., :1], (1, 1)) * 3,
    ],
)
@pytest.mark.parametrize("shape", [(5, 6), (3, 40, 8), (2, 1, 3, 34)])
def test_short_last_dims_are_written_out(f, shape):
    x = randn(*shape)
    source = compiled(f, x).source
    assert not any(f"{name} < {n}; ++{name}" in source for name in ("i1", "i2", "i3", "i4") for n in (1, 2, 3))
    assert_close(tocha.compile(f, dynamic=True)(x), f(x))


def test_packs_are_stored_in_turn():
    c = compiled(lambda a, b: (a[:, None] + b).exp(), randn(50), randn(3, seed=1))
    assert "store_in_turn" in c.source
    assert "store_in_turn" in compiled(lambda a, b: (a[:, None] - b).sigmoid(), randn(16), randn(2, seed=1)).source
    both = compiled(lambda a, b: ((a[:, None] - b).sigmoid(), (a[:, None] * b).exp()), randn(40), randn(2, seed=1))
    assert both.source.count("store_in_turn") == 2


@pytest.mark.parametrize(
    "f",
    [
        lambda x: F.interpolate(x, scale_factor=2),
        lambda x: x.repeat_interleave(4, -1),
        lambda x: x.repeat_interleave(2, -1) * tocha.arange(54.0),
        lambda x: x.repeat_interleave(3, -1).exp() + tocha.arange(81.0).sin(),
        lambda x: (x.repeat_interleave(2, -1) > 0, x.repeat_interleave(2, -1).half()),
        lambda x: x.flatten().repeat_interleave(2),
    ],
)
def test_neighbours_that_share_what_they_read_are_written_out(f):
    source = compiled(f, randn(2, 3, 5, 27), exact=True).source
    loops = [line for line in source.splitlines() if " = p" in line or "vec::load" in line]
    assert loops and not any("(g0 /" in line or "(i3 /" in line or "(i /" in line for line in loops)


def test_quotients_that_do_not_go_by_neighbours_stay():
    for f in (
        lambda x: x.repeat_interleave(5, -1),  # too many
        lambda x: x[..., :5].repeat_interleave(2, -1),  # too short a row
        lambda x: x[..., tocha.arange(54) // 2] + x[..., tocha.arange(54) // 3],
        lambda x: tocha.cat((x.repeat_interleave(2, -1), x), -1),
    ):
        compiled(f, randn(2, 3, 5, 27), exact=True)


def test_four_neighbours_that_are_computed_alike_are_a_vector():
    assert "< 4; ++" in compiled(lambda x, w: x * w, randn(50, 4), randn(4, seed=1)).source


def test_passes_with_dear_formulas_fetch_the_next_row():
    gate = compiled(lambda x, g: x.softmax(-1) * g.sigmoid(), randn(6, 640), randn(6, 640, seed=1)).source
    assert gate.count("vec::fetch(") == 2  # where x is read for the last time, and the gate
    assert "vec::fetch(" not in compiled(lambda x: (x.softmax(-1), x.sum(-1)), randn(2, 5000)).source
    assert "vec::fetch(" not in compiled(lambda x: x - x.mean(-1, keepdim=True), randn(6, 640)).source
    assert "vec::fetch(" not in compiled(lambda x, w: x.exp().sum(-1) * w, randn(640), randn(640, seed=1)).source


def test_loops_over_dear_formulas_ask_for_what_lies_ahead():
    assert compiled(lambda x: x.sigmoid(), randn(6, 640)).source.count("vec::look_ahead<1>(") == 1
    both = compiled(lambda x, y: x.exp() * y.tanh(), randn(6, 640), randn(6, 640, seed=1)).source
    assert both.count("vec::look_ahead<1>(") == 2
    long = compiled(
        lambda x, g: x - x.mean(-1, keepdim=True) * g.sigmoid(), randn(3, 5000), randn(3, 5000, seed=1)
    ).source
    assert long.count("vec::look_ahead<1>(") == 1  # the gate; the mean has read x
    assert "vec::look_ahead" not in compiled(lambda x: x + 1, randn(6, 640)).source


@pytest.mark.parametrize("shape", [(3, 50), (7,), (2, 3, 16)])
def test_gelu_is_one_function(shape):
    x = randn(*shape) * 4
    assert "math::gelu(" in compiled(F.gelu, x).source
    assert_close(F.gelu(x), 0.5 * x * (1 + (x * math.sqrt(0.5)).erf()))


def test_softmax_of_rows_that_are_masked():
    x = randn(4, 40)
    x[1] = -math.inf
    x[2, :39] = -math.inf
    x[3, 0] = math.nan
    compiled(lambda x: (x.softmax(-1), x.log_softmax(-1)), x)


# ---- points --------------------------------------------------------------------------------------


# Where eager has functions of whole vectors with roundings of their own, compiled loops do not call them yet.
SAME_FUNCTIONS = "AVX512" not in tocha.backends.cpu.get_cpu_capability()


@pytest.mark.parametrize("dtype", [tocha.float32, tocha.float64])
def test_points_round_as_eager_rounds(dtype):
    def arithmetic(x, y):
        return (x * y - x / 3) * 1.1 + y, (x + y).clamp(-1, 1), (x * x).sqrt() + y.abs().rsqrt(), x.round() / y.floor()

    def functions(x, y):
        return F.silu(x) * y + tocha.sigmoid(y), (x * y - x / 3).tanh(), tocha.erf(x) + y.exp()

    given = randn(50, 77, dtype=dtype), randn(50, 77, seed=1, dtype=dtype)
    compiled(arithmetic, *given, exact=True)
    compiled(functions, *given, exact=SAME_FUNCTIONS or dtype == tocha.float64)


DEAR = ("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf")


@pytest.mark.parametrize("n", [5, 90])  # whole packs, and a part of one
def test_dear_formulas_go_by_packs(n):
    ends = tocha.tensor([math.inf, -math.inf, math.nan, 0.0, -0.0, 1e-40, -1e-40, 88.8, -104.5, 3e38, -3e38])
    x = tocha.cat((randn(n) * 3, ends))

    def f(x):
        y = [getattr(tocha, name)(x) for name in DEAR]
        return [
            *y,
            F.silu(x) * x,
            F.gelu(x),
            tocha.where((x > 0.5) & ~(x > 2), x.exp(), x.relu()),
            x.clamp(-1, 2).exp(),
        ]

    assert "vec::Whole()" in compiled(f, x).source


def test_choices_go_by_packs():
    x, y = randn(70), randn(70, seed=1)
    graph = compiled(lambda x, y: (F.relu(x + y) * y, x.clamp(-1, 1), tocha.maximum(x, y)), x, y, exact=True)
    assert "vec::Whole()" in graph.source


def test_packs_are_for_dear_formulas_in_float32():
    x = randn(8, 64)
    plain = [
        compiled(lambda x: x * 2 + 1, x),  # a compiler does as well
        compiled(lambda x: x.exp(), x.double()),
        compiled(lambda x: x.sigmoid() * (x.long() % 3), x),
    ]
    assert not any("vec::Whole()" in g.source for g in plain)


def test_float16_goes_by_packs():
    x, y = randn(40, 90).half(), randn(40, 90, seed=1).half()
    for f in (lambda x, y: x * 2 + y, lambda x, y: x.float() - y, lambda x, y: x.flip(-1) + y):
        assert "vec::Whole()" in compiled(f, x, y, exact=True).source
    row = compiled(lambda x, y: ((x - y).amax(-1), (x * y).sum(-1)), x, y)
    assert "row_strip" in row.source and "vec::Whole()" in row.source
    assert "vec::F32" in compiled(lambda x, y: x.sum(0), x, y).source
    assert "vec::Whole()" in compiled(lambda x, y: (x * y).amax(0), x, y).source


def test_packs_of_what_does_not_change_along_the_loop():
    x, y = randn(8, 64), randn(8, 1)
    graph = compiled(lambda x, y: tocha.where(y > 0, (x + y).exp(), y), x, y)
    assert "vec::Whole()" in graph.source


def test_truths_and_compared_positions_go_by_packs():
    x, mask = randn(9, 70), randn(9, 70, seed=1) > 0
    graph = compiled(lambda x, m: tocha.where(m, x.exp(), x), x, mask, exact=True)
    assert "vec::Whole()" in graph.source

    def one_hot(x, target):
        return x.exp() - tocha.where(tocha.arange(x.shape[-1]) == target[:, None], x, 0.0)

    target = tocha.tensor([0, 5, 15, 16, 31, 69, -1, 70, -(2**63)])
    assert "vec::Positions" in compiled(one_hot, x, target, exact=True).source


def test_sines_of_great_arguments():
    x = tocha.cat((randn(90), tocha.tensor([1e5, -3e9, 1e30, math.inf, math.nan, -0.0, 65536.0, 65537.0])))
    graph = compiled(lambda x: (x.sin() * 2, x.cos() * 2, x.sin() + x.floor()), x)
    assert "vec::Whole()" in graph.source


def test_bools_are_bytes_so_that_loops_are_vectors():
    c = compiled(
        lambda x, m: (x.masked_fill(m, 0.0), ~m, m & (x > 0)), randn(9, 30), randn(9, 30, seed=1) > 0, exact=True
    )
    assert "bool*" not in c.source


def test_triangles_of_bools_are_bools():
    def f(x):
        mask = tocha.ones(x.shape[-1], x.shape[-1], dtype=tocha.bool).tril()
        return x.masked_fill(~mask, -math.inf).softmax(-1)

    compiled(f, randn(3, 20, 20))


@pytest.mark.parametrize("diagonal", [-40, -3, 0, 5, 60])
def test_a_triangle_is_two_loops_of_a_row(diagonal):
    x = randn(3, 20, 37)

    def f(x):
        mask = tocha.ones(20, 37, dtype=tocha.bool).tril(diagonal)
        kept = x.masked_fill(~mask, -1e4)
        return x.triu(diagonal) * 2, kept.softmax(-1), tocha.where(mask, x, x * x).sum(-1)

    assert " <= int64_t(0LL))" not in compiled(f, x).source


def test_a_band_is_three_loops_of_a_row():
    x = randn(20, 37)

    def f(x):
        i, j = tocha.arange(20)[:, None], tocha.arange(37)
        return tocha.where((j <= i + 4) & (j >= i - 4), x, 0.0)

    assert compiled(f, x, exact=True).source.count("for (int64_t i1 = ") == 3


def test_edges_that_do_not_move_together_are_asked_per_element():
    x = randn(20, 37)

    def f(x):
        i, j = tocha.arange(20)[:, None], tocha.arange(37)
        return tocha.where((j <= i) | (j + i <= 9), x, 0.0), tocha.where(j == i, x, 1.0)

    compiled(f, x, exact=True)


def test_what_does_not_change_is_computed_before_the_loop():
    c = compiled(lambda x, w: x * tocha.rsqrt(w + 1).unsqueeze(1), randn(30, 40), randn(30, seed=1).abs())
    before, after = c.source.split("#pragma GCC ivdep")[:2]
    assert "math::rsqrt" in before and "math::rsqrt" not in after


@pytest.mark.parametrize("shape", [(2, 16, 32, 32), (2, 16, 33, 5), (1, 70, 70), (3, 17, 129)])
@pytest.mark.parametrize("dtype", [tocha.float32, tocha.float64, tocha.uint8])
def test_what_is_read_across_is_read_in_tiles(shape, dtype):
    x = (randn(*shape) * 50).abs().to(dtype)
    order = [0, *range(2, len(shape)), 1]
    compiled(lambda x: (x.permute(order) + 1).contiguous(), x, exact=True)


def test_tiles_in_the_text():
    assert "transpose_tile" in compiled(lambda x: (x.t() + 1).contiguous(), randn(64, 80), exact=True).source
    assert "transpose_tile" not in compiled(lambda x: x + 1, randn(64, 80), exact=True).source


MOVED = [tocha.float32, tocha.float64, tocha.float16, tocha.uint8, tocha.bool, tocha.complex64, tocha.complex128]


@pytest.mark.parametrize("dtype", MOVED)
@pytest.mark.parametrize("shape", [(64, 80), (33, 301), (3, 40, 17)])
def test_copies_across_go_straight_to_their_place(shape, dtype):
    x = (randn(*shape) * 50).to(dtype)
    made = compiled(lambda x: x.transpose(-1, -2).contiguous(), x, exact=True)
    assert "transpose_copy" in made.source and "row_tile" not in made.source
    compiled(lambda x: tocha.cat([x.transpose(-1, -2), x.transpose(-1, -2)], -1), x, exact=True)


def test_joining_across_is_one_kernel_of_tiles(monkeypatch):
    monkeypatch.setattr(graph, "transposes_in_registers", lambda: False)
    parts = randn(2, 16, 8, 8), randn(2, 20, 8, 8, seed=1)
    c = compiled(lambda a, b: tocha.cat((a.permute(0, 2, 3, 1), b.permute(0, 2, 3, 1)), -1), *parts, exact=True)
    assert len(c.kernels) == 1 and not c.calls


@pytest.mark.parametrize("pad", [(4, 4), (1, 0, 0, 3), (-1, 2, 3, -2), (0, 0, 1, 1), (-2, -1)])
@pytest.mark.parametrize("value", [0.0, 1.5])
def test_padding_is_a_guarded_load(pad, value):
    c = compiled(lambda x: F.pad(x * 2, pad, value=value) + 1, randn(3, 9, 11), exact=True)
    assert len(c.kernels) == 1 and not c.calls


def test_flips_and_pads_have_no_division_left():
    c = compiled(lambda x: F.pad(x.flip(-1), (4, 4, 4, 4)) * 2, randn(2, 3, 16, 16), exact=True)
    assert len(c.kernels) == 1 and "/ 16" not in c.source


# ---- rows, and kernels side by side --------------------------------------------------------------


def test_rows_may_end_inside_of_a_dim():
    c = compiled(
        lambda x, w, b: F.silu(F.group_norm(x, 4, w, b)), randn(3, 12, 5, 7), randn(12, seed=1), randn(12, seed=2)
    )
    assert len(c.kernels) == 1


def test_gradients_of_a_group_norm_go_over_the_picture_twice():
    """Once for the sums of every channel, from which those of groups and of the batch are had, and once for the gradient."""
    x, w, grad = randn(3, 12, 5, 7), randn(12, seed=1), randn(3, 12, 5, 7, seed=2)
    _, mean, rstd = tocha.native_group_norm(x, w, None, 3, 12, 35, 4, 1e-5)
    backward = tocha.ops.aten._group_norm_backward
    c = compiled(lambda g, x, m, r, w: backward(g, x, m, r, w, 3, 12, 35, 4, 1e-5, True, True), grad, x, mean, rstd, w)
    loops = [loop for k in c.kernels for loop in k.loops if any(i.buffer.numel() == x.numel() for i in loop.loads())]
    assert [loop.fold is None for loop in loops] == [False, False, True]
    compiled(lambda g, x, m, r: backward(g, x, m, r, None, 3, 12, 35, 4, 1e-5, True, True), grad, x, mean, rstd)
    compiled(lambda g, x, m, r: backward(g, x, m, r, None, 3, 12, 35, 4, 1e-5, False, True)[1:], grad, x, mean, rstd)


def gradients_of_layer_norm(rows, n):
    """A compiled gradient: rows, and sums across them; and its arguments."""
    x, w, grad = randn(rows, n), randn(n, seed=1), randn(rows, n, seed=2)
    _, mean, rstd = tocha.native_layer_norm(x, [n], w, None, 1e-5)
    backward = tocha.ops.aten._layer_norm_backward
    return compiled(lambda g, x, m, r, w: backward(g, x, [n], m, r, w, 1e-5, True, True), grad, x, mean, rstd, w)


def test_kernels_that_read_the_same_memory_take_turns():
    assert "  run_in_turns(parts, 2," in gradients_of_layer_norm(1030, 120).source
    assert "  run_parts(parts, 2," in gradients_of_layer_norm(30, 120).source  # which stays in the cache
    apart = compiled(lambda x, y: (x.sum(1), y.amax(1)), randn(600, 120), randn(700, 120, seed=1))
    assert "  run_parts(parts, 2," in apart.source


def test_taking_turns_leaves_nothing_out():
    """Whatever the number of tasks of each, none of them, and threads that begin in the middle."""
    f = tocha.compile(lambda x, y: (x.sum(0), (x * y).sum(1), y.amax(0)), dynamic=True)
    for n in (700, 1, 0, 333, 4099):
        x = randn(n, 300)
        y = randn(300)
        for got, want in zip(f(x, y), (x.sum(0), (x * y).sum(1), y.amax(0)), strict=True):
            assert_close(got, want, rtol=2e-5, atol=1e-4)


@pytest.mark.parametrize(("size", "out"), [(12, 4), (12, 12), (11, 4), (3, 5)])
def test_windows_that_all_places_lie_in_have_no_masks(size, out):
    grad = randn(2, 3, out, out)
    backward = tocha.ops.aten._average_windows_backward
    c = compiled(lambda g: backward(g, [2, 3, size, size], [out, out], [], [], [], False, 0), grad)
    if size % out == 0:
        assert not c.calls and "uint8_t" not in c.source
    x = randn(2, 3, size, size)
    compiled(lambda x: F.adaptive_avg_pool2d(x, out), x)
    compiled(lambda x: F.adaptive_max_pool2d(x, out, return_indices=True), x, exact=True)


def test_windows_with_and_without_padding():
    x = randn(2, 3, 9, 10)
    for kernel, stride, padding in ((3, 1, 0), (2, 2, 0), (3, 2, 1), (2, 3, 0)):
        compiled(lambda x, k=kernel, s=stride, p=padding: F.avg_pool2d(x, k, s, p), x)
        compiled(lambda x, k=kernel, s=stride, p=padding: F.max_pool2d(x, k, s, p, return_indices=True), x, exact=True)


def test_an_update_of_many_parameters_is_one_kernel():
    def f(params, grads, ms, vs):
        out = []
        for p, g, m, v in zip(params, grads, ms, vs, strict=True):
            m, v = m * 0.9 + g * 0.1, v * 0.999 + g * g * 0.001
            out.append((p - 1e-3 * m / (v.sqrt() + 1e-8), m, v))
        return out

    shapes = [(40, 40), (40,), (70, 40), (70,), (3, 5, 7)]
    lists = [[randn(*n, seed=i).abs() for n in shapes] for i in range(4)]
    c = compiled(f, *lists, exact=True)
    (kernel,) = c.kernels
    assert kernel.kind == MANY and len(kernel.parts) == len(shapes)
    assert c.source.count("math::sqrt") == 1  # written once for all parameters


def test_clipping_does_not_put_large_tensors_into_one_row():
    def f(grads):
        norm = tocha.sqrt(sum((g * g).sum() for g in grads))
        return [g * (1 / (norm + 1e-6)).clamp(max=1.0) for g in grads]

    c = compiled(f, [randn(200, 200), randn(300, 200), randn(50)])
    last = c.kernels[-1]
    assert all(part.kind == "points" for part in (last.parts or [last]))


def test_kernels_that_need_each_other_are_apart():
    c = compiled(lambda x: ((x.sum() + x).sum(), x.t().contiguous()), randn(300, 300))
    for k in c.kernels:
        for part in k.parts:
            others = {b for o in k.parts if o is not part for b in o.results()}
            assert not part.reads() & others


class Block(nn.Module):
    def __init__(self, width: int = 32, heads: int = 2):
        super().__init__()
        self.first, self.second, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.first(x)).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.second(x))))


def test_a_block_of_a_transformer_has_few_kernels_beside_its_products(monkeypatch):
    found: list[CompiledGraph] = []
    plain = compilation.compile_graph
    monkeypatch.setattr(compilation, "compile_graph", lambda graph: found.append(plain(graph)) or found[-1])
    block, x = Block(), randn(2, 16, 32)
    with tocha.no_grad():
        assert_close(tocha.compile(block)(x), block(x), rtol=2e-5, atol=1e-5)
    assert len(found) == 1 and len(found[0].kernels) <= 6
    assert all(isinstance(i, Kernel) or "mm" in i.name or "attention" in i.name for i in found[0].items)


# ---- sizes that are symbols ----------------------------------------------------------------------


def test_one_kernel_for_many_sizes():
    def f(x, w):
        return F.softmax(x * w, -1), (x * x).sum(0), F.pad(x.t(), (1, 2)).contiguous()

    count = [0]

    def counting(graph, inputs):
        count[0] += 1
        return compile_fx.compile_fx(graph, inputs)

    c = tocha.compile(f, backend=counting)
    for n in range(2, 22):
        x, w = randn(n, 33, seed=n), randn(33, seed=1)
        for got, want in zip(c(x, w), f(x, w), strict=True):
            assert_close(got, want, rtol=2e-5, atol=1e-5)
    assert count[0] == 2  # the first size, then a symbol


def test_loops_over_symbols_are_fused():
    """They are not calls of operators, one by one."""
    graph = make_fx(lambda x, w: [F.softmax(x * w, -1), x.std(0)], tracing_mode="symbolic")
    program = lower_graph(graph(randn(4, 9), randn(9)))
    assert not any(isinstance(step, Call) for step in program.steps), program


# ---- conversions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [tocha.float16, tocha.bfloat16, tocha.float64, tocha.bool, tocha.complex64])
def test_conversions_are_part_of_kernels(dtype):
    graph = make_fx(lambda x: [(x * 2).to(dtype)], tracing_mode="fake")(randn(4, 9))
    assert not any(isinstance(step, Call) for step in lower_graph(graph).steps)
    compiled(lambda x: (x * 2).to(dtype), randn(4, 9), exact=not dtype.is_complex)


@pytest.mark.parametrize("dtype", [tocha.uint8, tocha.int16, tocha.int32, tocha.int64])
def test_floats_that_integers_cannot_hold_become_what_they_do_in_eager_mode(dtype):
    x = tocha.tensor([math.inf, -math.inf, math.nan, 1e10, -1e20, 300.0])
    compiled(lambda x: ((x * 1).to(dtype), x.unsqueeze(1).sum(1, dtype=dtype)), x, exact=True)


# ---- index expressions ---------------------------------------------------------------------------


def test_terms_that_never_carry_leave_a_division():
    known = Assumptions()
    x, y = s.symbol("x"), s.symbol("y")
    known.constrain(s.atom_of(x), 0, 63)
    known.constrain(s.atom_of(y), 0, 7)
    assert known.simplify(s.floordiv(s.add(s.scale(x, 8), y), 32)) is s.floordiv(x, 4)
    known.constrain(s.atom_of(y), 0, 8)
    wide = s.symbol("z")
    known.constrain(s.atom_of(wide), 0, 8)
    kept = s.floordiv(s.add(s.scale(x, 8), wide), 32)
    assert known.simplify(kept) is kept  # 8 carries


@pytest.mark.parametrize("alpha", [2, -0.3])
def test_sums_with_alpha_round_once_on_packs_too(alpha):
    """Beside a dear function a loop is written on packs."""
    x, y = randn(9, 37), randn(9, 37, seed=1)
    compiled(lambda x, y: (tocha.add(x, y, alpha=alpha), tocha.sub(x, y, alpha=alpha)), x, y, exact=True)
    compiled(lambda x, y: (F.selu(x), tocha.add(x, y, alpha=alpha)), x, y)
    compiled(lambda x, y: tocha.exp(tocha.sub(x, y[0], alpha=alpha)), x, y)
    compiled(lambda x, y: tocha.tanh(tocha.add(x, (y > 0).any(), alpha=alpha)), x, y)


def shared_chain(x, steps):
    a, b = x.exp(), x.sin()
    for _ in range(steps):
        a, b = (a * b).tanh() + a, a
    return a


@pytest.mark.parametrize("n", [5, 16, 37])
def test_long_formulas_are_written_once(n):
    """Once more for what is left at the end of a row, they take the C++ compiler twice as long."""
    short = compiled(lambda x: shared_chain(x, 8), randn(3, n), exact=True).source
    assert "vec::First" in short and "vec::Part" not in short
    long = compiled(lambda x: shared_chain(x, 40), randn(3, n), exact=True).source
    assert "vec::Part" in long and "vec::First" not in long
