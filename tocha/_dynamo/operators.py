"""Operators between tracked values: what Python's operators, comparisons, `in`, sorting and formatting do with them."""

from __future__ import annotations

import functools
import operator
import types
from typing import TYPE_CHECKING, Any

from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.values.array import ArrayValue
from tocha._dynamo.values.base import NotConstant, Observed, Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import (
    Container,
    ListValue,
    NamedTupleValue,
    RangeValue,
    Sequence,
    SizeValue,
    TupleValue,
)
from tocha._dynamo.values.exceptions import ExceptionValue, native_class
from tocha._dynamo.values.functions import MethodValue
from tocha._dynamo.values.mappings import DictValue, DictView, SetValue
from tocha._dynamo.values.objects import MISSING, Identity, InstanceDict, find_in_class, in_python
from tocha._dynamo.values.subclasses import ContainerObject
from tocha._dynamo.values.symbol import SymbolValue, are_symbolic
from tocha._dynamo.values.tensor import TensorValue
from tocha._dynamo.values.weak import ProxyValue

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame

# symbol -> function, method, reflected method
BINARY = {
    "+": (operator.add, "__add__", "__radd__"),
    "-": (operator.sub, "__sub__", "__rsub__"),
    "*": (operator.mul, "__mul__", "__rmul__"),
    "/": (operator.truediv, "__truediv__", "__rtruediv__"),
    "//": (operator.floordiv, "__floordiv__", "__rfloordiv__"),
    "%": (operator.mod, "__mod__", "__rmod__"),
    "**": (operator.pow, "__pow__", "__rpow__"),
    "@": (operator.matmul, "__matmul__", "__rmatmul__"),
    "&": (operator.and_, "__and__", "__rand__"),
    "|": (operator.or_, "__or__", "__ror__"),
    "^": (operator.xor, "__xor__", "__rxor__"),
    "<<": (operator.lshift, "__lshift__", "__rlshift__"),
    ">>": (operator.rshift, "__rshift__", "__rrshift__"),
}
INPLACE = {
    "+": (operator.iadd, "__iadd__"),
    "-": (operator.isub, "__isub__"),
    "*": (operator.imul, "__imul__"),
    "/": (operator.itruediv, "__itruediv__"),
    "//": (operator.ifloordiv, "__ifloordiv__"),
    "%": (operator.imod, "__imod__"),
    "**": (operator.ipow, "__ipow__"),
    "@": (operator.imatmul, "__imatmul__"),
    "&": (operator.iand, "__iand__"),
    "|": (operator.ior, "__ior__"),
    "^": (operator.ixor, "__ixor__"),
    "<<": (operator.ilshift, "__ilshift__"),
    ">>": (operator.irshift, "__irshift__"),
}
COMPARE = {
    "<": (operator.lt, "__lt__", "__gt__"),
    "<=": (operator.le, "__le__", "__ge__"),
    "==": (operator.eq, "__eq__", "__eq__"),
    "!=": (operator.ne, "__ne__", "__ne__"),
    ">": (operator.gt, "__gt__", "__lt__"),
    ">=": (operator.ge, "__ge__", "__le__"),
}
UNARY = {
    "-": (operator.neg, "__neg__"),
    "+": (operator.pos, "__pos__"),
    "~": (operator.invert, "__invert__"),
}


MOST_ITEMS = 1_000_000  # of one container that captured code makes


def builtin_part(v: Value, *methods: str) -> Value:
    """Of an object whose class derives from a container: the container, where the class leaves these methods alone."""
    if isinstance(v, ContainerObject) and not any(
        isinstance(find_in_class(v.cls, m)[0], types.FunctionType) for m in methods
    ):
        return v.inner
    return v


