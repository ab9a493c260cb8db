"""Control flow that depends on elements."""

from tocha._higher_order_ops.cond import cond
from tocha._higher_order_ops.map import map

__all__ = ["cond", "map"]
