"""Sizes and numbers that come from data in compiled programs: known after a call, and used by the kernels behind it."""

import pytest

import tocha
from tocha._dynamo import config as dynamo_config
from tocha._inductor import programs as programs_module
from tocha._inductor.compile_fx import compile_fx
from tocha._inductor.programs import compile_graph
from tocha._subclasses.fake_tensor import FakeTensorMode
from tocha.fx.experimental.proxy_tensor import make_fx
from tocha.ir.loops import Element
from tocha.ir.shape_env import ShapeEnv
from tocha.nn import functional as F

pytestmark = pytest.mark.usefixtures("kernel_cache")


@pytest.fixture(autouse=True)
def captured_whole(monkeypatch):
    tocha._dynamo.reset()
    monkeypatch.setattr(dynamo_config, "capture_dynamic_output_shape_ops", True)
    monkeypatch.setattr(dynamo_config, "capture_scalar_outputs", True)


def items(program):
    return [c.name for c in program.calls if isinstance(c, Element)]


def others(program):
    return [c.name for c in program.calls if not isinstance(c, Element)]


def places(x):
    return (x > 0).nonzero() * 2 + 1


def selected(x):
    y = x.masked_select(x > 0)
    return y.sin() * 2 + 1


def standardized(x):
    z = x.sin() * 2
    y = z[x > 0]
    return (y - y.mean()) / (y.std() + 1), z.cos()


def rows(x):
    return (x[x[:, 0] > 0] * 2).softmax(-1) + 1


def products(x):
    return (x[x[:, 0] > 0] @ x.t()).relu() + 1


def counted(x):
    n = (x > 0).sum().item()
    tocha._check(n >= 0)
    return tocha.arange(n) * 2 + 1, tocha.zeros(n, 3) + 2, x * n


def head(x):
    n = (x > 0).sum().item()
    tocha._check(n >= 0)
    tocha._check(n <= x.numel())
    return x.flatten()[:n].sin() + 1


def parts(x):
    n = (x[:, 0] > 0).sum()
    a, b = x.split(tocha.stack([n, x.shape[0] - n]).tolist())
    return a.sin() + 1, b.cos() * 2


def repeated(x):
    return x.repeat_interleave((x[:, 0].abs() * 3).long(), 0).sin() + 1


def distinct(x):
    values, places, counts = (x.detach() * 2).round().unique(return_inverse=True, return_counts=True)
    return values * 2 + 1, places + 1, counts.float() / counts.sum()


def chained(x):
    y = x[x > 0].exp()
    z = y[y > 1.5] * 2
    return y.sin(), z.cos(), z.shape[0] + 1


def layers(x):
    y = x[x[:, 0] > 0]
    return F.layer_norm(y, (4,)), F.softmax(y, 0), F.relu(F.linear(y, tocha.ones(3, 4), tocha.ones(3))) + 1


def joined(x):
    y = x[x[:, 0] > 0]
    return tocha.cat([y, y.flip(0), x]) * 2, F.pad(y, (1, 2, 0, 1)) * 2, y.view(-1) + 1, y.t().contiguous() * 2


def all_pairs(x):
    y = x[x > 0]
    return (y[:, None] - y[None, :]).abs() + tocha.eye(y.shape[0])


def truth(x):
    b = (x > 0).any().item()
    return x * b, tocha.ones(3) * b


def real(x):
    m = x.mean().item()
    return x[x > 0] * m + 1


def unknown_sign(x):
    n = (x[:, 0] > 0).sum().item() - 1
    return x[:n].sin() + 1


PROGRAMS = [
    places, selected, standardized, rows, products, counted, head, parts, repeated, distinct, chained, layers, joined, all_pairs,
    truth, real, unknown_sign,
]  # fmt: skip
ONE = tocha.tensor([[-1.0, -1, -1, -1], [2, -1, -1, -1], [-1, -1, -1, -1]])
INPUTS = [tocha.randn(5, 4), -tocha.rand(5, 4) - 0.01, ONE, tocha.rand(5, 4), tocha.randn(7, 4)]


def listed(values):
    return list(values) if isinstance(values, tuple) else [values]


def gradient(results, x):
    roots = [r for r in results if isinstance(r, tocha.Tensor) and r.requires_grad]
    return tocha.autograd.grad(sum(r.square().sum() for r in roots), x) if roots else ()


@pytest.mark.filterwarnings("ignore:std..")
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_gradients(f, dynamic, caplog):
    """Of some rows, none, one, all; the graph is one program, whatever comes."""
    compiled = tocha.compile(f, dynamic=dynamic, fullgraph=True)
    for given in INPUTS:
        for grad in (False, True):
            x, mine = (given.clone().requires_grad_(grad) for _ in range(2))
            want, got = listed(f(x)), listed(compiled(mine))
            tocha.testing.assert_close(got, want, equal_nan=True)
            if grad:
                mine, want = gradient(got, mine), gradient(want, x)
                tocha.testing.assert_close(mine, want, equal_nan=True, rtol=1e-4, atol=1e-5)
    assert "operator by operator" not in caplog.text