def binary(f: Frame, symbol: str, a: Value, b: Value, inplace: bool = False) -> Value:
    if not inplace:
        a, b = builtin_part(a, *BINARY[symbol][1:]), builtin_part(b, *BINARY[symbol][1:])
    if isinstance(a, ArrayValue) or isinstance(b, ArrayValue):
        return _arrays(f, symbol, a, b, inplace)
    if inplace:
        done = _in_place(f, symbol, a, b)
        if done is not None:
            return done
    function, method, reflected = BINARY[symbol]
    if symbol == "%" and isinstance(a, Constant) and isinstance(a.value, str):
        return format_string(f, a.value, "__mod__", [b], {})
    if _own_way(f, a, method) or _own_way(f, b, reflected):
        return _by_methods(f, symbol, a, b, method, reflected)
    if _with_tensor(a, b) or are_symbolic(a, b):
        return f.out.call(f, "call_function", function, [a, b], {})
    if isinstance(a, Sequence) or isinstance(b, Sequence):
        done = _sequences(f, symbol, a, b)
        if done is not None:
            return done
    if a.is_constant() and b.is_constant() and not isinstance(a, Container):
        return f.fold(function, [a, b], {})
    return _by_methods(f, symbol, a, b, method, reflected)


def _own_way(f: Frame, v: Value, method: str) -> bool:
    """Is it a tensor whose class has an operator of its own?"""
    return isinstance(v, TensorValue) and v.special(f, method) is not None


def _arrays(f: Frame, symbol: str, a: Value, b: Value, inplace: bool) -> Value:
    from tocha._dynamo import arrays

    function = BINARY[symbol][0]
    return (
        arrays.in_place(f, function, a, b)
        if inplace and isinstance(a, ArrayValue)
        else arrays.binary(f, function, a, b)
    )


def _with_tensor(a: Value, b: Value) -> bool:
    """Two tensors, or one and a number."""
    both = (a, b)
    return any(isinstance(v, TensorValue) for v in both) and all(
        isinstance(v, (TensorValue, Constant, SymbolValue)) for v in both
    )


def _in_place(f: Frame, symbol: str, a: Value, b: Value) -> Value | None:
    function, method = INPLACE[symbol]
    if isinstance(a, TensorValue) and not _own_way(f, a, method):
        return f.out.call(f, "call_function", function, [a, b], {})
    if isinstance(a, Container):
        return a.call_method(f, method, [b], {}) if hasattr(a, f"m_{method}") else None
    if isinstance(a, (Constant, SymbolValue)) or find_in_class(a.python_type(), method)[0] is MISSING:
        return None
    done = a.call_method(f, method, [b], {})
    return None if _is_not_implemented(done) else done


def _kind(v: Sequence | RangeValue) -> type:
    """The builtin type whose sequences are joined and compared with it: tuples of all classes are tuples."""
    if isinstance(v, RangeValue):
        return range
    return v.type_ if isinstance(v, ListValue) else tuple


def _sequences(f: Frame, symbol: str, a: Value, b: Value) -> Value | None:
    if symbol == "+" and isinstance(a, Sequence) and isinstance(b, Sequence) and _kind(a) is _kind(b):  # fmt: skip
        like = b if isinstance(b, SizeValue) and type(a) is TupleValue else a
        return like.like([*a.items, *b.items])
    if symbol == "*":
        many, times = (a, b) if isinstance(a, Sequence) else (b, a)
        if isinstance(times, (Constant, SymbolValue)) and isinstance(many, Sequence):
            count = times.constant()
            if isinstance(count, int) and count * len(many.items) > MOST_ITEMS:
                raise Unsupported("steps", f"a sequence of {count * len(many.items)} items")
            return many.like(f.checked(operator.mul, many.items, count))
    return None


def _is_not_implemented(v: Value) -> bool:
    return isinstance(v, Constant) and v.value is NotImplemented


def _has(v: Value, method: str) -> bool:
    if isinstance(v, Container):
        return hasattr(v, f"m_{method}")
    return find_in_class(v.python_type(), method)[0] is not MISSING


def _method_of(f: Frame, constant: Constant, name: str, other: Value) -> Value:
    """An operator that the class of a constant has in Python, with something that is no constant."""
    method = f.class_function(constant.python_type(), name)
    assert method is not None
    return method.call(f, [constant, other], {})


