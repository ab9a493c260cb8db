"""Examples of tocha/operators/sorting.py."""


def sort():
    """
    >>> tocha.sort(tocha.tensor([3, 1, 2]))
    tocha.return_types.sort(
    values=tensor([1, 2, 3]),
    indices=tensor([1, 2, 0]))
    >>> tocha.sort(tocha.tensor([3, 1, 2]), descending=True).values
    tensor([3, 2, 1])
    """


def argsort():
    """
    >>> tocha.argsort(tocha.tensor([3, 1, 2]))
    tensor([1, 2, 0])
    """


def msort():
    """
    >>> tocha.msort(tocha.tensor([[3, 1], [2, 4]]))
    tensor([[2, 1],
            [3, 4]])
    """


def topk():
    """
    >>> tocha.topk(tocha.tensor([1, 5, 3, 4]), 2)
    tocha.return_types.topk(
    values=tensor([5, 4]),
    indices=tensor([1, 3]))
    """


def kthvalue():
    """
    >>> tocha.kthvalue(tocha.tensor([1, 5, 3, 4]), 2)
    tocha.return_types.kthvalue(
    values=tensor(3),
    indices=tensor(2))
    """
