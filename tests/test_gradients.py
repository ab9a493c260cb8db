"""Gradients that have kernels or formulas of their own: products, norms, softmax, losses, distances, linear algebra.

Each is held against differences of function values, first and second derivatives alike.
"""

import pytest

import tocha
import tocha.nn.functional as F
from tocha.autograd import gradcheck, gradgradcheck


def make(*shape, dtype=tocha.float64):
    return tocha.randn(*shape, dtype=dtype).requires_grad_()


@pytest.fixture(autouse=True)
def seed():
    tocha.manual_seed(0)


def check(f, *inputs, second=True):
    assert gradcheck(f, inputs)
    assert not second or gradgradcheck(f, inputs)


MATMULS = [((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 2)), ((3, 4), (4, 2)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3))]
MATMULS += [((2, 3, 4), (4, 2)), ((3, 4), (2, 4, 2)), ((2, 1, 3, 4), (3, 4, 2)), ((2, 3, 4), (2, 4, 2))]


@pytest.mark.parametrize("a, b", MATMULS)
@pytest.mark.parametrize("dtype", [tocha.float64, tocha.complex128])
def test_matmul_of_all_ranks(a, b, dtype):
    check(tocha.matmul, make(*a, dtype=dtype), make(*b, dtype=dtype))


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 2, 3)])
def test_linear(shape):
    check(F.linear, make(*shape), make(4, 3), make(4))


def test_a_complex_alpha_is_conjugated():
    a, b, c = (make(2, 2, dtype=tocha.complex128) for _ in range(3))
    check(lambda a, b, c: tocha.addmm(a, b, c, beta=1 - 2j, alpha=2 + 1j), a, b, c)


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_distances(p):
    check(lambda x, y: tocha.cdist(x, y, p=p), make(2, 3, 4), make(5, 4))
    check(lambda x: F.pdist(x, p=p), make(4, 3))


def test_distances_of_equal_points_have_no_slope():
    x = tocha.ones(2, 3).requires_grad_()
    (g,) = tocha.autograd.grad(tocha.cdist(x, x).sum(), x)
    assert g.tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("batch", [(), (2,)])
def test_distances_of_many_points(batch):
    x, y = make(*batch, 30, 3), make(26, 3)
    found = tocha.autograd.grad(tocha.cdist(x, y).square().sum(), (x, y))
    apart = x.unsqueeze(-2) - y.unsqueeze(-3)
    expected = tocha.autograd.grad(apart.square().sum(), (x, y))
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and tocha.allclose(a, b)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("f", [tocha.softmax, tocha.log_softmax])
def test_softmax(f, dim):
    check(lambda x: f(x, dim), make(3, 4, 2))


@pytest.mark.parametrize("weights", ["both", "weight", "bias", "none"])
def test_norms(weights):
    w = make(3, 4) if weights in ("both", "weight") else None
    b = make(3, 4) if weights in ("both", "bias") else None
    x = make(2, 3, 4)
    given = [t for t in (w, b) if t is not None]

    def layer(x, *ps):
        ps = list(ps)
        return F.layer_norm(x, [3, 4], ps.pop(0) if w is not None else None, ps.pop(0) if b is not None else None)

    check(layer, x, *given)
    if b is None:
        check(lambda x, *ps: F.rms_norm(x, [3, 4], *ps, eps=1e-3), x, *given)


def test_norm_of_many_rows_in_half_precision():
    x = tocha.randn(1000, 8)
    w, g = tocha.randn(8), tocha.randn(1000, 8)

    def gradients(dtype):
        a, b = x.to(dtype).requires_grad_(), w.to(dtype).requires_grad_()
        return tocha.autograd.grad(F.layer_norm(a, [8], b), [a, b], g.to(dtype))

    for near, exact in zip(gradients(tocha.bfloat16), gradients(tocha.float32), strict=True):
        assert near.dtype == tocha.bfloat16
        assert (near.float() - exact).abs().max() < 0.05 * exact.abs().max()


@pytest.mark.parametrize("shape, groups", [((2, 4, 3), 2), ((2, 4), 2), ((3, 6, 2, 2), 3)])
def test_group_norm(shape, groups):
    check(lambda x, w, b: F.group_norm(x, groups, w, b), make(*shape), make(shape[1]), make(shape[1]))
    check(lambda x: F.group_norm(x, groups), make(*shape))


