"""Pooling: maxima and averages over windows of pictures, windows that adapt to a size, and the way back (unpooling).

The windows are laid out by `_max_windows` and `_average_windows`, for two and three spatial dims; signals with one are
pictures of height one.
"""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.pooling_checks import check_picture, check_windows, is_adaptive_max, per_dim, refuse_output
from tocha.operators.record import NUMERIC, composite, gradient, native, op, rule
from tocha.operators.rules import (
    Out,
    asked,
    c_name,
    cat_strides,
    computes,
    contiguous_strides,
    is_integral,
    product,
    refuse_dtype,
)

# -- sizes -------------------------------------------------------------------------------------------


@rule
def stride_or_kernel(stride: "int[]?", kernel: "int[]", name: "str") -> "int[]":
    """The stride is the kernel's size where none is given."""
    if stride is None:
        return kernel
    if len(stride) == 0:
        return kernel
    return per_dim(stride, len(kernel), "stride", name)


@rule
def pooled_size(size: "int", kernel: "int", stride: "int", padding: "int", dilation: "int", ceil_mode: "bool") -> "int":
    """How many windows fit; with ceil_mode the last may stick out, but must begin inside."""
    reach = dilation * (kernel - 1) + 1
    room = size + 2 * padding - reach
    out = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (out - 1) * stride >= size + padding:
        out -= 1
    return out


@rule
def pooled_sizes(
    self: "Tensor",
    kernel: "int[]",
    stride: "int[]",
    padding: "int[]",
    dilation: "int[]",
    ceil_mode: "bool",
    name: "str",
) -> "int[]":
    """The spatial sizes of a pooling's result."""
    check_windows(name, kernel, stride, padding, dilation)
    check_picture(self, len(kernel), name)
    first = self.ndim - len(kernel)
    sizes = [
        pooled_size(self.shape[first + i], kernel[i], stride[i], padding[i], dilation[i], ceil_mode)
        for i in range(len(kernel))
    ]
    if any(n < 1 for n in sizes):
        refuse_output(self, kernel, sizes, name)
    return sizes


@rule
def adapted_sizes(self: "Tensor", output_size: "int[]", spatial: "int", name: "str") -> "int[]":
    """output_size for each spatial dim of a checked input."""
    check_picture(self, spatial, name)
    sizes = per_dim(output_size, spatial, "output_size", name)
    if any(s < 0 for s in sizes):
        if is_adaptive_max(name):
            raise RuntimeError(f"[{name}] Trying to create tensor with negative dimension {min(sizes)}: {sizes}")
        raise RuntimeError(
            f"[{name}] {name}: elements of output_size must be greater than or equal to 0 but received {sizes}"
        )
    return sizes


@rule
def check_pooled_dtype(self: "Tensor", integers: "bool", name: "str") -> "none":
    if self.is_complex() or self.dtype == dt.bool_ or (is_integral(self.dtype) and not integers):
        refuse_dtype(name, self.dtype)
    if self.dtype == dt.uint16 or self.dtype == dt.uint32 or self.dtype == dt.uint64:
        refuse_dtype(name, self.dtype)


@rule
def picture_strides(model: "Tensor", sizes: "int[]", spatial: "int") -> "int[]":
    """The layout of results: channels last where model is a batch that lies so."""
    return cat_strides(sizes, [model]) if model.ndim == spatial + 2 else contiguous_strides(sizes)


# -- what the kernels do -----------------------------------------------------------------------------


@native(
    "_max_windows(Tensor self, int[] sizes, int[] kernel, int[] stride, int[] padding, int[] dilation) -> (Tensor, Tensor)",
    variants="",
)
def _max_windows(self, sizes, kernel, stride, padding, dilation):
    """The largest of each window and its place in the plane. Without a kernel the windows adapt to the sizes."""
    shape = [*self.shape[: self.ndim - len(sizes)], *sizes]
    strides = picture_strides(self, shape, len(sizes))
    return Out(shape, self.dtype, strides=strides), Out(shape, dt.int64, strides=strides)


@native(
    "_max_lines(Tensor self, int size, int kernel, int stride, int padding, int dilation) -> Tensor",
    algorithm="selection",
    variants="",
)
def _max_lines(self, size, kernel, stride, padding, dilation):
    """The largest of each window of a signal, without its place, as a picture of height one."""
    return Out([*self.shape[: self.ndim - 1], 1, size], self.dtype)


