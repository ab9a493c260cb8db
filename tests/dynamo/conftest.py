"""A compiled function is held against itself uncompiled; graphs are counted."""

import copy

import pytest
from comparing import same

import tocha
from tocha import _dynamo
from tocha._dynamo.testing import CompileCounter


@pytest.fixture(autouse=True)
def fresh():
    _dynamo.reset()
    yield
    _dynamo.reset()


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
