"""Examples of tocha/operators/searching.py."""


def searchsorted():
    """
    >>> tocha.searchsorted(tocha.tensor([1, 3, 5]), tocha.tensor([3, 6]))
    tensor([1, 3])
    >>> tocha.searchsorted(tocha.tensor([1, 3, 5]), tocha.tensor([3, 6]), right=True)
    tensor([2, 3])
    """


def bucketize():
    """
    >>> tocha.bucketize(tocha.tensor([3, 6]), tocha.tensor([1, 3, 5]))
    tensor([1, 3])
    """
