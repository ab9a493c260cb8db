"""Which of PyTorch's overloads each record answers for, in all its forms: what `tocha.ops.aten` is made from.

The schema of a record gives PyTorch's in most cases: an `Operand` is the overloads Tensor and Scalar, in-place and out=
forms follow from the variants. What cannot be read off stands on the record, in `aten`: whole schemas, or names alone:
"transpose.int" names the derived schema, "transpose_" its in-place form, "add.out" its out= form. Run only when handles are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import zip_longest

from tocha.operators.families import load
from tocha.operators.function_schema import FunctionSchema, Required, SchemaArgument, parse_schema, read_default
from tocha.operators.record import OPERATORS, Operator
from tocha.operators.schema import Argument

FUNCTIONAL, INPLACE, OUT = "functional", "inplace", "out"
NAMES_OF_TYPES = {
    "dtype": "ScalarType", "device": "Device", "layout": "Layout", "memory_format": "MemoryFormat", "Operand": "Tensor",
}  # fmt: skip
# What PyTorch's factories take, in its order.
FACTORY = tuple(
    SchemaArgument(name, kind, default=None, kwarg_only=True)
    for name, kind in (("dtype", "ScalarType?"), ("layout", "Layout?"), ("device", "Device?"), ("pin_memory", "bool?"))
)
FACTORY_SLOTS = ("layout", "pin_memory", "requires_grad")  # what the native form of a factory takes after the schema's
LETTERS = "abcdefghijkl"


@dataclass(frozen=True)
class Overload:
    """One of PyTorch's overloads, and the form of the record that computes it."""

    record: Operator
    form: str
    schema: FunctionSchema

    @property
    def native_name(self) -> str:
        """The name of the record's form, as the binding has it."""
        s = self.record.schema
        name = s.name + "_" if self.form == INPLACE and not s.name.endswith("_") else s.name
        return f"{name}.{s.overload}" if s.overload else name


# ---- arguments -------------------------------------------------------------------------------------


def type_text(a: Argument) -> str:
    base = a.type.rstrip("?[]")
    rest = a.type[len(base) :]
    if a.size is not None:
        rest = rest.replace("[]", f"[{a.size}]")
    return ("SymInt" if a.symbolic else NAMES_OF_TYPES.get(base, base)) + rest


def argument(a: Argument) -> SchemaArgument:
    kind = type_text(a)
    default = Required if a.default is None else read_default(a.default, kind)
    return SchemaArgument(a.name, kind, a.alias, default, a.keyword_only)


def arguments(o: Operator) -> tuple[SchemaArgument, ...]:
    found = [argument(a) for a in o.schema.arguments]
    if o.kind == "view" and not found[0].alias:
        found[0] = replace(found[0], alias="a -> *" if o.schema.returns[0].type == "Tensor[]" else "a")
    if "factory" in o.tags and any(a.name == "dtype" for a in found):
        names = {a.name for a in FACTORY}
        own = {a.name: a for a in found if a.name in names}
        kept = [a for a in found if a.name not in names]
        first = next((i for i, a in enumerate(kept) if a.kwarg_only), len(kept))
        found = [*kept[:first], *(own.get(a.name, a) for a in FACTORY), *kept[first:]]
    return tuple(found)


def results(o: Operator) -> tuple[SchemaArgument, ...]:
    default = "a" if o.kind == "view" else ""
    return tuple(
        SchemaArgument(r.name or "", NAMES_OF_TYPES.get(r.type, r.type), r.alias or default) for r in o.schema.returns
    )


# ---- names -----------------------------------------------------------------------------------------


def names(o: Operator) -> Iterator[str]:
    """PyTorch's names of an operator: nn_gelu is gelu, the alias special.expit is special_expit."""
    own = o.name.removeprefix("nn_") if o.namespace == "nn" else o.name
    yield own
    for alias in o.aliases:
        name = alias.removeprefix("nn.").replace(".", "_")
        if name != own:
            yield name


# ---- forms -----------------------------------------------------------------------------------------


def derived(o: Operator, name: str) -> list[FunctionSchema]:
    """The overloads that the record's schema says."""
    given, returned = arguments(o), results(o)
    whole = FunctionSchema(f"aten::{name}", o.schema.overload, given, returned)
    operands = [a.name for a in o.schema.arguments if a.type == "Operand"]
    if not operands:
        return [whole]
    numbers = tuple(replace(a, text="Scalar") if a.name == operands[-1] else a for a in given)
    prefix = o.schema.overload
    return [
        replace(whole, overload_name=f"{prefix}_Tensor" if prefix else "Tensor"),
        replace(whole, overload_name=f"{prefix}_Scalar" if prefix else "Scalar", _arguments=numbers, _text=[]),
    ]


def inplace(s: FunctionSchema) -> FunctionSchema:
    first = replace(s._arguments[0], alias="a!")
    name = s.name if s.name.endswith("_") else s.name + "_"
    returned = () if "[" in first.text else tuple(replace(r, alias="a!", name="") for r in s._returns)
    rest = tuple(replace(a, alias=a.alias if "!" in a.alias else "") for a in s._arguments[1:])
    return FunctionSchema(name, s.overload_name, (first, *rest), returned)


def out(o: Operator, s: FunctionSchema, overload: str | None) -> FunctionSchema:
    """The out= form: results become arguments that are written to."""
    factory = {a.name for a in FACTORY} if "factory" in o.tags else set()
    given = tuple(replace(a, alias="") for a in s._arguments if a.name not in factory)
    several, named = len(s._returns) > 1, all(r.name for r in s._returns)
    found = []
    for i, r in enumerate(s._returns):
        name = r.name if named else f"out{i}" if several else "out"
        found.append(SchemaArgument(name, r.text, LETTERS[i] + "!", kwarg_only=True))
    last = s._returns[0].name if several and named else "out"
    if overload is None:
        overload = f"{s.overload_name}_{last}" if s.overload_name else last
    returned = tuple(replace(r, alias=f"{LETTERS[i]}!") for i, r in enumerate(s._returns))
    return FunctionSchema(s.name, overload, given + tuple(found), () if o.kind == "foreach" else returned)


