"""Products of vectors, matrices and batches of them. The kernels are in csrc/cpu/gemm/products.cpp, on top of csrc/cpu/gemm/gemm.h."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.ir.dtypes import bool_
from tocha.ir.scalar import conj, where
from tocha.operators.product_checks import (
    bmm_sizes,
    check_addend,
    check_batches,
    check_bilinear,
    check_expands,
    check_factors,
    check_matmul_dtypes,
    check_matrix_vector,
    check_square,
    check_sum_dtypes,
    check_vectors,
    matmul_sizes,
    refuse_shapes,
)
from tocha.operators.record import (
    ALL,
    COMPLEX,
    FLOATS,
    INTS,
    UNSIGNED,
    composite,
    gradient,
    native,
    op,
    pointwise,
    rule,
)
from tocha.operators.rules import Out, c_name, is_integral, product, wrap_dim

PRODUCT = (*INTS, *UNSIGNED, *FLOATS, *COMPLEX)
_EVERYWHERE = "function, method, inplace, out"
_OUT = "function, method, out"


@rule
def first_factor_gradient(grad: "Tensor", other: "Tensor", shape: "int[]") -> "Tensor":
    """What reaches the first factor of a product, which has this shape; what batches share is summed in the product."""
    if other.dim() == 1:
        return (grad if len(shape) == 1 else grad.unsqueeze(-1)) * other.conj()
    if len(shape) == 1:
        return op.matmul(other.conj(), grad.unsqueeze(-1)).squeeze(-1)
    if len(shape) == 2 and other.dim() > 2:
        rows = grad.movedim(-2, 0)
        n = product(rows.shape[1:])
        return op.matmul(rows.reshape([shape[0], n]), other.adjoint().reshape([n, shape[1]]))
    return op.matmul(grad, other.adjoint())


@rule
def second_factor_gradient(grad: "Tensor", self: "Tensor", shape: "int[]") -> "Tensor":
    """What reaches the second factor of a product, which has this shape."""
    if self.dim() == 1:
        if len(shape) == 1:
            return grad * self.conj()
        return self.conj().unsqueeze(-1) * grad.unsqueeze(-2)
    if len(shape) <= 2:
        n = product(self.shape[:-1])
        rows = self.reshape([n, self.shape[-1]])
        return op.matmul(rows.adjoint(), grad.reshape([n, *shape[1:]]))
    return op.matmul(self.adjoint(), grad)


def _matmul_samples(t):
    shapes = [
        ((4,), (4,)),
        ((3, 4), (4,)),
        ((4,), (4, 5)),
        ((3, 4), (4, 5)),
        ((2, 1, 3, 4), (6, 4, 5)),
        ((2, 3, 4), (4,)),
        ((4,), (2, 4, 5)),
    ]
    return [((t(*a), t(*b)), {}) for a, b in shapes]


@rule
def matmul_node(self: "Tensor", other: "Tensor") -> "str":
    """What PyTorch's last step is called, by the ranks."""
    if self.ndim <= 2 and other.ndim == 1:
        return "DotBackward0" if self.ndim == 1 else "MvBackward0"
    if self.ndim <= 2 and other.ndim == 2:
        return "SqueezeBackward4" if self.ndim == 1 else "MmBackward0"
    return "UnsafeViewBackward0"


@native(
    "matmul(Tensor self, Tensor other) -> Tensor",
    autocast="lower",
    dtypes=PRODUCT,
    variants=_OUT,
    operator="__matmul__",
    node=matmul_node,
    samples=_matmul_samples,
)
def matmul(self, other):
    """The product of vectors, matrices or batches of matrices; batch dims broadcast."""
    sizes = matmul_sizes("matmul", self.shape, other.shape)
    check_matmul_dtypes(self, other)
    return Out(sizes, self.dtype)


@gradient(matmul, "self")
def matmul_self_gradient(grad, self, other):
    return first_factor_gradient(grad, other, self.shape)


@gradient(matmul, "other")
def matmul_other_gradient(grad, self, other):
    return second_factor_gradient(grad, self, other.shape)


