"""save and load: what comes back, from where, and to where."""

from __future__ import annotations

import collections
import io
import os
import pickle
import struct
import zipfile
from pathlib import Path

import hostile
import numpy as np
import pytest
from checkpoints import FORMATS, again, loaded, saved

import tocha
from tocha import serialization

ALL_DTYPES = sorted({v for v in vars(tocha).values() if isinstance(v, tocha.dtype)}, key=str)


def same_bytes(a, b) -> bool:
    """Equal to the bit, whatever the dtype."""
    views = [bytes(t.contiguous().untyped_storage()) for t in (a, b)]
    return a.dtype == b.dtype and a.shape == b.shape and views[0] == views[1]


# -- round trips -------------------------------------------------------------------------------------


@pytest.mark.parametrize("zipped", FORMATS.values(), ids=FORMATS.keys())
@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_every_dtype(dtype, zipped):
    t = tocha.tensor([0, 1, 3, 2]).to(dtype)
    result = again(t, zipped=zipped)
    assert same_bytes(t, result)
    assert result.stride() == (1,) and result.untyped_storage().nbytes() == 4 * dtype.itemsize


@pytest.mark.parametrize("zipped", FORMATS.values(), ids=FORMATS.keys())
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("weights_only", [True, False])
def test_containers_and_values(protocol, zipped, weights_only):
    obj = {
        "numbers": [0, -1, 255, 256, 65535, 65536, -(2**31), 2**31, 2**70, -(2**2100), 1.5, -0.0, float("inf"), 1j],
        "texts": ["", "a", "é\u20ac\U0001f600", "x" * 300, "x" * 70000, "\ud800"],
        "bytes": [b"", b"a\xff", b"x" * 300, bytearray(b""), bytearray(b"a\xff")],
        "none": None, "bools": (True, False), 7: "int key", (1, ("a", 2)): "tuple key", None: 0,
        "sets": [set(), {1, "a"}, frozenset(), frozenset({2})],
        "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), ((((1,),),),)],
        "ordered": collections.OrderedDict(b=1, a=2), "counter": collections.Counter("aab"),
        "tocha": [tocha.float32, tocha.Size([2, 3]), tocha.device("cpu"), tocha.channels_last, tocha.strided],
    }  # fmt: skip
    result = again(obj, protocol, zipped, weights_only=weights_only)
    assert result == obj
    assert list(result) == list(obj)
    assert [type(v) for v in result["bytes"]] == [type(v) for v in obj["bytes"]]
    assert type(result["ordered"]) is collections.OrderedDict and list(result["ordered"]) == ["b", "a"]
    assert type(result["counter"]) is collections.Counter
    assert isinstance(result["tocha"][1], tocha.Size)


def test_views_keep_sharing_and_strides():
    base = tocha.arange(24.0)
    x = base.view(2, 3, 4)
    obj = [x, x.transpose(0, 2), x[1, :, ::2], x.expand(5, 2, 3, 4), base[3:3], base.as_strided((3, 3), (1, 1), 2)]
    for result in (again(obj), again(obj, zipped=False)):
        for a, b in zip(obj, result):
            assert same_bytes(a, b)
            assert a.stride() == b.stride() and a.storage_offset() == b.storage_offset()
        assert len({t.untyped_storage().data_ptr() for t in result}) == 1
        result[0][1, 0, 0] = 99.0
        assert result[1][0, 0, 1] == 99.0 and result[2][0, 0] == 99.0
    assert len(saved(x[0, 0])) > 24 * 4  # a view brings its whole storage


def test_shared_objects_stay_one():
    t = tocha.ones(2)
    inner = [t]
    result = again({"a": inner, "b": inner, "c": t})
    assert result["a"] is result["b"] and result["c"] is result["a"][0]


def test_cycles():
    ring = [1]
    ring.append({"self": ring})
    result = again(ring)
    assert result[1]["self"] is result


def test_empty_scalar_and_channels_last():
    image = tocha.randn(2, 3, 4, 5).contiguous(memory_format=tocha.channels_last)
    obj = [tocha.empty(0), tocha.empty(3, 0, 2), tocha.tensor(2.5), tocha.tensor(True), image]
    result = again(obj)
    assert [t.shape for t in result] == [t.shape for t in obj]
    assert result[2].item() == 2.5 and result[3].item() is True
    assert result[4].is_contiguous(memory_format=tocha.channels_last) and same_bytes(image, result[4])


