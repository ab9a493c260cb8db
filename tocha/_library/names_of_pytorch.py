"""Operators that PyTorch has under names of their own and tocha as a case, a gradient or a formula of others.

`tocha.ops.aten.reflection_pad2d` is `pad` of one mode, `upsample_nearest2d_backward` the gradient of `upsample_nearest2d`: programs that
speak in PyTorch's operators call them. Each is defined when somebody first asks for its name, and taken apart wherever it is called: eagerly,
under gradients, in graphs. Gradients whose formulas the library has anyhow are asked from it by `vjp` of the operator they belong to.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tocha
from tocha._library.library import Library

Body = Callable[..., Any]
BODIES: dict[str, tuple[str, Body]] = {}  # by name: its schema, and what it is in terms of other operators


def operator(schema: str) -> Callable[[Body], Body]:
    def register(body: Body) -> Body:
        BODIES[schema.partition("(")[0]] = schema, body
        return body

    return register


@functools.cache
def _library() -> Library:
    return Library("aten", "FRAGMENT")


def define(namespace: str, name: str) -> bool:
    """Defines an operator of this file; False for others."""
    if namespace != "aten" or name not in BODIES:
        return False
    schema, body = BODIES[name]
    _library().define(schema)
    _library().impl(name, body, "CompositeImplicitAutograd")
    return True


def aten(name: str) -> Any:
    return getattr(tocha.ops.aten, name)  # type: ignore[attr-defined]


def pulled(grad: Any, function: Body, *inputs: Any) -> Any:
    """The gradient that arrives, pulled back to the function's inputs."""
    grads = tocha.func.vjp(function, *inputs)[1](grad)  # type: ignore[attr-defined]
    return grads[0] if len(inputs) == 1 else grads


def asked(mask: Any, *results: Callable[[], Any]) -> tuple:
    """Results by a mask of those that are wanted; None for the others."""
    return tuple(result() if wanted else None for wanted, result in zip(mask, results))


# -- cases of one operator ------------------------------------------------------------------------------


def _define_pads(kind: str, mode: str, dims: int) -> None:
    name, ints = f"{kind}_pad{dims}d", f"SymInt[{2 * dims}] padding"

    @operator(f"{name}(Tensor self, {ints}) -> Tensor")
    def forward(self, padding):
        return tocha.nn.functional.pad(self, tuple(padding), mode=mode)

    @operator(f"{name}_backward(Tensor grad_output, Tensor self, {ints}) -> Tensor")
    def backward(grad_output, self, padding):
        return pulled(grad_output, lambda x: forward(x, padding), self)


for _kind, _mode in (("reflection", "reflect"), ("replication", "replicate")):
    for _dims in (1, 2, 3):
        _define_pads(_kind, _mode, _dims)


def _define_upsampling(name: str, dims: int, *options: str) -> None:
    scales = {1: ["scales"], 2: ["scales_h", "scales_w"], 3: ["scales_d", "scales_h", "scales_w"]}[dims]
    given = [f"SymInt[{dims}] output_size", f"SymInt[{dims + 2}] input_size", *options]
    given += [f"float? {s}=None" for s in scales]

    @operator(f"{name}_backward(Tensor grad_output, {', '.join(given)}) -> Tensor")
    def backward(grad_output, output_size, input_size, *more):
        return pulled(
            grad_output, lambda x: aten(name).default(x, output_size, *more), grad_output.new_zeros(input_size)
        )


for _dims in (1, 2, 3):
    _define_upsampling(f"upsample_nearest{_dims}d", _dims)
    _define_upsampling(f"_upsample_nearest_exact{_dims}d", _dims)
for _name, _dims in (
    ("upsample_linear1d", 1), ("upsample_bilinear2d", 2), ("upsample_bicubic2d", 2), ("upsample_trilinear3d", 3),
    ("_upsample_bilinear2d_aa", 2), ("_upsample_bicubic2d_aa", 2),
):  # fmt: skip
    _define_upsampling(_name, _dims, "bool align_corners")


# -- losses ---------------------------------------------------------------------------------------------


def _total_weight(self, target, weight, reduction, ignore_index):
    """The weights of the targets that count, which the mean divides by; PyTorch tells it of reduced losses alone."""
    if not reduction:
        return self.new_zeros(())
    kept = target != ignore_index
    each = self.new_ones(()) if weight is None else weight[tocha.where(kept, target, 0)]
    return tocha.where(kept, each, 0).to(self.dtype).sum()


