"""PyTorch's operators where ours are others: what those see who take operators over (docs/inside/dispatch.md).

`parts`: operators that have a kernel or a gradient here, and that PyTorch takes apart before anybody sees them. `seen_gradient`:
gradients of formulas, which are one kernel here. Everything is in the subset that the build translates.
"""

from __future__ import annotations

from tocha.ir.sym_types import Symbolic
from tocha.operators.activations import gelu, leaky_relu, relu, selu, silu
from tocha.operators.arithmetic import abs, add, div, pow, reciprocal_times, rsub, sqrt, sub
from tocha.operators.blend import clamp, where
from tocha.operators.complex import conj
from tocha.operators.convolution import convolution
from tocha.operators.copies import to_device, to_dtype
from tocha.operators.exponential import sigmoid
from tocha.operators.indexing import index
from tocha.operators.joins import stack
from tocha.operators.losses import mse_loss
from tocha.operators.products import addmm, bmm, matmul, mm, mv, nn_linear, scaled
from tocha.operators.record import op, parts, rule, seen_as, seen_gradient
from tocha.operators.reductions import listed, max_dim, mean, reduced_count, sum
from tocha.operators.rules import broadcast_shapes, is_number, number, product, wrap_dim
from tocha.operators.softmax import log_softmax, softmax
from tocha.operators.statistics import correction_or_one, std, std_dim, var, var_correction, var_dim
from tocha.operators.trigonometric import cos, tanh
from tocha.operators.views import T, narrow, select, slice_, squeeze_dim, swapaxes, unsqueeze

# ---- products ----------------------------------------------------------------------------------------


@parts(matmul)
def matmul_in_parts(self, other):
    a, b = self.ndim, other.ndim
    if a == 1 and b == 1:
        return op.dot(self, other)
    if a == 2 and b == 1:
        return op.mv(self, other)
    if a == 2 and b == 2:
        return op.mm(self, other)
    if a == 1 and b == 2:
        return op._unsafe_view(op.mm(self.unsqueeze(0), other), [other.shape[1]])
    if b <= 2:
        flat = self.reshape([product(self.shape[:-1]), self.shape[-1]])
        if b == 1:
            return op._unsafe_view(op.mv(flat, other), [*self.shape[:-1]])
        return op._unsafe_view(op.mm(flat, other), [*self.shape[:-1], other.shape[-1]])
    batch = [*other.shape[:-2]] if a == 1 else broadcast_shapes(self.shape[:-2], other.shape[:-2], "matmul")
    count = product(batch)
    rows = 1 if a == 1 else self.shape[-2]
    left = self.expand([*batch, rows, self.shape[-1]]).reshape([count, rows, self.shape[-1]])
    second = other.expand([*batch, other.shape[-2], other.shape[-1]])
    right = second.reshape([count, other.shape[-2], other.shape[-1]])
    found = op.bmm(left, right)
    if a == 1:
        return op._unsafe_view(found, [*batch, other.shape[-1]])
    return op._unsafe_view(found, [*batch, rows, other.shape[-1]])


@parts(nn_linear)
def linear_in_parts(input, weight, bias):
    if weight.ndim == 1:
        found = op.matmul(input, weight)
        return found if bias is None else found + bias
    if bias is None:
        return op.matmul(input, weight.t())
    if input.ndim == 2:
        return op.addmm(bias, input, weight.t())
    if input.ndim == 3 and input.is_contiguous():
        flat = input.view([input.shape[0] * input.shape[1], input.shape[2]])
        found = op.addmm(bias, flat, weight.t())
        return found.view([input.shape[0], input.shape[1], weight.shape[0]])
    return op.matmul(input, weight.t()) + bias


# ---- softmax, casts, views -----------------------------------------------------------------------------


@parts(softmax)
def softmax_in_parts(self, dim, dtype):
    if dtype is None:
        return op._softmax(self, dim, False)
    return op._softmax(self.to(dtype), dim, False)


@parts(log_softmax)
def log_softmax_in_parts(self, dim, dtype):
    if dtype is None:
        return op._log_softmax(self, dim, False)
    return op._log_softmax(self.to(dtype), dim, False)


@parts(to_dtype)
def to_dtype_in_parts(self, dtype, non_blocking, copy, memory_format):
    if self.dtype == dtype and not copy and memory_format is None:
        return self
    return op._to_copy(self, dtype=dtype, non_blocking=non_blocking, memory_format=memory_format)


@parts(to_device)
def to_device_in_parts(self, device, dtype, non_blocking, copy, memory_format):
    same_device = device is None or device == self.device
    same_dtype = dtype is None or dtype == self.dtype
    if same_device and same_dtype and not copy and memory_format is None:
        return self
    return op._to_copy(self, dtype=dtype, device=device, non_blocking=non_blocking, memory_format=memory_format)


@parts(var)
def var_in_parts(self, unbiased):
    return op.var(self, None, correction=1 if unbiased else 0)


@parts(var_dim)
def var_dim_in_parts(self, dim, unbiased, keepdim):
    return op.var(self, dim, correction=1 if unbiased else 0, keepdim=keepdim)


