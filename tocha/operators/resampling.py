"""Pictures at other sizes (upsampling in its forms) and read at the points of grids (grid_sample, affine_grid)."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.record import composite, gradient, native, op, rule
from tocha.operators.rules import Out, cat_strides, contiguous_strides, is_integral, product, refuse_dtype

# -- other sizes -------------------------------------------------------------------------------------


@native(
    "_resample(Tensor self, int[] sizes, str kind, bool align_corners, float? scale_d, float? scale_h, float? scale_w) -> Tensor",
    variants="",
)
def _resample(self, sizes, kind, align_corners, scale_d, scale_h, scale_w):
    """(N, C, spatial...) at other spatial sizes, by the filter `kind`; scales stand for ratios of the sizes."""
    shape = [*self.shape[:2], *sizes]
    return Out(shape, self.dtype, strides=cat_strides(shape, [self]))


@native(
    "_resample_backward(Tensor self, int[] shape, str kind, bool align_corners, float? scale_d, float? scale_h, float? scale_w) -> Tensor",
    variants="",
)
def _resample_backward(self, shape, kind, align_corners, scale_d, scale_h, scale_w):
    """The adjoint of _resample: what each place of a tensor of this shape gave to the result."""
    return Out(shape, self.dtype, strides=cat_strides(shape, [self]))


@gradient(_resample, "self")
def resample_gradient(grad, self, kind, align_corners, scale_d, scale_h, scale_w):
    return op._resample_backward(grad, self.shape, kind, align_corners, scale_d, scale_h, scale_w)


@gradient(_resample_backward, "self")
def resample_backward_gradient(grad, kind, shape, align_corners, scale_d, scale_h, scale_w, self):
    return op._resample(grad, self.shape[2:], kind, align_corners, scale_d, scale_h, scale_w)


@rule
def check_resampled(self: "Tensor", output_size: "int[]", spatial: "int", bytes: "bool", name: "str") -> "int[]":
    """The wanted spatial sizes of a batch that can be resampled."""
    if len(output_size) != spatial:
        raise RuntimeError(f"[{name}] It is expected output_size equals to {spatial}, but got size {len(output_size)}")
    if self.ndim != spatial + 2:
        raise RuntimeError(f"[{name}] It is expected input_size equals to {spatial + 2}, but got {self.shape}")
    if any(s <= 0 for s in output_size) or any(s <= 0 for s in self.shape[2:]):
        raise RuntimeError(
            f"[{name}] Input and output sizes should be greater than 0, but got input {self.shape[2:]} output {output_size}"
        )
    if self.shape[1] == 0:
        raise RuntimeError(f"[{name}] Non-empty data tensor expected but got a tensor with sizes {self.shape}")
    if self.is_complex() or (is_integral(self.dtype) and not (bytes and self.dtype == dt.uint8)):
        refuse_dtype(name, self.dtype)
    return output_size


@rule
def resampled_1d(
    self: "Tensor", output_size: "int[]", kind: "str", align_corners: "bool", scale: "float?", name: "str"
) -> "Tensor":
    sizes = check_resampled(self, output_size, 1, kind != "linear", name)
    return op._resample(self, sizes, kind, align_corners, None, None, scale)


@rule
def resampled_2d(
    self: "Tensor",
    output_size: "int[]",
    kind: "str",
    align_corners: "bool",
    scale_h: "float?",
    scale_w: "float?",
    name: "str",
) -> "Tensor":
    sizes = check_resampled(self, output_size, 2, True, name)
    return op._resample(self, sizes, kind, align_corners, None, scale_h, scale_w)


@rule
def resampled_3d(
    self: "Tensor",
    output_size: "int[]",
    kind: "str",
    align_corners: "bool",
    scale_d: "float?",
    scale_h: "float?",
    scale_w: "float?",
    name: "str",
) -> "Tensor":
    sizes = check_resampled(self, output_size, 3, kind != "linear", name)
    return op._resample(self, sizes, kind, align_corners, scale_d, scale_h, scale_w)


@composite(
    "nn_upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor",
    variants="function",
    node="UpsampleNearest1DBackward0",
    samples=lambda t: [((t(2, 3, 5), 8), {})],
    word="compute_indices_weights_nearest",
)
def nn_upsample_nearest1d(self, output_size, scales):
    """A signal at another length: each place shows the input's place at or before its own."""
    return resampled_1d(self, output_size, "nearest", False, scales, "upsample_nearest1d")