def test_nll_loss():
    target = tocha.tensor([[0, 2], [1, -100], [2, 2]])
    weight = tocha.rand(3, dtype=tocha.float64)
    check(lambda x: F.nll_loss(x, target, weight), make(3, 3, 2))
    check(lambda x: F.cross_entropy(x, target, weight, label_smoothing=0.1), make(3, 3, 2))


def test_ctc_loss():
    target = tocha.tensor([[1, 2, 2], [3, 1, 0]])
    lengths, labels = tocha.tensor([6, 5]), tocha.tensor([3, 2])
    check(lambda x: F.ctc_loss(x.log_softmax(-1), target, lengths, labels), make(6, 2, 4), second=False)


def test_an_impossible_target_has_no_gradient_with_zero_infinity():
    x = make(2, 1, 3)
    loss = F.ctc_loss(
        x.log_softmax(-1), tocha.tensor([[1, 1, 2]]), tocha.tensor([2]), tocha.tensor([3]), zero_infinity=True
    )
    assert tocha.autograd.grad(loss, x)[0].abs().max() == 0


def test_multilabel_margin_loss():
    target = tocha.tensor([[1, 3, -1, 0], [0, -1, 2, 1]])
    check(lambda x: F.multilabel_margin_loss(x, target), make(2, 4))


L = tocha.linalg
SQUARE = {
    "inv": L.inv,
    "det": L.det,
    "logabsdet": lambda a: L.slogdet(a)[1],
    "matrix_exp": L.matrix_exp,
    "cholesky": lambda a: L.cholesky(a @ a.mH + tocha.eye(3, dtype=a.dtype)),
    "eigvalsh": lambda a: L.eigvalsh(a + a.mH),
    "eigh": lambda a: L.eigh(a + a.mH)[1].abs(),
    "eigvals": lambda a: L.eigvals(a).abs(),
    "solve": lambda a: L.solve(a, a[..., :2] * 2),
    "solve_right": lambda a: L.solve(a, a[..., :2, :] * 2, left=False),
    "lu_solve": lambda a: L.lu_solve(*L.lu_factor(a), a[..., :2], adjoint=True),
}
ANY = {
    "svd": lambda a: [p.abs() for p in L.svd(a, full_matrices=False)],
    "svdvals": L.svdvals,
    "pinv": L.pinv,
    "qr": lambda a: [(p * p.conj()).real for p in L.qr(a)],
    "lu": lambda a: L.lu(a)[1:],
}


@pytest.mark.parametrize("dtype", [tocha.float64, tocha.complex128])
@pytest.mark.parametrize("name", SQUARE)
def test_square_matrices(name, dtype):
    check(SQUARE[name], make(2, 3, 3, dtype=dtype))


@pytest.mark.parametrize("dtype", [tocha.float64, tocha.complex128])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2)])
@pytest.mark.parametrize("name", ANY)
def test_any_matrices(name, shape, dtype):
    check(ANY[name], make(*shape, dtype=dtype))


@pytest.mark.parametrize("dtype", [tocha.float64, tocha.complex128])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_reflections(left, transpose, dtype):
    shape = (4, 2) if left else (2, 4)
    vectors, factors, c = make(4, 3, dtype=dtype), make(2, dtype=dtype), make(*shape, dtype=dtype)
    check(L.householder_product, vectors, factors)
    check(lambda v, t, c: tocha.ormqr(v, t, c, left, transpose), vectors, factors, c)


def test_a_loss_that_depends_on_phases_is_refused():
    a = make(3, 3, dtype=tocha.complex128)
    for vectors in (L.svd(a)[0], L.eigh(a + a.mH)[1], L.eig(a)[1]):
        with pytest.raises(RuntimeError, match="phi"):
            tocha.autograd.grad(vectors.real.sum(), a)


def test_qr_without_a_derivative_is_refused():
    a = make(4, 3)
    with pytest.raises(RuntimeError, match="mode='r'"):
        tocha.autograd.grad(L.qr(a, "r")[1].sum(), a)
    with pytest.raises(RuntimeError, match="complete"):
        tocha.autograd.grad(L.qr(a, "complete")[1].sum(), a)


