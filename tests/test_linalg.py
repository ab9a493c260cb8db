"""Dense linear algebra: what the factors multiply to, layouts, failures per matrix, empty matrices."""

import numpy as np
import pytest

import tocha

L = tocha.linalg
DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
TOLERANCE = {np.float32: 2e-4, np.complex64: 2e-4, np.float64: 1e-10, np.complex128: 1e-10}


def matrices(*shape, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        a = a + 1j * rng.standard_normal(shape)
    return a.astype(dtype)


def hermitian(*shape, dtype=np.float64):
    a = matrices(*shape, dtype=dtype)
    return (a + np.conj(np.swapaxes(a, -1, -2))) / 2


def positive(*shape, dtype=np.float64):
    a = matrices(*shape, dtype=dtype)
    return (a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(shape[-1])).astype(dtype)


def n(t):
    return t.resolve_conj().numpy()


def near(got, want, dtype):
    np.testing.assert_allclose(
        n(got) if isinstance(got, tocha.Tensor) else got, want, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype]
    )


@pytest.fixture(params=DTYPES, ids=lambda d: d.__name__)
def dtype(request):
    return request.param


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(dtype, upper):
    a = positive(2, 4, 4, dtype=dtype)
    factor = L.cholesky(tocha.from_numpy(a), upper=upper)
    near(factor.mH @ factor if upper else factor @ factor.mH, a, dtype)
    assert np.all(n(factor) == (np.triu if upper else np.tril)(n(factor)))
    b = matrices(2, 4, 3, dtype=dtype, seed=1)
    near(tocha.cholesky_solve(tocha.from_numpy(b), factor, upper), np.linalg.solve(a, b), dtype)
    near(tocha.cholesky_inverse(factor, upper), np.linalg.inv(a), dtype)


def test_cholesky_reads_one_triangle():
    a = positive(3, 3)
    near(L.cholesky(tocha.from_numpy(np.tril(a))), np.linalg.cholesky(a), np.float64)
    near(L.cholesky(tocha.from_numpy(np.triu(a)), upper=True), np.linalg.cholesky(a).T, np.float64)


@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (2, 3, 5)])
def test_lu(dtype, shape):
    a = matrices(*shape, dtype=dtype)
    P, lower, upper = L.lu(tocha.from_numpy(a))
    near(P @ lower @ upper, a, dtype)
    LU, pivots = L.lu_factor(tocha.from_numpy(a))
    assert pivots.dtype == tocha.int32 and tuple(pivots.shape) == (*shape[:-2], min(shape[-2:]))
    for got, want in zip(tocha.lu_unpack(LU, pivots), (P, lower, upper), strict=True):
        assert np.array_equal(n(got), n(want))


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_lu_solve(dtype, left, adjoint):
    a, x = matrices(2, 4, 4, dtype=dtype), matrices(2, 4, 4, dtype=dtype, seed=1)
    op_a = np.conj(np.swapaxes(a, -1, -2)) if adjoint else a
    b = op_a @ x if left else x @ op_a
    LU, pivots = L.lu_factor(tocha.from_numpy(a))
    near(L.lu_solve(LU, pivots, tocha.from_numpy(b), left=left, adjoint=adjoint), x, dtype)


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("turned", [True, False])
def test_solve_triangular(dtype, upper, left, unit, turned):
    a = matrices(2, 4, 4, dtype=dtype) * 0.3 + 2 * np.eye(4, dtype=dtype)
    triangle = (np.triu if upper else np.tril)(a)
    if unit:
        triangle = triangle - triangle * np.eye(4) + np.eye(4)
    x = matrices(2, 4, 4, dtype=dtype, seed=1)
    b = (triangle @ x if left else x @ triangle).astype(dtype)
    t = tocha.from_numpy(a)
    t = t.mT.contiguous().mT if turned else t
    near(L.solve_triangular(t, tocha.from_numpy(b), upper=upper, left=left, unitriangular=unit), x, dtype)


