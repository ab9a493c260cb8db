"""What products ask of their operands, and how they refuse: each in the words that PyTorch has for that product."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.record import rule
from tocha.operators.rules import broadcast_shapes, c_name, is_float8, kernel_word, product, refuse_dtype
from tocha.operators.views import expanded_view


@rule
def check_multiplies(name: "str", a: "Tensor", b: "Tensor") -> "none":
    """One device, and a dtype that has products; matrices without elements may be of any."""
    if a.device != b.device:
        raise RuntimeError(
            f"[{name}] Expected all tensors to be on the same device, but found at least two devices, {a.device} and {b.device}!"
        )
    if (a.dtype in (dt.bool_, dt.complex32) or is_float8(a.dtype)) and (
        (a.dim() < 2 and b.dim() < 2) or (a.numel() != 0 and b.numel() != 0)
    ):
        kernel = name
        if name == "matmul":
            kernel = "bmm" if a.dim() > 2 or b.dim() > 2 else "mm"
            if a.dim() < 2 or b.dim() < 2:
                kernel = "dot" if a.dim() == b.dim() else "mv"
        raise NotImplementedError(f"[{name}] \"{kernel_word(kernel)}\" not implemented for '{a.dtype}'")


@rule
def check_factors(name: "str", a: "Tensor", b: "Tensor") -> "none":
    """Both factors have one dtype that has products, and one device."""
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"[{name}] expected m1 and m2 to have the same dtype, but got: {c_name(a.dtype)} != {c_name(b.dtype)}"
        )
    check_multiplies(name, a, b)


@rule
def check_batches(name: "str", a: "Tensor", b: "Tensor") -> "none":
    if a.dtype != b.dtype:
        if a.dtype == dt.bool_:
            refuse_dtype(name, a.dtype)
        raise RuntimeError(f"[{name}] expected scalar type {a.dtype} but found {b.dtype}")
    check_multiplies(name, a, b)


@rule
def check_vectors(name: "str", a: "Tensor", b: "Tensor") -> "none":
    """Two vectors of one dtype and length."""
    if a.dim() != 1 or b.dim() != 1:
        raise RuntimeError(
            f"[{name}] 1D tensors expected, but got {a.dim()}D and {b.dim()}D tensors: {a.shape} and {b.shape}"
        )
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"[{name}] dot : expected both vectors to have same dtype, but found {a.dtype} and {b.dtype}"
        )
    if a.shape[0] != b.shape[0]:
        raise RuntimeError(
            f"[{name}] inconsistent tensor size, expected tensor {a.shape} and src {b.shape} to have the same number of elements, but got {a.shape[0]} and {b.shape[0]} elements respectively"
        )
    check_multiplies(name, a, b)


@rule
def check_matrix_vector(name: "str", self: "Tensor", mat: "Tensor", vec: "Tensor") -> "none":
    """self + mat @ vec; of a product without a sum, self is vec."""
    if name == "mv":
        mat.size(0)  # the result's size is asked for first
    if mat.dim() != 2 or vec.dim() != 1 or self.dim() > 1:
        raise RuntimeError(
            f"[{name}] vector + matrix @ vector expected, got {self.dim()}, {mat.dim()}, {vec.dim()}: {mat.shape} and {vec.shape}"
        )
    if mat.dtype != vec.dtype or self.dtype != vec.dtype:
        raise RuntimeError(
            f"[{name}] addmv input tensors must have the same dtype, but got {self.dtype}, {mat.dtype}, and {vec.dtype}"
        )
    if mat.shape[1] != vec.shape[0]:
        raise RuntimeError(
            f"[{name}] size mismatch, got input ({mat.shape[0]}), mat ({mat.shape[0]}x{mat.shape[1]}), vec ({vec.shape[0]})"
        )
    check_multiplies(name, mat, vec)


@rule
def check_scalars(name: "str", self: "Tensor", beta: "Scalar", alpha: "Scalar") -> "none":
    if (beta.is_complex() or alpha.is_complex()) and not self.dtype.is_complex:
        raise RuntimeError(f"[{name}] value cannot be converted to type {c_name(self.dtype)} without overflow")


@rule
def check_addend(
    name: "str", self: "Tensor", factor: "Tensor", sizes: "int[]", beta: "Scalar", alpha: "Scalar"
) -> "none":
    """What is added lies where the factors do and expands to the result's sizes; the scalars fit the dtype."""
    check_multiplies(name, self, factor)
    check_scalars(name, self, beta, alpha)
    check_expands(name, self, sizes)


@rule
def check_sum_dtypes(name: "str", self: "Tensor", mat1: "Tensor", mat2: "Tensor") -> "none":
    if self.dtype != mat2.dtype:
        raise RuntimeError(f"[{name}] self and mat2 must have the same dtype, but got {self.dtype} and {mat2.dtype}")
    if mat1.dtype != mat2.dtype:
        raise RuntimeError(f"[{name}] mat1 and mat2 must have the same dtype, but got {mat1.dtype} and {mat2.dtype}")


@rule
def check_expands(name: "str", given: "Tensor", sizes: "int[]") -> "none":
    fits = given.dim() <= len(sizes)
    if fits:
        for i in range(given.dim()):
            if given.shape[i] != 1 and given.shape[i] != sizes[i + len(sizes) - given.dim()]:
                fits = False
    if not fits:
        expanded_view(given, sizes, name)


@rule
def refuse_shapes(name: "str", rows: "int", inner: "int", other: "int", columns: "int") -> "none":
    raise RuntimeError(f"[{name}] mat1 and mat2 shapes cannot be multiplied ({rows}x{inner} and {other}x{columns})")


