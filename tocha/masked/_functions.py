"""Operations that see only the elements whose mask is True, under torch.masked's names.

What the mask leaves out is replaced by the operation's identity, then the plain operation runs. A mask broadcasts to
the input; None keeps every element.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tocha import _C
from tocha._core.type_info import iinfo

Tensor = _C.Tensor
Dims = int | Sequence[int] | None


def _mask(input: Tensor, mask: Tensor) -> Tensor:
    """The mask in input's size."""
    if mask.dim() > input.dim():
        raise IndexError(
            f"_input_mask expected broadcastable mask (got mask dimensionality higher than of the input): mask of size {tuple(mask.size())} for an input of size {tuple(input.size())}"
        )
    mask = mask.broadcast_to(input.size()) if mask.size() != input.size() else mask
    return mask if mask.dtype == _C.bool else mask != 0


def _filled(input: Tensor, mask: Tensor | None, identity: float) -> Tensor:
    return (
        input
        if mask is None
        else _C.where(_mask(input, mask), input, _C.full((), identity, dtype=input.dtype, device=input.device))
    )


def _lowest(name: str, dtype: _C.dtype) -> float:
    return -math.inf if dtype.is_floating_point or dtype.is_complex else _integer_limits(name, dtype).min


def _highest(name: str, dtype: _C.dtype) -> float:
    return math.inf if dtype.is_floating_point or dtype.is_complex else _integer_limits(name, dtype).max


def _integer_limits(name: str, dtype: _C.dtype) -> iinfo:
    if dtype == _C.bool:
        raise NotImplementedError(f"[{name}] identity of {name.removeprefix('masked.')} on {dtype} input")
    return iinfo(dtype)


def _dims(dim: Dims, ndim: int) -> tuple[int, ...]:
    """The dims to reduce, from the front; None and () are all of them."""
    if dim is None or dim == ():
        return tuple(range(ndim))
    given = (dim,) if isinstance(dim, int) else tuple(dim)
    n = max(ndim, 1)
    out: list[int] = []
    for d in given:
        if d >= n or d < -n:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d})")
        if d % n in out:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        out.append(d % n)
    return tuple(out) if ndim else ()


def _one_dim(dim: int | Sequence[int] | None, ndim: int) -> int:
    dims = _dims(dim, ndim)
    return dims[0] if dims else 0


def _sum_dtype(input: Tensor, dtype: _C.dtype | None) -> _C.dtype:
    if dtype is not None:
        return dtype
    return input.dtype if input.is_floating_point() or input.is_complex() else _C.int64


# -- reductions --------------------------------------------------------------------------------------


