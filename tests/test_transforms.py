"""tocha.func: vmap, grad, vjp, jvp and their compositions; what must be refused, and what must not leak."""

from __future__ import annotations

import typing
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tocha
import tocha.nn.functional as F
from tocha import nn
from tocha._functorch.levels import depth
from tocha.autograd import functional, gradcheck
from tocha.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)


def close(a, b, tolerance=1e-5):
    assert tuple(a.shape) == tuple(b.shape)
    assert bool(tocha.isclose(a, b, rtol=tolerance, atol=tolerance).all()), f"{a} for {b}"


@pytest.fixture(autouse=True)
def no_level_is_left():
    tocha.manual_seed(0)
    yield
    assert depth() == 0


# ---- levels ------------------------------------------------------------------------------------------


def test_derivatives_of_derivatives():
    x = tocha.tensor(0.7, dtype=tocha.float64)
    close(grad(grad(grad(tocha.sin)))(x), -x.cos())
    close(jvp(lambda y: jvp(tocha.sin, (y,), (tocha.ones_like(y),))[1], (x,), (tocha.ones_like(x),))[1], -x.sin())
    close(jvp(grad(tocha.sin), (x,), (tocha.ones_like(x),))[1], -x.sin())
    close(grad(lambda y: jvp(tocha.sin, (y,), (tocha.ones_like(y),))[1])(x), -x.sin())


def test_perturbations_are_not_confused():
    """d/dx (x * d/dy (x + y)) is 1, whatever kind of derivative is inside which."""
    one = tocha.tensor(1.0)

    def forward(f, x):
        return jvp(f, (x,), (one,))[1]

    def reverse(f, x):
        return grad(f)(x)

    for outer in (forward, reverse):
        for inner in (forward, reverse):
            close(outer(lambda x, inner=inner: x * inner(lambda y, x=x: x + y, one), one), one)
            # What is computed of the outer variable alone inside the inner level is still tracked outside.
            close(
                outer(lambda x, inner=inner: inner(lambda y, x=x: y * (x * x), one), tocha.tensor(3.0)),
                tocha.tensor(6.0),
            )


def test_captured_variables_are_differentiated_outside():
    w = tocha.tensor([2.0, 3.0], requires_grad=True)
    x = tocha.tensor([1.5, 0.5])
    g = grad(lambda y: (w**y).sum())(x)
    g.sum().backward()
    expected = (x.pow(1) * w.detach() ** (x - 1) * w.detach().log() + w.detach() ** (x - 1)).detach()
    close(w.grad, expected)
    w.grad = None
    vmap(lambda y: (y * w).sum())(tocha.ones(4, 2)).sum().backward()
    close(w.grad, tocha.tensor([4.0, 4.0]))


def test_grad_mode():
    x = tocha.tensor(3.0)

    def half(y):
        with tocha.no_grad():
            c = y * y
        return y - c

    close(grad(half)(x), tocha.tensor(1.0))
    close(grad(lambda y: grad_and_value(half)(y)[1])(x), tocha.tensor(1.0))
    w = tocha.tensor(2.0, requires_grad=True)
    with tocha.no_grad():
        assert not grad(lambda y: y * w)(x).requires_grad
        assert not vmap(lambda y: y * w)(tocha.ones(2)).requires_grad
    assert grad(lambda y: y * w)(x).requires_grad


def test_levels_end_with_exceptions():
    def broken(x):
        raise KeyError("here")

    for f in (
        vmap(broken),
        grad(broken),
        lambda x: jvp(broken, (x,), (x,)),
        vmap(grad(broken)),
        jacrev(broken),
        jacfwd(broken),
    ):
        with pytest.raises(KeyError):
            f(tocha.ones(2))
        assert depth() == 0
    close(tocha.ones(2) + 1, tocha.full((2,), 2.0))


def test_writes_and_views_inside():
    def f(x):
        y = x.clone()
        y[0] = y[0] * 2
        y.view(-1)[1:].mul_(3)
        return (y * y).sum()

    x = tocha.randn(5, 4)
    loop = tocha.stack([grad(f)(r) for r in x])
    scale = tocha.tensor([4.0, 9.0, 9.0, 9.0]) * 2
    close(loop, x * scale)
    close(vmap(grad(f))(x), x * scale)
    close(grad(lambda z: vmap(f)(z).sum())(x), x * scale)
    out = tocha.func.grad(lambda z: made_inside(z))(tocha.tensor(2.0))
    close(out, tocha.tensor(4.0))


