"""Dicts and sets: keys by what makes them equal, with the tracked key beside."""

from __future__ import annotations

import collections
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tocha._dynamo.values.base import NotConstant, Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import Container, ListValue, TupleValue
from tocha._dynamo.values.iterators import SequenceIterator

if TYPE_CHECKING:
    from tocha._dynamo.codegen import Codegen
    from tocha._dynamo.frame import Frame
    from tocha._dynamo.source import Source


class DictValue(Container):
    """`entries` maps hash keys to (key, value). `cls` may be dict, OrderedDict or defaultdict (with `factory`)."""

    def __init__(self, entries: dict[Any, tuple[Value, Value]], cls: type = dict, source: Any = None) -> None:
        self.entries, self.cls, self.source = entries, cls, source
        self.factory: Value | None = None
        self.attributes: dict[str, Value] = {}  # of an OrderedDict that captured code made: state_dict() has one
        self.all_keys: tuple | None = None  # of one from outside, until they are guarded as a whole
        self.before: dict[Any, tuple[Value, Value]] | None = None  # of one from outside that was changed: as it came

    @property
    def place(self) -> Source | None:
        """Where guards find a dict with its items: a mappingproxy is not one itself."""
        if self.source is not None and self.cls is types.MappingProxyType:
            return self.source.call(dict)
        return self.source

    def settle_keys(self, f: Frame) -> None:
        """Somebody asks for more than single keys: which there are, in which order, is guarded."""
        if self.all_keys is not None and self.place is not None:
            f.out.guards.add_keys(self.place, self.all_keys, self.cls)
            self.all_keys = None

    def touch(self, f: Frame) -> None:
        self.settle_keys(f)
        if self.before is None and self.source is not None:
            self.before = dict(self.entries)
        super().touch(f)

    def taken_out(self) -> list[Value] | None:
        """The keys that are missing now, where that is all that changed."""
        if self.before is None or [*self.entries] != [h for h in self.before if h in self.entries]:
            return None
        if any(self.before[h] is not entry for h, entry in self.entries.items()):
            return None
        gone = [k for h, (k, _) in self.before.items() if h not in self.entries]
        return gone if all(k.is_constant() for k in gone) else None

    def has(self, f: Frame, key: Value) -> bool:
        h = key.hash_key(f)
        if self.all_keys is not None and self.place is not None:
            if key.is_constant():
                f.out.guards.add(self.place, "contains" if h in self.entries else "without", key.constant())
            else:
                self.settle_keys(f)
        return h in self.entries

    def __repr__(self) -> str:
        return f"{self.cls.__name__}({[v for v in self.entries.values()]})"

    def python_type(self) -> type:
        return self.cls

    def put(self, f: Frame, key: Value, value: Value) -> None:
        h = key.hash_key(f)
        self.entries[h] = (self.entries[h][0] if h in self.entries else key, value)

    def _plain(self, get: Any) -> Any:
        made = {k.constant(): get(v.realize()) for k, v in self.entries.values()}
        if self.cls is dict:
            return made
        if self.cls in (collections.OrderedDict, types.MappingProxyType):
            return self.cls(made)
        raise NotConstant(self.cls.__name__)

    def constant(self) -> Any:
        return self._plain(lambda v: v.constant())

    def is_constant(self) -> bool:
        return all(v.is_constant() for _, v in self.entries.values()) and super().is_constant()

    def graph_argument(self) -> Any:
        return self._plain(lambda v: v.graph_argument())

    def example(self) -> Any:
        return self._plain(lambda v: v.example())

    def length(self, f: Frame) -> int:
        self.settle_keys(f)
        return len(self.entries)

    def truth(self, f: Frame) -> bool:
        self.settle_keys(f)
        return bool(self.entries)

    def keys(self) -> list[Value]:
        return [k for k, _ in self.entries.values()]

    def unpack(self, f: Frame) -> list[Value]:
        self.settle_keys(f)
        return self.keys()

    def iterate(self, f: Frame) -> Value:
        self.settle_keys(f)
        return SequenceIterator(self.keys(), type(iter({})), self)

    def find(self, f: Frame, key: Value) -> Value | None:
        if not self.has(f, key):
            return None
        found = self.entries.get(key.hash_key(f))
        return found[1].realize() if found else None

    def item(self, f: Frame, key: Value) -> Value:
        found = self.find(f, key)
        if found is not None:
            return found
        if self.factory is not None:
            made = self.factory.call(f, [], {})
            self.set_item(f, key, made)
            return made
        if self.cls is collections.Counter:
            return Constant(0)
        f.raise_(KeyError, key)

    def set_item(self, f: Frame, key: Value, value: Value) -> None:
        if self.cls is types.MappingProxyType:
            f.raise_(TypeError, "'mappingproxy' object does not support item assignment")
        self.touch(f)
        self.put(f, key, value)

    def delete_item(self, f: Frame, key: Value) -> None:
        self.m_pop(f, key)

    def m_get(self, f: Frame, key: Value, default: Value | None = None) -> Value:
        return self.find(f, key) or default or Constant(None)

    def m_keys(self, f: Frame) -> Value:
        self.settle_keys(f)
        return DictView(self, "keys")

    def m_values(self, f: Frame) -> Value:
        self.settle_keys(f)
        return DictView(self, "values")

    def m_items(self, f: Frame) -> Value:
        self.settle_keys(f)
        return DictView(self, "items")

    def m_pop(self, f: Frame, key: Value, default: Value | None = None) -> Value:
        h = key.hash_key(f)
        if not self.has(f, key):
            if default is not None:
                return default
            f.raise_(KeyError, key)
        self.touch(f)
        return self.entries.pop(h)[1].realize()

    def m_popitem(self, f: Frame, last: Value | None = None) -> Value:
        self.settle_keys(f)
        if not self.entries:
            f.raise_(KeyError, "popitem(): dictionary is empty")
        self.touch(f)
        h = next(iter(self.entries)) if last is not None and not last.truth(f) else next(reversed(self.entries))
        return TupleValue(list(self.entries.pop(h)))

    def m_setdefault(self, f: Frame, key: Value, default: Value | None = None) -> Value:
        found = self.find(f, key)
        if found is None:
            found = default or Constant(None)
            self.set_item(f, key, found)
        return found

    def m_move_to_end(self, f: Frame, key: Value, last: Value | None = None) -> Value:
        self.touch(f)
        h = key.hash_key(f)
        if h not in self.entries:
            f.raise_(KeyError, key)
        entry = self.entries.pop(h)
        if last is None or last.truth(f):
            self.entries[h] = entry
        else:
            others = dict(self.entries)
            self.entries.clear()
            self.entries.update({h: entry, **others})
        return Constant(None)

    def m_clear(self, f: Frame) -> Value:
        self.touch(f)
        self.entries.clear()
        return Constant(None)

    def m_copy(self, f: Frame) -> Value:
        self.settle_keys(f)
        made = DictValue(dict(self.entries), dict if self.cls is types.MappingProxyType else self.cls)
        made.factory = self.factory
        return made

    m___copy__ = m_copy

    def m_update(self, f: Frame, /, *others: Value, **more: Value) -> Value:
        self.touch(f)
        for other in others:
            for k, v in pairs_of(f, other):
                self.put(f, k, v)
        for name, value in more.items():
            self.put(f, Constant(name), value)
        return Constant(None)

    def m___init__(self, f: Frame, /, *others: Value, **more: Value) -> Value:
        return self.m_update(f, *others, **more)

    def m_fromkeys(self, f: Frame, keys: Value, value: Value | None = None) -> Value:
        made = DictValue({}, self.cls)
        for key in keys.unpack(f):
            made.put(f, key.realize(), value or Constant(None))
        return made

    def m___or__(self, f: Frame, other: Value) -> Value:
        if not issubclass(other.python_type(), dict):
            return Constant(NotImplemented)
        made = self.m_copy(f)
        made.call_method(f, "update", [other], {})
        return made

    def m___ror__(self, f: Frame, other: Value) -> Value:
        """Asked first where the left side is a plain dict and this one is not: the result is of this kind."""
        if not issubclass(other.python_type(), dict):
            return Constant(NotImplemented)
        made = self.m_copy(f)
        made.call_method(f, "clear", [], {})
        for part in (other, self):
            made.call_method(f, "update", [part], {})
        return made

    def m___ior__(self, f: Frame, other: Value) -> Value:
        self.m_update(f, other)
        return self

    def m___reversed__(self, f: Frame) -> Value:
        self.settle_keys(f)
        return SequenceIterator(self.keys()[::-1], type(reversed({})))

    def get_attribute(self, f: Frame, name: str) -> Value:
        if name == "default_factory" and self.cls is collections.defaultdict:
            return self.factory or Constant(None)
        if name in self.attributes:
            return self.attributes[name].realize()
        return super().get_attribute(f, name)

    def hash_key(self, f: Frame) -> Any:
        f.raise_(TypeError, f"unhashable type: '{self.cls.__name__}'")

    def parts(self) -> list[Value]:
        return [*(p for pair in self.entries.values() for p in pair), *self.attributes.values()]

    def reconstruct(self, cg: Codegen) -> None:
        if self.cls is not dict:
            cg.start_call(self.cls)
            if self.cls is collections.defaultdict:
                cg.load(self.factory or Constant(None))
        for pair in self.entries.values():
            for part in pair:
                cg.load(part)
        cg.emit("BUILD_MAP", len(self.entries))
        if self.cls is not dict:
            cg.end_call(1 + (self.cls is collections.defaultdict))
        for name, value in self.attributes.items():
            cg.load(value)
            cg.emit("COPY", 2)
            cg.store_attribute(name)

    def set_attribute(self, f: Frame, name: str, value: Value) -> None:
        if self.cls is not collections.OrderedDict or self.source is not None or hasattr(self.cls, name):
            super().set_attribute(f, name, value)
        self.attributes[name] = value

    def apply(self, cg: Codegen) -> None:
        gone = self.taken_out()
        if gone is not None:  # what others put into it meanwhile stays: a tensor's hooks, by the library
            for key in gone:
                cg.call_method_of(self, "pop", [key])
            return
        cg.call_method_of(self, "clear", [])
        cg.call_method_of(self, "update", [DictValue(self.entries)])


