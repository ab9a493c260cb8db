"""What fake tensors raise, under PyTorch's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(eq=False, repr=False)
class UnsupportedFakeTensorException(RuntimeError):
    """A tensor that has no fake form."""

    reason: str


@dataclass(eq=False, repr=False)
class DynamicOutputShapeException(RuntimeError):
    """The shape of a result depends on elements, and there is nobody who makes symbols for it."""

    func: Any

    def __str__(self) -> str:
        return str(self.func)


@dataclass(eq=False, repr=False)
class DataDependentOutputException(RuntimeError):
    """A result depends on elements, which a fake tensor does not have."""

    func: Any

    def __str__(self) -> str:
        return str(self.func)


@dataclass(eq=False, repr=False)
class UnsupportedOperatorException(RuntimeError):
    """An operator that says nothing of its results without computing them."""

    func: Any

    def __str__(self) -> str:
        return str(self.func)


@dataclass(eq=False, repr=False)
class UnsupportedMutationAliasingException(RuntimeError):
    """Writes or shared memory that cannot be followed."""

    reason: str


@dataclass(eq=False, repr=False)
class MetadataMismatchError(RuntimeError):
    """A fake result that is not what the real one is."""

    reason: str

    def __str__(self) -> str:
        return self.reason


class FakeTensorDeviceMismatchError(RuntimeError):
    """Operands on different devices."""


class MissingOpProfile(RuntimeError):
    """No profile of an operator is known."""