def made_inside(z):
    out = tocha.zeros(3)
    out[1] = z * z
    return out.sum()


def test_hooks_inside_grad():
    close(grad(lambda y: (y.register_hook(lambda g: g * 2), y.sum())[1])(tocha.ones(3)), tocha.full((3,), 2.0))
    hooks = tocha.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    with hooks, pytest.raises(RuntimeError, match="don't yet support saved tensor hooks"):
        grad(lambda y: y.sin().sum())(tocha.ones(3))


# ---- vmap --------------------------------------------------------------------------------------------


def test_in_and_out_dims():
    x, y = tocha.randn(3, 5), tocha.randn(5, 2)
    close(vmap(lambda a, b: a.sum() * b, in_dims=(1, 0))(x, y), x.sum(0)[:, None] * y)
    close(vmap(lambda a: a, in_dims=-1, out_dims=1)(x), x)
    close(vmap(lambda a: a, in_dims=1, out_dims=-1)(x), x)
    nested = vmap(lambda d, n: {"out": d["a"] + n[0]}, in_dims=({"a": 0}, [None]))({"a": y}, [tocha.ones(2)])
    close(nested["out"], y + 1)
    close(vmap(vmap(lambda a: a * 2), in_dims=1, out_dims=1)(x), x * 2)
    both = vmap(lambda a: (a, a.sum()), out_dims=(1, 0))(y)
    close(both[0], y.t())
    assert vmap(lambda a: tocha.ones(3))(y).shape == (5, 3)
    close(vmap(lambda a: a.cos(), chunk_size=2)(y), y.cos())


def test_each_sample_has_an_index_of_its_own():
    x, i = tocha.randn(3, 4, 2), tocha.tensor([2, 0, 3])
    rows = vmap(lambda row, k: row[k])(x, i)
    assert tocha.equal(rows, tocha.stack([x[n, k] for n, k in enumerate(i.tolist())]))
    assert tocha.equal(vmap(lambda k: x[1, k, 1])(i), x[1, i, 1])
    grads = vmap(grad(lambda row, k: row[k].sum()))(x, i)
    assert tocha.equal(grads.sum((1, 2)), tocha.full((3,), 2.0)) and grads[1, 0].sum() == 2

    def written(row, k):
        out = row.clone()
        out[k] = 0.0
        return out

    assert tocha.equal(vmap(written)(x, i)[2, 3], tocha.zeros(2))


def test_promotion_is_that_of_a_sample():
    ints, doubles = tocha.arange(3), tocha.arange(3, dtype=tocha.float64)
    assert vmap(lambda a, b: a + b)(tocha.ones(3), doubles).dtype == tocha.float64  # both 0-d
    assert vmap(lambda a, b: a + b)(tocha.ones(3, 2), doubles).dtype == tocha.float32  # 1-d and 0-d
    assert vmap(lambda a, b: a * b)(ints, tocha.ones(3, 2, dtype=tocha.float16)).dtype == tocha.float16


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_randomness(randomness):
    x = tocha.zeros(4, 3)
    for f in (
        lambda a: a + tocha.randn(3),
        lambda a: F.dropout(a + 1),
        lambda a: tocha.bernoulli(a + 0.5),
        lambda a: tocha.rand_like(a),
    ):
        rows = vmap(f, randomness=randomness)(x)
        alike = bool((rows == rows[0]).all())
        assert alike == (randomness == "same")
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(lambda a: a + tocha.randn(3))(x)


