"""Gradients of compiled functions are those that autograd has for who asks: none where there is no way, a refusal only when it is asked for."""

import pytest

import tocha
from tocha._functorch.aot_autograd import aot_function

BACKENDS = ["aot_eager", "inductor"]


def apart(x, y):
    return x.sin() * 2, y.cos() + x.detach(), x * y


def gradient(program, place, backend):
    tocha._dynamo.reset()
    given = tocha.ones(3, requires_grad=True), tocha.full((3,), 2.0, requires_grad=True)
    results = tocha.compile(program, backend=backend)(*given) if backend else program(*given)
    return tocha.autograd.grad(results[place].sum(), given, allow_unused=True)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_inputs_that_a_result_does_not_depend_on_have_none(backend, place):
    for mine, wanted in zip(gradient(apart, place, backend), gradient(apart, place, None), strict=True):
        assert (mine is None) == (wanted is None)
        if wanted is not None:
            tocha.testing.assert_close(mine, wanted)


@pytest.mark.parametrize("backend", BACKENDS)
def test_zero_gradients_are_gradients(backend):
    x = tocha.ones(3, requires_grad=True)
    tocha._dynamo.reset()
    (g,) = tocha.autograd.grad(tocha.compile(lambda x: x.sign() + 1, backend=backend)(x).sum(), (x,))
    assert tocha.equal(g, tocha.zeros(3))


def modified(x, y):
    a = x.exp()
    b = a * 1
    a.mul_(2)  # exp's gradient needs what it was
    return a, b, y.exp() * x


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backward_that_cannot_be_had_is_refused_when_it_is_asked_for(backend):
    for mine, wanted in zip(gradient(modified, 2, backend), gradient(modified, 2, None), strict=True):
        tocha.testing.assert_close(mine, wanted)
    for place in (0, 1):
        for b in (None, backend):
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                gradient(modified, place, b)


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_whose_backward_cannot_be_had_have_a_history(backend):
    def program(x):
        a = x.exp()
        b = a * 1
        a.mul_(2)
        return b, b.detach()

    tocha._dynamo.reset()
    x = tocha.ones(3, requires_grad=True)
    found = tocha.compile(program, backend=backend)(x)
    assert [t.requires_grad for t in found] == [True, False]
    assert tocha.equal(found[0].detach(), x.detach().exp())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        found[0].sum().backward()


@pytest.mark.parametrize("other", [tocha.tensor([True, False, True]), tocha.tensor([1, 2, 3])])
@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2", "xlogy", "pow", "atan2", "hypot", "fmod", "copysign"])
def test_gradients_beside_operands_that_are_no_floats(name, other):
    x = [tocha.tensor([0.5, 1.5, 2.5], dtype=tocha.float64, requires_grad=True) for _ in range(2)]
    f = getattr(tocha, name)
    f(x[0], other).sum().backward()
    tocha._dynamo.reset()
    tocha.compile(lambda x, y: f(x, y), backend="aot_eager")(x[1], other).sum().backward()
    tocha.testing.assert_close(x[1].grad, x[0].grad, rtol=1e-12, atol=0)


@pytest.mark.parametrize("program", [lambda x, z: z**x, lambda x, z: (x.to(z.dtype)) ** x + z, lambda x, z: x / z])
def test_gradients_of_real_operands_beside_complex_ones(program):
    z = tocha.tensor([1 + 2j, -0.5j, 3.0])
    x = [tocha.tensor([0.5, 1.5, 2.5], requires_grad=True) for _ in range(2)]
    tocha._dynamo.reset()
    for f, v in ((program, x[0]), (tocha.compile(program, backend="aot_eager"), x[1])):
        out = f(v, z)
        (out.real + 2 * out.imag).sum().backward()
    tocha.testing.assert_close(x[1].grad, x[0].grad)


HALF_FORMULAS = [
    tocha.cos, tocha.rsqrt, tocha.erf, tocha.log10, tocha.nn.functional.mish, tocha.nn.functional.softsign,
    lambda x: 1.3 / x, lambda x: tocha.xlogy(x, x), lambda x: tocha.addcdiv(x, x, x + 1, value=0.3),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [tocha.float16, tocha.bfloat16])
