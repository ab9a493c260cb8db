"""Devices can be named before anything is asked of them: names, indices, equality, pickles, contexts, autocast."""

from __future__ import annotations

import pickle
import warnings

import pytest
import torch

import tocha

NAMES = [
    "cpu",
    "cuda",
    "ipu",
    "xpu",
    "mkldnn",
    "opengl",
    "opencl",
    "ideep",
    "hip",
    "ve",
    "fpga",
    "maia",
    "xla",
    "lazy",
    "vulkan",
    "mps",
    "meta",
    "hpu",
    "mtia",
    "privateuseone",
]
FOREIGN = ["mps", "xpu", "hpu", "xla", "mtia", "maia", "ipu", "vulkan", "cuda"]


def outcome(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return str(call()).replace("torch", "tocha")
        except Exception as e:
            return type(e).__name__


@pytest.mark.parametrize("name", [*NAMES, *(f"{n}:1" for n in NAMES), "foo", "mps:-1", "mps:01", "mps:", ":1", ""])
def test_names(name):
    for ask in (
        lambda m: repr(m.device(name)),
        lambda m: str(m.device(name)),
        lambda m: (m.device(name).type, m.device(name).index),
        lambda m: m.device(name) == m.device(name),
        lambda m: m.device(name) == m.device("mps"),
        lambda m: hash(m.device(name)) == hash(m.device(name)),
        lambda m: pickle.loads(pickle.dumps(m.device(name))) == m.device(name),
        lambda m: repr(m.device(type=name, index=3)),
    ):
        assert outcome(lambda ask=ask: ask(tocha)) == outcome(lambda ask=ask: ask(torch))


@pytest.mark.parametrize("name", FOREIGN)
def test_memory_on_a_device_that_is_not_there_is_refused(name):
    for ask in (
        lambda m: m.tensor([1.0], device=name),
        lambda m: m.ones(2, device=name),
        lambda m: m.ones(2).to(name),
        lambda m: m.nn.Linear(2, 2).to(name),
        lambda m: m.empty(2, device=f"{name}:1"),
    ):
        with pytest.raises(Exception):  # noqa: B017  # each of PyTorch's devices refuses in its own way
            ask(torch)
        with pytest.raises((RuntimeError, AssertionError), match=f"(?i){name}"):
            ask(tocha)


@pytest.mark.parametrize("name", ["mps", "xla"])
def test_as_context_and_default(name):
    with tocha.device(name), pytest.raises(RuntimeError, match=name):
        tocha.ones(2)
    assert tocha.ones(2).device.type == "cpu"
    tocha.set_default_device(name)
    try:
        assert tocha.get_default_device() == tocha.device(name)
        with pytest.raises(RuntimeError, match=name):
            tocha.ones(2)
    finally:
        tocha.set_default_device(None)


@pytest.mark.parametrize("name", ["cpu", *FOREIGN, "meta", "foo"])
def test_autocast(name):
    for ask in (
        lambda m: m.autocast(name)._enabled,
        lambda m: m.autocast(name, enabled=False)._enabled,
        lambda m: m.autocast(name, dtype=m.bfloat16)._enabled,
        lambda m: m.autocast(name, dtype=m.float32)._enabled,
        lambda m: m.amp.is_autocast_available(name),
    ):
        assert outcome(lambda ask=ask: ask(tocha)) == outcome(lambda ask=ask: ask(torch))
    if tocha.amp.autocast_mode._SUPPORTED.get(name):
        assert outcome(lambda: tocha.get_autocast_dtype(name)) == outcome(lambda: torch.get_autocast_dtype(name))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with tocha.autocast(name):
                made = tocha.ones(2, 2) @ tocha.ones(2, 2)
        assert made.dtype == (tocha.bfloat16 if name == "cpu" else tocha.float32)
