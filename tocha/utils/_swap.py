"""swap_tensors: two tensors exchange all but their identity. tocha.utils re-exports it."""

from __future__ import annotations

import copyreg

from tocha import _C


def _slots(t: _C.Tensor) -> list[str]:
    return copyreg._slotnames(type(t))  # type: ignore[attr-defined]


def swap_tensors(t1: _C.Tensor, t2: _C.Tensor) -> None:
    """t1 becomes what t2 was and the other way round: values, history, class, attributes, gradient; each object stays itself.

    Tensors that have views, or whose values recorded operations still need, are refused.

    >>> import tocha
    >>> a, b = tocha.zeros(2), tocha.ones(3)
    >>> tocha.utils.swap_tensors(a, b)
    >>> a, b
    (tensor([1., 1., 1.]), tensor([0., 0.]))
    """
    for name, t in (("t1", t1), ("t2", t2)):
        if not isinstance(t, _C.Tensor):
            raise TypeError(f"[swap_tensors] {name} must be a Tensor, not {type(t).__name__}")
    names = _slots(t1)
    if names != _slots(t2):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    _swap_classes(t1, t2)
    try:
        _C._swap_tensors(t1, t2)
    except RuntimeError:
        _swap_classes(t1, t2)
        raise
    _swap_slots(t1, t2, names)


def _swap_classes(t1: _C.Tensor, t2: _C.Tensor) -> None:
    t1.__class__, t2.__class__ = type(t2), type(t1)


def _swap_slots(t1: _C.Tensor, t2: _C.Tensor, names: list[str]) -> None:
    first, second = ({n: getattr(t, n) for n in names if hasattr(t, n)} for t in (t1, t2))
    for t, values in ((t1, second), (t2, first)):
        for n in names:
            if n in values:
                setattr(t, n, values[n])
            elif hasattr(t, n):
                delattr(t, n)
