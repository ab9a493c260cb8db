"""Compressed sparse tensors (CSR, CSC, BSR, BSC): every layout times every operation against dense ones, gradients by finite
differences, indices that do not fit."""

from __future__ import annotations

import copy
import io
import itertools
import random

import pytest

import tocha

LAYOUTS = [(tocha.sparse_csr, None), (tocha.sparse_csc, None), (tocha.sparse_bsr, (2, 2)), (tocha.sparse_bsc, (2, 2))]
EVERY = [*LAYOUTS, (tocha.sparse_coo, None)]
layouts = pytest.mark.parametrize(("layout", "block"), LAYOUTS, ids=str)
every_layout = pytest.mark.parametrize(("layout", "block"), EVERY, ids=str)
DENSE = tocha.tensor([[0.0, 2, 0, -1], [0, 0, 0, 0], [3, 0, 0.5, 0], [0, 0, 4, 0]], dtype=tocha.float64)


def of(dense, layout, block):
    return dense.to_sparse(layout=layout, blocksize=block)


def parts(t):
    return (t._indices(), t._values()) if t.is_sparse else (t._groups, t._within, t._held)


def like(s, values):
    """A tensor with the indices of another, and a history to its values."""
    if s.is_sparse:
        return tocha.sparse_coo_tensor(s._indices(), values, s.shape, is_coalesced=True)
    return tocha.sparse_compressed_tensor(s._groups, s._within, values, s.shape, layout=s.layout)


@layouts
def test_there_and_back(layout, block):
    s = of(DENSE, layout, block)
    assert s.layout == layout and s.shape == DENSE.shape and not s.is_sparse
    assert tocha.equal(s.to_dense(), DENSE) and tocha.equal(s.to_sparse_coo().to_dense(), DENSE)
    for other, size in EVERY:
        if other == tocha.sparse_coo or (size is None) == (block is None):
            assert tocha.equal(s.to_sparse(layout=other, blocksize=size).to_dense(), DENSE)


@layouts
def test_batches(layout, block):
    dense = tocha.stack([DENSE, DENSE.flip(0)])
    s = of(dense, layout, block)
    assert tocha.equal(s.to_dense(), dense) and tocha.equal(s[1].to_dense(), dense[1])
    other = {tocha.sparse_csr: tocha.sparse_csc, tocha.sparse_csc: tocha.sparse_csr, tocha.sparse_bsr: tocha.sparse_bsc}
    flipped = s.to_sparse(layout=other.get(layout, tocha.sparse_bsr), blocksize=block)
    assert tocha.equal(flipped.to_dense(), dense) and tocha.equal(s.transpose(1, 2).to_dense(), dense.transpose(1, 2))
    factor = tocha.randn(2, 4, 3, dtype=tocha.float64)
    assert tocha.allclose(tocha.bmm(s, factor), dense @ factor)


@layouts
def test_copies_and_files(layout, block):
    s = of(DENSE, layout, block)
    file = io.BytesIO()
    tocha.save(s, file)
    file.seek(0)
    for copied in (s.clone(), copy.deepcopy(s), tocha.load(file), s.detach(), s.float().double()):
        assert copied.layout == layout and all(tocha.equal(a, b) for a, b in zip(parts(copied), parts(s), strict=True))
    assert s.clone().values().data_ptr() != s.values().data_ptr() == s.detach().values().data_ptr()


UNARY = [
    "abs",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "erf",
    "expm1",
    "floor",
    "frac",
    "isinf",
    "isnan",
    "log1p",
    "neg",
    "relu",
    "round",
    "sgn",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]


@layouts
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, layout, block):
    s = of(DENSE / 8, layout, block)
    made = getattr(tocha, name)(s)
    assert made.layout == layout and tocha.allclose(made.to_dense(), getattr(tocha, name)(DENSE / 8), equal_nan=True)
    if made.dtype == s.dtype:
        assert tocha.allclose(getattr(s, name + "_")().to_dense(), made.to_dense(), equal_nan=True)


