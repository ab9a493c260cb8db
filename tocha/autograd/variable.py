"""The old name of tensors that are differentiated."""

from __future__ import annotations

from typing import Any

from tocha import _C

__all__ = ["Variable"]


class _VariableMeta(type):
    def __instancecheck__(cls, other: object) -> bool:
        return isinstance(other, _C.Tensor)


class Variable(metaclass=_VariableMeta):
    """Variable(data, requires_grad=False) is data itself, as a leaf."""

    def __new__(cls, data: Any, requires_grad: bool = False, volatile: bool | None = None) -> Any:
        return data.detach().requires_grad_(requires_grad)
