"""Products of vectors and batches in terms of those of matrices; distances between points."""

from __future__ import annotations

import math

from tocha.operators.decomposed.parts import raised
from tocha.operators.distances import (
    _cdist_backward,
    _cdist_forward,
    distance_slopes,
    goes_by_products,
    linalg_cross,
    pdist,
)
from tocha.operators.products import _identities_like, addbmm, addmv, dot, matmul, mv, nn_linear, vdot
from tocha.operators.record import decomposition, op
from tocha.operators.rules import broadcast_shapes, product


@decomposition(dot)
def dot_in_parts(self, tensor):
    return op.sum(raised(self) * raised(tensor)).to(self.dtype)


@decomposition(vdot)
def vdot_in_parts(self, other):
    return op.sum(raised(self).conj() * raised(other)).to(self.dtype)


@decomposition(mv)
def mv_in_parts(self, vec):
    return op.sum(raised(self) * raised(vec), [1]).to(self.dtype)


@decomposition(matmul)
def matmul_in_parts(self, other):
    if other.ndim == 1:
        if self.ndim == 1:
            return op.dot(self, other)
        rows = op.mv(self.reshape([product(self.shape[:-1]), self.size(-1)]), other)
        return rows.reshape(self.shape[:-1])
    if self.ndim == 1:
        return matmul_in_parts(self.unsqueeze(0), other).squeeze(-2)
    if other.ndim == 2:
        rows = op.mm(self.reshape([product(self.shape[:-1]), self.size(-1)]), other)
        return rows.reshape([*self.shape[:-1], other.size(1)])
    batch = broadcast_shapes(self.shape[:-2], other.shape[:-2], "matmul")
    a = self.expand([*batch, *self.shape[-2:]]).reshape([product(batch), *self.shape[-2:]])
    b = other.expand([*batch, *other.shape[-2:]]).reshape([product(batch), *other.shape[-2:]])
    return op.bmm(a, b).reshape([*batch, self.size(-2), other.size(-1)])


@decomposition(nn_linear)
def linear_in_parts(input, weight, bias):
    matrix = weight.t() if weight.ndim == 2 else weight
    if bias is None:
        return op.matmul(input, matrix)
    if weight.ndim == 2 and bias.ndim == 1:
        rows = op.addmm(bias, input.reshape([product(input.shape[:-1]), input.size(-1)]), matrix)
        return rows.reshape([*input.shape[:-1], weight.size(0)])
    return (op.matmul(raised(input), raised(matrix)) + raised(bias)).to(input.dtype)


def added(self, product, beta, alpha):
    """beta * self + alpha * product, where self does not count with beta 0."""
    scaled = op.mul(product, alpha)
    return scaled if beta == 0 else op.mul(raised(self), beta) + scaled


@decomposition(addmv)
def addmv_in_parts(self, mat, vec, beta, alpha):
    out = added(self, op.sum(raised(mat) * raised(vec), [1]), beta, alpha)
    return out.expand([mat.size(0)]).to(self.dtype)


@decomposition(addbmm)
def addbmm_in_parts(self, batch1, batch2, beta, alpha):
    inner = batch1.size(0) * batch1.size(2)
    rows = batch1.transpose(0, 1).reshape([batch1.size(1), inner])
    return op.addmm(self, rows, batch2.reshape([inner, batch2.size(2)]), beta=beta, alpha=alpha)


@decomposition(_identities_like)
def identities_like_in_parts(self):
    one = op.eye(self.size(-2), self.size(-1), dtype=self.dtype, device=self.device)
    return one.expand(self.shape)


@decomposition(linalg_cross)
def cross_in_parts(self, other, dim):
    def turned(x, by):
        return op.roll(x, [-by], [dim])

    return turned(self, 1) * turned(other, 2) - turned(self, 2) * turned(other, 1)


# -- distances ---------------------------------------------------------------------------------------


def norms(apart, p):
    if isinstance(apart.sizes[-1], int) and apart.sizes[-1] == 0:
        return op.zeros(apart.shape[:-1], dtype=apart.dtype, device=apart.device)
    return op.linalg_vector_norm(apart, p, [-1])


@decomposition(_cdist_forward)
def cdist_in_parts(x1, x2, p, compute_mode):
    if goes_by_products(x1, x2, p, compute_mode):
        lengths = op.sum(x1 * x1, [-1], True) + op.sum(x2 * x2, [-1], True).transpose(-1, -2)
        return op.clamp_min(op.matmul(x1, x2.transpose(-1, -2)) * -2 + lengths, 0).sqrt()
    apart = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    if apart.size(-1) != 1 or p in (0, 1) or math.isinf(p):
        return norms(apart, p)
    powers = op.squeeze(apart, -1).abs().pow(p)  # which overflow, where the norm of one number is its size
    return powers.sqrt() if p == 2 else powers.pow(1 / p)


@decomposition(_cdist_backward)
def cdist_backward_in_parts(grad_output, x1, x2, p, distances):
    apart = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    if p == 2:  # one division for all coordinates of a pair, as in the kernel
        scales = op.where(distances == 0, 0.0, grad_output / distances)
        return op.sum(apart * scales.unsqueeze(-1), [-2])
    slopes = distance_slopes(apart, distances.unsqueeze(-1), p)
    return op.sum(slopes * grad_output.unsqueeze(-1), [-2])


@decomposition(pdist)
def pdist_in_parts(self, p):
    pairs = op.triu_indices(self.size(0), self.size(0), 1, device=self.device)
    return norms(self.index_select(0, pairs.select(0, 0)) - self.index_select(0, pairs.select(0, 1)), p)