@layouts
def test_sums_of_different_places(layout, block):
    other = DENSE.t().contiguous()
    s, o = of(DENSE, layout, block), of(other, layout, block)
    assert tocha.equal((s + o).to_dense(), DENSE + other) and (s + o).layout == layout
    assert tocha.equal(s.add(o, alpha=3).to_dense(), DENSE + 3 * other) and tocha.equal(s + other, DENSE + other)
    assert tocha.equal(s.clone().add_(o).to_dense(), DENSE + other) and tocha.equal(other + s, DENSE + other)


@every_layout
def test_products(layout, block):
    s, factor = of(DENSE, layout, block), tocha.randn(4, 3, dtype=tocha.float64)
    assert tocha.allclose(s @ factor, DENSE @ factor) and tocha.allclose(factor.t() @ s, factor.t() @ DENSE)
    assert tocha.allclose(s @ factor[:, 0], DENSE @ factor[:, 0]) and tocha.allclose(
        factor[:, 0] @ s, factor[:, 0] @ DENSE
    )
    assert tocha.allclose(tocha.nn.functional.linear(factor.t(), s), factor.t() @ DENSE.t())
    assert tocha.allclose(tocha.nn.functional.linear(factor.t().expand(2, 3, 4), s)[1], factor.t() @ DENSE.t())
    for other, size in EVERY:
        product = s @ of(DENSE.t().contiguous(), other, size)
        assert product.layout != tocha.strided and tocha.allclose(product.to_dense(), DENSE @ DENSE.t())


@pytest.mark.parametrize(
    "dtype", [tocha.float32, tocha.bfloat16, tocha.float16, tocha.complex64, tocha.int64, tocha.int8]
)
def test_products_of_other_dtypes(dtype):
    dense = (DENSE * 2).to(dtype)
    for layout, block in LAYOUTS:
        s, factor = of(dense, layout, block), tocha.arange(8).reshape(4, 2).to(dtype)
        assert tocha.allclose((s @ factor).to(tocha.complex64), dense.to(tocha.complex64) @ factor.to(tocha.complex64))


def test_a_zero_that_is_held_times_infinity():
    s = tocha.sparse_csr_tensor([0, 1], [0], [0.0], (1, 2))
    assert tocha.isnan(s @ tocha.full((2, 3), float("inf"))).all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [1, 3, 64, 129])
def test_great_products(threads, n):
    before = tocha.get_num_threads()
    tocha.set_num_threads(threads)
    try:
        dense = tocha.randn(300, 200) * (tocha.rand(300, 200) < 0.1)
        dense[::7] = 0
        s, factor = dense.to_sparse_csr(), tocha.randn(200, n)
        assert tocha.allclose(s @ factor, dense @ factor, atol=1e-4) and tocha.allclose(
            s.to_sparse_csc() @ factor, dense @ factor, atol=1e-4
        )
        assert tocha.allclose((s @ s.t()).to_dense(), dense @ dense.t(), atol=1e-4)
        a, b = tocha.randn(300, n), tocha.randn(n, 200)
        sampled = tocha.sparse.sampled_addmm(s, a, b, beta=0.0)
        assert tocha.allclose(sampled.to_dense(), (a @ b) * (dense != 0), atol=1e-4)
    finally:
        tocha.set_num_threads(before)


F = tocha.nn.functional
SECOND = tocha.linspace(-1, 1, 12, dtype=tocha.float64).reshape(4, 3)
OPERATIONS = {
    "to_dense": lambda s: s.to_dense(), "to_coo": lambda s: s.to_sparse_coo().to_dense(), "matmul": lambda s: s @ SECOND, "from the left": lambda s: SECOND.t() @ s,
    "sparse.mm": lambda s: tocha.sparse.mm(s, SECOND), "vector": lambda s: s @ SECOND[:, 0], "linear": lambda s: F.linear(SECOND.t(), s), "add": lambda s: (s + s * 2).to_dense(),
    "transpose": lambda s: s.t().to_dense(), "sum": lambda s: s.sum(), "two": lambda s: (s @ s).to_dense(), "dense": lambda s: DENSE + s, "neg": lambda s: (-s).to_dense(),
    "scale": lambda s: (0.5 * s).to_dense(), "values": lambda s: s.values(), "clone": lambda s: s.clone().to_dense(), "addmm": lambda s: tocha.addmm(SECOND, s, SECOND, beta=2, alpha=3),
}  # fmt: skip
OF_ROWS = {
    "times dense": lambda s: (s * DENSE.t()).to_dense(), "times": lambda s: (s * s).to_dense(), "sampled": lambda s: tocha.sparse.sampled_addmm(s, SECOND, SECOND.t()).to_dense(),
    "mean": lambda s: tocha.sparse.mm(s, SECOND, "mean"), "amax": lambda s: tocha.sparse.mm(s, SECOND, "amax"), "sum of rows": lambda s: s.sum(1, keepdim=True).to_dense(),
    "select": lambda s: s[0].to_dense(), "blocks": lambda s: s.to_sparse_bsr((2, 2)).to_dense(), "columns": lambda s: s.to_sparse_csc().to_dense(), "tan": lambda s: s.tan().to_dense(),
}  # fmt: skip
CASES = [(*kind, name) for kind in EVERY for name in (*OPERATIONS, *(OF_ROWS if kind[0] == tocha.sparse_csr else ()))]


