"""Random programs against NumPy: any shape, layout, dtype and index.

TOCHA_FUZZ is the number of cases in all, shared among the tests; HYPOTHESIS_PROFILE=default draws new ones each time.
"""

from __future__ import annotations

import math
import os
import warnings
from dataclasses import dataclass

import hypothesis
import numpy as np
import pytest
import samples
import test_indexing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tocha

TOTAL = int(os.environ.get("TOCHA_FUZZ", "4000"))
DTYPES = [
    tocha.bool,
    tocha.uint8,
    tocha.int8,
    tocha.int16,
    tocha.int32,
    tocha.int64,
    tocha.float16,
    tocha.bfloat16,
    tocha.float32,
    tocha.float64,
    tocha.complex64,
    tocha.complex128,
]
INTEGERS = [d for d in DTYPES if not (d.is_floating_point or d.is_complex)]
FLOATS = [d for d in DTYPES if d.is_floating_point]
# One rounding of the result, and a few of float32 arithmetic.
TOLERANCE = {
    tocha.float16: 2e-3,
    tocha.bfloat16: 1.6e-2,
    tocha.float32: 2e-5,
    tocha.complex64: 4e-5,
    tocha.float64: 1e-10,
    tocha.complex128: 1e-10,
}


def fuzz(share: float):
    """So many of all cases."""
    return settings(
        max_examples=max(1, round(TOTAL * share)),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )


def numpy_dtype(d: tocha.dtype) -> np.dtype:
    """NumPy has no bfloat16: its values are held in float32."""
    return np.dtype(np.float32 if d == tocha.bfloat16 else str(d).removeprefix("tocha."))


# -- arguments -------------------------------------------------------------------------------------


@dataclass
class Pair:
    """The same values in both libraries, the tensor in some layout."""

    array: np.ndarray
    tensor: tocha.Tensor

    def _repr_pretty_(self, printer, cycle) -> None:
        t = self.tensor
        printer.text(
            f"Pair({t.dtype}, shape={tuple(t.shape)}, stride={t.stride()}, offset={t.storage_offset()}, {self.array.tolist()})"
        )


def values(rng: np.random.Generator, shape: tuple[int, ...], d: tocha.dtype, special: bool = False) -> np.ndarray:
    """Small numbers that every dtype holds exactly: quarters, integers, bools; `special` adds inf and nan."""
    if d == tocha.bool:
        return rng.random(shape) > 0.5
    if not (d.is_floating_point or d.is_complex):
        return rng.integers(0 if d == tocha.uint8 else -6, 7, shape).astype(numpy_dtype(d))
    real = rng.integers(-16, 17, shape) / 4
    if special:
        real = np.where(rng.random(shape) < 0.1, rng.choice([np.inf, -np.inf, np.nan], shape), real)
    if d.is_complex:
        return (real + 1j * rng.integers(-16, 17, shape) / 4).astype(numpy_dtype(d))
    return np.asarray(real).astype(numpy_dtype(d))


shapes = (
    st.lists(st.sampled_from([0, 1, 2, 3, 4, 5, 17, 66]), max_size=4).map(tuple).filter(lambda s: math.prod(s) < 3000)
)
generators = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@st.composite
def laid_out(draw, shape: tuple[int, ...], d: tocha.dtype, special: bool = False) -> Pair:
    """A tensor of this shape: permuted, with steps, offsets, dims of stride 0, or flipped."""
    rng = draw(generators)
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([1, 1, 1, 2, 3])) for _ in shape]
    starts = [draw(st.sampled_from([0, 0, 1])) for _ in shape]
    expands = [draw(st.sampled_from([False] * 5 + [True])) for _ in shape]
    inner = [1 if e else n for n, e in zip(shape, expands, strict=True)]
    full = [start + step * n for n, step, start in zip(inner, steps, starts, strict=True)]
    back = list(np.argsort(order)) if shape else []
    base = values(rng, tuple(full[i] for i in order), d, special)
    cut = tuple(slice(start, None, step) for start, step in zip(starts, steps, strict=True))
    a = base.transpose(back)[cut]
    t = tocha.tensor(base).to(d).permute([int(i) for i in back])[cut]
    a, t = np.broadcast_to(a, shape), t.expand(shape)
    if shape and draw(st.sampled_from([False, False, False, True])):
        dim = draw(st.integers(0, len(shape) - 1))
        a, t = np.flip(a, dim), t.flip(dim)
    return Pair(a, t)


