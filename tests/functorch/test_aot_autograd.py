"""Ahead-of-time autograd does what eager mode does: results, gradients, writes to inputs, who shares memory with whom."""

import pytest
from observed import agree, observed, views_of_columns, views_of_one, views_of_part
from shared_programs import SHARED

import tocha
from programs import PROGRAMS
from tocha import Tensor, nn
from tocha._functorch.aot_autograd import (
    aot_export_joint_simple,
    aot_export_module,
    aot_function,
    aot_module,
    aot_module_simplified,
    make_boxed_compiler,
    nop,
)
from tocha._functorch.partitioners import default_partition, min_cut_rematerialization_partition
from tocha._functorch.runtime import native_outputs
from tocha._functorch.views import Step
from tocha._functorch.wrapping import VIEW_OF_INPUT, Output


def no_writes(graph, _):
    for n in graph.graph.nodes:
        if n.op == "call_function" and hasattr(n.target, "_schema"):
            assert not any(a.is_write for a in n.target._schema._arguments), n.target
    graph.graph.lint()
    return graph


@pytest.mark.parametrize("partition", [default_partition, min_cut_rematerialization_partition])
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_do_what_they_do_in_eager_mode(name, grad, partition):
    f = PROGRAMS[name]
    if not grad and name == "inner_gradient":
        pytest.skip("asks for gradients itself")
    compiled = aot_function(f, fw_compiler=no_writes, bw_compiler=no_writes, partition_fn=partition)
    agree(observed(tocha, f, grad), observed(tocha, compiled, grad), tocha.testing.assert_close)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", SHARED)
def test_programs_whose_inputs_share_memory(name, grad):
    compiled = aot_function(SHARED[name], fw_compiler=no_writes, bw_compiler=no_writes)
    eager, ours = (observed(tocha, f, grad, views_of_one) for f in (SHARED[name], compiled))
    agree(eager, ours, tocha.testing.assert_close)


def test_the_graph_is_one_node_whose_saved_values_pass_hooks():
    packed = []

    def pack(t):
        packed.append(t)
        return t

    x = tocha.rand(3, requires_grad=True)
    f = aot_function(lambda x: x.sin() * x, nop)
    with tocha.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = f(x)
    assert packed
    assert out.grad_fn.name() == "CompiledFunctionBackward"
    out.sum().backward()
    tocha.testing.assert_close(x.grad, (x.cos() * x + x.sin()).detach())


