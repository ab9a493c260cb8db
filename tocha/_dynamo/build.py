"""From a real object to a tracked value, with the guards that make it hold."""

from __future__ import annotations

import collections
import contextvars
import enum
import functools
import threading
import types
import weakref
from typing import TYPE_CHECKING, Any

import tocha
from tocha import _C
from tocha._core.library_name import ours
from tocha._dynamo import leaves, native_calls
from tocha._dynamo.guards import own_order
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.source import Source
from tocha._dynamo.values import cached, registries
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant, is_plain
from tocha._dynamo.values.containers import (
    DequeValue,
    ListValue,
    NamedTupleValue,
    RangeValue,
    SizeValue,
    SliceValue,
    TupleValue,
)
from tocha._dynamo.values.context_variables import ContextVariable
from tocha._dynamo.values.exceptions import ExceptionValue
from tocha._dynamo.values.functions import BuiltinValue, FunctionValue, MethodValue, PartialValue, WholeFunction
from tocha._dynamo.values.lazy import Lazy
from tocha._dynamo.values.mappings import DictValue, SetValue
from tocha._dynamo.values.native_method import NativeMethod
from tocha._dynamo.values.objects import ClassValue, ModuleValue, ObjectValue, function_of, in_python
from tocha._dynamo.values.subclasses import ContainerObject, base_of, empty, is_tuple_class
from tocha._dynamo.values.weak import ProxyValue, WeakReference, behind, referent_of
from tocha.nn import _Module as Module
from tocha.utils._pytree_nodes import node_of_type

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame

_NATIVE_CALLABLES = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.ClassMethodDescriptorType,
)


def wrap(f: Frame, real: Any, source: Source | None) -> Value:
    """Tracks an object. Without a source it is one that cannot change: reached from code or a class."""
    if type(real) in weakref.ProxyTypes:  # isinstance() would ask its object, which may be gone
        return f.out.memo.setdefault(id(real), (real, _weak_proxy(f, real, source)))[1]
    if type(real) in (int, float) and source is not None:
        symbol = f.out.number_input(real, source)
        if symbol is not None:
            return symbol
    if is_plain(real):
        if source is not None:
            test = "same" if isinstance(real, (enum.Enum, bool, type(None))) or real is Ellipsis else "constant"
            f.out.guards.add(source, test, real)
        return Constant(real)
    known = f.out.memo.get(id(real))
    if known is not None and known[0] is real:
        if source is not None:
            _guard_met_before(f, real, known[1], source)
        return known[1]
    value = _make(f, real, source)
    f.out.memo[id(real)] = (real, value)
    return value


def _guard_met_before(f: Frame, real: Any, value: Value, source: Source) -> None:
    """An object that was met on another way. One met without a way (a builtin, a key of a dict) is known by itself."""
    if value.source is not None:
        f.out.guard_alias(value, source)
    elif isinstance(value, ObjectValue | FunctionValue):
        f.out.guards.add(source.call(id), "constant", id(real))  # which does not keep it alive
    else:
        _same(f, real, source)


def _make(f: Frame, real: Any, source: Source | None) -> Value:
    if isinstance(real, tocha.Tensor):
        return f.out.input(f, real, source or Source("object", real, None, "tensor"))
    if type(real).__module__.startswith("numpy"):
        return _of_numpy(f, real, source)
    exact = _EXACT.get(type(real))
    if exact is not None:
        return exact(f, real, source)
    if isinstance(real, _KINDS):
        for kinds, make in _MAKERS:
            if isinstance(real, kinds):
                return make(f, real, source)
    return _object(f, real, source)


def is_numpy_function(real: Any) -> bool:
    return (getattr(real, "__module__", None) or "").startswith("numpy")


def _of_numpy(f: Frame, real: Any, source: Source | None) -> Value:
    from tocha._dynamo import arrays

    return arrays.wrap(f, real, source)


def _guard_type(f: Frame, real: Any, source: Source | None) -> None:
    if source is not None:
        f.out.guards.add(source, "type", type(real))


