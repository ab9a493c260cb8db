"""torchvision's operators, in place of its extension (which is linked against PyTorch): loaded by `ops.load_library`.

Samples of images are weighted sums of rows of a table (one row for each pixel), which is what embedding_bag computes;
each backward operator is the derivative of its forward, taken again. torchvision itself registers gradients and shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tocha
from tocha import _C, Tensor
from tocha.library import Library
from tocha.nn.functional import embedding_bag

_library = Library("torchvision", "DEF")
_ROI = "Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_SIZES = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_MAPPED = "Tensor channel_mapping, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_DEFORM = (
    "Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, "
    "SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask"
)


def _operator(schema: str) -> Callable[[Callable], Callable]:
    def register(function: Callable) -> Callable:
        _library.define(schema)
        _library.impl(schema.partition("(")[0], function, "CPU")
        return function

    return register


# Known by name; there are no kernels for quantized tensors and turned boxes.
_library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
_library.define(
    "qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, float rois_scale, int rois_zero_point, "
    "float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor"
)
_library.define("box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor")


@_operator("_cuda_version() -> int")
def _cuda_version() -> int:
    return -1


_library.impl("_cuda_version", _cuda_version, "CompositeExplicitAutograd")  # it has no tensor to go by


# -- boxes -------------------------------------------------------------------------------------------------


def _check_boxes(dets: Tensor, scores: Tensor) -> None:
    if dets.dim() != 2:
        raise RuntimeError(f"[nms] boxes should be a 2d tensor, got {dets.dim()}D")
    if dets.size(1) != 4:
        raise RuntimeError(f"[nms] boxes should have 4 elements in dimension 1, got {dets.size(1)}")
    if scores.dim() != 1:
        raise RuntimeError(f"[nms] scores should be a 1d tensor, got {scores.dim()}D")
    if dets.size(0) != scores.size(0):
        raise RuntimeError(
            f"[nms] boxes and scores should have same number of elements in dimension 0, got {dets.size(0)} and {scores.size(0)}"
        )


@_operator("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Boxes in the order of their scores, without those that overlap an earlier one by more than the threshold."""
    _check_boxes(dets, scores)
    order = scores.argsort(descending=True, stable=True)
    return _C._keep_apart(_computed(dets), order, iou_threshold)


def _computed(t: Tensor) -> Tensor:
    """A tensor as the native loops take it: contiguous, of float32 or float64."""
    return (t if t.dtype in (tocha.float32, tocha.float64) else t.float()).detach().contiguous()


# -- samples -----------------------------------------------------------------------------------------------