@pytest.mark.parametrize(("layout", "block", "name"), CASES, ids=str)
def test_gradients(layout, block, name):
    s = of(DENSE, layout, block)
    values = (s.coalesce() if s.is_sparse else s).values().clone().requires_grad_()
    operation = {**OPERATIONS, **OF_ROWS}[name]

    def f(v):
        return operation(like(s, v))

    assert tocha.autograd.gradcheck(f, (values,)) and tocha.autograd.gradgradcheck(f, (values,))


@every_layout
def test_gradients_of_the_dense_factor(layout, block):
    s, factor = of(DENSE, layout, block), SECOND.clone().requires_grad_()
    for f in (lambda d: s @ d, lambda d: d.t() @ s, lambda d: tocha.sparse.mm(s, d), lambda d: F.linear(d.t(), s)):
        assert tocha.autograd.gradcheck(f, (factor,)) and tocha.autograd.gradgradcheck(f, (factor,))


@layouts
def test_a_leaf_keeps_its_layout(layout, block):
    s = of(DENSE, layout, block).requires_grad_()
    (s * 3).to_dense().sum().backward()
    assert s.grad.layout == layout and tocha.equal(
        s.grad.to_dense(), 3 * of(tocha.ones_like(DENSE), layout, block).sparse_mask(s).to_dense()
    )
    (s * 2).to_dense().sum().backward()
    assert tocha.equal(s.grad.values(), tocha.full_like(s.grad.values(), 5.0))
    s.sum().backward()  # its gradient is dense, and so is the sum of both
    assert s.grad.layout == tocha.strided
    with pytest.raises(RuntimeError, match="leaf Variable"):
        s.mul_(2)


def test_softmax_leaves_out_what_is_not_held():
    s = DENSE.to_sparse().requires_grad_()
    for dim in (0, 1, -1):
        held = DENSE != 0
        dense = tocha.where(held, DENSE, float("-inf")).softmax(dim)
        assert tocha.allclose(tocha.sparse.softmax(s, dim).to_dense(), tocha.where(held, dense, 0.0))
        for f in (tocha.sparse.softmax, tocha.sparse.log_softmax):
            values = s.detach().values().clone().requires_grad_()
            assert tocha.autograd.gradcheck(lambda v, f=f, dim=dim: f(like(s.detach(), v), dim).to_dense(), (values,))


def test_comparisons_are_refused():
    s = DENSE.to_sparse_csr()
    for f in (lambda: s == s, lambda: s > 0, lambda: s.exp(), lambda: s - s, lambda: s / 2, lambda: tocha.cos(s)):
        with pytest.raises(RuntimeError, match="unsupported tensor layout: SparseCsr"):
            f()
    with pytest.raises(NotImplementedError, match=r"aten::cumsum.*SparseCsrCPU"):
        s.cumsum(0)


def test_nobody_takes_it_for_zeros():
    s = DENSE.to_sparse_csr()
    for f in (
        lambda: DENSE[s],
        lambda: tocha.cat([DENSE, s]),
        lambda: s.numpy(),
        lambda: tocha.stack([s, s]),
        lambda: s.tolist(),
    ):
        with pytest.raises((RuntimeError, TypeError, NotImplementedError, IndexError)):
            f()


