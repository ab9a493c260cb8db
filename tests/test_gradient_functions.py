"""Gradients that are written by hand: cases where the obvious formula would divide by zero, count twice or miss what
was not used. Everything is held against finite differences."""

import math

import pytest

import tocha
from tocha._subclasses.fake_tensor import FakeTensorMode
from tocha.autograd import gradcheck, gradgradcheck


def leaf(*values):
    return tocha.tensor(values if len(values) != 1 else values[0], dtype=tocha.float64, requires_grad=True)


def check(f, *inputs):
    assert gradcheck(f, inputs)
    assert gradgradcheck(f, inputs)


ZEROS = [[0.5, 0.0, -1.5, 2.0], [0.0, 3.0, 0.0, 1.0], [1.0, 2.0, 3.0, 0.0]]


@pytest.mark.parametrize("dim", [0, 1])
def test_cumprod_through_zeros(dim):
    check(lambda x: x.cumprod(dim), leaf(ZEROS))


@pytest.mark.parametrize("scan", ["cumsum", "cumprod", "logcumsumexp", "cummax"])
@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 20), (9, 5, 1)])
@pytest.mark.parametrize("dim", [0, -1])
def test_scans(scan, shape, dim):
    tocha.manual_seed(0)
    x = tocha.randn(*shape, dtype=tocha.float64).requires_grad_()

    def f(x):
        y = getattr(x, scan)(dim)
        return y[0] if isinstance(y, tuple) else y

    check(f, x)


def test_logcumsumexp_of_far_numbers():
    x = leaf(-800.0, 900.0, -900.0, 901.0)
    (g,) = tocha.autograd.grad(x.logcumsumexp(0).sum(), x)
    assert g.isfinite().all()
    share = 1 / (1 + math.e)
    assert g.tolist() == pytest.approx([1.0, 2 + share, 0.0, 1 - share])


def test_logcumsumexp_up_to_infinity():
    x = leaf(0.0, math.inf, 1.0)
    (g,) = tocha.autograd.grad(x.logcumsumexp(0).sum(), x)
    assert g[0].item() == 1 and g[2].item() == 0


def test_prod_reductions_with_zeros():
    index = tocha.tensor([0, 0, 1, 1, 2])
    source = leaf(0.0, 2.0, 3.0, 4.0, 0.0)
    for include_self in (True, False):
        inputs = (leaf(5.0, 0.0, 0.0, 7.0), source)
        assert gradcheck(lambda x, s, i=include_self: x.scatter_reduce(0, index, s, "prod", include_self=i), inputs)
        check(lambda x, s, i=include_self: x.index_reduce(0, index, s, "prod", include_self=i), *inputs)


def test_sources_larger_than_the_index():
    index = tocha.tensor([[0, 1], [2, 0]])
    x = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    source = leaf([[10.0, 20.0, 30.0], [40.0, 50.0, 60.0]])
    check(lambda x, s: x.scatter(0, index, s), x, source)
    check(lambda x, s: x.scatter_add(0, index, s), x, source)
    check(lambda x, s: x.scatter_reduce(0, index, s, "mean"), x, source)
    assert gradcheck(lambda x, s: x.scatter_reduce(0, index, s, "amax"), (x, source))


def test_ties_share():
    x = leaf(1.0, 3.0, 3.0, 2.0)
    (g,) = tocha.autograd.grad(x.median(), x)
    assert g.tolist() == [0, 0, 0, 1]
    out = leaf(3.0, 0.0).scatter_reduce(0, tocha.tensor([0, 0, 0, 1]), x, "amax")
    (g,) = tocha.autograd.grad(out.sum(), x)
    assert g.tolist() == pytest.approx([0, 1 / 3, 1 / 3, 1])


def test_one_value_filled_twice():
    value = leaf(2.0)
    y = tocha.zeros(3, dtype=tocha.float64).index_fill(0, tocha.tensor([1, 1]), value)
    (g,) = tocha.autograd.grad(y.sum(), value)
    assert g.item() == 1


