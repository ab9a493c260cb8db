"""A device of one's own, in Python: its name, and the methods that go with it (docs/inside/devices.md).

Its kernels are registered with `tocha.library.impl(name, "PrivateUse1")`, what has none runs through the fallback.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import tocha
from tocha import _C
from tocha._C import Tensor


def rename_privateuse1_backend(backend_name: str) -> None:
    """Gives the device `privateuseone` a name: tensors can be made on it from now on. Once per process."""
    _C._rename_privateuse1(backend_name)


def _setup_privateuseone_for_python_backend(
    rename: str | None = None, backend_module: Any = None, hook: Any = None, device_guard: Any = None
) -> None:
    """Name, module and methods of a device whose operators are all in Python."""
    rename_privateuse1_backend(rename or _C._get_privateuse1_backend_name())
    name = _C._get_privateuse1_backend_name()
    register_device_module(name, backend_module if backend_module is not None else _Module(name))
    generate_methods_for_privateuse1_backend()


class _Module(types.ModuleType):
    """`tocha.NAME` where the program brings none: one device."""

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def is_initialized(self) -> bool:
        return True

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        pass


def register_device_module(device_type: str, module: Any) -> None:
    """Makes a module known as `tocha.NAME`."""
    kind = _C.device(device_type).type
    if hasattr(tocha, kind):
        raise RuntimeError(f"The runtime module of '{kind}' has already been registered with '{getattr(tocha, kind)}'")
    setattr(tocha, kind, module)
    sys.modules[f"tocha.{kind}"] = module


def generate_methods_for_privateuse1_backend(
    for_tensor: bool = True,
    for_module: bool = True,
    for_packed_sequence: bool = True,
    for_storage: bool = False,
    unsupported_dtype: list[_C.dtype] | None = None,
) -> None:
    """Tensor.NAME(), Tensor.is_NAME, Module.NAME(), PackedSequence.NAME() for the renamed device."""
    name = _C._get_privateuse1_backend_name()
    if name == "privateuseone":
        raise RuntimeError("[generate_methods_for_privateuse1_backend] rename_privateuse1_backend must come first")
    if for_tensor:
        _add(Tensor, f"is_{name}", property(lambda self: self.device.type == name))
        _add(Tensor, name, _mover(name))
    if for_module:
        _add(tocha.nn.Module, name, lambda self, device=None: self._apply(lambda t: getattr(t, name)(device)))
    if for_packed_sequence:
        packed = tocha.nn.utils.rnn.PackedSequence
        _add(packed, f"is_{name}", property(lambda self: self.data.device.type == name))
        _add(packed, name, lambda self, *args, **kwargs: self.to(name, *args, **kwargs))
    if for_storage:
        raise NotImplementedError(
            f"[generate_methods_for_privateuse1_backend] storages cannot be moved to {name}: tensors are moved"
        )


def _mover(name: str) -> Callable:
    def move(self: Tensor, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> Tensor:
        where = device if device is not None else name
        where = f"{name}:{where}" if isinstance(where, int) else where
        if _C.device(where).type != name:
            raise RuntimeError(f"Invalid device, must be {name} device: got {where}")
        return self.to(device=where, non_blocking=non_blocking, **kwargs)

    return move


def _add(cls: type, name: str, value: Any) -> None:
    if hasattr(cls, name):
        raise RuntimeError(
            f"Can not automatically generate {name}() or is_{name}() method for {cls.__name__}: it has one already"
        )
    setattr(cls, name, value)
