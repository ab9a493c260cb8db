"""nn.parallel: threads that run modules, parts of batches, copies of modules. Meta devices stand in for accelerators."""

from __future__ import annotations

import collections
import importlib
import threading

import pytest

import tocha
from tocha import nn
from tocha.nn import parallel
from tocha.nn.parallel.scatter_gather import scatter_kwargs

Pair = collections.namedtuple("Pair", "a b")


class Fails(nn.Module):
    def forward(self, x):
        raise KeyError("lost")


class Modes(nn.Module):
    """Says where and how it runs."""

    def forward(self, barrier):
        barrier.wait(10)  # only if both run at the same time do both get past this
        return threading.get_ident(), tocha.is_grad_enabled(), tocha.is_autocast_enabled("cpu")


def test_data_parallel_without_accelerators():
    inner = nn.Linear(2, 3)
    spread = nn.DataParallel(inner, device_ids=[0, 1])
    assert spread.device_ids == [] and spread.module is inner
    assert list(spread.state_dict()) == ["module.weight", "module.bias"]
    x = tocha.ones(4, 2)
    assert tocha.equal(spread(x), inner(x)) and tocha.equal(spread(input=x), inner(x))
    spread(x).sum().backward()
    assert inner.weight.grad.tolist() == [[4.0, 4.0]] * 3
    assert repr(spread) == "DataParallel(\n  (module): Linear(in_features=2, out_features=3, bias=True)\n)"
    assert nn.DataParallel is parallel.DataParallel and "DataParallel" in dir(nn)
    with pytest.raises(RuntimeError, match="device type could not be determined"):
        parallel.data_parallel(inner, x)


@pytest.fixture
def counted():
    """Counts the forwards of copies."""
    calls = []
    network = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).to("meta")
    network.register_forward_hook(lambda module, inputs, output: calls.append(tuple(inputs[0].shape)))
    return network, calls


def test_data_parallel_with_accelerators(monkeypatch, counted):
    devices = [tocha.device("meta"), tocha.device("meta")]
    for name in ("_devices", "data_parallel"):
        monkeypatch.setattr(importlib.import_module(f"tocha.nn.parallel.{name}"), "accelerators", lambda: devices)
    network, calls = counted
    out = nn.DataParallel(network)(tocha.empty(5, 2, device="meta"))
    assert tuple(out.shape) == (5, 3) and sorted(calls) == [(2, 2), (3, 2)] and out.requires_grad
    assert tuple(parallel.data_parallel(network.eval(), tocha.empty(1, 2, device="meta")).shape) == (1, 3)
    with pytest.raises(RuntimeError, match="parameters and buffers on device meta"):
        nn.DataParallel(nn.Linear(2, 3))(tocha.empty(5, 2, device="meta"))


def test_parallel_apply_runs_at_the_same_time_with_the_callers_modes():
    barrier = threading.Barrier(2)
    with tocha.no_grad(), tocha.autocast("cpu"):
        first, second = parallel.parallel_apply([Modes(), Modes()], [barrier, barrier])
    assert first[0] != second[0] != threading.get_ident()
    assert first[1:] == second[1:] == (False, True)
    layer = nn.Linear(2, 3)
    with tocha.autocast("cpu"):
        results = parallel.parallel_apply([layer, layer], [tocha.ones(1, 2), (tocha.ones(1, 2),)])
    assert [r.dtype for r in results] == [tocha.bfloat16] * 2 and all(r.requires_grad for r in results)


def test_parallel_apply_arguments():
    layers = [nn.Bilinear(1, 1, 1), nn.Linear(1, 1)]
    x = tocha.ones(1, 1)
    found = parallel.parallel_apply(layers, [[x, x], ()], [{}, {"input": x}])
    assert tocha.equal(found[0], layers[0](x, x)) and tocha.equal(found[1], layers[1](x))
    for bad in ([x],), ([x, x], [{}]), ([x, x], None, ["cpu"]):
        with pytest.raises(AssertionError, match="number of modules 2"):
            parallel.parallel_apply(layers, *bad)


@pytest.mark.parametrize("modules", [[nn.Identity(), Fails()], [Fails()]])
def test_parallel_apply_raises_what_a_worker_raised(modules):
    x = tocha.ones(1)
    with pytest.raises(KeyError) as caught:
        parallel.parallel_apply(modules, [x] * len(modules))
    text = str(caught.value)
    assert f"Caught KeyError in replica {len(modules) - 1} on device cpu." in text and "lost" in text


