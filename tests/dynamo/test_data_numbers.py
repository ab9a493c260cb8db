"""Numbers that come from the elements of tensors, as sizes, bounds and places, in one graph and through gradients."""

import math

import pytest
from comparing import same

import tocha
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.testing import CompileCounter, CompileCounterWithBackend
from tocha.nn import functional as F
from tocha.testing import assert_close

BACKENDS = ["eager", "aot_eager", "inductor"]
X = tocha.arange(12.0).reshape(6, 2)
# A number as a tensor, lengths that sum to six, a mask: three times.
DATA = [
    (3, [1, 2, 3], [1, 0, 1, 1, 0, 1]),
    (4, [3, 2, 1], [0, 1, 0, 0, 1, 0]),
    (2, [0, 5, 1], [1, 1, 1, 1, 1, 1]),
]


def given(n, lengths, mask):
    return tocha.tensor([n]), tocha.tensor(lengths), tocha.tensor(mask, dtype=tocha.bool)


def parts(x, n, lengths, mask):
    return [t * 2 for t in x.split(lengths.tolist())]


def sums_of_parts(x, n, lengths, mask):
    return tocha.stack([t.sum(0) for t in tocha.split(x, lengths.tolist())])


def parts_of_columns(x, n, lengths, mask):
    return [t.sum() for t in x.t().split(lengths.tolist(), 1)]


def joined_parts(x, n, lengths, mask):
    return tocha.cat([t * i for i, t in enumerate(x.split(lengths.tolist()))])


def padded_parts(x, n, lengths, mask):
    return tocha.nn.utils.rnn.pad_sequence(list(x.split(lengths.tolist())), batch_first=True)


def products_of_parts(x, n, lengths, mask):
    return [(t @ tocha.ones(2, 3)).softmax(-1) for t in x.split(lengths.tolist())]


def runs(x, n, lengths, mask):
    out, start = [], 0
    for k in lengths.tolist():
        out.append(x[start : start + k].sum(0))
        start += k
    return tocha.stack(out)


def heads_and_tails(x, n, lengths, mask):
    k = n.item()
    return x[:k] * 2, x[k:].sum(0), tocha.cat([x[k:], x[:k]])


def views_handed_out(x, n, lengths, mask):
    a, b, _ = lengths.tolist()
    return x[a:b], x[n.item()], x.narrow(0, 1, b), tocha.tensor_split(x, [a])


def new_tensors(x, n, lengths, mask):
    k = n.item()
    grid = tocha.ones(k, 4).view(k, 2, 2).transpose(1, 2).reshape(k, 4)
    return tocha.arange(k)[None, :] < lengths[:, None], tocha.eye(k), grid + x.new_zeros(k, 1), x[0].expand(k, 2)


def equal_sizes(x, n, lengths, mask):
    k = n.item()
    return tocha.ones(k) * tocha.arange(k), tocha.ones(k, 2) @ tocha.ones(2, k), x.roll(k, 0), x[:, 0].topk(k).values


def written_parts(x, n, lengths, mask):
    k, x = n.item(), x.clone()
    x[:k] = 0
    x[k:] += 1
    return x


def chosen_rows(x, n, lengths, mask):
    rows = x[mask]
    back = tocha.zeros_like(x).index_add(0, mask.nonzero().squeeze(1), rows)
    return rows.mean(0), F.layer_norm(rows, (2,)), tocha.cat([rows, x[~mask]]), back


PROGRAMS = [
    parts, sums_of_parts, parts_of_columns, joined_parts, padded_parts, products_of_parts, runs, heads_and_tails,
    views_handed_out, new_tensors, equal_sizes, written_parts, chosen_rows,
]  # fmt: skip


def leaves(values):
    return tocha.utils._pytree.tree_leaves(values)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_in_one_graph(program, backend):
    counter = CompileCounterWithBackend(backend)
    compiled = tocha.compile(program, backend=counter, fullgraph=True)
    for data in DATA:
        assert_close(compiled(X, *given(*data)), program(X, *given(*data)))
    assert counter.frame_count == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_gradients(program, backend):
    compiled = tocha.compile(program, backend=backend, fullgraph=True)

    def gradient(call, data):
        x = X.clone().requires_grad_()
        out = [t for t in leaves(call(x, *given(*data))) if t.requires_grad]
        return tocha.autograd.grad(sum((t * t).sum() for t in out), x) if out else ()

    for data in DATA[:2]:
        assert_close(gradient(compiled, data), gradient(program, data))


def test_what_a_size_must_be_is_still_checked():
    compiled = tocha.compile(parts, backend="eager", fullgraph=True)
    compiled(X, *given(*DATA[0]))
    with pytest.raises(RuntimeError, match="sum exactly to 6"):
        compiled(X, *given(1, [1, 1, 1], DATA[0][2]))
    with pytest.raises(RuntimeError, match="non-negative"):
        compiled(X, *given(1, [-1, 4, 3], DATA[0][2]))


