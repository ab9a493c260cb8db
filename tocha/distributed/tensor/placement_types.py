"""How a tensor lies over a mesh of processes: split along a dimension, the whole on each, or parts to be added."""

from __future__ import annotations

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """One of the ways below."""

    def _key(self) -> tuple:
        return (type(self),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Placement) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether this splits (along that dimension)."""
        return False

    def is_replicate(self) -> bool:
        """Whether every process has the whole."""
        return False

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether every process has a part of the sum (or of what reduce_op says)."""
        return False


class Shard(Placement):
    """Split along a dimension.

    >>> Shard(1), Shard(1) == Shard(1), Shard(1).is_shard(0)
    (Shard(dim=1), True, False)
    """

    def __init__(self, dim: int):
        self.dim = dim

    def _key(self) -> tuple:
        return (type(self), self.dim)

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether this splits (along that dimension)."""
        return dim is None or dim == self.dim

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"


class _StridedShard(Placement):
    """Split along a dimension that another split has cut before."""

    def __init__(self, dim: int, *, split_factor: int = 1, sf: int | None = None):
        self.dim, self.split_factor = dim, split_factor if sf is None else sf

    def _key(self) -> tuple:
        return (type(self), self.dim, self.split_factor)

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


class Replicate(Placement):
    """The whole on every process."""

    def is_replicate(self) -> bool:
        """Whether every process has the whole."""
        return True

    def __repr__(self) -> str:
        return "Replicate()"

    def __str__(self) -> str:
        return "R"


class Partial(Placement):
    """A part on every process, from which reduce_op makes the whole."""

    def __init__(self, reduce_op: str = "sum"):
        self.reduce_op = reduce_op

    def _key(self) -> tuple:
        return (type(self), self.reduce_op)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether every process has a part of the sum (or of what reduce_op says)."""
        return reduce_op is None or reduce_op == self.reduce_op

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"
