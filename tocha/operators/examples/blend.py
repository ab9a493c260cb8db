"""Examples of tocha/operators/blend.py."""


def where():
    """
    >>> x = tocha.tensor([-1.5, 0.5, 2.0])
    >>> tocha.where(x > 0, x, 0.0)
    tensor([0.0000, 0.5000, 2.0000])
    """


def clamp_min():
    """
    >>> tocha.clamp_min(tocha.tensor([-1.0, 0.5, 2.0]), 0)
    tensor([0.0000, 0.5000, 2.0000])
    """


def clamp_max():
    """
    >>> tocha.clamp_max(tocha.tensor([-1.0, 0.5, 2.0]), 1)
    tensor([-1.0000,  0.5000,  1.0000])
    """


def clamp():
    """
    >>> tocha.clamp(tocha.tensor([-1.0, 0.5, 2.0]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    >>> tocha.clamp(tocha.tensor([-1.0, 0.5, 2.0]), min=0)
    tensor([0.0000, 0.5000, 2.0000])
    """


def nan_to_num():
    """
    >>> tocha.nan_to_num(tocha.tensor([float("nan"), 1.0]), nan=0.5)
    tensor([0.5000, 1.0000])
    >>> tocha.nan_to_num(tocha.tensor([float("inf"), 1.0]), posinf=9.0)
    tensor([9., 1.])
    """


def lerp():
    """
    >>> tocha.lerp(tocha.tensor([0.0, 10.0]), tocha.tensor([10.0, 20.0]), 0.25)
    tensor([ 2.5000, 12.5000])
    """


def addcmul():
    """
    >>> tocha.addcmul(tocha.tensor([1.0, 1.0]), tocha.tensor([2.0, 3.0]), tocha.tensor([4.0, 5.0]), value=0.5)
    tensor([5.0000, 8.5000])
    """


def addcdiv():
    """
    >>> tocha.addcdiv(tocha.tensor([1.0, 1.0]), tocha.tensor([2.0, 3.0]), tocha.tensor([4.0, 6.0]), value=2)
    tensor([2., 2.])
    """