@native(
    "_average_windows(Tensor self, int[] sizes, int[] kernel, int[] stride, int[] padding, bool count_include_pad, int divisor) -> Tensor",
    variants="",
)
def _average_windows(self, sizes, kernel, stride, padding, count_include_pad, divisor):
    """The average of each window; the divisor is the window's size where 0. Without a kernel the windows adapt."""
    shape = [*self.shape[: self.ndim - len(sizes)], *sizes]
    return Out(shape, self.dtype, strides=picture_strides(self, shape, len(sizes)))


@native(
    "_average_windows_backward(Tensor self, int[] shape, int[] sizes, int[] kernel, int[] stride, int[] padding, bool count_include_pad, int divisor) -> Tensor",
    variants="",
)
def _average_windows_backward(self, shape, sizes, kernel, stride, padding, count_include_pad, divisor):
    """The adjoint of _average_windows: each value's share at all places of its window."""
    return Out(shape, self.dtype, strides=picture_strides(self, shape, len(sizes)))


@gradient(_average_windows, "self")
def average_windows_gradient(grad, self, sizes, kernel, stride, padding, count_include_pad, divisor):
    return op._average_windows_backward(grad, self.shape, sizes, kernel, stride, padding, count_include_pad, divisor)


@gradient(_average_windows_backward, "self")
def average_windows_backward_gradient(grad, sizes, kernel, stride, padding, count_include_pad, divisor):
    return op._average_windows(grad, sizes, kernel, stride, padding, count_include_pad, divisor)


@native("_scatter_places(Tensor self, Tensor indices, int[] sizes, bool add) -> Tensor", variants="")
def _scatter_places(self, indices, sizes, add):
    """Planes of these sizes that have self's elements at the given places, zeros elsewhere; what meets adds up or not."""
    if self.shape != indices.shape:
        raise RuntimeError(
            f"[max_pool] expected values and indices of one shape, but got {self.shape} and {indices.shape}"
        )
    shape = [*self.shape[: self.ndim - len(sizes)], *sizes]
    return Out(shape, self.dtype, strides=picture_strides(indices, shape, len(sizes)))


@rule
def gather_places(planes: "Tensor", indices: "Tensor", spatial: "int") -> "Tensor":
    """The elements of planes at the given places: what _scatter_places reads backwards."""
    lead = list(indices.shape[: indices.ndim - spatial])
    flat = planes.reshape([*lead, product(planes.shape[planes.ndim - spatial :])])
    places = indices.reshape([*lead, product(indices.shape[indices.ndim - spatial :])])
    return flat.gather(-1, places).reshape(indices.shape)


@gradient(_scatter_places, "self")
def scatter_places_gradient(grad, indices, sizes):
    return gather_places(grad, indices, len(sizes))


@rule
def to_places(grad: "Tensor", self: "Tensor", indices: "Tensor", spatial: "int") -> "Tensor":
    """The gradient of maxima: all of it goes to where they stood."""
    return op._scatter_places(grad, indices, self.shape[self.ndim - spatial :], True)


# -- maxima ------------------------------------------------------------------------------------------


@rule
def max_pool(
    self: "Tensor",
    kernel_size: "int[]",
    stride: "int[]?",
    padding: "int[]",
    dilation: "int[]",
    ceil_mode: "bool",
    spatial: "int",
    name: "str",
) -> "(Tensor|Tensor)":
    check_pooled_dtype(self, True, name)
    kernel = per_dim(kernel_size, spatial, "kernel_size", name)
    steps = stride_or_kernel(stride, kernel, name)
    pad = per_dim(padding, spatial, "padding", name)
    spread = per_dim(dilation, spatial, "dilation", name)
    sizes = pooled_sizes(self, kernel, steps, pad, spread, ceil_mode, name)
    return op._max_windows(self, sizes, kernel, steps, pad, spread)


@composite(
    "nn_max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2]? stride=None, int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
    variants="function",
    differentiable=(0,),
    node="MaxPool2DWithIndicesBackward0",
    flat=("self",),
    samples=lambda t: [((t(2, 3, 6, 7), 3), {"stride": 2, "padding": 1}), ((t(3, 6, 6), (2, 3)), {"dilation": 2})],
    aten=(
        "max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
    ),
    core=True,
)
def nn_max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode):
    """The largest of each window of a picture, and its place in the plane."""
    return max_pool(self, kernel_size, stride, padding, dilation, ceil_mode, 2, "max_pool2d")


