"""make_fx: the operators that a function calls below autograd, as a graph."""

import pytest

import tocha
from tocha import fx
from tocha.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, get_proxy_mode, make_fx

MODES = ("real", "fake", "symbolic")


def targets(module):
    return [str(n.target) for n in module.graph.nodes if n.op == "call_function"]


def leaf(*sizes):
    return tocha.arange(1.0, 1 + tocha.Size(sizes).numel()).reshape(sizes).requires_grad_()


@pytest.mark.parametrize("mode", MODES)
def test_gradients_are_traced_with_what_they_are_of(mode):
    def f(x):
        y = (x.sin() * x).sum()
        return y, *tocha.autograd.grad(y, x)

    x = leaf(3)
    module = make_fx(f, tracing_mode=mode)(leaf(3))
    assert "aten.cos.default" in targets(module)
    for ours, eager in zip(module(x), f(x), strict=True):
        tocha.testing.assert_close(ours, eager)


@pytest.mark.parametrize("mode", MODES)
def test_second_gradients(mode):
    def f(x):
        (g,) = tocha.autograd.grad((x**3).sum(), x, create_graph=True)
        return tocha.autograd.grad(g.sum(), x)[0]

    module = make_fx(f, tracing_mode=mode)(leaf(3))
    tocha.testing.assert_close(module(leaf(3)), 6 * leaf(3).detach())


def test_symbolic_graphs_run_at_other_sizes():
    def f(x):
        flat = x.view(x.shape[0] * x.shape[1], -1)
        return flat.sum() / x.size(0) + x.shape[1] // 2, x.shape[0] + 1

    module = make_fx(f, tracing_mode="symbolic")(tocha.ones(3, 4))
    assert "aten.sym_size.int" in targets(module)
    for sizes in ((3, 4), (5, 7), (2, 9)):
        x = tocha.rand(sizes)
        assert module(x)[1] == sizes[0] + 1
        tocha.testing.assert_close(module(x)[0], f(x)[0])


def test_numbers_that_are_arguments_become_symbols():
    module = make_fx(lambda x, n: x.view(n, -1) + n, tracing_mode="symbolic")(tocha.ones(6), 3)
    assert module(tocha.ones(8), 2).shape == (2, 4)


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_tensors_of_data_are_copied_at_each_run(mode):
    def f(x):
        count = tocha.tensor([1.0, 2.0])
        count.add_(x)
        return count

    module = make_fx(f, tracing_mode=mode)(tocha.ones(2))
    assert targets(module) == ["aten.lift_fresh_copy.default", "aten.add_.Tensor"]
    for _ in range(2):
        assert module(tocha.ones(2)).tolist() == [2.0, 3.0]


def test_closed_over_tensors_are_attributes_and_written_to():
    held = tocha.zeros(2)

    def f(x):
        held.add_(x)
        return x

    module = make_fx(f)(tocha.ones(2))
    assert module._tensor_constant0 is held
    module(tocha.ones(2))
    assert held.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_parameters_are_attributes(mode):
    layer = tocha.nn.Linear(3, 3)
    module = make_fx(layer, tracing_mode=mode, _allow_non_fake_inputs=True)(tocha.ones(2, 3))
    assert {id(p) for p in module.parameters()} == {id(p) for p in layer.parameters()}
    x = tocha.rand(2, 3)
    tocha.testing.assert_close(module(x), layer(x))


def test_elements_cannot_be_written_down():
    with pytest.raises(
        RuntimeError, match=r"trying to get value out of a tracing tensor with aten\._local_scalar_dense"
    ):
        make_fx(lambda x: x * x.sum().item())(tocha.ones(3))


def test_elements_of_constants_can():
    assert make_fx(lambda x: x * (tocha.tensor(3.0) + 1).item())(tocha.ones(1))(tocha.ones(1)).item() == 4.0


def test_unknown_elements_are_values_of_a_symbolic_graph():
    module = make_fx(lambda x: x * x.sum().item(), tracing_mode="symbolic")(tocha.ones(3))
    assert "aten._local_scalar_dense.default" in targets(module)
    assert module(tocha.full((3,), 2.0)).tolist() == [12.0] * 3


def test_sizes_that_depend_on_elements():
    def f(x):
        found = x.nonzero()
        return found.sum(0) + found.shape[0]

    module = make_fx(f, tracing_mode="symbolic")(tocha.ones(3))
    x = tocha.tensor([0.0, 1.0, 0.0, 1.0])
    assert module(x).tolist() == f(x).tolist()


