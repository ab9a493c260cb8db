"""Inputs whose geometry a compiled function changes, inputs that interleave in memory, and writes that only a schema tells of."""

import pytest

import tocha
from tocha.functorch.compile import aot_function, nop

BACKENDS = ["aot_eager", "inductor"]


def transposed(x, y):
    y.t_()
    return y.view(3, 2) * 2, x + 1


def moved_and_written(x, y):
    y.t_()
    y.mul_(x.sum())
    return y.sin(), x + 1


def lengthened(x, y):
    y.unsqueeze_(0).squeeze_(0).transpose_(0, 1)
    return (x + y.t(),)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [transposed, moved_and_written, lengthened], ids=lambda f: f.__name__)
def test_gradients_go_through_changes_of_geometry(f, backend):
    weights = tocha.randn(3, 2)

    def gradients(f):
        leaves = [tocha.arange(6.0).view(2, 3).requires_grad_() for _ in range(2)]
        x, y = (leaf + 1 for leaf in leaves)
        total = sum((r * 2).sum() for r in f(x, y)) + (y * weights).sum()
        return [total.detach(), y.detach(), y.stride(), *tocha.autograd.grad(total, leaves)]

    tocha.testing.assert_close(gradients(tocha.compile(f, backend=backend, fullgraph=True)), gradients(f))


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_input_is_moved_and_others_share_memory(backend):
    def f(a, b, c):
        c.mul_(2)
        b.t_()
        return (a + c).view(-1), b.t(), b[0]

    def seen(f):
        x, b = tocha.arange(4.0), tocha.arange(6.0).view(2, 3)
        found = f(x.view(4), b, x.view(4))
        return [*found, x, b, *(t.stride() for t in (*found, b))]

    tocha.testing.assert_close(seen(tocha.compile(f, backend=backend, fullgraph=True)), seen(f))


@pytest.mark.parametrize("backend", BACKENDS)
def test_inputs_that_interleave_may_meet_in_another_call(backend):
    def f(a, b):
        a.mul_(3)
        b.mul_(2)
        return a + b

    compiled = tocha.compile(f, backend=backend, fullgraph=True)
    for offset in (23, 24, 27, 100, 23):
        x, y = tocha.arange(256.0), tocha.arange(256.0)
        given = [[t.as_strided((4, 4), (9, 1), o) for o in (0, offset)] for t in (x, y)]
        tocha.testing.assert_close(compiled(*given[0]), f(*given[1]))
        tocha.testing.assert_close(x, y)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("training", [True, False])
def test_statistics_that_a_schema_says_are_written(backend, training):
    aten = tocha.ops.aten

    def f(x, mean, var):
        found = aten._native_batch_norm_legit(x, None, None, mean, var, training, 0.5, 1e-5)
        return found[0], aten._batch_norm_with_update(x, None, None, mean, var, 0.25, 1e-5)[0], mean + 1

    x = tocha.randn(4, 3, 5)
    before, given = ([tocha.ones(3), tocha.full((3,), 2.0)] for _ in range(2))
    tocha.testing.assert_close(tocha.compile(f, backend=backend, fullgraph=True)(x, *given), f(x, *before))
    tocha.testing.assert_close(given, before)
    assert [t._version for t in given] == [t._version for t in before]


@pytest.mark.parametrize("with_history", [False, True])
def test_one_tensor_given_twice(with_history):
    def f(x, y):
        x.mul_(2)
        y.t_()
        return x + y.t(), y * 3

    def given():
        leaf = tocha.arange(4.0).view(2, 2).requires_grad_(with_history)
        return leaf, leaf + 1

    compiled = aot_function(f, nop)
    for twice in (True, False, True):
        seen = []
        for g in (f, compiled):
            (leaf, x), (_, other) = given(), given()
            y = x if twice else other
            found = g(x, y)
            total = sum(r.sum() for r in found)
            seen.append([*found, x.detach(), y.detach(), *(tocha.autograd.grad(total, [leaf]) if with_history else ())])
        tocha.testing.assert_close(seen[1], seen[0])


MOVED_BY_ADDRESS = {
    "returned": lambda x: x.as_strided_((2, 2), (1, 2), 1),
    "read": lambda x: x.as_strided_((2, 2), (1, 2), 1).add(0),
    "written before": lambda x: x.mul_(2).as_strided_((2, 2), (1, 2), 5).add(0),
    "written afterwards": lambda x: x.as_strided_((2, 2), (1, 2), 5).mul_(3),
    "where it begins": lambda x: x.as_strided_((2, 2), (1, 2)).add(0),
    "written, where it begins": lambda x: x.mul_(2).as_strided_((2, 2), (1, 2)).add(0),
    "not an input": lambda x: (x + 1).as_strided_((2, 2), (1, 2), 1).mul_(2),
}


@pytest.mark.parametrize("begins", [0, 4])
@pytest.mark.parametrize("name", MOVED_BY_ADDRESS)
def test_as_strided_in_place_moves_to_the_address_that_it_names(name, begins):
    seen = []
    call = MOVED_BY_ADDRESS[name]
    for run in (call, tocha.compile(call, backend="aot_eager")):
        memory = tocha.arange(20.0)
        x = memory[begins : begins + 9].reshape(3, 3)
        result = run(x)
        seen.append((result.tolist(), result is x, x.tolist(), x.storage_offset(), memory.tolist()))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("begins", [0, 2])
def test_views_of_an_input_whose_elements_overlap_have_the_gradients_of_those_views(begins):
    weights = tocha.arange(9.0).view(3, 3)
    for call in (lambda x: x.T, lambda x: x.view_as(x), lambda x: x[1:], lambda x: (x.T, x.sin())[0]):
        seen = []
        for run in (call, tocha.compile(call, backend="aot_eager")):
            x = tocha.arange(9.0)[begins:].as_strided((3, 3), (1, 1)).requires_grad_()
            result = run(x)
            (result * weights[: len(result)]).sum().backward()
            seen.append((result.tolist(), result._is_view(), x.grad.tolist()))
        assert seen[0] == seen[1]