def test_meta_tensors_have_no_bytes():
    t = tocha.empty(1000, 1000, device="meta", dtype=tocha.float16).t()
    data = saved({"m": t, "g": tocha.empty(2, device="meta", requires_grad=True)})
    result = loaded(data)
    assert len(data) < 3000 and result["m"].is_meta and result["g"].requires_grad
    assert (
        result["m"].shape == (1000, 1000) and result["m"].stride() == (1, 1000) and result["m"].dtype == tocha.float16
    )


def test_conjugated_and_negated_views():
    x = tocha.tensor([1 + 2j, 3 - 1j])
    for zipped in (True, False):
        a, conjugated = again([x, x.conj()], zipped=zipped)
        assert conjugated.is_conj() and conjugated.data_ptr() == a.data_ptr()
        assert conjugated.tolist() == [1 - 2j, 3 + 1j]
        negated = again(x.conj().imag, zipped=zipped)
        assert negated.is_neg() and negated.tolist() == [-2.0, 1.0]


def test_gradients_and_parameters():
    leaf = tocha.ones(2, requires_grad=True)
    p = tocha.nn.Parameter(tocha.ones(3), requires_grad=False)
    p.tag = {"kind": "embedding"}
    result = again([leaf, leaf * 2, tocha.nn.Parameter(tocha.zeros(2)), p])
    assert [t.requires_grad for t in result] == [True, True, True, False]
    assert all(t.is_leaf for t in result)
    assert type(result[2]) is tocha.nn.Parameter and type(result[3]) is tocha.nn.Parameter
    assert result[3].tag == {"kind": "embedding"}


class Tagged(tocha.Tensor):
    """A subclass, for files to name."""


class OwnReduce(tocha.Tensor):
    def __reduce_ex__(self, protocol):
        return _own, (self.tolist(),)


def _own(values):
    return tocha.tensor(values).mul(2).as_subclass(OwnReduce)


def test_subclasses_and_attributes():
    plain = tocha.ones(2)
    plain.note = "hello"
    tagged = tocha.zeros(3).as_subclass(Tagged)
    tagged.level = 3
    assert again(plain).note == "hello"
    with pytest.raises(pickle.UnpicklingError, match=r"Tagged"):
        again(tagged)
    with serialization.safe_globals([Tagged]):
        result = again(tagged)
    assert type(result) is Tagged and result.level == 3 and result.tolist() == [0, 0, 0]
    assert type(again(tagged, weights_only=False)) is Tagged


def test_a_subclass_may_reduce_itself():
    result = again(tocha.ones(2).as_subclass(OwnReduce), weights_only=False)
    assert type(result) is OwnReduce and result.tolist() == [2, 2]


def test_state_dict_keeps_its_metadata():
    state = collections.OrderedDict(weight=tocha.ones(2, 2), bias=tocha.zeros(2))
    state._metadata = collections.OrderedDict({"": {"version": 1}})
    result = again(state)
    assert list(result) == ["weight", "bias"] and result._metadata == state._metadata
    assert type(result._metadata) is collections.OrderedDict


def test_storages():
    t = tocha.arange(4, dtype=tocha.int16)
    typed, tensor = again([t.storage(), t])
    assert typed.tolist() == [0, 1, 2, 3] and typed.dtype == tocha.int16
    assert typed.data_ptr() == tensor.data_ptr()
    untyped = again(t.untyped_storage())
    assert isinstance(untyped, tocha.UntypedStorage) and bytes(untyped) == t.numpy().tobytes()


def test_one_memory_as_two_dtypes_is_refused():
    t = tocha.ones(4)
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        saved([t, t.view(tocha.int32)])
    t = tocha.ones(4, dtype=tocha.uint8)
    a, b = again([t, t.view(tocha.uint16)])
    assert a.data_ptr() == b.data_ptr() and b.tolist() == [257, 257]


def test_same_object_same_bytes():
    def make():
        return {"x": tocha.arange(5.0), "y": [tocha.nn.Parameter(tocha.ones(2)), 1, "z"]}

    assert saved(make()) == saved(make())
    assert saved(make(), _use_new_zipfile_serialization=False) == saved(make(), _use_new_zipfile_serialization=False)


def test_records_are_aligned_and_whole():
    data = saved([tocha.ones(n, dtype=tocha.uint8) for n in (1, 63, 64, 65, 1000)])
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        assert z.testzip() is None
        names = [i.filename for i in z.infolist()]
        for info in z.infolist():
            lengths = struct.unpack("<HH", data[info.header_offset + 26 : info.header_offset + 30])
            assert (info.header_offset + 30 + sum(lengths)) % 64 == 0
    assert names[:4] == [
        "archive/data.pkl",
        "archive/.format_version",
        "archive/.storage_alignment",
        "archive/byteorder",
    ]
    assert names[4:9] == [f"archive/data/{i}" for i in range(5)]
    assert names[9:] == ["archive/version", "archive/.data/serialization_id"]


