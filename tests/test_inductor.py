"""Functional graphs through the loop IR to native programs: values, what is fused, what the IR and the caches refuse."""

from __future__ import annotations

import math
import shutil
import warnings

import pytest

import tocha
import tocha.nn.functional as F
from tocha._functorch.aot_autograd import aot_function
from tocha._inductor import codecache, config, store
from tocha._inductor.compile_fx import compile_fx_inner
from tocha._inductor.graph import lower_graph
from tocha._inductor.inlining import inline
from tocha._inductor.programs import CompiledGraph, compile_graph
from tocha._inductor.utils import run_and_get_code
from tocha.fx.experimental.proxy_tensor import make_fx
from tocha.ir import dtypes as dt
from tocha.ir.kernels import refine
from tocha.ir.loops import Buffer, Geometry, Load, Loop, Program, VerificationError, verify
from tocha.ir.node import Input
from tocha.testing import assert_close

pytestmark = pytest.mark.usefixtures("kernel_cache")


def randn(*shape: int, seed: int = 0, **kwargs) -> tocha.Tensor:
    return tocha.randn(shape, generator=tocha.Generator().manual_seed(seed), **kwargs)


def traced(f, *args):
    return make_fx(f, tracing_mode="fake")(*args)


def compiled(f, *args) -> CompiledGraph:
    """f compiled for these arguments, and held against eager on them."""
    found: list[CompiledGraph] = []

    def keep(graph, inputs):
        found.append(compile_graph(graph))
        return found[-1]

    with tocha.no_grad():
        got = aot_function(f, fw_compiler=keep)(*args)
        want = f(*args)
    for g, w in zip(leaves(got), leaves(want), strict=True):
        assert (g.shape, g.stride(), g.dtype) == (w.shape, w.stride(), w.dtype)
        assert_close(
            g, w, rtol=2e-5 if w.dtype == tocha.float32 else None, atol=1e-5 if w.dtype == tocha.float32 else None
        )
    return found[0]


def leaves(x):
    return list(x) if isinstance(x, tuple | list) else [x]


def gradients_agree(f, *args) -> list[CompiledGraph]:
    """Forward and backward compiled, against eager."""
    found: list[CompiledGraph] = []

    def keep(graph, inputs):
        found.append(compile_graph(graph))
        return found[-1]

    mine = [a.clone().requires_grad_(a.is_floating_point()) for a in args]
    theirs = [a.clone().requires_grad_(a.is_floating_point()) for a in args]
    got, want = aot_function(f, fw_compiler=keep)(*mine), f(*theirs)
    assert_close(got, want, rtol=1e-5, atol=1e-5)
    weight = randn(*want.shape, seed=9)
    (got * weight).sum().backward()
    (want * weight).sum().backward()
    for a, b in zip(mine, theirs, strict=True):
        if b.grad is not None:
            assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)
    return found


# ---- fusion, counted ------------------------------------------------------------------------------


def test_layer_norm_gelu_softmax_gate_is_one_kernel():
    def f(x, gate, w, b):
        return F.softmax(F.gelu(F.layer_norm(x, (96,), w, b)), -1) * gate

    c = compiled(f, randn(33, 96), randn(33, 96, seed=1), randn(96, seed=2), randn(96, seed=3))
    assert len(c.kernels) == 1 and not c.calls


def test_softmax_reads_its_input_from_memory_and_keeps_the_row():
    c = compiled(lambda x: x.softmax(-1), randn(5, 70))
    (k,) = c.kernels
    assert "row_exp" in c.source and len(k.reads() - set(k.results())) == 1


ROWS_ON_THE_STACK = "alignas(64) float row_exp"


def test_softmax_keeps_the_row_where_the_result_will_be():
    assert ROWS_ON_THE_STACK not in compiled(lambda x: x.softmax(-1), randn(5, 70)).source


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x.softmax(-1), (x - x.amax(-1, True)).exp().flip(-1) * x.softmax(-1)),  # read out of order
        lambda x: x.softmax(-1).double(),  # of another dtype
        lambda x: x.softmax(-1).flip(-1),  # laid out from the end
        lambda x: x.reshape(5, 7, 10).softmax(-1).transpose(0, 2).contiguous(),  # in steps
        lambda x: x.exp().softmax(-1).cumsum(-1),
        lambda x: (x.softmax(-1) - x.log_softmax(-1)).softmax(-1) + x.softmax(-1).softmax(-1),
    ],
)
def test_rows_that_the_result_cannot_hold_stay_apart(f):
    compiled(f, randn(5, 70))