@composite("linalg_matmul(Tensor self, Tensor other) -> Tensor", variants="function, out", samples=_matmul_samples)
def linalg_matmul(self, other):
    """matmul under NumPy's name."""
    return op.matmul(self, other)


@native(
    "mm(Tensor self, Tensor mat2) -> Tensor",
    algorithm="product",
    autocast="lower",
    dtypes=PRODUCT,
    variants=_OUT,
    kernel="matmul",
    samples=lambda t: [((t(3, 4), t(4, 5)), {})],
    core=True,
    word="addmm_impl_cpu_",
)
def mm(self, mat2):
    """The product of two matrices."""
    if self.dim() != 2:
        raise RuntimeError(f"[mm] self must be a matrix, got {self.shape}")
    if mat2.dim() != 2:
        raise RuntimeError(f"[mm] mat2 must be a matrix, got {mat2.shape}")
    if self.shape[1] != mat2.shape[0]:
        refuse_shapes("mm", self.shape[0], self.shape[1], mat2.shape[0], mat2.shape[1])
    check_factors("mm", self, mat2)
    return Out([self.shape[0], mat2.shape[1]], self.dtype)


@gradient(mm, "self")
def mm_self_gradient(grad, self, mat2):
    return first_factor_gradient(grad, mat2, self.shape)


@gradient(mm, "mat2")
def mm_mat2_gradient(grad, self, mat2):
    return second_factor_gradient(grad, self, mat2.shape)


@native(
    "_int_mm(Tensor self, Tensor mat2) -> Tensor",
    algorithm="product",
    dtypes=(dt.int8,),
    variants="function, out",
    types={"out_words": "Expected result dtype to be of type {result} but got {out}"},
    tags={"given_out"},
    samples=lambda t: [((t(3, 4), t(4, 5)), {}), ((t(17, 40), t(33, 40).t()), {})],
)
def _int_mm(self, mat2):
    """The product of two matrices of bytes, the second signed, summed up in int32."""
    if self.dim() == 0 or mat2.dim() == 0:
        raise IndexError("[_int_mm] Dimension specified as 1 but tensor has no dimensions")
    if mat2.dim() == 1:
        raise IndexError("[_int_mm] Dimension out of range (expected to be in range of [-1, 0], but got 1)")
    if self.dim() != 2:
        raise RuntimeError(f"[_int_mm] Expected self to be of dimension 2 but got {self.dim()}")
    if mat2.dim() != 2:
        raise RuntimeError(f"[_int_mm] Expected mat2 to be of dimension 2 but got {mat2.dim()}")
    if self.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"[_int_mm] self.size(1) needs to match mat2.size(0) but got {self.shape[1]} and {mat2.shape[0]}"
        )
    if self.dtype not in (dt.int8, dt.uint8):
        raise RuntimeError(f"[_int_mm] Expected self dtype to be int8 or uint8 but got {self.dtype}")
    if mat2.dtype != dt.int8:
        raise RuntimeError(f"[_int_mm] Expected mat2 dtype to be of type int8 but got {mat2.dtype}")
    return Out([self.shape[0], mat2.shape[1]], dt.int32)


@native(
    "bmm(Tensor self, Tensor mat2) -> Tensor",
    algorithm="product",
    autocast="lower",
    dtypes=PRODUCT,
    variants=_OUT,
    kernel="matmul",
    samples=lambda t: [((t(2, 3, 4), t(2, 4, 5)), {})],
    core=True,
    word="bmm",
)
def bmm(self, mat2):
    """The products of two batches of matrices, pair by pair."""
    sizes = bmm_sizes("bmm", self, mat2)
    check_batches("bmm", self, mat2)
    return Out(sizes, self.dtype)


@gradient(bmm, "self")
def bmm_self_gradient(grad, self, mat2):
    return first_factor_gradient(grad, mat2, self.shape)


@gradient(bmm, "mat2")
def bmm_mat2_gradient(grad, self, mat2):
    return second_factor_gradient(grad, self, mat2.shape)


