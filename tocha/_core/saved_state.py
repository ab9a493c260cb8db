"""Attributes of objects that are made again from files and copies."""

from __future__ import annotations

import types
from typing import Any


def set_state(obj: Any, state: Any) -> Any:
    """Gives an object the attributes it was saved with: a dict, or a pair of those in __dict__ and those in slots.

    No attribute is set that was not one of those: not the class, not a property.
    """
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    for part in (attributes, slots):
        if part is not None and not (isinstance(part, dict) and all(isinstance(name, str) for name in part)):
            raise TypeError(f"the attributes of a {type(obj).__name__} must be a dict with names as keys")
    if attributes:
        vars(obj).update(attributes)
    for name, value in (slots or {}).items():
        if not isinstance(getattr(type(obj), name, None), types.MemberDescriptorType):
            raise TypeError(f"{type(obj).__name__} has no slot {name[:100]!r}")
        setattr(obj, name, value)
    return obj
