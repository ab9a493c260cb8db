"""Convolutions over one to three dims, their transposes and their gradients.

Every public form comes down to `_real_convolution`; its gradients are records of their own, whose gradients are
convolutions again, so that derivatives of any order follow.
"""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.record import FLOATS, composite, gradient, native, op, rule
from tocha.operators.rules import Out, c_name, cat_strides, contiguous_strides, is_float8, refuse_dtype, warn_once


@rule
def convolution_name(weight: "int[]", transposed: "bool") -> "str":
    """What messages call a convolution with this weight."""
    return f"conv_transpose{len(weight) - 2}d" if transposed else f"conv{len(weight) - 2}d"


@rule
def one_per_dim(name: "str", what: "str", values: "int[]", n: "int") -> "int[]":
    """One value for each of n dims; a single one serves all."""
    if len(values) == n:
        return values
    if len(values) != 1:
        raise RuntimeError(
            f"[{name}] expected {what} to be a single integer value or a list of {n} values to match the convolution dimensions, but got {what}={values}"
        )
    return values * n


@rule
def check_real(name: "str", t: "Tensor") -> "none":
    if t.is_complex() or is_float8(t.dtype):
        refuse_dtype(name, t.dtype)


@rule
def convolution_strides(sizes: "int[]", input: "Tensor", weight: "Tensor") -> "int[]":
    """channels_last when the input or the weight is laid out so."""
    strides = cat_strides(sizes, [input])
    return cat_strides(sizes, [weight]) if strides == contiguous_strides(sizes) else strides


@rule
def check_numbers(name: "str", stride: "int[]", padding: "int[]", dilation: "int[]", groups: "int") -> "none":
    if groups <= 0:
        raise RuntimeError(f"[{name}] non-positive groups is not supported, but got groups={groups}")
    if any(s <= 0 for s in stride):
        raise RuntimeError(f"[{name}] non-positive stride is not supported, but got stride={stride}")
    if any(p < 0 for p in padding):
        raise RuntimeError(f"[{name}] negative padding is not supported, but got padding={padding}")
    if any(d <= 0 for d in dilation):
        raise RuntimeError(f"[{name}] dilation should be greater than zero, but got dilation={dilation}")


@rule
def check_types(
    name: "str", input: "Tensor", weight: "Tensor", bias: "Tensor?", dilation: "int[]", transposed: "bool"
) -> "none":
    if bias is not None and bias.dtype != input.dtype:
        raise RuntimeError(
            f"[{name}] Input type ({c_name(input.dtype)}) and bias type ({c_name(bias.dtype)}) should be the same"
        )
    if input.dtype != weight.dtype:
        raise RuntimeError(
            f"[{name}] Input type (torch.{input.dtype}Tensor) and weight type (torch.{weight.dtype}Tensor) should be the same or input should be a MKLDNN tensor and weight is a dense tensor: expected scalar type {input.dtype} but found {weight.dtype}"
        )
    d = input.dtype
    spread = transposed or any(x != 1 for x in dilation)
    narrow = d == dt.uint8 or d == dt.int8 or d == dt.int16 or d == dt.int32
    whole = not input.is_floating_point() and not input.is_complex() and d != dt.int64
    if is_float8(d) or (whole and (spread or not narrow)):
        if spread and not transposed:
            raise NotImplementedError(f"[{name}] \"slow_conv_dilated<>\" not implemented for '{d}'")
        refuse_dtype(name, d)


@rule
def check_channels_of_convolution(
    name: "str", input: "Tensor", weight: "Tensor", bias: "Tensor?", transposed: "bool", groups: "int"
) -> "none":
    if weight.shape[0] < groups:
        raise RuntimeError(
            f"[{name}] Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size {weight.shape} instead"
        )
    if weight.shape[0] % groups != 0:
        raise RuntimeError(
            f"[{name}] Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size {weight.shape} instead"
        )
    if any(k == 0 for k in weight.shape[2:]):
        raise RuntimeError(f"[{name}] the kernel must not be empty, but got weight of shape {weight.shape}")
    channels = weight.shape[0] if transposed else weight.shape[1] * groups
    given = f"transposed={1 if transposed else 0}" if transposed else f"groups={groups}"
    if input.shape[1] != channels:
        raise RuntimeError(
            f"[{name}] Given {given}, weight of size {weight.shape}, expected input{input.shape} to have {channels} channels, but got {input.shape[1]} channels instead"
        )
    outputs = weight.shape[1] * groups if transposed else weight.shape[0]
    if bias is not None and (bias.ndim != 1 or bias.shape[0] != outputs):
        of = f"{given}, weight" if transposed else "weight"
        raise RuntimeError(
            f"[{name}] Given {of} of size {weight.shape}, expected bias to be 1-dimensional with {outputs} elements, but got bias of size {bias.shape} instead"
        )


