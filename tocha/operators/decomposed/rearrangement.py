"""Elements in another order or continued beyond the edges: reads at computed places; and steps of gradient scaling."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.decomposed.parts import counted, nothing, raised, wrapped
from tocha.operators.foreach import non_finite_check_and_unscale, update_scale
from tocha.operators.patches import _fold_patches, _unfold_patches
from tocha.operators.rearrange import _pad_wrapped, _roll_dims, _unpad_wrapped, flip
from tocha.operators.record import decomposition, op


def taken(x, dim, places):
    return op.index(x, [*[None] * dim, places])


@decomposition(flip)
def flip_in_parts(self, dims):
    out = self
    for d in sorted({wrapped(d, self.ndim) for d in dims} if self.ndim else ()):
        out = taken(out, d, self.size(d) - 1 - counted(self.size(d), self))
    return out if out is not self else self.clone()


@decomposition(_roll_dims)
def roll_dims_in_parts(self, shifts, dims):
    out = self
    for shift, dim in zip(shifts, dims, strict=True):
        d = wrapped(dim, self.ndim)
        if not (isinstance(self.size(d), int) and self.size(d) == 0):
            out = taken(out, d, op.remainder(counted(self.size(d), self) - shift, self.size(d)))
    return out if out is not self else self.clone()


# -- edges -------------------------------------------------------------------------------------------


def sources(like, n, before, after, mode):
    """Which of a dim's n places each place of the padded one shows."""
    at = counted(n + before + after, like) - before
    if mode == "replicate":
        return at.clamp(0, n - 1)
    if mode == "circular":
        cut = max(-before, 0)
        left = n - cut - max(-after, 0)
        return cut + op.remainder(at - cut, left)
    return (n - 1) - op.abs((n - 1) - op.abs(at))


@decomposition(_pad_wrapped)
def pad_wrapped_in_parts(self, pad, mode):
    out = self
    for i in range(len(pad) // 2):
        d = self.ndim - 1 - i
        out = taken(out, d, sources(self, self.size(d), pad[2 * i], pad[2 * i + 1], mode))
    return out


@decomposition(_unpad_wrapped)
def unpad_wrapped_in_parts(self, sizes, pad, mode):
    out = raised(self)
    for i in range(len(pad) // 2):
        d = len(sizes) - 1 - i
        whole = [sizes[d] if e == d else n for e, n in enumerate(out.sizes)]
        places = sources(self, sizes[d], pad[2 * i], pad[2 * i + 1], mode)
        out = op.zeros(whole, dtype=out.dtype, device=out.device).index_add(d, places, out)
    return out.to(self.dtype)


# -- patches -----------------------------------------------------------------------------------------


def patch_places(like, size, kernel, dilation, padding, stride):
    """For each tap of the kernel and each patch of one dim: the place, and whether it is inside."""
    count = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    at = (counted(kernel, like) * dilation).unsqueeze(1) + (counted(count, like) * stride - padding)
    return at.clamp(0, size - 1), (at >= 0) & (at < size)


def patches(like, sizes, kernel, dilation, padding, stride):
    """Places of [kh, kw, patches down, patches across], and whether they are inside."""
    rows, within_rows = patch_places(like, sizes[0], kernel[0], dilation[0], padding[0], stride[0])
    columns, within_columns = patch_places(like, sizes[1], kernel[1], dilation[1], padding[1], stride[1])
    high, wide = rows.size(1), columns.size(1)

    def by_rows(x):
        return x.reshape([kernel[0], 1, high, 1])

    def by_columns(x):
        return x.reshape([1, kernel[1], 1, wide])

    return by_rows(rows), by_columns(columns), by_rows(within_rows) & by_columns(within_columns)


@decomposition(_unfold_patches)
def unfold_patches_in_parts(self, kernel, dilation, padding, stride):
    rows, columns, inside = patches(self, self.sizes[2:], kernel, dilation, padding, stride)
    found = op.where(inside, op.index(self, [None, None, rows, columns]), nothing(self))
    return found.reshape([self.size(0), self.size(1) * kernel[0] * kernel[1], rows.size(2) * columns.size(3)])


@decomposition(_fold_patches)
def fold_patches_in_parts(self, sizes, kernel, dilation, padding, stride):
    rows, columns, inside = patches(self, sizes, kernel, dilation, padding, stride)
    channels = self.size(1) // (kernel[0] * kernel[1])
    parts = raised(self).reshape([self.size(0), channels, *kernel, rows.size(2), columns.size(3)])
    images = op.zeros([self.size(0), channels, *sizes], dtype=parts.dtype, device=self.device)
    return images.index_put([None, None, rows, columns], op.where(inside, parts, nothing(parts)), True).to(self.dtype)


# -- gradient scaling --------------------------------------------------------------------------------


@decomposition(non_finite_check_and_unscale)
def unscale_in_parts(self, found_inf, inv_scale):
    for t in self:
        found_inf.copy_(op.where(op.isfinite(t).all(), found_inf, 1.0))
        t.copy_(t * inv_scale.to(t.dtype))


@decomposition(update_scale)
def update_scale_in_parts(self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval):
    bad = found_inf != 0
    steps = growth_tracker + 1
    due = steps == growth_interval
    grown = self * scale_growth_factor
    kept = op.where(due & op.isfinite(grown), grown, self)
    growth_tracker.copy_(op.where(bad | due, 0, steps).to(dt.int32))
    return self.copy_(op.where(bad, self * scale_backoff_factor, kept))
