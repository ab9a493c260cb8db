"""Tables of what functions do on a kind of tensor, which its `__torch_function__` looks them up in."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tocha import _C

Table = dict[Any, Callable]


def form_of(table: Table, *names: str) -> Callable:
    """Makes a function the form of tocha's functions and of tensors' methods of these names."""

    def register(f: Callable) -> Callable:
        for name in names:
            for home in (_C, _C.Tensor, _C._nn):
                found: Any = getattr(home, name, None)
                if found is not None:
                    table[found] = f
                if is_property(found):
                    table[found.__get__] = f
        return f

    return register


def read_natively(table: Table, *names: str) -> None:
    """Properties and methods of which the native part of the tensors is right."""
    for name in names:
        found: Any = getattr(_C.Tensor, name)
        if is_property(found):
            table[found] = table[found.__get__] = _native(found.__get__)
            table[found.__set__] = _native(found.__set__)
        else:
            table[found] = table[getattr(_C, name, found)] = _native(found)


def is_property(found: Any) -> bool:
    return inspect.isdatadescriptor(found)


def _native(call: Callable) -> Callable:
    def answer(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _C.DisableTorchFunctionSubclass():
            return call(self, *args, **kwargs)

    return answer
