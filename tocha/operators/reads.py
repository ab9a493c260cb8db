"""What a gradient function reads, and when: from that follows what a node keeps.

A parameter may be read for its elements or only for facts (shape, dtype, whether it is given at all), and both only
under conditions that are known when the operator is recorded: `if wanted[0]`, `if not compute_uv`. Other conditions may
hold or not.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tocha.codegen.translator_types import TENSOR_ATTRIBUTES, TENSOR_FACTS
from tocha.ir import dtypes as dt
from tocha.ir.derivative import saved
from tocha.operators.derived import formulas, usable
from tocha.operators.record import Operator

Condition = frozenset[tuple[str, bool]]  # what holds: ("wanted[0]", True), ("compute_uv", False)
ALWAYS: Condition = frozenset()


@dataclass
class Reads:
    """The conditions under which a parameter's elements, or facts of it, are read."""

    elements: set[Condition] = field(default_factory=set)
    facts: set[Condition] = field(default_factory=set)


def weakest(conditions: set[Condition]) -> set[Condition]:
    """The same conditions without what follows from others; where both a flag and its opposite will do, without it."""
    for c in conditions:
        for what, value in c:
            rest = c - {(what, value)}
            if rest not in conditions and rest | {(what, not value)} in conditions:
                return weakest(conditions | {rest})
    return {c for c in conditions if not any(other < c for other in conditions)}


@cache
def reads(f: Callable) -> dict[str, Reads]:
    """What f reads of each of its parameters."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(f))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    reader = _Reader(f, list(inspect.signature(f).parameters))
    reader.flags -= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    reader.block(tree.body, ALWAYS)
    return reader.found


class _Reader:
    def __init__(self, f: Callable, parameters: list[str]):
        self.globals = f.__globals__
        self.found = {p: Reads() for p in parameters}
        self.flags = set(parameters)  # that stay what they are

    def block(self, statements: Sequence[ast.stmt], given: Condition) -> Condition | None:
        """Follows statements; what holds after them, or None if they end the function."""
        now: Condition | None = given
        for s in statements:
            assert now is not None
            if isinstance(s, ast.If):
                now = self.branch(s, now)
            elif isinstance(s, ast.For | ast.While):
                self.expression(s.iter if isinstance(s, ast.For) else s.test, now)
                self.block(s.body, now)
            else:
                if isinstance(s, ast.AugAssign):
                    self.read(s.target, now, only_facts=False)
                for child in ast.iter_child_nodes(s):
                    self.expression(child, now)
                if isinstance(s, ast.Return | ast.Raise):
                    return None
            if now is None:
                return None
        return now

    def branch(self, s: ast.If, given: Condition) -> Condition | None:
        self.expression(s.test, given)
        if_true = self.block(s.body, given | self.implied(s.test, True))
        if_false = self.block(s.orelse, given | self.implied(s.test, False))
        if if_true is None or if_false is None:
            return if_false if if_true is None else if_true
        return given

    def implied(self, test: ast.expr, value: bool) -> Condition:
        """What is known where test has this value."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.implied(test.operand, not value)
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And if value else ast.Or):
            return frozenset().union(*(self.implied(v, value) for v in test.values))
        if isinstance(test, ast.Name) and test.id in self.flags:
            return frozenset({(test.id, value)})
        if isinstance(test, ast.Subscript) and isinstance(test.value, ast.Name) and test.value.id == "wanted":
            return frozenset({(ast.unparse(test), value)})
        return ALWAYS

    def expression(self, e: ast.AST, given: Condition) -> None:
        if isinstance(e, ast.IfExp):
            self.expression(e.test, given)
            self.expression(e.body, given | self.implied(e.test, True))
            self.expression(e.orelse, given | self.implied(e.test, False))
        elif isinstance(e, ast.BoolOp):
            for v in e.values:  # the next is only asked where this one does not decide
                self.expression(v, given)
                given = given | self.implied(v, isinstance(e.op, ast.And))
        elif isinstance(e, ast.Name) and isinstance(e.ctx, ast.Load):
            self.read(e, given, only_facts=False)
        else:
            asked = self.asked_for_facts(e)
            for child in ast.iter_child_nodes(e):
                if child in asked:
                    self.read(child, given, only_facts=True)
                else:
                    self.expression(child, given)

    def asked_for_facts(self, e: ast.AST) -> list[ast.AST]:
        """The names among e's parts that it asks only for facts."""
        if isinstance(e, ast.Attribute) and (e.attr in TENSOR_ATTRIBUTES or e.attr in TENSOR_FACTS):
            return [e.value] if isinstance(e.value, ast.Name) else []
        if isinstance(e, ast.Compare) and all(isinstance(c, ast.Is | ast.IsNot) for c in e.ops):
            return [e.left] if isinstance(e.left, ast.Name) else []
        if isinstance(e, ast.Call) and isinstance(e.func, ast.Name):
            target = self.globals.get(e.func.id)
            if callable(target) and getattr(target, "_tocha_rule", False):
                of = list(reads(target).values())
                return [a for i, a in enumerate(e.args) if isinstance(a, ast.Name) and not of[i].elements]
        return []

    def read(self, name: ast.AST, given: Condition, only_facts: bool) -> None:
        if isinstance(name, ast.Name) and name.id in self.found:
            known = self.found[name.id]
            (known.facts if only_facts else known.elements).add(given)


# ---- what a call keeps ---------------------------------------------------------------------------


def kept(o: Operator, wanted: Sequence[str], arguments: Mapping[str, Any]) -> list[str]:
    """The arguments and results ("result", "result1") whose elements the gradients of the wanted inputs read."""
    if o.kind == "pointwise":
        return sorted(set().union(*(_kept_by_formula(o, n) for n in wanted)))
    found = set()
    for names, f in o.gradients.items():
        if any(n in wanted for n in names):
            found |= {p for p, r in reads(f).items() if any(_may_hold(c, names, wanted, arguments) for c in r.elements)}
    if "list_shapes" in o.tags:  # as the record promises: loops ask lists for nothing else
        found = {p for p in found if not isinstance(arguments.get(p), list)}
    return sorted(p for p in found if p in arguments or p.startswith("result"))


@cache
def _kept_by_formula(o: Operator, name: str) -> frozenset[str]:
    operands = [a.name for a in o.schema.arguments if a.is_tensor]
    found: set[str] = set()
    for t in (dt.float32, dt.float64, dt.complex64):
        if usable(o, t) and (nodes := formulas(o, t)) is not None:
            read = saved([nodes[operands.index(name)]])
            found.update(operands[i] for i in read.inputs)
            found.update(f"result{i or ''}" for i in read.outputs)
    return frozenset(found)


def _may_hold(
    condition: Condition, names: tuple[str, ...], wanted: Sequence[str], arguments: Mapping[str, Any]
) -> bool:
    """Whether backward can come to where this holds. That a gradient is not wanted is unknown: it may want fewer."""
    for what, value in condition:
        if what.startswith("wanted["):
            if value and names[int(what[len("wanted[") : -1])] not in wanted:
                return False
        elif isinstance(given := arguments.get(what), bool) and given is not value:
            return False
    return True


__all__ = ["ALWAYS", "Condition", "Reads", "kept", "reads", "weakest"]
