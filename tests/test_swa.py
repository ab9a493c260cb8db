"""Averaged models: plain and moving averages, buffers, batch norms computed anew, and their schedule."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import tocha
from tocha import nn
from tocha.optim import swa_utils


def model(value):
    m = nn.Linear(2, 3)
    with tocha.no_grad():
        for p in m.parameters():
            p.fill_(value)
    return m


@pytest.mark.parametrize(
    "make",
    [
        lambda: {},
        lambda: {"avg_fn": swa_utils.get_swa_avg_fn()},
        lambda: {"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()},
    ],
)
def test_plain_averages(make):
    average = swa_utils.AveragedModel(model(0.0), **make())
    for value in (1.0, 2.0, 6.0):
        average.update_parameters(model(value))
    assert average.n_averaged.item() == 3
    np.testing.assert_allclose(average.module.weight.detach().numpy(), 3.0, rtol=1e-6)
    x = tocha.ones(1, 2)
    np.testing.assert_allclose(average(x).detach().numpy(), 9.0, rtol=1e-6)


@pytest.mark.parametrize(
    "make",
    [lambda d: {"avg_fn": swa_utils.get_ema_avg_fn(d)}, lambda d: {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(d)}],
)
def test_moving_averages(make):
    average = swa_utils.AveragedModel(model(0.0), **make(0.75))
    for value in (4.0, 8.0, 0.0):
        average.update_parameters(model(value))
    np.testing.assert_allclose(average.module.bias.detach().numpy(), (4 * 0.75 + 8 * 0.25) * 0.75, rtol=1e-6)
    with pytest.raises(ValueError, match="Invalid decay"):
        swa_utils.get_ema_avg_fn(1.5)


@pytest.mark.parametrize("use_buffers", [False, True])
def test_buffers_are_copied_or_averaged(use_buffers):
    norm = nn.BatchNorm1d(2)
    average = swa_utils.AveragedModel(norm, use_buffers=use_buffers)
    for value in (1.0, 3.0):
        norm.running_mean.fill_(value)
        average.update_parameters(norm)
    assert average.module.running_mean.tolist() == ([2.0, 2.0] if use_buffers else [3.0, 3.0])


def test_an_average_is_a_module_of_its_own():
    source = model(1.0)
    average = swa_utils.AveragedModel(source)
    source.weight.data.fill_(5.0)
    assert (average.module.weight == 1).all()
    state = average.state_dict()
    assert set(state) == {"n_averaged", "module.weight", "module.bias"}
    other = swa_utils.AveragedModel(model(0.0))
    other.load_state_dict(copy.deepcopy(state))
    assert (other.module.weight == 1).all()
    with pytest.raises(AssertionError, match="Only one of"):
        swa_utils.AveragedModel(
            source, avg_fn=swa_utils.get_swa_avg_fn(), multi_avg_fn=swa_utils.get_swa_multi_avg_fn()
        )


@pytest.mark.skipif(not hasattr(nn.functional, "batch_norm"), reason="needs batch norm")
def test_batch_norms_are_computed_anew():
    tocha.manual_seed(0)
    net = nn.Sequential(nn.BatchNorm1d(3, momentum=0.3)).eval()
    batches = [tocha.randn(8, 3) * 2 + 1 for _ in range(5)]
    swa_utils.update_bn([(b, "label") for b in batches], net)
    np.testing.assert_allclose(net[0].running_mean.numpy(), np.mean([b.mean(0).numpy() for b in batches], 0), rtol=1e-5)
    np.testing.assert_allclose(net[0].running_var.numpy(), np.mean([b.var(0).numpy() for b in batches], 0), rtol=1e-5)
    assert net[0].momentum == 0.3 and not net.training


def test_rates_go_to_their_fixed_values():
    o = tocha.optim.SGD([{"params": [nn.Parameter(tocha.ones(1))], "lr": lr} for lr in (1.0, 0.0)])
    scheduler = swa_utils.SWALR(o, [0.5, 0.5], anneal_epochs=2, anneal_strategy="linear")
    seen = []
    for _ in range(4):
        o.step()
        scheduler.step()
        seen.append(scheduler.get_last_lr())
    np.testing.assert_allclose(seen, [[0.75, 0.25], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]], rtol=1e-6)