@gradient(nn_max_pool2d_with_indices, "self")
def max_pool2d_gradient(grad, self, result1):
    return to_places(grad, self, result1, 2)


@composite(
    "nn_max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3]? stride=None, int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
    variants="function",
    differentiable=(0,),
    node="MaxPool3DWithIndicesBackward0",
    flat=("self",),
    samples=lambda t: [((t(2, 3, 4, 5, 6), 2), {"padding": 1})],
    aten=(
        "max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
    ),
    core=True,
)
def nn_max_pool3d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode):
    """The largest of each window of a volume, and its place in the volume."""
    return max_pool(self, kernel_size, stride, padding, dilation, ceil_mode, 3, "max_pool3d")


@gradient(nn_max_pool3d_with_indices, "self")
def max_pool3d_gradient(grad, self, result1):
    return to_places(grad, self, result1, 3)


@composite(
    "max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor",
    variants="",
    core=True,
    whole=True,
)
def max_pool2d_with_indices_backward(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices):
    """The gradient of max_pool2d's input."""
    if self.ndim != 3 and self.ndim != 4:
        raise RuntimeError(
            f"[max_pool2d_with_indices_backward] non-empty 3D or 4D (batch mode) tensor expected for input, got {self.shape}"
        )
    if indices.dtype != dt.int64:
        raise RuntimeError(f"[max_pool2d_with_indices_backward] expected scalar type Long but found {indices.dtype}")
    if grad_output.dtype != self.dtype:
        raise RuntimeError(
            f"[max_pool2d_with_indices_backward] expected dtype {c_name(self.dtype)} for `gradOutput` but got dtype {c_name(grad_output.dtype)}"
        )
    return to_places(grad_output, self, indices, 2)


@gradient(max_pool2d_with_indices_backward, "grad_output")
def max_pool2d_backward_gradient(grad, indices):
    return gather_places(grad, indices, 2)


@gradient(max_pool2d_with_indices_backward, "self")
def max_pool2d_backward_flat_gradient(grad):
    return op.zeros_like(grad)


@rule
def signal_windows(
    self: "Tensor", kernel_size: "int[]", stride: "int[]?", padding: "int[]", dilation: "int[]", ceil_mode: "bool"
) -> "int[]":
    """How many windows a signal has, and their kernel, stride, padding and dilation; refuses in max_pool1d's name."""
    check_pooled_dtype(self, False, "max_pool1d")
    kernel = per_dim(kernel_size, 1, "kernel_size", "max_pool1d")
    step = stride_or_kernel(stride, kernel, "max_pool1d")
    pad = per_dim(padding, 1, "padding", "max_pool1d")
    spread = per_dim(dilation, 1, "dilation", "max_pool1d")
    sizes = pooled_sizes(self, kernel, step, pad, spread, ceil_mode, "max_pool1d")
    return [sizes[0], kernel[0], step[0], pad[0], spread[0]]


@composite(
    "max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, int[1] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
    variants="function",
    samples=lambda t: [((t(2, 3, 7), 3), {"stride": 2, "padding": 1})],
    aten=(
        "max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> (Tensor, Tensor)",
    ),
)
def max_pool1d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode):
    """The largest of each window of a signal, and its place."""
    w = signal_windows(self, kernel_size, stride, padding, dilation, ceil_mode)
    out, places = op.nn_max_pool2d_with_indices(
        self.unsqueeze(-2), [1, w[1]], [1, w[2]], [0, w[3]], [1, w[4]], ceil_mode
    )
    return out.squeeze(-2), places.squeeze(-2)


@composite(
    "max_pool1d(Tensor self, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, int[1] dilation=1, bool ceil_mode=False) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 3, 7), 3), {"stride": 2, "padding": 1})],
    aten=(
        "max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> Tensor",
    ),
    word="max_pool1d_impl",
)
def max_pool1d(self, kernel_size, stride, padding, dilation, ceil_mode):
    """The largest of each window of a signal."""
    if computes(self) and not asked(self) and self.is_contiguous():
        w = signal_windows(self, kernel_size, stride, padding, dilation, ceil_mode)
        return op._max_lines(self, w[0], w[1], w[2], w[3], w[4]).squeeze(-2)
    return op.max_pool1d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)[0]


