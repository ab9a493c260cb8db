"""Tensors with a mask of which elements count; `tocha.masked.masked_tensor` makes one."""

from tocha.masked.maskedtensor.core import MaskedTensor, is_masked_tensor
from tocha.masked.maskedtensor.creation import as_masked_tensor, masked_tensor

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]
