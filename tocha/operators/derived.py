"""What follows from a pointwise record's formula: its operands and their dtypes, the traced formula, and the gradients
that are derived from it. Read by the build (backward kernels) and by differentiation at run time.
"""

from __future__ import annotations

import inspect
from functools import cache

from tocha.ir import dtypes as dt
from tocha.ir import scalar
from tocha.ir.derivative import gradient
from tocha.ir.node import CONSTANT, GRAD, INPUT, OUTPUT, PARAM, Node, NoDerivative
from tocha.ir.rewrite import simplify
from tocha.operators.record import AS_COMPUTED, Operator, operators, overloads


def refusal(o: Operator, inplace: bool = False) -> tuple[type[Exception], str, str]:
    """PyTorch's words where nobody knows the derivative: the error, what backward says, and what forward mode says."""
    suffix = "_" if inplace and not o.name.endswith("_") else ""
    called = o.underived or f"aten::{o.name.removeprefix('nn_')}{suffix}"
    forward = f"[{o.name}] Trying to use forward AD with"
    if called.startswith("aten::"):
        backward = f"[{o.name}] derivative for {called} is not implemented"
        return RuntimeError, backward, f"{forward} {called} that does not support it."
    backward = f"[{o.name}] the derivative for '{called}' is not implemented."
    word = f"{o.namespace}_{called}" if o.namespace else called.partition(":")[0]
    missing = "that does not support it because it has not been implemented yet."
    return NotImplementedError, backward, f"{forward} {word}{suffix} {missing}"


def unknown_node(o: Operator) -> bool:
    """Whether its node is PyTorch's NotImplemented: there is no rule for it, not even one that refuses."""
    known = o.gradients or o.kind in ("composite", "view") or (o.kind == "pointwise" and "no_derivative" not in o.tags)
    return not known and refusal(o)[0] is RuntimeError


def resolve(code: object, t: dt.DType) -> dt.DType:
    """The dtype that a type code stands for when the compute dtype is t."""
    if code in AS_COMPUTED:
        return t
    if code == "real":
        return dt.real_of(t)
    if code == "complex":
        return dt.complex_of(t)
    if code == "wide":
        return dt.complex128 if t.is_complex else dt.float64
    assert isinstance(code, dt.DType), code
    return code


def operands(o: Operator) -> list:
    return [a for a in o.schema.arguments if a.is_tensor]


def params(o: Operator) -> list:
    return [a for a in o.schema.arguments if not a.is_tensor and a.type != "Generator?"]


def type_codes(o: Operator) -> tuple[list, list, list]:
    """Type codes of outputs, inputs and params."""
    given = o.types or {}
    outs = list(given.get("out", ("T",) * len(o.schema.returns)))
    ins = list(given.get("in", ("T",) * len(operands(o))))
    ps = list(given.get("params", ("T",) * len(params(o))))
    return outs, ins, ps


def traced(o: Operator, t: dt.DType) -> tuple[Node, ...]:
    outs, ins, ps = type_codes(o)
    names = [a.name for a in params(o)]
    given = list(zip(names, [resolve(c, t.compute) for c in ps], strict=True))
    return simplify(scalar.trace(o.body, [resolve(c, t) for c in ins], given, [resolve(c, t) for c in outs]))


@cache
def formulas(o: Operator, t: dt.DType) -> tuple[Node | None, ...] | None:
    """The gradient of each input in compute dtype t; None for inputs without one, None at all if there is none."""
    outs, ins, _ = type_codes(o)
    if o.tags & {"no_gradient", "no_derivative"} or not any(resolve(c, t).is_differentiable for c in outs):
        return None
    nodes = traced(o, t)
    wanted = [i for i, c in enumerate(ins) if resolve(c, t).is_differentiable]
    overridden = {i: override(o, i, t) for i in wanted if (operands(o)[i].name,) in o.gradients}
    derived = [i for i in wanted if i not in overridden]
    found: dict[int, Node | None] = dict(overridden)
    for i in derived:
        try:
            (formula,) = gradient(nodes, [i], in_results="keeps_inputs" not in o.tags)
        except NoDerivative:
            found[i] = None
            continue
        if formula is None:
            formula = scalar.constant(0, resolve(ins[i], t))
        found[i] = simplify((scalar.cast(formula, resolve(ins[i], t)),))[0]
    return tuple(found.get(i) for i in range(len(ins)))


