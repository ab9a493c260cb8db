"""Kernels that run in turns: one after the other for each index of their first dim, if no turn touches what another one writes."""

import pytest

import tocha
from tocha._inductor.utils import run_and_get_code
from tocha.nn import functional as F


def turns_of(function, *args):
    """The function compiled does the same; its groups of kernels."""
    tocha._dynamo.reset()
    expected = function(*(a.clone() for a in args))
    given = [a.clone() for a in args]
    found, (code, *_) = run_and_get_code(tocha.compile(function, fullgraph=True), *given)
    tocha.testing.assert_close(found, expected)
    return [line.split("// ")[1] for line in code.splitlines() if line.endswith("in turns")]


@pytest.fixture
def x():
    return tocha.randn(64, 16, 1024)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_softmax_of_a_middle_dim_is_one_group(x, threads):
    before = tocha.get_num_threads()
    tocha.set_num_threads(threads)
    assert turns_of(lambda x: x.softmax(1), x) == ["kernel_0, kernel_1, kernel_2, kernel_3 in turns"]
    tocha.set_num_threads(before)


def test_its_gradient_is_a_group(x):
    y = x.softmax(1)
    assert turns_of(lambda g, y: tocha.ops.aten._softmax_backward_data(g, y, 1, tocha.float32), x, y)


@pytest.mark.parametrize("dim, grouped", [(2, True), (1, True), (0, False)])
def test_what_is_read_of_other_indices_ends_a_group(x, dim, grouped):
    (group,) = turns_of(lambda x: x.softmax(1).roll(1, dim).amax(1, keepdim=True) + x, x)
    assert ("kernel_3" in group) == grouped


def test_writes_to_inputs_keep_their_order(x):
    def moved(x):
        top = x.amax(1, keepdim=True)
        x.copy_(x.roll(1, 0) - top)
        return x * 2

    def in_place(x):
        x.sub_(x.amax(1, keepdim=True))
        return x.div_(x.exp().sum(1, keepdim=True))

    turns_of(moved, x)
    assert turns_of(in_place, x)


def test_small_and_few_are_no_groups():
    assert not turns_of(lambda x: x.softmax(1), tocha.randn(64, 4, 32))  # in a cache anyway
    assert not turns_of(lambda x: x.softmax(1), tocha.randn(4, 64, 4096))  # too few for the threads
    assert not turns_of(lambda x: x.softmax(1), tocha.randn(32, 64, 8192))  # no cache holds a turn


@pytest.mark.parametrize("shape", [(32, 24, 5, 500), (33, 16, 520), (32, 64, 500), (40, 1, 64, 512)])
def test_sizes_that_are_no_multiples_of_a_block(shape):
    turns_of(lambda x: F.normalize(x, dim=-2).softmax(-2), tocha.randn(shape))
    turns_of(lambda x: (x - x.mean(-2, keepdim=True)) / x.std(-2, keepdim=True).add(1), tocha.randn(shape))


def test_neighbouring_dims_of_results_are_lanes_together():
    x = tocha.randn(3, 9, 20, 40)
    tocha._dynamo.reset()
    found, (code, *_) = run_and_get_code(tocha.compile(lambda x: x.sum(1)), x)
    tocha.testing.assert_close(found, x.sum(1))
    assert "task % 2 * 512" in code  # of 800


def test_divisions_that_rows_would_repeat_are_stored():
    x = tocha.randn(8, 16, 40)
    tocha._dynamo.reset()
    _, (code, *_) = run_and_get_code(tocha.compile(lambda x: x * (1 / x.exp().sum(1, keepdim=True))), x)
    assert not any("/ xt" in line for line in code[code.index("void kernel_1") :].splitlines())
    _, (code, *_) = run_and_get_code(tocha.compile(lambda x: x * (1 / x.exp().sum(2, keepdim=True))), x)
    assert code.count("run(api, program") == 1  # along a row it stays the same


def test_a_turn_of_short_rows_has_many():
    def source(rows):
        tocha._dynamo.reset()
        x = tocha.randn(rows, 3)
        found, (code, *_) = run_and_get_code(tocha.compile(lambda x: x.tanh().sum(-1)), x)
        tocha.testing.assert_close(found, x.tanh().sum(-1))
        return code

    (turn,) = (line for line in source(1 << 18).splitlines() if "KernelTurn parts" in line)
    assert ", &frame0, 3}" not in turn and ", &frame1, 1}" not in turn
    assert "in turns" not in source(262147)  # a prime
