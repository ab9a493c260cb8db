"""Tensor subclasses through ahead-of-time autograd: as in eager mode, and graphs never see one."""

from __future__ import annotations

import pytest
import wrapper_programs as p

import tocha
from tocha._functorch.aot_autograd import aot_function, aot_module
from tocha._subclasses import FakeTensorMode
from tocha.fx.experimental.proxy_tensor import make_fx
from tocha.testing import assert_close
from tocha.utils import _pytree as pytree

WRITES = [n for n in p.WRAPPED if n.startswith("written")]


def plain_only(graph, inputs):
    """A compiler that takes graphs of plain tensors."""

    def run(*args):
        assert all(type(a) in (tocha.Tensor, tocha.nn.Parameter) for a in args if isinstance(a, tocha.Tensor))
        return graph(*args)

    return run


def compiled(f):
    return aot_function(f, fw_compiler=plain_only, bw_compiler=plain_only)


def parts(value):
    """The plain tensors of a value, and the classes around them."""
    if isinstance(value, p.Pair):
        return [("Pair", value.requires_grad), *parts(value.a), *parts(value.b)]
    if isinstance(value, p.Scaled):
        return [("Scaled", value.requires_grad), *parts(value.inner * value.scale)]
    return [value]


def outcome(f, grad):
    """Results, gradients, and the inputs afterwards."""
    leaves = p.inputs(grad)
    given = [t * 1 if grad and f.__name__ in WRITES else t for t in leaves]
    versions = [t._version for t in given]
    outs = pytree.tree_leaves(f(*given))
    seen = [v for o in outs for v in parts(o)]
    roots = [o for o in outs if isinstance(o, tocha.Tensor) and o.requires_grad]
    if roots:
        grads = tocha.autograd.grad(roots, leaves, [o.detach() * 2 for o in roots], allow_unused=True)
        seen += [v for g in grads for v in parts(g)]
    return [
        *seen,
        *(v for t in given for v in parts(t)),
        *(t._version - v for t, v in zip(given, versions, strict=True)),
    ]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", p.WRAPPED)
def test_equals_eager_mode(name, grad):
    f = p.WRAPPED[name]
    expected = outcome(f, grad)
    through = compiled(f)
    through.__name__ = name
    found = outcome(through, grad)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        if isinstance(b, tocha.Tensor):
            assert_close(a, b)
        else:
            assert a == b


def test_graph_has_the_parts_as_inputs_and_results():
    seen = []

    def compiler(graph, inputs):
        seen.append(graph)
        return graph

    f = aot_function(lambda x, y: (x * y).sin(), fw_compiler=compiler)
    x, _, y = p.inputs(True)
    out = f(x, y)
    tocha.autograd.grad(out, (x, y), out.detach())
    forward, backward = seen
    names = [n.name for n in forward.graph.find_nodes(op="placeholder")]
    assert names == ["primals_1", "primals_2", "primals_3"]
    assert [n.name for n in backward.graph.find_nodes(op="placeholder")][-2:] == ["tangents_1", "tangents_2"]
    assert len(backward.graph.output_node().args[0]) == 4


def test_views_of_inputs_are_views_outside():
    x, _, _ = p.inputs(False)
    out = compiled(lambda x: x.view(6))(x)
    assert out._base is x
    out.a.fill_(7)
    assert (x.a == 7).all()


def test_gradient_of_another_class_is_changed_by_its_own():
    _, s, y = p.inputs(True)
    f = compiled(lambda s, y: s * y)
    plain = tocha.ones(2, 3)
    expected = tocha.autograd.grad(s * y, (s, y), p.Scaled(plain, 1.0))
    found = tocha.autograd.grad(f(s, y), (s, y), p.Scaled(plain / 4, 4.0))
    for a, b in zip(found, expected, strict=True):
        assert_close(a.inner * a.scale, b.inner * b.scale)


def test_gradient_of_another_class_is_refused():
    x, _, y = p.inputs(True)
    message = "encountered a tensor subclass where we guessed its metadata incorrectly"
    with pytest.raises(RuntimeError, match=message):
        compiled(lambda x: x * 2)(x).backward(tocha.ones(2, 3))
    with pytest.raises(RuntimeError, match=message):
        compiled(lambda y: y * 2)(y).backward(x.detach())


