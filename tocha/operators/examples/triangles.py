"""Examples of tocha/operators/triangles.py."""


def tril():
    """
    >>> tocha.tril(tocha.ones(3, 3))
    tensor([[1., 0., 0.],
            [1., 1., 0.],
            [1., 1., 1.]])
    >>> tocha.tril(tocha.ones(3, 3), diagonal=-1)
    tensor([[0., 0., 0.],
            [1., 0., 0.],
            [1., 1., 0.]])
    """


def triu():
    """
    >>> tocha.triu(tocha.ones(3, 3))
    tensor([[1., 1., 1.],
            [0., 1., 1.],
            [0., 0., 1.]])
    >>> tocha.triu(tocha.ones(3, 3), diagonal=1)
    tensor([[0., 1., 1.],
            [0., 0., 1.],
            [0., 0., 0.]])
    """


def tril_indices():
    """
    >>> tocha.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """


def triu_indices():
    """
    >>> tocha.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """


def diag_embed():
    """
    >>> tocha.diag_embed(tocha.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    >>> tocha.diag_embed(tocha.tensor([1, 2]), offset=1)
    tensor([[0, 1, 0],
            [0, 0, 2],
            [0, 0, 0]])
    """


def diag():
    """
    >>> tocha.diag(tocha.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    >>> tocha.diag(tocha.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """


def diagflat():
    """
    >>> tocha.diagflat(tocha.tensor([[1], [2]]))
    tensor([[1, 0],
            [0, 2]])
    """
