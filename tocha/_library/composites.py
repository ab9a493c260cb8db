"""PyTorch's operators that no record answers for, as functions of those that are there: gradients by name
(`aten.avg_pool2d_backward`), what Python functions stand for otherwise (`aten.einsum`, `aten.reflection_pad2d`), and `prims`.

A name is defined when it is first asked for. Gradients go through the parts, and graphs consist of them.

>>> import tocha
>>> tocha.ops.aten.hardtanh_backward(tocha.ones(3), tocha.tensor([-2.0, 0.0, 2.0]), -1, 1)
tensor([0., 1., 0.])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import tocha
from tocha import _C
from tocha._library.library import Library
from tocha.nn import functional as F

Tensor = _C.Tensor
_found: dict[str, list[tuple[str, Callable]]] = {}
_libraries: dict[str, Library] = {}
REDUCTIONS = ("none", "mean", "sum")


def composite(schema: str) -> Callable[[Callable], Callable]:
    """`namespace::name(arguments) -> results`, made of other operators by the function."""

    def keep(function: Callable) -> Callable:
        _found.setdefault(schema.partition("(")[0].partition(".")[0], []).append((schema, function))
        return function

    return keep


def define(space: str, name: str) -> None:
    """Defines the operators of a name, if there are any."""
    for schema, function in _found.pop(f"{space}::{name}", ()):
        library = _libraries.setdefault(space, Library(space, "FRAGMENT"))
        library.define(schema)
        library.impl(schema.partition("(")[0], function, "CompositeImplicitAutograd")


def names(space: str) -> list[str]:
    """What is defined here of a namespace, asked for or not."""
    defined = [d for library in _libraries.values() for d in library._defs]
    return sorted({n.partition("::")[2].partition(".")[0] for n in (*_found, *defined) if n.startswith(f"{space}::")})


def pulled(function: Callable, at: Any, grad: Any) -> Tensor:
    """The gradient that arrives at the argument of a function from one of its result."""
    return tocha.func.vjp(function, at)[1](grad)[0]  # type: ignore[attr-defined]


def asked(mask: Sequence[bool], *makers: Callable[[], Tensor]) -> tuple[Tensor | None, ...]:
    return tuple(make() if wanted else None for wanted, make in zip(mask, makers, strict=True))


# ---- losses ----------------------------------------------------------------------------------------

_NLL = "Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index"


def _nll_forward(self: Any, target: Any, weight: Any, reduction: int, ignore_index: Any) -> tuple[Tensor, Tensor]:
    loss = F.nll_loss(self, target, weight, reduction=REDUCTIONS[reduction], ignore_index=ignore_index)
    if reduction == 0:
        return loss, self.new_zeros(())
    counted = target != ignore_index
    weights = self.new_ones(target.shape) if weight is None else weight[tocha.where(counted, target, 0)]
    return loss, tocha.where(counted, weights, 0).sum()


def _nll_backward(
    grad_output: Any, self: Any, target: Any, weight: Any, reduction: int, ignore_index: Any, total_weight: Any
) -> Tensor:
    if reduction == 1:  # by the weight that forward found
        grad_output, reduction = grad_output / total_weight, 2
    form = REDUCTIONS[reduction]
    return pulled(lambda x: F.nll_loss(x, target, weight, reduction=form, ignore_index=ignore_index), self, grad_output)


for _n in ("nll_loss", "nll_loss2d"):
    composite(f"aten::{_n}_forward({_NLL}) -> (Tensor output, Tensor total_weight)")(_nll_forward)
    composite(f"aten::{_n}_backward(Tensor grad_output, {_NLL}, Tensor total_weight) -> Tensor")(_nll_backward)

for _n in ("nll_loss2d", "nll_loss_nd"):
    composite(
        f"aten::{_n}(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor"
    )(
        lambda self, target, weight=None, reduction=1, ignore_index=-100: F.nll_loss(
            self, target, weight, reduction=REDUCTIONS[reduction], ignore_index=ignore_index
        )
    )


@composite(
    "aten::smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float beta) -> Tensor"
)
def smooth_l1_loss_backward(grad_output: Any, self: Any, target: Any, reduction: int, beta: float) -> Tensor:
    form = REDUCTIONS[reduction]
    return pulled(lambda x: F.smooth_l1_loss(x, target, reduction=form, beta=beta), self, grad_output)


@composite(
    "aten::huber_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float delta) -> Tensor"
)
def huber_loss_backward(grad_output: Any, self: Any, target: Any, reduction: int, delta: float) -> Tensor:
    form = REDUCTIONS[reduction]
    return pulled(lambda x: F.huber_loss(x, target, reduction=form, delta=delta), self, grad_output)


@composite(
    "aten::binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor"
)
def binary_cross_entropy_backward(
    grad_output: Any, self: Any, target: Any, weight: Any = None, reduction: int = 1
) -> Tensor:
    form = REDUCTIONS[reduction]
    return pulled(lambda x: F.binary_cross_entropy(x, target, weight, reduction=form), self, grad_output)


@composite("aten::soft_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor")
def soft_margin_loss_backward(grad_output: Any, self: Any, target: Any, reduction: int) -> Tensor:
    return pulled(lambda x: F.soft_margin_loss(x, target, reduction=REDUCTIONS[reduction]), self, grad_output)


# ---- activations -----------------------------------------------------------------------------------


@composite(
    "aten::elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor self_or_result) -> Tensor"
)
def elu_backward(
    grad_output: Any, alpha: Any, scale: Any, input_scale: Any, is_result: bool, self_or_result: Any
) -> Tensor:
    x = self_or_result
    below = (x + alpha * scale) * input_scale if is_result else (x * input_scale).exp() * (input_scale * alpha * scale)
    return tocha.where(x <= 0, grad_output * below, grad_output * scale)


@composite("aten::hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor")
def hardtanh_backward(grad_output: Any, self: Any, min_val: Any, max_val: Any) -> Tensor:
    return tocha.where((self <= min_val) | (self >= max_val), 0, grad_output)


@composite("aten::softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor")
def softplus_backward(grad_output: Any, self: Any, beta: Any, threshold: Any) -> Tensor:
    return pulled(lambda x: F.softplus(x, beta, threshold), self, grad_output)


@composite("aten::softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor")
def softshrink_backward(grad_output: Any, self: Any, lambd: Any) -> Tensor:
    return pulled(lambda x: F.softshrink(x, lambd), self, grad_output)


@composite("aten::hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor")
def hardshrink_backward(grad_out: Any, self: Any, lambd: Any) -> Tensor:
    return pulled(lambda x: F.hardshrink(x, lambd), self, grad_out)


@composite("aten::hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor")
def hardsigmoid_backward(grad_output: Any, self: Any) -> Tensor:
    return pulled(F.hardsigmoid, self, grad_output)


@composite("aten::hardswish_backward(Tensor grad_output, Tensor self) -> Tensor")
def hardswish_backward(grad_output: Any, self: Any) -> Tensor:
    return pulled(F.hardswish, self, grad_output)


@composite("aten::mish_backward(Tensor grad_output, Tensor self) -> Tensor")
def mish_backward(grad_output: Any, self: Any) -> Tensor:
    return pulled(F.mish, self, grad_output)


@composite("aten::glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor")
def glu_backward(grad_output: Any, self: Any, dim: int) -> Tensor:
    return pulled(lambda x: F.glu(x, dim), self, grad_output)


@composite("aten::logit_backward(Tensor grad_output, Tensor self, float? eps=None) -> Tensor")
def logit_backward(grad_output: Any, self: Any, eps: float | None = None) -> Tensor:
    return pulled(lambda x: x.logit(eps), self, grad_output)


@composite("aten::log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)")
def log_sigmoid_forward(self: Any) -> tuple[Tensor, Tensor]:
    return F.logsigmoid(self), (-self.abs()).exp()


@composite("aten::log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor")
def log_sigmoid_backward(grad_output: Any, self: Any, buffer: Any) -> Tensor:
    return pulled(F.logsigmoid, self, grad_output)


@composite("aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor")
def _prelu_kernel(self: Any, weight: Any) -> Tensor:
    return tocha.where(self > 0, self, weight * self)


@composite("aten::_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor)")
def _prelu_kernel_backward(grad_output: Any, self: Any, weight: Any) -> tuple[Tensor, Tensor]:
    above = self > 0
    return tocha.where(above, grad_output, weight * grad_output), tocha.where(above, 0, self * grad_output)


# ---- pictures --------------------------------------------------------------------------------------


def _average_pool_backward(n: int) -> Callable:
    pool = getattr(F, f"avg_pool{n}d")

    def backward(
        grad_output: Any, self: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool, divisor_override: Any
    ) -> Tensor:  # fmt: skip
        settings = (kernel_size, stride or None, padding, ceil_mode, count_include_pad, divisor_override)
        return pulled(lambda x: pool(x, *settings), self, grad_output)

    return backward


def _adaptive_average_backward(n: int) -> Callable:
    pool = getattr(F, f"adaptive_avg_pool{n}d")
    return lambda grad_output, self: pulled(lambda x: pool(x, grad_output.shape[-n:]), self, grad_output)


def _to_places(n: int) -> Callable:
    """Of a pool of extremes: each gradient goes to the place that its element came from."""

    def backward(grad_output: Any, self: Any, *settings: Any) -> Tensor:
        places = settings[-1]
        made = grad_output.new_zeros(self.shape).flatten(-n)
        return made.scatter_add(-1, places.flatten(-n), grad_output.flatten(-n)).view(self.shape)

    return backward


for _k in (2, 3):
    composite(
        f"aten::avg_pool{_k}d_backward(Tensor grad_output, Tensor self, int[{_k}] kernel_size, int[{_k}] stride, int[{_k}] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor"
    )(_average_pool_backward(_k))
    composite(f"aten::_adaptive_avg_pool{_k}d_backward(Tensor grad_output, Tensor self) -> Tensor")(
        _adaptive_average_backward(_k)
    )
    composite(f"aten::adaptive_max_pool{_k}d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor")(
        _to_places(_k)
    )
    if _k > 1:
        composite(
            f"aten::fractional_max_pool{_k}d_backward(Tensor grad_output, Tensor self, int[{_k}] kernel_size, int[{_k}] output_size, Tensor indices) -> Tensor"
        )(_to_places(_k))
composite(
    "aten::max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor"
)(_to_places(3))


def _resampled_backward(name: str) -> Callable:
    def backward(grad_output: Any, output_size: Any, input_size: Any, *settings: Any, **more: Any) -> Tensor:
        forward = getattr(tocha.ops.aten, name).default  # type: ignore[attr-defined]
        zeros = grad_output.new_zeros(input_size)
        return pulled(lambda x: forward(x, output_size, *settings, **more), zeros, grad_output)

    return backward


for _name, _k, _aligned in (
    ("upsample_nearest1d", 1, ""), ("upsample_nearest2d", 2, ""), ("upsample_nearest3d", 3, ""),
    ("_upsample_nearest_exact1d", 1, ""), ("_upsample_nearest_exact2d", 2, ""), ("_upsample_nearest_exact3d", 3, ""),
    ("upsample_linear1d", 1, "bool align_corners, "), ("upsample_bilinear2d", 2, "bool align_corners, "),
    ("upsample_trilinear3d", 3, "bool align_corners, "), ("upsample_bicubic2d", 2, "bool align_corners, "),
    ("_upsample_bilinear2d_aa", 2, "bool align_corners, "), ("_upsample_bicubic2d_aa", 2, "bool align_corners, "),
):  # fmt: skip
    _scales = ", ".join(f"float? scales{s}=None" for s in (("",), ("_h", "_w"), ("_d", "_h", "_w"))[_k - 1])
    composite(
        f"aten::{_name}_backward(Tensor grad_output, SymInt[{_k}] output_size, SymInt[{_k + 2}] input_size, {_aligned}{_scales}) -> Tensor"
    )(_resampled_backward(_name))


def _padded(mode: str) -> tuple[Callable, Callable]:
    def pad(self: Any, padding: Any) -> Tensor:
        return F.pad(self, list(padding), mode=mode)

    return pad, lambda grad_output, self, padding: pulled(lambda x: pad(x, padding), self, grad_output)


for _k in (1, 2, 3):
    for _name, _mode in (("reflection", "reflect"), ("replication", "replicate")):
        _pad, _backward = _padded(_mode)
        composite(f"aten::{_name}_pad{_k}d(Tensor self, SymInt[{2 * _k}] padding) -> Tensor")(_pad)
        composite(
            f"aten::{_name}_pad{_k}d_backward(Tensor grad_output, Tensor self, SymInt[{2 * _k}] padding) -> Tensor"
        )(_backward)


def _sampled_backward(dims: int) -> Callable:
    def backward(
        grad_output: Any, input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool, output_mask: Any
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        sample = getattr(tocha.ops.aten, f"grid_sampler_{dims}d").default  # type: ignore[attr-defined]
        settings = interpolation_mode, padding_mode, align_corners
        return asked(
            output_mask,
            lambda: pulled(lambda x: sample(x, grid, *settings), input, grad_output),
            lambda: pulled(lambda at: sample(input, at, *settings), grid, grad_output),
        )

    return backward


for _k in (2, 3):
    composite(
        f"aten::grid_sampler_{_k}d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)"
    )(_sampled_backward(_k))


# ---- norms -----------------------------------------------------------------------------------------


def _norm_backward(
    grad: Any, x: Any, mean: Any, rstd: Any, weight: Any, over: list[int], across: list[int], fixed: bool = False
) -> tuple[Callable, Callable, Callable]:
    """How the gradients of (x - mean) * rstd * weight + bias are computed. `over`: the dims of the statistics, which are a function
    of x unless they are fixed; `across`: those that weight does not have. Everything broadcasts."""
    wide = tocha.float32 if x.dtype in (tocha.float16, tocha.bfloat16) else x.dtype
    g, normal = grad.to(wide), (x.to(wide) - mean.to(wide)) * rstd.to(wide)

    def by_input() -> Tensor:
        scaled = g if weight is None else g * weight.to(wide)
        if not fixed:
            scaled = scaled - scaled.mean(over, True) - normal * (scaled * normal).mean(over, True)
        return (scaled * rstd.to(wide)).to(x.dtype)

    def summed(t: Any) -> Tensor:
        return (t.sum(across) if across else t).to(x.dtype if weight is None else weight.dtype)

    return by_input, lambda: summed(g * normal), lambda: summed(g)


@composite(
    "aten::native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"
)
def native_layer_norm_backward(
    grad_out: Any, input: Any, normalized_shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any, output_mask: Any
) -> tuple[Tensor | None, ...]:
    first = input.ndim - len(normalized_shape)
    over, across = list(range(first, input.ndim)), list(range(first))
    return asked(output_mask, *_norm_backward(grad_out, input, mean, rstd, weight, over, across))


@composite(
    "aten::native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, SymInt N, SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"
)
def native_group_norm_backward(
    grad_out: Any, input: Any, mean: Any, rstd: Any, weight: Any, N: Any, C: Any, HxW: Any, group: int, output_mask: Any
) -> tuple[Tensor | None, ...]:
    shape, stats = (N, group, C // group, HxW), (N, group, 1, 1)
    weights = None if weight is None else weight.reshape(1, group, C // group, 1)
    by_input, by_weight, by_bias = _norm_backward(
        grad_out.reshape(shape), input.reshape(shape), mean.view(stats), rstd.view(stats), weights, [2, 3], [0, 3]
    )
    return asked(
        output_mask,
        lambda: by_input().view(input.shape),
        lambda: by_weight().reshape(C),
        lambda: by_bias().reshape(C),
    )


@composite(
    "aten::native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"
)
def native_batch_norm_backward(
    grad_out: Any, input: Any, weight: Any, running_mean: Any, running_var: Any, save_mean: Any, save_invstd: Any, train: bool, eps: float, output_mask: Any
) -> tuple[Tensor | None, ...]:  # fmt: skip
    mean, rstd = (save_mean, save_invstd) if train else (running_mean, (running_var + eps).rsqrt())
    shape, over = [1, -1] + [1] * (input.ndim - 2), [0, *range(2, input.ndim)]
    weights = None if weight is None else weight.view(shape)
    by = _norm_backward(grad_out, input, mean.view(shape), rstd.view(shape), weights, over, over, fixed=not train)
    return asked(output_mask, *by)


@composite("aten::_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)")
def _weight_norm_interface(v: Any, g: Any, dim: int = 0) -> tuple[Tensor, Tensor]:
    others = [d for d in range(v.ndim) if d != dim % v.ndim]
    norm = tocha.linalg.vector_norm(v, 2, others, keepdim=True) if others else v.abs()  # type: ignore[attr-defined]
    return v * (g / norm), norm.detach()


@composite("aten::_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor")
def _weight_norm(v: Any, g: Any, dim: int = 0) -> Tensor:
    return _weight_norm_interface(v, g, dim)[0]


# ---- indices ---------------------------------------------------------------------------------------


@composite("aten::masked_select_backward(Tensor grad, Tensor input, Tensor mask) -> Tensor")
def masked_select_backward(grad: Any, input: Any, mask: Any) -> Tensor:
    return grad.new_zeros(tocha.broadcast_shapes(input.shape, mask.shape)).masked_scatter(mask, grad)


def _bags(
    weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: Any = None, include_last_offset: bool = False, padding_idx: int = -1,
) -> tuple[Tensor, ...]:  # fmt: skip
    options = scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset
    padding = padding_idx if padding_idx >= 0 else None
    return tocha.ops.aten.embedding_bag.padding_idx(weight, indices, offsets, *options, padding)  # type: ignore[attr-defined]


for _n in ("_embedding_bag", "_embedding_bag_forward_only"):
    composite(
        f"aten::{_n}(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)"
    )(_bags)


# ---- attention -------------------------------------------------------------------------------------


def _scores(query: Any, key: Any, attn_mask: Any, is_causal: bool, scale: float | None) -> Tensor:
    scores = query @ key.mT * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        seen = tocha.ones(query.shape[-2], key.shape[-2], dtype=tocha.bool, device=query.device).tril()  # type: ignore[arg-type]
        return scores.masked_fill(~seen, -math.inf)
    if attn_mask is None:
        return scores
    return scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype is tocha.bool else scores + attn_mask


@composite(
    "aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)"
)
def _scaled_dot_product_flash_attention_for_cpu(
    query: Any, key: Any, value: Any, dropout_p: float = 0.0, is_causal: bool = False, *, attn_mask: Any = None, scale: float | None = None
) -> tuple[Tensor, Tensor]:  # fmt: skip
    out = F.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)
    sums = _scores(query, key, attn_mask, is_causal, scale).float().logsumexp(-1)
    return out, sums.mT.contiguous().mT  # heads lie innermost


@composite("aten::_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor")
def _safe_softmax(self: Any, dim: int, dtype: Any = None) -> Tensor:
    return tocha.where((self == -math.inf).all(dim, keepdim=True), 0, self.softmax(dim, dtype=dtype))


# ---- elements in other places ----------------------------------------------------------------------


@composite("aten::unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor")
def unfold_backward(grad_in: Any, input_sizes: Any, dim: int, size: int, step: int) -> Tensor:
    return pulled(lambda x: x.unfold(dim, size, step), grad_in.new_zeros(input_sizes), grad_in)


@composite("aten::trace_backward(Tensor grad, SymInt[] sizes) -> Tensor")
def trace_backward(grad: Any, sizes: Any) -> Tensor:
    return pulled(tocha.trace, grad.new_zeros(sizes), grad)


@composite(
    "aten::diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) -> Tensor"
)
def diagonal_backward(grad_output: Any, input_sizes: Any, offset: int, dim1: int, dim2: int) -> Tensor:
    return tocha.diagonal_scatter(grad_output.new_zeros(input_sizes), grad_output, offset, dim1, dim2)


@composite("aten::index_select_backward(Tensor grad, SymInt[] self_sizes, int dim, Tensor index) -> Tensor")
def index_select_backward(grad: Any, self_sizes: Any, dim: int, index: Any) -> Tensor:
    return grad.new_zeros(self_sizes).index_add(dim, index, grad)


@composite("aten::gather_backward(Tensor grad, Tensor self, int dim, Tensor index, bool sparse_grad) -> Tensor")
def gather_backward(grad: Any, self: Any, dim: int, index: Any, sparse_grad: bool) -> Tensor:
    return grad.new_zeros(self.shape).scatter_add(dim, index, grad)


@composite("aten::_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor")
def _unsafe_index_put(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    return tocha.ops.aten.index_put.default(self, indices, values, accumulate)  # type: ignore[attr-defined]


@composite("aten::_stack(Tensor[] tensors, int dim=0) -> Tensor")
def _stack(tensors: Any, dim: int = 0) -> Tensor:
    return tocha.stack(tensors, dim)


def _unique_results(found: Any, inverse: bool, counts: bool) -> tuple[Tensor, Tensor, Tensor]:
    first, *rest = found if isinstance(found, tuple) else (found,)
    places, numbers = (first.new_empty(0, dtype=tocha.int64) for _ in range(2))
    return first, rest[0] if inverse else places, rest[-1] if counts else numbers


@composite(
    "aten::unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> (Tensor, Tensor, Tensor)"
)
def unique_consecutive(
    self: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    found = tocha.unique_consecutive(self, return_inverse, return_counts, dim)
    return _unique_results(found, return_inverse, return_counts)


@composite(
    "aten::unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)"
)
def unique_dim(
    self: Any, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    return tocha.unique(self, sorted, True, True, dim)  # PyTorch's gives all of them whatever is asked for


# ---- folds and products ----------------------------------------------------------------------------


@composite("aten::_aminmax(Tensor self) -> (Tensor, Tensor)")
def _aminmax(self: Any) -> tuple[Tensor, Tensor]:
    return self.amin(), self.amax()


@composite("aten::_aminmax.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)")
def _aminmax_dim(self: Any, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return self.amin(dim, keepdim), self.amax(dim, keepdim)


@composite("aten::_is_all_true(Tensor self) -> Tensor")
def _is_all_true(self: Any) -> Tensor:
    return self.all()


@composite("aten::_is_any_true(Tensor self) -> Tensor")
def _is_any_true(self: Any) -> Tensor:
    return self.any()


@composite("aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor")
def einsum(equation: str, tensors: Any, *, path: Any = None) -> Tensor:
    return tocha.einsum(equation, *tensors)


@composite("aten::tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor")
def tensordot(self: Any, other: Any, dims_self: Any, dims_other: Any) -> Tensor:
    return tocha.tensordot(self, other, dims=(list(dims_self), list(dims_other)))


@composite("aten::cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor")
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: int | None = None) -> Tensor:
    modes = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
    return tocha.cdist(x1, x2, p, modes[compute_mode or 0])


@composite("aten::chain_matmul(Tensor[] matrices) -> Tensor")
def chain_matmul(matrices: Any) -> Tensor:
    return tocha.linalg.multi_dot(matrices) if len(matrices) > 1 else matrices[0]  # type: ignore[attr-defined]


# ---- prims -----------------------------------------------------------------------------------------

_MADE = "ScalarType dtype, Device device, bool requires_grad"


@composite(f"prims::iota(SymInt length, *, SymInt start, SymInt step, {_MADE}) -> Tensor")
def iota(length: Any, *, start: Any, step: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    return tocha.arange(start, start + length * step, step, dtype=dtype, device=device, requires_grad=requires_grad)


@composite("prims::convert_element_type(Tensor a, ScalarType dtype) -> Tensor")
def convert_element_type(a: Any, dtype: Any) -> Tensor:
    return a.to(dtype, copy=True)


@composite("prims::device_put(Tensor a, Device device, bool non_blocking=False) -> Tensor")
def device_put(a: Any, device: Any, non_blocking: bool = False) -> Tensor:
    return a.to(device, non_blocking=non_blocking)


@composite("prims::broadcast_in_dim(Tensor(a) a, SymInt[] shape, int[] broadcast_dimensions) -> Tensor(a)")
def broadcast_in_dim(a: Any, shape: Any, broadcast_dimensions: Any) -> Tensor:
    for d in range(len(shape)):
        if d not in broadcast_dimensions:
            a = a.unsqueeze(d)
    return a.expand(shape)


@composite("prims::transpose(Tensor(a) a, int[] permutation) -> Tensor(a)")
def transpose(a: Any, permutation: Any) -> Tensor:
    return a.permute(permutation)


@composite("prims::squeeze(Tensor(a) a, int[] dimensions) -> Tensor(a)")
def squeeze(a: Any, dimensions: Any) -> Tensor:
    return a.squeeze(tuple(dimensions))


@composite("prims::reshape(Tensor a, SymInt[] shape) -> Tensor")
def reshape(a: Any, shape: Any) -> Tensor:
    return a.reshape(shape).clone(memory_format=tocha.contiguous_format)


@composite("prims::rev(Tensor a, int[] dims) -> Tensor")
def rev(a: Any, dims: Any) -> Tensor:
    return a.flip(dims)


@composite("prims::cat(Tensor[] tensors, int dim) -> Tensor")
def cat(tensors: Any, dim: int) -> Tensor:
    return tocha.cat(tensors, dim)


@composite("prims::where(Tensor pred, Tensor a, Tensor b) -> Tensor")
def where(pred: Any, a: Any, b: Any) -> Tensor:
    return tocha.where(pred, a, b)


@composite(f"prims::full(SymInt[] shape, Scalar fill_value, *, {_MADE}) -> Tensor")
def full(shape: Any, fill_value: Any, *, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    return tocha.full(shape, fill_value, dtype=dtype, device=device, requires_grad=requires_grad)


@composite("prims::div(Tensor self, Tensor other) -> Tensor")
def div(self: Any, other: Any) -> Tensor:
    whole = not (self.dtype.is_floating_point or self.dtype.is_complex)
    return tocha.div(self, other, rounding_mode="trunc" if whole else None)


@composite("prims::var(Tensor inp, int[]? dims, float? correction=1, *, ScalarType? output_dtype=None) -> Tensor")
def var(inp: Any, dims: Any, correction: Any = 1, *, output_dtype: Any = None) -> Tensor:
    found = tocha.var(inp, dims, correction=correction)
    return found if output_dtype is None else found.to(output_dtype)


def _fold(name: str) -> Callable:
    def fold(inp: Any, dims: Any, *, output_dtype: Any = None) -> Tensor:
        places = range(inp.ndim) if dims is None else dims
        if name == "prod":
            found = inp
            for d in sorted((d % inp.ndim for d in places), reverse=True):
                found = found.prod(d, dtype=inp.dtype)
        elif name == "sum":
            found = inp.sum(tuple(places), dtype=inp.dtype) if len(places) else inp.clone()
        else:
            found = getattr(inp, name)(tuple(places))
        return found if output_dtype is None else found.to(output_dtype)

    return fold


for _name in ("sum", "prod", "amax", "amin"):
    composite(f"prims::{_name}(Tensor inp, int[]? dims, *, ScalarType? output_dtype=None) -> Tensor")(_fold(_name))


def _same(name: str) -> Callable:
    return getattr(tocha, name) if hasattr(tocha, name) else getattr(tocha.special, name)


_RENAMED = {
    "bessel_i0": "i0", "bessel_i0e": "i0e", "bessel_i1": "i1", "bessel_i1e": "i1e", "erf_inv": "erfinv",
    "shift_left": "bitwise_left_shift", "shift_right_arithmetic": "bitwise_right_shift",
}  # fmt: skip
_UNARY = (
    "abs acos acosh asin asinh atan atanh bessel_i0 bessel_i0e bessel_i1 bessel_i1e bessel_j0 bessel_j1 bitwise_not ceil cos cosh "
    "digamma erf erf_inv erfc erfcx exp exp2 expm1 floor isfinite lgamma log log10 log1p log2 ndtri neg reciprocal round rsqrt sign "
    "signbit sin sinh spherical_bessel_j0 sqrt tan tanh trunc"
)
for _name in _UNARY.split():
    composite(f"prims::{_name}(Tensor self) -> Tensor")(_same(_RENAMED.get(_name, _name)))
_BINARY = (
    "add atan2 bitwise_and bitwise_or bitwise_xor eq fmax fmin fmod gcd ge gt hypot igamma igammac le lt maximum minimum mul ne nextafter "
    "pow remainder shift_left shift_right_arithmetic sub zeta"
)
for _name in _BINARY.split():
    composite(f"prims::{_name}(Tensor self, Tensor other) -> Tensor")(_same(_RENAMED.get(_name, _name)))
