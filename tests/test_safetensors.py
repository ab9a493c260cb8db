"""safetensors files: what comes back, what the bytes are, and every way in which a file can be wrong."""

from __future__ import annotations

import io
import json
import os
import random
import struct
from pathlib import Path

import pytest

import tocha
from tocha.utils import safetensors
from tocha.utils.safetensors import SafetensorError, load, load_file, safe_open, save, save_file

DTYPES = list(safetensors._DTYPES.values())
PLACE = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}


def made(header, body: bytes = bytes(16), length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def tensors() -> dict:
    return {"b": tocha.arange(6.0).view(2, 3), "a": tocha.tensor([1, 2], dtype=tocha.uint8), "é": tocha.tensor(2.5)}


def test_every_dtype_of_the_format(tmp_path):
    assert {d for d in DTYPES} == {v for v in vars(tocha).values() if isinstance(v, tocha.dtype)} - {
        tocha.complex128,
        tocha.complex32,
    }
    obj = {str(d): tocha.tensor([0, 1, 3]).to(d) for d in DTYPES}
    save_file(obj, tmp_path / "a")
    for result in (load(save(obj)), load_file(tmp_path / "a")):
        assert result.keys() == obj.keys()
        for name, t in obj.items():
            assert result[name].dtype == t.dtype and bytes(result[name].untyped_storage()) == bytes(t.untyped_storage())


def test_the_bytes():
    data = save({"b": tocha.ones(2), "a": tocha.ones(1, dtype=tocha.int64), "e": tocha.empty(0, 2)}, {"k": "v"})
    text = (
        b'{"__metadata__":{"k":"v"},"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},'
        b'"b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},"e":{"dtype":"F32","shape":[0,2],"data_offsets":[16,16]}}'
    )
    padded = text + b" " * (-len(text) % 8)
    assert data == struct.pack("<Q", len(padded)) + padded + struct.pack("<qff", 1, 1, 1)
    assert save({}) == b"\x08" + bytes(7) + b"{}      " and load(save({})) == {}


def test_shapes_come_back():
    obj = {"scalar": tocha.tensor(3.0), "empty": tocha.empty(0, 5), "deep": tocha.ones(1, 2, 1, 3, 1)}
    result = load(save(obj))
    assert {k: v.shape for k, v in result.items()} == {k: v.shape for k, v in obj.items()}
    assert result["scalar"].item() == 3


def test_what_is_saved_is_what_is_seen():
    x = tocha.tensor([1 + 2j, 3 - 1j])
    p = tocha.nn.Parameter(tocha.ones(2))
    result = load(save({"c": x.conj(), "p": p, "row": tocha.arange(6.0).view(2, 3)[1]}))
    assert result["c"].tolist() == [1 - 2j, 3 + 1j] and result["row"].tolist() == [3, 4, 5]
    assert not result["p"].requires_grad and type(result["p"]) is tocha.Tensor


def test_files_are_mapped_privately(tmp_path):
    path = tmp_path / "a.safetensors"
    save_file({"x": tocha.arange(1000.0), "y": tocha.ones(3, dtype=tocha.bool)}, path)
    before = path.read_bytes()
    result = load_file(path)
    result["x"].mul_(2)
    assert result["x"][3] == 6 and path.read_bytes() == before and load_file(path)["x"][3] == 3
    path.unlink()
    assert result["y"].tolist() == [True] * 3


def test_loaded_tensors_are_apart():
    result = load(save({"a": tocha.ones(2), "b": tocha.ones(2)}))
    result["a"].zero_()
    assert result["b"].tolist() == [1, 1] and result["a"].untyped_storage().nbytes() == 8


def test_devices(tmp_path):
    save_file(tensors(), tmp_path / "a")
    assert load_file(tmp_path / "a", device="meta")["b"].is_meta
    with safe_open(tmp_path / "a", "pt", device="meta") as f:
        assert f.get_tensor("b").is_meta and f.get_slice("b")[0].shape == (3,)


def test_safe_open(tmp_path):
    save_file(tensors(), tmp_path / "a", {"format": "pt"})
    with safe_open(tmp_path / "a", framework="pt") as f:
        assert f.keys() == ["a", "b", "é"] and f.offset_keys() == ["b", "é", "a"]
        assert f.metadata() == {"format": "pt"}
        assert f.get_tensor("b").tolist() == [[0, 1, 2], [3, 4, 5]] and list(f.get_tensors()) == f.offset_keys()
        part = f.get_slice("b")
        assert part.get_shape() == [2, 3] and part.get_dtype() == "F32"
        assert part[:, ::2].tolist() == [[0, 2], [3, 5]] and part[...].shape == (2, 3) and part[1, 1] == 4
        assert part[:, 1:].is_contiguous()
        with pytest.raises(IndexError):
            part[5]
        with pytest.raises(SafetensorError, match="does not contain tensor zz"):
            f.get_tensor("zz")
        kept = f.get_tensor("a")
    assert kept.tolist() == [1, 2]
    with pytest.raises(SafetensorError, match="is closed"):
        f.keys()
    save_file({}, tmp_path / "b")
    assert safe_open(tmp_path / "b").metadata() is None
    with pytest.raises(SafetensorError, match="framework"):
        safe_open(tmp_path / "a", "tf")
    with pytest.raises(FileNotFoundError):
        safe_open(tmp_path / "none")


@pytest.mark.parametrize("kind", [str, Path])
def test_paths(tmp_path, kind):
    save_file(tensors(), kind(tmp_path / "a"))
    assert load_file(kind(tmp_path / "a")).keys() == tensors().keys()


def test_files_of_other_writers(tmp_path):
    """Headers of any length, spaces, fields unknown to us, tensors in any order and not aligned."""
    body = struct.pack("<4f", 1, 2, 3, 4)
    for pad in range(9):
        data = made(b" " * pad + json.dumps({"a": {**PLACE, "more": 1}}).encode() + b" \n", body)
        (tmp_path / "a").write_bytes(data)
        assert load(data)["a"].tolist() == load_file(tmp_path / "a")["a"].tolist() == [1, 2, 3, 4]
    two = {"b": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}, "a": {**PLACE, "data_offsets": [1, 17]}}
    (tmp_path / "a").write_bytes(made(two, b"\x07" + body))
    assert load_file(tmp_path / "a")["a"].tolist() == [1, 2, 3, 4]


