"""Type stubs for editors and mypy, derived from the same entries as the bindings."""

from __future__ import annotations

from tocha._build.bindings import Entry, entries, is_factory, is_varargs, python_name
from tocha.operators.record import Operator
from tocha.operators.schema import Argument

PYTHON = {
    "Tensor": "Tensor", "Operand": "Tensor | Number", "Tensor?": "Tensor | None", "Tensor[]": "Sequence[Tensor]",
    "Tensor?[]": "Sequence[Tensor | None]", "Scalar": "Number", "Scalar?": "Number | None", "Scalar[]": "Sequence[Number]",
    "int": "int", "int?": "int | None", "int[]": "Sequence[int]", "int[]?": "Sequence[int] | int | None", "float": "float",
    "float?": "float | None", "float[]?": "Sequence[float] | None", "bool": "bool", "bool?": "bool | None", "bool[]": "Sequence[bool]",
    "str": "str", "str?": "str | None", "dtype": "dtype", "dtype?": "dtype | None", "device": "DeviceLike", "device?": "DeviceLike | None",
    "layout?": "layout | None", "memory_format?": "memory_format | None", "Generator?": "Generator | None", "Storage": "UntypedStorage",
}  # fmt: skip
KEYWORDS = {"from": "from_", "lambda": "lambda_", "in": "in_"}
DEFAULTS = {"True", "False", "None"}


def default(a: Argument) -> str:
    return f" = {a.default}" if a.default in DEFAULTS or a.default.lstrip("-").replace(".", "", 1).isdigit() else " = ..."


def parameter(a: Argument, i: int, form: str) -> str:
    name = python_name(a, i, form)
    name = KEYWORDS.get(name, name)
    kind = PYTHON[a.type]
    if a.type == "int[]" and a.size:
        kind = "Sequence[int] | int"
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
            parts.append(f"*{a.name}: int | Sequence[int]")
            star = True
            continue
        parts.append(parameter(a, i, form))
    if is_factory(o, form):
        parts += ([] if star else ["*"]) + ["layout: layout | None = None", "pin_memory: bool | None = None", "requires_grad: bool = False"]
        star = True
    if form == "function" and "out" in o.variants:
        if not star:
            parts.append("*")
        parts.append("out: Tensor | None = None" if len(o.schema.returns) == 1 else "out: Sequence[Tensor] | None = None")
    return ", ".join(parts)


def result(o: Operator, form: str) -> str:
    if form in ("inplace", "function_inplace"):
        return "Tensor"
    kinds = {"Tensor": "Tensor", "Tensor[]": "tuple[Tensor, ...]", "int": "int", "bool": "bool", "float": "float", "Scalar": "Number", "dtype": "dtype"}
    returns = [kinds[r.type] for r in o.schema.returns]
    if not returns:
        return "None"
    return returns[0] if len(returns) == 1 else f"tuple[{', '.join(returns)}]"


def definition(e: Entry, indent: str) -> list[str]:
    if e.form == "property":
        return [f"{indent}@property", f"{indent}def {e.name}(self) -> {result(e.overloads[0], e.form)}: ..."]
    lines = []
    for o in e.overloads:
        if len(e.overloads) > 1:
            lines.append(f"{indent}@overload")
        lines.append(f"{indent}def {e.name}({parameters(o, e.form)}) -> {result(o, e.form)}: ...")
    return lines


def generate() -> dict[str, str]:
    everything = entries()
    head = [
        "# Generated from tocha/operators; do not edit.",
        "from collections.abc import Sequence",
        "from typing import overload",
        "",
        "from tocha._C import Generator, UntypedStorage, dtype, layout, memory_format",
        "from tocha._tensor_stub import DeviceLike, Number, TensorCore",
        "",
    ]
    lines = [*head, "class Tensor(TensorCore):"]
    for e in everything:
        if e.form in ("method", "inplace", "property"):
            lines += definition(e, "    ")
    files = {"_operators.pyi": "\n".join(lines) + "\n\n" + "\n".join(x for e in everything if e.form.startswith("function") and not e.namespace for x in definition(e, "")) + "\n"}
    for namespace in sorted({e.namespace for e in everything if e.namespace}):
        text = [*head[:3], "", "from tocha._C import Generator, dtype", "from tocha._operators import Tensor", "from tocha._tensor_stub import DeviceLike, Number", ""]
        text += [x for e in everything if e.form == "function" and e.namespace == namespace for x in definition(e, "")]
        files[f"_operators_{namespace}.pyi"] = "\n".join(text) + "\n"
    return files