@gradient(nn_upsample_nearest1d, "self")
def upsample_nearest1d_gradient(grad, self, scales):
    return op._resample_backward(grad, self.shape, "nearest", False, None, None, scales)


@composite(
    "nn__upsample_nearest_exact1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor",
    variants="function",
    node="UpsampleNearestExact1DBackward0",
    samples=lambda t: [((t(2, 3, 5), 8), {})],
    word="compute_indices_weights_nearest",
)
def nn__upsample_nearest_exact1d(self, output_size, scales):
    """A signal at another length: each place shows the input's place whose middle is nearest."""
    return resampled_1d(self, output_size, "nearest-exact", False, scales, "_upsample_nearest_exact1d")


@gradient(nn__upsample_nearest_exact1d, "self")
def upsample_nearest_exact1d_gradient(grad, self, scales):
    return op._resample_backward(grad, self.shape, "nearest-exact", False, None, None, scales)


@composite(
    "nn_upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor",
    variants="function",
    node="UpsampleNearest2DBackward0",
    samples=lambda t: [((t(2, 3, 4, 5), (7, 6)), {})],
    word="upsample_nearest2d_channels_last",
)
def nn_upsample_nearest2d(self, output_size, scales_h, scales_w):
    """A picture at another size: each place shows the input's place at or before its own."""
    return resampled_2d(self, output_size, "nearest", False, scales_h, scales_w, "upsample_nearest2d")


@gradient(nn_upsample_nearest2d, "self")
def upsample_nearest2d_gradient(grad, self, scales_h, scales_w):
    return op._resample_backward(grad, self.shape, "nearest", False, None, scales_h, scales_w)


@composite(
    "nn__upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor",
    variants="function",
    node="UpsampleNearestExact2DBackward0",
    samples=lambda t: [((t(2, 3, 4, 5), (7, 6)), {})],
)
def nn__upsample_nearest_exact2d(self, output_size, scales_h, scales_w):
    """A picture at another size: each place shows the input's place whose middle is nearest."""
    return resampled_2d(self, output_size, "nearest-exact", False, scales_h, scales_w, "_upsample_nearest_exact2d")


@gradient(nn__upsample_nearest_exact2d, "self")
def upsample_nearest_exact2d_gradient(grad, self, scales_h, scales_w):
    return op._resample_backward(grad, self.shape, "nearest-exact", False, None, scales_h, scales_w)


@composite(
    "nn_upsample_nearest3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
    variants="function",
    node="UpsampleNearest3DBackward0",
    samples=lambda t: [((t(1, 2, 3, 4, 5), (4, 7, 6)), {})],
    word="compute_indices_weights_nearest",
)
def nn_upsample_nearest3d(self, output_size, scales_d, scales_h, scales_w):
    """A volume at another size: each place shows the input's place at or before its own."""
    return resampled_3d(self, output_size, "nearest", False, scales_d, scales_h, scales_w, "upsample_nearest3d")


@gradient(nn_upsample_nearest3d, "self")
def upsample_nearest3d_gradient(grad, self, scales_d, scales_h, scales_w):
    return op._resample_backward(grad, self.shape, "nearest", False, scales_d, scales_h, scales_w)


@composite(
    "nn__upsample_nearest_exact3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
    variants="function",
    node="UpsampleNearestExact3DBackward0",
    samples=lambda t: [((t(1, 2, 3, 4, 5), (4, 7, 6)), {})],
)
def nn__upsample_nearest_exact3d(self, output_size, scales_d, scales_h, scales_w):
    """A volume at another size: each place shows the input's place whose middle is nearest."""
    return resampled_3d(
        self, output_size, "nearest-exact", False, scales_d, scales_h, scales_w, "_upsample_nearest_exact3d"
    )