@native(
    "mv(Tensor self, Tensor vec) -> Tensor",
    dtypes=PRODUCT,
    variants=_OUT,
    kernel="matmul",
    samples=lambda t: [((t(3, 4), t(4)), {})],
    word="addmv_impl_cpu",
)
def mv(self, vec):
    """The product of a matrix and a vector."""
    check_matrix_vector("mv", vec, self, vec)
    return Out([self.shape[0]], self.dtype)


@gradient(mv, "self")
def mv_self_gradient(grad, self, vec):
    return first_factor_gradient(grad, vec, self.shape)


@gradient(mv, "vec")
def mv_vec_gradient(grad, self, vec):
    return second_factor_gradient(grad, self, vec.shape)


@native(
    "dot(Tensor self, Tensor tensor) -> Tensor",
    dtypes=PRODUCT,
    variants=_OUT,
    kernel="matmul",
    samples=lambda t: [((t(4), t(4)), {})],
    word="dot",
    types={"out_words": "result dtype {out} does not match input dtype {result}"},
)
def dot(self, tensor):
    """The sum of the products of two vectors' elements."""
    check_vectors("dot", self, tensor)
    return Out([], self.dtype)


@gradient(dot, "self")
def dot_self_gradient(grad, self, tensor):
    return first_factor_gradient(grad, tensor, self.shape)


@gradient(dot, "tensor")
def dot_tensor_gradient(grad, self, tensor):
    return second_factor_gradient(grad, self, tensor.shape)


@native(
    "vdot(Tensor self, Tensor other) -> Tensor",
    dtypes=PRODUCT,
    variants=_OUT,
    samples=lambda t: [((t(4), t(4)), {})],
    word="dot",
    types={"out_words": "result dtype {out} does not match input dtype {result}"},
)
def vdot(self, other):
    """The dot product with the first vector conjugated."""
    check_vectors("vdot", self, other)
    return Out([], self.dtype)


@gradient(vdot, "self")
def vdot_self_gradient(grad, other):
    return grad.conj() * other


@gradient(vdot, "other")
def vdot_other_gradient(grad, self):
    return grad * self


@rule
def scaled(x: "Tensor", factor: "Scalar") -> "Tensor":
    """x times the conjugate of a number."""
    if factor.is_complex():
        return (x.conj() * factor).conj()
    return x if factor == 1 else x * factor


@native(
    "addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    algorithm="product",
    tags=frozenset({"numbers_first"}),
    autocast="lower",
    dtypes=PRODUCT,
    variants=_EVERYWHERE,
    kernel="add_product",
    samples=lambda t: [((t(3, 5), t(3, 4), t(4, 5)), {}), ((t(5), t(3, 4), t(4, 5)), {"beta": 2, "alpha": 3})],
    core=True,
    word="addmm_impl_cpu_",
)
def addmm(self, mat1, mat2, beta, alpha):
    """beta * self + alpha * (mat1 @ mat2); with beta = 0 self is not read."""
    if mat1.dim() != 2:
        raise RuntimeError(f"[addmm] mat1 must be a matrix, got {mat1.dim()}-D tensor of shape {mat1.shape}")
    if mat2.dim() != 2:
        raise RuntimeError(f"[addmm] mat2 must be a matrix, got {mat2.dim()}-D tensor of shape {mat2.shape}")
    check_sum_dtypes("addmm", self, mat1, mat2)
    if mat1.shape[1] != mat2.shape[0]:
        refuse_shapes("addmm", mat1.shape[0], mat1.shape[1], mat2.shape[0], mat2.shape[1])
    sizes = [mat1.shape[0], mat2.shape[1]]
    check_addend("addmm", self, mat1, sizes, beta, alpha)
    return Out(sizes, self.dtype)


@gradient(addmm, "self")
def addmm_self_gradient(grad, beta):
    return scaled(grad, beta)


@gradient(addmm, "mat1")
def addmm_mat1_gradient(grad, mat1, mat2, alpha):
    return scaled(first_factor_gradient(grad, mat2, mat1.shape), alpha)


