"""Examples of tocha/operators/masks.py."""


def masked_fill():
    """
    >>> tocha.masked_fill(tocha.tensor([1.0, 2.0, 3.0]), tocha.tensor([False, True, False]), 0)
    tensor([1., 0., 3.])
    """


def masked_fill_():
    """
    >>> x = tocha.tensor([1.0, 2.0, 3.0])
    >>> x.masked_fill_(x > 1.5, 0)
    tensor([1., 0., 0.])
    """


def masked_select():
    """
    >>> x = tocha.tensor([1.0, 2.0, 3.0])
    >>> tocha.masked_select(x, x > 1.5)
    tensor([2., 3.])
    """


def masked_scatter():
    """
    >>> tocha.masked_scatter(tocha.zeros(3), tocha.tensor([True, False, True]), tocha.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """


def masked_scatter_backward():
    """
    >>> tocha.ops.aten.masked_scatter_backward(tocha.tensor([1.0, 2.0, 3.0]), tocha.tensor([True, False, True]), [2])
    tensor([1., 3.])
    """


def masked_scatter_():
    """
    >>> tocha.zeros(3).masked_scatter_(tocha.tensor([True, False, True]), tocha.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """


def nonzero():
    """
    >>> tocha.nonzero(tocha.tensor([0, 3, 0, 4]))
    tensor([[1],
            [3]])
    >>> tocha.nonzero(tocha.tensor([[1, 0], [0, 1]]), as_tuple=True)
    (tensor([0, 1]), tensor([0, 1]))
    """


def nonzero_static():
    """
    >>> tocha.nonzero_static(tocha.tensor([0, 3, 0, 4]), size=3)
    tensor([[ 1],
            [ 3],
            [-1]])
    """
