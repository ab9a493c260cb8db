"""Datasets, samplers and collating: values, random streams and errors."""

from __future__ import annotations

import collections
import types

import numpy as np
import pytest

import tocha
from tocha.utils import data
from tocha.utils.data._utils.collate import collate, default_collate_fn_map

TEN = list(range(10))


class Stream(data.IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))


class SizedStream(Stream):
    def __len__(self):
        return self.n


class Batched(data.Dataset):
    """Gives whole batches; one too short on request."""

    def __init__(self, missing=0):
        self.missing = missing

    def __len__(self):
        return 10

    def __getitem__(self, i):
        return i

    def __getitems__(self, indices):
        return [i * 10 for i in indices][self.missing :]


def seeded(seed):
    return tocha.Generator().manual_seed(seed)


# ---- Datasets.


def test_dataset_base():
    with pytest.raises(NotImplementedError, match="Subclasses of Dataset should implement __getitem__"):
        data.Dataset()[0]
    with pytest.raises(TypeError, match="abstract"):
        data.IterableDataset()


def test_tensor_dataset():
    x, y = tocha.arange(6).view(3, 2), tocha.arange(3)
    dataset = data.TensorDataset(x, y)
    assert len(dataset) == 3
    assert [t.tolist() for t in dataset[1]] == [[2, 3], 1]
    assert [t.tolist() for t in dataset[[0, 2]]] == [[[0, 1], [4, 5]], [0, 2]]
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        data.TensorDataset(x, tocha.zeros(2))


def test_stack_dataset():
    pair = data.StackDataset(TEN, Batched())
    assert pair[3] == (3, 3) and len(pair) == 10
    assert pair.__getitems__([1, 2]) == [(1, 10), (2, 20)]
    named = data.StackDataset(a=TEN, b=TEN)
    assert named[4] == {"a": 4, "b": 4}
    assert named.__getitems__([0, 9]) == [{"a": 0, "b": 0}, {"a": 9, "b": 9}]
    with pytest.raises(ValueError, match=r"Nested dataset's output size mismatch. Expected 2, got 1"):
        data.StackDataset(Batched(missing=1)).__getitems__([1, 2])
    for args, kwargs, message in [
        ((), {}, "At least one dataset should be passed"),
        ((TEN,), {"a": TEN}, "both types are given"),
        ((TEN, [1]), {}, "Size mismatch between datasets"),
        ((), {"a": TEN, "b": [1]}, "Size mismatch between datasets"),
    ]:
        with pytest.raises(ValueError, match=message):
            data.StackDataset(*args, **kwargs)


def test_concat_dataset():
    both = data.ConcatDataset([TEN, "abc"])
    assert len(both) == 13 and both.cumulative_sizes == [10, 13]
    assert [both[i] for i in (0, 9, 10, 12, -1, -13)] == [0, 9, "a", "c", "c", 0]
    with pytest.raises(ValueError, match="absolute value of index should not exceed dataset length"):
        both[-14]
    with pytest.raises(IndexError):
        both[13]
    with pytest.raises(AssertionError, match="datasets should not be an empty iterable"):
        data.ConcatDataset([])
    with pytest.raises(AssertionError, match="ConcatDataset does not support IterableDataset"):
        data.ConcatDataset([Stream(1)])
    with pytest.warns(FutureWarning, match="renamed to `cumulative_sizes`"):
        assert both.cummulative_sizes == [10, 13]
    assert isinstance(Batched() + Batched(), data.ConcatDataset)


def test_chain_dataset():
    chain = Stream(2) + Stream(3)
    assert isinstance(chain, data.ChainDataset)
    assert list(chain) == [0, 1, 0, 1, 2]
    assert len(data.ChainDataset([SizedStream(2), SizedStream(3)])) == 5
    for use in (list, len):
        with pytest.raises(AssertionError, match="ChainDataset only supports IterableDataset"):
            use(data.ChainDataset([TEN]))


def test_subset():
    subset = data.Subset(tocha.arange(10), [1, 5, 7])
    assert subset[1] == 5 and len(subset) == 3
    assert subset[[0, 2]].tolist() == [1, 7]
    assert data.Subset(Batched(), [1, 5, 7]).__getitems__([2, 0]) == [70, 10]