@pytest.mark.parametrize("change", [lambda y: y.pow_(2), lambda y: y.clamp_(-0.5, 0.5), lambda y: y.square_()])
def test_composites_in_place(change):
    check(lambda x: change(x * 3), make(5))
    with pytest.raises(RuntimeError):
        change(make(5))


def test_random_fills_forget_what_was_there():
    x = make(4)
    y = (x * 2).uniform_()
    assert y.requires_grad
    assert tocha.autograd.grad(y.sum(), x)[0].tolist() == [0.0] * 4


def test_gamma_numbers_follow_their_shape():
    shapes = tocha.tensor([1.0, 1.0], dtype=tocha.float64)
    at = tocha.tensor([0.5, 8.0], dtype=tocha.float64)  # of the exponential distribution; values by mpmath
    expected = tocha.tensor([0.8069791168, 2.7689368458], dtype=tocha.float64)
    assert tocha.allclose(tocha._standard_gamma_grad(shapes, at), expected, rtol=1e-7)


def slopes(f, points):
    """First and second derivatives of an elementwise function."""
    x = tocha.tensor(points, dtype=tocha.float64, requires_grad=True)
    (first,) = tocha.autograd.grad(f(x).sum(), x, create_graph=True)
    second = tocha.autograd.grad(first.sum(), x, allow_unused=True)[0] if first.requires_grad else None
    return first.tolist(), [0.0] * len(points) if second is None else second.tolist()


@pytest.mark.parametrize(
    ("f", "points", "first"),
    [
        (F.relu6, [0.0, 3.0, 6.0], [0, 1, 0]),
        (F.hardtanh, [-1.0, 0.0, 1.0], [0, 1, 0]),
        (lambda x: x.clamp(-1, 1), [-1.0, 0.0, 1.0], [1, 1, 1]),
        (F.hardsigmoid, [-3.0, 0.0, 3.0], [0, 1 / 6, 0]),
        (F.hardswish, [-3.0, 0.0, 3.0], [0, 0.5, 1]),
        (lambda x: F.elu(x, 2.0), [0.0, 1.0], [2, 1]),
        (F.selu, [0.0], [1.6732632423543772 * 1.0507009873554805]),
        (lambda x: F.huber_loss(x, tocha.zeros_like(x), reduction="sum"), [-1.0, 0.5, 1.0], [-1, 0.5, 1]),
    ],
)
def test_slopes_at_kinks(f, points, first):
    assert slopes(f, points)[0] == pytest.approx(first)


@pytest.mark.parametrize(
    ("f", "point", "second"),
    [
        (F.logsigmoid, 0.0, -0.25),
        (lambda x: tocha.logaddexp(x, x.detach()), 0.3, 0.25),
        (lambda x: F.binary_cross_entropy_with_logits(x, tocha.ones_like(x)), 0.0, 0.25),
        (lambda x: F.smooth_l1_loss(x, tocha.zeros_like(x)), 0.0, 1.0),
        (F.hardswish, 3.0, 0.0),
        (lambda x: F.softplus(x, 1, 2), 2.0, 0.0),
        (F.elu, 1e10, 0.0),
        (F.selu, 1e10, 0.0),
        (F.celu, 1e10, 0.0),
        (F.softplus, 1e10, 0.0),
        (F.mish, 1e5, 0.0),
    ],
)
def test_curvature_at_ties_and_far_out(f, point, second):
    assert slopes(f, [point])[1] == pytest.approx([second])


def test_no_number_has_no_slope():
    nan = float("nan")
    for loss in (F.smooth_l1_loss, F.huber_loss):
        assert str(slopes(lambda x, loss=loss: loss(x, tocha.full_like(x, nan)), [1.0])[0]) == "[nan]"
    assert slopes(F.elu, [nan])[0] == [1.0]  # but for those that let the gradient of what is not negative pass


def test_numbers_keep_their_digits_in_graphs_of_gradients():
    """alpha * scale of a gradient that is written with operators is a product of doubles."""
    x = tocha.tensor([-0.5], dtype=tocha.float64, requires_grad=True)
    y = F.elu(x, 0.3)
    (plain,) = tocha.autograd.grad(y.sum(), x, retain_graph=True)
    (graphed,) = tocha.autograd.grad(y.sum(), x, create_graph=True)
    assert graphed.item() == pytest.approx(plain.item(), rel=1e-14)