@gradient(nn__upsample_nearest_exact3d, "self")
def upsample_nearest_exact3d_gradient(grad, self, scales_d, scales_h, scales_w):
    return op._resample_backward(grad, self.shape, "nearest-exact", False, scales_d, scales_h, scales_w)


@composite(
    "nn_upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None) -> Tensor",
    variants="function",
    node="UpsampleLinear1DBackward0",
    samples=lambda t: [((t(2, 3, 5), 8, False), {}), ((t(2, 3, 5), 3, True), {})],
    word="compute_indices_weights_linear",
)
def nn_upsample_linear1d(self, output_size, align_corners, scales):
    """A signal at another length, with straight lines between its places."""
    return resampled_1d(self, output_size, "linear", align_corners, scales, "upsample_linear1d")


@gradient(nn_upsample_linear1d, "self")
def upsample_linear1d_gradient(grad, self, align_corners, scales):
    return op._resample_backward(grad, self.shape, "linear", align_corners, None, None, scales)


@composite(
    "nn_upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
    variants="function",
    node="UpsampleBilinear2DBackward0",
    samples=lambda t: [((t(2, 3, 4, 5), (7, 3), False), {}), ((t(2, 3, 4, 5), (7, 3), True), {})],
    word="upsample_bilinear2d_channels_last",
)
def nn_upsample_bilinear2d(self, output_size, align_corners, scales_h, scales_w):
    """A picture at another size, with straight lines between its places along each dim."""
    return resampled_2d(self, output_size, "linear", align_corners, scales_h, scales_w, "upsample_bilinear2d")


@gradient(nn_upsample_bilinear2d, "self")
def upsample_bilinear2d_gradient(grad, self, align_corners, scales_h, scales_w):
    return op._resample_backward(grad, self.shape, "linear", align_corners, None, scales_h, scales_w)


@composite(
    "nn_upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
    variants="function",
    node="UpsampleTrilinear3DBackward0",
    samples=lambda t: [((t(1, 2, 3, 4, 5), (4, 7, 3), False), {})],
    word="compute_indices_weights_linear",
)
def nn_upsample_trilinear3d(self, output_size, align_corners, scales_d, scales_h, scales_w):
    """A volume at another size, with straight lines between its places along each dim."""
    return resampled_3d(
        self, output_size, "linear", align_corners, scales_d, scales_h, scales_w, "upsample_trilinear3d"
    )


@gradient(nn_upsample_trilinear3d, "self")
def upsample_trilinear3d_gradient(grad, self, align_corners, scales_d, scales_h, scales_w):
    return op._resample_backward(grad, self.shape, "linear", align_corners, scales_d, scales_h, scales_w)


@composite(
    "nn_upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
    variants="function",
    node="UpsampleBicubic2DBackward0",
    samples=lambda t: [((t(2, 3, 4, 5), (7, 3), False), {})],
    word="compute_indices_weights_cubic",
)
def nn_upsample_bicubic2d(self, output_size, align_corners, scales_h, scales_w):
    """A picture at another size, by cubic convolution of four places along each dim."""
    return resampled_2d(self, output_size, "cubic", align_corners, scales_h, scales_w, "upsample_bicubic2d")


@gradient(nn_upsample_bicubic2d, "self")
def upsample_bicubic2d_gradient(grad, self, align_corners, scales_h, scales_w):
    return op._resample_backward(grad, self.shape, "cubic", align_corners, None, scales_h, scales_w)


@rule
def antialiased_2d(
    self: "Tensor",
    output_size: "int[]",
    kind: "str",
    align_corners: "bool",
    scale_h: "float?",
    scale_w: "float?",
    name: "str",
) -> "Tensor":
    if self.dtype == dt.float16 or self.dtype == dt.bfloat16:
        refuse_dtype(name, self.dtype)
    return resampled_2d(self, output_size, kind, align_corners, scale_h, scale_w, name)


