"""dtype, device, layout, memory_format, Size, Generator, storages: what they print, accept, refuse and pickle to."""

import copy
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import tocha

NAME = tocha.__name__

DTYPES = {  # name: (itemsize, floating, complex, signed, short name)
    "bool": (1, False, False, False, "b8"),
    "uint8": (1, False, False, False, "u8"),
    "int8": (1, False, False, True, "i8"),
    "int16": (2, False, False, True, "i16"),
    "int32": (4, False, False, True, "i32"),
    "int64": (8, False, False, True, "i64"),
    "uint16": (2, False, False, False, "u16"),
    "uint32": (4, False, False, False, "u32"),
    "uint64": (8, False, False, False, "u64"),
    "float16": (2, True, False, True, "f16"),
    "bfloat16": (2, True, False, True, "bf16"),
    "float32": (4, True, False, True, "f32"),
    "float64": (8, True, False, True, "f64"),
    "complex64": (8, False, True, True, "c64"),
    "complex128": (16, False, True, True, "c128"),
    "float8_e4m3fn": (1, True, False, True, "f8e4m3fn"),
    "float8_e5m2": (1, True, False, True, "f8e5m2"),
    "complex32": (4, False, True, True, "c32"),
    "float8_e4m3fnuz": (1, True, False, True, "f8e4m3fnuz"),
    "float8_e5m2fnuz": (1, True, False, True, "f8e5m2fnuz"),
    "float8_e8m0fnu": (1, True, False, False, "f8e8m0fnu"),
}


def same_object(o):
    assert pickle.loads(pickle.dumps(o)) is o
    assert copy.copy(o) is o
    assert copy.deepcopy(o) is o


class Index:
    def __index__(self):
        return 7


# ---- dtype


@pytest.mark.parametrize("name", DTYPES)
def test_dtype_facts(name):
    d = getattr(tocha, name)
    assert (d.itemsize, d.is_floating_point, d.is_complex, d.is_signed, d.abbr) == DTYPES[name]
    assert repr(d) == str(d) == f"{NAME}.{name}"
    assert isinstance(d, tocha.dtype)
    assert {d: 1}[d] == 1
    same_object(d)


def test_dtype_aliases():
    aliases = dict(
        half="float16",
        float="float32",
        double="float64",
        short="int16",
        int="int32",
        long="int64",
        cfloat="complex64",
        cdouble="complex128",
        chalf="complex32",
    )
    for alias, name in aliases.items():
        assert getattr(tocha, alias) is getattr(tocha, name)


def test_dtype_real_and_complex():
    assert tocha.complex64.to_real() is tocha.float32
    assert tocha.complex128.to_real() is tocha.float64
    assert tocha.int64.to_real() is tocha.int64
    assert tocha.float32.to_complex() is tocha.complex64
    assert tocha.bfloat16.to_complex() is tocha.complex64
    assert tocha.float16.to_complex() is tocha.complex32
    assert tocha.complex32.to_real() is tocha.float16
    assert tocha.float64.to_complex() is tocha.complex128
    assert tocha.complex64.to_complex() is tocha.complex64
    for d in (tocha.bool, tocha.int64, tocha.float8_e5m2):
        with pytest.raises(RuntimeError):
            d.to_complex()


def test_dtype_is_closed():
    with pytest.raises(TypeError):
        tocha.dtype()
    with pytest.raises(TypeError):
        _ = tocha.float32 < tocha.float64
    with pytest.raises(AttributeError):
        tocha.float32.itemsize = 3
    assert tocha.float32 != tocha.float64


def test_python_types_as_dtypes():
    for python, d in ((float, tocha.float64), (int, tocha.int64), (bool, tocha.bool), (complex, tocha.complex128)):
        assert tocha.zeros(2, dtype=python).dtype is d
    for bad in ("float32", 3, np.float32):
        with pytest.raises(TypeError):
            tocha.zeros(2, dtype=bad)


# ---- layout and memory_format


