"""The memory plan: what is written over what, what lies in the arena, what inputs become, when saved values go."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest

import tocha
import tocha.nn.functional as F
from tocha._functorch.aot_autograd import aot_function
from tocha._inductor import config, graph
from tocha._inductor.programs import CompiledGraph, compile_graph
from tocha.fx.experimental.proxy_tensor import make_fx
from tocha.ir.memory import nbytes
from tocha.testing import assert_close

pytestmark = pytest.mark.usefixtures("kernel_cache")


def compiled(f, *args) -> tuple[CompiledGraph, list[tocha.Tensor]]:
    """f by ahead-of-time autograd: the graph of its forward, and its results, which are eager's."""
    found: list[CompiledGraph] = []

    def keep(graph, inputs):
        found.append(compile_graph(graph))
        return found[-1].run

    mine, theirs = [a.clone() for a in args], [a.clone() for a in args]
    got, want = aot_function(f, fw_compiler=keep)(*mine), f(*theirs)
    assert_close(got, want, rtol=1e-5, atol=1e-5)
    for a, b in zip(mine, theirs, strict=True):
        assert_close(a, b, rtol=1e-5, atol=1e-5)
        assert a._version == b._version
    return found[0], mine


def test_inputs_are_written_directly():
    def step(p, g, m):
        m.mul_(0.9).add_(g)
        p.sub_(m * 0.1)
        return g.sum()

    c, _ = compiled(step, tocha.randn(64), tocha.randn(64), tocha.randn(64))
    assert len(c.memory.written) == 2


def test_an_input_that_is_read_elsewhere_is_not_written_directly():
    c, _ = compiled(lambda x, y: (x.add_(1), x.flip(0) * y)[1], tocha.randn(8), tocha.randn(8))
    compiled(lambda x, y: (x.copy_(x.flip(0)), y * 2)[1], tocha.randn(8), tocha.randn(8))
    assert all(b.sizes == (8,) for b in c.memory.written.values())


def test_a_result_that_is_handed_out_is_not_the_input():
    def f(x):
        x.add_(1)
        return x * 1, x.clone()

    c, (x,) = compiled(f, tocha.randn(8))
    outs = c.run(x)
    assert all(o.data_ptr() != x.data_ptr() for o in outs if o is not x)


