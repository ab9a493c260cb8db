"""Examples of tocha/operators/logic.py."""


def logical_and():
    """
    >>> tocha.logical_and(tocha.tensor([True, True]), tocha.tensor([True, False]))
    tensor([ True, False])
    """


def logical_or():
    """
    >>> tocha.logical_or(tocha.tensor([False, False]), tocha.tensor([True, False]))
    tensor([ True, False])
    """


def logical_xor():
    """
    >>> tocha.logical_xor(tocha.tensor([True, True]), tocha.tensor([True, False]))
    tensor([False,  True])
    """


def logical_not():
    """
    >>> tocha.logical_not(tocha.tensor([True, False]))
    tensor([False,  True])
    >>> tocha.logical_not(tocha.tensor([0, 1, 2]))
    tensor([ True, False, False])
    """


def bitwise_and():
    """
    >>> tocha.bitwise_and(tocha.tensor([6, 5]), 3)
    tensor([2, 1])
    """


def bitwise_or():
    """
    >>> tocha.bitwise_or(tocha.tensor([6, 4]), 3)
    tensor([7, 7])
    """


def bitwise_xor():
    """
    >>> tocha.bitwise_xor(tocha.tensor([6, 5]), 3)
    tensor([5, 6])
    """


def bitwise_not():
    """
    >>> tocha.bitwise_not(tocha.tensor([0, 5]))
    tensor([-1, -6])
    >>> tocha.bitwise_not(tocha.tensor([True, False]))
    tensor([False,  True])
    """


def bitwise_left_shift():
    """
    >>> tocha.bitwise_left_shift(tocha.tensor([1, 3]), 2)
    tensor([ 4, 12])
    """


def bitwise_right_shift():
    """
    >>> tocha.bitwise_right_shift(tocha.tensor([8, -8]), 1)
    tensor([ 4, -4])
    """
