"""Resampling by factors: the overloads of the resampling operators that take sizes or factors as lists."""

from __future__ import annotations

from tocha.operators.record import composite, op, rule


@rule
def resized(input: "Tensor", output_size: "int[]?", scale_factors: "float[]?", count: "int") -> "int[]":
    """The sizes asked for, or those that the factors give."""
    sizes: "int[]" = []
    if output_size is not None:
        if scale_factors is not None:
            raise RuntimeError("[upsample] Must specify exactly one of output_size and scale_factors")
        if len(output_size) != count:
            raise RuntimeError(
                f"[upsample] It is expected output_size equals to {count}, but got size {len(output_size)}"
            )
        return output_size
    if scale_factors is None:
        raise RuntimeError("[upsample] Must specify exactly one of output_size and scale_factors")
    if len(scale_factors) != count:
        raise RuntimeError(
            f"[upsample] expected as many scale_factors as spatial dims, {count}, but got {len(scale_factors)}"
        )
    for i in range(count):
        sizes.append(int(float(input.size(i + 2)) * scale_factors[i]))
    return sizes


@rule
def factor(scale_factors: "float[]?", i: "int") -> "float?":
    if scale_factors is None:
        return None
    return scale_factors[i]


@composite(
    "nn_upsample_nearest1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 3, 6), [4], None), {}), ((t(2, 3, 6), None, [1.5]), {})],
)
def nn_upsample_nearest1d_vec(input, output_size, scale_factors):
    """upsample_nearest1d with a list of sizes or of factors."""
    sizes = resized(input, output_size, scale_factors, 1)
    return op.nn_upsample_nearest1d(input, sizes, factor(scale_factors, 0))


@composite(
    "nn__upsample_nearest_exact1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 3, 6), [4], None), {}), ((t(2, 3, 6), None, [1.5]), {})],
)
def nn__upsample_nearest_exact1d_vec(input, output_size, scale_factors):
    """_upsample_nearest_exact1d with a list of sizes or of factors."""
    sizes = resized(input, output_size, scale_factors, 1)
    return op.nn__upsample_nearest_exact1d(input, sizes, factor(scale_factors, 0))


@composite(
    "nn_upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
    variants="function",
    core=True,
    samples=lambda t: [((t(2, 3, 6, 6), [4, 4], None), {}), ((t(2, 3, 6, 6), None, [1.5, 1.5]), {})],
)
def nn_upsample_nearest2d_vec(input, output_size, scale_factors):
    """upsample_nearest2d with a list of sizes or of factors."""
    sizes = resized(input, output_size, scale_factors, 2)
    return op.nn_upsample_nearest2d(input, sizes, factor(scale_factors, 0), factor(scale_factors, 1))


@composite(
    "nn__upsample_nearest_exact2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 3, 6, 6), [4, 4], None), {}), ((t(2, 3, 6, 6), None, [1.5, 1.5]), {})],
)
def nn__upsample_nearest_exact2d_vec(input, output_size, scale_factors):
    """_upsample_nearest_exact2d with a list of sizes or of factors."""
    sizes = resized(input, output_size, scale_factors, 2)
    return op.nn__upsample_nearest_exact2d(input, sizes, factor(scale_factors, 0), factor(scale_factors, 1))


@composite(
    "nn_upsample_nearest3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 3, 6, 6, 6), [4, 4, 4], None), {}), ((t(2, 3, 6, 6, 6), None, [1.5, 1.5, 1.5]), {})],
)
def nn_upsample_nearest3d_vec(input, output_size, scale_factors):
    """upsample_nearest3d with a list of sizes or of factors."""
    sizes = resized(input, output_size, scale_factors, 3)
    return op.nn_upsample_nearest3d(
        input, sizes, factor(scale_factors, 0), factor(scale_factors, 1), factor(scale_factors, 2)
    )


@composite(
    "nn__upsample_nearest_exact3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 3, 6, 6, 6), [4, 4, 4], None), {}), ((t(2, 3, 6, 6, 6), None, [1.5, 1.5, 1.5]), {})],
)
def nn__upsample_nearest_exact3d_vec(input, output_size, scale_factors):
    """_upsample_nearest_exact3d with a list of sizes or of factors."""
    sizes = resized(input, output_size, scale_factors, 3)
    return op.nn__upsample_nearest_exact3d(
        input, sizes, factor(scale_factors, 0), factor(scale_factors, 1), factor(scale_factors, 2)
    )


