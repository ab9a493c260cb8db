"""tensor, as_tensor and Tensor(...) of whatever Python has, held against PyTorch: values, dtypes, errors and messages."""

from __future__ import annotations

import array
import collections
import decimal
import fractions
import re
import warnings

import numpy as np
import pytest
import torch

import tocha

LIBRARIES = torch, tocha


class Index:
    def __init__(self, value=3):
        self.value = value

    def __index__(self):
        return self.value


class Real:
    def __float__(self):
        return 2.5


class RealAndIndex(Index, Real):
    pass


class WholeOnly:
    def __int__(self):
        return 2


class Complex:
    def __complex__(self):
        return 2 + 1j


class Array:
    def __array__(self, dtype=None, copy=None):
        return np.arange(3.0)


class Truth:
    def __bool__(self):
        return False


class Sequence:
    def __init__(self, *items, length=None):
        self.items, self.length = items, len(items) if length is None else length

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        return self.items[i]


class LengthOnly:
    def __len__(self):
        return 2


class ItemsOnly:
    def __getitem__(self, i):
        return 1


class Raises:
    def __len__(self):
        return 2

    def __getitem__(self, i):
        raise KeyError("boom")


class RaisesLength(Raises):
    def __len__(self):
        raise KeyError("boom")


class RaisesIndex:
    def __index__(self):
        raise KeyError("boom")


class Text(int):
    def __float__(self):
        return 9.5


def nested(depth):
    value = 1.0
    for _ in range(depth):
        value = [value]
    return value


def endless():
    one, other = [], []
    one.append(other)
    other.append(one)
    return one


def emptied_while_read(method):
    """A list whose first item empties it when it is converted."""
    items = []

    def convert(self):
        items.clear()
        return 1

    items.extend([type("Emptier", (), {method: convert})(), 2.0, 3.0])
    return items


def shrinking():
    items = []

    class Row:
        def __len__(self):
            items.clear()
            return 2

        def __getitem__(self, i):
            return 1.0

    items.extend([Row(), [2.0, 1.0], [3.0, 2.0]])
    return items


def growing():
    class Growing(Sequence):
        def __len__(self):
            self.length += 1
            return self.length

        def __getitem__(self, i):
            if i >= self.length:
                raise IndexError
            return float(i)

    return Growing(length=1)


Pair = collections.namedtuple("Pair", "a b")

