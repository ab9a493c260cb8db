"""User objects and classes, Python modules, super(), exceptions: attributes by the rules of the data model."""

from __future__ import annotations

import enum
import functools
import types
from typing import TYPE_CHECKING, Any

from tocha import _C
from tocha._dynamo.source import Source
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.functions import BuiltinValue, FunctionValue, MethodValue
from tocha._dynamo.values.mappings import DictValue, pairs_of
from tocha._dynamo.values.native_method import NativeMethod
from tocha.autograd.function import Function

if TYPE_CHECKING:
    from tocha._dynamo.codegen import Codegen
    from tocha._dynamo.frame import Frame

MISSING = object()


def find_in_class(cls: type, name: str) -> tuple[Any, type | None]:
    """What a class or its bases hold under a name, unbound, and whose it is."""
    for c in cls.__mro__:
        if name in c.__dict__:
            return c.__dict__[name], c
    return MISSING, None


def in_python(cls: type) -> bool:
    """Is the class written in Python?"""
    return (
        cls.__flags__ & (1 << 9 | 1 << 8) == 1 << 9
    )  # Py_TPFLAGS_HEAPTYPE, which types of C may have too, but immutable ones


def is_data_descriptor(found: Any) -> bool:
    return hasattr(type(found), "__set__") or hasattr(type(found), "__delete__")


def is_other_native(found: Any, name: str) -> bool:
    """A native method in the place of another: `__getattr__ = dict.__getitem__`."""
    kinds = (types.MethodDescriptorType, types.WrapperDescriptorType)
    return isinstance(found, kinds) and found.__name__ != name


def bind(f: Frame, found: Any, owner: Value, cls: type, source: Any) -> Value:
    """The descriptor protocol: what obj.name is, when the class holds `found`."""
    if isinstance(found, types.FunctionType | functools._lru_cache_wrapper | _C._capture.Wrapper):
        return MethodValue(f.wrap(found, source), owner)
    if isinstance(found, classmethod):
        inner = f.wrap(found.__func__, source.attribute("__func__") if source else None)
        return MethodValue(inner, f.wrap(cls, Source("object", cls, None, cls.__qualname__)))
    if isinstance(found, staticmethod):
        return f.wrap(found.__func__, source)
    if isinstance(found, property):
        if found.fget is None:
            f.raise_(AttributeError, "property has no getter")
        return f.wrap(found.fget, source.attribute("fget") if source else None).call(f, [owner], {})
    if isinstance(found, (types.BuiltinFunctionType, type)) or not hasattr(type(found), "__get__"):
        return f.wrap(found, source)
    getter = f.class_function(type(found), "__get__")
    if getter is not None:
        return MethodValue(getter, f.wrap(found, source)).call(f, [owner, f.wrap_known(cls)], {})
    if isinstance(found, (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)):
        return MethodValue(BuiltinValue(found), owner)
    owner.refuse("attribute", f"descriptor {type(found).__name__}")


def native_of(cls: type, name: str) -> Any:
    """The first native method of that name, under its own name: what reads or writes attributes in the end."""
    found = (c.__dict__.get(name) for c in cls.__mro__)
    return next(m for m in found if isinstance(m, types.WrapperDescriptorType) and m.__name__ == name)


def instance_dict(real: Any) -> Any:
    """An object's own dict, past a `__getattribute__` that its class has in Python (a `threading.local` has a native one); None where it
    has none. Guards and generated code call it, too."""
    try:
        return native_of(type(real), "__getattribute__")(real, "__dict__")
    except AttributeError:
        return None


class ObjectKey:
    """An object with __hash__ and __eq__ of its own, as a key of tracked dicts."""

    def __init__(self, f: Frame, value: Value, hashed: int) -> None:
        self.frame, self.value, self.hashed = f, value, hashed

    def __hash__(self) -> int:
        return self.hashed

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ObjectKey):
            return self.frame.same_or_equal(self.value, other.value)
        return self.frame.same_or_equal(self.value, Constant(other))


