"""swap_tensors: what is exchanged, and what refuses."""

from __future__ import annotations

import weakref

import pytest

import tocha
from tocha.utils import swap_tensors


def test_a_view_and_a_tensor():
    base, other = tocha.zeros(4), tocha.ones(3)
    view = base[:2]
    swap_tensors(view, other)
    other.add_(5)
    assert base.tolist() == [5, 5, 0, 0] and other._base is base and other._is_view()
    assert view.tolist() == [1, 1, 1] and view._base is None


def test_recorded_results():
    a = tocha.ones(2, requires_grad=True)
    doubled, exponential = a * 2, a.exp()
    swap_tensors(doubled, exponential)
    assert doubled.grad_fn.name() == "ExpBackward0" and exponential.grad_fn.name() == "MulBackward0"
    doubled.sum().backward()
    assert tocha.allclose(a.grad, a.exp())


def test_a_result_that_its_own_node_keeps():
    a = tocha.ones(2, requires_grad=True)
    e, d = a.exp(), tocha.zeros(2)
    loss = e.sum()
    swap_tensors(e, d)
    loss.backward()
    assert tocha.allclose(a.grad, a.exp()) and e.tolist() == [0, 0] and d.grad_fn is not None


def test_values_that_somebody_needs_are_not_swapped():
    a, b, d = tocha.ones(2, requires_grad=True), tocha.full((2,), 3.0), tocha.zeros(2)
    loss = (a * b).sum()
    with pytest.raises(RuntimeError, match="Cannot swap t1"):
        swap_tensors(b, d)
    loss.backward()
    assert a.grad.tolist() == [3, 3]
    swap_tensors(b, d)
    assert b.tolist() == [0, 0] and d.tolist() == [3, 3]


def test_a_tensor_with_views_is_not_swapped():
    base, d = tocha.zeros(4), tocha.ones(3)
    view = base[1:]
    with pytest.raises(RuntimeError, match="Cannot swap t2"):
        swap_tensors(d, base)
    del view
    alias = base.detach()
    swap_tensors(d, base)
    assert d.tolist() == [0] * 4 and base.tolist() == [1] * 3 and alias.tolist() == [0] * 4


def test_a_leaf_that_gradients_were_on_their_way_to():
    a, d = tocha.ones(2, requires_grad=True), tocha.zeros(3, requires_grad=True)
    loss = (a * 3).sum()
    swap_tensors(a, d)
    (d * 5).sum().backward()
    assert d.grad.tolist() == [5, 5] and a.grad is None
    with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
        loss.backward()


def test_gradients_hooks_classes_and_attributes_go_along():
    class Own(tocha.Tensor):
        pass

    a, d = tocha.ones(2).as_subclass(Own).requires_grad_(), tocha.zeros(5, 1, 1, 1, 1, 1, 1)
    a.grad, a.mark = tocha.full((2,), 7.0), 3
    a.register_hook(lambda g: g * 2)
    swap_tensors(a, d)
    assert type(a) is tocha.Tensor and type(d) is Own and d.mark == 3 and not hasattr(a, "mark")
    assert a.shape == (5, 1, 1, 1, 1, 1, 1) and d.grad.tolist() == [7, 7] and a.grad is None
    (tocha.Tensor(d) * 1).sum().backward()
    assert d.grad.tolist() == [9, 9]


def test_refusals():
    class Slotted(tocha.Tensor):
        __slots__ = ("extra",)

    a, d = tocha.ones(2), tocha.zeros(3)
    reference = weakref.ref(a)
    with pytest.raises(RuntimeError, match="Cannot swap t1 because it has weakref"):
        swap_tensors(a, d)
    del reference
    with pytest.raises(RuntimeError, match="different slots"):
        swap_tensors(a.as_subclass(Slotted), d)
    with pytest.raises(TypeError):
        swap_tensors(a, 3)
    swap_tensors(d, d)
    x, y = (t.as_subclass(Slotted) for t in (a, d))
    x.extra = 1
    swap_tensors(x, y)
    assert y.extra == 1 and not hasattr(x, "extra") and x.shape == (3,)


def test_kept_tensors_are_let_go():
    """However a graph ends, what it kept can be swapped after."""
    a, d = tocha.ones(2, requires_grad=True), tocha.zeros(2)
    for end in (lambda y: y.sum().backward(), lambda y: None):
        y = a * a
        with pytest.raises(RuntimeError):
            swap_tensors(a, d)
        end(y)
        del y
        swap_tensors(a, d)
        swap_tensors(a, d)
    with tocha.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = a * a
    del y
    swap_tensors(a, d)