@pytest.mark.parametrize("sizes", [[(64, 17000)], [(5, 70), (3, 9), (2, 20000)]])
@pytest.mark.parametrize("own", [False, True])
def test_long_rows_and_rows_whose_size_changes_are_no_whole_tensors(sizes, own):
    def f(x):
        return x.softmax(-1).double() if own else x.softmax(-1)

    tocha._dynamo.reset()
    c = tocha.compile(f, dynamic=len(sizes) > 1)
    for n in sizes:
        found, code = run_and_get_code(c, randn(*n))
        assert_close(found, f(randn(*n)))
        for source in code:
            assert ("std::malloc" in source) == own and source.count("take(api->empty(") == 1
            assert ("TOCHA_NO_MEMORY" in source) == own  # where there is none, the kernel says so


def test_a_row_is_not_kept_in_memory_that_is_still_read():
    def f(x, y):
        z = x + y
        e = (z - z.amax(-1, True)).exp()
        return e / e.sum(-1, True) + z  # z's memory may be the result's

    compiled(f, randn(5, 70), randn(5, 70, seed=1))


def test_a_reduction_takes_its_prologue_and_epilogue():
    c = compiled(lambda x, y: ((x * y).sum(-1) + 1).sqrt().abs(), randn(8, 50).abs(), randn(8, 50, seed=1).abs())
    assert len(c.kernels) == 1


def test_sums_side_by_side_share_a_kernel():
    c = compiled(lambda x: (x.sum(0), (x * x).sum(0), x.amax(0)), randn(40, 300))
    assert len(c.kernels) == 1 and c.kernels[0].kind == "lanes"


def test_elementwise_chains_with_views_are_one_kernel():
    c = compiled(lambda x, y: (x.t() + y.reshape(6, 4)).relu() * 2 - x.t(), randn(4, 6), randn(24, seed=1))
    assert len(c.kernels) == 1


def test_several_results_of_the_same_points_are_one_kernel():
    c = compiled(lambda x, y: (x + y, x * y, (x - y).tanh()), randn(7, 9), randn(7, 9, seed=1))
    assert len(c.kernels) == 1


def test_a_long_sum_is_cut_for_the_threads():
    c = compiled(lambda x: x.sum(), randn(512, 512))
    assert len(c.kernels) == 2


def test_products_are_calls_between_kernels():
    (forward, backward) = gradients_agree(
        lambda x, w, b: F.gelu(F.linear(x, w, b)), randn(6, 8), randn(5, 8, seed=1), randn(5, seed=2)
    )
    assert len(forward.calls) == 1 and len(forward.kernels) == 1
    assert len(backward.calls) == 2


# ---- defects that must not come back -------------------------------------------------------------