def test_solve_shapes(dtype):
    a, b = matrices(2, 1, 3, 3, dtype=dtype), matrices(5, 3, 2, dtype=dtype, seed=1)
    near(L.solve(tocha.from_numpy(a), tocha.from_numpy(b)), np.linalg.solve(a, b), dtype)
    v = matrices(2, 3, dtype=dtype, seed=1)
    near(L.solve(tocha.from_numpy(a[:, 0]), tocha.from_numpy(v)), np.linalg.solve(a[:, 0], v[..., None])[..., 0], dtype)
    w = matrices(4, 3, dtype=dtype)
    near(L.solve(tocha.from_numpy(a[0, 0]), tocha.from_numpy(w), left=False), w @ np.linalg.inv(a[0, 0]), dtype)


def test_inverse_and_determinant(dtype):
    a = matrices(3, 4, 4, dtype=dtype)
    t = tocha.from_numpy(a)
    near(L.inv(t), np.linalg.inv(a), dtype)
    near(L.det(t), np.linalg.det(a), dtype)
    sign, log = L.slogdet(t)
    want = np.linalg.slogdet(a)
    near(sign, want[0], dtype)
    near(log, want[1], dtype)
    assert log.dtype == tocha.from_numpy(a.real.copy()).dtype


@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("shape", [(2, 5, 3), (3, 5), (4, 4)])
def test_qr(dtype, mode, shape):
    a = matrices(*shape, dtype=dtype)
    Q, R = L.qr(tocha.from_numpy(a), mode)
    near(Q @ R, a, dtype)
    near(Q.mH @ Q, np.broadcast_to(np.eye(Q.shape[-1]), (*shape[:-2], Q.shape[-1], Q.shape[-1])), dtype)
    assert np.array_equal(n(R), np.triu(n(R)))
    assert np.array_equal(n(L.qr(tocha.from_numpy(a), "r").R), n(R)[..., : min(shape[-2:]), :])


def test_reflections(dtype):
    a, c = matrices(2, 5, 3, dtype=dtype), matrices(2, 5, 2, dtype=dtype, seed=1)
    reflections, tau = tocha.geqrf(tocha.from_numpy(a))
    near(L.householder_product(reflections, tau), n(L.qr(tocha.from_numpy(a)).Q), dtype)
    Q = n(L.qr(tocha.from_numpy(a), "complete").Q)
    QH = np.conj(np.swapaxes(Q, -1, -2))
    near(tocha.ormqr(reflections, tau, tocha.from_numpy(c)), Q @ c, dtype)
    near(tocha.ormqr(reflections, tau, tocha.from_numpy(c), transpose=True), QH @ c, dtype)
    row = np.ascontiguousarray(np.swapaxes(c, -1, -2))
    near(tocha.ormqr(reflections, tau, tocha.from_numpy(row), left=False), row @ Q, dtype)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("shape", [(2, 5, 3), (3, 5), (4, 4)])
def test_svd(dtype, full, shape):
    a = matrices(*shape, dtype=dtype)
    U, S, Vh = L.svd(tocha.from_numpy(a), full_matrices=full)
    k = min(shape[-2:])
    near((n(U)[..., :k] * n(S)[..., None, :]) @ n(Vh)[..., :k, :], a, dtype)
    near(S, np.linalg.svd(a, compute_uv=False), dtype)
    near(L.svdvals(tocha.from_numpy(a)), n(S), dtype)
    near(U.mH @ U, np.broadcast_to(np.eye(U.shape[-1]), (*shape[:-2], U.shape[-1], U.shape[-1])), dtype)


@pytest.mark.parametrize("part", ["L", "U"])
def test_eigh(dtype, part):
    a = hermitian(2, 4, 4, dtype=dtype)
    half = (np.tril if part == "L" else np.triu)(a)
    w, v = L.eigh(tocha.from_numpy(half), part)
    near(w, np.linalg.eigvalsh(a), dtype)
    near((n(v) * n(w)[..., None, :]) @ n(v.mH), a, dtype)
    near(L.eigvalsh(tocha.from_numpy(half), part), n(w), dtype)


