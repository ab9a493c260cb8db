"""autograd.Function in captured code: what forward and backward read is guarded, what they do happens at every call."""

import dataclasses
import random
from typing import Any, NamedTuple

import numpy as np
import pytest

import tocha
from tocha.autograd import Function

BACKENDS = ["eager", "aot_eager", "inductor"]


def results(f, calls=3):
    """Losses and gradients of some calls."""
    tocha.manual_seed(0)
    random.seed(0)
    found = []
    for i in range(calls):
        x = tocha.randn(4).mul(i + 1).requires_grad_()
        loss = f(x)
        loss.backward()
        found += [loss.detach(), x.grad]
    return found


def check(f, backend, fullgraph=False):
    expected = results(f)
    for got, want in zip(results(tocha.compile(f, backend=backend, fullgraph=fullgraph)), expected, strict=True):
        tocha.testing.assert_close(got, want)


class Scaled(Function):
    factor = 2

    @staticmethod
    def forward(ctx, x, options, *, name="k"):
        ctx.kept = []
        ctx.kept.append(options[name] * Scaled.factor)
        ctx.save_for_backward(x, None)
        return x * ctx.kept[0], [name, x.shape], None

    @staticmethod
    def backward(ctx, grad, *rest):
        assert ctx.needs_input_grad == (True, False) and ctx.saved_tensors[1] is None
        return grad * ctx.kept[-1], None


@pytest.mark.parametrize("backend", BACKENDS)
def test_attributes_of_the_class_are_guarded(backend, monkeypatch):
    def f(x):
        return Scaled.apply(x.sin(), {"k": 3})[0].sum()

    compiled = tocha.compile(f, backend=backend, fullgraph=True)
    for factor in (2, 5, 2):
        monkeypatch.setattr(Scaled, "factor", factor)
        for got, want in zip(results(compiled), results(f), strict=True):
            tocha.testing.assert_close(got, want)


calls: list[str] = []


class Telling(Function):
    @staticmethod
    def forward(ctx, x):
        calls.append("forward")
        return x * len(calls)

    @staticmethod
    def backward(ctx, grad):
        calls.append("backward")
        return grad


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_they_change_is_changed_at_every_call(backend):
    f = tocha.compile(lambda x: Telling.apply(x + 1).sum(), backend=backend)
    calls.clear()
    for i in range(3):
        x = tocha.ones(2, requires_grad=True)
        loss = f(x)
        assert loss.item() == 4 * (2 * i + 1)
        loss.backward()
    assert calls == ["forward", "backward"] * 3


class Clipped(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.largest = x.abs().max().item()
        return x / ctx.largest if ctx.largest > 1 else x.clone()

    @staticmethod
    def backward(ctx, grad):
        if grad.abs().max() > 0.1:
            grad = grad / 10
        return grad / ctx.largest


class Exponential(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return tocha.from_numpy(np.exp(x.detach().numpy()))

    @staticmethod
    def backward(ctx, grad):
        return tocha.from_numpy(grad.numpy() * np.exp(ctx.saved_tensors[0].detach().numpy()))


class Drawn(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.factor, ctx.mask = random.random(), tocha.rand_like(x) > 0.3
        return x * ctx.factor * ctx.mask

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor * ctx.mask


class Recomputed(Function):
    @staticmethod
    def forward(ctx, function, x):
        ctx.function = function
        ctx.save_for_backward(x)
        return function(x)

    @staticmethod
    def backward(ctx, grad):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with tocha.enable_grad():
            y = ctx.function(x)
        return None, *tocha.autograd.grad(y, x, grad)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cls", [Clipped, Exponential, Drawn, Recomputed], ids=lambda c: c.__name__)
def test_what_no_graph_can_hold(cls, backend):
    """Branches on elements, arrays, Python's random numbers, derivatives inside: they run as they are."""
    given = (tocha.sin,) if cls is Recomputed else ()
    check(lambda x: (cls.apply(*given, x * 2) * x).sum(), backend)


class OneWay(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        raise NotImplementedError("no way back")


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_error_of_backward_is_raised_by_backward(backend):
    x = tocha.ones(2, requires_grad=True)
    loss = tocha.compile(lambda x: OneWay.apply(x).sum(), backend=backend)(x)
    assert loss.item() == 4
    with pytest.raises(NotImplementedError, match="no way back"):
        loss.backward()


class Factor:
    def __init__(self, factor, more=()):
        self.factor, self.more = factor, more

    def times(self, x):
        return x * self.factor


@dataclasses.dataclass
class Options:
    factor: Any
    names: list = dataclasses.field(default_factory=list)


class Pair(NamedTuple):
    factor: Any
    name: object = None


class Table(dict):
    factor = property(lambda self: self["factor"])


class Multiplied(Function):
    """Saves a result, an input and what it computed on the way; its options have a tensor or a number."""

    @staticmethod
    def forward(ctx, x, options, y):
        ctx.options, ctx.scale = options, options.factor * 2
        squared = y * y
        result = x * squared * options.factor
        ctx.save_for_backward(result, y, squared)
        sign = tocha.sign(x)
        ctx.mark_non_differentiable(sign)
        return result, sign

    @staticmethod
    def backward(ctx, grad, _):
        result, y, squared = ctx.saved_tensors
        to_y = result / y * ctx.scale / ctx.options.factor * grad
        return (grad * squared * ctx.options.factor if ctx.needs_input_grad[0] else None), None, to_y


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", [Factor, Options, Pair, lambda k: Table(factor=k), lambda k: Factor(k, [Factor(1)])])
@pytest.mark.parametrize("kind", [float, lambda k: tocha.tensor([1.0, 2.0, k, 4.0], requires_grad=True)])
def test_objects_among_the_arguments(backend, make, kind):
    def f(x, options):
        y = x.exp()
        out, sign = Multiplied.apply(x, options, y)
        assert out.requires_grad and not sign.requires_grad
        return (out * sign).sum() + Multiplied.apply(x.detach(), make(options.factor), y)[0].sum()

    compiled = tocha.compile(f, backend=backend, fullgraph=True)
    for k in (3, 3, 5):
        options = make(kind(k))
        for g in (f, compiled):
            tocha.manual_seed(0)
            x = tocha.randn(4, requires_grad=True)
            found = g(x, options)
            found.backward()
            if g is f:
                want = found.detach(), x.grad
        tocha.testing.assert_close((found.detach(), x.grad), want)
        if isinstance(options.factor, tocha.Tensor):
            assert options.factor.grad is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_functions_and_modules_among_the_arguments(backend):
    class Applied(Function):
        @staticmethod
        def forward(ctx, function, x, module):
            ctx.save_for_backward(x)
            ctx.module = module
            return module(function(x))

        @staticmethod
        def backward(ctx, grad):
            return None, grad @ ctx.module.weight * ctx.saved_tensors[0].cos(), None

    module = tocha.nn.Linear(4, 4)
    check(lambda x: Applied.apply(lambda t: t.sin(), x * 2, module).sum(), backend, fullgraph=True)


def test_changes_of_objects_among_the_arguments_are_not_captured():
    class Counting(Function):
        @staticmethod
        def forward(ctx, x, options):
            options.more.append(1)
            return x * options.factor

        @staticmethod
        def backward(ctx, grad):
            return grad * 2, None

    seen = Factor(2, [])
    check(lambda x: Counting.apply(x, seen).sum(), "eager")
    assert len(seen.more) == 6
