"""What a program promises of numbers that come from data (`_check`), as nodes of its graph. What operators asked of them while it was traced
has none: they ask again when they run. And which nodes are there only to refuse: such promises, and operators that look at values."""

from __future__ import annotations

from collections.abc import Iterable

from tocha._ops import OpOverload
from tocha._subclasses.fake import FakeTensor
from tocha._symbolic import _assert_scalar
from tocha.fx import Node
from tocha.fx.experimental._sym_nodes import SymbolicNodes
from tocha.fx.experimental.proxy_tensor import PythonKeyTracer
from tocha.fx.node import has_side_effect
from tocha.fx.proxy import Proxy
from tocha.ir import symbolic as s
from tocha.ir.shape_env import RuntimeAssert, ShapeEnv
from tocha.ir.sym_types import FloatExpr, SymBool, SymFloat, SymInt

has_side_effect(_assert_scalar)


def is_check(node: Node) -> bool:
    """Whether a node refuses values, and gives none: a promise, or an operator without results that writes to nothing."""
    if not isinstance(node.target, OpOverload):
        return node.target is _assert_scalar
    return not node.target._schema._returns and not node.target._schema.is_mutable


def shown_by(nodes: Iterable[Node]) -> dict[s.Atom, Node]:
    """Where each symbol can first be read: a number, or the size of a tensor."""
    found: dict[s.Atom, Node] = {}
    for node in nodes:
        val = node.meta.get("val")
        for n in val.shape if isinstance(val, FakeTensor) and val._symbolic else (val,):
            if isinstance(n, SymBool) and len(n.expr.symbols) == 1:  # of an element
                found.setdefault(next(iter(n.expr.symbols)), node)
            if isinstance(n, SymFloat) and isinstance(n.expr, FloatExpr) and n.expr.name == "symbol":
                found.setdefault(n.expr.args[0], node)
            atom = s.atom_of(n.expr) if isinstance(n, SymInt) else None
            if atom is not None and atom.kind == "symbol":
                found.setdefault(atom, node)
    return found


def add_checks(tracer: PythonKeyTracer, env: ShapeEnv | None) -> None:
    """Adds a node for each promise, where the numbers are there."""
    if env is None or not env.deferred_runtime_asserts:
        return
    seen = shown_by(tracer.graph.nodes)
    order = {n: i for i, n in enumerate(tracer.graph.nodes)}
    for a in [a for asserts in env.deferred_runtime_asserts.values() for a in asserts if not a.by_operator]:
        atoms = s.free_symbols(a.expr)
        if not all(atom in seen for atom in atoms):  # those of another graph
            continue
        last = max((seen[atom] for atom in atoms), key=order.__getitem__)
        if last.op == "placeholder":  # sizes of inputs that are marked as unbacked: nodes stand behind all inputs
            last = [n for n in order if n.op == "placeholder"][-1]
        add_check(tracer, env, a, last, {seen[atom] for atom in atoms})


def message_of(a: RuntimeAssert) -> str:
    return a.msg or f"[_check] Runtime assertion failed for expression {s.relation_text(a.expr)}"


def add_check(tracer: PythonKeyTracer, env: ShapeEnv, a: RuntimeAssert, last: Node, shown: set[Node]) -> None:
    numbers = SymbolicNodes(tracer)
    for node in shown:
        val, proxy = node.meta["val"], Proxy(node, tracer)
        if isinstance(val, FakeTensor):
            numbers.note_tensor(val, proxy)
        else:
            numbers.note_number(val, proxy)
    with tracer.graph.inserting_before(last.next):
        holds = numbers._expression(a.expr, env)  # not simplified: by now it is taken for granted
        error = () if a.error is RuntimeError else (a.error.__name__,)
        tracer.graph.call_function(_assert_scalar, (holds.node, message_of(a), *error))