@pytest.mark.parametrize("name", ["strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"])
def test_layouts(name):
    o = getattr(tocha, name)
    assert isinstance(o, tocha.layout)
    assert repr(o) == f"{NAME}.{name}"
    same_object(o)


@pytest.mark.parametrize("name", ["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"])
def test_memory_formats(name):
    o = getattr(tocha, name)
    assert isinstance(o, tocha.memory_format)
    assert repr(o) == f"{NAME}.{name}"
    assert copy.copy(o) is o
    assert copy.deepcopy(o) is o


# ---- device


def test_device_forms():
    cuda1 = tocha.device("cuda:1")
    assert (cuda1.type, cuda1.index) == ("cuda", 1)
    for other in (tocha.device("cuda", 1), tocha.device(type="cuda", index=1), tocha.device(cuda1)):
        assert other == cuda1
        assert hash(other) == hash(cuda1)
    assert tocha.device("cpu").index is None
    assert tocha.device("cpu", None) == tocha.device("cpu")
    assert tocha.device("cpu") != tocha.device("cpu:0")
    assert tocha.device("cpu") != "cpu"


def test_device_text():
    assert repr(tocha.device("cpu")) == "device(type='cpu')"
    assert repr(tocha.device("cuda", 1)) == "device(type='cuda', index=1)"
    assert str(tocha.device("cuda", 1)) == "cuda:1"
    assert f"{tocha.device('meta')}" == "meta"


@pytest.mark.parametrize("text", ["cpu", "cuda:1", "meta"])
def test_device_pickle(text):
    d = tocha.device(text)
    assert pickle.loads(pickle.dumps(d)) == d
    assert copy.deepcopy(d) == d


@pytest.mark.parametrize(
    "arguments",
    [
        ("foo",),
        ("foo:1",),
        ("",),
        ("cpu:",),
        ("cpu:-1",),
        ("cuda:01",),
        ("cuda:1a",),
        ("cuda:1:2",),
        ("cuda:1", 1),
        ("cpu", -1),
        (-1,),
    ],
)
def test_bad_device_strings(arguments):
    with pytest.raises(RuntimeError):
        tocha.device(*arguments)


@pytest.mark.parametrize("arguments", [(), (None,), (1.5,), ("cpu", "0"), (True,)])
def test_bad_device_types(arguments):
    with pytest.raises(TypeError):
        tocha.device(*arguments)


def test_bad_device_keywords():
    with pytest.raises(TypeError):
        tocha.device(index=1)
    with pytest.raises(TypeError):
        tocha.device(type="cpu", other=1)
    with pytest.raises(TypeError):
        tocha.device(tocha.device("cuda:1"), 2)


def test_device_as_context():
    with tocha.device("meta") as d:
        assert d == tocha.device("meta")
        assert tocha.get_default_device() == d
        assert tocha.zeros(2).device == d
        with tocha.device("cpu"):
            assert tocha.zeros(2).device.type == "cpu"
        assert tocha.zeros(2).device == d
        seen = []
        other = threading.Thread(target=lambda: seen.append(tocha.get_default_device().type))
        other.start()
        other.join()
        assert seen == ["cpu"]
    assert tocha.zeros(2).device.type == "cpu"


def test_default_device():
    tocha.set_default_device("meta")
    try:
        assert tocha.get_default_device() == tocha.device("meta")
        assert tocha.zeros(2).device.type == "meta"
    finally:
        tocha.set_default_device(None)
    assert tocha.get_default_device() == tocha.device("cpu")


# ---- Size


def test_size_is_a_tuple():
    s = tocha.Size([2, 3])
    assert s == (2, 3)
    assert hash(s) == hash((2, 3))
    assert isinstance(s, tuple)
    assert repr(s) == str(s) == f"{NAME}.Size([2, 3])"
    assert s.numel() == 6
    assert tocha.Size().numel() == 1
    assert type(pickle.loads(pickle.dumps(s))) is tocha.Size
    assert type(copy.deepcopy(s)) is tocha.Size
    a, b = s
    assert (a, b) == (2, 3)
    assert s < tocha.Size([2, 4])


