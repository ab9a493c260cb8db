"""Differentiation inside captured code: gradients are results, backward writes to the leaves."""

import pytest

import tocha
from tocha import _dynamo
from tocha._dynamo.testing import CompileCounter

BACKENDS = ["eager", "aot_eager", "inductor"]


@pytest.fixture
def traced():
    with _dynamo.config.patch(trace_autograd_ops=True):
        yield


def leaf(*size):
    return tocha.arange(1.0, 1 + tocha.Size(size).numel()).reshape(size).requires_grad_()


@pytest.mark.parametrize("backend", BACKENDS)
def test_grad_and_the_loss_itself(backend):
    """The loss is a result of the graph too: its history is walked twice."""

    def f(x, w):
        loss = (x @ w).pow(2).mean()
        return loss, *tocha.autograd.grad(loss, (x, w))

    x, w = leaf(2, 3), leaf(3, 1)
    for got, expected in zip(tocha.compile(f, backend=backend, fullgraph=True)(x, w), f(x, w), strict=True):
        tocha.testing.assert_close(got, expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("whole", [False, True], ids=["breaks", "one_graph"])
@pytest.mark.parametrize("method", [False, True], ids=["function", "method"])
def test_backward(backend, whole, method):
    def f(model, x):
        loss = model(x).pow(2).sum() + model.bias.sum()
        if method:
            loss.backward()
        else:
            tocha.autograd.backward([loss])
        return loss.detach()

    tocha.manual_seed(0)
    model, x = tocha.nn.Linear(3, 2), leaf(4, 3)
    expected = []
    for _ in range(3):
        f(model, x)
        expected.append([t.grad.clone() for t in (x, *model.parameters())])
    for t in (x, *model.parameters()):
        t.grad = None
    with _dynamo.config.patch(trace_autograd_ops=whole):
        compiled = tocha.compile(f, backend=backend, fullgraph=whole)
        kept = None
        for grads in expected:
            compiled(model, x)
            for got, want in zip((x, *model.parameters()), grads, strict=True):
                tocha.testing.assert_close(got.grad, want)
                assert got.grad.stride() == want.stride()
            assert kept is None or kept is x.grad  # added to, not replaced
            kept = x.grad


@pytest.mark.parametrize("backend", BACKENDS)
def test_leaves_made_inside(backend, traced):
    def f(x):
        v = x.detach().requires_grad_()
        (v**3).sum().backward()
        return x * v.grad, v.requires_grad, v.is_leaf

    got, *flags = tocha.compile(f, backend=backend, fullgraph=True)(leaf(3))
    assert got.tolist() == [3.0, 24.0, 81.0] and flags == [True, True]


def test_gradients_that_two_leaves_share_are_two_tensors(traced):
    def f(a, b):
        (a + b).backward(tocha.ones(2))

    a, b = leaf(2), leaf(2)
    tocha.compile(f, backend="eager", fullgraph=True)(a, b)
    a.grad.zero_()
    assert b.grad.tolist() == [1.0, 1.0]


def test_only_the_wanted_inputs(traced):
    def f(a, b):
        (a * b).sum().backward(inputs=[a])

    a, b = leaf(2), leaf(2)
    tocha.compile(f, backend="aot_eager", fullgraph=True)(a, b)
    assert a.grad.tolist() == [1.0, 2.0] and b.grad is None


def test_what_a_graph_cannot_do_is_a_break(traced):
    """History from outside, and hooks."""

    def f(x):
        (x**2).sum().backward()

    x = leaf(2)
    tocha.compile(f, backend="eager")(x * 2)
    assert x.grad.tolist() == [8.0, 16.0]
    y, seen = leaf(2), []
    y.register_hook(seen.append)
    tocha.compile(f, backend="eager")(y)
    assert len(seen) == 1 and y.grad.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backward_that_runs_uncaptured_captures_nothing_of_the_compiler(backend):
    @tocha._dynamo.disable
    def outer(x):
        return tocha.compile(lambda t: (t**3).sum(), backend=backend)(x)

    def g(x):
        loss = outer(x)
        loss.backward()
        return x + 1

    counter = CompileCounter()
    tocha.compile(g, backend=counter)(leaf(3))
    assert counter.frame_count == 1  # x + 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_intermediates_are_retained(backend):
    """What the graph returns is what gets the gradient, and what was made of it before is not."""

    def f(x):
        x.retain_grad()  # a leaf: keeps its own anyway
        h = x * 2
        h.retain_grad()
        return h.sin().sum(), h

    for _ in range(2):
        x = leaf(3)
        loss, h = tocha.compile(f, backend=backend)(x)
        loss.backward()
        assert h.retains_grad
        tocha.testing.assert_close(h.grad, (2 * x.detach()).cos())
        tocha.testing.assert_close(x.grad, 2 * h.grad)


def test_what_needs_no_gradient_retains_none():
    f = tocha.compile(lambda x: (x + 1).retain_grad(), backend="eager")
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"):
        f(tocha.ones(2))


def test_hooks_of_inputs_that_are_set_and_taken_away():
    def new_after_old(x, old):
        old.remove()
        return x.register_hook(lambda g: g * 3), x * 2

    def old_after_new(x, old):
        made = x.register_hook(lambda g: g * 3)
        old.remove()
        return [made], x * 2

    def at_once(x, old):
        made = x.register_hook(lambda g: g * 3)
        made.remove()
        made.remove()
        return made, x * 2

    for f, factor in ((new_after_old, 3.0), (old_after_new, 3.0), (at_once, 10.0)):
        x = tocha.ones(2, requires_grad=True)
        old = x.register_hook(lambda g: g * 10)
        tocha.compile(f, backend="eager", fullgraph=True)(x, old)[1].sum().backward()
        assert tocha.equal(x.grad, tocha.full((2,), 2 * factor)) and len(x._backward_hooks) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_hook_that_keeps_what_it_sees_is_no_part_of_a_graph(backend):
    seen = []

    def f(x):
        y = x * 2

        def keep(grad):
            seen.append(grad)
            return grad * 3

        y.register_hook(keep)
        return y.sum()

    x = tocha.ones(2, requires_grad=True)
    tocha.compile(f, backend=backend)(x).backward()
    assert tocha.equal(x.grad, tocha.full((2,), 6.0))
    assert [type(g) for g in seen] == [tocha.Tensor] and tocha.equal(seen[0], tocha.ones(2))