@composite(
    "nn__upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
    variants="function",
    node="UpsampleBilinear2DAaBackward0",
    samples=lambda t: [((t(2, 3, 6, 7), (3, 9), False), {})],
    dtypes=(dt.float32, dt.float64),
)
def nn__upsample_bilinear2d_aa(self, output_size, align_corners, scales_h, scales_w):
    """A picture at another size, by a triangle filter that widens when the picture shrinks."""
    return antialiased_2d(self, output_size, "linear-aa", align_corners, scales_h, scales_w, "_upsample_bilinear2d_aa")


@gradient(nn__upsample_bilinear2d_aa, "self")
def upsample_bilinear2d_aa_gradient(grad, self, align_corners, scales_h, scales_w):
    return op._resample_backward(grad, self.shape, "linear-aa", align_corners, None, scales_h, scales_w)


@composite(
    "nn__upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
    variants="function",
    node="UpsampleBicubic2DAaBackward0",
    samples=lambda t: [((t(2, 3, 6, 7), (3, 9), False), {})],
    dtypes=(dt.float32, dt.float64),
)
def nn__upsample_bicubic2d_aa(self, output_size, align_corners, scales_h, scales_w):
    """A picture at another size, by a cubic filter that widens when the picture shrinks."""
    return antialiased_2d(self, output_size, "cubic-aa", align_corners, scales_h, scales_w, "_upsample_bicubic2d_aa")


@gradient(nn__upsample_bicubic2d_aa, "self")
def upsample_bicubic2d_aa_gradient(grad, self, align_corners, scales_h, scales_w):
    return op._resample_backward(grad, self.shape, "cubic-aa", align_corners, None, scales_h, scales_w)


@composite(
    "nn__upsample_lanczos2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
    variants="function",
    node="UpsampleLanczos2DAaBackward0",
    samples=lambda t: [((t(2, 3, 6, 7), (3, 9), False), {})],
    dtypes=(dt.float32, dt.float64),
)
def nn__upsample_lanczos2d_aa(self, output_size, align_corners, scales_h, scales_w):
    """A picture at another size, by Lanczos' filter of three lobes, which widens when the picture shrinks."""
    return antialiased_2d(self, output_size, "lanczos-aa", align_corners, scales_h, scales_w, "_upsample_lanczos2d_aa")


@gradient(nn__upsample_lanczos2d_aa, "self")
def upsample_lanczos2d_aa_gradient(grad, self, align_corners, scales_h, scales_w):
    return op._resample_backward(grad, self.shape, "lanczos-aa", align_corners, None, scales_h, scales_w)


# -- the points of grids -----------------------------------------------------------------------------


@native(
    "_grid_sample(Tensor self, Tensor grid, int interpolation, int padding, bool align_corners) -> Tensor", variants=""
)
def _grid_sample(self, grid, interpolation, padding, align_corners):
    """The picture at the grid's points: (N, C, spatial...) and (N, points..., dims) give (N, C, points...)."""
    return Out([self.shape[0], self.shape[1], *grid.shape[1 : grid.ndim - 1]], self.dtype)


@native(
    "_grid_sample_backward(Tensor grad_output, Tensor self, Tensor grid, int interpolation, int padding, bool align_corners, bool for_input) -> (Tensor, Tensor)",
    variants="",
)
def _grid_sample_backward(grad_output, self, grid, interpolation, padding, align_corners, for_input):
    """The gradients of the picture (empty where not asked for) and of the grid."""
    shape = self.shape if for_input else [0]
    return Out(shape, self.dtype, strides=contiguous_strides(shape)), Out(grid.shape, grid.dtype)


@native(
    "_grid_sample_backward_twice(Tensor to_picture, Tensor to_grid, Tensor grad_output, Tensor self, Tensor grid, int interpolation, int padding, bool align_corners) -> (Tensor, Tensor, Tensor)",
    variants="",
)
def _grid_sample_backward_twice(to_picture, to_grid, grad_output, self, grid, interpolation, padding, align_corners):
    """What gradients of _grid_sample_backward's results mean for grad_output, the picture and the grid."""
    return Out(grad_output.shape, grad_output.dtype), Out(self.shape, self.dtype), Out(grid.shape, grid.dtype)


