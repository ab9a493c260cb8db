"""Index expressions as C++: sums of products of symbols, with divisions that round as Python's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha.ir import symbolic as s
from tocha.ir.assumptions import Assumptions
from tocha.ir.loops import NotLowered
from tocha.ir.sym_types import FloatExpr

REAL_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/"}
REAL_CONSTANTS = {"inf": "(1.0 / 0.0)", "-inf": "(-1.0 / 0.0)", "nan": "(0.0 / 0.0)"}

ROUNDINGS = {
    "trunc": "trunc",
    "floor": "floor",
    "ceil": "ceil",
    "round": "nearbyint",
}  # halves to even, as Python's round
BITS = {"and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>"}


class IndexPrinter:
    """Prints expressions; `name` says what a symbol is called."""

    def __init__(self, known: Assumptions, name: Callable[[s.Atom], str]):
        self.known, self.name = known, name

    def __call__(self, e: Any) -> str:
        if not isinstance(e, s.Expr):
            return f"{int(e)}"
        out = ""
        for monomial, c in sorted(e.terms, key=lambda t: t[1] < 0):
            factors = [self.atom(a) for a, p in monomial for _ in range(p)]
            if abs(c) != 1 or not factors:
                factors.insert(0, str(abs(c)))
            sign = " - " if c < 0 else " + "
            out += (sign if out else sign.strip().replace("+", "")) + " * ".join(factors)
        return out

    def grouped(self, e: Any) -> str:
        simple = not isinstance(e, s.Expr) or s.atom_of(e) is not None
        return self(e) if simple else f"({self(e)})"

    def atom(self, a: s.Atom) -> str:
        if a.kind == "symbol":
            return self.name(a)
        if a.kind == "floordiv":
            x, y = a.args
            if self.known.bounds(x)[0] >= 0 and self.known.bounds(y)[0] >= 0:
                return f"({self.grouped(x)} / {self.grouped(y)})"
            return f"floor_division({self(x)}, {self(y)})"
        if a.kind in ("min", "max"):
            text = self(a.args[0])
            for other in a.args[1:]:
                text = f"index_{a.kind}({text}, {self(other)})"
            return text
        if a.kind == "choose":
            return f"({self.relation(a.args[0])} ? {self.grouped(a.args[1])} : {self.grouped(a.args[2])})"
        if a.kind in ROUNDINGS:
            return f"int64_t(std::{ROUNDINGS[a.kind]}({self.real(a.args[0])}))"
        if a.kind in BITS:
            return f"(int64_t({self(a.args[0])}) {BITS[a.kind]} {self.grouped(a.args[1])})"
        if a.kind == "abs":
            return f"index_max({self(a.args[0])}, {self(s.scale(a.args[0], -1))})"
        raise NotLowered(f"the index function {a.kind} has no C++")

    def real(self, e: Any) -> str:
        """A float of symbols, computed in double as Python does."""
        if isinstance(e, s.Expr):
            return f"double({self(e)})"
        if not isinstance(e, FloatExpr):
            return REAL_CONSTANTS.get(str(float(e)), repr(float(e)))
        if e.name == "symbol":
            return f"real_of({self.name(e.args[0])})"
        args = [self.real(a) for a in e.args]
        if e.name in REAL_OPERATORS:
            return f"({args[0]} {REAL_OPERATORS[e.name]} {args[1]})"
        if e.name in ("float", "neg"):
            return f"({'-' if e.name == 'neg' else ''}{args[0]})"
        if e.name in ("min", "max"):  # of equal ones the first, as Python
            return f"({args[1]} {'<' if e.name == 'min' else '>'} {args[0]} ? {args[1]} : {args[0]})"
        if e.name in ("floordiv", "mod"):
            return f"real_{e.name}({args[0]}, {args[1]})"
        return f"std::{'fabs' if e.name == 'abs' else e.name}({', '.join(args)})"

    def relation(self, r: Any) -> str:
        if isinstance(r, bool):
            return "true" if r else "false"
        if r.kind in ("and", "or"):
            return "(" + (" & " if r.kind == "and" else " | ").join(self.relation(a) for a in r.args) + ")"
        if r.kind == "not":
            return f"(!{self.relation(r.args[0])})"
        if r.kind == "compare":  # of floats
            name, a, b = r.args
            return f"({self.real(a)} {name} {self.real(b)})"
        symbol = {"ge": ">=", "eq": "==", "ne": "!="}[r.kind]
        return f"({self(r.args[0])} {symbol} 0)"
