"""Checkpoints of PyTorch's open here and ours there, with the same values, sharing, strides and refusals."""

from __future__ import annotations

import collections
import io
import pickle
import warnings

import pytest
import torch

import tocha

DTYPES = sorted(str(d).removeprefix("tocha.") for d in {v for v in vars(tocha).values() if isinstance(v, tocha.dtype)})
LIBRARIES = {"to tocha": (torch, tocha), "to torch": (tocha, torch)}
FORMATS = {"zip": {}, "legacy": {"_use_new_zipfile_serialization": False}}
LOADS = {"weights": {}, "trusted": {"weights_only": False}}


@pytest.fixture(params=LIBRARIES.values(), ids=LIBRARIES.keys())
def pair(request):
    return request.param


def carried(pair, obj, how=None, **options):
    writer, reader = pair
    buffer = io.BytesIO()
    writer.save(obj, buffer, **(how or {}))
    buffer.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of typed storages
        return reader.load(buffer, **options)


def raw(t) -> bytes:
    return bytes(bytearray(t.contiguous().untyped_storage()))


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS.keys())
@pytest.mark.parametrize("how", FORMATS.values(), ids=FORMATS.keys())
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(pair, dtype, how, load):
    writer, reader = pair
    x = writer.tensor([0, 1, 3, 2, 1, 0]).to(getattr(writer, dtype)).view(2, 3)
    result = carried(pair, [x, x.t()], how, **load)
    assert isinstance(result[0], reader.Tensor) and result[0].dtype == getattr(reader, dtype)
    assert raw(result[0]) == raw(x) and result[1].stride() == (1, 3)
    assert result[0].data_ptr() == result[1].data_ptr()


@pytest.mark.parametrize("dtype", DTYPES)
def test_mapped(pair, dtype, tmp_path):
    writer, reader = pair
    x = writer.tensor([1, 0, 1]).to(getattr(writer, dtype))
    writer.save({"x": x}, tmp_path / "a.pt")
    assert raw(reader.load(tmp_path / "a.pt", mmap=True)["x"]) == raw(x)


@pytest.mark.parametrize("how", FORMATS.values(), ids=FORMATS.keys())
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_containers_and_values(pair, protocol, how):
    writer, reader = pair

    def make(m):
        return {
            "numbers": [0, -1, 255, 256, 65536, 2**31, 2**70, 1.5, 1j, True, None],
            "texts": ["", "é\u20ac", "x" * 300],
            "bytes": [b"a\xff", bytearray(b"a\xff")],
            "tuples": [(), (1,), (1, 2), (1, 2, 3, (4,))],
            "set": {1, 2},
            "ordered": collections.OrderedDict(b=1, a=2),
            "counter": collections.Counter("aab"),
            "own": [m.float32, m.bfloat16, m.Size([2, 3]), m.device("cpu")],
        }

    trusted = {"weights_only": False} if reader is torch and protocol > 2 else {}
    result = carried(pair, make(writer), {"pickle_protocol": protocol, **how}, **trusted)
    assert result == make(reader)


@pytest.mark.parametrize("how", FORMATS.values(), ids=FORMATS.keys())
def test_views_share_and_keep_their_strides(pair, how):
    writer, _ = pair
    base = writer.arange(24.0)
    x = base.view(2, 3, 4)
    obj = [x, x.transpose(0, 2), x[1, :, ::2], x.expand(5, 2, 3, 4), base[3:3], writer.tensor(2.5), writer.empty(0, 3)]
    result = carried(pair, obj, how)
    for a, b in zip(obj, result, strict=True):
        assert a.tolist() == b.tolist() and a.stride() == b.stride() and a.storage_offset() == b.storage_offset()
    assert len({t.untyped_storage().data_ptr() for t in result[:5]}) == 1


@pytest.mark.parametrize("how", FORMATS.values(), ids=FORMATS.keys())
def test_lazy_views(pair, how):
    writer, _ = pair
    x = writer.tensor([1 + 2j, 3 - 1j])
    plain, conjugated = carried(pair, [x, x.conj()], how)
    assert (
        conjugated.is_conj() and conjugated.data_ptr() == plain.data_ptr() and conjugated.tolist() == [1 - 2j, 3 + 1j]
    )
    negated = carried(pair, x.conj().imag, how)
    assert negated.is_neg() and negated.tolist() == [-2.0, 1.0]


@pytest.mark.parametrize("how", FORMATS.values(), ids=FORMATS.keys())
def test_parameters_and_attributes(pair, how):
    writer, reader = pair
    p = writer.nn.Parameter(writer.ones(2), requires_grad=False)
    p.tag = "kept"
    t = writer.ones(3, requires_grad=True)
    noted = writer.zeros(2)
    noted.note = [1, 2]
    result = carried(pair, {"p": p, "q": writer.nn.Parameter(writer.ones(1)), "t": t, "n": noted}, how)
    assert type(result["p"]) is reader.nn.Parameter and result["p"].tag == "kept" and not result["p"].requires_grad
    assert result["q"].requires_grad and result["t"].requires_grad and result["n"].note == [1, 2]


