"""Products of matrices: the batch dim is one of those that matmul goes over."""

from __future__ import annotations

from tocha.operators.batched.kinds import leading, register
from tocha.operators.distances import cdist
from tocha.operators.products import (
    _identities_like,
    addbmm,
    addmm,
    addmv,
    baddbmm,
    bmm,
    dot,
    linalg_matrix_exp,
    matmul,
    mm,
    mv,
    nn_linear,
    vdot,
)
from tocha.operators.record import batching
from tocha.operators.triangles import tril, triu

register(leading, tril, triu, linalg_matrix_exp, cdist, _identities_like)


@batching(mm)
def matrices(b, self, mat2):
    left, right = b.first(self), b.first(mat2)
    if not b.has(mat2):  # one product of all rows
        return left.flatten(0, 1).mm(right).unflatten(0, [b.size, -1]) if left.numel() else left.matmul(right)
    return left.matmul(right)


@batching(bmm)
def batches(b, self, mat2):
    return b.aligned(self, 3).matmul(b.aligned(mat2, 3))


@batching(matmul)
def any_rank(b, self, other):
    left, right = b.all(self) if self.ndim == 1 else b.first(self), b.all(other) if other.ndim == 1 else b.first(other)
    rank = max(self.ndim, other.ndim, 2)
    if self.ndim == 1:
        left = left.unsqueeze(1)
    if other.ndim == 1:
        right = right.unsqueeze(2)
    left = padded(b, left, rank) if b.has(self) or self.ndim == 1 else left
    right = padded(b, right, rank) if b.has(other) or other.ndim == 1 else right
    out = left.matmul(right)
    if self.ndim == 1:
        out = out.squeeze(-2)
    return out.squeeze(-1) if other.ndim == 1 else out


def padded(b, x, rank):
    return x.reshape([x.shape[0], *[1] * (rank + 1 - x.ndim), *x.shape[1:]])


@batching(mv)
def matrix_and_vector(b, self, vec):
    if not b.has(self):
        return b.first(vec).matmul(self.t())
    return b.first(self).matmul(b.first(vec).unsqueeze(-1)).squeeze(-1)


@batching(dot)
def vectors(b, self, tensor):
    return b.all(self).unsqueeze(1).matmul(b.all(tensor).unsqueeze(2)).squeeze(2).squeeze(1)


@batching(vdot)
def conjugated_vectors(b, self, other):
    return b.all(self).conj().unsqueeze(1).matmul(b.all(other).unsqueeze(2)).squeeze(2).squeeze(1)


def scaled_sum(b, self, product, beta, alpha, rank):
    """beta self + alpha product; with beta 0 self does not count, whatever is in it."""
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    own = b.aligned(self, rank)
    return (own if beta == 1 else own * beta) + product


@batching(addmm)
def with_matrices(b, self, mat1, mat2, beta, alpha):
    return scaled_sum(b, self, matrices(b, mat1, mat2), beta, alpha, 2)


@batching(addmv)
def with_matrix_and_vector(b, self, mat, vec, beta, alpha):
    return scaled_sum(b, self, matrix_and_vector(b, mat, vec), beta, alpha, 1)


@batching(baddbmm)
def with_batches(b, self, batch1, batch2, beta, alpha):
    return scaled_sum(b, self, batches(b, batch1, batch2), beta, alpha, 3)


@batching(addbmm)
def with_sum_of_batches(b, self, batch1, batch2, beta, alpha):
    return scaled_sum(b, self, batches(b, batch1, batch2).sum(-3), beta, alpha, 2)


@batching(nn_linear)
def affine(b, input, weight, bias):
    turned = b.first(weight).transpose(-1, -2) if weight.ndim > 1 else b.first(weight)
    if not b.has(weight):
        out = b.first(input).matmul(turned)
    elif input.ndim == 1:
        out = b.all(input).unsqueeze(1).matmul(turned if weight.ndim > 1 else turned.unsqueeze(2)).squeeze(1)
    else:
        rows = b.all(input)
        out = rows.matmul(turned.reshape([b.size, *[1] * (rows.ndim - turned.ndim), *turned.shape[1:]]))
    if bias is None:
        return out
    shift = b.aligned(bias, out.ndim - 1) if b.has(bias) else bias
    return out + shift
