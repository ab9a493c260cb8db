"""Indices of sparse tensors come from users: whatever they are, tensors are refused or computed with, and nothing crashes."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tocha

LAYOUTS = ["sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"]
REFUSALS = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError, OverflowError, MemoryError)
# Places that are mostly near the sizes, sometimes far away.
PLACES = st.one_of(st.integers(-2, 5), st.sampled_from([-(2**63), 2**63 - 1, 2**31, -(2**31), 2**40]))
SIZES = st.lists(st.one_of(st.integers(0, 4), st.sampled_from([-1, 2**20, 2**40, 2**62])), min_size=0, max_size=4)
INDEX_DTYPES = [tocha.int64, tocha.int32, tocha.int16, tocha.uint8, tocha.float32, tocha.bool, tocha.complex64]
VALUE_DTYPES = [tocha.float32, tocha.float64, tocha.bfloat16, tocha.int64, tocha.bool, tocha.complex64]


def is_small(t) -> bool:
    """Whether a dense tensor of its size can be made at all."""
    return t.numel() <= 10_000


def uses(s):
    """What is done with a tensor that was made."""
    yield lambda: str(s)
    yield lambda: s.clone()
    yield lambda: s.sum()
    yield lambda: s + s
    yield lambda: s * 2
    yield lambda: s.sin()
    yield lambda: s * s
    yield lambda: s.to(tocha.float64)
    if not is_small(s):
        return
    yield lambda: s.to_dense()
    for layout in (*LAYOUTS, "sparse_coo"):
        block = {"blocksize": (1, 1)} if layout in ("sparse_bsr", "sparse_bsc") else {}
        yield lambda layout=layout, block=block: s.to_sparse(layout=getattr(tocha, layout), **block).to_dense()
    yield lambda: s.t() @ s
    yield lambda: s @ s.t()
    yield lambda: s.coalesce().values()
    yield lambda: s[0]
    yield lambda: s.select(-1, 0)
    yield lambda: tocha.ones(s.shape, dtype=s.dtype).sparse_mask(s)
    yield lambda: tocha.sparse.softmax(s, -1)
    yield lambda: tocha.cat([s, s])
    if s.dim() == 2:
        right = tocha.ones(s.size(1), 3, dtype=s.dtype)
        left = tocha.ones(3, s.size(0), dtype=s.dtype)
        yield lambda: s @ right
        yield lambda: s @ right[:, 0]
        yield lambda: left @ s
        yield lambda: tocha.sparse.mm(s, right, "amax")
        yield lambda: tocha.sparse.sampled_addmm(s, left.t(), right.t())
        yield lambda: tocha.nn.functional.linear(right.t(), s)


def try_all(s) -> None:
    for use in uses(s):
        with contextlib.suppress(REFUSALS):
            use()


@st.composite
def numbers(draw, shape, dtypes):
    """A tensor of places, of a shape and of some dtype."""
    count = 1
    for n in shape:
        count *= n
    held = draw(st.lists(PLACES, min_size=count, max_size=count))
    dtype = draw(st.sampled_from(dtypes))
    wide = tocha.tensor(held, dtype=tocha.int64).reshape(shape)
    return wide.to(dtype)


@settings(max_examples=150)
@given(st.data())
def test_coordinates(data):
    dims, count = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 6))
    indices = data.draw(numbers((dims, count), INDEX_DTYPES))
    values = tocha.ones((data.draw(st.sampled_from([count, count + 1])), *data.draw(st.sampled_from([(), (2,), (0,)]))), dtype=data.draw(st.sampled_from(VALUE_DTYPES)))  # fmt: skip
    size = data.draw(st.one_of(st.none(), SIZES))
    for checked in (True, False):
        try:
            s = tocha.sparse_coo_tensor(indices, values, *(() if size is None else (size,)), check_invariants=checked)
        except REFUSALS:
            continue
        try_all(s)


@settings(max_examples=200)
@given(st.data())
def test_compressed(data):
    layout = data.draw(st.sampled_from(LAYOUTS))
    batch = data.draw(st.sampled_from([(), (), (), (2,), (0,)]))
    groups, count = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 6))
    block = (
        data.draw(st.sampled_from([(1, 1), (2, 2), (1, 2), (0, 1)])) if layout in ("sparse_bsr", "sparse_bsc") else ()
    )
    ends = data.draw(numbers((*batch, groups + 1), INDEX_DTYPES))
    within = data.draw(numbers((*batch, count), [ends.dtype, tocha.int64]))
    if data.draw(st.booleans()):  # ends that rise from 0 to count, so that the places are what is wrong
        ends = ends.to(tocha.int64).clamp(0, count).sort(-1).values
        ends[..., 0], ends[..., -1] = 0, count
        within = within.to(tocha.int64)
    dense = data.draw(st.sampled_from([(), (), (2,)]))
    values = tocha.ones((*batch, count, *block, *dense), dtype=data.draw(st.sampled_from(VALUE_DTYPES)))
    size = data.draw(SIZES)
    if data.draw(st.booleans()):
        rows = [groups * (block[0] if block else 1), data.draw(st.integers(0, 5)) * (block[1] if block else 1)]
        size = [*batch, *(rows if layout in ("sparse_csr", "sparse_bsr") else rows[::-1]), *dense]
    for checked in (True, False):
        try:
            s = tocha.sparse_compressed_tensor(ends, within, values, size, layout=getattr(tocha, layout), check_invariants=checked)  # fmt: skip
        except REFUSALS:
            continue
        try_all(s)


@settings(max_examples=60)
@given(st.data())
def test_kernels(data):
    """The kernels under all of that, which check every index themselves."""
    groups, count = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 6))
    crow, col = data.draw(numbers((groups + 1,), INDEX_DTYPES)), data.draw(numbers((count,), INDEX_DTYPES))
    if data.draw(st.booleans()):
        crow = crow.to(tocha.int64).clamp(0, count).sort().values
        crow[0], crow[-1] = 0, count
    n, k = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 40))
    v = tocha.ones(count)
    calls = [
        lambda: tocha._csr_mm(v, crow, col, tocha.ones(n, k)),
        lambda: tocha._csr_mm(v, crow, col, tocha.ones(n, 1)),
        lambda: tocha._csr_transposed_mm(v, crow, col, tocha.ones(groups, k), n),
        lambda: tocha._csr_sampled(tocha.ones(groups, k), tocha.ones(n, k), crow, col),
        lambda: tocha._csr_transpose(crow, col, n),
        lambda: tocha._csr_product(v, crow, col, v, crow, col, n),
    ]
    for call in calls:
        with contextlib.suppress(REFUSALS):
            call()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sizes_that_no_memory_holds(layout):
    """A tensor may be larger than memory while it holds little; what would need all of its elements says so."""
    s = tocha.sparse_compressed_tensor([0, 1], [0], tocha.ones(1, 1, 1) if layout[7] == "b" else tocha.ones(1), (1, 2**60) if layout[-1] == "r" else (2**60, 1), layout=getattr(tocha, layout))  # fmt: skip
    assert s._nnz() == 1 and float(s.sum()) == 1.0
    with pytest.raises(RuntimeError):
        s.to_dense()
