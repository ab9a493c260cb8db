"""Special functions, element by element: error functions, the gamma and Bessel families, orthogonal polynomials."""

from __future__ import annotations

from functools import partial

from tocha.ir import dtypes as dt
from tocha.ir import scalar as s
from tocha.operators.record import BINARY, FLOATS, INT_TO_FLOAT, UNARY, composite, op, pointwise
from tocha.operators.rules import default_dtype

PRECISE = (dt.float32, dt.float64)
function = partial(pointwise, dtypes=FLOATS, promote=INT_TO_FLOAT, expensive=True)
special = partial(function, variants="function, out")
precise = partial(special, dtypes=PRECISE)
_NO_GRADIENT = frozenset({"no_gradient"})


# Error functions and the normal distribution


@function("erf(Tensor self) -> Tensor", variants=UNARY, aliases=("special.erf",), core=True, word="erf_vml_cpu")
def erf(x):
    """The error function."""
    return s.erf(x)


@function("erfc(Tensor self) -> Tensor", variants=UNARY, aliases=("special.erfc",), word="erfc_vml_cpu")
def erfc(x):
    """1 - erf(self), accurate where that is small."""
    return s.erfc(x)


@function(
    "erfinv(Tensor self) -> Tensor",
    variants=BINARY,
    aliases=("special.erfinv",),
    tags=frozenset({"keeps_inputs"}),
    word="erfinv_vml_cpu",
)
def erfinv(x):
    """The number whose error function is self."""
    return s.erfinv(x)


@precise("special_erfcx(Tensor self) -> Tensor")
def erfcx(x):
    """exp(self**2) * erfc(self)."""
    return s.erfcx(x)


@special("special_ndtr(Tensor self) -> Tensor", word="erf_vml_cpu")
def ndtr(x):
    """The normal distribution function."""
    return s.ndtr(x)


@precise("special_ndtri(Tensor self) -> Tensor")
def ndtri(x):
    """The normal quantile: the number whose ndtr is self."""
    return s.ndtri(x)


@precise("special_log_ndtr(Tensor self) -> Tensor")
def log_ndtr(x):
    """log(ndtr(self)), accurate in the lower tail."""
    return s.log_ndtr(x)


# The gamma family


@function("lgamma(Tensor self) -> Tensor", variants=BINARY, aliases=("special.gammaln",), word="lgamma_vml_cpu")
def lgamma(x):
    """The logarithm of the absolute value of the gamma function."""
    return s.lgamma(x)


@function("digamma(Tensor self) -> Tensor", variants=BINARY, aliases=("special.digamma", "special.psi"), word="digamma")
def digamma(x):
    """The derivative of lgamma."""
    return s.digamma(x)


@function("_polygamma(Tensor self, int n) -> Tensor", types={"params": (dt.int64,)}, variants="function")
def polygamma_of(x, n):
    """The n-th derivative of digamma."""
    return s.polygamma(n, x)


@composite(
    "polygamma(int n, Tensor input) -> Tensor",
    variants="function, out",
    aliases=("special.polygamma",),
    aten=("polygamma(int n, Tensor self) -> Tensor",),
    tags=frozenset({"pointwise"}),
    whole=True,
    word="polygamma",
)
def polygamma(n, input):
    """The n-th derivative of digamma."""
    if n < 0:
        raise RuntimeError(f"[polygamma] polygamma(n, x) does not support negative n: got {n}")
    return op.digamma(input) if n == 0 else op._polygamma(input, n)


@composite("polygamma.method(Tensor self, int n) -> Tensor", variants="method, inplace_method", aten=())
def polygamma_method(self, n):
    """The n-th derivative of digamma."""
    return op.polygamma(n, self)


