"""Sums, products, reductions of compressed sparse tensors, and what acts on every value alone."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha.sparse._compressed import (
    BLOCKED,
    compress,
    flat_values,
    form,
    is_compressed,
    keys,
    major,
    minor,
    same_indices,
)
from tocha.sparse._compressed_construct import to_layout
from tocha.sparse._compressed_history import held, rebuild, spread_sum, whole, with_held
from tocha.sparse._compressed_methods import check_writable, compressed_form, replace, sparse_mask, wrapped
from tocha.sparse._tensor import (
    COMPRESSED_FORMS,
    CompressedTensor,
    Tensor,
    is_sparse,
    layout_name,
    layout_of,
    reflected_form_of,
)

_FORMAT = "Expected result Tensor to be of format CSR"


# -- sums ------------------------------------------------------------------------------------------------


@reflected_form_of("__radd__", table=COMPRESSED_FORMS)
@compressed_form("add", "__add__")
def add(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Tensor:
    """input + alpha * other: compressed where both are, else dense."""
    if is_compressed(input) and is_compressed(other):
        return add_compressed(input, other, alpha)
    if is_sparse(input) or is_sparse(other):
        raise RuntimeError(f"[add] no sum of {layout_of(input)} and {layout_of(other)}: expected tensors of one layout")
    t, dense = (input, other) if is_compressed(input) else (other, input)
    _check_dense_operand(t, dense)
    scaled = t if alpha == 1 or t is input else mul(t, alpha)
    return (dense if alpha == 1 or t is not input else dense * alpha) + spread_sum(scaled)


def _check_dense_operand(t: CompressedTensor, dense: Any) -> None:
    shape = list(dense.shape) if isinstance(dense, Tensor) else []
    if shape != list(t.shape):
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size {shape} while other has size "
            f"{list(t.shape)} (FYI: op2-sparse addition does not currently support broadcasting)"
        )


def add_compressed(a: CompressedTensor, b: CompressedTensor, alpha: Any = 1) -> CompressedTensor:
    """a + alpha * b in the layout of a, with the places of both."""
    if a.shape != b.shape:
        raise RuntimeError(
            "torch.add: Expected input tensors to have the same shape, but got tensor `self` with shape "
            f"{list(a.shape)} and tensor `other` with shape {list(b.shape)}"
        )
    if b._kind != a._kind:
        b = to_layout(b, a._kind, form(a).block or None)  # type: ignore[assignment]
    if form(a) != form(b):
        raise RuntimeError(f"[add] expected blocks of one size, got {form(a).block} and {form(b).block}")
    dtype = _C.promote_types(a.dtype, b.dtype)
    mine, theirs = held(a).to(dtype), held(b).to(dtype)
    theirs = theirs if alpha == 1 else theirs * alpha
    if same_indices(a, b):
        return rebuild("Add", mine + theirs, a._kind, a._groups, a._within, a.shape, a._checked and b._checked)
    return _united(a, b, flat_values(a, mine), flat_values(b, theirs))


def _in_order(found: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Keys that rise, and the values that belong to them."""
    if found.numel() < 2 or bool((found[1:] > found[:-1]).all()):
        return found, values
    order = found.argsort(stable=True)
    return found[order], values.index_select(0, order)


def _united(a: CompressedTensor, b: CompressedTensor, mine: Tensor, theirs: Tensor) -> CompressedTensor:
    (key_a, mine), (key_b, theirs) = _in_order(keys(a), mine), _in_order(keys(b), theirs)
    in_a, in_b = _C._merge_indices(key_a, key_b)
    from_a, from_b = (at.ge(0).nonzero()[:, 0] for at in (in_a, in_b))
    zeros = mine.new_zeros((in_a.size(0), *mine.shape[1:]))
    values = zeros.index_add(0, from_a, mine).index_add(0, from_b, theirs)
    united = _C.zeros(in_a.size(0), dtype=_C.int64)
    united[from_a] = key_a
    united[from_b] = key_b
    return _from_keys("Add", a, united, values)