def test_eig(dtype):
    a = matrices(3, 5, 5, dtype=dtype)
    w, v = L.eig(tocha.from_numpy(a))
    assert w.is_complex() and v.is_complex()
    near(a @ n(v), n(v) * n(w)[..., None, :], dtype)
    near(np.sort_complex(np.round(n(L.eigvals(tocha.from_numpy(a))), 3)), np.sort_complex(np.round(n(w), 3)), dtype)
    rotation = tocha.tensor([[0.0, -1.0], [1.0, 0.0]])
    assert sorted(L.eigvals(rotation).tolist(), key=lambda z: z.imag) == [-1j, 1j]


@pytest.mark.parametrize("conj", [True, False])
def test_ldl(dtype, conj):
    a = matrices(2, 4, 4, dtype=dtype)
    a = a + np.swapaxes(np.conj(a) if conj else a, -1, -2)
    b = matrices(2, 4, 3, dtype=dtype, seed=1)
    LD, pivots = L.ldl_factor(tocha.from_numpy(a), hermitian=conj)
    near(L.ldl_solve(LD, pivots, tocha.from_numpy(b), hermitian=conj), np.linalg.solve(a, b), dtype)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5)])
def test_lstsq(dtype, driver, shape):
    a, b = matrices(2, *shape, dtype=dtype), matrices(2, shape[0], 2, dtype=dtype, seed=1)
    r = L.lstsq(tocha.from_numpy(a), tocha.from_numpy(b), driver=driver)
    near(r.solution, np.linalg.pinv(a) @ b, dtype)
    if driver != "gels":
        assert r.rank.tolist() == [3, 3]
    if driver != "gelsy" and shape[0] > shape[1]:
        near(r.residuals, (np.abs(a @ n(r.solution) - b) ** 2).sum(-2), dtype)
    else:
        assert tuple(r.residuals.shape) == (0,)


@pytest.mark.parametrize("real", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(32, 32), (45, 33), (300, 64), (513, 256), (600, 300)])
def test_least_squares_of_greater_matrices(real, shape):
    a, b = matrices(*shape, dtype=real), matrices(shape[0], 5, dtype=real, seed=1)
    a[:, ::7] *= 1e-2
    a[:, 3] += 50
    expected = np.linalg.lstsq(a.astype(np.float64), b.astype(np.float64), rcond=None)[0]
    scale = np.abs(expected).max()
    for layout in (a, np.asfortranarray(a)):
        r = L.lstsq(tocha.from_numpy(layout), tocha.from_numpy(b))
        assert r.rank.item() == shape[1]
        assert np.abs(n(r.solution) - expected).max() < scale * (2e-2 if real is np.float32 else 1e-9)
    both = L.lstsq(tocha.from_numpy(np.stack([a, a * 2])), tocha.from_numpy(np.stack([b, b])))
    assert np.abs(n(both.solution) - np.stack([expected, expected / 2])).max() < scale * 2e-2


def test_least_squares_that_are_not_of_full_rank_or_out_of_range():
    a, b = matrices(60, 40, dtype=np.float64), matrices(60, 2, dtype=np.float64, seed=1)
    a[:, 10] = a[:, 11] - a[:, 12]
    r = L.lstsq(tocha.from_numpy(a), tocha.from_numpy(b))
    assert r.rank.item() == 39
    near(r.solution, np.linalg.lstsq(a, b, rcond=1e-10)[0], np.float64)
    near(L.lstsq(tocha.zeros(60, 40, dtype=tocha.float64), tocha.from_numpy(b)).solution, np.zeros((40, 2)), np.float64)
    whole = matrices(60, 40, dtype=np.float64)
    for size in (1e-250, 1e250):
        r = L.lstsq(tocha.from_numpy(whole * size), tocha.from_numpy(b))
        assert r.rank.item() == 40
        near(r.solution * size, np.linalg.lstsq(whole, b, rcond=None)[0], np.float64)


