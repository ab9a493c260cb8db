"""Sums, products and quotients with sparse tensors, and what acts on every value alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha import _C
from tocha.sparse._history import build, coalesced, take_at, values_of
from tocha.sparse._methods import check_writable, with_values
from tocha.sparse._tensor import (
    SparseTensor,
    Tensor,
    form_of,
    is_sparse,
    make,
    positions,
    reflected_form_of,
    replace,
    sparse_dims,
)

_NO_SUM = "add(sparse, dense) is not supported. Use add(dense, sparse) instead."


# -- sums ------------------------------------------------------------------------------------------------


@reflected_form_of("__radd__")
@form_of("add", "__add__")
def add(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Tensor:
    """input + alpha * other: sparse of two sparse tensors, dense of a dense and a sparse one."""
    if is_sparse(input):
        if not is_sparse(other):
            raise RuntimeError(_NO_SUM)
        return add_sparse(input, other, alpha)
    if not isinstance(input, Tensor):
        raise RuntimeError(_NO_SUM)
    return _add_to(input, other, alpha, in_place=False)


@reflected_form_of("__rsub__")
@form_of("sub", "__sub__")
def sub(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Tensor:
    """input - alpha * other."""
    return add(input, other, alpha=-alpha)


@form_of("add_", "__iadd__")
def add_(self: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """self += alpha * other, both sparse or only other."""
    if not is_sparse(self):
        return _add_to(self, other, alpha, in_place=True)
    if not is_sparse(other):
        raise RuntimeError(_NO_SUM)
    check_writable(self)
    total: Any = add_sparse(self, other, alpha)
    if self.dtype.is_floating_point or not total.dtype.is_floating_point:
        total = total.to(self.dtype)
    return replace(self, total)


@form_of("sub_", "__isub__")
def sub_(self: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """self -= alpha * other."""
    return add_(self, other, alpha=-alpha)


def _check_same_shape(a: Tensor, b: Tensor) -> None:
    if a.shape != b.shape:
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {list(a.shape)} != {list(b.shape)}"
        )


def _add_to(dense: Tensor, other: SparseTensor, alpha: Any, in_place: bool) -> Tensor:
    """dense + alpha * other; only the elements of which other has values are touched."""
    _check_same_shape(dense, other)
    if not in_place:
        dense = dense.to(_C.promote_types(dense.dtype, other.dtype))
    values, at = values_of(other).to(dense.dtype), positions(other)
    if sparse_dims(other) == 1:
        return (dense.index_add_ if in_place else dense.index_add)(0, at, values, alpha=alpha)
    values = values if alpha == 1 else values * alpha
    if sparse_dims(other) == 0:
        return dense.add_(values.sum(0)) if in_place else dense + values.sum(0)
    put = dense.index_put_ if in_place else dense.index_put
    return put(tuple(other._coo_indices), values, accumulate=True)


def add_sparse(a: SparseTensor, b: SparseTensor, alpha: Any = 1) -> SparseTensor:
    """a + alpha * b: values side by side, where heads of both lists of coordinates agree added."""
    _check_same_shape(a, b)
    dtype = _C.promote_types(a.dtype, b.dtype)
    mine, theirs = values_of(a).to(dtype), values_of(b).to(dtype)
    theirs = theirs if alpha == 1 else theirs * alpha
    if theirs.size(0) == 0:
        return with_values(a, "Add", mine.clone())
    if mine.size(0) == 0:
        return with_values(b, "Add", theirs.clone())
    if sparse_dims(a) != sparse_dims(b):
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same density, "
            f"but 'self' has {sparse_dims(a)} sparse dimensions while 'other' has {sparse_dims(b)} sparse dimensions"
        )
    both = a._coo_coalesced and b._coo_coalesced
    if both or (mine.is_contiguous() and theirs.is_contiguous()):
        return _merged(a, b, mine, theirs, both)
    indices = _C.cat([a._coo_indices, b._coo_indices], 1)
    return build("Add", _C.cat([mine, theirs]), indices, a.shape, False, a._coo_checked and b._coo_checked)


def _merged(a: SparseTensor, b: SparseTensor, mine: Tensor, theirs: Tensor, both: bool) -> SparseTensor:
    in_a, in_b = _C._merge_indices(positions(a), positions(b))
    from_a, from_b = (places.ge(0).nonzero()[:, 0] for places in (in_a, in_b))
    zeros = mine.new_zeros((in_a.size(0), *mine.shape[1:]))
    values = zeros.index_add(0, from_a, mine).index_add(0, from_b, theirs)
    indices = _C.empty((sparse_dims(a), in_a.size(0)), dtype=_C.int64)
    indices[:, from_a] = a._coo_indices
    indices[:, from_b] = b._coo_indices
    return build("Add", values, indices, a.shape, both)


# -- products and quotients ------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return not isinstance(value, Tensor) or (value.dim() == 0 and not is_sparse(value))


@reflected_form_of("__rmul__")
@form_of("mul", "multiply", "__mul__")
def mul(input: Any, other: Any, *, out: Any = None) -> Tensor:
    """input * other: a sparse tensor by a number, a dense or a sparse tensor."""
    if is_sparse(input) and is_sparse(other):
        return _mul_sparse(input, other)
    t, factor = (input, other) if is_sparse(input) else (other, input)
    if not _is_number(factor):
        return _mul_dense(t, factor)
    return with_values(t, "Mul", values_of(t) * factor)


def _mul_dense(t: SparseTensor, dense: Tensor) -> SparseTensor:
    if dense.dim() > t.dim():
        raise NotImplementedError("[mul] a sparse tensor is not expanded to a dense one of more dimensions")
    return with_values(t, "Mul", values_of(t) * take_at(dense.expand(t.shape), t))


def _mul_sparse(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    if a.shape != b.shape or sparse_dims(a) != sparse_dims(b):
        raise RuntimeError("[mul] expects sparse inputs of the same shape and the same number of sparse dimensions")
    product = with_values(b, "Mul", values_of(b) * take_at(a, b))
    if not (a._coo_coalesced and b._coo_coalesced):
        return product
    common = _C.isin(positions(b), positions(a)).nonzero()[:, 0]
    values = values_of(product).index_select(0, common)
    return build("Mul", values, b._coo_indices.index_select(1, common), b.shape, True)


@form_of("mul_", "__imul__")
def mul_(self: Any, other: Any) -> Tensor:
    """self *= other."""
    if not is_sparse(self):
        return self.copy_(mul(self, other).to_dense())
    check_writable(self)
    if _is_number(other):
        own_values(self).mul_(other)
        self._bump_version()
        return self
    return replace(self, mul(self, other))


def own_values(t: SparseTensor) -> Tensor:
    """The values as memory that can be written to: gradients may be one number that is read many times."""
    if not t._coo_values.is_contiguous():
        t._coo_values = t._coo_values.contiguous()
    return t._coo_values


def _check_divisor(divisor: Any) -> None:
    if not _is_number(divisor):
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor "
            f"(got shape {list(divisor.shape)} for divisor)"
        )


@reflected_form_of("__rtruediv__", "__rdiv__")
@form_of("div", "divide", "true_divide", "__truediv__", "__div__")
def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Any = None) -> Tensor:
    """input / other, a number."""
    if not is_sparse(input):
        raise NotImplementedError("[div] has no form for sparse divisors; call to_dense() first")
    _check_divisor(other)
    t = input if rounding_mode is None else coalesced(input)
    return with_values(t, "Div", _C.div(values_of(t), other, rounding_mode=rounding_mode))


@form_of("div_", "true_divide_", "__itruediv__", "__idiv__")
def div_(self: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """self /= other, a number."""
    if not is_sparse(self):
        return div(self, other)
    check_writable(self)
    _check_divisor(other)
    return replace(self, div(self, other, rounding_mode=rounding_mode))


# -- one value after the other ---------------------------------------------------------------------------


@form_of("neg", "negative", "__neg__")
def neg(input: SparseTensor, *, out: Any = None) -> Tensor:
    """The negatives of all elements."""
    return with_values(input, "Neg", -values_of(input))


@form_of("neg_", "negative_")
def neg_(self: SparseTensor) -> Tensor:
    """Negates in place."""
    return mul_(self, -1)


@form_of("positive", "__pos__")
def positive(input: SparseTensor) -> Tensor:
    """The tensor itself."""
    return input


@form_of("zero_")
def zero_(self: SparseTensor) -> Tensor:
    """Drops all values."""
    check_writable(self)
    return replace(self, with_values_of_none(self))


def with_values_of_none(t: SparseTensor) -> SparseTensor:
    """A tensor like t without values."""
    return make(t._coo_indices[:, :0], t._coo_values[:0], t.shape, True)


def _by_value(name: str) -> Callable:
    """The sparse form of a function of single elements that leaves zeros what they are."""
    function = getattr(_C, name)

    def map_values(input: SparseTensor, *args: Any, out: Any = None, **kwargs: Any) -> Tensor:
        t = coalesced(input)
        return with_values(t, name.capitalize(), function(values_of(t), *args, **kwargs))

    return map_values


form_of("abs", "absolute", "__abs__")(_by_value("abs"))
form_of("sqrt")(_by_value("sqrt"))
form_of("sign")(_by_value("sign"))
form_of("square")(_by_value("square"))
form_of("relu")(_by_value("relu"))
form_of("isnan")(_by_value("isnan"))
form_of("isinf")(_by_value("isinf"))
_positive_power = _by_value("pow")


@form_of("pow", "__pow__")
def pow(input: Any, exponent: Any, *, out: Any = None) -> Tensor:
    """input ** exponent, for exponents that leave zeros what they are."""
    if not is_sparse(input) or isinstance(exponent, Tensor) or not exponent > 0:
        raise NotImplementedError("[pow] sparse tensors have only powers by numbers greater than 0")
    return _positive_power(input, exponent)


# -- lists of tensors ------------------------------------------------------------------------------------


@form_of("_foreach_zero_")
def _foreach_zero_(self: list[Tensor]) -> None:
    for t in self:
        t.zero_()


@form_of("_amp_foreach_non_finite_check_and_unscale_")
def _unscale_(self: list[Tensor], found_inf: Tensor, inv_scale: Tensor) -> None:
    """A gradient scaler's step on gradients of which some are sparse: on their values."""
    for t in self:
        if isinstance(t, SparseTensor) and t.dtype == _C.float16:
            replace(t, coalesced(t))  # sums may overflow where their parts do not
    plain = [own_values(t) if isinstance(t, SparseTensor) else t for t in self]
    _C._amp_foreach_non_finite_check_and_unscale_(plain, found_inf, inv_scale)
