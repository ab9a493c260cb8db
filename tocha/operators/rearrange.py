"""Elements moved around: flips, rolls, repetitions, shuffles of channels and pixels, padding."""

from __future__ import annotations

from tocha.ir import layout
from tocha.ir.sym_types import Symbolic
from tocha.operators import interpreter
from tocha.operators.record import composite, facts, gradient, native, op, rule
from tocha.operators.rules import Out, cat_strides, like_strides, wrap_dim, wrap_dims


@native("flip(Tensor self, int[] dims) -> Tensor", samples=lambda t: [((t(3, 4), (0, 1)), {})], core=True)
def flip(self, dims):
    """The elements in reverse order along dims."""
    wrap_dims(dims, self.ndim)
    return Out(self.shape, self.dtype, strides=like_strides(self, None))


@gradient(flip, "self")
def flip_gradient(grad, dims):
    return grad.flip(dims)


@composite("fliplr(Tensor self) -> Tensor")
def fliplr(self):
    """The columns in reverse order."""
    if self.ndim < 2:
        raise RuntimeError(f"[fliplr] Input must be >= 2-d, got {self.ndim}-d")
    return self.flip([1])


@composite("flipud(Tensor self) -> Tensor")
def flipud(self):
    """The rows in reverse order."""
    if self.ndim < 1:
        raise RuntimeError(f"[flipud] Input must be >= 1-d, got {self.ndim}-d")
    return self.flip([0])


@native("_roll_dims(Tensor self, int[] shifts, int[] dims) -> Tensor", variants="")
def _roll_dims(self, shifts, dims):
    """One dim shifted round. Where it moves, two parts change places: that is a join."""
    n = self.shape[dims[0]]
    moves = n > 0 and shifts[0] % n != 0
    return Out(self.shape, self.dtype, strides=cat_strides(self.shape, [self] if moves else []))


