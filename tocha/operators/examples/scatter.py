"""Examples of tocha/operators/scatter.py."""


def gather():
    """
    >>> tocha.gather(tocha.tensor([[1, 2], [3, 4]]), 1, tocha.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
    """


def scatter():
    """
    >>> tocha.scatter(tocha.zeros(2, 3), 1, tocha.tensor([[2], [0]]), 1.0)
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """


def scatter_add():
    """
    >>> tocha.scatter_add(tocha.zeros(3), 0, tocha.tensor([0, 2, 2]), tocha.tensor([1.0, 2.0, 3.0]))
    tensor([1., 0., 5.])
    """


def scatter_reduce():
    """
    >>> tocha.scatter_reduce(tocha.ones(3), 0, tocha.tensor([0, 2, 2]), tocha.tensor([5.0, 2.0, 3.0]), reduce="prod")
    tensor([5., 1., 6.])
    """


def segment_reduce():
    """
    >>> tocha.segment_reduce(tocha.tensor([1.0, 2.0, 3.0, 4.0]), "sum", lengths=tocha.tensor([1, 3]))
    tensor([1., 9.])
    """