@gradient(_grid_sample_backward, "grad_output", "self", "grid")
def grid_sample_backward_gradient(
    grad0, grad1, grad_output, self, grid, interpolation, padding, align_corners, for_input
):
    u = grad0 if grad0 is not None and for_input else op.zeros_like(self)
    v = grad1 if grad1 is not None else op.zeros_like(grid)
    to_grad, to_self, to_grid = op._grid_sample_backward_twice(
        u, v, grad_output, self, grid, interpolation, padding, align_corners
    )
    return to_grad, to_self, to_grid


@rule
def check_grid(self: "Tensor", grid: "Tensor", interpolation: "int", padding: "int", name: "str") -> "none":
    dims = self.ndim - 2
    if grid.dtype != self.dtype:
        raise RuntimeError(f"[{name}] expected scalar type {self.dtype} but found {grid.dtype}")
    if self.ndim > 0 and grid.ndim > 0 and grid.shape[0] != self.shape[0]:
        raise RuntimeError(
            f"[{name}] grid_sampler(): expected grid and input to have same batch size, but got input with sizes {self.shape} and grid with sizes {grid.shape}"
        )
    if grid.ndim != self.ndim or (dims != 2 and dims != 3):
        raise RuntimeError(
            f"[{name}] grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes {self.shape} and grid with sizes {grid.shape}"
        )
    if grid.shape[-1] != dims:
        raise RuntimeError(
            f"[{name}] grid_sampler(): expected grid to have size {dims} in last dimension, but got grid with sizes {grid.shape}"
        )
    if any(n == 0 for n in self.shape[2:]):
        raise RuntimeError(
            f"[{name}] grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {self.shape}"
        )
    if dims == 3 and interpolation == 2:
        raise RuntimeError(f"[{name}] grid_sampler(): bicubic interpolation only supports 4D input")
    # PyTorch returns memory that nothing was written to.
    if interpolation < 0 or interpolation > 2 or padding < 0 or padding > 2:
        raise RuntimeError(
            f"[{name}] expected an interpolation mode of 0 (bilinear), 1 (nearest) or 2 (bicubic) and a padding mode of 0 (zeros), 1 (border) or 2 (reflection), but got {interpolation} and {padding}"
        )
    if not self.is_floating_point():
        refuse_dtype(name, self.dtype)
    if product(self.shape[2:]) >= 2147483648:
        raise RuntimeError(f"[{name}] pictures of 2^31 places and more are not supported, got {self.shape}")


@composite(
    "grid_sampler_2d(Tensor self, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
    variants="function",
    autocast="float32",
    aliases=("_grid_sampler_2d_cpu_fallback",),
    node="GridSampler2DBackward0",
    samples=lambda t: [
        ((t(2, 3, 4, 5), t(2, 3, 4, 2, low=-0.9, high=0.9), m, p, False), {}) for m, p in ((0, 0), (2, 1))
    ],
    aten=(
        "grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
    ),
    core=True,
    word="grid_sampler_2d_cpu_kernel_impl",
)
def grid_sampler_2d(self, grid, interpolation_mode, padding_mode, align_corners):
    """Pictures at the points of a grid, whose coordinates run from -1 to 1."""
    check_grid(self, grid, interpolation_mode, padding_mode, "grid_sampler_2d")
    return op._grid_sample(self, grid, interpolation_mode, padding_mode, align_corners)


@gradient(grid_sampler_2d, "self", "grid")
def grid_sampler_2d_gradient(grad, self, grid, interpolation_mode, padding_mode, align_corners, wanted):
    to_self, to_grid = op._grid_sample_backward(
        grad, self, grid, interpolation_mode, padding_mode, align_corners, wanted[0]
    )
    return to_self, to_grid