def test_random_split():
    parts = data.random_split(TEN, [3, 7], seeded(3))
    assert [p.indices for p in parts] == [[6, 0, 3], [7, 8, 5, 1, 9, 2, 4]]
    parts = data.random_split(TEN, [0.3, 0.3, 0.4], seeded(3))
    assert [p.indices for p in parts] == [[6, 0, 3], [7, 8, 5], [1, 9, 2, 4]]
    tocha.manual_seed(3)
    assert data.random_split(TEN, [3, 7])[0].indices == [6, 0, 3]
    assert [len(p) for p in data.random_split(range(11), [0.25] * 4)] == [3, 3, 3, 2]
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        data.random_split([1], [0.5, 0.5])
    with pytest.raises(ValueError, match="Sum of input lengths does not equal the length of the input dataset!"):
        data.random_split(TEN, [3, 3])
    with pytest.raises(ValueError, match="Fraction at index 0 is not between 0 and 1"):
        data.random_split(TEN, [-0.5, 1.5])


# ---- Samplers: the numbers are PyTorch's for these seeds.


def test_random_sampler_streams():
    assert list(data.RandomSampler(TEN, generator=seeded(5))) == [1, 4, 9, 6, 3, 5, 0, 2, 8, 7]
    assert list(data.RandomSampler(TEN, num_samples=3, generator=seeded(5))) == [1, 4, 9]
    twice = list(data.RandomSampler(TEN, num_samples=25, generator=seeded(5)))
    assert twice[10:] == [4, 2, 8, 7, 6, 1, 0, 3, 5, 9, 7, 5, 0, 4, 3]
    replaced = list(data.RandomSampler(TEN, True, 45, seeded(5)))
    assert replaced[:10] == [1, 4, 7, 5, 6, 0, 2, 3, 8, 4] and len(replaced) == 45
    assert replaced[32:36] == [5, 4, 0, 5]
    tocha.manual_seed(7)
    assert list(data.RandomSampler(TEN)) == [3, 0, 1, 9, 4, 7, 2, 5, 6, 8]
    assert tocha.rand(1).item() == pytest.approx(0.6592, abs=1e-4)  # the default generator gave one seed, no more


def test_random_sampler_errors():
    with pytest.raises(TypeError, match="replacement should be a boolean value, but got replacement=3"):
        data.RandomSampler(TEN, replacement=3)
    for bad in (-1, 0, 1.5):
        with pytest.raises(
            ValueError, match=f"num_samples should be a positive integer value, but got num_samples={bad}"
        ):
            data.RandomSampler(TEN, num_samples=bad)
    with pytest.raises(ValueError, match="num_samples=0"):
        data.RandomSampler([])