@composite(
    "mvlgamma(Tensor self, int p) -> Tensor",
    node="MvlgammaBackward0",
    variants=BINARY,
    aliases=("special.multigammaln",),
    samples=lambda t: [((t(3, 4, low=2, high=5), 3), {})],
    tags=frozenset({"pointwise"}),
    whole=True,
)
def mvlgamma(self, p):
    """The logarithm of the multivariate gamma function of dimension p."""
    if p < 1:
        raise RuntimeError(f"[mvlgamma] p has to be greater than or equal to 1. Got {p}")
    if self.dtype == dt.bool_:
        raise RuntimeError("[mvlgamma] The input tensor may not be a boolean tensor.")
    if self.is_complex():
        raise NotImplementedError(f"[mvlgamma] \"arange_cpu\" not implemented for '{self.dtype}'")
    dtype = self.dtype if self.is_floating_point() else default_dtype()
    offsets = op.arange(p, dtype=dtype, device=self.device) * 0.5
    return op.lgamma(self.unsqueeze(-1) - offsets).sum(-1) + 0.25 * p * (p - 1) * 1.1447298858494002  # log(pi)


@pointwise(
    "igamma(Tensor self, Tensor other) -> Tensor",
    dtypes=FLOATS,
    variants=BINARY,
    expensive=True,
    aliases=("special.gammainc",),
    underived="igamma: input",
)
def igamma(a, x):
    """The regularized lower incomplete gamma function of order self."""
    return s.igamma(a, x)


@pointwise(
    "igammac(Tensor self, Tensor other) -> Tensor",
    dtypes=FLOATS,
    variants=BINARY,
    expensive=True,
    aliases=("special.gammaincc",),
    underived="igammac: input",
)
def igammac(a, x):
    """The regularized upper incomplete gamma function of order self."""
    return s.igammac(a, x)


@precise(
    "special_zeta(Operand self, Operand other) -> Tensor",
    domain=(1.5, 4.0),
    underived="zeta",
    aten=("special_zeta", "special_zeta.other_scalar", "special_zeta.self_scalar(Scalar self, Tensor other) -> Tensor"),
)
def zeta(x, q):
    """The Hurwitz zeta function: the sum of (k + other)**-self over k >= 0."""
    return s.zeta(x, q)


# The Bessel family


@function("i0(Tensor self) -> Tensor", variants=UNARY, aliases=("special.i0",), word="i0_vml_cpu")
def i0(x):
    """The modified Bessel function of the first kind, order 0."""
    return s.i0(x)


@special("special_i0e(Tensor self) -> Tensor")
def i0e(x):
    """exp(-abs(self)) * i0(self)."""
    return s.i0e(x)


@special("special_i1(Tensor self) -> Tensor")
def i1(x):
    """The modified Bessel function of the first kind, order 1."""
    return s.i1(x)


@special("special_i1e(Tensor self) -> Tensor")
def i1e(x):
    """exp(-abs(self)) * i1(self)."""
    return s.i1e(x)


@precise("special_bessel_j0(Tensor self) -> Tensor", tags=_NO_GRADIENT)
def bessel_j0(x):
    """The Bessel function of the first kind, order 0."""
    return s.bessel_j0(x)


@precise("special_bessel_j1(Tensor self) -> Tensor", tags=_NO_GRADIENT)
def bessel_j1(x):
    """The Bessel function of the first kind, order 1."""
    return s.bessel_j1(x)


@precise("special_bessel_y0(Tensor self) -> Tensor", tags=_NO_GRADIENT)
def bessel_y0(x):
    """The Bessel function of the second kind, order 0."""
    return s.bessel_y0(x)


@precise("special_bessel_y1(Tensor self) -> Tensor", tags=_NO_GRADIENT)
def bessel_y1(x):
    """The Bessel function of the second kind, order 1."""
    return s.bessel_y1(x)


@precise("special_modified_bessel_i0(Tensor self) -> Tensor", tags=_NO_GRADIENT)
def modified_bessel_i0(x):
    """The modified Bessel function of the first kind, order 0."""
    return s.modified_bessel_i0(x)


@precise("special_modified_bessel_i1(Tensor self) -> Tensor", tags=_NO_GRADIENT)
def modified_bessel_i1(x):
    """The modified Bessel function of the first kind, order 1."""
    return s.modified_bessel_i1(x)


@precise("special_modified_bessel_k0(Tensor self) -> Tensor", tags=_NO_GRADIENT)
def modified_bessel_k0(x):
    """The modified Bessel function of the second kind, order 0."""
    return s.modified_bessel_k0(x)


@precise("special_modified_bessel_k1(Tensor self) -> Tensor", tags=_NO_GRADIENT)
def modified_bessel_k1(x):
    """The modified Bessel function of the second kind, order 1."""
    return s.modified_bessel_k1(x)


