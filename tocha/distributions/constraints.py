"""Constraints: sets of values that parameters and samples of distributions lie in, and the test of membership.

Every constraint says how many trailing dims make one value (`event_dim`) and whether it is a discrete set; `check` gives one
bool per value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tocha
from tocha import Tensor
from tocha.distributions.utils import _all_hold, linalg

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A set of values, such as the positive numbers or the simplex.

    >>> from tocha.distributions import constraints
    >>> constraints.positive.check(tocha.tensor([-1.0, 2.0]))
    tensor([False,  True])
    >>> constraints.simplex.event_dim
    1
    """

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """A bool for every value: does it satisfy the constraint?"""
        raise NotImplementedError

    def _name(self) -> str:
        return type(self).__name__.lstrip("_")

    def __repr__(self) -> str:
        return f"{self._name()}()"


def _require_constraint(value: Any) -> None:
    if not isinstance(value, Constraint):
        raise AssertionError(f"base_constraint must be a Constraint, got {type(value).__name__}")


class _Dependent(Constraint):
    """A constraint that depends on other values (a support between two parameters); it cannot check anything itself.

    >>> tocha.distributions.constraints.is_dependent(tocha.distributions.constraints.dependent)
    True
    """

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: object) -> bool:
    """Whether a constraint depends on other values and cannot check by itself.

    >>> tocha.distributions.constraints.is_dependent(tocha.distributions.constraints.positive), tocha.distributions.constraints.is_dependent(tocha.distributions.Uniform.support)
    (False, True)
    """
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property of a class that is a constraint: of the class a dependent one, of an instance the one it returns.

    >>> tocha.distributions.constraints.is_dependent(tocha.distributions.Uniform.support), tocha.distributions.Uniform(0.0, 1.0).support
    (True, Interval(lower_bound=0.0, upper_bound=1.0))
    """

    def __init__(
        self, fn: Callable | None = None, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> None:
        property.__init__(self, fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn: Callable) -> _DependentProperty:  # type: ignore[override]
        """As a decorator with options: dependent_property(event_dim=1)."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """A constraint whose last dims belong to one value: all of them must satisfy it.

    >>> tocha.distributions.constraints.independent(tocha.distributions.constraints.positive, 1).check(tocha.tensor([[1.0, 2.0], [1.0, -2.0]]))
    tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        _require_constraint(base_constraint)
        if not isinstance(reinterpreted_batch_ndims, int):
            raise AssertionError(
                f"reinterpreted_batch_ndims must be an int, got {type(reinterpreted_batch_ndims).__name__}"
            )
        if reinterpreted_batch_ndims < 0:
            raise AssertionError(f"reinterpreted_batch_ndims must be >= 0, got {reinterpreted_batch_ndims}")
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        result, n = self.base_constraint.check(value), self.reinterpreted_batch_ndims
        if result.dim() < n:
            raise ValueError(f"Expected value.dim() >= {self.base_constraint.event_dim + n} but got {value.dim()}")
        return result.reshape(result.shape[: result.dim() - n] + (-1,)).all(-1)

    def __repr__(self) -> str:
        return f"{self._name()}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """What a mixture's components take, for a value without the dim of components.

    >>> tocha.distributions.constraints.MixtureSameFamilyConstraint(tocha.distributions.constraints.positive).check(tocha.tensor([[1.0, 2.0]]))
    tensor([[True, True]])
    """

    def __init__(self, base_constraint: Constraint) -> None:
        _require_constraint(base_constraint)
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        """Components share one support per place, so a value is good when it is good for every component."""
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        kept = value.dim() - self.event_dim
        if kept < 0:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return result.reshape(result.shape[:kept] + (-1,)).all(-1)

    def __repr__(self) -> str:
        return f"{self._name()}({self.base_constraint!r})"


class _Boolean(Constraint):
    """0 and 1.

    >>> tocha.distributions.constraints.boolean.check(tocha.tensor([0.0, 1.0, 2.0]))
    tensor([ True,  True, False])
    """

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    """Vectors of one 1 and else 0.

    >>> tocha.distributions.constraints.one_hot.check(tocha.tensor([[0.0, 1.0], [1.0, 1.0]]))
    tensor([ True, False])
    """

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & value.sum(-1).eq(1)


class _Bounded(Constraint):
    """Sets with bounds, which may be tensors; they print with them."""

    _bounds: tuple[str, ...] = ("lower_bound", "upper_bound")

    def __repr__(self) -> str:
        return f"{self._name()}({', '.join(f'{name}={getattr(self, name)}' for name in self._bounds)})"


class _TwoBounds(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        super().__init__()


class _LowerBound(_Bounded):
    _bounds = ("lower_bound",)

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound
        super().__init__()


class _UpperBound(_Bounded):
    _bounds = ("upper_bound",)

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound
        super().__init__()


class _IntegerInterval(_TwoBounds):
    """Integers from lower_bound to upper_bound, both included.

    >>> tocha.distributions.constraints.integer_interval(0, 3).check(tocha.tensor([0.0, 1.5, 3.0]))
    tensor([ True, False,  True])
    """

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_UpperBound):
    """Integers up to upper_bound."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerGreaterThan(_LowerBound):
    """Integers from lower_bound."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Real(Constraint):
    """Numbers: everything but NaN.

    >>> tocha.distributions.constraints.real.check(tocha.tensor([1.0, float("nan")]))
    tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return value == value  # False for NaN


class _GreaterThan(_LowerBound):
    """Numbers above lower_bound.

    >>> tocha.distributions.constraints.greater_than(1).check(tocha.tensor([1.0, 2.0]))
    tensor([False,  True])
    """

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound < value


