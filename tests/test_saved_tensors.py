"""What a node keeps for its backward, and what becomes of it: hooks, copies, histories, tangents, lifetimes."""

from __future__ import annotations

import gc
import weakref
from contextlib import nullcontext

import pytest

import tocha
from tocha import autograd
from tocha.autograd import forward_ad
from tocha.autograd.graph import allow_mutation_on_saved_tensors, save_on_cpu, saved_tensors_hooks
from tocha.utils.checkpoint import checkpoint


def leaf(*values: float) -> tocha.Tensor:
    return tocha.tensor(values or (0.3, 0.7), dtype=tocha.float64, requires_grad=True)


def identity() -> saved_tensors_hooks:
    return saved_tensors_hooks(lambda t: t, lambda t: t)


def second(f, x: tocha.Tensor) -> list:
    (g,) = autograd.grad(f(x).sum(), x, create_graph=True)
    return autograd.grad(g.sum(), x)[0].tolist()


def noted():
    """Hooks, and what they saw."""
    seen = []
    return seen, saved_tensors_hooks(lambda t: seen.append(t) or t.detach(), lambda t: t)


# -- the history of a value that was packed ------------------------------------------------------------


@pytest.mark.parametrize("context", [identity, save_on_cpu, allow_mutation_on_saved_tensors], ids=lambda f: f.__name__)
def test_second_derivatives_under_hooks(context):
    x = leaf()
    expected = second(lambda x: (x * 2).sin().exp(), x)
    with context():
        assert second(lambda x: (x * 2).sin().exp(), x) == expected


def test_second_derivatives_of_weights_behind_a_checkpoint():
    x, w = leaf(), leaf(1.5, -0.5)

    def penalty(run):
        (g,) = autograd.grad(run(x).sum(), x, create_graph=True)
        return autograd.grad((g * g).sum(), [x, w])

    def layer(x):
        return (x * w).tanh() * w

    for a, b in zip(penalty(lambda x: checkpoint(layer, x, use_reentrant=False)), penalty(layer), strict=True):
        assert a.tolist() == b.tolist()


def test_second_derivative_of_what_was_mutated():
    with allow_mutation_on_saved_tensors():
        x = leaf()
        y = x * 1
        out = y.sin().sum()
        y.mul_(2)
        (g,) = autograd.grad(out, x, create_graph=True)
        assert tocha.allclose(autograd.grad(g.sum(), x)[0], -x.sin())


def test_a_leaf_that_was_packed_is_still_that_leaf():
    x = leaf()
    x.grad = tocha.ones_like(x)
    with identity():
        y = x.sin()
    kept = y.grad_fn._saved_self
    assert kept is not x
    assert kept.is_leaf
    assert kept.requires_grad
    assert kept.grad_fn is None
    assert kept.grad is None
    (kept * 3).sum().backward()
    assert x.grad.tolist() == [4, 4]


def test_a_result_that_was_packed_has_its_node():
    x = leaf()
    z = x * 2
    with identity():
        y, e = z.sin(), z.exp()
    assert y.grad_fn._saved_self.grad_fn is z.grad_fn
    assert e.grad_fn._saved_result.grad_fn is e.grad_fn
    with tocha.no_grad():
        assert e.grad_fn._saved_result.grad_fn is e.grad_fn


def test_the_history_of_what_unpack_gives_does_not_matter():
    x, other = leaf(), leaf(5, 6)
    with saved_tensors_hooks(lambda t: t, lambda t: other * 1):
        y = x.sin()
        z = x * tocha.ones_like(x)
    (g,) = autograd.grad(y.sum(), x, create_graph=True)
    to_x, to_other = autograd.grad(g.sum(), [x, other], allow_unused=True)
    assert tocha.allclose(to_x, -other.sin())
    assert to_other is None
    assert not z.grad_fn._saved_other.requires_grad


def test_a_kept_leaf_outlives_its_node_and_can_be_swapped():
    x = leaf()
    with identity():
        y = x.sin()
    kept = y.grad_fn._saved_self
    del y
    tocha.utils.swap_tensors(kept, tocha.zeros(2, dtype=tocha.float64))
    x.sin().sum().backward()
    assert x.grad is not None


# -- what hooks see ------------------------------------------------------------------------------------