@gradient(addmm, "mat2")
def addmm_mat2_gradient(grad, mat1, mat2, alpha):
    return scaled(second_factor_gradient(grad, mat1, mat2.shape), alpha)


@native(
    "addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    tags=frozenset({"numbers_first"}),
    dtypes=PRODUCT,
    variants=_EVERYWHERE,
    kernel="add_product",
    samples=lambda t: [((t(3), t(3, 4), t(4)), {}), ((t(1), t(3, 4), t(4)), {"beta": 2, "alpha": 3})],
    word="addmv_impl_cpu",
)
def addmv(self, mat, vec, beta, alpha):
    """beta * self + alpha * (mat @ vec); with beta = 0 self is not read."""
    check_matrix_vector("addmv", self, mat, vec)
    sizes = [mat.shape[0]]
    if self.dim() == 1 and self.shape[0] != 1 and self.shape[0] != mat.shape[0]:
        raise RuntimeError(
            f"[addmv] size mismatch, got input ({self.shape[0]}), mat ({mat.shape[0]}x{mat.shape[1]}), vec ({vec.shape[0]})"
        )
    check_addend("addmv", self, mat, sizes, beta, alpha)
    return Out(sizes, self.dtype)


@gradient(addmv, "self")
def addmv_self_gradient(grad, beta):
    return scaled(grad, beta)


@gradient(addmv, "mat")
def addmv_mat_gradient(grad, mat, vec, alpha):
    return scaled(first_factor_gradient(grad, vec, mat.shape), alpha)


@gradient(addmv, "vec")
def addmv_vec_gradient(grad, mat, vec, alpha):
    return scaled(second_factor_gradient(grad, mat, vec.shape), alpha)


@native(
    "baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    algorithm="product",
    tags=frozenset({"numbers_first"}),
    autocast="lower",
    dtypes=PRODUCT,
    variants=_EVERYWHERE,
    kernel="add_product",
    samples=lambda t: [
        ((t(2, 3, 5), t(2, 3, 4), t(2, 4, 5)), {}),
        ((t(5), t(2, 3, 4), t(2, 4, 5)), {"beta": 2, "alpha": 3}),
    ],
    word="baddbmm",
)
def baddbmm(self, batch1, batch2, beta, alpha):
    """beta * self + alpha * (batch1 @ batch2), matrix by matrix; with beta = 0 self is not read."""
    sizes = bmm_sizes("baddbmm", batch1, batch2)
    if self.dtype != batch1.dtype:
        raise RuntimeError(
            f"[baddbmm] Input dtypes must be the same, got: input {c_name(self.dtype)}, batch1: {c_name(batch1.dtype)}, batch2: {c_name(batch2.dtype)}"
        )
    check_batches("baddbmm", batch1, batch2)
    check_addend("baddbmm", self, batch1, sizes, beta, alpha)
    return Out(sizes, self.dtype)


@gradient(baddbmm, "self")
def baddbmm_self_gradient(grad, beta):
    return scaled(grad, beta)


@gradient(baddbmm, "batch1")
def baddbmm_batch1_gradient(grad, batch1, batch2, alpha):
    return scaled(first_factor_gradient(grad, batch2, batch1.shape), alpha)


@gradient(baddbmm, "batch2")
def baddbmm_batch2_gradient(grad, batch1, batch2, alpha):
    return scaled(second_factor_gradient(grad, batch1, batch2.shape), alpha)


@native(
    "addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    tags=frozenset({"numbers_first"}),
    autocast="lower",
    dtypes=PRODUCT,
    variants=_EVERYWHERE,
    samples=lambda t: [
        ((t(3, 5), t(2, 3, 4), t(2, 4, 5)), {}),
        ((t(5), t(2, 3, 4), t(2, 4, 5)), {"beta": 2, "alpha": 3}),
    ],
    word="addmm_impl_cpu_",
)
def addbmm(self, batch1, batch2, beta, alpha):
    """beta * self + alpha * the sum over the batch of batch1 @ batch2; with beta = 0 self is not read."""
    sizes = bmm_sizes("addbmm", batch1, batch2)[1:]
    check_sum_dtypes("addbmm", self, batch1, batch2)
    check_addend("addbmm", self, batch1, sizes, beta, alpha)
    return Out(sizes, self.dtype)


