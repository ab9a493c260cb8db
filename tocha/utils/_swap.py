"""swap_tensors: two tensors exchange all but their identity. tocha.utils re-exports it."""

from __future__ import annotations

import copyreg
import weakref
from typing import Any

from tocha import _C

_CONTENT = ("requires_grad", "grad", "_backward_hooks", "_post_accumulate_grad_hooks")


def _check(t: Any, name: str) -> None:
    if not isinstance(t, _C.Tensor):
        raise TypeError(f"[swap_tensors] {name} must be a Tensor, not {type(t).__name__}")
    if t.is_sparse:
        raise NotImplementedError(f"[swap_tensors] {name} is sparse")
    if weakref.getweakrefs(t):
        raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    if t.grad_fn is not None or t._is_view():
        raise RuntimeError(f"[swap_tensors] {name} is a view or a recorded result; only leaves can be swapped")


def _slots(t: _C.Tensor) -> list[str]:
    return copyreg._slotnames(type(t))  # type: ignore[attr-defined]


def _take(t: _C.Tensor) -> tuple:
    """What t holds; leaves it without."""
    state = {name: getattr(t, name) for name in _CONTENT}
    slots = {name: getattr(t, name) for name in _slots(t) if hasattr(t, name)}
    content = (t.detach(), type(t), dict(t.__dict__), slots, state)
    t.__dict__.clear()
    for name in _CONTENT[1:]:
        setattr(t, name, None)
    t.requires_grad = False
    return content


def _give(t: _C.Tensor, content: tuple) -> None:
    data, cls, attributes, slots, state = content
    t.data = data
    t.__class__ = cls
    t.__dict__.update(attributes)
    for name, value in (slots | state).items():
        setattr(t, name, value)


def swap_tensors(t1: _C.Tensor, t2: _C.Tensor) -> None:
    """t1 becomes what t2 was and the other way round: values, class, attributes, gradient; each object stays itself.

    >>> import tocha
    >>> a, b = tocha.zeros(2), tocha.ones(3)
    >>> tocha.utils.swap_tensors(a, b)
    >>> a, b
    (tensor([1., 1., 1.]), tensor([0., 0.]))
    """
    _check(t1, "t1")
    _check(t2, "t2")
    if _slots(t1) != _slots(t2):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    first, second = _take(t1), _take(t2)
    _give(t1, second)
    _give(t2, first)
