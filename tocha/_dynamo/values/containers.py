"""Sequences: lists, tuples, named tuples, sizes, ranges, slices, deques. Their items are tracked values."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

import tocha
from tocha._dynamo.values.base import NotConstant, Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.iterators import RangeIterator, SequenceIterator
from tocha._dynamo.values.native_method import NativeMethod

if TYPE_CHECKING:
    from tocha._dynamo.codegen import Codegen
    from tocha._dynamo.frame import Frame


def _product(sizes):
    """What Size.numel() is; traced."""
    n = 1
    for size in sizes:
        n = n * size
    return n


class Container(Value):
    """What containers share: methods named m_x answer for x."""

    has_identity = True

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        method = getattr(self, f"m_{name}", None)
        if method is not None:
            return f.checked(method, f, *args, **kwargs)
        if not hasattr(self.python_type(), name):
            f.raise_(AttributeError, f"'{self.python_type().__name__}' object has no attribute '{name}'")
        return f.call_native_method(self, name, args, kwargs)

    def get_attribute(self, f: Frame, name: str) -> Value:
        if name == "__class__":
            return f.wrap_known(self.python_type())
        if callable(getattr(self.python_type(), name, None)):
            return NativeMethod(self, name)
        if not hasattr(self.python_type(), name):
            f.raise_(AttributeError, f"'{self.python_type().__name__}' object has no attribute '{name}'")
        self.refuse("attribute", f"attribute {name!r}")

    owner: Any = None  # of a subclass: the object that this is the builtin part of

    def touch(self, f: Frame) -> None:
        f.out.effects.add(self.owner or self)

    def m___len__(self, f: Frame) -> Value:
        return Constant(self.length(f))

    def m___iter__(self, f: Frame) -> Value:
        return self.iterate(f)

    def m___getitem__(self, f: Frame, key: Value) -> Value:
        return self.item(f, key)

    def m___setitem__(self, f: Frame, key: Value, value: Value) -> Value:
        self.set_item(f, key, value)
        return Constant(None)

    def m___delitem__(self, f: Frame, key: Value) -> Value:
        self.delete_item(f, key)
        return Constant(None)

    def m___contains__(self, f: Frame, key: Value) -> Value:
        return Constant(f.contains(self, key))


class Sequence(Container):
    type_: Any = list

    def __init__(self, items: list[Value], source: Any = None) -> None:
        self.items = items
        self.source = source

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.items!r})"

    def python_type(self) -> type:
        return self.type_

    def constant(self) -> Any:
        return self.type_(i.constant() for i in self.items)  # type: ignore[call-arg]

    def is_constant(self) -> bool:
        return all(i.is_constant() for i in self.items) and super().is_constant()

    def graph_argument(self) -> Any:
        return self.type_(i.realize().graph_argument() for i in self.items)  # type: ignore[call-arg]

    def example(self) -> Any:
        return self.type_(i.realize().example() for i in self.items)  # type: ignore[call-arg]

    def length(self, f: Frame) -> int:
        return len(self.items)

    def truth(self, f: Frame) -> bool:
        return bool(self.items)

    def unpack(self, f: Frame) -> list[Value]:
        return list(self.items)

    def iterate(self, f: Frame) -> Value:
        return SequenceIterator(self.items, type(iter(self.type_())))

    def item(self, f: Frame, key: Value) -> Value:
        at = f.index(key)
        if isinstance(at, slice):
            return self.like(f.checked(self.items.__getitem__, at))
        try:
            return self.items[at].realize()
        except IndexError:
            f.raise_(IndexError, f"{self.type_.__name__} index out of range")

    def like(self, items: list[Value]) -> Value:
        return type(self)(items)

    def reconstruct(self, cg: Codegen) -> None:
        cg.build("BUILD_LIST" if self.type_ is list else "BUILD_TUPLE", self.items)

    def m_index(self, f: Frame, value: Value, *bounds: Value) -> Value:
        for i in range(*slice(*(b.constant() for b in bounds), *([None] if len(bounds) < 2 else [])).indices(len(self.items))) if bounds else range(len(self.items)):  # fmt: skip
            if f.same_or_equal(self.items[i], value):
                return Constant(i)
        return f.checked(self.type_().index, f.shown(value))  # raises, in the interpreter's words

    def m_count(self, f: Frame, value: Value) -> Value:
        return Constant(sum(f.same_or_equal(i, value) for i in self.items))

    def m___reversed__(self, f: Frame) -> Value:
        return SequenceIterator(self.items[::-1], type(reversed([])))


class ListValue(Sequence):
    type_: Any = list
    is_list = True

    def iterate(self, f: Frame) -> Value:
        return SequenceIterator(self.items, type(iter([])), self)

    def set_item(self, f: Frame, key: Value, value: Value) -> None:
        at = f.index(key)
        self.touch(f)
        try:
            self.items[at] = value.unpack(f) if isinstance(at, slice) else value  # type: ignore[index]
        except (IndexError, ValueError) as e:
            f.raise_(type(e), *e.args)

    def delete_item(self, f: Frame, key: Value) -> None:
        self.touch(f)
        try:
            del self.items[f.index(key)]
        except IndexError as e:
            f.raise_(IndexError, *e.args)

    def m___init__(self, f: Frame, items: Value | None = None) -> Value:
        self.touch(f)
        self.items[:] = items.unpack(f) if items else []
        return Constant(None)

    def m_append(self, f: Frame, value: Value) -> Value:
        self.touch(f)
        self.items.append(value)
        return Constant(None)

    def m_extend(self, f: Frame, values: Value) -> Value:
        new = values.unpack(f)
        self.touch(f)
        self.items.extend(new)
        return Constant(None)

    def m___iadd__(self, f: Frame, values: Value) -> Value:
        self.m_extend(f, values)
        return self

    def m___imul__(self, f: Frame, times: Value) -> Value:
        self.touch(f)
        self.items[:] = self.items * times.constant()
        return self

    def m_insert(self, f: Frame, at: Value, value: Value) -> Value:
        self.touch(f)
        self.items.insert(at.constant(), value)
        return Constant(None)

    def m_pop(self, f: Frame, at: Value | None = None) -> Value:
        self.touch(f)
        try:
            return self.items.pop(at.constant() if at else -1).realize()
        except IndexError as e:
            f.raise_(IndexError, *e.args)

    def m_remove(self, f: Frame, value: Value) -> Value:
        for i, item in enumerate(self.items):
            if f.same_or_equal(item, value):
                self.touch(f)
                del self.items[i]
                return Constant(None)
        f.raise_(ValueError, "list.remove(x): x not in list")

    def m_clear(self, f: Frame) -> Value:
        self.touch(f)
        self.items.clear()
        return Constant(None)

    def m_reverse(self, f: Frame) -> Value:
        self.touch(f)
        self.items.reverse()
        return Constant(None)

    def m_copy(self, f: Frame) -> Value:
        return ListValue(list(self.items))

    def m_sort(self, f: Frame, *, key: Value | None = None, reverse: Value | None = None) -> Value:
        ordered = f.sort(self.items, key, reverse is not None and reverse.truth(f))
        self.touch(f)
        self.items[:] = ordered
        return Constant(None)

    def hash_key(self, f: Frame) -> Any:
        f.raise_(TypeError, "unhashable type: 'list'")

    def apply(self, cg: Codegen) -> None:
        """Generated code: the real list becomes what the tracked one is."""
        cg.build("BUILD_LIST", self.items)
        cg.load(self)
        cg.load_constant(None)
        cg.load_constant(None)
        cg.emit("BUILD_SLICE", 2)
        cg.emit("STORE_SUBSCR")

    def parts(self) -> list[Value]:
        return self.items


class TupleValue(Sequence):
    type_: Any = tuple
    has_identity = True

    def hash_key(self, f: Frame) -> Any:
        return tuple(i.realize().hash_key(f) for i in self.items)


class SizeValue(TupleValue):
    type_: Any = tocha.Size

    def graph_argument(self) -> Any:
        """A plain tuple where sizes are nodes."""
        items = tuple(i.realize().graph_argument() for i in self.items)
        return tocha.Size(items) if all(type(i) is int for i in items) else items

    def like(self, items: list[Value]) -> Value:
        return SizeValue(items)

    def reconstruct(self, cg: Codegen) -> None:
        cg.start_call(tocha.Size)
        cg.build("BUILD_TUPLE", self.items)
        cg.end_call(1)

    def m_numel(self, f: Frame) -> Value:
        return f.inline(f.wrap_known(_product), [self], {})  # type: ignore[arg-type]


class NamedTupleValue(TupleValue):
    """A tuple of a class of its own: collections.namedtuple, typing.NamedTuple, tocha.return_types, or a plain subclass."""

    def __init__(self, cls: type, items: list[Value], source: Any = None) -> None:
        super().__init__(items, source)
        self.cls = cls

    def python_type(self) -> type:
        return self.cls

    def _make(self, items: list[Any]) -> Any:
        return self.cls._make(items) if hasattr(self.cls, "_make") else self.cls(items)  # type: ignore[attr-defined, call-arg]

    def constant(self) -> Any:
        return self._make([i.constant() for i in self.items])

    def graph_argument(self) -> Any:
        return self._make([i.realize().graph_argument() for i in self.items])

    def example(self) -> Any:
        return self._make([i.realize().example() for i in self.items])

    def like(self, items: list[Value]) -> Value:
        return TupleValue(items)

    def get_attribute(self, f: Frame, name: str) -> Value:
        fields = getattr(self.cls, "_fields", None)
        if fields is None:
            members = [n for n, m in vars(self.cls).items() if type(m).__name__ == "member_descriptor"]
            fields = tuple(members)
        if name in fields:
            return self.items[fields.index(name)].realize()
        if name in ("_fields", "_field_defaults"):
            return f.wrap_known(getattr(self.cls, name))
        return f.attribute_of_class(self, self.cls, name) or super().get_attribute(f, name)

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        found = f.attribute_of_class(self, self.cls, name)
        return found.call(f, args, kwargs) if found else super().call_method(f, name, args, kwargs)

    def m__replace(self, f: Frame, /, **changes: Value) -> Value:
        fields = self.cls._fields  # type: ignore[attr-defined]
        return NamedTupleValue(self.cls, [changes.get(n, i) for n, i in zip(fields, self.items)])

    def m__asdict(self, f: Frame) -> Value:
        return f.new_dict(zip(self.cls._fields, self.items))  # type: ignore[attr-defined]

    def reconstruct(self, cg: Codegen) -> None:
        cg.start_call(self.cls._make if hasattr(self.cls, "_make") else self.cls)
        cg.build("BUILD_TUPLE", self.items)
        cg.end_call(1)


class RangeValue(Container):
    has_identity = False

    def __init__(self, value: range, source: Any = None) -> None:
        self.value, self.source = value, source

    def python_type(self) -> type:
        return range

    def constant(self) -> Any:
        return self.value

    def length(self, f: Frame) -> int:
        return len(self.value)

    def truth(self, f: Frame) -> bool:
        return bool(self.value)

    def unpack(self, f: Frame) -> list[Value]:
        return [Constant(i) for i in self.value]

    def iterate(self, f: Frame) -> Value:
        return RangeIterator(self.value)

    def item(self, f: Frame, key: Value) -> Value:
        key = key if key.is_constant() or not key.has_method("__index__") else Constant(f.index(key))
        return f.fold(lambda r, k: r[k], [self, key], {})

    def get_attribute(self, f: Frame, name: str) -> Value:
        if name in ("start", "stop", "step"):
            return Constant(getattr(self.value, name))
        return super().get_attribute(f, name)

    def m___reversed__(self, f: Frame) -> Value:
        return RangeIterator(self.value[::-1])

    def hash_key(self, f: Frame) -> Any:
        return self.value

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_constant(self.value)


class SliceValue(Container):
    has_identity = False

    def __init__(self, items: list[Value], source: Any = None) -> None:
        self.items, self.source = items, source

    def python_type(self) -> type:
        return slice

    def constant(self) -> Any:
        return slice(*(i.constant() for i in self.items))

    def is_constant(self) -> bool:
        return all(i.is_constant() for i in self.items)

    def graph_argument(self) -> Any:
        return slice(*(i.graph_argument() for i in self.items))

    def example(self) -> Any:
        return slice(*(i.example() for i in self.items))

    def get_attribute(self, f: Frame, name: str) -> Value:
        if name in ("start", "stop", "step"):
            return self.items[("start", "stop", "step").index(name)]
        return super().get_attribute(f, name)

    def reconstruct(self, cg: Codegen) -> None:
        for i in self.items:
            cg.load(i)
        cg.emit("BUILD_SLICE", 3)


class DequeValue(ListValue):
    type_: Any = collections.deque

    def __init__(self, items: list[Value], maxlen: int | None = None, source: Any = None) -> None:
        super().__init__(items, source)
        self.maxlen = maxlen
        self.trim(left=True)

    def trim(self, left: bool) -> None:
        if self.maxlen is not None and len(self.items) > self.maxlen:
            extra = len(self.items) - self.maxlen
            self.items[:] = self.items[extra:] if left else self.items[: self.maxlen]

    def constant(self) -> Any:
        return collections.deque((i.constant() for i in self.items), self.maxlen)

    def graph_argument(self) -> Any:
        raise NotConstant("a deque")

    def like(self, items: list[Value]) -> Value:
        return DequeValue(items, self.maxlen)

    def iterate(self, f: Frame) -> Value:
        return SequenceIterator(self.items, type(iter(collections.deque())), self)

    def item(self, f: Frame, key: Value) -> Value:
        if isinstance(key.realize(), SliceValue):
            f.raise_(TypeError, "sequence index must be integer, not 'slice'")
        return super().item(f, key)

    def m_insert(self, f: Frame, at: Value, value: Value) -> Value:
        if self.maxlen is not None and len(self.items) >= self.maxlen:
            f.raise_(IndexError, "deque already at its maximum size")
        return super().m_insert(f, at, value)

    def get_attribute(self, f: Frame, name: str) -> Value:
        return Constant(self.maxlen) if name == "maxlen" else super().get_attribute(f, name)

    def m_append(self, f: Frame, value: Value) -> Value:
        super().m_append(f, value)
        self.trim(left=True)
        return Constant(None)

    def m_extend(self, f: Frame, values: Value) -> Value:
        super().m_extend(f, values)
        self.trim(left=True)
        return Constant(None)

    def m_appendleft(self, f: Frame, value: Value) -> Value:
        self.touch(f)
        self.items.insert(0, value)
        self.trim(left=False)
        return Constant(None)

    def m_extendleft(self, f: Frame, values: Value) -> Value:
        for v in values.unpack(f):
            self.m_appendleft(f, v)
        return Constant(None)

    def m_pop(self, f: Frame, at: Value | None = None) -> Value:
        if not self.items:
            f.raise_(IndexError, "pop from an empty deque")
        return super().m_pop(f)

    def m_popleft(self, f: Frame) -> Value:
        if not self.items:
            f.raise_(IndexError, "pop from an empty deque")
        return super().m_pop(f, Constant(0))

    def m_rotate(self, f: Frame, n: Value | None = None) -> Value:
        self.touch(f)
        turned = collections.deque(self.items)
        turned.rotate(n.constant() if n else 1)
        self.items[:] = turned
        return Constant(None)

    def m_copy(self, f: Frame) -> Value:
        return DequeValue(list(self.items), self.maxlen)

    def reconstruct(self, cg: Codegen) -> None:
        cg.start_call(collections.deque)
        cg.build("BUILD_LIST", self.items)
        cg.load_constant(self.maxlen)
        cg.end_call(2)

    def apply(self, cg: Codegen) -> None:
        cg.call_method_of(self, "clear", [])
        cg.call_method_of(self, "extend", [TupleValue(self.items)])