# ---- what the program says of numbers


def promised(n):
    k = (n * 1)[0].item()
    tocha._check(k <= 3, lambda: "at most three")
    return tocha.arange(3)[:k]


def promised_value(n):
    tocha._check_value((n * 1)[0].item() != 4, lambda: "not four")
    return n + 1


def promised_of_all(n):
    tocha._check_tensor_all(n < 4, lambda: "below four")
    return n + 1


@pytest.mark.parametrize(
    ("program", "error", "message"),
    [
        (promised, RuntimeError, "at most three"),
        (promised_value, ValueError, "not four"),
        (promised_of_all, RuntimeError, "below four"),
    ],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_messages_of_promises(program, error, message, backend):
    compiled = tocha.compile(program, backend=backend, fullgraph=True)
    assert same(compiled(tocha.tensor([2])), program(tocha.tensor([2])))
    with pytest.raises(error, match=message):
        compiled(tocha.tensor([4]))


def test_a_message_is_asked_for_where_it_is_needed():
    def f(x):
        tocha._check(x.shape[0] % 2 == 0, lambda: f"an even number of rows, not {x.shape[0]}")
        return x + 1

    counter = CompileCounter()
    compiled = tocha.compile(f, backend=counter, fullgraph=True, dynamic=True)
    for n in (4, 6, 8):
        assert same(compiled(tocha.ones(n)), f(tocha.ones(n)))
    assert counter.frame_count == 1
    with pytest.raises(RuntimeError, match="an even number of rows, not 3"):
        compiled(tocha.ones(3))


# ---- an integer that is an input


def branch(x, n):
    return x + 1 if n.item() > 2 else x - 1


def loop(x, n):
    for i in range(int(n)):
        x = x * i + 1
    return x


def head(x, n):
    return x[: n.item()] * 2


def added(x, n):
    return x + n.item()


@pytest.mark.parametrize(
    ("program", "graphs"), [(branch, [1, 1, 2]), (loop, [1, 2, 3]), (head, [1, 1, 1]), (added, [1, 1, 1])]
)
def test_decisions_by_an_integer_are_guarded(program, graphs):
    counter = CompileCounter()
    compiled = tocha.compile(program, backend=counter, fullgraph=True)
    seen = []
    for n in (3, 5, 2):
        assert same(compiled(X, tocha.tensor(n)), program(X, tocha.tensor(n)))
        seen.append(counter.frame_count)
    assert seen == graphs


def test_a_buffer_that_counts_calls():
    class Warm(tocha.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", tocha.tensor(0))

        def forward(self, x):
            k = self.calls.item()
            self.calls += 1
            return x * k if k < 2 else x

    compiled, plain = tocha.compile(Warm(), backend="eager", fullgraph=True), Warm()
    for _ in range(5):
        assert same(compiled(X), plain(X))
    assert compiled.calls.item() == 5


def test_an_element_that_was_written_is_not_the_inputs():
    def f(x, n):
        n.add_(1)
        return x[: n.item()]

    compiled = tocha.compile(f, backend="eager", fullgraph=True)
    for n in (3, 4):
        assert same(compiled(X, tocha.tensor(n)), f(X, tocha.tensor(n)))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x + 1 if x[x > 0].numel() > 0 else x,
        lambda x: x + 1 if x[x > 0].shape[0] == 1 else x,
        lambda x: x + 1 if len(x.nonzero()) else x,
    ],
)
def test_what_the_program_decides_by_a_size_from_data_is_not_taken_for_granted(f):
    """That sizes from data are neither 0 nor 1 is what operators may assume."""
    with pytest.raises(Unsupported, match="data-dependent"):
        tocha.compile(f, backend="eager", fullgraph=True)(tocha.tensor([1.0, 2.0]))
    with tocha._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = tocha.compile(f, backend="eager")
        for given in ([1.0, 2.0], [0.0, 0.0], [1.0, -1.0]):
            x = tocha.tensor(given)
            assert tocha.equal(compiled(x), f(x))


def classes_of_a_float(x):
    v = x.item()
    return v == math.inf, v != -math.inf, v < math.inf, v >= -math.inf, math.isinf(v), math.isnan(v), math.isfinite(v)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)], ids=str)
def test_floats_from_data_may_be_infinite(backend, shape):
    compiled = tocha.compile(classes_of_a_float, backend=backend, fullgraph=True)
    for v in (3.0, math.inf, -math.inf, math.nan):
        x = tocha.tensor(v).reshape(shape)
        assert compiled(x) == classes_of_a_float(x)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)], ids=str)