@rule
def refuse_batches(name: "str", batch: "int", inner: "int", given: "int[]") -> "none":
    raise RuntimeError(
        f"[{name}] Expected size for first two dimensions of batch2 tensor to be: {[batch, inner]} but got: {given}."
    )


@rule
def refuse_matmul(name: "str", a: "int[]", b: "int[]") -> "none":
    """Factors that do not fit, said as PyTorch does of the product that such ranks come down to."""
    if len(a) == 1 and len(b) == 1:
        raise RuntimeError(
            f"[{name}] inconsistent tensor size, expected tensor {a} and src {b} to have the same number of elements, but got {a[0]} and {b[0]} elements respectively"
        )
    if len(a) == 2 and len(b) == 1:
        raise RuntimeError(f"[{name}] size mismatch, got input ({a[0]}), mat ({a[0]}x{a[1]}), vec ({b[0]})")
    if len(a) > 2 and len(b) > 2:
        batches = product(broadcast_shapes(a[:-2], b[:-2], name))
        refuse_batches(name, batches, a[-1], [batches, b[-2]])
    refuse_shapes(name, product(a[:-1]), a[-1], b[max(len(b) - 2, 0)], b[-1] if len(b) > 1 else 1)


@rule
def matmul_sizes(name: "str", a: "int[]", b: "int[]") -> "int[]":
    if len(a) == 0 or len(b) == 0:
        raise RuntimeError(
            f"[{name}] both arguments to matmul need to be at least 1D, but they are {len(a)}D and {len(b)}D"
        )
    if a[-1] != b[max(len(b) - 2, 0)]:
        refuse_matmul(name, a, b)
    sizes = broadcast_shapes(a[:-2], b[:-2], name)
    if len(a) > 1:
        sizes.append(a[-2])
    if len(b) > 1:
        sizes.append(b[-1])
    return sizes


@rule
def check_matmul_dtypes(self: "Tensor", other: "Tensor") -> "none":
    if self.dim() == 1 and other.dim() == 1:
        check_vectors("matmul", self, other)
    elif self.dim() == 2 and other.dim() == 1:
        check_matrix_vector("matmul", other, self, other)
    elif self.dim() > 2 and other.dim() > 2:
        check_batches("matmul", self, other)
    else:
        check_factors("matmul", self, other)


@rule
def bmm_sizes(name: "str", a: "Tensor", b: "Tensor") -> "int[]":
    if name != "bmm":  # sums ask for the result's sizes first
        a.size(1)
        b.size(2)
    if a.dim() != 3:
        raise RuntimeError(f"[{name}] batch1 must be a 3D tensor, but got {a.shape}")
    if b.dim() != 3:
        raise RuntimeError(f"[{name}] batch2 must be a 3D tensor, but got {b.shape}")
    if name == "addbmm":
        if a.shape[0] != b.shape[0]:
            raise RuntimeError(
                f"[addbmm] batch1 and batch2 must have same number of batches, got {a.shape[0]} and {b.shape[0]}"
            )
        if a.shape[2] != b.shape[1]:
            raise RuntimeError(
                f"[addbmm] Incompatible matrix sizes for bmm ({a.shape[1]}x{a.shape[2]} and {b.shape[1]}x{b.shape[2]})"
            )
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        refuse_batches(name, a.shape[0], a.shape[2], b.shape[:2])
    return [a.shape[0], a.shape[1], b.shape[2]]


@rule
def check_square(name: "str", self: "Tensor") -> "none":
    if self.dim() < 2:
        raise RuntimeError(
            f"[{name}] {name}: The input tensor A must have at least 2 dimensions. Got shape {self.shape}"
        )
    if self.shape[-1] != self.shape[-2]:
        raise RuntimeError(
            f"[{name}] {name}: A must be batches of square matrices, but they are {self.shape[-2]} by {self.shape[-1]} matrices"
        )


@rule
def check_bilinear(input1: "Tensor", input2: "Tensor", weight: "Tensor", bias: "Tensor?") -> "none":
    if bias is not None and (
        bias.dtype != input1.dtype or input2.dtype != input1.dtype or weight.dtype != input1.dtype
    ):
        raise RuntimeError(
            f"[bilinear] All tensors must have the same dtype, got input1: {c_name(input1.dtype)}, input2: {c_name(input2.dtype)}, weight: {c_name(weight.dtype)}, bias: {c_name(bias.dtype)}"
        )
    if input1.dim() != input2.dim() or input1.dim() == 0:
        raise RuntimeError(
            f"[bilinear] bilinear(): input dimensions do not match: got {input1.dim()} and {input2.dim()}"
        )
    for i in range(input1.dim() - 1):
        if input1.shape[i] != input2.shape[i]:
            raise RuntimeError(
                f"[bilinear] bilinear(): input batch dimensions do not match at dim {i}: got {input1.shape[i]} and {input2.shape[i]}"
            )
    if weight.dim() != 3:
        raise RuntimeError(f"[bilinear] expected a weight with 3 dims, but got {weight.shape}")
    if input1.shape[-1] != weight.shape[1]:
        raise RuntimeError(
            f"[bilinear] bilinear(): input1 size does not match weight size: got {input1.shape[-1]} but expected {weight.shape[1]}"
        )
    if input2.shape[-1] != weight.shape[2]:
        raise RuntimeError(
            f"[bilinear] bilinear(): input2 size does not match weight size: got {input2.shape[-1]} but expected {weight.shape[2]}"
        )
    if bias is not None and (bias.dim() != 1 or bias.shape[0] != weight.shape[0]):
        raise RuntimeError(
            f"[bilinear] bilinear(): bias size does not match weight size: got {bias.numel()} but expected {weight.shape[0]}"
        )
