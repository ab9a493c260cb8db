"""Losses of classes: the score of a target is gathered, its gradient is a comparison with the classes' numbers."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.decomposed.parts import along, counted, raised
from tocha.operators.losses import (
    _cross_entropy,
    _cross_entropy_backward,
    _multilabel_margin,
    _multilabel_margin_slopes,
    _nll,
    _nll_backward,
)
from tocha.operators.record import decomposition, op


def targets(target, ignore_index, single):
    """Classes with 0 for those to be ignored, and which are not."""
    classes = target.to(dt.int64).reshape([] if single else target.shape)
    kept = classes != ignore_index
    return op.where(kept, classes, 0), kept


def weights_of(classes, kept, weight, dtype):
    if weight is None:
        return kept.to(dtype)
    return op.where(kept, op.index(weight, [classes]), 0)


def picked(scores, classes, dim):
    """The score of each target."""
    return scores.gather(dim, classes.unsqueeze(dim)).squeeze(dim)


@decomposition(_nll)
def nll_in_parts(self, target, weight, ignore_index):
    classes, kept = targets(target, ignore_index, self.ndim == 1)
    weights = weights_of(classes, kept, weight, self.dtype)
    score = picked(self, classes, 0 if self.ndim == 1 else 1)
    return op.where(kept, -(score * weights), 0), weights


@decomposition(_nll_backward)
def nll_backward_in_parts(grad_output, target, weight, ignore_index, sizes):
    dim = 0 if len(sizes) == 1 else 1
    classes, kept = targets(target, ignore_index, len(sizes) == 1)
    weights = weights_of(classes, kept, weight, grad_output.dtype)
    numbers = along(counted(sizes[dim], target), dim, len(sizes))
    hit = (numbers == classes.unsqueeze(dim)) & kept.unsqueeze(dim)
    return op.where(hit, -(grad_output.reshape(classes.shape) * weights).unsqueeze(dim), 0)


@decomposition(_cross_entropy)
def cross_entropy_in_parts(self, target, weight, ignore_index):
    classes, kept = targets(target, ignore_index, False)
    weights = weights_of(classes, kept, weight, self.dtype)
    x = raised(self)
    lse = op.logsumexp(x, [1])
    loss = op.where(kept, (lse - picked(x, classes, 1)) * raised(weights), 0)
    return loss.to(self.dtype), weights, lse


@decomposition(_cross_entropy_backward)
def cross_entropy_backward_in_parts(grad_output, self, target, weight, lse, ignore_index):
    classes, kept = targets(target, ignore_index, False)
    weights = weights_of(classes, kept, weight, self.dtype)
    own = (counted(self.size(1), target) == classes.unsqueeze(1)).to(lse.dtype)
    shares = op.exp(raised(self) - lse.unsqueeze(1)) - own
    return op.where(kept.unsqueeze(1), shares * (raised(grad_output) * raised(weights)).unsqueeze(1), 0).to(self.dtype)


# -- margins -----------------------------------------------------------------------------------------


def margins(self, target):
    """Rows of scores, which pairs (target, other class) count, their margins, and which class each target is."""
    rows = raised(self).reshape([-1, self.size(-1) if self.ndim else 1])
    labels = target.reshape(rows.shape)
    valid = op.cumsum((labels < 0).to(dt.int64), 1) == 0  # up to the first -1
    own = (labels.unsqueeze(2) == counted(rows.size(1), target)) & valid.unsqueeze(2)
    others = ~op.any(own, [1], True)
    score = rows.gather(1, labels.clamp_min(0))
    apart = 1 - score.unsqueeze(2) + rows.unsqueeze(1)
    return rows, valid.unsqueeze(2) & others & (apart > 0), apart, own


@decomposition(_multilabel_margin)
def multilabel_margin_in_parts(self, target):
    rows, counts, apart, _ = margins(self, target)
    loss = op.sum(op.where(counts, apart, 0), [1, 2]) / rows.size(1)
    return loss.reshape(self.shape[:1] if self.ndim == 2 else []).to(self.dtype)


@decomposition(_multilabel_margin_slopes)
def multilabel_margin_slopes_in_parts(self, target):
    rows, counts, _, own = margins(self, target)
    pairs = counts.to(rows.dtype)
    up = op.sum(pairs, [1])
    down = op.sum(own.to(rows.dtype) * op.sum(pairs, [2], True), [1])
    return ((up - down) / rows.size(1)).reshape(self.shape).to(self.dtype)