# -- refusals ------------------------------------------------------------------------------------------


def test_tensors_that_cannot_be_saved():
    x = tocha.arange(6.0).view(2, 3)
    for bad, error, match in (
        ({"x": x.t()}, ValueError, "non contiguous tensor: `x`"),
        ({"x": x, "y": x}, RuntimeError, "share memory.*'x', 'y'"),
        ({"x": x, "y": x[1]}, RuntimeError, "share memory"),
        ({"x": x, "y": x.view(tocha.int32)}, RuntimeError, "share memory"),
        ({"x": 1}, ValueError, "Key `x` is invalid"),
        ({1: x}, TypeError, "names of tensors"),
        ([x], ValueError, "Expected a dict"),
        ({"x": x.to(tocha.complex128)}, ValueError, "complex128"),
        ({"x": x.to("meta")}, ValueError, "meta"),
        ({"__metadata__": x}, ValueError, "__metadata__"),
    ):
        with pytest.raises(error, match=match):
            save(bad)
    for metadata in ({"a": 1}, {1: "a"}, "a", [("a", "b")]):
        with pytest.raises(TypeError, match="text to text"):
            save({"x": x}, metadata)
    apart = load(save({"x": x[0], "y": x[1], "none": x[:0]}))
    assert apart["y"].tolist() == [3, 4, 5] and apart["none"].shape == (0, 3)


