"""Examples of tocha/operators/rounding.py."""


def floor():
    """
    >>> tocha.floor(tocha.tensor([-1.5, 1.5]))
    tensor([-2.,  1.])
    """


def ceil():
    """
    >>> tocha.ceil(tocha.tensor([-1.5, 1.5]))
    tensor([-1.,  2.])
    """


def trunc():
    """
    >>> tocha.trunc(tocha.tensor([-1.5, 1.5]))
    tensor([-1.,  1.])
    """


def round():
    """
    >>> tocha.round(tocha.tensor([0.5, 1.5, -2.4]))
    tensor([ 0.,  2., -2.])
    >>> tocha.round(tocha.tensor([1.2345]), decimals=2)
    tensor([1.2300])
    """


def frac():
    """
    >>> tocha.frac(tocha.tensor([-1.5, 1.25]))
    tensor([-0.5000,  0.2500])
    """
