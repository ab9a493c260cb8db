"""Examples of tocha/operators/splits.py."""


def split():
    """
    >>> tocha.arange(5).split(2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    >>> tocha.arange(5).split([1, 4])
    (tensor([0]), tensor([1, 2, 3, 4]))
    """


def split_with_sizes():
    """
    >>> tocha.split_with_sizes(tocha.arange(5), [2, 3])
    (tensor([0, 1]), tensor([2, 3, 4]))
    """


def unsafe_split():
    """
    >>> tocha.unsafe_split(tocha.arange(4), 2)
    (tensor([0, 1]), tensor([2, 3]))
    """


def unsafe_split_with_sizes():
    """
    >>> tocha.unsafe_split_with_sizes(tocha.arange(5), [2, 3])
    (tensor([0, 1]), tensor([2, 3, 4]))
    """


def chunk():
    """
    >>> tocha.chunk(tocha.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """


def unsafe_chunk():
    """
    >>> tocha.unsafe_chunk(tocha.arange(4), 2)
    (tensor([0, 1]), tensor([2, 3]))
    """


def unbind():
    """
    >>> tocha.unbind(tocha.tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    """


def tensor_split():
    """
    >>> tocha.tensor_split(tocha.arange(5), 3)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    >>> tocha.tensor_split(tocha.arange(5), (1, 4))
    (tensor([0]), tensor([1, 2, 3]), tensor([4]))
    """


def hsplit():
    """
    >>> tocha.hsplit(tocha.tensor([[1, 2], [3, 4]]), 2)
    (tensor([[1],
            [3]]), tensor([[2],
            [4]]))
    """


def vsplit():
    """
    >>> tocha.vsplit(tocha.tensor([[1, 2], [3, 4]]), 2)
    (tensor([[1, 2]]), tensor([[3, 4]]))
    """


def dsplit():
    """
    >>> [x.shape for x in tocha.dsplit(tocha.empty(2, 2, 4), 2)]
    [tocha.Size([2, 2, 2]), tocha.Size([2, 2, 2])]
    """


def unbind_copy():
    """
    >>> tocha.unbind_copy(tocha.tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    """


def split_copy():
    """
    >>> tocha.split_copy(tocha.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """


def split_with_sizes_copy():
    """
    >>> tocha.split_with_sizes_copy(tocha.arange(5), [2, 3])
    (tensor([0, 1]), tensor([2, 3, 4]))
    """


def select_scatter():
    """
    >>> tocha.select_scatter(tocha.zeros(2, 2), tocha.tensor([1.0, 2.0]), 0, 1)
    tensor([[0., 0.],
            [1., 2.]])
    """


def slice_scatter():
    """
    >>> tocha.slice_scatter(tocha.zeros(4), tocha.tensor([1.0, 2.0]), start=1, end=3)
    tensor([0., 1., 2., 0.])
    """


def diagonal_scatter():
    """
    >>> tocha.diagonal_scatter(tocha.zeros(2, 2), tocha.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """


def as_strided_scatter():
    """
    >>> tocha.as_strided_scatter(tocha.zeros(4), tocha.tensor([1.0, 2.0]), (2,), (2,))
    tensor([1., 0., 2., 0.])
    """
