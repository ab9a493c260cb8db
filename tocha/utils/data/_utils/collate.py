"""How samples become a batch. DataLoader calls default_collate, or default_convert when it does not batch."""

from __future__ import annotations

import collections.abc
import copy
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tocha import _C

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]

CollateMap = dict[type | tuple[type, ...], Callable]

_REFUSAL = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
np_str_obj_array_pattern = re.compile(r"[SaUO]")


def _is_namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def rebuild_mapping(original: Any, items: dict) -> Any:
    """A mapping of the original's type with new values; a dict where the type cannot be made that way."""
    try:
        if isinstance(original, collections.abc.MutableMapping):
            clone = copy.copy(original)
            clone.update(items)
            return clone
        return type(original)(items)
    except TypeError:
        return items


def rebuild_sequence(original: Any, items: list) -> Any:
    """A sequence of the original's type with new items; a list where the type cannot be made that way."""
    try:
        if isinstance(original, collections.abc.MutableSequence):
            clone = copy.copy(original)
            for i, item in enumerate(items):
                clone[i] = item
            return clone
        return type(original)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def default_convert(data: Any) -> Any:
    """Turns NumPy arrays, also inside of containers, into tensors; leaves all else as it is.

    >>> import numpy as np
    >>> tocha.utils.data.default_convert({"x": np.zeros(2, np.float32), "name": "a"})
    {'x': tensor([0., 0.]), 'name': 'a'}
    """
    if isinstance(data, _C.Tensor):
        return data
    if isinstance(data, np.ndarray | np.generic):
        if isinstance(data, np.ndarray) and np_str_obj_array_pattern.search(data.dtype.str):
            return data
        return data if isinstance(data, str | bytes) else _C.as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return rebuild_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if _is_namedtuple(data):
        return type(data)(*(default_convert(d) for d in data))
    if isinstance(data, tuple):
        return [default_convert(d) for d in data]
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, str | bytes):
        return rebuild_sequence(data, [default_convert(d) for d in data])
    return data


def _collate_function(kind: type, functions: CollateMap) -> Callable | None:
    """The function for exactly this type, else the first one for a base of it."""
    if kind in functions:
        return functions[kind]
    return next((f for base, f in functions.items() if issubclass(kind, base)), None)


def collate(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Joins samples by collate_fn_map, which has a function for each type; containers are joined item by item."""
    first = batch[0]
    if collate_fn_map is not None:
        function = _collate_function(type(first), collate_fn_map)
        if function is not None:
            return function(batch, collate_fn_map=collate_fn_map)

    def joined(column: Iterable) -> Any:
        return collate(column, collate_fn_map=collate_fn_map)

    if isinstance(first, collections.abc.Mapping):
        return rebuild_mapping(first, {key: joined([d[key] for d in batch]) for key in first})
    if _is_namedtuple(first):
        return type(first)(*(joined(column) for column in zip(*batch)))
    if isinstance(first, collections.abc.Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [joined(column) for column in zip(*batch)]
        return columns if isinstance(first, tuple) else rebuild_sequence(first, columns)
    raise TypeError(_REFUSAL.format(type(first)))


def collate_tensor_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Tensors of one shape, stacked."""
    return _C.stack(batch, 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """NumPy arrays of one shape, stacked."""
    if np_str_obj_array_pattern.search(batch[0].dtype.str):
        raise TypeError(_REFUSAL.format(batch[0].dtype))
    return collate([_C.as_tensor(b) for b in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """NumPy scalars as a vector of their dtype."""
    return _C.as_tensor(batch)


def collate_float_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Floats as a float64 vector."""
    return _C.tensor(batch, dtype=_C.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Integers and bools as a vector."""
    return _C.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Texts and bytes stay a list."""
    return batch


default_collate_fn_map: CollateMap = {
    _C.Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """Joins samples into a batch: tensors, arrays and numbers are stacked, containers are joined item by item.

    >>> tocha.utils.data.default_collate([(1, "a"), (2, "b")])
    [tensor([1, 2]), ('a', 'b')]
    >>> tocha.utils.data.default_collate([{"x": 0.5}, {"x": 1.5}])
    {'x': tensor([0.5000, 1.5000], dtype=tocha.float64)}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