def _from_keys(name: str, like: CompressedTensor, key: Tensor, values: Tensor) -> CompressedTensor:
    """A tensor with the form of another, of values at keys that rise."""
    found, within, dtype = form(like), key % max(minor(like), 1), like._groups.dtype
    groups = compress(key // max(minor(like), 1), major(like), found.matrices)
    totals = groups[:, -1]
    if found.matrices > 1 and bool((totals != totals[0]).any()):
        raise RuntimeError("Expect the same number of specified elements per batch.")
    count = int(totals[0]) if found.matrices else 0
    return rebuild(
        name,
        values.reshape(*found.batch, count, *values.shape[1:]),
        like._kind,
        groups.reshape(*found.batch, -1).to(dtype) if found.batch else groups[0].to(dtype),
        within.reshape(*found.batch, count).to(dtype),
        like.shape,
    )


@compressed_form("add_", "__iadd__")
def add_(self: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """self += alpha * other."""
    if not is_compressed(self):
        _check_dense_operand(other, self)
        return self.add_(spread_sum(other), alpha=alpha)
    if not is_compressed(other):
        raise RuntimeError(f"[add_] {_FORMAT}: a dense tensor cannot be added in place")
    check_writable(self)
    return replace(self, add_compressed(self, other, alpha))


# -- products --------------------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return not isinstance(value, Tensor) or (value.dim() == 0 and not is_sparse(value))


@reflected_form_of("__rmul__", table=COMPRESSED_FORMS)
@compressed_form("mul", "multiply", "__mul__")
def mul(input: Any, other: Any, *, out: Any = None) -> Tensor:
    """input * other: a compressed tensor by a number, a dense or a sparse tensor of its shape."""
    t, factor = (input, other) if is_compressed(input) else (other, input)
    if _is_number(factor):
        return with_held(t, "Mul", held(t) * factor)
    if is_sparse(input) or (t._kind == _C.sparse_csc and not (is_compressed(input) and input._kind == _C.sparse_csr)):
        raise RuntimeError(f"[mul] {_FORMAT}: got {layout_of(input)} and {layout_of(other)}")
    if t._kind in BLOCKED:
        raise RuntimeError(
            f"empty_sparse_compressed expected sparse compressed (non-block) tensor layout but got {layout_name(t._kind)}"
        )
    if is_compressed(factor) or is_sparse(factor):
        return _mul_sparse(t, factor)
    return with_held(t, "Mul", held(t) * held_of(sparse_mask(factor, t)))


def held_of(t: Any) -> Tensor:
    """The values of a compressed tensor, with its history."""
    return held(t)


def _mul_sparse(a: CompressedTensor, other: Tensor) -> Tensor:
    """The product of two sparse matrices: where both have values."""
    if a.shape != other.shape:
        raise RuntimeError(
            "sparse_binary_op_intersection_cpu(): expects sparse inputs with equal dimensionality, number of sparse "
            f"dimensions, and shape of sparse dimensions: got {list(a.shape)} and {list(other.shape)}"
        )
    if a._groups.dim() > 1:
        raise RuntimeError(
            "coo_to_sparse_csr: conversion from Sparse to SparseCsr for input tensors with sparse_dim()!=2 is not supported"
        )
    b: Any = to_layout(other, a._kind)
    if same_indices(a, b):
        return with_held(a, "Mul", held(a) * held(b))
    (key_a, mine), (key_b, theirs) = _in_order(keys(a), held(a)), _in_order(keys(b), held(b))
    in_a, in_b = _C._merge_indices(key_a, key_b)
    both = ((in_a >= 0) & (in_b >= 0)).nonzero()[:, 0]
    values = mine.index_select(0, in_a[both]) * theirs.index_select(0, in_b[both])
    return _from_keys("Mul", a, key_a[in_a[both]], values)


@compressed_form("mul_", "__imul__", "multiply_")
def mul_(self: Any, other: Any) -> Tensor:
    """self *= other."""
    if not is_compressed(self):
        raise RuntimeError(f"[mul_] {_FORMAT}: got {layout_of(self)}")
    check_writable(self)
    return replace(self, mul(self, other))


# -- one value after the other ---------------------------------------------------------------------------


def _by_value(name: str) -> None:
    """The form of a function of single elements that leaves zeros what they are."""
    function = getattr(_C, name, None) or getattr(Tensor, name)

    def map_values(input: CompressedTensor, *args: Any, out: Any = None, **kwargs: Any) -> Tensor:
        return with_held(input, name.capitalize(), function(held(input), *args, **kwargs))

    def map_in_place(self: CompressedTensor, *args: Any, **kwargs: Any) -> Tensor:
        check_writable(self)
        mapped = function(self._held, *args, **kwargs)
        if mapped.dtype != self.dtype:
            raise RuntimeError(f"result type {mapped.dtype} can't be cast to the desired output type {self.dtype}")
        return replace(self, with_held(self, name, mapped))

    compressed_form(name)(map_values)
    compressed_form(name + "_")(map_in_place)


# What PyTorch has for compressed tensors: sin(0) is 0, cos(0) is not.
KEEP_ZERO = """
abs absolute angle arcsin arcsinh arctan arctanh asin asinh atan atanh ceil conj_physical deg2rad erf erfinv expm1 fix floor
frac isinf isnan isneginf isposinf log1p neg negative positive rad2deg relu round sgn sign signbit sin sinh sqrt tan tanh
trunc resolve_conj resolve_neg conj __neg__ __pos__ __abs__
"""
for _name in KEEP_ZERO.split():
    if hasattr(_C, _name) or hasattr(Tensor, _name):
        _by_value(_name)


@compressed_form("zero_")
def zero_(self: CompressedTensor) -> Tensor:
    """Drops all values."""
    check_writable(self)
    return replace(self, without_values(self))


def without_values(t: CompressedTensor) -> CompressedTensor:
    """A tensor like t that holds nothing."""
    count = t._groups.dim() - 1
    empty = t._held.narrow(count, 0, 0)
    return rebuild("Zeros", empty.detach(), t._kind, _C.zeros_like(t._groups), t._within[..., :0], t.shape)


@compressed_form("fill_")
def fill_(self: CompressedTensor, value: Any) -> Tensor:
    """Gives all values that are held one value."""
    check_writable(self)
    return replace(
        self, with_held(self, "Fill", _C.full_like(self._held, float(value) if isinstance(value, Tensor) else value))
    )


@compressed_form("normal_")
def normal_(self: CompressedTensor, mean: float = 0, std: float = 1, *, generator: Any = None) -> Tensor:
    """Draws the values that are held."""
    check_writable(self)
    return replace(self, with_held(self, "Normal", self._held.clone().normal_(mean, std, generator=generator)))


# -- reductions ------------------------------------------------------------------------------------------


@compressed_form("sum")
def sum(
    input: CompressedTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Tensor:
    """The sum of all elements, or of the rows or columns of a CSR matrix, which keeps its layout."""
    if dim is None:
        return _sum_of_all(input, dtype)
    if input._kind != _C.sparse_csr:
        raise RuntimeError(
            f"Currently the only compressed sparse format supported for sum.dim_IntList is CSR, but got layout {layout_name(input._kind)}"
        )
    gone = {wrapped(d, input.dim()) for d in ([dim] if isinstance(dim, int) else dim)} or set(range(input.dim()))
    if not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    if input.dim() > 2:
        raise RuntimeError("[sum] input should be 2D: batched and hybrid tensors are not supported")
    values = held(input)
    values = values.to(dtype or (values.dtype if values.is_floating_point() or values.is_complex() else _C.int64))
    key = keys(input)
    row = _C.zeros_like(key) if 0 in gone else key // max(input.size(1), 1)
    column = _C.zeros_like(key) if 1 in gone else key % max(input.size(1), 1)
    size = [1 if d in gone else n for d, n in enumerate(input.shape)]
    distinct, which = _C._unique2(row * max(size[1], 1) + column, True, True)[:2]
    total = values.new_zeros((distinct.size(0),)).index_add(0, which, values)
    groups = compress(distinct // max(size[1], 1), size[0], 1)[0]
    return rebuild("Sum", total, _C.sparse_csr, groups, distinct % max(size[1], 1), size)


def _sum_of_all(input: CompressedTensor, dtype: Any) -> Tensor:
    """All elements added; every element has a gradient, those that are not held too."""
    if input.requires_grad and _C.is_grad_enabled():
        return whole(input).sum(dtype=dtype)
    return input._held.sum(dtype=dtype)


@compressed_form("equal")
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors of one layout hold the same values at the same places."""
    if not (is_compressed(input) and is_compressed(other)) or input._kind != other._kind:
        raise RuntimeError(f"[equal] Expected tensors of one layout, got {layout_of(input)} and {layout_of(other)}")
    return input.shape == other.shape and same_indices(input, other) and bool(_C.equal(input._held, other._held))


def accumulate(grad: Tensor, more: Tensor) -> Tensor:
    """The sum of two gradients of which at least one is compressed."""
    if is_compressed(grad) and is_compressed(more) and grad._kind == more._kind and form(grad) == form(more):
        return add_compressed(grad, more)
    a, b = (t.to_dense() if is_sparse(t) or is_compressed(t) else t for t in (grad, more))
    return a + b