def test_norms_at_zero():
    for p in (0.5, 1, 1.5, 2, 3, math.inf):
        x = leaf([0.0, 0.0])
        (g,) = tocha.autograd.grad(tocha.linalg.vector_norm(x, p), x)
        assert g.tolist() == [0, 0]
    x = leaf([2.0, 2.0, 2.0])
    (g,) = tocha.autograd.grad(x.std(), x)
    assert g.tolist() == [0, 0, 0]


def test_embedding():
    weight = tocha.randn(5, 3, dtype=tocha.float64).requires_grad_()
    rows = tocha.tensor([[1, 2, 1], [4, 1, 0]])
    check(lambda w: tocha.nn.functional.embedding(rows, w), weight)
    out = tocha.nn.functional.embedding(rows, weight, padding_idx=1, scale_grad_by_freq=True)
    (g,) = tocha.autograd.grad(out.sum(), weight)
    assert g[:, 0].tolist() == [1, 0, 1, 0, 1]


def test_embedding_renorm_is_not_recorded():
    weight = tocha.ones(3, 4).requires_grad_()
    out = tocha.nn.functional.embedding(tocha.tensor([0, 2]), weight, max_norm=1.0)
    out.sum().backward()
    assert weight.grad[:, 0].tolist() == [1, 0, 1]
    assert weight[0].norm().item() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "constant"])
@pytest.mark.parametrize("pad", [(2, 1), (1, 2, 0, 1), (-1, 2), (0, -2, 2, 0)])
def test_padding(mode, pad):
    tocha.manual_seed(0)
    x = tocha.randn(2, 3, 4, dtype=tocha.float64) if len(pad) == 2 else tocha.randn(2, 2, 3, 4, dtype=tocha.float64)
    check(lambda x: tocha.nn.functional.pad(x, pad, mode), x.requires_grad_())


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segments(reduce):
    x = leaf([[0.0, 1.5], [2.0, 0.0], [3.0, 0.0], [4.0, 5.0], [7.0, 6.0]])
    lengths = tocha.tensor([2, 0, 3])
    assert gradcheck(lambda x: tocha.segment_reduce(x, reduce, lengths=lengths, initial=1.0), (x,))
    offsets = tocha.tensor([1, 3, 4])
    (g,) = tocha.autograd.grad(tocha.segment_reduce(x, reduce, offsets=offsets).sum(), x)
    assert g[0].tolist() == [0, 0] and g[4].tolist() == [0, 0]


def test_in_place_composites_are_recorded():
    x = leaf(2.0, 3.0)
    y = x * 2
    y.pow_(2)
    (g,) = tocha.autograd.grad(y.sum(), x)
    assert g.tolist() == [16, 24]
    y = x.clone()
    y[0].square_()
    (g,) = tocha.autograd.grad(y.sum(), x)
    assert g.tolist() == [4, 1]
    with pytest.raises(RuntimeError, match="leaf"):
        x.square_()


def test_part_of_strided_memory_replaced():
    x = tocha.arange(12, dtype=tocha.float64).reshape(3, 4).t().requires_grad_()
    check(lambda x, s: x.as_strided_scatter(s, (2, 2), (5, 2), 1), x, leaf([[1.0, 2.0], [3.0, 4.0]]))


def test_float64_gradients_of_gradients_have_exact_constants():
    x = leaf(0.3)
    (g,) = tocha.autograd.grad(x.sinc(), x, create_graph=True)
    a = 0.3 * math.pi
    assert g.item() == pytest.approx((math.cos(a) - math.sin(a) / a) / 0.3, rel=1e-14)


# Where a function is piecewise linear, second derivatives are zeros that are there: a penalty on its gradient can be differentiated.