def override(o: Operator, i: int, t: dt.DType) -> Node:
    """A gradient that the record gives as a formula."""
    f = o.gradients[(operands(o)[i].name,)]
    outs, ins, ps = type_codes(o)
    known: dict[str, Node] = {
        "grad": scalar.Grad(0, resolve(outs[0], t)),
        "result": scalar.Output(0, resolve(outs[0], t)),
    }
    known |= {a.name: scalar.Input(k, resolve(c, t)) for k, (a, c) in enumerate(zip(operands(o), ins, strict=True))}
    known |= {
        a.name: scalar.Param(k, resolve(c, t.compute)) for k, (a, c) in enumerate(zip(params(o), ps, strict=True))
    }
    value = f(*(known[n] for n in inspect.signature(f).parameters))
    value = value if isinstance(value, Node) else scalar.constant(value, resolve(ins[i], t))
    return simplify((scalar.cast(value, resolve(ins[i], t)),))[0]


def usable(o: Operator, t: dt.DType) -> bool:
    return t in o.dtypes or any(d.is_reduced and d.compute is t for d in o.dtypes)


def has_one_dtype(o: Operator) -> bool:
    """Whether operands and results have the compute dtype, and nothing is asked of the arguments before."""
    outs, ins, _ = type_codes(o)
    return (
        set(outs) <= {"T"}
        and set(ins) <= {"T", "number", "scalar"}
        and not (o.types or {}).keys() - {"in", "out", "out_words", "refused"}
    )


@cache
def whole_formulas(t: dt.DType) -> dict[Node, Operator]:
    """Operators of one tensor that are more than a primitive, by their formula: they know their own singular points."""
    known: dict[Node, Operator] = {}
    for o in operators():
        if o.kind == "pointwise" and len(operands(o)) == 1 and not params(o) and t in o.dtypes and has_one_dtype(o):
            nodes = traced(o, t)
            if len(nodes) == 1 and any(a.args for a in nodes[0].args):
                known.setdefault(nodes[0], o)
    return known


@cache
def _with_own_gradients(t: dt.DType) -> dict[Node, Operator]:
    """Operators of several tensors whose records say their gradients, by their formula."""
    known: dict[Node, Operator] = {}
    for o in operators():
        if o.kind == "pointwise" and o.gradients and len(operands(o)) > 1 and t in o.dtypes and has_one_dtype(o):
            nodes = traced(o, t)
            if len(nodes) == 1 and nodes[0].args:
                known.setdefault(nodes[0], o)
    return known


def gradient_as_operator(n: Node) -> tuple[Operator, list[Node]] | None:
    """The operator that a gradient's formula is, and the leaves that it is called with; parameters are the same. What is
    recorded is then that operator, whose record knows its derivatives."""
    order = {GRAD: 0, INPUT: 1, OUTPUT: 2}
    leaves = [leaf for leaf in scalar.topological((n,)) if leaf.op in order]
    leaves.sort(key=lambda leaf: (order[leaf.op], leaf.attr))
    if not leaves or leaves[0].op is not GRAD:
        return None
    (renamed,) = scalar.substitute((n,), {leaf: scalar.Input(i, leaf.dtype) for i, leaf in enumerate(leaves)})
    found = _with_own_gradients(n.dtype).get(renamed)
    return (found, leaves) if found else None


_SPELLED: dict[str, tuple[str, dict[str, str]]] = {
    "make_complex": ("complex", {}),
    "floordiv": ("div", {"rounding_mode": "floor"}),
    "truncdiv": ("div", {"rounding_mode": "trunc"}),
}


def operator_for(primitive: str) -> tuple[str, dict[str, str]]:
    """The operator on tensors that does what a primitive of formulas does, and its keywords."""
    name, keywords = _SPELLED.get(primitive, (primitive, {}))
    return name if overloads(name) else f"special_{name}", keywords


def is_number(n: Node) -> bool:
    """Whether a formula has params and constants for leaves, and more than one node."""
    leaves = {leaf.op for leaf in scalar.topological((n,)) if not leaf.args}
    return bool(n.args) and PARAM in leaves and leaves <= {PARAM, CONSTANT}