@gradient(addbmm, "self")
def addbmm_self_gradient(grad, beta):
    return scaled(grad, beta)


@gradient(addbmm, "batch1")
def addbmm_batch1_gradient(grad, batch2, alpha):
    return scaled(op.matmul(grad, batch2.adjoint()), alpha)


@gradient(addbmm, "batch2")
def addbmm_batch2_gradient(grad, batch1, alpha):
    return scaled(op.matmul(batch1.adjoint(), grad), alpha)


@pointwise(
    "_add_outer(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    dtypes=ALL,
    variants="",
    word="addr_cpu",
)
def _add_outer(s, x, y, beta, alpha):
    """beta * self + alpha * vec1 * vec2, element by element; with beta = 0 self is not read."""
    if x.dtype is bool_:
        return (beta & s) | (alpha & x & y)
    outer = alpha * x * y
    return where(beta == 0, outer, beta * s + outer)


@composite(
    "addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    tags=frozenset({"numbers_first"}),
    node="AddrBackward0",
    variants=_EVERYWHERE,
    samples=lambda t: [((t(3, 4), t(3), t(4)), {})],
    whole=True,
)
def addr(self, vec1, vec2, beta, alpha):
    """beta * self + alpha * the outer product of vec1 and vec2; with beta = 0 self is not read."""
    if vec1.dim() != 1:
        raise RuntimeError(f"[addr] addr: Expected 1-D argument vec1, but got {vec1.dim()}-D")
    if vec2.dim() != 1:
        raise RuntimeError(f"[addr] addr: Expected 1-D argument vec2, but got {vec2.dim()}-D")
    integral = is_integral(self.dtype) and is_integral(vec1.dtype) and is_integral(vec2.dtype)
    if integral and not ((beta.is_integral() or beta.is_boolean()) and (alpha.is_integral() or alpha.is_boolean())):
        raise RuntimeError(
            "[addr] For integral input tensors, arguments beta and alpha must not be floating point numbers."
        )
    if (beta.is_boolean() or alpha.is_boolean()) and not (
        self.dtype == dt.bool_ and vec1.dtype == dt.bool_ and vec2.dtype == dt.bool_
    ):
        raise RuntimeError("[addr] Boolean beta and alpha only supported for Boolean results.")
    check_expands("addr", self, [vec1.shape[0], vec2.shape[0]])
    return op._add_outer(self, vec1.reshape([vec1.shape[0], 1]), vec2, beta=beta, alpha=alpha)


@composite(
    "outer(Tensor self, Tensor vec2) -> Tensor", variants=_OUT, aliases=("ger",), samples=lambda t: [((t(3), t(4)), {})]
)
def outer(self, vec2):
    """The products of every element of one vector with every element of the other."""
    if self.dim() != 1:
        raise RuntimeError(f"[outer] outer: Expected 1-D argument self, but got {self.dim()}-D")
    if vec2.dim() != 1:
        raise RuntimeError(f"[outer] outer: Expected 1-D argument vec2, but got {vec2.dim()}-D")
    return self.reshape([self.shape[0], 1]) * vec2


def check_inner_out(out0, self, other):
    if self.ndim > 0 and other.ndim > 0 and out0.dtype != self.dtype:
        raise RuntimeError(
            f"[inner] tensordot: Expected the output tensor to have dtype {self.dtype}, but got an output tensor with dtype {out0.dtype}"
        )


