"""Low-rank approximations by random projection (Halko, Martinsson, Tropp 2009), and the LU front-end of old programs."""

from __future__ import annotations

from tocha import _C
from tocha._core.switches import warn_once
from tocha.overrides import add_method

Tensor = _C.Tensor
linalg = _C._linalg

__all__ = ["lu", "pca_lowrank", "svd_lowrank"]


def _approximate_basis(A: Tensor, q: int, niter: int) -> Tensor:
    """Q with orthonormal columns such that Q Q^H A approximates A (their algorithm 4.4)."""
    test = _C.randn(A.shape[-1], q, dtype=A.dtype, device=A.device)
    Q = linalg.qr(A @ test).Q
    for _ in range(niter):
        Q = linalg.qr(A.mH @ Q).Q
        Q = linalg.qr(A @ Q).Q
    return Q


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The q largest singular values of A (or A - M), nearly, and their vectors: A is about U @ diag(S) @ V.mH.

    >>> x = tocha.outer(tocha.ones(6), tocha.tensor([3.0, 4.0, 0.0]))
    >>> U, scales, V = tocha.svd_lowrank(x, q=2)
    >>> tocha.allclose(U @ tocha.diag(scales) @ V.T, x, atol=1e-4)
    True
    """
    q = 6 if q is None else q
    niter = 2 if niter is None else niter
    A = A if M is None else A - M.broadcast_to(A.shape)
    m, n = A.shape[-2:]
    if m < n:  # the projection is cheaper from the short side
        U, S, V = svd_lowrank(A.mH, q, niter)
        return V, S, U
    Q = _approximate_basis(A, q, niter)
    U, S, Vh = linalg.svd(Q.mH @ A, full_matrices=False)
    return Q @ U, S, Vh.mH


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """The principal components of the rows of A, nearly: the singular vectors of A minus the mean of its rows.

    >>> x = tocha.outer(tocha.arange(6.0), tocha.tensor([3.0, 4.0, 0.0]))
    >>> U, scales, V = tocha.pca_lowrank(x, q=2)
    >>> V[:, 0].abs()
    tensor([0.6000, 0.8000, 0.0000])
    """
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(
            f"[pca_lowrank] q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if not niter >= 0:
        raise ValueError(f"[pca_lowrank] niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: tuple | None = None) -> tuple[Tensor, ...]:
    """Deprecated form of linalg.lu_factor: (LU, pivots), and the codes per matrix where get_infos.

    >>> LU, pivots = tocha.lu(tocha.tensor([[1.0, 2.0], [4.0, 4.0]]))
    >>> LU, pivots
    (tensor([[4.0000, 4.0000],
            [0.2500, 1.0000]]), tensor([2, 2], dtype=tocha.int32))
    """
    warn_once(
        "tocha.lu is deprecated in favor of tocha.linalg.lu_factor / tocha.linalg.lu_factor_ex and will be removed in a "
        "future release."
    )
    LU, pivots, info = _C._lu_with_info(A, pivot=pivot, check_errors=not get_infos)
    results = (LU, pivots, info) if get_infos else (LU, pivots)
    if out is None:
        return results
    if not isinstance(out, tuple | list) or len(out) != len(results):
        raise TypeError(
            f"[lu] expected tuple of {len(results)} elements but got {len(out) if isinstance(out, tuple | list) else 1}"
        )
    for target, result in zip(out, results, strict=True):
        target.resize_as_(result).copy_(result)
    return tuple(out)


def _lu_method(self: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """Deprecated form of linalg.lu_factor: (LU, pivots), and the codes per matrix where get_infos.

    >>> LU, pivots = tocha.tensor([[1.0, 2.0], [4.0, 4.0]]).lu()
    >>> LU
    tensor([[4.0000, 4.0000],
            [0.2500, 1.0000]])
    """
    return lu(self, pivot, get_infos)


def install() -> None:
    """Puts the methods onto the class; called once by `import tocha`."""
    add_method("lu", _lu_method)