def _define_nll(dims: str) -> None:
    arguments = "Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index"

    @operator(f"nll_loss{dims}_forward({arguments}) -> (Tensor output, Tensor total_weight)")
    def forward(self, target, weight, reduction, ignore_index):
        loss = aten("nll_loss")(self, target, weight, reduction, ignore_index)
        return loss, _total_weight(self.detach(), target, weight, reduction, ignore_index)

    @operator(f"nll_loss{dims}_backward(Tensor grad_output, {arguments}, Tensor total_weight) -> Tensor")
    def backward(grad_output, self, target, weight, reduction, ignore_index, total_weight):
        if reduction == 1:  # the mean is the sum by the weight that is given
            grad_output, reduction = grad_output / total_weight, 2
        return pulled(grad_output, lambda x: aten("nll_loss")(x, target, weight, reduction, ignore_index), self)


for _dim in ("", "2d"):
    _define_nll(_dim)


def _define_nll_again(name: str) -> None:
    @operator(
        f"{name}(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor"
    )
    def forward(self, target, weight=None, reduction=1, ignore_index=-100):
        return aten("nll_loss")(self, target, weight, reduction, ignore_index)


for _name in ("nll_loss_nd", "nll_loss2d"):
    _define_nll_again(_name)


def _define_loss(name: str, *options: str) -> None:
    @operator(
        f"{name}_backward({', '.join(['Tensor grad_output', 'Tensor self', 'Tensor target', *options])}) -> Tensor"
    )
    def backward(grad_output, self, target, *more):
        return pulled(grad_output, lambda x: aten(name)(x, target, *more), self)


_define_loss("smooth_l1_loss", "int reduction", "float beta")
_define_loss("huber_loss", "int reduction", "float delta")
_define_loss("soft_margin_loss", "int reduction")
_define_loss("binary_cross_entropy", "Tensor? weight=None", "int reduction=1")


# -- activations ----------------------------------------------------------------------------------------


def _define_activation(name: str, *options: str, grad: str = "grad_output") -> None:
    @operator(f"{name}_backward({', '.join([f'Tensor {grad}', 'Tensor self', *options])}) -> Tensor")
    def backward(grad_output, self, *more):
        return pulled(grad_output, lambda x: aten(name)(x, *more), self)


for _name in ("hardswish", "hardsigmoid", "mish"):
    _define_activation(_name)
_define_activation("hardtanh", "Scalar min_val", "Scalar max_val")
_define_activation("softplus", "Scalar beta", "Scalar threshold")
_define_activation("softshrink", "Scalar lambd")
_define_activation("hardshrink", "Scalar lambd", grad="grad_out")
_define_activation("glu", "int dim")
_define_activation("logit", "float? eps=None")


@operator(
    "elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor self_or_result) -> Tensor"
)
def elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result):
    negative = alpha * scale
    if is_result:
        slope = input_scale * (self_or_result + negative)
    else:
        slope = input_scale * negative * (self_or_result * input_scale).exp()
    return tocha.where(self_or_result <= 0, grad_output * slope, grad_output * scale)


@operator("log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)")
def log_sigmoid_forward(self):
    return aten("log_sigmoid")(self), (-self.detach().abs()).exp()


@operator("log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor")
def log_sigmoid_backward(grad_output, self, buffer):
    return pulled(grad_output, aten("log_sigmoid"), self)


@operator("_prelu_kernel(Tensor self, Tensor weight) -> Tensor")
def prelu_kernel(self, weight):
    return tocha.where(self > 0, self, weight * self)


@operator("_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor)")
def prelu_kernel_backward(grad_output, self, weight):
    positive = self > 0
    return tocha.where(positive, grad_output, weight * grad_output), tocha.where(positive, 0, self * grad_output)


@operator("_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor")
def safe_softmax(self, dim, dtype=None):
    found = tocha.softmax(self, dim, dtype=dtype)
    return tocha.where((self == -float("inf")).all(dim, keepdim=True), 0, found)


# -- windows --------------------------------------------------------------------------------------------