def without_results(s: FunctionSchema) -> tuple[SchemaArgument, ...]:
    return tuple(replace(a, alias="") for a in s._arguments if not a.is_out)


def with_factory(o: Operator, s: FunctionSchema) -> FunctionSchema:
    """What factories take need not be written."""
    if "factory" not in o.tags or any(a.is_out or a.name == "layout" for a in s._arguments):
        return s
    first = next((i for i, a in enumerate(s._arguments) if a.kwarg_only), len(s._arguments))
    own = {a.name: a for a in s._arguments}
    more = tuple(a for a in FACTORY if a.name not in own)
    return replace(s, _arguments=s._arguments[:first] + more + s._arguments[first:], _text=[])


class Written:
    """What a record's `aten` says of one of its names: schemas by form, and names of overloads alone."""

    def __init__(self, o: Operator, name: str):
        self.functional: list[FunctionSchema] = []
        self.inplace: list[FunctionSchema] = []
        self.outs: list[FunctionSchema] = []
        self.overloads: list[str] = []  # of the derived schemas, in their order
        self.inplace_overloads: list[str] = []
        self.out_names: list[str] = []  # of the out= forms, in the order of the functional ones
        self.alias = name != next(names(o)) and not any(t.startswith(name) for t in o.aten or ())
        for head, arguments in texts_of(o, name):
            short, _, overload = head.partition(".")
            if not arguments:
                inplace_form = short.endswith("_") and not o.name.endswith("_")
                named = (
                    self.out_names if "out" in overload else self.inplace_overloads if inplace_form else self.overloads
                )
                named.append(overload)
                continue
            s = with_factory(o, parse_schema(f"aten::{head}{arguments}"))
            if any(a.is_out for a in s._arguments):
                self.outs.append(s)
            elif s.name.endswith("_"):
                self.inplace.append(s)
            else:
                self.functional.append(s)


def texts_of(o: Operator, name: str) -> list[tuple[str, str]]:
    """What `aten` says of a name, cut into `name.overload` and the rest."""
    split = [t.partition("(") for t in o.aten or ()]
    texts = [(head, bracket + rest) for head, bracket, rest in split]

    def of(n: str) -> list[tuple[str, str]]:
        return [(head, rest) for head, rest in texts if head.partition(".")[0] in (n, n + "_")]

    own = next(names(o))  # an alias that is not spoken of is as the name
    return of(name) or [(head.replace(own, name, 1), rest) for head, rest in of(own)]


def forms(o: Operator, name: str) -> Iterator[tuple[str, FunctionSchema]]:
    if o.aten == ():
        return
    written = Written(o, name)
    base = written.functional
    if not base or written.overloads:
        given = derived(o, name)
        if written.overloads:
            given = [replace(s, overload_name=n, _text=[]) for s, n in zip(given, written.overloads, strict=False)]
        base = given + base
    if o.name.endswith("_"):
        yield from ((FUNCTIONAL, s) for s in written.inplace or map(inplace, base))
        return
    yield from ((FUNCTIONAL, s) for s in base)
    if "inplace" in o.variants:
        tensors = [s for s in base if s._arguments[0].is_tensor]
        for s, overload in zip_longest(tensors, written.inplace_overloads):
            yield INPLACE, inplace(s) if overload is None else replace(inplace(s), overload_name=overload)
    if "out" in o.variants:
        explicit = {without_results(s): s for s in written.outs}
        for s, overload in zip_longest(base, written.out_names):
            made = out(o, s, overload)
            number = any(a.text == "Scalar" and a.default is Required for a in s._arguments)
            # Where the form of tensors is plainly `out`, PyTorch generates the one of numbers, but not for aliases.
            if not (number and written.alias and written.out_names):
                yield OUT, explicit.pop(without_results(made), made)


class Table(Mapping[str, dict[str, Overload]]):
    """PyTorch's names, each with its overloads by name ("" is the default one), in order of definition. The overloads of a name are
    made when somebody asks for it: a process that compiles one program needs few of them.
    """

    def __init__(self) -> None:
        load()
        self._made: dict[str, dict[str, Overload]] = {}
        self._records: dict[str, list[tuple[Operator, str]]] = {}
        for o in OPERATORS.values():
            for name in names(o):
                for short in (name, name + "_"):  # no form of a record goes by another name
                    self._records.setdefault(short, []).append((o, name))
        self._forms: dict[tuple[int, str], list[tuple[str, FunctionSchema]]] = {}

    def _forms_of(self, o: Operator, name: str) -> list[tuple[str, FunctionSchema]]:
        found = self._forms.get((id(o), name))
        if found is None:
            found = self._forms[id(o), name] = list(forms(o, name))
        return found

    def __getitem__(self, short: str) -> dict[str, Overload]:
        found = self._made.get(short)
        if found is None:
            found = {}
            for o, name in self._records.get(short, ()):
                for form, s in self._forms_of(o, name):
                    if s.name.removeprefix("aten::") == short:
                        found.setdefault(s.overload_name, Overload(o, form, s))
            self._made[short] = found
        if not found:
            raise KeyError(short)
        return found

    @cached_property
    def _names(self) -> tuple[str, ...]:
        whole = (self._forms_of(o, name) for o in OPERATORS.values() for name in names(o))
        return tuple(dict.fromkeys(s.name.removeprefix("aten::") for found in whole for _, s in found))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@cache
def table() -> Table:
    return Table()