@rule
def extents(sizes: "int[]") -> "str":
    """3 x 5"""
    text = ""
    for i in range(len(sizes)):
        text = f"{text} x {sizes[i]}" if i > 0 else f"{sizes[i]}"
    return text


@rule
def refuse_kernel(name: "str", input: "int[]", weight: "int[]", padding: "int[]", dilation: "int[]") -> "none":
    n = len(padding)
    padded = [input[i + 2] + 2 * padding[i] for i in range(n)]
    reach = [dilation[i] * (weight[i + 2] - 1) + 1 for i in range(n)]
    raise RuntimeError(
        f"[{name}] Calculated padded input size per channel: ({extents(padded)}). Kernel size: ({extents(reach)}). Kernel size can't be greater than actual input size"
    )


@rule
def convolved_sizes(
    name: "str",
    input: "Tensor",
    weight: "Tensor",
    stride: "int[]",
    padding: "int[]",
    dilation: "int[]",
) -> "int[]":
    # No channels in, no channels out, whatever the weight says: PyTorch's rule.
    sizes = [input.shape[0], weight.shape[0] if input.shape[1] > 0 else 0]
    for i in range(len(stride)):
        padded = input.shape[i + 2] + 2 * padding[i]
        reach = dilation[i] * (weight.shape[i + 2] - 1) + 1
        if padded < reach:
            refuse_kernel(name, input.shape, weight.shape, padding, dilation)
        sizes.append((padded - reach) // stride[i] + 1)
    return sizes


@rule
def transposed_sizes(
    name: "str",
    input: "Tensor",
    weight: "Tensor",
    stride: "int[]",
    padding: "int[]",
    dilation: "int[]",
    output_padding: "int[]",
    groups: "int",
) -> "int[]":
    sizes = [input.shape[0], weight.shape[1] * groups]
    for i in range(len(stride)):
        extra = output_padding[i]
        if extra < 0:
            raise RuntimeError(
                f"[{name}] negative output_padding is not supported, but got output_padding={output_padding}"
            )
        if extra >= stride[i] and extra >= dilation[i]:
            raise RuntimeError(
                f"[{name}] output padding must be smaller than either stride or dilation, but got output_padding: {output_padding} stride: {stride} dilation: {dilation}"
            )
        n = (input.shape[i + 2] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (weight.shape[i + 2] - 1) + extra + 1
        sizes.append(n)
    if any(n <= 0 for n in sizes[2:]):
        raise RuntimeError(
            f"[{name}] Given input size per channel: ({extents(input.shape[2:])}). Calculated output size per channel: ({extents(sizes[2:])}). Output size is too small"
        )
    return sizes


def _convolution_samples(t):
    return [
        ((t(2, 4, 6, 5), t(3, 4, 3, 2), t(3), [2, 1], [1, 0], [1, 2], False, [0, 0], 1), {}),
        ((t(1, 4, 5), t(4, 2, 3), None, [2], [1], [1], True, [1], 2), {}),
    ]


@native(
    "_real_convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups) -> Tensor",
    algorithm="convolution",
    kernel="convolution",
    variants="",
    node="ConvolutionBackward0",
)
def _real_convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """A convolution of real numbers, with one number per dim for each setting."""
    name = convolution_name(weight.shape, transposed)
    if input.shape[0] != 0 and input.shape[1] != 0 and any(n == 0 for n in input.shape[2:]):
        raise RuntimeError(
            f"[{name}] Only zero batch or zero channel inputs are supported, but got input shape: {input.shape}"
        )
    if transposed:
        sizes = transposed_sizes(name, input, weight, stride, padding, dilation, output_padding, groups)
        return Out(sizes, input.dtype, strides=convolution_strides(sizes, input, weight))
    found = convolved_sizes(name, input, weight, stride, padding, dilation)
    return Out(found, input.dtype, strides=convolution_strides(found, input, weight))


@gradient(_real_convolution, "input")
def convolution_to_input(grad, input, weight, stride, padding, dilation, transposed, output_padding, groups):
    return op._convolution_input_gradient(
        grad, weight, input.shape, stride, padding, dilation, transposed, output_padding, groups
    )


@gradient(_real_convolution, "weight")
def convolution_to_weight(grad, input, weight, stride, padding, dilation, transposed, output_padding, groups):
    return op._convolution_weight_gradient(
        grad, input, weight.shape, stride, padding, dilation, transposed, output_padding, groups
    )


@rule
def sum_of_channels(grad: "Tensor") -> "Tensor":
    return grad.sum([0, *range(2, grad.ndim)])


@gradient(_real_convolution, "bias")
def convolution_to_bias(grad):
    return sum_of_channels(grad)


@native(
    "_convolution_input_gradient(Tensor grad_output, Tensor weight, int[] input_size, int[] stride, int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups) -> Tensor",
    algorithm="convolution",
    kernel="convolution_input_gradient",
    variants="",
)
def _convolution_input_gradient(
    grad_output, weight, input_size, stride, padding, dilation, transposed, output_padding, groups
):
    """What a convolution's input of this size gets of the gradient of its result."""
    if not grad_output.is_floating_point():
        refuse_dtype("convolution_backward", grad_output.dtype)
    check_real("convolution_backward", grad_output)
    return Out(input_size, grad_output.dtype, strides=convolution_strides(input_size, grad_output, weight))


@gradient(_convolution_input_gradient, "grad_output")
def input_gradient_to_grad(grad, weight, stride, padding, dilation, transposed, output_padding, groups):
    return op._real_convolution(grad, weight, None, stride, padding, dilation, transposed, output_padding, groups)


@gradient(_convolution_input_gradient, "weight")
def input_gradient_to_weight(grad, grad_output, weight, stride, padding, dilation, transposed, output_padding, groups):
    return op._convolution_weight_gradient(
        grad_output, grad, weight.shape, stride, padding, dilation, transposed, output_padding, groups
    )


@native(
    "_convolution_weight_gradient(Tensor grad_output, Tensor input, int[] weight_size, int[] stride, int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups) -> Tensor",
    algorithm="convolution",
    kernel="convolution_weight_gradient",
    variants="",
)
def _convolution_weight_gradient(
    grad_output, input, weight_size, stride, padding, dilation, transposed, output_padding, groups
):
    """What a convolution's weight of this size gets of the gradient of its result."""
    if not grad_output.is_floating_point():
        refuse_dtype("convolution_backward", grad_output.dtype)
    check_real("convolution_backward", grad_output)
    return Out(weight_size, input.dtype, strides=convolution_strides(weight_size, input, grad_output))


@gradient(_convolution_weight_gradient, "grad_output")
def weight_gradient_to_grad(grad, input, stride, padding, dilation, transposed, output_padding, groups):
    return op._real_convolution(input, grad, None, stride, padding, dilation, transposed, output_padding, groups)


@gradient(_convolution_weight_gradient, "input")
def weight_gradient_to_input(grad, grad_output, input, stride, padding, dilation, transposed, output_padding, groups):
    return op._convolution_input_gradient(
        grad_output, grad, input.shape, stride, padding, dilation, transposed, output_padding, groups
    )


@composite(
    "convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
    variants="function",
    samples=_convolution_samples,
    core=True,
    whole=True,
)
def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """The convolution that the rank of weight, `transposed` and the settings describe."""
    if weight.ndim < 3 or weight.ndim > 5:
        raise RuntimeError(f"[convolution] expected a weight of 3 to 5 dims, but got {weight.shape}")
    name = convolution_name(weight.shape, transposed)
    if input.ndim != weight.ndim:
        raise RuntimeError(
            f"[{name}] expected {weight.ndim}-dimensional input for weight of shape {weight.shape}, but got input of shape {input.shape}"
        )
    n = weight.ndim - 2
    strides = one_per_dim(name, "stride", stride, n)
    paddings = one_per_dim(name, "padding", padding, n)
    dilations = one_per_dim(name, "dilation", dilation, n)
    extras = one_per_dim(name, "output_padding", output_padding, n)
    check_numbers(name, strides, paddings, dilations, groups)
    check_types(name, input, weight, bias, dilations, transposed)
    check_channels_of_convolution(name, input, weight, bias, transposed, groups)
    if not input.is_complex():
        return op._real_convolution(input, weight, bias, strides, paddings, dilations, transposed, extras, groups)
    a, b, c, d = op.real(input), op.imag(input), op.real(weight), op.imag(weight)
    first: "Tensor?" = None
    second: "Tensor?" = None
    if bias is not None:
        first = op.real(bias)
        second = op.imag(bias)
    ac = op._real_convolution(a, c, first, strides, paddings, dilations, transposed, extras, groups)
    bd = op._real_convolution(b, d, None, strides, paddings, dilations, transposed, extras, groups)
    ad = op._real_convolution(a, d, second, strides, paddings, dilations, transposed, extras, groups)
    bc = op._real_convolution(b, c, None, strides, paddings, dilations, transposed, extras, groups)
    return op.complex(ac - bd, ad + bc)


@composite(
    "_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, int[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled, bool allow_tf32=True) -> Tensor",
    variants="function",
    samples=lambda t: [((*a, False, True, True), {}) for a, _ in _convolution_samples(t)],
    aten=(
        "_convolution.deprecated(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, int[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled) -> Tensor",
        "_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor",
    ),
    whole=True,
)
def _convolution(
    input,
    weight,
    bias,
    stride,
    padding,
    dilation,
    transposed,
    output_padding,
    groups,
    benchmark,
    deterministic,
    cudnn_enabled,
    allow_tf32,
):
    """convolution; the last four settings are other devices'."""
    return op.convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


@composite(
    "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    dtypes=FLOATS,
    variants="function",
    samples=lambda t: [
        (
            (t(2, 3, 4, 4), t(2, 4, 6, 6), t(3, 4, 3, 3), [3], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True] * 3),
            {},
        )
    ],
    core=True,
    whole=True,
)
def convolution_backward(
    grad_output,
    input,
    weight,
    bias_sizes,
    stride,
    padding,
    dilation,
    transposed,
    output_padding,
    groups,
    output_mask,
):
    """The gradients of a convolution's input, weight and bias; empty where output_mask does not ask for them."""
    empty = [0]
    to_input = op.empty(empty, dtype=grad_output.dtype, device=grad_output.device)
    to_weight = to_input
    to_bias = to_input
    if output_mask[0]:
        to_input = op._convolution_input_gradient(
            grad_output, weight, input.shape, stride, padding, dilation, transposed, output_padding, groups
        )
    if output_mask[1]:
        to_weight = op._convolution_weight_gradient(
            grad_output, input, weight.shape, stride, padding, dilation, transposed, output_padding, groups
        )
    if output_mask[2]:
        to_bias = sum_of_channels(grad_output)
    return to_input, to_weight, to_bias


@rule
def batched(
    name: "str",
    input: "Tensor",
    weight: "Tensor",
    bias: "Tensor?",
    stride: "int[]",
    padding: "int[]",
    dilation: "int[]",
    transposed: "bool",
    output_padding: "int[]",
    groups: "int",
    n: "int",
) -> "Tensor":
    """A convolution over n dims of an input that may lack the batch."""
    if input.ndim != n + 1 and input.ndim != n + 2:
        raise RuntimeError(
            f"[{name}] Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, but got input of size: {input.shape}"
        )
    check_weight(name, input, weight, n)
    if input.ndim == n + 2:
        return op.convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    alone = op.convolution(
        input.unsqueeze(0), weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )
    return alone.squeeze(0)


@rule
def check_weight(name: "str", input: "Tensor", weight: "Tensor", n: "int") -> "none":
    if weight.ndim < 3:
        raise RuntimeError(f"[{name}] weight should have at least three dimensions, but got {weight.shape}")
    if weight.ndim != n + 2:
        raise RuntimeError(
            f"[{name}] Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional weight {weight.shape}, but got {input.ndim}-dimensional input of size {input.shape} instead"
        )


@rule
def same_padding(name: "str", weight: "int[]", stride: "int[]", dilation: "int[]") -> "int[]":
    """How many zeros in all keep the size, per dim."""
    if any(s != 1 for s in stride):
        raise RuntimeError(
            f"[{name}] padding='same' is not supported for strided convolutions, but got stride={stride}"
        )
    n = len(weight) - 2
    dilations = one_per_dim(name, "dilation", dilation, n)
    return [dilations[i] * (weight[i + 2] - 1) for i in range(n)]


@rule
def padded_by_name(
    name: "str",
    input: "Tensor",
    weight: "Tensor",
    bias: "Tensor?",
    stride: "int[]",
    padding: "str",
    dilation: "int[]",
    groups: "int",
    n: "int",
) -> "Tensor":
    """A convolution whose padding is 'valid' (none) or 'same' (the size stays)."""
    none = [0] * n
    if padding == "valid":
        return batched(name, input, weight, bias, stride, none, dilation, False, none, groups, n)
    if padding != "same":
        raise RuntimeError(f"[{name}] Invalid padding string: '{padding}'. It must be 'valid' or 'same'")
    check_weight(name, input, weight, n)
    total = same_padding(name, weight.shape, stride, dilation)
    half = [t // 2 for t in total]
    if all(t % 2 == 0 for t in total):
        return batched(name, input, weight, bias, stride, half, dilation, False, none, groups, n)
    warn_once(
        "Using padding='same' with even kernel lengths and odd dilation may require a zero-padded copy of the input be created"
    )
    ends: "int[]" = []
    for i in reversed(range(n)):
        ends.extend([0, total[i] % 2])
    return batched(
        name, op.constant_pad_nd(input, ends, 0), weight, bias, stride, half, dilation, False, none, groups, n
    )


@composite(
    "conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=1, SymInt[1] padding=0, SymInt[1] dilation=1, SymInt groups=1) -> Tensor",
    variants="function",
    autocast="lower",
    aliases=("nn.conv1d",),
    samples=lambda t: [
        ((t(2, 4, 7), t(3, 4, 3), t(3)), {"stride": 2, "padding": 1}),
        ((t(4, 7), t(6, 2, 2)), {"groups": 2}),
    ],
    word="slow_conv2d_cpu",
)
def conv1d(input, weight, bias, stride, padding, dilation, groups):
    """Slides weight [out, in / groups, k] along the last dim of input [batch, in, n] (or [in, n])."""
    return batched("conv1d", input, weight, bias, stride, padding, dilation, False, [0], groups, 1)


@composite(
    "conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=1, str padding='valid', SymInt[1] dilation=1, SymInt groups=1) -> Tensor",
    variants="function",
    autocast="lower",
    aliases=("nn.conv1d",),
    samples=lambda t: [((t(2, 4, 7), t(3, 4, 3)), {"padding": "same"})],
)
def conv1d_padding(input, weight, bias, stride, padding, dilation, groups):
    """conv1d whose padding is 'valid' or 'same'."""
    return padded_by_name("conv1d", input, weight, bias, stride, padding, dilation, groups, 1)


@composite(
    "conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, SymInt[2] dilation=1, SymInt groups=1) -> Tensor",
    variants="function",
    autocast="lower",
    aliases=("nn.conv2d",),
    samples=lambda t: [
        ((t(2, 4, 6, 5), t(3, 4, 3, 3), t(3)), {"stride": 2, "padding": (1, 0)}),
        ((t(4, 6, 6), t(6, 2, 2, 3)), {"groups": 2, "dilation": 2}),
        ((t(2, 3, 8, 8), t(4, 3, 1, 1), t(4)), {}),
    ],
    word="slow_conv2d_cpu",
)
def conv2d(input, weight, bias, stride, padding, dilation, groups):
    """Slides weight [out, in / groups, kh, kw] over the last two dims of input [batch, in, h, w] (or [in, h, w])."""
    return batched("conv2d", input, weight, bias, stride, padding, dilation, False, [0], groups, 2)


@composite(
    "conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, str padding='valid', SymInt[2] dilation=1, SymInt groups=1) -> Tensor",
    variants="function",
    autocast="lower",
    aliases=("nn.conv2d",),
    samples=lambda t: [((t(2, 4, 6, 5), t(3, 4, 3, 2)), {"padding": "same", "dilation": 2})],
)
def conv2d_padding(input, weight, bias, stride, padding, dilation, groups):
    """conv2d whose padding is 'valid' or 'same'."""
    return padded_by_name("conv2d", input, weight, bias, stride, padding, dilation, groups, 2)


@composite(
    "conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=1, SymInt[3] padding=0, SymInt[3] dilation=1, SymInt groups=1) -> Tensor",
    variants="function",
    autocast="lower",
    aliases=("nn.conv3d",),
    samples=lambda t: [((t(2, 4, 4, 5, 6), t(3, 4, 3, 2, 3), t(3)), {"stride": (1, 2, 1), "padding": 1})],
    word="slow_conv3d_cpu",
)
def conv3d(input, weight, bias, stride, padding, dilation, groups):
    """Slides weight [out, in / groups, kd, kh, kw] over the last three dims of input [batch, in, d, h, w]."""
    return batched("conv3d", input, weight, bias, stride, padding, dilation, False, [0], groups, 3)


@composite(
    "conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=1, str padding='valid', SymInt[3] dilation=1, SymInt groups=1) -> Tensor",
    variants="function",
    autocast="lower",
    aliases=("nn.conv3d",),
    samples=lambda t: [((t(2, 4, 4, 5, 6), t(3, 4, 3, 1, 3)), {"padding": "same"})],
)
def conv3d_padding(input, weight, bias, stride, padding, dilation, groups):
    """conv3d whose padding is 'valid' or 'same'."""
    return padded_by_name("conv3d", input, weight, bias, stride, padding, dilation, groups, 3)


@composite(
    "_convolution_mode(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, str padding, SymInt[] dilation, SymInt groups) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 4, 6, 5), t(3, 4, 3, 3), None, [1, 1], "same", [1, 1], 1), {})],
)
def _convolution_mode(input, weight, bias, stride, padding, dilation, groups):
    """The convolution of weight's rank whose padding is 'valid' or 'same'."""
    n = weight.ndim - 2
    return padded_by_name(f"conv{n}d", input, weight, bias, stride, padding, dilation, groups, n)


@composite(
    "conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=1, SymInt[1] padding=0, SymInt[1] output_padding=0, SymInt groups=1, SymInt[1] dilation=1) -> Tensor",
    variants="function",
    autocast="lower",
    aliases=("nn.conv_transpose1d",),
    samples=lambda t: [((t(2, 4, 5), t(4, 3, 3), t(3)), {"stride": 2, "padding": 1, "output_padding": 1})],
    word="slow_conv_transpose2d_out_cpu",
)
def conv_transpose1d(input, weight, bias, stride, padding, output_padding, groups, dilation):
    """What conv1d's gradient does: spreads each element of input [batch, in, n] through weight [in, out / groups, k]."""
    return batched("conv_transpose1d", input, weight, bias, stride, padding, dilation, True, output_padding, groups, 1)


@composite(
    "conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, SymInt[2] output_padding=0, SymInt groups=1, SymInt[2] dilation=1) -> Tensor",
    variants="function",
    autocast="lower",
    aliases=("nn.conv_transpose2d",),
    samples=lambda t: [((t(2, 4, 3, 5), t(4, 3, 3, 2), t(6)), {"stride": (2, 1), "groups": 2})],
    word="slow_conv_transpose2d_out_cpu",
)
def conv_transpose2d(input, weight, bias, stride, padding, output_padding, groups, dilation):
    """What conv2d's gradient does: spreads each pixel of input [batch, in, h, w] through weight [in, out / groups, kh, kw]."""
    return batched("conv_transpose2d", input, weight, bias, stride, padding, dilation, True, output_padding, groups, 2)


@composite(
    "conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=1, SymInt[3] padding=0, SymInt[3] output_padding=0, SymInt groups=1, SymInt[3] dilation=1) -> Tensor",
    variants="function",
    autocast="lower",
    aliases=("nn.conv_transpose3d",),
    samples=lambda t: [((t(1, 4, 2, 3, 3), t(4, 3, 2, 3, 3)), {"stride": 2, "padding": 1})],
    word="slow_conv_transpose3d_out_cpu",
)
def conv_transpose3d(input, weight, bias, stride, padding, output_padding, groups, dilation):
    """What conv3d's gradient does: spreads each element of input through weight [in, out / groups, kd, kh, kw]."""
    return batched("conv_transpose3d", input, weight, bias, stride, padding, dilation, True, output_padding, groups, 3)


@composite(
    "conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor",
    variants="function",
    autocast="lower",
    aliases=("nn.conv_tbc",),
    samples=lambda t: [((t(5, 2, 3), t(3, 3, 4), t(4), 1), {})],
    whole=True,
)
def conv_tbc(self, weight, bias, pad):
    """conv1d of an input laid out [time, batch, channels], with weight [k, in, out]."""
    if self.ndim != 3 or weight.ndim != 3 or bias.ndim != 1:
        raise RuntimeError(
            f"[conv_tbc] expected input and weight of 3 dims and bias of 1, but got {self.shape}, {weight.shape} and {bias.shape}"
        )
    if self.shape[2] != weight.shape[1] or weight.shape[2] != bias.shape[0]:
        raise RuntimeError(
            f"[conv_tbc] the channels of input {self.shape}, weight {weight.shape} and bias {bias.shape} do not fit"
        )
    along = op.convolution(self.permute([1, 2, 0]), weight.permute([2, 1, 0]), bias, [1], [pad], [1], False, [0], 1)
    return along.permute([2, 0, 1]).contiguous()
