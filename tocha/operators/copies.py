"""Copies, fills and conversions."""

from __future__ import annotations

from tocha.operators.record import composite, native, op
from tocha.operators.rules import Out, like_strides


@native("copy_(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", variants="method")
def copy_(self, src, non_blocking):
    """Copies src into self, broadcasting and converting."""


@native("fill_(Tensor self, Operand value) -> Tensor", variants="method, function")
def fill_(self, value):
    """Sets every element."""


@native("clone(Tensor self, *, memory_format? memory_format=None) -> Tensor")
def clone(self, memory_format):
    """A copy with memory of its own."""
    return Out(self.shape, self.dtype, strides=like_strides(self, memory_format))


@composite("contiguous(Tensor self, *, memory_format? memory_format=contiguous_format) -> Tensor", variants="method")
def contiguous(self, memory_format):
    """self if it is already laid out so, else a copy that is."""
    if op._is_laid_out(self, memory_format):
        return self
    return self.clone(memory_format=memory_format)


@native("_is_laid_out(Tensor self, memory_format? memory_format=None) -> bool", variants="")
def _is_laid_out(self, memory_format):
    """Whether self has this memory format."""


@native("to.dtype(Tensor self, dtype dtype, bool non_blocking=False, bool copy=False, *, memory_format? memory_format=None) -> Tensor", kernel="to_dtype", tags=frozenset({"dynamic"}), variants="method")
def to_dtype(self, dtype, non_blocking, copy, memory_format):
    """self in another dtype; self itself when nothing changes."""
