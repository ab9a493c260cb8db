"""Loops that are cut where a guard or an index turns: joined, padded, rolled and repeated tensors."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tocha
from tocha._inductor.utils import run_and_get_code
from tocha.nn import functional as F


def check(function, *args):
    """The function compiled does the same; its C++."""
    tocha._dynamo.reset()
    found, (code, *_) = run_and_get_code(tocha.compile(function, fullgraph=True), *args)
    tocha.testing.assert_close(found, function(*args))
    return code


MOVES = {
    "roll": lambda x: x.roll(3, 1) * 2,
    "roll of two dims": lambda x: x.roll((3, -5), (0, 1)) * 2,
    "reflected": lambda x: F.pad(x[None], (2, 3), mode="reflect") * 2,
    "replicated": lambda x: F.pad(x[None], (2, 3), mode="replicate") * 2,
    "circular": lambda x: F.pad(x[None], (2, 3), mode="circular") * 2,
}


@pytest.mark.parametrize("name", MOVES)
def test_indices_that_are_expressions_are_not_loaded(name):
    code = check(MOVES[name], tocha.randn(20, 40))
    assert "checked_index" not in code
    assert code.count("run(api, program") == 1


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("count", [2, 3, 8, 9, 10, 40])
def test_joined_tensors(dim, count):
    pieces = [tocha.randn(4, 6, 5) for _ in range(count)]
    code = check(lambda *t: tocha.cat(t, dim) * 2, *pieces)
    assert ("// cat" in code.replace("// cat,", "")) == (count > 9)  # a call, or part of a kernel
    check(lambda *t: tocha.stack(t, dim).softmax(dim) + 1, *pieces)
    check(lambda *t: tocha.cat(t, dim).sum(0) + 1, *pieces)


def test_guards_on_rows_are_asked_before_the_row():
    code = check(lambda *t: tocha.cat(t) * 2, tocha.randn(50, 30), tocha.randn(40, 30))
    assert "if (i0 < 50) {" in code
    assert "?" not in code[code.index("void kernel_0") : code.index("void run(")]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("function", [*MOVES.values(), lambda x: x.chunk(8, 1), lambda x: x.repeat_interleave(3, 1)])
def test_gradients_of_moves(function, grad):
    x = tocha.randn(16, 40, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    for f, t in ((function, x), (tocha.compile(function), y)):
        results = f(t)
        total = sum((r * r).sum() for r in (results if isinstance(results, tuple) else [results]))
        (total.sin() if grad else total).backward()
    tocha.testing.assert_close(y.grad, x.grad)


def test_rows_of_many_dims_are_few_cases():
    code = check(lambda x: F.pad(x, (1, 1) * 5) + 1, tocha.randn(2, 3, 2, 3, 4))
    assert code.count("for (int64_t i4") <= 3 * 16


small = st.integers(0, 4)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(-70, 70), st.integers(-70, 70), small, small, st.sampled_from(["reflect", "replicate", "circular"]),
    st.sampled_from(["x", "x.flip(1)", "x.t()[:7, :9].contiguous()", "x[1:, ::2]"]),
)  # fmt: skip
def test_moves_of_moves(a, b, before, after, mode, of):
    scope = {"tocha": tocha, "F": F, "a": a, "b": b, "pad": (before, after), "mode": mode}
    text = f"F.pad({of}.roll((a, b), (0, 1))[None], pad, mode=mode).roll(b, -1).sin()"
    check(eval(f"lambda x: {text}", scope), tocha.randn(13, 17))


@pytest.mark.parametrize("sizes", [(5, 8), (1, 6), (12, 3)])
def test_sizes_that_change(sizes):
    def function(x, y):
        return tocha.cat([x.roll(2, 0), y]).relu() + 1, F.pad(x[None, None], (1, 1, 1, 1), mode="replicate") * 2

    compiled = tocha.compile(function, dynamic=True)
    for n in sizes:
        x, y = tocha.randn(n, 4), tocha.randn(n + 1, 4)
        tocha.testing.assert_close(compiled(x, y), function(x, y))
