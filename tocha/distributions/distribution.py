"""`Distribution`: what every distribution has, the checks of parameters and values, and how batches are expanded."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import tocha
from tocha import Size, Tensor
from tocha._utils import is_captured
from tocha.distributions import constraints
from tocha.distributions.constraints import Constraint
from tocha.distributions.utils import _all_hold, _size, lazy_property

__all__ = ["Distribution"]


class Distribution:
    """The base of all distributions: shapes of batches and events, validation, and the methods they answer to.

    A subclass sets `arg_constraints` and `support`, and defines `sample` or `rsample`, `log_prob`, and what else it knows.
    `_batched` names the attributes that `expand` expands, with how many trailing dims of each belong to one event.

    >>> from tocha.distributions import Normal
    >>> d = Normal(tocha.zeros(3), 1.0)
    >>> d.batch_shape, d.expand((2, 3)).sample((5,)).shape
    (tocha.Size([3]), tocha.Size([5, 2, 3]))
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args: bool = __debug__
    _batched: ClassVar[dict[str, int] | None] = None

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Turns validation on or off for distributions that do not say it themselves."""
        if value not in (True, False):
            raise ValueError(f"[Distribution] expected True or False: got {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = Size(), event_shape: Any = Size(), validate_args: bool | None = None) -> None:
        self._batch_shape = batch_shape
        self._event_shape = event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        elif is_captured():  # what elements are is not known in a graph
            self._validate_args = False
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        try:
            expected = self.arg_constraints
        except NotImplementedError:
            expected = {}
            warnings.warn(
                f"{self.__class__} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize "
                "the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
        own = self.__dict__
        for name, constraint in expected.items():
            if isinstance(constraint, constraints._Dependent):
                continue  # what it depends on is checked by the distribution itself
            value = own.get(name)
            if value is None:
                if isinstance(getattr(type(self), name, None), lazy_property):
                    continue  # made from the parameter that was given
                value = getattr(self, name)
            if not _all_hold(constraint.check(value)):
                raise ValueError(
                    f"[{type(self).__name__}] Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint {constraint!r}, "
                    f"but found invalid values:\n{value}"
                )

    # -- shapes ----------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> Size:
        """The shape over which parameters are batched."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one event."""
        return self._event_shape

    def _extended_shape(self, sample_shape: Any = Size()) -> Size:
        """The shape of a sample: sample_shape, then batches, then one event."""
        return _size(sample_shape) + self._batch_shape + self._event_shape

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with batches of batch_shape; parameters are expanded, not copied."""
        owner = next((c for c in type(self).__mro__ if c.__dict__.get("_batched") is not None), None)
        if owner is None:
            raise NotImplementedError
        new = self._get_checked_instance(owner, _instance)
        batch_shape = _size(batch_shape)
        for name, dims in self._batched.items():  # type: ignore[union-attr]
            value = self.__dict__.get(name)
            if isinstance(value, Distribution):
                new.__dict__[name] = value.expand(batch_shape)
            elif value is not None:
                new.__dict__[name] = value.expand(batch_shape + value.shape[value.dim() - dims :])
        self._expand_rest(new, batch_shape)
        new._batch_shape, new._event_shape = batch_shape, self._event_shape
        new._validate_args = self._validate_args
        return new

    def _expand_rest(self, new: Any, batch_shape: Size) -> None:
        """Hands over to an expanded copy what is not in _batched."""

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    # -- what a distribution knows -----------------------------------------------------------------------

    @property
    def arg_constraints(self) -> dict[str, Constraint]:
        """The constraints of the parameters, by name."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The constraint that values satisfy."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The expectation."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The value of the greatest density or probability."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        """Draws without a gradient: sample_shape of them for every batch."""
        with tocha.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        """Draws through which gradients reach the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """n draws, or n batches of draws."""
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", stacklevel=2, category=FutureWarning
        )
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density or probability at value."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to value."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile: the inverse of cdf."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution along a first dim."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """e to the entropy."""
        return tocha.exp(self.entropy())

    # -- checks of values --------------------------------------------------------------------------------

    def _validate_sample(self, value: Tensor) -> None:
        """Refuses values that do not fit the shapes or lie outside the support. Graphs do so where the distribution was told to."""
        if is_captured() and "_validate_args" not in self.__dict__:
            return
        if not isinstance(value, Tensor):
            raise ValueError(
                f"[{type(self).__name__}] The value argument to log_prob must be a Tensor: got {type(value).__name__}"
            )
        self._check_shape(value.shape)
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if support is None:
            raise AssertionError("support is unexpectedly None")
        if not _all_hold(support.check(value)):
            raise ValueError(
                f"[{type(self).__name__}] Expected value argument ({type(value).__name__} of shape "
                f"{tuple(value.shape)}) to be within the support ({support!r}) of the distribution {self!r}, "
                f"but found invalid values:\n{value}"
            )

    def _check_shape(self, shape: Size) -> None:
        expected = self._batch_shape + self._event_shape
        if shape == expected:
            return
        start = len(shape) - len(self._event_shape)
        if shape[max(start, 0) :] != self._event_shape:
            raise ValueError(
                f"[{type(self).__name__}] The right-most size of value must match event_shape: {shape} vs "
                f"{self._event_shape}."
            )
        for i, j in zip(reversed(shape), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"[{type(self).__name__}] Value is not broadcastable with batch_shape+event_shape: {shape} vs "
                    f"{expected}."
                )

    def __repr__(self) -> str:
        own = self.__dict__
        parts = [
            f"{name}: {own[name] if own[name].numel() == 1 else own[name].size()}"
            for name in self.arg_constraints
            if name in own
        ]
        return f"{type(self).__name__}({', '.join(parts)})"