REFUSED = [
    (lambda x: vmap(lambda a: a.item())(x[0]), RuntimeError, "calling .item() on a Tensor"),
    (lambda x: vmap(lambda a: a if a > 0 else -a)(x[0]), RuntimeError, "data-dependent control flow"),
    (lambda x: vmap(lambda a: a.nonzero())(x), RuntimeError, "can output dynamic shape. Attempted to vmap over aten::nonzero"),
    (lambda x: vmap(lambda a: a[a > 0])(x), RuntimeError, "Attempting to batch over indexing with a boolean mask"),
    (lambda x: vmap(lambda a: tocha.zeros(3).add_(a))(x), RuntimeError, "vmap: inplace arithmetic(self, *extra_args) is not possible"),
    (lambda x: vmap(lambda a, b: a)(x, x[:1]), ValueError, "got sizes [2, 1] for the mapped dimension"),
    (lambda x: vmap(lambda a, b: a, in_dims=(0,))(x, x), ValueError, "in_dims is not compatible with the structure of `inputs`"),
    (lambda x: vmap(lambda a: a, in_dims=3)(x), ValueError, "expected in_dim to satisfy -2 <= in_dim < 2"),
    (lambda x: vmap(lambda a: 1.0)(x), ValueError, "must only return Tensors, got type <class 'float'>"),
    (lambda x: vmap(lambda a: a, randomness="some")(x), RuntimeError, "Only allowed values for randomness"),
    (lambda x: grad(lambda a: a)(x), RuntimeError, "to return a scalar Tensor, got tensor with 2 dims"),
    (lambda x: grad(lambda a: a.sum(), argnums=1)(x), RuntimeError, "Got argnum=1, but only 1 positional inputs"),
    (lambda x: grad(lambda a: a.sum())(tocha.arange(3)), RuntimeError, "only Tensors of floating point dtype can require gradients"),
    (lambda x: grad(lambda a: (a.sum().backward(), a.sum())[1])(x), RuntimeError, "backward() called inside a functorch transform"),
    (lambda x: grad(lambda a: a.requires_grad_().sum())(x), RuntimeError, "attempting to call Tensor.requires_grad_()"),
    (lambda x: grad(lambda a: x.mul_(a).sum())(x.clone()), RuntimeError, "would mutate a captured Tensor"),
    (lambda x: jvp(lambda a: a, (x,), (x[0],)), RuntimeError, "forward gradient that has a different size"),
    (lambda x: jvp(lambda a: a, x, x), RuntimeError, "Expected primals to be a tuple"),
    (lambda x: vjp(lambda a: (a, a), x)[1](x), RuntimeError, "Expected pytree structure of cotangents"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "phrase"), REFUSED, ids=[r[2][:40] for r in REFUSED])
def test_refused_in_pytorchs_words(call, kind, phrase):
    with pytest.raises(kind) as caught:
        call(tocha.randn(2, 3))
    assert phrase in str(caught.value)


def test_the_loop_warns_once_and_names_the_operator():
    from tocha._functorch.batching import Loops

    Loops.warned.discard("histc")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = vmap(lambda a: tocha.histc(a, 3, 0, 1))(tocha.rand(2, 5))
        vmap(lambda a: tocha.histc(a, 3, 0, 1))(tocha.rand(2, 5))
    assert found.shape == (2, 3)
    assert [str(w.message)[:90] for w in seen if "histc" in str(w.message)] == [
        "There is a performance drop because we have not yet implemented the batching rule for aten::histc"[:90]
    ]


def test_what_is_printed_inside():
    seen = []
    vmap(grad(lambda a: (seen.append(repr(a)), a.sum())[1]))(tocha.zeros(1, 2))
    assert seen == [
        "GradTrackingTensor(lvl=2, value=\n    BatchedTensor(lvl=1, bdim=0, value=\n        tensor([[0., 0.]])\n    )\n)"
    ]


# ---- random nesting ----------------------------------------------------------------------------------

FUNCTIONS = {
    "sin": (lambda x: x.sin(), lambda x, n: [x.sin(), x.cos(), -x.sin(), -x.cos()][n % 4]),
    "exp": (lambda x: (2 * x).exp(), lambda x, n: 2**n * (2 * x).exp()),
    "cube": (
        lambda x: x * x * x,
        lambda x, n: [x**3, 3 * x**2, 6 * x, tocha.full_like(x, 6.0), tocha.zeros_like(x)][min(n, 4)],
    ),
}


def derived(kind, f):
    """(a transformed f, how many derivatives that is)"""
    if kind == "grad":
        return lambda x: grad(f)(x), 1
    if kind == "vjp":
        return lambda x: vjp(f, x)[1](tocha.ones_like(x))[0], 1
    if kind == "jvp":
        return lambda x: jvp(f, (x,), (tocha.ones_like(x),))[1], 1
    if kind == "linearize":
        return lambda x: linearize(f, x)[1](tocha.ones_like(x)), 1
    if kind == "jacrev":
        return lambda x: jacrev(f)(x), 1
    if kind == "jacfwd":
        return lambda x: jacfwd(f)(x), 1
    return lambda x: vmap(f)(tocha.stack([x, 2 * x, -x]))[0], 0


