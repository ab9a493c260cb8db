"""Comparisons for tests, and tensors of random values to test with."""

from tocha.testing._comparison import assert_allclose, assert_close
from tocha.testing._creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