def test_integer_floor_division():
    x = tocha.tensor([7, -7, 9, -9])
    compiled(lambda a: a // 2, x)
    compiled(lambda a, b: a // b, x, tocha.tensor([2, 2, -4, -4]))


def test_integer_division_by_zero_is_an_error():
    x, zero = tocha.tensor([1, 2]), tocha.tensor([1, 0])
    c = compile_graph(traced(lambda a, b: [a // b], x, tocha.tensor([1, 1])))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        c(x, zero)


def test_two_passes_with_vector_loops_in_one_kernel():
    compiled(lambda x: (x.exp() - x.exp().amax(-1, True)).exp().sum(-1, True) * x.tanh().exp(), randn(3, 130))


def test_residual_chains_compose_in_linear_time():
    def residual(x):
        for _ in range(40):
            x = x + x.relu()
        return x

    x = randn(4, 4)
    program = lower_graph(traced(lambda a: [residual(a * 0.5)], x))
    steps = inline(program)
    assert len(steps) <= 40
    compiled(lambda a: residual(a * 1e-12), x)


def test_an_output_that_is_an_input_is_that_tensor():
    c = compile_graph(traced(lambda x, y: [x, x + y, x.t()], randn(2, 3), randn(2, 3)))
    x, y = randn(2, 3), randn(2, 3)
    same, total, view = c(x, y)
    assert same is x
    assert_close(total, x + y)
    assert view.data_ptr() == x.data_ptr() and view.shape == (3, 2)


def test_the_installed_headers_are_enough(tmp_path, monkeypatch):
    root = codecache.include_directory()
    for folder in ("core", "cpu"):  # what CMakeLists.txt installs
        shutil.copytree(root / folder, tmp_path / "include" / folder, ignore=shutil.ignore_patterns("*.cpp"))
    monkeypatch.setattr(codecache, "include_directory", lambda: tmp_path / "include")
    codecache.headers_digest.cache_clear()
    codecache.precompiled_flags.cache_clear()
    try:
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
        compiled(lambda x: x.exp().sum(-1), randn(3, 4))
    finally:
        codecache.headers_digest.cache_clear()
        codecache.precompiled_flags.cache_clear()


@pytest.mark.parametrize("part", ["source", "compiler", "compiler version", "flags", "processor", "headers"])
def test_the_cache_key_holds_everything_that_decides_the_code(part):
    parts = codecache.key_parts("int x;")
    assert store.digest(parts) == store.digest(dict(parts))
    assert store.digest({**parts, part: "another"}) != store.digest(parts)


def test_the_same_program_is_compiled_once(monkeypatch):
    count = 0
    compile_source = codecache.compile_source

    def counting(source, parts):
        nonlocal count
        count += 1
        return compile_source(source, parts)

    monkeypatch.setattr(codecache, "compile_source", counting)
    for _ in range(2):
        compiled(lambda x: x * 3.25 + 1.75, randn(5))
    assert count == 1


# ---- breadth -------------------------------------------------------------------------------------

SHAPES = [(), (1,), (3,), (4, 5), (2, 3, 4), (2, 1, 3, 5), (0, 3)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_elementwise_over_any_dims(shape):
    compiled(lambda x, y: (x * 2 + y).sigmoid() - x, randn(*shape), randn(*shape, seed=1))


@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2), (0, 1)], ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions_over_any_dims(dims, keepdim):
    x = randn(6, 35, 20)
    compiled(lambda x: (x.sum(dims, keepdim), x.amax(dims, keepdim), (x * x).mean(dims, keepdim)), x)
    compiled(lambda x: x.permute(2, 0, 1).sum(dims, keepdim), x)


@pytest.mark.parametrize("dim", [0, 1])
def test_reductions_with_several_results(dim):
    x = randn(70, 41)
    compiled(lambda x: (*x.max(dim), x.argmin(dim), x.var(dim), x.logsumexp(dim)), x)


@pytest.mark.parametrize("dtype", [tocha.float16, tocha.bfloat16, tocha.float64], ids=str)
def test_dtypes_round_as_eager_does(dtype):
    x, y = randn(5, 40).to(dtype), randn(5, 40, seed=1).to(dtype)
    with tocha.no_grad():
        f = lambda x, y: ((x + y) * 1.7 - x / 3) * y  # noqa: E731
        c = compile_graph(traced(lambda x, y: [f(x, y)], x, y))
        assert tocha.equal(c(x, y)[0], f(x, y))
    compiled(lambda x: F.layer_norm(x, (40,)), x)


@pytest.mark.parametrize("dtype", [tocha.int32, tocha.uint8, tocha.bool], ids=str)
def test_integers(dtype):
    x = tocha.arange(20).reshape(4, 5).to(dtype)
    compiled(lambda x: (x & x, x.sum(), x == x.t().t(), tocha.where(x > 2, x, x)), x)


def test_reads_at_other_places():
    x = randn(6, 8)
    compiled(lambda x: tocha.cat([x, x * 2, x[:2]], 0)[1:-1].flip(1), x)
    compiled(lambda x: F.pad(x, (1, 2, 0, 1), value=3.0) + 1, x)
    compiled(lambda x: x.roll((1, -2), (0, 1)) * 2, x)
    compiled(lambda x: tocha.stack([x, x + 1], 1).sum(1), x)
    compiled(lambda x: x.unfold(1, 3, 2).exp(), x)
    compiled(lambda x: x.tril() + x.triu(1), x)


def test_reads_at_places_that_elements_name():
    table, at = randn(11, 5), tocha.tensor([[3, 0], [10, 7]])
    compiled(lambda t, i: F.embedding(i, t) * 2, table, at)
    compiled(lambda t, i: t[i, 1], table, at)
    compiled(lambda t, i: t[i].relu(), table, tocha.tensor([-1, 2, -11]))
    compiled(lambda t, i: t.gather(1, i) + 1, table, tocha.tensor([[0, 4], [1, 1]]))
    compiled(lambda t, i: t.index_select(0, i) - 1, table, tocha.tensor([4, 4, 0]))


def test_a_place_that_is_not_there_is_an_error():
    c = compile_graph(traced(lambda t, i: [t[i] * 2], randn(4, 3), tocha.tensor([0, 1])))
    with pytest.raises(IndexError, match="out of range"):
        c(randn(4, 3), tocha.tensor([0, 4]))


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_place_in_nothing_is_an_error(dynamic):
    c = tocha.compile(lambda t, i: t[i] * 2, dynamic=dynamic)
    with pytest.raises(IndexError, match="out of"):
        c(tocha.zeros(0, 3), tocha.tensor([0, 1]))
    assert c(tocha.zeros(0, 3), tocha.zeros(0, dtype=tocha.int64)).shape == (0, 3)
    for call in (lambda t, i: t[i], lambda t, i: t[:, i], lambda t, i: t.t()[i]):
        with pytest.raises(IndexError, match="index is out of bounds for dimension with size 0"):
            tocha.compile(call, dynamic=dynamic)(tocha.zeros(0, 0), tocha.tensor([0]))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.softmax(-1),
        lambda x: x.log_softmax(0),
        lambda x: F.layer_norm(x, (12,)),
        lambda x: F.gelu(x) * x.mean(),
        lambda x: F.dropout(x, 0.0) + x.var(1, keepdim=True),
        lambda x: tocha.cat([x, x.exp()], 1)[:, 3:17],
        lambda x: x.reshape(4, 3, 6).transpose(0, 2).cumsum(1),
        lambda x: (x @ x.t()).tanh(),
        lambda x: F.cross_entropy(x, tocha.tensor([1, 2, 3, 4, 5, 6])),
        lambda x: x[tocha.tensor([1, 1, 4])] * 3,
        lambda x: F.max_pool1d(x[None], 3)[0],
    ],
)
def test_forward_and_backward(f):
    gradients_agree(f, randn(6, 12))


def test_batch_norm_and_convolution_train():
    def f(x, w, g, b):
        y = F.batch_norm(F.conv2d(x, w, padding=1), None, None, g, b, True)
        return F.relu(y).mean((2, 3))

    gradients_agree(f, randn(2, 3, 8, 8), randn(4, 3, 3, 3, seed=1), randn(4, seed=2), randn(4, seed=3))


def test_wrong_inputs_are_refused():
    c = compile_graph(traced(lambda x: [x + 1], randn(2, 3)))
    for bad in (randn(3, 2), randn(2, 3).to(tocha.float64), randn(3, 2).t()):
        with pytest.raises(RuntimeError, match="input 0 must be Float"):
            c(bad)
    with pytest.raises(TypeError, match="takes 1 arguments"):
        c(randn(2, 3), randn(2, 3))


def test_random_numbers_are_eagers():
    f = lambda x: F.dropout(x * 2, 0.5) + tocha.rand_like(x)  # noqa: E731
    x = randn(50)
    with tocha.no_grad():
        run = aot_function(f, fw_compiler=lambda g, _: compile_graph(g))
        tocha.manual_seed(3)
        got = run(x)
        tocha.manual_seed(3)
        assert_close(got, f(x))


@pytest.mark.parametrize("dynamic", [False, True])
def test_draws_in_place_follow_addresses(dynamic):
    def f(x):
        return (
            F.dropout(x, 0.3),
            F.alpha_dropout(x + 1, 0.3, True),
            (x * 1).bernoulli_(0.5),
            x.clone()[:, ::2].bernoulli_(0.5),
        )

    c = tocha.compile(f, dynamic=dynamic)
    for n in (3, 5):
        x = randn(4, 30, n).permute(2, 0, 1)
        tocha.manual_seed(3)
        got = c(x)
        tocha.manual_seed(3)
        expected = f(x)
        for g, e in zip(got, expected, strict=True):
            assert_close(g, e)
            assert g.stride() == e.stride()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("pad", [(3, -2, 1, 1), (-1, 2, -2, -1), (-1, 3, 2, -3)])
def test_circular_padding_repeats_what_is_left_after_cutting(pad, dynamic):
    c = tocha.compile(lambda x: F.pad(x, pad, "circular"), dynamic=dynamic)
    for n in (5, 7):
        x = randn(2, 3, n, 6).requires_grad_()
        expected = F.pad(x, pad, "circular")
        assert_close(c(x), expected)
        weight = randn(*expected.shape)
        (got,), (wanted,) = (tocha.autograd.grad((y * weight).sum(), x) for y in (c(x), expected))
        assert_close(got, wanted)


@pytest.mark.parametrize(
    "program",
    [
        lambda x, i: F.embedding(i, x) * 2,
        lambda x, i: x.index_select(0, i) * 2,
        lambda x, i: x.index_select(1, i[0]) + 1,
        lambda x, i: x.gather(1, i[:, None]) * 2,
        lambda x, i: F.cross_entropy(x, i) * 2,
        lambda x, i: F.multi_margin_loss(x, i) * 2,
    ],
)
def test_only_indexing_counts_from_the_end(program):
    x = randn(4, 4)
    for dynamic in (False, True):
        c = tocha.compile(program, dynamic=dynamic)
        assert_close(c(x, tocha.tensor([3, 1, 0, 2])), program(x, tocha.tensor([3, 1, 0, 2])))
        for bad in (-1, 4):
            with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)") as eager:
                program(x, tocha.tensor([bad, 1, 0, 2]))
            with pytest.raises(eager.type, match=r"out of (range|bounds)"):
                c(x, tocha.tensor([bad, 1, 0, 2]))


def test_compile_takes_the_backend():
    @tocha.compile(backend="inductor")
    def f(x, y):
        return (x + y).relu() * y

    x, y = randn(4, 6), randn(4, 6, seed=1)
    assert_close(f(x, y), (x + y).relu() * y)
    x.requires_grad_()
    f(x, y).sum().backward()
    assert_close(x.grad, ((x.detach() + y) > 0) * y)


def test_options_are_checked():
    with pytest.raises(RuntimeError, match=r"Unexpected optimization option .*did you mean 'fallback_to_eager'"):
        tocha.compile(lambda x: x + 1, backend="inductor", options={"fallback_to_eagle": True})
    with pytest.raises(RuntimeError, match="Unexpected type of attr look_back, got str should be int"):
        tocha.compile(lambda x: x + 1, backend="inductor", options={"look_back": "far"})
    with pytest.warns(UserWarning, match="no effect"), config.patch(aggressive_fusion=True):
        pass
    with pytest.raises(TypeError, match="takes"), config.patch(look_back="far"):
        pass
    assert "reduce-overhead" in tocha._inductor.list_mode_options()
    with pytest.raises(RuntimeError, match="Unrecognized mode=fast, should be one of: default"):
        tocha._inductor.list_mode_options("fast")


def test_settings_without_effect_are_read_as_they_were_set():
    before = config.max_fusion_size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with config.patch({"max_fusion_size": before + 1}):
            saved = config.save_config()
            assert config.max_fusion_size == config.get_config_copy()["max_fusion_size"] == before + 1
        assert config.max_fusion_size == before
        config.load_config(saved)
        assert config.max_fusion_size == before + 1
        config.max_fusion_size = before


def test_a_compiled_function_tells_its_settings():
    def f(x):
        return x + 1

    changed = not config.triton.cudagraphs
    for model in (f, tocha.nn.ReLU()):
        compiled = tocha.compile(model, options={"triton.cudagraphs": changed})
        assert compiled.get_compiler_config()["triton.cudagraphs"] is changed
        assert tocha.compile(model).get_compiler_config()["triton.cudagraphs"] is not changed
        assert tocha.compile(model, backend="eager").get_compiler_config() is None


def test_other_backends_are_told_the_mode():
    told = []

    def backend(module, inputs, *, mode=None, options=None):
        told.append((mode, options))
        return module

    for given in ({}, {"mode": "default"}, {"mode": "some-mode"}, {"options": {"some": 1}}):
        tocha._dynamo.reset()
        tocha.compile(lambda x: x + 1, backend=backend, **given)(tocha.ones(2))
    assert told == [(None, None), (None, None), ("some-mode", None), (None, {"some": 1})]


def test_arguments_that_hold_tensors():
    class Nested(tocha.nn.Module):
        def forward(self, pair, n):
            return {"sum": pair["a"][0] + n, "parts": [pair["b"] * 2]}

    pair, n = {"a": (tocha.ones(2),), "b": tocha.ones(3)}, tocha.ones(2)
    compiled = tocha._inductor.compile(Nested(), [pair, n])
    assert_close(compiled(pair, n), Nested()(pair, n))
    with pytest.raises(ValueError, match="arguments are nested as"):
        compiled({"a": tocha.ones(2), "b": tocha.ones(3)}, n)


def test_without_a_compiler(monkeypatch):
    def nothing(source):
        raise codecache.CompilerError("[compile] no C++ compiler found")

    monkeypatch.setattr(codecache, "library_of", nothing)
    with pytest.raises(Exception, match="no C\\+\\+ compiler"):
        tocha.compile(lambda x: x * 2.5 + 1, backend="inductor")(randn(3))
    with pytest.warns(UserWarning, match="operator by operator"), config.patch(fallback_to_eager=True):
        x = randn(3)
        assert_close(tocha.compile(lambda x: x * 2.5 - 1, backend="inductor")(x), x * 2.5 - 1)


def test_conditions_on_a_loops_variable_cut_it():
    c = compiled(lambda x, y: tocha.cat([x, y], 1) * 2, randn(3, 10), randn(3, 12))
    assert " ? " not in c.source and c.source.count("#pragma GCC ivdep") == 2


# ---- the IR --------------------------------------------------------------------------------------


def test_sizes_refine():
    assert refine([4, 6], [2, 12]) == [2, 2, 6]
    assert refine([1, 24], [4, 6]) == [4, 6]
    assert refine([4, 6], [6, 4]) is None
    assert refine([4], [8]) is None


def small_program() -> Program:
    return lower_graph(traced(lambda x: [(x + 1).sum(0)], randn(3, 4)))


def test_programs_print():
    assert "add_0: for i0 < 3, i1 < 4" in repr(small_program()) and "folds 1" in repr(small_program())


def test_the_verifier_takes_what_lowering_makes():
    verify(small_program())


def test_the_verifier_refuses():
    p = small_program()
    loop = p.steps[0]
    assert isinstance(loop, Loop)
    other = Buffer("nowhere", (3, 4), (4, 1), dt.float32)
    broken = {
        "before it is there": {"reads": (Load(other, 0),)},
        "outside of its": {"reads": (Load(p.inputs[0], 12),)},
        "no input": {"formulas": (Input(5, dt.float32),)},
        "computes": {"formulas": (Input(0, dt.float32) > 0,)},
    }
    for message, change in broken.items():
        before = {k: getattr(loop, k) for k in change}
        for k, v in change.items():
            setattr(loop, k, v)
        with pytest.raises(VerificationError, match=message):
            verify(p)
        for k, v in before.items():
            setattr(loop, k, v)
    p.outputs = [Geometry(other, (3, 4), (4, 1), 0, dt.float32)]
    with pytest.raises(VerificationError, match="never computed"):
        verify(p)


def test_the_source_depends_only_on_the_graph():
    f = lambda x: (x.softmax(-1) * 2).sum(0)  # noqa: E731
    sources = {compile_graph(traced(lambda x: [f(x)], randn(5, 6))).source for _ in range(2)}
    assert len(sources) == 1


def test_graphs_of_make_fx_are_compiled_alone():
    def f(x, y, n):
        x.add_(1)
        return x @ y * n, x[0]

    def given():
        return [tocha.arange(4.0).view(2, 2), tocha.ones(2, 2), 3]

    graph = make_fx(f)(*given())
    compiled = compile_fx_inner(graph, given())
    plain, args = given(), given()
    expected, written = f(*plain), args[0]
    found = compiled(args)
    assert args == []  # the list is the callee's
    assert written.equal(plain[0])
    for a, b in zip(found, expected, strict=True):
        assert a.equal(b)


def test_graphs_assert_that_what_they_take_and_give_is_finite():
    def f(x, w):
        return (x.log() * w.sqrt()).sum()

    with config.patch(nan_asserts=True):
        compiled = tocha.compile(f)
        w = tocha.zeros(2, requires_grad=True)
        for x, message in (
            (tocha.tensor([1.0, math.nan]), "argument"),
            (tocha.tensor([1.0, 0.0]), "result"),
        ):
            with pytest.raises(AssertionError, match=message):
                compiled(x, w)
        out = compiled(tocha.tensor([1.0, 2.0]), w)
        with pytest.raises(AssertionError, match="result"):  # the gradient of a root at 0
            out.backward()
        into = tocha.compile(lambda x, o: tocha.log(x, out=o) * 1)  # an input grows: the graph runs as it was captured
        with pytest.raises(AssertionError, match="result"):
            into(tocha.tensor([0.0, 1.0]), tocha.empty(0))
    tocha._dynamo.reset()
    assert tocha.compile(f)(tocha.tensor([1.0, math.nan]), w).isnan()