def pairs_of(f: Frame, value: Value) -> list[tuple[Value, Value]]:
    """What dict(value) would hold."""
    if isinstance(value, DictValue):
        value.settle_keys(f)
        return list(value.entries.values())
    if value.has_method("keys"):
        keys = value.call_method(f, "keys", [], {}).unpack(f)
        return [(k, value.item(f, k)) for k in keys]
    return [tuple(pair.realize().unpack(f)) for pair in value.unpack(f)]  # type: ignore[misc]


class DictView(Container):
    def __init__(self, owner: DictValue, what: str) -> None:
        self.owner, self.what = owner, what

    def python_type(self) -> type:
        return type(getattr({}, self.what)())

    def items(self) -> list[Value]:
        if self.what == "keys":
            return self.owner.keys()
        if self.what == "values":
            return [v for _, v in self.owner.entries.values()]
        return [TupleValue(list(pair)) for pair in self.owner.entries.values()]

    def length(self, f: Frame) -> int:
        return len(self.owner.entries)

    def unpack(self, f: Frame) -> list[Value]:
        return self.items()

    def iterate(self, f: Frame) -> Value:
        return SequenceIterator(self.items(), type(iter(getattr({}, self.what)())), self.owner)

    def m___reversed__(self, f: Frame) -> Value:
        return SequenceIterator(self.items()[::-1], type(reversed({})))

    def _set(self, f: Frame) -> SetValue:
        return SetValue.of(f, self.items())

    def _with(self, f: Frame, name: str, other: Value, reflected: bool = False) -> Value:
        if self.what == "values":
            return Constant(NotImplemented)
        sides = [self._set(f), SetValue.of(f, other.unpack(f))]
        left, right = sides[::-1] if reflected else sides
        return left.call_method(f, name, [right], {})

    def m___and__(self, f: Frame, other: Value) -> Value:
        return self._with(f, "__and__", other)

    def m___or__(self, f: Frame, other: Value) -> Value:
        return self._with(f, "__or__", other)

    def m___sub__(self, f: Frame, other: Value) -> Value:
        return self._with(f, "__sub__", other)

    def m___xor__(self, f: Frame, other: Value) -> Value:
        return self._with(f, "__xor__", other)

    def m___rand__(self, f: Frame, other: Value) -> Value:
        return self._with(f, "__and__", other, reflected=True)

    def m___ror__(self, f: Frame, other: Value) -> Value:
        return self._with(f, "__or__", other, reflected=True)

    def m___rsub__(self, f: Frame, other: Value) -> Value:
        return self._with(f, "__sub__", other, reflected=True)

    def m___rxor__(self, f: Frame, other: Value) -> Value:
        return self._with(f, "__xor__", other, reflected=True)

    def m_isdisjoint(self, f: Frame, other: Value) -> Value:
        return self._set(f).m_isdisjoint(f, other)

    def reconstruct(self, cg: Codegen) -> None:
        cg.call_method_of(self.owner, self.what, [], keep=True)