def _same(f: Frame, real: Any, source: Source | None) -> None:
    if source is not None:
        f.out.guards.add(source, "same", real)


def _sequence(f: Frame, real: Any, source: Source | None) -> Value:
    if isinstance(real, list) and type(real) is not list:
        return _subclass(f, real, source)
    _guard_type(f, real, source)
    step = None
    if source is not None:
        f.out.guards.add(source, "length", len(real))
        step = source.list_item if isinstance(real, list) else source.tuple_item
    items: list[Value] = [Lazy(f, r, step(i) if step else None) for i, r in enumerate(real)]
    if type(real) is list:
        return ListValue(items, source)
    if type(real) is tuple:
        return TupleValue(items, source)
    if isinstance(real, tocha.Size):
        return SizeValue(items, source)
    if is_tuple_class(type(real)) and not getattr(real, "__dict__", None):
        return NamedTupleValue(type(real), items, source)
    raise Unsupported("value", f"an object of type {type(real).__name__}, a subclass of {'list' if isinstance(real, list) else 'tuple'}")  # fmt: skip


def _deque(f: Frame, real: Any, source: Source | None) -> Value:
    _guard_type(f, real, source)
    if source is not None:
        f.out.guards.add(source, "length", len(real))
        f.out.guards.add(source.attribute("maxlen"), "constant", real.maxlen)
    return DequeValue([Lazy(f, r, source.item(i) if source else None) for i, r in enumerate(real)], real.maxlen, source)


def _dict(f: Frame, real: Any, source: Source | None) -> Value:
    if type(real) not in (dict, collections.OrderedDict, collections.defaultdict, types.MappingProxyType):
        return _subclass(f, real, source)
    _guard_type(f, real, source)
    value = DictValue({}, type(real), source)
    value.all_keys = tuple(real) if source is not None else None
    f.out.memo[id(real)] = (real, value)
    place = value.place
    for i, (k, v) in enumerate(real.items()):
        key = wrap(f, k, place.dict_key(i) if place and isinstance(k, (tocha.Tensor, weakref.ref)) else None)
        value.put(f, key, Lazy(f, v, place.dict_item(k) if place else None))
    if isinstance(real, collections.defaultdict) and real.default_factory is not None:
        value.factory = wrap(f, real.default_factory, source.attribute("default_factory") if source else None)
    return value


def _subclass(f: Frame, real: Any, source: Source | None) -> Value:
    """An object of a class derived from list, dict or set."""
    _guard_type(f, real, source)
    inner = empty(base_of(type(real)))  # type: ignore[arg-type]
    value = ContainerObject(type(real), inner, real, source)
    f.out.memo[id(real)] = (real, value)
    if isinstance(inner, DictValue):
        keys = tuple(own_order(real) if isinstance(real, collections.OrderedDict) else dict.keys(real))
        if source is not None:
            f.out.guards.add_keys(source, keys, type(real))
        step = source.items_of(dict, real) if source else None
        for k in keys:
            inner.put(f, wrap(f, k, None), Lazy(f, dict.__getitem__(real, k), step(k) if step else None))
    elif isinstance(inner, ListValue) and isinstance(real, list):
        if source is not None:
            f.out.guards.add(source, "length", list.__len__(real))
        step = source.items_of(list, real) if source else None
        inner.items[:] = [Lazy(f, v, step(i) if step else None) for i, v in enumerate(list.__iter__(real))]
    else:
        raise Unsupported("value", f"an object of type {type(real).__name__}")
    return value


def _set(f: Frame, real: Any, source: Source | None) -> Value:
    if type(real) not in (set, frozenset):
        return _subclass(f, real, source)
    _guard_type(f, real, source)
    places: list[Source | None] = [None] * len(real)
    if source is not None and not all(is_plain(r) or isinstance(r, type) for r in real):
        f.out.guards.add(source.call(identities), "constant", identities(real))
        places = [source.call(tuple).tuple_item(i) for i in range(len(real))]
    elif source is not None:
        f.out.guards.add(source, "constant", type(real)(real))
    made = SetValue.of(f, [wrap(f, r, place) for r, place in zip(real, places)], type(real))
    made.source, made.as_found = source, True
    made.order = tuple(real) if places[:1] == [None] else None
    return made


