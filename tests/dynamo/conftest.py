"""A compiled function is held against itself uncompiled; graphs are counted."""

import copy

import pytest

import tocha
from tocha import _dynamo
from tocha._dynamo.testing import CompileCounter


@pytest.fixture(autouse=True)
def fresh():
    _dynamo.reset()
    yield
    _dynamo.reset()


def same(a, b):
    if isinstance(a, tocha.Tensor):
        return isinstance(b, tocha.Tensor) and a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if hasattr(a, "__dict__") and not callable(a):
        return same(vars(a), vars(b))
    return a == b


@pytest.fixture
def check():
    """check(f, *args, graphs=1): compiled twice it does what it does uncompiled, in so many graphs; returns the counter."""

    def run(f, *args, graphs=1, fullgraph=None, calls=2):
        counter = CompileCounter()
        full = graphs == 1 if fullgraph is None else fullgraph
        compiled = tocha.compile(f, backend=counter, fullgraph=full)
        for _ in range(calls):
            plain, given = copy.deepcopy(args), copy.deepcopy(args)
            expected, got = f(*plain), compiled(*given)
            assert same(expected, got), (expected, got)
            assert same(plain, given), (plain, given)
        assert counter.frame_count == graphs
        return counter

    return run