def _define_pool(dims: int) -> None:
    window = [f"int[{dims}] {name}" for name in ("kernel_size", "stride", "padding")]
    options = ["Tensor grad_output", "Tensor self", *window]

    @operator(
        f"avg_pool{dims}d_backward({', '.join(options)}, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor"
    )
    def average(grad_output, self, *window):
        return pulled(grad_output, lambda x: aten(f"avg_pool{dims}d")(x, *window), self)

    @operator(f"_adaptive_avg_pool{dims}d_backward(Tensor grad_output, Tensor self) -> Tensor")
    def adaptive_average(grad_output, self):
        sizes = grad_output.shape[-dims:]
        return pulled(grad_output, lambda x: aten(f"_adaptive_avg_pool{dims}d")(x, sizes), self)

    @operator(f"adaptive_max_pool{dims}d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor")
    def adaptive_maximum(grad_output, self, indices):
        return _to_places(grad_output, self, indices, dims)

    @operator(
        f"fractional_max_pool{dims}d_backward(Tensor grad_output, Tensor self, int[{dims}] kernel_size, int[{dims}] output_size, Tensor indices) -> Tensor"
    )
    def fractional_maximum(grad_output, self, kernel_size, output_size, indices):
        return _to_places(grad_output, self, indices, dims)


def _to_places(grad_output, self, indices, dims):
    """Gradients added where the maxima came from: indices into the pictures' elements."""
    flat = tocha.zeros_like(self).flatten(-dims)
    return flat.scatter_add(-1, indices.flatten(-dims), grad_output.flatten(-dims)).view(self.shape)


for _dims in (2, 3):
    _define_pool(_dims)


@operator(
    "max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor"
)
def max_pool3d_with_indices_backward(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices):
    return _to_places(grad_output, self, indices, 3)


def _define_grid_sampler(dims: int) -> None:
    @operator(
        f"grid_sampler_{dims}d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)"
    )
    def backward(grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask):
        def forward(x, places):
            return aten(f"grid_sampler_{dims}d")(x, places, interpolation_mode, padding_mode, align_corners)

        grads = pulled(grad_output, forward, input, grid)
        return grads[0] if output_mask[0] else None, grads[1]


for _dims in (2, 3):
    _define_grid_sampler(_dims)


# -- norms ----------------------------------------------------------------------------------------------


def _standardized_back(grad, standardized, dims):
    """The gradient of a standardization over dims, before it is scaled."""
    return grad - grad.mean(dims, True) - standardized * (grad * standardized).mean(dims, True)


@operator(
    "native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"
)
def native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask):
    inner = list(range(-len(normalized_shape), 0))
    outer = list(range(input.dim() - len(normalized_shape)))
    dtype = mean.dtype  # float32 of half types
    grad, standardized = grad_out.to(dtype), (input.to(dtype) - mean) * rstd
    over = (lambda x: x.sum(outer)) if outer else (lambda x: x)
    return asked(
        [output_mask[0], output_mask[1] and weight is not None, output_mask[2] and bias is not None],
        lambda: (
            rstd * _standardized_back(grad if weight is None else grad * weight.to(dtype), standardized, inner)
        ).to(input.dtype),
        lambda: over(grad * standardized).to(weight.dtype),
        lambda: over(grad).to(bias.dtype),
    )


