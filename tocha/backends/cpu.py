"""The instruction set that kernels run in on this machine."""

from tocha import _C

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """The widest instruction set in use: "AVX512", "AVX2", or "DEFAULT", which is that of every such processor.

    >>> get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")
    True
    """
    return _C._cpu_capability()