def sum(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The sum of the elements that the mask keeps; 0 where it keeps none.

    >>> import tocha
    >>> tocha.masked.sum(tocha.tensor([3, 1, 2]), 0, mask=tocha.tensor([True, False, True]))
    tensor(5)
    """
    return _C.sum(_filled(input, mask, 0), _dims(dim, input.dim()), bool(keepdim), dtype=_sum_dtype(input, dtype))


def prod(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The product of the elements that the mask keeps; 1 where it keeps none.

    >>> tocha.masked.prod(tocha.tensor([2.0, 3.0, 9.0]), dim=0, mask=tocha.tensor([True, True, False]))
    tensor(6.)
    """
    result = _filled(input, mask, 1).to(_sum_dtype(input, dtype))
    for d in sorted(_dims(dim, input.dim()), reverse=True):
        result = result.prod(d, bool(keepdim))
    return result


def amax(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The largest element that the mask keeps; the dtype's lowest value where it keeps none.

    >>> tocha.masked.amax(tocha.tensor([1.0, 5.0]), mask=tocha.tensor([True, False]))
    tensor(1.)
    """
    filled = input if mask is None else _filled(input, mask, _lowest("masked.amax", input.dtype))
    return _C.amax(filled, _dims(dim, input.dim()), bool(keepdim)).to(dtype or input.dtype)


def amin(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The smallest element that the mask keeps; the dtype's highest value where it keeps none.

    >>> tocha.masked.amin(tocha.tensor([1.0, 5.0]), mask=tocha.tensor([False, True]))
    tensor(5.)
    """
    filled = input if mask is None else _filled(input, mask, _highest("masked.amin", input.dtype))
    return _C.amin(filled, _dims(dim, input.dim()), bool(keepdim)).to(dtype or input.dtype)


def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool | None = False,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Where the largest element that the mask keeps stands, in input's dtype unless one is given.

    >>> tocha.masked.argmax(tocha.tensor([1.0, 5.0, 3.0]), dim=0, mask=tocha.tensor([True, False, True]))
    tensor(2.)
    """
    filled = input if mask is None else _filled(input, mask, _lowest("masked.argmax", input.dtype))
    return _C.argmax(filled, dim, bool(keepdim)).to(dtype or input.dtype)


def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool | None = False,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Where the smallest element that the mask keeps stands, in input's dtype unless one is given.

    >>> tocha.masked.argmin(tocha.tensor([1.0, 5.0, 3.0]), dim=0, mask=tocha.tensor([False, True, True]))
    tensor(2.)
    """
    filled = input if mask is None else _filled(input, mask, _highest("masked.argmin", input.dtype))
    return _C.argmin(filled, dim, bool(keepdim)).to(dtype or input.dtype)


def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: _C.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """log(sum(exp(input))) of the elements that the mask keeps.

    >>> tocha.masked.logsumexp(tocha.tensor([0.0, 0.0, 9.0]), dim=0, mask=tocha.tensor([True, True, False]))
    tensor(0.6931)
    """
    filled = input if mask is None else _filled(input, mask, _lowest("masked.logsumexp", input.dtype))
    return _C.logsumexp(filled, _dims(dim, input.dim()), keepdim).to(dtype or input.dtype)


def _count(input: Tensor, dims: tuple[int, ...], keepdim: bool, mask: Tensor | None, dtype: _C.dtype) -> Tensor:
    """How many elements the mask keeps."""
    kept = (
        _C.ones((), dtype=dtype, device=input.device).broadcast_to(input.size()) if mask is None else _mask(input, mask)
    )
    return _C.sum(kept, dims, keepdim, dtype=dtype)


def mean(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean of the elements that the mask keeps; NaN where it keeps none.

    >>> tocha.masked.mean(tocha.tensor([1.0, 2.0, 9.0]), dim=0, mask=tocha.tensor([True, True, False]))
    tensor(1.5000)
    """
    kind = dtype or input.dtype
    if not (kind.is_floating_point or kind.is_complex):
        raise ValueError(
            f"mean(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {kind}"
        )
    dims = _dims(dim, input.dim())
    if mask is None:
        return _C.mean(input, dims, bool(keepdim), dtype=kind)
    total = _C.sum(_filled(input, mask, 0), dims, bool(keepdim), dtype=kind)
    return total / _count(input, dims, bool(keepdim), mask, _C.int64)


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: _C.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The median of the elements that the mask keeps, the lower of the middle two; NaN where it keeps none.

    >>> tocha.masked.median(tocha.tensor([1.0, 2.0, 9.0, 4.0]), dim=0, mask=tocha.tensor([True, True, False, True]))
    tensor(2.)
    """
    kind = dtype or input.dtype
    at = _one_dim(dim, input.dim())
    floating = input.is_floating_point()
    if mask is not None and not floating:
        kept = _mask(input, mask)
        if not (kept.any(at) if input.dim() else kept).all():
            raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
        input = input.to(_C.float64)
    return _C.nanmedian(_filled(input, mask, math.nan), at, keepdim).values.to(kind)


def norm(
    input: Tensor,
    ord: float = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The vector norm of the elements that the mask keeps.

    >>> tocha.masked.norm(tocha.tensor([3.0, 4.0, 9.0]), 2.0, dim=0, mask=tocha.tensor([True, True, False]))
    tensor(5.)
    """
    filled = _filled(input, mask, math.inf if ord == -math.inf else 0)
    return _C._linalg.vector_norm(filled, ord, _dims(dim, input.dim()), bool(keepdim), dtype=dtype)


def var(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool | None = False, dtype: _C.dtype | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The variance of the elements that the mask keeps.

    >>> tocha.masked.var(tocha.tensor([1.0, 3.0, 9.0]), dim=0, mask=tocha.tensor([True, True, False]))
    tensor(2.)
    """
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 0 if unbiased is False else 1
    kind = dtype or (input.dtype if input.is_floating_point() or input.is_complex() else _C.float32)
    wide = _C.float32 if kind in (_C.float16, _C.bfloat16) else kind
    dims = _dims(dim, input.dim())
    count = _count(input, dims, True, mask, wide)
    deviation = input - _C.sum(_filled(input, mask, 0), dims, True, dtype=wide) / count
    total = _C.sum(_filled((deviation * deviation.conj()).to(wide), mask, 0), dims, bool(keepdim), dtype=wide)
    count = count if keepdim else count.reshape(total.size())
    kept = count.real if count.is_complex() else count
    return (total / _C.clamp_min(kept - correction, 0)).to(kind)


def std(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: int | None = None,
    keepdim: bool | None = False, dtype: _C.dtype | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The standard deviation of the elements that the mask keeps.

    >>> tocha.masked.std(tocha.tensor([1.0, 3.0, 9.0]), dim=0, mask=tocha.tensor([True, True, False]))
    tensor(1.4142)
    """
    kind = dtype or (input.dtype if input.is_floating_point() or input.is_complex() else _C.float32)
    wide = _C.float32 if kind in (_C.float16, _C.bfloat16) else kind
    return _C.sqrt(var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=wide, mask=mask)).to(kind)


# -- along a dim -------------------------------------------------------------------------------------


def cumsum(input: Tensor, dim: int, *, dtype: _C.dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Running sums of the elements that the mask keeps.

    >>> tocha.masked.cumsum(tocha.tensor([1.0, 2.0, 3.0]), dim=0, mask=tocha.tensor([True, False, True]))
    tensor([1., 1., 4.])
    """
    return _C.cumsum(_filled(input, mask, 0), _one_dim(dim, input.dim()), dtype=dtype).to(dtype or input.dtype)


def cumprod(input: Tensor, dim: int, *, dtype: _C.dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Running products of the elements that the mask keeps.

    >>> tocha.masked.cumprod(tocha.tensor([2.0, 3.0, 4.0]), dim=0, mask=tocha.tensor([True, False, True]))
    tensor([2., 2., 8.])
    """
    return _C.cumprod(_filled(input, mask, 1), _one_dim(dim, input.dim()), dtype=dtype).to(dtype or input.dtype)


def softmax(input: Tensor, dim: int, *, dtype: _C.dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """softmax of the elements that the mask keeps; the others get 0.

    >>> tocha.masked.softmax(tocha.tensor([1.0, 2.0, 3.0]), dim=0, mask=tocha.tensor([True, True, False]))
    tensor([0.2689, 0.7311, 0.0000])
    """
    filled = input if mask is None else _filled(input, mask, _lowest("masked.softmax", input.dtype))
    return _C.softmax(filled, _one_dim(dim, input.dim()), dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: _C.dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """log_softmax of the elements that the mask keeps.

    >>> tocha.masked.log_softmax(tocha.tensor([1.0, 2.0, 3.0]), dim=0, mask=tocha.tensor([True, True, False]))
    tensor([-1.3133, -0.3133,    -inf])
    """
    filled = input if mask is None else _filled(input, mask, _lowest("masked.log_softmax", input.dtype))
    return _C.log_softmax(filled, _one_dim(dim, input.dim()), dtype=dtype)


def softmin(input: Tensor, dim: int, *, dtype: _C.dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """softmax of -input, of the elements that the mask keeps.

    >>> tocha.masked.softmin(tocha.tensor([1.0, 2.0, 3.0]), dim=0, mask=tocha.tensor([True, True, False]))
    tensor([0.7311, 0.2689, 0.0000])
    """
    filled = input if mask is None else _filled(input, mask, _highest("masked.softmin", input.dtype))
    return _C.softmax(-filled, _one_dim(dim, input.dim()), dtype=dtype)


def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: _C.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """input divided by its masked norm along dim (at least eps); 0 where the mask keeps nothing.

    >>> tocha.masked.normalize(tocha.tensor([3.0, 4.0, 9.0]), 2.0, 0, mask=tocha.tensor([True, True, False]))
    tensor([0.6000, 0.8000, 0.0000])
    """
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled(input, mask, 0) / _C.clamp_min(length, eps)


# -- two inputs --------------------------------------------------------------------------------------


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: _C.dtype | None = None, input_mask: Tensor | None = None, other_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """log(exp(input) + exp(other)), each without what its mask leaves out.

    >>> tocha.masked.logaddexp(tocha.tensor([0.0, 1.0]), tocha.tensor([0.0, 2.0]), input_mask=tocha.tensor([True, False]), other_mask=tocha.tensor([True, True]))
    tensor([0.6931, 2.0000])
    """
    a, b = _filled(input, input_mask, -math.inf), _filled(other, other_mask, -math.inf)
    return _C.logaddexp(a, b).to(dtype or input.dtype)
