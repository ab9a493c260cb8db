"""Kernels on planes and on (N, C, ...): pooling, patches, resampling, padding."""

from __future__ import annotations

from tocha.operators.batched.kinds import mapped, of_samples, register
from tocha.operators.patches import _fold_patches, _unfold_patches, nn_col2im, nn_im2col
from tocha.operators.pooling import (
    _average_windows,
    _average_windows_backward,
    _fractional_max,
    _max_windows,
    _scatter_places,
    nn_adaptive_avg_pool2d,
    nn_adaptive_avg_pool3d,
    nn_adaptive_max_pool2d,
    nn_adaptive_max_pool3d,
    nn_avg_pool2d,
    nn_avg_pool3d,
    nn_max_pool2d_with_indices,
    nn_max_pool3d_with_indices,
    nn_max_unpool2d,
    nn_max_unpool3d,
)
from tocha.operators.rearrange import _empty_padded, _in_format_of, _pad_wrapped, _unpad_wrapped
from tocha.operators.record import batching
from tocha.operators.resampling import (
    _grid_sample,
    _grid_sample_backward,
    _grid_sample_backward_twice,
    _resample,
    _resample_backward,
    grid_sampler_2d,
    grid_sampler_3d,
)

register(of_samples(), _unfold_patches, _fold_patches, _resample, _grid_sample)
register(of_samples("shape"), _resample_backward)


def of_pictures(spatial):
    """For (C, ...) and (N, C, ...) with so many dims after the channels: the batch is a dim of pictures, or more of them."""

    def rule(b, self, *rest):
        if b.is_tensor(rest[0] if rest else None):
            rest = (*(b.all(v).flatten(0, 1) if self.ndim > spatial + 1 else b.all(v) for v in rest[:1]), *rest[1:])
        value = b.all(self)
        if self.ndim == spatial + 1:
            return b.run(value, *rest)
        return mapped(lambda r: r.unflatten(0, [b.size, -1]), b.run(value.flatten(0, 1), *rest))

    return rule


register(
    of_pictures(2), nn_max_pool2d_with_indices, nn_avg_pool2d, nn_adaptive_avg_pool2d, nn_adaptive_max_pool2d, nn_im2col
)
register(of_pictures(3), nn_max_pool3d_with_indices, nn_avg_pool3d, nn_adaptive_avg_pool3d, nn_adaptive_max_pool3d)
register(of_pictures(2), nn_max_unpool2d)
register(of_pictures(3), nn_max_unpool3d)
register(of_pictures(1), nn_col2im)
register(of_samples(), grid_sampler_2d, grid_sampler_3d)


def flat_planes(b, count, sizes_at, *values):
    """Planes of the last `count` dims: all dims before them, the batch's too, become one in front of the planes' channel."""
    shaped = [b.all(v) if b.is_tensor(v) else v for v in values]
    model = next(v for v in shaped if b.is_tensor(v))
    before = list(model.shape[: model.ndim - count])
    found = []
    for i, v in enumerate(shaped):
        if b.is_tensor(v):
            v = v.reshape([1, -1, *v.shape[v.ndim - count :]])
        elif i == sizes_at:
            total = 1
            for n in before:
                total *= n
            v = [1, total, *v[len(v) - count :]]
        found.append(v)
    result = b.run(*found)
    if isinstance(result, tuple):
        return tuple(r.reshape([*before, *r.shape[2:]]) for r in result)
    return result.reshape([*before, *result.shape[2:]])


@batching(_max_windows, _average_windows)
def windows(b, self, sizes, *rest):
    return flat_planes(b, len(sizes), -1, self, sizes, *rest)


@batching(_average_windows_backward)
def windows_backward(b, self, shape, sizes, *rest):
    return flat_planes(b, len(sizes), 1, self, shape, sizes, *rest)


@batching(_scatter_places)
def places(b, self, indices, sizes, add):
    return flat_planes(b, len(sizes), -1, self, indices, sizes, add) if self.ndim >= len(sizes) else None


@batching(_fractional_max)
def fractional(b, self, kernel, sizes, samples):
    n = len(sizes)
    planes, points = b.all(self), b.all(samples)
    unbatched = planes.ndim == n + 2
    if unbatched:
        planes = planes.unsqueeze(1)
    flat = planes.flatten(0, 1)
    drawn = points.flatten(0, 1) if points.ndim == 4 else points
    out = b.run(flat, kernel, sizes, drawn)
    whole = tuple(r.unflatten(0, [b.size, -1]) for r in out)
    return tuple(r.squeeze(1) for r in whole) if unbatched else whole


@batching(_pad_wrapped)
def pad(b, self, padding, mode):
    return b.run(b.first(self), padding, mode)


@batching(_unpad_wrapped)
def unpad(b, self, sizes, padding, mode):
    return b.run(b.first(self), [b.size, *sizes], padding, mode)


@batching(_in_format_of)
def same_format(b, self, model):
    return b.all(self)


@batching(_empty_padded)
def padded_memory(b, self, sizes):
    return b.first(self).new_empty([b.size, *sizes])


@batching(_grid_sample_backward)
def grid_backward(b, grad_output, self, grid, *rest):
    found = b.run(*(b.all(v).flatten(0, 1) for v in (grad_output, self, grid)), *rest)
    return tuple(r.unflatten(0, [b.size, -1]) if r.numel() else b.all(r) for r in found)


@batching(_grid_sample_backward_twice)
def grid_backward_twice(b, *values):
    found = b.run(*(b.all(v).flatten(0, 1) if b.is_tensor(v) else v for v in values))
    return tuple(r.unflatten(0, [b.size, -1]) for r in found)