@composite(
    "roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor",
    samples=lambda t: [((t(3, 4), 5), {}), ((t(3, 4), (1, -2), (0, 1)), {})],
)
def roll(self, shifts, dims):
    """The elements shifted along dims, those that leave one end entering at the other; without dims, in flattened order."""
    if len(shifts) == 0:
        raise RuntimeError("[roll] `shifts` required")
    if len(dims) == 0 and len(shifts) == 1:
        return op._unsafe_view(op._roll_dims(self.reshape([-1]), shifts, [0]), self.shape)
    if len(shifts) != len(dims):
        raise RuntimeError(f"[roll] shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    if self.ndim == 0:
        raise IndexError(f"[roll] Dimension specified as {dims[0]} but tensor has no dimensions")
    out = self
    for i in range(len(dims)):
        out = op._roll_dims(out, [shifts[i]], [wrap_dim(dims[i], self.ndim)])
    return out


@gradient(roll, "self")
def roll_gradient(grad, shifts, dims):
    return grad.roll([-s for s in shifts], dims)


@composite("rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor")
def rot90(self, k, dims):
    """The plane of two dims turned k times by 90 degrees, from the first towards the second."""
    if len(dims) != 2:
        raise RuntimeError(f"[rot90] expected total rotation dims == 2, but got dims = {len(dims)}")
    if self.ndim < 2:
        raise RuntimeError(f"[rot90] expected total dims >= 2, but got total dims = {self.ndim}")
    a = wrap_dim(dims[0], self.ndim)
    b = wrap_dim(dims[1], self.ndim)
    if a == b:
        raise RuntimeError(
            f"[rot90] expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    turns = k % 4
    if turns == 1:
        return self.flip([b]).transpose_(a, b)
    if turns == 2:
        return self.flip([a, b])
    if turns == 3:
        return self.flip([a]).transpose_(a, b)
    return self.clone()


@gradient(rot90, "self")
def rot90_gradient(grad, k, dims):
    return grad.rot90(-k, dims)


# -- repetition --------------------------------------------------------------------------------------


@composite(
    "repeat(Tensor self, SymInt[] repeats) -> Tensor",
    variants="method",
    samples=lambda t: [((t(3, 4), (2, 1, 2)), {})],
    core=True,
)
def repeat(self, repeats):
    """The whole tensor repeated along each dim; further leading dims may be given."""
    lead = len(repeats) - self.ndim
    if lead < 0:
        raise RuntimeError(
            f"[repeat] Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor: {repeats} for {self.shape}"
        )
    split: "int[]" = []
    wide: "int[]" = []
    total: "int[]" = []
    for i in range(len(repeats)):
        if repeats[i] < 0:
            raise RuntimeError(
                f"[repeat] Trying to create tensor with negative dimension: repeats {repeats} of {self.shape}"
            )
        n = self.shape[i - lead] if i >= lead else 1
        split.extend([1, n])
        wide.extend([repeats[i], n])
        total.append(repeats[i] * n)
    return op._unsafe_view(op._dense_copy(self.reshape(split).expand(wide)), total)


@gradient(repeat, "self")
def repeat_gradient(grad, self, repeats):
    lead = len(repeats) - self.ndim
    split: "int[]" = []
    copies: "int[]" = []
    for i in range(len(repeats)):
        split.extend([repeats[i], self.shape[i - lead] if i >= lead else 1])
        if repeats[i] != 1:
            copies.append(2 * i)
    if len(copies) == 0:
        return grad.reshape(self.shape)
    return grad.reshape(split).sum(copies, True).reshape(self.shape)


@composite(
    "tile(Tensor self, SymInt[] dims) -> Tensor",
    samples=lambda t: [((t(3, 4), (2,)), {})],
)
def tile(self, dims):
    """repeat with as many dims as are given, the leading ones kept."""
    return self.repeat([1] * max(self.ndim - len(dims), 0) + list(dims))


@native(
    "repeat_interleave(Tensor repeats, *, SymInt? output_size=None) -> Tensor",
    algorithm="selection",
    tags=frozenset({"any_device", "dynamic", "reads_values", "dynamic_output_shape"}),
    variants="function",
    samples=lambda t: [((t.of([2, 0, 3]),), {})],
    aten=("repeat_interleave.Tensor",),
)
def repeat_interleave(repeats, output_size):
    """Each index i repeats[i] times."""


@facts(repeat_interleave)
def repeat_interleave_facts(repeats, output_size):
    return repeats.fresh(
        [interpreter.current().unknown_size("repeat_interleave") if output_size is None else output_size]
    )


@composite(
    "repeat_interleave.tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor",
    samples=lambda t: [((t(3, 4), t.of([2, 0, 3]), 0), {})],
    tags=frozenset({"reads_values"}),
    aten=("repeat_interleave.self_Tensor",),
)
def repeat_interleave_tensor(self, repeats, dim, output_size):
    """Each element of dim as often as repeats says (one number for all of them, or one each)."""
    x = self.flatten() if dim is None else self
    if x.ndim == 0:
        x = x.reshape([1])
    at = wrap_dim(0 if dim is None else dim, x.ndim)
    n = x.shape[at]
    counts = repeats
    if repeats.ndim == 0 or (repeats.ndim == 1 and repeats.shape[0] == 1):
        counts = repeats.reshape([1]).expand([n])
    elif repeats.ndim != 1:
        raise RuntimeError(f"[repeat_interleave] repeats must be 0-dim or 1-dim tensor, got {repeats.shape}")
    elif repeats.shape[0] != n:
        raise RuntimeError(
            f"[repeat_interleave] repeats must have the same size as input along dim, but got repeats.size(0) = {repeats.shape[0]} and input.size({at}) = {n}"
        )
    rows = op.repeat_interleave(counts, output_size=output_size)
    return x.index_select(at, rows)


@composite(
    "repeat_interleave.int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor",
    node="ViewBackward0",
    samples=lambda t: [((t(3, 4), 2, 1), {})],
    aten=("repeat_interleave.self_int",),
)
def repeat_interleave_int(self, repeats, dim, output_size):
    """Each element of dim `repeats` times."""
    if repeats < 0:
        raise RuntimeError(f"[repeat_interleave] Repeats must be non-negative, got {repeats}")
    x = self.flatten() if dim is None else self
    if x.ndim == 0:
        x = x.reshape([1])
    at = wrap_dim(0 if dim is None else dim, x.ndim)
    if output_size is not None and output_size != x.shape[at] * repeats:
        raise RuntimeError(
            f"[repeat_interleave] repeat_interleave: Invalid output_size, expected {x.shape[at] * repeats} but got {output_size}"
        )
    wide = list(x.shape)
    wide.insert(at + 1, repeats)
    total = list(x.shape)
    total[at] = x.shape[at] * repeats
    return op._dense_copy(x.unsqueeze(at + 1).expand(wide)).view(total)


# -- channels and pixels -----------------------------------------------------------------------------


@native(
    "_in_format_of(Tensor self, Tensor model) -> Tensor",
    algorithm="memory",
    tags=frozenset({"any_device", "dynamic"}),
    variants="",
)
def _in_format_of(self, model):
    """self, or a copy of it, in the memory format that model suggests."""


@facts(_in_format_of)
def in_format_of_facts(self, model):
    strides = layout.format_strides(self.sizes, layout.suggested_format(model.sizes, model.steps))
    return self if self.strides == strides else self.fresh(strides=strides)


@gradient(_in_format_of, "self")
def in_format_of_gradient(grad):
    return grad


@composite(
    "pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 8, 3, 3), 2), {})],
)
def pixel_shuffle(self, upscale_factor):
    """Channels become blocks of pixels: (..., C r r, H, W) as (..., C, H r, W r)."""
    r = upscale_factor
    if self.ndim < 3:
        raise RuntimeError(
            f"[pixel_shuffle] pixel_shuffle expects input to have at least 3 dimensions, but got input with {self.ndim} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"[pixel_shuffle] pixel_shuffle expects a positive upscale_factor, but got {r}")
    c, h, w = self.shape[-3], self.shape[-2], self.shape[-1]
    if c % (r * r) != 0:
        raise RuntimeError(
            f"[pixel_shuffle] pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but input.size(-3)={c} is not divisible by {r * r}"
        )
    n = self.ndim - 3
    lead = list(range(n))
    x = self.reshape([*self.shape[:n], c // (r * r), r, r, h, w])
    x = x.permute([*lead, n, n + 3, n + 1, n + 4, n + 2])
    return op._in_format_of(op._unsafe_view(op._dense_copy(x), [*self.shape[:n], c // (r * r), h * r, w * r]), self)


@gradient(pixel_shuffle, "self")
def pixel_shuffle_gradient(grad, upscale_factor):
    return op.pixel_unshuffle(grad, upscale_factor)


@composite(
    "pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 2, 4, 6), 2), {})],
)
def pixel_unshuffle(self, downscale_factor):
    """Blocks of pixels become channels: the inverse of pixel_shuffle."""
    r = downscale_factor
    if self.ndim < 3:
        raise RuntimeError(
            f"[pixel_unshuffle] pixel_unshuffle expects input to have at least 3 dimensions, but got input with {self.ndim} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"[pixel_unshuffle] pixel_unshuffle expects a positive downscale_factor, but got {r}")
    c, h, w = self.shape[-3], self.shape[-2], self.shape[-1]
    if h % r != 0 or w % r != 0:
        raise RuntimeError(
            f"[pixel_unshuffle] expects height and width to be divisible by downscale_factor, but {h} and {w} are not divisible by {r}"
        )
    n = self.ndim - 3
    lead = list(range(n))
    x = self.reshape([*self.shape[:n], c, h // r, r, w // r, r])
    x = x.permute([*lead, n, n + 2, n + 4, n + 1, n + 3])
    return op._in_format_of(op._unsafe_view(op._dense_copy(x), [*self.shape[:n], c * r * r, h // r, w // r]), self)


@gradient(pixel_unshuffle, "self")
def pixel_unshuffle_gradient(grad, downscale_factor):
    return op.pixel_shuffle(grad, downscale_factor)


@composite(
    "channel_shuffle(Tensor self, SymInt groups) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 6, 3), 3), {})],
)
def channel_shuffle(self, groups):
    """Channels of (N, C, ...) dealt out from `groups` groups in turn."""
    if self.ndim <= 2:
        raise RuntimeError(
            f"[channel_shuffle] channel_shuffle expects input with > 2 dims, but got input with sizes {self.shape}"
        )
    c = self.shape[1]
    if groups <= 0:
        raise RuntimeError(
            f"[channel_shuffle] Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    if c % groups != 0:
        raise RuntimeError(
            f"[channel_shuffle] Number of channels must be divisible by groups. Got {c} channels and {groups} groups."
        )
    x = self.reshape([self.shape[0], groups, c // groups, *self.shape[2:]])
    return op._in_format_of(op._unsafe_view(op._dense_copy(x.transpose(1, 2)), self.shape), self)


@gradient(channel_shuffle, "self")
def channel_shuffle_gradient(grad, groups):
    return grad if grad.size(1) == 0 else op.channel_shuffle(grad, grad.size(1) // groups)


# -- padding -----------------------------------------------------------------------------------------


@rule
def padded_sizes(self: "Tensor", pad: "int[]", name: "str") -> "int[]":
    """pad holds (before, after) pairs, the last dim's first."""
    if len(pad) % 2 != 0:
        raise RuntimeError(f"[{name}] Length of pad must be even but instead it equals {len(pad)}")
    if len(pad) // 2 > self.ndim:
        raise RuntimeError(
            f"[{name}] Length of pad should be no more than twice the number of dimensions of the input. Pad length is {len(pad)} while the input has {self.ndim} dimensions."
        )
    sizes = list(self.shape)
    for i in range(len(pad) // 2):
        d = self.ndim - 1 - i
        sizes[d] = sizes[d] + pad[2 * i] + pad[2 * i + 1]
        if sizes[d] < 0:
            raise RuntimeError(
                f"[{name}] The input size {self.shape[d]}, plus negative padding {pad[2 * i]} and {pad[2 * i + 1]} resulted in a negative output size, which is invalid. Check dimension {d} of your input."
            )
    return sizes


@rule
def check_kept(self: "Tensor", pad: "int[]") -> "none":
    """That no more is cut off than there is."""
    for i in range(min(len(pad) // 2, self.ndim)):
        n = self.shape[self.ndim - 1 - i]
        if n + min(pad[2 * i], 0) + min(pad[2 * i + 1], 0) < 0:
            raise RuntimeError(
                f"[constant_pad_nd] narrow(): length must be non-negative. Got padding ({pad[2 * i]}, {pad[2 * i + 1]}) for a dimension of size {n}"
            )


@composite(
    "constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor",
    variants="function",
    samples=lambda t: [((t(3, 4), (1, -1, 2, 0), 0.5), {})],
    core=True,
)
def constant_pad_nd(self, pad, value):
    """self with value around it; negative padding cuts."""
    check_kept(self, pad)
    sizes = padded_sizes(self, pad, "constant_pad_nd")
    if all(n <= 0 for n in pad):
        kept = self
        for i in range(len(pad) // 2):
            d = self.ndim - 1 - i
            kept = kept.narrow(d, -pad[2 * i], sizes[d])
        return kept.clone()
    out = op._empty_padded(self, sizes)
    out.fill_(value)
    inner = self
    target = out
    for i in range(len(pad) // 2):
        d = self.ndim - 1 - i
        before, after = pad[2 * i], pad[2 * i + 1]
        inner = inner.narrow(d, max(-before, 0), max(self.shape[d] - max(-before, 0) - max(-after, 0), 0))
        target = target.narrow(d, max(before, 0), max(sizes[d] - max(before, 0) - max(after, 0), 0))
    target.copy_(inner)
    return out


@facts(constant_pad_nd)
def padded_facts(self, pad, value):
    """Of a contiguous tensor all is known without the signs of pads that are symbols."""
    if not any(isinstance(n, Symbolic) for n in pad) or not self.is_contiguous():
        return NotImplemented
    check_kept(self, pad)
    return self.fresh(padded_sizes(self, pad, "constant_pad_nd"))


@gradient(constant_pad_nd, "self")
def constant_pad_gradient(grad, pad):
    return op.constant_pad_nd(grad, [-n for n in pad], 0)


@native(
    "_empty_padded(Tensor self, int[] sizes) -> Tensor",
    algorithm="memory",
    tags=frozenset({"any_device", "dynamic", "no_gradient"}),
    variants="",
)
def _empty_padded(self, sizes):
    """An uninitialised tensor of other sizes in self's memory format."""


@facts(_empty_padded)
def empty_padded_facts(self, sizes):
    return self.fresh(sizes, layout.format_strides(sizes, layout.suggested_format(self.sizes, self.steps)))


@rule
def pad_node(pad: "int[]", mode: "str") -> "str":
    if mode == "circular":
        return "CopySlices"
    return f"{'Reflection' if mode == 'reflect' else 'Replication'}Pad{len(pad) // 2}DBackward0"


@native("_pad_wrapped(Tensor self, int[] pad, str mode) -> Tensor", node=pad_node, variants="")
def _pad_wrapped(self, pad, mode):
    """self continued beyond its edges: mirrored (reflect), by the edge itself (replicate), from the other side (circular)."""
    sizes = padded_sizes(self, pad, "pad")
    for i in range(len(pad) // 2):
        d = self.ndim - 1 - i
        n = self.shape[d]
        before, after = pad[2 * i], pad[2 * i + 1]
        if mode == "reflect" and (before >= n or after >= n):
            raise RuntimeError(
                f"[pad] Argument #4: Padding size should be less than the corresponding input dimension, but got: padding ({before}, {after}) at dimension {d} of input {self.shape}"
            )
        if mode == "circular" and (before > n or after > n):
            raise RuntimeError(
                f"[pad] Padding value causes wrapping around more than once. Got padding ({before}, {after}) at dimension {d} of input {self.shape}"
            )
        if mode == "circular" and n + min(before, 0) + min(after, 0) < 0:
            raise RuntimeError(
                f"[pad] Negative padding value is resulting in an empty dimension: padding ({before}, {after}) at dimension {d} of input {self.shape}"
            )
        if n == 0 and sizes[d] > 0:
            raise RuntimeError(f"[pad] Expected input with non-zero size at dimension {d}, but got {self.shape}")
        if mode == "reflect" and sizes[d] == 0:
            raise RuntimeError(
                f"[pad] input {self.shape} is too small for padding ({before}, {after}) at dimension {d}: the output would be empty"
            )
    if mode == "circular":
        return Out(sizes, self.dtype)
    return Out(sizes, self.dtype, strides=cat_strides(sizes, [self]))


@native("_unpad_wrapped(Tensor self, int[] sizes, int[] pad, str mode) -> Tensor", variants="")
def _unpad_wrapped(self, sizes, pad, mode):
    """The adjoint of _pad_wrapped: for each element of a tensor of these sizes, the sum of where its padding shows it."""
    return Out(sizes, self.dtype)


@gradient(_pad_wrapped, "self")
def pad_wrapped_gradient(grad, self, pad, mode):
    return op._unpad_wrapped(grad, self.shape, pad, mode)


@gradient(_unpad_wrapped, "self")
def unpad_wrapped_gradient(grad, pad, mode):
    return op._pad_wrapped(grad, pad, mode)


@composite(
    "_pad_edges(Tensor self, int[] pad, str mode) -> Tensor",
    autocast="float32",
    node=pad_node,
    flat=("self",),
    variants="",
    samples=lambda t: [((t(2, 3, 4), (1, 2), mode), {}) for mode in ("reflect", "replicate")],
)
def _pad_edges(self, pad, mode):
    """self continued beyond its edges by its own values there: mirrored (reflect) or repeated (replicate)."""
    pairs = len(pad) // 2
    filled = self.shape[1:] if self.ndim == pairs + 2 else self.shape
    if 0 in filled:
        raise RuntimeError(
            f"[pad] Expected {pairs + 1}D or {pairs + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: {self.shape}"
        )
    return op._pad_wrapped(self, pad, mode)


@gradient(_pad_edges, "self")
def pad_edges_gradient(grad, self, pad, mode):
    return op._unpad_wrapped(grad, self.shape, pad, mode)


@rule
def check_pairs(self: "Tensor", pad: "int[]") -> "none":
    if len(pad) % 2 != 0:
        raise RuntimeError(f"[pad] Padding length must be divisible by 2, got {pad}")
    if len(pad) // 2 > self.ndim:
        raise RuntimeError(
            f"[pad] Padding length should be less than or equal to two times the input dimension but got padding length {len(pad)} and input of dimension {self.ndim}"
        )


@composite(
    'nn_pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor',
    variants="function",
    samples=lambda t: [((t(2, 3, 4), (1, 2), mode), {}) for mode in ("constant", "reflect", "replicate", "circular")],
)
def nn_pad(self, pad, mode, value):
    """self continued beyond its edges; pad holds (before, after) pairs, the last dim's first."""
    if mode == "constant":
        check_pairs(self, pad)
        return op.constant_pad_nd(self, pad, 0 if value is None else value)
    if mode != "reflect" and mode != "replicate" and mode != "circular":
        raise NotImplementedError(f"[pad] Unrecognised padding mode {mode}")
    if value is not None and value != 0:
        raise RuntimeError(f'[pad] Padding mode "{mode}" doesn\'t take in value argument')
    pairs = len(pad) // 2
    check_pairs(self, pad)
    if pairs < 1 or pairs > 3 or (self.ndim != pairs + 1 and self.ndim != pairs + 2):
        raise NotImplementedError(
            f"[pad] Padding size {len(pad)} is not supported for {self.ndim}D input tensor. Supported combinations for non-constant padding: padding size 2 for 2D or 3D input, 4 for 3D or 4D input, 6 for 4D or 5D input"
        )
    if mode == "circular":
        return op._pad_wrapped(self, pad, mode)
    return op._pad_edges(self, pad, mode)