class ObjectValue(Value):
    """An instance of a class written in Python. `real` is the object itself, or one made as a stand-in when `new`."""

    has_identity = True

    def __init__(self, cls: type, real: Any, source: Any = None, new: bool = False) -> None:
        self.cls, self.real, self.source, self.new = cls, real, source, new
        self.written: dict[str, Value | None] = {}  # attributes set meanwhile; None: deleted
        self.new_args: list[Value] = []  # what __new__ takes besides the class, where it is native

    def __repr__(self) -> str:
        return f"Object({self.cls.__name__})"

    def python_type(self) -> type:
        return self.cls

    def is_a(self, cls: type) -> bool:
        return issubclass(self.cls, cls)

    # ---- attributes

    def own(self, f: Frame, name: str) -> Value | None:
        """From the instance's own dict or slots."""
        if name in self.written:
            found = self.written[name]
            return found.realize() if found is not None else None
        if self.new:
            return None
        state = instance_dict(self.real)
        if state is not None and name in state:
            return f.wrap(state[name], self.place(name) if self.source else None)
        return None

    @property
    def custom_reads(self) -> bool:
        """Does its class decide what reading an attribute is?"""
        return isinstance(find_in_class(self.cls, "__getattribute__")[0], types.FunctionType)

    def dict_place(self) -> Source:
        """Where its own dict is found."""
        assert self.source is not None
        return self.source.call(instance_dict) if self.custom_reads else self.source.attribute("__dict__")

    def place(self, name: str) -> Source:
        """Where an attribute of its own dict is found: by its name, unless the class has another answer to that."""
        assert self.source is not None
        return self.dict_place().dict_item(name) if self.custom_reads or self.is_hidden(name) else self.source.attribute(name)  # fmt: skip

    def is_hidden(self, name: str) -> bool:
        """Does the class answer for that name, whatever the object's own dict holds?"""
        found = find_in_class(self.cls, name)[0]
        native = isinstance(found, types.MemberDescriptorType | types.GetSetDescriptorType)
        return found is not MISSING and not native and is_data_descriptor(found)

    def get_attribute(self, f: Frame, name: str) -> Value:
        if name == "__class__":
            return f.wrap_class_of(self)
        custom = f.class_function(self.cls, "__getattribute__")
        if custom is not None:
            return custom.call(f, [self, Constant(name)], {})
        found = self.plain_attribute(f, name)
        if found is not None:
            return found
        made_up = f.class_function(self.cls, "__getattr__")
        if made_up is not None:
            return made_up.call(f, [self, Constant(name)], {})
        fallback = find_in_class(self.cls, "__getattr__")[0]
        if is_other_native(fallback, "__getattr__"):
            return BuiltinValue(fallback).call(f, [self, Constant(name)], {})
        f.guard_missing(self.cls, name, "__getattr__")  # nor a way to make it up
        f.raise_(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'", name=name, obj=self)

    def plain_attribute(self, f: Frame, name: str) -> Value | None:
        """object.__getattribute__; None where there is nothing."""
        if name == "__dict__":
            return self.state(f) if self.cls.__dictoffset__ else None
        found, holder = find_in_class(self.cls, name)
        if isinstance(found, types.MemberDescriptorType):
            return self.slot(f, name)
        reads = hasattr(type(found), "__get__")  # one that only writes leaves reading to the object's own dict
        if reads and is_data_descriptor(found) and not isinstance(found, types.GetSetDescriptorType):
            return bind(f, found, self, self.cls, f.class_source(self.cls, holder, name, found))
        own = self.own(f, name)
        if own is not None:
            return own
        if self.source is not None and not self.new and name not in self.written and instance_dict(self.real) is not None:  # fmt: skip
            f.out.guards.add(self.dict_place(), "without", name)
        for c in self.cls.__mro__ if f.out.class_writes else ():
            new = f.out.class_writes.get((id(c), name))
            if new is not None:
                return MethodValue(new, self) if isinstance(new, FunctionValue) else new
        if found is MISSING:
            return None
        return bind(f, found, self, self.cls, f.class_source(self.cls, holder, name, found))

    def slot(self, f: Frame, name: str) -> Value | None:
        if name in self.written or self.new:
            found = self.written.get(name)
            return found.realize() if found is not None else None
        slot = find_in_class(self.cls, name)[0]
        if not isinstance(slot, types.MemberDescriptorType):
            return None
        get = slot.__get__
        try:
            value = get(self.real)
        except AttributeError:
            return None
        source = self.source
        if source is not None:
            source = source.call(get) if self.custom_reads else source.attribute(name)
        return f.wrap(value, source)

    def state(self, f: Frame) -> Value:
        return InstanceDict(self)

    def set_attribute(self, f: Frame, name: str, value: Value) -> None:
        custom = find_in_class(self.cls, "__setattr__")[0]
        written = f.class_function(self.cls, "__setattr__")
        if written is not None:
            written.call(f, [self, Constant(name), value], {})
        elif is_other_native(custom, "__setattr__"):
            BuiltinValue(custom).call(f, [self, Constant(name), value], {})
        else:
            self.plain_set(f, name, value)

    def plain_set(self, f: Frame, name: str, value: Value) -> None:
        """object.__setattr__"""
        found, holder = find_in_class(self.cls, name)
        if name in ("__class__", "__dict__"):
            self.refuse("mutation", f"setting {name!r}")
        if isinstance(found, property):
            source = f.class_source(self.cls, holder, name, found)
            if found.fset is None:
                f.raise_(AttributeError, f"property '{name}' of '{self.cls.__name__}' object has no setter")
            f.wrap(found.fset, source.attribute("fset") if source else None).call(f, [self, value], {})
            return
        if found is not MISSING and not isinstance(found, types.MemberDescriptorType):
            setter = f.class_function(type(found), "__set__")
            if setter is not None:
                held = f.wrap(found, f.class_source(self.cls, holder, name, found))
                setter.call(f, [held, self, value], {})
                return
        kept_elsewhere = not self.new and instance_dict(self.real) is not None  # of a threading.local, for each thread
        if (
            self.cls.__dictoffset__ == 0 and not kept_elsewhere and not hasattr(type(found), "__set__")
        ):  # slots, and no dict for others
            what = f"'{self.cls.__name__}' object"
            f.raise_(AttributeError, f"{what} has no attribute '{name}'" if found is MISSING else f"{what} attribute '{name}' is read-only")  # fmt: skip
        f.out.effects.add(self)
        self.written[name] = value

    def delete_attribute(self, f: Frame, name: str) -> None:
        custom = find_in_class(self.cls, "__delattr__")[0]
        written = f.class_function(self.cls, "__delattr__")
        if written is not None:
            written.call(f, [self, Constant(name)], {})
            return
        if is_other_native(custom, "__delattr__"):
            BuiltinValue(custom).call(f, [self, Constant(name)], {})
            return
        self.plain_delete(f, name)

    def plain_delete(self, f: Frame, name: str) -> None:
        """object.__delattr__"""
        found, holder = find_in_class(self.cls, name)
        if isinstance(found, property):
            self._delete_property(f, found, name, f.class_source(self.cls, holder, name, found))
            return
        deleter = f.class_function(type(found), "__delete__") if found is not MISSING else None
        if deleter is not None:
            deleter.call(f, [f.wrap(found, f.class_source(self.cls, holder, name, found)), self], {})
            return
        if self.own(f, name) is None and self.slot(f, name) is None:
            f.raise_(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
        f.out.effects.add(self)
        self.written[name] = None

    def _delete_property(self, f: Frame, found: property, name: str, source: Source | None) -> None:
        if found.fdel is None:
            f.raise_(AttributeError, f"property '{name}' of '{self.cls.__name__}' object has no deleter")
        f.wrap(found.fdel, source.attribute("fdel") if source else None).call(f, [self], {})

    # ---- calls and the rest

    def call(self, f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        found = find_in_class(self.cls, "__call__")[0]
        if found is MISSING:
            f.raise_(TypeError, f"'{self.cls.__name__}' object is not callable")
        return self.special(f, "__call__", args, kwargs)

    def special(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """A method that the interpreter looks up in the class, not in the instance."""
        found, holder = find_in_class(self.cls, name)
        return bind(f, found, self, self.cls, f.class_source(self.cls, holder, name, found)).call(f, args, kwargs)

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name.startswith("__") and name.endswith("__") and find_in_class(self.cls, name)[0] is not MISSING:
            return self.special(f, name, args, kwargs)
        return self.get_attribute(f, name).call(f, args, kwargs)

    def hash_key(self, f: Frame) -> Any:
        found = find_in_class(self.cls, "__hash__")[0]
        if isinstance(found, types.FunctionType):
            return ObjectKey(f, self, self.special(f, "__hash__", [], {}).constant())
        if found is None:
            f.raise_(TypeError, f"unhashable type: '{self.cls.__name__}'")
        if self.source is not None and not self.new:
            f.out.guards.add(self.source.call(id), "constant", id(self.real))  # another one may be another key
        return ("object", id(self))

    # ---- generated code

    def parts(self) -> list[Value]:
        return [v for v in self.written.values() if v is not None]

    def reconstruct(self, cg: Codegen) -> None:
        if not self.new:
            self.refuse("reconstruct", "making anew")
        native = next(
            c.__new__ for c in self.cls.__mro__ if isinstance(c.__dict__.get("__new__"), types.BuiltinFunctionType)
        )
        cg.start_call(native)
        cg.load_constant(self.cls)
        for a in self.new_args:
            cg.load(a)
        cg.end_call(1 + len(self.new_args))
        cg.fill_later(self)

    def is_set(self, name: str) -> bool:
        """Does the real object itself have it, in its dict or in a slot?"""
        slot = find_in_class(self.cls, name)[0]
        if isinstance(slot, types.MemberDescriptorType):
            try:
                slot.__get__(self.real)
            except AttributeError:
                return False
            return True
        return name in (instance_dict(self.real) or ())

    def apply(self, cg: Codegen) -> None:
        for name, value in self.written.items():
            if value is None:
                if not self.new and self.is_set(name):
                    cg.start_call(_delete_own if self.is_hidden(name) else native_of(self.cls, "__delattr__"))
                    cg.load(self)
                    cg.load_constant(name)
                    cg.end_call(2, keep=False)
                continue
            hidden, write = self.is_hidden(name), native_of(self.cls, "__setattr__")
            if not hidden and find_in_class(self.cls, "__setattr__")[0] is write:
                cg.load(value)
                cg.load(self)
                cg.store_attribute(name)
                continue
            cg.start_call(_write_own if hidden else write)
            cg.load(self)
            cg.load_constant(name)
            cg.load(value)
            cg.end_call(3, keep=False)


def _write_own(real: Any, name: str, value: Any) -> None:
    instance_dict(real)[name] = value


def _delete_own(real: Any, name: str) -> None:
    del instance_dict(real)[name]


class InstanceDict(Value):
    """obj.__dict__: reads and writes go to the object's attributes."""

    def __init__(self, owner: ObjectValue) -> None:
        self.owner = owner

    def python_type(self) -> type:
        return dict

    def as_dict(self, f: Frame) -> Any:
        made = DictValue({})
        for name in self.names(f):
            value = self.find(f, name)
            assert value is not None
            made.put(f, Constant(name), value)
        return made

    def in_slot(self, name: str) -> bool:
        return isinstance(find_in_class(self.owner.cls, name)[0], types.MemberDescriptorType)

    def find(self, f: Frame, name: str) -> Value | None:
        return None if self.in_slot(name) else self.owner.own(f, name)

    def names(self, f: Frame) -> list[str]:
        o = self.owner
        written = [n for n, v in o.written.items() if v is not None and not self.in_slot(n)]
        real = [] if o.new else list(instance_dict(o.real))
        if o.source is not None and not o.new:
            f.out.guards.add(o.dict_place(), "keys", tuple(real))
        return [n for n in real if o.written.get(n, o) is not None] + [n for n in written if n not in real]

    def length(self, f: Frame) -> int:
        return len(self.names(f))

    def unpack(self, f: Frame) -> list[Value]:
        return [Constant(n) for n in self.names(f)]

    def iterate(self, f: Frame) -> Value:
        return self.as_dict(f).iterate(f)

    def item(self, f: Frame, key: Value) -> Value:
        found = self.find(f, key.constant())
        if found is None:
            self.miss(f, key.constant())
            f.raise_(KeyError, key)
        return found

    def miss(self, f: Frame, name: str) -> None:
        if self.owner.source is not None and not self.owner.new and name not in self.owner.written:
            f.out.guards.add(self.owner.dict_place(), "without", name)

    def set_item(self, f: Frame, key: Value, value: Value) -> None:
        if self.in_slot(key.constant()):
            self.refuse("mutation", "an entry beside the slot of that name")
        f.out.effects.add(self.owner)
        self.owner.written[key.constant()] = value

    def delete_item(self, f: Frame, key: Value) -> None:
        self.item(f, key)
        f.out.effects.add(self.owner)
        self.owner.written[key.constant()] = None

    def get_attribute(self, f: Frame, name: str) -> Value:
        if not hasattr(dict, name):
            f.raise_(AttributeError, f"'dict' object has no attribute '{name}'")
        return NativeMethod(self, name)

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "get" or name == "pop":
            found = self.find(f, args[0].constant())
            if found is None:
                self.miss(f, args[0].constant())
                if name == "pop" and len(args) < 2:
                    f.raise_(KeyError, args[0])
                return args[1] if len(args) > 1 else Constant(None)
            if name == "pop":
                self.delete_item(f, args[0])
            return found
        if name == "__contains__":
            found = self.find(f, args[0].constant())
            if found is None:
                self.miss(f, args[0].constant())
            return Constant(found is not None)
        if name == "__setitem__":
            self.set_item(f, *args)
            return Constant(None)
        if name == "__getitem__":
            return self.item(f, *args)
        if name == "update":
            for k, v in [p for a in args for p in pairs_of(f, a)] + [(Constant(k), v) for k, v in kwargs.items()]:
                self.set_item(f, k, v)
            return Constant(None)
        if name == "setdefault":
            found = self.find(f, args[0].constant())
            if found is None:
                found = args[1] if len(args) > 1 else Constant(None)
                self.set_item(f, args[0], found)
            return found
        return self.as_dict(f).call_method(f, name, args, kwargs)

    def reconstruct(self, cg: Codegen) -> None:
        if self.owner.custom_reads:  # whose code may be what this is made for
            cg.start_call(instance_dict)
            cg.load(self.owner)
            cg.end_call(1)
            return
        cg.load(self.owner)
        cg.load_attribute("__dict__")


class ClassValue(Value):
    """A class."""

    def __init__(self, value: type, source: Any = None) -> None:
        self.value, self.source = value, source

    def __repr__(self) -> str:
        return f"Class({self.value.__name__})"

    def python_type(self) -> type:
        return type(self.value)

    def constant(self) -> Any:
        return self.value

    def truth(self, f: Frame) -> bool:
        return True

    def hash_key(self, f: Frame) -> Any:
        return self.value

    def is_a(self, cls: type) -> bool:
        return False

    def get_attribute(self, f: Frame, name: str) -> Value:
        if name == "apply" and issubclass(self.value, Function) and find_in_class(self.value, name)[1] is Function:
            return FunctionApply(self)
        overlay = f.out.class_writes.get((id(self.value), name))
        if overlay is not None:
            return overlay
        if name in ("__name__", "__qualname__", "__module__", "__doc__"):
            return Constant(getattr(self.value, name))
        if name == "__dict__":
            return f.wrap(vars(self.value), f.class_place(self.value, "__dict__"))
        meta, meta_holder = find_in_class(type(self.value), name)
        if meta is not MISSING and is_data_descriptor(meta):
            if isinstance(meta, property) or in_python(type(meta)):
                source = f.class_source(type(self.value), meta_holder, name, meta)
                return bind(f, meta, self, type(self.value), source)
            try:
                return f.wrap_known(getattr(self.value, name))
            except AttributeError as error:
                f.raise_(AttributeError, *error.args)
        found, holder = find_in_class(self.value, name)
        if found is MISSING:
            f.guard_missing(self.value, name)
            if isinstance(meta, types.MethodDescriptorType | types.WrapperDescriptorType | types.ClassMethodDescriptorType):  # fmt: skip
                return BuiltinValue(getattr(self.value, name))
            if meta is not MISSING:
                source = f.class_source(type(self.value), meta_holder, name, meta)
                return bind(f, meta, self, type(self.value), source)
            fallback = f.class_function(type(self.value), "__getattr__")
            if fallback is not None:
                return fallback.call(f, [self, Constant(name)], {})
            f.raise_(AttributeError, f"type object '{self.value.__name__}' has no attribute '{name}'")
        source = self.source.attribute(name) if self.source else f.class_source(self.value, holder, name, found)
        if isinstance(found, (types.FunctionType, staticmethod)):
            return f.wrap(getattr(found, "__func__", found), source)
        if isinstance(found, classmethod):
            return MethodValue(f.wrap(found.__func__, source.attribute("__func__") if source else None), self)
        if isinstance(found, (property, types.MemberDescriptorType, types.GetSetDescriptorType)):
            return BuiltinValue(found)
        getter = f.class_function(type(found), "__get__")
        if getter is not None:
            held = f.wrap(found, f.class_source(self.value, holder, name, found))
            return getter.call(f, [held, Constant(None), self], {})
        return f.wrap(getattr(self.value, name), source)

    def set_attribute(self, f: Frame, name: str, value: Value) -> None:
        if name.startswith("__") and name.endswith("__") and not isinstance(value, Constant):
            self.refuse("mutation", f"setting {name!r} of a class")  # operators look for it in the class itself
        f.out.effects.add(self)
        f.out.class_writes[(id(self.value), name)] = value

    def call(self, f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return f.call_class(self, args, kwargs)

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__call__" and find_in_class(type(self.value), name)[1] is type:
            return self.call(f, args, kwargs)
        written = f.class_function(type(self.value), name) if name.startswith("__") else None
        if written is not None:
            return written.call(f, [self, *args], kwargs)
        return self.get_attribute(f, name).call(f, args, kwargs)

    def iterate(self, f: Frame) -> Value:
        if isinstance(self.value, enum.EnumMeta):
            return f.wrap_known(list(self.value)).iterate(f)  # type: ignore[var-annotated]
        return super().iterate(f)

    def item(self, f: Frame, key: Value) -> Value:
        written = f.class_function(type(self.value), "__getitem__")
        if written is not None and not isinstance(self.value, enum.EnumMeta):
            return written.call(f, [self, key], {})
        made, _ = find_in_class(self.value, "__class_getitem__")
        if written is None and isinstance(getattr(made, "__func__", None), types.FunctionType):
            return self.get_attribute(f, "__class_getitem__").call(f, [key], {})
        return f.fold(lambda c, k: c[k], [self, key], {})

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_constant(self.value)

    def parts(self) -> list[Value]:
        return []

    def apply(self, cg: Codegen) -> None:
        for (owner, name), value in cg.out.class_writes.items():
            if owner == id(self.value):
                cg.load(value)
                cg.load(self)
                cg.store_attribute(name)


class FunctionApply(Value):
    """apply of an autograd.Function: one node of the graph."""

    def __init__(self, owner: ClassValue) -> None:
        self.owner = owner

    def python_type(self) -> type:
        return types.MethodType

    def call(self, f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        from tocha._dynamo import custom_functions

        cls: type[Function] = self.owner.value
        if not cls.__module__.startswith("tocha."):
            if not all(map(custom_functions.fits_in_graph, (*args, *kwargs.values()))):
                return custom_functions.captured(f, self.owner, args, kwargs)
            custom_functions.look_into(f, self.owner, args, kwargs)
        return f.out.call(f, "call_function", types.MethodType(Function.apply.__func__, cls), args, kwargs)  # type: ignore[attr-defined]


class ModuleValue(Value):
    """A Python module."""

    def __init__(self, value: types.ModuleType, source: Any = None) -> None:
        self.value, self.source = value, source

    def python_type(self) -> type:
        return types.ModuleType

    def constant(self) -> Any:
        return self.value

    def hash_key(self, f: Frame) -> Any:
        return self.value

    def get_attribute(self, f: Frame, name: str) -> Value:
        written = f.out.global_writes.get((id(vars(self.value)), name))
        if written is not None:
            return written
        try:
            found = getattr(self.value, name)
        except AttributeError as e:
            f.raise_(AttributeError, *e.args)
        except Exception as e:  # of a __getattr__ of the module's own
            f.raise_real(e)
        return f.wrap(found, self.source.attribute(name) if self.source else None)

    def set_attribute(self, f: Frame, name: str, value: Value) -> None:
        if type(self.value) is not types.ModuleType:
            super().set_attribute(f, name, value)
        scope = vars(self.value)
        f.out.scopes[id(scope)] = scope
        f.out.global_writes[id(scope), name] = value

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_constant(self.value)


class SuperValue(Value):
    def __init__(self, cls: type, owner: Value) -> None:
        self.cls, self.owner = cls, owner

    def python_type(self) -> type:
        return super

    def _line(self) -> list[type]:
        line = self.owner.python_type().__mro__
        if isinstance(self.owner, ClassValue) and self.cls in self.owner.value.__mro__:
            line = self.owner.value.__mro__
        return list(line[line.index(self.cls) + 1 :])

    def get_attribute(self, f: Frame, name: str) -> Value:
        for c in self._line():
            if name not in c.__dict__:
                continue
            found = c.__dict__[name]
            source = f.class_source(c, c, name, found)
            if isinstance(self.owner, ClassValue) and self.cls in self.owner.value.__mro__:
                if isinstance(found, classmethod):
                    return MethodValue(f.wrap(found.__func__, source.attribute("__func__") if source else None), self.owner)  # fmt: skip
                return f.wrap(getattr(found, "__func__", found), source)
            return bind(f, found, self.owner, self.owner.python_type(), source)
        f.raise_(AttributeError, f"'super' object has no attribute '{name}'")

    def reconstruct(self, cg: Codegen) -> None:
        cg.start_call(super)
        cg.load_constant(self.cls)
        cg.load(self.owner)
        cg.end_call(2)


def function_of(f: Frame, real: types.FunctionType, source: Any) -> FunctionValue:
    """A function from outside, guarded by its code: what it closes over is guarded when it is read."""
    if source is not None:
        f.out.guards.add(source.attribute("__code__"), "same", real.__code__)
    cells = [f.out.cell_of(f, c, source.closure(i) if source else None, n) for i, (c, n) in enumerate(zip(real.__closure__ or (), real.__code__.co_freevars))]  # fmt: skip
    made = FunctionValue(
        real.__code__,
        real.__globals__,
        name=real.__qualname__,
        defaults=[],
        kwdefaults={},
        cells=cells,
        source=source,
        real=real,
    )
    return made


class Identity(Value):
    """id() of a value that captured code makes: good for comparing and as a key, but no number."""

    def __init__(self, of: Value) -> None:
        self.of = of

    def python_type(self) -> type:
        return int

    def hash_key(self, f: Frame) -> Any:
        return ("id", id(self.of))

    def reconstruct(self, cg: Any) -> None:
        cg.start_call(id)
        cg.load(self.of)
        cg.end_call(1)