def test_decompositions_are_traced_instead():
    aten = tocha.ops.aten
    module = make_fx(lambda x: x.sigmoid(), {aten.sigmoid.default: lambda x: 1 / (1 + (-x).exp())})(tocha.ones(3))
    assert targets(module)[:3] == ["aten.neg.default", "aten.exp.default", "aten.add.Tensor"]


def test_trees_go_in_and_come_out():
    module = make_fx(lambda d, n: {"out": d["a"] + d["b"] * n})({"a": tocha.ones(2), "b": tocha.ones(2)}, 4)
    assert module({"a": tocha.ones(2), "b": tocha.zeros(2)}, 4)["out"].tolist() == [1.0, 1.0]


def test_views_made_under_a_trace_may_be_written_to():
    def f(x):
        y = x.clone()
        y[0] = 3.0
        y[1:].mul_(2)
        return y

    for mode in MODES:
        assert make_fx(f, tracing_mode=mode)(tocha.ones(3))(tocha.ones(3)).tolist() == [3.0, 2.0, 2.0]


def test_nodes_know_their_values():
    module = make_fx(lambda x: x.sum(0), tracing_mode="symbolic")(tocha.ones(3, 4))
    node = module.graph.find_nodes(op="call_function", target=tocha.ops.aten.sum.dim_IntList)[0]
    assert len(node.meta["val"].shape) == 1
    assert node.meta["tensor_meta"].dtype is tocha.float32


def test_interpreter_runs_what_was_traced():
    module = make_fx(lambda x: tocha.nn.functional.softmax(x, -1) @ x)(tocha.ones(3, 3))
    x = tocha.rand(3, 3)
    tocha.testing.assert_close(fx.Interpreter(module).run(x), module(x))


def test_the_mode_that_traces_can_be_asked_for_and_put_aside():
    def f(x):
        assert get_proxy_mode() is not None
        with disable_proxy_modes_tracing():
            assert get_proxy_mode() is None
            x.cos()
        return x.sin()

    assert targets(make_fx(f)(tocha.ones(2))) == ["aten.sin.default"]
    assert get_proxy_mode() is None


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_writes_of_composites_with_out_are_seen(mode):
    def f(x):
        found = tocha.empty(0)
        tocha.linalg.inv(x, out=found)
        tocha.linalg.multi_dot([x, found, x], out=found)
        return found + 1

    x = tocha.rand(3, 3) + tocha.eye(3)
    tocha.testing.assert_close(make_fx(f, tracing_mode=mode)(tocha.eye(3))(x), f(x))


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_writes_through_data_are_seen(mode):
    def f(x):
        x.data.mul_(2)
        return x + 1

    graph = make_fx(f, tracing_mode=mode)(tocha.ones(3))
    x = tocha.ones(3)
    assert graph(x).tolist() == [3, 3, 3]
    assert x.tolist() == [2, 2, 2]


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_numbers_before_tensors_are_operators_of_the_tensor(mode):
    aten = tocha.ops.aten
    graph = make_fx(lambda x: (2 / x, 2 - x, 2 * x), tracing_mode=mode)(tocha.ones(3))
    assert [n.target for n in graph.graph.nodes if n.op == "call_function"] == [
        aten.reciprocal.default,
        aten.mul.Tensor,
        aten.rsub.Scalar,
        aten.mul.Tensor,
    ]


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_how_distances_are_computed_is_kept(mode):
    f = lambda x: tocha.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")  # noqa: E731
    (node,) = make_fx(f, tracing_mode=mode)(tocha.rand(3, 2)).graph.find_nodes(
        op="call_function", target=tocha.ops.aten._cdist_forward.default
    )
    assert node.args[2:] == (2.0, 2)


def test_fakes_count_each_write_once():
    def versions(x):
        found = []
        for write in (lambda: x.add_(1), lambda: x[0].mul_(2), lambda: x.t_(), lambda: x.detach().zero_()):
            write()
            found.append(x._version)
        return found

    seen = []
    for wants in (False, True):
        x = tocha.rand(3, 3, requires_grad=wants)
        make_fx(lambda x: seen.append(versions(x * 1)), tracing_mode="fake")(x)
    assert seen == [[1, 2, 3, 4]] * 2 == [versions(tocha.rand(3, 3))] * 2
