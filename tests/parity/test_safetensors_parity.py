"""Our safetensors files against the `safetensors` package's, byte for byte and both ways."""

from __future__ import annotations

import pytest
import torch

import tocha
from tocha.utils import safetensors as ours

safetensors = pytest.importorskip("safetensors", reason="the safetensors package is not installed")
theirs = pytest.importorskip("safetensors.torch")

SHAPES = [(), (3,), (2, 3), (0,), (2, 0, 1)]


def tensors(m) -> dict:
    found = {}
    for dtype in ours._NAMES:
        name = str(dtype).removeprefix("tocha.")
        if ours._NAMES[dtype] not in theirs._TYPES:  # an older package
            continue
        for shape in SHAPES:
            count = m.zeros(shape).numel()
            found[f"{name} {shape}"] = m.arange(count).reshape(shape).to(getattr(m, name))
    return found


def raw(t) -> bytes:
    return bytes(bytearray(t.untyped_storage()))


def test_the_same_bytes():
    assert ours.save(tensors(tocha)) == theirs.save(tensors(torch))
    assert ours.save({}) == theirs.save({})
    one = {"é\n\"": [1]}, {"key": "välue"}  # fmt: skip
    made = [
        m.save({k: lib.tensor(v) for k, v in one[0].items()}, one[1]) for m, lib in ((ours, tocha), (theirs, torch))
    ]
    assert made[0] == made[1]


def test_files_both_ways(tmp_path):
    ours.save_file(tensors(tocha), tmp_path / "ours", {"a": "b"})
    theirs.save_file(tensors(torch), tmp_path / "theirs", {"a": "b"})
    expected = tensors(torch)
    for result in (
        theirs.load_file(tmp_path / "ours"),
        theirs.load((tmp_path / "ours").read_bytes()),
        ours.load_file(tmp_path / "theirs"),
        ours.load((tmp_path / "theirs").read_bytes()),
    ):
        assert result.keys() == expected.keys()
        for name, t in expected.items():
            assert raw(result[name]) == raw(t) and result[name].shape == t.shape
            assert str(result[name].dtype).split(".")[1] == str(t.dtype).split(".")[1]


def test_safe_open(tmp_path):
    theirs.save_file(tensors(torch), tmp_path / "a", {"k": "v"})
    with safetensors.safe_open(tmp_path / "a", "pt") as f, ours.safe_open(tmp_path / "a", "pt") as g:
        assert list(f.keys()) == g.keys() and f.metadata() == g.metadata()
        filled = [[n for n in file.offset_keys() if file.get_tensor(n).numel()] for file in (f, g)]
        assert filled[0] == filled[1]
        a, b = f.get_slice("float32 (2, 3)"), g.get_slice("float32 (2, 3)")
        assert a.get_shape() == b.get_shape() and a.get_dtype() == b.get_dtype()
        assert a[:, 1:].tolist() == b[:, 1:].tolist()


@pytest.mark.parametrize("case", ["t", "shared", "int", "list", "metadata"])
def test_refusals(case):
    def attempt(m, lib):
        x = lib.ones(2, 3)
        bad = {
            "t": ({"x": x.t()},),
            "shared": ({"x": x, "y": x},),
            "int": ({"x": 1},),
            "list": ([x],),
            "metadata": ({"x": x}, {"a": 1}),
        }
        with pytest.raises(Exception) as caught:
            m.save(*bad[case])
        return caught.type

    assert attempt(ours, tocha) is attempt(theirs, torch)
