"""What is special about products: shapes, strides, conjugation, wraparound, aliasing, contraction equations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tocha

RNG = np.random.default_rng(0)
REALS = ["float32", "float64"]
COMPLEX = ["complex64", "complex128"]
INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]


def array(shape, dtype="float64"):
    if dtype in COMPLEX:
        return (RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype(dtype)
    if dtype in INTEGERS:
        return RNG.integers(-100, 100, shape).astype(dtype)
    return RNG.standard_normal(shape).astype(dtype)


def close(t, expected):
    assert tuple(t.shape) == np.shape(expected)
    tolerance = 1e-4 if str(expected.dtype) in ("float32", "complex64") else 1e-9
    np.testing.assert_allclose(t.resolve_conj().resolve_neg().numpy(), expected, rtol=tolerance, atol=tolerance)


def layouts(a):
    """The same matrix contiguous, transposed, with gaps, and a row or column that repeats."""
    t = tocha.from_numpy(a)
    yield t
    yield tocha.from_numpy(np.ascontiguousarray(np.swapaxes(a, -1, -2))).transpose(-1, -2)
    wide = tocha.from_numpy(np.repeat(np.repeat(a, 2, -1), 3, -2))
    yield wide[..., ::3, ::2]


@pytest.mark.parametrize("dtype", [*REALS, *COMPLEX, *INTEGERS])
def test_every_layout(dtype):
    for m, k, n in [(1, 1, 1), (1, 7, 3), (5, 1, 4), (17, 33, 9), (40, 70, 65)]:
        a, b = array((m, k), dtype), array((k, n), dtype)
        for x, y in itertools.product(layouts(a), layouts(b)):
            close(x @ y, a @ b)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32"])
def test_expanded_operands(dtype):
    row, column, one = array((1, 20), dtype), array((30, 1), dtype), array((1, 1), dtype)
    b = array((20, 25), dtype)
    for small, shape in [(row, (30, 20)), (column, (30, 20)), (one, (30, 20))]:
        x = tocha.from_numpy(small).expand(shape)
        full = np.broadcast_to(small, shape)
        close(x @ tocha.from_numpy(b), full @ b)
        close(tocha.from_numpy(b).T @ x.T, b.T @ full.T)
        close(x @ tocha.from_numpy(b)[:, 3], full @ b[:, 3])
        close(x.T @ x, full.T @ full)


SHAPES = [(4,), (3, 4), (2, 3, 4), (5, 1, 3, 4), (1, 3, 4), (0, 3, 4), (2, 0, 4)]
OTHERS = [(4,), (4, 6), (2, 4, 6), (5, 2, 4, 6), (1, 4, 6), (2, 4, 0), (4, 1)]


@pytest.mark.parametrize(("a", "b"), list(itertools.product(SHAPES, OTHERS)))
def test_ranks(a, b):
    x, y = array(a), array(b)
    try:
        expected = np.matmul(x, y)
    except ValueError:
        with pytest.raises(RuntimeError):
            tocha.from_numpy(x) @ tocha.from_numpy(y)
        return
    got = tocha.from_numpy(x) @ tocha.from_numpy(y)
    close(got, np.asarray(expected))
    assert got.is_contiguous()


def test_batches_that_do_not_lie_evenly():
    q, k = array((3, 7, 5, 4)), array((3, 6, 5, 4))
    x, y = tocha.from_numpy(q).transpose(1, 2), tocha.from_numpy(k).transpose(1, 2)
    close(x @ y.transpose(-1, -2), np.einsum("bihd,bjhd->bhij", q, k))


def test_nothing_to_sum():
    assert (tocha.ones(3, 0) @ tocha.ones(0, 2)).tolist() == [[0, 0]] * 3
    bias = tocha.tensor([1.0, 2.0])
    assert tocha.addmm(bias, tocha.ones(3, 0), tocha.ones(0, 2), beta=2).tolist() == [[2, 4]] * 3
    assert tocha.addbmm(bias, tocha.ones(0, 3, 4), tocha.ones(0, 4, 2)).tolist() == [[1, 2]] * 3
    assert tocha.dot(tocha.ones(0), tocha.ones(0)).item() == 0
    assert tocha.nn.functional.linear(tocha.ones(2, 0), tocha.ones(3, 0), tocha.ones(3)).tolist() == [[1] * 3] * 2


def test_truths_have_sums_of_nothing():
    def truths(*shape):
        return tocha.zeros(shape, dtype=tocha.bool)

    for a, b, c in (((0, 3), (3, 2), (0, 2)), ((2, 3), (3, 0), (2, 0)), ((0, 0), (0, 0), (0, 0))):
        assert tocha.addmm(truths(*c), truths(*a), truths(*b)).shape == c
        assert tocha.baddbmm(truths(2, *c), truths(2, *a), truths(2, *b)).shape == (2, *c)
    assert not tocha.addmm(truths(2, 3), truths(2, 0), truths(0, 3), beta=0).any()
    with pytest.raises(RuntimeError, match="result type Long can't be cast to the desired output type Bool"):
        tocha.addmm(truths(2, 3), truths(2, 0), truths(0, 3))
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        tocha.addmm(truths(2, 2), truths(2, 3), truths(3, 2))


def test_integers_wrap_around():
    a = tocha.full((2, 300), 100, dtype=tocha.int8)
    assert (a @ a.T).tolist() == [[int(np.int64(300 * 10000).astype(np.int8))] * 2] * 2
    big = tocha.full((1, 2), 2**62, dtype=tocha.int64)
    assert (big @ tocha.full((2, 1), 2)).item() == 0


@pytest.mark.parametrize("dtype", COMPLEX)
def test_conjugated_and_negated_views(dtype):
    a, b = array((6, 40), dtype), array((40, 5), dtype)
    x, y = tocha.from_numpy(a), tocha.from_numpy(b)
    close(x.conj() @ y, a.conj() @ b)
    close(x @ y.conj(), a @ b.conj())
    close(x.conj() @ y.conj(), a.conj() @ b.conj())
    close(x.mH.mH @ y, a @ b)
    close(y.mH @ x.mH, b.conj().T @ a.conj().T)
    close(tocha.vdot(x[0].conj(), y[:, 0]), a[0] @ b[:, 0])
    close(x.conj().imag @ y.imag, -a.imag @ b.imag)
    close(x.conj().imag @ y.conj().imag, a.imag @ b.imag)
    close(tocha.addmm(x.conj()[:, :5], x, y, beta=2j, alpha=1 - 1j), 2j * a.conj()[:, :5] + (1 - 1j) * (a @ b))
    close(tocha.nn.functional.linear(x.conj(), y.mT.conj()), a.conj() @ b.conj())


def test_beta_zero_does_not_read():
    nan = tocha.full((3, 2), float("nan"))
    a, b = tocha.ones(3, 4), tocha.ones(4, 2)
    assert tocha.addmm(nan, a, b, beta=0).tolist() == [[4, 4]] * 3
    assert tocha.addmv(nan[:, 0], a, b[:, 0], beta=0).tolist() == [4] * 3
    assert tocha.addr(nan, a[:, 0], b[0], beta=0).tolist() == [[1, 1]] * 3
    assert tocha.baddbmm(nan, a[None], b[None], beta=0).tolist() == [[[4, 4]] * 3]
    assert tocha.addbmm(nan, a[None], b[None], beta=0).tolist() == [[4, 4]] * 3


def test_half_types_accumulate_in_float():
    for dtype in (tocha.bfloat16, tocha.float16):
        a = tocha.full((1, 4096), 0.25, dtype=dtype)
        assert (a @ tocha.ones(4096, 1, dtype=dtype)).item() == 1024


def test_out_may_be_an_operand():
    a = array((4, 4))
    x = tocha.from_numpy(a.copy())
    assert tocha.mm(x, x, out=x) is x
    close(x, a @ a)
    x = tocha.from_numpy(a.copy())
    close(x.addmm_(x, x.T), a + a @ a.T)
    x = tocha.from_numpy(a.copy())
    tocha.mm(x[:1].expand(4, 4), tocha.eye(4, dtype=tocha.float64), out=x)
    close(x, np.broadcast_to(a[:1], (4, 4)))
    out = tocha.empty(4, 4, dtype=tocha.float64).T
    assert tocha.mm(tocha.from_numpy(a), tocha.from_numpy(a), out=out) is out
    assert out.stride() == (1, 4)
    close(out, a @ a)


def test_chain_takes_the_cheap_order():
    shapes = [(30, 35), (35, 15), (15, 5), (5, 10), (10, 20), (20, 25)]
    arrays = [array(s) for s in shapes]
    close(tocha.linalg.multi_dot([tocha.from_numpy(a) for a in arrays]), np.linalg.multi_dot(arrays))
    thin = [tocha.ones(2000, 1), tocha.ones(1, 2000), tocha.ones(2000, 1)]
    assert tocha.linalg.multi_dot(thin)[0, 0].item() == 2000


def test_powers_and_exponentials():
    a = array((2, 4, 4))
    close(tocha.linalg.matrix_power(tocha.from_numpy(a), 7), np.linalg.matrix_power(a, 7))
    close(tocha.matrix_power(tocha.from_numpy(a), 0), np.broadcast_to(np.eye(4), a.shape))
    turn = tocha.tensor([[0.0, -20.0], [20.0, 0.0]], dtype=tocha.float64)
    close(tocha.matrix_exp(turn), np.array([[np.cos(20), -np.sin(20)], [np.sin(20), np.cos(20)]]))
    assert tocha.matrix_exp(tocha.zeros(3, 3)).tolist() == np.eye(3).tolist()


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, float("inf")])
def test_distances(p):
    a, b = array((3, 70, 5)), array((90, 5))
    b[0] = a[0, 0]
    expected = np.linalg.norm(a[:, :, None] - b, ord=p, axis=-1) if p else (a[:, :, None] != b).sum(-1).astype(float)
    x, y = tocha.from_numpy(a), tocha.from_numpy(b)
    close(tocha.cdist(x, y, p, compute_mode="donot_use_mm_for_euclid_dist"), expected)
    by_product = tocha.cdist(x, y, p).numpy()
    np.testing.assert_allclose(by_product, expected, rtol=1e-7, atol=1e-6)
    i, j = np.triu_indices(90, 1)
    close(tocha.pdist(y, p), np.linalg.norm(b[i] - b[j], ord=p, axis=-1) if p else (b[i] != b[j]).sum(-1).astype(float))


def test_distances_keep_nan():
    x = tocha.tensor([[float("nan"), 5.0], [0.0, 0.0]])
    for p in (1.0, 2.0, 3.0, float("inf")):
        assert np.isnan(tocha.cdist(x, tocha.zeros(30, 2), p).numpy()[0]).all()


EQUATIONS = [
    ("ij,jk->ik", (3, 4), (4, 5)), ("ij,jk", (3, 4), (4, 5)), ("ij,kj->ki", (3, 4), (5, 4)), ("i,j->ij", (3,), (4,)), ("i,i", (4,), (4,)),
    ("ij,ij->ij", (3, 4), (3, 4)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("bhid,bhjd->bhij", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("abc,cd,de->abe", (2, 3, 4), (4, 5), (5, 6)), ("ij,kl->", (2, 3), (4, 5)), ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    ("i...,...->...i", (3, 4, 5), (5,)), ("...,...", (2, 3), (3,)), ("...i->...", (2, 3)), ("ii->i", (4, 4)), ("iji->j", (3, 4, 3)),
    ("ij->ji", (3, 4)), ("ij->", (3, 4)), ("abab->ba", (2, 3, 2, 3)), ("ij,jk,kl,lm->im", (2, 3), (3, 4), (4, 5), (5, 6)),
    ("aB,Bc->ca", (2, 3), (3, 4)), ("bsid,bsjd,bsij->bsd", (2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 4, 6)), ("i,ij,j->", (3,), (3, 4), (4,)),
]  # fmt: skip


@pytest.mark.parametrize(("equation", "shapes"), [(e, s) for e, *s in EQUATIONS], ids=[e for e, *_ in EQUATIONS])
def test_einsum(equation, shapes):
    arrays = [array(s) for s in shapes]
    close(tocha.einsum(equation, *map(tocha.from_numpy, arrays)), np.asarray(np.einsum(equation, *arrays)))


def test_einsum_forms():
    a, b = array((3, 4)), array((4, 5))
    x, y = tocha.from_numpy(a), tocha.from_numpy(b)
    close(tocha.einsum(x, [0, 1], y, [1, 2], [2, 0]), (a @ b).T)
    close(tocha.einsum(x, [0, ...], [..., 0]), a.T)
    close(tocha.einsum("ij,jk->ik", [x, y]), a @ b)
    close(tocha.einsum("ij,jk->ik", x[:, :1], y), a[:, :1] * b.sum(0))  # size 1 broadcasts
    assert tocha.einsum("ij->ji", x).data_ptr() == x.data_ptr()
    square = tocha.from_numpy(array((3, 3)))
    assert tocha.einsum("ii->i", square).stride() == (4,)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [("ij,jk", [(3, 4), (5, 5)]), ("ii", [(3, 4)]), ("ij", [(3,)]), ("ij->k", [(3, 4)]), ("ij->ii", [(3, 4)]), ("ij,", [(3, 4)]), ("i.j", [(3, 4)]),
     ("i->i->i", [(3,)]), ("......", [(3,)]), ("ij...", [(3,)]), ("...,...", [(2, 3), (2,)]), ("i,j", [(2,), (3,), (4,)])],
)  # fmt: skip
def test_einsum_refuses(equation, shapes):
    with pytest.raises(RuntimeError, match=r"\[einsum\]"):
        tocha.einsum(equation, *[tocha.ones(s) for s in shapes])


def test_tensordot():
    a, b = array((2, 3, 4)), array((4, 3, 5))
    x, y = tocha.from_numpy(a), tocha.from_numpy(b)
    close(tocha.tensordot(x, y, dims=([1, 2], [1, 0])), np.tensordot(a, b, axes=([1, 2], [1, 0])))
    close(tocha.tensordot(x, y, dims=1), np.tensordot(a, b, axes=1))
    close(tocha.tensordot(x, y, dims=0), np.tensordot(a, b, axes=0))
    with pytest.raises(RuntimeError):
        tocha.tensordot(x, y, dims=2)


def test_refusals():
    a = tocha.ones(3, 4)
    for bad in (
        lambda: a @ tocha.ones(5, 6),
        lambda: a @ tocha.ones(4, 5, dtype=tocha.float64),
        lambda: a @ tocha.tensor(1.0),
    ):
        with pytest.raises(RuntimeError, match=r"\[matmul\]"):
            bad()
    with pytest.raises(NotImplementedError, match="'Bool'"):
        tocha.ones(2, 2, dtype=tocha.bool) @ tocha.ones(2, 2, dtype=tocha.bool)
    with pytest.raises(TypeError):
        a @ 3
    with pytest.raises(TypeError):
        3 @ a
    with pytest.raises(RuntimeError, match=r"\[addmm\]"):
        tocha.addmm(tocha.ones(4, 3, 4), a, a.T)
    with pytest.raises(RuntimeError, match="Double"):
        tocha.addmm(tocha.ones(3, 3, dtype=tocha.float64), a, a.T)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    "shape, columns",
    [
        ((5, 7), 3),
        ((64, 33), 70),
        ((300, 64), 100),
        ((2, 150, 128), 384),
        ((40, 600), 513),
        ((1, 200), 65),
        ((129, 2), 1),
    ],
)
def test_linear_adds_its_bias_to_every_row(shape, columns, threads):
    rng = np.random.default_rng([*shape, columns])
    x, w, b = (rng.integers(-4, 5, size).astype(np.float32) for size in (shape, (columns, shape[-1]), (columns,)))
    expected = x @ w.T + b
    before = tocha.get_num_threads()
    tocha.set_num_threads(threads)
    try:
        for weight in (tocha.tensor(w), tocha.tensor(np.ascontiguousarray(w.T)).t()):
            for bias in (tocha.tensor(b), tocha.tensor(np.repeat(b, 2))[::2]):
                got = tocha.nn.functional.linear(tocha.tensor(x), weight, bias)
                np.testing.assert_array_equal(got.numpy(), expected)
        double = tocha.nn.functional.linear(*(tocha.tensor(a, dtype=tocha.float64) for a in (x, w, b)))
        np.testing.assert_array_equal(double.numpy(), expected)
        half = tocha.nn.functional.linear(*(tocha.tensor(a, dtype=tocha.bfloat16) for a in (x, w, b)))
        np.testing.assert_allclose(half.float().numpy(), expected, rtol=1 / 128)
    finally:
        tocha.set_num_threads(before)


def test_int_mm_sums_in_int32():
    a, b = array((9, 300), "int8"), array((300, 7), "int8")
    expected = a.astype(np.int32) @ b.astype(np.int32)
    for x, y in itertools.product(layouts(a), layouts(b)):
        np.testing.assert_array_equal(tocha._int_mm(x, y).numpy(), expected)
    out = tocha.empty(9, 7, dtype=tocha.int32)
    assert tocha._int_mm(tocha.from_numpy(a), tocha.from_numpy(b), out=out) is out
    np.testing.assert_array_equal(out.numpy(), expected)
    unsigned = array((9, 300), "uint8")
    got = tocha._int_mm(tocha.from_numpy(unsigned), tocha.from_numpy(b)).numpy()
    np.testing.assert_array_equal(got, unsigned.astype(np.int32) @ b.astype(np.int32))
    assert tocha._int_mm(tocha.from_numpy(a)[:, :0], tocha.from_numpy(b)[:0]).numpy().any() == 0


@pytest.mark.parametrize(
    "out,error,phrase",
    [
        (lambda: tocha.empty(3, 5), RuntimeError, "Expected result dtype to be of type"),
        (lambda: tocha.empty(2, 5, dtype=tocha.int32), RuntimeError, r"Expected result.size\(0\) to be 3 but got 2"),
        (lambda: tocha.empty(0, dtype=tocha.int32), RuntimeError, r"Expected result.size\(0\) to be 3 but got 0"),
        (lambda: tocha.empty(3, dtype=tocha.int32), IndexError, "Dimension out of range"),
        (
            lambda: tocha.empty(3, 5, 1, dtype=tocha.int32),
            RuntimeError,
            "Expected result to be of dimension 2 but got 3",
        ),
        (lambda: tocha.empty(5, 3, dtype=tocha.int32).t(), RuntimeError, "Expected result to be contiguous"),
    ],
)
def test_int_mm_takes_results_as_they_are(out, error, phrase):
    a, b = (tocha.from_numpy(array(shape, "int8")) for shape in ((3, 4), (4, 5)))
    with pytest.raises(error, match=phrase):
        tocha._int_mm(a, b, out=out())


@pytest.mark.parametrize("call", ["linear(p, w)", "linear(p, w, w[:, 0])", "inner(p, w)", "inner(p, w[0])"])
def test_rows_that_had_to_be_copied_may_be_written_over(call):
    x = tocha.randn(2, 3, 4, dtype=tocha.float64, requires_grad=True)
    w = tocha.randn(5, 3, dtype=tocha.float64, requires_grad=True)
    found = []
    for write in (False, True):
        p = (x * 2).permute(0, 2, 1)
        y = eval(call, {"linear": tocha.nn.functional.linear, "inner": tocha.inner, "p": p, "w": w})
        if write:
            p.zero_()
        first = tocha.autograd.grad(y.square().sum(), (x, w), create_graph=True)
        found.append([*first, *tocha.autograd.grad(sum(g.sin().sum() for g in first), (x, w))])
    for plain, after in zip(*found, strict=True):
        assert tocha.equal(plain, after)


def test_rows_that_are_a_view_must_not_be_written_over():
    x, w = tocha.randn(2, 3, 4, requires_grad=True), tocha.randn(5, 4, requires_grad=True)
    p = (x * 2)[:, :, :]
    y = tocha.nn.functional.linear(p, w)
    p.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