def test_double_backward_is_refused():
    x = tocha.rand(3, requires_grad=True)
    (g,) = tocha.autograd.grad(aot_function(lambda x: x**3, nop)(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="aot_autograd does not currently support double backward"):
        g.sum().backward()


def test_values_written_to_between_forward_and_backward_are_noticed():
    x = tocha.rand(3, requires_grad=True)
    out = aot_function(lambda x: x * x, nop)(x)
    with tocha.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_it_is_compiled_once_and_backward_when_it_is_needed():
    seen = []

    def forward(graph, example_inputs):
        seen.append("forward")
        return graph

    def backward(graph, example_inputs):
        seen.append("backward")
        return graph

    f = aot_function(lambda x: x.exp(), forward, backward)
    x = tocha.rand(3, requires_grad=True)
    out = f(x)
    f(x)
    assert seen == ["forward"]
    out.sum().backward()
    f(x).sum().backward()
    assert seen == ["forward", "backward"]


def test_boxed_compilers_get_a_list():
    x = tocha.rand(3, requires_grad=True)
    aot_function(lambda x: x.exp(), make_boxed_compiler(nop))(x).sum().backward()
    tocha.testing.assert_close(x.grad, x.exp().detach())


def test_decompositions():
    aten = tocha.ops.aten
    targets = []

    def look(graph, _):
        targets.extend(n.target for n in graph.graph.nodes if n.op == "call_function")
        return graph

    f = aot_function(lambda x: x.sigmoid(), look, decompositions={aten.sigmoid.default: lambda x: 1 / (1 + (-x).exp())})
    x = tocha.rand(3)
    tocha.testing.assert_close(f(x), x.sigmoid())
    assert aten.sigmoid.default not in targets
    assert aten.exp.default in targets


def test_modules_with_tied_weights_and_buffers():
    class Model(tocha.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = tocha.nn.Linear(4, 4)
            self.second = tocha.nn.Linear(4, 4)
            self.second.weight = self.first.weight
            self.norm = tocha.nn.BatchNorm1d(4)

        def forward(self, x):
            return self.norm(self.second(self.first(x).relu()))

    def train(model, call):
        optimizer = tocha.optim.SGD(model.parameters(), lr=0.1)
        for i in range(3):
            tocha.manual_seed(i)
            call(tocha.rand(5, 4)).pow(2).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        return [t.detach().clone() for t in model.state_dict().values()]

    results = []
    for how in ("eager", "module", "simplified"):
        tocha.manual_seed(0)
        model = Model()
        call = model
        if how == "module":
            call = aot_module(model, nop)
        elif how == "simplified":
            call = aot_module_simplified(model, [tocha.rand(5, 4)], nop)
        results.append(train(model, call))
    for eager, module, simplified in zip(*results, strict=True):
        tocha.testing.assert_close(module, eager)
        tocha.testing.assert_close(simplified, eager)


def test_exported_joint_graph():
    x = tocha.rand(3, requires_grad=True)
    graph = aot_export_joint_simple(lambda x: [x.sin()], [x], trace_joint=True)
    out, grad = graph(x, tocha.ones(3))
    tocha.testing.assert_close(out, x.sin())
    tocha.testing.assert_close(grad, x.cos())
    with pytest.raises(RuntimeError, match="does not support input mutations"):
        aot_export_joint_simple(lambda x: [x.add_(1)], [tocha.rand(3)], trace_joint=False)


def test_dynamic_sizes_are_not_traced_again():
    calls = []

    def f(x, w):
        calls.append(1)
        return (x @ w).softmax(-1).view(x.shape[0] * w.shape[1])

    compiled = aot_function(f, nop, dynamic=True)
    for n in (3, 5, 8):
        x, w = tocha.rand(n, 4, requires_grad=True), tocha.rand(4, 6, requires_grad=True)
        out = compiled(x, w)
        seen = len(calls)
        tocha.testing.assert_close(out, f(x, w))
        calls[seen:] = []
        ours = tocha.autograd.grad(out.pow(2).sum(), (x, w))
        eager = tocha.autograd.grad((x @ w).softmax(-1).view(-1).pow(2).sum(), (x, w))
        for a, b in zip(ours, eager, strict=True):
            tocha.testing.assert_close(a, b)
    assert len(calls) == 1


class Counting(tocha.nn.Module):
    """A layer and a buffer that counts."""

    def __init__(self):
        super().__init__()
        self.layer = tocha.nn.Linear(2, 3)
        self.register_buffer("count", tocha.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        y = self.layer(x) * self.count
        return y.sum(), y.detach()


@pytest.mark.parametrize("joint", [False, True])
def test_exported_modules(joint):
    model, x = Counting(), tocha.rand(4, 2)
    graph, signature = aot_export_module(model, [x], trace_joint=joint, output_loss_index=0 if joint else None)
    assert signature.parameters == ["layer.weight", "layer.bias"]
    assert signature.buffers_to_mutate == {"add": "count"}
    assert signature.user_inputs == ["arg3_1"]
    state = [*model.parameters(), *model.buffers()]
    found = graph(*state, x)
    assert model.count == 0, "nothing is written to"
    loss, y = model(x)
    for a, b in zip(found, (model.count, loss, y), strict=False):
        tocha.testing.assert_close(a, b)
    if joint:
        assert list(signature.backward_signature.gradients_to_parameters.values()) == signature.parameters
        loss.backward()
        for a, p in zip(found[3:], model.parameters(), strict=True):
            tocha.testing.assert_close(a, p.grad)


def test_exported_modules_return_tuples():
    for result in (lambda x: x, lambda x: {"x": x}, lambda x: None):
        module = tocha.nn.Module()
        module.forward = lambda x, result=result: result(x + 1)
        with pytest.raises(RuntimeError, match="Graph output must be a"):
            aot_export_module(module, [tocha.ones(2)], trace_joint=False)


def test_exported_joint_modules_have_one_loss():
    with pytest.raises(RuntimeError, match="one of your forward outputs must be a scalar loss"):
        aot_export_module(Counting(), [tocha.rand(4, 2)], trace_joint=True)

    class Two(tocha.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = tocha.nn.Linear(2, 3)

        def forward(self, x):
            return self.layer(x).sum(), self.layer(x)

    with pytest.raises(RuntimeError, match="that was not the scalar loss"):
        aot_export_module(Two(), [tocha.rand(4, 2)], trace_joint=True, output_loss_index=0)


def test_gradients_are_in_the_operators_that_pytorch_shows():
    aten, targets = tocha.ops.aten, []

    def look(graph, _):
        targets.extend(n.target for n in graph.graph.nodes if n.op == "call_function")
        return graph

    w, x = tocha.rand(3, 2, requires_grad=True), tocha.rand(4, 3)
    aot_function(lambda w, x: (x @ w).tanh().sigmoid(), nop, look)(w, x).sum().backward()
    targets = [t for t in targets if t is not aten.detach.default]
    assert targets == [aten.sigmoid_backward.default, aten.tanh_backward.default, aten.t.default, aten.mm.default]


def test_inputs_that_share_memory_may_lie_elsewhere_in_the_next_call():
    def f(a, b):
        a.add_(1)
        return b * 2

    compiled = aot_function(f, nop)
    z = tocha.zeros(6)
    assert compiled(z[:3], z).tolist() == [2, 2, 2, 0, 0, 0]
    assert compiled(z[:3], z).tolist() == [4, 4, 4, 0, 0, 0]
    assert compiled(z[3:], z).tolist() == [4, 4, 4, 2, 2, 2]
    assert compiled(z[3:], z[:3]).tolist() == [4, 4, 4]
    assert compiled(z[:3], z).tolist() == [6, 6, 6, 4, 4, 4]


def test_inputs_on_one_storage_that_do_not_meet_stay_inputs():
    seen = []

    def look(graph, _):
        seen.append(len(graph.graph.find_nodes(op="placeholder")))
        return graph

    def f(a, b):
        a.add_(1)
        return a * b

    z = tocha.ones(6)
    assert aot_function(f, look)(z[::2], z[1::2]).tolist() == [2, 2, 2]
    assert seen == [2]
    assert z.tolist() == [2, 1, 2, 1, 2, 1]


# ---- operators that write without saying so --------------------------------------------------------


@pytest.mark.parametrize(
    "make", [lambda: nn.BatchNorm1d(4), lambda: nn.InstanceNorm1d(4, affine=True, track_running_stats=True)]
)
def test_running_statistics_are_results_of_the_graph(make):
    tocha.manual_seed(0)
    mine, plain = make(), make()  # with the same weights
    graphs = []

    def keep(graph, _):
        graphs.append(graph)
        return graph

    compiled = aot_module(mine, fw_compiler=keep, bw_compiler=keep)
    x = tocha.randn(3, 4, 5)
    for _ in range(2):
        compiled(x).square().sum().backward()
        plain(x).square().sum().backward()
    names = {n.target.name() for g in graphs for n in g.graph.nodes if isinstance(n.target, tocha._ops.OpOverload)}
    assert "aten::_native_batch_norm_legit_functional" in names
    assert "aten::native_batch_norm" not in names
    assert tocha.equal(mine.running_mean, plain.running_mean) and tocha.equal(mine.running_var, plain.running_var)
    assert mine.running_mean._version == plain.running_mean._version
    assert tocha.equal(mine.weight.grad, plain.weight.grad)


class NormAndSwitch(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(3, 4), nn.BatchNorm1d(4)

    def forward(self, x):
        y = self.norm(self.linear(x))
        with tocha.no_grad():
            z = y.detach().relu()
        return y, z


@pytest.mark.parametrize("above", [False, True])
def test_exported_modules_give_new_running_statistics(above):
    tocha.manual_seed(0)
    m = NormAndSwitch()
    x = tocha.randn(5, 3)
    graph, signature = aot_export_module(m, [x], trace_joint=False, pre_dispatch=above)
    assert list(signature.buffers_to_mutate.values()) == [
        "norm.running_mean",
        "norm.running_var",
        "norm.num_batches_tracked",
    ]
    before = [t.clone() for t in (*m.parameters(), *m.buffers())]
    mean, var, count, y, z = graph(*before, x)
    assert tocha.equal(before[4], tocha.zeros(4)), "the graph writes to nothing"
    wanted = m(x)
    assert tocha.equal(y, wanted[0]) and tocha.equal(z, wanted[1]) and count == 1
    assert tocha.equal(mean, m.norm.running_mean) and tocha.equal(var, m.norm.running_var)
    targets = [n.target for n in graph.graph.nodes]
    assert (tocha.ops.aten.linear.default in targets) is above
    assert (tocha._C._set_grad_enabled in targets) is above


def test_results_that_read_bits_as_another_dtype():
    def f(x):
        y, mask = x + 1, x > 0
        return y.view(tocha.int32).view(-1), mask.view(tocha.uint8), y[1:], mask, y

    x = tocha.randn(3, 2)
    compiled = aot_function(f, lambda graph, _: graph)
    for mine, wanted in zip(compiled(x), f(x), strict=True):
        assert mine.dtype == wanted.dtype and tocha.equal(mine, wanted)
    bits, _, part, _, y = compiled(x)
    y.zero_()
    assert not bits.any() and not part.any()


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", SHARED)
def test_captured_programs_whose_inputs_share_memory(name, grad, backend, kernel_cache):
    """Captured graphs are traced on fakes: they are views of one another as the real inputs are."""
    compiled = tocha.compile(SHARED[name], backend=backend)
    eager, ours = (observed(tocha, f, grad, views_of_one) for f in (SHARED[name], compiled))
    agree(eager, ours, tocha.testing.assert_close)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("make", [views_of_one, views_of_part, views_of_columns])
@pytest.mark.parametrize("name", SHARED)
def test_inputs_on_a_storage_that_holds_more(name, make, dynamic, kernel_cache):
    """Of symbolic sizes nobody knows whether they are all of a storage."""
    compiled = tocha.compile(SHARED[name], backend="inductor", dynamic=dynamic)
    eager, ours = (observed(tocha, f, False, make) for f in (SHARED[name], compiled))
    agree(eager, ours, tocha.testing.assert_close)


def test_a_base_with_gradients_that_lies_further_on():
    """The graph has it as a value, in which views of it would be looked for at their old addresses."""

    def f(w, part):
        with tocha.no_grad():
            w.add_(1)
        return part * 2

    w = tocha.ones(10)[2:8].data.requires_grad_()
    with pytest.raises(Exception, match="has other elements before or between its own"):
        tocha.compile(f, backend="aot_eager")(w, w[1:4])
    first = tocha.ones(10)[:6].data.requires_grad_()
    assert tocha.compile(f, backend="aot_eager")(first, first[1:4]).tolist() == [4.0] * 3


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_operators_of_the_program_that_write(backend):
    @tocha.library.custom_op("test_writes::shift", mutates_args={"x", "others"})
    def shift(x: Tensor, k: int, others: list[Tensor], unused: Tensor | None = None) -> Tensor:
        x.add_(k)
        for t in others:
            t.mul_(2)
        return x.sum()

    @shift.register_fake
    def _(x, k, others, unused=None):
        return x.new_empty(())

    @tocha.library.custom_op("test_writes::fill", mutates_args=("x",))
    def fill(x: Tensor, value: float = 3.0) -> None:
        x.fill_(value)

    def f(x, y):
        z = y * 2
        total = shift(x, 3, [y, z[1:]])
        fill(z[0])
        return x * 2, z, total

    compiled = tocha.compile(f, backend=backend, fullgraph=True)
    for n in (3, 3, 4, 5):
        given, same = ([tocha.arange(2.0 * n).reshape(n, 2), tocha.ones(n)] for _ in range(2))
        for a, b in zip((*f(*given), *given), (*compiled(*same), *same), strict=True):
            assert tocha.equal(a, b)


class Negated(tocha.autograd.Function):
    @staticmethod
    def forward(ctx, x, take):
        ctx.shape, ctx.take = x.shape, take
        return take(x)

    @staticmethod
    def backward(ctx, grad):
        return -5 * grad.sum() * tocha.ones(ctx.shape), None


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: Negated.apply(x, lambda t: t),
        lambda x: Negated.apply(x, lambda t: t.view_as(t)),
        lambda x: Negated.apply(x, lambda t: t[0]),
        lambda x: Negated.apply(x * 2, lambda t: t[0]),
        lambda x: Negated.apply(x.view(3, 2), lambda t: t.view(-1)).view(2, 3),
        lambda x: (y := x * 2, Negated.apply(y, lambda t: t[1]))[1],
    ],
)
def test_functions_that_give_views(f, backend):
    x, y = (tocha.ones(2, 3, requires_grad=True) for _ in range(2))
    f(x).sum().backward()
    tocha.compile(f, backend=backend)(y).sum().backward()
    assert tocha.equal(x.grad, y.grad)


def test_a_value_and_the_view_that_a_function_gives_of_it():
    def f(x):
        y = x * 2
        return y, Negated.apply(y, lambda t: t.view(-1)), y.view(-1)

    x, y = (tocha.ones(2, 3, requires_grad=True) for _ in range(2))
    for inputs, function in ((x, f), (y, tocha.compile(f, backend="aot_eager"))):
        a, b, c = function(inputs)
        (a.sum() + 2 * b.sum() + 3 * c.sum()).backward()
    assert tocha.equal(x.grad, y.grad)


class WithScale(tocha.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        scale = x.amax(0)
        ctx.save_for_backward(x)
        ctx.mark_non_differentiable(scale)
        return x / scale, x * 2, scale

    @staticmethod
    def backward(ctx, grad, unused, _):
        return grad * ctx.saved_tensors[0] + unused


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_gradients_that_do_not_come_have_the_sizes_of_the_call(backend):
    def f(x):
        y, _, scale = WithScale.apply(x)
        return (y * scale).sum()

    compiled = tocha.compile(f, backend=backend, dynamic=True, fullgraph=True)
    for n, m in ((3, 4), (5, 2)):
        x, y = (tocha.arange(1.0 + n * m)[1:].reshape(n, m).requires_grad_() for _ in range(2))
        f(x).backward()
        compiled(y).backward()
        tocha.testing.assert_close(x.grad, y.grad)


def views_given(x, w):
    y = x * w
    first, *_, last = x.split(2)
    return first, last, x.t()[1:], y.view(-1), y, x.detach().unsqueeze(0)


@pytest.mark.parametrize("recorded", [False, True])
def test_views_of_arguments_and_results_are_made_as_the_program_makes_them(recorded):
    given = [tocha.randn(6, 4).requires_grad_(recorded), tocha.randn(4)]
    own, expected = tocha.compile(views_given, fullgraph=True)(*given), views_given(*given)
    for a, b in zip(own, expected, strict=True):
        assert (a.shape, a.stride(), a.storage_offset()) == (b.shape, b.stride(), b.storage_offset())
        assert a.requires_grad == b.requires_grad and a._is_view() == b._is_view() and tocha.equal(a, b)
    x, (first, _, turned, flat, product, _) = given[0], own
    assert [type(v.grad_fn).__name__ for v in (first, turned)] == [
        type(v.grad_fn).__name__ for v in (expected[0], expected[2])
    ]
    with tocha.no_grad():
        turned[0, 0], flat[1] = 7.0, 8.0
    assert x[0, 1] == 7 and product[0, 1] == 8
    if recorded:
        (turned.sum() + flat.sum()).backward()
        assert tocha.equal(x.grad, given[1].expand(6, 4) + (tocha.arange(4) >= 1))


def test_views_that_one_call_makes_are_made_by_one_call():
    outputs = [Output(VIEW_OF_INPUT, 0, (Step(tocha.ops.aten.split.Tensor, (2,), {}, k),)) for k in range(3)]
    found, views = native_outputs(outputs)
    assert [made is None for *_, made, _, _ in views] == [False, True, True, True]
    assert [index for _, index, _ in found] == [1, 2, 3]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.split([1, 3], 1),
        lambda x: x.t().chunk(2),
        lambda x: (x * 2).unbind(0),
        lambda x: [part.t() for part in x.view(2, 2, 3).unbind(0)],
    ],
    ids=["split", "of a view", "of a value", "seen from elsewhere"],
)
def test_views_that_one_operator_gave_have_one_node(f, backend):
    """Else each of their gradients is put into zeros of the whole, and those are added up."""
    x, y = (tocha.arange(12.0).reshape(3, 4).requires_grad_() for _ in range(2))
    expected, found = f(x), tocha.compile(f, backend=backend)(y)
    assert len({node_of_several(t) for t in found}) == 1
    for values in (expected, found):
        sum((t * (i + 2)).sum() for i, t in enumerate(values)).backward()
    assert tocha.equal(x.grad, y.grad)


def node_of_several(t):
    """The node of the operator that gave several views, of which t is one."""
    node = t.grad_fn
    while "Split" not in node.name() and "Unbind" not in node.name():
        ((node, _),) = node.next_functions
    return node


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_view_that_is_given_twice_is_two_tensors(backend):
    f = tocha.compile(lambda x: (*x.unbind(0), x.unbind(0)[1], x.unbind(0)[1]), backend=backend)
    x = tocha.arange(6.0).reshape(2, 3).requires_grad_()
    parts = f(x)
    assert len({id(t) for t in parts}) == 4
    sum((t * (i + 1)).sum() for i, t in enumerate(parts)).backward()
    assert x.grad.tolist() == [[1.0] * 3, [2.0 + 3 + 4] * 3]