def in_order(items: Any) -> dict[Any, None]:
    """A set's items as keys, as they are iterated over: equal sets may have other orders, and items of other types."""
    return dict.fromkeys(items)


class SetValue(Container):
    def __init__(self, entries: dict[Any, Value], cls: type = set, source: Any = None) -> None:
        self.entries, self.cls, self.source = entries, cls, source
        self.as_found = False  # from outside, and not changed: its order is that of the real one
        self.order: tuple | None = None  # of one whose order is not guarded yet

    @staticmethod
    def of(f: Frame, items: Iterable[Value], cls: type = set) -> SetValue:
        made: dict[Any, Value] = {}
        for i in items:
            made.setdefault(i.realize().hash_key(f), i)
        return SetValue(made, cls)

    def guard_item(self, f: Frame, item: Value) -> None:
        """Whether an object from outside is in a set from outside: it is the same object the next time."""
        item = getattr(item.realize(), "referent", item).realize()  # of a weak reference
        real = getattr(item, "real", None)
        if self.source is not None and item.source is not None and real is not None and not item.is_constant():
            f.out.guards.add(item.source.call(id), "constant", id(real))

    def python_type(self) -> type:
        return self.cls

    def constant(self) -> Any:
        return self.cls(v.constant() for v in self.entries.values())

    def length(self, f: Frame) -> int:
        return len(self.entries)

    def truth(self, f: Frame) -> bool:
        return bool(self.entries)

    def unpack(self, f: Frame) -> list[Value]:
        """In the order in which the real set would give them, where that is known."""
        if self.as_found:
            if self.order is not None and self.source is not None:
                f.out.guards.add(self.source.call(in_order), "keys", self.order)
            return list(self.entries.values())
        try:
            real = {v.constant(): v for v in self.entries.values()}
            return [real[k] for k in self.cls(real)]
        except NotConstant:
            return list(self.entries.values())

    def iterate(self, f: Frame) -> Value:
        return SequenceIterator(self.unpack(f), type(iter(set())))

    def touch(self, f: Frame) -> None:
        self.as_found = False
        super().touch(f)

    def hash_key(self, f: Frame) -> Any:
        if self.cls is set:
            f.raise_(TypeError, "unhashable type: 'set'")
        return frozenset(self.entries)

    def m_add(self, f: Frame, value: Value) -> Value:
        self.touch(f)
        self.entries.setdefault(value.hash_key(f), value)
        return Constant(None)

    def m_discard(self, f: Frame, value: Value) -> Value:
        self.touch(f)
        self.entries.pop(value.hash_key(f), None)
        return Constant(None)

    def m_remove(self, f: Frame, value: Value) -> Value:
        if value.hash_key(f) not in self.entries:
            f.raise_(KeyError, value)
        return self.m_discard(f, value)

    def m_pop(self, f: Frame) -> Value:
        if not self.entries:
            f.raise_(KeyError, "pop from an empty set")
        first = self.unpack(f)[0]
        self.m_discard(f, first)
        return first

    def m_clear(self, f: Frame) -> Value:
        self.touch(f)
        self.entries.clear()
        return Constant(None)

    def m_copy(self, f: Frame) -> Value:
        return SetValue(dict(self.entries), self.cls)

    def m_update(self, f: Frame, /, *others: Value) -> Value:
        for other in others:
            for v in other.unpack(f):
                self.m_add(f, v)
        return Constant(None)

    def _like(self, f: Frame, keys: Iterable[Any], *others: SetValue) -> SetValue:
        every = {**{k: v for o in others for k, v in o.entries.items()}, **self.entries}
        return SetValue({k: every[k] for k in keys}, self.cls)

    def m_union(self, f: Frame, *others: Value) -> Value:
        made = SetValue(dict(self.entries), self.cls)
        for o in others:
            for v in o.unpack(f):
                made.entries.setdefault(v.realize().hash_key(f), v)
        return made

    def m_intersection(self, f: Frame, *others: Value) -> Value:
        keys = list(self.entries)
        for o in others:
            there = {v.realize().hash_key(f) for v in o.unpack(f)}
            keys = [k for k in keys if k in there]
        return self._like(f, keys)

    def m_difference(self, f: Frame, *others: Value) -> Value:
        there = {v.realize().hash_key(f) for o in others for v in o.unpack(f)}
        return self._like(f, [k for k in self.entries if k not in there])

    def m_symmetric_difference(self, f: Frame, other: Value) -> Value:
        o = SetValue.of(f, other.unpack(f))
        keys = [k for k in self.entries if k not in o.entries] + [k for k in o.entries if k not in self.entries]
        return self._like(f, keys, o)

    def _become(self, f: Frame, other: Value) -> Value:
        assert isinstance(other, SetValue)
        self.touch(f)
        entries = dict(other.entries)
        self.entries.clear()
        self.entries.update(entries)
        return Constant(None)

    def m_intersection_update(self, f: Frame, *others: Value) -> Value:
        return self._become(f, self.m_intersection(f, *others))

    def m_difference_update(self, f: Frame, *others: Value) -> Value:
        return self._become(f, self.m_difference(f, *others))

    def m_symmetric_difference_update(self, f: Frame, other: Value) -> Value:
        return self._become(f, self.m_symmetric_difference(f, other))

    def m_issubset(self, f: Frame, other: Value) -> Value:
        there = {v.realize().hash_key(f) for v in other.unpack(f)}
        return Constant(all(k in there for k in self.entries))

    def m_issuperset(self, f: Frame, other: Value) -> Value:
        return Constant(all(v.realize().hash_key(f) in self.entries for v in other.unpack(f)))

    def m_isdisjoint(self, f: Frame, other: Value) -> Value:
        return Constant(not any(v.realize().hash_key(f) in self.entries for v in other.unpack(f)))

    m___and__, m___or__, m___sub__, m___xor__ = m_intersection, m_union, m_difference, m_symmetric_difference
    m___le__, m___ge__ = m_issubset, m_issuperset

    def m___lt__(self, f: Frame, other: Value) -> Value:
        return Constant(self.m_issubset(f, other).constant() and len(self.entries) < other.length(f))

    def m___gt__(self, f: Frame, other: Value) -> Value:
        return Constant(self.m_issuperset(f, other).constant() and len(self.entries) > other.length(f))

    def m___ior__(self, f: Frame, other: Value) -> Value:
        self.m_update(f, other)
        return self

    def m___iand__(self, f: Frame, other: Value) -> Value:
        self.m_intersection_update(f, other)
        return self

    def m___isub__(self, f: Frame, other: Value) -> Value:
        self.m_difference_update(f, other)
        return self

    def m___ixor__(self, f: Frame, other: Value) -> Value:
        self.m_symmetric_difference_update(f, other)
        return self

    def parts(self) -> list[Value]:
        return list(self.entries.values())

    def reconstruct(self, cg: Codegen) -> None:
        if self.cls is frozenset:
            cg.start_call(frozenset)
        cg.build("BUILD_SET", self.parts())
        if self.cls is frozenset:
            cg.end_call(1)

    def apply(self, cg: Codegen) -> None:
        cg.call_method_of(self, "clear", [])
        cg.call_method_of(self, "update", [ListValue(self.parts())])
