"""Comparisons for tests, and tensors of random values to test with."""

from tocha.testing._comparison import assert_allclose, assert_close
from tocha.testing._creation import make_tensor
from tocha.testing._file_check import FileCheck

__all__ = ["FileCheck", "assert_allclose", "assert_close", "make_tensor"]
