"""Symbolic integers: normal form, what follows from ranges and guards, and the environment that records them."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocha.ir import symbolic as s
from tocha.ir.assumptions import Assumptions
from tocha.ir.shape_env import (
    ConstraintViolationError,
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    guard_or_false,
    guard_or_true,
    statically_known_true,
)
from tocha.ir.sym_types import (
    SymBool,
    SymFloat,
    SymInt,
    float_expr,
    sym_float,
    sym_int,
    sym_ite,
    sym_max,
    sym_min,
    sym_not,
    sym_sum,
)

X, Y, Z = (s.symbol(n) for n in "xyz")
ATOMS = {n: s.atom_of(e) for n, e in zip("xyz", (X, Y, Z), strict=True)}


def combined(children):
    pairs = st.tuples(children, children)
    return st.one_of(
        pairs.map(lambda p: ("+", *p)),
        pairs.map(lambda p: ("-", *p)),
        pairs.map(lambda p: ("*", *p)),
        st.tuples(children, st.one_of(st.integers(1, 9), st.integers(-5, -1))).map(lambda p: ("//", *p)),
        st.tuples(children, st.integers(1, 9)).map(lambda p: ("%", *p)),
        st.tuples(children, st.sampled_from("xyz")).map(lambda p: ("//", *p)),
        st.tuples(children, st.sampled_from("xyz")).map(lambda p: ("%", *p)),
        pairs.map(lambda p: ("min", *p)),
        pairs.map(lambda p: ("max", *p)),
    )


TREES = st.recursive(st.one_of(st.integers(-20, 20), st.sampled_from("xyz")), combined, max_leaves=8)
OPS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}


def build(tree, leaves, least, most):
    if isinstance(tree, tuple):
        a, b = (build(t, leaves, least, most) for t in tree[1:])
        if tree[0] in OPS:
            return OPS[tree[0]](a, b)
        return (least if tree[0] == "min" else most)(a, b)
    return leaves[tree] if isinstance(tree, str) else tree


def symbolic(tree):
    return build(tree, {"x": X, "y": Y, "z": Z}, s.minimum, s.maximum)


VALUES = st.fixed_dictionaries({n: st.integers(1, 40) for n in "xyz"})


@settings(max_examples=600, deadline=None)
@given(TREES, VALUES)
def test_expressions_have_the_value_that_python_computes(tree, values):
    wanted = build(tree, values, min, max)
    e = symbolic(tree)
    assert s.evaluate(e, {ATOMS[n]: v for n, v in values.items()}) == wanted
    assert eval(s.text(e), {"min": min, "max": max}, dict(values)) == wanted
    assert s.substitute(e, {ATOMS[n]: v for n, v in values.items()}) == wanted


@settings(max_examples=300, deadline=None)
@given(TREES, TREES, VALUES)
def test_relations_have_the_truth_that_python_computes(one, other, values):
    known = {ATOMS[n]: v for n, v in values.items()}
    a, b = build(one, values, min, max), build(other, values, min, max)
    p, q = symbolic(one), symbolic(other)
    for make, truth in ((s.eq, a == b), (s.ne, a != b), (s.lt, a < b), (s.le, a <= b), (s.gt, a > b), (s.ge, a >= b)):
        r = make(p, q)
        assert s.evaluate(r, known) == truth
        assert s.evaluate(s.negate(r), known) != truth
        assert eval(s.relation_text(r), {"min": min, "max": max}, dict(values)) == truth


@settings(max_examples=400, deadline=None)
@given(TREES, st.lists(st.tuples(TREES, st.sampled_from(["eq", "ne", "ge"])), max_size=2), VALUES)
def test_what_is_said_to_follow_does(tree, facts, values):
    """Bounds, simplification and proofs hold for every value that the facts allow."""
    known = Assumptions()
    for a in ATOMS.values():
        known.constrain(a, 1, 40)
    at = {ATOMS[n]: v for n, v in values.items()}
    for f, kind in facts:
        r = getattr(s, kind)(symbolic(f), 0)
        if not s.evaluate(r, at):
            r = s.negate(r)
        known.learn(r)
    e = symbolic(tree)
    value = s.evaluate(e, at)
    low, high = known.bounds(e)
    assert low <= value <= high
    assert s.evaluate(known.simplify(e), at) == value
    for r in (s.ge(e, 0), s.eq(e, 0), s.ge(e, 7), s.ge(0, e)):
        answer = known.holds(r)
        assert answer is None or answer == s.evaluate(r, at)


def test_equal_polynomials_are_one_object():
    assert (X + Y) * (X - Y) is X * X - Y * Y
    assert (2 * X + 4) // 2 is X + 2
    assert X % 4 + 4 * (X // 4) is X
    assert (X // 2) // 3 is X // 6
    assert (X * Y + Y) // Y is X + 1
    assert s.maximum(X, X + 2, Y) is s.maximum(Y, X + 2)
    assert s.ge(2 * X, 7) is s.ge(X, 4)
    assert s.eq(2 * X, 7) is False


def test_text_is_python():
    assert s.text(X * X * 2 - Y + 3) == "2*x**2 + 3 - y"
    assert s.text((X + 1) % 4 + 2) == "2 + ((x + 1) % 4)"
    assert s.relation_text(s.lt(X, Y)) == "y >= x + 1"
    assert s.relation_text(s.eq(X % 4, 0)) == "(x % 4) == 0"
    assert s.relation_text(s.le(X, 9)) == "x <= 9"


def sized():
    known = Assumptions()
    for a in ATOMS.values():
        known.constrain(a, 2, math.inf)
    return known


def test_products_of_sizes_compare():
    known = sized()
    assert known.holds(s.ge(X * Y, X)) is True
    assert known.holds(s.eq(X * Y * Z, 0)) is False
    assert known.holds(s.lt(X % Y, Y)) is True
    assert known.holds(s.ge(s.maximum(X, Y), Y)) is True
    assert known.holds(s.eq(X, Y)) is None


def test_guards_teach():
    known = sized()
    known.learn(s.eq(X % 4, 0))
    assert known.simplify((X // 4) * 8 * Y) is 2 * X * Y
    assert known.holds(s.eq(X % 4, 0)) is True
    known.learn(s.le(X, Y))
    assert known.simplify(s.maximum(X, Y)) is Y
    known.learn(s.eq(Z, X * Y))
    assert known.simplify(Z // X) is Y
    assert known.holds(s.gt(Z, X)) is True


def test_nothing_is_divided_by_zero():
    known = sized()
    size = s.maximum(X - Y, 0)
    for e in ((Z - 1) // size, size + Z // size, s.minimum(X // size, Y)):
        known.holds(s.ge(e, 0))  # True or unknown: nothing of it is computed where the size is 0
        assert known.holds(s.lt(size, 0)) is False


def test_a_slice_as_long_as_asked_for_lies_within():
    for step in (3, Y):
        for turned in (1, -1):
            known = sized()
            e = s.minimum(Z, X + step) - s.minimum(Z, X) - step
            known.learn(s.eq(turned * e, 0))
            assert known.holds(s.le(X + step, Z)) is True
            assert known.simplify(s.minimum(Z, X + step)) is X + step
    known = sized()
    known.learn(s.eq(s.minimum(X + 1, 32), s.minimum(X, 32) + 1))
    assert known.bounds(X)[1] == 31
    known = sized()
    known.learn(s.eq(s.minimum(X + 2, 32), s.minimum(X, 32) + 1))
    assert known.holds(s.le(X + 2, 32)) is None


# ---- the environment


def sizes(*hints):
    env = ShapeEnv()
    return env, *(env.create_symintnode(env.create_symbol(h, f"n{i}", DimDynamic.DYNAMIC)) for i, h in enumerate(hints))


def test_questions_become_guards_once():
    env, n = sizes(8)
    assert n * 2 > 10
    assert n > 5
    assert not n < 6
    assert [str(g) for g in env.guards] == ["s0 >= 6"]
    assert env.guards[0].place.file == __file__


def test_zero_and_one_specialise_and_equal_sizes_share():
    env = ShapeEnv()
    assert env.create_symbol(1, "a") == 1
    assert env.create_symbol(0, "a") == 0
    assert env.create_symbol(7, "a") is env.create_symbol(7, "b")
    assert env.create_symbol(7, "c", DimDynamic.DYNAMIC) is not env.create_symbol(7, "a")
    assert env.create_symbol(7, "d", DimDynamic.STATIC) == 7


def test_int_specialises():
    env, n, m = sizes(8, 5)
    assert list(range(10))[n] == 8
    assert isinstance(n + 1 - n, int) and n + m == m + 8
    assert [str(g) for g in env.guards] == ["s0 == 8"]
    assert str(n) == "8"


def test_arithmetic_of_numbers():
    _, n, m = sizes(8, 5)
    assert isinstance(n / 2, SymFloat) and isinstance(n // 2, SymInt) and isinstance(n > m, SymBool)
    for f in (
        lambda a, b: a / b + 1.5,
        lambda a, b: (a - b) ** 2,
        lambda a, b: a % b * -1,
        lambda a, b: divmod(a, b)[0],
        lambda a, b: abs(b - a),
        lambda a, b: a & b | 3,
        lambda a, b: 2**b,
        lambda a, b: math.floor(a / b) + math.ceil(a / b) + round(a / b),
        lambda a, b: sym_max(a, b, 6) - sym_min(a, b),
        lambda a, b: sym_int(a / b) + sym_float(a),
        lambda a, b: sym_ite(a > b, a, b),
        lambda a, b: sym_sum([a, b, 3]),
        lambda a, b: sym_not(a > b),
        lambda a, b: (a > 3) & (b < 2),
        lambda a, b: True + (a > b),
    ):
        assert f(n, m).node.hint == f(8, 5)
    with pytest.raises(TypeError):
        hash(n)


def test_rounding_up_has_one_form():
    n, m = s.symbol("n"), s.symbol("m")
    up = s.floordiv(n + 3, 4)
    assert s.ceildiv(n, 4) is up and n - s.floordiv(3 * n, 4) is up and s.text(up) == "((n + 3)//4)"
    assert n + s.mod(-n, 4) is 4 * up and s.floordiv(2 - n - m, 5) is -s.floordiv(n + m + 2, 5)
    for c in range(-9, 9):
        for value in range(-9, 9):
            e = s.floordiv(s.add(s.scale(n, 3), c), 4)
            assert s.evaluate(e, {s.atom_of(n): value}) == (3 * value + c) // 4


@pytest.mark.parametrize(
    "f",
    [
        lambda n, m: (n + 1) * 2.5,
        lambda n, m: 0.5 * (n - 1) / (m + 2),
        lambda n, m: 1.5 - (n + m),
        lambda n, m: -(n - m + 0.5) * 2,
        lambda n, m: (n - m) / 7 // 0.25,
        lambda n, m: (-2.5) ** (n + 1) % (m - 0.5),
        lambda n, m: sym_float(n - m) * n * m,
    ],
)
def test_floats_of_sums_read_as_python(f):
    _, n, m = sizes(8, 5)
    assert eval(str(f(n, m)), {"s0": 8, "s1": 5}) == f(8, 5)


def test_unbacked_numbers_are_promised_then_known():
    env = ShapeEnv()
    u = env.create_unbacked_symint()
    with pytest.raises(GuardOnDataDependentSymNode, match="Could not guard on data-dependent expression u0 >= 4"):
        bool(u > 3)
    assert guard_or_false(u > 3) is False and guard_or_true(u > 3) is True and not statically_known_true(u > 3)
    env.expect((u >= 5).expr, "at least five")
    assert u > 3
    (found,) = itertools.chain(*env.deferred_runtime_asserts.values())
    assert (str(found.expr), found.msg) == ("u0 >= 5", "at least five")
    assert not env.guards
    with pytest.raises(ConstraintViolationError):
        env.constrain_range(s.atom_of(u.expr), 0, 3)


class Geometry:
    def __init__(self, sizes, strides, offset=0):
        self.sizes, self.strides, self.offset = sizes, strides, offset

    def size(self):
        return self.sizes

    def stride(self):
        return self.strides

    def storage_offset(self):
        return self.offset


@pytest.mark.parametrize(
    ("sizes", "strides", "shown"),
    [
        ((4, 6, 1), (6, 1, 1), "((s0, s1, 1), (s1, 1, 1), 0)"),
        ((4, 3, 6, 5), (90, 1, 15, 3), "((s0, s1, s2, s3), (s1*s2*s3, 1, s1*s3, s1), 0)"),
        ((4, 6), (0, 1), "((s0, s1), (0, 1), 0)"),
        ((4, 6), (20, 3), "((s0, s1), (s3, s2), 0)"),
    ],
)
def test_strides_follow_from_sizes(sizes, strides, shown):
    assert str(ShapeEnv().create_symbolic_sizes_strides_storage_offset(Geometry(sizes, strides), "x")) == shown


def test_guards_are_checked_for_other_arguments():
    env = ShapeEnv()
    found = env.create_symbolic_sizes_strides_storage_offset(Geometry((8, 3), (3, 1)), "x")
    n, m = found[0]
    assert n % 4 == 0 and m < n
    p = Geometry(*found)
    assert env.evaluate_guards_for_args([p], [Geometry((12, 5), (5, 1))])
    assert not env.evaluate_guards_for_args([p], [Geometry((10, 5), (5, 1))])
    assert not env.evaluate_guards_for_args([p], [Geometry((4, 5), (5, 1))])
    assert env.guard_texts(lambda a: f"L['x'].size()[{['s0', 's1'].index(a.name)}]")[0] == "(L['x'].size()[0] % 4) == 0"


def test_what_is_known_of_other_symbols_is_not_tried(monkeypatch):
    known = Assumptions()
    for i in range(40):
        x, y, z = (s.symbol(f"{n}{i}") for n in "xyz")
        known.learn(s.ge(s.mul(x, y), z))
    a, b, c = (s.symbol(n) for n in "abc")
    known.learn(s.ge(s.floordiv(a, 4), s.mul(b, c)))
    asked = []
    bounds = Assumptions.bounds
    monkeypatch.setattr(Assumptions, "bounds", lambda self, e: asked.append(e) or bounds(self, e))
    assert known.holds(s.ge(s.add(s.floordiv(a, 4), 2), s.mul(b, c)))
    assert known.holds(s.ge(s.mul(b, c), a)) is None
    assert 0 < len(asked) < 40


def test_indices_end_where_symbolic_sizes_do():
    known, n, m = Assumptions(), s.symbol("n"), s.symbol("m")
    for size in (n, m):
        known.constrain(s.atom_of(size), 1, math.inf)
    i, j, k = (known.index(s.symbol(name), size) for name, size in (("i", 64), ("j", n), ("k", s.mul(m, m))))
    plane = s.add(s.mul(n, i), j)  # i rows of n elements
    assert known.simplify(s.floordiv(plane, s.scale(n, 64))) == 0
    assert known.simplify(s.mod(s.floordiv(plane, n), 64)) is i
    assert known.simplify(s.floordiv(plane, s.scale(n, 4))) is s.floordiv(i, 4)
    square = s.add(s.mul(s.mul(m, m), i), k)
    assert known.simplify(s.floordiv(square, s.scale(s.mul(m, m), 16))) is s.floordiv(i, 16)
    c = known.index(s.symbol("c"), s.scale(m, 8))
    assert known.simplify(s.floordiv(s.add(s.mul(n, c), j), s.mul(m, n))) is s.floordiv(c, m)
    assert known.holds(s.lt(j, n)) and known.holds(s.lt(j, s.scale(n, 2))) and known.holds(s.lt(j, m)) is None


_factors = st.integers(1, 6)


@given(
    st.lists(st.tuples(_factors, _factors), min_size=1, max_size=3), _factors, _factors, st.integers(1, 5), st.data()
)
def test_indices_with_symbolic_sizes_keep_their_value(strides, divisor, inner, size, data):
    known, n = Assumptions(), s.symbol("n")
    known.constrain(s.atom_of(n), 1, math.inf)
    values, a = {s.atom_of(n): size}, 0
    for d, (rows, times) in enumerate(strides):
        count, symbolic = data.draw(st.sampled_from([(rows, rows), (size, n), (size * rows, s.scale(n, rows))]))
        i = known.index(s.symbol(f"i{d}"), symbolic)
        values[s.atom_of(i)] = data.draw(st.integers(0, count - 1))
        a = s.add(a, s.mul(i, data.draw(st.sampled_from([times, s.scale(n, times), s.mul(n, n)]))))
    for b in (divisor, s.scale(n, divisor), s.scale(s.mul(n, n), inner)):
        for e in (s.floordiv(a, b), s.mod(s.floordiv(a, b), inner), s.floordiv(s.mod(a, b), divisor)):
            assert s.evaluate(known.simplify(e), values) == s.evaluate(e, values)


@pytest.mark.parametrize("factor", [2.0, 0.5, 0.25, 1.0, 3.0])
def test_sizes_times_a_number_that_is_exact_are_integers(factor):
    q = s.symbol("q")
    for kind, of in (("floor", math.floor), ("ceil", math.ceil)):
        for e in (float_expr("mul", q, factor), float_expr("mul", factor, float_expr("float", q))):
            found = s.rounding(kind, e)
            assert "floor(" not in s.text(found) and "ceil(" not in s.text(found)
            assert [s.evaluate(found, {s.atom_of(q): v}) for v in range(9)] == [of(v * factor) for v in range(9)]
    assert "floor(" in s.text(s.rounding("floor", float_expr("mul", q, 0.3)))


def test_remainders_by_symbols_are_below_them():
    known = Assumptions()
    n = s.symbol("n")
    known.learn(s.ge(n, 2))
    i = known.index(s.symbol("i"), n)
    for by in (n, s.add(s.mul(n, n), 1)):
        rest = s.mod(s.add(i, -5), by)
        assert known.holds(s.ge(rest, 0)) and known.holds(s.lt(rest, by))
        assert known.holds(s.ge(s.add(rest, -1), 0)) is None and known.holds(s.lt(rest, s.add(by, -1))) is None


def test_quotients_by_sums():
    known = Assumptions()
    for e in (X, Y, Z):
        known.learn(s.ge(e, 0))
    n, m = s.symbol("n"), s.symbol("m")
    known.learn(s.ge(n, 2)), known.learn(s.ge(m, 2))
    i, j, k = (known.index(s.symbol(name), size) for name, size in (("i", X), ("j", s.add(n, m)), ("k", m)))
    by = s.add(n, m)
    address = s.add(s.mul(by, i), j)
    assert known.simplify(s.floordiv(address, by)) is i
    deep = s.add(s.mul(s.mul(by, m), i), s.add(s.mul(m, j), k))
    assert known.simplify(s.floordiv(deep, s.mul(by, m))) is i
    assert known.simplify(s.floordiv(s.add(address, 1), by)) is not i  # j + 1 may be n + m
