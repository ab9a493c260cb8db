"""Examples of tocha/operators/scans.py."""


def cumsum():
    """
    >>> tocha.cumsum(tocha.tensor([1, 2, 3]), dim=0)
    tensor([1, 3, 6])
    """


def cumprod():
    """
    >>> tocha.cumprod(tocha.tensor([1, 2, 3]), dim=0)
    tensor([1, 2, 6])
    """


def cummax():
    """
    >>> tocha.cummax(tocha.tensor([1, 3, 2, 5]), dim=0)
    tocha.return_types.cummax(
    values=tensor([1, 3, 3, 5]),
    indices=tensor([0, 1, 1, 3]))
    """


def cummin():
    """
    >>> tocha.cummin(tocha.tensor([5, 3, 4, 1]), dim=0)
    tocha.return_types.cummin(
    values=tensor([5, 3, 3, 1]),
    indices=tensor([0, 1, 1, 3]))
    """


def logcumsumexp():
    """
    >>> tocha.logcumsumexp(tocha.tensor([0.0, 0.0, 0.0]), dim=0)
    tensor([0.0000, 0.6931, 1.0986])
    """
