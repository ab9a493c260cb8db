"""Tensors made of numbers: fills, and formulas of the places' own numbers."""

from __future__ import annotations

import math

from tocha.ir import dtypes as dt
from tocha.operators.copies import zero_
from tocha.operators.decomposed.parts import counted, nothing
from tocha.operators.factories import (
    arange,
    arange_start,
    dtype_or_default,
    eye,
    eye_m,
    full_like,
    linspace,
    logspace,
    ones,
    ones_like,
    range_,
    scalar_tensor,
    spaced_dtype,
    zeros,
    zeros_like,
)
from tocha.operators.record import decomposition, op
from tocha.operators.triangles import lower_size, tril, tril_indices, triu, triu_indices
from tocha.operators.windows import (
    _cosine_sum_window,
    bartlett_window,
    kaiser_window,
)


@decomposition(zeros)
def zeros_in_parts(size, dtype, device):
    return op.full(size, 0, dtype=dtype_or_default(dtype), device=device)


@decomposition(zero_)
def zero_in_parts(self):
    return self.fill_(0)


@decomposition(ones)
def ones_in_parts(size, dtype, device):
    return op.full(size, 1, dtype=dtype_or_default(dtype), device=device)


@decomposition(scalar_tensor)
def scalar_tensor_in_parts(s, dtype, device):
    return op.full([], s, dtype=dtype_or_default(dtype), device=device)


@decomposition(full_like)
def full_like_in_parts(self, fill_value, dtype, device, memory_format):
    return op.full(self.shape, fill_value, dtype=dtype or self.dtype, device=device or self.device)


@decomposition(zeros_like)
def zeros_like_in_parts(self, dtype, device, memory_format):
    return full_like_in_parts(self, 0, dtype, device, memory_format)


@decomposition(ones_like)
def ones_like_in_parts(self, dtype, device, memory_format):
    return full_like_in_parts(self, 1, dtype, device, memory_format)


@decomposition(eye)
def eye_in_parts(n, dtype, device):
    return eye_m_in_parts(n, n, dtype, device)


@decomposition(eye_m)
def eye_m_in_parts(n, m, dtype, device):
    rows, columns = op.arange(n, device=device), op.arange(m, device=device)
    return (rows.unsqueeze(1) == columns).to(dtype_or_default(dtype))


# -- evenly spaced -----------------------------------------------------------------------------------


@decomposition(arange)
def arange_in_parts(end, dtype, device):
    return op.arange(0, end, 1, dtype=dtype, device=device)


@decomposition(arange_start)
def arange_start_in_parts(start, end, dtype, device):
    return op.arange(start, end, 1, dtype=dtype, device=device)


@decomposition(range_)
def range_in_parts(start, end, step, dtype, device):
    count = math.floor((end.to_double() - start.to_double()) / step.to_double()) + 1
    d = dtype_or_default(dtype)
    i = op.arange(0, count, 1, dtype=dt.float64 if d.is_floating else dt.int64, device=device)
    return (op.mul(i, step) + start).to(d)


def spaced(start, end, steps, d, device):
    """From both ends, so that each is met exactly."""
    i = op.arange(0, steps, 1, dtype=dt.int64, device=device)
    first, last = op.full([], start, dtype=d, device=device), op.full([], end, dtype=d, device=device)
    step = (last - first) / op.full([], max(steps - 1, 1), dtype=d, device=device)
    half = steps // 2 if steps > 1 else 1
    from_end = op.where(i < half, i, steps - 1 - i).to(d)
    return op.where(i < half, first + step * from_end, last - step * from_end)


@decomposition(linspace)
def linspace_in_parts(start, end, steps, dtype, device):
    d = spaced_dtype(start, end, dtype, "linspace")
    if d.is_differentiable:
        return spaced(start.value, end.value, steps, d, device)
    # Integers take the truncated ends, and truncate what lies between.
    return spaced(start.to_int(), end.to_int(), steps, dt.float64, device).to(d)


@decomposition(logspace)
def logspace_in_parts(start, end, steps, base, dtype, device):
    d = spaced_dtype(start, end, dtype, "logspace")
    if d.is_complex:
        return op.pow(base, spaced(start.value, end.value, steps, dt.complex128, device)).to(d)
    ends = (start.value, end.value) if d.is_floating else (start.to_int(), end.to_int())
    return op.pow(base, spaced(*ends, steps, dt.float64, device)).to(d)


# -- windows -----------------------------------------------------------------------------------------


def window(length, periodic, dtype, device, value, precision=None):
    """value(n, last) of each sample n, where a periodic window leaves the last symmetric sample out."""
    d = dtype_or_default(dtype)
    if length == 1:
        return op.full([1], 1, dtype=d, device=device)
    n = op.arange(0, length, 1, dtype=precision or d, device=device)
    return value(n, length if periodic else length - 1).to(d)


@decomposition(_cosine_sum_window)
def cosine_sum_window_in_parts(window_length, periodic, a, dtype, device):
    def value(n, last):
        x, total = n * (2 * math.pi / last), op.zeros_like(n)
        for k in range(len(a) - 1, 0, -1):
            total = total + op.cos((x * k).to(dt.float64)).to(n.dtype) * (-a[k] if k % 2 else a[k])
        return total + a[0]

    return window(window_length, periodic, dtype, device, value)


@decomposition(bartlett_window)
def bartlett_window_in_parts(window_length, periodic, dtype, device):
    def value(n, last):
        x = n * (2 / last)
        return op.where(op.arange(0, window_length, 1, device=device) <= last // 2, x, 2 - x)

    return window(window_length, periodic, dtype, device, value)


@decomposition(kaiser_window)
def kaiser_window_in_parts(window_length, periodic, beta, dtype, device):
    def value(n, last):
        x = n * 2 / last - 1
        whole = op.i0(op.full([], beta, dtype=dt.float64, device=device))
        return op.i0(op.sqrt((1 - x * x).clamp_min(0)) * beta) / whole

    return window(window_length, periodic, dtype, device, value, dt.float64)


# -- triangles ---------------------------------------------------------------------------------------


def diagonals(self):
    """The number of the diagonal that each place of a matrix is on."""
    return counted(self.size(-1), self) - counted(self.size(-2), self).unsqueeze(1)


@decomposition(tril)
def tril_in_parts(self, diagonal):
    return op.where(diagonals(self) <= diagonal, self, nothing(self))


@decomposition(triu)
def triu_in_parts(self, diagonal):
    return op.where(diagonals(self) >= diagonal, self, nothing(self))


def triangle(first, counts, total, dtype):
    """Rows and columns of all places, given for each row its first column and how many it has."""
    ends = op.cumsum(counts, 0)
    place = counted(total, counts)
    row = op.searchsorted(ends, place, right=True)
    column = place - op.index(ends - counts - first, [row])
    return op.stack([row, column], 0).to(dtype or dt.int64)


@decomposition(tril_indices)
def tril_indices_in_parts(row, col, offset, dtype, device):
    counts = (op.arange(0, row, 1, device=device) + (offset + 1)).clamp(0, col)
    return triangle(op.zeros_like(counts), counts, lower_size(row, col, offset), dtype)


@decomposition(triu_indices)
def triu_indices_in_parts(row, col, offset, dtype, device):
    first = (op.arange(0, row, 1, device=device) + offset).clamp(0, col)
    return triangle(first, col - first, row * col - lower_size(row, col, max(offset, -row) - 1), dtype)
