"""Dictionaries and references that know objects by identity and do not keep them alive: tensors compare element by element."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any

from tocha import _C

__all__ = [
    "TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary", "WeakTensorRefKey",
]  # fmt: skip


class WeakIdRef(weakref.ref):
    """A weak reference that is equal to others of the same object."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None):
        super().__init__(key, callback)  # type: ignore[call-arg]
        self._id = id(key)

    def __call__(self) -> Any:
        return super().__call__()

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine, theirs = self(), other() if isinstance(other, weakref.ref) else None
        return mine is theirs if mine is not None and theirs is not None else self is other


WeakTensorRefKey = WeakIdRef


class WeakIdKeyDictionary(MutableMapping):
    """A dictionary whose keys are known by identity, and whose entries go with their keys.

    >>> import tocha
    >>> x = tocha.ones(2)
    >>> table = WeakIdKeyDictionary()
    >>> table[x] = "ones"
    >>> table[x], tocha.ones(2) in table
    ('ones', False)
    >>> del x
    >>> len(table)
    0
    """

    def __init__(self, dict: Any = None, ref_type: type = WeakIdRef):
        self.data: Any = {}
        self.ref_type = ref_type
        held = weakref.ref(self)

        def remove(key: Any) -> None:
            found = held()
            if found is not None:
                found.data.pop(key, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # nothing that can be referred to weakly
            return False

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def keyrefs(self) -> list[Any]:
        """The weak references to the keys."""
        return list(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """Another dictionary of the same keys and values."""
        return type(self)(self)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> WeakIdKeyDictionary:
        new = type(self)()
        for key, value in self.items():
            new[key] = copy.deepcopy(value, memo)
        return new

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def __ior__(self, other: Any) -> WeakIdKeyDictionary:
        self.update(other)
        return self

    def __or__(self, other: Any) -> WeakIdKeyDictionary:
        new = self.copy()
        new.update(other)
        return new

    def __ror__(self, other: Any) -> WeakIdKeyDictionary:
        new = type(self)(other)
        new.update(self)
        return new

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MutableMapping):
            return NotImplemented
        return {id(k): v for k, v in self.items()} == {id(k): v for k, v in other.items()}

    __hash__ = None  # type: ignore[assignment]


class WeakTensorKeyDictionary(WeakIdKeyDictionary):
    """A dictionary whose keys are tensors, known by identity, and whose entries go with them."""


class TensorWeakRef:
    """A weak reference to a tensor: calling it gives the tensor, or None when it is gone."""

    def __init__(self, tensor: _C.Tensor):
        if not isinstance(tensor, _C.Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}.")
        self.ref = weakref.ref(tensor)

    def __call__(self) -> _C.Tensor | None:
        return self.ref()
