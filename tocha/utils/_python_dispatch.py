"""`__torch_dispatch__`: modes that see every operator below autograd, and what wrapper subclasses need.

>>> import tocha
>>> class Names(TorchDispatchMode):
...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
...         print(func)
...         return func(*args, **(kwargs or {}))
>>> with Names():
...     y = tocha.ones(2) + 1
aten.ones.default
aten.add.Tensor
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeGuard, runtime_checkable

from tocha import _C
from tocha._C import Tensor
from tocha._library.dispatch import modes, pop_mode, push_mode


class TorchDispatchMode:
    """Within the context every operator comes to `__torch_dispatch__(func, types, args, kwargs)`, with modes inside popped.

    What the method calls goes to the modes outside, then to the tensors' classes. NotImplemented: the classes are asked.
    """

    supports_higher_order_operators = False
    ignore_compile_internals_ = False

    def __init__(self, _dispatch_key: Any = None):
        if _dispatch_key is not None:
            raise NotImplementedError(
                f"[TorchDispatchMode] modes at a dispatch key are not supported: got {_dispatch_key}"
            )

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        push_mode(self)
        return self

    def __exit__(self, exc_type: object, exc_val: object, exc_tb: object) -> None:
        pop_mode()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> TorchDispatchMode:
        """The older way to write `with Mode():`."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return cls.ignore_compile_internals_


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that lets every operator pass."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        return func(*args, **(kwargs or {}))


# ---- the stack ---------------------------------------------------------------------------------------


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    """The innermost mode."""
    return modes.stack[-1] if modes.stack else None


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    """All active modes, the innermost last."""
    return list(modes.stack)


def _len_torch_dispatch_stack() -> int:
    return len(modes.stack)


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    return any(include_infra_modes or not m.is_infra_mode() for m in modes.stack)


def _push_mode(mode: TorchDispatchMode) -> None:
    push_mode(mode)


def _pop_mode(k: Any = None) -> TorchDispatchMode:
    if not modes.stack:
        raise RuntimeError("[_pop_mode] no dispatch mode is active")
    return pop_mode()


@contextlib.contextmanager
def _pop_mode_temporarily(k: Any = None) -> Iterator[TorchDispatchMode]:
    """Within the context the innermost mode is not asked."""
    mode = _pop_mode(k)
    try:
        yield mode
    finally:
        push_mode(mode)


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[TorchDispatchMode]]:
    """Within the context no mode is asked; classes still are."""
    before, modes.stack = modes.stack, []
    _C._set_dispatch_modes(0)
    try:
        yield before
    finally:
        modes.stack = before
        _C._set_dispatch_modes(len(before))


class _DisableTorchDispatch:
    """Context: neither modes nor classes are asked; operators see the memory of tensors."""

    def __enter__(self) -> None:
        _C._disable_dispatch(1)

    def __exit__(self, *exc: object) -> None:
        _C._disable_dispatch(-1)


# PyTorch users reach these through _C.
_C._DisableTorchDispatch = _DisableTorchDispatch
_C._len_torch_dispatch_stack = _len_torch_dispatch_stack
_C._get_dispatch_stack_at = lambda i: modes.stack[i]


# ---- wrapper subclasses ------------------------------------------------------------------------------


@runtime_checkable
class TensorWithFlatten(Protocol):
    """A subclass that consists of other tensors, and can be taken apart and put together."""

    def __tensor_flatten__(self) -> tuple[list[str], object]: ...
    @staticmethod
    def __tensor_unflatten__(inner_tensors: Any, flatten_spec: Any, outer_size: Any, outer_stride: Any) -> Tensor: ...


def is_traceable_wrapper_subclass(t: object) -> TypeGuard[Any]:
    """Whether a tensor is a wrapper that can be taken apart by `__tensor_flatten__` and put together again."""
    return isinstance(t, Tensor) and is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    return (
        t is not Tensor
        and issubclass(t, Tensor)
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def transform_subclass(
    t: Any, callback: Callable[[str, Any], Any], outer_size: Any = None, outer_stride: Any = None
) -> Any:
    """A wrapper of the same class around `callback(attribute, inner)` for each of its inner tensors."""
    outer_size = outer_size if outer_size is not None else t.size()
    outer_stride = outer_stride if outer_stride is not None else t.stride()
    attributes, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in attributes}
    made = type(t).__tensor_unflatten__(inner, context, outer_size, outer_stride)
    if tuple(made.shape) != tuple(outer_size) or made.stride() != tuple(outer_stride):
        raise RuntimeError(
            f"Expected return value from {type(t)}__tensor_unflatten__() to have shape {outer_size} and stride {outer_stride}, "
            f"but got: {made.shape} and {made.stride()}"
        )
    return made


def _argument(schema: Any, alias: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The value of the argument that shares the memory `alias` names."""
    position = 0
    for a in schema._arguments:
        if a.alias and alias in a.alias:
            if a.name in kwargs:
                return kwargs[a.name]
            return args[position] if not a.kwarg_only and position < len(args) else None
        position += not a.kwarg_only
    return None


def return_and_correct_aliasing(func: Any, args: tuple, kwargs: dict[str, Any] | None, out: Any) -> Any:
    """What a wrapper's `__torch_dispatch__` returns: views share their base's storage, writes return what was written to.

    `out` are the results as the wrapper made them; where the schema says `(a!)` the argument itself is the result.
    """
    kwargs = kwargs or {}
    schema = func._schema
    if schema.name in ("aten::set_", "aten::resize_", "aten::resize_as_"):
        raise RuntimeError(f"{func} is not supported with return_and_correct_aliasing: it changes what a storage is")

    def corrected(r: Any, value: Any) -> Any:
        if not r.alias:
            return value
        source = _argument(schema, r.alias[0], args, kwargs)
        if r.is_write:
            return source
        for made in value if isinstance(value, list | tuple) else (value,):
            if isinstance(made, Tensor) and isinstance(source, Tensor):
                _C._share_storage(made, source)
        return value

    returns = schema._returns
    if len(returns) == 1:
        return corrected(returns[0], out)
    if not returns:
        return out
    return type(out)(corrected(r, v) for r, v in zip(returns, out, strict=True))