DATA = {
    "tensors": lambda m: [m.ones(2), m.ones(2)],
    "tensors of one": lambda m: [m.ones(1), m.ones(1)],
    "tensors of one in 2-d": lambda m: [m.ones(1, 1)],
    "empty tensors": lambda m: [m.ones(0), m.ones(0)],
    "0-d": lambda m: [m.tensor(1.0), m.tensor(2.0)],
    "0-d integers": lambda m: [m.tensor(1), m.tensor(2)],
    "0-d mixed": lambda m: [m.tensor(1), m.tensor(2.0)],
    "0-d and number": lambda m: [m.tensor(1), 2.5],
    "number and 0-d": lambda m: [2.5, m.tensor(1)],
    "0-d nested": lambda m: [[m.tensor(1.0), 2], [3, m.tensor(4.0)]],
    "0-d double": lambda m: [m.tensor(1.0, dtype=m.float64)],
    "0-d bfloat16": lambda m: [m.tensor(1.0, dtype=m.bfloat16)],
    "0-d complex": lambda m: [m.tensor(1 + 2j).conj()],
    "0-d bool": lambda m: [m.tensor(True)],
    "0-d that requires grad": lambda m: [m.tensor(1.0, requires_grad=True)],
    "0-d meta": lambda m: [m.tensor(1.0).to("meta")],
    "tensor then list": lambda m: [m.ones(2), [1.0, 2.0]],
    "list then tensor": lambda m: [[1.0, 2.0], m.ones(2)],
    "longer list then tensor": lambda m: [[1.0, 2.0, 3.0], m.ones(2)],
    "list then matrix": lambda m: [[1.0, 2.0], m.ones(2, 2)],
    "list then 0-d": lambda m: [[1.0, 2.0], m.tensor(1.0)],
    "tensor then number": lambda m: [m.ones(2), 1.0],
    "number then tensor": lambda m: [1.0, m.ones(2)],
    "one then number": lambda m: [m.ones(1), 2.0],
    "matrix": lambda m: [m.ones(2, 2)],
    "arrays": lambda m: [np.ones(2), np.ones(2)],
    "arrays that differ": lambda m: [np.ones(2), np.ones(3)],
    "0-d arrays": lambda m: [np.array(1.0), np.array(2)],
    "integer arrays and lists": lambda m: [np.ones(2, dtype=np.int32), [3, 4]],
    "arrays and tensors": lambda m: [np.ones(2), m.ones(2)],
    "arrays backwards": lambda m: [np.arange(3.0)[::-1], np.arange(3.0)],
    "array backwards": lambda m: np.arange(3.0)[::-1],
    "empty arrays": lambda m: [np.ones(0)],
    "array of objects": lambda m: np.array([1, "a"], dtype=object),
    "array of text": lambda m: np.array(["a"]),
    "array of times": lambda m: np.array(["2020-01-01"], dtype="datetime64[D]"),
    "array in another order": lambda m: np.ones(2, dtype=">f4"),
    "float32": lambda m: np.float32(1),
    "float64": lambda m: np.float64(1),
    "float32 list": lambda m: [np.float32(1), np.float32(2)],
    "float32 and int": lambda m: [np.float32(1), 1],
    "int8": lambda m: [np.int8(1)],
    "numpy bool": lambda m: [np.bool_(True)],
    "numpy complex": lambda m: [np.complex64(1j)],
    "uint64": lambda m: [np.uint64(2**64 - 1)],
    "ragged": lambda m: [[1, 2], [3]],
    "ragged, number second": lambda m: [[1, 2], 3],
    "ragged, list second": lambda m: [1, [2, 3]],
    "ragged, deeper first": lambda m: [[[1]], [2]],
    "ragged, empty first": lambda m: [[], [1]],
    "ragged, empty second": lambda m: [[1], []],
    "ragged in 3-d": lambda m: [[[1, 2], [3, 4]], [[1, 2], [3]]],
    "empty": lambda m: [],
    "empties": lambda m: [[], []],
    "tuples": lambda m: ((1, 2), (3, 4)),
    "namedtuple": lambda m: Pair(1, 2.0),
    "ranges": lambda m: [range(2), range(2)],
    "generator": lambda m: (v for v in [1]),
    "set": lambda m: {1, 2},
    "dict": lambda m: {0: 1},
    "list of dicts": lambda m: [{0: 1}],
    "deque": lambda m: collections.deque([1, 2]),
    "array.array": lambda m: array.array("i", [1, 2]),
    "memoryview": lambda m: memoryview(b"abc"),
    "bytearray": lambda m: bytearray(b"abc"),
    "bytes": lambda m: b"abc",
    "list of bytes": lambda m: [b"ab"],
    "text": lambda m: "abc",
    "list of text": lambda m: ["a"],
    "number and text": lambda m: [1, "a"],
    "None": lambda m: None,
    "list of None": lambda m: [1, None],
    "object": lambda m: [object()],
    "type": lambda m: int,
    "Size": lambda m: m.Size([1, 2]),
    "too deep": lambda m: nested(1000),
    "endless": lambda m: endless(),
    "emptied by index": lambda m: emptied_while_read("__index__"),
    "emptied by float": lambda m: emptied_while_read("__float__"),
    "shrinking": lambda m: shrinking(),
    "growing": lambda m: growing(),
    "index": lambda m: [1.5, Index()],
    "index alone": lambda m: Index(),
    "great index": lambda m: [Index(2**70)],
    "float": lambda m: [1.5, Real()],
    "float and index": lambda m: [RealAndIndex()],
    "int": lambda m: [WholeOnly()],
    "complex": lambda m: [Complex()],
    "__array__": lambda m: Array(),
    "list of __array__": lambda m: [Array()],
    "truth": lambda m: [Truth()],
    "sequence": lambda m: Sequence(1.5, 2.5),
    "sequences": lambda m: [Sequence(1, 2), Sequence(3, 4)],
    "longer than it says": lambda m: Sequence(1, 2, length=1),
    "shorter than it says": lambda m: Sequence(1, 2, length=3),
    "length only": lambda m: LengthOnly(),
    "items only": lambda m: [ItemsOnly()],
    "raises": lambda m: Raises(),
    "raises at length": lambda m: RaisesLength(),
    "raises at index": lambda m: [RaisesIndex()],
    "int that is another float": lambda m: [1.5, Text(3)],
    "fraction": lambda m: [fractions.Fraction(1, 2)],
    "decimal": lambda m: [decimal.Decimal("1.5")],
    "bools and ints": lambda m: [True, 1],
    "bools and floats": lambda m: [True, 1.5],
    "ints and complex": lambda m: [1, 1j],
}
NUMBERS = (
    -1, 255, 256, -255, -256, -129, 128, 65536, 2**31, -(2**31) - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63),
    -(2**63) - 1, 2**2000, -1.5, 1.9, 255.5, 256.0, -0.5, 70000.0, 1e10, 9.2e18, 9.3e18, -9.3e18, 1e300, float("inf"),
    float("-inf"), float("nan"), 1j, True,
)  # fmt: skip
DTYPES = (
    "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64",
    "complex64", "bool",
)  # fmt: skip


