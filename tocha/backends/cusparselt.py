"""NVIDIA's cuSPARSELt, which this build does not have."""

__all__ = ["get_max_alg_id", "is_available", "version"]


def is_available() -> bool:
    """Whether cuSPARSELt is there."""
    return False


def version() -> int | None:
    """cuSPARSELt's version."""
    return None


def get_max_alg_id() -> int | None:
    """The number of its algorithms."""
    return None