KINDS = ["grad", "vjp", "jvp", "linearize", "jacrev", "jacfwd", "vmap"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4), st.sampled_from(sorted(FUNCTIONS)), st.booleans())
def test_nesting_of_depth_four(kinds, name, outside):
    f, expected = FUNCTIONS[name]
    order = 0
    for kind in kinds:
        f, n = derived(kind, f)
        order += n
    x = tocha.tensor([0.3, -0.8], dtype=tocha.float64, requires_grad=outside)
    found = vmap(f)(x)
    close(found, expected(x.detach(), order), 1e-9)
    if outside and found.requires_grad:
        (g,) = tocha.autograd.grad(found.sum(), x)
        close(g, expected(x.detach(), order + 1), 1e-9)
    assert depth() == 0


# ---- documented uses ---------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 6, 3)
        self.fc = nn.Linear(6 * 2 * 2, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return F.log_softmax(self.fc(x.flatten(1)), 1)


def sample_loss(net):
    def loss(parameters, x, target):
        out = functional_call(net, parameters, (x.unsqueeze(0),))
        return F.nll_loss(out, target.unsqueeze(0))

    return loss


def test_per_sample_gradients_of_a_convolutional_network():
    net, x, target = Net(), tocha.randn(7, 1, 14, 14), tocha.randint(0, 5, (7,))
    parameters = {k: v.detach() for k, v in net.named_parameters()}
    found = vmap(grad(sample_loss(net)), in_dims=(None, 0, 0))(parameters, x, target)
    for i in range(7):
        F.nll_loss(net(x[i : i + 1]), target[i : i + 1]).backward()
        for name, p in net.named_parameters():
            close(found[name][i], p.grad, 1e-4)
            p.grad = None


def test_ensembles():
    models = [nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)) for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    base = models[0]

    def run(p, b, x):
        return functional_call(base, (p, b), (x,))

    x = tocha.randn(5, 4)
    close(vmap(run, in_dims=(0, 0, None))(parameters, buffers, x), tocha.stack([m(x) for m in models]))
    each = tocha.randn(3, 5, 4)
    found = vmap(run)(parameters, buffers, each)
    close(found, tocha.stack([m(e) for m, e in zip(models, each, strict=True)]))
    found.sum().backward()
    assert all(p.grad is not None for p in parameters.values())


def test_jacobians_and_hessians_of_an_mlp():
    w, v = tocha.randn(6, 4, dtype=tocha.float64), tocha.randn(3, 6, dtype=tocha.float64)
    x = tocha.randn(4, dtype=tocha.float64)

    def f(x):
        return v @ (w @ x).tanh()

    inner = 1 - (w @ x).tanh() ** 2
    expected = v @ (inner[:, None] * w)
    for found in (jacrev(f)(x), jacfwd(f)(x), jacrev(f, chunk_size=2)(x), functional.jacobian(f, x, vectorize=True)):
        close(found, expected)
    batch = tocha.randn(5, 4, dtype=tocha.float64)
    close(vmap(jacrev(f))(batch), tocha.stack([jacrev(f)(b) for b in batch]))

    def loss(x):
        return (f(x) ** 2).sum()

    expected = functional.hessian(loss, x)
    for found in (hessian(loss)(x), jacrev(jacrev(loss))(x), jacfwd(jacfwd(loss))(x), jacrev(jacfwd(loss))(x)):
        close(found, expected)
    t = tocha.randn(4, dtype=tocha.float64)
    close(jvp(grad(loss), (x,), (t,))[1], expected @ t)
    close(vjp(grad(loss), x)[1](t)[0], expected @ t)


def test_neural_tangent_kernels():
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    parameters = {k: v.detach() for k, v in net.named_parameters()}
    x1, x2 = tocha.randn(4, 3), tocha.randn(3, 3)

    def f(p, x):
        return functional_call(net, p, (x,))

    def jacobians(x):
        rows = vmap(jacrev(f), (None, 0))(parameters, x)
        return tocha.cat([j.flatten(2) for j in rows.values()], 2)

    contracted = tocha.einsum("Naf,Mbf->NMab", jacobians(x1), jacobians(x2))

    def products(a, b):
        def column(v):
            back = vjp(lambda p: f(p, b), parameters)[1](v)[0]
            return jvp(lambda p: f(p, a), (parameters,), (back,))[1]

        return vmap(column, out_dims=1)(tocha.eye(2))

    close(vmap(vmap(products, (None, 0)), (0, None))(x1, x2), contracted, 1e-4)