def test_subset_and_weighted_samplers():
    assert list(data.SubsetRandomSampler([5, 3, 2, 8], seeded(5))) == [8, 3, 5, 2]
    assert list(data.WeightedRandomSampler([0.1, 0.5, 0.2], 8, True, seeded(5))) == [1, 1, 1, 1, 1, 2, 1, 1]
    assert list(data.WeightedRandomSampler([0.1, 0.5, 0.2], 3, False, seeded(5))) == [1, 2, 0]
    assert len(data.WeightedRandomSampler([1.0], 7)) == 7
    for args, message in [
        (([0.1], 0), "num_samples should be a positive integer value"),
        (([0.1], True), "num_samples should be a positive integer value"),
        (([0.1], 1, 1), "replacement should be a boolean value, but got replacement=1"),
        (([[0.1]], 1), r"weights should be a 1d sequence but given weights have shape \(1, 1\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            data.WeightedRandomSampler(*args)


def test_batch_sampler():
    assert list(data.BatchSampler(TEN, 4, False)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert list(data.BatchSampler(TEN, 4, True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert len(data.BatchSampler(TEN, 4, False)) == 3 and len(data.BatchSampler(TEN, 4, True)) == 2
    for bad in (0, True, 1.5):
        with pytest.raises(
            ValueError, match=f"batch_size should be a positive integer value, but got batch_size={bad}"
        ):
            data.BatchSampler(TEN, bad, False)
    with pytest.raises(ValueError, match="drop_last should be a boolean value, but got drop_last=0"):
        data.BatchSampler(TEN, 1, 0)


@pytest.mark.parametrize(
    "replicas, rank, shuffle, drop_last, n, expected",
    [
        (2, 0, True, False, 10, [0, 5, 8, 9, 4]),
        (3, 1, True, False, 10, [7, 8, 2, 0]),
        (3, 2, False, True, 10, [2, 5, 8]),
        (3, 2, False, False, 10, [2, 5, 8, 1]),
        (7, 5, True, False, 3, [1]),
        (3, 0, True, True, 10, [0, 1, 9]),
    ],
)
def test_distributed_sampler(replicas, rank, shuffle, drop_last, n, expected):
    sampler = data.DistributedSampler(range(n), replicas, rank, shuffle, 4, drop_last)
    sampler.set_epoch(2)
    assert list(sampler) == expected and len(sampler) == len(expected)


def test_distributed_sampler_errors():
    with pytest.raises(ValueError, match=r"Invalid rank 2, rank should be in the interval \[0, 1\]"):
        data.DistributedSampler(TEN, 2, 2)
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        data.DistributedSampler(TEN)


# ---- Collating.

Point = collections.namedtuple("Point", "x y")


def test_collate_numbers():
    assert data.default_collate([0, 1]).dtype == tocha.int64
    assert data.default_collate([0.5, 1]).dtype == tocha.float64
    assert data.default_collate([True, False]).dtype == tocha.bool
    assert data.default_collate([np.float32(1), np.float32(2)]).dtype == tocha.float32
    assert data.default_collate([np.int16(3)]).dtype == tocha.int16
    assert data.default_collate(["a", b"b"]) == ["a", b"b"]


def test_collate_arrays_and_tensors():
    assert data.default_collate([np.zeros(2), np.ones(2)]).tolist() == [[0, 0], [1, 1]]
    assert data.default_collate([tocha.zeros(2), tocha.ones(2)]).tolist() == [[0, 0], [1, 1]]
    with pytest.raises(RuntimeError, match=r"equal size, but got \[2\] at entry 0 and \[3\] at entry 1"):
        data.default_collate([tocha.zeros(2), tocha.ones(3)])
    for array, name in ((np.array(["a"]), "<U1"), (np.array([None]), "object")):
        with pytest.raises(TypeError, match=f"numbers, dicts or lists; found {name}"):
            data.default_collate([array])


def test_collate_containers():
    joined = data.default_collate([Point(1, 2.0), Point(3, 4.0)])
    assert isinstance(joined, Point) and joined.x.tolist() == [1, 3]
    joined = data.default_collate([(1, "a"), (2, "b")])
    assert joined[0].tolist() == [1, 2] and joined[1] == ("a", "b") and isinstance(joined, list)
    joined = data.default_collate([{"a": 1, "b": [1, 2]}] * 2)
    assert joined["a"].tolist() == [1, 1] and joined["b"][1].tolist() == [2, 2]
    for mapping in (
        collections.OrderedDict(a=1),
        collections.defaultdict(int, a=1),
        collections.UserDict(a=1),
        types.MappingProxyType({"a": 1}),
    ):
        joined = data.default_collate([mapping])
        assert type(joined) is type(mapping) and joined["a"].tolist() == [1]
    assert type(data.default_collate([collections.deque([1, 2])])) is collections.deque
    assert data.default_collate([range(2)])[1].tolist() == [1]
    assert data.default_collate([[], []]) == [] and data.default_collate([{}]) == {}
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        data.default_collate([(1,), (2, 3)])
    for bad in (None, 1j, {1}, object()):
        with pytest.raises(TypeError, match=f"numbers, dicts or lists; found {type(bad)}"):
            data.default_collate([bad])


def test_collate_function_map(monkeypatch):
    class Mine(int):
        pass

    def tag(batch, *, collate_fn_map=None):
        return ("mine", list(batch))

    assert collate([Mine(1), 2], collate_fn_map={(int, str): tag}) == ("mine", [1, 2])
    assert collate([[1], [2]], collate_fn_map={int: tag}) == [("mine", [1, 2])]
    monkeypatch.setitem(default_collate_fn_map, Mine, tag)
    assert data.default_collate([Mine(1)]) == ("mine", [1])
    with pytest.raises(TypeError, match="found <class 'int'>"):
        collate([1])


def test_convert():
    converted = data.default_convert(
        [np.array([1]), {"a": np.float32(1)}, "s", None, (1, np.zeros(1)), Point(np.array(0), 1)]
    )
    assert converted[0].tolist() == [1] and converted[1]["a"].dtype == tocha.float32
    assert converted[2:4] == ["s", None] and isinstance(converted[4], list) and converted[4][1].tolist() == [0.0]
    assert isinstance(converted[5], Point) and converted[5].x.item() == 0
    text = np.array(["a"])
    assert data.default_convert(text) is text
