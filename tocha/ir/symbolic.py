"""Symbolic integers: polynomials over symbols, with floor division, minimum, maximum and choice as further atoms.

An expression is an `int` or an `Expr`. Expressions are immutable, hash-consed and kept in one normal form (a sum of
integer multiples of products of atoms), so equal polynomials are one object. There is no modulo: `a % b` is
`a - b * (a // b)`, which lets `b * (a // b) + a % b` vanish into `a`; the printer finds the pattern again.

Relations (`eq`, `ne`, `ge`, ...) are `bool` or `Relation`: an expression compared with zero, or a combination of such.
What is known of symbols (ranges, guards) is in tocha.ir.assumptions; the integers that users hold are in tocha.ir.sym_types.
"""

from __future__ import annotations

import itertools
import math
import operator
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

Int = "int | Expr"
_serial = itertools.count()


class Atom:
    """What cannot be taken apart: a symbol, or a function of expressions. Numbered in the order of making."""

    __slots__ = ("__weakref__", "args", "kind", "name", "serial")

    def __init__(self, kind: str, args: tuple, name: str = ""):
        self.kind, self.args, self.name = kind, args, name
        self.serial = next(_serial)

    def __lt__(self, other: Atom) -> bool:
        return self.serial < other.serial

    def __repr__(self) -> str:
        return _atom_text(self, str)


Monomial = tuple[tuple[Atom, int], ...]  # atoms in order, with powers; () is 1
Terms = tuple[tuple[Monomial, int], ...]

_ATOMS: weakref.WeakValueDictionary[tuple, Atom] = weakref.WeakValueDictionary()
_EXPRS: weakref.WeakValueDictionary[Terms, Expr] = weakref.WeakValueDictionary()
_RELATIONS: weakref.WeakValueDictionary[tuple, Relation] = weakref.WeakValueDictionary()


