"""Products of float8 matrices with scales: one for a whole matrix, or one for each row and column."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.record import composite, op, rule
from tocha.operators.rules import is_float8


@rule
def refuse_scaling(a: "Tensor", b: "Tensor", scale_a: "Tensor", scale_b: "Tensor") -> "none":
    m, n = a.size(0), b.size(1)
    raise ValueError(
        f"[scaled_mm] Invalid scaling configuration.\n"
        f"- For TensorWise scaling, a and b should be float8, scales should be float and singletons.\n"
        f"- For RowWise scaling, a and b should be float8, scales should be float, scale_a should be ({m}, 1) and scale_b should be (1, {n}), and both should be contiguous.\n"
        f"Got a.dtype()={a.dtype}, scale_a.dtype()={scale_a.dtype}, scale_a.size()={scale_a.shape}, b.dtype()={b.dtype}, scale_b.dtype()={scale_b.dtype}, scale_b.size()={scale_b.shape}"
    )


@rule
def check_scaled(a: "Tensor", b: "Tensor", bias: "Tensor?") -> "none":
    if a.dim() != 2:
        raise RuntimeError(f"[scaled_mm] mat1 must be a matrix: got {a.shape}")
    if b.dim() != 2:
        raise RuntimeError(f"[scaled_mm] mat2 must be a matrix: got {b.shape}")
    if a.size(1) != b.size(0):
        raise RuntimeError(
            f"[scaled_mm] mat_a and mat_b shapes cannot be multiplied ({a.size(0)}x{a.size(1)} and {b.size(0)}x{b.size(1)})"
        )
    if bias is not None and bias.numel() != b.size(1):
        raise RuntimeError(f"[scaled_mm] Bias must be size {b.size(1)} but got {bias.numel()}")


@rule
def scales_rows(a: "Tensor", b: "Tensor", scale_a: "Tensor", scale_b: "Tensor") -> "bool":
    """Whether there is a scale for each row and column; refuses what is neither that nor one scale for all."""
    floats = scale_a.dtype == dt.float32 and scale_b.dtype == dt.float32
    if not floats or not is_float8(a.dtype) or not is_float8(b.dtype):
        refuse_scaling(a, b, scale_a, scale_b)
    if scale_a.numel() == 1 and scale_b.numel() == 1:
        return False
    shaped = scale_a.dim() == 2 and scale_b.dim() == 2
    if shaped:
        shaped = scale_a.size(0) == a.size(0) and scale_a.size(1) == 1
        shaped = shaped and scale_b.size(0) == 1 and scale_b.size(1) == b.size(1)
    if not shaped or not scale_a.is_contiguous() or not scale_b.is_contiguous():
        refuse_scaling(a, b, scale_a, scale_b)
    return True


@composite(
    "_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor? scale_result=None, dtype? out_dtype=None, bool use_fast_accum=False) -> Tensor",
    variants="function, out",
    tags=frozenset({"no_gradient"}),
    samples=lambda t: [
        (
            (
                t(3, 4, dtype="float8_e4m3fn"),
                t(4, 5, dtype="float8_e4m3fn"),
                t(1, dtype="float32"),
                t(1, dtype="float32"),
            ),
            {},
        )
    ],
)
def _scaled_mm(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum):
    """(self * scale_a) @ (mat2 * scale_b) + bias of float8 matrices, computed in float32."""
    check_scaled(self, mat2, bias)
    if not scales_rows(self, mat2, scale_a, scale_b):
        scale_a = scale_a.reshape([])
        scale_b = scale_b.reshape([])
    product = op.mm(self.to(dt.float32) * scale_a, mat2.to(dt.float32) * scale_b)
    if bias is not None:
        product = product + bias.to(dt.float32)
    return product.to(self.dtype if out_dtype is None else out_dtype)


@composite(
    "_scaled_mm_v2(Tensor self, Tensor mat2, Tensor[] scale_a, int[] recipe_a, int[] swizzle_a, Tensor[] scale_b, int[] recipe_b, int[] swizzle_b, Tensor? bias, dtype? out_dtype, int[] contraction_dim=[], bool use_fast_accum=False) -> Tensor",
    variants="function, out",
    tags=frozenset({"no_gradient"}),
    samples=lambda t: [
        (
            (
                t(3, 4, dtype="float8_e4m3fn"),
                t(4, 5, dtype="float8_e4m3fn"),
                [t(1, dtype="float32")],
                [0],
                [0],
                [t(1, dtype="float32")],
                [0],
                [0],
                None,
                None,
            ),
            {},
        )
    ],
)
def _scaled_mm_v2(
    self,
    mat2,
    scale_a,
    recipe_a,
    swizzle_a,
    scale_b,
    recipe_b,
    swizzle_b,
    bias,
    out_dtype,
    contraction_dim,
    use_fast_accum,
):
    """_scaled_mm with scales that say what they scale: a whole matrix (0) or its rows and columns (1)."""
    if any(s != 0 for s in swizzle_a) or any(s != 0 for s in swizzle_b):
        raise ValueError("[scaled_mm] CPU does not support swizzle.")
    if self.dim() != 2 or mat2.dim() != 2:
        check_scaled(self, mat2, bias)
    if len(contraction_dim) != 0:
        if len(contraction_dim) != 2:
            raise ValueError(f"[scaled_mm] contraction_dim must have exactly 2 elements, got {len(contraction_dim)}")
        da, db = contraction_dim[0], contraction_dim[1]
        if self.size(da) != mat2.size(db) or da % 2 != 1 or db % 2 != 0:
            raise ValueError(
                f"[scaled_mm] mat_a and mat_b shapes cannot be multiplied ({self.size(0)}x{self.size(1)} and {mat2.size(0)}x{mat2.size(1)}) with contraction dims mat_a: {da}, mat_b: {db}"
            )
    if len(scale_a) == 0 or len(scale_b) == 0:
        raise ValueError("[scaled_mm] Invalid scaling configuration. There must be a scale for each matrix.")
    known = len(scale_a) == 1 and len(scale_b) == 1 and len(recipe_a) == 1 and len(recipe_b) == 1
    if known:
        known = recipe_a[0] == recipe_b[0] and (recipe_a[0] == 0 or recipe_a[0] == 1)
    if known:
        ones = scale_a[0].numel() == 1 and scale_b[0].numel() == 1
        known = recipe_a[0] == 1 or ones
    if not known:
        refuse_scaling(self, mat2, scale_a[0], scale_b[0])
    return op._scaled_mm(self, mat2, scale_a[0], scale_b[0], bias, None, out_dtype, use_fast_accum)
