"""Pooling over windows: a loop over a window's places, each a read of the image at numbers computed from the output's.

A tap of one dim is (places, inside): for every output place the input's place, and whether that lies in the window (None: all do).
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

from tocha.ir import dtypes as dt
from tocha.operators.decomposed.parts import along, counted, raised, summed
from tocha.operators.facts import Facts
from tocha.operators.pooling import (
    _average_windows,
    _average_windows_backward,
    _fractional_max,
    _max_windows,
    _scatter_places,
)
from tocha.operators.record import decomposition, op
from tocha.operators.rules import product


class Tap(NamedTuple):
    places: Facts
    inside: Facts | None


def window_taps(x: Facts, size: Any, out: Any, kernel: int, stride: int, padding: int, dilation: int) -> list[Tap]:
    """Windows of one dim that lie at equal distances."""
    starts = counted(out, x) * stride - padding
    taps = []
    for k in range(kernel):
        at = starts + k * dilation
        first = k * dilation - padding
        last = first + (out - 1) * stride
        known = isinstance(last, int) and isinstance(size, int) and first >= 0 and last < size
        taps.append(Tap(at.clamp(0, size - 1), None if known else (at >= 0) & (at < size)))
    return taps


def adaptive_bounds(x: Facts, size: Any, out: Any) -> tuple[Facts, Facts]:
    """Where windows that divide a dim evenly begin and end."""
    i = counted(out, x)
    return op.div(i * size, out, rounding_mode="floor"), op.div((i + 1) * size + (out - 1), out, rounding_mode="floor")


def adaptive_taps(x: Facts, size: Any, out: Any) -> list[Tap]:
    if not (isinstance(size, int) and isinstance(out, int)):
        raise NotImplementedError("the parts of windows whose number of places changes")
    starts, ends = adaptive_bounds(x, size, out)
    lengths = window_lengths(int(size), int(out))
    return [
        Tap((starts + k).clamp_max(size - 1), None if k < min(lengths) else starts + k < ends)
        for k in range(max(lengths))
    ]


def is_one_window(kernel: Any, sizes: Any) -> bool:
    """Whether an adaptive pool takes everything together, as at the end of most networks of convolutions."""
    return not kernel and all(isinstance(n, int) and n == 1 for n in sizes)


def window_lengths(size: int, out: int) -> list[int]:
    """The windows repeat after out / gcd of them."""
    return [-(-(i + 1) * size // out) - i * size // out for i in range(out // math.gcd(size, out))]


def taps_of(x, sizes, kernel, stride, padding, dilation):
    """For each spatial dim its taps."""
    first = x.ndim - len(sizes)
    if not kernel:
        return [adaptive_taps(x, x.sizes[first + d], n) for d, n in enumerate(sizes)]
    return [
        window_taps(x, x.sizes[first + d], n, kernel[d], stride[d], padding[d], dilation[d])
        for d, n in enumerate(sizes)
    ]


def together(taps, sizes):
    """For taps of all dims: the numbers that index reads at, and whether all lie inside."""
    n = len(sizes)
    places = [along(t.places, d, n) for d, t in enumerate(taps)]
    inside = None
    for d, t in enumerate(taps):
        if t.inside is not None:
            inside = along(t.inside, d, n) if inside is None else inside & along(t.inside, d, n)
    return places, inside


def where_inside(inside, value):
    return value if inside is None else op.where(inside, value, 0)


def flat_place(places, sizes):
    """The number of a place in its plane."""
    at = places[0]
    for p, n in zip(places[1:], sizes[1:], strict=True):
        at = at * n + p
    return at


def largest(values_at):
    """The first of the largest values with their places, or the last NaN: values_at yields (value, place, inside)."""
    best = where = None
    for value, place, inside in values_at:
        if best is None:
            best, where = value, place if inside is None else op.where(inside, place, -1)
            continue
        better = (where < 0) | (value > best) | (value != value)
        better = better if inside is None else inside & better
        best, where = op.where(better, value, best), op.where(better, place, where)
    return best, where


@decomposition(_max_windows)
def max_windows_in_parts(self, sizes, kernel, stride, padding, dilation):
    first = self.ndim - len(sizes)
    if product(sizes) == 0:
        shape = [*self.sizes[:first], *sizes]
        return tuple(op.zeros(shape, dtype=d, device=self.device) for d in (self.dtype, dt.int64))

    def values():
        for taps in itertools.product(*taps_of(self, sizes, kernel, stride, padding, dilation)):
            places, inside = together(taps, sizes)
            yield op.index(self, [*[None] * first, *places]), flat_place(places, self.sizes[first:]), inside

    best, where = largest(values())
    return best, where.expand(best.shape)


# -- averages ----------------------------------------------------------------------------------------


def window_sizes(x, size, out, kernel, stride, padding, count_include_pad):
    """How many places the windows of one dim count."""
    if kernel is None:
        starts, ends = adaptive_bounds(x, size, out)
        return ends - starts
    starts = counted(out, x) * stride - padding
    ends = (starts + kernel).clamp_max(size + padding)
    return ends - starts if count_include_pad else ends.clamp_max(size) - starts.clamp_min(0)


def divisors(x, shape, sizes, kernel, stride, padding, count_include_pad, divisor):
    """What sums of windows are divided by: a number, or one for each window."""
    if divisor:
        return divisor
    n = len(sizes)
    total: Any = 1
    for d, size in enumerate(shape[len(shape) - n :]):
        given = (kernel[d], stride[d], padding[d]) if kernel else (None, 0, 0)
        total = total * along(window_sizes(x, size, sizes[d], *given, count_include_pad), d, n)
    return total


def divided(x, by):
    return x / by if x.dtype.is_floating else op.div(x, by, rounding_mode="trunc")


@decomposition(_average_windows)
def average_windows_in_parts(self, sizes, kernel, stride, padding, count_include_pad, divisor):
    first = self.ndim - len(sizes)
    x = raised(self)
    if product(sizes) == 0:
        return op.zeros([*self.sizes[:first], *sizes], dtype=self.dtype, device=self.device)
    if is_one_window(kernel, sizes):
        whole = summed(x, range(first, x.ndim), True)
        return divided(whole, product(self.sizes[first:])).to(self.dtype)
    total: Any = None
    for taps in itertools.product(*taps_of(x, sizes, kernel, stride, padding, [1] * len(sizes))):
        places, inside = together(taps, sizes)
        part = where_inside(inside, op.index(x, [*[None] * first, *places]))
        total = part if total is None else total + part
    by = divisors(x, self.sizes, sizes, kernel, stride, padding, count_include_pad, divisor)
    return divided(total, by).to(self.dtype)


def covering_taps(x, size, out, kernel, stride, padding):
    """For each input place of one dim the windows that it is in: taps the other way round."""
    at = counted(size, x) + padding
    taps = []
    for k in range(kernel):
        window = op.div(at - k, stride, rounding_mode="floor")
        inside = (op.remainder(at - k, stride) == 0) & (window >= 0) & (window < out)
        taps.append(Tap(window.clamp(0, out - 1), inside))
    return taps


@decomposition(_average_windows_backward)
def average_windows_backward_in_parts(self, shape, sizes, kernel, stride, padding, count_include_pad, divisor):
    first = len(shape) - len(sizes)
    if product(sizes) == 0:
        return op.zeros(shape, dtype=self.dtype, device=self.device)
    by = divisors(self, shape, sizes, kernel, stride, padding, count_include_pad, divisor)
    shares = divided(raised(self), by)
    if is_one_window(kernel, sizes):
        return shares.expand(shape).to(self.dtype)
    if kernel:
        by_dim = [
            covering_taps(self, shape[first + d], n, kernel[d], stride[d], padding[d]) for d, n in enumerate(sizes)
        ]
    else:  # what windows of `size` places over n a place is in, are windows of n places over `size`
        by_dim = [adaptive_taps(self, n, shape[first + d]) for d, n in enumerate(sizes)]
    total: Any = None
    for taps in itertools.product(*by_dim):
        places, inside = together(taps, sizes)
        part = where_inside(inside, op.index(shares, [*[None] * first, *places]))
        total = part if total is None else total + part
    return total.to(self.dtype)


# -- places ------------------------------------------------------------------------------------------


@decomposition(_scatter_places)
def scatter_places_in_parts(self, indices, sizes, add):
    first = self.ndim - len(sizes)
    lead = list(self.sizes[:first])
    flat = [*lead, product(self.shape[first:])]
    planes = op.zeros([*lead, product(sizes)], dtype=self.dtype, device=self.device)
    places, values = indices.reshape(flat), self.reshape(flat)
    out = planes.scatter_add(-1, places, values) if add else planes.scatter(-1, places, values)
    return out.reshape([*lead, *sizes])


def fractional_starts(samples, size, out, kernel):
    """Where the windows of one dim begin, for samples [N, C]: [N, C, out]. Rounded as the samples' dtype holds them."""
    last = op.full([*samples.shape, 1], size - kernel, dtype=dt.int64, device=samples.device)
    if out < 2:
        return last
    d = samples.dtype
    alpha = op.full([], size - kernel, dtype=d, device=samples.device) / op.full(
        [], out - 1, dtype=d, device=samples.device
    )
    u = samples.unsqueeze(-1)
    starts = ((counted(out - 1, samples).to(d) + u) * alpha).to(dt.int64) - (u * alpha).to(dt.int64)
    return op.cat([starts, last], -1)