@pytest.mark.parametrize("program", HALF_FORMULAS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_derivatives_in_half_precision_round_once(program, dtype, backend):
    """As native kernels do, which compute in float32: operators on the parts of a formula would round each."""
    tocha._dynamo.reset()
    tocha.manual_seed(0)
    given, grad = tocha.rand(64, dtype=dtype) + 0.5, tocha.rand(64, dtype=dtype) + 0.5
    found = []
    for f in (program, tocha.compile(program, backend=backend)):
        x = given.clone().requires_grad_()
        found += tocha.autograd.grad(f(x), (x,), grad)
    assert tocha.equal(*found)


@pytest.mark.parametrize("dtypes", [(tocha.float64, tocha.float32), (tocha.float32, tocha.float16)])
@pytest.mark.parametrize("name", ["xlogy", "pow", "atan2", "div"])
def test_derivatives_of_mixed_operands_are_computed_in_the_wider_dtype(name, dtypes):
    tocha._dynamo.reset()
    tocha.manual_seed(0)
    f = getattr(tocha, name)
    given = [tocha.rand(64, dtype=d) + 0.5 for d in dtypes]
    found = []
    for g in (f, tocha.compile(lambda x, y: f(x, y), backend="aot_eager")):
        inputs = [t.clone().requires_grad_() for t in given]
        found.append(tocha.autograd.grad(g(*inputs).sum(), inputs))
    wide = tocha.finfo(dtypes[0]).eps
    tocha.testing.assert_close(found[1][0], found[0][0], rtol=4 * wide, atol=0)
    tocha.testing.assert_close(found[1][1], found[0][1], rtol=0, atol=0)


def written_by_what_read_it(x, w):
    y = x.mm(w)
    x[:, :1] = y[:, :1]  # mm's gradient needs what it was, and x has a history now
    return y, x * 1, w.sin()


@pytest.mark.parametrize("backend", [None, *BACKENDS])
def test_written_inputs_whose_backward_cannot_be_had(backend):
    tocha._dynamo.reset()
    f = tocha.compile(written_by_what_read_it, backend=backend) if backend else written_by_what_read_it
    x, w = tocha.ones(2, 2), tocha.full((2, 2), 2.0, requires_grad=True)
    results = *f(x, w), x
    assert all(r.requires_grad for r in results)
    assert tocha.equal(x.detach(), tocha.tensor([[4.0, 1.0], [4.0, 1.0]]))
    tocha.testing.assert_close(tocha.autograd.grad(results[2].sum(), (w,), retain_graph=True)[0], w.detach().cos())
    for r in (results[0], results[1], results[3]):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            tocha.autograd.grad(r.sum(), (w,), retain_graph=True)


@pytest.mark.parametrize("backend", [None, *BACKENDS])
def test_operators_without_a_derivative_are_refused_when_it_is_asked_for(backend):
    def program(x):
        return x.scatter(0, tocha.tensor([1, 2]), 7, reduce="add"), x * 2

    tocha._dynamo.reset()
    f = tocha.compile(program, backend=backend) if backend else program
    x = tocha.ones(4, requires_grad=True)
    scattered, doubled = f(x)
    assert tocha.equal(scattered.detach(), tocha.tensor([1.0, 8.0, 8.0, 1.0]))
    assert tocha.equal(tocha.autograd.grad(doubled.sum(), (x,), retain_graph=True)[0], tocha.full((4,), 2.0))
    with pytest.raises(RuntimeError, match="derivative for"):
        scattered.sum().backward()


def two_results(x, y):
    return x.scatter(0, tocha.tensor([1, 2]), 7, reduce="multiply"), y.sin() * 2


def one_result(x, y):
    return x.scatter(0, tocha.tensor([1, 2]), 7, reduce="multiply") * y, x * y


def written_in_place(x, y):
    a = x.exp()
    b = a + y.sin()
    a.mul_(2)
    return b, x * y


def without_a_rule(x, y):
    return tocha.special.gammainc(x, x + 1) + y.sin(), x * y


def beside_what_backward_returns_as_it_is(x, y):
    return x.bernoulli(0.0), y.take_along_dim(y.argsort(0), 0)


def asked(program, backend, dynamic, inputs):
    """The gradients of all results by some inputs, or the error's type and words."""
    tocha._dynamo.reset()
    f = tocha.compile(program, backend=backend, dynamic=dynamic) if backend else program
    given = tocha.linspace(0.5, 2, 4).requires_grad_(), tocha.linspace(1, 2, 4).requires_grad_()
    try:
        return tocha.autograd.grad(sum(r.sum() for r in f(*given)), [given[i] for i in inputs])
    except RuntimeError as e:
        return type(e), "modified by an inplace operation" in str(e), "derivative for" in str(e)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("inputs", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize(
    "program", [two_results, one_result, written_in_place, without_a_rule, beside_what_backward_returns_as_it_is]
)
def test_a_derivative_is_missed_only_on_the_way_to_an_input_that_is_asked_for(program, inputs, dynamic, backend):
    mine, wanted = asked(program, backend, dynamic, inputs), asked(program, None, None, inputs)
    assert isinstance(wanted[0], tocha.Tensor) == (0 not in inputs)
    if 0 in inputs:
        assert mine == wanted
    else:
        tocha.testing.assert_close(mine, wanted)


@pytest.mark.parametrize("backend", [None, *BACKENDS])
def test_accumulation_into_some_inputs_does_not_miss_derivatives_of_others(backend):
    tocha._dynamo.reset()
    f = tocha.compile(one_result, backend=backend) if backend else one_result
    x, y = tocha.ones(4, requires_grad=True), tocha.full((4,), 2.0, requires_grad=True)
    total = sum(r.sum() for r in f(x, y))
    total.backward(inputs=[y], retain_graph=True)
    assert tocha.equal(y.grad, tocha.tensor([2.0, 8.0, 8.0, 2.0]))
    with pytest.raises(RuntimeError, match="derivative for"):
        total.backward()


def test_sizes_of_results_are_not_read_off_their_gradients():
    def program(x):
        y = tocha.cat([x, x], 0)
        z = y.reshape((4, -1, 1))
        z *= 2
        return y, z, z.sin()

    tocha._dynamo.reset()
    grads = []
    for f in (program, tocha.compile(program, backend="aot_eager", dynamic=True)):
        x = tocha.ones(2, 2, requires_grad=True)
        sum(t.sum() for t in f(x)).backward()
        grads.append(x.grad)
    tocha.testing.assert_close(*grads)


@pytest.mark.parametrize("view", [lambda y: y.t(), lambda y: y[1:], lambda y: y.view(-1), lambda y: y[0]])
@pytest.mark.parametrize("backend", [None, *BACKENDS])
def test_views_keep_the_history_of_what_is_detached_in_place(view, backend):
    def program(x):
        y = x * x
        v = view(y)
        y.detach_()
        return y, v, y + v.sum().detach()

    tocha._dynamo.reset()
    f = tocha.compile(program, backend=backend) if backend else program
    x = tocha.arange(6.0).reshape(2, 3).requires_grad_()
    y, v, _ = f(x)
    assert [t.requires_grad for t in (y, v)] == [False, True]
    wanted = tocha.zeros(2, 3)
    view(wanted).fill_(2)
    assert tocha.equal(tocha.autograd.grad(v.sum(), x)[0], wanted * x.detach())
    y.zero_()
    assert not v.detach().any()


def operators_of(program, *inputs):
    """What the graphs of a function and of its gradient call."""
    found = []

    def keep(graph, _):
        found.append([n.target for n in graph.graph.nodes if n.op == "call_function"])
        return graph

    out = aot_function(program, fw_compiler=keep, bw_compiler=keep)(*inputs)
    out.sum().backward()
    return found


def test_gradients_of_results_that_nobody_reads_are_no_zeros():
    x, w = tocha.linspace(-1, 1, 48).reshape(2, 6, 4).requires_grad_(), tocha.ones(6, requires_grad=True)
    _, backward = operators_of(lambda x, w: tocha.nn.functional.group_norm(x, 3, w), x, w)
    assert backward.count(tocha.ops.aten._group_norm_backward.default) == 1
    assert not {tocha.ops.aten.zeros_like.default, tocha.ops.aten.add.Tensor} & set(backward)


@pytest.mark.parametrize(
    ("program", "solver"),
    [
        (tocha.linalg.eigvalsh, tocha.ops.aten._hermitian_eigen.default),
        (tocha.linalg.svdvals, tocha.ops.aten._singular_values.default),
        (lambda x: tocha.linalg.eigvals(x).abs(), tocha.ops.aten._general_eigen.default),
    ],
    ids=["eigvalsh", "svdvals", "eigvals"],
)
def test_values_that_will_be_differentiated_are_computed_with_their_vectors(program, solver):
    """Else backward solves the whole problem once more."""
    x = tocha.tensor([[2.0, 1, 0], [1, 3, 1], [0, 1, 5]]).requires_grad_()
    y = x.detach().clone().requires_grad_()
    forward, backward = operators_of(program, x)
    assert forward.count(solver) == 1 and solver not in backward
    program(y).sum().backward()
    tocha.testing.assert_close(x.grad, y.grad)


def test_statistics_are_not_copied_in_graphs():
    x = tocha.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
    forward, _ = operators_of(lambda x: sum(tocha.std_mean(x, 0)), x)
    assert tocha.ops.aten.clone.default not in forward


WITH_ZEROS = [
    [[1.0, 2, 3], [4, 5, -6]],
    [[1.0, 0, 3], [4, 5, 6]],
    [[0.0, 0, 3], [-0.0, 5, 6]],
    [[0.0, 0, 0], [0, 0, 0]],
]


@pytest.mark.parametrize("values", WITH_ZEROS)
@pytest.mark.parametrize("dims", [(), (0,), (1,), (-1, True)])
def test_gradients_of_products_with_and_without_zeros(values, dims):
    x, y = (tocha.tensor(values, requires_grad=True) for _ in range(2))
    x.prod(*dims).sum().backward()
    backward = operators_of(lambda x: x.prod(*dims), y)[1]
    assert tocha.equal(x.grad, y.grad)
    assert tocha.ops.aten.cumprod.default not in backward  # whose every element waits for the one before


def test_gradients_of_products_that_are_not_finite():
    """Without zeros they are the product over the element, also where that overflows."""
    x, y = (tocha.tensor([[1e30, 1e30, 2], [float("inf"), 2, 3]], requires_grad=True) for _ in range(2))
    x.prod(1).sum().backward()
    aot_function(lambda x: x.prod(1), fw_compiler=lambda graph, _: graph)(y).sum().backward()
    tocha.testing.assert_close(x.grad, y.grad, equal_nan=True)
