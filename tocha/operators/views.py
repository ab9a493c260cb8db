"""Views: the same memory under other sizes and strides."""

from __future__ import annotations

from tocha.operators.record import composite, view
from tocha.operators.rules import View, infer_size, view_strides


@view("view(Tensor self, int[] size) -> Tensor", variants="method")
def view_(self, size):
    """The same elements in another shape, sharing memory."""
    shape = infer_size(size, self.numel())
    strides = view_strides(self.shape, self.strides, shape)
    if strides is None:
        raise RuntimeError(
            f"[view] view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces): {self.shape} as {shape}. Use .reshape(...) instead."
        )
    return View(shape, strides, self.storage_offset())


@composite("reshape(Tensor self, int[] shape) -> Tensor")
def reshape(self, shape):
    """A view in another shape where possible, else a copy."""
    size = infer_size(shape, self.numel())
    if view_strides(self.shape, self.strides, size) is not None:
        return self.view(size)
    return self.clone(memory_format=None).contiguous().view(size)
