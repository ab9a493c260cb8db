"""`no_dispatch`: operators run as if nobody took them over."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tocha.utils._python_dispatch import _DisableTorchDispatch


@contextlib.contextmanager
def no_dispatch() -> Iterator[None]:
    """Within the context neither dispatch modes nor classes with `__torch_dispatch__` are asked."""
    with _DisableTorchDispatch():
        yield


def all_same_mode(modes: list) -> bool:
    return all(m is modes[0] for m in modes[1:])


def all_same_mode_scope(modes: list, cur_mode: object) -> bool:
    return all(m is cur_mode for m in modes)


__all__ = ["all_same_mode", "all_same_mode_scope", "no_dispatch"]
