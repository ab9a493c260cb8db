"""Names of PyTorch's native module that packages ask for by `torch._C`, and that have a meaning here.

They are put there when the alias is switched on: tocha itself has no use for them.
"""

from __future__ import annotations

import enum
import importlib
import sys
from typing import Any

from tocha import _C
from tocha._alias import native_functorch
from tocha.amp.autocast_mode import autocast

DispatchKey = enum.Enum(
    "DispatchKey",
    "Undefined CPU CUDA XPU MPS HPU Meta PrivateUse1 SparseCPU QuantizedCPU BackendSelect Python PythonDispatcher FuncTorchBatched "
    "Functionalize ADInplaceOrView AutogradCPU AutogradCUDA Autograd AutogradOther AutogradFunctionality AutocastCPU AutocastCUDA AutocastXPU "
    "AutocastMPS AutocastHPU AutocastPrivateUse1 CompositeImplicitAutograd CompositeExplicitAutograd Conjugate Negative ZeroTensor",
    module="torch._C",
)


class DispatchKeySet:
    """A set of dispatch keys."""

    def __init__(self, *keys: Any):
        self._keys = frozenset(keys)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*(self._keys | other._keys))

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*(self._keys & other._keys))

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*(self._keys - other._keys))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    def has(self, key: Any) -> bool:
        return key in self._keys

    def add(self, key: Any) -> DispatchKeySet:
        return DispatchKeySet(*self._keys, key)

    def remove(self, key: Any) -> DispatchKeySet:
        return DispatchKeySet(*(self._keys - {key}))

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(sorted(k.name for k in self._keys))})"


class _Functions(type):
    def __getattr__(cls, name: str) -> Any:
        return getattr(_C, name)


class _VariableFunctionsClass(metaclass=_Functions):
    """Where pickles of PyTorch find its functions: `torch.relu` as a module's activation."""


class _ExcludeDispatchKeyGuard:
    """Leaves layers of dispatch out: autocast's is the one that programs leave out. Others are refused."""

    def __init__(self, keys: DispatchKeySet):
        names = {k.name for k in keys._keys}
        if any(not n.startswith("Autocast") for n in names):
            raise NotImplementedError(f"[_ExcludeDispatchKeyGuard] only autocast can be left out, not {sorted(names)}")
        self._off = autocast("cpu", enabled=False)

    def __enter__(self) -> None:
        self._off.__enter__()

    def __exit__(self, *exception: Any) -> None:
        self._off.__exit__(*exception)


def _log_api_usage_once(event: str) -> None:
    """Nothing is logged."""


def _get_tracing_state() -> None:
    """The state of a trace under way: none ever is."""
    return None


def _is_tracing() -> bool:
    """Whether a trace is under way: none ever is."""
    return False


def _get_accelerator(check: bool | None = None) -> Any:
    """The device of the accelerator; the CPU where there is none."""
    return _C.device("cpu")


# Settings of a compiler of scripts that is not here: they are kept, and the one before is returned.
_SETTINGS = {
    "_jit_set_profiling_executor": True,
    "_jit_set_profiling_mode": True,
    "_jit_set_texpr_fuser_enabled": True,
    "_jit_set_nvfuser_enabled": False,
    "_jit_set_nvfuser_guard_mode": False,
    "_jit_override_can_fuse_on_cpu": False,
    "_jit_override_can_fuse_on_gpu": False,
}


def _setting(name: str) -> Any:
    def change(value: bool) -> bool:
        before, _SETTINGS[name] = _SETTINGS[name], bool(value)
        return before

    change.__name__ = change.__qualname__ = name
    return change


def _can_fuse(device: str) -> Any:
    return lambda: _SETTINGS[f"_jit_override_can_fuse_on_{device}"]


def _parse_to(*args: Any, **kwargs: Any) -> tuple:
    """The arguments of `to` in order: device, dtype, non_blocking, memory_format."""
    return importlib.import_module("tocha.nn.modules._conversion").parse_to(*args, **kwargs)


NAMES = (
    _VariableFunctionsClass,
    DispatchKey, DispatchKeySet, _ExcludeDispatchKeyGuard, _log_api_usage_once, _get_tracing_state, _is_tracing, _get_accelerator,
    *map(_setting, _SETTINGS),
)  # fmt: skip


# Names that live in modules which `import tocha` does not load, and are found there when somebody asks.
LATE = {
    "PyTorchFileReader": "tocha.serialization.file_reader",
    "ScriptModule": "tocha.jit",
    "ScriptFunction": "tocha.jit",
    "Future": "tocha.futures",
}


def late(name: str) -> Any:
    """A name of torch._C (and of torch) from the module that has it."""
    if name not in LATE:
        raise AttributeError(f"module 'torch._C' has no attribute {name!r}")
    return getattr(importlib.import_module(LATE[name]), name)


def install() -> None:
    """Gives torch._C these names."""
    vars(_C)["_functorch"] = native_functorch
    sys.modules["torch._C._functorch"] = sys.modules["tocha._C._functorch"] = native_functorch
    vars(_C)["__getattr__"] = late
    for value in NAMES:
        if not hasattr(_C, value.__name__):
            setattr(_C, value.__name__, value)
    for device in ("cpu", "gpu"):
        setattr(_C, f"_jit_can_fuse_on_{device}", _can_fuse(device))
    if not hasattr(_C, "_TensorMeta"):
        _C._TensorMeta = type(_C.Tensor)
    if not hasattr(_C._nn, "_parse_to"):
        _C._nn._parse_to = _parse_to  # type: ignore[attr-defined]
