"""Back ends by device: which one a graph gets, what one of one's own is asked for, and what happens where there is none."""

from __future__ import annotations

import pytest

import tocha
from tocha._inductor import backends
from tocha._inductor.backends import BACKENDS, CppBackend, TritonBackend, backend_for
from tocha._inductor.graph import lower_graph
from tocha._inductor.programs import compile_graph
from tocha.fx.experimental.proxy_tensor import make_fx
from tocha.ir.loops import NotLowered
from tocha.ir.memory import MemoryPlan

pytestmark = pytest.mark.usefixtures("kernel_cache")


def graph(device: str = "cpu"):
    x = tocha.ones(4, 8, device=device)
    return make_fx(lambda x: [x.exp().sum(-1) + 1], tracing_mode="fake")(x)


def test_a_graph_gets_the_back_end_of_its_device():
    assert backend_for(graph()) is BACKENDS["cpu"]
    with pytest.raises(NotLowered, match="no back end for meta"):
        backend_for(graph("meta"))
    assert backend_for(make_fx(lambda: [1], tracing_mode="fake")()) is BACKENDS["cpu"]  # numbers only


def test_both_languages_print_the_same_loops():
    module = graph()
    program = lower_graph(module)
    for backend, texts in ((CppBackend(), ("void kernel_0(", "math::exp")), (TritonBackend(), ("@triton.jit", "tl.exp(tl.load("))):  # fmt: skip
        (kernel,) = backend.schedule(program, module)
        text = backend.kernel_text(kernel, program.known)
        assert all(t in text for t in texts), text
    with pytest.raises(NotLowered, match="can be printed"):
        TritonBackend().write(program, [kernel], MemoryPlan())


def test_a_back_end_of_ones_own_has_the_scheduler_and_the_source(monkeypatch):
    asked = []

    class Watched(CppBackend):
        def schedule(self, program, module):
            items = super().schedule(program, module)
            asked.append([i.name for i in items])
            return items

        def write(self, program, items, memory):
            source, calls = super().write(program, items, memory)
            return "// mine\n" + source, calls

    monkeypatch.setitem(backends.BACKENDS, "cpu", Watched())
    made = compile_graph(graph())
    assert asked == [["kernel_0"]] and made.source.startswith("// mine\n")
    x = tocha.randn(4, 8)
    tocha.testing.assert_close(made.run(x)[0], x.exp().sum(-1) + 1)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x.sin() + 1,
        lambda x: (x.sin().to("meta"), x + 1),
        lambda x: (tocha.zeros(4, device="meta") + 1, x + 1),
        lambda x: tocha.empty_like(x, device="meta").sum(),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_what_has_no_back_end_runs_operator_by_operator(program, device):
    x = tocha.ones(3, device=device)
    got, want = tocha.compile(program)(x), program(x)
    for g, w in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, want)), strict=True):
        assert (g.device, g.shape, g.dtype) == (w.device, w.shape, w.dtype)
        if g.device.type == "cpu":
            assert g.tolist() == w.tolist()
