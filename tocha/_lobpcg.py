"""lobpcg: a few extreme eigenvalues of symmetric matrices by products with them (Knyazev 2001), on an orthogonal
basis of the current vectors, the residuals and the last steps (Duersch and others 2018)."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha._core.type_info import finfo

Tensor = _C.Tensor
linalg = _C._linalg

__all__ = ["lobpcg"]


def _product(M: Tensor | None, X: Tensor) -> Tensor:
    return X if M is None else M @ X


def _orthonormal(B: Tensor | None, U: Tensor, against: Tensor | None = None) -> Tensor:
    """A basis of U's span, orthonormal in B's inner product and to `against`; directions lost to rounding are dropped."""
    for _ in range(2):  # once is not enough in floating point, twice is
        if against is not None:
            U = U - against @ (against.mH @ _product(B, U))
        lengths = linalg.vector_norm(U, dim=-2)
        U = U[:, lengths > 0] / lengths[lengths > 0]
        values, vectors = linalg.eigh(U.mH @ _product(B, U))
        kept = values > finfo(U.dtype).eps * U.shape[-1] * values.abs().max() if len(values) else values > 0
        U = (U @ vectors[:, kept]) / values[kept].sqrt()
    return U


def _extreme_pairs(A: Tensor, S: Tensor, n: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The n wanted eigenvalues of A on the orthonormal basis S, and the coefficients of their vectors."""
    values, vectors = linalg.eigh(S.mH @ (A @ S))
    if largest:
        values, vectors = values.flip(-1), vectors.flip(-1)
    return values[:n], vectors[:, :n]


def _solve(A: Tensor, B: Tensor | None, X: Tensor, iK: Tensor | None, k: int, niter: int, tol: float, largest: bool):
    n = X.shape[-1]
    X = _orthonormal(B, X)
    if X.shape[-1] < n:
        raise ValueError(f"[lobpcg] the {n} initial vectors are linearly dependent")
    values, Z = _extreme_pairs(A, X, n, largest)
    X = X @ Z
    A_norm = linalg.matrix_norm(A)
    B_norm = 1.0 if B is None else linalg.matrix_norm(B)
    last: Tensor | None = None
    step = 0
    while niter < 0 or step < niter:
        step += 1
        R = A @ X - _product(B, X) * values
        error = linalg.vector_norm(R, dim=-2) / (linalg.vector_norm(X, dim=-2) * (A_norm + values.abs() * B_norm))
        if bool((error[:k] <= tol).all()):
            break
        directions = _product(iK, R)
        directions = directions if last is None else _C.cat([directions, last], -1)
        extra = _orthonormal(B, directions, X)
        if extra.shape[-1] == 0:
            break
        S = _C.cat([X, extra], -1)
        values, Z = _extreme_pairs(A, S, n, largest)
        X, last = S @ Z, extra @ Z[n:]
    return values[:k], X[:, :k]


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) eigenvalues of symmetric A (with B: of A x = w B x) and their vectors.

    X holds initial vectors (else n random ones), iK a preconditioner; at most niter steps (-1: until it converges).
    Both methods, "ortho" and "basic", keep an orthogonal basis; the ortho_*params have nothing to tune.

    >>> import tocha
    >>> tocha.lobpcg(tocha.diag(tocha.arange(1.0, 10.0)), 1)[0].round()
    tensor([9.])
    """
    if method not in (None, "ortho", "basic"):
        raise ValueError(f'[lobpcg] method must be "ortho" or "basic", but got {method!r}')
    if tracker is not None:
        raise NotImplementedError("[lobpcg] tracker is not supported")
    if A.dim() < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"[lobpcg] expected square matrices, but got {tuple(A.shape)}")
    m = A.shape[-1]
    if k is None:
        k = 1 if X is None else X.shape[-1]
    n = X.shape[-1] if X is not None else k if n is None else n
    if m < 3 * n:
        raise ValueError(
            f"[lobpcg] LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x the number of requested eigenpairs (={n})"
        )
    if X is None:
        X = _C.randn(*A.shape[:-1], n, dtype=A.dtype, device=A.device)
    tol = finfo(A.dtype).eps ** 0.5 if tol is None else tol
    niter = 1000 if niter is None else niter
    largest = True if largest is None else largest

    def flat(t: Tensor) -> list[Tensor]:
        return list(t.expand(*A.shape[:-2], *t.shape[-2:]).reshape(-1, *t.shape[-2:]))

    def flat_or_none(t: Tensor | None) -> list[Tensor] | list[None]:
        return [None] * (A.numel() // (m * m)) if t is None else flat(t)

    found = [
        _solve(a, b, x, p, k, niter, tol, largest)
        for a, b, x, p in zip(flat(A), flat_or_none(B), flat(X), flat_or_none(iK), strict=True)
    ]
    values, vectors = _C.stack([f[0] for f in found]), _C.stack([f[1] for f in found])
    return values.reshape(*A.shape[:-2], k), vectors.reshape(*A.shape[:-1], k)
