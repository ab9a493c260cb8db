"""Data pipes: pipes as methods of pipes, and the simple ready-made ones."""

from __future__ import annotations

import pytest

import tocha
from tocha.utils.data import DataLoader
from tocha.utils.data.datapipes._decorator import functional_datapipe
from tocha.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from tocha.utils.data.datapipes.iter import IterableWrapper


def test_pipes_follow_one_another():
    pipe = IterableWrapper(range(5)).map(lambda x: x * x).filter(lambda x: x != 4).batch(2)
    assert list(pipe) == [[0, 1], [9, 16]] and list(pipe.unbatch()) == [0, 1, 9, 16]
    assert (
        len(IterableWrapper([1, 2, 3]).batch(2)) == 2 and len(IterableWrapper([1, 2, 3]).batch(2, drop_last=True)) == 1
    )
    assert list(IterableWrapper([1]).concat(IterableWrapper([2]))) == [1, 2]
    assert list(IterableWrapper([1, 2]).zip(IterableWrapper([3, 4]))) == [(1, 3), (2, 4)]


def test_columns():
    pairs = IterableWrapper([(1, 2), (3, 4)])
    assert list(pairs.map(lambda x: -x, input_col=1)) == [(1, -2), (3, -4)]
    assert list(pairs.map(lambda a, b: a + b, input_col=[0, 1], output_col=-1)) == [(1, 2, 3), (3, 4, 7)]
    with pytest.raises(ValueError, match="must be None"):
        pairs.map(abs, output_col=1)


def test_a_pipe_is_a_dataset():
    batches = list(DataLoader(IterableWrapper([1.0, 2.0, 3.0]), batch_size=2))
    assert [b.tolist() for b in batches] == [[1.0, 2.0], [3.0]]
    assert next(iter(IterableWrapper([1, 2]).batch(2).collate())).equal(tocha.tensor([1, 2]))


def test_a_pipe_becomes_a_method():
    @functional_datapipe("doubled_in_this_test")
    class Doubled(IterDataPipe):
        def __init__(self, source):
            self.source = source

        def __iter__(self):
            return (2 * x for x in self.source)

    assert list(IterableWrapper([1, 2]).doubled_in_this_test()) == [2, 4]
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        _ = IterableWrapper([1]).missing
    with pytest.raises(Exception, match="already taken"):
        functional_datapipe("doubled_in_this_test")(Doubled)
    with pytest.raises(TypeError, match="can only decorate"):
        functional_datapipe("other")(int)
    assert "doubled_in_this_test" not in MapDataPipe.functions
