"""Learning-rate schedules against PyTorch's: rates, momenta and saved states over fifty steps, with several groups."""

from __future__ import annotations

import warnings

import pytest

import tocha

torch = pytest.importorskip("torch")

STEPS = 50
SCHEDULES = {
    "lambda": lambda m, o: m.LambdaLR(o, [lambda t: 0.95**t, lambda t: 1 / (1 + t)]),
    "multiplicative": lambda m, o: m.MultiplicativeLR(o, lambda t: 0.97),
    "step": lambda m, o: m.StepLR(o, 7, gamma=0.3),
    "multistep": lambda m, o: m.MultiStepLR(o, [3, 11, 11, 30], gamma=0.5),
    "constant": lambda m, o: m.ConstantLR(o, factor=0.25, total_iters=6),
    "linear": lambda m, o: m.LinearLR(o, start_factor=0.1, end_factor=0.8, total_iters=9),
    "exponential": lambda m, o: m.ExponentialLR(o, 0.93),
    "polynomial": lambda m, o: m.PolynomialLR(o, total_iters=20, power=1.7),
    "cosine": lambda m, o: m.CosineAnnealingLR(o, T_max=8, eta_min=0.01),
    "restarts": lambda m, o: m.CosineAnnealingWarmRestarts(o, T_0=3, T_mult=2, eta_min=0.001),
    "cyclic": lambda m, o: m.CyclicLR(o, 0.01, [0.1, 0.3], step_size_up=4, step_size_down=3),
    "cyclic2": lambda m, o: m.CyclicLR(o, [0.01, 0.02], 0.2, step_size_up=5, mode="triangular2"),
    "cyclic_exp": lambda m, o: m.CyclicLR(o, 0.01, 0.2, step_size_up=5, mode="exp_range", gamma=0.98, cycle_momentum=False),
    "cyclic_own": lambda m, o: m.CyclicLR(o, 0.01, 0.2, step_size_up=5, scale_fn=lambda x: 1 / x, scale_mode="cycle"),
    "one_cycle": lambda m, o: m.OneCycleLR(o, max_lr=[0.5, 1.0], total_steps=STEPS + 1),
    "one_cycle3": lambda m, o: m.OneCycleLR(o, max_lr=0.5, epochs=5, steps_per_epoch=12, three_phase=True, anneal_strategy="linear"),
    "sequential": lambda m, o: m.SequentialLR(
        o, [m.ConstantLR(o, 0.1, 5), m.ExponentialLR(o, 0.9), m.CosineAnnealingLR(o, 10)], [6, 20]
    ),
    "chained": lambda m, o: m.ChainedScheduler([m.ConstantLR(o, 0.1, 9), m.ExponentialLR(o, 0.9)], optimizer=o),
    "nested": lambda m, o: m.SequentialLR(
        o, [m.ChainedScheduler([m.LinearLR(o, 0.5), m.ExponentialLR(o, 0.99)]), m.StepLR(o, 4)], [12]
    ),
}  # fmt: skip


def optimizer(t, adam=False):
    groups = [
        {"params": [t.nn.Parameter(t.ones(2))], "lr": 0.3},
        {"params": [t.nn.Parameter(t.ones(3))], "lr": 0.05},
    ]
    return t.optim.Adam(groups) if adam else t.optim.SGD(groups, momentum=0.9)


def plain(state):
    """A saved state without what cannot be compared."""
    if isinstance(state, dict):
        return {
            k: plain(v)
            for k, v in state.items()
            if not callable(v) and not str(k).startswith(("_scale_fn", "_wrapped"))
        }
    return [plain(s) for s in state] if isinstance(state, list) else state


def rates(o):
    names = ("lr", "initial_lr", "momentum", "betas", "max_lr", "min_lr", "base_momentum", "max_momentum", "swa_lr")
    return [{n: group[n] for n in names if n in group} for group in o.param_groups]


def run(t, make, steps=STEPS, adam=False):
    o = optimizer(t, adam)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scheduler = make(t.optim.lr_scheduler, o)
        seen = [rates(o)]
        for _ in range(steps):
            o.step()
            scheduler.step()
            seen.append((rates(o), scheduler.get_last_lr()))
    return seen, plain(scheduler.state_dict())


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("adam", [False, True], ids=["momentum", "betas"])
def test_fifty_steps_are_equal(name, adam):
    mine, state = run(tocha, SCHEDULES[name], adam=adam)
    theirs, their_state = run(torch, SCHEDULES[name], adam=adam)
    assert mine == theirs
    assert state == their_state


