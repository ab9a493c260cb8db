"""What is known of symbols: their ranges, equations that replace one by another, inequalities learnt from guards.

`Assumptions.holds(relation)` answers True or False where that follows for all values, None where it does not. Proofs are
sound and not complete: ranges of polynomials (also after moving each symbol to its least value, so that products of
sizes compare), one learnt inequality at a time, and cases for minimum and maximum. ShapeEnv (tocha.ir.shape_env) owns one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from tocha.ir import symbolic as s
from tocha.ir.symbolic import Atom, Expr, Relation

Bound = int | float  # a float only for the infinities
Range = tuple[Bound, Bound]
EVERYTHING: Range = (-math.inf, math.inf)
_OTHER = s.symbol("other")  # occurs nowhere: what changes when it is put in contains what it is put in for


def _times(a: Bound, b: Bound) -> Bound:
    return 0 if a == 0 or b == 0 else a * b


def _range_product(a: Range, b: Range) -> Range:
    corners = [_times(x, y) for x in a for y in b]
    return min(corners), max(corners)


def solve(r: Relation, unknown: Atom) -> Any:
    """What `unknown` equals where r is an equation with it as a plain term of coefficient 1 or -1; else None."""
    if r.kind != "eq":
        return None
    e = r.args[0]
    mine = dict(e.terms).get(((unknown, 1),))
    if mine not in (1, -1):
        return None
    rest = s.add(e, s.scale(s.of_atom(unknown), -mine))
    return None if unknown in s.free_symbols(rest) else s.scale(rest, -mine)


def _cases(e: Expr, atom: Atom) -> Iterator[Any]:
    """e with each argument of a minimum or maximum in its place. Where that would divide by 0 the case cannot be."""
    for a in atom.args:
        try:
            case = s.substitute(e, {atom: a})
        except ZeroDivisionError:
            continue
        yield case


def _remainders(e: Expr) -> Iterator[tuple[Any, int, Any]]:
    """(rest, k, n) for each way to see e as rest + k * (a % n), which is a - n * (a // n)."""
    terms = dict(e.terms)
    for monomial, coefficient in e.terms:
        for atom, p in monomial:
            if atom.kind != "floordiv" or p != 1:
                continue
            a, n = atom.args
            if isinstance(n, int):
                if len(monomial) == 1 and n > 0 and coefficient % n == 0:
                    k = -coefficient // n
                    yield s.add(e, s.scale(s.mod(a, n), -k)), k, n
                continue
            (first, times), *_ = n.terms
            ((product, _),) = s.mul(s.from_terms({first: 1}), s.of_atom(atom)).terms
            if product == monomial and terms[product] % times == 0:
                k = -terms[product] // times
                rest = s.add(e, s.scale(s.mod(a, n), -k))
                if not any(atom is a for m, _ in s.terms_of(rest) for a, _ in m):
                    yield rest, k, n


@lru_cache(maxsize=1 << 14)
def _parts(e: Expr) -> frozenset[s.Monomial]:
    """The monomials of e, also behind divisions. What is known of an expression that has none of them says nothing of e: bounds of
    the difference are those of each by itself."""
    found = {m for m in dict(e.terms) if m}
    for monomial in tuple(found):
        for atom, p in monomial:
            if atom.kind == "floordiv" and p == 1 and isinstance(atom.args[0], Expr):
                others = s.from_terms({tuple(t for t in monomial if t[0] is not atom): 1})
                opened = s.mul(others, atom.args[0])
                found |= _parts(opened) if isinstance(opened, Expr) else set()
    return frozenset(found)


def _floor(a: Bound, b: Bound) -> Bound:
    """a // b with infinities; b is not zero."""
    if math.isinf(b):
        return (
            0
            if not math.isinf(a) and (a >= 0) == (b > 0)
            else (-1 if not math.isinf(a) else math.copysign(math.inf, a) * math.copysign(1, b))
        )
    if math.isinf(a):
        return a if b > 0 else -a
    return a // b


def _steps(a: Expr, b: Any) -> Iterator[tuple[Any, Any]]:
    """What divides b and some of a's terms, the greatest first, and the sum of a's other terms."""
    (factor, multiple), *others = s.terms_of(b)
    if others or multiple <= 0:
        return
    shared = dict.fromkeys(_shared(m, factor) for m, _ in a.terms if m)
    for common in sorted(shared, key=len, reverse=True):
        whole = {m: c for m, c in a.terms if _shared(m, common) == common}
        multiples = {math.gcd(multiple, c) for m, c in whole.items() if m}
        for step in sorted(multiples - ({1} if not common else set()), reverse=True):
            small = s.from_terms({m: c for m, c in a.terms if m not in whole or c % step})
            if small != 0 and small is not a and (common, step) != (factor, multiple):
                yield s.from_terms({common: step}), small


def _wholes(a: Expr, b: Expr) -> Iterator[Any]:
    """What a // b may be for a sum b: quotients of a's terms by one of b's, those of most factors first."""
    for factor, multiple in sorted(b.terms, key=lambda t: -len(t[0])):
        found = {m: c for m, c in a.terms if factor and _shared(m, factor) == factor and c % multiple == 0}
        if found:
            yield s.exact_quotient(s.from_terms(found), s.from_terms({factor: multiple}))


def _shared(a: s.Monomial, b: s.Monomial) -> s.Monomial:
    powers = dict(b)
    return tuple((atom, min(p, powers[atom])) for atom, p in a if atom in powers)


class Assumptions:
    """Facts about symbols. Changes only by learning more."""

    def __init__(self) -> None:
        self.ranges: dict[Atom, Range] = {}
        self.sizes: dict[Atom, Any] = {}  # of indices: each is at least 0 and less than its size
        self.replacements: dict[Atom, Any] = {}  # a symbol's value in terms of others; never in terms of itself
        self.multiples: dict[Atom, tuple[int, Any]] = {}  # floordiv atom q = a // k with k dividing a: (k, a)
        self.nonnegative: list[Expr] = []  # learnt: each is >= 0
        self.nonzero: set[Expr] = set()
        self.true: set[Relation] = set()  # learnt as they stand: those of other forms
        self.late: set[Atom] = set()  # symbols that nobody knows before the program runs
        self._bounds: dict[Any, Range] = {}
        self._known: dict[Relation, bool | None] = {}

    def copy(self) -> Assumptions:
        made = Assumptions()
        made.ranges, made.replacements, made.multiples = (
            dict(self.ranges),
            dict(self.replacements),
            dict(self.multiples),
        )
        made.nonnegative, made.nonzero, made.true = list(self.nonnegative), set(self.nonzero), set(self.true)
        made.sizes, made.late = dict(self.sizes), self.late
        return made

    # -- learning

    def forget_derived(self) -> None:
        self._bounds.clear()
        self._known.clear()

    def constrain(self, symbol: Atom, low: Bound, high: Bound) -> bool:
        """Narrows a symbol's range; False if nothing is left of it."""
        old_low, old_high = self.ranges.get(symbol, EVERYTHING)
        new = (max(low, old_low), min(high, old_high))
        if new != (old_low, old_high):
            self.ranges[symbol] = new
            self.forget_derived()
        return new[0] <= new[1]

    def index(self, symbol: Any, size: Any) -> Any:
        """The symbol, which counts from 0 to below a size."""
        atom = s.atom_of(symbol)
        assert atom is not None
        self.constrain(atom, 0, size - 1 if isinstance(size, int) else math.inf)
        self.sizes[atom] = size
        return symbol

    def learn(self, r: Any) -> None:
        """r holds from now on."""
        r = self.simplify(r)
        if isinstance(r, bool):
            return
        self.forget_derived()
        if r.kind == "and":
            for part in r.args:
                self.learn(part)
        elif r.kind == "eq":
            self._learn_equation(r)
        elif r.kind == "ge":
            self._learn_inequality(r.args[0])
        elif r.kind == "ne":
            self._learn_difference(r.args[0])
        else:
            self.true.add(r)
        self.forget_derived()

    def _learn_equation(self, r: Relation) -> None:
        e = r.args[0]
        # The newest symbol gives way, so that inputs that came first keep their names; before any of them one that comes from
        # data, for which then stands what can be asked for its value.
        for symbol in sorted(e.symbols, key=lambda a: (a not in self.late, -a.serial)):
            value = solve(r, symbol)
            if value is not None:
                self.replace(symbol, value)
                return
        if (within := self._within_minimum(e)) is not None:
            self.learn(within)
            return
        for monomial, _ in e.terms:  # k * (a // k) == a: k divides a
            if len(monomial) == 1 and monomial[0][0].kind == "floordiv" and monomial[0][1] == 1:
                a, k = monomial[0][0].args
                if isinstance(k, int) and s.add(s.scale(s.of_atom(monomial[0][0]), k), s.scale(a, -1)) in (
                    e,
                    s.scale(e, -1),
                ):
                    self.multiples[monomial[0][0]] = (k, a)
                    return
        self.nonnegative += [e, s.scale(e, -1)]

    def _within_minimum(self, e: Expr) -> Relation | None:
        """What min(n, b) == min(n, a) + k says where b is a + k and k > 0: that b is at most n. So a slice that is as long as
        asked for lies within its dim."""
        minima = {c: m[0][0] for m, c in e.terms if len(m) == 1 and m[0][0].kind == "min" and m[0][1] == 1}
        if set(minima) != {1, -1} or any(len(atom.args) != 2 for atom in minima.values()):
            return None
        upper, lower = minima[1], minima[-1]
        k = s.add(s.add(s.of_atom(upper), s.scale(s.of_atom(lower), -1)), s.scale(e, -1))
        if self.holds(s.lt(k, 0)):
            upper, lower, k = lower, upper, s.scale(k, -1)
        for n, b in (upper.args, upper.args[::-1]):
            a = s.add(b, s.scale(k, -1))
            if lower.args in ((n, a), (a, n)) and self.holds(s.gt(k, 0)):
                return s.le(b, n)
        return None

    def replace(self, symbol: Atom, value: Any) -> None:
        low, high = self.ranges.get(symbol, EVERYTHING)
        other = s.atom_of(value) if isinstance(value, Expr) else None
        if other is not None and other.kind == "symbol":
            self.constrain(other, low, high)
        elif isinstance(value, Expr):
            self.nonnegative += [s.add(value, -int(low))] if not math.isinf(low) else []
            self.nonnegative += [s.add(s.scale(value, -1), int(high))] if not math.isinf(high) else []
        known = {symbol: value}
        self.replacements = {k: s.substitute(v, known) for k, v in self.replacements.items()} | known
        self.nonnegative = [e for e in (s.substitute(x, known) for x in self.nonnegative) if isinstance(e, Expr)]
        self.nonzero = {e for e in (s.substitute(x, known) for x in self.nonzero) if isinstance(e, Expr)}
        self.true = {r for r in (s.substitute(x, known) for x in self.true) if isinstance(r, Relation)}
        self.sizes = {a: s.substitute(n, known) for a, n in self.sizes.items()}

    def _learn_inequality(self, e: Expr) -> None:
        bound = self._as_range(e)
        if bound is None:
            self.nonnegative.append(e)
        else:
            self.constrain(*bound)

    def _as_range(self, e: Expr) -> tuple[Atom, Bound, Bound] | None:
        """e >= 0 as a range of its only symbol."""
        rest = [t for t in e.terms if t[0]]
        if len(rest) != 1 or len(rest[0][0]) != 1 or rest[0][0][0][1] != 1 or rest[0][0][0][0].kind != "symbol":
            return None
        atom, k, c = rest[0][0][0][0], rest[0][1], s.constant_of(e)
        return (atom, -(c // k), math.inf) if k > 0 else (atom, -math.inf, c // -k)

    def _learn_difference(self, e: Expr) -> None:
        self.nonzero.add(e)
        bound = self._as_range(e)
        if bound is not None:  # s != its end: the range moves in
            atom = bound[0]
            k = next(c for m, c in e.terms if m)
            value, exact = divmod(-s.constant_of(e), k)
            low, high = self.ranges.get(atom, EVERYTHING)
            if exact == 0 and value == low:
                self.constrain(atom, value + 1, high)
            elif exact == 0 and value == high:
                self.constrain(atom, low, value - 1)

    # -- simplifying

    def simplify(self, e: Any) -> Any:
        """e with known equations applied, and minima, maxima and divisions decided where ranges decide them."""
        if isinstance(e, Relation):
            out = s.substitute(e, self.replacements) if self.replacements else e
            if isinstance(out, Relation) and out.kind in ("eq", "ne", "ge"):
                inner = self.simplify(out.args[0])
                if inner is not out.args[0]:
                    out = {"eq": s.eq, "ne": s.ne, "ge": s.ge}[out.kind](inner, 0)
            return out
        if not isinstance(e, Expr):
            return e if isinstance(e, int | float) else e.simplify(self)
        if self.replacements:
            e = s.substitute(e, self.replacements)
            if not isinstance(e, Expr):
                return e
        if all(a.kind == "symbol" for m, _ in e.terms for a, _ in m):
            return e
        return self._simplify_functions(e)

    def _simplify_functions(self, e: Expr) -> Any:
        out = []
        for monomial, coefficient in e.terms:
            factors: list[Any] = []
            for atom, p in monomial:
                if atom in self.multiples and coefficient % self.multiples[atom][0] == 0 and p == 1:
                    k, a = self.multiples[atom]
                    coefficient //= k
                    factors.append(a)
                else:
                    factors.append(s.power(self._simplify_atom(atom), p))
            out.append(s.scale(s.product(factors), coefficient))
        return s.total(out)

    def _simplify_atom(self, atom: Atom) -> Any:
        if atom.kind == "symbol":
            return s.of_atom(atom)
        args = [self.simplify(a) for a in atom.args]
        if atom.kind in ("min", "max"):
            return s.extremum(atom.kind, self._undominated(atom.kind, args))
        if atom.kind == "floordiv":
            return self._divided(*args)
        if atom.kind == "choose":
            known = self.holds(args[0])
            return args[1] if known else args[2] if known is False else s.choose(*args)
        return s.rebuilt(atom, args)

    def _undominated(self, kind: str, args: list[Any]) -> list[Any]:
        kept: list[Any] = []
        for i, a in enumerate(args):
            others = args[i + 1 :] + kept
            beaten = any(self.holds(s.le(a, b) if kind == "max" else s.ge(a, b)) for b in others)
            if not beaten:
                kept.append(a)
        return kept

    def _divided(self, a: Any, b: Any) -> Any:
        q = s.floordiv(a, b)
        atom = s.atom_of(q) if isinstance(q, Expr) else None
        if atom is not None and atom.kind == "floordiv":
            low, high = self.bounds(q)
            if low == high:
                return int(low)
            if isinstance(b, Expr):
                if self.holds(s.ge(a, 0)) and self.holds(s.lt(a, b)):
                    return 0
                if self.holds(s.lt(a, 0)) and self.holds(s.ge(s.add(a, b), 0)):
                    return -1
            counted = self._counted_down(*atom.args)
            return self._without_small_terms(q, *atom.args) if counted is None else counted
        return q

    def _counted_down(self, a: Any, b: Any) -> Any:
        """a // b where a lies within one multiple of b, once -x is no longer written as (b - 1) x - b x: what flips of flips read."""
        if not isinstance(b, int) or not isinstance(a, Expr):
            return None
        turned = s.from_terms({monomial: 1 for monomial, c in a.terms if monomial and 2 * c > b})
        low, high = self.bounds(s.add(a, s.scale(turned, -b)))
        return None if math.isinf(high - low) or low // b != high // b else s.add(turned, int(low // b))

    def _without_small_terms(self, q: Any, a: Any, b: Any) -> Any:
        """q = a // b, without terms that never carry into the next multiple: (8x + y) // 32 = x // 4 for 0 <= y < 8."""
        if not isinstance(a, Expr):
            return q
        if isinstance(b, Expr) and len(b.terms) > 1:  # ((n + m) * i + j) // (n + m) = i for 0 <= j < n + m
            for whole in _wholes(a, b):
                small = s.add(a, s.scale(s.mul(whole, b), -1))
                if self.holds(s.ge(small, 0)) and self.holds(s.lt(small, b)):
                    return whole
            return q
        for step, small in _steps(a, b):
            if self.holds(s.ge(small, 0)) and self.holds(s.lt(small, step)):
                return self._divided(s.exact_quotient(s.add(a, s.scale(small, -1)), step), s.exact_quotient(b, step))
        return q

    # -- ranges

    def bounds(self, e: Any) -> Range:
        """Least and greatest value."""
        if not isinstance(e, Expr):
            return (e, e) if isinstance(e, int | float) else EVERYTHING
        found = self._bounds.get(e)
        if found is None:
            self._bounds[e] = EVERYTHING  # while under way
            low, high = self._interval(e)
            for rest, times, divisor in _remainders(e):
                if isinstance(divisor, Expr):
                    if self.bounds(divisor)[0] >= 1:
                        other = s.add(rest, s.scale(s.add(divisor, -1), times))
                        less, more = (rest, other) if times > 0 else (other, rest)
                        low, high = max(low, self.bounds(less)[0]), min(high, self.bounds(more)[1])
                    continue
                (a, b), (c, d) = self.bounds(rest), _range_product((times, times), (0, divisor - 1))
                low, high = max(low, a + c), min(high, b + d)
            if math.isinf(low):
                low = max(low, self._least(e), self._least_from_ends(e))
            if math.isinf(high):
                high = min(high, -max(self._least(s.scale(e, -1)), self._least_from_ends(s.scale(e, -1))))
            found = self._bounds[e] = (low, high)
        return found

    def _interval(self, e: Expr) -> Range:
        low: Bound = 0
        high: Bound = 0
        for monomial, coefficient in e.terms:
            r: Range = (coefficient, coefficient)
            for atom, p in monomial:
                r = _range_product(r, self._power_range(self._atom_range(atom), p))
            low, high = low + r[0], high + r[1]
        return low, high

    @staticmethod
    def _power_range(r: Range, p: int) -> Range:
        if p % 2 == 0 and r[0] < 0 < r[1]:
            return 0, max(r[0] ** p, r[1] ** p)
        ends = (r[0] ** p, r[1] ** p)
        return min(ends), max(ends)

    def _atom_range(self, atom: Atom) -> Range:
        if atom.kind == "symbol":
            return self.ranges.get(atom, EVERYTHING)
        found = self._bounds.get(atom)
        if found is None:
            found = self._bounds[atom] = self._function_range(atom)
        return found

    def _function_range(self, atom: Atom) -> Range:
        if atom.kind == "floordiv":
            (a, b), (c, d) = self.bounds(atom.args[0]), self.bounds(atom.args[1])
            if c > 0 or d < 0:
                corners = [_floor(x, y) for x in (a, b) for y in (c, d)]
                return min(corners), max(corners)
            return EVERYTHING
        if atom.kind in ("min", "max"):
            each = [self.bounds(a) for a in atom.args]
            pick = min if atom.kind == "min" else max
            low, high = pick(r[0] for r in each), pick(r[1] for r in each)
            if len(each) == 2 and s.add(*atom.args) == 0:  # a magnitude, or less one
                low, high = (max(low, 0), high) if atom.kind == "max" else (low, min(high, 0))
            return low, high
        if atom.kind == "choose":
            x, y = self.bounds(atom.args[1]), self.bounds(atom.args[2])
            return min(x[0], y[0]), max(x[1], y[1])
        if atom.kind == "abs":
            a, b = self.bounds(atom.args[0])
            return (0 if a <= 0 <= b else min(abs(a), abs(b))), max(abs(a), abs(b))
        if atom.kind == "and" and any(isinstance(x, int) and x >= 0 for x in atom.args):
            return 0, next(x for x in atom.args if isinstance(x, int) and x >= 0)
        return EVERYTHING

    def _least(self, e: Expr) -> Bound:
        """A lower bound that sees how terms belong together: divisions are opened, then every atom is counted from its
        least value; where no coefficient is negative after that, the constant is the least value."""
        terms, over = self._opened(e)
        if not any(terms):
            return terms.get((), 0) // over
        lows: dict[Atom, int] = {}
        for monomial in terms:
            for atom, _ in monomial:
                if atom not in lows:
                    low = self._atom_range(atom)[0]
                    if math.isinf(low):
                        return -math.inf
                    lows[atom] = int(low)
        shifted = s.shifted(terms, lows)
        if any(c < 0 for m, c in shifted.items() if m):
            return -math.inf
        return -(-shifted.get((), 0) // over)

    def _least_from_ends(self, e: Expr) -> Bound:
        """A lower bound that counts an index which makes e smaller from its end, which may be symbolic: of n * m - n * i - j for
        i < m and j < n."""
        smaller = {a for m, c in e.terms if c < 0 for a, _ in m if a in self.sizes}
        held = [s.of_atom(a) for m, _ in e.terms for a, _ in m if a.kind != "symbol"]
        if not smaller or any(smaller & s.free_symbols(x) for x in (*held, *(self.sizes[a] for a in smaller))):
            return -math.inf
        ends = {a: s.add(s.add(self.sizes[a], -1), s.scale(s.of_atom(a), -1)) for a in smaller}
        turned = s.total(s.scale(s.product(s.power(ends.get(a, s.of_atom(a)), p) for a, p in m), c) for m, c in e.terms)
        lows: dict[Atom, int] = {}
        for monomial, _ in s.terms_of(turned):
            for atom, _ in monomial:
                low = 0 if atom in smaller else self._atom_range(atom)[0]
                if math.isinf(low):
                    return -math.inf
                lows[atom] = int(low)
        shifted = s.shifted(dict(s.terms_of(turned)), lows)
        return -math.inf if any(c < 0 for m, c in shifted.items() if m) else shifted.get((), 0)

    def _opened(self, e: Expr) -> tuple[dict[s.Monomial, int], int]:
        """A lower bound of over * e without divisions: b * (a // b) is more than a - b and at most a, for b > 0."""
        terms, over = dict(e.terms), 1
        for _ in range(4):
            found = [(m, a) for m in terms for a, p in m if a.kind == "floordiv" and p == 1]
            if not found:
                break
            monomial, atom = found[0] if len(found) == 1 else min(found, key=lambda t: s.order_of(t[0]))
            coefficient = terms[monomial]
            a, b = atom.args
            others = tuple(t for t in monomial if t[0] is not atom)
            if isinstance(b, int):
                if b < 0 or self.bounds(s.from_terms({others: 1}))[0] < 0:
                    break
                terms, over = {m: c * b for m, c in terms.items()}, over * b
                least, times = a if coefficient < 0 else s.add(a, 1 - b), others
            else:
                quotient = s.exact_quotient(s.from_terms({others: 1}), b)
                if quotient is None or self.bounds(b)[0] < 1 or self.bounds(quotient)[0] < 0:
                    break
                least = a if coefficient < 0 else s.add(s.add(a, 1), s.scale(b, -1))
                least, times = s.mul(quotient, least), ()
            del terms[monomial]
            s.add_product(terms, least, times, coefficient)
        return terms, over

    # -- proofs

    def holds(self, r: Any) -> bool | None:
        """True or False if that follows from what is known, else None."""
        if isinstance(r, bool):
            return r
        if r not in self._known:
            self._known[r] = None  # while under way
            self._known[r] = self._decide(self.simplify(r))
        return self._known[r]

    def _decide(self, r: Any) -> bool | None:
        if isinstance(r, bool):
            return r
        if r in self.true:
            return True
        if s.negate(r) in self.true:
            return False
        if r.kind in ("and", "or"):
            answers = [self.holds(a) for a in r.args]
            decisive = r.kind == "or"
            if decisive in answers:
                return decisive
            return None if None in answers else not decisive
        if r.kind == "not":
            inner = self.holds(r.args[0])
            return None if inner is None else not inner
        if r.kind == "compare":
            return None
        e = r.args[0]
        if r.kind == "ge":
            return True if self.is_nonnegative(e) else False if self.is_nonnegative(s.add(s.scale(e, -1), -1)) else None
        different = (
            e in self.nonzero
            or s.scale(e, -1) in self.nonzero
            or self.is_nonnegative(s.add(e, -1))
            or self.is_nonnegative(s.add(s.scale(e, -1), -1))
        )
        if different:
            return r.kind == "ne"
        if self.is_nonnegative(e) and self.is_nonnegative(s.scale(e, -1)):
            return r.kind == "eq"
        return None

    def is_nonnegative(self, e: Any, cases: int = 2) -> bool:
        if self.bounds(e)[0] >= 0:
            return True
        if not isinstance(e, Expr):
            return False
        own = _parts(e)
        for f in self.nonnegative:
            if not own.isdisjoint(_parts(f)) and self.bounds(s.add(e, s.scale(f, -1)))[0] >= 0:
                return True
        return bool(cases) and self._by_cases(e, cases - 1)

    def _by_cases(self, e: Expr, cases: int) -> bool:
        for monomial, coefficient in e.terms:
            for atom, _ in monomial:
                if atom.kind in ("min", "max"):
                    # It equals one of its arguments; where it stands alone, on its good side, any is a lower bound.
                    rest = s.add(e, s.from_terms({monomial: -coefficient}))
                    alone = monomial == ((atom, 1),) and s.substitute(rest, {atom: _OTHER}) == rest
                    enough = any if alone and (coefficient > 0) == (atom.kind == "max") else all
                    return enough(self.is_nonnegative(each, cases) for each in _cases(e, atom))
        return False
