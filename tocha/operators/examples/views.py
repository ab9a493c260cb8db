"""Examples of tocha/operators/views.py."""


def view():
    """
    >>> x = tocha.arange(6)
    >>> x.view(2, 3)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    >>> x.view(3, -1)
    tensor([[0, 1],
            [2, 3],
            [4, 5]])
    >>> tocha.tensor([1.0]).view(tocha.int32)
    tensor([1065353216], dtype=tocha.int32)
    """


def view_as():
    """
    >>> tocha.arange(6).view_as(tocha.empty(2, 3))
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """


def reshape():
    """
    >>> tocha.reshape(tocha.arange(6), (2, 3))
    tensor([[0, 1, 2],
            [3, 4, 5]])
    >>> tocha.reshape(tocha.arange(6), (-1, 2))
    tensor([[0, 1],
            [2, 3],
            [4, 5]])
    """


def reshape_as():
    """
    >>> tocha.arange(6).reshape_as(tocha.empty(3, 2))
    tensor([[0, 1],
            [2, 3],
            [4, 5]])
    """


def flatten():
    """
    >>> tocha.flatten(tocha.arange(8).view(2, 2, 2))
    tensor([0, 1, 2, 3, 4, 5, 6, 7])
    >>> tocha.flatten(tocha.arange(8).view(2, 2, 2), start_dim=1)
    tensor([[0, 1, 2, 3],
            [4, 5, 6, 7]])
    """


def unflatten():
    """
    >>> tocha.unflatten(tocha.arange(6), 0, (2, -1))
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """


def ravel():
    """
    >>> tocha.ravel(tocha.arange(4).view(2, 2))
    tensor([0, 1, 2, 3])
    """


def permute():
    """
    >>> tocha.permute(tocha.arange(6).view(1, 2, 3), (2, 0, 1)).shape
    tocha.Size([3, 1, 2])
    """


def transpose():
    """
    >>> tocha.transpose(tocha.arange(6).view(2, 3), 0, 1)
    tensor([[0, 3],
            [1, 4],
            [2, 5]])
    """


def swapaxes():
    """
    >>> tocha.swapaxes(tocha.arange(6).view(2, 3), 0, 1)
    tensor([[0, 3],
            [1, 4],
            [2, 5]])
    """


def t():
    """
    >>> tocha.t(tocha.arange(6).view(2, 3))
    tensor([[0, 3],
            [1, 4],
            [2, 5]])
    """


def T():
    """
    >>> tocha.arange(6).view(2, 3).T
    tensor([[0, 3],
            [1, 4],
            [2, 5]])
    """


def mT():
    """
    >>> tocha.arange(6).view(1, 2, 3).mT
    tensor([[[0, 3],
             [1, 4],
             [2, 5]]])
    """


def adjoint():
    """
    >>> tocha.adjoint(tocha.tensor([[1j, 2], [3, 4j]]))
    tensor([[0.-1.j, 3.-0.j],
            [2.-0.j, 0.-4.j]])
    """


def mH():
    """
    >>> tocha.tensor([[1j, 2], [3, 4j]]).mH
    tensor([[0.-1.j, 3.-0.j],
            [2.-0.j, 0.-4.j]])
    """


def H():
    """
    >>> tocha.tensor([[1j, 2], [3, 4j]]).H
    tensor([[0.-1.j, 3.-0.j],
            [2.-0.j, 0.-4.j]])
    """


def movedim():
    """
    >>> tocha.movedim(tocha.empty(2, 3, 4), 0, -1).shape
    tocha.Size([3, 4, 2])
    """


def expand():
    """
    >>> tocha.tensor([[1], [2]]).expand(2, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    >>> tocha.tensor([1, 2]).expand(3, -1)
    tensor([[1, 2],
            [1, 2],
            [1, 2]])
    """


def expand_as():
    """
    >>> tocha.tensor([[1], [2]]).expand_as(tocha.empty(2, 3))
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """


def broadcast_to():
    """
    >>> tocha.broadcast_to(tocha.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """


def squeeze():
    """
    >>> tocha.squeeze(tocha.empty(1, 3, 1)).shape
    tocha.Size([3])
    >>> tocha.squeeze(tocha.empty(1, 3, 1), 0).shape
    tocha.Size([3, 1])
    """


def unsqueeze():
    """
    >>> tocha.unsqueeze(tocha.tensor([1, 2]), 1)
    tensor([[1],
            [2]])
    """


def select():
    """
    >>> tocha.select(tocha.arange(6).view(2, 3), 1, 2)
    tensor([2, 5])
    """


def select_backward():
    """
    >>> tocha.ops.aten.select_backward(tocha.tensor([1.0, 2.0]), [2, 3], 1, 0)
    tensor([[1., 0., 0.],
            [2., 0., 0.]])
    """


def slice_backward():
    """
    >>> tocha.ops.aten.slice_backward(tocha.tensor([1.0, 2.0]), [5], 0, 1, 5, 2)
    tensor([0., 1., 0., 2., 0.])
    """


def slice():
    """
    >>> tocha.ops.aten.slice(tocha.arange(6), 0, 1, 6, 2)
    tensor([1, 3, 5])
    """


def narrow():
    """
    >>> tocha.narrow(tocha.arange(6), 0, 2, 3)
    tensor([2, 3, 4])
    """


def unfold():
    """
    >>> tocha.arange(5).unfold(0, 3, 1)
    tensor([[0, 1, 2],
            [1, 2, 3],
            [2, 3, 4]])
    """


def diagonal():
    """
    >>> tocha.diagonal(tocha.arange(9).view(3, 3))
    tensor([0, 4, 8])
    >>> tocha.diagonal(tocha.arange(9).view(3, 3), offset=1)
    tensor([1, 5])
    """


def linalg_diagonal():
    """
    >>> tocha.linalg.diagonal(tocha.arange(9).view(3, 3))
    tensor([0, 4, 8])
    """


def as_strided():
    """
    >>> tocha.as_strided(tocha.arange(6), (2, 2), (1, 2), storage_offset=1)
    tensor([[1, 3],
            [2, 4]])
    """


def alias():
    """
    >>> tocha.ops.aten.alias(tocha.tensor([1, 2]))
    tensor([1, 2])
    """


def detach():
    """
    >>> x = tocha.tensor([1.0], requires_grad=True)
    >>> (x * 2).requires_grad, tocha.detach(x * 2).requires_grad
    (True, False)
    """
