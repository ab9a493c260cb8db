"""Parameters in another memory, and the forms in which Module.to is asked for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha import _C
from tocha.__future__ import get_overwrite_module_params_on_conversion
from tocha.autograd.grad_mode import no_grad
from tocha.nn.parameter import Parameter

Tensor = _C.Tensor


def converted(param: Parameter, fn: Callable[[Tensor], Tensor]) -> Parameter:
    """param with fn's memory; another Parameter only where the old one cannot hold it (another kind of tensor)."""
    grad = param.grad
    with no_grad():
        value = fn(param)
        new_grad = None if grad is None else fn(grad)
    if value is param:
        return param
    other_kind = type(value) is not type(param) and not _same_kind(param, value)
    if other_kind or get_overwrite_module_params_on_conversion():
        param, grad = Parameter(value, param.requires_grad), new_grad
    else:
        param.grad = None  # a gradient of the old dtype or device would not fit the new memory
        param.data = value
        if grad is not None and new_grad is not None:
            grad.data = new_grad.detach()
    param.grad = grad
    return param


def _same_kind(a: Tensor, b: Tensor) -> bool:
    return a.device == b.device or {a.device.type, b.device.type} <= {"cpu", "cuda"}


_TO_FORMS = """but expected one of:
 * (tocha.device device = None, tocha.dtype dtype = None, bool non_blocking = False, bool copy = False, *, tocha.memory_format memory_format = None)
 * (tocha.dtype dtype, bool non_blocking = False, bool copy = False, *, tocha.memory_format memory_format = None)
 * (Tensor tensor, bool non_blocking = False, bool copy = False, *, tocha.memory_format memory_format = None)
"""


def _fits_to(name: str, value: Any) -> bool:
    """Whether value can be Module.to's argument of that name."""
    kinds = {"device": _C.device | str | int | None, "dtype": _C.dtype | None}
    return isinstance(value, kinds.get(name, bool))


def parse_to(*args: Any, **kwargs: Any) -> tuple[_C.device | None, _C.dtype | None, bool, Any]:
    """Module.to's arguments in their three forms: (device, dtype, ...), (dtype, ...), (tensor, ...)."""
    memory_format = kwargs.pop("memory_format", None)
    kwargs.pop("copy", None)
    names: tuple[str, ...] = ("device", "dtype", "non_blocking", "copy")
    first = args[0] if args else None
    tensor = first if isinstance(first, Tensor) else kwargs.pop("tensor", None)
    if tensor is not None:
        kwargs.update(device=tensor.device, dtype=tensor.dtype)
        args, names = args[1:] if tensor is first else args, ("non_blocking", "copy")
    elif isinstance(first, _C.dtype):
        names = ("dtype", "non_blocking", "copy")
    if len(args) > len(names) or not all(map(_fits_to, names, args)):
        shown = ", ".join(type(a).__name__ for a in ((tensor, *args) if tensor is first and args else args))
        raise TypeError(f"to() received an invalid combination of arguments - got ({shown}), {_TO_FORMS}")
    given = dict(zip(names, args, strict=False))
    repeated = given.keys() & kwargs.keys()
    unknown = kwargs.keys() - {"device", "dtype", "non_blocking"}
    if repeated or unknown:
        raise TypeError(f"to() got an unexpected keyword argument '{min(repeated | unknown)}'")
    given.update(kwargs)
    device, dtype = given.get("device"), given.get("dtype")
    return (
        device if device is None or isinstance(device, _C.device) else _C.device(device),
        dtype,
        bool(given.get("non_blocking", False)),
        memory_format,
    )
