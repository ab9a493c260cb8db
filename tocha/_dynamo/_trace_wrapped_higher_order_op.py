"""`TransformGetItemToIndex`: within it x[i] by scalar tensors is the operator index, which vmap can batch."""

from __future__ import annotations

from tocha.nn.attention._mods import PositionsAreTensors

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(PositionsAreTensors):
    """Where an index is a scalar tensor, x[i] asks for its value, which a batched tensor does not have.

    >>> import tocha
    >>> x = tocha.arange(5.0)
    >>> with TransformGetItemToIndex():
    ...     tocha.vmap(lambda i: x[i])(tocha.tensor([3, 1]))
    tensor([3., 1.])
    """