@operator(
    "native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, SymInt N, SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"
)
def native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask):
    sizes, dtype = [N, group, C // group, HxW], mean.dtype
    grad, rstd = grad_out.reshape(sizes).to(dtype), rstd.reshape(N, group, 1, 1)
    standardized = (input.reshape(sizes).to(dtype) - mean.reshape(N, group, 1, 1)) * rstd
    scaled = grad if weight is None else grad * weight.to(dtype).reshape(1, group, C // group, 1)
    return asked(
        output_mask,
        lambda: (rstd * _standardized_back(scaled, standardized, [2, 3])).to(input.dtype).reshape(input.shape),
        lambda: (grad * standardized).sum([0, 3]).reshape(C).to(input.dtype),
        lambda: grad.sum([0, 3]).reshape(C).to(input.dtype),
    )


@operator(
    "native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"
)
def native_batch_norm_backward(
    grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask
):
    sizes = [1, input.shape[1]] + [1] * (input.dim() - 2)
    others = [d for d in range(input.dim()) if d != 1]
    mean, rstd = (save_mean, save_invstd) if train else (running_mean, (running_var + eps).rsqrt())
    dtype, rstd = mean.dtype, rstd.reshape(sizes)
    grad, standardized = grad_out.to(dtype), (input.to(dtype) - mean.reshape(sizes)) * rstd
    scaled = grad if weight is None else grad * weight.to(dtype).reshape(sizes)
    return asked(
        output_mask,
        lambda: (rstd * (_standardized_back(scaled, standardized, others) if train else scaled)).to(input.dtype),
        lambda: (grad * standardized).sum(others),
        lambda: grad.sum(others),
    )


@operator("_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)")
def weight_norm_interface(v, g, dim=0):
    norms = tocha.norm_except_dim(v, 2, dim)
    return v * (g / norms), norms.detach()


@operator("_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor")
def weight_norm(v, g, dim=0):
    return weight_norm_interface(v, g, dim)[0]


# -- places ---------------------------------------------------------------------------------------------


@operator("index_select_backward(Tensor grad, SymInt[] self_sizes, int dim, Tensor index) -> Tensor")
def index_select_backward(grad, self_sizes, dim, index):
    return grad.new_zeros(self_sizes).index_add(dim, index, grad)


@operator("unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor")
def unfold_backward(grad_in, input_sizes, dim, size, step):
    return pulled(grad_in, lambda x: x.unfold(dim, size, step), grad_in.new_zeros(input_sizes))


@operator("masked_select_backward(Tensor grad, Tensor input, Tensor mask) -> Tensor")
def masked_select_backward(grad, input, mask):
    sizes = tocha.broadcast_shapes(input.shape, mask.shape)
    return grad.new_zeros(sizes).masked_scatter(mask, grad)


@operator("diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) -> Tensor")
def diagonal_backward(grad_output, input_sizes, offset, dim1, dim2):
    return grad_output.new_zeros(input_sizes).diagonal_scatter(grad_output, offset, dim1, dim2)


@operator("trace_backward(Tensor grad, SymInt[] sizes) -> Tensor")
def trace_backward(grad, sizes):
    return tocha.eye(*sizes, dtype=grad.dtype, device=grad.device) * grad


@operator("_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor")
def unsafe_index_put(self, indices, values, accumulate=False):
    return aten("index_put")(self, indices, values, accumulate)


def _define_bags(name: str) -> None:
    @operator(
        f"{name}(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)"
    )
    def bags(
        weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None,
        include_last_offset=False, padding_idx=-1,
    ):  # fmt: skip
        options = scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset
        padding = padding_idx if padding_idx >= 0 else None
        return aten("embedding_bag").padding_idx(weight, indices, offsets, *options, padding)


for _name in ("_embedding_bag", "_embedding_bag_forward_only"):
    _define_bags(_name)


# -- products -------------------------------------------------------------------------------------------


@operator(
    "_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)"
)
def scaled_dot_product_flash_attention_for_cpu(
    query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None
):
    if dropout_p:
        raise RuntimeError(
            "[_scaled_dot_product_flash_attention_for_cpu] scaled_dot_product_attention_flash_attention: Currently do not support dropout > 0"
        )
    output = tocha.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask, 0.0, is_causal, scale=scale)
    scores = query.detach().float() @ key.detach().float().mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        scores = scores.masked_fill(scores.new_ones(scores.shape[-2:], dtype=tocha.bool).triu(1), -float("inf"))
    sums = (scores if attn_mask is None else scores + attn_mask).logsumexp(-1)
    return output, sums.transpose(1, 2).contiguous().transpose(1, 2)  # PyTorch's kernel goes by rows, then heads


@operator("einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor")
def einsum(equation, tensors, *, path=None):
    return tocha.einsum(equation, *tensors)


@operator("tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor")
def tensordot(self, other, dims_self, dims_other):
    return tocha.tensordot(self, other, (list(dims_self), list(dims_other)))


@operator("chain_matmul(Tensor[] matrices) -> Tensor")
def chain_matmul(matrices):
    return tocha.linalg.multi_dot(list(matrices)) if len(matrices) > 1 else matrices[0].clone()


@operator("cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor")
def cdist(x1, x2, p=2.0, compute_mode=None):
    modes = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
    return tocha.cdist(x1, x2, p, modes[compute_mode or 0])


@operator("_stack(Tensor[] tensors, int dim=0) -> Tensor")
def stack(tensors, dim=0):
    return tocha.stack(tensors, dim)


@operator("_is_all_true(Tensor self) -> Tensor")
def is_all_true(self):
    return self.all()


@operator("_is_any_true(Tensor self) -> Tensor")
def is_any_true(self):
    return self.any()
