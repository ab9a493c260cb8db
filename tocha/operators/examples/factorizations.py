"""Examples of tocha/operators/factorizations.py."""


def linalg_cholesky_ex():
    """
    >>> tocha.linalg.cholesky_ex(tocha.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tocha.return_types.linalg_cholesky_ex(
    L=tensor([[2., 0.],
            [1., 2.]]),
    info=tensor(0, dtype=tocha.int32))
    """


def linalg_cholesky():
    """
    >>> tocha.linalg.cholesky(tocha.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """


def cholesky():
    """
    >>> tocha.cholesky(tocha.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """


def linalg_lu_factor_ex():
    """
    >>> tocha.linalg.lu_factor_ex(tocha.tensor([[1.0, 2.0], [4.0, 4.0]]))
    tocha.return_types.linalg_lu_factor_ex(
    LU=tensor([[4.0000, 4.0000],
            [0.2500, 1.0000]]),
    pivots=tensor([2, 2], dtype=tocha.int32),
    info=tensor(0, dtype=tocha.int32))
    """


def linalg_lu_factor():
    """
    >>> tocha.linalg.lu_factor(tocha.tensor([[1.0, 2.0], [4.0, 4.0]]))
    tocha.return_types.linalg_lu_factor(
    LU=tensor([[4.0000, 4.0000],
            [0.2500, 1.0000]]),
    pivots=tensor([2, 2], dtype=tocha.int32))
    """


def lu_unpack():
    """
    >>> LU, pivots = tocha.linalg.lu_factor(tocha.tensor([[1.0, 2.0], [4.0, 4.0]]))
    >>> P, lower, upper = tocha.lu_unpack(LU, pivots)
    >>> P @ lower @ upper
    tensor([[1., 2.],
            [4., 4.]])
    """


def linalg_lu():
    """
    >>> P, lower, upper = tocha.linalg.lu(tocha.tensor([[1.0, 2.0], [4.0, 4.0]]))
    >>> lower, upper
    (tensor([[1.0000, 0.0000],
            [0.2500, 1.0000]]), tensor([[4., 4.],
            [0., 1.]]))
    >>> P @ lower @ upper
    tensor([[1., 2.],
            [4., 4.]])
    """


def linalg_ldl_factor_ex():
    """
    >>> tocha.linalg.ldl_factor_ex(tocha.tensor([[4.0, 2.0], [2.0, 5.0]])).info
    tensor(0, dtype=tocha.int32)
    """


def linalg_ldl_factor():
    """
    >>> A = tocha.tensor([[4.0, 2.0], [2.0, 5.0]])
    >>> LD, pivots = tocha.linalg.ldl_factor(A)
    >>> tocha.linalg.ldl_solve(LD, pivots, tocha.tensor([[6.0], [7.0]]))
    tensor([[1.],
            [1.]])
    """


def linalg_ldl_solve():
    """
    >>> LD, pivots = tocha.linalg.ldl_factor(tocha.tensor([[4.0, 2.0], [2.0, 5.0]]))
    >>> tocha.linalg.ldl_solve(LD, pivots, tocha.tensor([[6.0], [7.0]]))
    tensor([[1.],
            [1.]])
    """


def geqrf():
    """
    >>> a, tau = tocha.geqrf(tocha.tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> tocha.triu(a).abs()
    tensor([[5.0000, 2.2000],
            [0.0000, 0.4000]])
    """


def linalg_qr():
    """
    >>> A = tocha.tensor([[3.0, 1.0], [4.0, 2.0]])
    >>> Q, R = tocha.linalg.qr(A)
    >>> R.abs()
    tensor([[5.0000, 2.2000],
            [0.0000, 0.4000]])
    >>> tocha.allclose(Q @ R, A)
    True
    """


def qr():
    """
    >>> A = tocha.tensor([[3.0, 1.0], [4.0, 2.0]])
    >>> Q, R = tocha.qr(A)
    >>> tocha.allclose(Q @ R, A)
    True
    """


def linalg_householder_product():
    """
    >>> A = tocha.tensor([[3.0, 1.0], [4.0, 2.0]])
    >>> a, tau = tocha.geqrf(A)
    >>> Q = tocha.linalg.householder_product(a, tau)
    >>> tocha.allclose(Q @ tocha.triu(a), A)
    True
    """


def orgqr():
    """
    >>> A = tocha.tensor([[3.0, 1.0], [4.0, 2.0]])
    >>> a, tau = tocha.geqrf(A)
    >>> tocha.allclose(tocha.orgqr(a, tau) @ tocha.triu(a), A)
    True
    """


def ormqr():
    """
    >>> A = tocha.tensor([[3.0, 1.0], [4.0, 2.0]])
    >>> a, tau = tocha.geqrf(A)
    >>> tocha.allclose(tocha.ormqr(a, tau, tocha.triu(a)), A)
    True
    """
