"""What is known of tensors while capturing: everything but their elements. The one place that asks.

Facts are meta tensors, with the device that the real one has kept beside. Operators run on them to find the facts of
their results; what needs elements refuses.
"""

from __future__ import annotations

from typing import Any

import tocha
from tocha._dynamo.refusals import Unsupported

META = tocha.device("meta")
_TO_PYTHON = frozenset({"item", "tolist", "numpy", "__array__", "__bool__", "__int__", "__float__", "__index__", "data_ptr", "storage", "untyped_storage"})  # fmt: skip


def of(tensor: Any) -> Any:
    """The facts of a real tensor."""
    with _no_grad():
        made = tocha.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype, device="meta")
    if tensor.requires_grad:
        made.requires_grad_()
    if not tensor.is_leaf:
        with tocha.enable_grad():
            made = made.view_as(made)
    return made


class _no_grad:
    def __enter__(self) -> None:
        self.before = tocha._C.is_grad_enabled()
        tocha._C._set_grad_enabled(False)

    def __exit__(self, *error: object) -> None:
        tocha._C._set_grad_enabled(self.before)


def device_given(args: tuple, kwargs: dict) -> Any:
    """The device that a call names, if it does."""
    if kwargs.get("device") is not None:
        return tocha.device(kwargs["device"])
    return next((a for a in args if isinstance(a, tocha.device)), None)


def _on_meta(value: Any) -> Any:
    return META if isinstance(value, tocha.device) else value


def _is_device(text: Any) -> bool:
    if not isinstance(text, str):
        return False
    try:
        tocha.device(text)
    except RuntimeError:
        return False
    return True


def run(op: str, target: Any, args: tuple, kwargs: dict) -> Any:
    """The facts of a call's result. `op` is the kind of graph node; errors of the program itself are raised as they are."""
    if op == "call_method":
        if target in _TO_PYTHON:
            raise Unsupported("tensor_to_python", f"Tensor.{target}()")
        if target in ("cpu", "cuda"):
            return args[0]
        if target in ("to", "type") and len(args) > 1 and _is_device(args[1]):
            args = (args[0], META, *args[2:])
    args = tuple(_on_meta(a) for a in args)
    if kwargs.get("device") is not None:
        kwargs = {**kwargs, "device": META}
    if kwargs.get("generator") is not None:
        kwargs = {k: v for k, v in kwargs.items() if k != "generator"}
    call = getattr(args[0], target) if op == "call_method" else target
    given = args[1:] if op == "call_method" else args
    try:
        with META:
            return call(*given, **kwargs)
    except Unsupported:
        raise
    except Exception as error:
        if any(word in str(error) for word in ("meta", "Meta")):
            raise Unsupported("facts", f"{getattr(target, '__name__', target)}: {error}") from error
        raise