@pytest.mark.parametrize("options", [{}, {"mode": "max", "threshold_mode": "abs", "threshold": 0.1}, {"patience": 1, "cooldown": 2, "min_lr": [0.01, 0.02]}, {"patience": 0, "factor": 0.9, "eps": 1e-3}])  # fmt: skip
def test_plateau(options):
    metrics = [3, 2.9, 2.9, 2.8, 2.85, 2.85, 2.85, 2.85, 2.0, 2.1, 2.1, 2.1, 2.1, 2.1, float("nan")] * 3
    seen = []
    for t in (tocha, torch):
        o = optimizer(t)
        scheduler = t.optim.lr_scheduler.ReduceLROnPlateau(o, **options)
        lrs = []
        for m in metrics:
            scheduler.step(m)
            lrs.append(scheduler.get_last_lr())
        seen.append((lrs, plain(scheduler.state_dict())))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    "name", ["step", "multistep", "constant", "linear", "exponential", "polynomial", "cosine", "restarts"]
)
def test_steps_to_a_given_epoch(name):
    seen = []
    for t in (tocha, torch):
        o = optimizer(t)
        scheduler = SCHEDULES[name](t.optim.lr_scheduler, o)
        lrs = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for epoch in (0, 1, 4, 3, 12, 7, 25):
                scheduler.step(epoch)
                lrs.append(scheduler.get_last_lr())
        seen.append(lrs)
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    "options", [{}, {"anneal_strategy": "linear"}, {"anneal_epochs": 0}, {"anneal_epochs": 4, "swa_lr": [0.1, 0.2]}]
)
def test_swalr(options):
    pytest.importorskip("tocha.optim.swa_utils")
    options = {"swa_lr": 0.02, **options}
    seen = []
    for t in (tocha, torch):
        o = optimizer(t)
        scheduler = t.optim.swa_utils.SWALR(o, **options)
        lrs = [rates(o)]
        for _ in range(15):
            o.step()
            scheduler.step()
            lrs.append(scheduler.get_last_lr())
        seen.append((lrs, plain(scheduler.state_dict())))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("name", [n for n in SCHEDULES if n not in ("lambda", "multiplicative", "cyclic_own")])
def test_a_state_of_pytorch_goes_on_here(name):
    theirs = optimizer(torch)
    them = SCHEDULES[name](torch.optim.lr_scheduler, theirs)
    mine = optimizer(tocha)
    me = SCHEDULES[name](tocha.optim.lr_scheduler, mine)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(13):
            theirs.step()
            them.step()
        mine.load_state_dict(theirs.state_dict())
        me.load_state_dict(them.state_dict())
        for _ in range(20):
            for o, s in ((theirs, them), (mine, me)):
                o.step()
                s.step()
            assert me.get_last_lr() == them.get_last_lr()


def complaints(t):
    """What schedulers raise and warn of, by what was done."""
    s = t.optim.lr_scheduler
    found = []

    def note(f):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                f()
                raised = None
            except Exception as e:
                raised = (type(e), str(e).partition("has SGD")[0])
        found.append((raised, [(w.category, str(w.message)) for w in caught]))

    def one():
        return optimizer(t)

    def overridden():
        o = one()
        scheduler = s.StepLR(o, 1)
        o.step = lambda: None
        scheduler.step()

    adagrad = t.optim.Adagrad([t.nn.Parameter(t.ones(1))])
    for f in (
        lambda: s.StepLR(3, 1), lambda: s.StepLR(one(), 1, last_epoch=3), lambda: s.StepLR(one(), 1).step(),
        lambda: s.StepLR(one(), 1).step(3), overridden, lambda: s.StepLR(one(), 1).get_lr(), lambda: s.LRScheduler(one()),
        lambda: s.LambdaLR(one(), [lambda e: 1]), lambda: s.ConstantLR(one(), 2), lambda: s.LinearLR(one(), 0),
        lambda: s.LinearLR(one(), end_factor=2), lambda: s.SequentialLR(one(), [], []), lambda: s.ChainedScheduler([]),
        lambda: (lambda o: s.SequentialLR(o, [s.StepLR(o, 1)], [1]))(one()),
        lambda: (lambda o: s.SequentialLR(o, [s.StepLR(o, 1), s.StepLR(one(), 1)], [1]))(one()),
        lambda: (lambda o: s.SequentialLR(o, [s.StepLR(o, 1), 3], [1]))(one()),
        lambda: (lambda o: s.ChainedScheduler([s.ReduceLROnPlateau(o)]))(one()),
        lambda: s.ReduceLROnPlateau(one(), factor=1.0), lambda: s.ReduceLROnPlateau(one(), mode="x"),
        lambda: s.ReduceLROnPlateau(one(), threshold_mode="x"), lambda: s.ReduceLROnPlateau(one(), min_lr=[1]),
        lambda: s.CyclicLR(one(), [0.1], 0.2), lambda: s.CyclicLR(one(), 0.1, 0.2, mode="x"), lambda: s.CyclicLR(adagrad, 0.1, 0.2),
        lambda: s.CosineAnnealingWarmRestarts(one(), 0), lambda: s.CosineAnnealingWarmRestarts(one(), 1, 0),
        lambda: s.CosineAnnealingWarmRestarts(one(), 1, eta_min="a"), lambda: s.CosineAnnealingWarmRestarts(one(), 2).step(-1),
        lambda: s.OneCycleLR(one(), 0.1), lambda: s.OneCycleLR(one(), 0.1, -1), lambda: s.OneCycleLR(one(), 0.1, epochs=1, steps_per_epoch=-2),
        lambda: s.OneCycleLR(one(), 0.1, 10, pct_start=2), lambda: s.OneCycleLR(one(), 0.1, 10, anneal_strategy="x"),
        lambda: s.OneCycleLR(adagrad, 0.1, 10), lambda: [x.step() for x in [s.OneCycleLR(one(), 0.1, 2)] for _ in range(4)],
    ):  # fmt: skip
        note(f)
    return found


def test_complaints_are_the_same():
    assert complaints(tocha) == complaints(torch)
