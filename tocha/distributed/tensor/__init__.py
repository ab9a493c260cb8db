"""Tensors over several processes: their placements can be said; the tensors themselves are not built."""

from tocha.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["Partial", "Placement", "Replicate", "Shard"]
