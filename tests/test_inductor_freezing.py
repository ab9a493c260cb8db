"""`config.freezing`: parameters as constants, what is folded into them, and when a program is made again."""

from __future__ import annotations

import pytest

import tocha
from tocha import nn
from tocha._inductor import compilation, config, graph_cache
from tocha.testing import assert_close

pytestmark = pytest.mark.usefixtures("empty_kernel_cache")


@pytest.fixture
def made(monkeypatch):
    """The graphs that were compiled."""
    graphs, compile_graph = [], compilation.compile_graph

    def keep(module):
        graphs.append(module)
        return compile_graph(module)

    monkeypatch.setattr(compilation, "compile_graph", keep)
    with config.patch(freezing=True):
        yield graphs


def operators(module) -> list[str]:
    return [n.target._opname for n in module.graph.nodes if n.op == "call_function" and hasattr(n.target, "_opname")]


def unsettled(*layers: nn.Module) -> nn.Sequential:
    """A model in eval mode, whose norms have something to do."""
    model = nn.Sequential(*layers)
    generator = tocha.Generator().manual_seed(0)
    for layer in model:
        if hasattr(layer, "running_mean"):
            with tocha.no_grad():
                for t in (layer.running_mean, layer.weight, layer.bias):
                    t.normal_(generator=generator)
                layer.running_var.uniform_(0.5, 2, generator=generator)
    return model.eval()


def test_a_batch_norm_is_folded_into_the_convolution_before_it(made):
    model = unsettled(
        nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.BatchNorm2d(4)
    )
    x = tocha.randn(2, 3, 9, 9)
    with tocha.no_grad():
        assert_close(tocha.compile(model)(x), model(x), rtol=1e-5, atol=1e-5)
    assert operators(made[0]) == ["convolution", "relu", "convolution"]


def test_and_into_the_linear_layer(made):
    model = unsettled(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3, bias=False), nn.BatchNorm1d(3))
    x = tocha.randn(7, 6)
    with tocha.no_grad():
        assert_close(tocha.compile(model)(x), model(x), rtol=1e-5, atol=1e-5)
    assert operators(made[0]) == ["addmm", "relu", "addmm"]


def test_a_norm_that_measures_is_not_folded(made):
    model = unsettled(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    model.train()
    other = unsettled(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    other.load_state_dict(model.state_dict())
    other.train()
    x = tocha.randn(2, 3, 6, 6)
    compiled = tocha.compile(model)
    with tocha.no_grad():
        for _ in range(2):
            assert_close(compiled(x), other(x), rtol=1e-5, atol=1e-5)
    assert_close(model[1].running_mean, other[1].running_mean)
    assert model[1].num_batches_tracked == other[1].num_batches_tracked == 2


def test_what_depends_on_parameters_alone_is_computed_once(made):
    w, b = nn.Parameter(tocha.randn(4, 3)), nn.Parameter(tocha.randn(4))
    f = tocha.compile(lambda x: x @ (w.t() * b.exp()))
    x = tocha.randn(2, 3)
    with tocha.no_grad():
        assert tocha.equal(f(x), x @ (w.t() * b.exp()))
    assert operators(made[0]) == ["mm"]


def test_results_are_the_callers_own(made):
    w = nn.Parameter(tocha.ones(3))
    f = tocha.compile(lambda x: (x + w, w * 2, w))
    with tocha.no_grad():
        _, doubled, same = f(tocha.zeros(3))
        doubled.fill_(7)
        assert f(tocha.zeros(3))[1].tolist() == [2, 2, 2]
    assert same is w


def test_a_parameter_that_is_replaced_makes_a_new_program(made):
    model = unsettled(nn.Linear(3, 3))
    x, compiled = tocha.randn(2, 3), tocha.compile(model)
    with tocha.no_grad():
        compiled(x)
        compiled(x)
        assert len(made) == 1
        model[0].weight = nn.Parameter(tocha.randn(3, 3))
        assert_close(compiled(x), model(x))
        compiled(x)
    assert len(made) == 2


def test_buffers_are_frozen_and_replaced_too(made):
    model = unsettled(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))
    x, compiled = tocha.randn(1, 1, 4, 4), tocha.compile(model)
    with tocha.no_grad():
        compiled(x)
        model[1].running_mean = tocha.full((2,), 5.0)
        assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)
    assert len(made) == 2 and operators(made[1]) == ["convolution"]


def test_a_write_to_a_folded_parameter_is_not_seen(made):
    model = unsettled(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))
    x, compiled = tocha.randn(1, 1, 4, 4), tocha.compile(model)
    with tocha.no_grad():
        before = compiled(x)
        model[0].weight.mul_(3)
        assert tocha.equal(compiled(x), before)
    assert len(made) == 1


def test_where_gradients_are_recorded_nothing_is_frozen(made):
    model = unsettled(nn.Linear(3, 3))
    x, compiled = tocha.randn(2, 3), tocha.compile(model)
    compiled(x).sum().backward()
    assert model[0].weight.grad is not None and not any(n.op == "get_attr" for n in made[0].graph.nodes)
    with tocha.no_grad():
        compiled(x)
    assert any(n.op == "get_attr" for n in made[-1].graph.nodes)


def test_what_the_function_writes_to_stays_an_input(made):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", tocha.zeros(1))
            self.scale = nn.Parameter(tocha.ones(1))

        def forward(self, x):
            self.calls.add_(1)
            return x * self.scale + self.calls

    model = Counting()
    compiled = tocha.compile(model)
    with tocha.no_grad():
        assert [compiled(tocha.zeros(1)).item() for _ in range(3)] == [1, 2, 3]
    assert model.calls.item() == 3 and len(made) == 1


def test_models_of_one_class_have_programs_of_their_own(made):
    models = [unsettled(nn.Linear(3, 3)) for _ in range(3)]
    x = tocha.randn(2, 3)

    @tocha.compile
    def f(model, x):
        return model(x)

    with tocha.no_grad():
        for _ in range(2):
            for m in models:
                assert_close(f(m, x), m(x))
    assert len(made) == 3


def test_frozen_graphs_are_not_kept_on_disk(made, monkeypatch):
    asked = []
    monkeypatch.setattr(graph_cache.GRAPHS, "write", lambda parts, content: asked.append(parts))
    model = unsettled(nn.Linear(3, 3))
    with tocha.no_grad():
        tocha.compile(model)(tocha.randn(2, 3))
    assert not asked


def test_the_option_of_compile():
    model = unsettled(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))
    x = tocha.randn(1, 1, 4, 4)
    with tocha.no_grad():
        assert_close(tocha.compile(model, options={"freezing": True})(x), model(x), rtol=1e-5, atol=1e-5)