def test_saving_is_atomic(tmp_path, monkeypatch):
    path = tmp_path / "a"
    save_file(tensors(), path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="non contiguous"):
        save_file({"x": tocha.ones(2, 3).t()}, path)

    def fail(t):
        raise OSError("No space left on device")

    monkeypatch.setattr(safetensors, "_bytes_of", fail)
    with pytest.raises(OSError, match="No space"):
        save_file({"x": tocha.ones(2)}, path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a"]
    with pytest.raises(RuntimeError, match="does not exist"):
        save_file({}, tmp_path / "no" / "a")


def text_of(place: dict) -> bytes:
    return json.dumps(place).encode()


BAD = {
    "empty": (b"", "too short"),
    "seven bytes": (b"1234567", "too short"),
    "length of 2**63": (made({"a": PLACE}, length=2**63), "no safetensors file"),
    "length of 100 MB and one": (made({"a": PLACE}, length=100_000_001), "no safetensors file"),
    "length beyond the end": (made({"a": PLACE}, length=500), "beyond the end"),
    "length too short": (made({"a": PLACE}, length=20), "no JSON"),
    "not JSON": (made(b"{hello"), "no JSON"),
    "nothing": (made(b""), "no JSON"),
    "a list": (made(b"[]", b""), "no JSON object"),
    "null": (made(b"null", b""), "no JSON object"),
    "not UTF-8": (made(b'{"\xff":1}'), "no JSON"),
    "nested 100,000 deep": (made(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "no JSON"),
    "number of 10,000 digits": (made(b'{"a":{"dtype":"F32","shape":[' + b"9" * 10_000 + b'],"data_offsets":[0,16]}}'), "no JSON"),
    "a name twice": (made(b'{"a":' + text_of(PLACE) + b',"a":' + text_of(PLACE) + b"}"), "'a' twice"),
    "a field twice": (made(b'{"a":{"dtype":"F32","dtype":"F32","shape":[4],"data_offsets":[0,16]}}'), "'dtype' twice"),
    "metadata of numbers": (made({"__metadata__": {"a": 1}, "a": PLACE}), "text to text"),
    "metadata is text": (made({"__metadata__": "x", "a": PLACE}), "text to text"),
    "no dtype": (made({"a": {"shape": [4], "data_offsets": [0, 16]}}), "must have dtype"),
    "a tensor is a list": (made({"a": [PLACE]}), "must have dtype"),
    "unknown dtype": (made({"a": {**PLACE, "dtype": "F4"}}), "F4, which tocha does not have"),
    "dtype is a list": (made({"a": {**PLACE, "dtype": ["F32"]}}), "does not have"),
    "negative size": (made({"a": {**PLACE, "shape": [-4]}}), "no list of sizes"),
    "size of 2**64": (made({"a": {**PLACE, "shape": [2**64]}}), "no list of sizes"),
    "size with a fraction": (made({"a": {**PLACE, "shape": [4.0]}}), "no list of sizes"),
    "size is a bool": (made({"a": {**PLACE, "shape": [True]}}), "no list of sizes"),
    "shape is a number": (made({"a": {**PLACE, "shape": 4}}), "no list of sizes"),
    "2**80 elements": (made({"a": {**PLACE, "shape": [2**40, 2**40]}}), "more than 2\\*\\*63-1"),
    "100,000 dimensions": (made({"a": {**PLACE, "shape": [2**62] * 100_000}}), "more than 2\\*\\*63-1"),
    "another size": (made({"a": {**PLACE, "shape": [3]}}), "does not fill"),
    "another dtype": (made({"a": {**PLACE, "dtype": "F64"}}), "does not fill"),
    "offsets swapped": (made({"a": {**PLACE, "data_offsets": [16, 0]}}), "does not fill"),
    "offsets negative": (made({"a": {**PLACE, "data_offsets": [-16, 0]}}), "no beginning and end"),
    "three offsets": (made({"a": {**PLACE, "data_offsets": [0, 16, 16]}}), "no beginning and end"),
    "offsets beyond the end": (made({"a": {**PLACE, "data_offsets": [2**40, 2**40 + 16]}}), "leaves a gap"),
    "a gap at the beginning": (made({"a": {**PLACE, "shape": [2], "data_offsets": [8, 16]}}), "leaves a gap"),
    "overlapping": (made({"a": PLACE, "b": PLACE}), "overlaps"),
    "partly overlapping": (made({"a": PLACE, "b": {**PLACE, "data_offsets": [8, 24]}}, bytes(24)), "overlaps"),
    "cut off": (made({"a": PLACE}, bytes(15)), "is cut off"),
    "bytes left over": (made({"a": PLACE}, bytes(17)), "goes on after"),
    "no tensors but bytes": (made({}, b"x"), "goes on after"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_files(tmp_path, name):
    data, match = BAD[name]
    with pytest.raises(SafetensorError, match=match):
        load(data)
    (tmp_path / "bad.st").write_bytes(data)
    with pytest.raises(SafetensorError, match=rf"bad\.st: .*({match})"):
        load_file(tmp_path / "bad.st")


def test_damaged_files():
    """Bits flipped, bytes cut: values or a SafetensorError, never anything else."""
    rng = random.Random(0)
    data = save({**tensors(), **{f"t{i}": tocha.full((i,), i) for i in range(4)}}, {"key": "value"})
    outcomes = set()
    for _ in range(2000):
        damaged = bytearray(data)
        for _ in range(rng.choice((1, 1, 3))):
            damaged[rng.randrange(len(data) // 2 if rng.random() < 0.7 else len(data))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.2:
            del damaged[rng.randrange(len(damaged)) :]
        try:
            load(bytes(damaged))
            outcomes.add("loaded")
        except SafetensorError as error:
            assert 15 < len(str(error)) < 1000
            outcomes.add("refused")
    assert outcomes == {"loaded", "refused"}


def test_every_truncation_is_noticed():
    data = save(tensors())
    for n in range(len(data)):
        with pytest.raises(SafetensorError):
            load(data[:n])


def test_bytes_like():
    data = save(tensors())
    assert load(bytearray(data)).keys() == load(io.BytesIO(data).getvalue()).keys()