def identities(objects: Any) -> tuple[int, ...]:
    """Which objects a set holds, or weak references in it are to, in its order: guards that do not keep them alive."""
    return tuple(id(o() if isinstance(o, weakref.ref) else o) for o in objects)


def _range(f: Frame, real: Any, source: Source | None) -> Value:
    if source is not None:
        f.out.guards.add(source, "constant", real)
    return RangeValue(real, source)


def _slice(f: Frame, real: Any, source: Source | None) -> Value:
    _guard_type(f, real, source)
    parts = ("start", "stop", "step")
    return SliceValue([wrap(f, getattr(real, p), source.attribute(p) if source else None) for p in parts], source)


def _function(f: Frame, real: Any, source: Source | None) -> Value:
    native_calls.meet(real)
    if is_numpy_function(real):
        return _of_numpy(f, real, source)
    if id(real) in leaves.KNOWN or leaves.is_leaf(real):
        _same(f, real, source)
        return BuiltinValue(real, source)
    return function_of(f, real, source)


def _method(f: Frame, real: Any, source: Source | None) -> Value:
    _guard_type(f, real, source)
    owner = wrap(f, real.__self__, source.attribute("__self__") if source else None)
    return MethodValue(wrap(f, real.__func__, source.attribute("__func__") if source else None), owner, source)


def _class(f: Frame, real: Any, source: Source | None) -> Value:
    _same(f, real, source)
    return ClassValue(real, source)


def _module(f: Frame, real: Any, source: Source | None) -> Value:
    _same(f, real, source)
    return ModuleValue(real, Source("object", real, None, real.__name__))


def _native(f: Frame, real: Any, source: Source | None) -> Value:
    owner = getattr(real, "__self__", None)
    if (
        isinstance(real, types.BuiltinFunctionType)
        and owner is not None
        and not isinstance(owner, (types.ModuleType, type))
        and hasattr(type(owner), real.__name__)  # functions of bindings keep their own record there
    ):
        return _native_method(f, real, owner, source)
    if is_numpy_function(real):
        return _of_numpy(f, real, source)
    _same(f, real, source)
    return BuiltinValue(real, source)


def _native_method(f: Frame, real: Any, owner: Any, source: Source | None) -> Value:
    """A native method with its object: [].append."""
    _guard_type(f, real, source)
    inner = wrap(f, owner, source.attribute("__self__") if source else None)
    if source is not None:
        f.out.guards.add(source.attribute("__name__"), "constant", real.__name__)
    return NativeMethod(inner, real.__name__)


def _partial(f: Frame, real: Any, source: Source | None) -> Value:
    _guard_type(f, real, source)
    function = wrap(f, real.func, source.attribute("func") if source else None)
    args = [wrap(f, a, source.attribute("args").tuple_item(i) if source else None) for i, a in enumerate(real.args)]
    if source is not None:
        f.out.guards.add(source.attribute("args"), "length", len(real.args))
        f.out.guards.add(source.attribute("keywords"), "keys", tuple(real.keywords))
    kwargs = {
        k: wrap(f, v, source.attribute("keywords").dict_item(k) if source else None) for k, v in real.keywords.items()
    }
    return PartialValue(function, args, kwargs, source, real)


def _compiled(f: Frame, real: Any, source: Source | None) -> Value:
    """What tocha.compile returned: captured code calls the function itself. What disable returned is not captured."""
    _guard_type(f, real, source)
    if real._callback is None:
        _same(f, real, source)
        return BuiltinValue(real, source)
    function = wrap(f, real._function, source.attribute("_function") if source else None)
    return WholeFunction(function, source) if getattr(real._callback, "fullgraph", False) else function


def _exception(f: Frame, real: Any, source: Source | None) -> Value:
    _guard_type(f, real, source)
    args = [wrap(f, a, source.attribute("args").tuple_item(i) if source else None) for i, a in enumerate(real.args)]
    if source is None:
        return ExceptionValue(type(real), args)
    f.out.guards.add(source.attribute("args"), "length", len(real.args))
    return ExceptionValue(type(real), args, real, source)