def test_size_results_are_sizes():
    s = tocha.Size([2, 3])
    for result, expected in (
        (s[:1], (2,)),
        (s[::-1], (3, 2)),
        (s + (4,), (2, 3, 4)),
        ((4,) + s, (4, 2, 3)),
        (s + s, (2, 3, 2, 3)),
        (s * 2, (2, 3, 2, 3)),
        (2 * s, (2, 3, 2, 3)),
    ):
        assert type(result) is tocha.Size
        assert result == expected
    assert type(s[0]) is int
    with pytest.raises(IndexError):
        s[5]


def test_size_takes_integers():
    assert tocha.Size([True, np.int64(3), Index(), tocha.tensor(4)]) == (1, 3, 7, 4)
    assert tocha.Size(range(3)) == (0, 1, 2)
    assert tocha.Size([-1]) == (-1,)
    for bad in ([2.0], ["a"], 3, [None]):
        with pytest.raises(TypeError):
            tocha.Size(bad)
    with pytest.raises(TypeError):
        tocha.Size([2]) + ("a",)
    with pytest.raises(TypeError):
        tocha.Size([2]) + [3]


def test_shape_is_a_size():
    x = tocha.zeros(2, 3)
    assert type(x.shape) is type(x.size()) is tocha.Size
    assert x.shape[-1] == 3


# ---- numbers


def test_numpy_scalars_are_numbers():
    x = tocha.zeros(3)
    for v in (np.float16(2), np.float32(2), np.float64(2), np.int8(2), np.int64(2), np.uint8(2)):
        assert (x + v).tolist() == [2.0, 2.0, 2.0]
        assert (x + v).dtype is tocha.float32
    assert (x + np.complex128(2j)).dtype is tocha.complex64
    assert tocha.zeros(np.int64(2), Index()).shape == (2, 7)
    assert tocha.sum(x, dim=np.int64(0)).item() == 0


def test_integers_that_do_not_fit():
    x = tocha.zeros(3)
    assert x.add(2**63).tolist() == [2.0**63] * 3
    assert tocha.full((2,), 2**63, dtype=tocha.uint64).tolist() == [2**63] * 2
    for v in (2**64, -(2**63) - 1):
        with pytest.raises(OverflowError):
            x + v
        with pytest.raises(ValueError):
            tocha.narrow(x, 0, 0, v)


# ---- Generator


def test_generator_seeds():
    g = tocha.Generator()
    assert g.initial_seed() == 67280421310721
    assert g.device == tocha.device("cpu")
    assert g.manual_seed(5) is g
    assert g.initial_seed() == 5
    assert g.manual_seed(-1).initial_seed() == 2**64 - 1
    assert g.manual_seed(-(2**63)).initial_seed() == 2**63
    assert g.manual_seed(2**64 - 1).initial_seed() == 2**64 - 1
    for bad in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError):
            g.manual_seed(bad)
    for bad in (1.5, "a", True):
        with pytest.raises(RuntimeError):
            g.manual_seed(bad)
    assert g.seed() == g.initial_seed()


def test_generator_state():
    g = tocha.Generator(device="cpu").manual_seed(3)
    state = g.get_state()
    assert state.dtype is tocha.uint8
    assert state.shape == (5056,)
    first = tocha.rand(5, generator=g).tolist()
    assert tocha.rand(5, generator=g).tolist() != first
    clone = tocha.Generator()
    clone.set_state(state)
    assert clone.initial_seed() == 3
    assert tocha.rand(5, generator=clone).tolist() == first
    twin = clone.clone_state()
    assert twin is not clone
    assert tocha.rand(5, generator=twin).tolist() == tocha.rand(5, generator=clone).tolist()


def test_generator_refuses_bad_states():
    g = tocha.Generator().manual_seed(3)
    state = g.get_state()
    with pytest.raises(RuntimeError):
        g.set_state(state[:10])
    with pytest.raises(RuntimeError):
        g.set_state(tocha.zeros(5056, dtype=tocha.uint8))
    for bad in (state.float(), 5, None):
        with pytest.raises(TypeError):
            g.set_state(bad)
    assert g.get_state().tolist() == state.tolist()


