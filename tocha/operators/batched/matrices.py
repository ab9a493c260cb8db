"""LAPACK's kernels go over all dims before the matrices'; search in sorted rows does too."""

from __future__ import annotations

from tocha.operators.attention import _attention, _attention_backward
from tocha.operators.batched.kinds import leading_whole, mapped, register
from tocha.operators.factorizations import (
    _cholesky_factor,
    _ldl_factor,
    _lu_factor,
    _qr_factors,
    geqrf,
    linalg_householder_product,
    linalg_ldl_solve,
    lu_unpack,
    ormqr,
)
from tocha.operators.pseudoinverse import _least_squares
from tocha.operators.random import _dirichlet_grad, _standard_gamma_grad
from tocha.operators.record import batching
from tocha.operators.searching import searchsorted
from tocha.operators.solvers import (
    _cholesky_inverse,
    _inverse,
    _linalg_det,
    _linalg_slogdet,
    _solve,
    _solve_factored,
    cholesky_solve,
    linalg_lu_solve,
    linalg_solve_triangular,
)
from tocha.operators.spectra import _general_eigen, _hermitian_eigen, _singular_values

register(leading_whole, _cholesky_factor, _lu_factor, _ldl_factor, _qr_factors, geqrf, lu_unpack, ormqr)
register(leading_whole, _inverse, _cholesky_inverse, _linalg_det, _linalg_slogdet, _solve, _solve_factored)
register(leading_whole, _singular_values, _hermitian_eigen, _general_eigen)
register(leading_whole, linalg_householder_product, linalg_ldl_solve, linalg_lu_solve)
register(leading_whole, _standard_gamma_grad, _dirichlet_grad)


@batching(_least_squares)
def least_squares(b, A, B, rcond, driver):
    """Of a batch, the results that are empty for one matrix are so for all."""
    found = b.run(b.all(A), b.all(B), rcond, driver)
    return mapped(lambda r: r if r.ndim and r.shape[0] == b.size else r.expand([b.size, *r.shape]), found)


@batching(linalg_solve_triangular, cholesky_solve)
def broadcast_matrices(b, first, second, *rest):
    rank = max(first.ndim, second.ndim)
    return b.run(b.aligned(first, rank), b.aligned(second, rank), *rest)


@batching(_attention, _attention_backward)
def attention(b, *values):
    found = b.run(*(b.all(v) if b.is_tensor(v) else v for v in values))
    # Gradients that were not asked for are empty.
    return mapped(lambda r: r if r.ndim and r.shape[0] == b.size else r.expand([b.size, *r.shape]), found)


@batching(searchsorted)
def search(b, sorted_sequence, input, out_int32, right, side, sorter):
    options = (out_int32, right, side)
    if not b.has(sorted_sequence) and not b.has(sorter) and sorted_sequence.ndim == 1:
        return b.run(sorted_sequence, b.all(input), *options, sorter)
    rows, values, order = b.all(sorted_sequence), b.all(input), b.all(sorter)
    if sorted_sequence.ndim == 1:
        found = b.run(rows.contiguous(), values.reshape([b.size, -1]), *options, order)
        return found.reshape(values.shape)
    return b.run(rows.contiguous(), values.contiguous(), *options, order)