def _weak_reference(f: Frame, real: Any, source: Source | None) -> Value:
    _guard_type(f, real, source)
    referent = wrap(f, real(), source.call(referent_of) if source is not None else None)
    return WeakReference(referent, None, type(real), source)


def _weak_proxy(f: Frame, real: Any, source: Source | None) -> Value:
    try:
        referent = behind(real)
    except ReferenceError as error:
        raise Unsupported("value", f"a weakref.proxy: {error}") from None
    _guard_type(f, real, source)
    return ProxyValue(wrap(f, referent, source.call(behind) if source is not None else None), type(real), source)


def _context_variable(f: Frame, real: Any, source: Source | None) -> Value:
    _same(f, real, source)
    return ContextVariable(real, Source("object", real, None, real.name))


def _object(f: Frame, real: Any, source: Source | None) -> Value:
    cls = type(real)
    if isinstance(real, (types.GeneratorType, types.CoroutineType)) or (
        hasattr(cls, "__next__") and not in_python(cls)
    ):
        raise Unsupported("native_iterator", f"a {cls.__name__} from outside")
    if leaves.is_operator(real):
        _same(f, real, source)
        return BuiltinValue(real, source)
    if not in_python(cls) and cls not in (types.SimpleNamespace, threading.local):
        if cls in leaves.PURE_CLASSES:
            if source is not None:
                f.out.guards.add(source, "constant", real)
            return BuiltinValue(real, source)
        if cls is object:
            _same(f, real, source)
            return ObjectValue(cls, real, source)
        if isinstance(real, (types.CodeType, types.UnionType, types.GenericAlias)) or ours(cls.__module__) in (
            "tocha",
            "tocha._C",
            "typing",
        ):
            _same(f, real, source)
            return BuiltinValue(real, source)
        raise Unsupported("value", f"an object of type {cls.__module__}.{cls.__qualname__}")
    if isinstance(real, (int, float, str, bytes)) and _is_its_value(real):
        _guard_type(f, real, source)
        if source is not None:
            f.out.guards.add(source, "constant", real)
        return Constant(real)
    if isinstance(real, (int, float, str, bytes, list, dict, tuple, set)):
        raise Unsupported("value", f"an object of type {cls.__name__}, a subclass of a builtin type")
    _guard_type(f, real, source)
    if source is not None and isinstance(real, Module):
        f.out.guards.modules[source.identity] = cls
    return ObjectValue(cls, real, source)


def _is_its_value(real: Any) -> bool:
    """Whether an object of a subclass of a builtin type keeps nothing besides, and has the type's own operators, or the library's."""
    added = [c for c in type(real).__mro__ if in_python(c) and not ours(c.__module__).startswith("tocha.")]
    special = any(n.startswith("__") and isinstance(v, types.FunctionType) for c in added for n, v in vars(c).items())
    return not special and not getattr(real, "__dict__", None)


_MAKERS: list[tuple[Any, Any]] = [
    (_C._capture.Wrapper, _compiled),
    (types.FunctionType, _function),
    (types.MethodType, _method),
    (type, _class),
    (types.ModuleType, _module),
    ((list, tuple), _sequence),
    (collections.deque, _deque),
    (type(node_of_type), registries.wrap),
    ((dict, types.MappingProxyType), _dict),
    ((set, frozenset), _set),
    (range, _range),
    (slice, _slice),
    (functools.partial, _partial),
    (functools._lru_cache_wrapper, cached.wrap),
    (BaseException, _exception),
    (weakref.ref, _weak_reference),
    (contextvars.ContextVar, _context_variable),
    (_NATIVE_CALLABLES, _native),
]
_KINDS = tuple(kinds for kinds, _ in _MAKERS)  # isinstance takes tuples of tuples
_EXACT = {kind: make for kinds, make in _MAKERS for kind in (kinds if isinstance(kinds, tuple) else (kinds,))}
