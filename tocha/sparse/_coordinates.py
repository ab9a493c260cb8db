"""Tensors in coordinate form: functions of single elements, selections, joins and new sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C
from tocha.sparse._arithmetic import div, mul_, pow, with_values
from tocha.sparse._compressed import is_compressed
from tocha.sparse._compressed_math import KEEP_ZERO
from tocha.sparse._compressed_methods import compressed_form
from tocha.sparse._geometry import mm, permute, t, transpose, wrapped
from tocha.sparse._history import build, coalesced, values_of
from tocha.sparse._methods import check_writable, method_of
from tocha.sparse._tensor import (
    FORMS,
    SparseTensor,
    Tensor,
    form_of,
    is_sparse,
    replace,
    sparse_dims,
)

# -- functions of single elements ------------------------------------------------------------------------


_ADDITIVE = ("conj", "conj_physical", "resolve_conj", "resolve_neg")  # f(a + b) is f(a) + f(b)


def _by_value(name: str) -> None:
    """The forms of a function that leaves zeros what they are: values of equal coordinates are added first."""
    function: Callable = getattr(_C, name, None) or getattr(Tensor, name)

    def map_values(input: SparseTensor, *args: Any, out: Any = None, **kwargs: Any) -> Tensor:
        merged = input if name in _ADDITIVE else coalesced(input)
        return with_values(merged, name.capitalize(), function(values_of(merged), *args, **kwargs))

    def map_in_place(self: SparseTensor, *args: Any, **kwargs: Any) -> Tensor:
        check_writable(self)
        return replace(self, map_values(self, *args, **kwargs))  # type: ignore[arg-type]

    for full, form in ((name, map_values), (name + "_", map_in_place)):
        if not hasattr(_C, full) and not hasattr(Tensor, full):
            continue
        homes = [getattr(home, full, None) for home in (_C, Tensor)]
        if not any(f in FORMS for f in homes if f is not None):
            form_of(full)(form)


for _name in (*KEEP_ZERO.split(), "nan_to_num"):
    _by_value(_name)


@form_of("real")
@compressed_form("real")
def real(self: Any) -> Tensor:
    """The real parts; of real numbers the tensor itself."""
    if not self.is_complex():
        return self
    if is_compressed(self):
        raise NotImplementedError("[real] has no form for compressed tensors of complex numbers")
    return with_values(self, "Real", values_of(self).real)


@form_of("floor_divide", "__floordiv__")
def floor_divide(input: Any, other: Any, *, out: Any = None) -> Tensor:
    """Quotients rounded down."""
    return div(input, other, rounding_mode="floor")


@form_of("floor_divide_", "__ifloordiv__")
def floor_divide_(self: SparseTensor, other: Any) -> Tensor:
    """The same in place."""
    check_writable(self)
    return replace(self, floor_divide(self, other))  # type: ignore[arg-type]


@form_of("divide_")
def divide_(self: SparseTensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """Quotients in place."""
    check_writable(self)
    return replace(self, div(self, other, rounding_mode=rounding_mode))  # type: ignore[arg-type]


form_of("multiply_")(mul_)


@form_of("float_power")
def float_power(input: Any, exponent: Any, *, out: Any = None) -> Tensor:
    """Powers in double precision."""
    wide = _C.complex128 if input.is_complex() or isinstance(exponent, complex) else _C.float64
    return pow(input.to(wide), exponent)


for _kind in ("cfloat", "cdouble", "chalf"):
    _dtype = {"cfloat": _C.complex64, "cdouble": _C.complex128, "chalf": _C.complex32}[_kind]
    method_of(_kind)(lambda self, dtype=_dtype: self.to(dtype))

# -- selections ------------------------------------------------------------------------------------------


@form_of("select", "select_copy")
def select(input: SparseTensor, dim: int, index: int) -> Tensor:
    """What lies at an index of a dim: dense where no sparse dim is left."""
    d = wrapped(dim, input.dim())
    size = input.size(d)
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {d}"
        )
    index %= size
    shape = [n for i, n in enumerate(input.shape) if i != d]
    held, count = values_of(input), sparse_dims(input)
    if d >= count:
        return build("Select", held.select(d - count + 1, index), input._coo_indices, shape)
    kept = (input._coo_indices[d] == index).nonzero()[:, 0]
    values = held.index_select(0, kept)
    if count == 1:
        return values.sum(0)
    rest = [i for i in range(count) if i != d]
    return build("Select", values, input._coo_indices[:, kept][rest], shape)


@form_of("unbind")
def unbind(input: SparseTensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The selections of all indices of a dim."""
    return tuple(select(input, dim, i) for i in range(input.size(dim)))