class _GreaterThanEq(_LowerBound):
    """Numbers from lower_bound.

    >>> tocha.distributions.constraints.greater_than_eq(1).check(tocha.tensor([0.0, 1.0]))
    tensor([False,  True])
    """

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound <= value


class _LessThan(_UpperBound):
    """Numbers below upper_bound.

    >>> tocha.distributions.constraints.less_than(1).check(tocha.tensor([0.0, 1.0]))
    tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(_TwoBounds):
    """Numbers from lower_bound to upper_bound, both included.

    >>> tocha.distributions.constraints.interval(0, 1).check(tocha.tensor([0.0, 1.0, 2.0]))
    tensor([ True,  True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_TwoBounds):
    """Numbers from lower_bound to upper_bound, which is not included.

    >>> tocha.distributions.constraints.half_open_interval(0, 1).check(tocha.tensor([0.0, 1.0]))
    tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Simplex(Constraint):
    """Vectors of numbers that are not negative and sum to 1.

    >>> tocha.distributions.constraints.simplex.check(tocha.tensor([[0.5, 0.5], [0.5, 0.6]]))
    tensor([ True, False])
    """

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(_UpperBound):
    """Vectors of counts that are not negative and sum to at most upper_bound.

    >>> tocha.distributions.constraints.multinomial(3).check(tocha.tensor([1.0, 2.0]))
    tensor(True)
    """

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)

    def __repr__(self) -> str:
        return f"{self._name()}()"


class _LowerTriangular(Constraint):
    """Lower triangular matrices.

    >>> tocha.distributions.constraints.lower_triangular.check(tocha.tensor([[1.0, 0.0], [2.0, -3.0]]))
    tensor(True)
    """

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).all(-1).all(-1)


class _LowerCholesky(Constraint):
    """Lower triangular matrices with a positive diagonal.

    >>> tocha.distributions.constraints.lower_cholesky.check(tocha.tensor([[1.0, 0.0], [2.0, 3.0]]))
    tensor(True)
    """

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return lower_triangular.check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    """Cholesky factors of correlation matrices: lower triangular, a positive diagonal, rows of length 1.

    >>> tocha.distributions.constraints.corr_cholesky.check(tocha.eye(2))
    tensor(True)
    """

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        tolerance = tocha.finfo(value.dtype).eps * value.size(-1) * 10
        unit = (linalg.norm(value.detach(), dim=-1) - 1).abs() <= tolerance
        return lower_cholesky.check(value) & unit.all(-1)


class _Square(Constraint):
    """Square matrices.

    >>> tocha.distributions.constraints.square.check(tocha.ones(2, 2))
    tensor(True)
    """

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        is_square = value.shape[-2] == value.shape[-1]
        return tocha.full(value.shape[:-2], is_square, device=value.device)


class _Symmetric(_Square):
    """Symmetric matrices, to 1e-6.

    >>> tocha.distributions.constraints.symmetric.check(tocha.tensor([[1.0, 2.0], [2.0, 1.0]]))
    tensor(True)
    """

    def check(self, value: Tensor) -> Tensor:
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return tocha.isclose(value, value.mT, atol=1e-6).all(-1).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices whose eigenvalues are not negative.

    >>> tocha.distributions.constraints.positive_semidefinite.check(tocha.ones(2, 2))
    tensor(True)
    """

    def check(self, value: Tensor) -> Tensor:
        symmetric_ones = super().check(value)
        if not _all_hold(symmetric_ones):
            return symmetric_ones
        return (linalg.eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices whose eigenvalues are positive.

    >>> tocha.distributions.constraints.positive_definite.check(tocha.tensor([[2.0, 1.0], [1.0, 2.0]]))
    tensor(True)
    """

    def check(self, value: Tensor) -> Tensor:
        symmetric_ones = super().check(value)
        if not _all_hold(symmetric_ones):
            return symmetric_ones
        return linalg.cholesky_ex(value).info == 0


class _Sequence(Constraint):
    """What cat and stack share: constraints for parts of a tensor along dim."""

    def __init__(self, cseq: Any, dim: int = 0) -> None:
        self.cseq = list(cseq)
        if not all(isinstance(c, Constraint) for c in self.cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")
        self.dim = dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(c.is_discrete for c in self.cseq)

    def _check_dim(self, value: Tensor) -> None:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} out of range for value with {value.dim()} dimensions")


class _Cat(_Sequence):
    """Constraints side by side along dim, each for as many places as lengths says.

    >>> tocha.distributions.constraints.cat([tocha.distributions.constraints.positive, tocha.distributions.constraints.real], dim=0, lengths=[1, 1]).check(tocha.tensor([-1.0, -1.0]))
    tensor([False,  True])
    """

    def __init__(self, cseq: Any, dim: int = 0, lengths: Any = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})")

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        self._check_dim(value)
        checks, start = [], 0
        for constraint, length in zip(self.cseq, self.lengths, strict=True):
            checks.append(constraint.check(value.narrow(self.dim, start, length)))
            start += length
        return tocha.cat(checks, self.dim)


class _Stack(_Sequence):
    """Constraints one above another along dim, each for one slice.

    >>> tocha.distributions.constraints.stack([tocha.distributions.constraints.positive, tocha.distributions.constraints.real], dim=0).check(tocha.tensor([[1.0], [-1.0]]))
    tensor([[True],
            [True]])
    """

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor) -> Tensor:
        self._check_dim(value)
        return tocha.stack([c.check(value.select(self.dim, i)) for i, c in enumerate(self.cseq)], self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