def test_generator_devices():
    with pytest.raises(RuntimeError):
        tocha.Generator("meta")
    with pytest.raises(RuntimeError):
        tocha.Generator("foo")


def test_generator_pickle():
    g = tocha.Generator().manual_seed(7)
    tocha.rand(3, generator=g)
    for other in (pickle.loads(pickle.dumps(g)), copy.deepcopy(g)):
        assert other.initial_seed() == 7
        assert other.get_state().tolist() == g.get_state().tolist()


def test_default_generator():
    assert tocha.manual_seed(5) is tocha.default_generator
    first = tocha.rand(3).tolist()
    assert tocha.rand(3, generator=tocha.Generator().manual_seed(5)).tolist() == first


# ---- UntypedStorage


def test_storage_constructors():
    assert tocha.UntypedStorage().tolist() == []
    assert len(tocha.UntypedStorage(4)) == 4
    assert tocha.UntypedStorage([1, 2, 300, -1, True]).tolist() == [1, 2, 44, 255, 1]
    assert tocha.UntypedStorage(b"abc").tolist() == [97, 98, 99]
    s = tocha.UntypedStorage([1, 2])
    assert tocha.UntypedStorage(s).tolist() == [1, 2]
    assert tocha.UntypedStorage(s).data_ptr() != s.data_ptr()
    assert tocha.UntypedStorage(4, device="meta").device.type == "meta"
    for bad in (-1, 1.5, None, "abc", [1.5], ["a"]):
        with pytest.raises(RuntimeError):
            tocha.UntypedStorage(bad)


def test_storage_elements():
    s = tocha.UntypedStorage([1, 2, 3, 4])
    assert (s[0], s[-1]) == (1, 4)
    assert s[1:3].tolist() == [2, 3]
    assert s[1:3].data_ptr() == s.data_ptr() + 1
    s[1:3] = 9
    s[0] = -1
    assert list(s) == [255, 9, 9, 4]
    part = s[2:]
    part[0] = 5
    assert s[2] == 5
    for bad in (4, -5):
        with pytest.raises(IndexError):
            s[bad]
        with pytest.raises(RuntimeError):
            s[bad] = 1
    for bad in ("a", 1.5, None):
        with pytest.raises(TypeError):
            s[bad]
    with pytest.raises(RuntimeError):
        s[::2]
    for bad in (1.5, "a", [1]):
        with pytest.raises(RuntimeError):
            s[0] = bad


def test_storage_whole():
    s = tocha.UntypedStorage([1, 2, 3])
    assert s.nbytes() == s.size() == len(s) == 3
    assert s.element_size() == 1
    assert s.device == tocha.device("cpu")
    assert s.clone().tolist() == [1, 2, 3]
    assert s.clone().data_ptr() != s.data_ptr()
    assert s.fill_(7) is s
    assert s.tolist() == [7, 7, 7]
    assert s.copy_(tocha.UntypedStorage([4, 5, 6])).tolist() == [4, 5, 6]
    assert s.resize_(5) is s
    assert s.tolist()[:3] == [4, 5, 6]
    assert copy.deepcopy(s).tolist() == s.tolist()
    with pytest.raises(RuntimeError):
        s.copy_(tocha.UntypedStorage(2))
    with pytest.raises(TypeError):
        s.copy_([1])
    with pytest.raises(RuntimeError):
        s.resize_(-1)
    with pytest.raises(RuntimeError):
        s.fill_(1.5)


def test_storage_text():
    assert repr(tocha.UntypedStorage([1, 20])) == f" 1\n 20\n[{NAME}.storage.UntypedStorage(device=cpu) of size 2]"
    meta = tocha.UntypedStorage(3, device="meta")
    assert repr(meta) == f"...\n[{NAME}.storage.UntypedStorage(device=meta) of size 3]"


