"""Optimizers against PyTorch's: parameters and states step by step, saved states both ways, complaints, texts.

Needs torch beside tocha; run by `make parity`.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import platform
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import tocha  # noqa: E402

CASES = [
    ("SGD", {}), ("SGD", {"lr": 0.1, "momentum": 0.9}), ("SGD", {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.8, "nesterov": True, "maximize": True}), ("SGD", {"momentum": 0.9, "fused": True}), ("SGD", {"weight_decay": 0.2, "foreach": True}),
    ("Adam", {}), ("Adam", {"weight_decay": 0.1, "amsgrad": True}), ("Adam", {"betas": (0.3, 0.7), "maximize": True}), ("Adam", {"fused": True, "eps": 1e-3}),
    ("Adam", {"decoupled_weight_decay": True, "weight_decay": 0.3}), ("Adam", {"foreach": True}), ("AdamW", {}), ("AdamW", {"amsgrad": True, "lr": 0.1}),
    ("Adamax", {}), ("Adamax", {"weight_decay": 0.1, "maximize": True}), ("NAdam", {}), ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("NAdam", {"weight_decay": 0.1, "momentum_decay": 0.02, "maximize": True}), ("RAdam", {}), ("RAdam", {"weight_decay": 0.1, "betas": (0.8, 0.6)}),
    ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}), ("Adagrad", {}),
    ("Adagrad", {"lr_decay": 0.3, "weight_decay": 0.1, "initial_accumulator_value": 0.2}), ("Adagrad", {"maximize": True, "fused": True}), ("Adadelta", {}),
    ("Adadelta", {"rho": 0.5, "weight_decay": 0.1, "maximize": True}), ("RMSprop", {}), ("RMSprop", {"centered": True}), ("RMSprop", {"momentum": 0.9}),
    ("RMSprop", {"centered": True, "momentum": 0.9, "weight_decay": 0.1, "maximize": True, "alpha": 0.4}), ("Rprop", {}), ("Rprop", {"etas": (0.3, 1.5), "step_sizes": (1e-4, 0.02), "maximize": True}),
    ("ASGD", {}), ("ASGD", {"t0": 2, "lambd": 0.1, "weight_decay": 0.1}), ("ASGD", {"t0": 1, "maximize": True}), ("Adafactor", {}), ("Adafactor", {"weight_decay": 0.1, "maximize": True, "eps": (1e-5, 0.1)}),
]  # fmt: skip
REAL_ONLY = ("Adafactor", "Muon")
TOLERANCE = {"float32": 3e-6, "float64": 1e-13, "complex64": 3e-6, "bfloat16": 3e-2}
STEPS = 8
SHAPES = [(3, 4), (5,), (), (2, 3, 2)]


def arrays(dtype, seed):
    rng = np.random.default_rng(seed)
    for shape in SHAPES:
        x = rng.standard_normal(shape)
        yield x + 1j * rng.standard_normal(shape) if dtype.startswith("complex") else x


def tensor(t, x, dtype):
    return t.tensor(np.asarray(x)).to(getattr(t, dtype))


def parameters(t, dtype):
    return [t.nn.Parameter(tensor(t, x, dtype)) for x in arrays(dtype, 0)]


def give_gradients(t, params, dtype, step, without=()):
    for i, (p, x) in enumerate(zip(params, arrays(dtype, step + 1), strict=True)):
        p.grad = None if i in without else tensor(t, x, dtype)


def train(t, optimizer, params, dtype, first=0, steps=STEPS):
    for step in range(first, first + steps):
        # The second parameter begins late: step counts differ. (PyTorch's fused SGD cannot do that.)
        late = step < 2 and not (t.optim.SGD is type(optimizer) and optimizer.defaults["fused"])
        give_gradients(t, params, dtype, step, without=(1,) if late else ())
        optimizer.step()


def values(x):
    x = x.detach()
    if str(x.dtype).endswith("bfloat16"):
        x = x.float()
    return np.asarray(x.tolist())


def same(mine, theirs, tolerance):
    assert str(mine.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
    assert tuple(mine.shape) == tuple(theirs.shape)
    np.testing.assert_allclose(values(mine), values(theirs), rtol=tolerance, atol=tolerance)


def same_state(mine, theirs, tolerance):
    assert list(mine["state"]) == list(theirs["state"])
    for k, state in mine["state"].items():
        assert list(state) == list(theirs["state"][k])
        for name, value in state.items():
            other = theirs["state"][k][name]
            if isinstance(other, torch.Tensor):
                same(value, other, tolerance)
            else:
                assert value == other
    assert [list(g.items()) for g in mine["param_groups"]] == [list(g.items()) for g in theirs["param_groups"]]


def ids(case):
    return case[0] + "".join(f"-{k}={v}" for k, v in case[1].items())


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "bfloat16"])
@pytest.mark.parametrize("case", CASES, ids=ids)
def test_steps(case, dtype):
    name, options = case
    if dtype == "complex64" and (name in REAL_ONLY or options.get("fused") or options.get("amsgrad")):
        pytest.skip("PyTorch has no such step")
    if platform.machine() == "aarch64" and name == "SGD" and options.get("fused") and dtype == "bfloat16":
        options = {**options, "fused": False}  # PyTorch's fused step is not its own other step there
    done = []
    for t in (tocha, torch):
        params = parameters(t, dtype)
        optimizer = getattr(t.optim, name)(params, **options)
        train(t, optimizer, params, dtype)
        done.append((params, optimizer.state_dict()))
    tolerance = TOLERANCE[dtype]
    for mine, theirs in zip(done[0][0], done[1][0], strict=True):
        same(mine, theirs, tolerance)
    same_state(done[0][1], done[1][1], tolerance)


@pytest.mark.parametrize(
    "options", [{}, {"nesterov": False, "weight_decay": 0.3}, {"adjust_lr_fn": "match_rms_adamw", "ns_steps": 3}]
)
def test_muon(options):
    done = []
    for t in (tocha, torch):
        rng = np.random.default_rng(0)
        params = [t.nn.Parameter(tensor(t, rng.standard_normal(shape), "float32")) for shape in [(6, 4), (3, 7)]]
        optimizer = t.optim.Muon(params, **options)
        for _ in range(STEPS):
            for p in params:
                p.grad = tensor(t, rng.standard_normal(tuple(p.shape)), "float32")
            optimizer.step()
        done.append((params, optimizer.state_dict()))
    for mine, theirs in zip(done[0][0], done[1][0], strict=True):
        same(mine, theirs, 2e-4)  # directions are computed in bfloat16
    same_state(done[0][1], done[1][1], 1e-6)


def valley(t, options):
    """Three steps of LBFGS in Rosenbrock's valley: where they end, the losses on the way, and the state."""
    x = t.nn.Parameter(t.tensor([-0.5, 0.8], dtype=t.float64))
    optimizer = t.optim.LBFGS([x], **options)
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        losses.append(float(loss))
        return loss

    for _ in range(3):
        optimizer.step(closure)
    return x.tolist(), losses, optimizer.state_dict()


