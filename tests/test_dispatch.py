"""`__torch_dispatch__`: classes and modes that take operators over below autograd."""

from __future__ import annotations

import threading
from typing import ClassVar

import pytest

import tocha
from tocha.utils._mode_utils import no_dispatch
from tocha.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode,
    _get_current_dispatch_mode_stack,
    _pop_mode_temporarily,
    is_traceable_wrapper_subclass,
    return_and_correct_aliasing,
    transform_subclass,
)
from tocha.utils._pytree import tree_map, tree_map_only

aten = tocha.ops.aten


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append((func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))

    @property
    def names(self):
        return [str(f).removeprefix("aten.") for f, _, _ in self.calls]


class Wrapper(tocha.Tensor):
    """A tensor without memory that holds another."""

    log: ClassVar[list] = []

    @staticmethod
    def __new__(cls, inner):
        return tocha.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), storage_offset=inner.storage_offset(), dtype=inner.dtype,
            device=inner.device, requires_grad=inner.requires_grad,
        )  # fmt: skip

    def __init__(self, inner):
        self.inner = inner

    __torch_function__ = tocha._C._disabled_torch_function_impl

    def __repr__(self):
        return f"Wrapper({self.inner})"

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner_tensors, context, outer_size, outer_stride):
        return Wrapper(inner_tensors["inner"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.log.append(str(func).removeprefix("aten."))
        kwargs = kwargs or {}
        plain, named = tree_map(lambda t: t.inner if isinstance(t, Wrapper) else t, (args, kwargs))
        out = tree_map_only(tocha.Tensor, Wrapper, func(*plain, **named))
        return return_and_correct_aliasing(func, args, kwargs, out)


@pytest.fixture(autouse=True)
def empty_log():
    Wrapper.log = []


def wrapped(*values, requires_grad=False):
    return Wrapper(tocha.tensor(values)).requires_grad_(requires_grad)


# ---- modes ---------------------------------------------------------------------------------------------


def test_a_mode_sees_operators_with_pytorchs_arguments():
    x = tocha.ones(2, 3)
    with Log() as log:
        x + 2
        x.add(x, alpha=3)
        x.sum(1, keepdim=True)
        x.sum()
        x.lt(1)
        x**2
    assert log.names == ["add.Tensor", "add.Tensor", "sum.dim_IntList", "sum.default", "lt.Scalar", "pow.Tensor_Scalar"]
    given = [(args, kwargs) for _, args, kwargs in log.calls]
    assert given[0] == ((x, 2), {})
    assert given[1] == ((x, x), {"alpha": 3})
    assert given[2] == ((x, [1], True), {})
    assert given[3] == ((x,), {})
    assert given[5] == ((x, 2), {})


def test_results_are_what_the_mode_returns():
    class Zero(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return tocha.zeros_like(func(*args, **(kwargs or {})))

    x = tocha.ones(2)
    with Zero():
        y = x + 1
    assert y.tolist() == [0, 0]
    assert (x + 1).tolist() == [2, 2]


def test_inner_modes_come_first_and_see_what_they_call_go_outwards():
    order = []

    class Named(TorchDispatchMode):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            order.append((self.name, len(_get_current_dispatch_mode_stack())))
            return func(*args, **(kwargs or {}))

    with Named("outer") as outer, Named("inner") as inner:
        assert _get_current_dispatch_mode() is inner
        assert _get_current_dispatch_mode_stack() == [outer, inner]
        tocha.ones(1).neg()
    assert order == [("inner", 1), ("outer", 0)] * 2
    assert _get_current_dispatch_mode() is None


def test_modes_can_be_set_aside():
    x = tocha.ones(2)
    with Log() as log:
        with _disable_current_modes():
            x + x
        with _pop_mode_temporarily():
            x + x
        with no_dispatch():
            x + x
        assert log.names == []
        x + x
    assert log.names == ["add.Tensor"]


def test_an_error_in_a_mode_leaves_the_stack_as_it_was():
    class Broken(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise ValueError("no")

    with Broken() as mode:
        with pytest.raises(ValueError, match="no"):
            tocha.ones(2)
        assert _get_current_dispatch_mode() is mode
    assert tocha.ones(2).tolist() == [1, 1]


def test_modes_belong_to_their_thread():
    seen = []
    with Log() as log:
        t = threading.Thread(target=lambda: seen.append((tocha.ones(2) + 1).tolist()))
        t.start()
        t.join()
    assert seen == [[2, 2]]
    assert log.names == []


def test_factories_are_seen():
    with Log() as log:
        tocha.ones(2, 3)
        tocha.zeros(2, dtype=tocha.float64)
        tocha.arange(3)
        tocha.rand(2)
        tocha.empty(2)
    assert log.names == ["ones.default", "zeros.default", "arange.default", "rand.default", "empty.memory_format"]
    assert log.calls[0][1] == ([2, 3],)
    assert log.calls[1][2]["dtype"] == tocha.float64


def test_lists_and_several_results():
    x = tocha.arange(6.0).reshape(2, 3)
    with Log() as log:
        values, places = x.max(1)
        parts = x.split(1)
        tocha.cat([x, x])
        tocha.stack([x, x])
        added = tocha._foreach_add([x, x], 1)
    assert log.names == ["max.dim", "split.Tensor", "cat.default", "stack.default", "_foreach_add.Scalar"]
    assert values.tolist() == [2, 5]
    assert places.tolist() == [2, 2]
    assert len(parts) == 2
    assert added[0].tolist() == (x + 1).tolist()


def test_out_and_in_place_are_seen():
    x, out = tocha.ones(2), tocha.empty(2)
    with Log() as log:
        tocha.add(x, x, out=out)
        x.mul_(3)
        x.zero_()
        x.copy_(out)
    assert log.names == ["add.out", "mul_.Tensor", "zero_.default", "copy_.default"]
    assert log.calls[0][2] == {"out": out}
    assert x.tolist() == [2, 2]
    assert x._version == 3


def test_composites_are_seen_in_parts_and_wholes_whole():
    x, w, b = tocha.ones(2, 3), tocha.ones(4, 3), tocha.ones(4)
    with Log() as log:
        tocha.nn.functional.linear(x, w, b)
        x.flatten()
        x.softmax(1)
        x.clamp(0, 1)
        x @ w.T
    assert log.names == [
        "t.default", "addmm.default", "view.default", "_softmax.default", "clamp.default", "permute.default", "mm.default",
    ]  # fmt: skip


def test_a_mode_below_autograd():
    x = tocha.tensor([1.0, 2.0], requires_grad=True)
    with Log() as log:
        y = (x * 3).sum()
        assert y.requires_grad
        y.backward()
    assert log.names == [
        "mul.Tensor", "sum.default", "ones_like.default", "expand.default", "mul.Tensor", "detach.default",
    ]  # fmt: skip
    assert x.grad.tolist() == [3, 3]


def test_function_modes_and_dispatch_modes_together():
    seen = []

    class Functions(tocha.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x = tocha.ones(2)
    with Functions(), Log() as log:
        tocha.add(x, x)
    assert seen[0] == "add"
    assert log.names == ["add.Tensor"]


def test_custom_operators_are_seen():
    @tocha.library.custom_op("test_dispatch::twice", mutates_args=())
    def twice(x: tocha.Tensor, by: int = 2) -> tocha.Tensor:
        return x * by

    x = tocha.ones(2)
    with Log() as log:
        assert twice(x).tolist() == [2, 2]
    assert str(log.calls[0][0]) == "test_dispatch.twice.default"
    assert len(log.calls[0][1]) == 1
    assert twice(wrapped(1.0)).inner.tolist() == [2]


# ---- classes -------------------------------------------------------------------------------------------


def test_a_class_takes_operators_over():
    x = wrapped(1.0, 2.0)
    y = x * 2 + x
    assert isinstance(y, Wrapper)
    assert y.inner.tolist() == [3, 6]
    assert Wrapper.log == ["mul.Tensor", "add.Tensor"]


def test_plain_tensors_beside_it_are_handed_over_too():
    y = tocha.ones(2) + wrapped(1.0, 2.0)
    assert isinstance(y, Wrapper)
    assert y.inner.tolist() == [2, 3]


def test_gradients_are_of_the_class():
    x = wrapped(1.0, 2.0, requires_grad=True)
    for n in (1, 2):
        (x.exp() * 3).sum().backward()
        assert isinstance(x.grad, Wrapper)
        expected = [3 * n * v for v in tocha.tensor([1.0, 2.0]).exp().tolist()]
        assert x.grad.inner.tolist() == pytest.approx(expected)


def test_gradients_of_gradients():
    x = wrapped(3.0, requires_grad=True)
    (g,) = tocha.autograd.grad(x * x * x, x, tocha.ones(1), create_graph=True)
    (h,) = tocha.autograd.grad(g, x, tocha.ones(1))
    assert isinstance(h, Wrapper)
    assert h.inner.tolist() == [18]


def test_a_network_of_wrappers():
    x, w, b = wrapped([1.0, 2.0]), wrapped([3.0, 4.0], requires_grad=True), wrapped(0.5, requires_grad=True)
    y = tocha.relu(tocha.nn.functional.linear(x, w, b)).mean()
    y.backward()
    assert y.inner.item() == 11.5
    assert w.grad.inner.tolist() == [[1, 2]]
    assert b.grad.inner.tolist() == [1]


def test_in_place_returns_the_tensor_itself():
    x = wrapped(1.0, 2.0)
    before = x._version
    assert x.add_(1) is x
    assert x.inner.tolist() == [2, 3]
    assert x._version == before + 1


def test_in_place_with_a_history():
    x = wrapped(1.0, 2.0, requires_grad=True)
    y = x * 2
    y.mul_(x)
    y.sum().backward()
    assert x.grad.inner.tolist() == [4, 8]


def test_views_are_views_of_the_wrapper():
    x = wrapped([1.0, 2.0], [3.0, 4.0])
    y = x.t()
    assert isinstance(y, Wrapper)
    assert y._base is x
    assert y.untyped_storage() is x.untyped_storage()
    assert y._version == x._version
    y.add_(1)
    assert x._version == y._version == 1
    assert x.inner.tolist() == [[2, 3], [4, 5]]


def test_indexing():
    x = wrapped([1.0, 2.0], [3.0, 4.0])
    assert x[0].inner.tolist() == [1, 2]
    assert x[:, 1].inner.tolist() == [2, 4]
    assert x[tocha.tensor([1])].inner.tolist() == [[3, 4]]
    assert Wrapper.log == ["select.int", "select.int", "index.Tensor"]


def test_nobody_answers():
    class Mute(tocha.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    x = tocha.ones(2).as_subclass(Mute)
    with pytest.raises(TypeError, match=r"Multiple dispatch failed for .*aten.neg.default.*returned NotImplemented"):
        tocha.neg(x)


def test_subclasses_are_asked_before_their_bases():
    order = []

    class Base(tocha.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            order.append(cls.__name__)
            return NotImplemented if cls is not Base else tocha.zeros(1)

    class Derived(Base):
        pass

    a, b = tocha.ones(1).as_subclass(Base), tocha.ones(1).as_subclass(Derived)
    with tocha._C.DisableTorchFunctionSubclass():
        tocha.add(a, b)
    assert order == ["Derived", "Base"]


def test_wrong_results_are_refused():
    class Wrong(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return "no tensor"

    with Wrong(), pytest.raises(RuntimeError, match="Unable to cast Python instance of type str"):
        tocha.ones(2)


def test_without_dispatch_a_wrapper_has_no_memory():
    x = wrapped(1.0, 2.0)
    with no_dispatch(), pytest.raises(RuntimeError):
        tocha.neg(x)
    assert tocha.neg(x).inner.tolist() == [-1, -2]


def test_a_class_may_decline():
    class Plain(tocha.Tensor):
        __torch_dispatch__ = tocha._C._disabled_torch_dispatch_impl

    x = tocha.ones(2).as_subclass(Plain)
    assert not tocha._C._has_torch_dispatch(x)
    assert (x + 1).tolist() == [2, 2]


def test_marks_go_with_the_class():
    class Loud(tocha.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            with no_dispatch():
                return func(*args, **(kwargs or {}))

    x = tocha.ones(2).as_subclass(Loud)
    assert tocha._C._has_torch_dispatch(x)
    assert not tocha._C._has_torch_dispatch(tocha.ones(2))
    assert tocha._C._has_torch_dispatch(tocha.Tensor._make_subclass(Loud, tocha.ones(2)))


def test_wrappers_are_taken_apart_and_put_together():
    x = wrapped(1.0, 2.0)
    assert is_traceable_wrapper_subclass(x)
    assert not is_traceable_wrapper_subclass(tocha.ones(2))
    y = transform_subclass(x, lambda name, inner: inner * 2)
    assert y.inner.tolist() == [2, 4]
    with pytest.raises(RuntimeError, match="to have shape"):
        transform_subclass(x, lambda name, inner: inner[:1])


def test_a_device_without_kernels_says_so_by_name():
    class Elsewhere(tocha.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise AssertionError

    x = tocha.Tensor._make_wrapper_subclass(Elsewhere, (2, 2), device="hpu")
    with no_dispatch():
        for call in (lambda: tocha.neg(x), lambda: tocha.mm(x, x), lambda: x.sum(), lambda: x.sort()):
            with pytest.raises((NotImplementedError, RuntimeError)):
                call()