def _getitem(self: SparseTensor, index: Any) -> Tensor:
    parts = list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(p, Tensor | list) for p in parts):
        raise NotImplementedError(
            "[__getitem__] Could not run 'aten::index.Tensor' with arguments from the 'SparseCPU' backend"
        )
    if Ellipsis in parts:
        at = parts.index(Ellipsis)
        parts[at : at + 1] = [slice(None)] * (self.dim() - sum(p is not None for p in parts) + 1)
    made: Tensor = self
    d = 0
    for p in parts:
        if p is None:
            made = made.unsqueeze(d)
        elif isinstance(p, int) and not isinstance(p, bool):
            if not -made.size(d) <= p < made.size(d):
                raise IndexError(f"index {p} is out of bounds for dimension {d} with size {made.size(d)}")
            made = made.select(d, p)
            continue
        elif p != slice(None):
            raise NotImplementedError(
                "[__getitem__] Could not run 'aten::as_strided' with arguments from the 'SparseCPU' backend"
            )
        d += 1
    return made


SparseTensor.__getitem__ = _getitem  # type: ignore[assignment, method-assign]
form_of("__getitem__")(_getitem)


def _iter(self: SparseTensor) -> Any:
    return iter(unbind(self))


SparseTensor.__iter__ = _iter  # type: ignore[assignment, method-assign]
form_of("__iter__")(_iter)


@form_of("narrow_copy")
def narrow_copy(input: SparseTensor, dim: int, start: int, length: int) -> Tensor:
    """A part of a dim."""
    d, count = wrapped(dim, input.dim()), sparse_dims(input)
    size = input.size(d)
    start = start + size if start < 0 else start
    if length < 0 or not 0 <= start <= size - length:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    shape = [length if i == d else n for i, n in enumerate(input.shape)]
    held = values_of(input)
    if d >= count:
        return build("NarrowCopy", held.narrow(d - count + 1, start, length), input._coo_indices, shape)
    place = input._coo_indices[d]
    kept = ((place >= start) & (place < start + length)).nonzero()[:, 0]
    indices = input._coo_indices.index_select(1, kept)
    moved = _C.zeros_like(indices)
    moved[d] = start
    return build("NarrowCopy", held.index_select(0, kept), indices - moved, shape, input._coo_coalesced)


# -- sizes -----------------------------------------------------------------------------------------------


@form_of("unsqueeze")
def unsqueeze(input: SparseTensor, dim: int) -> Tensor:
    """A dim of size one more: sparse where it stands among sparse ones."""
    d, count = wrapped(dim, input.dim() + 1), sparse_dims(input)
    shape = list(input.shape)
    shape.insert(d, 1)
    indices, held = input._coo_indices, values_of(input)
    if d > count:
        return build("Unsqueeze", held.unsqueeze(d - count + 1), indices, shape)
    row = indices.new_zeros((1, indices.size(1)))
    return build("Unsqueeze", held, _C.cat([indices[:d], row, indices[d:]]), shape)