def _summed(rows: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """For each place the weighted sum of rows; the last dimension of index and weight holds what is summed."""
    flat = index.reshape(-1, index.shape[-1])
    found = embedding_bag(flat, rows, mode="sum", per_sample_weights=weight.reshape(flat.shape))
    return found.reshape(*index.shape[:-1], rows.shape[1])


def _check_rois(input: Tensor, rois: Tensor) -> None:
    if rois.dim() != 2 or rois.size(1) != 5:
        raise RuntimeError(f"[roi] rois must have shape as Tensor[K, 5], got {tuple(rois.shape)}")
    if input.dtype != rois.dtype:
        raise RuntimeError(
            f"[roi] Expected tensor for input to have the same type as tensor for rois; but type {input.dtype} does not equal {rois.dtype}"
        )


def _axis(start: Tensor, size: Tensor, bins: int, samples: int, limit: int) -> tuple[Tensor, Tensor]:
    """Along one side of the regions: the two pixels of each sample and their weights, (regions, bins, 2 * samples).

    Beyond one pixel outside the image a sample is zero; nearer, the edge is repeated.
    """
    steps = (tocha.arange(samples, dtype=start.dtype) + 0.5) / max(samples, 1)
    at = tocha.arange(bins, dtype=start.dtype)[:, None] + steps
    at = start[:, None, None] + at * (size / bins)[:, None, None]
    inside = ((at >= -1) & (at <= limit)).to(start.dtype)
    at = at.clamp(0, limit - 1)
    low = at.floor()
    part = at - low
    pixels = tocha.stack([low, (low + 1).clamp(max=limit - 1)], -1).long()
    weights = tocha.stack([1 - part, part], -1) * inside[..., None]
    return pixels.flatten(2), weights.flatten(2)


def _aligned(
    rows: Tensor, first: Tensor, box: Tensor, bins: tuple[int, int], size: tuple[int, int], ratio: int
) -> Tensor:
    """Means of bilinear samples, (regions, bins, bins, channels). first: for each region and bin, its image's first row."""
    (ph, pw), (height, width) = bins, size
    x1, y1, w, h = box.unbind(1)
    counts = tocha.stack([(h / ph).ceil(), (w / pw).ceil()], 1).clamp(min=0).long()
    if ratio > 0:
        counts = tocha.full_like(counts, ratio)
    out = rows.new_zeros((len(box), ph, pw, rows.shape[1]))
    for gy, gx in counts.unique(dim=0).tolist():  # regions with equally many samples go together
        if not gy or not gx:
            continue
        chosen = ((counts[:, 0] == gy) & (counts[:, 1] == gx)).nonzero()[:, 0]
        yi, yw = _axis(y1[chosen], h[chosen], ph, gy, height)
        xi, xw = _axis(x1[chosen], w[chosen], pw, gx, width)
        index = first[chosen][..., None, None] + yi[:, :, None, :, None] * width + xi[:, None, :, None, :]
        weight = yw[:, :, None, :, None] * xw[:, None, :, None, :] / (gy * gx)
        out = out.index_put((chosen,), _summed(rows, index.flatten(3), weight.flatten(3)))
    return out


@_operator(f"roi_align(Tensor input, {_ROI}, int sampling_ratio, bool aligned) -> Tensor")
def roi_align(input: Tensor, rois: Tensor, scale: float, ph: int, pw: int, ratio: int, aligned: bool) -> Tensor:
    """The mean of bilinear samples in each bin of each region."""
    _check_rois(input, rois)
    if input.dtype == tocha.float16:
        return roi_align(input.float(), rois.float(), scale, ph, pw, ratio, aligned).half()
    height, width = input.shape[-2:]
    corners = rois[:, 1:] * scale - (0.5 if aligned else 0.0)
    sides = corners[:, 2:] - corners[:, :2]
    box = tocha.cat([corners[:, :2], sides if aligned else sides.clamp(min=1.0)], 1)
    rows = input.permute(0, 2, 3, 1).reshape(-1, input.size(1))
    first = (rois[:, 0].long() * (height * width))[:, None, None].expand(-1, ph, pw)
    found = _aligned(rows, first, box, (ph, pw), (height, width), ratio)
    return found.permute(0, 3, 1, 2).contiguous()


def _channels_of_bins(input: Tensor, ph: int, pw: int) -> int:
    if input.size(1) % (ph * pw):
        raise RuntimeError("[ps_roi] input channels must be a multiple of pooling height * pooling width")
    return input.size(1) // (ph * pw)


def _mapping(rois: Tensor, channels: int, ph: int, pw: int) -> Tensor:
    """Which channel of the input each output reads."""
    return tocha.arange(channels * ph * pw, dtype=tocha.int32).reshape(channels, ph, pw).repeat(len(rois), 1, 1, 1)


@_operator(f"ps_roi_align(Tensor input, {_ROI}, int sampling_ratio) -> (Tensor, Tensor)")
def ps_roi_align(input: Tensor, rois: Tensor, scale: float, ph: int, pw: int, ratio: int) -> tuple[Tensor, Tensor]:
    """As roi_align, each bin from channels of its own."""
    _check_rois(input, rois)
    channels = _channels_of_bins(input, ph, pw)
    height, width = input.shape[-2:]
    corners = rois[:, 1:] * scale - 0.5
    box = tocha.cat([corners[:, :2], corners[:, 2:] - corners[:, :2]], 1)
    rows = input.reshape(-1, channels, ph, pw, height, width).permute(0, 2, 3, 4, 5, 1).reshape(-1, channels)
    bins = tocha.arange(ph * pw).reshape(ph, pw) + (rois[:, 0].long() * (ph * pw))[:, None, None]
    found = _aligned(rows, bins * (height * width), box, (ph, pw), (height, width), ratio)
    return found.permute(0, 3, 1, 2).contiguous(), _mapping(rois, channels, ph, pw)


# -- whole pixels ------------------------------------------------------------------------------------------


def _rounded(values: Tensor) -> Tensor:
    """Half away from zero, as C's round."""
    return values.sign() * (values.abs() + 0.5).floor()


def _bins(start: Tensor, size: Tensor, bins: int, limit: int) -> tuple[Tensor, Tensor]:
    """The first pixel of each bin and the one after its last, within the image: (regions, bins) each."""
    step = (size / bins)[:, None]
    number = tocha.arange(bins, dtype=start.dtype)
    low = (number * step).floor() + start[:, None]
    high = ((number + 1) * step).ceil() + start[:, None]
    return low.clamp(0, limit).long(), high.clamp(0, limit).long()


@_operator(f"roi_pool(Tensor input, {_ROI}) -> (Tensor, Tensor)")
def roi_pool(input: Tensor, rois: Tensor, scale: float, ph: int, pw: int) -> tuple[Tensor, Tensor]:
    """The largest pixel of each bin, and where it is."""
    _check_rois(input, rois)
    values, where = _C._pool_regions(_computed(input), _computed(rois), scale, ph, pw)
    return values.to(input.dtype), where


def _bin_weights(bounds: tuple[Tensor, Tensor], limit: int, dtype: Any) -> Tensor:
    """One for the pixels of each bin, else zero: (regions, bins, limit)."""
    low, high = bounds
    pixel = tocha.arange(limit)
    return ((pixel >= low[..., None]) & (pixel < high[..., None])).to(dtype)


@_operator(f"ps_roi_pool(Tensor input, {_ROI}) -> (Tensor, Tensor)")
def ps_roi_pool(input: Tensor, rois: Tensor, scale: float, ph: int, pw: int) -> tuple[Tensor, Tensor]:
    """The mean of each bin, each from channels of its own."""
    _check_rois(input, rois)
    channels = _channels_of_bins(input, ph, pw)
    height, width = input.shape[-2:]
    x1, y1 = _rounded(rois[:, 1] * scale), _rounded(rois[:, 2] * scale)
    x2, y2 = _rounded(rois[:, 3] * scale), _rounded(rois[:, 4] * scale)
    rows = _bin_weights(_bins(y1, (y2 - y1).clamp(min=1), ph, height), height, input.dtype)
    columns = _bin_weights(_bins(x1, (x2 - x1).clamp(min=1), pw, width), width, input.dtype)
    image = input.reshape(-1, channels, ph, pw, height, width)[rois[:, 0].long()]
    total = ((image @ columns[:, None, None, :, :, None])[..., 0] * rows[:, None, :, None, :]).sum(-1)
    area = rows.sum(-1)[:, :, None] * columns.sum(-1)[:, None, :]
    return total / area.clamp(min=1)[:, None], _mapping(rois, channels, ph, pw)


# -- deformable convolution --------------------------------------------------------------------------------


def _corners(at: Tensor, limit: int) -> tuple[Tensor, Tensor]:
    """The two pixels about each place and their weights; pixels outside weigh nothing."""
    low = at.floor()
    pixels = tocha.stack([low, low + 1], -1)
    inside = (pixels >= 0) & (pixels < limit) & ((at > -1) & (at < limit))[..., None]
    weights = (1 - (at[..., None] - pixels.detach()).abs()) * inside
    return pixels.detach().clamp(0, limit - 1).long(), weights


@_operator(f"deform_conv2d(Tensor input, {_DEFORM}) -> Tensor")
def deform_conv2d(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, sh: int, sw: int, ph: int, pw: int, dh: int, dw: int,
    groups: int, offset_groups: int, use_mask: bool,
) -> Tensor:  # fmt: skip
    """A convolution whose taps are moved by offsets (and weighed by a mask): samples, then a product."""
    if input.dim() != 4 or weight.dim() != 4 or offset.dim() != 4:
        raise RuntimeError(
            "[deform_conv2d] Expected input_c.ndimension() == 4 to be true: input, weight and offset have 4 dims"
        )
    batch, channels, height, width = input.shape
    out_channels, _, kh, kw = weight.shape
    oh = (height + 2 * ph - dh * (kh - 1) - 1) // sh + 1
    ow = (width + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    _check_deformed(input, weight, offset, mask, groups, offset_groups, use_mask, (oh, ow))
    moved = offset.reshape(batch, offset_groups, kh, kw, 2, oh, ow)
    numbers = {n: tocha.arange(n, dtype=input.dtype) for n in (oh, ow, kh, kw)}
    base_y = (numbers[oh] * sh - ph)[:, None] + (numbers[kh] * dh)[:, None, None, None]
    base_x = (numbers[ow] * sw - pw) + (numbers[kw] * dw)[:, None, None]
    yi, yw = _corners(base_y + moved[:, :, :, :, 0], height)
    xi, xw = _corners(base_x + moved[:, :, :, :, 1], width)
    rows = input.reshape(batch * offset_groups, -1, height * width).transpose(1, 2).flatten(0, 1)
    first = (tocha.arange(batch * offset_groups) * (height * width)).reshape(batch, offset_groups, 1, 1, 1, 1, 1, 1)
    index = first + yi[..., :, None] * width + xi[..., None, :]
    weights = yw[..., :, None] * xw[..., None, :]
    if use_mask:
        weights = weights * mask.reshape(batch, offset_groups, kh, kw, oh, ow, 1, 1)
    samples = _summed(rows, index.flatten(-2), weights.flatten(-2))  # (batch, offset_groups, kh, kw, oh, ow, channels)
    columns = samples.permute(0, 1, 6, 2, 3, 4, 5).reshape(batch, groups, channels // groups * kh * kw, oh * ow)
    kernels = weight.reshape(groups, out_channels // groups, -1)
    return (kernels @ columns).reshape(batch, out_channels, oh, ow) + bias.reshape(1, -1, 1, 1)


def _check_deformed(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, groups: int, offset_groups: int, use_mask: bool, out: tuple[int, int]
) -> None:  # fmt: skip
    taps = weight.shape[2] * weight.shape[3]
    if weight.size(1) * groups != input.size(1):
        raise RuntimeError(
            f"[deform_conv2d] Expected weight_c.size(1) * n_weight_grps == input_c.size(1) to be true: got {weight.size(1)} * {groups} and {input.size(1)}"
        )
    if offset.size(1) != 2 * offset_groups * taps:
        raise RuntimeError(
            f"[deform_conv2d] offset.shape[1] is not valid: got: {offset.size(1)} expected: {2 * offset_groups * taps}"
        )
    if use_mask and mask.size(1) != offset_groups * taps:
        raise RuntimeError(
            f"[deform_conv2d] mask.shape[1] is not valid: got: {mask.size(1)} expected: {offset_groups * taps}"
        )
    if tuple(offset.shape[2:]) != out:
        raise RuntimeError(
            f"[deform_conv2d] offset output dims: ({offset.size(2)}, {offset.size(3)}) - computed output dims: {out}"
        )


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
    image = grad.new_zeros((n, c, h, w))
    return _pulled_back(lambda x: roi_align(x, rois, scale, ph, pw, ratio, aligned), grad, image)[0]


@_operator(f"_ps_roi_align_backward(Tensor grad, Tensor rois, {_MAPPED}, int sampling_ratio, {_SIZES}) -> Tensor")
def _ps_roi_align_backward(grad, rois, mapping, scale, ph, pw, ratio, n, c, h, w):
    return _pulled_back(lambda x: ps_roi_align(x, rois, scale, ph, pw, ratio)[0], grad, grad.new_zeros((n, c, h, w)))[0]


@_operator(f"_ps_roi_pool_backward(Tensor grad, Tensor rois, {_MAPPED}, {_SIZES}) -> Tensor")
def _ps_roi_pool_backward(grad, rois, mapping, scale, ph, pw, n, c, h, w):
    return _pulled_back(lambda x: ps_roi_pool(x, rois, scale, ph, pw)[0], grad, grad.new_zeros((n, c, h, w)))[0]


@_operator(
    f"_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, SymInt pooled_height, SymInt pooled_width, {_SIZES}) -> Tensor"
)
def _roi_pool_backward(grad, rois, argmax, scale, ph, pw, n, c, h, w):
    found = _C._unpool_regions(_computed(grad), _computed(rois), argmax.contiguous(), n, c, h, w)
    return found.to(grad.dtype)


@_operator(f"_deform_conv2d_backward(Tensor grad, Tensor input, {_DEFORM}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)")
def _deform_conv2d_backward(grad, input, weight, offset, mask, bias, *settings):
    return _pulled_back(lambda *tensors: deform_conv2d(*tensors, *settings), grad, input, weight, offset, mask, bias)