# -- files -------------------------------------------------------------------------------------------


class Fspath:
    def __init__(self, path):
        self._path = path

    def __fspath__(self):
        return str(self._path)


@pytest.mark.parametrize("kind", [str, Path, Fspath])
def test_paths(tmp_path, kind):
    f = kind(tmp_path / "model.v1.pt")
    tocha.save([tocha.ones(2)], f)
    assert tocha.load(f)[0].tolist() == [1, 1]
    assert tocha.load(f, mmap=True)[0].tolist() == [1, 1]
    assert zipfile.ZipFile(os.fspath(f)).namelist()[0] == "model.v1/data.pkl"


@pytest.mark.parametrize("name", ["é.pt", ".pt", "x" * 250, "line\nbreak.pt", "odd\udcff.pt"])
def test_names_of_files(tmp_path, name):
    tocha.save(tocha.ones(1), tmp_path / name)
    assert tocha.load(tmp_path / name, mmap=True).item() == 1
    assert os.listdir(tmp_path) == [name]


def test_open_files(tmp_path):
    with open(tmp_path / "a.pt", "wb") as f:
        tocha.save({"a": tocha.ones(3)}, f)
    with open(tmp_path / "a.pt", "rb") as f:
        assert tocha.load(f)["a"].tolist() == [1, 1, 1]
        f.seek(0)
        assert tocha.load(f)["a"].tolist() == [1, 1, 1]


class OnlyRead:
    """A file without readinto."""

    def __init__(self, data):
        self._file = io.BytesIO(data)
        self.read, self.seek, self.tell = self._file.read, self._file.seek, self._file.tell


class OnlyWrite:
    def __init__(self):
        self.parts = []

    def write(self, data):
        self.parts.append(bytes(data))
        return len(data)

    def flush(self):
        pass


class Sips(io.BytesIO):
    """Takes a little at a time, as files without a buffer may."""

    def write(self, data):
        return super().write(bytes(data[:1000]))


def test_the_least_a_file_must_do():
    data = saved(tocha.arange(100.0))
    assert tocha.load(OnlyRead(data)).tolist() == list(range(100))
    sink = OnlyWrite()
    tocha.save(tocha.arange(3.0), sink)
    assert loaded(b"".join(sink.parts)).tolist() == [0, 1, 2]
    sips = Sips()
    tocha.save(tocha.arange(1000.0), sips)
    assert loaded(sips.getvalue()).tolist() == list(range(1000))


def test_files_that_cannot_serve(tmp_path):
    with pytest.raises(AttributeError, match="seekable"):
        tocha.load(3)
    with pytest.raises(AttributeError, match="write"):
        tocha.save(1, None)
    tocha.save([], tmp_path / "a.pt")
    with open(tmp_path / "a.pt", encoding="latin1") as f, pytest.raises(TypeError, match="mode 'rb'"):
        tocha.load(f)
    with pytest.raises(FileNotFoundError):
        tocha.load(tmp_path / "none.pt")
    with pytest.raises(IsADirectoryError):
        tocha.save([], tmp_path)


def test_older_files_follow_one_another():
    buffer = io.BytesIO()
    for i in range(3):
        tocha.save(tocha.full((2,), i), buffer, _use_new_zipfile_serialization=False)
    buffer.seek(0)
    assert [tocha.load(buffer).tolist() for _ in range(3)] == [[0, 0], [1, 1], [2, 2]]
    with pytest.raises(EOFError, match="rewound"):
        tocha.load(buffer)


def test_arguments_of_save():
    with pytest.raises(ValueError, match="from 2 to 5"):
        saved(1, pickle_protocol=1)
    with pytest.raises(ValueError, match="from 2 to 5"):
        saved(1, pickle_protocol=6)
    assert again(1, protocol=-1) == 1
    assert saved(1, pickle_module=pickle) == saved(1)
    with pytest.raises(ValueError, match="pickle_module"):
        saved(1, pickle_module=io)
    assert b"byteorder" not in saved(1, _disable_byteorder_record=True)


# -- mmap --------------------------------------------------------------------------------------------


