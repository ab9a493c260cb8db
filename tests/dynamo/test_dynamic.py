"""Sizes and numbers that change: symbols in graphs, guards on what was asked of them."""

import math

import pytest
from comparing import same

import tocha
import tocha.nn.functional as F
from tocha import _dynamo
from tocha._dynamo.testing import CompileCounter, EagerAndRecordGraphs
from tocha.ir.shape_env import ConstraintViolationError

rows = [tocha.arange(4.0 * n).reshape(n, 4) for n in range(12)]


def held(f, calls, graphs, **settings):
    """Compiled does what uncompiled does, in so many graphs; returns them."""
    backend = EagerAndRecordGraphs()
    compiled = tocha.compile(f, backend=backend, fullgraph=True, **settings)
    for args in calls:
        expected, got = f(*args), compiled(*args)
        for a, b in zip(*((v if isinstance(v, tuple) else (v,)) for v in (expected, got)), strict=True):
            assert type(a) is type(b)
            assert tocha.equal(a, b) if isinstance(a, tocha.Tensor) else a == b
    assert backend.frame_count == graphs
    return backend.graphs


def test_a_size_that_changes_becomes_a_symbol():
    graphs = held(lambda x: x.sum(0) * 2 + x.shape[0], [(rows[n],) for n in (2, 3, 4, 5, 6)], 2)
    placeholders = [n for n in graphs[1].graph.nodes if n.op == "placeholder"]
    assert [n.name for n in placeholders] == ["s0", "l_x_"]
    fake = placeholders[1].meta["example_value"]
    assert str(fake.shape) == "tocha.Size([s0, 4])" and fake.fake_mode.shape_env is not None


def test_floats_computed_from_sums_of_sizes_and_numbers():
    held(lambda x, t: (x + 1, 0.5 * (t + 1) / (x.shape[0] - 1)), [(rows[n], n) for n in (3, 4, 5, 6)], 2)


def test_a_schedule_inside_of_the_compiled_step():
    def train(compiled):
        optimizer = tocha.optim.SGD([tocha.nn.Parameter(tocha.ones(2))], lr=0.1)
        schedule = tocha.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)

        def step():
            optimizer.step()
            schedule.step()

        step = compiled(step)
        rates = []
        for _ in range(6):
            step()
            rates += schedule.get_last_lr()
        return rates

    assert train(lambda f: tocha.compile(f, backend="eager")) == train(lambda f: f)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "area"])
def test_a_size_to_resample_to_stays_a_symbol(mode):
    def f(x, skip):
        return tocha.nn.functional.interpolate(x[None, None], size=skip.shape, mode=mode) + skip

    held(f, [(rows[3], rows[n]) for n in (5, 7, 9)], 1, dynamic=True)


def test_zero_and_one_are_constants():
    held(lambda x: (x.sum(0), x.shape[0]), [(rows[n],) for n in (4, 5, 0, 6, 1, 7)], 4)


@pytest.mark.parametrize(("dynamic", "graphs"), [(True, 1), (None, 2), (False, 4)])
def test_the_argument_dynamic(dynamic, graphs):
    held(lambda x: tocha.relu(x @ x.t()), [(rows[n],) for n in (3, 5, 7, 9)], graphs, dynamic=dynamic)


def test_marks():
    x = rows[3].clone()
    _dynamo.mark_dynamic(x, 0)
    held(lambda x: x.mean(0), [(x,), (rows[5],), (rows[7],)], 1)
    _dynamo.reset()
    y = rows[3].clone()
    _dynamo.mark_dynamic(y, -2)
    with pytest.raises(ConstraintViolationError, match="marked as dynamic"):
        tocha.compile(lambda x: x + 1 if x.shape[0] == 3 else x, backend="eager")(y)
    z = rows[3].clone()
    _dynamo.maybe_mark_dynamic(z, 0)
    held(lambda x: x + 1 if x.shape[0] == 3 else x - 1, [(z,), (rows[4],), (rows[5],)], 2)
    _dynamo.reset()
    fixed = [(rows[n].clone(),) for n in (3, 4, 3)]
    for (t,) in fixed:
        _dynamo.mark_static(t)
    held(lambda x: x * x.shape[0], fixed, 2)


