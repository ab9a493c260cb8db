"""Views: the same memory under other sizes and strides. Each view operator is one rule on its own."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.record import composite, facts, gradient, native, op, rule, view
from tocha.operators.rules import (
    View,
    check_storage_bounds,
    infer_size,
    product,
    view_strides,
    warn_once,
    wrap_dim,
    wrap_dims,
)

# -- shapes ------------------------------------------------------------------------------------------


@view(
    "view.dtype(Tensor self, dtype dtype) -> Tensor",
    variants="method",
    samples=lambda t: [((t(3, 4), t(1, dtype="int32").dtype), {}), ((t(3, 4), t(1, dtype="uint8").dtype), {})],
    tags=frozenset({"memory_order", "no_gradient"}),
)
def view_dtype(self, dtype):
    """The same bytes read as another dtype; the last dim grows or shrinks with the element size."""
    old, new = self.element_size(), dtype.itemsize
    sizes = list(self.shape)
    strides = list(self.strides)
    if self.is_conj() or self.is_neg():
        raise RuntimeError(
            "[view] a conjugated or negated tensor cannot be read as another dtype; call resolve_conj() or resolve_neg() first"
        )
    if old == new:
        return View(sizes, strides, self.storage_offset(), dtype=dtype)
    if self.ndim == 0:
        raise RuntimeError(f"[view] self.dim() cannot be 0 to view {self.dtype} as {dtype} (different element sizes)")
    if self.strides[-1] != 1:
        raise RuntimeError(
            f"[view] self.stride(-1) must be 1 to view {self.dtype} as {dtype} (different element sizes), but got {self.strides[-1]}"
        )
    if new < old:
        ratio = old // new
        for i in range(len(sizes) - 1):
            strides[i] = strides[i] * ratio
        sizes[-1] = sizes[-1] * ratio
        return View(sizes, strides, self.storage_offset() * ratio, dtype=dtype)
    ratio = new // old
    if sizes[-1] % ratio != 0:
        raise RuntimeError(
            f"[view] self.size(-1) must be divisible by {ratio} to view {self.dtype} as {dtype} (different element sizes), but got {sizes[-1]}"
        )
    if self.storage_offset() % ratio != 0:
        raise RuntimeError(
            f"[view] self.storage_offset() must be divisible by {ratio} to view {self.dtype} as {dtype} (different element sizes), but got {self.storage_offset()}"
        )
    for i in range(len(sizes) - 1):
        if strides[i] % ratio != 0:
            raise RuntimeError(
                f"[view] self.stride({i}) must be divisible by {ratio} to view {self.dtype} as {dtype} (different element sizes), but got {strides[i]}"
            )
        strides[i] = strides[i] // ratio
    sizes[-1] = sizes[-1] // ratio
    return View(sizes, strides, self.storage_offset() // ratio, dtype=dtype)


@view(
    "view(Tensor self, SymInt[] size) -> Tensor",
    variants="method",
    samples=lambda t: [((t(3, 4), (3, 2, 2)), {}), ((t(3, 4), (3, -1)), {})],
    core=True,
)
def view_(self, size):
    """The same elements in another shape, sharing memory."""
    shape = infer_size(size, self.numel())
    strides = view_strides(self.shape, self.strides, shape)
    if strides is None:
        raise RuntimeError(
            f"[view] view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces): {self.shape} as {shape}. Use .reshape(...) instead."
        )
    return View(shape, strides, self.storage_offset())


@gradient(view_, "self")
def view_gradient(grad, self):
    return grad.reshape(self.shape)


@composite("view_as(Tensor(a) self, Tensor other) -> Tensor(a)", variants="method")
def view_as(self, other):
    """self viewed in other's shape."""
    return self.view(other.shape)


@composite(
    "reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)",
    samples=lambda t: [((t(3, 4), (2, 6)), {}), ((t(3, 4), (-1,)), {})],
)
def reshape(self, shape):
    """A view in another shape where possible, else a copy."""
    size = infer_size(shape, self.numel())
    if view_strides(self.shape, self.strides, size) is not None:
        return self.view(size)
    return op._unsafe_view(self.contiguous(), size)