@composite(
    "inner(Tensor self, Tensor other) -> Tensor",
    variants=_OUT,
    types={"check_out": check_inner_out},
    samples=lambda t: [((t(2, 3), t(4, 3)), {}), ((t(2, 3), t(4, 5, 3)), {})],
)
def inner(self, other):
    """The sums of products over the last dims; with a 0-d tensor, the product."""
    if self.dim() == 0 or other.dim() == 0:
        return self * other
    k = self.shape[-1]
    if k != other.shape[-1]:
        raise RuntimeError(
            f"[inner] inner() the last dimension must match on both input tensors but got shapes {self.shape} and {other.shape}"
        )
    if self.dtype != other.dtype:
        raise RuntimeError(f"[inner] both inputs should have same dtype, but got {self.dtype} and {other.dtype}")
    if self.dim() == 1 and other.dim() == 1:
        return op.dot(self, other)
    if other.dim() <= 2:
        return op.nn_linear(self, other)
    flat = op.nn_linear(self, other.reshape([product(other.shape[:-1]), k]))
    return flat.reshape([*self.shape[:-1], *other.shape[:-1]])


@rule
def linear_node(input: "Tensor", bias: "Tensor?") -> "str":
    if input.ndim == 2:
        return "AddmmBackward0" if bias is not None else "MmBackward0"
    if bias is not None:
        return "ViewBackward0"
    return "SqueezeBackward4" if input.ndim == 1 else "UnsafeViewBackward0"


@native(
    "nn_linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    autocast="lower",
    dtypes=PRODUCT,
    variants="function, out",
    tags=frozenset({"kept_as_rows"}),
    node=linear_node,
    samples=lambda t: [((t(2, 4), t(3, 4), t(3)), {}), ((t(2, 3, 4), t(5, 4)), {})],
    word="addmm_impl_cpu_",
)
def nn_linear(input, weight, bias):
    """input @ weight.T + bias over the last dim of the input."""
    if input.dim() == 0 or weight.dim() == 0 or weight.dim() > 2:
        raise RuntimeError(
            f"[linear] expected an input with dims and a weight with one or two, but got {input.shape} and {weight.shape}"
        )
    if input.shape[-1] != weight.shape[-1]:
        columns = weight.shape[0] if weight.dim() == 2 else 1
        refuse_shapes("linear", product(input.shape[:-1]), input.shape[-1], weight.shape[-1], columns)
    if bias is not None:
        check_sum_dtypes("linear", bias, input, weight)
    check_factors("linear", input, weight)
    sizes = [*input.shape[:-1], *weight.shape[:-1]]
    if bias is not None:
        check_addend("linear", bias, input, sizes, 1, 1)
    return Out(sizes, input.dtype)


@gradient(nn_linear, "input")
def linear_input_gradient(grad, weight):
    if weight.dim() == 1:
        return grad.unsqueeze(-1) * weight.conj()
    return op.matmul(grad, weight.conj())


@gradient(nn_linear, "weight")
def linear_weight_gradient(grad, input, weight):
    n = product(input.shape[:-1])
    rows = input.reshape([n, input.shape[-1]]).conj()
    return op.matmul(grad.reshape([n, *weight.shape[:-1]]).t(), rows)


@gradient(nn_linear, "bias")
def linear_bias_gradient(grad):
    return grad


@composite(
    "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
    variants="function",
    autocast="widest",
    aliases=("nn.bilinear",),
    samples=lambda t: [((t(2, 3), t(2, 4), t(5, 3, 4), t(5)), {})],
)
def bilinear(input1, input2, weight, bias):
    """input1 @ weight[o] @ input2 for every o, over the last dims of the inputs, plus bias."""
    check_bilinear(input1, input2, weight, bias)
    n = product(input1.shape[:-1])
    left = input1.reshape([n, input1.shape[-1]]).matmul(weight).permute([1, 0, 2])
    right = input2.reshape([n, input2.shape[-1], 1])
    result = left.matmul(right).reshape([*input1.shape[:-1], weight.shape[0]])
    return result if bias is None else result + bias


@pointwise("_conj_mul(Tensor self, Tensor other) -> Tensor", dtypes=(*FLOATS, *COMPLEX), variants="")
def _conj_mul(x, y):
    """conj(self) * other."""
    return (conj(x) if x.dtype.is_complex else x) * y