def test_guards_are_python_over_sources():
    f = tocha.compile(lambda x: x.sum() if x.shape[0] > 4 else x.mean(), backend="eager", dynamic=True)
    f(rows[3])
    (entry,) = tocha._C._capture.code_entries(f._function.__code__)
    assert entry[1].first_failure((rows[6],), {}, None) == "L['x'].size()[0] <= 4"
    assert entry[1].first_failure((rows[1],), {}, None) == "L['x'].size()[0] >= 2"
    assert entry[1].first_failure((rows[4],), {}, None) is None


def test_relations_of_sizes():
    def f(x, y):
        return x + y if x.shape[0] == y.shape[0] else tocha.cat([x, y])

    sizes = [(3, 3), (5, 5), (3, 7), (6, 2)]
    held(f, [(rows[a], rows[b]) for a, b in sizes], 2, dynamic=True)


def test_divisibility():
    def f(x):
        n = x.shape[0]
        return x.reshape(-1).view(2, 2 * n).sum(1) if n % 2 == 0 else x[: n - 1].sum(0)

    held(f, [(rows[n],) for n in (6, 8, 7, 9, 10)], 2, dynamic=True)


def test_sizes_leave_as_ints():
    def f(x):
        n = x.shape[0]
        return (
            x + 1,
            n,
            n * 2,
            (n, x.numel(), x.nbytes),
            n // 2,
            n / 2,
            tuple(x.shape),
            max(n, 4),
            n > 4,
            -n,
            math.sqrt(n),
        )

    held(f, [(rows[n],) for n in (3, 5, 8)], 1, dynamic=True)


