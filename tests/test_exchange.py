"""Memory shared with NumPy, buffers and DLPack consumers: same bytes, right lifetimes, clear refusals."""

import array
import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import tocha

NUMPY_DTYPES = [
    "bool",
    "uint8",
    "int8",
    "uint16",
    "int16",
    "uint32",
    "int32",
    "uint64",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
OTHER_DTYPES = [
    "bfloat16", "complex32", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
]  # fmt: skip
ALL_DTYPES = NUMPY_DTYPES + OTHER_DTYPES


def address(array):
    return array.__array_interface__["data"][0]


# ---- From NumPy


@pytest.mark.parametrize("name", NUMPY_DTYPES)
def test_numpy_round_trip(name):
    a = np.arange(6).reshape(2, 3).astype(name)
    x = tocha.from_numpy(a)
    assert x.dtype is getattr(tocha, name)
    assert x.shape == (2, 3)
    assert x.data_ptr() == address(a)
    assert x.tolist() == a.tolist()
    b = x.numpy()
    assert b.dtype == a.dtype
    assert address(b) == address(a)
    assert b.flags.writeable
    assert b.flags.c_contiguous


@pytest.mark.parametrize(
    "a, strides",
    [
        (np.zeros((3, 4), order="F"), (1, 3)),
        (np.zeros((4, 6))[::2, 1::2], (12, 2)),
        (np.zeros((2, 3, 4)).transpose(2, 0, 1), (1, 12, 4)),
        (np.zeros(()), ()),
    ],
)
def test_numpy_strides(a, strides):
    x = tocha.from_numpy(a)
    assert x.stride() == strides
    assert x.numpy().strides == a.strides
    assert x.storage_offset() == 0


def test_numpy_empty():
    assert tocha.from_numpy(np.zeros((0, 3))).shape == (0, 3)
    assert tocha.zeros(0, 3).numpy().shape == (0, 3)


def test_writes_are_seen_on_both_sides():
    a = np.zeros(3)
    x = tocha.from_numpy(a)
    x[1] = 5
    assert a.tolist() == [0, 5, 0]
    a[2] = 7
    assert x.tolist() == [0, 5, 7]
    b = x[1:].numpy()
    b[:] = 1
    assert a.tolist() == [0, 1, 1]


def test_storage_of_an_array_is_not_resizable():
    x = tocha.from_numpy(np.arange(8.0)[::2])
    assert x.untyped_storage().nbytes() == 56
    assert not x.untyped_storage().resizable()
    with pytest.raises(RuntimeError):
        x.resize_(100)


@pytest.mark.parametrize("a", [[1], None, 3.5, np.float32(3)])
def test_from_numpy_wants_an_array(a):
    with pytest.raises(TypeError, match=r"expected np\.ndarray"):
        tocha.from_numpy(a)


@pytest.mark.parametrize(
    "a",
    [
        np.array(["a"]),
        np.array([None]),
        np.array([1], dtype="M8[s]"),
        np.array([1], dtype=np.longdouble),
        np.zeros(3, dtype=[("a", "u1")]),
    ],
)
def test_from_numpy_wants_numbers(a):
    with pytest.raises(TypeError, match="supported types"):
        tocha.from_numpy(a)


@pytest.mark.parametrize(
    "a",
    [
        np.arange(3)[::-1],
        np.zeros((1, 3))[::-1],
        np.arange(3, dtype=np.dtype("f4").newbyteorder()),
        np.zeros(3, dtype=[("a", "u1"), ("b", "f4")])["b"],
    ],
)
def test_from_numpy_wants_plain_memory(a):
    with pytest.raises(ValueError):
        tocha.from_numpy(a)


def test_subclasses_of_ndarray():
    assert tocha.from_numpy(np.ma.array([1, 2])).tolist() == [1, 2]


# ---- To NumPy


def test_numpy_of_views():
    x = tocha.arange(6.0).reshape(2, 3)
    assert x.t().numpy().strides == (4, 12)
    assert x[1:].numpy().tolist() == [[3.0, 4.0, 5.0]]
    assert tocha.tensor(3.0).numpy().shape == ()
    assert tocha.arange(3).expand(2, 3).numpy().tolist() == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("name", OTHER_DTYPES)
def test_numpy_lacks_some_dtypes(name):
    with pytest.raises(TypeError, match="unsupported ScalarType"):
        tocha.zeros(2, dtype=getattr(tocha, name)).numpy()


def test_numpy_refusals():
    x = tocha.zeros(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        x.numpy()
    with pytest.raises(TypeError, match="meta"):
        tocha.zeros(2, device="meta").numpy()
    z = tocha.tensor([1 + 2j])
    with pytest.raises(RuntimeError, match="conjugate bit"):
        z.conj().numpy()
    with pytest.raises(RuntimeError, match="negative bit"):
        z.conj().imag.numpy()
    with pytest.raises(TypeError):
        tocha.zeros(2).numpy(True)


def test_numpy_force():
    x = tocha.ones(2, requires_grad=True)
    assert x.numpy(force=True).tolist() == [1.0, 1.0]
    assert address(x.numpy(force=True)) == x.data_ptr()
    z = tocha.tensor([1 + 2j])
    assert z.conj().numpy(force=True).tolist() == [1 - 2j]
    assert z.conj().imag.numpy(force=True).tolist() == [-2.0]


def test_array_protocol():
    x = tocha.arange(3.0)
    assert address(np.asarray(x)) == x.data_ptr()
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert address(np.array(x)) != x.data_ptr()
    assert x.__array__(np.int32).tolist() == [0, 1, 2]
    assert np.asarray(tocha.tensor([True, False])).dtype == np.bool_


def test_array_keeps_the_memory():
    a = tocha.full((1000,), 7).numpy()
    gc.collect()
    others = [tocha.zeros(1000, dtype=tocha.int64) for _ in range(10)]
    assert (a[5:] == 7).all()
    assert len(others) == 10


def test_tensor_keeps_the_array():
    class Array(np.ndarray):
        pass

    a = np.arange(3.0).view(Array)
    gone = weakref.ref(a)
    x = tocha.from_numpy(a)
    del a
    gc.collect()
    assert gone() is not None
    y = x[1:]
    del x
    assert y.tolist() == [1.0, 2.0]
    del y
    gc.collect()
    assert gone() is None


def test_resize_is_refused_while_an_array_looks():
    x = tocha.zeros(4)
    a = x.numpy()
    with pytest.raises(RuntimeError):
        x.resize_(100)
    assert a.tolist() == [0.0] * 4


# ---- Buffers


def test_frombuffer():
    b = bytearray(np.arange(4, dtype=np.float32).tobytes())
    assert tocha.frombuffer(b, dtype=tocha.float32).tolist() == [0, 1, 2, 3]
    assert tocha.frombuffer(b, dtype=tocha.float32, count=1, offset=8).tolist() == [2]
    assert tocha.frombuffer(b, dtype=tocha.float32, offset=12).tolist() == [3]
    assert tocha.frombuffer(b, dtype=tocha.bfloat16).shape == (8,)
    assert tocha.frombuffer(b, dtype=tocha.float32, count=-2).shape == (4,)
    tocha.frombuffer(b, dtype=tocha.uint8)[0] = 1
    assert b[0] == 1
    assert tocha.frombuffer(array.array("i", [1, 2]), dtype=tocha.int32).tolist() == [1, 2]
    assert tocha.frombuffer(b, dtype=tocha.float32, requires_grad=True).requires_grad


@pytest.mark.parametrize(
    "options", [{"count": 3}, {"count": 0}, {"offset": 2}, {"offset": 8}, {"offset": 9}, {"offset": -1}]
)
def test_frombuffer_bounds(options):
    with pytest.raises(ValueError):
        tocha.frombuffer(bytearray(8), dtype=tocha.float32, **options)


def test_frombuffer_refusals():
    with pytest.raises(ValueError):
        tocha.frombuffer(bytearray(), dtype=tocha.float32)
    with pytest.raises(ValueError):
        tocha.frombuffer([1], dtype=tocha.float32)
    with pytest.raises(RuntimeError):
        tocha.frombuffer(np.arange(6.0)[::2], dtype=tocha.float64)
    with pytest.raises(TypeError):
        tocha.frombuffer(bytearray(8))


# ---- DLPack


@pytest.mark.parametrize("name", ALL_DTYPES)
def test_dlpack_round_trip(name):
    x = tocha.ones(2, 3).to(getattr(tocha, name))
    y = tocha.from_dlpack(x)
    assert y is not x
    assert y.dtype is x.dtype
    assert y.data_ptr() == x.data_ptr()
    assert y.shape == x.shape


@pytest.mark.parametrize("name", NUMPY_DTYPES)
def test_dlpack_with_numpy(name):
    a = np.ones((2, 3), dtype=name)
    x = tocha.from_dlpack(a)
    assert x.data_ptr() == address(a)
    assert x.dtype is getattr(tocha, name)
    b = np.from_dlpack(x)
    assert b.dtype == a.dtype
    assert address(b) == address(a)


def test_dlpack_layout():
    x = tocha.arange(6.0).reshape(2, 3)
    assert tocha.from_dlpack(x.t()).stride() == (1, 3)
    assert tocha.from_dlpack(x[1:]).tolist() == [[3.0, 4.0, 5.0]]
    assert tocha.from_dlpack(x[1:]).storage_offset() == 0
    assert tocha.from_dlpack(tocha.tensor(3)).item() == 3
    assert tocha.from_dlpack(tocha.zeros(0, 3)).shape == (0, 3)


def test_dlpack_capsules():
    x = tocha.arange(3.0)
    assert '"dltensor"' in repr(x.__dlpack__())
    assert '"dltensor"' in repr(x.__dlpack__(max_version=(0, 8)))
    capsule = x.__dlpack__(max_version=(1, 0))
    assert '"dltensor_versioned"' in repr(capsule)
    assert tocha.from_dlpack(capsule).data_ptr() == x.data_ptr()
    assert '"used_dltensor_versioned"' in repr(capsule)
    with pytest.raises(RuntimeError):
        tocha.from_dlpack(capsule)


def test_dlpack_copy():
    x = tocha.arange(3.0)
    assert tocha.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    assert tocha.from_dlpack(x, copy=True).tolist() == x.tolist()
    assert tocha.from_dlpack(x, copy=False).data_ptr() == x.data_ptr()
    assert tocha.from_dlpack(x, device="cpu").data_ptr() == x.data_ptr()


def test_dlpack_device():
    x = tocha.zeros(2)
    assert x.__dlpack_device__() == (1, 0)
    assert '"dltensor"' in repr(x.__dlpack__(dl_device=(1, 0)))
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(99, 0))
    with pytest.raises(ValueError):
        x.__dlpack__(dl_device=(2, 0), copy=False)
    with pytest.raises(BufferError):
        tocha.zeros(2, device="meta").__dlpack__()
    with pytest.raises(ValueError):
        tocha.zeros(2, device="meta").__dlpack_device__()


def test_dlpack_refusals():
    x = tocha.zeros(2, requires_grad=True)
    with pytest.raises(BufferError):
        x.__dlpack__()
    with pytest.raises(BufferError):
        tocha.tensor([1 + 2j]).conj().__dlpack__()
    with pytest.raises(TypeError):
        tocha.zeros(2).__dlpack__(stream="a")
    with pytest.raises(AssertionError):
        tocha.zeros(2).__dlpack__(stream=1)
    with pytest.raises(RuntimeError):
        tocha.from_dlpack(5)


def test_dlpack_of_old_producers():
    class Old:
        def __init__(self, x):
            self.x = x

        def __dlpack__(self, stream=None):
            return self.x.__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    x = tocha.arange(3.0)
    assert tocha.from_dlpack(Old(x)).data_ptr() == x.data_ptr()


def test_dlpack_lifetimes():
    a = np.from_dlpack(tocha.full((1000,), 7))
    gc.collect()
    others = [tocha.zeros(1000, dtype=tocha.int64) for _ in range(10)]
    assert (a == 7).all()
    assert len(others) == 10
    held = [tocha.from_dlpack(tocha.zeros(5)) for _ in range(10)]
    other = threading.Thread(target=held.clear)
    other.start()
    other.join()
    assert not held


# ---- Counting


def fails(call):
    try:
        call()
    except Exception:
        return
    raise AssertionError("no error")


@pytest.mark.parametrize(
    "call",
    [
        lambda a, x: tocha.from_numpy(a),
        lambda a, x: x.numpy(),
        lambda a, x: np.asarray(x),
        lambda a, x: tocha.from_dlpack(a),
        lambda a, x: np.from_dlpack(x),
        lambda a, x: x.__dlpack__(),
        lambda a, x: x.__dlpack__(max_version=(1, 0), copy=True),
        lambda a, x: tocha.frombuffer(a, dtype=tocha.float64),
        lambda a, x: x.untyped_storage()[1:],
        lambda a, x: x.shape[:1] + x.shape,
        lambda a, x: fails(lambda: tocha.from_numpy(a[::-1])),
        lambda a, x: fails(lambda: tocha.Size([1, "a"])),
        lambda a, x: fails(lambda: tocha.from_numpy(np.array([None]))),
    ],
)
def test_nothing_leaks(call):
    a, x = np.arange(6.0), tocha.arange(6.0)
    for _ in range(20):
        call(a, x)
    growth = []
    for _ in range(3):  # other threads allocate too
        gc.collect()
        references, blocks = (sys.getrefcount(a), sys.getrefcount(x)), sys.getallocatedblocks()
        for _ in range(500):
            call(a, x)
        gc.collect()
        assert (sys.getrefcount(a), sys.getrefcount(x)) == references
        growth.append(sys.getallocatedblocks() - blocks)
    assert min(growth) < 100