def test_storage_identity():
    x = tocha.arange(4.0)
    s = x.untyped_storage()
    assert s is x.untyped_storage()
    assert s is x[1:].untyped_storage()
    assert s.data_ptr() == x.data_ptr()
    del x
    assert s.nbytes() == 16


def test_storage_resize_is_seen_by_tensors():
    x = tocha.arange(4.0)
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().nbytes() == 0
    x.untyped_storage().resize_(16)
    assert x.fill_(2).tolist() == [2.0] * 4


def test_storage_from_buffer():
    make = tocha.UntypedStorage.from_buffer
    assert make(b"abcd", dtype=tocha.uint8).tolist() == [97, 98, 99, 100]
    assert make(b"abcd", "little", dtype=tocha.int16).tolist() == [97, 98, 99, 100]
    assert make(b"abcd", "big", dtype=tocha.int16).tolist() == [98, 97, 100, 99]


def test_shared_memory():
    x = tocha.arange(3.0)
    assert not x.untyped_storage().is_shared()
    s = x.untyped_storage().share_memory_()
    assert s is x.untyped_storage()
    assert s.is_shared()
    assert x.tolist() == [0.0, 1.0, 2.0]
    x[0] = 5
    assert x.tolist() == [5.0, 1.0, 2.0]


# ---- TypedStorage


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_typed_storage():
    x = tocha.arange(4.0)
    s = x.storage()
    assert s.dtype is tocha.float32
    assert (s.size(), len(s), s.nbytes(), s.element_size()) == (4, 4, 16, 4)
    assert s.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert s.data_ptr() == x.data_ptr()
    assert s.untyped() is x.untyped_storage()
    s[0] = 5
    s[1:3] = 7
    assert x.tolist() == [5.0, 7.0, 7.0, 3.0]
    assert s[3] == 3.0
    assert s.double().dtype is tocha.float64
    assert s.double().tolist() == s.tolist()
    assert s.type() == f"{NAME}.FloatStorage"
    with pytest.raises(RuntimeError):
        s[0:2]
    assert pickle.loads(pickle.dumps(s)).tolist() == s.tolist()
    assert repr(tocha.TypedStorage([1, 2], dtype=tocha.int64)) == (
        f" 1\n 2\n[{NAME}.storage.TypedStorage(dtype={NAME}.int64, device=cpu) of size 2]"
    )


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_legacy_storages():
    assert tocha.FloatStorage(3).size() == 3
    s = tocha.LongStorage([1, 2])
    assert s.dtype is tocha.int64
    assert s.tolist() == [1, 2]
    assert isinstance(s, tocha.LongStorage)
    assert isinstance(s, tocha.TypedStorage)
    assert not isinstance(s, tocha.FloatStorage)
    assert tocha.FloatStorage(wrap_storage=tocha.UntypedStorage(8)).size() == 2
    assert tocha.ByteStorage.from_buffer(b"ab").tolist() == [97, 98]


def test_data_of_a_parameter_is_a_plain_tensor():
    class Kept(tocha.Tensor):
        pass

    assert type(tocha.nn.Parameter(tocha.ones(2)).data) is tocha.Tensor
    assert type(tocha.ones(2).as_subclass(Kept).data) is Kept


def test_a_foreign_function_of_the_protocol_means_ours_of_that_name():
    def foreign(name):
        def function(x):
            return type(x).__torch_function__(function, (type(x),), (x,))

        function.__module__, function.__name__ = "torch._C._nn", name
        return function

    x = tocha.tensor([-1.0, 2.0])
    assert tocha.equal(foreign("relu")(x), tocha.relu(x))
    assert foreign("no_such_function")(x) is NotImplemented


def test_import_starts_no_threads_and_leaves_the_environment():
    program = (
        "import os; before = dict(os.environ); import tocha;"
        "print(len(os.listdir('/proc/self/task')), dict(os.environ) == before)"
    )
    for wished in ({}, {"OPENBLAS_NUM_THREADS": "3"}):
        environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"} | wished
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert done.stdout.split() == ["1", "True"], done.stderr
