"""`__torch_dispatch__`: who is asked about a call of an operator: modes, classes, devices of programs.

Native operators come here by way of plans.py when a tensor or a mode takes them over, below autograd (csrc/dispatch/taken_over.h).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tocha import _C
from tocha._C import Tensor
from tocha.operators.overloads import FUNCTIONAL, Overload


def same(value: Any, default: Any) -> bool:
    """Whether an argument is what it would be if it were not given."""
    return value is default or (type(value) is type(default) and value == default and not isinstance(value, Tensor))


# ---- who is asked ------------------------------------------------------------------------------------


class _Modes(threading.local):
    def __init__(self) -> None:
        self.stack: list[Any] = []


modes = _Modes()


def push_mode(mode: Any) -> None:
    modes.stack.append(mode)
    _C._set_dispatch_modes(len(modes.stack))


def pop_mode() -> Any:
    mode = modes.stack.pop()
    _C._set_dispatch_modes(len(modes.stack))
    return mode


def ordered(takers: list[Any]) -> list[Any]:
    """One tensor of each class, subclasses before their bases, else as they come."""
    found: list[Any] = []
    for t in takers:
        if any(type(t) is type(o) for o in found):
            continue
        place = next((i for i, o in enumerate(found) if issubclass(type(t), type(o))), len(found))
        found.insert(place, t)
    return found


def ask(func: Any, takers: list[Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """The innermost mode, then the classes of the tensors; the first that answers has taken the call over."""
    types = tuple(type(t) for t in takers if hasattr(type(t), "__torch_dispatch__"))
    mode = None
    if modes.stack:
        mode = pop_mode()
        try:
            result = answer(mode, type(mode), mode.__torch_dispatch__, func, types, args, kwargs)
        finally:
            push_mode(mode)
        if result is not NotImplemented:
            return result
    for t in takers:
        if not hasattr(type(t), "__torch_dispatch__"):
            continue  # a device speaks for it
        result = answer(type(t), type(t), type(t).__torch_dispatch__, func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    if on_program_device((args, kwargs)):
        return device_call(func, args, kwargs)
    return refuse(func, mode, types)


def answer(who: Any, cls: type, method: Callable, func: Any, types: tuple, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What a mode or class makes of a call; custom operators may have a rule for it (register_torch_dispatch)."""
    rules = getattr(getattr(func._target, "known", None), "torch_dispatch", None)
    if rules and cls in rules:
        return rules[cls](who, func, types, args, kwargs)
    return method(func, types, args, kwargs)


def refuse(func: Any, mode: Any, types: tuple) -> Any:
    asked = [f"mode object {mode!r}"] if mode is not None else []
    asked += [f"tensor subclass {t!r}" for t in types]
    lines = "".join(f"\n  - {a}" for a in asked)
    raise TypeError(
        f"Multiple dispatch failed for 'tocha.ops.{func}'; all __torch_dispatch__ handlers returned NotImplemented:\n{lines}\n\n"
        "For more information, try re-running with TORCH_LOGS=not_implemented"
    )


# ---- devices of programs -----------------------------------------------------------------------------

KEY = "PrivateUse1"


class Kernels:
    """What programs have registered; the registry fills it in."""

    of: Callable[[str], dict[str, Callable]]


fallbacks: dict[str, Callable] = {}  # by dispatch key; the registry's own


def on_program_device(values: Any) -> bool:
    """Whether a tensor among the values, or the device that is asked for, is one that the program has made."""
    if isinstance(values, Tensor):
        return values.device.type == _C._get_privateuse1_backend_name()
    if isinstance(values, _C.device):
        return values.type == _C._get_privateuse1_backend_name()
    if isinstance(values, list | tuple):
        return any(map(on_program_device, values))
    return isinstance(values, dict) and any(map(on_program_device, values.values()))


class without_dispatch:
    """Operators see memory within it."""

    def __enter__(self) -> None:
        _C._disable_dispatch(1)

    def __exit__(self, *exc: object) -> None:
        _C._disable_dispatch(-1)


def device_call(func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The program's kernel; what needs none (views, memory, copies); a composite's body; the program's fallback."""
    name = func.name()
    known = Kernels.of(name)
    kernel = known.get(KEY)
    if kernel is not None:
        return kernel(*args, **kwargs)
    own = needs_no_kernel(func, args, kwargs)
    if own is not None:
        return own()
    if getattr(func._target, "overload", None) is not None and is_composite(func._target.overload):
        return func.decompose(*args, **kwargs)
    if KEY in fallbacks:
        return fallbacks[KEY](func, *args, **kwargs)
    raise NotImplementedError(
        f"[{name}] Could not run '{name}' with arguments from the '{KEY}' backend. This could be because the operator doesn't exist "
        f"for this backend: no kernel is registered for it, and there is no fallback for {KEY}. It is available for these backends: "
        "[CPU, Meta]"
    )


def is_composite(overload: Overload) -> bool:
    """Whether the record is made of other operators."""
    return overload.record.kind == "composite" and overload.form == FUNCTIONAL


def needs_no_kernel(func: Any, args: tuple, kwargs: dict[str, Any]) -> Callable | None:
    """How an operator runs that computes nothing: geometry, memory from the device's allocator, copies from and to it."""

    def natively() -> Any:
        with without_dispatch():
            return func(*args, **kwargs)

    name = func._schema.name
    if func._schema._is_view_op() or name in ("aten::set_", "aten::_unsafe_view"):
        return natively
    if name in ("aten::empty", "aten::empty_strided"):
        return lambda: allocated(func, args, kwargs)
    if name in ("aten::_to_copy", "tocha::_to_cpu"):
        given = {"device": _C.device("cpu")} if name == "tocha::_to_cpu" else kwargs
        return lambda: moved(args[0], **given)
    if name == "aten::copy_":
        return lambda: copy_between(args[0], args[1])
    return None


def allocated(func: Any, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """Memory of the CPU's kind as that of the device."""
    where = kwargs["device"]
    with without_dispatch():
        return _C._on_device(func(*args, **{**kwargs, "device": _C.device("cpu")}), where)


def moved(t: Tensor, dtype: Any = None, device: Any = None, memory_format: Any = None, **rest: Any) -> Tensor:
    """A copy of t in another dtype or on another device."""
    with without_dispatch():
        like = in_memory(t)
        to = like.to(dtype=dtype or t.dtype, copy=True, memory_format=memory_format or _C.preserve_format)
        where = device if device is not None else t.device
        out = _C._on_device(to, where) if on_program_device(where) else to
    return copy_between(out, t) if KEY in Kernels.of("aten::_copy_from") else out


def in_memory(t: Tensor) -> Tensor:
    """A tensor of the program's device as one of the CPU, on the same memory."""
    return _C._memory_of(t) if on_program_device(t) else t


def copy_between(to: Tensor, source: Tensor) -> Tensor:
    """Registered under `_copy_from` (source, to) where a program moves memory itself; memory of the CPU's kind is copied here."""
    kernel = Kernels.of("aten::_copy_from").get(KEY)
    if kernel is not None:
        kernel(source, to)
        return to
    with without_dispatch():
        in_memory(to).copy_(in_memory(source))
    return to