@native(
    "_unsafe_view(Tensor self, SymInt[] size) -> Tensor",
    algorithm="memory",
    tags=frozenset({"any_device", "dynamic", "memory_order"}),
    variants="function",
    samples=lambda t: [((t(3, 4), (2, 6)), {})],
)
def _unsafe_view(self, size):
    """A fresh result in another shape: not a view, since nobody else holds self."""


@facts(_unsafe_view)
def unsafe_view_facts(self, size):
    sizes = infer_size(size, self.numel())
    strides = view_strides(self.shape, self.strides, sizes)
    if strides is None:
        raise RuntimeError(
            f"[_unsafe_view] view size is not compatible with input tensor's size and stride: {self.shape}, {self.strides} as {size}"
        )
    result = self.with_geometry(sizes, strides, self.offset)
    result.base = None
    return result


@gradient(_unsafe_view, "self")
def unsafe_view_gradient(grad, self):
    return grad.reshape(self.shape)


@composite("reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)", variants="method")
def reshape_as(self, other):
    """self reshaped to other's shape."""
    return self.reshape(other.shape)


@composite("flatten(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)", aten=("flatten.using_ints",))
def flatten(self, start_dim, end_dim):
    """Joins the dims from start_dim to end_dim into one."""
    start = wrap_dim(start_dim, self.ndim)
    end = wrap_dim(end_dim, self.ndim)
    if start > end:
        raise RuntimeError(
            f"[flatten] flatten() has invalid args: start_dim cannot come after end_dim, got {start_dim} and {end_dim}"
        )
    if self.ndim == 0:
        return self.reshape([1])
    if start == end:
        return self
    joined = product(self.shape[start : end + 1])
    return self.reshape([*self.shape[:start], joined, *self.shape[end + 1 :]])


