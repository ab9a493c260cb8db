"""Names for types that programs write for scripts."""

from __future__ import annotations

import builtins
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union  # noqa: UP035

__all__ = ["Attribute", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "annotate"]
# Taken from here by programs of the time when scripts could not read built-in generics.
_ALSO = (Dict, List, Optional, Tuple, Union)  # noqa: UP006


class Attribute(NamedTuple):
    """A value with the type that a script gives it.

    >>> tocha.jit.Attribute(3, int)
    Attribute(value=3, type=<class 'int'>)
    """

    value: Any
    type: Any


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value.

    >>> tocha.jit.annotate(list[int], [])
    []
    """
    return the_value


class _Lists:
    def __getitem__(self, kind: Any) -> Any:
        return builtins.list[kind]


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _Lists()
