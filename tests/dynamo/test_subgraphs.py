"""Transforms and control flow in captured code: functions handed over are captured as graphs of their own."""

import pytest
from comparing import same

import tocha
from tocha import func
from tocha._dynamo.testing import CompileCounterWithBackend
from tocha._higher_order_ops.associative_scan import associative_scan
from tocha._higher_order_ops.map import map as map_
from tocha._higher_order_ops.scan import scan
from tocha._higher_order_ops.while_loop import while_loop

W = tocha.tensor([[1.0, 2.0], [3.0, 4.0]])
net = tocha.nn.Linear(2, 1)


def gradient(x):
    return func.grad(lambda a: (a.sin() * W[0]).sum())(x)


def gradient_of_gradient(x):
    return func.grad(func.grad(lambda a: a**3))(x.sum())


def value_with_more(x):
    def loss(a, b):
        return (a * b).sum(), {"a": a * 2}

    return func.grad_and_value(loss, argnums=(0, 1), has_aux=True)(x, x + 1)


def rows(x):
    scale = x.sum()
    return func.vmap(lambda row: row * scale + W[1])(tocha.stack([x, x + 1]))


def other_dims(x):
    return func.vmap(lambda a, b: a @ b, in_dims=(1, None), out_dims=0)(W, x)


def per_sample(x):
    params = dict(net.named_parameters())

    def loss(p, row):
        return func.functional_call(net, p, (row,)).sum()

    return func.vmap(func.grad(loss), in_dims=(None, 0))(params, tocha.stack([x, x * 2]))


def jacobians(x):
    return func.jacrev(lambda a: a * a)(x), func.jacfwd(lambda a: a.sin())(x), func.hessian(lambda a: (a**3).sum())(x)


def along(x):
    return func.jvp(lambda a: a.exp(), (x,), (tocha.ones(2),))


def branches(x):
    y = x * 2
    return tocha.cond(x.sum() > 0, lambda a: a + y, lambda a: a - W[0], (x,))


def branch_of_a_bool(x):
    return tocha.cond(x.shape[0] > 1, lambda a: a + 1, lambda a: a - 1, (x,))


def loop(x):
    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (tocha.tensor(0), x))


def counted_loop(x):
    return while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a * 2 + i), (x.shape[0], x))


def loop_that_counts_for_later(x):
    carried = {"n": 0, "x": x, "steps": [2]}

    def body(c):
        return {"n": c["n"] + 1, "x": c["x"] + W[1] * c["n"], "steps": [c["steps"][0] * 2]}

    out = while_loop(lambda c: c["x"].sum() < 40, body, (carried,))[0]
    return out["x"] * out["n"], out["n"], out["steps"]


def mapped(x):
    return map_(lambda row, b: row * b, W, x)


def scanned(x):
    return scan(lambda carry, row: (carry + row, carry * row), x, W)


def products(x):
    return associative_scan(lambda a, b: a * b, W, 0, combine_mode="generic")


def pulled_back_in_rows(x):
    _, pull = func.vjp(lambda a: a.sin() * 2, x)
    return func.vmap(lambda row: pull(row)[0])(W)


TRANSFORMS = [
    gradient, gradient_of_gradient, value_with_more, rows, other_dims, per_sample, jacobians, along, pulled_back_in_rows,
]  # fmt: skip
CONTROL = [branches, branch_of_a_bool, loop, counted_loop, loop_that_counts_for_later, mapped, scanned, products]


@pytest.mark.parametrize("program", TRANSFORMS, ids=lambda p: p.__name__)
def test_transforms_run_uncaptured_where_a_backend_traces(program):
    compiled = tocha.compile(program, backend="aot_eager")
    x = tocha.tensor([1.0, 2.0])
    assert same(program(x), compiled(x))


@pytest.mark.parametrize(
    ("program", "backend"),
    [(p, "eager") for p in TRANSFORMS] + [(p, b) for p in CONTROL for b in ("eager", "aot_eager")],
    ids=lambda p: getattr(p, "__name__", p),
)
def test_in_one_graph(program, backend):
    counter = CompileCounterWithBackend(backend)
    compiled = tocha.compile(program, backend=counter, fullgraph=True)
    for x in (tocha.tensor([1.0, 2.0]), tocha.tensor([-1.0, -2.0])):
        assert same(program(x), compiled(x))
    assert counter.frame_count == 1


def test_changes_of_objects_in_such_functions_are_not_captured():
    def f(x):
        seen = []

        def loss(a):
            seen.append(1)
            return a.sum()

        return func.grad(loss)(x), len(seen)

    assert same(tocha.compile(f, backend="eager")(tocha.ones(2)), f(tocha.ones(2)))


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_vmap_over_nothing(backend, dynamic):
    """There is no slice to tell what the function is given."""

    def f(x):
        return func.vmap(lambda a: a.unsqueeze(0) @ a.unsqueeze(1))(x), func.vmap(
            func.grad(lambda a: a.sin().sum()), -1
        )(x)

    compiled = tocha.compile(f, backend=backend, dynamic=dynamic, fullgraph=backend == "eager")
    for shape in ((0, 3), (2, 3), (3, 0), (0, 0)):
        got, want = compiled(tocha.ones(shape)), f(tocha.ones(shape))
        assert same(want, got) and [g.shape for g in got] == [w.shape for w in want]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_numbers_that_loops_carry(backend):
    def f(x, i):
        i, y = while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2 + i), (i, x))
        return y * i, i

    counter = CompileCounterWithBackend(backend)
    compiled = tocha.compile(f, backend=counter, fullgraph=True)
    for i in (0, 1, 2, 3, 5):
        got, want = compiled(tocha.ones(2), i), f(tocha.ones(2), i)
        assert same(want, got) and type(got[1]) is int
    assert counter.frame_count <= 3  # 0 and 1 are constants
    counter = CompileCounterWithBackend(backend)
    compiled = tocha.compile(lambda x: f(x, x.shape[0] - 3), backend=counter, fullgraph=True, dynamic=True)
    for n in (2, 3, 4, 7):
        assert same(f(tocha.ones(n), n - 3), compiled(tocha.ones(n)))
    assert counter.frame_count == 1


def test_floats_are_not_carried():
    def f(x):
        return while_loop(lambda a, x: x.sum() < 20, lambda a, x: (a * 2, x * a), (2.0, x))

    assert same(f(tocha.ones(2)), tocha.compile(f, backend="eager")(tocha.ones(2)))
