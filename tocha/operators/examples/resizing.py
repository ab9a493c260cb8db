"""Examples of tocha/operators/resizing.py."""


def resize_():
    """
    >>> x = tocha.arange(4)
    >>> x.resize_(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """


def set_():
    """
    >>> x = tocha.empty(0, dtype=tocha.int64)
    >>> x.set_(tocha.tensor([1, 2]))
    tensor([1, 2])
    """


def resize_as_():
    """
    >>> x = tocha.arange(4)
    >>> x.resize_as_(tocha.empty(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
