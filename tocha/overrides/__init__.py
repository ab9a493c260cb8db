"""__torch_function__: how tensor subclasses, look-alikes and modes take over operators.

The native entry of every function notices operands that override (or an active mode) and calls
`_call_overrides`. Costs nothing when there are none.
"""

from __future__ import annotations

import functools
import threading
import types as types_module
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tocha import _C
from tocha._core.library_name import spoken
from tocha.overrides._overridable import (
    get_ignored_functions,
    get_overridable_functions,
    get_testing_overrides,
    is_tensor_method_or_property,
    resolve_name,
)

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "redispatch_function",
    "resolve_name",
    "wrap_torch_function",
]


class _Modes(threading.local):
    def __init__(self) -> None:
        self.stack: list[TorchFunctionMode] = []


_modes = _Modes()


class TorchFunctionMode:
    """While active (`with mode:`), every tocha function called goes through its __torch_function__.

    >>> import tocha
    >>> class Log(TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> with Log():
    ...     _ = tocha.ones(2) + 1
    ones
    add
    """

    def __torch_function__(
        self, func: Callable, types: Sequence[type], args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        raise NotImplementedError

    def __enter__(self) -> TorchFunctionMode:
        _modes.stack.append(self)
        _C._set_function_modes(len(_modes.stack))
        return self

    def __exit__(self, *exc: object) -> None:
        _modes.stack.pop()
        _C._set_function_modes(len(_modes.stack))

    def leave(self) -> None:
        """Ends the mode wherever it is among those that are active."""
        _modes.stack.remove(self)
        _C._set_function_modes(len(_modes.stack))


class BaseTorchFunctionMode(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable, types: Sequence[type], args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _ordered(overridden: Iterable[object]) -> list[object]:
    """One operand per type, subclasses before their bases, else from left to right."""
    out: list[object] = []
    for o in overridden:
        if any(type(o) is type(x) for x in out):
            continue
        place = next((i for i, x in enumerate(out) if issubclass(type(o), type(x))), len(out))
        out.insert(place, o)
    return out


def _call_overrides(func: Callable, overridden: tuple, args: tuple, kwargs: dict | None) -> Any:
    kwargs = kwargs or {}
    operands: Sequence[Any] = _ordered(overridden) if len(overridden) > 1 else overridden
    types = tuple(map(type, operands))
    if _modes.stack:
        mode = _modes.stack.pop()
        _C._set_function_modes(len(_modes.stack))
        try:
            result = mode.__torch_function__(func, types, args, kwargs)
        finally:
            _modes.stack.append(mode)
            _C._set_function_modes(len(_modes.stack))
        if result is not NotImplemented:
            return result
    for o in operands:
        method = o.__torch_function__
        if getattr(method, "__self__", None) is o and not isinstance(o, type):
            warnings.warn(
                "Defining your `__torch_function__` as a plain method is deprecated and will be an error in future, please define it as a classmethod.",
                stacklevel=3,
            )
        result = method(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(unanswered(func, types, _modes.stack[-1:]))


def unanswered(func: Callable, types: Sequence[type], modes: Sequence[object] = ()) -> str:
    """What is said where everybody who was asked to take a call over answered NotImplemented."""
    name = resolve_name(func) or repr(func)
    if name.startswith(f"{spoken()}.nn.functional."):
        return f"no implementation found for '{name}' on types that implement __torch_function__: {list(types)}"
    each = [*(f"  - mode object {m!r}\n" for m in modes), *(f"  - tensor subclass {t!r}\n" for t in types)]
    return (
        f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned NotImplemented:\n\n{''.join(each)}\n"
        "For more information, try re-running with TORCH_LOGS=not_implemented"
    )


def has_torch_function(relevant_args: Iterable[object]) -> bool:
    """Whether any of these overrides tocha functions, or a mode is active."""
    return _C._has_torch_function(tuple(relevant_args))


def has_torch_function_unary(relevant_arg: object) -> bool:
    """Whether the argument takes over functions."""
    return _C._has_torch_function((relevant_arg,))


def has_torch_function_variadic(*relevant_args: object) -> bool:
    """Whether one of the arguments takes over functions."""
    return _C._has_torch_function(relevant_args)


@functools.cache
def get_default_nowrap_functions() -> set[Callable]:
    """What gives a subclass's attribute as it is: it is not turned into the subclass."""
    return {getattr(_C.Tensor, name).__get__ for name in ("_base", "grad", "_grad") if hasattr(_C.Tensor, name)}


def handle_torch_function(public_api: Callable, relevant_args: Iterable[object], *args: Any, **kwargs: Any) -> Any:
    """For functions written in Python: hands the call to the overrides among relevant_args."""
    overridden = tuple(
        a for a in relevant_args if _C._has_torch_function((a,)) and hasattr(type(a), "__torch_function__")
    )
    return _call_overrides(public_api, overridden, args, kwargs)


def wrap_torch_function(dispatcher: Callable) -> Callable:
    """Decorator: the wrapped function honours overrides among dispatcher(*args, **kwargs).

    >>> from tocha.overrides import wrap_torch_function
    >>> @wrap_torch_function(lambda x: (x,))
    ... def double(x):
    ...     return x * 2
    >>> double(tocha.tensor([1, 2]))
    tensor([2, 4])
    """

    def decorate(func: Callable) -> Callable:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorate


def add_method(name: str, method: Callable) -> None:
    """Makes a function in Python a method of Tensor that subclasses and modes can take over, as native ones are."""

    @functools.wraps(method)
    def run(self: _C.Tensor, *args: Any, **kwargs: Any) -> Any:
        if _C._has_torch_function((self,)):
            return handle_torch_function(run, (self,), self, *args, **kwargs)
        return method(self, *args, **kwargs)

    run.__name__, run.__qualname__ = name, f"Tensor.{name}"
    setattr(_C.Tensor, name, run)


class _Property(property):
    """A property that knows its name, as native ones do."""

    def __init__(self, name: str, get: Callable) -> None:
        super().__init__(get)
        self.__name__ = name


def add_property(name: str, getter: Callable[[_C.Tensor], Any]) -> None:
    """The same for an attribute that is computed: overrides get its __get__."""

    def get(self: _C.Tensor) -> Any:
        if _C._has_torch_function((self,)):
            return handle_torch_function(made.__get__, (self,), self)
        return getter(self)

    get.__doc__ = getter.__doc__
    made = _Property(name, get)
    setattr(_C.Tensor, name, made)


def is_tensor_like(obj: object) -> bool:
    """Whether obj is a tensor or stands in for one.

    >>> from tocha.overrides import is_tensor_like
    >>> is_tensor_like(tocha.ones(1)), is_tensor_like([1.0])
    (True, False)
    """
    return type(obj) is _C.Tensor or hasattr(obj, "__torch_function__")


class DisableTorchFunctionSubclass:
    """Context: operands' own __torch_function__ is not asked; modes still are.

    >>> class Logged(tocha.Tensor):
    ...     pass
    >>> x = tocha.ones(2).as_subclass(Logged)
    >>> type(x + 1).__name__
    'Logged'
    >>> with tocha._C.DisableTorchFunctionSubclass():
    ...     type(x + 1).__name__
    'Tensor'
    """

    _level = 1

    def __enter__(self) -> None:
        before = _C._set_overrides(self._level)
        self._before = before
        if before > self._level:
            _C._set_overrides(before)

    def __exit__(self, *exc: object) -> None:
        _C._set_overrides(self._before)


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """Context: neither operands' own __torch_function__ nor modes are asked."""

    _level = 2


def redispatch_function(func: Callable, types: Sequence[type], args: Sequence[Any], kwargs: dict | None) -> Any:
    """Calls a function past the override that is asking: what the function calls in turn meets overrides again.

    >>> import tocha
    >>> class Log(TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         with self:
    ...             return redispatch_function(func, types, args, kwargs)
    >>> with Log():
    ...     _ = tocha.nn.functional.softplus(tocha.ones(2))
    ones
    softplus
    """
    if not isinstance(func, types_module.FunctionType):
        with DisableTorchFunction():
            return func(*args, **(kwargs or {}))
    before = _C._skip_next_override(True)
    try:
        return func(*args, **(kwargs or {}))
    finally:
        _C._skip_next_override(before)


# PyTorch users reach these through _C.
_C.DisableTorchFunctionSubclass = DisableTorchFunctionSubclass
_C.DisableTorchFunction = DisableTorchFunction
