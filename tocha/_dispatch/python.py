"""Whether kernels and decompositions that are written in Python are looked for."""

from __future__ import annotations

__all__ = ["enable_python_dispatcher"]


class enable_python_dispatcher:
    """A block in which they are: here they always are, so that it changes nothing."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass
