"""Resampling and sampling by grids: sums over taps, whose places and weights are computed from the output's numbers."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any, NamedTuple

from tocha.ir import dtypes as dt
from tocha.operators.decomposed.parts import along, counted, empty, raised
from tocha.operators.facts import Facts
from tocha.operators.record import decomposition, op
from tocha.operators.resampling import (
    _grid_sample,
    _grid_sample_backward,
    _grid_sample_backward_twice,
    _resample,
    _resample_backward,
)

# -- other sizes: dims one after the other -----------------------------------------------------------


def places_per_output(size, out, align_corners, scale):
    """How many input places one output place stands for."""
    if align_corners:
        return (size - 1) / (out - 1) if out > 1 else 0.0
    return 1 / scale if scale is not None and scale > 0 else size / out


def cubic_near(x, a):
    return ((a + 2) * x - (a + 3)) * x * x + 1


def cubic_far(x, a):
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def filter_value(kind, x):
    """A filter at a distance from its middle."""
    x = op.abs(x)
    if kind == "linear-aa":
        return (1 - x).clamp_min(0)
    if kind == "cubic-aa":
        return op.where(x < 1, cubic_near(x, -0.5), op.where(x < 2, cubic_far(x, -0.5), 0.0))
    p = math.pi * op.where(x == 0, 1.0, x)
    value = 3 * op.sin(p) * op.sin(p / 3) / (p * p)
    return op.where(x >= 3, 0.0, op.where(x == 0, 1.0, value))


REACH = {"linear-aa": 1.0, "cubic-aa": 2.0, "lanczos-aa": 3.0}


def antialiased_taps(kind, i, size, step):
    """A filter as wide as the places an output stands for, at least as wide as itself; weights sum to one."""
    support, narrow = (REACH[kind] * step, 1 / step) if step >= 1 else (REACH[kind], 1.0)
    center = step * (i + 0.5)
    first = (center - support + 0.5).to(dt.int64).clamp_min(0)
    end = (center + support + 0.5).to(dt.int64).clamp_max(size)
    taps = []
    total: Any = 0
    for k in range(int(2 * support) + 3):
        at = first + k
        weight = op.where(at < end, filter_value(kind, (at.to(i.dtype) - center + 0.5) * narrow), 0.0)
        taps.append((at.clamp_max(size - 1), weight))
        total = total + weight
    return [(at, op.where(total != 0, w / total, w)) for at, w in taps]


def resampling_taps(kind, x, size, out, align_corners, scale):
    """For each output place of one dim the input's places and their weights; no weight where it is a choice."""
    step = places_per_output(size, out, align_corners, scale)
    i = counted(out, x).to(x.dtype)
    if kind in ("nearest", "nearest-exact"):
        return [(nearest_places(kind, x, i, size, out, step), None)]
    if kind in REACH:
        return antialiased_taps(kind, i, size, step)
    at = i * step if align_corners else (i + 0.5) * step - 0.5
    if kind == "linear":
        at = at.clamp_min(0)
        low = at.to(dt.int64).clamp_max(size - 1)
        beyond = (at - low.to(at.dtype)).clamp(0, 1)
        return [(low, 1 - beyond), ((low + 1).clamp_max(size - 1), beyond)]
    floor = op.floor(at)
    t, low = at - floor, floor.to(dt.int64)
    weights = (cubic_far(t + 1, -0.75), cubic_near(t, -0.75), cubic_near(1 - t, -0.75), cubic_far(2 - t, -0.75))
    return [((low + k - 1).clamp(0, size - 1), w) for k, w in enumerate(weights)]


def nearest_places(kind, x, i, size, out, step):
    if kind == "nearest" and isinstance(size, int) and isinstance(out, int) and out in (size, 2 * size):
        return op.div(counted(out, x), out // size, rounding_mode="floor")
    half = 0.5 if kind == "nearest-exact" else 0.0
    # Rounded down from float32, whatever the dtype: that decides ties.
    return op.floor(((i + half) * step).to(dt.float32)).to(dt.int64).clamp(0, size - 1)


def scales_by_dim(n, scale_d, scale_h, scale_w):
    return [scale_d, scale_h, scale_w][3 - n :]


def resampled(self, sizes, kind, align_corners, scales, apply):
    """Dims one after the other, the last first: it is the longest run in memory."""
    out = self
    for d in reversed(range(len(sizes))):
        size = self.sizes[2 + d]
        if kind == "nearest" and isinstance(size, int) and size == sizes[d] and scales[d] is None:
            continue
        out = apply(out, 2 + d, resampling_taps(kind, raised(self), size, sizes[d], align_corners, scales[d]))
    return out


def gathered(x, dim, taps):
    total: Any = None
    for at, weight in taps:
        part = op.index(x, [*[None] * dim, at])
        if weight is not None:
            part = part * along(weight, dim, x.ndim)
        total = part if total is None else total + part
    return total


def is_bytes(x):
    return not x.dtype.is_floating


@decomposition(_resample)
def resample_in_parts(self, sizes, kind, align_corners, scale_d, scale_h, scale_w):
    scales = scales_by_dim(len(sizes), scale_d, scale_h, scale_w)
    if kind in ("nearest", "nearest-exact"):
        model = self if self.dtype is dt.float64 else self.to(dt.float32)
        out = self
        for d in reversed(range(len(sizes))):
            taps = resampling_taps(kind, model, self.sizes[2 + d], sizes[d], align_corners, scales[d])
            out = gathered(out, 2 + d, taps)
        return out
    if is_bytes(self):
        out = resampled(self.to(dt.float32), sizes, kind, align_corners, scales, gathered)
        return op.round(out).clamp(0, 255).to(self.dtype)
    return resampled(raised(self), sizes, kind, align_corners, scales, gathered).to(self.dtype)


@decomposition(_resample_backward)
def resample_backward_in_parts(self, shape, kind, align_corners, scale_d, scale_h, scale_w):
    n = len(shape) - 2
    scales = scales_by_dim(n, scale_d, scale_h, scale_w)
    out = raised(self)
    for d in range(n):
        taps = resampling_taps(kind, out, shape[2 + d], self.sizes[2 + d], align_corners, scales[d])
        sizes = [shape[2 + d] if e == 2 + d else m for e, m in enumerate(out.sizes)]
        total = op.zeros(sizes, dtype=out.dtype, device=out.device)
        for at, weight in taps:
            part = out if weight is None else out * along(weight, 2 + d, out.ndim)
            total = total.index_add(2 + d, at, part)
        out = total
    return out.to(self.dtype)


# -- the points of grids -----------------------------------------------------------------------------

NEAREST, BICUBIC = 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2


def clipped(x, most, rate):
    outside = ~(x > 0) | (x >= most)
    return op.where(x > 0, op.where(x >= most, most, x), 0.0), op.where(outside, 0.0, rate)


def bounded(x):
    """Infinities, NaN and what no integer holds are far outside."""
    return op.where(op.abs(x) < 2147483520.0, x, -100.0)


def reflected(x, size, align_corners, rate):
    """Mirrored at the edges until it is inside: at the outer places' middles, or at their borders."""
    low, span = (0.0, size - 1) if align_corners else (-0.5, size)
    if isinstance(span, int) and span == 0:
        return op.zeros_like(x), op.zeros_like(rate)
    rate = op.where(x < low, -rate, rate)
    beyond = op.abs(x - low)
    rest = op.fmod(beyond, span)
    even = op.remainder(op.floor(bounded(beyond / span)), 2) == 0
    return op.where(even, rest + low, span - rest + low), op.where(even, rate, -rate)


def padded(x, size, padding, align_corners, rate):
    if padding == REFLECTION:
        x, rate = reflected(x, size, align_corners, rate)
    if padding != ZEROS:
        x, rate = clipped(x, float(size - 1) if isinstance(size, int) else size - 1, rate)
    return bounded(x), rate


def cubic_at(distance, a=-0.75):
    """The cubic filter at a signed distance, and its first and second derivatives."""
    x = op.abs(distance)
    sign = op.where(distance < 0, -1.0, 1.0)
    near = x <= 1
    slope = op.where(near, (3 * (a + 2) * x - 2 * (a + 3)) * x, (3 * a * x - 10 * a) * x + 8 * a)
    curve = op.where(near, 6 * (a + 2) * x - 2 * (a + 3), 6 * a * x - 10 * a)
    return op.where(near, cubic_near(x, a), cubic_far(x, a)), slope * sign, curve


class AxisTap(NamedTuple):
    """A place along one dim, whether it is inside, its weight, and derivatives of the weight by the coordinate."""

    place: Facts
    inside: Facts
    weight: Facts
    slope: Facts
    curve: Facts


def axis_taps(coordinate, size, interpolation, padding, align_corners):
    """One coordinate as taps along its dim: places, whether they are inside, weights, and slopes of the weights."""
    rate = op.full([], (size - 1) / 2 if align_corners else size / 2, dtype=coordinate.dtype, device=coordinate.device)
    x = (coordinate + 1) / 2 * (size - 1) if align_corners else ((coordinate + 1) * size - 1) / 2

    def tap(place, weight, slope, curve):
        at = place.to(dt.int64)
        return AxisTap(at.clamp(0, size - 1), (at >= 0) & (at < size), weight, slope, curve)

    if interpolation == BICUBIC:
        x = bounded(x)
        floor = op.floor(x)
        taps = []
        for k in range(4):
            weight, slope, curve = cubic_at(x - floor + 1 - k)
            place = padded(floor + (k - 1), size, padding, align_corners, rate)[0]
            taps.append(tap(op.floor(place), weight, rate * slope, rate * rate * curve))
        return taps
    x, rate = padded(x, size, padding, align_corners, rate)
    none = op.zeros_like(x)
    if interpolation == NEAREST:
        return [tap(op.round(x), op.ones_like(x), none, none)]
    floor = op.floor(x)
    beyond = x - floor
    return [tap(floor, 1 - beyond, -rate, none), tap(floor + 1, beyond, rate, none)]


class GridTap:
    """One combination of the dims' taps: its place in the plane, whether it is inside, and its weight."""

    def __init__(self, taps, spatial):
        self.taps = taps
        self.place, self.inside = taps[0].place, taps[0].inside
        for t, n in zip(taps[1:], spatial[1:], strict=True):
            self.place, self.inside = self.place * n + t.place, self.inside & t.inside
        self.weight = self.times({})

    def times(self, factors):
        """The product of the dims' weights, of which some are replaced."""
        parts = [factors.get(d, t.weight) for d, t in enumerate(self.taps)]
        return math.prod(parts[1:], start=parts[0])

    def slope(self, d):
        return self.times({d: self.taps[d].slope})

    def curve(self, d, e):
        return self.times({d: self.taps[d].curve} if d == e else {d: self.taps[d].slope, e: self.taps[e].slope})

    def kept(self, x):
        """x, which is per point or per channel and point, where the place is inside."""
        inside = self.inside if x.ndim == self.inside.ndim else self.inside.unsqueeze(1)
        return op.where(inside, x, 0.0)


def grid_taps(self, grid, interpolation, padding, align_corners):
    spatial = self.sizes[2:]
    n = len(spatial)
    points = raised(grid)
    axes = [  # the grid counts dims from the last
        axis_taps(points.select(-1, n - 1 - d), spatial[d], interpolation, padding, align_corners) for d in range(n)
    ]
    return [GridTap(taps, spatial) for taps in itertools.product(*axes)]


def flat_planes(self):
    spatial: Any = 1
    for n in self.sizes[2:]:
        spatial = spatial * n
    return self.reshape([self.size(0), self.size(1), spatial])


def at_places(flat, place):
    """The planes' elements at each sample's places: [N, C, points...]."""
    count: Any = 1
    for n in place.sizes[1:]:
        count = count * n
    index = place.reshape([place.size(0), 1, count]).expand([place.size(0), flat.size(1), count])
    return flat.gather(2, index).reshape([place.size(0), flat.size(1), *place.sizes[1:]])


def added_at(planes, place, values):
    """Planes with values added at each sample's places."""
    flat = values.reshape([values.size(0), values.size(1), -1])
    return planes.scatter_add(2, place.reshape([place.size(0), 1, -1]).expand(flat.shape), flat)


def sum_of(parts):
    return functools.reduce(lambda a, b: a + b, parts)


@decomposition(_grid_sample)
def grid_sample_in_parts(self, grid, interpolation, padding, align_corners):
    flat = flat_planes(raised(self))
    taps = grid_taps(self, grid, interpolation, padding, align_corners)
    return sum_of(t.kept(at_places(flat, t.place)) * t.kept(t.weight).unsqueeze(1) for t in taps).to(self.dtype)


@decomposition(_grid_sample_backward)
def grid_sample_backward_in_parts(grad_output, self, grid, interpolation, padding, align_corners, for_input):
    flat, grad = flat_planes(raised(self)), raised(grad_output)
    taps = grid_taps(self, grid, interpolation, padding, align_corners)
    to_planes = op.zeros_like(flat)
    for t in taps if for_input else ():
        to_planes = added_at(to_planes, t.place, t.kept(grad * t.weight.unsqueeze(1)))
    products = [t.kept(op.sum(grad * at_places(flat, t.place), [1])) for t in taps]
    lines = [sum_of(p * t.slope(d) for p, t in zip(products, taps, strict=True)) for d in range(self.ndim - 2)]
    to_grid = op.stack(lines[::-1], -1).to(grid.dtype)
    return (to_planes.reshape(self.shape).to(self.dtype) if for_input else empty(self)), to_grid


@decomposition(_grid_sample_backward_twice)
def grid_sample_backward_twice_in_parts(
    to_picture, to_grid, grad_output, self, grid, interpolation, padding, align_corners
):
    """With weights w_k, places p_k and u, v for the gradients of the image's and the grid's gradients, these are the
    derivatives of the sum over k of w_k <grad, u[p_k]> + (v . slope w_k) <grad, image[p_k]>.
    """
    n = self.ndim - 2
    flat, grad, u = flat_planes(raised(self)), raised(grad_output), flat_planes(raised(to_picture))
    v = [raised(to_grid).select(-1, n - 1 - d) for d in range(n)]
    to_grad, to_self = op.zeros_like(grad), op.zeros_like(flat)
    lines = [op.zeros_like(v[0]) for _ in range(n)]
    for t in grid_taps(self, grid, interpolation, padding, align_corners):
        there, image = t.kept(at_places(u, t.place)), t.kept(at_places(flat, t.place))
        turned = sum_of(v[d] * t.slope(d) for d in range(n))
        to_grad = to_grad + t.weight.unsqueeze(1) * there + turned.unsqueeze(1) * image
        to_self = added_at(to_self, t.place, t.kept(turned.unsqueeze(1) * grad))
        along_u, along_image = op.sum(grad * there, [1]), op.sum(grad * image, [1])
        for d in range(n):
            bent = sum_of(v[e] * t.curve(d, e) for e in range(n))
            lines[d] = lines[d] + t.slope(d) * along_u + bent * along_image
    to_points = op.stack(lines[::-1], -1).to(grid.dtype)
    return to_grad.to(grad_output.dtype), to_self.reshape(self.shape).to(self.dtype), to_points