def _by_methods(f: Frame, symbol: str, a: Value, b: Value, method: str, reflected: str) -> Value:
    """Python's order: the right operand first where its class is a subclass, then left, then right."""
    a, b = plain(a), plain(b)
    tries = [(a, method, b), (b, reflected, a)]
    ta, tb = a.python_type(), b.python_type()
    if ta is not tb and issubclass(tb, ta) and find_in_class(tb, reflected)[0] is not find_in_class(ta, reflected)[0]:
        tries.reverse()
    if ta is tb and (method == reflected or in_python(ta)):  # of one class, the right side is not asked
        tries = tries[:1]
    done: Value
    for left, name, right in tries:
        if _has(left, name):
            if isinstance(left, Constant):
                if not right.is_constant():
                    if not isinstance(find_in_class(left.python_type(), name)[0], types.FunctionType):
                        continue
                    done = _method_of(f, left, name, right)
                    if not _is_not_implemented(done):
                        return done
                    continue
                done = f.fold(getattr(left.value, name), [right], {})
            else:
                done = left.call_method(f, name, [right], {})
            if not _is_not_implemented(done):
                return done
    if symbol == "+" and isinstance(a, Sequence):
        bare = in_python(tb) or tb.__module__ == "builtins"  # types of C are named with their modules
        own, other = _kind(a).__name__, tb.__name__ if bare else f"{tb.__module__}.{tb.__name__}"
        f.raise_(TypeError, f'can only concatenate {own} (not "{other}") to {own}')
    f.raise_(TypeError, f"unsupported operand type(s) for {symbol}: '{ta.__name__}' and '{tb.__name__}'")


def unary(f: Frame, symbol: str, a: Value) -> Value:
    function, method = UNARY[symbol]
    if isinstance(a, (TensorValue, SymbolValue)) and not _own_way(f, a, method):
        return f.out.call(f, "call_function", function, [a], {})
    if isinstance(a, ArrayValue):
        from tocha._dynamo import arrays

        return arrays.unary(f, function, a)
    if a.is_constant():
        return f.fold(function, [a], {})
    if not a.has_method(method):
        f.raise_(TypeError, f"bad operand type for unary {symbol}: '{a.python_type().__name__}'")
    return a.call_method(f, method, [], {})


def plain(v: Value) -> Value:
    """A symbolic number as the constant that it is now."""
    return Constant(v.constant()) if isinstance(v, SymbolValue) else v


def is_(f: Frame, a: Value, b: Value) -> bool:
    """The operator `is`: of small ints that is a question of their values."""
    if a.python_type() is b.python_type() and isinstance(a, SymbolValue) | isinstance(b, SymbolValue):
        return a is b or is_same(plain(a), plain(b))
    return are_one(f, a, b)


def are_one(f: Frame, a: Value, b: Value) -> bool:
    """`is_same`, where the answer that they are two decides something."""
    one = is_same(a, b)
    if not one:
        f.out.guard_apart(a, b)
    return one


def is_same(a: Value, b: Value) -> bool:
    if a is b:
        return True
    if isinstance(a, SymbolValue) or isinstance(b, SymbolValue):
        return False  # equal perhaps: whoever wants to know that compares
    if isinstance(a, Constant) and isinstance(b, Constant):
        return a.value is b.value or (
            type(a.value) is type(b.value) and isinstance(a.value, (int, str)) and a.value == b.value
        )
    ca, cb = _identity(a), _identity(b)
    return ca is not MISSING and ca is cb


def _identity(v: Value) -> Any:
    """The very object, where it is known."""
    real = getattr(v, "real", None)
    if real is not None and not getattr(v, "new", False):
        return real
    return getattr(v, "value", MISSING)


