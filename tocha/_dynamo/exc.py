"""What capture raises, under PyTorch's names."""

from __future__ import annotations

import enum
import importlib
from typing import Any


class TorchDynamoException(RuntimeError):
    """Of capture itself, not of the program."""


# What an operator refuses while it is captured: here its own error, which is the uncompiled program's.
TorchRuntimeError = RuntimeError


class InternalTorchDynamoError(TorchDynamoException):
    """The tracer itself failed."""


class InvalidBackend(TorchDynamoException):
    def __init__(self, name: str) -> None:
        super().__init__(f"Invalid backend: {name!r}, see `tocha._dynamo.list_backends()` for available backends.")


class BackendCompilerFailed(TorchDynamoException):
    def __init__(self, backend: Any, error: BaseException) -> None:
        backend = getattr(backend, "func", backend)  # of a partial, what it calls
        self.backend_name = getattr(backend, "__name__", type(backend).__name__)
        self.inner_exception = error
        super().__init__(f"backend={self.backend_name!r} raised:\n{type(error).__name__}: {error}")


class InductorError(BackendCompilerFailed):
    """The same, of the backend "inductor"."""


class RecompileError(TorchDynamoException):
    """A function would be captured again, and must not be."""


class FailOnRecompileLimitHit(Exception):
    """A function was captured as often as it may be, and must not run uncaptured."""


class ResetRequired(TorchDynamoException):
    pass


class UserErrorType(enum.Enum):
    DYNAMIC_CONTROL_FLOW = enum.auto()
    ANTI_PATTERN = enum.auto()
    STANDARD_LIBRARY = enum.auto()
    CONSTRAINT_VIOLATION = enum.auto()
    DYNAMIC_DIM = enum.auto()
    INVALID_INPUT = enum.auto()
    INVALID_OUTPUT = enum.auto()
    UNSUPPORTED_ALIASED_MUTATED_DYNAMIC_INPUTS = enum.auto()


class UserError(TorchDynamoException):
    """The program asks for what cannot be."""

    def __init__(self, error_type: UserErrorType, msg: str, case_name: str | None = None) -> None:
        super().__init__(msg)
        self.error_type, self.message = error_type, msg


def __getattr__(name: str) -> Any:
    """What is raised for a graph break stands beside the list of them, which is made of these classes."""
    if name == "Unsupported":
        return importlib.import_module("tocha._dynamo.refusals").Unsupported
    if name == "UncapturedHigherOrderOpError":
        return importlib.import_module("tocha._higher_order_ops.errors").UncapturedHigherOrderOpError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