def test_rank_deficient_least_squares():
    a = tocha.ones(4, 2)
    r = L.lstsq(a, tocha.ones(4, 1), driver="gelsd")
    near(r.solution, [[0.5], [0.5]], np.float32)
    assert r.rank.item() == 1 and r.residuals.numel() == 0


def test_pinv_rank_cond(dtype):
    a = matrices(2, 5, 3, dtype=dtype)
    a[1, :, 2] = a[1, :, 0] + a[1, :, 1]
    t = tocha.from_numpy(a)
    near(L.pinv(t), np.linalg.pinv(a, rcond=1e-5), dtype)
    assert L.matrix_rank(t).tolist() == [3, 2]
    assert L.matrix_rank(t, atol=100.0).tolist() == [0, 0]
    h = tocha.from_numpy(hermitian(4, 4, dtype=dtype))
    near(L.pinv(h, hermitian=True), np.linalg.inv(n(h)), dtype)
    s = matrices(3, 3, dtype=dtype)
    for p in (None, 1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc"):
        near(L.cond(tocha.from_numpy(s), p), np.linalg.cond(s, p), dtype)
    assert L.cond(tocha.zeros(2, 3, 3), 1).tolist() == [float("inf")] * 2


@pytest.mark.parametrize("order", [2, -2, "nuc"])
def test_norms_from_singular_values(order):
    a = matrices(3, 4, 5)
    t = tocha.from_numpy(a)
    near(L.matrix_norm(t, order), [np.linalg.norm(m, order) for m in a], np.float64)
    assert tuple(L.matrix_norm(t, order, dim=(0, 2), keepdim=True).shape) == (1, 4, 1)


def test_negative_powers(dtype):
    a = matrices(2, 3, 3, dtype=dtype)
    near(L.matrix_power(tocha.from_numpy(a), -2), np.linalg.matrix_power(a, -2), dtype)


def test_tensor_equations():
    a = matrices(2, 3, 6)
    near(L.tensorinv(tocha.from_numpy(a)), np.linalg.tensorinv(a), np.float64)
    b = matrices(2, 3, seed=1)
    near(L.tensorsolve(tocha.from_numpy(a), tocha.from_numpy(b)), np.linalg.tensorsolve(a, b), np.float64)


def test_results_are_column_major():
    a = tocha.from_numpy(positive(2, 3, 3))
    column_major = (9, 1, 3)
    for result in (
        L.cholesky(a), L.inv(a), L.lu_factor(a).LU, L.qr(a).Q, L.qr(a).R, L.svd(a).U, L.svd(a).Vh, L.eigh(a).eigenvectors,
        L.eig(a).eigenvectors, L.solve(a, a), L.ldl_factor(a).LD, L.solve_triangular(a, a, upper=True),
    ):  # fmt: skip
        assert result.stride() == column_major
    assert L.solve(a, a, left=False).stride() == (9, 3, 1)


def test_out():
    a = tocha.from_numpy(positive(2, 3, 3))
    out = tocha.empty(0, dtype=tocha.float64)
    assert L.inv(a, out=out) is out
    near(out, np.linalg.inv(n(a)), np.float64)
    Q, R = tocha.empty(0, dtype=tocha.float64), tocha.empty(0, dtype=tocha.float64)
    L.qr(a, out=(Q, R))
    near(Q @ R, n(a), np.float64)
    with pytest.raises(RuntimeError, match="dtype"):
        L.inv(a, out=tocha.empty(0))


def test_failures_name_the_operator_and_the_matrix():
    good, bad = np.eye(3), np.zeros((3, 3))
    batch = tocha.from_numpy(np.stack([good, bad]))
    for f, name in ((L.inv, "linalg.inv"), (L.cholesky, "linalg.cholesky"), (L.lu_factor, "linalg.lu_factor")):
        with pytest.raises(L.LinAlgError, match=rf"\[{name}\] {name}: \(Batch element 1\)"):
            f(batch)
    with pytest.raises(L.LinAlgError, match=r"\[linalg.solve\] linalg.solve: \(Batch element 1\)"):
        L.solve(batch, batch)
    assert issubclass(L.LinAlgError, RuntimeError)
    assert L.inv_ex(batch).info.tolist() == [0, 1]
    assert L.cholesky_ex(batch).info.tolist() == [0, 1]
    with pytest.raises(L.LinAlgError):
        L.cholesky_ex(batch, check_errors=True)


@pytest.mark.parametrize("name", ["svd", "svdvals", "eigh", "eigvalsh", "eig", "eigvals", "matrix_rank", "pinv"])
def test_spectra_refuse_what_is_not_finite(name):
    for value in (float("nan"), float("inf")):
        with pytest.raises(L.LinAlgError):
            getattr(L, name)(tocha.full((3, 3), value))


def test_cholesky_of_nan_fails():
    assert L.cholesky_ex(tocha.full((3, 3), float("nan"))).info.item() == 1


def test_empty_matrices():
    none = tocha.zeros(2, 0, 0)
    assert L.det(none).tolist() == [1, 1]
    assert tuple(L.inv(none).shape) == (2, 0, 0)
    assert tuple(L.solve(none, tocha.zeros(2, 0, 3)).shape) == (2, 0, 3)
    assert L.svd(tocha.zeros(0, 3)).Vh.tolist() == tocha.eye(3).tolist()
    assert L.qr(tocha.zeros(3, 0), "complete").Q.tolist() == tocha.eye(3).tolist()
    assert tuple(L.eigh(tocha.zeros(0, 3, 3)).eigenvectors.shape) == (0, 3, 3)
    assert L.lstsq(tocha.zeros(0, 3), tocha.zeros(0, 2)).solution.tolist() == [[0, 0]] * 3
    assert L.matrix_rank(none).tolist() == [0, 0]


def test_many_small_matrices_match_one_by_one():
    a = matrices(500, 6, 6, dtype=np.float32)
    together = L.inv(tocha.from_numpy(a))
    for i in (0, 123, 499):
        assert np.array_equal(n(together[i]), n(L.inv(tocha.from_numpy(a[i]))))


def test_inputs_are_not_changed():
    a = positive(3, 3)
    t = tocha.from_numpy(np.asfortranarray(a))
    for f in (L.cholesky, L.inv, L.svd, L.eigh, L.eig, L.qr, L.lu_factor, L.det, L.svdvals, L.eigvalsh, L.ldl_factor):
        f(t)
        assert np.array_equal(n(t), a)


def test_named_results():
    r = L.svd(tocha.eye(2))
    assert type(r).__name__ == "linalg_svd" and r.S.tolist() == [1, 1]
    assert tocha.svd(tocha.eye(2)).V.tolist() == [[1, 0], [0, 1]]


def test_low_rank_approximations():
    tocha.manual_seed(0)
    a = matrices(2, 30, 3) @ matrices(2, 3, 20, seed=1)
    for x in (a, np.swapaxes(a, -1, -2).copy()):
        U, S, V = tocha.svd_lowrank(tocha.from_numpy(x), q=4)
        near((U * S.unsqueeze(-2)) @ V.mH, x, np.float64)
    U, S, V = tocha.pca_lowrank(tocha.from_numpy(a), q=3)
    near((U * S.unsqueeze(-2)) @ V.mH, a - a.mean(-2, keepdims=True), np.float64)


def test_large_matrices(dtype):
    """Orders that are factored in panels, on all threads."""
    a = matrices(300, 300, dtype=dtype)
    t = tocha.from_numpy(a)
    eps = np.finfo(dtype).eps * 3000
    P, lower, upper = L.lu(t)
    assert np.abs(n(P @ lower @ upper) - a).max() < eps
    for mode in ("reduced", "complete"):
        for x in (a, a[:, :270].copy(), a[:270].copy()):
            Q, R = L.qr(tocha.from_numpy(x), mode)
            assert np.abs(n(Q @ R) - x).max() < eps and np.abs(n(Q.mH @ Q) - np.eye(Q.shape[-1])).max() < eps
    s = (a @ np.conj(a.T) / 300 + np.eye(300)).astype(dtype)
    S, b = tocha.from_numpy(s), tocha.from_numpy(a[:, :100].copy())
    factor = L.cholesky(S)
    assert np.abs(n(factor @ factor.mH) - s).max() < eps
    assert np.abs(n(S @ L.solve(S, b) - b)).max() < eps
    assert np.abs(n(L.solve(S, b.mT, left=False) @ S - b.mT)).max() < eps
    assert np.abs(n(S @ L.inv(S)) - np.eye(300)).max() < eps
    assert np.abs(n(S @ tocha.cholesky_solve(b, factor) - b)).max() < eps
    for triangle in (factor, factor.contiguous()):
        assert np.abs(n(triangle @ L.solve_triangular(triangle, b, upper=False) - b)).max() < eps
        assert np.abs(n(triangle.mT @ L.solve_triangular(triangle.mT, b, upper=True) - b)).max() < eps


@pytest.mark.parametrize("size", [1, 3, 8, 15, 16, 17, 31, 33, 48, 49, 65, 130, 257])
def test_factors_by_halves_at_odd_sizes(dtype, size):
    """Sizes around those of the panels and triangles that have kernels of their own."""
    a = matrices(2, size, size, dtype=dtype) + np.eye(size, dtype=dtype) * 2 * size**0.5
    b = matrices(2, size, 5, dtype=dtype, seed=1)
    t = tocha.from_numpy(a)
    near(L.inv(t) @ t, np.broadcast_to(np.eye(size), a.shape), dtype)
    near(t @ L.solve(t, tocha.from_numpy(b)), b, dtype)
    near(L.solve(t, tocha.from_numpy(b).mT, left=False) @ t, np.swapaxes(b, -1, -2), dtype)
    for rows, columns in ((size, size), (2 * size + 1, size), (size, 2 * size + 1)):
        m = matrices(rows, columns, dtype=dtype, seed=2)
        p, low, up = L.lu(tocha.from_numpy(m))
        near(p @ low @ up, m, dtype)


def test_pivots_are_the_largest_and_first_of_their_column():
    a = np.array([[1.0, 2, 0], [-4, 1, 3], [4, 0, 1]], np.float32)
    assert L.lu_factor(tocha.from_numpy(a))[1].tolist()[0] == 2
    tall = np.zeros((1000, 3), np.float32)
    tall[[700, 701]] = [[-2, 1, 0], [2, 5, 1]]
    assert L.lu_factor_ex(tocha.from_numpy(tall))[1].tolist()[:2] == [701, 702]
    assert L.inv_ex(tocha.diag(tocha.tensor([1.0] * 40 + [0.0] * 2)))[1].item() == 41


def test_large_failures_are_located():
    singular = np.diag(np.r_[np.ones(250), 0.0, np.ones(49)])
    assert L.inv_ex(tocha.from_numpy(singular)).info.item() == 251
    assert L.cholesky_ex(tocha.from_numpy(singular)).info.item() == 251


@pytest.mark.parametrize("largest", [True, False])
def test_lobpcg(largest):
    tocha.manual_seed(0)
    a, b = positive(2, 30, 30), positive(30, 30)
    got, vectors = tocha.lobpcg(tocha.from_numpy(a), 3, n=4, largest=largest, tol=1e-10)
    want = np.linalg.eigvalsh(a)
    np.testing.assert_allclose(n(got), want[:, ::-1][:, :3] if largest else want[:, :3], rtol=1e-6)
    np.testing.assert_allclose(a @ n(vectors), n(vectors) * n(got)[:, None, :], atol=1e-5)
    got, _ = tocha.lobpcg(tocha.from_numpy(a[0]), 2, tocha.from_numpy(b), largest=largest, tol=1e-10)
    want = np.sort(np.linalg.eigvals(np.linalg.solve(b, a[0])).real)
    np.testing.assert_allclose(n(got), want[::-1][:2] if largest else want[:2], rtol=1e-5)


@pytest.mark.parametrize("n", [49, 97, 256, 301])
@pytest.mark.parametrize("kind", ["random", "few distinct", "tridiagonal", "graded", "clusters", "nearly split"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_eigenvectors_of_a_large_symmetric_matrix_are_orthonormal_and_in_order(n, kind, dtype):
    rng = np.random.default_rng(n)
    a = rng.standard_normal((n, n))
    a = a + a.T
    if kind == "few distinct":
        thin = rng.standard_normal((n, 3))
        a = thin @ thin.T + np.eye(n)
    elif kind == "tridiagonal":
        a = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    elif kind == "graded":
        sizes = 10.0 ** -np.linspace(0, 8, n)
        a = a * sizes * sizes[:, None]
    elif kind == "clusters":
        around = np.repeat(np.arange(n // 8 + 1), 8)[:n] + 1e-6 * rng.standard_normal(n)
        q = np.linalg.qr(a)[0]
        a = (q * around) @ q.T
    elif kind == "nearly split":  # Wilkinson's matrices, held together by little
        steps = np.ones(n - 1)
        steps[20::21] = 1e-7
        a = np.diag(np.abs(np.arange(n) % 21 - 10.0)) + np.diag(steps, 1) + np.diag(steps, -1)
    a = ((a + a.T) / 2).astype(dtype)
    for uplo in "LU":
        values, vectors = (t.double().numpy() for t in tocha.linalg.eigh(tocha.tensor(a), UPLO=uplo))
        scale = np.abs(a).max() * n * np.finfo(dtype).eps
        assert np.abs(a.astype("float64") @ vectors - vectors * values).max() < scale
        assert np.abs(vectors.T @ vectors - np.eye(n)).max() < n * np.finfo(dtype).eps
        assert (np.diff(values) >= 0).all()
        alone = tocha.linalg.eigvalsh(tocha.tensor(a), UPLO=uplo).double().numpy()
        assert np.abs(alone - values).max() < 5 * scale  # without square roots, and less exact


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(17, 17), (16, 40), (70, 33), (2, 130, 130), (40, 200)])
def test_lu_factors_of_several_panels(shape, dtype):
    a = matrices(*shape, dtype=dtype)
    p, lower, upper = (t.numpy() for t in L.lu(tocha.from_numpy(a)))
    assert np.abs(p @ lower @ upper - a).max() < TOLERANCE[dtype]
    assert np.abs(np.tril(lower, -1)).max() <= 1.42  # pivots are chosen by |re| + |im|
    if shape[-1] == shape[-2]:
        b = matrices(*shape[:-1], 5, dtype=dtype, seed=1)
        x = L.solve(tocha.from_numpy(a), tocha.from_numpy(b)).numpy()
        assert np.abs(a @ x - b).max() < 50 * TOLERANCE[dtype]
        y = L.solve(tocha.from_numpy(a), tocha.from_numpy(b.swapaxes(-1, -2).copy()), left=False).numpy()
        assert np.abs(y @ a - b.swapaxes(-1, -2)).max() < 50 * TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(79, 79), (81, 130), (3, 100, 90), (2, 80, 128)])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr_by_blocks_of_reflections(shape, dtype, mode):
    a = matrices(*shape, dtype=dtype)
    q, r = (t.numpy() for t in L.qr(tocha.from_numpy(a), mode=mode))
    assert np.abs(q @ r - a).max() < 10 * TOLERANCE[dtype]
    assert np.abs(q.conj().swapaxes(-1, -2) @ q - np.eye(q.shape[-1])).max() < 10 * TOLERANCE[dtype]
    assert (r == np.triu(r)).all()


@pytest.mark.parametrize("n", [48, 65, 100, 255, 600])  # from 512 on threads share products with vectors, too
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_eigenvectors_do_not_depend_on_the_number_of_threads(n, threads):
    a = hermitian(n, n)
    before = tocha.get_num_threads()
    tocha.set_num_threads(threads)
    try:
        values, vectors = (t.numpy() for t in L.eigh(tocha.from_numpy(a)))
    finally:
        tocha.set_num_threads(before)
    assert np.abs(a @ vectors - vectors * values).max() < 1e-11 * n
    np.testing.assert_allclose(values, np.linalg.eigvalsh(a), atol=1e-11 * n)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("columns", [1, 4, 40])
def test_triangular_systems_of_few_columns(columns, upper):
    a = matrices(150, 150) / 150 + np.eye(150)
    a = np.triu(a) if upper else np.tril(a)
    b = matrices(150, columns, seed=1)
    for given in (tocha.from_numpy(a), tocha.from_numpy(a.T.copy()).t()):
        x = L.solve_triangular(given, tocha.from_numpy(b), upper=upper).numpy()
        assert np.abs(a @ x - b).max() < 1e-10


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("kind", ["random", "of rank 5", "of zeros", "huge", "tiny"])
@pytest.mark.parametrize(
    "shape", [(64, 64), (97, 97), (120, 70), (70, 120), (200, 70), (66, 300), (160, 129), (400, 380)]
)
def test_threads_share_singular_vectors(shape, kind, full):
    """Large matrices of any form: few threads or many find the vectors of one."""
    rng = np.random.default_rng(3)
    a = rng.standard_normal(shape)
    if kind == "of rank 5":
        a = rng.standard_normal((shape[0], 5)) @ rng.standard_normal((5, shape[1]))
    a *= {"of zeros": 0.0, "huge": 1e200, "tiny": 1e-200}.get(kind, 1.0)
    k, size = min(shape), max(np.abs(a).max(), 1e-300)
    before = tocha.get_num_threads()
    try:
        for threads in (1, 2, 5):
            tocha.set_num_threads(threads)
            U, S, Vh = (t.numpy() for t in L.svd(tocha.from_numpy(a), full_matrices=full))
            assert np.allclose((U[:, :k] * (S / size)) @ Vh[:k], a / size, rtol=0, atol=1e-12)
            assert np.allclose(S / size, np.linalg.svd(a / size, compute_uv=False), rtol=0, atol=1e-11)
            assert np.allclose(L.svdvals(tocha.from_numpy(a)).numpy() / size, S / size, rtol=0, atol=1e-11)
            assert np.allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-12) and np.allclose(
                Vh @ Vh.T, np.eye(Vh.shape[0]), atol=1e-12
            )
    finally:
        tocha.set_num_threads(before)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 70, 70), (2, 70, 150), (2, 64, 64)])