@precise(
    "special_scaled_modified_bessel_k0(Tensor self) -> Tensor",
    tags=_NO_GRADIENT,
    aten=("special_scaled_modified_bessel_k0(Tensor x) -> Tensor",),
)
def scaled_modified_bessel_k0(x):
    """exp(self) * modified_bessel_k0(self)."""
    return s.scaled_modified_bessel_k0(x)


@precise(
    "special_scaled_modified_bessel_k1(Tensor self) -> Tensor",
    tags=_NO_GRADIENT,
    aten=("special_scaled_modified_bessel_k1(Tensor x) -> Tensor",),
)
def scaled_modified_bessel_k1(x):
    """exp(self) * modified_bessel_k1(self)."""
    return s.scaled_modified_bessel_k1(x)


@precise(
    "special_spherical_bessel_j0(Tensor self) -> Tensor",
    tags=_NO_GRADIENT,
    aten=("special_spherical_bessel_j0(Tensor x) -> Tensor",),
)
def spherical_bessel_j0(x):
    """The spherical Bessel function of the first kind, order 0: sin(self) / self."""
    return s.spherical_bessel_j0(x)


@precise("special_airy_ai(Tensor self) -> Tensor", tags=_NO_GRADIENT, aten=("special_airy_ai(Tensor x) -> Tensor",))
def airy_ai(x):
    """The Airy function Ai."""
    return s.airy_ai(x)


# Orthogonal polynomials of degree n at x


polynomial = partial(precise, tags=_NO_GRADIENT)


@polynomial(
    "special_chebyshev_polynomial_t(Operand self, Operand n) -> Tensor",
    aten=(
        "special_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor",
        "special_chebyshev_polynomial_t.x_scalar(Scalar x, Tensor n) -> Tensor",
        "special_chebyshev_polynomial_t.n_scalar(Tensor x, Scalar n) -> Tensor",
    ),
)
def chebyshev_polynomial_t(x, n):
    """The Chebyshev polynomial of the first kind."""
    return s.chebyshev_polynomial_t(x, n)


@polynomial(
    "special_chebyshev_polynomial_u(Operand self, Operand n) -> Tensor",
    aten=(
        "special_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor",
        "special_chebyshev_polynomial_u.x_scalar(Scalar x, Tensor n) -> Tensor",
        "special_chebyshev_polynomial_u.n_scalar(Tensor x, Scalar n) -> Tensor",
    ),
)
def chebyshev_polynomial_u(x, n):
    """The Chebyshev polynomial of the second kind."""
    return s.chebyshev_polynomial_u(x, n)


@polynomial(
    "special_chebyshev_polynomial_v(Operand self, Operand n) -> Tensor",
    aten=(
        "special_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor",
        "special_chebyshev_polynomial_v.x_scalar(Scalar x, Tensor n) -> Tensor",
        "special_chebyshev_polynomial_v.n_scalar(Tensor x, Scalar n) -> Tensor",
    ),
)
def chebyshev_polynomial_v(x, n):
    """The Chebyshev polynomial of the third kind."""
    return s.chebyshev_polynomial_v(x, n)


@polynomial(
    "special_chebyshev_polynomial_w(Operand self, Operand n) -> Tensor",
    aten=(
        "special_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor",
        "special_chebyshev_polynomial_w.x_scalar(Scalar x, Tensor n) -> Tensor",
        "special_chebyshev_polynomial_w.n_scalar(Tensor x, Scalar n) -> Tensor",
    ),
)
def chebyshev_polynomial_w(x, n):
    """The Chebyshev polynomial of the fourth kind."""
    return s.chebyshev_polynomial_w(x, n)


@polynomial(
    "special_shifted_chebyshev_polynomial_t(Operand self, Operand n) -> Tensor",
    aten=(
        "special_shifted_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor",
        "special_shifted_chebyshev_polynomial_t.x_scalar(Scalar x, Tensor n) -> Tensor",
        "special_shifted_chebyshev_polynomial_t.n_scalar(Tensor x, Scalar n) -> Tensor",
    ),
)
def shifted_chebyshev_polynomial_t(x, n):
    """The Chebyshev polynomial of the first kind at 2 * x - 1."""
    return s.shifted_chebyshev_polynomial_t(x, n)