class Expr:
    """A polynomial that is not a plain number. Compared by identity."""

    __slots__ = ("__weakref__", "_symbols", "terms")
    terms: Terms
    _symbols: frozenset[Atom] | None

    def __new__(cls, terms: Terms) -> Expr:
        found = _EXPRS.get(terms)
        if found is None:
            found = object.__new__(cls)
            found.terms = terms
            found._symbols = None
            _EXPRS[terms] = found
        return found

    def __add__(self, other: Any) -> Any:
        return add(self, other)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return scale(self, -1)

    def __sub__(self, other: Any) -> Any:
        return add(self, scale(other, -1))

    def __rsub__(self, other: Any) -> Any:
        return add(other, scale(self, -1))

    def __mul__(self, other: Any) -> Any:
        return mul(self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return floordiv(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return floordiv(other, self)

    def __mod__(self, other: Any) -> Any:
        return mod(self, other)

    def __rmod__(self, other: Any) -> Any:
        return mod(other, self)

    def __repr__(self) -> str:
        return text(self)

    def __deepcopy__(self, memo: dict) -> Expr:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("a symbolic expression belongs to this process: its symbols have no meaning elsewhere")

    @property
    def symbols(self) -> frozenset[Atom]:
        """Every symbol in it, also inside functions."""
        if self._symbols is None:
            found: set[Atom] = set()
            for monomial, _ in self.terms:
                for atom, _ in monomial:
                    if atom.kind == "symbol":
                        found.add(atom)
                    else:
                        for a in atom.args:
                            found |= free_symbols(a)
            self._symbols = frozenset(found)
        return self._symbols


def size_of(e: Any) -> int:
    """How many terms it is written with, those inside functions too: what working with it costs."""
    if not isinstance(e, Expr):
        return 1
    inside = (a for monomial, _ in e.terms for atom, _ in monomial for a in atom.args)
    return len(e.terms) + sum(size_of(a) for a in inside)


def has_functions(e: Any) -> bool:
    """Whether it has quotients, remainders or extremes in it."""
    return isinstance(e, Expr) and any(atom.args for monomial, _ in e.terms for atom, _ in monomial)


def free_symbols(e: Any) -> frozenset[Atom]:
    return getattr(e, "symbols", frozenset())  # floats have them too


def symbol(name: str) -> Expr:
    """A new symbol: two with the same name are different."""
    return Expr(((((Atom("symbol", (), name), 1),), 1),))


def atom_of(e: Any) -> Atom | None:
    """The atom that e is, if it is just one."""
    if isinstance(e, Expr) and len(e.terms) == 1:
        monomial, coefficient = e.terms[0]
        if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
            return monomial[0][0]
    return None


def of_atom(a: Atom) -> Expr:
    return Expr(((((a, 1),), 1),))


def _function(kind: str, args: tuple) -> Expr:
    key = (kind, args)
    found = _ATOMS.get(key)
    if found is None:
        found = _ATOMS[key] = Atom(kind, args)
    return of_atom(found)


# ---- polynomials ---------------------------------------------------------------------------------


def order_of(monomial: Monomial) -> tuple:
    return tuple((a.serial, p) for a, p in monomial)


def from_terms(terms: dict[Monomial, int]) -> Any:
    """The expression with these coefficients."""
    kept = [(m, c) for m, c in terms.items() if c]
    if not kept:
        return 0
    if len(kept) == 1:
        return kept[0][1] if not kept[0][0] else Expr((kept[0],))
    kept.sort(key=lambda t: order_of(t[0]))
    return Expr(tuple(kept))


def terms_of(e: Any) -> Terms:
    return e.terms if isinstance(e, Expr) else ((((), int(e)),) if e else ())


def constant_of(e: Any) -> int:
    """The term without symbols, which comes first."""
    if not isinstance(e, Expr):
        return e
    monomial, coefficient = e.terms[0]
    return 0 if monomial else coefficient


def add(a: Any, b: Any) -> Any:
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        return a + b
    if isinstance(a, int) and a == 0:
        return b
    if isinstance(b, int) and b == 0:
        return a
    out = dict(terms_of(a))
    for m, c in terms_of(b):
        out[m] = out.get(m, 0) + c
    return from_terms(out)


def total(values: Iterable[Any]) -> Any:
    """The sum of many, in one pass."""
    out: dict[Monomial, int] = {}
    for v in values:
        for m, c in terms_of(v):
            out[m] = out.get(m, 0) + c
    return from_terms(out)


def scale(e: Any, k: int) -> Any:
    if not isinstance(e, Expr):
        return e * k
    return 0 if k == 0 else e if k == 1 else Expr(tuple((m, c * k) for m, c in e.terms))


def _times(a: Monomial, b: Monomial) -> Monomial:
    if not a or not b:
        return a or b
    powers = dict(a)
    for atom, p in b:
        powers[atom] = powers.get(atom, 0) + p
    return tuple(sorted(powers.items(), key=lambda t: t[0].serial))


def mul(a: Any, b: Any) -> Any:
    if not isinstance(a, Expr):
        return scale(b, a) if isinstance(b, Expr) else a * b
    if not isinstance(b, Expr):
        return scale(a, b)
    out: dict[Monomial, int] = {}
    for m, c in a.terms:
        for n, d in b.terms:
            key = _times(m, n)
            out[key] = out.get(key, 0) + c * d
    return from_terms(out)


def add_product(terms: dict[Monomial, int], e: Any, monomial: Monomial, coefficient: int) -> None:
    """Adds e * monomial * coefficient to terms: sums under way need not be expressions."""
    for m, c in terms_of(e):
        key = _times(m, monomial)
        left = terms.get(key, 0) + c * coefficient
        if left:
            terms[key] = left
        else:
            del terms[key]


def shifted(terms: dict[Monomial, int], by: dict[Atom, int]) -> dict[Monomial, int]:
    """The terms with atom + by[atom] for each atom."""
    out: dict[Monomial, int] = {}
    for monomial, coefficient in terms.items():
        parts: dict[Monomial, int] = {(): coefficient}
        for atom, p in monomial:  # in order, so that what is made is in order
            n = by[atom]
            if n == 0:
                parts = {(*m, (atom, p)): c for m, c in parts.items()}
                continue
            steps = [(k, math.comb(p, k) * n ** (p - k)) for k in range(p + 1)]
            parts = {(*m, (atom, k)) if k else m: c * w for m, c in parts.items() for k, w in steps}
        for m, c in parts.items():
            out[m] = out.get(m, 0) + c
    return out


def power(base: Any, exponent: int) -> Any:
    """base ** exponent for a plain, non-negative exponent."""
    out: Any = 1
    for _ in range(exponent):
        out = mul(out, base)
    return out


def product(values: Iterable[Any]) -> Any:
    return reduce(mul, values, 1)


def content(e: Any) -> int:
    """The greatest number that divides every coefficient."""
    return math.gcd(*(c for _, c in terms_of(e))) if isinstance(e, Expr) else abs(e)


def _divided(m: Monomial, by: Monomial) -> Monomial | None:
    """m / by, if by divides m."""
    powers = dict(m)
    for atom, p in by:
        left = powers.get(atom, 0) - p
        if left < 0:
            return None
        if left:
            powers[atom] = left
        else:
            del powers[atom]
    return tuple((a, powers[a]) for a, _ in m if a in powers)


def exact_quotient(a: Any, b: Any) -> Any:
    """a / b where that is a polynomial, else None."""
    if not isinstance(b, Expr):
        if b == 0 or any(c % b for _, c in terms_of(a)):
            return None
        return from_terms({m: c // b for m, c in terms_of(a)})
    if not isinstance(a, Expr):
        return 0 if a == 0 else None
    # Long division by the last term in the order of terms, until nothing is left.
    lead, coefficient = b.terms[-1]
    quotient: dict[Monomial, int] = {}
    rest: Any = a
    for _ in range(4 * len(a.terms) + 4):
        if not isinstance(rest, Expr):
            return from_terms(quotient) if rest == 0 else None
        m, c = rest.terms[-1]
        q = _divided(m, lead)
        if q is None or c % coefficient:
            return None
        quotient[q] = quotient.get(q, 0) + c // coefficient
        rest = add(rest, scale(mul(from_terms({q: c // coefficient}), b), -1))
    return None


# ---- division, extrema, choice -------------------------------------------------------------------


def floordiv(a: Any, b: Any) -> Any:
    """a // b as Python rounds it. A zero divisor that is plain raises."""
    if not isinstance(b, Expr):
        if b == 0:
            raise ZeroDivisionError("integer division or modulo by zero")
        if not isinstance(a, Expr):
            return a // b
        if b < 0:
            a, b = scale(a, -1), -b
        if b == 1:
            return a
        # Whole multiples of b come out, and so does a common factor of what stays.
        whole = {m: c // b for m, c in a.terms}
        rest = from_terms({m: c % b for m, c in a.terms})
        return add(from_terms(whole), _reduced_floordiv(rest, b))
    if isinstance(a, int) and a == 0:
        return 0
    found = exact_quotient(a, b)
    if found is not None:
        return found
    whole_terms, rest_terms = {}, {}
    if len(b.terms) == 1:  # terms that are multiples of the divisor come out
        (divisor, coefficient), *_ = b.terms
        for m, c in terms_of(a):
            q = _divided(m, divisor)
            if q is not None and c % coefficient == 0:
                whole_terms[q] = c // coefficient
            else:
                rest_terms[m] = c
        if whole_terms:
            return add(from_terms(whole_terms), floordiv(from_terms(rest_terms), b))
    return _reduced_floordiv(a, b)


def _reduced_floordiv(a: Any, b: Any) -> Any:
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        return a // b
    common = math.gcd(content(a), content(b))
    if common > 1:
        a, b = exact_quotient(a, common), exact_quotient(b, common)
        if isinstance(b, int) and b == 1:
            return a
    if isinstance(a, Expr) and isinstance(b, int) and b > 0:
        inner = atom_of(a)
        if inner is not None and inner.kind == "floordiv" and isinstance(inner.args[1], int) and inner.args[1] > 0:
            return floordiv(inner.args[0], inner.args[1] * b)  # (x // p) // q = x // (p q)
        # A number that cannot carry into the next multiple: (4x + 3) // 8 = (4x) // 8 = x // 2.
        c = constant_of(a)
        if c:
            step = math.gcd(b, *(k for m, k in a.terms if m))
            if c % step:
                return floordiv(add(a, -(c % step)), b)
        # What rounds up in disguise, -x // b, is written as (x + b - 1) // b: padding to whole blocks is one term.
        if b > 2 and all(k == b - 1 for m, k in a.terms if m):
            x = from_terms({m: 1 for m, _ in a.terms if m})
            return add(x, scale(_function("floordiv", (add(x, b - 1 - c), b)), -1))
    return _function("floordiv", (a, b))


def mod(a: Any, b: Any) -> Any:
    """a % b, with the sign of b."""
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        return a % b
    return add(a, scale(mul(b, floordiv(a, b)), -1))


def ceildiv(a: Any, b: Any) -> Any:
    return scale(floordiv(scale(a, -1), b), -1)


def extremum(kind: str, values: Iterable[Any]) -> Any:
    """The minimum or maximum; values that differ by a number are compared here, others by assumptions."""
    pick = min if kind == "min" else max
    flat: list[Any] = []
    for v in values:
        inner = atom_of(v) if isinstance(v, Expr) else None
        flat += inner.args if inner is not None and inner.kind == kind else [v]
    best: dict[Any, int] = {}  # expression without its constant -> the constant that wins
    for v in flat:
        c = constant_of(v)
        key = add(v, -c)
        best[key] = pick(best[key], c) if key in best else c
    items = [add(k, c) for k, c in best.items()]
    if len(items) == 1:
        return items[0]
    items.sort(key=lambda e: [(order_of(m), c) for m, c in terms_of(e)])
    return _function(kind, tuple(items))


def minimum(*values: Any) -> Any:
    return extremum("min", values)


def maximum(*values: Any) -> Any:
    return extremum("max", values)


def choose(condition: Any, if_true: Any, if_false: Any) -> Any:
    """if_true where the relation holds, else if_false."""
    if isinstance(condition, bool):
        return if_true if condition else if_false
    return if_true if if_true is if_false else _function("choose", (condition, if_true, if_false))


_PLAIN: dict[str, Callable[..., int]] = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
    "pow": operator.pow,
    "abs": abs,
}


def function_of(kind: str) -> Callable[..., int]:
    """The function that an atom stands for, on plain ints."""
    return _PLAIN[kind] if kind in _PLAIN else _ROUNDINGS[kind]


def opaque(kind: str, *args: Any) -> Any:
    """A function about which nothing is known beyond its value: bit operations, a symbolic power, abs."""
    if all(isinstance(a, int) for a in args):
        return _PLAIN[kind](*args)
    return _function(kind, args)


# ---- relations -----------------------------------------------------------------------------------


class Relation:
    """`expr == 0`, `expr != 0`, `expr >= 0`; `not`, `and`, `or` of relations; or a comparison of floats."""

    __slots__ = ("__weakref__", "args", "kind")
    kind: str
    args: tuple

    def __new__(cls, kind: str, args: tuple) -> Relation:
        key = (kind, args)
        found = _RELATIONS.get(key)
        if found is None:
            found = object.__new__(cls)
            found.kind, found.args = kind, args
            _RELATIONS[key] = found
        return found

    @property
    def symbols(self) -> frozenset[Atom]:
        return frozenset().union(*(free_symbols(a) for a in self.args))

    def __repr__(self) -> str:
        return relation_text(self)

    def __bool__(self) -> bool:
        raise TypeError("whether a relation holds is asked of what is known of its symbols")


def _normal(e: Any, tighten: bool) -> Any:
    """e over the common factor of its coefficients; for e >= 0 the constant is rounded down."""
    factor = math.gcd(*(c for m, c in e.terms if m))
    if factor == 1:
        return e
    c = constant_of(e)
    if c % factor and not tighten:
        return None
    return from_terms({m: k // factor for m, k in e.terms})


def ge(a: Any, b: Any) -> Any:
    """a >= b"""
    e = add(a, scale(b, -1))
    if not isinstance(e, Expr):
        return e >= 0
    return Relation("ge", (_normal(e, True),))


def le(a: Any, b: Any) -> Any:
    return ge(b, a)


def gt(a: Any, b: Any) -> Any:
    return ge(a, add(b, 1))


def lt(a: Any, b: Any) -> Any:
    return ge(b, add(a, 1))


def eq(a: Any, b: Any) -> Any:
    e = add(a, scale(b, -1))
    if not isinstance(e, Expr):
        return e == 0
    e = _normal(e, False)
    if e is None:  # no multiple of the factor equals the constant
        return False
    if e.terms[-1][1] < 0:
        e = scale(e, -1)
    return Relation("eq", (e,))


def ne(a: Any, b: Any) -> Any:
    return negate(eq(a, b))


def negate(r: Any) -> Any:
    if isinstance(r, bool):
        return not r
    if r.kind == "eq":
        return Relation("ne", r.args)
    if r.kind == "ne":
        return Relation("eq", r.args)
    if r.kind == "ge":  # not e >= 0 is -e - 1 >= 0
        return ge(add(scale(r.args[0], -1), -1), 0)
    if r.kind == "not":
        return r.args[0]
    if r.kind in ("and", "or"):
        return combine("or" if r.kind == "and" else "and", [negate(a) for a in r.args])
    return Relation("not", (r,))


def combine(kind: str, relations: Iterable[Any]) -> Any:
    """All ("and") or any ("or") of them."""
    neutral = kind == "and"
    kept: list[Any] = []
    for r in relations:
        if isinstance(r, bool):
            if r is not neutral:
                return r
            continue
        kept += [a for a in (r.args if r.kind == kind else (r,)) if a not in kept]
    if not kept:
        return neutral
    return kept[0] if len(kept) == 1 else Relation(kind, tuple(kept))


# ---- values and substitution ---------------------------------------------------------------------


def evaluate(e: Any, values: Mapping[Atom, int]) -> Any:
    """The number (or bool) for these values of symbols; KeyError names a symbol without one."""
    if isinstance(e, Relation):
        return _evaluate_relation(e, values)
    if not isinstance(e, Expr):
        return e if isinstance(e, int | float) else e.evaluate(values)
    out = 0
    for monomial, coefficient in e.terms:
        for atom, p in monomial:
            coefficient *= _evaluate_atom(atom, values) ** p
        out += coefficient
    return out


def _evaluate_atom(atom: Atom, values: Mapping[Atom, int]) -> int:
    if atom.kind == "symbol":
        return values[atom]
    if atom.kind == "choose":
        condition, yes, no = atom.args
        return evaluate(yes if evaluate(condition, values) else no, values)
    args = [evaluate(a, values) for a in atom.args]
    if atom.kind == "floordiv":
        return args[0] // args[1]
    if atom.kind == "min":
        return min(args)
    if atom.kind == "max":
        return max(args)
    if atom.kind in _PLAIN:
        return _PLAIN[atom.kind](*args)
    return _ROUNDINGS[atom.kind](*args)  # of floats


_ROUNDINGS: dict[str, Callable[..., int]] = {
    "trunc": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
}


def _evaluate_relation(r: Relation, values: Mapping[Atom, int]) -> bool:
    if r.kind in ("and", "or"):
        return (all if r.kind == "and" else any)(evaluate(a, values) for a in r.args)
    if r.kind == "not":
        return not evaluate(r.args[0], values)
    if r.kind == "compare":
        name, a, b = r.args
        return COMPARISONS[name](evaluate(a, values), evaluate(b, values))
    value = evaluate(r.args[0], values)
    return value == 0 if r.kind == "eq" else value != 0 if r.kind == "ne" else value >= 0


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def compare_floats(name: str, a: Any, b: Any) -> Any:
    return Relation("compare", (name, a, b))


def substitute(e: Any, values: Mapping[Atom, Any]) -> Any:
    """e with expressions in place of symbols (or of whole atoms)."""
    if isinstance(e, Relation):
        return _substitute_relation(e, values)
    if not isinstance(e, Expr):
        return e if isinstance(e, int | float) else e.substitute(values)
    if not any(s in values for s in e.symbols) and all(a.kind == "symbol" for a in values):
        return e
    out: list[Any] = []
    for monomial, coefficient in e.terms:
        factors = [power(_substitute_atom(a, values), p) for a, p in monomial]
        out.append(scale(product(factors), coefficient))
    return total(out)


def _substitute_atom(atom: Atom, values: Mapping[Atom, Any]) -> Any:
    if atom in values:
        return values[atom]
    if atom.kind == "symbol":
        return of_atom(atom)
    return rebuilt(atom, [substitute(a, values) for a in atom.args])


def rebuilt(atom: Atom, args: list[Any]) -> Any:
    """The function that atom is, of other arguments."""
    if atom.kind == "floordiv":
        return floordiv(*args)
    if atom.kind in ("min", "max"):
        return extremum(atom.kind, args)
    if atom.kind == "choose":
        return choose(*args)
    if atom.kind in _ROUNDINGS:
        plain = isinstance(args[0], int | float)
        return _ROUNDINGS[atom.kind](*args) if plain else rounding(atom.kind, *args)
    return opaque(atom.kind, *args)


def rounding(kind: str, value: Any) -> Any:
    """A float made an integer: trunc, floor, ceil, round. Sizes times 2.0 or 0.5 are exact, and remain what can be reasoned about."""
    scaled = value.scaled_integer()
    if scaled is not None:
        e, factor = scaled
        if float(factor).is_integer():
            return scale(e, int(factor))
        parts = 1 / factor
        if kind in ("floor", "ceil") and math.frexp(parts)[0] == 0.5 and parts > 1:
            return (floordiv if kind == "floor" else ceildiv)(e, int(parts))
    return _function(kind, (value,))


def _substitute_relation(r: Relation, values: Mapping[Atom, Any]) -> Any:
    if r.kind in ("and", "or"):
        return combine(r.kind, [substitute(a, values) for a in r.args])
    if r.kind == "not":
        return negate(substitute(r.args[0], values))
    if r.kind == "compare":
        name, a, b = r.args
        a, b = substitute(a, values), substitute(b, values)
        plain = isinstance(a, int | float) and isinstance(b, int | float)
        return COMPARISONS[name](a, b) if plain else compare_floats(name, a, b)
    e = substitute(r.args[0], values)
    return eq(e, 0) if r.kind == "eq" else ne(e, 0) if r.kind == "ne" else ge(e, 0)


# ---- text ----------------------------------------------------------------------------------------


def text(e: Any, name: Callable[[Atom], str] | None = None) -> str:
    """Python for e; `name` says how a symbol is written."""
    if not isinstance(e, Expr):
        return repr(e) if isinstance(e, int | float) else e.text(name)
    shown = name or (lambda a: a.name)
    rest, modulos = _with_modulos(e)
    parts = [_term_text(m, c, shown) for m, c in sorted(terms_of(rest), key=lambda t: (not t[0], order_of(t[0])))]
    parts += [
        (c < 0, ("" if abs(c) == 1 else f"{abs(c)}*") + f"({operand(a, name)} % {operand(b, name)})")
        for c, a, b in modulos
    ]
    parts.sort(key=lambda p: p[0])
    out = ""
    for negative, piece in parts:
        sign = "-" if negative else "+"
        out += f" {sign} {piece}" if out else (f"-{piece}" if negative else piece)
    return out


def _with_modulos(e: Expr) -> tuple[Any, list[tuple[int, Any, Any]]]:
    """e as (rest, [(c, a, b)]) with e = rest + sum of c * (a % b)."""
    found = []
    rest: Any = e
    for monomial, coefficient in e.terms:
        for atom, p in monomial:
            if atom.kind != "floordiv" or p != 1:
                continue
            a, b = atom.args
            times = exact_quotient(from_terms({monomial: coefficient}), mul(b, of_atom(atom)))
            if isinstance(times, int) and _contains(rest, scale(a, -times)):
                rest = add(rest, scale(mod(a, b), times))
                found.append((-times, a, b))
                break
    return rest, found


def _contains(e: Any, part: Any) -> bool:
    have = dict(terms_of(e))
    return all(m in have and (have[m] > 0) == (c > 0) and abs(have[m]) >= abs(c) for m, c in terms_of(part))


def _term_text(monomial: Monomial, c: int, name: Callable[[Atom], str]) -> tuple[bool, str]:
    if not monomial:
        return c < 0, str(abs(c))
    pieces = [_atom_text(a, name) + (f"**{p}" if p > 1 else "") for a, p in monomial]
    return c < 0, "*".join(pieces if abs(c) == 1 else [str(abs(c)), *pieces])


def operand(e: Any, name: Callable[[Atom], str] | None) -> str:
    """Python for e beside an operator: in brackets unless it is one number, one symbol, or has brackets of its own."""
    if isinstance(e, int | float):
        return repr(e) if e >= 0 else f"({e!r})"
    return f"({text(e, name)})" if isinstance(e, Expr) and atom_of(e) is None else text(e, name)


def _atom_text(atom: Atom, name: Callable[[Atom], str]) -> str:
    if atom.kind == "symbol":
        return atom.name if name is str else name(atom)
    by = None if name is str else name
    if atom.kind == "floordiv":
        return f"({operand(atom.args[0], by)}//{operand(atom.args[1], by)})"
    if atom.kind == "choose":
        c, yes, no = atom.args
        return f"({text(yes, by)} if {relation_text(c, by)} else {text(no, by)})"
    infix = {"and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "pow": "**"}.get(atom.kind)
    if infix:
        return f"({operand(atom.args[0], by)} {infix} {operand(atom.args[1], by)})"
    return f"{atom.kind}({', '.join(text(a, by) for a in atom.args)})"


def relation_text(r: Any, name: Callable[[Atom], str] | None = None) -> str:
    """Python for a relation, negative terms on the other side."""
    if isinstance(r, bool):
        return str(r)
    if r.kind in ("and", "or"):
        return f" {r.kind} ".join(f"({relation_text(a, name)})" for a in r.args)
    if r.kind == "not":
        return f"not ({relation_text(r.args[0], name)})"
    if r.kind == "compare":
        op, a, b = r.args
        return f"{text(a, name)} {op} {text(b, name)}"
    left, right = _two_sides(r.args[0])
    if r.kind == "ge":
        c = constant_of(right)
        if not isinstance(left, Expr):  # 7 >= s is s <= 7
            return f"{text(right, name)} <= {text(left, name)}"
        if isinstance(right, Expr) and not c and constant_of(left) == -1:
            return f"{text(add(left, 1), name)} > {text(right, name)}"
        return f"{text(left, name)} >= {text(right, name)}"
    if not isinstance(left, Expr):
        left, right = right, left
    return f"{text(left, name)} {'==' if r.kind == 'eq' else '!='} {text(right, name)}"


def _two_sides(e: Expr) -> tuple[Any, Any]:
    """e as left - right with no negative coefficients; whole modulos stay on one side."""
    rest, modulos = _with_modulos(e)
    left = from_terms({m: c for m, c in terms_of(rest) if c > 0})
    right = from_terms({m: -c for m, c in terms_of(rest) if c < 0})
    for c, a, b in modulos:
        if c > 0:
            left = add(left, scale(mod(a, b), c))
        else:
            right = add(right, scale(mod(a, b), -c))
    return left, right