PIECEWISE_LINEAR = {
    "max_pool1d": lambda x: tocha.nn.functional.max_pool1d(x, 2),
    "avg_pool1d": lambda x: tocha.nn.functional.avg_pool1d(x, 2),
    "adaptive_max_pool1d": lambda x: tocha.nn.functional.adaptive_max_pool1d(x, 2),
    "max_pool2d": lambda x: tocha.nn.functional.max_pool2d(x, 2),
    "fractional_max_pool2d": lambda x: tocha.nn.functional.fractional_max_pool2d(x, 2, 2),
    "area": lambda x: tocha.nn.functional.interpolate(x, 3, mode="area"),
    "reflect": lambda x: tocha.nn.functional.pad(x, (1, 2), "reflect"),
    "replicate": lambda x: tocha.nn.functional.pad(x, (1, 2), "replicate"),
    "nll_loss": lambda x: tocha.nn.functional.nll_loss(x[:, :, 0], tocha.tensor([1, 0])),
    "nll_loss2d": lambda x: tocha.nn.functional.nll_loss(x[:, :, None], tocha.tensor([[[1, 0, 2, 1]]] * 2)),
    "rrelu": lambda x: tocha.nn.functional.rrelu(x, training=True),
    "rrelu_": lambda x: tocha.nn.functional.rrelu(x * 1, training=True, inplace=True),
    "hardsigmoid": tocha.nn.functional.hardsigmoid,
    "multilabel_margin_loss": lambda x: tocha.nn.functional.multilabel_margin_loss(
        x[:, :, 0], tocha.tensor([[1, 0, -1], [2, -1, 0]])
    ),
}


@pytest.mark.parametrize("f", PIECEWISE_LINEAR.values(), ids=PIECEWISE_LINEAR)
def test_a_penalty_on_the_gradient_of_what_is_piecewise_linear(f):
    tocha.manual_seed(0)
    x = tocha.randn(2, 3, 4, dtype=tocha.float64, requires_grad=True)
    (g,) = tocha.autograd.grad(f(x).sum(), x, create_graph=True)
    assert g.requires_grad
    (again,) = tocha.autograd.grad(g.square().sum(), x)
    assert again.shape == x.shape
    assert not again.any()


@pytest.mark.parametrize("f", PIECEWISE_LINEAR.values(), ids=PIECEWISE_LINEAR)
def test_gradients_of_what_is_piecewise_linear_depend_on_what_arrives(f):
    tocha.manual_seed(0)
    x = tocha.randn(2, 3, 4, dtype=tocha.float64, requires_grad=True)

    def same_draw(x):
        tocha.manual_seed(1)
        return f(x)

    check(same_draw, x)


def test_a_gradient_that_hangs_on_its_input_is_not_the_one_that_arrived():
    x = leaf([[1.0, 2.0]])
    arrived = leaf([[3.0, 4.0]])
    (g,) = tocha.autograd.grad(tocha.nn.functional.pad(x, (0, 0), "replicate"), x, arrived, create_graph=True)
    assert g.requires_grad and arrived.is_leaf
    (again,) = tocha.autograd.grad(g.sum(), arrived)
    assert again.tolist() == [[1.0, 1.0]]


def test_orthogonal_polynomials_have_no_gradient():
    x = leaf(0.25, 0.5)
    for name in ("chebyshev_polynomial_t", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"):
        assert not getattr(tocha.special, name)(x, 2).requires_grad


def test_the_gradients_of_fakes_hang_on_their_inputs_too():
    with FakeTensorMode():
        x = tocha.randn(2, 3, 4, requires_grad=True)
        (g,) = tocha.autograd.grad(tocha.nn.functional.max_pool1d(x, 2).sum(), x, create_graph=True)
        assert g.requires_grad
        (again,) = tocha.autograd.grad(g.square().sum(), x)
        assert again.shape == x.shape


def test_what_nobody_can_differentiate_says_so():
    x = leaf(0.5, 1.5)
    for f in (lambda: tocha.heaviside(x, x.detach()), lambda: x // 2, lambda: (x * 1).floor_divide_(2)):
        with pytest.raises(RuntimeError, match=r"derivative for aten::.* is not implemented"):
            f().sum().backward()
    with pytest.raises(NotImplementedError, match="the derivative for 'igamma: input' is not implemented"):
        tocha.igamma(x, x.detach()).sum().backward()
    with pytest.raises(NotImplementedError, match="the derivative for 'unique_dim' is not implemented"):
        tocha.unique(leaf([[1.0, 2.0]]), dim=0).sum().backward()
    assert tocha.autograd.grad(tocha.div(x, 2, rounding_mode="floor").sum(), x)[0].tolist() == [0.0, 0.0]
