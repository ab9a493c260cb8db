"""Ready parametrizations: orthogonal, weight_norm, spectral_norm."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from tocha import _C
from tocha._core.type_info import finfo
from tocha.autograd.grad_mode import no_grad
from tocha.nn import functional as F
from tocha.nn.modules.module import Module
from tocha.nn.utils import parametrize
from tocha.nn.utils.spectral_norm import as_matrix, default_dim, power_step
from tocha.nn.utils.weight_norm import from_length_and_direction, norm_except_dim

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

Tensor = _C.Tensor


def _is_orthogonal(q: Tensor, eps: float | None = None) -> bool:
    n, k = q.size(-2), q.size(-1)
    identity = _C.eye(k, dtype=q.dtype, device=q.device)
    bound = 10.0 * n * finfo(q.dtype).eps if eps is None else eps
    return _C.allclose(q.mH @ q, identity, atol=bound)


def _make_orthogonal(a: Tensor) -> Tensor:
    """The orthogonal factor of a, whose triangular factor has a positive diagonal."""
    reflections, tau = _C.geqrf(a)
    q = _C._linalg.householder_product(reflections, tau)
    return q * reflections.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


class _Orthogonal(Module):
    """Matrices with orthogonal columns (rows, where there are fewer rows) from any matrix."""

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map is _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        """The orthogonal matrix that X stands for."""
        wide = X.size(-2) < X.size(-1)
        if wide:
            X = X.mT
        q = self._by_householder(X) if self.orthogonal_map is _OrthMaps.householder else self._by_skew(X)
        if hasattr(self, "base"):
            q = self.base @ q  # type: ignore[operator]
        return q.mT if wide else q

    def _by_skew(self, X: Tensor) -> Tensor:
        """Maps of skew-symmetric matrices: the exponential and Cayley's."""
        n, k = X.size(-2), X.size(-1)
        X = X.tril()
        if n != k:
            X = _C.cat([X, X.new_zeros(n, n - k).expand(*X.shape[:-2], -1, -1)], dim=-1)
        skew = X - X.mH
        if self.orthogonal_map is _OrthMaps.matrix_exp:
            q = _C.matrix_exp(skew)
        else:
            identity = _C.eye(n, dtype=skew.dtype, device=skew.device)
            q = _C._linalg.solve(_C.add(identity, skew, alpha=-0.5), _C.add(identity, skew, alpha=0.5))
        return q[..., :k] if n != k else q

    def _by_householder(self, X: Tensor) -> Tensor:
        reflections = X.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (reflections * reflections).sum(dim=-2))
        q = _C._linalg.householder_product(reflections, tau)
        return q * X.diagonal(dim1=-2, dim2=-1).to(_C.int32).unsqueeze(-2)

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        """What stands for Q (or, with a base, for the orthogonal matrix nearest to it)."""
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
            )
        given = Q
        wide = Q.size(-2) < Q.size(-1)
        if wide:
            Q = Q.mT
        if not hasattr(self, "base"):
            return self._reflections_of(Q, wide)
        n, k = Q.size(-2), Q.size(-1)
        if n != k:
            more = _C.randn(*Q.shape[:-2], n, n - k, dtype=Q.dtype, device=Q.device)
            self.base = _make_orthogonal(_C.cat([Q, more], dim=-1))
        else:
            self.base = Q.clone() if _is_orthogonal(Q) else _make_orthogonal(Q)
        start = _C.zeros_like(given)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)  # what every map takes to the identity
        return start

    def _reflections_of(self, Q: Tensor, wide: bool) -> Tensor:
        if self.orthogonal_map is not _OrthMaps.householder:
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        reflections, tau = _C.geqrf(Q)
        diagonal = reflections.diagonal(dim1=-2, dim2=-1)
        diagonal.sign_()
        diagonal[tau == 0] *= -1  # no reflection where there was nothing to do
        return reflections.mT if wide else reflections


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keeps a parameter of module orthogonal: its columns, or its rows if there are fewer.

    orthogonal_map: "matrix_exp", "cayley" or "householder"; the first for square (or complex) matrices and the last
    for others unless told. use_trivialization: moves a base that starts at the present matrix; costs memory, helps
    training (Lezcano-Casado, 2019).

    >>> import tocha
    >>> m = tocha.nn.ParameterDict({"w": tocha.randn(3, 2)})
    >>> w = orthogonal(m, "w").w
    >>> tocha.allclose(w.T @ w, tocha.eye(2), atol=1e-5)
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    chosen = getattr(_OrthMaps, orthogonal_map, None)
    if chosen is None:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    made = _Orthogonal(weight, chosen, use_trivialization=use_trivialization)
    parametrize.register_parametrization(module, name, made, unsafe=True)
    return module


class _WeightNorm(Module):
    """A weight of its length and its direction."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """The weight."""
        return from_length_and_direction(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Its length and direction."""
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Trains a parameter as its length and its direction, per slice along dim; None: as a whole.

    Salimans and Kingma (2016). Loads what the older utils.weight_norm saved, too.

    >>> m = tocha.nn.utils.parametrizations.weight_norm(tocha.nn.Linear(3, 4))
    >>> [(name, tuple(p.shape)) for name, p in m.named_parameters()]
    [('bias', (4,)), ('parametrizations.weight.original0', (4, 1)), ('parametrizations.weight.original1', (4, 3))]
    """
    made = _WeightNorm(dim)
    parametrize.register_parametrization(module, name, made, unsafe=True)
    module._register_load_state_dict_pre_hook(_OldWeightNormNames(name))
    return module


class _OldWeightNormNames:
    """Renames what the older weight_norm saved, before loading."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, state_dict: Any, prefix: str, *_: Any) -> None:
        old = [f"{prefix}{self.name}_g", f"{prefix}{self.name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{self.name}.original{i}"] = state_dict.pop(key)


class _SpectralNorm(Module):
    """A weight over its largest singular value, whose vectors are kept as buffers."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if dim >= ndim or dim < -ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim if dim >= 0 else dim + ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight, self.dim)
            rows, columns = matrix.size()
            u = matrix.new_empty(rows).normal_(0, 1)
            v = matrix.new_empty(columns).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)

    @no_grad()
    def _power_method(self, matrix: Tensor, n_power_iterations: int) -> None:
        for _ in range(n_power_iterations):
            power_step(matrix, self._u, self._v, self.eps, v_first=False)

    def forward(self, weight: Tensor) -> Tensor:
        """The weight over its largest singular value; vectors are their own."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # Backward needs these values, and the next forward changes the buffers.
        u, v = self._u.clone(), self._v.clone()
        return weight / _C.vdot(u, _C.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """value itself: what is normal already stays so."""
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divides a parameter by its largest singular value (Miyato et al., 2018).

    The value is found by n_power_iterations steps of the power method in every forward while training.

    >>> _ = tocha.manual_seed(0)
    >>> m = tocha.nn.utils.parametrizations.spectral_norm(tocha.nn.Linear(3, 4), n_power_iterations=50)
    >>> tocha.linalg.matrix_norm(m.weight.detach(), ord=2)
    tensor(1.)
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    chosen = default_dim(module) if dim is None else dim
    made = _SpectralNorm(weight, n_power_iterations, chosen, eps)
    parametrize.register_parametrization(module, name, made)
    return module
