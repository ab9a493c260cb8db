"""Examples of tocha/operators/special.py."""


def erf():
    """
    >>> tocha.erf(tocha.tensor([0.0, 0.5, 1.0]))
    tensor([0.0000, 0.5205, 0.8427])
    """


def erfc():
    """
    >>> tocha.erfc(tocha.tensor([0.0, 0.5, 1.0]))
    tensor([1.0000, 0.4795, 0.1573])
    """


def erfinv():
    """
    >>> tocha.erfinv(tocha.tensor([0.0, 0.5]))
    tensor([0.0000, 0.4769])
    """


def special_erfcx():
    """
    >>> tocha.special.erfcx(tocha.tensor([0.0, 10.0]))
    tensor([1.0000, 0.0561])
    """


def special_ndtr():
    """
    >>> tocha.special.ndtr(tocha.tensor([-1.0, 0.0, 1.0]))
    tensor([0.1587, 0.5000, 0.8413])
    """


def special_ndtri():
    """
    >>> tocha.special.ndtri(tocha.tensor([0.25, 0.5, 0.975]))
    tensor([-0.6745,  0.0000,  1.9600])
    """


def special_log_ndtr():
    """
    >>> tocha.special.log_ndtr(tocha.tensor([-10.0, 0.0]))
    tensor([-53.2313,  -0.6931])
    """


def lgamma():
    """
    >>> tocha.lgamma(tocha.tensor([1.0, 5.0]))
    tensor([0.0000, 3.1781])
    """


def digamma():
    """
    >>> tocha.digamma(tocha.tensor([1.0, 2.0]))
    tensor([-0.5772,  0.4228])
    """


def polygamma():
    """
    >>> tocha.polygamma(1, tocha.tensor([1.0, 2.0]))
    tensor([1.6449, 0.6449])
    """


def mvlgamma():
    """
    >>> tocha.mvlgamma(tocha.tensor([2.0, 3.0]), 2)
    tensor([0.4516, 1.5502])
    """


def igamma():
    """
    >>> tocha.igamma(tocha.tensor([1.0, 2.0]), tocha.tensor([1.0, 1.0]))
    tensor([0.6321, 0.2642])
    """


def igammac():
    """
    >>> tocha.igammac(tocha.tensor([1.0, 2.0]), tocha.tensor([1.0, 1.0]))
    tensor([0.3679, 0.7358])
    """


def special_zeta():
    """
    >>> tocha.special.zeta(tocha.tensor([2.0, 4.0]), tocha.tensor([1.0, 1.0]))
    tensor([1.6449, 1.0823])
    """


def i0():
    """
    >>> tocha.i0(tocha.tensor([0.0, 1.0]))
    tensor([1.0000, 1.2661])
    """


def special_i0e():
    """
    >>> tocha.special.i0e(tocha.tensor([0.0, 1.0]))
    tensor([1.0000, 0.4658])
    """


def special_i1():
    """
    >>> tocha.special.i1(tocha.tensor([0.0, 1.0]))
    tensor([0.0000, 0.5652])
    """


def special_i1e():
    """
    >>> tocha.special.i1e(tocha.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2079])
    """


def special_bessel_j0():
    """
    >>> tocha.special.bessel_j0(tocha.tensor([0.0, 1.0]))
    tensor([1.0000, 0.7652])
    """


def special_bessel_j1():
    """
    >>> tocha.special.bessel_j1(tocha.tensor([0.0, 1.0]))
    tensor([0.0000, 0.4401])
    """


def special_bessel_y0():
    """
    >>> tocha.special.bessel_y0(tocha.tensor([1.0, 2.0]))
    tensor([0.0883, 0.5104])
    """


def special_bessel_y1():
    """
    >>> tocha.special.bessel_y1(tocha.tensor([1.0, 2.0]))
    tensor([-0.7812, -0.1070])
    """


def special_modified_bessel_i0():
    """
    >>> tocha.special.modified_bessel_i0(tocha.tensor([0.0, 1.0]))
    tensor([1.0000, 1.2661])
    """