def test_a_result_without_a_gradient_has_zeros():
    x, _, _ = p.inputs(True)
    first, _ = compiled(lambda x: (x * 2, x * 3))(x)
    first.backward(first.detach())
    assert_close(x.grad.a, x.a * 4)


def test_double_backward_is_refused():
    x, _, _ = p.inputs(True)
    out = compiled(lambda x: x * x)(x)
    grad = tocha.autograd.grad(out, x, out.detach().requires_grad_(), create_graph=True)[0]
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        grad.backward(grad.detach())


def test_refusals():
    x, s, y = p.inputs(False)
    with pytest.raises(RuntimeError, match="Metadata mutations are currently not allowed on tensor subclasses"):
        compiled(lambda x: (x.a.t_(), x * 2)[1])(x)
    message = "Encountered aliased inputs that are mutated in the graph, but at least one input/output"
    with pytest.raises(RuntimeError, match=message):
        compiled(lambda x, v: (x.mul_(2), v * 1))(x, x.view(6))
    with pytest.raises(RuntimeError, match=message):
        compiled(lambda x, v: (x.mul_(2), v * 1))(x, x.a.view(6))
    f = compiled(lambda x: x * 2)
    f(s)
    with pytest.raises(RuntimeError, match="must be a Scaled made as when the function was traced"):
        f(x)
    with pytest.raises(RuntimeError, match="must be a Scaled made as when the function was traced"):
        f(p.Scaled(y, 5.0))


def test_one_tensor_inside_two_wrappers():
    inner, other = tocha.ones(3), tocha.ones(3)
    x, z = p.Pair(inner, other * 2), p.Pair(inner, other * 3)
    out, after = compiled(lambda x, z: (x.mul_(2), z + 1))(x, z)
    assert out is x
    assert_close(after.a, tocha.full((3,), 3.0))
    assert_close(z.a, tocha.full((3,), 2.0))


def test_parameters_may_be_wrappers():
    layer = tocha.nn.Linear(3, 2)
    layer.weight = tocha.nn.Parameter(p.Pair(layer.weight.detach(), layer.weight.detach() * 2))
    given = tocha.ones(4, 3)
    expected = layer(given)
    found = aot_module(layer, plain_only)(given)
    assert_close(found.b, expected.b)
    expected.backward(expected.detach())
    kept, layer.weight.grad = layer.weight.grad, None
    found.backward(found.detach())
    assert_close(layer.weight.grad.a, kept.a)


def test_fakes_of_wrappers():
    x, _, _ = p.inputs(True)
    mode = FakeTensorMode()
    fake = mode.from_tensor(x)
    assert type(fake) is p.Pair and mode.from_tensor(x) is fake and fake.requires_grad
    assert type((fake * 2).a).__name__ == "FakeTensor"


def test_make_fx_sees_a_wrapper_that_is_an_input_whole():
    x, _, y = p.inputs(False)
    for mode in ("real", "fake"):
        graph = make_fx(lambda x, y: x * y, tracing_mode=mode)(x, y).graph
        assert [n.name for n in graph.nodes] == ["x_1", "y_1", "mul", "output"]


def test_missing_derivatives_are_refused_to_who_needs_them():
    def program(x, y):
        return x.scatter(0, tocha.tensor([[1, 0, 1]]), 7, reduce="add"), y.sin() * x

    for f in (program, compiled(program)):
        x = p.Pair(tocha.ones(2, 3), tocha.full((2, 3), 2.0)).requires_grad_()
        y = tocha.ones(2, 3, requires_grad=True)
        scattered, product = f(x, y)
        assert scattered.requires_grad
        grads = tocha.autograd.grad(product, (x, y), product.detach(), retain_graph=True)
        assert_close(grads[0].a, tocha.ones(2, 3).sin().square())
        with pytest.raises(RuntimeError, match="derivative for"):
            tocha.autograd.grad(scattered, x, scattered.detach())