@pytest.mark.parametrize(
    ("f", "kernels", "calls", "elements"),
    [
        (places, 2, ["nonzero_default"], 0),
        (selected, 2, ["masked_select_default"], 0),
        (rows, 3, ["index_Tensor"], 0),  # of few columns: the exponentials are stored
        (products, 2, ["index_Tensor", "mm"], 0),
        (counted, 2, [], 1),
        (head, 2, [], 1),
        (parts, 3, [], 2),
        (chained, 3, ["index_Tensor", "index_Tensor"], 0),
        (all_pairs, 2, ["index_Tensor"], 0),
    ],
    ids=lambda v: getattr(v, "__name__", None),
)
def test_kernels_on_both_sides_of_the_call(f, kernels, calls, elements, programs):
    tocha.compile(f, fullgraph=True)(INPUTS[0])
    (program,) = programs
    assert (len(program.kernels), others(program), len(items(program))) == (kernels, calls, elements)


def test_backward_is_given_the_size(programs):
    x = INPUTS[0].clone().requires_grad_()
    a, b = tocha.compile(parts, fullgraph=True)(x)
    (a.sum() + b.sum()).backward()
    _, backward = programs
    assert not backward.calls and len(backward.kernels) == 2
    assert sum(i is None for i in backward.program.inputs) == 2


def test_what_waits_for_no_number_does_not_wait(programs):
    """A kernel before the call takes in what is computed of the same memory after it, and the other way round nothing."""
    tocha.compile(standardized, fullgraph=True)(INPUTS[0])
    (program,) = programs
    first, *others = ["cos" in " ".join(loop.name for loop in k.loops) for k in program.kernels]
    assert first and not any(others)


def test_memory_of_unknown_size_is_no_part_of_the_arena(programs):
    def f(x):
        y = x[x > 0]
        z = y.exp()
        return z.sum() * z, x.softmax(0).cumsum(0)

    tocha.testing.assert_close(tocha.compile(f, fullgraph=True)(INPUTS[0]), f(INPUTS[0]))
    (program,) = programs
    assert all(isinstance(b.numel(), int) for b in program.memory.offsets)


def test_an_input_is_not_written_to_while_a_view_of_it_is_read():
    def f(x):
        n = (x[:, 0] > 0).sum().item()
        y, z = x[:n].sin(), x[:n]
        x.mul_(2)
        return y + 1, z * 3

    x, mine = INPUTS[0].clone(), INPUTS[0].clone()
    tocha.testing.assert_close(tocha.compile(f, fullgraph=True)(mine), f(x))
    tocha.testing.assert_close(mine, x)


# ---- what must hold ---------------------------------------------------------------------------------


def few(n):
    k = n.sum().item()
    tocha._check(k >= 0)
    tocha._check(k <= 5)
    return tocha.arange(5)[:k] * 2


def five(n):
    k = n.sum().item()
    tocha._check(k == 5)
    return tocha.ones(5) * 2


def six_in_two(n):
    return [t + 1 for t in tocha.arange(6).split((n * 1).tolist())]


def one_of_three(n):
    return tocha.arange(3)[(n * 1)[0].item()] + 1


def first(n):
    return n[n > 3][0] + 1


def largest(n):
    return n[n > 3].amax(0) * 2


@pytest.mark.parametrize(
    ("f", "good", "bad", "error", "message"),
    [
        (few, [2, 3], [7, 3], RuntimeError, "Runtime assertion failed for expression u. <= 5"),
        (few, [0, 0], [-2, 1], RuntimeError, "Runtime assertion failed for expression u. >= 0"),
        (five, [2, 3], [2, 2], RuntimeError, "Runtime assertion failed for expression u. == 5"),
        (six_in_two, [2, 4], [2, 3], RuntimeError, "sum exactly to 6"),
        (six_in_two, [0, 6], [-2, 8], RuntimeError, "non-negative"),
        (one_of_three, [2, 0], [3, 0], IndexError, "out of range"),
        (one_of_three, [-3, 0], [-4, 0], IndexError, "out of range"),
        (first, [4, 1], [1, 1], IndexError, "out of range"),
        (largest, [4, 1], [1, 1], IndexError, "non-zero size"),
    ],
)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_promises_are_kept(f, good, bad, error, message, backend):
    """By the program (`_check`), or asked by operators that have become loops and views: nothing is read outside of memory."""
    compiled = tocha.compile(f, fullgraph=True, backend=backend)
    tocha.testing.assert_close(compiled(tocha.tensor(good)), f(tocha.tensor(good)))
    with pytest.raises(error, match=message):
        compiled(tocha.tensor(bad))
    tocha.testing.assert_close(compiled(tocha.tensor(good)), f(tocha.tensor(good)))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_promise_that_nothing_else_uses_is_kept(backend):
    def f(x):
        tocha._check((x > 0).sum().item() < 3)
        return x.sin()

    compiled = tocha.compile(f, fullgraph=True, backend=backend)
    x = tocha.tensor([1.0, 1, -1], requires_grad=True)
    compiled(x).sum().backward()
    tocha.testing.assert_close(x.grad, x.detach().cos())
    with pytest.raises(RuntimeError, match="Runtime assertion failed for expression"):
        compiled(tocha.ones(3, requires_grad=True))


