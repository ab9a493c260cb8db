"""Neural networks."""

from tocha.nn import functional

__all__ = ["functional"]