def test_a_batch_of_large_matrices_is_decomposed_as_each_alone(shape, dtype):
    a = tocha.from_numpy(matrices(*shape, dtype=dtype))
    tolerance = 1e-4 if dtype == "float32" else 1e-11
    U, S, Vh = L.svd(a, full_matrices=False)
    assert tocha.allclose((U * S[:, None]) @ Vh, a, atol=tolerance)
    assert tocha.allclose(S, tocha.stack([L.svdvals(m) for m in a]), atol=tolerance)
    square = a @ a.mT
    values, vectors = L.eigh(square)
    assert tocha.allclose(square @ vectors, vectors * values[:, None], atol=100 * tolerance)
    assert tocha.allclose(
        vectors.mT @ vectors, tocha.eye(shape[1], dtype=a.dtype).expand(len(a), -1, -1), atol=tolerance
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_reflections_of_columns_that_fade_away(dtype):
    """What is left of a matrix of rank one shrinks from step to step, until squares of it are nothing."""
    x = tocha.arange(100, dtype=getattr(tocha, dtype))
    a = x[:, None] * x / 100
    values, vectors = L.eigh(a)
    assert vectors.isfinite().all() and tocha.allclose(values[-1], a.trace(), rtol=1e-5)
    U, S, Vh = L.svd(a)
    assert U.isfinite().all() and Vh.isfinite().all() and tocha.allclose(S[0], a.trace(), rtol=1e-5)
