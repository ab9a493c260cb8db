"""Examples of tocha/operators/joins.py."""


def cat():
    """
    >>> tocha.cat([tocha.tensor([1, 2]), tocha.tensor([3])])
    tensor([1, 2, 3])
    >>> tocha.cat([tocha.tensor([[1, 2]]), tocha.tensor([[3, 4]])], dim=1)
    tensor([[1, 2, 3, 4]])
    """


def stack():
    """
    >>> tocha.stack([tocha.tensor([1, 2]), tocha.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    >>> tocha.stack([tocha.tensor([1, 2]), tocha.tensor([3, 4])], dim=1)
    tensor([[1, 3],
            [2, 4]])
    """


def atleast_1d():
    """
    >>> tocha.atleast_1d(tocha.tensor(5))
    tensor([5])
    """


def atleast_2d():
    """
    >>> tocha.atleast_2d(tocha.tensor([1, 2]))
    tensor([[1, 2]])
    """


def atleast_3d():
    """
    >>> tocha.atleast_3d(tocha.tensor([1, 2])).shape
    tocha.Size([1, 2, 1])
    """


def hstack():
    """
    >>> tocha.hstack([tocha.tensor([1, 2]), tocha.tensor([3])])
    tensor([1, 2, 3])
    """


def vstack():
    """
    >>> tocha.vstack([tocha.tensor([1, 2]), tocha.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """


def dstack():
    """
    >>> tocha.dstack([tocha.tensor([1, 2]), tocha.tensor([3, 4])])
    tensor([[[1, 3],
             [2, 4]]])
    """


def column_stack():
    """
    >>> tocha.column_stack([tocha.tensor([1, 2]), tocha.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """


def block_diag():
    """
    >>> tocha.block_diag(tocha.tensor([[1, 2]]), tocha.tensor([[3], [4]]))
    tensor([[1, 2, 0],
            [0, 0, 3],
            [0, 0, 4]])
    """


def broadcast_tensors():
    """
    >>> a, b = tocha.broadcast_tensors(tocha.zeros(3, 1), tocha.zeros(4))
    >>> a.shape, b.shape
    (tocha.Size([3, 4]), tocha.Size([3, 4]))
    """


def meshgrid():
    """
    >>> x, y = tocha.meshgrid(tocha.tensor([1, 2]), tocha.tensor([3, 4, 5]), indexing="ij")
    >>> x
    tensor([[1, 1, 1],
            [2, 2, 2]])
    >>> y
    tensor([[3, 4, 5],
            [3, 4, 5]])
    """


def cartesian_prod():
    """
    >>> tocha.cartesian_prod(tocha.tensor([1, 2]), tocha.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """


def combinations():
    """
    >>> tocha.combinations(tocha.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    >>> tocha.combinations(tocha.tensor([1, 2]), with_replacement=True)
    tensor([[1, 1],
            [1, 2],
            [2, 2]])
    """


def kron():
    """
    >>> tocha.kron(tocha.eye(2, dtype=tocha.int64), tocha.tensor([[1, 2]]))
    tensor([[1, 2, 0, 0],
            [0, 0, 1, 2]])
    """


def vander():
    """
    >>> tocha.vander(tocha.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [4, 2, 1],
            [9, 3, 1]])
    """


def linalg_vander():
    """
    >>> tocha.linalg.vander(tocha.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [1, 2, 4],
            [1, 3, 9]])
    """
