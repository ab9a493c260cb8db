"""torchvision's operators, in place of its extension (which is linked against PyTorch): loaded by `ops.load_library`.

Forward formulas are written in tensor operations; each backward operator is the derivative of its forward, taken again.
torchvision itself registers gradients, shapes and autocast for these names.
"""

from __future__ import annotations

import math
from typing import Any

import tocha
from tocha import Tensor
from tocha.library import Library

_library = Library("torchvision", "DEF")
_ROI = "Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_SIZES = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_DEFORM = (
    "Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, "
    "SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask"
)


def _operator(schema: str) -> Any:
    def register(function: Any) -> Any:
        _library.define(schema)
        _library.impl(schema.partition("(")[0], function, "CPU")
        return function

    return register


@_operator("_cuda_version() -> int")
def _cuda_version() -> int:
    return -1


# -- boxes -------------------------------------------------------------------------------------------------


@_operator("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Boxes in the order of their scores, without those that overlap an earlier one by more than the threshold."""
    if dets.dim() != 2 or dets.size(1) != 4:
        raise RuntimeError(f"[nms] boxes should be a 2d tensor with 4 columns, got {tuple(dets.shape)}")
    if scores.dim() != 1 or dets.size(0) != scores.size(0):
        raise RuntimeError(
            f"[nms] boxes and scores should have same number of elements, got {dets.size(0)} and {tuple(scores.shape)}"
        )
    order = scores.argsort(descending=True, stable=True)
    boxes = dets[order]
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    dropped = tocha.zeros(len(boxes), dtype=tocha.bool)
    kept = []
    for i in range(len(boxes)):
        if dropped[i]:
            continue
        kept.append(i)
        low = tocha.maximum(boxes[i, :2], boxes[i + 1 :, :2])
        high = tocha.minimum(boxes[i, 2:], boxes[i + 1 :, 2:])
        inter = (high - low).clamp(min=0).prod(1)
        dropped[i + 1 :] |= inter / (areas[i] + areas[i + 1 :] - inter) > iou_threshold
    return order[tocha.tensor(kept, dtype=tocha.long)]


# -- bilinear samples --------------------------------------------------------------------------------------


def _bilinear(image: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """image (C, H, W) at points of any shape: beyond one pixel outside it is zero, nearer the edge is repeated."""
    height, width = image.shape[-2:]
    inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
    y, x = y.clamp(0, height - 1), x.clamp(0, width - 1)
    y0, x0 = y.floor().long(), x.floor().long()
    y1, x1 = (y0 + 1).clamp(max=height - 1), (x0 + 1).clamp(max=width - 1)
    ly, lx = y - y0, x - x0
    top = image[:, y0, x0] * (1 - lx) + image[:, y0, x1] * lx
    bottom = image[:, y1, x0] * (1 - lx) + image[:, y1, x1] * lx
    return (top * (1 - ly) + bottom * ly) * inside


def _grid(start: Tensor, size: Tensor, bins: int, samples: int) -> Tensor:
    """Sample points along one side: (bins, samples)."""
    steps = tocha.arange(bins, dtype=start.dtype)[:, None] + (tocha.arange(samples, dtype=start.dtype) + 0.5) / samples
    return start + steps * (size / bins)


def _samples(size: Tensor, bins: int, ratio: int) -> int:
    return ratio if ratio > 0 else max(0, math.ceil(float(size) / bins))


def _mean(values: Tensor) -> Tensor:
    """Over the samples of each bin: zero where a region is so small that it has none."""
    return values.sum((2, 4)) / max(1, values.size(2) * values.size(4))


@_operator(f"roi_align(Tensor input, {_ROI}, int sampling_ratio, bool aligned) -> Tensor")
def roi_align(input: Tensor, rois: Tensor, scale: float, ph: int, pw: int, ratio: int, aligned: bool) -> Tensor:
    """The mean of bilinear samples in each bin of each region."""
    out = []
    for roi in rois:
        image = input[int(roi[0])]
        x1, y1, x2, y2 = roi[1:] * scale - (0.5 if aligned else 0.0)
        w, h = (x2 - x1, y2 - y1) if aligned else ((x2 - x1).clamp(min=1), (y2 - y1).clamp(min=1))
        ys = _grid(y1, h, ph, _samples(h, ph, ratio))
        xs = _grid(x1, w, pw, _samples(w, pw, ratio))
        values = _bilinear(image, ys[:, :, None, None], xs[None, None])
        out.append(_mean(values))
    return tocha.stack(out) if out else input.new_zeros((0, input.size(1), ph, pw))


def _empty_and_channels(input: Tensor, ph: int, pw: int) -> int:
    if input.size(1) % (ph * pw):
        raise RuntimeError("input channels must be a multiple of pooling height * pooling width")
    return input.size(1) // (ph * pw)


def _mapping(rois: Tensor, channels: int, ph: int, pw: int) -> Tensor:
    """Which channel of the input each output reads."""
    return tocha.arange(channels * ph * pw, dtype=tocha.int32).reshape(channels, ph, pw).repeat(len(rois), 1, 1, 1)


@_operator(f"ps_roi_align(Tensor input, {_ROI}, int sampling_ratio) -> (Tensor, Tensor)")
def ps_roi_align(input: Tensor, rois: Tensor, scale: float, ph: int, pw: int, ratio: int) -> tuple[Tensor, Tensor]:
    """As roi_align, each bin from channels of its own."""
    channels = _empty_and_channels(input, ph, pw)
    out = []
    rows, columns = tocha.arange(ph)[:, None], tocha.arange(pw)
    for roi in rois:
        x1, y1, x2, y2 = roi[1:] * scale - 0.5
        ys = _grid(y1, y2 - y1, ph, _samples(y2 - y1, ph, ratio))
        xs = _grid(x1, x2 - x1, pw, _samples(x2 - x1, pw, ratio))
        values = _bilinear(input[int(roi[0])], ys[:, :, None, None], xs[None, None])
        values = _mean(values)
        out.append(values.reshape(channels, ph, pw, ph, pw)[:, rows, columns, rows, columns])
    pooled = tocha.stack(out) if out else input.new_zeros((0, channels, ph, pw))
    return pooled, _mapping(rois, channels, ph, pw)


# -- whole pixels ------------------------------------------------------------------------------------------


def _bins(start: float, size: float, bins: int, limit: int) -> list[tuple[int, int]]:
    """The pixels of each bin, within the image."""
    edges = [(math.floor(b * size / bins + start), math.ceil((b + 1) * size / bins + start)) for b in range(bins)]
    return [(min(max(a, 0), limit), min(max(b, 0), limit)) for a, b in edges]


def _round(value: Tensor) -> int:
    """Half away from zero, as C's round."""
    v = float(value)
    return math.floor(abs(v) + 0.5) * (1 if v >= 0 else -1)


@_operator(f"roi_pool(Tensor input, {_ROI}) -> (Tensor, Tensor)")
def roi_pool(input: Tensor, rois: Tensor, scale: float, ph: int, pw: int) -> tuple[Tensor, Tensor]:
    """The largest pixel of each bin, and where it is."""
    _, channels, height, width = input.shape
    pooled = input.new_zeros((len(rois), channels, ph, pw))
    where = tocha.full((len(rois), channels, ph, pw), -1, dtype=tocha.int32)
    for n, roi in enumerate(rois):
        image = input[int(roi[0])]
        x1, y1, x2, y2 = (_round(v) for v in roi[1:] * scale)
        for i, (top, bottom) in enumerate(_bins(y1, max(y2 - y1 + 1, 1), ph, height)):
            for j, (left, right) in enumerate(_bins(x1, max(x2 - x1 + 1, 1), pw, width)):
                if bottom <= top or right <= left:
                    continue
                values, index = image[:, top:bottom, left:right].flatten(1).max(1)
                pooled[n, :, i, j] = values
                where[n, :, i, j] = ((index // (right - left) + top) * width + index % (right - left) + left).int()
    return pooled, where


@_operator(f"ps_roi_pool(Tensor input, {_ROI}) -> (Tensor, Tensor)")
def ps_roi_pool(input: Tensor, rois: Tensor, scale: float, ph: int, pw: int) -> tuple[Tensor, Tensor]:
    """The mean of each bin, each from channels of its own."""
    channels = _empty_and_channels(input, ph, pw)
    height, width = input.shape[-2:]
    out = []
    for roi in rois:
        image = input[int(roi[0])].reshape(channels, ph, pw, height, width)
        x1, y1, x2, y2 = (_round(v) for v in roi[1:] * scale)
        rows = _bins(y1, max(y2 - y1, 1), ph, height)
        columns = _bins(x1, max(x2 - x1, 1), pw, width)
        parts = [
            image[:, i, j, top:bottom, left:right].mean((1, 2))
            if bottom > top and right > left
            else input.new_zeros(channels)
            for i, (top, bottom) in enumerate(rows)
            for j, (left, right) in enumerate(columns)
        ]
        out.append(tocha.stack(parts, 1).reshape(channels, ph, pw))
    return (tocha.stack(out) if out else input.new_zeros((0, channels, ph, pw))), _mapping(rois, channels, ph, pw)


# -- deformable convolution --------------------------------------------------------------------------------


@_operator(f"deform_conv2d(Tensor input, {_DEFORM}) -> Tensor")
def deform_conv2d(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, sh: int, sw: int, ph: int, pw: int, dh: int, dw: int,
    groups: int, offset_groups: int, use_mask: bool,
) -> Tensor:  # fmt: skip
    """A convolution whose taps are moved by offsets (and weighed by a mask): samples, then a product."""
    batch, channels, height, width = input.shape
    out_channels, _, kh, kw = weight.shape
    oh = (height + 2 * ph - dh * (kh - 1) - 1) // sh + 1
    ow = (width + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    moved = offset.reshape(batch, offset_groups, kh, kw, 2, oh, ow)
    kind = input.dtype
    base_y = (tocha.arange(oh, dtype=kind) * sh - ph)[:, None] + (tocha.arange(kh, dtype=kind) * dh)[
        :, None, None, None
    ]
    base_x = (tocha.arange(ow, dtype=kind) * sw - pw) + (tocha.arange(kw, dtype=kind) * dw)[:, None, None]
    samples = []
    for b in range(batch):
        for g in range(offset_groups):
            part = input[b].reshape(offset_groups, -1, height, width)[g]
            found = _zero_outside(part, base_y + moved[b, g, :, :, 0], base_x + moved[b, g, :, :, 1])
            samples.append(found * mask[b].reshape(offset_groups, kh, kw, oh, ow)[g] if use_mask else found)
    columns = tocha.stack(samples).reshape(batch, groups, channels // groups * kh * kw, oh * ow)
    kernels = weight.reshape(groups, out_channels // groups, -1)
    return (kernels @ columns).reshape(batch, out_channels, oh, ow) + bias.reshape(1, -1, 1, 1)


def _zero_outside(image: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Bilinear samples of an image that is zero around it."""
    height, width = image.shape[-2:]
    y0, x0 = y.floor(), x.floor()
    total: Any = 0
    for dy in (0, 1):
        for dx in (0, 1):
            row, column = y0 + dy, x0 + dx
            weight = (1 - (y - row).abs()) * (1 - (x - column).abs())
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            value = image[:, row.clamp(0, height - 1).long(), column.clamp(0, width - 1).long()]
            total = total + value * (weight * inside)
    return total


# -- backward ----------------------------------------------------------------------------------------------


def _pulled_back(forward: Any, grad: Tensor, *wanted: Tensor) -> tuple[Tensor, ...]:
    """The gradients of forward(*wanted), run again with history."""
    with tocha.enable_grad():
        leaves = [w.detach().requires_grad_() for w in wanted]
        out = forward(*leaves)
        if not out.requires_grad:
            return tuple(tocha.zeros_like(w) for w in wanted)
        found = tocha.autograd.grad(out, leaves, grad, allow_unused=True)
    return tuple(tocha.zeros_like(w) if g is None else g for g, w in zip(found, wanted, strict=True))


@_operator(f"_roi_align_backward(Tensor grad, {_ROI}, {_SIZES}, int sampling_ratio, bool aligned) -> Tensor")
def _roi_align_backward(grad, rois, scale, ph, pw, n, c, h, w, ratio, aligned):
    return _pulled_back(
        lambda x: roi_align(x, rois, scale, ph, pw, ratio, aligned), grad, grad.new_zeros((n, c, h, w))
    )[0]


@_operator(
    f"_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, {_SIZES}) -> Tensor"
)
def _ps_roi_align_backward(grad, rois, mapping, scale, ph, pw, ratio, n, c, h, w):
    return _pulled_back(lambda x: ps_roi_align(x, rois, scale, ph, pw, ratio)[0], grad, grad.new_zeros((n, c, h, w)))[0]


@_operator(
    f"_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, SymInt pooled_height, SymInt pooled_width, {_SIZES}) -> Tensor"
)
def _ps_roi_pool_backward(grad, rois, mapping, scale, ph, pw, n, c, h, w):
    return _pulled_back(lambda x: ps_roi_pool(x, rois, scale, ph, pw)[0], grad, grad.new_zeros((n, c, h, w)))[0]


@_operator(
    f"_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, SymInt pooled_height, SymInt pooled_width, {_SIZES}) -> Tensor"
)
def _roi_pool_backward(grad, rois, argmax, scale, ph, pw, n, c, h, w):
    out = grad.new_zeros((n, c, h * w))
    for k, roi in enumerate(rois):
        index = argmax[k].flatten(1).long()
        out[int(roi[0])].scatter_add_(1, index.clamp(min=0), grad[k].flatten(1) * (index >= 0))
    return out.reshape(n, c, h, w)


@_operator(f"_deform_conv2d_backward(Tensor grad, Tensor input, {_DEFORM}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)")
def _deform_conv2d_backward(grad, input, weight, offset, mask, bias, *settings):
    return _pulled_back(lambda *tensors: deform_conv2d(*tensors, *settings), grad, input, weight, offset, mask, bias)
