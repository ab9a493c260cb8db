"""Examples of tocha/operators/products.py."""


def matmul():
    """
    >>> tocha.matmul(tocha.tensor([[1, 2], [3, 4]]), tocha.tensor([1, 1]))
    tensor([3, 7])
    >>> tocha.matmul(tocha.ones(5, 2, 3), tocha.ones(3, 4)).shape
    tocha.Size([5, 2, 4])
    """


def linalg_matmul():
    """
    >>> tocha.linalg.matmul(tocha.tensor([[1, 2], [3, 4]]), tocha.tensor([[0, 1], [1, 0]]))
    tensor([[2, 1],
            [4, 3]])
    """


def mm():
    """
    >>> tocha.mm(tocha.tensor([[1, 2], [3, 4]]), tocha.tensor([[0, 1], [1, 0]]))
    tensor([[2, 1],
            [4, 3]])
    """


def bmm():
    """
    >>> tocha.bmm(tocha.tensor([[[1, 2]], [[3, 4]]]), tocha.tensor([[[1], [1]], [[2], [2]]]))
    tensor([[[ 3]],
    <BLANKLINE>
            [[14]]])
    """


def mv():
    """
    >>> tocha.mv(tocha.tensor([[1, 2], [3, 4]]), tocha.tensor([1, 10]))
    tensor([21, 43])
    """


def dot():
    """
    >>> tocha.dot(tocha.tensor([1, 2]), tocha.tensor([3, 4]))
    tensor(11)
    """


def vdot():
    """
    >>> tocha.vdot(tocha.tensor([1j, 2]), tocha.tensor([1j, 3]))
    tensor(7.+0.j)
    """


def addmm():
    """
    >>> tocha.addmm(tocha.tensor([[10, 20], [30, 40]]), tocha.tensor([[1, 2], [3, 4]]), tocha.tensor([[0, 1], [1, 0]]))
    tensor([[12, 21],
            [34, 43]])
    """


def addmv():
    """
    >>> tocha.addmv(tocha.tensor([10, 20]), tocha.tensor([[1, 2], [3, 4]]), tocha.tensor([1, 1]))
    tensor([13, 27])
    """


def baddbmm():
    """
    >>> tocha.baddbmm(tocha.zeros(1, 1, 1), tocha.tensor([[[1.0, 2.0]]]), tocha.tensor([[[3.0], [4.0]]]), beta=1, alpha=2)
    tensor([[[22.]]])
    """


def addbmm():
    """
    >>> tocha.addbmm(tocha.zeros(1, 1), tocha.ones(3, 1, 2), tocha.ones(3, 2, 1))
    tensor([[6.]])
    """


def addr():
    """
    >>> tocha.addr(tocha.zeros(2, 2), tocha.tensor([1.0, 2.0]), tocha.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """


def outer():
    """
    >>> tocha.outer(tocha.tensor([1, 2]), tocha.tensor([10, 20, 30]))
    tensor([[10, 20, 30],
            [20, 40, 60]])
    """


def inner():
    """
    >>> tocha.inner(tocha.tensor([1, 2]), tocha.tensor([3, 4]))
    tensor(11)
    >>> tocha.inner(tocha.ones(2, 3), tocha.ones(4, 3)).shape
    tocha.Size([2, 4])
    """


def nn_linear():
    """
    >>> tocha.nn.functional.linear(tocha.tensor([[1.0, 2.0]]), tocha.tensor([[1.0, 1.0], [0.0, 1.0]]), tocha.tensor([0.5, 0.0]))
    tensor([[3.5000, 2.0000]])
    """


def bilinear():
    """
    >>> tocha.bilinear(tocha.tensor([[1.0, 2.0]]), tocha.tensor([[3.0, 4.0]]), tocha.ones(1, 2, 2), None)
    tensor([[21.]])
    """


def linalg_vecdot():
    """
    >>> tocha.linalg.vecdot(tocha.tensor([[1.0, 2.0], [3.0, 4.0]]), tocha.tensor([1.0, 10.0]))
    tensor([21., 43.])
    """


def linalg_multi_dot():
    """
    >>> tocha.linalg.multi_dot([tocha.ones(2, 3), tocha.ones(3, 4), tocha.ones(4, 1)])
    tensor([[12.],
            [12.]])
    """


def linalg_matrix_power():
    """
    >>> tocha.linalg.matrix_power(tocha.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """


def matrix_power():
    """
    >>> tocha.matrix_power(tocha.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """


def linalg_matrix_exp():
    """
    >>> tocha.linalg.matrix_exp(tocha.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """


def matrix_exp():
    """
    >>> tocha.matrix_exp(tocha.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
