"""Hooks on what operations keep for backward; tocha.autograd.graph exports them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tocha import _C

Tensor = _C.Tensor


class _Stack(threading.local):
    def __init__(self) -> None:
        self.pairs: list[tuple[Callable, Callable]] = []
        self.disabled: list[str] = []


_stack = _Stack()


def _apply_stack() -> None:
    pack, unpack = _stack.pairs[-1] if _stack.pairs else (None, None)
    _C._set_saved_hooks(pack, unpack)


class saved_tensors_hooks:
    """What operations keep for backward passes through pack_hook, and through unpack_hook when it is used.

    >>> import tocha
    >>> x = tocha.ones(2, requires_grad=True)
    >>> with saved_tensors_hooks(lambda t: t.numpy(), lambda a: tocha.from_numpy(a)):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        if _stack.disabled:
            raise RuntimeError(_stack.disabled[-1])
        _stack.pairs.append((self.pack_hook, self.unpack_hook))
        _apply_stack()

    def __exit__(self, *exc: object) -> None:
        _stack.pairs.pop()
        _apply_stack()


class disable_saved_tensors_hooks:
    """Within it, using saved_tensors_hooks is an error with this message.

    >>> with tocha.autograd.graph.disable_saved_tensors_hooks("no hooks here"):
    ...     try:
    ...         with tocha.autograd.graph.save_on_cpu():
    ...             pass
    ...     except RuntimeError as error:
    ...         print(error)
    no hooks here
    """

    def __init__(self, error_message: str) -> None:
        self.message = error_message

    def __enter__(self) -> None:
        if _stack.pairs:
            raise RuntimeError(self.message)
        _stack.disabled.append(self.message)

    def __exit__(self, *exc: object) -> None:
        _stack.disabled.pop()

    def __call__(self, f: Callable) -> Callable:
        def call(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.message):
                return f(*args, **kwargs)

        return call


class save_on_cpu(saved_tensors_hooks):
    """Keeps what backward needs in the CPU's memory (pinned, if asked).

    >>> x = tocha.tensor([1.0, 2.0], requires_grad=True)
    >>> with tocha.autograd.graph.save_on_cpu():
    ...     y = (x**2).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(t: Tensor) -> tuple:
            if not pin_memory:
                return t.device, t.cpu()
            held = _C.empty(t.size(), dtype=t.dtype, layout=t.layout, pin_memory=not t.is_cpu)
            held.copy_(t)
            return t.device, held

        def unpack(packed: tuple) -> Tensor:
            device, held = packed
            return held.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


for _class in (saved_tensors_hooks, disable_saved_tensors_hooks, save_on_cpu):
    _class.__module__ = "tocha.autograd.graph"