@composite(
    "linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
    autocast="lower",
    variants="function, out",
    samples=lambda t: [((t(3, 4), t(4)), {}), ((t(4), t(4)), {}), ((t(3, 1, 40), t(2, 40)), {})],
    types={"out_words": "linalg.vecdot: Expected out of dtype{result} but found {out}"},
)
def linalg_vecdot(x, y, dim):
    """The dot products of the vectors along dim, x conjugated; other dims broadcast."""
    if not (x.is_floating_point() or x.is_complex()):
        raise RuntimeError(
            f"[linalg.vecdot] linalg.vecdot: Expected a floating point or complex tensor as input. Got {x.dtype}"
        )
    if x.dtype != y.dtype:
        raise RuntimeError(
            f"[linalg.vecdot] linalg.vecdot: Expected x and y to have the same dtype, but found x of type {x.dtype} and y of type {y.dtype} instead"
        )
    if x.dim() == 1 and y.dim() == 1 and x.shape[0] == y.shape[0]:
        wrap_dim(dim, 1)
        return op.vdot(x, y)
    n = max(x.dim(), y.dim())
    rows = x.dim() > 0 and y.dim() > 0 and wrap_dim(dim, n) == n - 1
    if rows and x.shape[-1] == y.shape[-1] and x.shape[-1] >= 32:  # long vectors: no temporary for the products
        return op.matmul(x.conj().unsqueeze(-2), y.unsqueeze(-1)).squeeze(-1).squeeze(-1)
    return op._conj_mul(x, y).sum([dim])


@rule
def multiply_chain(tensors: "Tensor[]", splits: "int[]", first: "int", last: "int") -> "Tensor":
    """The product of tensors[first : last + 1], cut where `splits` says."""
    if first == last:
        return tensors[first]
    cut = splits[first * len(tensors) + last]
    return op.matmul(multiply_chain(tensors, splits, first, cut), multiply_chain(tensors, splits, cut + 1, last))


@rule
def chain_splits(sizes: "int[]") -> "int[]":
    """Where to cut each stretch of a chain of matrices (sizes[i] x sizes[i + 1]) for the fewest multiplications."""
    n = len(sizes) - 1
    cost = [0] * (n * n)
    splits = [0] * (n * n)
    for span in range(1, n):
        for first in range(n - span):
            last = first + span
            best = -1
            for cut in range(first, last):
                c = cost[first * n + cut] + cost[(cut + 1) * n + last] + sizes[first] * sizes[cut + 1] * sizes[last + 1]
                if best < 0 or c < best:
                    best = c
                    splits[first * n + last] = cut
            cost[first * n + last] = best
    return splits


@rule
def check_chain(tensors: "Tensor[]") -> "none":
    """Matrices, or vectors at the ends, of one dtype on one device."""
    first, last = tensors[0], tensors[-1]
    if first.dim() != 1 and first.dim() != 2:
        raise RuntimeError(f"[linalg.multi_dot] multi_dot(): the first tensor must be 1D or 2D but got {first.dim()}D")
    if last.dim() != 1 and last.dim() != 2:
        raise RuntimeError(f"[linalg.multi_dot] multi_dot(): the last tensor must be 1D or 2D but got {last.dim()}D")
    for i in range(1, len(tensors)):
        t = tensors[i]
        if i < len(tensors) - 1 and t.dim() != 2:
            raise RuntimeError(f"[linalg.multi_dot] multi_dot(): tensor {i} must be 2D but got {t.dim()}D")
        if t.dtype != first.dtype:
            raise RuntimeError(
                f"[linalg.multi_dot] multi_dot(): all tensors must have be the same dtype but tensor 0 is {c_name(first.dtype)} and tensor {i} {c_name(t.dtype)}"
            )
        if t.device != first.device:
            raise RuntimeError(
                f"[linalg.multi_dot] multi_dot(): all tensors must be on the same device but tensor 0 is on {first.device} and tensor {i} on {t.device}"
            )


