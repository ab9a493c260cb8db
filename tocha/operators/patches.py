"""Patches of pictures as columns (unfold, im2col) and columns added up to pictures (fold, col2im)."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.record import composite, gradient, native, op, rule
from tocha.operators.rules import Out, is_integral, refuse_dtype


@rule
def check_two(value: "int[]", what: "str", name: "str", least: "int") -> "int[]":
    """Two numbers, none below the least."""
    if len(value) != 1 and len(value) != 2:
        raise RuntimeError(f"[{name}] It is expected {what} equals to 2, but got size {len(value)}")
    pair = list(value) * 2 if len(value) == 1 else list(value)
    if pair[0] < least or pair[1] < least:
        short = "kernel" if what == "kernel_size" else "pad" if what == "padding" else what
        said = "kernel size" if what == "kernel_size" else what
        bound = "greater than zero" if least == 1 else "non-negative"
        raise RuntimeError(
            f"[{name}] {said} should be {bound}, but got {short}_height: {pair[0]} {short}_width: {pair[1]}"
        )
    return pair


@rule
def patch_counts(
    sizes: "int[]", kernel: "int[]", dilation: "int[]", padding: "int[]", stride: "int[]", name: "str"
) -> "int[]":
    """How many patches fit along the height and the width."""
    counts: "int[]" = []
    for i in range(2):
        room = sizes[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1
        counts.append(room // stride[i] + 1)
    if counts[0] < 1 or counts[1] < 1:
        raise RuntimeError(
            f"[{name}] Given input with spatial size ({sizes[0]}, {sizes[1]}), kernel_size=({kernel[0]}, {kernel[1]}), dilation=({dilation[0]}, {dilation[1]}), padding=({padding[0]}, {padding[1]}), calculated shape of the array of sliding blocks as ({counts[0]}, {counts[1]}), but its components must be at least one."
        )
    return counts


@rule
def check_patch_dtype(self: "Tensor", name: "str") -> "none":
    if is_integral(self.dtype) and self.dtype != dt.bool_:
        refuse_dtype(name, self.dtype)


@native(
    "_unfold_patches(Tensor self, int[] kernel, int[] dilation, int[] padding, int[] stride) -> Tensor", variants=""
)
def _unfold_patches(self, kernel, dilation, padding, stride):
    """The patches of (N, C, H, W) as the columns of (N, C kh kw, patches)."""
    n = patch_counts(self.shape[2:], kernel, dilation, padding, stride, "unfold")
    return Out([self.shape[0], self.shape[1] * kernel[0] * kernel[1], n[0] * n[1]], self.dtype)


@native(
    "_fold_patches(Tensor self, int[] sizes, int[] kernel, int[] dilation, int[] padding, int[] stride) -> Tensor",
    variants="",
)
def _fold_patches(self, sizes, kernel, dilation, padding, stride):
    """The adjoint of _unfold_patches: columns added up where their patches lie."""
    return Out([self.shape[0], self.shape[1] // (kernel[0] * kernel[1]), *sizes], self.dtype)


@composite(
    "nn_im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
    variants="function",
    node="Im2ColBackward0",
    samples=lambda t: [((t(2, 3, 4, 5), 2, 1, 1, 2), {})],
)
def nn_im2col(self, kernel_size, dilation, padding, stride):
    """The patches of pictures as columns: (N, C, H, W) becomes (N, C kh kw, patches)."""
    kernel = check_two(kernel_size, "kernel_size", "unfold", 1)
    spread = check_two(dilation, "dilation", "unfold", 1)
    pad = check_two(padding, "padding", "unfold", 0)
    step = check_two(stride, "stride", "unfold", 1)
    batched = self.ndim == 4
    if self.ndim < 3:
        raise IndexError(f"[unfold] Expected 3D or 4D (batch mode) tensor for input, but got: {self.shape}")
    if self.ndim > 4 or any(n == 0 for n in self.shape[self.ndim - 3 :]):
        raise RuntimeError(
            f"[unfold] Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: {self.shape}"
        )
    check_patch_dtype(self, "unfold")
    x = self if batched else self.unsqueeze(0)
    columns = op._unfold_patches(x, kernel, spread, pad, step)
    return columns if batched else columns.squeeze_(0)


@gradient(nn_im2col, "self")
def im2col_gradient(grad, self, kernel_size, dilation, padding, stride):
    return op.nn_col2im(grad, self.shape[self.ndim - 2 :], kernel_size, dilation, padding, stride)


@composite(
    "nn_col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
    variants="function",
    node="Col2ImBackward0",
    samples=lambda t: [((t(2, 12, 12), (4, 5), 2, 1, 0, 1), {})],
    core=True,
)
def nn_col2im(self, output_size, kernel_size, dilation, padding, stride):
    """Columns added up to pictures of output_size, each where its patch lies."""
    check_patch_dtype(self, "fold")
    sizes = check_two(output_size, "output_size", "fold", 1)
    kernel = check_two(kernel_size, "kernel_size", "fold", 1)
    spread = check_two(dilation, "dilation", "fold", 1)
    pad = check_two(padding, "padding", "fold", 0)
    step = check_two(stride, "stride", "fold", 1)
    if self.ndim != 2 and self.ndim != 3:
        raise RuntimeError(
            f"[fold] Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, but got: {self.shape}"
        )
    batched = self.ndim == 3
    x = self if batched else self.unsqueeze(0)
    if x.shape[1] == 0 or x.shape[2] == 0:
        raise RuntimeError(f"[fold] Expected non-zero dimensions for input, but got: {self.shape}")
    area = kernel[0] * kernel[1]
    if x.shape[1] % area != 0:
        raise RuntimeError(
            f"[fold] Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)={x.shape[1]} and kernel_size={kernel}."
        )
    n = patch_counts(sizes, kernel, spread, pad, step, "fold")
    if x.shape[2] != n[0] * n[1]:
        raise RuntimeError(
            f"[fold] Given output_size={sizes}, kernel_size={kernel}, dilation={spread}, padding={pad}, stride={step}, expected size of input's dimension 2 to match the calculated number of sliding blocks {n[0]} * {n[1]} = {n[0] * n[1]}, but got input.size(2)={x.shape[2]}."
        )
    picture = op._fold_patches(x, sizes, kernel, spread, pad, step)
    return picture if batched else picture.squeeze_(0)


@gradient(nn_col2im, "self")
def col2im_gradient(grad, kernel_size, dilation, padding, stride):
    return op.nn_im2col(grad, kernel_size, dilation, padding, stride)


@composite(
    "nn_unfold(Tensor self, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] stride=1) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 3, 4, 5), 2), {"stride": 2})],
    aten=(),
    word="im2col_out_cpu",
)
def nn_unfold(self, kernel_size, dilation, padding, stride):
    """The patches of pictures as columns: (N, C, H, W) becomes (N, C kh kw, patches)."""
    return op.nn_im2col(self, kernel_size, dilation, padding, stride)


@composite(
    "nn_fold(Tensor self, int[2] output_size, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] stride=1) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 12, 12), (4, 5), 2), {})],
    word="col2im_out_cpu",
)
def nn_fold(self, output_size, kernel_size, dilation, padding, stride):
    """Columns added up to pictures of output_size, each where its patch lies."""
    return op.nn_col2im(self, output_size, kernel_size, dilation, padding, stride)


@composite(
    "native_channel_shuffle(Tensor self, SymInt groups) -> Tensor",
    variants="function",
    aliases=("nn.native_channel_shuffle",),
    samples=lambda t: [((t(2, 6, 3), 3), {})],
)
def native_channel_shuffle(self, groups):
    """Channels of (N, C, ...) dealt out from `groups` groups in turn."""
    return op.channel_shuffle(self, groups)
