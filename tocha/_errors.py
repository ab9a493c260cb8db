"""Exceptions of devices that programs catch by their public names."""

__all__ = ["AcceleratorError", "OutOfMemoryError"]


class OutOfMemoryError(RuntimeError):
    """A device has no memory left."""


class AcceleratorError(RuntimeError):
    """A call to a device failed."""


for _class in (OutOfMemoryError, AcceleratorError):
    _class.__module__ = "tocha"