def test_meta(pair):
    writer, _ = pair
    result = carried(pair, writer.empty(3, 4, device="meta", dtype=writer.float16).t())
    assert result.is_meta and result.shape == (4, 3) and result.stride() == (1, 4)


def test_map_location_meta(pair):
    writer, _ = pair
    assert carried(pair, writer.ones(3), map_location="meta").is_meta


@pytest.mark.parametrize("how", FORMATS.values(), ids=FORMATS.keys())
def test_state_dicts(pair, how):
    writer, _ = pair
    state = collections.OrderedDict({"0.weight": writer.randn(4, 3), "0.bias": writer.zeros(4)})
    state["tied"] = state["0.weight"]
    state._metadata = collections.OrderedDict({"": {"version": 1}, "0": {"version": 2}})
    result = carried(pair, state, how)
    assert type(result) is collections.OrderedDict and list(result) == list(state)
    assert result._metadata == state._metadata and result["tied"] is result["0.weight"]
    assert all(raw(result[k]) == raw(v) for k, v in state.items())


def test_optimizer_states(pair):
    writer, _ = pair
    moments = {"step": writer.tensor(3.0), "exp_avg": writer.randn(2, 2), "exp_avg_sq": writer.rand(2, 2)}
    group = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "foreach": None, "amsgrad": False, "params": [0, 1]}
    obj = {"state": {0: moments, 1: {k: v.clone() for k, v in moments.items()}}, "param_groups": [group]}
    result = carried(pair, {"optimizer": obj, "epoch": 7, "rng": writer.get_rng_state()[:100].clone()})
    assert result["optimizer"]["param_groups"] == [group] and result["epoch"] == 7
    for i in (0, 1):
        assert {k: v.tolist() for k, v in result["optimizer"]["state"][i].items()} == {
            k: v.tolist() for k, v in moments.items()
        }


def test_a_real_model_of_pytorch(tmp_path):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Linear(5, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(2, 3, 7, 7)).sum().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "a.pt")
    for options in ({}, {"mmap": True}):
        result = tocha.load(tmp_path / "a.pt", **options)
        for k, v in model.state_dict().items():
            assert raw(result["model"][k]) == raw(v)
        assert result["optimizer"]["param_groups"] == optimizer.state_dict()["param_groups"]
        step = result["optimizer"]["state"][0]["exp_avg"]
        assert raw(step) == raw(optimizer.state_dict()["state"][0]["exp_avg"])
    tocha.save(result, tmp_path / "b.pt")
    back = torch.load(tmp_path / "b.pt", mmap=True)
    model.load_state_dict(back["model"])
    optimizer.load_state_dict(back["optimizer"])


def test_storages(pair):
    writer, _ = pair
    t = writer.arange(3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        storage = t.storage()
        assert carried(pair, storage).tolist() == [0, 1, 2]
        assert carried(pair, storage, FORMATS["legacy"]).tolist() == [0, 1, 2]


class Thing:
    """What neither library allows by default."""

    def __init__(self):
        self.x = 3


@pytest.mark.parametrize("how", FORMATS.values(), ids=FORMATS.keys())
def test_what_is_not_data_is_refused_by_name(pair, how):
    writer, reader = pair
    with pytest.raises(pickle.UnpicklingError, match="Thing"):
        carried(pair, {"w": writer.ones(2), "thing": Thing()}, how)
    assert carried(pair, [Thing()], how, weights_only=False)[0].x == 3
    with reader.serialization.safe_globals([Thing]):
        assert carried(pair, [Thing()], how)[0].x == 3


def test_unsafe_names_are_found_alike():
    buffer = io.BytesIO()
    torch.save([Thing(), collections.deque(), torch.ones(2), torch.nn.Linear(1, 1)], buffer)
    found = []
    for m in (torch, tocha):
        buffer.seek(0)
        found.append(m.serialization.get_unsafe_globals_in_checkpoint(buffer))
    assert set(found[0]) == set(found[1]) and len(found[1]) == len(set(found[1]))


def test_files_without_checksums():
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        assert carried((torch, tocha), torch.arange(5.0)).tolist() == [0, 1, 2, 3, 4]
    finally:
        torch.serialization.set_crc32_options(before)


def test_skipped_data_leaves_room():
    for pair in LIBRARIES.values():
        with pair[0].serialization.skip_data():
            buffer = io.BytesIO()
            pair[0].save(pair[0].ones(5), buffer)
        buffer.seek(0)
        assert pair[1].load(buffer).tolist() == [0] * 5
