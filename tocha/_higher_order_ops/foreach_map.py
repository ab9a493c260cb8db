"""foreach_map(f, *operands): a function of each element of lists, which compiles to one kernel over all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["foreach_map"]


def foreach_map(op: Callable[..., Any], *operands: Any, **kwargs: Any) -> Any:
    """What op gives for the first elements of all lists, for the second, and so on; operands that are no lists go along with each.

    >>> import tocha
    >>> foreach_map(tocha.add, [tocha.ones(2), tocha.zeros(1)], 3)
    [tensor([4., 4.]), tensor([3.])]
    """
    lists = [x for x in operands if isinstance(x, (list, tuple))]
    if not lists:
        return op(*operands, **kwargs)
    if any(len(x) != len(lists[0]) for x in lists):
        raise ValueError(f"[foreach_map] lists of different lengths: {[len(x) for x in lists]}")
    each = [x if isinstance(x, (list, tuple)) else [x] * len(lists[0]) for x in operands]
    return [op(*given, **kwargs) for given in zip(*each)]