@composite(
    "max_pool2d(Tensor self, int[2] kernel_size, int[2]? stride=None, int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 3, 6, 7), 3), {"stride": 2, "padding": 1})],
    aten=(
        "max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor",
    ),
    word="max_pool2d",
)
def max_pool2d(self, kernel_size, stride, padding, dilation, ceil_mode):
    """The largest of each window of a picture."""
    return op.nn_max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)[0]


@composite(
    "max_pool3d(Tensor self, int[3] kernel_size, int[3]? stride=None, int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> Tensor",
    variants="function",
    autocast="float32",
    samples=lambda t: [((t(2, 3, 4, 5, 6), 2), {"padding": 1})],
    aten=(
        "max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> Tensor",
    ),
    word="max_pool3d",
)
def max_pool3d(self, kernel_size, stride, padding, dilation, ceil_mode):
    """The largest of each window of a volume."""
    return op.nn_max_pool3d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)[0]


# -- averages ----------------------------------------------------------------------------------------


@rule
def average_pool(
    self: "Tensor",
    kernel_size: "int[]",
    stride: "int[]?",
    padding: "int[]",
    ceil_mode: "bool",
    count_include_pad: "bool",
    divisor_override: "int?",
    spatial: "int",
    name: "str",
) -> "Tensor":
    if name == "avg_pool2d":
        self.size(-3)  # as PyTorch does first, and refuses so
    if self.dtype != dt.int64:
        check_pooled_dtype(self, False, name)
    if divisor_override is not None and divisor_override == 0:
        raise RuntimeError(f"[{name}] divisor must be not zero")
    kernel = per_dim(kernel_size, spatial, "kernel_size", name)
    steps = stride_or_kernel(stride, kernel, name)
    pad = per_dim(padding, spatial, "padding", name)
    sizes = pooled_sizes(self, kernel, steps, pad, [1] * spatial, ceil_mode, name)
    divisor = 0 if divisor_override is None else divisor_override
    return op._average_windows(self, sizes, kernel, steps, pad, count_include_pad, divisor)


@rule
def average_pool_gradient(
    grad: "Tensor",
    self: "Tensor",
    kernel_size: "int[]",
    stride: "int[]?",
    padding: "int[]",
    count_include_pad: "bool",
    divisor_override: "int?",
    spatial: "int",
) -> "Tensor":
    kernel = per_dim(kernel_size, spatial, "kernel_size", "avg_pool")
    steps = stride_or_kernel(stride, kernel, "avg_pool")
    pad = per_dim(padding, spatial, "padding", "avg_pool")
    sizes = grad.shape[grad.ndim - spatial :]
    divisor = 0 if divisor_override is None else divisor_override
    return op._average_windows_backward(grad, self.shape, sizes, kernel, steps, pad, count_include_pad, divisor)


