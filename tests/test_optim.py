"""Optimizers: steps against their formulas in NumPy, state and groups, hooks, saving, and what a step must not touch."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import tocha
from tocha import optim
from tocha.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

# name, options, and the step in NumPy: f(parameter, gradient, step number, memory) -> parameter


def sgd(p, g, t, m, lr=0.1, mu=0.9, damp=0.2, wd=0.01):
    g = g + wd * p
    m["b"] = g if t == 1 else mu * m["b"] + (1 - damp) * g
    return p - lr * m["b"]


def nesterov(p, g, t, m, lr=0.1, mu=0.9):
    m["b"] = g if t == 1 else mu * m["b"] + g
    return p - lr * (g + mu * m["b"])


def moments(g, t, m, b1, b2):
    m["m"] = b1 * m.get("m", 0) + (1 - b1) * g
    m["v"] = b2 * m.get("v", 0) + (1 - b2) * g * g
    return m["m"] / (1 - b1**t), m["v"] / (1 - b2**t)


def adam(p, g, t, m, lr=0.1, b1=0.9, b2=0.99, eps=1e-8):
    first, second = moments(g, t, m, b1, b2)
    return p - lr * first / (np.sqrt(second) + eps)


def adamw(p, g, t, m, lr=0.1, wd=0.1):
    return adam(p * (1 - lr * wd), g, t, m, lr)


def amsgrad(p, g, t, m, lr=0.1, b1=0.9, b2=0.99, eps=1e-8):
    first, _ = moments(g, t, m, b1, b2)
    m["top"] = np.maximum(m.get("top", 0), m["v"])
    return p - lr * first / (np.sqrt(m["top"] / (1 - b2**t)) + eps)


def nadam(p, g, t, m, lr=0.1, b1=0.9, b2=0.99, eps=1e-8, psi=0.004):
    mu, after = (b1 * (1 - 0.5 * 0.96 ** (k * psi)) for k in (t, t + 1))
    m["mu"] = m.get("mu", 1) * mu
    _, second = moments(g, t, m, b1, b2)
    look = after * m["m"] / (1 - m["mu"] * after) + (1 - mu) * g / (1 - m["mu"])
    return p - lr * look / (np.sqrt(second) + eps)


def radam(p, g, t, m, lr=0.1, b1=0.9, b2=0.6, eps=1e-8):
    first, _ = moments(g, t, m, b1, b2)
    longest = 2 / (1 - b2) - 1
    length = longest - 2 * t * b2**t / (1 - b2**t)
    if length <= 5:
        return p - lr * first
    r = np.sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length))
    return p - lr * first * r * np.sqrt(1 - b2**t) / (np.sqrt(m["v"]) + eps)


def radam_long(p, g, t, m):
    return radam(p, g, t, m, b2=0.9)


def adamax(p, g, t, m, lr=0.1, b1=0.9, b2=0.99, eps=1e-8):
    m["m"] = b1 * m.get("m", 0) + (1 - b1) * g
    m["u"] = np.maximum(b2 * m.get("u", 0), np.abs(g) + eps)
    return p - lr / (1 - b1**t) * m["m"] / m["u"]


def adagrad(p, g, t, m, lr=0.1, decay=0.5, eps=1e-10):
    m["s"] = m.get("s", 0.3) + g * g
    return p - lr / (1 + (t - 1) * decay) * g / (np.sqrt(m["s"]) + eps)


def adadelta(p, g, t, m, lr=0.5, rho=0.9, eps=1e-6):
    m["v"] = rho * m.get("v", 0) + (1 - rho) * g * g
    step = np.sqrt(m.get("u", 0) + eps) / np.sqrt(m["v"] + eps) * g
    m["u"] = rho * m.get("u", 0) + (1 - rho) * step * step
    return p - lr * step


def rmsprop(p, g, t, m, lr=0.1, alpha=0.9, eps=1e-8, mu=0.5):
    m["v"] = alpha * m.get("v", 0) + (1 - alpha) * g * g
    m["a"] = alpha * m.get("a", 0) + (1 - alpha) * g
    m["b"] = mu * m.get("b", 0) + g / (np.sqrt(m["v"] - m["a"] ** 2) + eps)
    return p - lr * m["b"]


def rprop(p, g, t, m):
    turn = np.sign(g * m.get("g", 0))
    m["s"] = np.clip(m.get("s", 0.1) * np.where(turn > 0, 1.2, np.where(turn < 0, 0.5, 1)), 1e-6, 0.15)
    m["g"] = np.where(turn < 0, 0, g)
    return p - np.sign(m["g"]) * m["s"]


def asgd(p, g, t, m, lr=0.1, lambd=0.01, alpha=0.75, t0=2):
    eta = m.get("eta", lr)
    p = p * (1 - lambd * eta) - eta * g
    m["ax"] = p if m.get("mu", 1) == 1 else m["ax"] + m["mu"] * (p - m["ax"])
    m["eta"], m["mu"] = lr / (1 + lambd * lr * t) ** alpha, 1 / max(1, t - t0)
    return p


def adafactor(p, g, t, m, lr=0.1):
    p0, keep, eps1, eps2 = p, t**-0.8, np.finfo(np.float32).eps, 1e-3
    for axis in (0, 1):
        m[axis] = m.get(axis, 0) * (1 - keep) + keep * (g * g).mean(axis, keepdims=True)
    v = m[1] @ m[0] / max(m[1].mean(), eps1)
    u = g / np.sqrt(np.maximum(v, eps1**2))
    u = u / max(1, np.sqrt((u * u).mean()))
    return p - max(eps2, np.sqrt((p0 * p0).mean())) * min(lr, 1 / np.sqrt(t)) * u


STEPS = [
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.01}, sgd),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}, nesterov),
    (optim.Adam, {"lr": 0.1, "betas": (0.9, 0.99)}, adam),
    (optim.AdamW, {"lr": 0.1, "betas": (0.9, 0.99), "weight_decay": 0.1}, adamw),
    (optim.Adam, {"lr": 0.1, "betas": (0.9, 0.99), "amsgrad": True}, amsgrad),
    (optim.NAdam, {"lr": 0.1, "betas": (0.9, 0.99)}, nadam),
    (optim.RAdam, {"lr": 0.1, "betas": (0.9, 0.6)}, radam),
    (optim.RAdam, {"lr": 0.1, "betas": (0.9, 0.9)}, radam_long),
    (optim.Adamax, {"lr": 0.1, "betas": (0.9, 0.99)}, adamax),
    (optim.Adagrad, {"lr": 0.1, "lr_decay": 0.5, "initial_accumulator_value": 0.3}, adagrad),
    (optim.Adadelta, {"lr": 0.5}, adadelta),
    (optim.RMSprop, {"lr": 0.1, "alpha": 0.9, "centered": True, "momentum": 0.5}, rmsprop),
    (optim.Rprop, {"lr": 0.1, "step_sizes": (1e-6, 0.15)}, rprop),
    (optim.ASGD, {"lr": 0.1, "lambd": 0.01, "t0": 2}, asgd),
    (optim.Adafactor, {"lr": 0.1}, adafactor),
]
FIRST = {cls: options for cls, options, _ in reversed(STEPS)}


def parameter(shape=(3, 4), seed=0, dtype=tocha.float32):
    return tocha.nn.Parameter(tocha.tensor(np.random.default_rng(seed).standard_normal(shape)).to(dtype))


def give_gradient(p, seed):
    p.grad = tocha.tensor(np.random.default_rng(100 + seed).standard_normal(tuple(p.shape))).to(p.dtype)


def names(case):
    return getattr(case, "__name__", None)


@pytest.mark.parametrize(("cls", "options", "formula"), STEPS, ids=names)
@pytest.mark.parametrize("maximize", [False, True], ids=["down", "up"])
def test_ten_steps(cls, options, formula, maximize):
    p = parameter()
    optimizer = cls([p], maximize=maximize, **options)
    want, memory = p.detach().double().numpy(), {}
    for t in range(1, 11):
        give_gradient(p, t)
        g = p.grad.double().numpy() * (-1 if maximize else 1)
        optimizer.step()
        want = formula(want, g, t, memory)
        np.testing.assert_allclose(p.detach().numpy(), want, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("cls", FIRST, ids=names)
def test_layouts_dtypes_and_sizes_agree(cls):
    """Parameters that lie otherwise in memory, or are many, take the same steps as plain ones."""
    shapes = [(300, 200), (7, 3), (5,)]
    plain = [parameter(s, i) for i, s in enumerate(shapes) if cls is not optim.Adafactor or len(s) > 1]
    odd = []
    for i, p in enumerate(plain):
        base = tocha.zeros(*p.shape[:-1], p.shape[-1] * 2)[..., ::2] if i else p.detach().t().contiguous().t()
        base = base.clone() if i == 0 else base
        odd.append(tocha.nn.Parameter(base))
        with tocha.no_grad():
            odd[-1].copy_(p)
    wide = [tocha.nn.Parameter(p.detach().double()) for p in plain]
    for params in (plain, odd, wide):
        optimizer = cls(params, **FIRST[cls])
        for t in range(3):
            for p in params:
                give_gradient(p, t)
            optimizer.step()
    assert not odd[1].is_contiguous()
    for a, b, c in zip(plain, odd, wide, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(a.detach().numpy(), c.detach().numpy(), rtol=2e-3, atol=2e-5)


def test_parameters_without_gradients_rest():
    a, b = parameter(), parameter(seed=1)
    before = b.detach().clone()
    optimizer = optim.Adam([a, b])
    give_gradient(a, 0)
    optimizer.step()
    assert (b == before).all() and b not in optimizer.state
    give_gradient(b, 0)
    optimizer.step()
    assert [optimizer.state[p]["step"].item() for p in (a, b)] == [2, 1]
    a.grad = b.grad = None
    optimizer.step()
    assert [optimizer.state[p]["step"].item() for p in (a, b)] == [2, 1]


def test_late_parameters_are_corrected_by_their_own_count():
    """Two counts in one group: each parameter steps as if it were alone."""
    a, b = parameter(), parameter()
    together = optim.Adam([a, b], lr=0.1)
    c = parameter()
    alone = optim.Adam([c], lr=0.1)
    for t in range(4):
        give_gradient(a, t)
        if t >= 2:
            give_gradient(b, t)
            give_gradient(c, t)
            alone.step()
        together.step()
    np.testing.assert_array_equal(b.detach().numpy(), c.detach().numpy())


def test_options_and_states_may_be_changed_between_steps():
    p = parameter()
    optimizer = optim.SGD([p], lr=1.0, momentum=0.5)
    p.grad = tocha.ones(3, 4)
    optimizer.step()
    optimizer.state[p]["momentum_buffer"] = tocha.zeros(3, 4)
    optimizer.param_groups[0]["lr"] = 2.0
    before = p.detach().clone()
    optimizer.step()
    np.testing.assert_allclose(p.detach().numpy(), before.numpy() - 2.0, rtol=1e-6)
    optimizer.param_groups[0]["momentum"] = 0
    optimizer.step()
    np.testing.assert_allclose(p.detach().numpy(), before.numpy() - 4.0, rtol=1e-6)
    p.data = tocha.zeros(3, 4)
    optimizer.step()
    assert (p == -2).all()


def test_groups_have_options_of_their_own():
    a, b = parameter(), parameter()
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 0.0}], lr=0.5)
    for p in (a, b):
        p.grad = tocha.ones(3, 4)
    start = b.detach().clone()
    optimizer.step()
    np.testing.assert_allclose(a.detach().numpy(), start.numpy() - 0.5, rtol=1e-6)
    assert (b == start).all()
    c = parameter()
    optimizer.add_param_group({"params": [c], "weight_decay": 3})
    assert [g["weight_decay"] for g in optimizer.param_groups] == [0, 0, 3]


def test_a_step_is_not_recorded_and_moves_the_version():
    p = parameter()
    loss = (p * p).sum()
    optimizer = optim.SGD([p], lr=0.1)
    p.grad = tocha.ones(3, 4)
    optimizer.step()
    assert p.is_leaf and p.grad_fn is None
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_closures_run_with_gradients():
    p = parameter()
    optimizer = optim.Adam([p], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True)


def test_complex_parameters_step_as_pairs():
    rng = np.random.default_rng(0)
    z0, g = (rng.standard_normal(4) + 1j * rng.standard_normal(4) for _ in range(2))
    z = tocha.nn.Parameter(tocha.tensor(z0))
    pair = tocha.nn.Parameter(tocha.tensor(np.stack([z0.real, z0.imag], -1)))
    z.grad, pair.grad = tocha.tensor(g), tocha.tensor(np.stack([g.real, g.imag], -1))
    for p in (z, pair):
        optimizer = optim.Adam([p], lr=0.1)
        optimizer.step()
        optimizer.step()
    np.testing.assert_array_equal(tocha.view_as_real(z).detach().numpy(), pair.detach().numpy())


def test_an_infinite_parameter_without_decay_stays_infinite():
    p = tocha.nn.Parameter(tocha.tensor([float("inf"), 1.0]))
    p.grad = tocha.ones(2)
    optim.SGD([p], lr=0.5).step()
    assert p.tolist() == [float("inf"), 0.5]


def test_zero_grad():
    p = parameter()
    p.grad = tocha.ones(3, 4)
    kept = p.grad
    optimizer = optim.SGD([p])
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is kept and (kept == 0).all()
    optimizer.zero_grad()
    assert p.grad is None


def test_tensor_rates():
    a, b = parameter(), parameter()
    for p, lr in ((a, 0.1), (b, tocha.tensor(0.1, dtype=tocha.float64))):
        give_gradient(p, 0)
        optim.Adam([p], lr=lr).step()
    assert (a == b).all()


@pytest.mark.parametrize("cls", FIRST, ids=names)
def test_saved_copied_and_pickled_optimizers_go_on(cls):
    p = parameter()
    optimizer = cls([p], **FIRST[cls])
    for t in range(3):
        give_gradient(p, t)
        optimizer.step()
    q = tocha.nn.Parameter(p.detach().clone())
    loaded = cls([q], **FIRST[cls])
    loaded.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))
    others = [loaded, copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))]
    for o in (optimizer, *others):
        (r,) = o.param_groups[0]["params"]
        give_gradient(r, 5)
        o.step()
    for o in others:
        assert (o.param_groups[0]["params"][0] == p).all()
        assert o.state_dict()["param_groups"] == optimizer.state_dict()["param_groups"]


def test_loaded_states_fit_their_parameters():
    p, q = parameter(), parameter(dtype=tocha.float64)
    give_gradient(p, 0)
    a, b = optim.Adam([p]), optim.Adam([q])
    a.step()
    b.load_state_dict(a.state_dict())
    state = b.state[q]
    assert (state["exp_avg"].dtype, state["step"].dtype) == (tocha.float64, tocha.float32)
    saved = a.state_dict()
    saved["state"][0]["step"] = 5
    b.load_state_dict(saved)
    assert b.state[q]["step"].item() == 5 and isinstance(b.state[q]["step"], tocha.Tensor)


def test_named_parameters():
    optimizer = optim.SGD([("weight", parameter()), ("bias", parameter())])
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    with pytest.raises(ValueError, match="without names"):
        optimizer.add_param_group({"params": [parameter()]})


def test_hooks():
    p = parameter()
    optimizer, log = optim.SGD([p]), []
    everywhere = register_optimizer_step_pre_hook(lambda *a: log.append("all before"))
    after = register_optimizer_step_post_hook(lambda *a: log.append("all after"))
    with optimizer.register_step_pre_hook(lambda o, args, kwargs: log.append(o is optimizer)):
        optimizer.step()
    optimizer.register_step_post_hook(lambda *a: log.append("after"))
    everywhere.remove()
    optimizer.step()
    after.remove()
    assert log == ["all before", True, "all after", "after", "all after"]


def test_own_optimizers_have_hooks_too():
    class Zero(optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {})

        @tocha.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.zero_()

    p, log = parameter(), []
    optimizer = Zero([p])
    optimizer.register_step_post_hook(lambda *a: log.append(1))
    optimizer.step()
    assert log == [1] and (p == 0).all()


def test_differentiable_steps():
    lr = tocha.tensor(0.1, requires_grad=True)
    p = tocha.tensor([1.0, -2.0], requires_grad=True).clone()
    optimizer = optim.SGD([p], lr=lr, differentiable=True)
    p.grad = tocha.tensor([3.0, 4.0])
    optimizer.step()
    p.sum().backward()
    assert lr.grad.item() == -7
    leaf = parameter()
    give_gradient(leaf, 0)
    with pytest.raises(RuntimeError, match="leaf"):
        optim.SGD([leaf], differentiable=True).step()


def test_lbfgs_finds_the_valley():
    x = tocha.nn.Parameter(tocha.tensor([-1.2, 1.0], dtype=tocha.float64))
    optimizer = optim.LBFGS([x], max_iter=100, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(x.detach().numpy(), [1, 1], atol=1e-3)
    with pytest.raises(RuntimeError, match="strong_wolfe"):
        wrong = optim.LBFGS([x], line_search_fn="armijo", tolerance_grad=0, tolerance_change=-1)
        wrong.step(closure)


def test_muon_makes_directions_orthogonal():
    p = tocha.nn.Parameter(tocha.zeros(4, 6))
    give_gradient(p, 0)
    optim.Muon([p], lr=1.0, weight_decay=0.0).step()
    singular = np.linalg.svd(p.detach().numpy(), compute_uv=False)
    assert (np.abs(singular - 1) < 0.4).all()


def test_another_optimizer_for_a_while():
    p, other = parameter(), tocha.nn.Parameter(tocha.zeros(3, 4))
    optimizer = optim.SGD([p], lr=1.0, momentum=0.5)
    p.grad = other.grad = tocha.ones(3, 4)
    optimizer.step()
    before, state = p.detach().clone(), copy.deepcopy(optimizer.state_dict())
    with optim.swap_in_optimizer_params_and_state(optimizer, {"w": other}, state):
        optimizer.step()
    assert (p == before).all()
    np.testing.assert_allclose(other.detach().numpy(), np.full((3, 4), -1.5))
    assert (optimizer.state[p]["momentum_buffer"] == 1).all() and (state["state"][0]["momentum_buffer"] == 1.5).all()


def test_scaling_leaves_bad_steps_out():
    p = tocha.nn.Parameter(tocha.tensor([1.0]))
    for options in ({}, {"fused": True}):
        optimizer = optim.Adam([p], lr=0.1, **options)
        scaler = tocha.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)
        before = p.item()
        p.grad = tocha.tensor([float("nan")])
        scaler.scale(p.sum())
        scaler.step(optimizer)
        scaler.update()
        assert (p.item(), scaler.get_scale(), len(optimizer.state.get(p, {}).get("exp_avg", [0]))) == (before, 2.0, 1)
        p.grad = tocha.tensor([2.0])
        scaler.scale(p.sum())
        scaler.step(optimizer)
        scaler.update()
        np.testing.assert_allclose(p.item(), before - 0.1, rtol=1e-5)
        assert scaler.get_scale() == 4.0 and p.grad.item() == 1.0
    assert tocha.amp.GradScaler("cpu", enabled=False).scale(3) == 3


def test_sparse_adam_refuses_dense_gradients():
    p = parameter()
    give_gradient(p, 0)
    with pytest.raises(RuntimeError, match="dense gradients"):
        optim.SparseAdam([p]).step()


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: optim.SGD([]), "empty parameter list"),
        (lambda: optim.SGD([parameter() * 2]), "non-leaf"),
        (lambda: optim.SGD([parameter()], lr=-1), "Invalid learning rate: -1"),
        (lambda: optim.Adam([parameter()], betas=(0.9, 1.0)), "Invalid beta parameter at index 1: 1.0"),
        (lambda: optim.SGD([parameter()], nesterov=True), "Nesterov momentum requires"),
        (lambda: optim.Muon([parameter((3,))]), "only supports 2D"),
    ],
)
def test_refusals(make, error):
    with pytest.raises(ValueError, match=error):
        make()
