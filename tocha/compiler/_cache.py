"""What compiling took, as bytes: for other processes and machines of the same kind, which then need not compile again."""

from tocha._inductor.artifacts import CacheInfo as CacheInfo
from tocha._inductor.artifacts import load as load_cache_artifacts
from tocha._inductor.artifacts import save as save_cache_artifacts

__all__ = ["CacheInfo", "load_cache_artifacts", "save_cache_artifacts"]
