"""Cross products, and distances between points. The kernels are in csrc/cpu/distances."""

from __future__ import annotations

import math

from tocha.ir import dtypes as dt
from tocha.operators.product_checks import check_multiplies
from tocha.operators.products import PRODUCT
from tocha.operators.record import composite, gradient, native, op, rule
from tocha.operators.rules import Out, broadcast_shapes, is_float8, recording, refuse_dtype, warn_once, wrap_dim


@native(
    "linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
    dtypes=PRODUCT,
    variants="function, out",
    samples=lambda t: [((t(4, 3), t(4, 3)), {}), ((t(1, 3, 2), t(4, 3, 2)), {"dim": 1})],
    word="cross",
    tags={"exact_out"},
)
def linalg_cross(self, other, dim):
    """The cross products of the 3-vectors along dim; other dims broadcast."""
    if self.dim() != other.dim():
        raise RuntimeError(
            f"[linalg.cross] linalg.cross: inputs must have the same number of dimensions. Got {self.shape} and {other.shape}"
        )
    if self.dtype != other.dtype:
        raise RuntimeError(f"[linalg.cross] expected scalar type {self.dtype} but found {other.dtype}")
    check_multiplies("linalg.cross", self, other)
    if self.dtype == dt.bool_:
        raise NotImplementedError("[linalg.cross] \"cross\" not implemented for 'Bool'")
    d = wrap_dim(dim, self.dim())
    if self.dim() == 0 or self.shape[d] != 3 or other.shape[d] != 3:
        raise RuntimeError(
            f"[linalg.cross] linalg.cross: inputs dimension {dim} must have length 3. Got {self.shape} and {other.shape}"
        )
    return Out(broadcast_shapes(self.shape, other.shape, "linalg.cross"), self.dtype)


@gradient(linalg_cross, "self")
def cross_self_gradient(grad, other, dim):
    return op.linalg_cross(other.conj(), grad, dim=dim)


@gradient(linalg_cross, "other")
def cross_other_gradient(grad, self, dim):
    return op.linalg_cross(grad, self.conj(), dim=dim)


@composite(
    "cross(Tensor self, Tensor other, int? dim=None) -> Tensor",
    variants="function, method, out",
    samples=lambda t: [((t(4, 3), t(4, 3)), {})],
    tags={"exact_out"},
)
def cross(self, other, dim):
    """The cross products of 3-vectors along dim, by default the first dim of length 3."""
    d = -1
    if dim is None:
        warn_once(
            "Using tocha.cross without specifying the dim arg is deprecated.\nPlease either pass the dim explicitly or simply use tocha.linalg.cross.\nThe default value of dim will change to agree with that of linalg.cross in a future release."
        )
        for i in reversed(range(self.dim())):
            if self.shape[i] == 3:
                d = i
        if d < 0:
            raise RuntimeError(f"[cross] no dimension of size 3 in input of shape {self.shape}")
    else:
        d = dim
    return op.linalg_cross(self, other, dim=d)


@rule
def check_points(name: "str", self: "Tensor", p: "float") -> "none":
    if self.dtype in (dt.float16, dt.bfloat16) or is_float8(self.dtype):
        refuse_dtype(name, self.dtype)
    if not p >= 0:
        raise RuntimeError(f"[{name}] {name} only supports non-negative p values, but got {p}")


@composite(
    "cdist(Tensor x1, Tensor x2, float p=2.0, str compute_mode='use_mm_for_euclid_dist_if_necessary') -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 4, 3), t(5, 3)), {}), ((t(4, 3), t(5, 3)), {"p": 1.5})],
    aten=(),
    word="cdist",
)
def cdist(x1, x2, p, compute_mode):
    """The p-norm distances between every row of x1 and every row of x2, in batches."""
    if compute_mode not in (
        "use_mm_for_euclid_dist_if_necessary",
        "use_mm_for_euclid_dist",
        "donot_use_mm_for_euclid_dist",
    ):
        raise ValueError(f"[cdist] {compute_mode} is not a valid value for compute_mode")
    if compute_mode == "use_mm_for_euclid_dist":
        return op._cdist_forward(x1, x2, p, 1)
    if compute_mode == "donot_use_mm_for_euclid_dist":
        return op._cdist_forward(x1, x2, p, 2)
    return op._cdist_forward(x1, x2, p, None)


@composite(
    "_cdist_by_number(Tensor x1, Tensor x2, float p=2.0, int? compute_mode=None) -> Tensor",
    variants="",
    samples=lambda t: [((t(2, 4, 3), t(5, 3)), {})],
    aten=("cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor",),
)
def cdist_by_number(x1, x2, p, compute_mode):
    """cdist as its handle is called."""
    return op._cdist_forward(x1, x2, p, compute_mode)