def compare(f: Frame, symbol: str, a: Value, b: Value) -> Value:
    function, method, reflected = COMPARE[symbol]
    a, b = (v.referent.realize() if isinstance(v, ProxyValue) else v for v in (a, b))
    if are_symbolic(a, b):
        return f.out.call(f, "call_function", function, [a, b], {})
    if isinstance(a, ArrayValue) or isinstance(b, ArrayValue):
        from tocha._dynamo import arrays

        return arrays.binary(f, function, a, b)
    if not is_same(a, b):
        a, b = builtin_part(a, method, reflected), builtin_part(b, method, reflected)
    if _own_way(f, a, method) or _own_way(f, b, reflected):
        return _compare_objects(f, symbol, a, b, method, reflected)
    if _with_tensor(a, b):
        if symbol in ("==", "!=") and any(isinstance(v, Constant) and v.value is None for v in (a, b)):
            return Constant(symbol == "!=")
        return f.out.call(f, "call_function", function, [a, b], {})
    if a.is_constant() and b.is_constant():
        return f.fold(function, [a, b], {})
    if isinstance(a, Identity) or isinstance(b, Identity):
        if symbol not in ("==", "!="):
            a.refuse("operator", f"id() {symbol}")
        return Constant((isinstance(a, Identity) and isinstance(b, Identity) and a.of is b.of) == (symbol == "=="))
    if isinstance(a, SymbolValue) or isinstance(b, SymbolValue):
        a, b = plain(a), plain(b)
        return compare(f, symbol, a, b)
    if isinstance(a, InstanceDict):
        a = a.as_dict(f)
    if isinstance(b, InstanceDict):
        b = b.as_dict(f)
    if isinstance(a, (Sequence, RangeValue)) and isinstance(b, (Sequence, RangeValue)):
        if isinstance(a, NamedTupleValue) and find_in_class(a.cls, method)[1] not in (tuple, object):
            return a.call_method(f, method, [b], {})
        return _compare_sequences(f, symbol, a, b)
    for d in (a, b):
        if isinstance(d, DictValue):
            d.settle_keys(f)
    if isinstance(a, DictValue) and isinstance(b, DictValue) and symbol in ("==", "!="):
        same = len(a.entries) == len(b.entries) and all(k in b.entries and f.same_or_equal(v, b.entries[k][1]) for k, (_, v) in a.entries.items())  # fmt: skip
        return Constant(same == (symbol == "=="))
    if isinstance(a, DictView) and isinstance(b, (DictView, SetValue)):
        a = SetValue.of(f, a.items())
        b = SetValue.of(f, b.unpack(f))
    if isinstance(a, SetValue) and isinstance(b, SetValue) and symbol in ("==", "!="):
        return Constant((a.entries.keys() == b.entries.keys()) == (symbol == "=="))
    return _compare_objects(f, symbol, a, b, method, reflected)


def _compare_sequences(f: Frame, symbol: str, a: Any, b: Any) -> Value:
    if _kind(a) is not _kind(b):
        if symbol in ("==", "!="):
            return Constant(symbol == "!=")
        f.raise_(TypeError, f"'{symbol}' not supported between instances of '{a.python_type().__name__}' and '{b.python_type().__name__}'")  # fmt: skip
    left, right = a.unpack(f), b.unpack(f)
    if symbol in ("==", "!=") and len(left) != len(right):
        return Constant(symbol == "!=")
    for x, y in zip(left, right):
        if not f.same_or_equal(x, y):
            if symbol in ("==", "!="):
                return Constant(symbol == "!=")
            return compare(f, symbol, x.realize(), y.realize())
    return Constant(COMPARE[symbol][0](len(left), len(right)))