@form_of("cat", "concat", "concatenate")
def cat(tensors: Sequence[Any], dim: int = 0, *, out: Any = None) -> Tensor:
    """Sparse tensors one after the other."""
    if not all(is_sparse(one) for one in tensors):
        raise RuntimeError("Concatenating sparse tensors, but a dense tensor was found among them")
    first = tensors[0]
    d, count = wrapped(dim, first.dim()), sparse_dims(first)
    for i, one in enumerate(tensors):
        others = [n for k, n in enumerate(one.shape) if k != d]
        if len(one.shape) != first.dim() or others != [n for k, n in enumerate(first.shape) if k != d]:
            raise RuntimeError(
                f"All tensors must have the same shape: {list(first.shape)} (except in the concatenating dimension), "
                f"but found shape: {list(one.shape)} at position {i}"
            )
        if sparse_dims(one) != count:
            raise RuntimeError(
                f"All tensors must have the same sparse_dim and dense_dim: {count}, {first.dim() - count}, but tensor "
                f"at position {i} has {sparse_dims(one)}, {one.dim() - sparse_dims(one)}"
            )
    total = sum(one.size(d) for one in tensors)
    shape = [total if k == d else n for k, n in enumerate(first.shape)]
    indices, values, before = [], [], 0
    for one in tensors:
        at, held = one._coo_indices, values_of(one)
        if d < count:
            step = _C.zeros((count, 1), dtype=_C.int64)
            step[d] = before
            at = at + step
        else:
            sides = [(held.size(0), *held.shape[1:])[k] for k in range(held.dim())]
            low, high = sides.copy(), sides.copy()
            place = d - count + 1
            low[place], high[place] = before, total - before - one.size(d)
            held = _C.cat([held.new_zeros(low), held, held.new_zeros(high)], place)
        indices.append(at)
        values.append(held)
        before += one.size(d)
    return build("Cat", _C.cat(values), _C.cat(indices, 1), shape)


@form_of("stack")
def stack(tensors: Sequence[Any], dim: int = 0, *, out: Any = None) -> Tensor:
    """Sparse tensors of one size along a new dim."""
    return cat([one.unsqueeze(dim) for one in tensors], dim)


@form_of("movedim", "moveaxis")
def movedim(input: SparseTensor, source: Any, destination: Any) -> Tensor:
    """Dims at other places."""
    given = [[d] if isinstance(d, int) else list(d) for d in (source, destination)]
    moved = {wrapped(b, input.dim()): wrapped(a, input.dim()) for a, b in zip(*given, strict=True)}
    rest = iter([d for d in range(input.dim()) if d not in moved.values()])
    return permute(input, [moved[d] if d in moved else next(rest) for d in range(input.dim())])


@form_of("adjoint", "mH", "H")
def adjoint(self: SparseTensor) -> Tensor:
    """The conjugate of the transpose."""
    return transpose(self, -2, -1).conj()


def _in_place(form: Callable) -> Callable:
    def change(self: SparseTensor, *args: Any) -> Tensor:
        check_writable(self)
        self.data = form(self, *args)
        self._bump_version()
        return self

    return change


form_of("transpose_", "swapaxes_", "swapdims_")(_in_place(transpose))
form_of("t_")(_in_place(t))


@form_of("is_sparse_csr")
def _is_sparse_csr(self: SparseTensor) -> bool:
    return False


@form_of("reshape", "flatten")
def _reshape(input: SparseTensor, *args: Any, **kwargs: Any) -> Tensor:
    raise RuntimeError("reshape is not implemented for sparse tensors")


@form_of("matrix_power")
def matrix_power(input: SparseTensor, n: int, *, out: Any = None) -> Tensor:
    """The product of n factors."""
    if n < 1:
        raise NotImplementedError("[matrix_power] sparse matrices have only positive powers")
    made: Tensor = input
    for _ in range(n - 1):
        made = mm(made, input)
    return made


# -- the same for all layouts ----------------------------------------------------------------------------


@compressed_form("fill")
def _fill(input: Any, value: Any) -> Tensor:
    return input.clone().fill_(value)


@compressed_form("select_copy")
def _select_copy(input: Any, dim: int, index: int) -> Tensor:
    return input.select(dim, index)
