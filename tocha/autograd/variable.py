"""The old name of tensors that are differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha import _C

__all__ = ["Variable"]


class _VariableMeta(type):
    def __instancecheck__(cls, other: object) -> bool:
        return isinstance(other, _C.Tensor)


class _Engine:
    """What hooks may ask of the walk that runs them."""

    def queue_callback(self, callback: Callable[[], Any]) -> None:
        """Calls callback() when the walk has ended."""
        _C._queue_callback(callback)


class Variable(metaclass=_VariableMeta):
    """Variable(data, requires_grad=False) is data itself, as a leaf.

    >>> tocha.autograd.Variable(tocha.ones(2), requires_grad=True)
    tensor([1., 1.], requires_grad=True)
    """

    _execution_engine = _Engine()

    def __new__(cls, data: Any, requires_grad: bool = False, volatile: bool | None = None) -> Any:
        return data.detach().requires_grad_(requires_grad)