def _compare_objects(f: Frame, symbol: str, a: Value, b: Value, method: str, reflected: str) -> Value:
    tries = [(a, method, b), (b, reflected, a)]
    if a.python_type() is not b.python_type() and issubclass(b.python_type(), a.python_type()):
        tries.reverse()
    for left, name, right in tries:
        found = find_in_class(left.python_type(), name)[0]
        if isinstance(left, Constant) and isinstance(found, types.FunctionType):
            done = _method_of(f, left, name, right)
            if not _is_not_implemented(done):
                return done
        elif callable(found) and found is not getattr(object, name) and not isinstance(left, (Constant, Sequence)):
            if isinstance(left, Container) and not hasattr(left, f"m_{name}"):
                continue
            if not hasattr(found, "__code__") and not isinstance(left, Container):
                continue
            done = left.call_method(f, name, [right], {})
            if not _is_not_implemented(done):
                return done
        elif name == "__ne__" and find_in_class(left.python_type(), "__eq__")[0] is not object.__eq__ and not isinstance(left, (Constant, Sequence, Container)):  # fmt: skip
            equal = find_in_class(left.python_type(), "__eq__")[0]
            if hasattr(equal, "__code__"):
                done = left.call_method(f, "__eq__", [right], {})
                if not _is_not_implemented(done):
                    return Constant(not done.truth(f))
    if symbol in ("==", "!=") and isinstance(a, MethodValue) and isinstance(b, MethodValue):
        same = are_one(f, a.owner.realize(), b.owner.realize()) and f.same_or_equal(a.function, b.function)
        return Constant(same == (symbol == "=="))
    if symbol in ("==", "!="):
        return Constant(are_one(f, a, b) == (symbol == "=="))
    for number in (a, b):
        if number.python_type() is int and not isinstance(number, Constant):
            number.refuse("builtin", f"{symbol} of a number that is not known")  # an id()
    f.raise_(TypeError, f"'{symbol}' not supported between instances of '{a.python_type().__name__}' and '{b.python_type().__name__}'")  # fmt: skip


def contains(f: Frame, container: Value, item: Value) -> bool:
    container = builtin_part(container, "__contains__")
    if isinstance(container, DictValue):
        return container.has(f, item)
    if isinstance(container, SetValue):
        if isinstance(item, SetValue) and item.cls is set:  # a frozenset would be found
            item = SetValue(item.entries, frozenset)
        container.guard_item(f, item)
        return item.hash_key(f) in container.entries
    if isinstance(container, DictView) and container.what == "keys":
        return item.hash_key(f) in container.owner.entries
    if container.is_constant() and item.is_constant():
        return f.fold(operator.contains, [container, item], {}).value
    if isinstance(container, Container):
        return any(f.same_or_equal(i, item) for i in container.unpack(f))
    if container.has_method("__contains__"):
        return container.call_method(f, "__contains__", [item], {}).truth(f)
    iterator = container.iterate(f)
    while True:
        try:
            found = iterator.next(f)
        except Observed as stop:
            if stop.value.is_a(StopIteration):
                return False
            raise
        if f.same_or_equal(found, item):
            return True


def sort(f: Frame, items: list[Value], key: Value | None, reverse: bool) -> list[Value]:
    if key is not None and isinstance(key, Constant) and key.value is None:
        key = None
    items = [i.realize() for i in items]
    keys = [key.call(f, [i], {}) if key else i for i in items]

    def order(a: int, b: int) -> int:
        if compare(f, "<", keys[a], keys[b]).truth(f):
            return -1
        return 1 if compare(f, "<", keys[b], keys[a]).truth(f) else 0

    return [items[i] for i in sorted(range(len(items)), key=functools.cmp_to_key(order), reverse=reverse)]


class _Shown:
    """Stands for a tracked value in a formatting call."""

    def __init__(self, f: Frame, value: Value) -> None:
        self.f, self.value = f, value

    def __str__(self) -> str:
        return to_text(self.f, self.value, "s")

    def __repr__(self) -> str:
        return to_text(self.f, self.value, "r")

    def __format__(self, spec: str) -> str:
        return format_value(self.f, self.value, spec)

    def __getattr__(self, name: str) -> Any:
        return plain_or_shown(self.f, self.value.get_attribute(self.f, name).realize())

    def __getitem__(self, key: Any) -> Any:
        return plain_or_shown(self.f, self.value.item(self.f, Constant(key)).realize())


def plain_or_shown(f: Frame, v: Value) -> Any:
    try:
        return v.constant()
    except NotConstant:
        return _Shown(f, v)