@composite(
    "linalg_multi_dot(Tensor[] tensors) -> Tensor",
    variants="function, out",
    samples=lambda t: [(([t(3, 4), t(4, 2), t(2, 5)],), {}), (([t(4), t(4, 2), t(2)],), {})],
    types={"out_words": "multi_dot(): expected out tensor to have dtype {result} but got {out}"},
)
def linalg_multi_dot(tensors):
    """The product of matrices (the first and the last may be vectors), in the order with the fewest multiplications."""
    n = len(tensors)
    if n < 2:
        raise RuntimeError(f"[linalg.multi_dot] multi_dot(): expected at least 2 tensors but got {n}")
    check_chain(tensors)
    sizes = [1] if tensors[0].dim() == 1 else [tensors[0].size(0)]
    for i in range(n):
        t = tensors[i]
        if i > 0 and t.shape[0] != sizes[-1]:
            raise RuntimeError(
                f"[linalg.multi_dot] multi_dot(): tensors {i - 1} and {i} with shapes {tensors[i - 1].shape} and {t.shape} cannot be multiplied"
            )
        if i == n - 1 and t.dim() == 1:
            sizes.append(1)
        else:
            sizes.append(t.shape[-1])
    return multiply_chain(tensors, chain_splits(sizes), 0, n - 1)


@native("_identities_like(Tensor self) -> Tensor", variants="", samples=lambda t: [((t(2, 3, 3),), {})])
def _identities_like(self):
    """An identity matrix for every matrix of the batch."""
    return Out(self.shape, self.dtype)


@gradient(_identities_like, "self")
def identities_like_gradient(grad):
    return op.zeros_like(grad)


@rule
def positive_power(A: "Tensor", n: "int") -> "Tensor":
    """A to the n-th power by repeated squaring; A itself where n is 1."""
    square = A
    result: "Tensor?" = None
    left = n
    while left > 0:
        if left % 2 == 1:
            result = square if result is None else op.matmul(result, square)
        left = left // 2
        if left > 0:
            square = op.matmul(square, square)
    return result


@composite(
    "linalg_matrix_power(Tensor A, int n) -> Tensor",
    variants="function, out",
    samples=lambda t: [((t(2, 3, 3), 5), {}), ((t(3, 3), 0), {})],
    aten=("linalg_matrix_power(Tensor self, int n) -> Tensor",),
)
def linalg_matrix_power(A, n):
    """The n-th power of square matrices, by repeated squaring."""
    check_square("linalg.matrix_power", A)
    if n < 0:
        return positive_power(op.linalg_inv(A), -n)
    if n == 0:
        return op._identities_like(A)
    if n == 1:
        return A.contiguous().clone()
    return positive_power(A, n)


@composite("matrix_power(Tensor self, int n) -> Tensor", variants=_OUT, samples=lambda t: [((t(2, 3, 3), 5), {})])
def matrix_power(self, n):
    """The n-th power of square matrices."""
    return op.linalg_matrix_power(self, n)


@native(
    "linalg_matrix_exp(Tensor self) -> Tensor",
    algorithm="product",
    dtypes=(*FLOATS, *COMPLEX),
    variants="function",
    samples=lambda t: [((t(2, 3, 3),), {})],
)
def linalg_matrix_exp(self):
    """The exponential of square matrices: the limit of (I + self / n) ** n."""
    check_square("linalg.matrix_exp", self)
    if not (self.is_floating_point() or self.is_complex()):
        raise RuntimeError(
            f"[linalg.matrix_exp] linalg.matrix_exp: Expected a floating point or complex tensor as input. Got {self.dtype}"
        )
    return Out(self.shape, self.dtype)


@gradient(linalg_matrix_exp, "self")
def matrix_exp_gradient(grad, self):
    # The derivative of exp at A in direction E is the upper right block of exp([[A, E], [0, A]]).
    if self.numel() == 0:
        return grad
    n = self.shape[-1]
    A = self.adjoint()
    upper = op.cat([A, grad], -1)
    lower = op.cat([op.zeros_like(A), A], -1)
    whole = op.linalg_matrix_exp(op.cat([upper, lower], -2))
    return whole.narrow(-2, 0, n).narrow(-1, n, n)


@composite("matrix_exp(Tensor self) -> Tensor", variants="function, method", samples=lambda t: [((t(3, 3),), {})])
def matrix_exp(self):
    """The exponential of square matrices."""
    return op.linalg_matrix_exp(self)
