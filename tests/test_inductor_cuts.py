"""Loops that are cut where a guard or an index turns: joined, padded, rolled and repeated tensors."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tocha
from tocha._inductor.utils import run_and_get_code
from tocha.codegen.cpp_source import without_lines
from tocha.nn import functional as F


def check(function, *args):
    """The function compiled does the same; its C++."""
    tocha._dynamo.reset()
    found, (code, *_) = run_and_get_code(tocha.compile(function, fullgraph=True), *args)
    tocha.testing.assert_close(found, function(*args))
    return without_lines(code)


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


def kernel_of(code):
    return code[code.index("void kernel_0") : code.index("void run(")]


SINGLE = {
    "eye": (lambda x: tocha.eye(64, 96), True),
    "one_hot": (lambda x: F.one_hot(x, 40), True),
    "one_hot of floats": (lambda x: F.one_hot(x, 40).float() * 3, True),
    "all but one": (lambda x: (tocha.arange(40) != x[:, None]).to(tocha.int32), False),
}


@pytest.mark.parametrize("name", SINGLE)
def test_one_place_of_a_row_is_written_after_the_row(name):
    function, zeros = SINGLE[name]
    kernel = kernel_of(check(function, tocha.randint(40, (50,))))
    assert " == " not in kernel and " != " not in kernel  # nothing is compared per element
    assert ("fill_zeros" in kernel) == zeros


def test_a_place_that_is_read_may_lie_outside_of_the_row():
    ends = tocha.tensor([0, 39, 40, -1, -(2**63), 2**63 - 1, 7])
    kernel = kernel_of(check(lambda i: (i[:, None] == tocha.arange(40)).long(), ends))
    assert "index_max(-1, " in kernel
    check(
        lambda i, x: tocha.where(i[:, None] == tocha.arange(40), x.double(), x.double() * 2), ends, tocha.randn(7, 40)
    )


def test_a_place_of_a_row_that_is_written_where_it_was_read():
    def function(x, i):
        x.copy_(tocha.where(tocha.arange(40) == i[:, None], x * 3, x + 1))
        return x

    i, x = tocha.randint(40, (50,)), tocha.randint(100, (50, 40))
    expected = function(x.clone(), i)
    tocha._dynamo.reset()
    assert tocha.equal(tocha.compile(function)(x, i), expected)
    assert tocha.equal(x, expected)


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("dtype", [tocha.float32, tocha.uint8, tocha.complex64])
def test_what_is_read_backward_is_asked_for_before(dims, dtype):
    x = tocha.randn(20, 300).mul(50).to(dtype)
    code = check(lambda x: x.flip(dims), x)
    assert "vec::fetch(" in code and "checked_index" not in code and "/ 300" not in code
    check(lambda x: x.flip(dims) + x, x)


def test_backward_reads_of_dear_formulas_are_packs():
    code = check(lambda x: x.flip(1).exp() + x[:, :37].sum(1, keepdim=True), tocha.randn(5, 83))
    assert "vec::load_apart<-1>(" in code
    check(lambda x, m: tocha.where(m.flip(1), x[:, ::2].exp(), 0), tocha.randn(5, 166), tocha.rand(5, 83) > 0.5)
    check(lambda x: x.flip(1).exp(), tocha.randn(5, 83).bfloat16())


@pytest.mark.parametrize("padding", [0, 1, (2, 0)])
def test_patches_ask_for_edges_once_a_row(padding):
    kernel = kernel_of(check(lambda x: F.unfold(x, 3, padding=padding), tocha.randn(2, 3, 17, 40)))
    assert "chosen(" not in kernel and "vec::choose" not in kernel
    inner = [line for line in kernel.splitlines() if "= p1[" in line or "= p0[" in line]
    assert inner and not any("index_max(0, i3 + i5" in line for line in inner)
    check(lambda x: F.unfold(x, 3, padding=2, stride=2, dilation=2) * 2, tocha.randn(2, 3, 17, 40))


def test_positions_become_floats_from_32_bits():
    code = check(lambda: tocha.linspace(0, 1, 1000))
    assert "const int32_t" in code and "cast<float>(int64" not in code
    check(lambda: tocha.arange(1000, dtype=tocha.float32).cos())
    assert "int32_t" not in check(lambda x: x + tocha.arange(2**31 + 8, 2**31 + 24), tocha.randn(16))
    check(lambda x: x * tocha.arange(x.shape[0]).flip(0).float(), tocha.randn(77))


def test_windows_are_computed_by_their_kernel():
    code = check(lambda x: x * tocha.hann_window(400), tocha.randn(3, 400))
    assert "// _cosine_sum_window" in code and "cos" not in kernel_of(code)


def test_joined_tensors_of_sizes_that_change_are_not_divided_for():
    def function(x, y):
        return tocha.cat([x, y], -1) * 2

    compiled = tocha.compile(function, dynamic=True)
    x, y = tocha.randn(7, 5), tocha.randn(7, 6)
    found, (code, *_) = run_and_get_code(compiled, x, y)
    tocha.testing.assert_close(found, function(x, y))
    inner = [line for line in kernel_of(without_lines(code)).splitlines() if "] : float()" in line or "= p" in line]
    assert inner and not any("/" in line for line in inner)


def compiled_for_sizes(function, *sizes):
    """The C++ of a function compiled once for tensors of changing sizes, after it did the same for all of them."""
    tocha._dynamo.reset()
    compiled, codes = tocha.compile(function, dynamic=True, fullgraph=True), []
    for each in sizes:
        args = [tocha.randn(n) for n in each]
        found, code = run_and_get_code(compiled, *args)
        expected = function(*args)
        assert found.shape == expected.shape
        tocha.testing.assert_close(found, expected, rtol=0, atol=0)
        codes += code
    return without_lines(codes[0])


SYMBOLIC = {
    "joined": lambda x, y: tocha.cat([x, y, x], -1) * 2,
    "padded": lambda x, y: F.pad(x, (2, 3, 1, 1)) * 2,
    "padded by a size": lambda x, y: F.pad(x, (y.shape[1], 3)) * 2,
    "turned": lambda x, y: F.pad(x.flip(-1), (4, 4)) * 2,
    "halves": lambda x, y: tocha.cat([-x[:, x.shape[1] // 2 :], x[:, : x.shape[1] // 2]], -1) * 2,
    "shifted": lambda x, y: tocha.cat([tocha.zeros_like(x[:1]), x[:-1]], 0) * 2,
    "order unknown": lambda x, y: F.pad(tocha.cat([x, y], -1), (0, 3)) * (tocha.arange(3 + x.shape[1] + y.shape[1]) < 2 * y.shape[1]),
}  # fmt: skip


@pytest.mark.parametrize("name", SYMBOLIC)
def test_rows_are_cut_at_sizes_that_change(name):
    sizes = [((n, a), (n, b)) for n, a, b in ((4, 6, 5), (9, 30, 2), (2, 3, 40), (3, 2, 2))]
    kernel = kernel_of(compiled_for_sizes(SYMBOLIC[name], *sizes))
    assert "?" not in kernel and "chosen(" not in kernel and "vec::choose" not in kernel


def test_what_is_known_of_an_empty_part_is_not_known_of_others():
    """Parts of a row that are there in the first rows only say nothing of rows."""
    sizes = [((n, a), (n, b)) for n, a, b in ((5, 3, 33), (7, 5, 6))]
    compiled_for_sizes(
        lambda x, y: tocha.cat(F.pad(tocha.cat((x, y), -1), (0, 0, 1, -1)).chunk(2, -1)[::-1], -1) * 2, *sizes
    )


def test_nothing_is_read_before_a_part_that_is_empty():
    def function(x, y):
        return tocha.cat([x[:, :1].expand(-1, y.shape[1]), y], 1) * 2

    kernel = kernel_of(compiled_for_sizes(function, ((5, 4), (5, 3)), ((3, 2), (3, 9))))
    assert "if (0 < " in kernel


TERMS = st.recursive(
    st.sampled_from(["x", "y"]),
    lambda e: st.one_of(
        st.builds("T.cat(({}, {}), -1)".format, e, e), st.builds("T.cat(({0}, {0} + 1), 0)[-x.shape[0]:]".format, e),
        st.builds("F.pad({}, ({}, {}), value={})".format, e, st.sampled_from([*range(3), "y.shape[1]"]), st.integers(-1, 3), st.integers(0, 1)),
        st.builds("F.pad({}, (0, 0, 1, -1))".format, e),
        st.builds("{}[:, {}]".format, e, st.sampled_from(["1:", ":-1", "::2", ":y.shape[1]", "x.shape[1]:", "-y.shape[1]:"])),
        st.builds("{}.flip({})".format, e, st.integers(0, 1)),
        st.builds("{}.roll({}, {})".format, e, st.integers(-3, 3), st.integers(0, 1)),
        st.builds("{}.{}({})".format, e, st.sampled_from(["triu", "tril"]), st.integers(-1, 2)),
        st.builds("T.cat({}.chunk(2, -1)[::-1], -1)".format, e),
        st.builds("(lambda z: T.where(T.arange(z.shape[1]) {} {}, z, 1))({})".format, st.sampled_from(["<", ">=", "=="]), st.sampled_from(["y.shape[1]", "z.shape[1] // 2"]), e),
    ),
    max_leaves=4,
)  # fmt: skip
CHANGING = [(4, 5, 3), (3, 9, 20), (2, 2, 2), (5, 1, 3), (3, 0, 2), (0, 3, 4), (2, 40, 0)]


@settings(max_examples=15, deadline=None)
@given(TERMS, st.sampled_from(["({}) * 2", "({}).sum(-1)", "({}).t().contiguous()"]), st.permutations(CHANGING))
def test_moves_of_sizes_that_change(term, whole, sizes):
    """Random programs, compiled for sizes that change, also for none, one and those at which parts are empty: as uncompiled."""
    tocha._dynamo.reset()
    function = eval(f"lambda x, y: {whole.format(term)}", {"T": tocha, "F": F})
    compiled = tocha.compile(function, dynamic=True)
    for n, a, b in sizes[:4]:
        x, y = tocha.randint(9, (n, a)).float(), tocha.randint(9, (n, b)).float()  # whose sums are exact
        try:
            expected = function(x, y)
        except (RuntimeError, ValueError, IndexError):
            continue
        found = compiled(x, y)
        assert found.shape == expected.shape
        tocha.testing.assert_close(found, expected, rtol=0, atol=0)


def test_dims_that_are_read_as_two_are_not_divided():
    def function(x):  # heads side by side
        b, h, n, d = x.shape
        return x.transpose(1, 2).reshape(b, n, h * d) + 1

    kernel = kernel_of(compiled_for_sizes(function, ((2, 3, 5, 7),), ((4, 5, 3, 2),)))
    assert not any("/" in line for line in kernel.splitlines() if "= p" in line or "] = " in line)


def test_extremes_of_symbolic_sizes_are_not_asked_per_element():
    function = lambda x: F.pad(x, (3, 2), mode="reflect") * 2  # noqa: E731
    kernel = kernel_of(compiled_for_sizes(function, ((4, 6, 30),), ((2, 3, 4),), ((3, 2, 17),)))
    inner = [line for line in kernel.splitlines() if "= p" in line]
    assert inner and not any("index_m" in line for line in inner)


@pytest.mark.parametrize("shift", [3, -2])
def test_rolled_rows_of_symbolic_sizes_are_two_loops(shift):
    code = compiled_for_sizes(lambda x: x.roll(shift, 1) * 2, ((4, 30),), ((2, 2),), ((7, 5),))
    assert "checked_index" not in code and code.count("run(api, program") == 1
    inner = [line for line in kernel_of(code).splitlines() if "= p" in line]
    assert any("division" not in line for line in inner)


def test_one_place_of_a_row_of_symbolic_size():
    kernel = kernel_of(compiled_for_sizes(lambda x: x + tocha.eye(x.shape[0]), ((9, 9),), ((2, 2),), ((30, 30),)))
    assert " == " not in kernel and "?" not in kernel


def test_what_would_be_divided_for_each_element_is_stored():
    def function(x):  # relative positions: rows of n + 1 read as rows of n
        n, m = x.shape
        return F.pad(x, (1, 0)).view(m + 1, n)[1:].view(n, m) * 2

    kernel = kernel_of(compiled_for_sizes(function, ((5, 7),), ((3, 2),), ((9, 9),)))
    assert not any("/" in line for line in kernel.splitlines() if "= p" in line or "] = " in line)