def test_temporaries_of_kernels_share_an_arena():
    def f(x):
        for _ in range(4):
            x = x.cumsum(0).exp().sum(0, keepdim=True) * x.roll(1, 0)
        return x

    c, _ = compiled(f, tocha.randn(16, 16) * 0.01)
    held = [nbytes(b) for b in c.memory.offsets]
    assert c.memory.arena <= sum(-(-n // 64) * 64 for n in held)
    ends = [(at, at + nbytes(b)) for b, at in c.memory.offsets.items()]
    assert all(low >= 0 and high <= c.memory.arena for low, high in ends)


def test_what_is_large_is_no_part_of_the_arena():
    def f(x):
        return (x @ x).exp() @ x

    for n, small in ((16, True), (256, False)):
        c, _ = compiled(f, tocha.randn(n, n) * 0.01)
        assert any(nbytes(b) == n * n * 4 for b in c.memory.offsets) is small
    with config.patch({"triton.cudagraphs": True}):
        c, _ = compiled(f, tocha.randn(256, 256) * 0.01)
    assert any(nbytes(b) == 256 * 256 * 4 for b in c.memory.offsets)


def test_kernels_that_end_memory_run_before_other_work():
    def f(x, y, z):
        a, b = x.sort().values, y.sort().values
        return z.sort().values, (a * b).sum(1)

    c, _ = compiled(f, *(tocha.randn(64, 64) for _ in range(3)))
    assert [item.name for item in c.items] == ["sort", "sort", "kernel_0", "sort"]


def test_kernels_do_not_pass_writes_to_what_they_read():
    def f(x, y):
        a, b = x.sort().values, y.sort().values
        y.copy_(x.sort(descending=True).values)
        return (a * b * y).sum(1)

    compiled(f, tocha.randn(64, 64), tocha.randn(64, 64))


def test_what_kernels_between_calls_would_gather_again_is_stored():
    """The sum of three is read before and after a product; of two it is computed twice, which costs as many bytes."""

    def f(x, w, *more):
        y = x
        for other in more:
            y = y + other
        return ((y * 2) @ w) * y

    square = tocha.randn(64, 64)
    for n, stored in ((2, False), (3, True)):
        c, _ = compiled(f, square, tocha.eye(64), *(tocha.randn(64, 64) for _ in range(n - 1)))
        before = c.kernels[0].results()
        assert (len(before) == 2) is stored


PEAK = """
import sys, tocha
tocha.manual_seed(0)
width, batch = 192, 96
model = tocha.nn.Sequential(*(m for _ in range(6) for m in (tocha.nn.Linear(width, width), tocha.nn.GELU())))
x = tocha.randn(batch, width)
run = tocha.compile(model) if sys.argv[1] == "compiled" else model
before = tocha._C._cpu_memory()["in_use"]
for _ in range(3):
    model.zero_grad()
    run(x).square().mean().backward()
print(tocha._C._cpu_memory()["peak"] - before)
"""


def test_a_training_step_needs_no_more_memory_than_eager():
    compiled_peak, eager_peak = (
        int(subprocess.run([sys.executable, "-c", PEAK, kind], capture_output=True, text=True, check=True).stdout)
        for kind in ("compiled", "eager")
    )
    assert compiled_peak <= eager_peak * 1.01


def test_a_dying_tensor_becomes_the_result():
    graph = make_fx(lambda x, w: [(x @ w).tanh()], tracing_mode="fake")(tocha.ones(6, 6), tocha.ones(6, 6))
    c = compile_graph(graph)
    assert len(c.memory.reused) == 1
    x, w = tocha.randn(6, 6), tocha.randn(6, 6)
    first, second = c.run(x, w)[0], c.run(x, w)[0]
    assert first.data_ptr() != second.data_ptr()
    assert_close(first, (x @ w).tanh(), rtol=1e-5, atol=1e-5)


def test_a_dying_tensor_becomes_a_result_of_other_sizes():
    def f(x, w):
        return [(x @ w).view(2, 3, 6).tanh()]

    c = compile_graph(make_fx(f, tracing_mode="fake")(tocha.ones(6, 6), tocha.ones(6, 6)))
    ((result, old),) = c.memory.reused.items()
    assert (result.sizes, old.sizes) == ((2, 3, 6), (6, 6))
    x, w = tocha.randn(6, 6), tocha.randn(6, 6)
    first, second = c.run(x, w)[0], c.run(x, w)[0]
    assert first.data_ptr() != second.data_ptr()
    assert first.shape == (2, 3, 6) and first.is_contiguous() and not first._is_view()
    assert first.untyped_storage().nbytes() == 6 * 6 * 4
    assert_close(first, (x @ w).view(2, 3, 6).tanh(), rtol=1e-5, atol=1e-5)


def test_what_a_convolution_makes_becomes_a_result_of_other_sizes():
    def f(x, w):
        return [F.conv2d(x, w, padding=1).flatten(2).tanh() * 2]

    x, w = tocha.randn(2, 3, 12, 12), tocha.randn(8, 3, 3, 3)
    c = compile_graph(make_fx(f, tracing_mode="fake")(x, w))
    ((result, old),) = c.memory.reused.items()
    assert (result.sizes, old.sizes) == ((2, 8, 144), (2, 8, 12, 12))
    assert "then kernel_0" in c.source  # it is made while the convolution runs
    for _ in range(3):
        assert_close(c.run(x, w)[0], f(x, w)[0], rtol=1e-5, atol=1e-5)


def test_a_dying_tensor_that_is_read_in_another_order_does_not_become_the_result():
    def f(x, w):
        return [(x @ w).t().reshape(2, 3, 6).tanh()]

    c = compile_graph(make_fx(f, tracing_mode="fake")(tocha.ones(6, 6), tocha.ones(6, 6)))
    assert not c.memory.reused
    x, w = tocha.randn(6, 6), tocha.randn(6, 6)
    assert_close(c.run(x, w)[0], (x @ w).t().reshape(2, 3, 6).tanh(), rtol=1e-5, atol=1e-5)


def test_backward_frees_saved_values_as_they_are_used():
    alive: list[int] = []
    refs: list = []

    def f(x, w):
        for _ in range(3):
            x = tocha.sin(x @ w)
        return x.sum()

    def watch(graph, inputs):
        run = compile_graph(graph).run

        def first(*args):
            refs.extend(weakref.ref(a) for a in args if isinstance(a, tocha.Tensor))
            return run(*args)

        return first if not refs else run

    x, w = tocha.randn(8, 8, requires_grad=True), tocha.randn(8, 8, requires_grad=True)
    g = aot_function(f, fw_compiler=lambda graph, inputs: compile_graph(graph).run, bw_compiler=watch)
    g(x, w).backward()
    gc.collect()
    alive = [r for r in refs if r() is not None and r() is not x and r() is not w]
    assert refs and not alive
    want, (a, b) = None, (x.detach().clone().requires_grad_(), w.detach().clone().requires_grad_())
    want = f(a, b)
    want.backward()
    assert_close(x.grad, a.grad, rtol=1e-4, atol=1e-5)
    assert_close(w.grad, b.grad, rtol=1e-4, atol=1e-5)


def test_a_second_backward_needs_what_was_kept():
    g = aot_function(lambda x: (x.sin() * x).sum(), fw_compiler=lambda graph, inputs: compile_graph(graph).run)
    x = tocha.randn(5, requires_grad=True)
    loss = g(x)
    loss.backward(retain_graph=True)
    once = x.grad.clone()
    loss.backward()
    assert_close(x.grad, 2 * once)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


def test_saved_values_are_watched():
    g = aot_function(lambda x, y: (x * y).sum(), fw_compiler=lambda graph, inputs: compile_graph(graph).run)
    x, y = tocha.randn(5, requires_grad=True), tocha.randn(5, requires_grad=True)
    loss = g(x, y)
    with tocha.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_saved_values_pass_the_hooks():
    seen = []
    g = aot_function(lambda x: (x.exp() * x).sum(), fw_compiler=lambda graph, inputs: compile_graph(graph).run)
    x = tocha.randn(5, requires_grad=True)
    with tocha.autograd.graph.saved_tensors_hooks(lambda t: (seen.append(1), t * 1)[1], lambda t: t):
        loss = g(x)
    loss.backward()
    assert seen
    assert_close(x.grad, x.detach().exp() * (1 + x.detach()), rtol=1e-5, atol=1e-5)


def test_differentiating_twice_is_refused():
    g = aot_function(lambda x: (x.sin() * x).sum(), fw_compiler=lambda graph, inputs: compile_graph(graph).run)
    x = tocha.randn(5, requires_grad=True)
    (grad,) = tocha.autograd.grad(g(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        grad.sum().backward()


def test_reduce_overhead_keeps_its_memory():
    f = tocha.compile(lambda x: (x.exp().sum(0) * F.relu(x)).cumsum(0), backend="inductor", mode="reduce-overhead")
    x = tocha.randn(32, 32) * 0.1
    want = (x.exp().sum(0) * F.relu(x)).cumsum(0)
    for _ in range(3):
        assert_close(f(x), want, rtol=1e-5, atol=1e-5)


def test_a_hundred_steps_of_an_optimizer_are_one_compilation():
    params = [tocha.nn.Parameter(tocha.randn(6, 4)), tocha.nn.Parameter(tocha.randn(4))]
    twins = [tocha.nn.Parameter(p.detach().clone()) for p in params]
    mine, theirs = (tocha.optim.AdamW(ps, lr=1e-2) for ps in (params, twins))
    counter = tocha._dynamo.testing.CompileCounterWithBackend("inductor")
    step = tocha.compile(mine.step, backend=counter)
    seen = []
    for i in range(100):
        for p, q in zip(params, twins, strict=True):
            p.grad = tocha.full_like(p, 0.1 * (i % 7) - 0.3)
            q.grad = p.grad.clone()
        step()
        theirs.step()
        seen.append(counter.frame_count)
    assert seen[-1] == seen[1] and seen[-1] <= 2  # its state is made at the first step
    for p, q in zip(params, twins, strict=True):
        assert_close(p, q, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("quick", [False, True])
def test_memory_in_another_order_is_the_librarys_copy_where_that_is_quick(quick, monkeypatch):
    monkeypatch.setattr(graph, "transposes_in_registers", lambda: quick)
    a, b = tocha.randn(2, 16, 8, 8), tocha.randn(2, 16, 8, 8)
    last = [0, 2, 3, 1]
    moved, _ = compiled(lambda x, y: tocha.cat((x.permute(last), y.permute(last)), -1), a, b)
    assert [c.name for c in moved.calls] == ["cat"] * quick and len(moved.kernels) == (not quick)
    for f in (
        lambda x, y: tocha.cat((x, y), -1),  # the same order
        lambda x, y: tocha.cat((x.permute(last), y.permute(last)), -1) * 2,  # fused with what follows
        lambda x, y: tocha.cat(((x + 1).permute(last), y.permute(last)), -1),  # or with what comes before
    ):
        c, _ = compiled(f, a, b)
        assert not c.calls and len(c.kernels) == 1
