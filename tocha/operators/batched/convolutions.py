"""Convolutions: samples of a batch are more pictures where the weight is shared, and more groups where it is not."""

from __future__ import annotations

from tocha.operators.convolution import _convolution_input_gradient, _convolution_weight_gradient, _real_convolution
from tocha.operators.record import batching


def in_channels(x, size):
    """(B, N, C, ...) as (N, B C, ...)."""
    return x.movedim(0, 1).flatten(1, 2)


def out_of_channels(x, size):
    """(N, B C, ...) as (B, N, C, ...)."""
    return x.unflatten(1, [size, -1]).movedim(1, 0)


@batching(_real_convolution)
def convolution(b, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    rest = (stride, padding, dilation, transposed, output_padding)
    if not b.has(weight):
        pictures = b.all(input).flatten(0, 1)
        out = b.run(pictures, weight, None if b.has(bias) else bias, *rest, groups).unflatten(0, [b.size, -1])
    elif not b.has(input) and groups == 1:
        out = of_one_input(b, input, b.first(weight), rest, transposed)
    else:
        out = b.run(in_channels(b.all(input), b.size), b.first(weight).flatten(0, 1), None, *rest, groups * b.size)
        out = out_of_channels(out, b.size)
    if bias is None or not (b.has(bias) or b.has(weight)):
        return out
    shift = b.all(bias)
    return out + shift.reshape([b.size, 1, -1, *[1] * (out.ndim - 3)])


def of_one_input(b, input, weight, rest, transposed):
    """One picture under a batch of weights: their results are more channels."""
    if transposed:  # (B, in, out, ...) as (in, B out, ...)
        return out_of_channels(b.run(input, weight.movedim(0, 1).flatten(1, 2), None, *rest, 1), b.size)
    return out_of_channels(b.run(input, weight.flatten(0, 1), None, *rest, 1), b.size)


@batching(_convolution_input_gradient)
def to_input(b, grad_output, weight, input_size, stride, padding, dilation, transposed, output_padding, groups):
    rest = (stride, padding, dilation, transposed, output_padding)
    if not b.has(weight):
        size = [b.size * input_size[0], *input_size[1:]]
        return b.run(b.all(grad_output).flatten(0, 1), weight, size, *rest, groups).unflatten(0, [b.size, -1])
    size = [input_size[0], b.size * input_size[1], *input_size[2:]]
    grads = in_channels(b.all(grad_output), b.size)
    return out_of_channels(b.run(grads, b.first(weight).flatten(0, 1), size, *rest, groups * b.size), b.size)


@batching(_convolution_weight_gradient)
def to_weight(b, grad_output, input, weight_size, stride, padding, dilation, transposed, output_padding, groups):
    """Each sample has its own weight's gradient: a group of its own."""
    rest = (stride, padding, dilation, transposed, output_padding)
    size = [b.size * weight_size[0], *weight_size[1:]]
    grads, inputs = in_channels(b.all(grad_output), b.size), in_channels(b.all(input), b.size)
    return b.run(grads, inputs, size, *rest, groups * b.size).unflatten(0, [b.size, -1])