def special_modified_bessel_i1():
    """
    >>> tocha.special.modified_bessel_i1(tocha.tensor([0.0, 1.0]))
    tensor([0.0000, 0.5652])
    """


def special_modified_bessel_k0():
    """
    >>> tocha.special.modified_bessel_k0(tocha.tensor([1.0, 2.0]))
    tensor([0.4210, 0.1139])
    """


def special_modified_bessel_k1():
    """
    >>> tocha.special.modified_bessel_k1(tocha.tensor([1.0, 2.0]))
    tensor([0.6019, 0.1399])
    """


def special_scaled_modified_bessel_k0():
    """
    >>> tocha.special.scaled_modified_bessel_k0(tocha.tensor([1.0, 2.0]))
    tensor([1.1445, 0.8416])
    """


def special_scaled_modified_bessel_k1():
    """
    >>> tocha.special.scaled_modified_bessel_k1(tocha.tensor([1.0, 2.0]))
    tensor([1.6362, 1.0335])
    """


def special_spherical_bessel_j0():
    """
    >>> tocha.special.spherical_bessel_j0(tocha.tensor([0.0, 1.0]))
    tensor([1.0000, 0.8415])
    """


def special_airy_ai():
    """
    >>> tocha.special.airy_ai(tocha.tensor([0.0, 1.0]))
    tensor([0.3550, 0.1353])
    """


def special_chebyshev_polynomial_t():
    """
    >>> tocha.special.chebyshev_polynomial_t(tocha.tensor([0.5, 2.0]), 2)
    tensor([-0.5000,  7.0000])
    """


def special_chebyshev_polynomial_u():
    """
    >>> tocha.special.chebyshev_polynomial_u(tocha.tensor([0.5, 2.0]), 2)
    tensor([ 0., 15.])
    """


def special_chebyshev_polynomial_v():
    """
    >>> tocha.special.chebyshev_polynomial_v(tocha.tensor([0.5, 2.0]), 2)
    tensor([-1., 11.])
    """


def special_chebyshev_polynomial_w():
    """
    >>> tocha.special.chebyshev_polynomial_w(tocha.tensor([0.5, 2.0]), 2)
    tensor([ 1., 19.])
    """


def special_shifted_chebyshev_polynomial_t():
    """
    >>> tocha.special.shifted_chebyshev_polynomial_t(tocha.tensor([0.5, 2.0]), 2)
    tensor([-1., 17.])
    """


def special_shifted_chebyshev_polynomial_u():
    """
    >>> tocha.special.shifted_chebyshev_polynomial_u(tocha.tensor([0.5, 2.0]), 2)
    tensor([-1., 35.])
    """


def special_shifted_chebyshev_polynomial_v():
    """
    >>> tocha.special.shifted_chebyshev_polynomial_v(tocha.tensor([0.5, 2.0]), 2)
    tensor([-1., 29.])
    """


def special_shifted_chebyshev_polynomial_w():
    """
    >>> tocha.special.shifted_chebyshev_polynomial_w(tocha.tensor([0.5, 2.0]), 2)
    tensor([-1., 41.])
    """


def special_hermite_polynomial_h():
    """
    >>> tocha.special.hermite_polynomial_h(tocha.tensor([0.5, 2.0]), 2)
    tensor([-1., 14.])
    """


def special_hermite_polynomial_he():
    """
    >>> tocha.special.hermite_polynomial_he(tocha.tensor([0.5, 2.0]), 2)
    tensor([-0.7500,  3.0000])
    """


def special_laguerre_polynomial_l():
    """
    >>> tocha.special.laguerre_polynomial_l(tocha.tensor([0.5, 2.0]), 2)
    tensor([ 0.1250, -1.0000])
    """


def special_legendre_polynomial_p():
    """
    >>> tocha.special.legendre_polynomial_p(tocha.tensor([0.5, 2.0]), 2)
    tensor([-0.1250,  5.5000])
    """
