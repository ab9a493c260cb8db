"""Compiled writes to parts of tensors: only the part is gone through, in the tensor's own memory."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tocha
from tocha._inductor.utils import run_and_get_code
from tocha.nn import functional as F


def check(function, *args, calls=1):
    """Runs a function eagerly and compiled on equal arguments; the C++ of the first compilation."""
    plain, given = ([a.clone() if isinstance(a, tocha.Tensor) else a for a in args] for _ in range(2))
    compiled, code = tocha.compile(function, fullgraph=True), None
    for i in range(calls):
        expected = function(*plain)
        if i == 0:
            found, (code, *_) = run_and_get_code(compiled, *given)
        else:
            found = compiled(*given)
        tocha.testing.assert_close(found, expected)
        tocha.testing.assert_close(given, plain)
    return code


def row(x, y):
    x[3] = y * 2
    return x[0] + 1


def column(x, y):
    x[:, 5] = y.sum()
    return x[0] + 1


def rows(x, y):
    x[10:20] *= 2
    x[30:40] += y


def rows_of_columns(x, y):
    x[2:9, ::3] = y[0]
    x[4, 5] = 3


WRITES = {"row": (row, 64), "column": (column, 200), "rows": (rows, 10 * 64), "rows of columns": (rows_of_columns, 7 * 64)}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
def test_a_write_to_a_part_goes_through_the_part_alone(name):
    function, elements = WRITES[name]
    x, y = tocha.randn(200, 64), tocha.randn(64)
    code = check(function, x, y, calls=2)
    work = [line.split(", ")[5] for line in code.splitlines() if line.lstrip().startswith("run(api")]
    assert elements in map(int, work)
    assert max(map(int, work)) < x.numel() / 2


def test_a_cache_of_keys_is_written_where_the_new_one_goes():
    def function(keys, key, query):
        keys[:, :, 7:8] = key
        return F.scaled_dot_product_attention(query, keys, keys)

    keys, key = tocha.randn(2, 4, 50, 16), tocha.randn(2, 4, 1, 16)
    code = check(function, keys, key, tocha.randn(2, 4, 3, 16), calls=2)
    assert f", {key.numel()}, kernel_0" in code


def reads_the_old(x, y):
    old = x * 2
    x[3] = y
    return old + x


def reads_other_rows(x, y):
    x[5:10] = x[:5] * 2
    x[:-1] = x[1:].clone()


def reads_sums(x, y):
    x[3] = x.sum(0) * 0 + y
    return x.amax()


def written_in_turns(x, y):
    x[2] = y
    a = x.amax(0)
    x[tocha.tensor([1, 7])] = y
    b = x.amax(0)
    x[7:9] = a + b
    return a, b


def turned_round_then(x, y):
    x[2] = y
    s = x.sin()
    x.copy_(x.flip(0))
    return s


def handed_to_operators(x, y):
    x[3] = y
    return F.scaled_dot_product_attention(y.expand(1, 1, 64), x[None], x[None]), x.sort(0).values


@pytest.mark.parametrize(
    "function",
    [reads_the_old, reads_other_rows, reads_sums, written_in_turns, turned_round_then, handed_to_operators],
    ids=lambda f: f.__name__,
)
def test_old_values_are_read_before_they_are_gone(function):
    check(function, tocha.randn(200, 64), tocha.randn(64), calls=2)


@pytest.mark.parametrize("dtype", [tocha.float32, tocha.int32, tocha.bfloat16, tocha.bool])
def test_a_complex_number_is_copied_as_its_real_part(dtype):
    check(lambda x: x.copy_(2 + 3j), tocha.zeros(5, dtype=dtype))


SCATTERS = {
    "index_put": lambda x, i, y: x.__setitem__(i, y),
    "index_add": lambda x, i, y: x.index_add_(0, i, y),
    "index_copy": lambda x, i, y: x.index_copy_(0, i, y),
    "scatter": lambda x, i, y: x.scatter_(0, i[:, None].expand(3, 64), y),
    "scatter_add": lambda x, i, y: x.scatter_add_(0, i[:, None].expand(3, 64), y),
}


@pytest.mark.parametrize("name", SCATTERS)
def test_scatters_change_an_input_where_it_lies(name):
    write = SCATTERS[name]

    def function(x, i, y):
        write(x.detach(), i, y)
        return x[0] + 1

    x = tocha.randn(200, 64)
    code = check(function, x, tocha.tensor([1, 5, 7]), tocha.randn(3, 64), calls=2)
    assert "empty(int64_t(DType::Float32), 2" not in code  # no other memory of its size
    y, z = x.clone(), x.clone()
    function(y, tocha.tensor([1]).expand(3), tocha.ones(3, 64))
    tocha.compile(function)(z, tocha.tensor([1]).expand(3), tocha.ones(3, 64))
    assert z._version == y._version


def test_scatters_change_what_nobody_else_wants():
    def function(i, y):
        return tocha.zeros(200, 64).index_add(0, i, y)

    code = check(function, tocha.tensor([1, 5, 5]), tocha.randn(3, 64))
    assert code.count("api->empty(") == 1


def test_scatters_leave_what_is_wanted():
    def function(x, i, y):
        z = tocha.cos(x)
        return z.index_add(0, i, y), z, x.index_add(0, i, y)

    check(function, tocha.randn(200, 64), tocha.tensor([1, 5, 5]), tocha.randn(3, 64), calls=2)


def part_of_another(x, y):
    z = x.clone()
    z[3] = y
    x.fill_(2)
    return z


def put_into_another(x, y):
    z = x.index_put((tocha.tensor([1, 7]),), y, accumulate=True)
    x[:] = 2
    return z


def another_then_the_same(x, y):
    z = x.index_add(0, tocha.tensor([1]), y[None])
    x.copy_(z * 2)
    return z[0], z


def seen_through_a_view(x, y):
    z = x.index_copy(0, tocha.tensor([1]), y[None])
    x.zero_()
    return z[:, 2:5]


@pytest.mark.parametrize(
    "function",
    [part_of_another, put_into_another, another_then_the_same, seen_through_a_view],
    ids=lambda f: f.__name__,
)
def test_what_is_returned_beside_an_inputs_new_value_lies_elsewhere(function):
    check(function, tocha.randn(200, 64), tocha.randn(64), calls=2)


@pytest.mark.parametrize("places", [(3, 4, 9, 63, 64, 70), (5, 6, -1, -64)])
def test_places_that_change_are_one_loop(places):
    def function(x, y, place):
        x[:, place : place + 1] = y
        return x[:, :8] + 1

    x, y = tocha.randn(4, 64, 16), tocha.randn(4, 1, 16)
    z, compiled = x.clone(), tocha.compile(function)
    for place in places:
        if x[:, place : place + 1].numel() == 0:
            continue
        tocha.testing.assert_close(compiled(z, y * place, place), function(x, y * place, place))
        assert tocha.equal(z, x)


def test_a_place_outside_changes_nothing():
    def function(x, y, place):
        x[place] = y

    x, compiled = tocha.randn(8, 4), tocha.compile(function)
    for place in (1, 2, 3):
        compiled(x, tocha.ones(4), place)
    before = x.clone()
    with pytest.raises(IndexError, match="index 8 is out of bounds"):
        compiled(x, tocha.zeros(4), 8)
    assert tocha.equal(x, before)


@pytest.mark.parametrize("sizes", [(5,), (2, 2, 3), (1, 2, 3)], ids=str)
@pytest.mark.parametrize("write", [lambda x, y: x.copy_(y), lambda x, y: x.masked_fill_(y > 0, 1.0)], ids=["copy_", "masked_fill_"])  # fmt: skip
def test_what_does_not_broadcast_to_a_tensor_is_not_written_to_it(write, sizes):
    x = tocha.zeros(2, 3)
    with pytest.raises(RuntimeError, match=r"must match the size|doesn't match the broadcast shape"):
        tocha.compile(write)(x, tocha.ones(sizes))
    assert x.tolist() == [[0] * 3] * 2


# One write or read of a 6x8 tensor, as text.
bounds = st.tuples(st.integers(0, 5), st.integers(1, 6)).filter(lambda t: t[0] < t[1])
places = st.one_of(
    st.integers(-6, 5).map(str),
    bounds.map(lambda t: f"{t[0]}:{t[1]}"),
    bounds.map(lambda t: f"{t[0]}:{t[1]}, 2:5"),
    st.integers(0, 7).map(lambda i: f":, {i}"),
    st.integers(2, 4).map(lambda n: f"1::{n}"),
    st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True).map(lambda v: f"tocha.tensor({v})"),
)
values = st.one_of(
    st.just("y.sum()"), places.map(lambda p: f"x[{p}].sum()"), places.map(lambda p: f"x[{p}].amax() * 2"), st.just("3")
)
statements = st.one_of(
    st.tuples(places, values).map(lambda t: f"x[{t[0]}] = {t[1]}"),
    st.tuples(places, values).map(lambda t: f"x[{t[0]}] += {t[1]}"),
    places.map(lambda p: f"results.append(x[{p}] * 2)"),
    st.tuples(places, values).map(lambda t: f"z = x.clone(); z[{t[0]}] = {t[1]}; results.append(z)"),
    st.sampled_from(
        [
            "x.mul_(0.5)",
            "x.fill_(2)",
            "x.copy_(x.flip(0))",
            "y = x + 1",
            "y.copy_(x)",
            "x[1:4] = x[2:5].clone()",
            "results.append(x.index_add(0, tocha.tensor([1, 3]), y[:2]))",
        ]
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(statements, min_size=1, max_size=6))
def test_writes_in_any_order(lines):
    scope = {"tocha": tocha}
    exec("def function(x, y):\n    results = []\n    " + "\n    ".join(lines) + "\n    return results", scope)
    check(scope["function"], tocha.randn(6, 8), tocha.randn(6, 8))