def test_mapped_files(tmp_path):
    path = tmp_path / "big.pt"
    tocha.save({"x": tocha.arange(1000.0), "e": tocha.empty(0), "t": tocha.arange(6).view(2, 3).t()}, path)
    before = path.read_bytes()
    result = tocha.load(path, mmap=True)
    assert result["x"].tolist() == list(range(1000)) and result["t"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert result["e"].shape == (0,)
    result["x"].add_(1)
    assert result["x"][0] == 1 and path.read_bytes() == before
    assert tocha.load(path, mmap=True)["x"][0] == 0
    kept = result["x"][5:7]
    path.unlink()
    del result
    assert kept.tolist() == [6, 7]


def test_mapped_files_can_be_saved_over(tmp_path):
    path = tmp_path / "a.pt"
    tocha.save(tocha.arange(5000.0), path)
    t = tocha.load(path, mmap=True)
    tocha.save(t + 1, path)
    assert t.sum() == 4999 * 2500 and tocha.load(path)[0] == 1


def test_mapping_reads_only_what_is_touched(tmp_path):
    """A record that is never looked at is not checked either: nothing read it."""
    path = tmp_path / "a.pt"
    tocha.save(tocha.full((1000,), 7.0), path)
    data = bytearray(path.read_bytes())
    at = data.find(struct.pack("<f", 7.0) * 8)
    data[at] ^= 1
    path.write_bytes(data)
    assert tocha.load(path, mmap=True)[1] == 7
    with pytest.raises(RuntimeError, match="checksum"):
        tocha.load(path)


def test_records_that_cannot_be_mapped_are_read(tmp_path):
    path = tmp_path / "a.pt"
    for pad in range(5):
        path.write_bytes(
            hostile.archive(
                [("a/" + "x" * pad, b""), ("a/data.pkl", hostile.GOOD), ("a/data/0", struct.pack("<4f", 1, 2, 3, 4))]
            )
        )
        assert tocha.load(path, mmap=True).tolist() == [1, 2, 3, 4]


def test_mapping_needs_a_path_and_an_archive(tmp_path):
    with pytest.raises(ValueError, match="file path"):
        tocha.load(io.BytesIO(saved(1)), mmap=True)
    tocha.save(1, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap can only"):
        tocha.load(tmp_path / "old.pt", mmap=True)


# -- where storages go ---------------------------------------------------------------------------------


@pytest.mark.parametrize("zipped", FORMATS.values(), ids=FORMATS.keys())
def test_map_location(zipped):
    data = saved([tocha.ones(2), tocha.zeros(3)], _use_new_zipfile_serialization=zipped)
    for where in (
        "cpu",
        tocha.device("cpu"),
        {"cpu": "cpu"},
        {"cuda:1": "cpu"},
        lambda s, where: s,
        lambda s, where: None,
    ):
        assert [t.tolist() for t in loaded(data, map_location=where)] == [[1, 1], [0, 0, 0]]
    for where in (
        "meta",
        tocha.device("meta"),
        {"cpu": "meta"},
        lambda s, where: tocha.UntypedStorage(s.nbytes(), device="meta"),
    ):
        assert [(t.is_meta, t.shape) for t in loaded(data, map_location=where)] == [(True, (2,)), (True, (3,))]
    asked = []
    loaded(data, map_location=lambda s, where: asked.append((s.nbytes(), where)))
    assert asked == [(8, "cpu"), (12, "cpu")]


def test_a_storage_copied_by_map_location_is_filled():
    for zipped in (True, False):
        assert again(tocha.arange(3.0), zipped=zipped, map_location=lambda s, where: s.clone()).tolist() == [0, 1, 2]


def test_map_location_refusals():
    data = saved(tocha.ones(2))
    with pytest.raises(TypeError, match="should be a device"):
        loaded(data, map_location=3)
    with pytest.raises(TypeError, match="must return a storage"):
        loaded(data, map_location=lambda s, where: 3)
    with pytest.raises(RuntimeError, match="of 4 bytes for one of 8"):
        loaded(data, map_location=lambda s, where: tocha.UntypedStorage(4))
    with pytest.raises(ZeroDivisionError):
        loaded(data, map_location=lambda s, where: 1 / 0)
    on_cuda = hostile.checkpoint(hostile.P2 + hostile.tensor(on=hostile.storage(location="cuda:0")) + b".")
    if not getattr(tocha, "cuda", None):
        with pytest.raises(RuntimeError, match=r"map_location=tocha.device\('cpu'\)"):
            loaded(on_cuda)
    assert loaded(on_cuda, map_location="cpu").tolist() == [1, 2, 3, 4]
    assert loaded(on_cuda, map_location={"cuda:0": "cpu"}).tolist() == [1, 2, 3, 4]


def test_register_package(monkeypatch):
    from tocha.serialization import locations

    monkeypatch.setattr(locations, "_packages", list(locations._packages))
    seen = []

    def restore(storage, location):
        seen.append(location)
        return storage.clone() if location == "attic" else None

    serialization.register_package(5, lambda s: "attic" if s.nbytes() == 12 else None, restore)
    data = saved([tocha.ones(3), tocha.ones(2)])
    assert b"attic" in data
    assert [t.tolist() for t in loaded(data)] == [[1, 1, 1], [1, 1]] and seen == ["attic", "cpu"]
    seen.clear()
    serialization.register_package(30, lambda s: "never", restore)
    assert serialization.location_tag(tocha.ones(2).untyped_storage()) == "cpu"
    locations._packages[:] = [p for p in locations._packages if p[0] != 5]
    with pytest.raises(RuntimeError, match="nowhere"):
        serialization.default_restore_location(tocha.ones(2).untyped_storage(), "nowhere")


def test_skip_data(tmp_path):
    path = tmp_path / "a.pt"
    with serialization.skip_data():
        tocha.save(tocha.ones(1000), path)
    assert tocha.load(path).tolist() == [0] * 1000
    tocha.save(tocha.ones(1000), path)
    with serialization.skip_data():
        assert tocha.load(path).shape == (1000,)
    data = bytearray(path.read_bytes())
    data[data.find(struct.pack("<f", 1.0) * 8)] ^= 1
    with serialization.skip_data():
        assert loaded(bytes(data)).shape == (1000,)
    with pytest.raises(RuntimeError, match="checksum"):
        loaded(bytes(data))


def test_byte_order_of_other_machines():
    floats, shorts = struct.pack(">4f", 1, 2, 3, 4), struct.pack(">8H", *range(8))
    as_floats = hostile.P2 + hostile.tensor() + b"."
    assert loaded(hostile.checkpoint(as_floats, b"big", floats)).tolist() == [1, 2, 3, 4]
    kind = hostile.storage(kind="torch.storage.UntypedStorage", count=16)
    arguments = (kind, 0, (8,), (1,), False, None, hostile.named("torch.uint16"))
    as_shorts = hostile.call("torch._utils._rebuild_tensor_v3", *arguments)
    twice = hostile.P2 + hostile.value([as_shorts, as_shorts]) + b"."
    assert [t.tolist() for t in loaded(hostile.checkpoint(twice, b"big", shorts))] == [list(range(8))] * 2
    raw = loaded(hostile.checkpoint(hostile.P2 + kind + b".", b"big", shorts))
    assert bytes(raw) == shorts
    complex_ = hostile.tensor(on=hostile.storage(kind="torch.ComplexFloatStorage", count=2), size=(2,))
    assert loaded(hostile.checkpoint(hostile.P2 + complex_ + b".", b"big", floats)).tolist() == [1 + 2j, 3 + 4j]
    with pytest.raises(RuntimeError, match="byte order"):
        loaded(hostile.checkpoint(as_floats, b"both"))


def test_files_without_byte_order_or_checksums():
    assert loaded(saved(tocha.ones(2), _disable_byteorder_record=True)).tolist() == [1, 1]
    data = bytearray(saved(tocha.ones(2)))
    at = data.find(b"PK\x01\x02")
    while at >= 0:
        data[at + 16 : at + 20] = bytes(4)
        at = data.find(b"PK\x01\x02", at + 4)
    assert loaded(bytes(data)).tolist() == [1, 1]


# -- sizes ------------------------------------------------------------------------------------------


def test_many_records():
    """More than the 16 bits of the directory's first form can count."""
    from tocha.serialization.archive import Reader, Writer

    buffer = io.BytesIO()
    writer = Writer(buffer, "a")
    for i in range(70_000):
        writer.write(str(i), b"x")
    writer.close()
    assert Reader(buffer).read("69999") == b"x"


def test_large_numbers_of_small_tensors():
    obj = {f"layer.{i}.weight": tocha.full((3,), i) for i in range(500)}
    result = again(obj)
    assert all(result[k].tolist() == v.tolist() for k, v in obj.items())


def test_values_against_numpy():
    array = np.random.default_rng(0).standard_normal((7, 5))
    assert np.array_equal(again(tocha.from_numpy(array)).numpy(), array)
