"""Nothing of PyTorch's distributions is left out: every class, every pair of divergences, every transform and constraint is held against it.

Needs torch beside tocha; run by `make parity`.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from test_distributions_parity import CASES, FOR_KL, outcome, same  # noqa: E402

import tocha  # noqa: E402
import tocha.distributions  # noqa: E402

# Made of others, or without a density of their own: test_composed and test_kl_of_composed hold them.
COMPOSED = {"Distribution", "ExponentialFamily", "Independent", "TransformedDistribution", "MixtureSameFamily"}


def test_every_distribution_has_a_case():
    d = torch.distributions
    classes = {n for n in d.__all__ if isinstance(getattr(d, n), type) and issubclass(getattr(d, n), d.Distribution)}
    assert classes == CASES.keys() | COMPOSED


def test_every_divergence_has_a_case():
    named = {c.__name__ for pair in torch.distributions.kl._KL_REGISTRY for c in pair}
    assert named <= FOR_KL.keys() | COMPOSED


# How to make each transform, and from what shape it starts.
TRANSFORMS = {
    "AbsTransform": ("d.AbsTransform()", (3,)),
    "AffineTransform": ("d.AffineTransform(m.tensor([1.0, 2.0, 3.0]), m.tensor([2.0, -1.0, 0.5]))", (2, 3)),
    "CatTransform": ("d.CatTransform([d.ExpTransform(), d.TanhTransform()], 0, [2, 1])", (3,)),
    "ComposeTransform": ("d.ComposeTransform([d.ExpTransform(), d.AffineTransform(0.0, -2.0)])", (4,)),
    "CorrCholeskyTransform": ("d.CorrCholeskyTransform()", (2, 6)),
    "CumulativeDistributionTransform": ("d.CumulativeDistributionTransform(d.Normal(0.0, 1.0))", (3,)),
    "ExpTransform": ("d.ExpTransform()", (3,)),
    "IndependentTransform": ("d.IndependentTransform(d.ExpTransform(), 1)", (2, 3)),
    "LowerCholeskyTransform": ("d.LowerCholeskyTransform()", (2, 3, 3)),
    "PositiveDefiniteTransform": ("d.PositiveDefiniteTransform()", (3, 3)),
    "PowerTransform": ("d.ComposeTransform([d.ExpTransform(), d.PowerTransform(m.tensor(1.5))])", (3,)),
    "ReshapeTransform": ("d.ReshapeTransform((4,), (2, 2))", (3, 4)),
    "SigmoidTransform": ("d.SigmoidTransform()", (3,)),
    "SoftmaxTransform": ("d.SoftmaxTransform()", (2, 3)),
    "SoftplusTransform": ("d.SoftplusTransform()", (3,)),
    "StackTransform": ("d.StackTransform([d.ExpTransform(), d.SigmoidTransform()], 0)", (2, 3)),
    "StickBreakingTransform": ("d.StickBreakingTransform()", (2, 3)),
    "TanhTransform": ("d.TanhTransform()", (3,)),
    "identity_transform": ("d.identity_transform", (3,)),
}


def test_every_transform_has_a_case():
    assert set(torch.distributions.transforms.__all__) == TRANSFORMS.keys() | {"Transform"}


def gradient(m, x, f):
    """What a function gives, and its gradient."""
    made = f(x)
    grads = m.autograd.grad((made * made).sum(), x, allow_unused=True)
    return [made, *(g for g in grads if g is not None)]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    text, shape = TRANSFORMS[name]
    start = np.random.default_rng(3).standard_normal(shape)
    results = []
    for m in (tocha, torch):
        t = eval(text, {"m": m, "d": m.distributions})
        x = m.tensor(start, requires_grad=True)
        y = t(x).detach().requires_grad_()
        results.append(
            [
                outcome(lambda m=m, t=t, x=x: gradient(m, x, t)),
                outcome(lambda m=m, t=t, y=y: gradient(m, y, t.inv)),
                outcome(lambda m=m, t=t, x=x: gradient(m, x, lambda v: t.log_abs_det_jacobian(v, t(v)))),
                outcome(lambda m=m, t=t, x=x, y=y: gradient(m, y, lambda v: t.inv.log_abs_det_jacobian(v, x.detach()))),
                [t.bijective, t.domain, t.codomain, t.forward_shape(shape), t.inverse_shape(tuple(y.shape))],
            ]
        )
    for ours, theirs in zip(*results, strict=True):
        if isinstance(theirs, Exception):
            same(ours, theirs)
            continue
        assert isinstance(ours, list), ours
        for one, other in zip(ours, theirs, strict=True):
            same(one, other, rtol=1e-6, atol=1e-8)


# Instances of each constraint; values are tried against all of them.
CONSTRAINTS = {
    "boolean": "c.boolean",
    "cat": "c.cat([c.positive, c.real], -1, [1, 2])",
    "corr_cholesky": "c.corr_cholesky",
    "greater_than": "c.greater_than(0.5)",
    "greater_than_eq": "c.greater_than_eq(1.0)",
    "independent": "c.independent(c.positive, 1)",
    "integer_interval": "c.integer_interval(0, 2)",
    "interval": "c.interval(-1.0, 1.0)",
    "half_open_interval": "c.half_open_interval(-1.0, 1.0)",
    "less_than": "c.less_than(1.0)",
    "lower_cholesky": "c.lower_cholesky",
    "lower_triangular": "c.lower_triangular",
    "multinomial": "c.multinomial(2)",
    "nonnegative": "c.nonnegative",
    "nonnegative_integer": "c.nonnegative_integer",
    "one_hot": "c.one_hot",
    "positive": "c.positive",
    "positive_semidefinite": "c.positive_semidefinite",
    "positive_definite": "c.positive_definite",
    "positive_integer": "c.positive_integer",
    "real": "c.real",
    "real_vector": "c.real_vector",
    "simplex": "c.simplex",
    "square": "c.square",
    "stack": "c.stack([c.positive, c.real, c.unit_interval], -1)",
    "symmetric": "c.symmetric",
    "unit_interval": "c.unit_interval",
    "MixtureSameFamilyConstraint": "c.MixtureSameFamilyConstraint(c.positive)",
    "dependent": "c.dependent",
}
VALUES = [
    np.eye(3), np.ones((3, 3)), np.full((3, 3), -0.5), np.tril(np.full((3, 3), 0.5)), np.diag([1.0, 2.0, 0.0]), np.full((2, 3), 1 / 3),
    np.array([[0.0, 1.0, 0.0], [1.0, 1.0, 0.0]]), np.array([[np.nan, 1.0, np.inf]]), np.array([[2.0, 0.5, 0.5], [0.5, 2.0, 0.5], [0.5, 0.5, 2.0]]),
    np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.6, 0.8]]),
]  # fmt: skip


def test_every_constraint_has_a_case():
    others = {"Constraint", "dependent_property", "is_dependent"}
    assert set(torch.distributions.constraints.__all__) == CONSTRAINTS.keys() | others


def both(made, f):
    """f(module, made with it) in both libraries, which must agree; PyTorch's answer."""
    ours, theirs = (outcome(lambda m=m, x=x: f(m, x)) for m, x in zip((tocha, torch), made, strict=True))
    same(ours, theirs, rtol=1e-6, atol=1e-8)
    return theirs


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints(name):
    made = [eval(CONSTRAINTS[name], {"c": m.distributions.constraints}) for m in (tocha, torch)]
    both(made, lambda m, c: c.is_discrete)
    both(made, lambda m, c: c.event_dim)
    for value in VALUES:
        both(made, lambda m, c, value=value: c.check(m.tensor(value)))
    start = np.random.default_rng(4).standard_normal((3, 3))
    for registry in ("biject_to", "transform_to"):
        both(made, lambda m, c, registry=registry: getattr(m.distributions, registry)(c)(m.tensor(start)))
