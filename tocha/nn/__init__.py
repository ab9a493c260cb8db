"""Neural networks."""

from tocha.nn import functional
from tocha.nn.parameter import Parameter

__all__ = ["Parameter", "functional"]
