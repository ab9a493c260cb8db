"""Building and taking apart containers."""

from __future__ import annotations

from typing import Any

from tocha._dynamo.opcodes.registry import opcode
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import ListValue, SliceValue, TupleValue
from tocha._dynamo.values.mappings import DictValue, SetValue, pairs_of


@opcode("BUILD_TUPLE")
def build_tuple(f: Any, i: Any) -> None:
    f.push(TupleValue(f.pop_many(i.arg)))


@opcode("BUILD_LIST")
def build_list(f: Any, i: Any) -> None:
    f.push(ListValue(f.pop_many(i.arg)))


@opcode("BUILD_SET")
def build_set(f: Any, i: Any) -> None:
    f.push(SetValue.of(f, f.pop_many(i.arg)))


@opcode("BUILD_MAP")
def build_map(f: Any, i: Any) -> None:
    items = f.pop_many(2 * i.arg)
    made = DictValue({})
    for k in range(0, len(items), 2):
        made.put(f, items[k], items[k + 1])
    f.push(made)


@opcode("BUILD_CONST_KEY_MAP")
def build_const_key_map(f: Any, i: Any) -> None:
    keys = f.pop().unpack(f)
    made = DictValue({})
    for key, value in zip(keys, f.pop_many(i.arg)):
        made.put(f, key.realize(), value)
    f.push(made)


@opcode("BUILD_SLICE")
def build_slice(f: Any, i: Any) -> None:
    parts = f.pop_many(i.arg)
    f.push(SliceValue([*parts, *[Constant(None)] * (3 - len(parts))]))


@opcode("LIST_APPEND")
def list_append(f: Any, i: Any) -> None:
    item = f.pop()
    f.stack[-i.arg].realize().m_append(f, item)  # after a break the list is a real one: the change is applied to it


@opcode("SET_ADD")
def set_add(f: Any, i: Any) -> None:
    item = f.pop()
    f.stack[-i.arg].m_add(f, item)


@opcode("MAP_ADD")
def map_add(f: Any, i: Any) -> None:
    key, value = f.pop_many(2)
    f.stack[-i.arg].realize().set_item(f, key, value)


@opcode("LIST_EXTEND")
def list_extend(f: Any, i: Any) -> None:
    items = f.pop()
    f.stack[-i.arg].realize().m_extend(f, items)


@opcode("SET_UPDATE")
def set_update(f: Any, i: Any) -> None:
    items = f.pop()
    f.stack[-i.arg].m_update(f, items)


@opcode("DICT_UPDATE")
def dict_update(f: Any, i: Any) -> None:
    more = f.pop()
    for k, v in pairs_of(f, more):
        f.stack[-i.arg].realize().set_item(f, k, v)


@opcode("DICT_MERGE")
def dict_merge(f: Any, i: Any) -> None:
    """For **kwargs of a call: a name may come only once."""
    more = f.pop()
    into = f.stack[-i.arg].realize()
    for k, v in pairs_of(f, more):
        if k.realize().hash_key(f) in into.entries:
            f.raise_(TypeError, f"got multiple values for keyword argument '{k.constant()}'")
        into.set_item(f, k.realize(), v)


@opcode("LIST_TO_TUPLE", until=(3, 11))
def list_to_tuple(f: Any, i: Any) -> None:
    f.push(TupleValue(f.pop().items))


@opcode("UNPACK_SEQUENCE")
def unpack_sequence(f: Any, i: Any) -> None:
    value = f.pop()
    if not hasattr(value, "items") and not value.is_constant() and not value.has_method("__iter__") and not hasattr(value, "next"):  # fmt: skip
        f.raise_(TypeError, f"cannot unpack non-iterable {value.python_type().__name__} object")
    items = value.unpack(f)
    if len(items) != i.arg:
        if len(items) < i.arg:
            f.raise_(ValueError, f"not enough values to unpack (expected {i.arg}, got {len(items)})")
        f.raise_(ValueError, f"too many values to unpack (expected {i.arg})")
    for item in reversed(items):
        f.push(item)


@opcode("UNPACK_EX")
def unpack_ex(f: Any, i: Any) -> None:
    items = f.pop().unpack(f)
    before, after = i.arg & 0xFF, i.arg >> 8
    if len(items) < before + after:
        f.raise_(ValueError, f"not enough values to unpack (expected at least {before + after}, got {len(items)})")
    end = len(items) - after
    for item in reversed(items[end:]):
        f.push(item)
    f.push(ListValue(items[before:end]))
    for item in reversed(items[:before]):
        f.push(item)


@opcode("GET_LEN")
def get_len(f: Any, i: Any) -> None:
    f.push(Constant(f.top().length(f)))
