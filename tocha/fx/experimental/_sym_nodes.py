"""Symbolic numbers as nodes of a graph: sizes are read off tensors by `sym_size`, expressions become arithmetic of those.

Expressions are hash-consed (tocha/ir/symbolic.py), so nothing has to be noted while a program computes with sizes: a node is made
where a number is used, from its expression, and once for each.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from tocha import _ops
from tocha.fx.proxy import Proxy
from tocha.ir import sym_types
from tocha.ir import symbolic as s
from tocha.ir.sym_types import FloatExpr, Symbolic

_RELATIONS: dict[str, Callable] = {"eq": operator.eq, "ne": operator.ne, "ge": operator.ge}
_COMPARISONS: dict[str, Callable] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_ARITHMETIC = (operator.add, operator.mul, operator.pow, operator.floordiv, sym_types.sym_max, sym_types.sym_min)
_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg")


class SymbolicNodes:
    """What stands for each symbol and expression in one graph."""

    def __init__(self, tracer: Any):
        self.tracer = tracer
        self.made: dict[Any, Proxy] = {}  # by expression
        self.sources: dict[Any, Callable[[], Proxy]] = {}  # by expression: how to read it off a tensor

    def note_number(self, value: Any, proxy: Proxy) -> None:
        """A value of the graph that is a symbolic number."""
        if not isinstance(value.expr, int | float | bool):
            self.made.setdefault(value.expr, proxy)

    def note_tensor(self, t: Any, proxy: Proxy) -> None:
        """The sizes, strides and offset of a tensor can be had from it."""
        aten = _ops.ops.aten
        for dim, size in enumerate(t.shape):
            self._note(size, partial(self._call, aten.sym_size.int, proxy, dim))
        for dim, stride in enumerate(t.stride()):
            self._note(stride, partial(self._call, aten.sym_stride.int, proxy, dim))
        self._note(t.storage_offset(), partial(self._call, aten.sym_storage_offset.default, proxy))

    def _note(self, value: Any, source: Callable[[], Proxy]) -> None:
        if isinstance(value, Symbolic):
            self.sources.setdefault(value.expr, source)

    def _call(self, target: Any, *args: Any) -> Proxy:
        made = self.tracer.create_proxy("call_function", target, args, {})
        if target in _ARITHMETIC:  # parts of expressions are numbers too, for whoever asks their nodes
            values = [a.node.meta.get("val") if isinstance(a, Proxy) else a for a in args]
            if all(isinstance(v, Symbolic | int | float) for v in values):
                made.node.meta["val"] = target(*values)
        return made

    def of(self, value: Symbolic) -> Any:
        """The proxy of a symbolic number; what is known to be plain is a plain number."""
        expr = value.env.simplify(value.expr)
        found = self.made.get(value.expr)
        if found is not None and not isinstance(expr, int | float | bool):
            return found
        return self._expression(expr, value.env)

    def _expression(self, e: Any, env: Any) -> Any:
        if isinstance(e, int | float | bool):
            return e
        known = self.made.get(e)
        if known is None:
            source = self.sources.get(e)
            known = self.made[e] = source() if source is not None else self._compute(e, env)
            if "val" not in known.node.meta:
                known.node.meta["val"] = sym_types.wrap(e, env)
        return known

    def _compute(self, e: Any, env: Any) -> Any:
        if isinstance(e, s.Relation):
            return self._relation(e, env)
        if isinstance(e, FloatExpr):
            return self._float(e, env)
        total: Any = None
        for monomial, coefficient in e.terms:
            term: Any = None
            for atom, power in monomial:
                factor = self._atom(atom, env)
                factor = factor if power == 1 else self._call(operator.pow, factor, power)
                term = factor if term is None else self._call(operator.mul, term, factor)
            if term is None:
                term = coefficient
            elif coefficient != 1:
                term = self._call(operator.mul, term, coefficient)
            total = term if total is None else self._call(operator.add, total, term)
        return total

    def _atom(self, atom: s.Atom, env: Any) -> Any:
        own = s.of_atom(atom)
        known = self.made.get(own)
        if known is None:
            source = self.sources.get(own)
            known = source() if source is not None else self._function(atom, env)
            self.made[own] = known
            known.node.meta.setdefault("val", sym_types.wrap(own, env))
        return known

    def _function(self, atom: s.Atom, env: Any) -> Proxy:
        if atom.kind == "symbol":
            return self._solved(atom, env)
        args = [self._expression(a, env) for a in atom.args]
        if atom.kind == "choose":
            return self._call(sym_types.sym_ite, *args)
        if atom.kind in ("min", "max"):
            extremum = sym_types.sym_min if atom.kind == "min" else sym_types.sym_max
            out = args[0]
            for a in args[1:]:
                out = self._call(extremum, out, a)
            return out
        function = operator.floordiv if atom.kind == "floordiv" else s.function_of(atom.kind)
        return self._call(function, *args)

    def _solved(self, atom: s.Atom, env: Any) -> Proxy:
        """A symbol that no tensor shows by itself, but as a multiple: 2 * s0."""
        for e, source in list(self.sources.items()):
            terms: tuple = getattr(e, "terms", ())
            if len(terms) == 1 and terms[0][0] == ((atom, 1),):
                whole = self.made[e] = self.made.get(e) or source()
                return self._call(operator.floordiv, whole, terms[0][1])
        raise RuntimeError(f"[make_fx] no tensor of the graph has the size {atom.name}")

    def _float(self, e: FloatExpr, env: Any) -> Proxy:
        if e.name == "symbol":
            return self._float_symbol(e, env)
        args = [self._expression(a, env) for a in e.args]
        if e.name == "float":
            return self._call(sym_types.sym_float, *args)
        if e.name in _OPERATORS:
            return self._call(getattr(operator, e.name), *args)
        extrema = {"max": sym_types.sym_max, "min": sym_types.sym_min}
        return self._call(extrema.get(e.name) or sym_types.sym_function(e.name), *args)

    def _float_symbol(self, e: FloatExpr, env: Any) -> Proxy:
        raise RuntimeError(f"[make_fx] no input of the graph is the number {e.args[0].name}")

    def _relation(self, r: s.Relation, env: Any) -> Proxy:
        if r.kind in ("and", "or"):
            combine = operator.and_ if r.kind == "and" else operator.or_
            out = self._expression(r.args[0], env)
            for a in r.args[1:]:
                out = self._call(combine, out, self._expression(a, env))
            return out
        if r.kind == "not":
            return self._call(sym_types.sym_not, self._expression(r.args[0], env))
        if r.kind == "compare":
            name, a, b = r.args
            return self._call(_COMPARISONS[name], self._expression(a, env), self._expression(b, env))
        return self._call(_RELATIONS[r.kind], self._expression(r.args[0], env), 0)
