"""Results of compiled graphs that are written to before backward runs: refused where eager refuses, and only there."""

import pytest

import tocha

BACKENDS = ["aot_eager", "inductor"]


def derived(x, w):
    y = x.cumsum(0)
    return y, (y * 3).tanh() @ w


def as_integers(x, w):
    y = (x.cumsum(0) * 3).round().to(tocha.int16)
    return y, y.double().sinh().to(x.dtype) @ w


def through_a_view(x, w):
    y = x.cumsum(0)
    return y, y.t().exp().t() @ w


def beside_a_view(x, w):
    y = x.cumsum(0)
    return y[1:], ((y + 1).tanh() @ w) + ((y * 2).sigmoid() @ w).sin() + (y.exp() @ w) * 2


def of_a_copy(x, w):
    y = x.cumsum(0)
    return y, y.clone() @ w


def with_a_history(x, w):
    y = w.cumsum(0) * 2
    return y, y.exp().tanh() * 3


def in_another_layout(x, w):
    y = x.t().cumsum(1).t()
    return y, ((y + 1).tanh() @ w) + ((y * 2).sigmoid() @ w).sin() + (y.exp() @ w) * 2


def kept_itself(x, w):
    y = x.cumsum(0)
    return y, (y * 3).tanh() @ w + y @ w


def kept_through_a_view(x, w):
    y = x.cumsum(0)
    return y, y[1:] @ w


def gradient(program, backend, dynamic=False):
    tocha._dynamo.reset()
    f = tocha.compile(program, backend=backend, dynamic=dynamic) if backend else program
    w = tocha.linspace(0.5, 1.5, 12).reshape(3, 4).requires_grad_()
    shown, used = f(tocha.linspace(-1, 1, 12).reshape(4, 3), w)
    with tocha.no_grad():
        shown.mul_(2)
    return tocha.autograd.grad(used.sum(), w)[0]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "program",
    [derived, as_integers, through_a_view, beside_a_view, of_a_copy, with_a_history, in_another_layout],
)
def test_what_autograd_does_not_keep_can_be_written_to(program, dynamic, backend):
    tocha.testing.assert_close(gradient(program, backend, dynamic), gradient(program, None))


@pytest.mark.parametrize("backend", [None, *BACKENDS])
@pytest.mark.parametrize("program", [kept_itself, kept_through_a_view])
def test_what_autograd_keeps_cannot(program, backend):
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        gradient(program, backend)


def of_a_copied_queue(w, queue, history):
    return (w.sum(1) @ queue.clone()).sum() + (history.relu() @ w).sum() * 0.5


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_inputs_that_autograd_does_not_keep_can_be_written_to(dynamic, backend):
    """A queue that is written to after its copy was used, and a value with a history that is added to."""
    found = []
    for compiled in (False, True):
        f = tocha.compile(of_a_copied_queue, backend=backend, dynamic=dynamic) if compiled else of_a_copied_queue
        w = tocha.linspace(0.5, 1.5, 12).reshape(3, 4).requires_grad_()
        queue = tocha.linspace(-1, 1, 12).reshape(3, 4)
        leaf = tocha.linspace(-1, 1, 12).reshape(4, 3).requires_grad_()
        history = leaf * 2
        loss = f(w, queue, history)
        queue[:, 1:] = 7
        history.add_(1)
        found.append(tocha.autograd.grad(loss, (w, leaf)))
    for got, expected in zip(found[1], found[0], strict=True):
        tocha.testing.assert_close(got, expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program",
    [
        lambda x: (x * 2).t(),
        lambda x: (x * 2)[1:],
        lambda x: x.clone().diagonal(),
        lambda x: ((x * 2)[0], x.sin())[0],
        lambda x: (x @ x).view(-1),
    ],
)
def test_views_of_what_a_graph_keeps_to_itself_are_written_to(program, backend):
    tocha._dynamo.reset()
    seen = []
    for f in (program, tocha.compile(program, backend=backend)):
        x = tocha.linspace(-1, 1, 9).reshape(3, 3).requires_grad_()
        y = f(x)
        y.mul_(1.5)
        y.sin().sum().backward()
        seen.append((y.detach(), x.grad))
    tocha.testing.assert_close(seen[1], seen[0])


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_written_results_keep_their_gaps(backend):
    def whole(x):
        made = tocha.empty_strided(x.shape, x.stride())
        made[:] = x * 2
        return made, made[1:], tocha.zeros_like(made)

    def in_parts(x):
        made = tocha.empty_strided((3, 4), (1, 5)).zero_()
        made[1] = 5.0
        made[:, 2].add_(x[0, 0])
        return made, made.t(), made * 2

    for function in (whole, in_parts):
        compiled = tocha.compile(function, backend=backend, fullgraph=True)
        for n in (8, 9, 10):
            x = tocha.arange(160.0).view(10, 16)[:, :n]
            for found, expected in zip(compiled(x), function(x), strict=True):
                assert found.stride() == expected.stride()
                assert found.equal(expected)
    assert tocha.ops.aten.copy(tocha.empty_strided((3, 4), (8, 2)), tocha.ones(3, 4)).stride() == (8, 2)
