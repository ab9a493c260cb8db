"""Examples of tocha/operators/arithmetic.py."""


def add():
    """
    >>> tocha.add(tocha.tensor([1, 2]), 10)
    tensor([11, 12])
    >>> tocha.add(tocha.tensor([1.0, 2.0]), tocha.tensor([10.0, 20.0]), alpha=0.5)
    tensor([ 6., 12.])
    """


def sub():
    """
    >>> tocha.sub(tocha.tensor([5, 7]), tocha.tensor([1, 2]))
    tensor([4, 5])
    >>> tocha.sub(tocha.tensor([5.0, 7.0]), 1, alpha=2)
    tensor([3., 5.])
    """


def rsub():
    """
    >>> tocha.rsub(tocha.tensor([1, 2]), 10)
    tensor([9, 8])
    """


def mul():
    """
    >>> tocha.mul(tocha.tensor([1, 2, 3]), 2)
    tensor([2, 4, 6])
    >>> tocha.mul(tocha.tensor([[1], [2]]), tocha.tensor([10, 20]))
    tensor([[10, 20],
            [20, 40]])
    """


def neg():
    """
    >>> tocha.neg(tocha.tensor([1, -2, 0]))
    tensor([-1,  2,  0])
    """


def positive():
    """
    >>> tocha.positive(tocha.tensor([1, -2, 0]))
    tensor([ 1, -2,  0])
    """


def div():
    """
    >>> tocha.div(tocha.tensor([7.0, -7.0]), 2)
    tensor([ 3.5000, -3.5000])
    >>> tocha.div(tocha.tensor([7, -7]), 2)
    tensor([ 3.5000, -3.5000])
    >>> tocha.div(tocha.tensor([7, -7]), 2, rounding_mode="floor")
    tensor([ 3, -4])
    >>> tocha.div(tocha.tensor([7, -7]), 2, rounding_mode="trunc")
    tensor([ 3, -3])
    """


def rdiv():
    """
    >>> tocha.ops.aten.rdiv(tocha.tensor([2.0, 4.0]), 1.0)
    tensor([0.5000, 0.2500])
    """


def floor_divide():
    """
    >>> tocha.floor_divide(tocha.tensor([7, -7]), 2)
    tensor([ 3, -4])
    """


def remainder():
    """
    >>> tocha.remainder(tocha.tensor([7, -7]), 4)
    tensor([3, 1])
    """


def fmod():
    """
    >>> tocha.fmod(tocha.tensor([7, -7]), 4)
    tensor([ 3, -3])
    """


def reciprocal():
    """
    >>> tocha.reciprocal(tocha.tensor([2.0, -4.0]))
    tensor([ 0.5000, -0.2500])
    """


def gcd():
    """
    >>> tocha.gcd(tocha.tensor([12, 18]), tocha.tensor([8, 27]))
    tensor([4, 9])
    """


def lcm():
    """
    >>> tocha.lcm(tocha.tensor([4, 6]), tocha.tensor([6, 9]))
    tensor([12, 18])
    """


def pow():
    """
    >>> tocha.pow(tocha.tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    >>> tocha.pow(2, tocha.tensor([1, 2, 3]))
    tensor([2, 4, 8])
    """


def float_power():
    """
    >>> tocha.float_power(tocha.tensor([1, 2, 3]), 2)
    tensor([1., 4., 9.], dtype=tocha.float64)
    """


def square():
    """
    >>> tocha.square(tocha.tensor([-1.0, 2.0, 3.0]))
    tensor([1., 4., 9.])
    """


def sqrt():
    """
    >>> tocha.sqrt(tocha.tensor([4.0, 9.0, 2.0]))
    tensor([2.0000, 3.0000, 1.4142])
    """


def rsqrt():
    """
    >>> tocha.rsqrt(tocha.tensor([4.0, 0.25]))
    tensor([0.5000, 2.0000])
    """


def hypot():
    """
    >>> tocha.hypot(tocha.tensor([3.0, 5.0]), tocha.tensor([4.0, 12.0]))
    tensor([ 5., 13.])
    """


def abs():
    """
    >>> tocha.abs(tocha.tensor([-1.5, 0.0, 2.0]))
    tensor([1.5000, 0.0000, 2.0000])
    >>> tocha.abs(tocha.tensor([3 + 4j]))
    tensor([5.])
    """


def sign():
    """
    >>> tocha.sign(tocha.tensor([-1.5, 0.0, 2.0]))
    tensor([-1.,  0.,  1.])
    """


def sgn():
    """
    >>> tocha.sgn(tocha.tensor([3 + 4j, 0]))
    tensor([0.6000+0.8000j, 0.0000+0.0000j])
    """


def copysign():
    """
    >>> tocha.copysign(tocha.tensor([1.0, 2.0]), tocha.tensor([-0.0, 3.0]))
    tensor([-1.,  2.])
    """


def heaviside():
    """
    >>> tocha.heaviside(tocha.tensor([-1.0, 0.0, 2.0]), tocha.tensor([0.5]))
    tensor([0.0000, 0.5000, 1.0000])
    """


def nextafter():
    """
    >>> tocha.nextafter(tocha.tensor([1.0]), tocha.tensor([2.0])) - 1
    tensor([1.1921e-07])
    """


def ldexp():
    """
    >>> tocha.ldexp(tocha.tensor([1.0, 3.0]), tocha.tensor([2, 3]))
    tensor([ 4., 24.])
    """


def frexp():
    """
    >>> tocha.frexp(tocha.tensor([8.0, 0.75]))
    tocha.return_types.frexp(
    mantissa=tensor([0.5000, 0.7500]),
    exponent=tensor([4, 0], dtype=tocha.int32))
    """


def maximum():
    """
    >>> tocha.maximum(tocha.tensor([1.0, 5.0]), tocha.tensor([3.0, 2.0]))
    tensor([3., 5.])
    """


def minimum():
    """
    >>> tocha.minimum(tocha.tensor([1.0, 5.0]), tocha.tensor([3.0, 2.0]))
    tensor([1., 2.])
    """


def fmax():
    """
    >>> tocha.fmax(tocha.tensor([1.0, float("nan")]), tocha.tensor([3.0, 2.0]))
    tensor([3., 2.])
    """


def fmin():
    """
    >>> tocha.fmin(tocha.tensor([1.0, float("nan")]), tocha.tensor([3.0, 2.0]))
    tensor([1., 2.])
    """