def test_a_number_of_an_element_is_not_read_again_in_backward():
    def f(x, n):
        return (x * n.item()).sin()

    for backend in ("aot_eager", "inductor"):
        x, n = tocha.ones(3, requires_grad=True), tocha.tensor([2])
        out = tocha.compile(f, fullgraph=True, backend=backend)(x, n)
        n.zero_()
        tocha.testing.assert_close(tocha.autograd.grad(out.sum(), x)[0], 2 * tocha.full((3,), 2.0).cos())


@pytest.mark.parametrize("f", [selected, head, parts], ids=lambda f: f.__name__)
def test_programs_are_kept_and_found_again(f, empty_kernel_cache, monkeypatch):
    lowered = []
    lower = programs_module.lower_graph
    monkeypatch.setattr(programs_module, "lower_graph", lambda *args: lowered.append(1) or lower(*args))
    for _ in range(2):
        tocha._dynamo.reset()
        compiled = tocha.compile(f, fullgraph=True)
        for x in INPUTS[:2]:
            tocha.testing.assert_close(compiled(x), f(x))
    assert len(lowered) == 1


@pytest.mark.parametrize("n", [1, 5, 63, 64, 65, 1000, 12345])
def test_folds_of_sizes_from_data_are_shared_out(n):
    """In chunks, and what is left: for all sizes, down to nothing."""

    def f(x):
        y = x[x > 0]
        return y.mean(), y.sum(), (y * 2).exp().sum(), (y > 1).any(), y.norm(), y.prod()

    x = tocha.rand(n) - 0.5
    x[0] = 0.5
    compiled = tocha.compile(f, fullgraph=True)
    for given in (x, -x.abs()):
        for a, b in zip(f(given), compiled(given), strict=True):
            assert a.dtype == b.dtype and tocha.allclose(a, b, rtol=1e-4, equal_nan=True)


def test_such_a_fold_has_rows_for_the_threads():
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    with mode:
        graph = make_fx(lambda x: [x[x > 0].sum()])(tocha.ones(4096))
    program = compile_graph(graph)
    names = [loop.name for k in program.kernels for loop in k.loops]
    assert any(name.endswith("_parts") for name in names) and any(name.endswith("_rest") for name in names)


def test_sizes_computed_by_operators_of_numbers_alone_are_known():
    def chunks(x, window):
        count = tocha.div(x.shape[0], window, rounding_mode="trunc") - 1
        out = x.new_zeros((2, count + 1, window, 5))
        out[:, :3, :, 2:] = x[:3, :window].unsqueeze(-1)
        return out, out.shape[1]

    seen = []

    def backend(graph, inputs):
        seen.extend(n.meta["example_value"].constant for n in graph.graph.nodes if n.target is tocha.div)
        return compile_fx(graph, inputs)

    x = tocha.randn(16, 4)
    out, count = tocha.compile(chunks, backend=backend, fullgraph=True)(x, 4)
    assert count == 4 and tocha.equal(out, chunks(x, 4)[0])
    assert [int(c) for c in seen] == [4]


def as_many_as_ones(x):
    z = x.nonzero()
    tocha._check(z.size(0) == 4)
    return tocha.ones(z.size(0))


def found(x):
    z = x.nonzero()
    tocha._check(z.size(0) == 4)
    return z


def used_with_an_input(x):
    z = x.nonzero()
    tocha._check(z.size(0) == x.size(0), lambda: "all of them")
    return z[:, 0] + x


@pytest.mark.parametrize("program", [as_many_as_ones, found, used_with_an_input])
def test_sizes_that_are_promised_to_be_a_number_are_checked(program):
    """From the promise on the size is that number; where it is made it is still read."""
    compiled = tocha.compile(program, fullgraph=True)
    good, bad = tocha.tensor([1, 2, 3, 4]), tocha.tensor([1, 0, 3, 4])
    assert tocha.equal(compiled(good), program(good))
    with pytest.raises(RuntimeError, match=r"_check|all of them"):
        compiled(bad)


def promised(x, n):
    number = (n * 1.5).item()
    tocha._check(number > 2.5, lambda: "too small")
    return x + 1


def promised_and_used(x, n):
    number = (n * 1.5).item()
    tocha._check(number > 2.5, lambda: "too small")
    return x * number


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("program", [promised, promised_and_used])
def test_promises_of_floats_are_checked(program, backend):
    compiled = tocha.compile(program, fullgraph=True, backend=backend)
    x = tocha.arange(3.0)
    assert tocha.equal(compiled(x, tocha.tensor(2.0)), program(x, tocha.tensor(2.0)))
    with pytest.raises(RuntimeError, match="too small"):
        compiled(x, tocha.tensor(1.0))


def test_tensors_in_the_places_of_floats_are_numbers_from_data():
    f = tocha.compile(lambda x, eps: tocha.logit(x, eps), fullgraph=True)
    x = tocha.tensor([0.3, 0.95])
    for eps in (0.1, 0.4):
        tocha.testing.assert_close(f(x, tocha.tensor(eps, dtype=tocha.float64)), tocha.logit(x, eps))
