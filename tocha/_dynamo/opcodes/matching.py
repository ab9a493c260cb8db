"""match statements."""

from __future__ import annotations

import collections.abc
from typing import Any

from tocha._dynamo.opcodes.registry import opcode
from tocha._dynamo.values.base import Observed
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import TupleValue
from tocha._dynamo.values.mappings import DictValue

_SELF_MATCHING = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


@opcode("MATCH_MAPPING")
def match_mapping(f: Any, i: Any) -> None:
    f.push(Constant(issubclass(f.top().python_type(), collections.abc.Mapping)))


@opcode("MATCH_SEQUENCE")
def match_sequence(f: Any, i: Any) -> None:
    cls = f.top().python_type()
    f.push(Constant(issubclass(cls, collections.abc.Sequence) and not issubclass(cls, (str, bytes, bytearray))))


@opcode("MATCH_KEYS")
def match_keys(f: Any, i: Any) -> None:
    keys, subject = f.top(), f.stack[-2].realize()
    found = []
    for key in keys.items:
        if isinstance(subject, DictValue):
            value = subject.find(f, key.realize())
        else:
            value = subject.item(f, key.realize()) if f.contains(subject, key.realize()) else None
        if value is None:
            f.push(Constant(None))
            return
        found.append(value)
    f.push(TupleValue(found))


@opcode("MATCH_CLASS")
def match_class(f: Any, i: Any) -> None:
    subject, cls, names = f.pop_many(3)
    if not issubclass(subject.python_type(), cls.value):
        f.push(Constant(None))
        return
    found = []
    try:
        if i.arg:
            if cls.value in _SELF_MATCHING and i.arg == 1:
                found.append(subject)
            else:
                positions = getattr(cls.value, "__match_args__", ())
                if len(positions) < i.arg:
                    f.raise_(TypeError, f"{cls.value.__name__}() accepts {len(positions)} positional sub-patterns ({i.arg} given)")  # fmt: skip
                found += [subject.get_attribute(f, n) for n in positions[: i.arg]]
        found += [subject.get_attribute(f, n) for n in names.constant()]
    except Observed as raised:
        if not raised.value.is_a(AttributeError):
            raise
        f.push(Constant(None))
        return
    f.push(TupleValue(found))