@composite(
    "nn_avg_pool2d(Tensor self, int[2] kernel_size, int[2]? stride=None, int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
    variants="function, out",
    tags={"exact_out"},
    node="AvgPool2DBackward0",
    flat=("self",),
    samples=lambda t: [((t(2, 3, 6, 7), 3), {"stride": 2, "padding": 1}), ((t(3, 6, 6), (2, 3)), {"ceil_mode": True})],
    aten=(
        "avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
    ),
    core=True,
    word="avg_pool2d",
)
def nn_avg_pool2d(self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    """The average of each window of a picture."""
    return average_pool(
        self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 2, "avg_pool2d"
    )


@gradient(nn_avg_pool2d, "self")
def avg_pool2d_gradient(grad, self, kernel_size, stride, padding, count_include_pad, divisor_override):
    return average_pool_gradient(grad, self, kernel_size, stride, padding, count_include_pad, divisor_override, 2)


@composite(
    "nn_avg_pool3d(Tensor self, int[3] kernel_size, int[3]? stride=None, int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
    variants="function, out",
    tags={"exact_out"},
    node="AvgPool3DBackward0",
    flat=("self",),
    samples=lambda t: [((t(2, 3, 4, 5, 6), 2), {"padding": 1, "divisor_override": 3})],
    aten=(
        "avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
    ),
    core=True,
    word="avg_pool3d_out_frame",
)
def nn_avg_pool3d(self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    """The average of each window of a volume; channels do not stay last."""
    return average_pool(
        self.contiguous(), kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 3, "avg_pool3d"
    )


@gradient(nn_avg_pool3d, "self")
def avg_pool3d_gradient(grad, self, kernel_size, stride, padding, count_include_pad, divisor_override):
    return average_pool_gradient(grad, self, kernel_size, stride, padding, count_include_pad, divisor_override, 3)


@composite(
    "avg_pool1d(Tensor self, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, bool ceil_mode=False, bool count_include_pad=True) -> Tensor",
    variants="function",
    aliases=("nn.avg_pool1d",),
    samples=lambda t: [((t(2, 3, 7), 3), {"stride": 2, "padding": 1})],
    aten=(
        "avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False, bool count_include_pad=True) -> Tensor",
    ),
    core=True,
)
def avg_pool1d(self, kernel_size, stride, padding, ceil_mode, count_include_pad):
    """The average of each window of a signal."""
    kernel = per_dim(kernel_size, 1, "kernel_size", "avg_pool1d")
    step = stride_or_kernel(stride, kernel, "avg_pool1d")
    pad = per_dim(padding, 1, "padding", "avg_pool1d")
    pooled_sizes(self, kernel, step, pad, [1], ceil_mode, "avg_pool1d")  # refuses in its own name
    return op.nn_avg_pool2d(
        self.unsqueeze(-2), [1, kernel[0]], [1, step[0]], [0, pad[0]], ceil_mode, count_include_pad
    ).squeeze(-2)


# -- windows that adapt ------------------------------------------------------------------------------


@rule
def adaptive_average(self: "Tensor", output_size: "int[]", spatial: "int", name: "str") -> "Tensor":
    check_pooled_dtype(self, False, name)
    none: "int[]" = []
    sizes = adapted_sizes(self, output_size, spatial, name)
    return op._average_windows(self, sizes, none, none, none, False, 0)


@rule
def adaptive_average_gradient(grad: "Tensor", self: "Tensor", spatial: "int") -> "Tensor":
    none: "int[]" = []
    return op._average_windows_backward(grad, self.shape, grad.shape[grad.ndim - spatial :], none, none, none, False, 0)


@rule
def adaptive_max(self: "Tensor", output_size: "int[]", spatial: "int", name: "str") -> "(Tensor|Tensor)":
    check_pooled_dtype(self, False, name)
    none: "int[]" = []
    sizes = adapted_sizes(self, output_size, spatial, name)
    return op._max_windows(self, sizes, none, none, none, none)


@composite(
    "nn_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor",
    variants="function",
    aliases=("_adaptive_avg_pool2d",),
    node="AdaptiveAvgPool2DBackward0",
    flat=("self",),
    samples=lambda t: [((t(2, 3, 6, 7), (2, 3)), {}), ((t(2, 3, 6, 7), 1), {})],
    core=("_adaptive_avg_pool2d",),
    word="adaptive_avg_pool2d",
)
def nn_adaptive_avg_pool2d(self, output_size):
    """Averages over as many windows as output_size says, which divide the picture evenly."""
    return adaptive_average(self, output_size, 2, "adaptive_avg_pool2d")


@gradient(nn_adaptive_avg_pool2d, "self")
def adaptive_avg_pool2d_gradient(grad, self):
    return adaptive_average_gradient(grad, self, 2)


@composite(
    "nn_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor",
    variants="function",
    aliases=("_adaptive_avg_pool3d",),
    node="AdaptiveAvgPool3DBackward0",
    flat=("self",),
    samples=lambda t: [((t(2, 3, 4, 5, 6), (2, 3, 4)), {})],
    core=("_adaptive_avg_pool3d",),
)
def nn_adaptive_avg_pool3d(self, output_size):
    """Averages over as many windows as output_size says, which divide the volume evenly."""
    return adaptive_average(self.contiguous(), output_size, 3, "adaptive_avg_pool3d")


@gradient(nn_adaptive_avg_pool3d, "self")
def adaptive_avg_pool3d_gradient(grad, self):
    return adaptive_average_gradient(grad, self, 3)


@composite(
    "adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor",
    variants="function",
    aliases=("nn.adaptive_avg_pool1d",),
    samples=lambda t: [((t(2, 3, 7), 3), {})],
    core=True,
)
def adaptive_avg_pool1d(self, output_size):
    """Averages over as many windows as output_size says, which divide the signal evenly."""
    sizes = adapted_sizes(self, output_size, 1, "adaptive_avg_pool1d")
    return op.nn_adaptive_avg_pool2d(self.unsqueeze(-2), [1, sizes[0]]).squeeze(-2)


@composite(
    "nn_adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)",
    variants="function",
    differentiable=(0,),
    node="AdaptiveMaxPool2DBackward0",
    flat=("self",),
    samples=lambda t: [((t(2, 3, 6, 7), (2, 3)), {})],
    word="adaptive_max_pool2d",
)
def nn_adaptive_max_pool2d(self, output_size):
    """Maxima over as many windows as output_size says, which divide the picture evenly, and their places."""
    return adaptive_max(self, output_size, 2, "adaptive_max_pool2d")


@gradient(nn_adaptive_max_pool2d, "self")
def adaptive_max_pool2d_gradient(grad, self, result1):
    return to_places(grad, self, result1, 2)


@composite(
    "nn_adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)",
    variants="function",
    differentiable=(0,),
    node="AdaptiveMaxPool3DBackward0",
    flat=("self",),
    samples=lambda t: [((t(2, 3, 4, 5, 6), (2, 3, 4)), {})],
)
def nn_adaptive_max_pool3d(self, output_size):
    """Maxima over as many windows as output_size says, which divide the volume evenly, and their places."""
    return adaptive_max(self.contiguous(), output_size, 3, "adaptive_max_pool3d")


@gradient(nn_adaptive_max_pool3d, "self")
def adaptive_max_pool3d_gradient(grad, self, result1):
    return to_places(grad, self, result1, 3)


@composite(
    "adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)",
    variants="function",
    samples=lambda t: [((t(2, 3, 7), 3), {})],
)
def adaptive_max_pool1d(self, output_size):
    """Maxima over as many windows as output_size says, which divide the signal evenly, and their places."""
    sizes = adapted_sizes(self, output_size, 1, "adaptive_max_pool1d")
    out, places = op.nn_adaptive_max_pool2d(self.unsqueeze(-2), [1, sizes[0]])
    return out.squeeze(-2), places.squeeze(-2)


# -- windows at random places ------------------------------------------------------------------------


@native("_fractional_max(Tensor self, int[] kernel, int[] sizes, Tensor samples) -> (Tensor, Tensor)", variants="")
def _fractional_max(self, kernel, sizes, samples):
    """The largest of windows whose places one random number per plane and dim decides, and its place in the plane."""
    shape = [*self.shape[: self.ndim - len(sizes)], *sizes]
    return Out(shape, self.dtype), Out(shape, dt.int64)


@rule
def fractional_max(
    self: "Tensor", kernel_size: "int[]", output_size: "int[]", samples: "Tensor", spatial: "int", name: "str"
) -> "(Tensor|Tensor)":
    check_pooled_dtype(self, False, name)
    check_picture(self, spatial, name)
    kernel = per_dim(kernel_size, spatial, "kernel_size", name)
    sizes = per_dim(output_size, spatial, "output_size", name)
    first = self.ndim - spatial
    for i in range(spatial):
        if sizes[i] + kernel[i] - 1 > self.shape[first + i]:
            raise RuntimeError(
                f"[{name}] pool size {kernel[i]} too large relative to input size {self.shape[first + i]} for output size {sizes[i]}"
            )
    batch = self.shape[0] if self.ndim == spatial + 2 else 1
    if samples.dtype != self.dtype:
        raise RuntimeError(f"[{name}] Expect _random_samples to have the same dtype as input, got {samples.dtype}")
    if (
        samples.ndim != 3
        or samples.shape[0] < batch
        or samples.shape[1] < self.shape[first - 1]
        or samples.shape[2] != spatial
    ):
        raise RuntimeError(
            f"[{name}] Expect _random_samples of shape {[batch, self.shape[first - 1], spatial]}, got {samples.shape}"
        )
    return op._fractional_max(self, kernel, sizes, samples)


@composite(
    "nn_fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor random_samples) -> (Tensor, Tensor)",
    variants="function",
    differentiable=(0,),
    node="FractionalMaxPool2DBackward0",
    flat=("self",),
    samples=lambda t: [((t(2, 3, 6, 7), 2, (3, 4), t(2, 3, 2, low=0, high=0.9)), {})],
    word="fractional_max_pool2d_out_frame",
)
def nn_fractional_max_pool2d(self, kernel_size, output_size, random_samples):
    """The largest of each of output_size windows at random distances, and its place in the plane."""
    return fractional_max(self, kernel_size, output_size, random_samples, 2, "fractional_max_pool2d")


@gradient(nn_fractional_max_pool2d, "self")
def fractional_max_pool2d_gradient(grad, self, result1):
    return to_places(grad, self, result1, 2)


@composite(
    "nn_fractional_max_pool3d(Tensor self, int[3] kernel_size, int[3] output_size, Tensor random_samples) -> (Tensor, Tensor)",
    variants="function",
    differentiable=(0,),
    node="FractionalMaxPool3DBackward0",
    flat=("self",),
    samples=lambda t: [((t(2, 3, 4, 5, 6), 2, (2, 3, 4), t(2, 3, 3, low=0, high=0.9)), {})],
    word="fractional_max_pool3d_out_frame",
)
def nn_fractional_max_pool3d(self, kernel_size, output_size, random_samples):
    """The largest of each of output_size windows at random distances, and its place in the volume."""
    return fractional_max(self, kernel_size, output_size, random_samples, 3, "fractional_max_pool3d")


@gradient(nn_fractional_max_pool3d, "self")
def fractional_max_pool3d_gradient(grad, self, result1):
    return to_places(grad, self, result1, 3)


# -- the way back ------------------------------------------------------------------------------------


@rule
def unpool(self: "Tensor", indices: "Tensor", output_size: "int[]", spatial: "int", name: "str") -> "Tensor":
    if self.is_complex():
        refuse_dtype(name, self.dtype)
    if indices.dtype != dt.int64:
        raise RuntimeError(f"[{name}] elements in indices should be type int64 but got: {indices.dtype}")
    if self.ndim != spatial + 1 and self.ndim != spatial + 2:
        raise RuntimeError(
            f"[{name}] Input to max_unpooling{spatial}d should be a {spatial + 1}d or {spatial + 2}d Tensor, but got a tensor with {self.ndim} dimensions."
        )
    if len(output_size) != spatial:
        axes = "two elements (height, width)" if spatial == 2 else "three elements (depth, height, width)"
        raise RuntimeError(
            f"[{name}] There should be exactly {axes} in output_size, but got {len(output_size)} elements."
        )
    if self.shape != indices.shape:
        raise RuntimeError(
            f"[{name}] Expected shape of indices to be same as that of the input tensor ({self.shape}) but got indices tensor with shape: {indices.shape}"
        )
    for d in range(self.ndim - spatial, self.ndim):
        if self.shape[d] == 0:
            raise RuntimeError(
                f"[{name}] Expected input to have non-zero size for non-batch dimensions, got {self.shape}"
            )
    if any(s <= 0 for s in output_size):
        raise RuntimeError(f"[{name}] Expected output_size to be positive, but got {output_size}")
    return op._scatter_places(self, indices, output_size, False)


@composite(
    "nn_max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor",
    nondeterministic="max_unpooling2d_forward_out",
    dtypes=NUMERIC,
    variants="function",
    node="MaxUnpool2DBackward0",
    samples=lambda t: [((t(1, 2, 2, 2), t.of([[[[0, 3], [8, 11]], [[5, 2], [9, 15]]]]), (4, 4)), {})],
    word="max_unpool2d",
)
def nn_max_unpool2d(self, indices, output_size):
    """self's elements at the given places of planes of output_size, zeros elsewhere."""
    return unpool(self, indices, output_size, 2, "max_unpool2d")


@gradient(nn_max_unpool2d, "self")
def max_unpool2d_gradient(grad, indices):
    return gather_places(grad, indices, 2)


@composite(
    "nn_max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding) -> Tensor",
    nondeterministic="max_unpooling3d_forward_out",
    dtypes=NUMERIC,
    variants="function",
    node="MaxUnpool3DBackward0",
    samples=lambda t: [((t(1, 1, 1, 2, 2), t.of([[[[[0, 3], [8, 11]]]]]), (2, 3, 4), 2, 0), {})],
    word="max_unpool3d",
)
def nn_max_unpool3d(self, indices, output_size, stride, padding):
    """self's elements at the given places of volumes of output_size, zeros elsewhere."""
    if any(s <= 0 for s in stride):
        raise RuntimeError(f"[max_unpool3d] strides should be greater than zero, but got stride: {stride}")
    return unpool(self, indices, output_size, 3, "max_unpool3d")


@gradient(nn_max_unpool3d, "self")
def max_unpool3d_gradient(grad, indices):
    return gather_places(grad, indices, 3)