def plain(text):
    """A message without the library's name and without what differs from one to the other on purpose."""
    text = text.replace("torch", "tocha").partition(" - got")[0].partition("\n")[0]
    text = re.sub(r"\s+", " ", text)
    return re.sub(r"with sizes.*|expected (TensorOptions|tocha)\..*", "", text).strip()


def outcome(call, lib):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            r = call(lib)
    except Exception as e:
        return type(e).__name__, plain(str(e))
    return type(r).__name__, tuple(r.shape), str(r.dtype).rpartition(".")[2], r.requires_grad, repr(r.tolist())


def assert_alike(call):
    theirs, ours = (outcome(call, lib) for lib in LIBRARIES)
    assert ours == theirs


@pytest.mark.parametrize("name", DATA)
def test_tensor_of(name):
    for dtype in (None, "float32", "int64", "bool", "complex64", "uint8"):
        assert_alike(lambda m, d=dtype: m.tensor(DATA[name](m), dtype=d and getattr(m, d)))
    assert_alike(lambda m: m.as_tensor(DATA[name](m)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers(dtype):
    for number in NUMBERS:
        assert_alike(lambda m, n=number: m.tensor([1, n], dtype=getattr(m, dtype)))
    if dtype == "int64":
        for number in NUMBERS:
            assert_alike(lambda m, n=number: m.tensor([n]))
            assert_alike(lambda m, n=number: m.tensor(n))


LEGACY = {
    "nothing": lambda m, T: T(),
    "float": lambda m, T: T(1.5),
    "bool": lambda m, T: T(True),
    "None": lambda m, T: T(None),
    "complex": lambda m, T: T(1j),
    "size and float": lambda m, T: T(2, 3.5),
    "negative size": lambda m, T: T(-1),
    "list": lambda m, T: T([1, 2]),
    "tuple": lambda m, T: T((2, 3)),
    "ragged": lambda m, T: T([[1, 2], [3]]),
    "tensors": lambda m, T: T([m.ones(2), m.ones(2)]),
    "text": lambda m, T: T("abc"),
    "bytes": lambda m, T: T(b"abc"),
    "array": lambda m, T: T(np.arange(3)),
    "float64": lambda m, T: T(np.float64(2)),
    "data": lambda m, T: T(data=[1, 2]),
    "data and device": lambda m, T: T(data=[1], device="cpu"),
    "data twice": lambda m, T: T([1], data=[1]),
    "data and size": lambda m, T: T(data=[1], size=(2,)),
    "data that is a tensor": lambda m, T: T(data=m.ones(2)),
    "data that is a number": lambda m, T: T(data=3),
    "other": lambda m, T: T(other=m.ones(2)),
    "one size by name": lambda m, T: T(size=3),
    "dtype": lambda m, T: T([1], dtype=m.float32),
    "requires_grad": lambda m, T: T([1.0], requires_grad=True),
    "unknown": lambda m, T: T([1], unknown=1),
    "meta": lambda m, T: T([1], device="meta"),
    "device None": lambda m, T: T([1], device=None),
    "two lists": lambda m, T: T([1], [2]),
    "tensor": lambda m, T: T(m.ones(2)),
    "recorded tensor": lambda m, T: T(m.ones(2, requires_grad=True)),
    "storage": lambda m, T: T(m.ones(2).untyped_storage()),
    "typed storage": lambda m, T: T(m.ones(2).storage()),
    "storage by name": lambda m, T: T(storage=m.ones(2).untyped_storage()),
    "storage of integers": lambda m, T: T(m.tensor([1, 2]).storage()),
    "sequence": lambda m, T: T(Sequence(1.5, 2.5)),
    "generator": lambda m, T: T(v for v in [1]),
    "set": lambda m, T: T({1}),
    "dict": lambda m, T: T({1: 2}),
    "too great": lambda m, T: T(2**40, 2**40),
    "range": lambda m, T: T(range(3)),
}
UNINITIALIZED = {
    "size": lambda m, T: T(3),
    "sizes": lambda m, T: T(2, 3),
    "Size": lambda m, T: T(m.Size([2, 3])),
    "size by name": lambda m, T: T(size=(2, 3)),
    "device": lambda m, T: T(2, 3, device="cpu"),
    "numpy": lambda m, T: T(np.int64(2), 3),
    "0-d array": lambda m, T: T(np.array(3)),
    "tensors": lambda m, T: T(m.tensor(2), m.tensor(3)),
    "index": lambda m, T: T(Index()),
    "odd storage": lambda m, T: T(m.UntypedStorage(6)),
}


def subclass(lib):
    return type("Subclass", (lib.Tensor,), {})


KINDS = {
    "Tensor": lambda m: m.Tensor,
    "subclass": subclass,
    "new": lambda m: m.ones(1).new,
    "Float": lambda m: m.FloatTensor,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LEGACY)
def test_old_constructors(name, kind):
    assert_alike(lambda m: LEGACY[name](m, KINDS[kind](m)))


@pytest.mark.parametrize("kind", KINDS)
def test_old_constructors_without_values(kind):
    for call in UNINITIALIZED.values():
        assert_alike(lambda m, call=call: m.zeros_like(call(m, KINDS[kind](m))))


@pytest.mark.parametrize("kind", ["Tensor", "subclass"])
@pytest.mark.parametrize("dtype", ["int64", "bfloat16", "complex64", "float64"])
def test_tensor_of_another_dtype(dtype, kind):
    assert_alike(lambda m: KINDS[kind](m)(m.ones(2, dtype=getattr(m, dtype))))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_float8_of_great_numbers(dtype):
    values = [1e10, 448.0, 449.0, 464.0, 465.0, 480.0, 57344.0, 60000.0, 61440.0, float("inf"), float("nan"), 1e-3]
    values += [-v for v in values]
    assert_alike(lambda m: m.tensor(values, dtype=getattr(m, dtype)).float().nan_to_num(7.0))
    assert_alike(lambda m: m.tensor(values).to(getattr(m, dtype)).float().nan_to_num(7.0))