@composite(
    "grid_sampler_3d(Tensor self, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
    variants="function",
    autocast="float32",
    node="GridSampler3DBackward0",
    samples=lambda t: [((t(1, 2, 3, 4, 5), t(1, 3, 4, 2, 3, low=-0.9, high=0.9), 0, 0, False), {})],
    aten=(
        "grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
    ),
    word="grid_sampler3d_cpu",
)
def grid_sampler_3d(self, grid, interpolation_mode, padding_mode, align_corners):
    """Volumes at the points of a grid, whose coordinates run from -1 to 1."""
    check_grid(self, grid, interpolation_mode, padding_mode, "grid_sampler_3d")
    return op._grid_sample(self, grid, interpolation_mode, padding_mode, align_corners)


@gradient(grid_sampler_3d, "self", "grid")
def grid_sampler_3d_gradient(grad, self, grid, interpolation_mode, padding_mode, align_corners, wanted):
    to_self, to_grid = op._grid_sample_backward(
        grad, self, grid, interpolation_mode, padding_mode, align_corners, wanted[0]
    )
    return to_self, to_grid


@composite(
    "grid_sampler(Tensor self, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
    variants="function",
    autocast="float32",
    samples=lambda t: [((t(2, 3, 4, 5), t(2, 3, 4, 2, low=-0.9, high=0.9), 0, 0, False), {})],
    aten=(
        "grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
    ),
)
def grid_sampler(self, grid, interpolation_mode, padding_mode, align_corners):
    """Pictures or volumes at the points of a grid, whose coordinates run from -1 to 1."""
    if self.ndim == 5:
        return op.grid_sampler_3d(self, grid, interpolation_mode, padding_mode, align_corners)
    return op.grid_sampler_2d(self, grid, interpolation_mode, padding_mode, align_corners)


# -- grids of affine maps ----------------------------------------------------------------------------


@rule
def grid_line(theta: "Tensor", steps: "int", align_corners: "bool") -> "Tensor":
    """The middles of `steps` cells from -1 to 1, or with align_corners the ends and what divides them evenly."""
    if steps <= 1:
        return op.zeros([steps], dtype=theta.dtype, device=theta.device)
    line = op.linspace(-1, 1, steps, dtype=theta.dtype, device=theta.device)
    return line if align_corners else line * ((steps - 1) / steps)


@rule
def affine_base(theta: "Tensor", size: "int[]", align_corners: "bool") -> "Tensor":
    """The points (x, y(, z), 1) of a picture as rows, in order."""
    spatial = list(size[2:])
    dims = len(spatial)
    parts: "Tensor[]" = []
    for i in range(dims):
        d = dims - 1 - i
        line = grid_line(theta, spatial[d], align_corners)
        parts.append(line.reshape([spatial[d] if e == d else 1 for e in range(dims)]).expand(spatial))
    parts.append(op.ones(spatial, dtype=theta.dtype, device=theta.device))
    return op.stack(parts, -1).reshape([product(spatial), dims + 1])


@composite(
    "affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor",
    variants="function",
    node="AffineGridGeneratorBackward0",
    samples=lambda t: [((t(2, 2, 3), (2, 3, 4, 5), False), {}), ((t(2, 3, 4), (2, 1, 2, 3, 4), True), {})],
)
def affine_grid_generator(theta, size, align_corners):
    """The points of pictures of this size (N, C, spatial...) under affine maps (N, dims, dims + 1)."""
    if len(size) != 4 and len(size) != 5:
        raise RuntimeError(
            f"[affine_grid_generator] AffineGridGenerator needs 4d (spatial) or 5d (volumetric) size, got {size}"
        )
    base = affine_base(theta, size, align_corners)
    n = size[0]
    points = base.unsqueeze(0).expand([n, *base.shape])
    return op.bmm(points, theta.transpose(1, 2)).reshape([n, *size[2:], len(size) - 2])


@gradient(affine_grid_generator, "theta")
def affine_grid_gradient(grad, size, align_corners):
    base = affine_base(grad, size, align_corners)
    rows = grad.reshape([size[0], product(size[2:]), len(size) - 2])
    return op.matmul(rows.transpose(1, 2), base)
