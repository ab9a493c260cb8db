"""The von Mises distribution."""

from __future__ import annotations

import math
from typing import Any

import tocha
from tocha import Size, Tensor
from tocha.distributions import constraints
from tocha.distributions.distribution import Distribution
from tocha.distributions.utils import broadcast_all, lazy_property, special

__all__ = ["VonMises"]


class VonMises(Distribution):
    """Angles around `loc`: a normal distribution on the circle, the narrower the greater `concentration` is.

    >>> from tocha.distributions import VonMises
    >>> VonMises(tocha.tensor(0.0), tocha.tensor(1.0)).log_prob(tocha.tensor([0.0, 3.0]))
    tensor([-1.0738, -3.0638])
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    _batched = {"loc": 0, "concentration": 0}

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def _log_i0(self) -> Tensor:
        return tocha.log(special.i0e(self.concentration)) + self.concentration

    @property
    def mean(self) -> Tensor:
        """The mean angle."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """The circular variance: 1 - I1(concentration) / I0(concentration)."""
        k = self.concentration
        return 1 - special.i1e(k) / special.i0e(k)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.concentration * tocha.cos(value - self.loc) - math.log(2 * math.pi) - self._log_i0()

    @lazy_property
    def _proposal_r(self) -> Tensor:
        """The parameter of the wrapped Cauchy proposals (Best and Fisher 1979), in double precision."""
        k = self.concentration.double()
        tau = 1 + (1 + 4 * k**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        # Rounding spoils rho for small concentrations; r is 1 / k + k up to k^3 there.
        return tocha.where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))

    @tocha.no_grad()
    def sample(self, sample_shape: Any = Size()) -> Tensor:
        """Draws by rejection from a wrapped Cauchy distribution."""
        shape = self._extended_shape(sample_shape)
        loc, k, r = self.loc.double(), self.concentration.double(), self._proposal_r
        angle = tocha.empty(shape, dtype=tocha.float64, device=loc.device)
        done = tocha.full(shape, False, device=loc.device)
        while not done.all():
            u1, u2, u3 = tocha.rand((3, *shape), dtype=tocha.float64, device=loc.device).unbind()
            z = tocha.cos(math.pi * u1)
            f = (1 + r * z) / (r + z)
            c = k * (r - f)
            accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
            angle = tocha.where(accept, (u3 - 0.5).sign() * f.acos(), angle)
            done = done | accept
        return ((angle + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)
