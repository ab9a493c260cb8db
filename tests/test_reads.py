"""What gradient functions read, and when: from their text."""

from __future__ import annotations

from tocha.operators.reads import ALWAYS, reads, weakest
from tocha.operators.record import rule


@rule
def rows(t):
    return t.shape[0]


def on(*flags: str) -> frozenset:
    return frozenset((f.lstrip("!"), not f.startswith("!")) for f in flags)


def test_facts_are_not_elements():
    def f(grad, a, b, c, d):
        n = rows(a) + b.size(0)
        if c is None:
            return grad * n
        return grad * d

    found = reads(f)
    for name in "abc":
        assert found[name].facts == {ALWAYS}, name
        assert not found[name].elements, name
    assert found["d"].elements == {ALWAYS}


def test_flags_and_wanted_gradients():
    def f(grad, a, b, c, d, flag, wanted):
        left = a if wanted[0] else None
        if not flag:
            return left, grad * b
        if wanted[1] and grad is not None:
            return left, c
        return left, d

    found = reads(f)
    assert found["a"].elements == {on("wanted[0]")}
    assert found["b"].elements == {on("!flag")}
    assert found["c"].elements == {on("flag", "wanted[1]")}
    assert found["d"].elements == {on("flag")}


def test_loops_and_refusals():
    def f(grad, a, b, c, flag):
        for i in range(a.dim()):
            grad = grad + b[i]
        if flag:
            raise RuntimeError("no")
        return grad * c

    found = reads(f)
    assert found["b"].elements == {ALWAYS}
    assert found["c"].elements == {on("!flag")}


def test_a_flag_that_changes_tells_nothing():
    def f(grad, a, flag):
        flag = flag and grad is None
        return a if flag else grad

    assert reads(f)["a"].elements == {ALWAYS}


def test_conditions_without_what_follows():
    assert weakest({on("a"), on("a", "b"), on("!c")}) == {on("a"), on("!c")}
    assert weakest({on("a", "b"), on("a", "!b")}) == {on("a")}
    assert weakest({on("a"), on("!a")}) == {ALWAYS}
    assert weakest(set()) == set()