@decomposition(_fractional_max)
def fractional_max_in_parts(self, kernel, sizes, samples):
    n = len(sizes)
    first = self.ndim - n
    planes = self if self.ndim == n + 2 else self.unsqueeze(0)
    spatial = self.sizes[first:]
    flat = planes.reshape([planes.size(0), planes.size(1), product(spatial)])
    drawn = samples.narrow(0, 0, planes.size(0)).narrow(1, 0, planes.size(1))
    starts = []
    for d in range(n):
        # Flat images take their numbers for the width first, volumes from depth to width.
        which = d if n == 3 else 1 - d
        line = fractional_starts(drawn.select(2, which), spatial[d], sizes[d], kernel[d])
        starts.append(line.reshape([*line.shape[:2], *(sizes[d] if e == d else 1 for e in range(n))]))
    always = op.ones([], dtype=dt.bool_, device=self.device)
    shape = [planes.size(0), planes.size(1), *sizes]

    def values():
        for offsets in itertools.product(*(range(k) for k in kernel)):
            place = flat_place([s + k for s, k in zip(starts, offsets, strict=True)], spatial).expand(shape)
            yield flat.gather(-1, place.reshape([*shape[:2], math.prod(sizes)])).reshape(shape), place, always

    best, where = largest(values())
    return (best, where) if self.ndim == n + 2 else (best.squeeze(0), where.squeeze(0))