def format_string(f: Frame, text: str, how: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    named = {k: plain_or_shown(f, v) for k, v in kwargs.items()}
    if how == "format":
        return f.fold_real(text.format, [plain_or_shown(f, a) for a in args], named)
    right = args[0]
    if isinstance(right, TupleValue):
        return f.fold_real(operator.mod, [text, tuple(plain_or_shown(f, i.realize()) for i in right.items)], {})
    return f.fold_real(operator.mod, [text, plain_or_shown(f, right)], {})


def to_text(f: Frame, v: Value, how: str) -> str:
    """str(v) or repr(v)."""
    v = v.realize()
    name = "__str__" if how == "s" else "__repr__"
    try:
        return (str if how == "s" else repr)(v.constant())
    except NotConstant:
        pass
    if isinstance(v, TensorValue):
        raise Unsupported("tensor_to_python", "a tensor as text")
    v = builtin_part(v, "__str__", "__repr__")
    if isinstance(v, (Sequence, DictValue, SetValue)) and not isinstance(v, NamedTupleValue):
        return _container_text(f, v)
    for found in (name, "__repr__"):
        if hasattr(find_in_class(v.python_type(), found)[0], "__code__"):
            said = v.call_method(f, found, [], {}).constant()
            if not isinstance(said, str):
                f.raise_(TypeError, f"{found} returned non-string (type {type(said).__name__})")
            return said
    if isinstance(v, ExceptionValue):
        return exception_text(f, v, name)
    raise Unsupported("builtin", f"{name} of {v.describe()}")


def exception_text(f: Frame, v: ExceptionValue, name: str) -> str:
    """What the native class prints."""
    native = native_class(v.cls)
    if name == "__repr__" and native.__repr__ is BaseException.__repr__:
        return f"{v.cls.__name__}({', '.join(to_text(f, a, 'r') for a in v.args)})"
    by_args = native.__str__ is BaseException.__str__ or issubclass(native, (AttributeError, NameError))
    if name == "__str__" and by_args:
        return "" if not v.args else to_text(f, v.args[0], "s") if len(v.args) == 1 else to_text(f, TupleValue(v.args), "r")  # fmt: skip
    if name == "__str__" and native is KeyError and len(v.args) == 1:
        return to_text(f, v.args[0], "r")
    stand = v.stand(f) if v.new else None
    if stand is None or (stand.values and not (name == "__str__" and issubclass(native, BaseExceptionGroup))) or v.written.keys() - {"__context__", "__cause__", "__suppress_context__", "__notes__"}:  # fmt: skip
        raise Unsupported("builtin", f"{name} of {v.describe()}")
    return getattr(native, name)(stand.made)


def _container_text(f: Frame, v: Any) -> str:
    if isinstance(v, DictValue):
        inside = ", ".join(f"{to_text(f, k, 'r')}: {to_text(f, x, 'r')}" for k, x in v.entries.values())
        if v.cls is not dict:
            raise Unsupported("builtin", f"repr of a {v.cls.__name__}")
        return "{" + inside + "}"
    items = [to_text(f, i, "r") for i in v.unpack(f)]
    if type(v) is ListValue:
        return "[" + ", ".join(items) + "]"
    if type(v) is TupleValue:
        return "(" + ", ".join(items) + ("," if len(items) == 1 else "") + ")"
    raise Unsupported("builtin", f"repr of a {v.python_type().__name__}")


def format_value(f: Frame, v: Value, spec: str) -> str:
    try:
        return format(v.constant(), spec)
    except NotConstant:
        pass
    if hasattr(find_in_class(v.python_type(), "__format__")[0], "__code__"):
        said = v.call_method(f, "__format__", [Constant(spec)], {}).constant()
        if not isinstance(said, str):
            f.raise_(TypeError, f"__format__ must return a str, not {type(said).__name__}")
        return said
    if spec:
        raise Unsupported("builtin", f"format of {v.describe()}")
    return to_text(f, v, "s")