@polynomial(
    "special_shifted_chebyshev_polynomial_u(Operand self, Operand n) -> Tensor",
    aten=(
        "special_shifted_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor",
        "special_shifted_chebyshev_polynomial_u.x_scalar(Scalar x, Tensor n) -> Tensor",
        "special_shifted_chebyshev_polynomial_u.n_scalar(Tensor x, Scalar n) -> Tensor",
    ),
)
def shifted_chebyshev_polynomial_u(x, n):
    """The Chebyshev polynomial of the second kind at 2 * x - 1."""
    return s.shifted_chebyshev_polynomial_u(x, n)


@polynomial(
    "special_shifted_chebyshev_polynomial_v(Operand self, Operand n) -> Tensor",
    aten=(
        "special_shifted_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor",
        "special_shifted_chebyshev_polynomial_v.x_scalar(Scalar x, Tensor n) -> Tensor",
        "special_shifted_chebyshev_polynomial_v.n_scalar(Tensor x, Scalar n) -> Tensor",
    ),
)
def shifted_chebyshev_polynomial_v(x, n):
    """The Chebyshev polynomial of the third kind at 2 * x - 1."""
    return s.shifted_chebyshev_polynomial_v(x, n)


@polynomial(
    "special_shifted_chebyshev_polynomial_w(Operand self, Operand n) -> Tensor",
    aten=(
        "special_shifted_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor",
        "special_shifted_chebyshev_polynomial_w.x_scalar(Scalar x, Tensor n) -> Tensor",
        "special_shifted_chebyshev_polynomial_w.n_scalar(Tensor x, Scalar n) -> Tensor",
    ),
)
def shifted_chebyshev_polynomial_w(x, n):
    """The Chebyshev polynomial of the fourth kind at 2 * x - 1."""
    return s.shifted_chebyshev_polynomial_w(x, n)


@polynomial(
    "special_hermite_polynomial_h(Operand self, Operand n) -> Tensor",
    aten=(
        "special_hermite_polynomial_h(Tensor x, Tensor n) -> Tensor",
        "special_hermite_polynomial_h.x_scalar(Scalar x, Tensor n) -> Tensor",
        "special_hermite_polynomial_h.n_scalar(Tensor x, Scalar n) -> Tensor",
    ),
)
def hermite_polynomial_h(x, n):
    """The physicists' Hermite polynomial."""
    return s.hermite_polynomial_h(x, n)


@polynomial(
    "special_hermite_polynomial_he(Operand self, Operand n) -> Tensor",
    aten=(
        "special_hermite_polynomial_he(Tensor x, Tensor n) -> Tensor",
        "special_hermite_polynomial_he.x_scalar(Scalar x, Tensor n) -> Tensor",
        "special_hermite_polynomial_he.n_scalar(Tensor x, Scalar n) -> Tensor",
    ),
)
def hermite_polynomial_he(x, n):
    """The probabilists' Hermite polynomial."""
    return s.hermite_polynomial_he(x, n)


@polynomial(
    "special_laguerre_polynomial_l(Operand self, Operand n) -> Tensor",
    aten=(
        "special_laguerre_polynomial_l(Tensor x, Tensor n) -> Tensor",
        "special_laguerre_polynomial_l.x_scalar(Scalar x, Tensor n) -> Tensor",
        "special_laguerre_polynomial_l.n_scalar(Tensor x, Scalar n) -> Tensor",
    ),
)
def laguerre_polynomial_l(x, n):
    """The Laguerre polynomial."""
    return s.laguerre_polynomial_l(x, n)


@polynomial(
    "special_legendre_polynomial_p(Operand self, Operand n) -> Tensor",
    aten=(
        "special_legendre_polynomial_p(Tensor x, Tensor n) -> Tensor",
        "special_legendre_polynomial_p.x_scalar(Scalar x, Tensor n) -> Tensor",
        "special_legendre_polynomial_p.n_scalar(Tensor x, Scalar n) -> Tensor",
    ),
)
def legendre_polynomial_p(x, n):
    """The Legendre polynomial."""
    return s.legendre_polynomial_p(x, n)
