"""Examples of tocha/operators/trigonometric.py."""


def sin():
    """
    >>> tocha.sin(tocha.tensor([0.0, tocha.pi / 2]))
    tensor([0., 1.])
    """


def cos():
    """
    >>> tocha.cos(tocha.tensor([0.0, tocha.pi]))
    tensor([ 1., -1.])
    """


def tan():
    """
    >>> tocha.tan(tocha.tensor([0.0, 0.5]))
    tensor([0.0000, 0.5463])
    """


def asin():
    """
    >>> tocha.asin(tocha.tensor([0.0, 1.0]))
    tensor([0.0000, 1.5708])
    """


def acos():
    """
    >>> tocha.acos(tocha.tensor([1.0, 0.0]))
    tensor([0.0000, 1.5708])
    """


def atan():
    """
    >>> tocha.atan(tocha.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7854])
    """


def atan2():
    """
    >>> tocha.atan2(tocha.tensor([1.0, -1.0]), tocha.tensor([1.0, -1.0]))
    tensor([ 0.7854, -2.3562])
    """


def sinh():
    """
    >>> tocha.sinh(tocha.tensor([0.0, 1.0]))
    tensor([0.0000, 1.1752])
    """


def cosh():
    """
    >>> tocha.cosh(tocha.tensor([0.0, 1.0]))
    tensor([1.0000, 1.5431])
    """


def tanh():
    """
    >>> tocha.tanh(tocha.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """


def tanh_backward():
    """
    >>> tocha.ops.aten.tanh_backward(tocha.ones(2), tocha.tensor([0.0, 0.5]))
    tensor([1.0000, 0.7500])
    """


def asinh():
    """
    >>> tocha.asinh(tocha.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8814])
    """


def acosh():
    """
    >>> tocha.acosh(tocha.tensor([1.0, 2.0]))
    tensor([0.0000, 1.3170])
    """


def atanh():
    """
    >>> tocha.atanh(tocha.tensor([0.0, 0.5]))
    tensor([0.0000, 0.5493])
    """


def sinc():
    """
    >>> tocha.sinc(tocha.tensor([0.0, 0.5, 1.5]))
    tensor([ 1.0000,  0.6366, -0.2122])
    """


def deg2rad():
    """
    >>> tocha.deg2rad(tocha.tensor([0.0, 90.0, 180.0]))
    tensor([0.0000, 1.5708, 3.1416])
    """


def rad2deg():
    """
    >>> tocha.rad2deg(tocha.tensor([0.0, tocha.pi]))
    tensor([  0., 180.])
    """