@composite(
    "nn_upsample_linear1d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 3, 6), [4], False, None), {}), ((t(2, 3, 6), None, False, [1.5]), {})],
)
def nn_upsample_linear1d_vec(input, output_size, align_corners, scale_factors):
    """upsample_linear1d with a list of sizes or of factors."""
    sizes = resized(input, output_size, scale_factors, 1)
    return op.nn_upsample_linear1d(input, sizes, align_corners, factor(scale_factors, 0))


@composite(
    "nn_upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
    variants="function",
    core=True,
    samples=lambda t: [((t(2, 3, 6, 6), [4, 4], False, None), {}), ((t(2, 3, 6, 6), None, False, [1.5, 1.5]), {})],
)
def nn_upsample_bilinear2d_vec(input, output_size, align_corners, scale_factors):
    """upsample_bilinear2d with a list of sizes or of factors."""
    sizes = resized(input, output_size, scale_factors, 2)
    return op.nn_upsample_bilinear2d(input, sizes, align_corners, factor(scale_factors, 0), factor(scale_factors, 1))


@composite(
    "nn_upsample_trilinear3d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
    variants="function",
    samples=lambda t: [
        ((t(2, 3, 6, 6, 6), [4, 4, 4], False, None), {}),
        ((t(2, 3, 6, 6, 6), None, False, [1.5, 1.5, 1.5]), {}),
    ],
)
def nn_upsample_trilinear3d_vec(input, output_size, align_corners, scale_factors):
    """upsample_trilinear3d with a list of sizes or of factors."""
    sizes = resized(input, output_size, scale_factors, 3)
    return op.nn_upsample_trilinear3d(
        input, sizes, align_corners, factor(scale_factors, 0), factor(scale_factors, 1), factor(scale_factors, 2)
    )


@composite(
    "nn_upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 3, 6, 6), [4, 4], False, None), {}), ((t(2, 3, 6, 6), None, False, [1.5, 1.5]), {})],
)
def nn_upsample_bicubic2d_vec(input, output_size, align_corners, scale_factors):
    """upsample_bicubic2d with a list of sizes or of factors."""
    sizes = resized(input, output_size, scale_factors, 2)
    return op.nn_upsample_bicubic2d(input, sizes, align_corners, factor(scale_factors, 0), factor(scale_factors, 1))


@composite(
    "nn__upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 3, 6, 6), [4, 4], False, None), {}), ((t(2, 3, 6, 6), None, False, [1.5, 1.5]), {})],
)
def nn__upsample_bilinear2d_aa_vec(input, output_size, align_corners, scale_factors):
    """_upsample_bilinear2d_aa with a list of sizes or of factors."""
    sizes = resized(input, output_size, scale_factors, 2)
    return op.nn__upsample_bilinear2d_aa(
        input, sizes, align_corners, factor(scale_factors, 0), factor(scale_factors, 1)
    )


@composite(
    "nn__upsample_bicubic2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 3, 6, 6), [4, 4], False, None), {}), ((t(2, 3, 6, 6), None, False, [1.5, 1.5]), {})],
)
def nn__upsample_bicubic2d_aa_vec(input, output_size, align_corners, scale_factors):
    """_upsample_bicubic2d_aa with a list of sizes or of factors."""
    sizes = resized(input, output_size, scale_factors, 2)
    return op.nn__upsample_bicubic2d_aa(input, sizes, align_corners, factor(scale_factors, 0), factor(scale_factors, 1))


@composite(
    "nn__upsample_lanczos2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 3, 6, 6), [4, 4], False, None), {}), ((t(2, 3, 6, 6), None, False, [1.5, 1.5]), {})],
)
def nn__upsample_lanczos2d_aa_vec(input, output_size, align_corners, scale_factors):
    """_upsample_lanczos2d_aa with a list of sizes or of factors."""
    sizes = resized(input, output_size, scale_factors, 2)
    return op.nn__upsample_lanczos2d_aa(input, sizes, align_corners, factor(scale_factors, 0), factor(scale_factors, 1))
