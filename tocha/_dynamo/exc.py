"""What capture raises, under PyTorch's names."""

from __future__ import annotations

from typing import Any


class TorchDynamoException(RuntimeError):
    """Of capture itself, not of the program."""


class InternalTorchDynamoError(TorchDynamoException):
    """The tracer itself failed."""


class InvalidBackend(TorchDynamoException):
    def __init__(self, name: str) -> None:
        super().__init__(f"Invalid backend: {name!r}, see `tocha._dynamo.list_backends()` for available backends.")


class BackendCompilerFailed(TorchDynamoException):
    def __init__(self, backend: Any, error: BaseException) -> None:
        self.backend_name = getattr(backend, "__name__", type(backend).__name__)
        self.inner_exception = error
        super().__init__(f"backend={self.backend_name!r} raised:\n{type(error).__name__}: {error}")


class RecompileError(TorchDynamoException):
    """A function would be captured again, and must not be."""


class FailOnRecompileLimitHit(Exception):
    """A function was captured as often as it may be, and must not run uncaptured."""


class ResetRequired(TorchDynamoException):
    pass


class UserError(TorchDynamoException):
    """The program asks for what cannot be."""
