"""What guards ask of sizes and numbers: the ShapeEnv's guards as Python over sources, and as steps for the native tree."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from functools import partial
from typing import Any

from tocha._dynamo.source import Source
from tocha.ir import symbolic as s
from tocha.ir.shape_env import ShapeEnv
from tocha.ir.sym_types import FloatExpr

_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod"}
_COMPARE = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}
_UNARY = {ast.USub: "neg", ast.Not: "not"}

_NAMES = {**vars(math), "math": math}  # what the text of expressions may mention

Text = Callable[[Callable[[s.Atom], str]], str]


def _bound(atom: s.Atom, symbol: str, n: int, name: Any) -> str:
    return f"{name(atom)} {symbol} {n}"


class Numbers:
    """The numbers that guards meet, by place. A symbol stands for the first of them that it is."""

    def __init__(self, env: ShapeEnv) -> None:
        self.env = env
        self.sources: list[Source] = []
        self.expressions: list[Any] = []
        self.places: dict[s.Atom, int] = {}
        self.ranges: dict[s.Atom, tuple[Any, Any]] = {}

    def add(self, source: Source, number: Any) -> int:
        place = len(self.sources)
        self.sources.append(source)
        self.expressions.append(number.expr)
        atom = atom_of(number.expr)
        if atom is not None and atom not in self.places:
            self.places[atom] = place
            if atom in self.env.var_to_range:
                self.ranges[atom] = tuple(self.env.var_to_range[atom])  # type: ignore[assignment]
        return place

    def source_of(self, atom: s.Atom) -> Source | None:
        place = self.places.get(atom)
        return None if place is None else self.sources[place]

    def floats(self) -> tuple[bool, ...]:
        return tuple(isinstance(e, FloatExpr) for e in self.expressions)

    def relations(self) -> tuple[tuple[Any, str], ...]:
        """(steps or a function, text) for each."""
        found: dict[str, str] = {}
        for text in (*self._ranges(), *self._equations(), *self._guards()):
            found.setdefault(text(self._place_name), text(self._source_name))
        return tuple((self._steps(code), shown) for code, shown in found.items())

    def _place_name(self, atom: s.Atom) -> str:
        return f"_{self.places[atom]}"

    def _source_name(self, atom: s.Atom) -> str:
        return self.sources[self.places[atom]].name

    def _ranges(self) -> list[Text]:
        made: list[Text] = []
        for atom, (low, high) in self.ranges.items():
            if math.isfinite(low):
                made.append(partial(_bound, atom, ">=", int(low)))
            if math.isfinite(high):
                made.append(partial(_bound, atom, "<=", int(high)))
        return made

    def _equations(self) -> list[Text]:
        """Places where an expression of symbols that have places elsewhere was found."""
        made: list[Text] = []
        for place, e in enumerate(self.expressions):
            atom = atom_of(e)
            if atom is None or (self.places.get(atom) != place and atom not in self.env.unbacked):
                made.append(partial(self._equation, place, e))
        return made

    def _equation(self, place: int, e: Any, name: Any) -> str:
        left = f"_{place}" if name == self._place_name else self.sources[place].name
        return f"{left} == {s.text(e, name)}"

    def _guards(self) -> list[Text]:
        return [
            partial(s.relation_text, g.expr) for g in self.env.guards if all(a in self.places for a in g.expr.symbols)
        ]

    def _steps(self, code: str) -> Any:
        tree = ast.parse(code, mode="eval")
        floats = self.floats()
        try:
            if any(isinstance(n, ast.Name) and n.id[1:].isdigit() and floats[int(n.id[1:])] for n in ast.walk(tree)):
                raise NotImplementedError("floats")
            return tuple(_postfix(tree.body))
        except NotImplementedError:
            names = ", ".join(f"_{i}" for i in range(len(self.sources)))
            return eval(f"lambda {names}: {code}", dict(_NAMES))


def atom_of(e: Any) -> s.Atom | None:
    """The symbol that an expression is."""
    if isinstance(e, FloatExpr):
        return e.args[0] if e.name == "symbol" else None
    return s.atom_of(e) if isinstance(e, s.Expr) else None


def function_of(e: Any, atoms: list[s.Atom]) -> Any:
    """An expression as a function of its symbols' values."""
    shown = s.relation_text(e) if isinstance(e, s.Relation) else s.text(e)
    return eval(f"lambda {', '.join(a.name for a in atoms)}: {shown}", dict(_NAMES))


def _postfix(node: ast.AST) -> list[tuple[str, int]]:
    """Steps of the native machine, in the order of running. Raises where a number is no int."""
    match node:
        case ast.Name(id=name):
            return [("number", int(name[1:]))]
        case ast.Constant(value=int(value)) if abs(value) < 2**63:
            return [("constant", value)]
        case ast.BinOp(left=a, op=op, right=b) if type(op) in _BINARY:
            return [*_postfix(a), *_postfix(b), (_BINARY[type(op)], 0)]
        case ast.BinOp(left=a, op=ast.Pow(), right=ast.Constant(value=int(n))) if n > 0:
            return [*_postfix(a), *[step for _ in range(n - 1) for step in (*_postfix(a), ("mul", 0))]]
        case ast.UnaryOp(op=op, operand=a) if type(op) in _UNARY:
            return [*_postfix(a), (_UNARY[type(op)], 0)]
        case ast.Compare(left=a, ops=[op], comparators=[b]):
            return [*_postfix(a), *_postfix(b), (_COMPARE[type(op)], 0)]
        case ast.BoolOp(op=op, values=values):
            return _folded(values, "and" if isinstance(op, ast.And) else "or")
        case ast.Call(func=ast.Name(id=("min" | "max") as name), args=values):
            return _folded(values, name)
        case ast.Call(func=ast.Name(id="abs"), args=[a]):
            return [*_postfix(a), ("abs", 0)]
    raise NotImplementedError(ast.dump(node))


def _folded(values: list[Any], name: str) -> list[tuple[str, int]]:
    first, *rest = values
    return [*_postfix(first), *(step for v in rest for step in (*_postfix(v), (name, 0)))]