def test_hooks_see_the_tensors_themselves():
    p = tocha.nn.Parameter(tocha.tensor([1.0, 2.0]))
    seen, hooks = noted()
    with hooks:
        z = p.sin() * 2
        y = z[:1].exp()
    parameter, result = seen
    assert parameter is p
    assert result is y
    assert result.grad_fn is y.grad_fn


def test_python_numbers_are_not_packed():
    seen, hooks = noted()
    with hooks:
        y = leaf() * 3.0 / 2.0
    assert seen == []
    y.sum().backward()


def test_versions_of_packed_values_are_not_checked():
    x = leaf()
    with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = x * 1
        z = y.sin()
        y.add_(1)
    assert tocha.allclose(autograd.grad(z.sum(), x)[0], x.cos())


def test_unpack_runs_in_the_mode_of_its_backward():
    modes = []
    with saved_tensors_hooks(lambda t: t, lambda t: modes.append(tocha.is_grad_enabled()) or t):
        y = leaf().sin().sum()
    y.backward(retain_graph=True)
    y.backward(create_graph=True)
    assert modes == [False, True]


def test_a_packed_result_does_not_live_for_ever():
    class Mark:
        pass

    mark = Mark()
    gone = weakref.ref(mark)
    with identity():
        y = leaf().exp()
    y.grad_fn.metadata["mark"] = mark
    del mark, y
    gc.collect()
    assert gone() is None


# -- in place ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cos_", "log_", "erf_", "lgamma_", "atan_", "sigmoid_", "sqrt_"])
def test_second_derivatives_of_in_place_forms(name):
    x = leaf()
    plain = second(lambda x: getattr(x, name[:-1])(), x)
    assert second(lambda x: getattr(x * 1, name)(), x) == pytest.approx(plain)


def test_second_derivative_of_a_write_to_a_view():
    def write(x):
        y = x * 1
        y[:1].cos_()
        return y

    x = leaf()
    assert second(write, x) == pytest.approx([-x[0].cos().item(), 0])


WRITES = {
    "part": lambda y, f: f(y.narrow(0, 1, 2)),
    "all": lambda y, f: f(y.view(2, 2)),
    "every other": lambda y, f: f(y[::2]),
    "real parts": lambda y, f: f(tocha.view_as_complex(y.view(2, 2)).real),
}


@pytest.mark.parametrize("context", [nullcontext, identity, save_on_cpu])
@pytest.mark.parametrize("name", ["tanh", "exp", "sigmoid", "sqrt", "reciprocal"])
@pytest.mark.parametrize("written", WRITES)
def test_a_result_that_was_written_to_a_view_has_second_derivatives(written, name, context):
    """The derivative reads the result, whose history goes through the base: each node runs once."""

    def f(x):
        y = x * 1
        with context():
            WRITES[written](y, lambda view: getattr(view, name + "_")())
            return (y * y).sum()

    x = leaf(0.3, 0.7, 0.5, 1.1)
    assert autograd.gradcheck(f, (x,)) and autograd.gradgradcheck(f, (x,))
    (g,) = autograd.grad(f(x), x, create_graph=True)
    (h,) = autograd.grad(g.sum(), x, create_graph=True)
    h.sum().backward()  # nothing is kept, nothing is missing
    assert x.grad.isfinite().all()


def test_copies_before_a_write_keep_no_gradient_from_flowing():
    x = leaf()
    y = x * 1
    y.cumprod_(0)
    (g,) = autograd.grad(y.sum(), x, create_graph=True)
    hessian = [autograd.grad(v, x, retain_graph=True)[0].tolist() for v in g]
    assert hessian == [[0, 1], [1, 0]]


def in_place_cosine(x):
    return (x * 1).cos_()


def under_hooks(x):
    with saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
        return (x * 1).cos()


def result_under_hooks(x):
    with saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
        return (x * 1).exp()


@pytest.mark.parametrize("f", [in_place_cosine, under_hooks, result_under_hooks], ids=lambda f: f.__name__)
def test_tangents_go_with_what_is_kept(f):
    x = leaf()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, tocha.tensor([1.0, 2.0], dtype=tocha.float64))
        (g,) = autograd.grad(f(dual).sum(), dual, create_graph=True)
        tangent = forward_ad.unpack_dual(g).tangent
    expected = (x.exp() if f is result_under_hooks else -x.cos()) * tocha.tensor([1.0, 2.0], dtype=tocha.float64)
    assert tocha.allclose(tangent, expected)