@parts(std)
def std_in_parts(self, unbiased):
    return op.std(self, None, correction=1 if unbiased else 0)


@parts(std_dim)
def std_dim_in_parts(self, dim, unbiased, keepdim):
    return op.std(self, dim, correction=1 if unbiased else 0, keepdim=keepdim)


@parts(conj)
def conj_in_parts(self):
    return op._conj(self) if self.is_complex() else self


@parts(narrow)
def narrow_in_parts(self, dim, start, length):
    return op.slice(self, dim, start, start + length, 1)


@parts(swapaxes)
def swapaxes_in_parts(self, axis0, axis1):
    return self.transpose(axis0, axis1)


@parts(T)
def T_in_parts(self):
    return self.permute([self.ndim - 1 - i for i in range(self.ndim)])


@parts(reciprocal_times)
def reciprocal_times_in_parts(self, other):
    return op.reciprocal(self) * other


# ---- gradients of formulas -----------------------------------------------------------------------------


@parts(selu)
def selu_in_parts(self):
    return op.nn_elu(self, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


@seen_gradient(tanh, "self")
def tanh_seen(grad, result):
    return op.tanh_backward(grad, result)


@seen_gradient(sigmoid, "self")
def sigmoid_seen(grad, result):
    return op.sigmoid_backward(grad, result)


@seen_gradient(relu, "self")
def relu_seen(grad, result):
    return op.threshold_backward(grad, result, 0)


@seen_gradient(silu, "self")
def silu_seen(grad, self):
    return op.silu_backward(grad, self)


@seen_gradient(abs, "self")
def abs_seen(grad, self):
    return grad * self.sgn()


@seen_gradient(cos, "self", in_steps=True)
def cos_seen(grad, self):
    return grad * (-self.sin()).conj()


@seen_gradient(sqrt, "self")
def sqrt_seen(grad, result):
    return grad / (result.conj() * 2)


@seen_gradient(add, "other")
def add_other_seen(grad, alpha):
    return scaled(grad, alpha)


@seen_gradient(sub, "other")
def sub_other_seen(grad, alpha):
    return -scaled(grad, alpha)


@seen_gradient(div, "other", in_steps=True)
def div_other_seen(grad, self, other):
    return -grad * ((self / other) / other).conj()


@seen_gradient(leaky_relu, "self")
def leaky_relu_seen(grad, self, negative_slope):
    return op.leaky_relu_backward(grad, self, negative_slope, False)


@seen_gradient(gelu, "self")
def gelu_seen(grad, self, approximate):
    return op.gelu_backward(grad, self, approximate=approximate)


@seen_gradient(mse_loss, "self")
def mse_loss_self_seen(grad, self, target, reduction):
    return op.mse_loss_backward(grad, self, target, reduction)


@seen_gradient(mse_loss, "target")
def mse_loss_target_seen(grad, self, target, reduction):
    return op.mse_loss_backward(grad, target, self, reduction)


@seen_gradient(rsub, "self")
def rsub_self_seen(grad, alpha):
    return -scaled(grad, alpha)


@seen_gradient(rsub, "other")
def rsub_other_seen(grad):
    return grad


@seen_gradient(pow, "self", in_steps=True)
def pow_self_seen(grad, self, exponent):
    if is_number(exponent) and not exponent.is_complex():
        p = number(exponent)
        if p == 0:
            return op.zeros_like(self)
        return grad * (op.pow(self, p - 1) * p).conj()
    slope = grad * (exponent * op.pow(self, exponent - 1)).conj()
    return op.where(exponent == 0, op.zeros_like(slope), slope)


@seen_gradient(pow, "exponent", in_steps=True)
def pow_exponent_seen(grad, self, exponent, result):
    real = op.real(exponent) if exponent.is_complex() else exponent
    flat = op.logical_and(self == 0, real >= 0)
    return grad * op.where(flat, op.zeros_like(result), (result * op.log(self)).conj())


@seen_gradient(clamp, "self")
def clamp_seen(grad, self, min, max):
    nothing = op.scalar_tensor(0, dtype=grad.dtype, device=grad.device)
    if min is not None and max is not None:
        above = op.ge(self, min)
        below = op.le(self, max)
        return op.where(op.logical_and_(above, below), grad, nothing)
    if min is not None:
        return op.where(op.ge(self, min), grad, nothing)
    return op.where(op.le(self, max), grad, nothing)


@rule
def with_reduced_dims(grad: "Tensor", self: "Tensor", dim: "int[]?", keepdim: "bool") -> "Tensor":
    """What a reduction gave, with its reduced dims back one by one."""
    if keepdim:
        return grad
    found = grad
    for i in range(self.ndim):
        for d in listed(dim):
            if wrap_dim(d, self.ndim) == i:
                found = found.unsqueeze(i)
    return found


@seen_gradient(sum, "self")
def sum_seen(grad, self, dim, keepdim):
    return with_reduced_dims(grad, self, dim, keepdim).expand(self.shape)


@seen_gradient(mean, "self")
def mean_seen(grad, self, dim, keepdim):
    return with_reduced_dims(grad, self, dim, keepdim).expand(self.shape) / reduced_count(self, dim)


@seen_gradient(where, "input")
def where_input_seen(grad, condition):
    nothing = op.scalar_tensor(0, dtype=grad.dtype, device=grad.device)
    return op.where(condition, grad, nothing)


@seen_gradient(where, "other")
def where_other_seen(grad, condition):
    nothing = op.scalar_tensor(0, dtype=grad.dtype, device=grad.device)
    return op.where(condition, nothing, grad)


@seen_gradient(convolution, "input", "weight", "bias")
def convolution_seen(grad, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, wanted):
    by_input, by_weight, by_bias = op.convolution_backward(
        grad, input, weight, [grad.shape[1]], stride, padding, dilation, transposed, output_padding, groups, wanted
    )
    return by_input, by_weight, by_bias


@seen_gradient(var_correction, "self")
def var_seen(grad, self, dim, correction, keepdim):
    less = reduced_count(self, dim) - correction_or_one(correction)
    spread = with_reduced_dims(grad, self, dim, keepdim) * (2.0 / less)
    return spread * (self - op.mean(self, dim, True))


# ---- gradients that are functions ----------------------------------------------------------------------


@rule
def first_matrix_seen(grad: "Tensor", like: "Tensor", other: "Tensor") -> "Tensor":
    """The gradient of the first factor in its own layout."""
    if like.strides[0] == 1 and like.strides[1] == like.shape[0]:
        return op.mm(other.conj(), grad.t()).t()
    return op.mm(grad, other.t().conj())


@rule
def second_matrix_seen(grad: "Tensor", like: "Tensor", other: "Tensor") -> "Tensor":
    if like.strides[0] == 1 and like.strides[1] == like.shape[0]:
        return op.mm(grad.t(), other.conj()).t()
    return op.mm(other.t().conj(), grad)


@seen_gradient(mm, "self")
def mm_self_seen(grad, self, mat2):
    return first_matrix_seen(grad, self, mat2)


@seen_gradient(mm, "mat2")
def mm_mat2_seen(grad, self, mat2):
    return second_matrix_seen(grad, mat2, self)


@seen_gradient(bmm, "self")
def bmm_self_seen(grad, mat2):
    return op.bmm(grad, mat2.transpose(1, 2).conj())


@seen_gradient(bmm, "mat2")
def bmm_mat2_seen(grad, self):
    return op.bmm(self.transpose(1, 2).conj(), grad)


@seen_gradient(mv, "self")
def mv_self_seen(grad, vec):
    return op.outer(grad, vec.conj())


@seen_gradient(mv, "vec")
def mv_vec_seen(grad, self):
    return op.mv(self.t().conj(), grad)


@seen_gradient(addmm, "mat1")
def addmm_mat1_seen(grad, mat1, mat2, alpha):
    found = first_matrix_seen(grad, mat1, mat2)
    return scaled(found, alpha)


@seen_gradient(addmm, "mat2")
def addmm_mat2_seen(grad, mat1, mat2, alpha):
    found = second_matrix_seen(grad, mat2, mat1)
    return scaled(found, alpha)


@seen_gradient(select, "self")
def select_seen(grad, self, dim, index):
    return op.select_backward(grad, self.shape, dim, index)


@seen_gradient(slice_, "self")
def slice_seen(grad, self, dim, start, end, step):
    first = 0 if start is None else start
    last = self.shape[dim] if end is None else end
    return op.slice_backward(grad, self.shape, dim, first, last, step)


@seen_gradient(unsqueeze, "self")
def unsqueeze_seen(grad, dim):
    return op.squeeze(grad, dim)


@seen_gradient(squeeze_dim, "self")
def squeeze_dim_seen(grad, self, dim):
    return op.unsqueeze(grad, dim) if self.ndim > 0 and self.shape[dim] == 1 else grad


@seen_gradient(index, "self")
def index_seen(grad, self, indices):
    return op.index_put(op.new_zeros(grad, self.shape), indices, grad, True)


@seen_gradient(stack, "tensors")
def stack_seen(grad, dim):
    out: "Tensor[]" = []
    for i in range(grad.shape[dim]):
        out.append(grad.select(dim, i))
    return out


@seen_gradient(max_dim, "self")
def max_dim_seen(grad, self, dim, keepdim, result1):
    places = result1 if keepdim else result1.unsqueeze(dim)
    values = grad if keepdim else grad.unsqueeze(dim)
    return op.scatter(op.new_zeros(values, self.shape), dim, places, values)


# ---- calls that PyTorch spells differently ---------------------------------------------------------------


@seen_as(pow)
def pow_seen_as(self, exponent):
    """PyTorch's operator of two tensors takes no number for the first."""
    numbers = int | float | complex | Symbolic
    if isinstance(self, numbers) and not isinstance(exponent, numbers):
        return "pow.Scalar", (self, exponent)
    return None


@seen_as(sub)
def sub_seen_as(self, other, alpha):
    if isinstance(self, int | float | complex) and not isinstance(other, int | float | complex):
        return "rsub.Scalar", (other, self, alpha)
    return None
