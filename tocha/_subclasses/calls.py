"""How a call on fake tensors travels: from the objects that the binding matched to a record's form, through the interpreter
of records, to fake results.

The binding (csrc/python/fakes.h) asks `make_form` once for each form of a record and then calls what it got with the objects
in the order of the parameters; NotImplemented stands for those that were not given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tocha import _C
from tocha._library import dispatch
from tocha._subclasses import history
from tocha._subclasses.convert import conversion, may_be_symbol, native_device, native_dtype
from tocha._subclasses.errors import DataDependentOutputException
from tocha._subclasses.fake import CONSTANT_NUMEL_LIMIT, FakeTensor, outside, refresh, version_of
from tocha._subclasses.reader import FakeInterpreter, Recorder, active_mode, operand, overload_of
from tocha.ir.devices import Device
from tocha.ir.dtypes import DType
from tocha.ir.sym_types import Symbolic
from tocha.operators.facts import Facts, Memory, Scalar
from tocha.operators.families import load
from tocha.operators.interpreter import DataDependent, default_of
from tocha.operators.record import COMMUTATIVE, OPERATORS, Operator
from tocha.operators.schema import Argument

Tensor = _C.Tensor
ABSENT = NotImplemented
NUMBERS = (int, float, complex)  # and bools; symbols are none of them
CPU = _C.device("cpu")  # where elements are kept, whatever the device of the fake
UNKNOWN = frozenset({"nondeterministic_seeded", "uninitialized"})  # of operators: nobody can say what comes out
TENSOR_TYPES = ("Tensor", "Operand", "Tensor?", "Tensor[]", "Tensor?[]")


def record_named(name: str) -> tuple[Operator, bool]:
    """The record of a form, and whether it is the in-place one."""
    load()
    found = OPERATORS.get(name)
    if found is not None:
        return found, False
    base, _, overload = name.partition(".")
    return OPERATORS[f"{base.removesuffix('_')}.{overload}".rstrip(".")], True


above: list[Callable[[Any, tuple], Any]] = []  # those who see calls above autograd, before anything is taken apart


class Form:
    """One way to call a record: which parameter its arguments come from, and what else the call takes."""

    def __init__(self, record: str, names: tuple[str, ...]):
        self.operator, self.inplace = o, inplace = record_named(record)
        places = {n: i for i, n in enumerate(names)}
        first = o.schema.arguments[0].name if o.schema.arguments else ""
        if first not in places and "input" in places:
            places[first] = places["input"]
        self.arguments: list[tuple[Argument, int, Callable | None]] = [
            (a, places.get(a.name, -1), None if a.type in TENSOR_TYPES else conversion(a, may_be_symbol(o, a)))
            for a in o.schema.arguments
        ]
        known = {a.name for a in o.schema.arguments}
        self.out = places.get("out", -1) if "out" not in known else -1
        self.requires_grad = places.get("requires_grad", -1) if "requires_grad" not in known else -1
        self.writes = inplace or o.name.endswith("_") or any(a.alias.endswith("!") for a in o.schema.arguments)
        self.tensors = [i for a, i, _ in self.arguments if a.type in TENSOR_TYPES and i >= 0]
        self.tensors += [self.out] if self.out >= 0 else []
        returns = o.schema.returns
        named = len(returns) > 1 and all(r.name for r in returns)
        self.fields = getattr(_C.return_types, o.name, None) if named else None

    def call(self, *slots: Any) -> Any:
        for taker in reversed(above):
            taken = taker(self, slots)
            if taken is not NotImplemented:
                return taken
        given = self.tensors_given(slots)
        mode = mode_of(given)
        if any([type(t) is not FakeTensor for t in given]):
            slots = mode.with_fakes(self, slots, overload_of(self.operator))
            given = self.tensors_given(slots)
        wants = _C.is_grad_enabled() and any([t.requires_grad for t in given])
        reader = Recorder(mode, given) if wants or dispatch.modes.stack else mode.reader
        try:
            return self.run(mode, reader, slots, given)
        except DataDependent as e:
            raise DataDependentOutputException(overload_of(self.operator)) from e

    def tensors_given(self, slots: tuple) -> list[Any]:
        found: list[Any] = []
        for i in self.tensors:
            v = slots[i]
            if type(v) is FakeTensor:
                found.append(v)
            elif v is not None and v is not ABSENT:
                found += tensors_of(v)
        return found

    def run(self, mode: Any, reader: FakeInterpreter, slots: tuple, given: list[FakeTensor]) -> Any:
        o = self.operator
        arguments = self.converted(reader, slots)
        outs = slots[self.out] if self.out >= 0 else None
        if outs is ABSENT or outs is None:
            outs = None
        before = (
            [(t._facts.memory, t._facts.memory.version, version_of(t)) for t in given]
            if self.writes or outs is not None
            else None
        )
        known = [t.constant for t in given] if given and given[0]._constant is not None else [None]
        if not given and any([isinstance(slots[i], NUMBERS) for i in self.tensors]):
            known = []  # numbers in the places of tensors, as in div(64, 16, rounding_mode="trunc")
        if outs is not None:
            several = outs if isinstance(outs, tuple | list) else (outs,)
            history.refuse_out(o, given)
            if isinstance(reader, Recorder) and dispatch.modes.stack and not _C._dispatch_disabled():
                result = reader.into_shown(o, arguments, list(several))
            else:
                result = mode.reader.into(o, arguments, [t._facts for t in several])
        else:
            result = reader.call(o, arguments, self.inplace)
        if before is not None:
            settle_writes(given, before)
            self.note_writes(arguments, {id(m): version for m, version, _ in before})
        shown = self.shown(reader, result, given)
        if self.fields is not None:
            shown = self.fields(shown)
        if self.operator.kind == "foreach" and self.writes:
            shown = slots[self.arguments[0][1]]
        if outs is None and None not in known:
            self.fold(mode, slots, given, known, shown)
        if self.requires_grad >= 0 and slots[self.requires_grad] is True:
            shown.requires_grad_(True)
        return shown

    def note_writes(self, arguments: dict[str, Any], before: dict[int, int]) -> None:
        """What the schema says is written to has changed, also where the operator is written in terms of one that does not say so;
        versions do not count that, here as in eager mode."""
        for a in self.operator.schema.arguments:
            f = arguments[a.name] if a.alias.endswith("!") else None
            if isinstance(f, Facts) and before.get(id(f.memory)) == f.memory.version:
                f.memory.version += 1
                f.memory.counted += 1

    def converted(self, reader: FakeInterpreter, slots: tuple) -> dict[str, Any]:
        out = {}
        for a, i, convert in self.arguments:
            v = slots[i] if i >= 0 else ABSENT
            if v is ABSENT:
                v = default_of(a)
                if isinstance(v, list):
                    v = list(v)
                elif a.type.startswith("Scalar") and v is not None:
                    v = Scalar(v)
                elif a.type == "Operand":
                    v = operand(reader, v)
                elif a.type in ("int[]", "int[]?") and v is not None:
                    v = [v] * (a.size or 1)
            elif convert is not None:
                v = convert(v)
            elif type(v) is FakeTensor:
                v = v._facts
            elif isinstance(v, list | tuple):
                v = [x._facts if type(x) is FakeTensor else None if x is None else operand(reader, x) for x in v]
            elif v is not None:
                v = operand(reader, v)
            out[a.name] = v
        return out

    def shown(self, reader: FakeInterpreter, result: Any, given: list[FakeTensor]) -> Any:
        """Results as Python gets them."""
        if isinstance(result, Facts):
            return reader.tensor_of(result, given)
        if isinstance(result, tuple | list):
            return tuple([self.shown(reader, r, given) for r in result])
        if isinstance(result, DType):
            return native_dtype(result)
        if isinstance(result, Device):
            return native_device(result)
        return result.value if isinstance(result, Scalar) else result

    def fold(self, mode: Any, slots: tuple, given: list[FakeTensor], known: list[Any], shown: Any) -> None:
        """Where all elements that go in are known, and what comes out is one number, that is known too."""
        made = list(tensors_of((shown,) if type(shown) is FakeTensor else shown))
        if any(t._symbolic or t.numel() > CONSTANT_NUMEL_LIMIT for t in made):
            return
        if self.operator.tags & UNKNOWN or any(isinstance(v, Symbolic) for v in slots):
            return
        real = {id(t): c for t, c in zip(given, known, strict=True)}

        def of(v: Any) -> Any:
            if type(v) is FakeTensor:
                return real[id(v)]
            return type(v)(of(x) for x in v) if isinstance(v, list | tuple) else v

        with outside(), history.unrecorded():
            args = [
                default_of(a) if i < 0 or slots[i] is ABSENT else CPU if a.type.startswith("device") else of(slots[i])
                for a, i, _ in self.arguments
            ]
            result = mode.native(self.operator, self.inplace)(*args)
        for t, value in zip(made, tensors_of((result,) if isinstance(result, Tensor) else result), strict=True):
            t.constant = value


def tensors_of(v: Any) -> Iterator[Any]:
    if isinstance(v, Tensor):
        yield v
    elif isinstance(v, list | tuple):
        for x in v:
            if isinstance(x, Tensor):
                yield x


def mode_of(given: list[Any]) -> Any:
    """The mode of the tensors that take part, else the one that is active."""
    found = None
    for t in given:
        if type(t) is FakeTensor:
            if found is None:
                found = t.fake_mode
            elif t.fake_mode is not found:
                raise AssertionError("Mixing fake modes NYI")
    return found if found is not None else active_mode()


def settle_writes(given: list[FakeTensor], before: list[tuple[Memory, int, int]]) -> None:
    """Tensors that were written to count it once, and take the shape and memory that they may have got.

    Where a mode or a history saw the write, the call that it made has counted.
    """
    seen: set[int] = set()
    for t, (memory, version, counted) in zip(given, before, strict=True):
        f = t._facts
        if f.memory is not memory and memory.number not in seen:
            if version_of(t) == counted and not t.is_inference():
                t._bump_version()
        elif memory.version != version and memory.number not in seen:
            history.count_write(t)
        seen.add(memory.number)
        if not f.is_plain:
            refresh(t)


answers: dict[str, Callable] = {}  # records whose result is no tensor but an element (methods.py)


def make_form(record: str, names: tuple[str, ...]) -> Callable:
    form = Form(record, names)
    return turned(form) if record not in answers else answered(form, answers[record])


def answered(form: Form, answer: Callable) -> Callable:
    """A call whose result is an element."""

    def call(*slots: Any) -> Any:
        for taker in reversed(above):
            taken = taker(form, slots)
            if taken is not NotImplemented:
                return taken
        return answer(*slots)

    return call


def turned(form: Form) -> Callable:
    """A call of a form; where a number stands before the tensor it is one of another operator: 1 - x is rsub, 2 * x is mul(x, 2)."""
    o = form.operator
    if o.operator is None or form.inplace or len(form.arguments) < 2 or o.schema.arguments[0].type != "Operand":
        return form.call
    swapped = o if o.operator in COMMUTATIVE else next((r for r in OPERATORS.values() if r.reverse == o.operator), None)
    if swapped is None:
        return form.call
    other = form if swapped is o else Form(swapped.full_name, ("self", "other"))

    def call(*slots: Any) -> Any:
        if isinstance(slots[0], Tensor) or not isinstance(slots[1], Tensor):
            return form.call(*slots)
        return other.call(slots[1], slots[0], *(slots[2:] if other is form else ()))

    return call


_forms: dict[str, Callable] = {}


def invoke(record: str, *args: Any) -> Any:
    """Calls a record by its name with its arguments by position, as the binding would."""
    call = _forms.get(record)
    if call is None:
        o, _ = record_named(record)
        call = _forms[record] = make_form(record, tuple(a.name for a in o.schema.arguments))
    count = len(record_named(record)[0].schema.arguments)
    return call(*args, *([ABSENT] * (count - len(args))))
