"""Objects that answer calls of the library themselves, and hooks on tensors that graphs make."""

import pytest
from comparing import same

import tocha
from tocha._dynamo.testing import CompileCounterWithBackend
from tocha.overrides import TorchFunctionMode
from tocha.utils._python_dispatch import TorchDispatchMode


class Scaled:
    def __init__(self, value, scale):
        self.value, self.scale = value, scale

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is tocha.sub:
            return NotImplemented
        plain = [a.value * a.scale if isinstance(a, cls) else a for a in args]
        return cls(func(*plain, **(kwargs or {})), 1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_objects_answer_calls_of_functions(backend):
    def f(x):
        s = Scaled(x, 2)
        return tocha.add(s, 1).value, tocha.mul(s, s).value

    counter = CompileCounterWithBackend(backend)
    x = tocha.ones(2)
    assert same(tocha.compile(f, backend=counter, fullgraph=True)(x), f(x)) and counter.frame_count == 1


def test_nobody_answers():
    def f(x):
        try:
            return tocha.sub(Scaled(x, 2), 1)
        except TypeError as error:
            return x + ("Multiple dispatch failed" in str(error))

    assert same(tocha.compile(f, backend="eager")(tocha.ones(2)), tocha.ones(2) + 1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_hooks_on_tensors_of_the_graph(backend):
    factor = 10.0

    def f(x):
        y = x * 2
        y.register_hook(lambda g: g * factor)
        return y.sum()

    counter = CompileCounterWithBackend(backend)
    compiled = tocha.compile(f, backend=counter, fullgraph=True)
    for _ in range(2):
        x = tocha.ones(2, requires_grad=True)
        compiled(x).backward()
        assert same(x.grad, tocha.full((2,), 2 * factor))
        factor = 5.0  # guarded: captured again
    assert counter.frame_count == 2


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_hooks_on_inputs_are_set_at_every_call(backend):
    seen = []

    def f(x, w):
        scale = x.sum()
        handle = w.register_hook(lambda g: seen.append("hook") or g * scale)
        w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
        return (x * w).sum(), handle

    counter = CompileCounterWithBackend(backend)
    compiled = tocha.compile(f, backend=counter, fullgraph=True)
    for call in (1, 2):
        w = tocha.ones(2, requires_grad=True)
        loss, handle = compiled(tocha.tensor([1.0, 3.0]), w)
        loss.backward()
        assert w.grad.tolist() == [4, 12] and seen == ["hook", [4, 12]] * call
        handle.remove()
        (w * 2).sum().backward()
        assert seen.pop() == [6, 14]
    assert counter.frame_count == 1


class TimesTen(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return tocha.mul(args[0], 10) if func is tocha.add else func(*args, **(kwargs or {}))


class TimesTenBelow(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return args[0] * 10 if func is tocha.ops.aten.add.Tensor else func(*args, **(kwargs or {}))


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("mode", [TimesTen, TimesTenBelow])
def test_modes_from_outside_are_asked_whatever_was_captured_before(mode, backend):
    compiled = tocha.compile(lambda x: tocha.add(x, 3), backend=backend)
    for _ in range(2):
        assert compiled(tocha.ones(2)).tolist() == [4, 4]
        with mode():
            assert compiled(tocha.ones(2)).tolist() == [10, 10]