@native(
    "_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor",
    kernel="cdist",
    autocast="float32",
    dtypes=(dt.float32, dt.float64),
    variants="",
    samples=lambda t: [((t(2, 4, 3), t(5, 3), 2.0, None), {}), ((t(4, 3), t(5, 3), 1.5, 2), {})],
    node="CdistBackward0",
    core=True,
)
def _cdist_forward(x1, x2, p, compute_mode):
    """The distances; compute_mode: 0 or None by products for many points, 1 always, 2 never."""
    if x1.dim() < 2:
        raise RuntimeError(f"[cdist] cdist only supports at least 2D tensors, X1 got: {x1.dim()}D")
    if x2.dim() < 2:
        raise RuntimeError(f"[cdist] cdist only supports at least 2D tensors, X2 got: {x2.dim()}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"[cdist] X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    if not x1.is_floating_point():
        raise RuntimeError(f"[cdist] cdist only supports floating-point dtypes, X1 got: {x1.dtype}")
    if not x2.is_floating_point():
        raise RuntimeError(f"[cdist] cdist only supports floating-point dtypes, X2 got: {x2.dtype}")
    check_points("cdist", x1, p)
    if x1.dtype != x2.dtype:
        raise RuntimeError(f"[cdist] expected scalar type {x1.dtype} but found {x2.dtype}")
    check_multiplies("cdist", x1, x2)
    sizes = broadcast_shapes(x1.shape[:-2], x2.shape[:-2], "cdist")
    return Out([*sizes, x1.shape[-2], x2.shape[-2]], x1.dtype)


@rule
def goes_by_products(x1: "Tensor", x2: "Tensor", p: "float", compute_mode: "int?") -> "bool":
    """Whether distances are computed from a matrix product, as documented for compute_mode."""
    mode = 0 if compute_mode is None else compute_mode
    return p == 2 and mode != 2 and (mode == 1 or x1.shape[-2] > 25 or x2.shape[-2] > 25)


@gradient(_cdist_forward, "x1", "x2")
def cdist_gradient(grad, x1, x2, p, compute_mode, result, wanted):
    by_products = goes_by_products(x1, x2, p, compute_mode)
    first: "Tensor?" = None
    second: "Tensor?" = None
    if recording() or not by_products:
        if wanted[0]:
            first = op._cdist_backward(grad, x1, x2, p, result)
        if wanted[1]:
            second = op._cdist_backward(grad.mT, x2, x1, p, result.mT)
        return first, second
    # The sums of (x1 - x2) * slope, where points meet 0.
    slopes = (grad / result).masked_fill(result == 0, 0)
    if wanted[0]:
        first = x1 * slopes.sum([-1], True) - op.matmul(slopes, x2)
    if wanted[1]:
        second = x2 * slopes.sum([-2]).unsqueeze(-1) - op.matmul(slopes.mT, x1)
    return first, second


@native(
    "_cdist_backward(Tensor grad_output, Tensor x1, Tensor x2, float p, Tensor distances) -> Tensor",
    kernel="cdist_backward",
    dtypes=(dt.float32, dt.float64),
    variants="",
    aten=("_cdist_backward(Tensor grad, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor",),
)
def _cdist_backward(grad_output, x1, x2, p, distances):
    """The gradient of cdist's first points, for every batch of the distances; 0 where points meet."""
    return Out([*distances.shape[:-2], *x1.shape[-2:]], x1.dtype)


@rule
def distance_slopes(apart: "Tensor", distances: "Tensor", p: "float") -> "Tensor":
    """The derivatives of the p-norm of the vectors `apart`, whose norms are `distances` (0 there: no derivative)."""
    if p == 0:
        return op.zeros_like(apart)
    if p == 1:
        return apart.sign()
    if math.isinf(p):
        return op.where(apart.abs() == distances, apart.sign(), 0.0)
    safe = distances.masked_fill(distances == 0, 1)
    if p == 2:
        return apart / safe
    steep = (apart.abs().masked_fill(apart == 0, 1) / safe).pow(p - 1)
    return op.where(distances == 0, 0.0, apart.sign() * steep)


@gradient(_cdist_backward, "grad_output", "x1", "x2")
def cdist_backward_gradient(grad, grad_output, x1, x2, p):
    apart = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    distances = op.linalg_vector_norm(apart, p, [-1], True)
    slopes = distance_slopes(apart, distances, p)
    along = grad.unsqueeze(-2)
    projected = (slopes * along).sum([-1], True)
    if p == 0 or p == 1 or math.isinf(p):
        return projected.squeeze(-1), None, None
    safe = distances.masked_fill(distances == 0, 1)
    bent = along if p == 2 else along * (apart.abs().masked_fill(apart == 0, 1) / safe).pow(p - 2)
    curved = op.where(distances == 0, 0.0, (bent - slopes * projected) * ((p - 1) / safe)) * grad_output.unsqueeze(-1)
    return projected.squeeze(-1), curved.sum([-2]), -curved.sum([-3])


@native(
    "pdist(Tensor self, float p=2) -> Tensor",
    dtypes=(dt.float32, dt.float64),
    variants="function",
    samples=lambda t: [((t(4, 3),), {})],
    word="pdist",
)
def pdist(self, p):
    """The p-norm distances between every two rows: the upper triangle of cdist(self, self)."""
    if self.dim() != 2:
        raise RuntimeError(f"[pdist] pdist only supports 2D tensors, got: {self.dim()}D")
    if not self.is_floating_point():
        raise RuntimeError(f"[pdist] pdist only supports floating-point dtypes, got: {self.dtype}")
    check_points("pdist", self, p)
    n = self.shape[0]
    return Out([n * (n - 1) // 2], self.dtype)


@gradient(pdist, "self")
def pdist_gradient(grad, self, p, result):
    n = self.shape[0]
    if n < 2:
        return op.zeros_like(self)
    places = op.triu_indices(n, n, 1, device=self.device)
    flat = places.select(0, 0) * n + places.select(0, 1)
    zeros = op.zeros([n * n], dtype=grad.dtype, device=grad.device)
    upper = zeros.index_add(0, flat, grad).view([n, n])
    apart = zeros.index_add(0, flat, result).view([n, n])
    return op._cdist_backward(upper + upper.mT, self, self, p, apart + apart.mT)


@composite(
    "nn_pdist(Tensor self, float p=2) -> Tensor", variants="function", samples=lambda t: [((t(4, 3),), {})], aten=()
)
def nn_pdist(self, p):
    """The p-norm distances between every two rows."""
    return op.pdist(self, p)
