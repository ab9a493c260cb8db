"""Native calls of records: how the arguments of a handle reach those of the record, and bodies run on real tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tocha import _C
from tocha._library.arguments import bound
from tocha.ir import dtypes as dt
from tocha.ir import layout
from tocha.ir.devices import Device
from tocha.ir.dtypes import DType
from tocha.operators.facts import Facts, Memory, Scalar
from tocha.operators.function_schema import SCALAR_TYPES, Required, SchemaArgument, read_default
from tocha.operators.interpreter import Interpreter, converter, default_of
from tocha.operators.overloads import FACTORY_SLOTS, INPLACE, OUT, Overload, type_text
from tocha.operators.record import Operator
from tocha.operators.schema import Argument

AS_GIVEN, NUMBER, SOME_INTS, NOTHING, RESULT = range(5)  # as csrc/python/operator_handles.cpp has them
Row = tuple[str, int, int, bool, bool, bool, Any]


def slots(o: Operator, form: str) -> list[str]:
    """What the native form of a record takes, in order."""
    found = [a.name for a in o.schema.arguments]
    if form == INPLACE:
        return found
    if "factory" in o.tags:
        found += FACTORY_SLOTS
    return [*found, "out"] if "out" in o.variants else found


def paired(overload: Overload) -> dict[str, str]:
    """The record's argument for each of the handle's: of the same name, else the next that has no partner."""
    theirs = slots(overload.record, overload.form)
    mine = [a.name for a in overload.schema._arguments if not a.is_out]
    free = [a.name for a in overload.record.schema.arguments if a.name not in mine]
    found = {}
    for name in mine:
        if name in theirs:
            found[name] = name
        elif free:
            found[name] = free.pop(0)
    return found


def default_object(a: SchemaArgument) -> Any:
    """A default as Python passes it."""
    value = a.default_value
    if isinstance(value, int) and a.text.startswith("ScalarType"):
        found = SCALAR_TYPES[value]
        assert found is not None
        return getattr(_C, found.name)
    if isinstance(value, int) and a.text.startswith("MemoryFormat"):
        return getattr(_C, list(layout.MemoryFormat)[value].value)
    return value


def same_default(a: SchemaArgument, r: Argument) -> bool:
    if a.default is Required or r.default is None:
        return a.default is Required
    return read_default(r.default, type_text(r)) == a.default


def row(a: SchemaArgument, slot: int, r: Argument | None) -> Row:
    wants = AS_GIVEN
    other_type = False
    if r is not None:
        if r.type == "Operand" and a.text == "Scalar":
            wants = NUMBER
        elif r.type == "int[]?" and a.default == ():
            wants = SOME_INTS
        other_type = r.type in ("str", "str?") and not a.text.startswith("str")
    if slot < 0 or other_type:
        return a.name, -1, NOTHING, a.kwarg_only, a.default is Required, False, None
    given = r is not None and a.default is not Required and not same_default(a, r)
    value = default_object(a) if given else None
    if wants == SOME_INTS and value == []:
        value = None
    return a.name, slot, wants, a.kwarg_only, a.default is Required, given, value


def native_call(overload: Overload, owner: object) -> Any:
    """The native callable of a handle."""
    o = overload.record
    partners = paired(overload)
    places = slots(o, overload.form)
    known = {a.name: a for a in o.schema.arguments}
    results = [a for a in overload.schema._arguments if a.is_out] if overload.form == OUT else []
    rows: list[Row] = []
    for a in overload.schema._arguments:
        if a in results:
            many = len(results) > 1
            place = results.index(a) if many else places.index("out")
            rows.append((a.name, place, RESULT if many else AS_GIVEN, True, True, False, None))
            continue
        partner = partners.get(a.name)
        rows.append(row(a, places.index(partner) if partner else -1, known.get(partner or "")))
    listed = [r.text for r in overload.schema._returns] == ["Tensor[]"]
    return _C._record_call(overload.native_name, tuple(rows), len(results) if len(results) > 1 else 0, listed, owner)


# ---- bodies on real tensors ------------------------------------------------------------------------


class Held(Facts):
    """The facts of a tensor, with the tensor."""

    __slots__ = ("tensor",)

    def __init__(self, t: _C.Tensor):
        super().__init__(
            tuple(t.shape),
            dtype_facts(t.dtype),
            Device(t.device.type, t.device.index),
            t.stride(),
            t.storage_offset(),
            Memory(),
            t.is_conj(),
            t.is_neg(),
            t.requires_grad,
        )
        self.tensor = t


def dtype_facts(dtype: _C.dtype) -> DType:
    return dt.by_name(str(dtype).split(".")[1])


def held(value: Any) -> Any:
    """A native value as bodies take it."""
    if isinstance(value, _C.Tensor):
        return Held(value)
    if isinstance(value, _C.dtype):
        return dtype_facts(value)
    if isinstance(value, _C.device):
        return Device(value.type, value.index)
    if isinstance(value, _C.memory_format):
        return layout.MemoryFormat(str(value).split(".")[1])
    if isinstance(value, tuple):
        return tuple(map(held, value))
    return [held(v) for v in value] if isinstance(value, list) else value


def released(value: Any) -> Any:
    """The native value of what a body has."""
    if isinstance(value, Held):
        return value.tensor
    if isinstance(value, Facts):
        return value.number
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, DType):
        return getattr(_C, value.name)
    if isinstance(value, Device):
        return _C.device(str(value))
    if isinstance(value, layout.MemoryFormat):
        return getattr(_C, value.value)
    if isinstance(value, tuple):
        return tuple(map(released, value))
    return [released(v) for v in value] if isinstance(value, list) else value


class Eager(Interpreter):
    """Runs a body on real tensors: each operator that it calls is the native one."""

    def default_dtype(self) -> DType:
        return dtype_facts(_C.get_default_dtype())

    def computes(self, t: Facts) -> bool:
        return isinstance(t, Held) and not t.tensor.is_meta

    def elements(self, op: str, t: Facts) -> list[Any]:
        return t.tensor.tolist() if isinstance(t, Held) else super().elements(op, t)

    def call(self, o: Operator, arguments: dict[str, Any], inplace: bool = False) -> Any:
        target = arguments[o.schema.arguments[0].name] if inplace else None
        result = record_call(o, inplace)(*(released(v) for v in arguments.values()))
        if target is not None:
            target.__init__(target.tensor)
            return target
        return held(result)


def record_arguments(overload: Overload, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
    """The arguments of a handle's call in the order of the record's, as bodies take them."""
    found = bound(overload.schema, args, kwargs)
    if isinstance(found, str):
        raise RuntimeError(found)
    partners = paired(overload)
    given = {partners[k]: v for k, v in found.items() if k in partners}
    defaults = {
        partners[a.name]: default_object(a)
        for a in overload.schema._arguments
        if a.name in partners and a.has_default_value()
    }
    out = []
    for a in overload.record.schema.arguments:
        value = given.get(a.name, defaults.get(a.name))
        if value is None and not a.type.endswith("?"):  # not given, or said in another type than the record's
            out.append(converter(a)(default_of(a)))
        else:
            out.append(converter(a)(held(value)))
    return out


class RecordForm:
    """A record's own form, its arguments by position: what overrides see of the operators inside a body."""

    def __init__(self, o: Operator, inplace: bool):
        self.__name__ = f"{o.name}_.{o.schema.overload}".rstrip(".") if inplace else o.full_name
        rows = tuple((a.name, i, AS_GIVEN, False, False, False, None) for i, a in enumerate(o.schema.arguments))
        self._op = _C._record_call(self.__name__, rows, 0, False, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._op(*args, **kwargs)

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        given = ", ".join([*(type(a).__name__ for a in args), *kwargs])
        raise TypeError(f"[{self.__name__}] received an invalid combination of arguments - got ({given})")

    def __repr__(self) -> str:
        return f"<record {self.__name__}>"


@cache
def record_call(o: Operator, inplace: bool) -> RecordForm:
    return RecordForm(o, inplace)


@cache
def change_of_memory(o: Operator) -> Callable[..., Any]:
    """A record's form in place, which the version of the tensor does not count: whoever calls it does."""
    change = record_call(o, True)._op
    return lambda self, *rest: change(self.data, *rest)
