"""Transforms that lead from all numbers to a constraint: `biject_to` one to one, `transform_to` as suits optimization.

Both are registries by the class of a constraint; `register` adds to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha.distributions import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Constraints and the factories of transforms that lead to them.

    >>> from tocha.distributions import constraints, transform_to
    >>> transform_to(constraints.interval(0.0, 4.0))(tocha.zeros(2))
    tensor([2., 2.])
    """

    def __init__(self) -> None:
        self._registry: dict[type, Callable] = {}
        super().__init__()

    def register(self, constraint: Any, factory: Callable | None = None) -> Any:
        """Registers factory(constraint) for a constraint class (or the class of an instance); also a decorator."""
        if factory is None:
            return lambda given: self.register(constraint, given)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError(
                f"[ConstraintRegistry] Expected constraint to be either a Constraint subclass or instance, but got {constraint}"
            )
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """The transform from all numbers to a constraint."""
        try:
            factory = self._registry[type(constraint)]
        except KeyError:
            raise NotImplementedError(
                f"[ConstraintRegistry] Cannot transform {type(constraint).__name__} constraints"
            ) from None
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()
_BOTH = (biject_to, transform_to)


def _register_both(*kinds: Any) -> Callable:
    def register(factory: Callable) -> Callable:
        for registry in _BOTH:
            for kind in kinds:
                registry.register(kind, lambda constraint, to=registry: factory(constraint, to))
        return factory

    return register


@_register_both(constraints.real)
def _to_real(constraint: Any, to: ConstraintRegistry) -> Any:
    return transforms.identity_transform


@_register_both(constraints.independent)
def _to_independent(constraint: Any, to: ConstraintRegistry) -> Any:
    return transforms.IndependentTransform(to(constraint.base_constraint), constraint.reinterpreted_batch_ndims)


@_register_both(constraints.greater_than_eq, constraints.greater_than)
def _to_greater(constraint: Any, to: ConstraintRegistry) -> Any:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    )


@_register_both(constraints.less_than)
def _to_less(constraint: Any, to: ConstraintRegistry) -> Any:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    )


@_register_both(constraints.half_open_interval, constraints.interval)
def _to_interval(constraint: Any, to: ConstraintRegistry) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and low == 0 and high == 1:
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


@biject_to.register(constraints.simplex)
def _biject_to_simplex(constraint: Any) -> Any:
    return transforms.StickBreakingTransform()


@transform_to.register(constraints.simplex)
def _transform_to_simplex(constraint: Any) -> Any:
    return transforms.SoftmaxTransform()


@transform_to.register(constraints.lower_cholesky)
def _transform_to_lower_cholesky(constraint: Any) -> Any:
    return transforms.LowerCholeskyTransform()


@transform_to.register(constraints.positive_definite)
@transform_to.register(constraints.positive_semidefinite)
def _transform_to_positive_definite(constraint: Any) -> Any:
    return transforms.PositiveDefiniteTransform()


@_register_both(constraints.corr_cholesky)
def _to_corr_cholesky(constraint: Any, to: ConstraintRegistry) -> Any:
    return transforms.CorrCholeskyTransform()


@_register_both(constraints.cat)
def _to_cat(constraint: Any, to: ConstraintRegistry) -> Any:
    return transforms.CatTransform([to(c) for c in constraint.cseq], constraint.dim, constraint.lengths)


@_register_both(constraints.stack)
def _to_stack(constraint: Any, to: ConstraintRegistry) -> Any:
    return transforms.StackTransform([to(c) for c in constraint.cseq], constraint.dim)
