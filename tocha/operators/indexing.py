"""Reading and writing by index tensors."""

from __future__ import annotations

from tocha.operators.record import native


@native("index(Tensor self, Tensor?[] indices) -> Tensor", tags=frozenset({"dynamic"}), variants="")
def index(self, indices):
    """The elements picked by integer tensors and masks, as in self[indices]."""


@native("index_put_(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor", variants="method")
def index_put_(self, indices, values, accumulate):
    """Writes values where indices point; with accumulate, adds them."""
