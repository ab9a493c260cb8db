"""Examples of tocha/operators/spectra.py."""


def linalg_svd():
    """
    >>> A = tocha.tensor([[3.0, 0.0], [0.0, 2.0]])
    >>> U, values, Vh = tocha.linalg.svd(A)
    >>> values
    tensor([3., 2.])
    >>> tocha.allclose(U @ tocha.diag(values) @ Vh, A)
    True
    """


def linalg_svdvals():
    """
    >>> tocha.linalg.svdvals(tocha.tensor([[3.0, 0.0], [0.0, -2.0]]))
    tensor([3., 2.])
    """


def svd():
    """
    >>> A = tocha.tensor([[3.0, 0.0], [0.0, 2.0]])
    >>> U, values, V = tocha.svd(A)
    >>> tocha.allclose(U @ tocha.diag(values) @ V.mH, A)
    True
    """


def linalg_eigh():
    """
    >>> A = tocha.tensor([[2.0, 1.0], [1.0, 2.0]])
    >>> values, vectors = tocha.linalg.eigh(A)
    >>> values
    tensor([1., 3.])
    >>> tocha.allclose(A @ vectors, vectors * values, atol=1e-6)
    True
    """


def linalg_eigvalsh():
    """
    >>> tocha.linalg.eigvalsh(tocha.tensor([[2.0, 1.0], [1.0, 2.0]]))
    tensor([1., 3.])
    """


def linalg_eig():
    """
    >>> values, vectors = tocha.linalg.eig(tocha.tensor([[2.0, 0.0], [0.0, 3.0]]))
    >>> values
    tensor([2.+0.j, 3.+0.j])
    """


def linalg_eigvals():
    """
    >>> tocha.linalg.eigvals(tocha.tensor([[0.0, 1.0], [-1.0, 0.0]])).imag.abs()
    tensor([1., 1.])
    """
