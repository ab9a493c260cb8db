"""Learning-rate schedules: what each means, worked out by hand; saving, order of calls, tensors as rates."""

from __future__ import annotations

import math
import pickle
import warnings

import pytest

import tocha
from tocha.optim import SGD, lr_scheduler


def optimizer(*lrs, **options):
    return SGD([{"params": [tocha.nn.Parameter(tocha.ones(1))], "lr": lr} for lr in lrs or (1.0,)], lr=1.0, **options)


def rates(scheduler, steps):
    seen = [scheduler.get_last_lr()]
    for _ in range(steps):
        scheduler.optimizer.step()
        scheduler.step()
        seen.append(scheduler.get_last_lr())
    return [r[0] if len(r) == 1 else r for r in seen]


def test_simple_schedules():
    assert rates(lr_scheduler.StepLR(optimizer(), 2, 0.5), 4) == [1, 1, 0.5, 0.5, 0.25]
    assert rates(lr_scheduler.MultiStepLR(optimizer(), [1, 3, 3], 0.5), 4) == [1, 0.5, 0.5, 0.125, 0.125]
    assert rates(lr_scheduler.ConstantLR(optimizer(), 0.25, 2), 3) == [0.25, 0.25, 1, 1]
    assert rates(lr_scheduler.LinearLR(optimizer(), 0.5, 1.0, 2), 3) == [0.5, 0.75, 1, 1]
    assert rates(lr_scheduler.ExponentialLR(optimizer(), 0.5), 2) == [1, 0.5, 0.25]
    assert rates(lr_scheduler.PolynomialLR(optimizer(), 4), 5) == pytest.approx([1, 0.75, 0.5, 0.25, 0, 0])
    assert rates(lr_scheduler.LambdaLR(optimizer(1.0, 2.0), lambda t: 1 / (t + 1)), 1) == [[1, 2], [0.5, 1]]
    assert rates(lr_scheduler.MultiplicativeLR(optimizer(), lambda t: t), 3) == [1, 1, 2, 6]


def test_waves():
    cosine = [(1 + math.cos(math.pi * t / 4)) / 2 for t in range(9)]
    assert rates(lr_scheduler.CosineAnnealingLR(optimizer(), 4), 8) == pytest.approx(cosine)
    assert rates(lr_scheduler.CosineAnnealingWarmRestarts(optimizer(), 2), 5) == pytest.approx([1, 0.5] * 3)
    cyclic = lr_scheduler.CyclicLR(optimizer(momentum=0.9), 0.0, 1.0, 2, cycle_momentum=False)
    assert rates(cyclic, 5) == pytest.approx([0, 0.5, 1, 0.5, 0, 0.5])
    one = lr_scheduler.OneCycleLR(
        optimizer(momentum=0.9), 1.0, 11, pct_start=0.5, anneal_strategy="linear", div_factor=2
    )
    assert rates(one, 3)[0] == 0.5
    assert one.optimizer.param_groups[0]["momentum"] < 0.95


def test_cycles_move_momentum_against_the_rate():
    for cls, read in ((SGD, lambda g: g["momentum"]), (tocha.optim.Adam, lambda g: g["betas"][0])):
        options = {"momentum": 0.9} if cls is SGD else {}
        o = cls([tocha.nn.Parameter(tocha.ones(1))], lr=0.1, **options)
        scheduler = lr_scheduler.CyclicLR(o, 0.1, 0.5, 2, base_momentum=0.5, max_momentum=0.9)
        assert read(o.param_groups[0]) == 0.9
        rates(scheduler, 2)
        assert (o.param_groups[0]["lr"], read(o.param_groups[0])) == pytest.approx((0.5, 0.5))


def test_plateau_waits_and_cools_down():
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer(), factor=0.5, patience=1, cooldown=1, min_lr=0.2)
    seen = []
    for metric in (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0):
        scheduler.step(metric)
        seen += scheduler.get_last_lr()
    assert seen == [1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2, 0.2]


def test_sequences_and_chains():
    o = optimizer()
    warm = lr_scheduler.ConstantLR(o, 0.5, 100)
    assert rates(lr_scheduler.SequentialLR(o, [warm, lr_scheduler.ExponentialLR(o, 0.5)], [2]), 4) == [
        0.5,
        0.5,
        1,
        0.5,
        0.25,
    ]
    o = optimizer()
    chained = lr_scheduler.ChainedScheduler([lr_scheduler.ConstantLR(o, 0.5, 2), lr_scheduler.ExponentialLR(o, 0.5)])
    assert rates(chained, 3) == [0.5, 0.25, 0.25, 0.125]


def test_saved_schedules_go_on():
    first, second = (lr_scheduler.StepLR(optimizer(), 3, 0.5) for _ in range(2))
    rates(first, 4)
    second.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    assert "optimizer" not in first.state_dict()
    assert rates(first, 5) == rates(second, 5)


def test_callable_objects_are_saved_by_their_attributes():
    class Decay:
        def __init__(self, rate):
            self.rate = rate

        def __call__(self, t):
            return self.rate**t

    state = lr_scheduler.LambdaLR(optimizer(), Decay(0.5)).state_dict()
    assert state["lr_lambdas"] == [{"rate": 0.5}]
    other = lr_scheduler.LambdaLR(optimizer(), Decay(0.9))
    other.load_state_dict(state)
    assert rates(other, 1) == [1, 0.5]


def test_a_tensor_stays_the_rate():
    lr = tocha.tensor(1.0)
    o = SGD([tocha.nn.Parameter(tocha.ones(1))], lr=lr)
    scheduler = lr_scheduler.ExponentialLR(o, 0.5)
    rates(scheduler, 2)
    assert o.param_groups[0]["lr"] is lr
    assert lr.item() == 0.25
    assert scheduler.base_lrs[0].item() == 1.0


def test_the_order_of_steps_is_watched():
    scheduler = lr_scheduler.StepLR(optimizer(), 1)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        scheduler.step()
    scheduler = lr_scheduler.StepLR(optimizer(), 1)
    scheduler.optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler.step()
    scheduler.optimizer.step = lambda: None
    with pytest.warns(UserWarning, match="get_last_lr"):
        scheduler.get_lr()
