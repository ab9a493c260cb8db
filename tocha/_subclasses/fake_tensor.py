"""Fake tensors under PyTorch's names: importing this opens the door at the bindings (csrc/python/fakes.h)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tocha import _C
from tocha._library.registry import fake_modes
from tocha._subclasses.calls import make_form, mode_of
from tocha._subclasses.errors import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorDeviceMismatchError,
    MetadataMismatchError,
    MissingOpProfile,
    UnsupportedFakeTensorException,
    UnsupportedMutationAliasingException,
    UnsupportedOperatorException,
)
from tocha._subclasses.fake import CONSTANT_NUMEL_LIMIT, FakeStorage, FakeTensor
from tocha._subclasses.methods import FUNCTIONS, METHODS
from tocha._subclasses.mode import FakeTensorConverter, FakeTensorMode
from tocha._subclasses.reader import active_mode, modes
from tocha.ir.sym_types import SymBool, SymFloat, SymInt
from tocha.overrides import TorchFunctionMode

__all__ = [
    "CONSTANT_NUMEL_LIMIT",
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeCopyMode",
    "FakeStorage",
    "FakeTensor",
    "FakeTensorConverter",
    "FakeTensorDeviceMismatchError",
    "FakeTensorMode",
    "MetadataMismatchError",
    "MissingOpProfile",
    "UnsupportedFakeTensorException",
    "UnsupportedMutationAliasingException",
    "UnsupportedOperatorException",
    "disable_fake_tensor_cache",
    "in_kernel_invocation_manager",
    "is_fake",
    "maybe_get_fake_mode",
    "unset_fake_temporarily",
]


def is_fake(x: object) -> bool:
    """Whether x is a fake tensor."""
    return isinstance(x, FakeTensor)


def maybe_get_fake_mode(t: object) -> FakeTensorMode | None:
    """The mode of a fake tensor, None for anything else."""
    return t.fake_mode if isinstance(t, FakeTensor) else None


@contextlib.contextmanager
def unset_fake_temporarily() -> Iterator[FakeTensorMode | None]:
    """Inside it no mode is active: tensors that are made are real."""
    found, kept = active_mode(), modes.stack
    modes.stack = []
    before = _C._set_fake_mode(False)
    try:
        yield found
    finally:
        modes.stack = kept
        _C._set_fake_mode(before)


@contextlib.contextmanager
def in_kernel_invocation_manager(fake_mode: FakeTensorMode) -> Iterator[None]:
    """While it lasts the mode says that a kernel runs."""
    before, fake_mode.in_kernel_invocation = fake_mode.in_kernel_invocation, True
    try:
        yield
    finally:
        fake_mode.in_kernel_invocation = before


@contextlib.contextmanager
def disable_fake_tensor_cache(fake_mode: FakeTensorMode) -> Iterator[None]:
    """There is no cache of results to disable: facts are cheaper than looking them up."""
    yield


class FakeCopyMode(TorchFunctionMode):
    """While active, copying a real tensor (clone, deepcopy) gives a fake of it."""

    def __init__(self, fake_mode: FakeTensorMode):
        self.fake_mode = fake_mode

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if func is _C.Tensor.clone:
            t = self.fake_mode.from_tensor(args[0], static_shapes=True)
            return func(t, *args[1:], **kwargs)
        if func is getattr(_C.Tensor, "__deepcopy__"):  # noqa: B009
            t, memo = args
            if id(t) in memo:
                return memo[id(t)]
            memo[id(t)] = made = self.fake_mode.from_tensor(t, static_shapes=True)
            return made
        return func(*args, **kwargs)


fake_modes.append(mode_of)
_C._set_symbolic_types(SymInt, SymFloat, SymBool)
_C._set_fakes(FakeTensor, make_form, METHODS, FUNCTIONS)
