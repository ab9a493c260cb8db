"""Examples of tocha/operators/comparison.py."""


def eq():
    """
    >>> tocha.eq(tocha.tensor([1, 2]), tocha.tensor([1, 3]))
    tensor([ True, False])
    """


def ne():
    """
    >>> tocha.ne(tocha.tensor([1, 2]), tocha.tensor([1, 3]))
    tensor([False,  True])
    """


def lt():
    """
    >>> tocha.lt(tocha.tensor([1, 2]), 2)
    tensor([ True, False])
    """


def le():
    """
    >>> tocha.le(tocha.tensor([1, 2]), 2)
    tensor([True, True])
    """


def gt():
    """
    >>> tocha.gt(tocha.tensor([1, 2]), 1)
    tensor([False,  True])
    """


def ge():
    """
    >>> tocha.ge(tocha.tensor([1, 2]), 1)
    tensor([True, True])
    """


def isnan():
    """
    >>> tocha.isnan(tocha.tensor([1.0, float("nan")]))
    tensor([False,  True])
    """


def isinf():
    """
    >>> tocha.isinf(tocha.tensor([1.0, float("-inf")]))
    tensor([False,  True])
    """


def isfinite():
    """
    >>> tocha.isfinite(tocha.tensor([1.0, float("inf"), float("nan")]))
    tensor([ True, False, False])
    """


def isposinf():
    """
    >>> tocha.isposinf(tocha.tensor([float("-inf"), float("inf")]))
    tensor([False,  True])
    """


def isneginf():
    """
    >>> tocha.isneginf(tocha.tensor([float("-inf"), float("inf")]))
    tensor([ True, False])
    """


def isreal():
    """
    >>> tocha.isreal(tocha.tensor([1 + 1j, 2 + 0j]))
    tensor([False,  True])
    """


def signbit():
    """
    >>> tocha.signbit(tocha.tensor([-0.0, 0.0, -3.0]))
    tensor([ True, False,  True])
    """


def isclose():
    """
    >>> tocha.isclose(tocha.tensor([1.0, 2.0]), tocha.tensor([1.0 + 1e-6, 2.1]))
    tensor([ True, False])
    """


def allclose():
    """
    >>> tocha.allclose(tocha.tensor([1.0, 2.0]), tocha.tensor([1.0 + 1e-6, 2.0]))
    True
    >>> tocha.allclose(tocha.tensor([1.0, 2.0]), tocha.tensor([1.0, 2.1]))
    False
    """


def equal():
    """
    >>> tocha.equal(tocha.tensor([1, 2]), tocha.tensor([1, 2]))
    True
    >>> tocha.equal(tocha.tensor([1, 2]), tocha.tensor([1, 2, 3]))
    False
    """