def test_optimizers_take_the_gradients():
    weight = DENSE.to_sparse_csr().requires_grad_()
    (weight @ SECOND).square().sum().backward()
    assert weight.grad.layout == tocha.strided and weight.grad.shape == weight.shape
    tocha.sparse.mm(weight, SECOND).sum().backward()
    assert weight.grad.layout == tocha.strided


USES = [
    lambda s: s.to_dense(), lambda s: s.to_sparse_coo().to_dense(), lambda s: s @ tocha.ones(s.size(1), 2), lambda s: tocha.ones(2, s.size(0)) @ s, lambda s: s @ s.t(), lambda s: s + s.clone(),
    lambda s: s * s, lambda s: s.sum(1, keepdim=True), lambda s: str(s), lambda s: s.to_sparse_csc().to_dense(), lambda s: s.to_sparse_bsr((1, 1)), lambda s: s[0], lambda s: s.select(1, 0),
    lambda s: tocha.sparse.sampled_addmm(s, tocha.ones(s.size(0), 2), tocha.ones(2, s.size(1))), lambda s: s.t().to_dense(), lambda s: tocha.sparse.mm(s, tocha.ones(s.size(1), 2), "amax"),
    lambda s: s.sparse_mask(s), lambda s: copy.deepcopy(s), lambda s: s.sin().to_dense(), lambda s: (s @ tocha.ones(s.size(1))).sum(), lambda s: tocha.sparse.mm(s, tocha.ones(s.size(1), 2)),
]  # fmt: skip


def broken(rng):
    """Parts that may fit or not: out of range, unsorted, falling, twice."""
    rows, columns, count = rng.randint(0, 4), rng.randint(0, 4), rng.randint(0, 6)
    crow = sorted(rng.randint(-1, count + 1) for _ in range(rows + 1))
    if rng.random() < 0.5 and rows:
        crow[0], crow[-1] = 0, count
    if rng.random() < 0.3:
        rng.shuffle(crow)
    col = [
        rng.randint(-2, columns + 1) if rng.random() < 0.3 else rng.randint(0, max(columns - 1, 0))
        for _ in range(count)
    ]
    return crow, col, [1.0] * count, (rows, columns)


@pytest.mark.parametrize("seed", range(60))
def test_indices_that_do_not_fit_never_crash(seed):
    crow, col, values, size = broken(random.Random(seed))
    for dtype in (tocha.int64, tocha.int32):
        arguments = (tocha.tensor(crow, dtype=dtype), tocha.tensor(col, dtype=dtype), tocha.tensor(values), size)
        try:
            tocha.sparse_csr_tensor(*arguments, check_invariants=True)
            valid = True
        except RuntimeError:
            valid = False
        try:
            s = tocha.sparse_csr_tensor(*arguments, check_invariants=False)
        except RuntimeError:
            assert not valid
            continue
        for use in USES:
            try:
                use(s)
            except (RuntimeError, IndexError, NotImplementedError):
                assert not valid or 0 in size


def test_kernels_check_indices():
    v, d = tocha.ones(2), tocha.ones(3, 2)
    for crow, col in itertools.product(([0, 3], [1, 2], [0, 1], [0, -1, 2]), ([0, 1], [0, 5], [-1, 0])):
        if crow == [0, 2] and col == [0, 1]:
            continue
        with pytest.raises(RuntimeError, match="indices must"):
            tocha._csr_mm(v, tocha.tensor(crow), tocha.tensor(col), d)
        with pytest.raises(RuntimeError, match="indices must"):
            tocha._csr_product(
                v, tocha.tensor(crow), tocha.tensor(col), v, tocha.tensor([0, 1, 2, 2]), tocha.tensor([0, 1]), 2
            )


def test_unsorted_places_that_were_not_checked():
    s = tocha.sparse_csr_tensor([0, 2, 3], [2, 0, 1], [1.0, 2, 3], (2, 3), check_invariants=False)
    dense = tocha.tensor([[2.0, 0, 1], [0, 3, 0]])
    other = tocha.tensor([[0.0, 5, 0], [0, 1, 0]])
    assert tocha.equal(s.to_dense(), dense) and tocha.equal((s + other.to_sparse_csr()).to_dense(), dense + other)
    assert tocha.equal(s @ tocha.eye(3), dense) and tocha.equal((s * other.to_sparse_csr()).to_dense(), dense * other)
