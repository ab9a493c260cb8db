"""Examples of tocha/operators/solvers.py."""


def linalg_solve_ex():
    """
    >>> tocha.linalg.solve_ex(tocha.tensor([[2.0, 0.0], [0.0, 4.0]]), tocha.tensor([2.0, 4.0]))
    tocha.return_types.linalg_solve_ex(
    result=tensor([1., 1.]),
    info=tensor(0, dtype=tocha.int32))
    """


def linalg_solve():
    """
    >>> tocha.linalg.solve(tocha.tensor([[2.0, 1.0], [1.0, 3.0]]), tocha.tensor([3.0, 5.0]))
    tensor([0.8000, 1.4000])
    """


def linalg_solve_triangular():
    """
    >>> tocha.linalg.solve_triangular(tocha.tensor([[2.0, 1.0], [0.0, 4.0]]), tocha.tensor([[4.0], [8.0]]), upper=True)
    tensor([[1.],
            [2.]])
    """


def triangular_solve():
    """
    >>> tocha.triangular_solve(tocha.tensor([[4.0], [8.0]]), tocha.tensor([[2.0, 1.0], [0.0, 4.0]])).solution
    tensor([[1.],
            [2.]])
    """


def cholesky_solve():
    """
    >>> factor = tocha.linalg.cholesky(tocha.tensor([[4.0, 2.0], [2.0, 5.0]]))
    >>> tocha.cholesky_solve(tocha.tensor([[6.0], [7.0]]), factor)
    tensor([[1.],
            [1.]])
    """


def linalg_lu_solve():
    """
    >>> LU, pivots = tocha.linalg.lu_factor(tocha.tensor([[2.0, 1.0], [1.0, 3.0]]))
    >>> tocha.linalg.lu_solve(LU, pivots, tocha.tensor([[3.0], [5.0]]))
    tensor([[0.8000],
            [1.4000]])
    """


def lu_solve():
    """
    >>> LU, pivots = tocha.linalg.lu_factor(tocha.tensor([[2.0, 1.0], [1.0, 3.0]]))
    >>> tocha.lu_solve(tocha.tensor([[3.0], [5.0]]), LU, pivots)
    tensor([[0.8000],
            [1.4000]])
    """


def linalg_inv_ex():
    """
    >>> tocha.linalg.inv_ex(tocha.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tocha.return_types.linalg_inv_ex(
    inverse=tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]]),
    info=tensor(0, dtype=tocha.int32))
    """


def linalg_inv():
    """
    >>> tocha.linalg.inv(tocha.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """


def inverse():
    """
    >>> tocha.inverse(tocha.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """


def cholesky_inverse():
    """
    >>> tocha.cholesky_inverse(tocha.tensor([[2.0, 0.0], [1.0, 4.0]]))
    tensor([[ 0.2656, -0.0312],
            [-0.0312,  0.0625]])
    """


def linalg_tensorinv():
    """
    >>> tocha.linalg.tensorinv(tocha.eye(4).view(2, 2, 4), ind=2).shape
    tocha.Size([4, 2, 2])
    """


def linalg_tensorsolve():
    """
    >>> tocha.linalg.tensorsolve(2 * tocha.eye(4).view(2, 2, 2, 2), tocha.ones(2, 2))
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """


def linalg_det():
    """
    >>> tocha.linalg.det(tocha.tensor([[2.0, 0.0], [1.0, 3.0]]))
    tensor(6.)
    """


def det():
    """
    >>> tocha.det(tocha.tensor([[2.0, 0.0], [1.0, 3.0]]))
    tensor(6.)
    """


def linalg_slogdet():
    """
    >>> tocha.linalg.slogdet(tocha.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tocha.return_types.linalg_slogdet(
    sign=tensor(-1.),
    logabsdet=tensor(0.6931))
    """


def slogdet():
    """
    >>> tocha.slogdet(tocha.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tocha.return_types.slogdet(
    sign=tensor(-1.),
    logabsdet=tensor(0.6931))
    """


def logdet():
    """
    >>> tocha.logdet(tocha.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor(2.0794)
    """
