"""Random small functions over the language's constructs: compiled equals interpreted in results, side effects, exceptions."""

import copy
import linecache
import textwrap

from comparing import same
from hypothesis import given, settings
from hypothesis import strategies as st

import tocha

TENSORS, NUMBERS = ("x", "y"), ("a", "b", "n")
tensor = st.sampled_from(TENSORS)
number = st.one_of(st.sampled_from(NUMBERS), st.integers(-3, 4).map(str))
index = st.integers(-3, 3).map(str)


def expressions(kind):
    if kind == "tensor":
        return st.one_of(
            tensor,
            st.tuples(tensor, st.sampled_from("+-*"), number).map(" ".join),
            st.tuples(tensor, st.sampled_from("+*"), tensor).map(" ".join),
            tensor.map(lambda t: f"tocha.relu({t})"),
            tensor.map(lambda t: f"{t}.neg()"),
            tensor.map(lambda t: f"helper({t}, k=a)"),
        )
    return st.one_of(
        number,
        st.tuples(number, st.sampled_from(["+", "-", "*", "//", "%"]), number).map(" ".join),
        st.just("len(items)"),
        index.map(lambda i: f"items[{i}]"),
        st.sampled_from(
            ["table.get('k', 5)", "table['k']", "sum(items)", "max(items)", "x.shape[0]", "box.n", "min([a, b])"]
        ),
        st.tuples(number, number, number).map(lambda p: f"({p[0]} if {p[1]} > {p[2]} else b)"),
        number.map(lambda n: f"sum(i * {n} for i in items if i)"),
    )


simple = st.one_of(
    st.tuples(tensor, expressions("tensor")).map(lambda p: f"{p[0]} = {p[1]}"),
    st.tuples(st.sampled_from(NUMBERS), expressions("number")).map(lambda p: f"{p[0]} = {p[1]}"),
    st.tuples(tensor, number).map(lambda p: f"{p[0]} += {p[1]}"),
    expressions("number").map(lambda e: f"items.append({e})"),
    st.tuples(index, expressions("number")).map(lambda p: f"items[{p[0]}] = {p[1]}"),
    expressions("number").map(lambda e: f"table['k'] = {e}"),
    expressions("number").map(lambda e: f"box.n = {e}"),
    st.sampled_from(
        ["items.pop()", "items.reverse()", "table.pop('k')", "a, b = b, a", "items += [a]", "seen = bump()"]
    ),
    st.sampled_from(["raise ValueError(a)", "raise KeyError('k')", "log(a)"]),
    expressions("tensor").map(lambda e: f"kept.append({e})"),
)


def block(body):
    return textwrap.indent("\n".join(body), "    ")


def compound(inner):
    body = st.lists(inner, min_size=1, max_size=3).map(block)
    return st.one_of(
        simple,
        st.tuples(expressions("number"), body, body).map(lambda p: f"if {p[0]} > 1:\n{p[1]}\nelse:\n{p[2]}"),
        st.tuples(st.integers(0, 3), body).map(lambda p: f"for i in range({p[0]}):\n{p[1]}"),
        body.map(lambda b: f"for v in list(items):\n{b}\n    if v > 2:\n        break"),
        body.map(lambda b: f"while n > 0:\n    n -= 1\n{b}\n    n = min(n, 3)"),
        st.tuples(body, body).map(
            lambda p: f"try:\n{p[0]}\nexcept (ValueError, IndexError) as e:\n    kept.append(e.args)\n{p[1]}"
        ),
        st.tuples(body, body).map(lambda p: f"try:\n{p[0]}\nfinally:\n{p[1]}"),
        body.map(lambda b: f"with Scope(table):\n{b}"),
    )


program = st.lists(st.recursive(simple, compound, max_leaves=6), min_size=1, max_size=6)

PREFIX = """
import tocha

class Scope:
    def __init__(self, table):
        self.table = table
    def __enter__(self):
        self.table["in"] = self.table.get("in", 0) + 1
        return self
    def __exit__(self, kind, error, trace):
        self.table["out"] = kind.__name__ if kind else None
        return kind is KeyError

def helper(t, *, k=1):
    return t * k + 1

@tocha.compiler.disable
def log(value):
    LOG.append(value)

def f(x, y, a, b, items, table, box):
    n, kept, count = 3, [], 0
    def bump():
        nonlocal count
        count += 1
        return count
"""
NUMBERED = iter(range(10**9))


class Box:
    def __init__(self):
        self.n = 1


def run(f, log, args):
    log.clear()
    try:
        result = ("returned", f(*args))
    except Exception as e:
        result = ("raised", type(e), str(e))
    return result, args, list(log)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(program, st.integers(-2, 3), st.integers(-2, 3))
def test_compiled_equals_interpreted(statements, a, b):
    text = PREFIX + block([*statements, "return x, y, a, b, n, kept, items, count"])
    name = f"<random program {next(NUMBERED)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"LOG": []}
    exec(compile(text, name, "exec"), scope)
    f, log = scope["f"], scope["LOG"]
    args = (tocha.tensor([1.0, -2.0]), tocha.tensor([3.0, 0.5]), a, b, [1, 2, 3], {"k": 2}, Box())
    compiled = tocha.compile(f, backend="eager")
    expected = run(f, log, copy.deepcopy(args))
    for _ in range(2):
        got = run(compiled, log, copy.deepcopy(args))
        assert same(expected, got), (text, expected, got)
    linecache.cache.pop(name)
