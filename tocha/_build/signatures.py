"""C++ signatures of the operators' functions."""

from __future__ import annotations

import re

from tocha.codegen.translator_types import own_type, return_type
from tocha.operators.record import Operator


def result_type(o: Operator) -> str:
    t = return_type(o)
    return "void" if t == "none" else own_type(t)


def parameters(o: Operator) -> str:
    return ", ".join(f"{a.cpp_parameter} {a.name}" for a in o.schema.arguments)


def argument_names(o: Operator) -> list[str]:
    return [a.name for a in o.schema.arguments]


def mutates(o: Operator) -> bool:
    """An operator that exists only in place: uniform_, copy_."""
    return o.name.endswith("_")


def returns_tensors(o: Operator) -> bool:
    return bool(o.schema.returns) and all(r.type == "Tensor" for r in o.schema.returns)


def out_parameters(o: Operator) -> str:
    outs = ", ".join(f"const Tensor& out{i}" for i in range(len(o.schema.returns)))
    rest = parameters(o)
    return f"{outs}, {rest}" if rest else outs


def cut(given: str) -> list[str]:
    """C++ parameters, one by one."""
    found, depth = [""], 0
    for c in given:
        depth += {"<": 1, ">": -1}.get(c, 0)
        if c == "," and not depth:
            found.append("")
        else:
            found[-1] += c
    return [p.strip() for p in found if p.strip()]


def names_in(signature: str) -> list[str]:
    """The names of a C++ function's parameters."""
    return re.findall(r"(\w+)(?:,|$)", signature)