def test_numbers():
    held(lambda x, k: (x * k + k // 2, k % 3, abs(-k)), [(rows[2], k) for k in (2, 3, 5, 7, -8)], 2)
    held(lambda x, r: (x - r * x, r * 2, int(r), round(r)), [(rows[2], r) for r in (0.1, 0.2, 3.5, -4.25)], 2)
    held(lambda x, k: x + k, [(rows[2], k) for k in (0, 1, 2, 3, 0)], 2)
    held(lambda x, n: tocha.zeros(n, 4) + x[:1] + tocha.arange(n).sum(), [(rows[2], n) for n in (3, 4, 5)], 2)
    held(lambda x, a, b: x[a:b] * 2, [(rows[9], 2, 5), (rows[9], 3, 8), (rows[9], 4, 9)], 2)


@pytest.mark.parametrize("first", [0, 1])
def test_numbers_that_are_zero_or_one_at_first(first):
    for f, kind in (
        (lambda x, p: x[:, p : p + 1] * 2, int),
        (lambda x, p: (tocha.zeros(p, 2).sum() + x / (p + 1), p + 1), int),
        (lambda x, p: x * p[0], lambda v: [v]),
        (lambda x, p: x + p, float),
    ):
        held(f, [(rows[2], kind(p)) for p in (first, 3, 2, 1 - first, first)], 1, dynamic=True)


def test_ints_that_python_needs():
    held(lambda x, n: [x + i for i in range(n)][-1] + len("ab" * n), [(rows[2], n) for n in (2, 3, 4)], 3)
    held(lambda x, n: (x, {n: 1}, f"{n}"), [(rows[2], n) for n in (2, 3, 4)], 0)


def test_floats_are_compared():
    held(lambda x, r: x + 1 if r > 0.5 else x - 1, [(rows[2], r) for r in (0.1, 0.2, 0.7, 0.3, 0.9)], 3)


def test_a_counter_of_a_closure():
    count = 0

    def f(x):
        nonlocal count
        count += 1
        return x + count

    backend = EagerAndRecordGraphs()
    compiled = tocha.compile(f, backend=backend)
    assert [compiled(tocha.zeros(1)).item() for _ in range(5)] == [1, 2, 3, 4, 5] and count == 5
    assert backend.frame_count == 2


def test_strides_change():
    held(lambda x: x[:, -1:] * 2, [(rows[n][:, :1].t(),) for n in (2, 3, 4)], 2)
    held(lambda x: x * 2, [(tocha.ones(1, n)[:, -1:],) for n in (4, 5, 6, 7)], 2)


def test_parameters_and_modules_are_constant():
    layers = [tocha.nn.Linear(4, n) for n in (2, 3, 4)]
    compiled = tocha.compile(lambda layer, x: layer(x), backend="eager", fullgraph=True)
    for layer in layers:
        assert tocha.equal(compiled(layer, rows[2]), layer(rows[2]))


def test_elements_as_numbers():
    def f(x, n):
        k = n.item()
        tocha._check(k >= 0)
        tocha._check(k <= x.shape[0])
        return x.narrow(0, 0, k).sum() + k

    held(f, [(rows[6], tocha.tensor(2)), (rows[6], tocha.tensor(4))], 1)
    compiled = tocha.compile(f, backend="eager", fullgraph=True)
    compiled(rows[6], tocha.tensor(2))
    with pytest.raises(RuntimeError):
        compiled(rows[6], tocha.tensor(9))


def test_sizes_that_depend_on_elements():
    held(lambda x: x[x > 0].sum() * 2, [(tocha.tensor([1.0, -1.0, 2.0]),), (tocha.tensor([-1.0, -1.0, 3.0]),)], 1)
    with _dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        backend = EagerAndRecordGraphs()
        f = tocha.compile(lambda x: tocha.nonzero(x > 0).squeeze(1) + 1, backend=backend)
        assert f(tocha.tensor([1.0, -1.0, 2.0])).tolist() == [1, 3]
        assert f(tocha.tensor([-1.0, -1.0, 2.0])).tolist() == [3] and backend.frame_count == 1


def test_an_error_names_sizes_not_symbols():
    def f(a, b):
        try:
            return a @ b
        except RuntimeError as e:
            return str(e)

    calls = [(rows[2], tocha.ones(4, 3)), (rows[2], tocha.ones(5, 3)), (rows[2], tocha.ones(6, 3))]
    held(f, calls, 1)
    compiled = tocha.compile(lambda a, b: (a + 1) @ b, backend="eager", dynamic=True)
    with pytest.raises(RuntimeError, match=r"2x4 and 5x3"):
        compiled(*calls[1])


def test_facts_do_not_hold_on_to_inputs():
    x, y = tocha.ones(3), tocha.zeros(3)
    tocha.compile(lambda x: x + 1, backend="eager")(x)
    tocha.utils.swap_tensors(x, y)
    assert x.tolist() == [0.0] * 3


def test_division_by_a_symbol_that_is_zero():
    def f(x, a, b):
        c = a * 2 - b
        return x + (a + 1) // (c - c + b)

    compiled = tocha.compile(f, backend="eager")
    for a, b in ((5, 3), (6, 4), (9, 5)):
        assert compiled(tocha.ones(1), a, b).tolist() == f(tocha.ones(1), a, b).tolist()
    with pytest.raises(ZeroDivisionError, match="division or modulo by zero"):
        compiled(tocha.ones(1), 7, 0)

    def caught(x, a, b):
        try:
            return x + a // b
        except ZeroDivisionError:
            return x - 1

    compiled = tocha.compile(caught, backend="eager")
    for a, b in ((5, 3), (6, 4), (7, 0), (8, 2)):
        assert compiled(tocha.ones(1), a, b).tolist() == caught(tocha.ones(1), a, b).tolist()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("function", [lambda x: x * 2, lambda x: x if x.grad is None else x + x.grad])
def test_inputs_that_have_gradients(function, dynamic):
    compiled = tocha.compile(function, backend="aot_eager", dynamic=dynamic)
    for n in (3, 3, 5, 4):
        x = tocha.randn(n, 4, requires_grad=True)
        (x * 3).sum().backward()
        tocha.testing.assert_close(compiled(x), function(x))
    x.grad = tocha.randn(4, 4).t()
    tocha.testing.assert_close(compiled(x), function(x))
    assert x.grad.stride() == (1, 4)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_gradients_of_results_whose_dims_lie_in_another_order(backend):
    def f(x):
        normed = tocha.nn.functional.layer_norm(x, (4,))  # 4 is the last size: it is known late
        return x.sin().transpose(1, 2), x.cos().permute(2, 0, 1).reshape(x.shape[2], -1) * 2, normed

    compiled = tocha.compile(f, backend=backend, dynamic=True)
    for n, m in ((2, 3), (4, 5)):
        x, y = (tocha.arange(4.0 * n * m).reshape(n, m, 4).requires_grad_() for _ in range(2))
        weights = tocha.arange(4.0 * n * m)
        for inputs, function in ((x, f), (y, compiled)):
            sum((t * weights.view(t.shape)).sum() for t in function(inputs)).backward()
        tocha.testing.assert_close(x.grad, y.grad)


def test_a_size_that_turns_out_to_be_a_number():
    def f(a, b):
        logits, labels = a @ b.T, tocha.arange(int(a.shape[0]))
        entropy = tocha.nn.functional.cross_entropy
        return (entropy(logits, labels) + entropy(logits.T, labels)) / 2

    a, b = tocha.arange(24.0).reshape(4, 6).sin(), tocha.arange(24.0).reshape(4, 6).cos()
    x, y = a.clone().requires_grad_(), a.clone().requires_grad_()
    f(x, b).backward()
    tocha.compile(f, dynamic=True)(y, b).backward()
    tocha.testing.assert_close(x.grad, y.grad)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_places_that_are_not_zero_lie_column_by_column(backend):
    def f(x, chosen):
        row, column = tocha.where(chosen)
        return tocha.zeros_like(x).index_add(0, column, x[column] * row[:, None]), tocha.nonzero(chosen)

    x, chosen = tocha.arange(12.0).reshape(4, 3), tocha.tensor([[1, 0, 1, 1], [0, 1, 0, 1]])
    y, z = x.clone().requires_grad_(), x.clone().requires_grad_()
    with _dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        got, places = tocha.compile(f, backend=backend, fullgraph=True)(z, chosen)
    expected, same = f(y, chosen)
    assert tocha.equal(got, expected) and tocha.equal(places, same) and places.stride() == same.stride() == (1, 5)
    got.square().sum().backward()
    expected.square().sum().backward()
    assert tocha.equal(y.grad, z.grad)


def test_the_length_of_a_tensor_is_a_symbol():
    held(lambda x: tocha.arange(len(x)) + len(x), [(rows[n],) for n in (2, 3, 5)], 1, dynamic=True)


def test_numbers_made_of_tensors():
    n, x = tocha.tensor(3), tocha.tensor(2.5)
    held(lambda t, n: t * float(n) + int(n), [(rows[2], n), (rows[2], n + 1)], 1)
    held(lambda t, x: t * math.sqrt(x) + math.floor(x), [(rows[2], x)], 1)
    held(lambda t: (t.tolist()[1][2], t[0, 1].tolist()), [(rows[2],)], 1)


VIEWS = {
    "reshape": lambda x: x.reshape(-1, 2),
    "unflatten": lambda x: x.unflatten(0, (-1, 1)),
    "flatten": lambda x: x.flatten(1),
    "half": lambda x: x[: x.shape[0] // 2],
    "expand": lambda x: x.expand(3, *x.shape),
    "chunk": lambda x: x.chunk(2, 0)[-1],
    "view of a view": lambda x: x.transpose(0, 1)[1:].unsqueeze(0),
    "views of a result": lambda x: ((y := x * 2), y.view(-1), y[x.shape[1] :])[2],
    "as_strided": lambda x: x.as_strided((x.shape[0], 2), (x.shape[1], 1)),
}


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", VIEWS)
def test_views_of_arguments_of_changing_sizes(name, backend):
    f = VIEWS[name]
    compiled = tocha.compile(f, backend=backend, dynamic=True)
    for n, m in ((4, 3), (6, 5), (2, 2), (5, 3)):
        x, y = (tocha.arange(2.0 * n * m).reshape(n, m, 2).requires_grad_() for _ in range(2))
        expected, got = f(x), compiled(y)
        assert tocha.equal(expected, got) and expected.stride() == got.stride()
        expected.square().sum().backward()
        got.square().sum().backward()
        assert tocha.equal(x.grad, y.grad)
    x = tocha.zeros(4, 6, 2)
    assert name == "views of a result" or compiled(x).data_ptr() - x.data_ptr() == f(x).data_ptr() - x.data_ptr()


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_view_whose_size_the_graph_found(backend):
    def f(x, n):
        k = n.item()
        tocha._check(k >= 0)
        tocha._check(k <= x.shape[0])
        return x[:k], tocha.nonzero(x).t()

    compiled = tocha.compile(f, backend=backend, fullgraph=True)
    for k in (2, 3, 5):
        x = tocha.arange(6.0) % k
        assert all(tocha.equal(a, b) for a, b in zip(f(x, tocha.tensor(k)), compiled(x, tocha.tensor(k)), strict=True))


def test_the_sign_of_a_pad_is_not_asked():
    """Which of several lists is the longest changes from call to call."""

    def f(xs):
        longest = max(x.shape[0] for x in xs)
        return tocha.stack([tocha.nn.functional.pad(x, (0, longest - x.shape[0])) for x in xs])

    counter = CompileCounter()
    compiled = tocha.compile(f, backend=counter, fullgraph=True)
    for sizes in ((2, 4), (3, 5), (7, 6), (5, 5)):
        xs = [tocha.arange(float(n)) for n in sizes]
        assert tocha.equal(compiled(xs), f(xs))
    assert counter.frame_count == 2


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize(
    "f, numbers",
    [
        (lambda x, n: x * ((n * 1103515245 + 12345) % 2**31), [1, 2, 10**9, 10**13, 7]),
        (lambda x, n: x * (n**20 % 97), [2, 3, 5, 50]),
        (lambda x, n: x * ((1 << n) % 97), [2, 3, 31, 61, 63, 100, -1, 5]),
        (lambda x, n: x + (n >> 1) + (5 >> abs(n)), [2, 3, -7]),
        (lambda x, n: x * 2**n, [2, 3, -2, 5]),
        (lambda x, n: x * n**-1, [2, 4, 0, 5]),
        (lambda x, v: x * abs(v**0.5), [2.0, 3.0, -4.0, 5.0]),
        (lambda x, n: x + (n * n * n > 10**30), [3, 4, 10**12]),
        (lambda x, n: (x, n * 2**62, n + 2**63 - 1), [3, 4, -3]),
    ],
)
def test_numbers_are_pythons(backend, f, numbers):
    """Graphs compute with 64 bits and raise nothing: numbers that need more are constants."""
    compiled, x = tocha.compile(f, backend=backend), tocha.ones(1)

    def outcome(function, n):
        try:
            return function(x, n)
        except (ValueError, ZeroDivisionError) as error:
            return type(error), str(error)

    assert [outcome(compiled, n) for n in numbers] == [outcome(f, n) for n in numbers]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_numbers_that_are_assigned(backend):
    def f(x, index, value):
        x = x.clone()
        x[index] = value
        return x

    compiled = tocha.compile(f, backend=backend, dynamic=True)
    x = tocha.arange(6.0).view(2, 3)
    for index in (tocha.tensor([True, False]), [0, 1], 0, x > 3):
        for value in (9, 7, 2.5):
            assert compiled(x, index, value).tolist() == f(x, index, value).tolist()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize(
    "name", ["sum", "softmax", "argmax", "flip", "std", "logsumexp", "cumsum", "unsqueeze", "amax"]
)
def test_dims_that_change(backend, name):
    """A dim decides what is computed: it is a constant of each graph."""

    def f(x, dim):
        return getattr(x, name)(dim)

    compiled = tocha.compile(f, backend=backend)
    x = tocha.arange(6.0).view(2, 3)
    for dim in (1, 0, -1, -2):
        assert compiled(x, dim).allclose(f(x, dim))


@pytest.mark.parametrize("name", ["exponential_", "normal_", "uniform_", "cauchy_"])
def test_parameters_of_random_numbers_that_change(name):
    def f(x, a):
        return getattr(x.clone(), name)(*([a] if name == "exponential_" else [-a, a]))

    compiled = tocha.compile(f, dynamic=True, fullgraph=True)
    for a in (3, 4, 0.5, 0.75):
        found = []
        for call in (compiled, f):
            tocha.manual_seed(0)
            found.append(call(tocha.ones(5), a))
        assert found[0].allclose(found[1])


def test_floats_that_change_may_become_infinite():
    def f(x, a):
        b = a * 1e300
        return x + 1, b == math.inf, math.isinf(b), math.isnan(b - b), math.isfinite(b), math.isinf(x.size(0))

    compiled = tocha.compile(f, backend="eager", fullgraph=True, dynamic=True)
    for a in (2.5, 3.5, 1e20, -1e20):
        assert compiled(tocha.ones(2), a)[1:] == f(tocha.ones(2), a)[1:]


def test_inputs_that_are_dynamic_by_name():
    counter = CompileCounter()
    with tocha.compiler.config.patch(dynamic_sources=r"L['x'], L\['n.*'\]"):
        scaled = tocha.compile(lambda x, number: x * number, backend=counter, dynamic=False)
        for n in (2, 3, 4):
            assert tocha.equal(scaled(tocha.ones(n), n), tocha.ones(n) * n)
    assert counter.frame_count == 1
    tocha._dynamo.reset()
    with tocha.compiler.config.patch(unbacked_sources="L['x']"):
        doubled = tocha.compile(lambda x: x + x, backend=counter)
        for n in (0, 1, 2):
            assert tocha.equal(doubled(tocha.ones(n)), tocha.ones(n) * 2)
    assert counter.frame_count == 2


def test_a_marked_dim_of_which_one_size_is_left():
    def f(x):
        if x.shape[0] > 3:
            return x.cos()
        return x * 2 if x.shape[0] < 3 else x.sin()

    x = tocha.ones(3, 2)
    tocha._dynamo.mark_dynamic(x, 0)
    with pytest.raises(ConstraintViolationError, match="the program makes it 3"):
        tocha.compile(f, backend="eager")(x)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_tensors_of_tensors_have_the_dtype_that_theirs_promote_to(backend):
    def f(x):
        small, large = x.half().sum(), x.double()[0]
        five = tocha.tensor([[5]], dtype=tocha.int32)
        return (
            tocha.tensor([large, 2.0]), tocha.tensor([small]), tocha.tensor([small, 3]), tocha.tensor([[small], [large]]),
            tocha.tensor([five, five]), tocha.tensor([five, 2.5]), tocha.tensor([large, 1j]), tocha.tensor([x.sum() > 0, True]),
        )  # fmt: skip

    x = tocha.ones(2)
    found, expected = tocha.compile(f, backend=backend)(x), f(x)
    assert [t.dtype for t in found] == [t.dtype for t in expected]
    assert [t.tolist() for t in found] == [t.tolist() for t in expected]


def test_pools_to_a_size_that_changes_are_captured():
    counter = CompileCounter()
    x = tocha.randn(2, 3, 8, 9)

    def pools(x, n):
        return F.adaptive_avg_pool2d(x, n), F.adaptive_max_pool2d(x, n), F.lp_pool2d(x, 2.0, n)

    compiled = tocha.compile(pools, backend=counter, dynamic=True, fullgraph=True)
    for n in (3, 4, 5):
        for got, want in zip(compiled(x, n), pools(x, n), strict=True):
            assert tocha.equal(got, want)
    assert counter.frame_count == 1


def is_long(x):
    return x + 1 if x.shape[0] > 3 else x - 1


def are_alike(x, y):
    return x.sum() if x.shape[0] == y.shape[0] else y.sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_is_known_of_sizes_that_are_marked_as_unbacked(backend):
    x = tocha.ones(5)
    _dynamo.mark_unbacked(x, 0, min=4, max=10)
    f = tocha.compile(is_long, backend=backend, fullgraph=True)
    for given in (x, tocha.ones(7), tocha.ones(2), tocha.ones(12)):
        assert same(f(given), is_long(given))
    x, y = tocha.ones(5), tocha.ones(5)
    for t in (x, y):
        _dynamo.mark_unbacked(t, 0, shape_id="batch")
    f = tocha.compile(are_alike, backend=backend, fullgraph=True)
    for given in ((x, y), (tocha.ones(6), tocha.ones(6)), (tocha.ones(6), tocha.ones(7))):
        assert same(f(*given), are_alike(*given))


@pytest.mark.parametrize(
    ("marks", "function", "words"),
    [
        (({"min": 6},), is_long, "it is 5, which is not in"),
        (({"shape_id": "a"}, {"shape_id": "a"}), are_alike, "it is 6, and not 5 like others of 'a'"),
        (({"strict": True},), lambda x: (tocha._check(x.shape[0] == 5), x + 1)[1], "the program makes it 5"),
    ],
)
def test_sizes_that_are_not_what_they_were_marked_as(marks, function, words):
    given = [tocha.ones(5 + i) for i in range(len(marks))]
    for t, mark in zip(given, marks):
        _dynamo.mark_unbacked(t, 0, **mark)
    with pytest.raises(ConstraintViolationError, match=words):
        tocha.compile(function, backend="eager", fullgraph=True)(*given)
