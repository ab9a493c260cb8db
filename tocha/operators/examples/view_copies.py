"""Examples of tocha/operators/view_copies.py."""


def alias_copy():
    """
    >>> tocha.alias_copy(tocha.tensor([1, 2]))
    tensor([1, 2])
    """


def detach_copy():
    """
    >>> tocha.detach_copy(tocha.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """


def as_strided_copy():
    """
    >>> tocha.as_strided_copy(tocha.arange(4), (2,), (2,))
    tensor([0, 2])
    """


def expand_copy():
    """
    >>> tocha.expand_copy(tocha.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """


def permute_copy():
    """
    >>> tocha.permute_copy(tocha.arange(6).view(2, 3), (1, 0))
    tensor([[0, 3],
            [1, 4],
            [2, 5]])
    """


def transpose_copy():
    """
    >>> tocha.transpose_copy(tocha.arange(6).view(2, 3), 0, 1)
    tensor([[0, 3],
            [1, 4],
            [2, 5]])
    """


def t_copy():
    """
    >>> tocha.t_copy(tocha.arange(6).view(2, 3))
    tensor([[0, 3],
            [1, 4],
            [2, 5]])
    """


def squeeze_copy():
    """
    >>> tocha.squeeze_copy(tocha.tensor([[1, 2]]))
    tensor([1, 2])
    """


def unsqueeze_copy():
    """
    >>> tocha.unsqueeze_copy(tocha.tensor([1, 2]), 0)
    tensor([[1, 2]])
    """


def select_copy():
    """
    >>> tocha.select_copy(tocha.arange(6).view(2, 3), 0, 1)
    tensor([3, 4, 5])
    """


def slice_copy():
    """
    >>> tocha.slice_copy(tocha.arange(6), 0, 1, 4)
    tensor([1, 2, 3])
    """


def narrow_copy():
    """
    >>> tocha.narrow_copy(tocha.arange(6), 0, 2, 3)
    tensor([2, 3, 4])
    """


def unfold_copy():
    """
    >>> tocha.unfold_copy(tocha.arange(4), 0, 2, 1)
    tensor([[0, 1],
            [1, 2],
            [2, 3]])
    """


def diagonal_copy():
    """
    >>> tocha.diagonal_copy(tocha.arange(4).view(2, 2))
    tensor([0, 3])
    """


def view_copy():
    """
    >>> tocha.view_copy(tocha.arange(4), (2, 2))
    tensor([[0, 1],
            [2, 3]])
    """


def view_as_real_copy():
    """
    >>> tocha.view_as_real_copy(tocha.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """


def view_as_complex_copy():
    """
    >>> tocha.view_as_complex_copy(tocha.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """


def lift_fresh_copy():
    """
    >>> tocha.ops.aten.lift_fresh_copy(tocha.tensor([1, 2]))
    tensor([1, 2])
    """