@pytest.mark.parametrize("options", [{}, {"line_search_fn": "strong_wolfe"}, {"lr": 0.1, "max_iter": 7, "history_size": 3}, {"line_search_fn": "strong_wolfe", "history_size": 2, "max_iter": 30}, {"max_eval": 3}])  # fmt: skip
def test_lbfgs(options):
    (mine, my_losses, my_state), (theirs, their_losses, their_state) = (valley(t, options) for t in (tocha, torch))
    np.testing.assert_allclose(mine, theirs, rtol=1e-6)
    np.testing.assert_allclose(my_losses, their_losses, rtol=1e-4)
    assert set(my_state["state"][0]) == set(their_state["state"][0])
    for k in ("func_evals", "n_iter"):
        assert my_state["state"][0][k] == their_state["state"][0][k]
    assert my_state["param_groups"] == their_state["param_groups"]


def crossing(state, make):
    """A saved state with its tensors made anew by the other library."""
    if isinstance(state, dict):
        return {k: crossing(v, make) for k, v in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(crossing(v, make) for v in state)
    return make(state) if isinstance(state, tocha.Tensor | torch.Tensor) else state


def remade(t):
    return lambda x: tensor(t, values(x), str(x.dtype).split(".")[1]).reshape(tuple(x.shape))


@pytest.mark.parametrize("case", CASES, ids=ids)
@pytest.mark.parametrize("there", [tocha, torch], ids=["from_pytorch", "to_pytorch"])
def test_states_are_interchangeable(case, there):
    name, options = case
    here = torch if there is tocha else tocha
    params = parameters(here, "float32")
    first = getattr(here.optim, name)(params, **options)
    train(here, first, params, "float32", steps=3)
    others = [there.nn.Parameter(remade(there)(p)) for p in params]
    second = getattr(there.optim, name)(others, **options)
    second.load_state_dict(crossing(first.state_dict(), remade(there)))
    train(here, first, params, "float32", first=3)
    train(there, second, others, "float32", first=3)
    for a, b in zip(params, others, strict=True):
        mine, theirs = (a, b) if here is tocha else (b, a)
        same(mine, theirs, 5e-6)
    states = (first.state_dict(), second.state_dict())
    same_state(*(states if here is tocha else states[::-1]), 5e-6)


# PyTorch forgets that a first momentum depends on the gradient; Rprop, Adafactor and Muon have no such steps.
DIFFERENTIABLE = [
    (name, options)
    for name, options in CASES
    if name not in ("Rprop", "Adafactor") and "momentum" not in options and not {"fused", "foreach"} & options.keys()
]


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=ids)
def test_differentiable_steps(case):
    """The gradient of a function of the parameters after a step, with respect to the parameters and their gradients."""
    name, options = case
    found = []
    for t in (tocha, torch):
        rng = np.random.default_rng(0)
        start, slope = (tensor(t, rng.standard_normal(6), "float64").requires_grad_() for _ in range(2))
        p = start.clone()
        optimizer = getattr(t.optim, name)([p], differentiable=True, **options)
        p.grad = slope * start
        optimizer.step()
        p.square().sum().backward()
        found.append([x.grad.tolist() for x in (start, slope)])
    # PyTorch counts such steps in float32.
    np.testing.assert_allclose(found[0], found[1], rtol=3e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_the_rate_of_a_differentiable_step_has_a_gradient(name):
    found = []
    for t in (tocha, torch):
        lr = t.tensor(0.1, dtype=t.float64, requires_grad=True)
        p = tensor(t, np.arange(1.0, 5.0), "float64").requires_grad_().clone()
        optimizer = getattr(t.optim, name)([p], lr=lr, differentiable=True)
        p.grad = tensor(t, np.ones(4), "float64")
        optimizer.step()
        p.square().sum().backward()
        found.append(lr.grad.item())
    np.testing.assert_allclose(found[0], found[1], rtol=3e-5)


def complaint(f):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = f()
        except Exception as e:
            result = (type(e), str(e).replace("torch.", "tocha."))
        else:
            result = None
    return result, [(w.category, str(w.message)) for w in caught]


def mistakes(t):
    o = t.optim

    def p(*shape, **options):
        return t.nn.Parameter(t.ones(*(shape or (2,)), **options))

    def twice(q):
        return o.SGD([q, q])

    two = t.tensor([1.0, 2.0])
    tries = [
        lambda: o.SGD(p()), lambda: o.SGD([]), lambda: o.SGD([1]), lambda: o.SGD("abc"), lambda: o.SGD([p() * 2]), lambda: twice(p()),
        lambda: (lambda q: o.SGD([{"params": q}, {"params": q}]))(p()), lambda: o.SGD([{"params": {p()}}]), lambda: o.SGD([p()]).add_param_group([p()]),
        lambda: o.SGD([("a", p()), p()]), lambda: o.SGD([{"params": [("a", p())]}, {"params": [p()]}]), lambda: o.SGD([{"params": [p()]}, {"params": [("a", p())]}]),
        lambda: o.Optimizer([p()], {}).step(), lambda: o.SGD([p()], lr=-1), lambda: o.SGD([p()], momentum=-1), lambda: o.SGD([p()], weight_decay=-1),
        lambda: o.SGD([p()], nesterov=True), lambda: o.Adam([p()], lr=t.tensor(0.1), foreach=True), lambda: o.Adam([p()], betas=(t.tensor(0.9), 0.9)),
        lambda: o.Adam([p()], betas=(t.tensor(0.9), t.tensor(0.9)), foreach=True), lambda: o.Adam([p()], fused=True, foreach=True),
        lambda: o.Adam([p()], fused=True, differentiable=True), lambda: o.Adagrad([p()], initial_accumulator_value=-1), lambda: o.Adagrad([p()], lr_decay=-1),
        lambda: o.Adadelta([p()], rho=2), lambda: o.RMSprop([p()], alpha=-1), lambda: o.RMSprop([p()], momentum=-1), lambda: o.Rprop([p()], etas=(1.0, 2.0)),
        lambda: o.NAdam([p()], momentum_decay=-1), lambda: o.SparseAdam([p()], lr=0), lambda: o.Adafactor([p()], beta2_decay=1), lambda: o.Adafactor([p()], d=0.5),
        lambda: o.Adafactor([p()], eps=(-1, 1)), lambda: o.Adafactor([p()], eps=(1, -1)), lambda: o.Muon([p(2, 2)], adjust_lr_fn="x"), lambda: o.Muon([p()]),
        lambda: o.Muon([p(2, 2)], momentum=-1), lambda: o.LBFGS([{"params": [p()]}, {"params": [p()]}]),
        lambda: o.SGD([p()]).load_state_dict(o.SGD([{"params": p()}, {"params": p()}]).state_dict()), lambda: o.SGD([p()]).load_state_dict(o.SGD([p(), p()]).state_dict()),
    ]  # fmt: skip
    for c in ("SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "RMSprop", "Rprop", "ASGD", "LBFGS", "SparseAdam", "Adafactor", "Muon"):  # fmt: skip
        one = p(2, 2)
        tries += [lambda c=c, one=one: getattr(o, c)([one], lr=two), lambda c=c, one=one: getattr(o, c)([one], lr=-1.0)]
        if c in ("Adam", "AdamW", "Adamax", "NAdam", "RAdam"):
            tries += [lambda c=c, b=b: getattr(o, c)([p()], betas=b) for b in ((1.0, 0.9), (0.9, -1))]
            tries += [lambda c=c: getattr(o, c)([p()], eps=-1), lambda c=c: getattr(o, c)([p()], weight_decay=-1)]

    def stepped(c, **options):
        q = p(2, 2)
        q.grad = t.ones(2, 2)
        getattr(o, c)([q], **options).step()

    for c in ("Adam", "NAdam", "RAdam", "Adamax", "Adadelta", "RMSprop", "Rprop", "ASGD"):
        tries.append(lambda c=c: stepped(c, capturable=True))
    for c in ("Adafactor", "Muon"):
        z = p(2, 2, dtype=t.complex64)
        z.grad = t.ones(2, 2, dtype=t.complex64)
        tries.append(lambda c=c, z=z: getattr(o, c)([z]).step())
    return [complaint(f) for f in tries]


def test_complaints_are_the_same():
    for i, (mine, theirs) in enumerate(zip(mistakes(tocha), mistakes(torch), strict=True)):
        assert mine == theirs, i


def optimizer_names():
    return [n for n, c in vars(torch.optim).items() if inspect.isclass(c)]


@pytest.mark.parametrize("name", optimizer_names())
def test_signatures_and_texts(name):
    mine, theirs = getattr(tocha.optim, name), getattr(torch.optim, name)
    assert [(p.name, p.kind, p.default) for p in inspect.signature(mine).parameters.values()] == [
        (p.name, p.kind, p.default) for p in inspect.signature(theirs).parameters.values()
    ]
    if name == "Optimizer":
        return
    texts = []
    for t in (tocha, torch):
        optimizer = getattr(t.optim, name)([("w", t.nn.Parameter(t.ones(2, 2)))])
        texts.append((repr(optimizer), optimizer.state_dict()["param_groups"], list(optimizer.defaults.items())))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("module", ["adam", "adamw", "sgd", "adagrad", "adadelta", "adamax", "nadam", "radam", "rmsprop", "rprop", "asgd", "_adafactor", "_muon"])  # fmt: skip
def test_functional_forms_have_the_same_parameters(module):
    import importlib

    mine, theirs = (importlib.import_module(f"{t.__name__}.optim.{module}") for t in (tocha, torch))
    name = module.lstrip("_")
    signatures = [inspect.signature(getattr(m, name)) for m in (mine, theirs)]
    assert [(p.name, p.kind, p.default) for p in signatures[0].parameters.values()] == [
        (p.name, p.kind, p.default) for p in signatures[1].parameters.values()
    ]


def history(t):
    """The calls of all hooks around a step, saving and loading."""
    optimizer = t.optim.SGD([t.nn.Parameter(t.ones(2))], momentum=0.9)
    log = []

    def note(name, result=None):
        return lambda *a, **k: (log.append((name, len(a), [type(x).__name__ for x in a])), result)[1]

    whole = (
        t.optim.optimizer
        if hasattr(t.optim, "optimizer")
        else __import__(f"{t.__name__}.optim.optimizer", fromlist=["x"])
    )
    handles = [
        whole.register_optimizer_step_pre_hook(note("global pre")),
        whole.register_optimizer_step_post_hook(note("global post")),
    ]
    optimizer.register_step_pre_hook(note("pre"))
    optimizer.register_step_post_hook(note("post"))
    optimizer.register_state_dict_pre_hook(note("save pre"))
    optimizer.register_state_dict_post_hook(note("save post"))
    optimizer.register_state_dict_post_hook(note("save post first"), prepend=True)
    optimizer.register_load_state_dict_pre_hook(note("load pre"))
    optimizer.register_load_state_dict_post_hook(note("load post"))
    optimizer.step()
    optimizer.step(closure=lambda: 1.0)
    optimizer.load_state_dict(optimizer.state_dict())
    for h in handles:
        h.remove()
    optimizer.step()
    changed = t.optim.SGD([t.nn.Parameter(t.ones(2))])
    changed.register_step_pre_hook(lambda o, args, kwargs: (args, {"closure": lambda: 7}))
    log.append(changed.step())
    return log


def test_hooks_are_called_alike():
    assert history(tocha) == history(torch)


def test_pickled_and_copied_optimizers_go_on():
    for t in (tocha, torch):
        p = t.nn.Parameter(t.ones(3))
        p.grad = t.ones(3)
        optimizer = t.optim.Adam([p])
        optimizer.step()
        for other in (pickle.loads(pickle.dumps(optimizer)), copy.deepcopy(optimizer)):
            (q,) = other.param_groups[0]["params"]
            assert q is not p and sorted(vars(other))[:2] == sorted(vars(other))[:2]
            q.grad = t.ones(3)
            other.step()
            assert other.state[q]["step"].item() == 2
            assert repr(other) == repr(optimizer)


def scaled_training(t):
    """Losses, scales and parameters of a run with infinite gradients now and then."""
    p = t.nn.Parameter(t.tensor([1.0, -2.0]))
    optimizer = t.optim.SGD([p], lr=0.1)
    scaler = t.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    seen = []
    for step in range(9):
        optimizer.zero_grad()
        loss = (p * p).sum() * (float("inf") if step in (2, 5) else 1.0)
        scaler.scale(loss).backward()
        if step % 2:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        seen.append((scaler.get_scale(), p.tolist(), scaler.state_dict()))
    return seen


def test_gradient_scaling():
    assert scaled_training(tocha) == scaled_training(torch)


def scaler_mistakes(t):
    p = t.nn.Parameter(t.ones(2))
    optimizer = t.optim.SGD([p])
    new = lambda **o: t.amp.GradScaler("cpu", **o)  # noqa: E731
    used = new()
    used.scale(t.ones(1))

    def twice():
        scaler = new()
        scaler.scale((p * 2).sum()).backward()
        scaler.unscale_(optimizer)
        scaler.unscale_(optimizer)

    def after():
        scaler = new()
        scaler.scale((p * 2).sum()).backward()
        scaler.step(optimizer)
        scaler.step(optimizer)

    tries = [
        lambda: new().step(optimizer), lambda: new().update(), lambda: new().unscale_(optimizer), lambda: new().scale(3), lambda: used.step(optimizer),
        lambda: used.update(), lambda: used.update(t.ones(2)), lambda: new(growth_factor=1.0), lambda: new(backoff_factor=1.0), lambda: new().load_state_dict({}),
        lambda: new().step(optimizer, closure=lambda: 1), twice, after, lambda: t.amp.GradScaler("cuda"),
    ]  # fmt: skip
    return [complaint(f) for f in tries]


def test_complaints_of_the_scaler():
    for i, (mine, theirs) in enumerate(zip(scaler_mistakes(tocha), scaler_mistakes(torch), strict=True)):
        theirs = (theirs[0], [(c, m.replace("torch.", "tocha.")) for c, m in theirs[1]])
        assert mine == theirs, i
