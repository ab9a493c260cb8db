"""Formulas as C++ statements: one constant per node, shared subexpressions once, loop invariants apart.

Called by the build for the eager kernels and by the compiler for fused loops; the text depends only on the formulas
and the names. Functions in the text live in csrc/cpu (namespace tocha::math: engine/scalar_ops.h, vecmath, special).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tocha.ir.dtypes import DType, Kind, Number, bool_, float32, float64, int64, real_of, uint64
from tocha.ir.node import CONSTANT, GRAD, INDEX, INPUT, OUTPUT, PARAM, Cost, Node, Primitive, topological


@dataclass(frozen=True)
class Names:
    """What the leaves are called in the surrounding C++."""

    inputs: Sequence[str] = ()
    params: Sequence[str] = ()
    outputs: Sequence[str] = ()
    grads: Sequence[str] = ()
    index: str = "i"
    fault: str = "fault"
    prefix: str = "t"


@dataclass(frozen=True)
class VectorForm:
    """How formulas are written on whole vectors: what makes a vector of a scalar, what reads one, and operators of its own."""

    splat: str = "math::splat"
    load: str = ""
    templates: Mapping[Primitive, str] = field(default_factory=dict)
    position: str = ""  # what stands for positions, given the first
    # Of operators where an operand is the state of a fold.
    of_states: Mapping[Primitive, str] = field(default_factory=dict)
    apart: str = ""  # what reads elements that are no neighbours, given the first and how far apart they lie


REGISTERS = VectorForm()  # of csrc/cpu/vecmath/avx512.h and neon.h


@dataclass(frozen=True)
class Emitted:
    """C++ for some formulas.

    prologue runs once before the loop, body for every element; results are the expressions of the outputs, in order.
    If `faults`, the surroundings declare `unsigned fault = 0;` outside the loop, and report a division by zero if it
    is nonzero afterwards.
    """

    prologue: tuple[str, ...]
    body: tuple[str, ...]
    results: tuple[str, ...]
    faults: bool


def shortcuts(outputs: Sequence[Node]) -> list[Node]:
    """The nodes that have a form which vectorizes but is not right everywhere; what is computed before the loop needs none."""
    varying: set[Node] = set()
    for n in topological(outputs):
        if n.op not in (CONSTANT, PARAM) and (not n.args or any(arg in varying for arg in n.args)):
            varying.add(n)
    return [n for n in topological(outputs) if n in varying and n.op.shortcut is not None and n.dtype.is_floating]


def shortcut_test(node: Node, operands: Sequence[str]) -> str:
    """What says that a node must not take its shortcut."""
    assert node.op.shortcut is not None
    return node.op.shortcut.unless.format(*operands)


def shortcut_tests(nodes: Sequence[Node], names: Names) -> Emitted:
    """C++ whose results tell for one element which of these nodes must not take their shortcut."""
    arguments = [arg for n in nodes for arg in n.args]
    code = emit(arguments, names)
    values = iter(code.results)
    tests = [shortcut_test(n, [next(values) for _ in n.args]) for n in nodes]
    return Emitted(code.prologue, code.body, tuple(dict.fromkeys(tests)), code.faults)


def on_vectors(outputs: Sequence[Node], dtype: DType = float32) -> set[Node] | None:
    """The nodes that are vectors if the inputs are vectors of that dtype; None if some formula has no such form."""
    varying: set[Node] = set()
    for node in topological(outputs):
        if node.op is INDEX or (node.dtype is not dtype and (node.dtype is not bool_ or not node.args)):
            return None
        if node.op not in (CONSTANT, PARAM) and (not node.args or any(arg in varying for arg in node.args)):
            if node.args and not node.op.vector:
                return None
            if any(arg.dtype is bool_ and arg not in varying for arg in node.args):
                return None
            varying.add(node)
    return varying if all(output in varying and output.dtype is dtype for output in outputs) else None


def vectorizes(outputs: Sequence[Node]) -> bool:
    """Whether the formulas can be written on vectors of float32, and gain by it: a compiler does well on arithmetic."""
    varying = on_vectors(outputs)
    return varying is not None and any(node.op.vector and node.op.cost is Cost.EXPENSIVE for node in varying)


def emit(
    outputs: Sequence[Node],
    names: Names,
    *,
    short: bool = False,
    vector: VectorForm | None = None,
    forms: Mapping[tuple[Primitive, DType], str] | None = None,
) -> Emitted:
    """The C++ of the formulas with these outputs; with `short`, taking shortcuts; `forms` are templates instead of the primitives' own.

    With `vector` the inputs are vectors; what does not depend on them is computed as a scalar, and made a vector where it is used.

    >>> from tocha.ir.dtypes import float32
    >>> from tocha.ir.scalar import exp, trace
    >>> code = emit(trace(lambda x, a: exp(x) * (2 * a), [float32], [("a", float32)]), Names(["x"], ["a"]))
    >>> print(*code.prologue, *code.body, code.results[0], sep="\\n")
    const float t1 = (2.0f * a);
    const float t0 = math::exp(x);
    const float t2 = (t0 * t1);
    t2
    """
    named = {INPUT: names.inputs, PARAM: names.params, OUTPUT: names.outputs, GRAD: names.grads}
    text: dict[Node, str] = {}
    invariant: set[Node] = set()
    known: set[Node] = set()  # to the C++ compiler
    prologue: list[str] = []
    body: list[str] = []
    faults = False
    for node in topological(outputs):
        if not node.args:
            text[node] = _leaf(node, named, names.index)
            if node.op is CONSTANT or node.op is PARAM:
                invariant.add(node)
            if node.op is CONSTANT:
                known.add(node)
            continue
        template = _template(node)
        # Invariant divisions stay in the body: with no elements there must be no fault.
        hoisted = "{fault}" not in template and all(arg in invariant for arg in node.args)
        if short and not hoisted and node.op.shortcut and node.dtype.is_floating:
            template = node.op.shortcut.cpp
        elif forms and not hoisted:
            template = forms.get((node.op, node.dtype), template)
        faults |= "{fault}" in template
        name = f"{names.prefix}{len(prologue) + len(body)}"
        wide = vector if not hoisted else None
        operands = [f"{wide.splat}({text[arg]})" if wide and arg in invariant else text[arg] for arg in node.args]
        if all(arg in known for arg in node.args):
            if node.op.cost is Cost.EXPENSIVE and node.dtype.is_differentiable:
                operands = [f"unfolded({operand})" for operand in operands]
            else:
                known.add(node)
        if wide is not None:
            template = wide.templates.get(node.op, template)
            if any(arg.op is OUTPUT for arg in node.args):
                template = wide.of_states.get(node.op, template)
        value = _fill(template, node, operands, names)
        (prologue if hoisted else body).append(f"const {'auto' if wide else node.dtype.cpp} {name} = {value};")
        if hoisted:
            invariant.add(node)
        text[node] = name
    return Emitted(tuple(prologue), tuple(body), tuple(text[output] for output in outputs), faults)


def _leaf(node: Node, named: dict[Primitive, Sequence[str]], index: str) -> str:
    if node.op is CONSTANT:
        assert node.attr is not None
        return literal(node.attr, node.dtype)
    return index if node.op is INDEX else named[node.op][node.attr]  # type: ignore[index]


def _template(node: Node) -> str:
    cpp = node.op.cpp
    if isinstance(cpp, str):
        return cpp
    kind = node.op.common_dtype(node).kind
    for kinds, template in cpp.items():
        if kind in kinds:
            return template
    raise TypeError(f"[{node.op}] has no C++ for {node.op.common_dtype(node)}")


def _fill(template: str, node: Node, args: Sequence[str], names: Names) -> str:
    return template.format(*args, type=node.dtype.cpp, T=node.op.common_dtype(node).cpp, fault=names.fault)


def literal(value: Number, dtype: DType) -> str:
    """A C++ expression of exactly this value and type."""
    if dtype.kind is Kind.BOOLEAN:
        return "true" if value else "false"
    if dtype.kind is Kind.INTEGER:
        return _integer(int(value), dtype)  # type: ignore[arg-type]
    if dtype.kind is Kind.COMPLEX:
        part = real_of(dtype)
        z = complex(value)
        return f"{dtype.cpp}({literal(z.real, part)}, {literal(z.imag, part)})"
    text = _floating(float(value), dtype)  # type: ignore[arg-type]
    return f"{dtype.cpp}({text})" if dtype.is_reduced else text


def _integer(value: int, dtype: DType) -> str:
    if dtype is int64 and value == dtype.smallest_integer:
        return "INT64_MIN"
    suffix = "ULL" if dtype is uint64 else "LL" if dtype is int64 else "U" if dtype.name == "uint32" else ""
    if dtype.bits == 32 and value == dtype.smallest_integer and dtype.is_signed:
        return "INT32_MIN"
    return f"{dtype.cpp}({value}{suffix})"


def _floating(value: float, dtype: DType) -> str:
    suffix = "" if dtype is float64 else "f"
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if math.isinf(value):
        return f"({sign}__builtin_inf{suffix}())" if sign else f"__builtin_inf{suffix}()"
    # The shortest decimal that reads back as this double; as the value is one of dtype's, it reads back in that too.
    text = repr(abs(value))
    return f"({sign}{text}{suffix})" if sign else text + suffix


# GCC vectorizes neither loops over bool nor those that copy a struct: bytes and members it does.


def memory_type(d: DType) -> str:
    return "uint8_t" if d is bool_ else d.cpp


def loaded(d: DType, element: str) -> str:
    return f"{element} != 0" if d is bool_ else element


def stored_as(d: DType, element: str, value: str) -> list[str]:
    if d.is_complex:
        return [f"{element}.re = {value}.re;", f"{element}.im = {value}.im;"]
    return [f"{element}.bits = {value}.bits;" if d.is_reduced else f"{element} = {value};"]
