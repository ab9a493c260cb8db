"""Tables of what functions of tocha do with a class of tensors written in Python; its `__torch_function__` looks there."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tocha import _C

Tensor = _C.Tensor


def _is_property(found: Any) -> bool:
    return inspect.isdatadescriptor(found)


def registrar(table: dict[Any, Callable]) -> Callable:
    """A decorator of names, which makes a function the form of tocha's functions and of tensors' methods so called."""

    def form_of(*names: str) -> Callable:
        def register(f: Callable) -> Callable:
            for name in names:
                for home in (_C, Tensor, _C._nn):
                    found: Any = getattr(home, name, None)
                    if found is not None:
                        table[found] = f
                    if _is_property(found):
                        table[found.__get__] = f
            return f

        return register

    return form_of


def read_natively(table: dict[Any, Callable], *names: str) -> None:
    """Properties and methods of which the native part of such a tensor is right."""
    for name in names:
        found: Any = getattr(Tensor, name)
        if _is_property(found):
            table[found] = table[found.__get__] = _native(found.__get__)
            table[found.__set__] = _native(found.__set__)
        else:
            table[found] = table[getattr(_C, name, found)] = _native(found)


def _native(call: Callable) -> Callable:
    def answer(*args: Any, **kwargs: Any) -> Any:
        return _C._disabled_torch_function_impl(call, (), args, kwargs)

    return answer
