"""Type stubs for editors and mypy, derived from the same entries as the bindings."""

from __future__ import annotations

from pathlib import Path

from tocha._build.bindings import UNARY, Entry, entries, is_factory, is_varargs, python_name
from tocha.operators.record import Operator
from tocha.operators.schema import Argument

PYTHON = {
    "Tensor": "Tensor", "Operand": "Tensor | Number", "Tensor?": "Tensor | None", "Tensor[]": "Sequence[Tensor]",
    "Tensor?[]": "Sequence[Tensor | None]", "Scalar": "Number", "Scalar?": "Number | None", "Scalar[]": "Sequence[Number]",
    "int": "_int", "int?": "_int | None", "int[]": "Sequence[_int]", "int[]?": "Sequence[_int] | _int | None", "float": "_float",
    "float?": "_float | None", "float[]?": "Sequence[_float] | None", "bool": "_bool", "bool?": "_bool | None", "bool[]": "Sequence[_bool]",
    "str": "_str", "str?": "_str | None", "dtype": "dtype", "dtype?": "dtype | None", "device": "DeviceLike", "device?": "DeviceLike | None",
    "layout?": "layout | None", "memory_format?": "memory_format | None", "Generator?": "Generator | None", "Storage": "UntypedStorage",
}  # fmt: skip
KEYWORDS = {"from": "from_", "lambda": "lambda_", "in": "in_"}
DEFAULTS = {"True", "False", "None"}


def default(a: Argument) -> str:
    assert a.default is not None
    return f" = {a.default}" if a.default in DEFAULTS or a.default.lstrip("-").replace(".", "", 1).isdigit() else " = ..."


def parameter(a: Argument, i: int, form: str) -> str:
    name = python_name(a, i, form)
    name = KEYWORDS.get(name, name)
    kind = PYTHON[a.type]
    if a.type == "int[]" and a.size:
        kind = "Sequence[_int] | _int"
    return f"{name}: {kind}" + (default(a) if a.default is not None else "")


def parameters(o: Operator, form: str) -> str:
    parts = ["self"] if form not in ("function", "function_inplace") else []
    star = False
    varargs = is_varargs(o, form)
    for i, a in enumerate(o.schema.arguments):
        if i == 0 and parts:
            continue
        if a.keyword_only and not star:
            if not varargs:
                parts.append("*")
            star = True
        if varargs and not a.keyword_only and a.type == "int[]":
            parts.append(f"*{a.name}: _int | Sequence[_int]")
            star = True
            continue
        parts.append(parameter(a, i, form))
    if is_factory(o, form):
        parts += ([] if star else ["*"]) + ["layout: layout | None = None", "pin_memory: _bool | None = None", "requires_grad: _bool = False"]
        star = True
    if form == "function" and "out" in o.variants:
        if not star:
            parts.append("*")
        parts.append("out: Tensor | None = None" if len(o.schema.returns) == 1 else "out: Sequence[Tensor] | None = None")
    return ", ".join(parts)


def result(o: Operator, form: str) -> str:
    if o.kind == "foreach" and (form == "function_inplace" or not o.schema.returns):
        return PYTHON["Tensor[]"]
    if form in ("inplace", "function_inplace"):
        return "Tensor"
    kinds = {"Tensor": "Tensor", "Tensor[]": "tuple[Tensor, ...]", "int": "_int", "bool": "_bool", "float": "_float", "Scalar": "Number", "dtype": "dtype"}
    returns = [kinds[r.type] for r in o.schema.returns]
    if not returns:
        return "None"
    if is_named(o):
        return f"return_types.{o.public_name}"
    return returns[0] if len(returns) == 1 else f"tuple[{', '.join(returns)}]"


def is_named(o: Operator) -> bool:
    """Whether its results come as a named tuple."""
    return len(o.schema.returns) > 1 and all(r.name for r in o.schema.returns)


def return_types(operators: list[Operator]) -> list[str]:
    """The named tuples, one class for each operator that returns one."""
    named = {o.public_name: o for o in operators if is_named(o)}
    lines = ["class return_types:"]
    for name in sorted(named):
        lines += [f"    class {name}(NamedTuple):", *(f"        {r.name}: Tensor" for r in named[name].schema.returns)]
    return [*lines, ""]


def definition(e: Entry, indent: str) -> list[str]:
    if e.form == "property":
        lines = [f"{indent}@property", f"{indent}def {e.name}(self) -> {result(e.overloads[0], e.form)}: ..."]
        if any("assignable" in o.tags for o in e.overloads):
            lines += [f"{indent}@{e.name}.setter", f"{indent}def {e.name}(self, value: Tensor | Number) -> None: ..."]
        return lines
    lines = []
    for o in e.overloads:
        if len(e.overloads) > 1:
            lines.append(f"{indent}@overload")
        lines.append(f"{indent}def {e.name}({parameters(o, e.form)}) -> {result(o, e.form)}: ...")
    return lines


UNTYPED_OPERATORS = {"__eq__", "__ne__"}  # object already has these, with other types


def operator_definitions(e: Entry) -> list[str]:
    """__add__, __radd__ and __iadd__ of a record that names a Python operator."""
    lines = []
    for o in e.overloads:
        if o.operator is None or o.name != e.name:
            continue
        if o.operator in UNARY:
            lines.append(f"    def {o.operator}(self) -> Tensor: ...")
            continue
        ignore = "  # type: ignore[override]" if o.operator in UNTYPED_OPERATORS else ""
        lines.append(f"    def {o.operator}(self, other: Any) -> Tensor: ...{ignore}")
        if o.operator not in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
            lines.append(f"    def __r{o.operator[2:]}(self, other: Any) -> Tensor: ...")
        if "inplace" in o.variants:
            lines.append(f"    def __i{o.operator[2:]}(self, other: Any) -> Tensor: ...")
    return lines


def generate() -> dict[str, str]:
    """tocha/_C.pyi: the hand-written core, then every operator."""
    everything = entries()
    core = (Path(__file__).parent / "core_stub.txt").read_text()
    lines = [core, *return_types([o for e in everything for o in e.overloads]), "class Tensor(TensorCore):"]
    for e in everything:
        if e.form in ("method", "inplace", "property"):
            lines += definition(e, "    ")
            lines += operator_definitions(e)
    lines.append("")
    for e in everything:
        if e.form.startswith("function") and not e.namespace:
            lines += definition(e, "")
    for namespace in sorted({e.namespace for e in everything if e.namespace}):
        lines += ["", f"class _{namespace}:"]
        for e in everything:
            if e.form.startswith("function") and e.namespace == namespace:
                lines += definition(e, "    @staticmethod\n    ")
    return {"_C.pyi": "\n".join(lines) + "\n"}
