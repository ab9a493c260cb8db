"""Examples of tocha/operators/reductions.py."""


def sum():
    """
    >>> x = tocha.tensor([[1, 2], [3, 4]])
    >>> tocha.sum(x)
    tensor(10)
    >>> tocha.sum(x, dim=0)
    tensor([4, 6])
    >>> tocha.sum(x, dim=1, keepdim=True)
    tensor([[3],
            [7]])
    """


def nansum():
    """
    >>> tocha.nansum(tocha.tensor([1.0, float("nan"), 2.0]))
    tensor(3.)
    """


def mean():
    """
    >>> x = tocha.tensor([[1.0, 2.0], [3.0, 6.0]])
    >>> tocha.mean(x)
    tensor(3.)
    >>> tocha.mean(x, dim=1)
    tensor([1.5000, 4.5000])
    """


def prod():
    """
    >>> tocha.prod(tocha.tensor([2, 3, 4]))
    tensor(24)
    >>> tocha.prod(tocha.tensor([[1, 2], [3, 4]]), dim=0)
    tensor([3, 8])
    """


def any():
    """
    >>> tocha.any(tocha.tensor([0, 0, 1]))
    tensor(True)
    >>> tocha.any(tocha.tensor([[False, True], [False, False]]), dim=1)
    tensor([ True, False])
    """


def all():
    """
    >>> tocha.all(tocha.tensor([1, 2, 0]))
    tensor(False)
    >>> tocha.all(tocha.tensor([[True, True], [True, False]]), dim=1)
    tensor([ True, False])
    """


def count_nonzero():
    """
    >>> tocha.count_nonzero(tocha.tensor([[0, 1], [2, 3]]), dim=0)
    tensor([1, 2])
    """


def hash_tensor():
    """
    >>> tocha.hash_tensor(tocha.tensor([1, 2]))
    tensor(3, dtype=tocha.uint64)
    >>> tocha.hash_tensor(tocha.tensor([1, 3]))
    tensor(2, dtype=tocha.uint64)
    """


def amax():
    """
    >>> tocha.amax(tocha.tensor([[1, 5], [7, 2]]), dim=1)
    tensor([5, 7])
    """


def amin():
    """
    >>> tocha.amin(tocha.tensor([[1, 5], [7, 2]]), dim=1)
    tensor([1, 2])
    """


def aminmax():
    """
    >>> tocha.aminmax(tocha.tensor([[1, 5], [7, 2]]), dim=1)
    tocha.return_types.aminmax(
    min=tensor([1, 2]),
    max=tensor([5, 7]))
    """


def max():
    """
    >>> tocha.max(tocha.tensor([1, 5, 3]))
    tensor(5)
    >>> tocha.max(tocha.tensor([[1, 5], [7, 2]]), dim=1)
    tocha.return_types.max(
    values=tensor([5, 7]),
    indices=tensor([1, 0]))
    >>> tocha.max(tocha.tensor([1, 5]), tocha.tensor([4, 2]))
    tensor([4, 5])
    """


def min():
    """
    >>> tocha.min(tocha.tensor([1, 5, 3]))
    tensor(1)
    >>> tocha.min(tocha.tensor([[1, 5], [7, 2]]), dim=1)
    tocha.return_types.min(
    values=tensor([1, 2]),
    indices=tensor([0, 1]))
    """


def argmax():
    """
    >>> tocha.argmax(tocha.tensor([[1, 5], [7, 2]]))
    tensor(2)
    >>> tocha.argmax(tocha.tensor([[1, 5], [7, 2]]), dim=1)
    tensor([1, 0])
    """


def argmin():
    """
    >>> tocha.argmin(tocha.tensor([[1, 5], [7, 2]]), dim=1)
    tensor([0, 1])
    """


def logsumexp():
    """
    >>> tocha.logsumexp(tocha.tensor([[0.0, 0.0], [1000.0, 0.0]]), dim=1)
    tensor([6.9315e-01, 1.0000e+03])
    """


def special_logsumexp():
    """
    >>> tocha.special.logsumexp(tocha.tensor([[0.0, 0.0], [1000.0, 0.0]]), dim=1)
    tensor([6.9315e-01, 1.0000e+03])
    """