@composite(
    "unflatten(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)",
    samples=lambda t: [((t(3, 4), 1, (2, -1)), {})],
    aten=("unflatten.int",),
)
def unflatten(self, dim, sizes):
    """Splits one dim into several; one of the sizes may be -1."""
    at = wrap_dim(dim, self.ndim)
    if self.ndim == 0:
        raise RuntimeError(
            f"[unflatten] unflatten got an unexpected error: Dimension specified as {dim} but tensor has no dimensions"
        )
    if len(sizes) == 0:
        raise RuntimeError("[unflatten] unflatten: sizes must be non-empty")
    known = 1
    unknown = 0
    for s in sizes:
        if s == -1:
            unknown += 1
        else:
            known *= s
    n = self.size(at)
    if unknown > 1:
        raise RuntimeError("[unflatten] only one dimension can be inferred")
    if (unknown == 0 and known != n) or (unknown == 1 and (known == 0 or n % known != 0)):
        raise RuntimeError(
            f"[unflatten] unflatten: Provided sizes {sizes} don't multiply up to the size of dim {at} ({n}) in the input tensor"
        )
    parts = [n // known if s == -1 else s for s in sizes]
    return self.view([*self.shape[:at], *parts, *self.shape[at + 1 :]])


@composite("ravel(Tensor(a) self) -> Tensor(a)")
def ravel(self):
    """All elements in one dim, contiguous."""
    return self.contiguous().view([-1])


# -- order of dims -----------------------------------------------------------------------------------


@view("permute(Tensor self, int[] dims) -> Tensor", samples=lambda t: [((t(2, 3, 4), (2, 0, -2)), {})], core=True)
def permute(self, dims):
    """The dims in another order."""
    if len(dims) != self.ndim:
        raise RuntimeError(
            f"[permute] number of dimensions in the tensor input does not match the length of the desired ordering of dimensions i.e. input.dim() = {self.ndim} is not equal to len(dims) = {len(dims)}"
        )
    order = [wrap_dim(d, self.ndim) for d in dims]
    for i in range(len(order)):
        for j in range(i):
            if order[i] == order[j]:
                raise RuntimeError(f"[permute] permute(): duplicate dims are not allowed. Got {dims}")
    return View([self.shape[d] for d in order], [self.strides[d] for d in order], self.storage_offset())


@gradient(permute, "self")
def permute_gradient(grad, dims):
    inverse = [0] * len(dims)
    for i in range(len(dims)):
        inverse[wrap_dim(dims[i], len(dims))] = i
    return grad.permute(inverse)


@rule
def swapped_dims(self: "Tensor", dim0: "int", dim1: "int") -> "View":
    a = wrap_dim(dim0, self.ndim)
    b = wrap_dim(dim1, self.ndim)
    sizes = list(self.shape)
    strides = list(self.strides)
    if self.ndim > 0:
        sizes[a], sizes[b] = sizes[b], sizes[a]
        strides[a], strides[b] = strides[b], strides[a]
    return View(sizes, strides, self.storage_offset())


@view(
    "transpose(Tensor self, int dim0, int dim1) -> Tensor",
    inplace_node="TransposeBackward1",
    variants="function, method, inplace",
    aliases=("swapdims",),
    aten=("transpose.int", "transpose_", "swapdims", "swapdims_"),
)
def transpose(self, dim0, dim1):
    """Two dims exchanged."""
    return swapped_dims(self, dim0, dim1)


@gradient(transpose, "self")
def transpose_gradient(grad, dim0, dim1):
    return grad.transpose(dim0, dim1)


@view(
    "swapaxes(Tensor self, int axis0, int axis1) -> Tensor",
    node="TransposeBackward0",
    inplace_node="TransposeBackward1",
    variants="function, method, inplace",
)
def swapaxes(self, axis0, axis1):
    """Two dims exchanged, under NumPy's names."""
    return swapped_dims(self, axis0, axis1)


@gradient(swapaxes, "self")
def swapaxes_gradient(grad, axis0, axis1):
    return grad.transpose(axis0, axis1)


@view("t(Tensor self) -> Tensor", inplace_node="TBackward1", variants="function, method, inplace")
def t(self):
    """A matrix transposed; a vector or a number as it is."""
    if self.ndim > 2:
        raise RuntimeError(f"[t] t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D")
    return swapped_dims(self, 0, 1 if self.ndim > 1 else 0)


@gradient(t, "self")
def t_gradient(grad):
    return grad.t()


@view("T(Tensor self) -> Tensor", node="PermuteBackward0", variants="property")
def T(self):
    """All dims in reverse order."""
    if self.ndim == 0:
        warn_once("Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases.")
    if self.ndim != 2 and self.ndim != 0:
        warn_once(
            f"The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will throw an error in a future release. It has {self.ndim} dimensions. Consider `x.mT` to transpose batches of matrices or `x.permute(*range(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor."
        )
    return View(self.shape[::-1], self.strides[::-1], self.storage_offset())


@gradient(T, "self")
def T_gradient(grad):
    return grad.permute([grad.ndim - 1 - i for i in range(grad.ndim)])


@composite("mT(Tensor(a) self) -> Tensor(a)", variants="property")
def mT(self):
    """The last two dims exchanged."""
    if self.ndim == 1:
        raise RuntimeError("[mT] only supported on matrices or batches of matrices, got a 1-D tensor")
    if self.ndim == 0:
        warn_once("Tensor.mT is deprecated on 0-D tensors. This function is the identity in these cases.")
        return self
    return self.transpose(-2, -1)


@composite("adjoint(Tensor(a) self) -> Tensor(a)")
def adjoint(self):
    """The last two dims exchanged, conjugated."""
    if self.ndim == 1:
        raise RuntimeError("[adjoint] only supported on matrices or batches of matrices, got a 1-D tensor")
    return self.mT.conj() if self.is_complex() else self.mT


@composite("mH(Tensor(a) self) -> Tensor(a)", variants="property")
def mH(self):
    """The last two dims exchanged, conjugated."""
    if self.ndim == 1:
        raise RuntimeError("[mH] only supported on matrices or batches of matrices, got a 1-D tensor")
    if self.ndim == 0:
        warn_once("Tensor.mH is deprecated on 0-D tensors. Consider using x.conj().")
        return self.conj()
    return self.adjoint()


@composite("H(Tensor self) -> Tensor", variants="property")
def H(self):
    """A matrix transposed and conjugated."""
    if self.ndim != 2 and self.ndim != 0:
        raise RuntimeError(f"[H] only supported on matrices (2-D tensors), got a {self.ndim}-D tensor")
    if self.ndim == 0:
        warn_once("Tensor.H is deprecated on 0-D tensors. Consider using x.conj().")
        return self.conj()
    return self.adjoint()


@composite(
    "movedim(Tensor(a) self, int[1] source, int[1] destination) -> Tensor(a)",
    aliases=("moveaxis",),
    samples=lambda t: [((t(2, 3, 4), 0, 2), {}), ((t(2, 3, 4), (0, 1), (-1, 0)), {})],
    aten=(
        "movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
        "movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)",
    ),
)
def movedim(self, source, destination):
    """Moves the dims in source to the places in destination; the others keep their order."""
    if len(source) != len(destination):
        raise RuntimeError(
            f"[movedim] movedim: Invalid source or destination dims: source ({source} dims) should contain the same number of dims as destination ({destination} dims)"
        )
    origins = [wrap_dim(d, self.ndim) for d in source]
    targets = [wrap_dim(d, self.ndim) for d in destination]
    for i in range(len(origins)):
        for j in range(i):
            if origins[i] == origins[j]:
                raise RuntimeError(f"[movedim] movedim: repeated dim in `source` ({source})")
            if targets[i] == targets[j]:
                raise RuntimeError(f"[movedim] movedim: repeated dim in `destination` ({destination})")
    if self.ndim == 0:
        return op.alias(self)
    rest = [d for d in range(self.ndim) if d not in origins]
    order = [-1] * self.ndim
    for o, d in zip(origins, targets):
        order[d] = o
    k = 0
    for d in range(self.ndim):
        if order[d] == -1:
            order[d] = rest[k]
            k += 1
    return self.permute(order)


# -- more or fewer dims ------------------------------------------------------------------------------


@rule
def expanded_view(self: "Tensor", size: "int[]", name: "str") -> "View":
    """Dims of size 1 (and new leading dims) repeated through stride 0."""
    lead = len(size) - self.ndim
    if lead < 0:
        raise RuntimeError(
            f"[{name}] expand(torch.{self.dtype}Tensor{{{self.shape}}}, size={size}): the number of sizes provided ({len(size)}) must be greater or equal to the number of dimensions in the tensor ({self.ndim})"
        )
    sizes = list(size)
    strides = [0] * len(size)
    if self.ndim > 0:
        for i in reversed(range(len(size))):
            old = self.shape[i - lead] if i >= lead else 1
            step = self.strides[i - lead] if i >= lead else sizes[i + 1] * strides[i + 1]
            if sizes[i] == -1:
                if i < lead:
                    raise RuntimeError(
                        f"[{name}] The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {i}"
                    )
                sizes[i] = old
            if sizes[i] < 0:
                raise RuntimeError(
                    f"[{name}] The expanded size of the tensor ({sizes[i]}) must match the existing size ({old}) at non-singleton dimension {i}.  Target sizes: {size}.  Tensor sizes: {self.shape}"
                )
            if old != sizes[i]:
                if old != 1:
                    raise RuntimeError(
                        f"[{name}] The expanded size of the tensor ({sizes[i]}) must match the existing size ({old}) at non-singleton dimension {i}.  Target sizes: {size}.  Tensor sizes: {self.shape}"
                    )
                step = 0
            strides[i] = step
    else:
        for i in range(len(size)):
            if sizes[i] < 0:
                raise RuntimeError(
                    f"[{name}] The expanded size of the tensor ({sizes[i]}) isn't allowed in a leading, non-existing dimension {i}"
                )
    return View(sizes, strides, self.storage_offset())


@view(
    "expand(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor",
    variants="method",
    samples=lambda t: [((t(3, 1), (2, -1, 4)), {})],
    core=True,
)
def expand(self, size, implicit):
    """Dims of size 1 repeated without copying; -1 keeps a size."""
    return expanded_view(self, size, "expand")


@gradient(expand, "self")
def expand_gradient(grad):
    return grad  # summed to self's shape where it arrives


@composite("expand_as(Tensor(a) self, Tensor other) -> Tensor(a)", variants="method")
def expand_as(self, other):
    """self expanded to other's shape."""
    return self.expand(other.shape)


@composite(
    "broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)",
    samples=lambda t: [((t(3, 1), (2, 3, 4)), {})],
)
def broadcast_to(self, size):
    """self expanded to size."""
    return self.expand(size)


@rule
def squeezed(self: "Tensor", dims: "int[]") -> "View":
    sizes = [self.shape[i] for i in range(self.ndim) if self.shape[i] != 1 or i not in dims]
    strides = [self.strides[i] for i in range(self.ndim) if self.shape[i] != 1 or i not in dims]
    return View(sizes, strides, self.storage_offset())


@view("squeeze(Tensor self) -> Tensor", inplace_node="SqueezeBackward3", variants="function, method, inplace")
def squeeze(self):
    """Dims of size 1 removed."""
    return squeezed(self, list(range(self.ndim)))


@gradient(squeeze, "self")
def squeeze_gradient(grad, self):
    return grad.reshape(self.shape)


@view(
    "squeeze.dim(Tensor self, int dim) -> Tensor",
    node="SqueezeBackward1",
    inplace_node="SqueezeBackward4",
    variants="function, method, inplace",
    core=True,
)
def squeeze_dim(self, dim):
    """The dim removed if its size is 1."""
    return squeezed(self, [wrap_dim(dim, self.ndim)])


@gradient(squeeze_dim, "self")
def squeeze_dim_gradient(grad, self):
    return grad.reshape(self.shape)


@view(
    "squeeze.dims(Tensor self, int[] dim) -> Tensor",
    node="SqueezeBackward2",
    inplace_node="SqueezeBackward5",
    variants="function, method, inplace",
    core=True,
)
def squeeze_dims(self, dim):
    """Those of the dims removed whose size is 1."""
    return squeezed(self, wrap_dims(dim, self.ndim))


@gradient(squeeze_dims, "self")
def squeeze_dims_gradient(grad, self):
    return grad.reshape(self.shape)


@view(
    "unsqueeze(Tensor self, int dim) -> Tensor",
    inplace_node="UnsqueezeBackward1",
    variants="function, method, inplace",
    core=True,
)
def unsqueeze(self, dim):
    """A dim of size 1 inserted."""
    at = wrap_dim(dim, self.ndim + 1)
    sizes = list(self.shape)
    strides = list(self.strides)
    step = sizes[at] * strides[at] if at < self.ndim else 1
    sizes.insert(at, 1)
    strides.insert(at, step)
    return View(sizes, strides, self.storage_offset())


@gradient(unsqueeze, "self")
def unsqueeze_gradient(grad, self):
    return grad.reshape(self.shape)


# -- parts -------------------------------------------------------------------------------------------


@view("select(Tensor self, int dim, SymInt index) -> Tensor", aten=("select.int",), core=True)
def select(self, dim, index):
    """The part of self at one index of dim, without that dim."""
    if self.ndim == 0:
        raise IndexError("[select] select() cannot be applied to a 0-dim tensor.")
    at = wrap_dim(dim, self.ndim)
    n = self.shape[at]
    if index < -n or index >= n:
        raise IndexError(
            f"[select] select(): index {index} out of range for tensor of size {self.shape} at dimension {at}"
        )
    i = index + n if index < 0 else index
    offset = self.storage_offset() + i * self.strides[at]
    return View([*self.shape[:at], *self.shape[at + 1 :]], [*self.strides[:at], *self.strides[at + 1 :]], offset)


@composite(
    "select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor",
    variants="",
    whole=True,
)
def select_backward(grad_output, input_sizes, dim, index):
    """The gradient of select: zeros, and grad_output at the index."""
    whole = op.new_zeros(grad_output, input_sizes)
    op.copy_(op.select(whole, dim, index), grad_output)
    return whole


@composite(
    "slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, SymInt step) -> Tensor",
    variants="",
    whole=True,
)
def slice_backward(grad_output, input_sizes, dim, start, end, step):
    """The gradient of slice: zeros, and grad_output in the slice."""
    whole = op.new_zeros(grad_output, input_sizes)
    op.copy_(op.slice(whole, dim, start, end, step), grad_output)
    return whole


@rule
def sliced(self: "Tensor", dim: "int", start: "int", end: "int", step: "int") -> "View":
    sizes = list(self.shape)
    strides = list(self.strides)
    sizes[dim] = (end - start + step - 1) // step
    strides[dim] = strides[dim] * step
    return View(sizes, strides, self.storage_offset() + start * self.strides[dim])


@view(
    "slice(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
    variants="",
    aten=("slice.Tensor",),
    core=True,
)
def slice_(self, dim, start, end, step):
    """Every step-th element of dim between start and end, which are cut to its size."""
    if self.ndim == 0:
        raise IndexError("[slice] slice() cannot be applied to a 0-dim tensor.")
    at = wrap_dim(dim, self.ndim)
    n = self.shape[at]
    first = 0 if start is None else start
    last = n if end is None else end
    if step <= 0:
        raise RuntimeError(f"[slice] slice step must be positive, got {step}")
    first = min(max(first + n if first < 0 else first, 0), n)
    last = min(max(last + n if last < 0 else last, first), n)
    return sliced(self, at, first, last, step)


@view(
    "narrow(Tensor self, int dim, SymInt start, SymInt length) -> Tensor",
    node="SliceBackward0",
    aten=("narrow", "narrow.Tensor(Tensor(a) self, int dim, Tensor start, SymInt length) -> Tensor(a)"),
)
def narrow(self, dim, start, length):
    """length elements of dim beginning at start."""
    if self.ndim == 0:
        raise RuntimeError("[narrow] narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError(f"[narrow] narrow(): length must be non-negative. Got {length}")
    at = wrap_dim(dim, self.ndim)
    n = self.shape[at]
    if start < -n or start > n:
        raise IndexError(f"[narrow] start out of range (expected to be in range of [{-n}, {n}], but got {start})")
    first = start + n if start < 0 else start
    if first + length > n:
        raise RuntimeError(f"[narrow] start ({first}) + length ({length}) exceeds dimension size ({n}).")
    return sliced(self, at, first, first + length, 1)


@view(
    "unfold(Tensor self, int dimension, int size, int step) -> Tensor",
    variants="method",
    samples=lambda t: [((t(3, 7), 1, 3, 2), {})],
)
def unfold(self, dimension, size, step):
    """Windows of size elements along a dim, step apart, as a new last dim."""
    at = wrap_dim(dimension, self.ndim)
    n = self.shape[at] if self.ndim > 0 else 1
    if size < 0:
        raise RuntimeError(f"[unfold] size is {size} but must be >= 0")
    if size > n:
        raise RuntimeError(f"[unfold] maximum size for tensor at dimension {at} is {n} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"[unfold] step is {step} but must be > 0")
    if self.ndim == 0:
        return View([size], [1], self.storage_offset())
    sizes = [*self.shape, size]
    strides = [*self.strides, self.strides[at]]
    sizes[at] = (n - size) // step + 1
    strides[at] = strides[at] * step
    return View(sizes, strides, self.storage_offset())


@gradient(unfold, "self")
def unfold_gradient(grad, self, dimension, size, step):
    if self.ndim == 0:
        return grad.reshape(self.shape)
    d = wrap_dim(dimension, self.ndim)
    windows = grad.size(d)
    starts = (
        op.arange(0, windows * step, step, device=grad.device) if step > 0 else op.zeros([windows], device=grad.device)
    )
    places = starts.to(dt.int64).unsqueeze(1) + op.arange(size, device=grad.device)
    parts = grad.movedim(-1, d + 1).flatten(d, d + 1)
    return op.zeros(self.shape, dtype=grad.dtype, device=grad.device).index_add(
        d, places.reshape([windows * size]), parts
    )


@rule
def diagonal_view(self: "Tensor", offset: "int", dim1: "int", dim2: "int", name: "str") -> "View":
    a = wrap_dim(dim1, self.ndim)
    b = wrap_dim(dim2, self.ndim)
    if a == b:
        raise RuntimeError(f"[{name}] diagonal dimensions cannot be identical {dim1}, {dim2}")
    rows, columns = self.shape[a], self.shape[b]
    n = max(min(rows, columns - offset), 0) if offset >= 0 else max(min(rows + offset, columns), 0)
    start = self.storage_offset()
    if n > 0:
        start += offset * self.strides[b] if offset >= 0 else -offset * self.strides[a]
    sizes = [self.shape[i] for i in range(self.ndim) if i != a and i != b]
    strides = [self.strides[i] for i in range(self.ndim) if i != a and i != b]
    sizes.append(n)
    strides.append(self.strides[a] + self.strides[b])
    return View(sizes, strides, start)


@view(
    "diagonal(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
    samples=lambda t: [((t(3, 4), 1), {}), ((t(2, 3, 4), 0, 2, 0), {})],
    core=True,
)
def diagonal(self, offset, dim1, dim2):
    """The diagonals of the planes that dim1 and dim2 span, as the last dim."""
    return diagonal_view(self, offset, dim1, dim2, "diagonal")


@view(
    "linalg_diagonal(Tensor A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
    node="DiagonalBackward0",
    variants="function",
)
def linalg_diagonal(A, offset, dim1, dim2):
    """The diagonals of matrices."""
    return diagonal_view(A, offset, dim1, dim2, "linalg.diagonal")


@view(
    "as_strided(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
    inplace_node="AsStridedBackward1",
    variants="function, method, inplace",
    samples=lambda t: [((t(3, 4), (2, 2), (4, 2), 1), {}), ((t(3, 4), (3, 2), (0, 1)), {})],
    tags=frozenset({"memory_order"}),
    core=True,
)
def as_strided(self, size, stride, storage_offset):
    """Any geometry on self's memory."""
    if len(size) != len(stride):
        raise RuntimeError(f"[as_strided] mismatch in length of strides and shape: {size} and {stride}")
    for s in stride:
        if s < 0:
            raise RuntimeError(f"[as_strided] Negative strides are not supported at the moment, got strides: {stride}")
    for s in size:
        if s < 0:
            raise RuntimeError(f"[as_strided] negative size in {size}")
    offset = self.storage_offset() if storage_offset is None else storage_offset
    if offset < 0:
        raise RuntimeError(f"[as_strided] Tensor: invalid storage offset {offset}")
    check_storage_bounds(self, size, stride, offset)
    return View(size, stride, offset)


@rule
def last_element(sizes: "int[]", strides: "int[]", offset: "int") -> "int":
    """The greatest place that a geometry reaches."""
    last = offset
    for i in range(len(sizes)):
        last = last + (sizes[i] - 1) * strides[i]
    return last


@gradient(as_strided, "self")
def as_strided_gradient(grad, self, size, stride, storage_offset):
    # Everything happens on a flat piece of memory with self's and the view's geometries; what several elements of the
    # view share is summed, and what several elements of self share is divided among them.
    base = self.storage_offset()
    offset = storage_offset if storage_offset is not None else base
    if grad.numel() == 0 or self.numel() == 0:
        return op.zeros(self.shape, dtype=grad.dtype, device=grad.device)
    length = max(last_element(self.shape, self.strides, base), last_element(size, stride, offset)) + 1
    sizes = list(size)
    repeated: "int[]" = []
    for i in range(len(size)):
        if stride[i] == 0 and size[i] > 1:
            repeated.append(i)
            sizes[i] = 1
    total = grad.sum(repeated, keepdim=True) if len(repeated) > 0 else grad
    places = op.arange(length, device=grad.device)
    from_view = places.as_strided(sizes, stride, offset).reshape([total.numel()])
    flat = op.zeros([length], dtype=grad.dtype, device=grad.device).index_add(
        0, from_view, total.reshape([total.numel()])
    )
    own = places.as_strided(self.shape, self.strides, base).reshape([self.numel()])
    ones = op.ones([self.numel()], dtype=dt.int64, device=grad.device)
    counts = op.zeros([length], dtype=dt.int64, device=grad.device).index_add(0, own, ones).clamp(min=1)
    shared = (flat / counts).index_select(0, own)
    return shared.reshape(self.shape)


@view("alias(Tensor self) -> Tensor", variants="", core=True)
def alias(self):
    """Another tensor on the same memory."""
    return View(self.shape, self.strides, self.storage_offset())


@gradient(alias, "self")
def alias_gradient(grad):
    return grad


@native(
    "detach(Tensor(a) self) -> Tensor(a)", algorithm="memory", tags=frozenset({"any_device", "dynamic", "no_gradient"})
)
def detach(self):
    """The same memory without history."""


@facts(detach)
def detach_facts(self):
    result = self.with_geometry(self.sizes, self.steps, self.offset)
    result.base = None
    return result