@pytest.mark.parametrize("name", ["eq_", "ne_", "lt_", "le_", "gt_", "ge_"])
def test_comparisons_in_place_have_no_slope(name):
    x, other = leaf(), leaf()
    for right, node in ((0.5, "0"), (other, "1")):
        y = x * 2
        getattr(y, name)(right)
        assert y.grad_fn.name() == f"{name[:-1].capitalize()}Backward{node}"
        assert autograd.grad((y * 3).sum(), x)[0].tolist() == [0, 0]
    z = tocha.ones(2, dtype=tocha.float64)
    assert getattr(z, name)(other).requires_grad
    assert autograd.grad(z.sum(), other)[0].tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        getattr(x, name)(1)
    y = x * 2
    getattr(y[:1], name)(0.5)
    assert autograd.grad(y.sum(), x)[0].tolist() == [0, 2]


def test_logical_operations_in_place_are_as_in_pytorch():
    x = leaf()
    y = x * 2
    y.logical_and_(tocha.ones_like(y))
    assert autograd.grad(y.sum(), x)[0].tolist() == [2, 2]


# -- what is kept --------------------------------------------------------------------------------------


def test_a_quotient_may_be_written_over():
    x, y = leaf(), leaf(2, 4)
    q = x / y
    q += 1
    to_x, to_y = autograd.grad(q.sum(), [x, y])
    assert tocha.allclose(to_x, 1 / y)
    assert tocha.allclose(to_y, -x / y**2)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: 7 / x,
        lambda x: tocha.nn.functional.normalize(x, dim=0),
        lambda x: x.var(0),
        lambda x: tocha.var_mean(x, 0)[1],
        lambda x: tocha.nn.functional.softsign(x),
        lambda x: tocha.nn.functional.group_norm(x.view(1, 2, 1), 1),
        lambda x: (x - x.mean()) / x.std(),
    ],
)
def test_results_that_backward_does_not_need(f):
    x = leaf()
    expected = autograd.grad(f(x).sum(), x)[0]
    y = f(x)
    y += 1
    assert tocha.allclose(autograd.grad(y.sum(), x)[0], expected)


def test_a_result_that_backward_reads_from_a_copy():
    layer = tocha.nn.GRU(3, 2)
    x = tocha.randn(4, 1, 3, requires_grad=True)
    out, _ = layer(x)
    expected = autograd.grad((out * out.detach()).sum(), x)[0]
    out, _ = layer(x)
    weights = out.detach().clone()
    out.mul_(2)
    assert tocha.allclose(autograd.grad((out * weights).sum(), x)[0], 2 * expected)


def test_a_factor_is_kept_for_the_other_one_only():
    frozen, x = tocha.ones(2, 2), tocha.ones(2, 2, requires_grad=True)
    y = x * 1
    product = tocha.mm(y, frozen)
    assert product.grad_fn._saved_self is None
    assert product.grad_fn._saved_mat2 is frozen
    y.add_(1)
    product.sum().backward()
    assert x.grad.tolist() == [[2, 2], [2, 2]]


# -- custom functions ----------------------------------------------------------------------------------


def test_an_argument_that_a_function_returns_is_kept_for_what_it_was():
    class Same(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x * x * 10

    x = leaf(2, 3)
    (g,) = autograd.grad(Same.apply(x * 1).sum(), x, create_graph=True)
    assert autograd.grad(g.sum(), x)[0].tolist() == [40, 60]


def test_a_result_without_gradient_is_kept_without_one():
    class Best(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            values, at = x.max(0)
            ctx.mark_non_differentiable(at)
            ctx.save_for_backward(x, at)
            return values, at

        @staticmethod
        def backward(ctx, g, _):
            x, at = ctx.saved_tensors
            assert not at.requires_grad
            return tocha.zeros_like(x).index_fill(0, at, 1) * g

    x = leaf()
    autograd.grad(Best.apply(x * 1)[0], x, create_graph=True)


def test_saved_tensors_of_a_function_under_hooks():
    class Exp(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            assert x.requires_grad
            assert y.requires_grad
            return g * y + 0 * x

    x = leaf()
    with identity():
        y = Exp.apply(x * 1)
    (g,) = autograd.grad(y.sum(), x, create_graph=True)
    assert tocha.allclose(autograd.grad(g.sum(), x)[0], x.exp())