def test_maml_with_second_derivatives():
    def inner(w, task):
        return ((w * task).sin().sum() - 1) ** 2

    def adapted(w, task):
        return inner(w - 0.1 * grad(inner)(w, task), task)

    w, tasks = tocha.randn(3, dtype=tocha.float64), tocha.randn(4, 3, dtype=tocha.float64)
    found = grad(lambda w: vmap(adapted, (None, 0))(w, tasks).mean())(w)
    leaf = w.clone().requires_grad_()
    total = 0
    for task in tasks:
        (g,) = tocha.autograd.grad(inner(leaf, task), leaf, create_graph=True)
        total = total + inner(leaf - 0.1 * g, task) / 4
    close(found, tocha.autograd.grad(total, leaf)[0])


def test_batched_gradients_of_autograd():
    x = tocha.randn(3, dtype=tocha.float64, requires_grad=True)
    y = x.sin() * x.sum()
    (rows,) = tocha.autograd.grad(y, x, tocha.eye(3, dtype=tocha.float64), is_grads_batched=True)
    close(rows, jacrev(lambda x: x.sin() * x.sum())(x.detach()))
    assert not rows.requires_grad
    assert gradcheck(tocha.tanh, (x,), check_batched_grad=True, check_forward_ad=True, check_batched_forward_grad=True)


# ---- functions with derivatives of their own ---------------------------------------------------------


class Cube(tocha.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**3, x**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad, grad_square):
        (x,) = ctx.saved_tensors
        return grad * 3 * x**2 + grad_square * 2 * x

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_for_forward
        return 3 * x**2 * t, 2 * x * t


class Own(Cube):
    generate_vmap_rule = False
    seen: typing.ClassVar[list] = []

    @staticmethod
    def vmap(info, in_dims, x):
        Own.seen.append((info.batch_size, info.randomness, in_dims))
        return Own.apply(x), (in_dims[0], in_dims[0])


@pytest.mark.parametrize("function", [Cube, Own])
def test_functions_with_their_own_derivatives(function):
    x = tocha.randn(4, 3, dtype=tocha.float64)

    def f(x):
        cube, square = function.apply(x)
        return (cube + square).sum()

    expected = 3 * x**2 + 2 * x
    close(vmap(grad(f))(x), expected)
    close(grad(lambda x: vmap(f, in_dims=1)(x).sum())(x), expected)
    close(grad(lambda x: grad(f)(x).sum())(x), 6 * x + 2)
    close(vmap(jacrev(lambda x: function.apply(x)[0]))(x[:, :1])[:, 0, 0], 3 * x[:, 0] ** 2)
    if function is Own:
        assert (4, "error", (0,)) in Own.seen
    else:
        close(jvp(lambda x: function.apply(x)[0], (x,), (x,))[1], 3 * x**3)
        close(vmap(lambda x: jvp(lambda x: function.apply(x)[1], (x,), (x,))[1])(x), 2 * x**2)


def test_custom_operators_with_rules_for_batches():
    op = tocha.library.custom_op("transforms::twice", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_autograd(lambda ctx, g: g * 2)
    calls = []

    @op.register_vmap
    def rule(info, in_dims, x):
        calls.append((info.batch_size, in_dims))
        return op(x), in_dims[0]

    x = tocha.randn(3, 2)
    close(vmap(lambda a: op(a))(x), x * 2)
    close(vmap(grad(lambda a: op(a).sum()))(x), tocha.full((3, 2), 2.0))
    close(grad(lambda a: vmap(op, in_dims=1)(a).sum())(x), tocha.full((3, 2), 2.0))
    assert calls[0] == (3, (0,))


@pytest.mark.parametrize("loss", ["cross_entropy", "attention", "norm"])
def test_gradients_inside_are_differentiated_outside(loss):
    functions = {
        "cross_entropy": lambda w: nn.functional.cross_entropy(w, tocha.tensor([0, 2, 1])),
        "attention": lambda w: nn.functional.scaled_dot_product_attention(w[None], w[None], w[None]).square().sum(),
        "norm": lambda w: w.norm(),
    }
    f = functions[loss]
    w, same = (tocha.arange(9.0).reshape(3, 3).sin().requires_grad_() for _ in range(2))
    weights = tocha.arange(9.0).reshape(3, 3)
    (tocha.func.grad(f)(w) * weights).sum().backward()
    (gradient,) = tocha.autograd.grad(f(same), same, create_graph=True)
    (gradient * weights).sum().backward()
    tocha.testing.assert_close(w.grad, same.grad)