def test_formulas_of_an_element(backend, shape):
    def f(x):
        v = x.item()
        return tocha.tensor(v), tocha.tensor([[v], [2.0]]), tocha.full((2,), v), tocha.as_tensor(v * 2 + 1)

    compiled = tocha.compile(f, backend=backend, fullgraph=True)
    for v in (1.5, -2.25):
        assert_close(compiled(tocha.tensor(v).reshape(shape)), f(tocha.tensor(v)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_what_is_joined_of_unknown_sizes(backend):
    def f(lengths, w):
        a, b = lengths.tolist()
        return tocha.cat([tocha.ones(a) * w, tocha.ones(b) * w * w]) * tocha.arange(a + b)

    compiled = tocha.compile(f, backend=backend, fullgraph=True)
    for lengths in ([4, 9], [0, 3], [1, 1], [2, 0]):
        grads = []
        for call in (compiled, f):
            w = tocha.tensor([1.5], requires_grad=True)
            call(tocha.tensor(lengths), w).sum().backward()
            grads.append(w.grad)
        assert_close(*grads)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_size_from_data_gives_way_to_that_of_an_input(backend):
    """What was found to be equal is known by the input: the program may decide by it, and views are made with it."""

    def f(x, y):
        parts = tocha.split(x.nonzero(), [y.size(0), 0])
        return (*parts, y + 1 if y.size(0) > 3 else y - 1)

    compiled = tocha.compile(f, backend=backend, fullgraph=True, dynamic=True)
    for x, n in (([1, 0, 1, 1, 0, 1], 4), ([0, 1, 1], 2)):
        assert_close(compiled(tocha.tensor(x), tocha.ones(n)), f(tocha.tensor(x), tocha.ones(n)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_promises_about_sizes_of_unbacked_inputs_are_kept(backend):
    def f(a, b):
        tocha._check(a.size(0) == b.size(0), lambda: "as many rows")
        return a * 2

    compiled = tocha.compile(f, backend=backend, fullgraph=True, dynamic=True)
    a, b = tocha.ones(4, 3, requires_grad=True), tocha.ones(4, 3)
    for t in (a, b):
        tocha._dynamo.decorators.mark_unbacked(t, 0)
    compiled(a, b).sum().backward()
    assert a.grad.tolist() == [[2.0] * 3] * 4
    assert compiled(tocha.ones(1, 3), tocha.ones(1, 3)).shape == (1, 3)
    with pytest.raises(RuntimeError, match="as many rows"):
        compiled(tocha.ones(4, 3), tocha.ones(2, 3))


@pytest.mark.parametrize("values", [(3, 0), (0.5, 0.0), (True, False)])
def test_the_truth_of_a_number_from_data_is_a_result(values):
    counter = CompileCounter()
    with tocha._dynamo.config.patch(capture_scalar_outputs=True):
        f = tocha.compile(lambda x: (bool(x.item()), bool(x), x[0] + 1), backend=counter, fullgraph=True)
        for value in (*values, values[0]):
            assert f(tocha.tensor([value]))[:2] == (bool(value), bool(value))
    assert counter.frame_count == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("exponents", [[3, 1], [2, 0], [2.5, 1.0], [-1.0, 0.5]])
def test_powers_of_numbers_from_data(backend, exponents):
    def f(x, e):
        total = e.sum().item()
        return (x**total + total**x + x.pow(e.max().item()) * x ** e[1].item()).sum()

    compiled = tocha.compile(f, backend=backend, fullgraph=True)
    e = tocha.tensor(exponents)
    for values in (e, e.flip(0), e * 2):
        x, y = X[1].clone().requires_grad_(), X[1].clone().requires_grad_()
        got, want = compiled(x, values), f(y, values)
        assert_close(got, want, equal_nan=True)
        if want.isfinite():
            got.backward()
            want.backward()
            assert_close(x.grad, y.grad, equal_nan=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_negative_powers_of_integers_are_refused_when_they_are_met(backend):
    compiled = tocha.compile(lambda x, e: x ** e.max().item(), backend=backend, fullgraph=True)
    x = tocha.tensor([2, 3])
    assert compiled(x, tocha.tensor([1, 2])).tolist() == [4, 9]
    with pytest.raises(RuntimeError, match="Integers to negative integer powers are not allowed"):
        compiled(x, tocha.tensor([-3, -2]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_shapes_of_what_is_found_in_data(backend):
    def f(x):
        places = x.nonzero()
        n = places.shape[0]
        tocha._check(n % 2 == 0)
        flat = places.squeeze(-1)
        return (
            places.reshape(-1, 2),
            flat.view(n // 2, 2) * 2,
            flat.view(2, -1),
            places.expand(n, 3),
            flat.reshape(1, -1),
        )

    compiled = tocha.compile(f, backend=backend, fullgraph=True)
    for values in ([1, 0, 2, 3, 4], [1, 1, 0, 0, 0], [1, 2, 3, 4, 5, 6]):
        x = tocha.tensor(values)
        assert same(f(x), compiled(x))
