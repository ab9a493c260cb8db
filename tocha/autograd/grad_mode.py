"""Switches for recording: no_grad, enable_grad, set_grad_enabled, inference_mode; contexts and decorators alike."""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable
from typing import Any

from tocha import _C

__all__ = [
    "enable_grad",
    "enforce_grad_layout_policy",
    "inference_mode",
    "is_multithreading_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


watchers: list[Callable[[bool], None]] = []  # those who write programs down, with their switches


def _set(on: bool) -> None:
    for watch in watchers:
        watch(on)
    _C._set_grad_enabled(on)


class _Context:
    """A context manager that also decorates functions (each call in the context) and generators (each step)."""

    def __call__(self, function: Callable) -> Callable:
        if inspect.isclass(function):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate functions or "
                "methods. To preserve the current behavior of class decoration, you can directly decorate the `__init__` method "
                "and nothing else.",
                FutureWarning,
                stacklevel=2,
            )
            made = function
            function = lambda *args, **kwargs: made(*args, **kwargs)  # noqa: E731
        if inspect.isgeneratorfunction(function):
            return self._generator(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return call

    def _generator(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def steps(*args: Any, **kwargs: Any) -> Any:
            inner = function(*args, **kwargs)
            # The mode holds only while the generator runs, not while its caller does.
            try:
                with self.clone():
                    value = inner.send(None)
                while True:
                    try:
                        sent = yield value
                    except GeneratorExit:
                        with self.clone():
                            inner.close()
                        raise
                    except BaseException as error:
                        with self.clone():
                            value = inner.throw(error)
                    else:
                        with self.clone():
                            value = inner.send(sent)
            except StopIteration as stop:
                return stop.value

        return steps

    def clone(self) -> Any:
        return type(self)()

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *exc: object) -> None:
        raise NotImplementedError


class _Switch(_Context):
    on: bool

    def __enter__(self) -> None:
        self.before = _C.is_grad_enabled()
        _set(self.on)

    def __exit__(self, *exc: object) -> None:
        _set(self.before)


class _OnOrOff(type):
    """`@no_grad` without parentheses decorates, too."""

    def __call__(cls, function: Callable | None = None) -> Any:
        context = super().__call__()
        return context if function is None else context(function)


class no_grad(_Switch, metaclass=_OnOrOff):
    """Operations are not recorded.

    >>> import tocha
    >>> x = tocha.ones(2, requires_grad=True)
    >>> with tocha.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    on = False


class enable_grad(_Switch, metaclass=_OnOrOff):
    """Operations are recorded, also inside no_grad.

    >>> x = tocha.tensor([1.0], requires_grad=True)
    >>> with tocha.no_grad(), tocha.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    on = True


class set_grad_enabled(_Context):
    """Sets the mode at once; as a context, until its end.

    >>> import tocha
    >>> with tocha.set_grad_enabled(False):
    ...     tocha.is_grad_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        self.before = _C.is_grad_enabled()
        self.mode = bool(mode)
        _set(self.mode)

    def __call__(self, function: Callable) -> Callable:
        _set(self.before)
        return super().__call__(function)

    def __enter__(self) -> None:
        _set(self.mode)

    def __exit__(self, *exc: object) -> None:
        _set(self.before)

    def __str__(self) -> str:
        return f"tocha.autograd.grad_mode.set_grad_enabled(mode={self.mode})"

    def clone(self) -> set_grad_enabled:
        return type(self)(self.mode)


class inference_mode(_Context):
    """no_grad, and tensors made here stay outside recording for good.

    >>> import tocha
    >>> with tocha.inference_mode():
    ...     y = tocha.ones(2) + 1
    >>> y.is_inference()
    True
    """

    def __new__(cls, mode: Any = True) -> Any:
        if isinstance(mode, bool):
            return super().__new__(cls)
        return cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        self.before = (_C.is_inference_mode_enabled(), _C.is_grad_enabled())
        _C._set_inference(self.mode)
        _set(not self.mode)

    def __exit__(self, *exc: object) -> None:
        _C._set_inference(self.before[0])
        _set(self.before[1])

    def clone(self) -> inference_mode:
        return type(self)(self.mode)


class _Multithreading(threading.local):
    on = True


_multithreading = _Multithreading()


def is_multithreading_enabled() -> bool:
    """Whether backward may use threads of its own in this thread.

    >>> tocha.autograd.is_multithreading_enabled()
    True
    """
    return _multithreading.on


class set_multithreading_enabled(_Context):
    """Whether backward may use threads of its own, at once; as a context, until its end.

    They serve devices beside the CPU: on the CPU backward always runs in the thread that called it.

    >>> with set_multithreading_enabled(False):
    ...     is_multithreading_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        self.before, self.mode = _multithreading.on, bool(mode)
        _multithreading.on = self.mode

    def __enter__(self) -> None:
        _multithreading.on = self.mode

    def __exit__(self, *exc: object) -> None:
        _multithreading.on = self.before

    def clone(self) -> set_multithreading_enabled:
        return type(self)(self.mode)


class enforce_grad_layout_policy(_Context):
    """Whether a gradient is laid out as the tensor it belongs to, set at once; as a context, until its end.

    Without it a gradient that nobody else holds is kept as it came, which saves a copy.

    >>> import tocha
    >>> x = tocha.zeros(2, 3).t().requires_grad_()
    >>> with tocha.autograd.enforce_grad_layout_policy(False):
    ...     (x * 1).backward(tocha.ones(3, 2))
    >>> x.grad.is_contiguous(), x.is_contiguous()
    (True, False)
    """

    def __init__(self, enable: bool = True) -> None:
        if not isinstance(enable, bool):
            raise TypeError(
                "set_grad_layout_enforcement_enabled(): argument 'enabled' (position 1) must be bool, "
                f"not {type(enable).__name__}"
            )
        self.before, self.mode = _C._keeps_grad_layout(), enable
        _C._set_grad_layout(enable)

    def __enter__(self) -> None:
        _C._set_grad_layout(self.mode)

    def __exit__(self, *exc: object) -> None:
        _C._set_grad_layout(self.before)

    def clone(self) -> enforce_grad_layout_policy:
        return type(self)(self.mode)