@st.composite
def pairs(draw, shape=shapes, dtypes=tuple(DTYPES), special: bool = False) -> Pair:
    return draw(laid_out(draw(shape), draw(st.sampled_from(dtypes)), special))


@st.composite
def broadcastable(draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to `shape`."""
    kept = shape[draw(st.integers(0, len(shape))) :]
    return tuple(1 if draw(st.sampled_from([False, False, True])) else n for n in kept)


def to_numpy(t: tocha.Tensor) -> np.ndarray:
    t = t.resolve_conj().resolve_neg()
    return (t.float() if t.dtype == tocha.bfloat16 else t).numpy()


def agree(got: tocha.Tensor, want, tolerance: float = 0.0) -> None:
    """Same shape and values; -0 equals 0, nan equals nan."""
    want = np.asarray(want)
    assert tuple(got.shape) == want.shape
    np.testing.assert_allclose(to_numpy(got), want, rtol=tolerance, atol=tolerance)


# -- element by element ----------------------------------------------------------------------------


def ufunc_of(o) -> np.ufunc | None:
    """The NumPy function of the same name, for operators on tensors alone with one result."""
    count = sum(a.is_tensor for a in o.schema.arguments)
    needed = [a for a in o.schema.arguments if a.default is None and not a.is_tensor]
    for name in (o.public_name, *(a.rpartition(".")[2] for a in o.aliases)):
        f = getattr(np, name, None)
        if isinstance(f, np.ufunc) and (f.nin, f.nout, f.signature) == (count, 1, None) and not needed:
            return f if [r.type for r in o.schema.returns] == ["Tensor"] else None
    return None


ELEMENTWISE = {o.full_name: (o, f) for o in samples.all_operators() if samples.function_of(o) and (f := ufunc_of(o))}


def test_most_of_numpys_functions_are_here():
    assert len(ELEMENTWISE) > 70


def elementwise_reference(o, f: np.ufunc, arrays: list[np.ndarray], tensors: list[tocha.Tensor], result: tocha.dtype):
    """f in the dtype that promotion gives, in double precision where the result is not exact."""
    common = tensors[0].dtype
    for t in tensors[1:]:
        common = tocha.result_type(tocha.empty(1, dtype=common), tocha.empty(1, dtype=t.dtype))
    if all(t.dim() == 0 for t in tensors) or len({t.dim() == 0 for t in tensors}) == 2:
        common = tocha.result_type(*tensors) if len(tensors) == 2 else common
    work = numpy_dtype(common)
    if "stored" in o.tags:  # about the dtype itself, which for bfloat16 NumPy has not
        hypothesis.assume(common != tocha.bfloat16)
    elif result.is_complex or common.is_complex:
        work = np.complex128
    elif result.is_floating_point or common.is_floating_point:
        work = np.float64
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        want = f(*(a.astype(work) for a in arrays))
    if f in (np.sign, np.heaviside):  # nan has no sign: 0 in PyTorch, nan in NumPy
        want = np.where(np.isnan(arrays[0]), 0, want)
    return want


@fuzz(0.25)
@given(st.data())
def test_elementwise(data):
    o, f = ELEMENTWISE[data.draw(st.sampled_from(sorted(ELEMENTWISE)), label="operator")]
    # Complex infinities follow PyTorch's formulas, not NumPy's.
    special = data.draw(st.sampled_from([False, False, True]))
    dtypes = [d for d in DTYPES if not (special and d.is_complex)]
    first = data.draw(pairs(dtypes=dtypes, special=special))
    ps = [first]
    if f.nin == 2:
        shape = data.draw(broadcastable(first.array.shape))
        ps.append(data.draw(laid_out(shape, data.draw(st.sampled_from(dtypes)), special)))
        if data.draw(st.booleans()):
            ps.reverse()
    arrays, tensors = [p.array for p in ps], [p.tensor for p in ps]
    try:
        got = samples.function_of(o)(*tensors)
    except (NotImplementedError, TypeError):
        hypothesis.reject()  # not for these dtypes
    except RuntimeError as e:
        assert any(reason in str(e) for reason in ("ZeroDivision", "dtype", "bool", "complex")), str(e)
        return
    try:
        want = elementwise_reference(o, f, arrays, tensors, got.dtype)
    except (TypeError, ValueError):
        hypothesis.reject()  # NumPy does not define it
    tolerance = TOLERANCE.get(got.dtype, 0)
    with np.errstate(all="ignore"):
        agree(got, want.astype(numpy_dtype(got.dtype)), tolerance)


# -- reductions ------------------------------------------------------------------------------------


def over_dims(o) -> bool:
    return any(a.name == "dim" and a.type.startswith("int[") for a in o.schema.arguments)


REDUCTIONS = {
    o.full_name: (o, getattr(np, o.public_name))
    for o in samples.all_operators()
    if samples.function_of(o) and over_dims(o) and callable(getattr(np, o.public_name, None)) and not o.namespace
    if any(a.name == "keepdim" for a in o.schema.arguments) and len(o.schema.returns) == 1
}


def test_numpys_reductions_are_here():
    assert len(REDUCTIONS) > 6


@fuzz(0.12)
@given(st.data())
def test_reductions(data):
    o, f = REDUCTIONS[data.draw(st.sampled_from(sorted(REDUCTIONS)), label="operator")]
    p = data.draw(pairs())
    n = p.array.ndim
    dims = data.draw(st.lists(st.integers(-n, n - 1), unique_by=lambda d: d % n, max_size=n)) if n else []
    keep = data.draw(st.booleans())
    given_ = {} if not dims else {"dim": dims}
    try:
        got = samples.function_of(o)(p.tensor, **given_, **({"keepdim": keep} if dims else {}))
    except NotImplementedError:
        hypothesis.reject()
    except (RuntimeError, IndexError):
        assert p.array.size == 0 or not p.tensor.is_floating_point()
        return
    wide = np.complex128 if p.tensor.is_complex() else np.float64 if got.is_floating_point() else p.array.dtype
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        options = {"axis": tuple(dims), "keepdims": keep} if dims else {"axis": None}
        if any(a.name == "correction" for a in o.schema.arguments) or any(
            a.name == "unbiased" for a in o.schema.arguments
        ):
            options["ddof"] = 1
        try:
            want = np.asarray(f(p.array.astype(wide), **options))
        except ValueError:
            assert p.array.size == 0  # NumPy refuses; so may we, but need not
            return
        agree(got, want.astype(numpy_dtype(got.dtype)), 10 * TOLERANCE.get(got.dtype, 0))


@fuzz(0.04)
@given(st.data())
def test_searches(data):
    """The first of equal extremes, along one dim and over all."""
    p = data.draw(pairs(dtypes=[d for d in DTYPES if not d.is_complex and d != tocha.bool]))
    hypothesis.assume(p.array.size)
    agree(p.tensor.argmax(), p.array.argmax())
    agree(p.tensor.argmin(), p.array.argmin())
    if p.array.ndim:
        dim = data.draw(st.integers(-p.array.ndim, p.array.ndim - 1))
        agree(p.tensor.argmax(dim), p.array.argmax(dim))
        largest, where = p.tensor.max(dim)
        agree(largest, p.array.max(dim))
        agree(where, p.array.argmax(dim))


# -- indexing --------------------------------------------------------------------------------------


@fuzz(0.12)
@given(test_indexing.cases(), st.data())
def test_getitem(case, data):
    x, use, basic, advanced = case
    p = data.draw(laid_out(x.shape, tocha.from_numpy(x).dtype))
    want, error = test_indexing.try_numpy(lambda: test_indexing.expected(p.array, basic, advanced))
    if error is not None:
        with pytest.raises((IndexError, RuntimeError)):
            p.tensor[use]
    else:
        agree(p.tensor[use], want)


@fuzz(0.08)
@given(test_indexing.cases(), st.data())
def test_setitem(case, data):
    """One value, or the values that lie there already plus one: whatever the order of duplicates, the result is one."""
    x, use, basic, advanced = case
    hypothesis.assume(x.size > 0)
    places, error = test_indexing.try_numpy(
        lambda: test_indexing.expected(np.arange(x.size).reshape(x.shape), basic, advanced)
    )
    hypothesis.assume(error is None)
    p = data.draw(laid_out(x.shape, data.draw(st.sampled_from(DTYPES))))
    target, want = p.tensor.clone(), p.array.copy().reshape(-1)
    if data.draw(st.booleans()):  # the clone keeps a dense layout: a copy with steps does not
        wide = tocha.zeros(*x.shape, 2, dtype=target.dtype)
        target = wide[..., 0].copy_(target)
    new = values(np.random.default_rng(x.size), x.shape, target.dtype).reshape(-1)
    if data.draw(st.booleans()):
        target[use] = tocha.tensor(new[places]).to(target.dtype)
        want[places] = new[places]
    else:
        target[use] = new[0].item()
        want[places] = new[0]
    agree(target, want.reshape(x.shape))


# -- views -----------------------------------------------------------------------------------------


def factors(data, n: int) -> tuple[int, ...]:
    """Some shape with n elements."""
    sizes = []
    for _ in range(data.draw(st.integers(0, 3))):
        k = data.draw(st.sampled_from([d for d in range(1, min(n, 70) + 1) if n % d == 0] or [1]))
        sizes.append(k)
        n //= k if n else 1
    return (*sizes, n)


def step(data, p: Pair) -> Pair:
    """One view, or a reshape."""
    a, t, n = p.array, p.tensor, p.array.ndim
    dim = data.draw(st.integers(0, n - 1)) if n else 0
    kind = data.draw(
        st.sampled_from(["reshape", "expand", "unsqueeze"] + ["permute", "unfold", "slice", "strided"] * (n > 0))
    )
    if kind == "reshape":
        shape = factors(data, a.size)
        return Pair(a.reshape(shape), t.reshape(shape))
    if kind == "expand":
        shape = (data.draw(st.integers(0, 2)), *(3 if s == 1 else s for s in a.shape))
        return Pair(np.broadcast_to(a, shape), t.expand(shape))
    if kind == "unsqueeze":
        at = data.draw(st.integers(0, n))
        return Pair(np.expand_dims(a, at), t.unsqueeze(at))
    if kind == "permute":
        order = data.draw(st.permutations(range(n)))
        return Pair(a.transpose(order), t.permute(order))
    if kind == "unfold":
        size = data.draw(st.integers(1, max(a.shape[dim], 1)))
        hypothesis.assume(size <= a.shape[dim])
        by = data.draw(st.integers(1, 3))
        windows = np.lib.stride_tricks.sliding_window_view(a, size, dim)
        return Pair(windows[(slice(None),) * dim + (slice(None, None, by),)], t.unfold(dim, size, by))
    if kind == "slice":
        cut = data.draw(test_indexing.slices(a.shape[dim]))
        return Pair(a[(slice(None),) * dim + (cut,)], t[(slice(None),) * dim + (cut,)])
    diagonal = n > 1 and data.draw(st.booleans())
    if diagonal:
        offset = data.draw(st.integers(-2, 2))
        return Pair(np.diagonal(a, offset, 0, 1), t.diagonal(offset, 0, 1))
    flat, dense = np.ascontiguousarray(a).reshape(-1), t.contiguous()
    size = data.draw(st.integers(0, max(a.size // 2, 0)))
    by = data.draw(st.integers(0, 2))
    return Pair(
        flat[: (size - 1) * by + 1][::by][:size] if by else np.repeat(flat[:1], size), dense.as_strided((size,), (by,))
    )


@fuzz(0.12)
@given(st.data())
def test_views(data):
    p = data.draw(pairs())
    for _ in range(data.draw(st.integers(1, 4))):
        p = step(data, p)
        hypothesis.assume(p.array.size < 20000)
        agree(p.tensor, p.array)
    agree(p.tensor.contiguous(), p.array)
    agree(p.tensor.clone(), p.array)


@fuzz(0.03)
@given(st.data())
def test_writes_through_views_reach_the_base(data):
    shape = data.draw(shapes)
    base = Pair(np.zeros(shape), tocha.zeros(shape, dtype=tocha.float64))
    a, t = base.array, base.tensor
    for _ in range(data.draw(st.integers(1, 3))):
        cut = tuple(data.draw(test_indexing.slices(n)) for n in a.shape)
        order = data.draw(st.permutations(range(a.ndim)))
        a, t = a[(*cut, ...)].transpose(order), t[cut].permute(order)
    assert t.data_ptr() == base.tensor.data_ptr() + t.storage_offset() * 8 or t.numel() == 0
    a += 1
    t += 1
    agree(base.tensor, base.array)


# -- several tensors -------------------------------------------------------------------------------


@fuzz(0.06)
@given(st.data())
def test_joins(data):
    shape = data.draw(shapes.filter(len))
    dim = data.draw(st.integers(0, len(shape) - 1))
    dtypes = st.sampled_from([data.draw(st.sampled_from(DTYPES)), data.draw(st.sampled_from(DTYPES))])
    ps = []
    for _ in range(data.draw(st.integers(1, 4))):
        size = data.draw(st.integers(0, 4))
        ps.append(data.draw(laid_out((*shape[:dim], size, *shape[dim + 1 :]), data.draw(dtypes))))
    got = tocha.cat([p.tensor for p in ps], dim)
    agree(got, np.concatenate([p.array for p in ps], dim).astype(numpy_dtype(got.dtype)))
    d = ps[0].tensor.dtype
    same = [data.draw(laid_out(shape, d)) for _ in range(2)]
    at = data.draw(st.integers(-len(shape) - 1, len(shape)))
    agree(tocha.stack([p.tensor for p in same], at), np.stack([p.array for p in same], at))


@fuzz(0.08)
@given(st.data())
def test_matmul(data):
    batch = data.draw(st.lists(st.integers(0, 3), max_size=2).map(tuple))
    m, k, n = (data.draw(st.sampled_from([0, 1, 2, 3, 5, 8, 17, 33, 70])) for _ in range(3))
    d = data.draw(st.sampled_from(DTYPES[1:]))
    left = (m, k) if data.draw(st.booleans()) else (k,)
    right = (k, n) if data.draw(st.booleans()) else (k,)
    left = (*data.draw(broadcastable(batch)), *left) if len(left) == 2 else left
    right = (*data.draw(broadcastable(batch)), *right) if len(right) == 2 else right
    p, q = data.draw(laid_out(left, d)), data.draw(laid_out(right, d))
    got = p.tensor @ q.tensor
    wide = np.complex128 if d.is_complex else np.float64 if d.is_floating_point else p.array.dtype
    want = p.array.astype(wide) @ q.array.astype(wide)
    assert got.dtype == d
    agree(got, np.asarray(want).astype(numpy_dtype(d)), TOLERANCE.get(d, 0) * 4)


# -- along a dim -----------------------------------------------------------------------------------


@fuzz(0.06)
@given(st.data())
def test_sorting_and_scans(data):
    p = data.draw(pairs(shapes.filter(len), [d for d in DTYPES if not d.is_complex]))
    dim = data.draw(st.integers(-p.array.ndim, p.array.ndim - 1))
    down = data.draw(st.booleans())
    sorted_, order = p.tensor.sort(dim=dim, descending=down, stable=True)
    key = -p.array.astype(np.float64) if down else p.array
    want = np.argsort(key, dim, kind="stable")
    agree(order, want)
    agree(sorted_, np.take_along_axis(p.array, want, dim))
    agree(p.tensor.gather(dim, order), np.take_along_axis(p.array, want, dim))
    sums = p.tensor.cumsum(dim)
    wide = np.float64 if p.tensor.is_floating_point() else np.int64
    size = max(p.array.shape[dim], 1)
    agree(sums, p.array.astype(wide).cumsum(dim).astype(numpy_dtype(sums.dtype)), TOLERANCE.get(sums.dtype, 0) * size)


@fuzz(0.02)
@given(st.data())
def test_sorting_puts_nan_last(data):
    p = data.draw(pairs(shapes.filter(len), FLOATS, special=True))
    want = np.argsort(p.array, -1, kind="stable")
    agree(p.tensor.sort(stable=True)[1], want)
    agree(p.tensor.sort(stable=True)[0], np.take_along_axis(p.array, want, -1))


# -- casts -----------------------------------------------------------------------------------------


@fuzz(0.06)
@given(st.data())
def test_casts_and_copies(data):
    p = data.draw(pairs())
    d = data.draw(st.sampled_from(DTYPES))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # imaginary parts are dropped
        # Through int64: a negative float as an unsigned integer wraps, as in PyTorch.
        whole = d in INTEGERS and d != tocha.bool
        want = (p.array.real.astype(np.int64) if whole else p.array).astype(numpy_dtype(d))
        agree(p.tensor.to(d), want)
        target = data.draw(laid_out(p.array.shape, d)).tensor
        hypothesis.assume(all(s != 0 or n <= 1 for s, n in zip(target.stride(), target.shape, strict=True)))
        agree(target.copy_(p.tensor), want)
        small = data.draw(broadcastable(p.array.shape))
        source = data.draw(laid_out(small, d))
        agree(target.copy_(source.tensor), np.broadcast_to(source.array, p.array.shape))