def test_scatter():
    x = tocha.empty(5, 2, device="meta")
    devices = ["meta", "meta"]
    assert [tuple(p.shape) for p in parallel.scatter(x, devices)] == [(3, 2), (2, 2)]
    assert [tuple(p.shape) for p in parallel.scatter(x, devices, dim=1)] == [(5, 1), (5, 1)]
    parts = parallel.scatter({"x": [x, 1], "y": Pair((x,), None)}, devices)
    assert [tuple(p["x"][0].shape) for p in parts] == [(3, 2), (2, 2)]
    assert parts[1]["x"][1] == 1 and isinstance(parts[0]["y"], Pair) and tuple(parts[1]["y"].a[0].shape) == (2, 2)
    assert parallel.scatter((), devices) == [(), ()] and parallel.scatter(None, devices) == [None, None]
    assert scatter_kwargs((1,), None, devices) == (((1,), (1,)), ({}, {}))
    with pytest.raises(ValueError, match="non cpu"):
        parallel.scatter(x, ["cpu"])


def test_gather():
    x = tocha.empty(2, 3, device="meta")
    assert tuple(parallel.gather([x, x[:1]], "meta").shape) == (3, 3)
    assert tuple(parallel.gather([x, x], "meta", dim=1).shape) == (2, 6)
    found = parallel.gather([{"a": Pair(x, [x])}] * 2, "meta")
    assert isinstance(found["a"], Pair) and tuple(found["a"].b[0].shape) == (4, 3)
    with pytest.warns(UserWarning, match="scalars"):
        assert tuple(parallel.gather([x.sum(), x.sum()], "meta").shape) == (2,)
    with pytest.raises(ValueError, match="same number of keys"):
        parallel.gather([{"a": x}, {}], "meta")
    with pytest.raises(AssertionError, match="CPU tensors"):
        parallel.gather([tocha.ones(1)], "cpu")
    with pytest.warns(FutureWarning, match="-1"):
        assert parallel.gather([None], -1) is None


def test_replicate():
    shared = nn.Linear(2, 2)
    network = nn.Sequential(shared, shared, nn.BatchNorm1d(2)).to("meta")
    first, second = parallel.replicate(network, ["meta", "meta"])
    assert first is not second and first[0] is first[1] and first[0] is not network[0]
    assert list(first.parameters()) == [] and first[0].weight.grad_fn is not None
    assert not isinstance(first[0].weight, nn.Parameter)
    assert set(dict(first.named_buffers())) == set(dict(network.named_buffers()))
    assert list(network[0]._parameters) == ["weight", "bias"]
    assert parallel.replicate(network, ["meta"], detach=True)[0][0].weight.requires_grad is False
    with pytest.warns(UserWarning, match="no effect"):
        first.zero_grad()
    with pytest.raises(AssertionError, match="CPU tensors"):
        parallel.replicate(nn.Linear(1, 1), ["meta"])
    with pytest.raises(RuntimeError, match="uninitialized"):
        parallel.replicate(nn.LazyLinear(1), ["meta"])
    assert parallel.replicate(network, []) == []


def test_container():
    with pytest.warns(FutureWarning, match="deprecated"):
        container = nn.Container(first=nn.ReLU())
    assert list(container.state_dict()) == [] and isinstance(container.first, nn.ReLU)
    with pytest.warns(FutureWarning), pytest.raises(TypeError, match="not a Module"):
        nn.Container(first=3)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_softmax_without_dim_warns(name):
    function = getattr(nn.functional, name)
    for ndim, dim in enumerate([0, 0, 1, 0, 1]):
        x = tocha.randn([2] * ndim)
        with pytest.warns(UserWarning, match=f"Implicit dimension choice for {name} has been deprecated") as seen:
            found = function(x)
        assert tocha.equal(found, function(x, dim)) and seen[0].filename == __file__


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_recurrent_layers_leave_dtypes_to_autocast(kind):
    layer = getattr(nn, kind)(2, 3)
    x = tocha.ones(4, 1, 2)
    with pytest.raises(ValueError, match="does not match weight dtype"):
        layer(x.bfloat16())
    with tocha.autocast("cpu"):
        assert layer(x.bfloat16())[0].dtype == tocha.bfloat16
        with pytest.raises(RuntimeError):
            layer(x.double())
        expected = tocha.float32 if kind == "GRU" else tocha.bfloat16
        assert layer.to(tocha.bfloat16)(x)[0].dtype == expected
