"""Reductions: sums, products, extremes and truth, over any dims."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.ir.scalar import (
    abs,
    bitcast,
    cast,
    constant,
    exp,
    imag,
    isnan,
    log,
    make_complex,
    maximum,
    minimum,
    real,
    where,
    zero_like,
)
from tocha.operators.record import (
    BOOL,
    COMPLEX,
    FLOATS,
    INT_TO_FLOAT,
    INTS,
    NUMERIC,
    REAL,
    SUM_LIKE,
    TO_BOOL,
    UNSIGNED,
    Fold,
    composite,
    gradient,
    op,
    reduction,
    rule,
)
from tocha.operators.rules import asked, computes, is_float8, recording, wrap_dim

_ACCUMULATING = (*BOOL, *INTS, *FLOATS, *COMPLEX)
_INF = float("inf")
_SUMS = {"loops": (dt.bool_, dt.int64, dt.float32, dt.float64, *COMPLEX)}  # what accumulates; the rest is widened


def _refusing(name, types, said="{}(): does not support complex input", bools=False):
    """The types of a reduction that has PyTorch's words for what it does not take."""
    refused = {COMPLEX: RuntimeError(said.format(name))}
    if bools:
        refused[BOOL] = RuntimeError(f"{name}(): does not support bool input")
    return {**types, "refused": refused, "refused_first": bools}


_ORDERS = {"loops": (dt.int64, dt.int32, dt.float32, dt.float64)}


def _totals(t, term):
    """Adds up term(x); on bool this is `or`."""
    if t is dt.bool_:
        return Fold(
            init=lambda: False,
            combine=lambda s, x, i: s | x,
            merge=lambda a, b: a | b,
            finish=lambda s, n: s,
            state_types=("T",),
        )
    return Fold(
        init=lambda: 0,
        combine=lambda s, x, i: s + term(x),
        merge=lambda a, b: a + b,
        finish=lambda s, n: s,
        state_types=("T",),
    )


@rule
def listed(dim: "int[]?") -> "int[]":
    """The dims, none if none were given."""
    if dim is None:
        return []
    return dim


@rule
def unreduced(grad: "Tensor", self: "Tensor", dim: "int[]?", keepdim: "bool") -> "Tensor":
    """What a reduction gave, with its reduced dims back as dims of size 1."""
    if keepdim or self.ndim == 0:
        return grad
    dims = listed(dim)
    if len(dims) == 0:
        return grad.reshape([1] * self.ndim)
    shape = list(self.shape)
    for d in dims:
        shape[wrap_dim(d, self.ndim)] = 1
    return grad.reshape(shape)


@rule
def reduced_count(self: "Tensor", dim: "int[]?") -> "int":
    """How many elements one result is made of."""
    if self.ndim == 0:
        return 1
    dims = listed(dim)
    if len(dims) == 0:
        return self.numel()
    n = 1
    for d in dims:
        n = n * self.size(d)
    return n


@rule
def one_dim(dim: "int?") -> "int[]?":
    """A single dim as a list."""
    if dim is None:
        return None
    return [dim]


@rule
def product_of_others(x: "Tensor", dim: "int") -> "Tensor":
    """For every element the product of all others along dim; right also where some are zero."""
    n = x.size(dim)
    if n == 0:
        return x
    one = op.ones_like(x.narrow(dim, 0, 1))
    before = op.cat([one, x.narrow(dim, 0, n - 1)], dim).cumprod(dim)
    after = op.cat([one, x.narrow(dim, 1, n - 1).flip([dim])], dim).cumprod(dim).flip([dim])
    return before * after


@rule
def product_without(x: "Tensor", product: "Tensor", dim: "int?") -> "Tensor":
    """For every element the product of all others along dim, from that of all, where nobody can look whether there are zeros. Without them
    it is what is computed where one can, NaN for elements that are not finite included; with them the products of what stands before and
    after would take passes that wait for each other."""
    zero = x == 0
    zeros = zero.to(x.dtype).sum(one_dim(dim), True)
    rest = op.masked_fill(x, zero, 1)
    if dim is None:
        others = op.where(zero, op.where(zeros == 1, rest.prod(), product), product / x)
        return op.where(zeros > 1, 0.0, others)
    return op.where(zero, op.where(zeros == 1, rest.prod(dim, True), product), product / x)


@rule
def shared_among_ties(grad: "Tensor", self: "Tensor", extreme: "Tensor", dim: "int[]?") -> "Tensor":
    """grad for the elements that equal the extreme, in equal parts; NaN where that is NaN, which nothing equals."""
    hit = self == extreme
    return hit * (grad / hit.sum(dim, True))


@rule
def shared_among_equals(grad: "Tensor", self: "Tensor", result: "Tensor") -> "Tensor":
    """grad in equal parts for the elements that are the result."""
    hit = op.where(result == result, self == result, self != self)
    return op.where(hit, grad / hit.sum(), 0)  # never a product, which NaN would spread by


@rule
def placed(grad: "Tensor", self: "Tensor", dim: "int", keepdim: "bool", indices: "Tensor") -> "Tensor":
    """Zeros with grad at the places that indices name along dim."""
    if self.ndim == 0:
        return grad
    zeros = op.zeros(self.shape, dtype=grad.dtype, device=grad.device)
    if keepdim:
        return zeros.scatter_(dim, indices, grad)
    return zeros.scatter_(dim, indices.unsqueeze(dim), grad.unsqueeze(dim))


@reduction(
    "sum(Tensor self, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
    node="SumBackward0|SumBackward1",
    dtypes=_ACCUMULATING,
    promote=SUM_LIKE,
    types=_SUMS,
    aten=(
        "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        "sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
        "sum.IntList_out",
    ),
    core=("sum.dim_IntList",),
)
def sum(t):
    """The sum of all elements, or over dim. Integers add up as int64."""
    return _totals(t, lambda x: x)


@gradient(sum, "self")
def sum_gradient(grad, self, dim, keepdim):
    return unreduced(grad, self, dim, keepdim).expand(self.shape)


@reduction(
    "nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
    node="NansumBackward0",
    dtypes=(*BOOL, *INTS, *FLOATS),
    promote=SUM_LIKE,
    types=_refusing(
        "nansum",
        {"loops": (dt.bool_, dt.int64, dt.float32, dt.float64)},
        "nansum on CPU does not support complex inputs",
    ),
)
def nansum(t):
    """The sum of the elements that are not NaN."""
    return _totals(t, lambda x: where(isnan(x), 0, x) if t.is_floating else x)


@gradient(nansum, "self")
def nansum_gradient(grad, self, dim, keepdim):
    return unreduced(grad, self, dim, keepdim) * (self == self)


@reduction(
    "mean(Tensor self, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
    node="MeanBackward0|MeanBackward1",
    dtypes=(*FLOATS, *COMPLEX),
    promote=SUM_LIKE,
    types={
        "refused": {
            (*BOOL, *INTS, *UNSIGNED): RuntimeError(
                "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {}"
            )
        },
        "refused_first": True,  # before a dim that is not there
    },
    aten=(
        "mean(Tensor self, *, ScalarType? dtype=None) -> Tensor",
        "mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        "mean.dtype_out",
        "mean.out",
    ),
    core=True,
    word="sum_cpu",
)
def mean(t):
    """The mean of all elements, or over dim."""

    def finish(s, n):
        if t.is_complex:
            count = cast(n, dt.real_of(t))
            return make_complex(real(s) / count, imag(s) / count)
        return s / cast(n, t)

    return Fold(
        init=lambda: 0, combine=lambda s, x, i: s + x, merge=lambda a, b: a + b, finish=finish, state_types=("T",)
    )


@gradient(mean, "self")
def mean_gradient(grad, self, dim, keepdim):
    return unreduced(grad, self, dim, keepdim).expand(self.shape) / reduced_count(self, dim)


@reduction(
    "prod(Tensor self, int? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
    autocast="float32",
    node="ProdBackward0|ProdBackward1",
    dtypes=_ACCUMULATING,
    promote=SUM_LIKE,
    types=_SUMS,
    aten=(
        "prod(Tensor self, *, ScalarType? dtype=None) -> Tensor",
        "prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        "prod.out",
        "prod.int_out",
    ),
    core=True,
    word="prod_out_cpu",
)
def prod(t):
    """The product of all elements, or over dim. Integers multiply as int64."""
    if t is dt.bool_:
        return Fold(
            init=lambda: True,
            combine=lambda s, x, i: s & x,
            merge=lambda a, b: a & b,
            finish=lambda s, n: s,
            state_types=("T",),
        )
    return Fold(
        init=lambda: 1,
        combine=lambda s, x, i: s * x,
        merge=lambda a, b: a * b,
        finish=lambda s, n: s,
        state_types=("T",),
    )


@gradient(prod, "self")
def prod_gradient(grad, self, dim, keepdim, result):
    if self.ndim == 0:
        return grad
    x = self.to(grad.dtype)
    if computes(x) and not asked(x):
        if not bool(op._local_scalar_dense((x == 0).any())):
            product = unreduced(result, self, one_dim(dim), keepdim)
            return unreduced(grad, self, one_dim(dim), keepdim) * (product / x).conj()
        if dim is None and int(op._local_scalar_dense(x.count_nonzero())) < x.numel() - 1:
            return op.zeros_like(x)
    if not computes(x) and not recording() and not x.is_complex():
        product = unreduced(result, self, one_dim(dim), keepdim)
        return unreduced(grad, self, one_dim(dim), keepdim) * product_without(x, product, dim)
    if dim is None:
        others = product_of_others(x.reshape([x.numel()]), 0).reshape(x.shape)
        return grad * others.conj()
    return unreduced(grad, self, one_dim(dim), keepdim) * product_of_others(x, wrap_dim(dim, self.ndim)).conj()


# -- truth ---------------------------------------------------------------------------------------------


@reduction("_any(Tensor self, int[]? dim, bool keepdim) -> Tensor", dtypes=BOOL, promote=TO_BOOL, variants="")
def _any(t):
    """Whether any element is true."""
    return Fold(
        init=lambda: False,
        combine=lambda s, x, i: s | x,
        merge=lambda a, b: a | b,
        finish=lambda s, n: s,
        state_types=(dt.bool_,),
        out_types=(dt.bool_,),
    )


@reduction("_all(Tensor self, int[]? dim, bool keepdim) -> Tensor", dtypes=BOOL, promote=TO_BOOL, variants="")
def _all(t):
    """Whether all elements are true."""
    return Fold(
        init=lambda: True,
        combine=lambda s, x, i: s & x,
        merge=lambda a, b: a & b,
        finish=lambda s, n: s,
        state_types=(dt.bool_,),
        out_types=(dt.bool_,),
    )


def check_any_out(out0):
    if out0.dtype != dt.bool_ and out0.dtype != dt.uint8:
        raise RuntimeError(f"[any] any only supports bool tensor for result, got: {out0.dtype}")


def check_all_out(out0):
    if out0.dtype != dt.bool_ and out0.dtype != dt.uint8:
        raise RuntimeError(f"[all] all only supports bool tensor for result, got: {out0.dtype}")


@composite(
    "any(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor",
    variants="function, method, out",
    types={"check_out": check_any_out},
    aten=(
        "any(Tensor self) -> Tensor",
        "any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
        "any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
        "any.all_out",
        "any.out",
    ),
    core=True,
    tags=frozenset({"reduction"}),
    whole=True,
)
def any(self, dim, keepdim):
    """Whether any element is true, over all dims or those given; uint8 gives uint8, everything else bool."""
    if dim is not None and len(dim) == 0:
        return op._no_reduction(self)
    return op._any(self, dim, keepdim)


@composite(
    "all(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor",
    variants="function, method, out",
    types={"check_out": check_all_out},
    aten=(
        "all(Tensor self) -> Tensor",
        "all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
        "all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
        "all.all_out",
        "all.out",
    ),
    tags=frozenset({"reduction"}),
    whole=True,
)
def all(self, dim, keepdim):
    """Whether all elements are true, over all dims or those given; uint8 gives uint8, everything else bool."""
    if dim is not None and len(dim) == 0:
        return op._no_reduction(self)
    return op._all(self, dim, keepdim)


@composite("_no_reduction(Tensor self) -> Tensor", variants="")
def _no_reduction(self):
    """The truth of every element: what any and all give over no dims."""
    truth = self.to(dt.bool_)
    return truth.to(dt.uint8) if self.dtype == dt.uint8 else truth


@reduction(
    "count_nonzero(Tensor self, int[1]? dim=None) -> Tensor",
    dtypes=BOOL,
    promote=TO_BOOL,
    variants="function, method",
    aten=(
        "count_nonzero(Tensor self, int? dim=None) -> Tensor",
        "count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor",
    ),
)
def count_nonzero(t):
    """How many elements are not zero, over all dims or those given."""
    return Fold(
        init=lambda: 0,
        combine=lambda s, x, i: s + cast(x, dt.int64),
        merge=lambda a, b: a + b,
        finish=lambda s, n: s,
        state_types=(dt.int64,),
        out_types=(dt.int64,),
    )


@reduction(
    "_xor_sum(Tensor self, int[]? dim, bool keepdim) -> Tensor",
    dtypes=REAL,
    types={"loops": (dt.int64, dt.float32, dt.float64)},
    variants="",
    tags=frozenset({"no_gradient"}),
)
def _xor_sum(t):
    """The bits of all elements as float64 or int64, combined by exclusive or."""
    wide = dt.float64 if t.is_floating else dt.int64
    return Fold(
        init=lambda: 0,
        combine=lambda s, x, i: s ^ bitcast(cast(x, wide), dt.int64),
        merge=lambda a, b: a ^ b,
        finish=lambda s, n: bitcast(s, dt.uint64),
        state_types=(dt.int64,),
        out_types=(dt.uint64,),
    )


@composite(
    "hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor",
    variants="function, method, out",
    tags=frozenset({"reduction", "exact_out", "no_gradient"}),
    types={"out_words": "Expected result to be of dtype uint64, but got {out}"},
)
def hash_tensor(self, dim, keepdim, mode):
    """A number that depends on every bit of the elements, over all dims or those given."""
    if mode != 0:
        raise RuntimeError(f"[hash_tensor] Unknown hash_tensor mode: {mode}")
    if self.numel() == 0:
        if len(dim) == 0:
            raise RuntimeError(
                "[hash_tensor] hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument."
            )
        for d in dim:
            if self.size(wrap_dim(d, self.ndim)) == 0:
                raise IndexError(f"[hash_tensor] hash_tensor: Expected reduction dim {d} to have non-zero size.")
    return op._xor_sum(self, dim, keepdim)


# -- extremes: NaN wins, the first of equal elements is reported ------------------------------------------


def _lowest(t):
    return False if t is dt.bool_ else t.smallest_integer if not t.is_floating else -_INF


def _highest(t):
    return True if t is dt.bool_ else t.largest_integer if not t.is_floating else _INF


def _greater(t):
    """maximum for values of dtype t."""
    return (lambda a, b: a | b) if t is dt.bool_ else maximum


def _lesser(t):
    return (lambda a, b: a & b) if t is dt.bool_ else minimum


_EXTREMES = REAL


@reduction(
    "amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
    dtypes=_EXTREMES,
    types={
        "out_words": "Expected the dtype for input and out to match, but got {result} for input's dtype and {out} for out's dtype.",
        "loops": (dt.uint8, *_ORDERS["loops"]),
    },
    core=True,
    word="max_values_cpu",
)
def amax(t):
    """The largest element, over all dims or those given; NaN if there is one."""
    pick = _greater(t)
    return Fold(
        init=lambda: _lowest(t),
        combine=lambda s, x, i: pick(s, x),
        merge=pick,
        finish=lambda s, n: s,
        state_types=("T",),
        identity=False,
    )


@gradient(amax, "self")
def amax_gradient(grad, self, dim, keepdim, result):
    extreme = unreduced(result, self, dim, keepdim)
    return shared_among_ties(unreduced(grad, self, dim, keepdim), self, extreme, dim)


@reduction(
    "amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
    dtypes=_EXTREMES,
    types={
        "out_words": "Expected the dtype for input and out to match, but got {result} for input's dtype and {out} for out's dtype.",
        "loops": (dt.uint8, *_ORDERS["loops"]),
    },
    core=True,
    word="min_values_cpu",
)
def amin(t):
    """The smallest element, over all dims or those given; NaN if there is one."""
    pick = _lesser(t)
    return Fold(
        init=lambda: _highest(t),
        combine=lambda s, x, i: pick(s, x),
        merge=pick,
        finish=lambda s, n: s,
        state_types=("T",),
        identity=False,
    )


@gradient(amin, "self")
def amin_gradient(grad, self, dim, keepdim, result):
    extreme = unreduced(result, self, dim, keepdim)
    return shared_among_ties(unreduced(grad, self, dim, keepdim), self, extreme, dim)


@reduction(
    "aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
    dtypes=_EXTREMES,
    types={"loops": (dt.uint8, *_ORDERS["loops"])},
    aten=("aminmax.out",),
)
def aminmax(t):
    """The smallest and the largest element in one pass."""
    low, high = _lesser(t), _greater(t)
    return Fold(
        init=lambda: (_highest(t), _lowest(t)),
        combine=lambda s, x, i: (low(s[0], x), high(s[1], x)),
        merge=lambda a, b: (low(a[0], b[0]), high(a[1], b[1])),
        finish=lambda s, n: s,
        state_types=("T", "T"),
        out_types=("T", "T"),
        identity=False,
    )


@gradient(aminmax, "self")
def aminmax_gradient(grad0, grad1, self, dim, keepdim, result0, result1):
    dims = one_dim(dim)
    total = op.zeros_like(self)
    if grad0 is not None:
        total = shared_among_ties(
            unreduced(grad0, self, dims, keepdim), self, unreduced(result0, self, dims, keepdim), dims
        )
    if grad1 is not None:
        total = total + shared_among_ties(
            unreduced(grad1, self, dims, keepdim), self, unreduced(result1, self, dims, keepdim), dims
        )
    return total


_NOWHERE = 2**63 - 1  # the index of a state that has met nothing better than the start value


def _where_extreme(t, largest, with_value):
    """The extreme value and its first index. A lane that only met the start value keeps _NOWHERE: then every element
    equals the start value, and the first is the answer."""

    def beats(x, v):
        if t is dt.bool_:
            return (x & ~v) if largest else (v & ~x)
        if not t.is_floating:
            return x > v if largest else x < v
        return ~(x <= v if largest else x >= v) & (v == v)

    def ties(a, b):
        return (a == b) | (isnan(a) & isnan(b)) if t.is_floating else a == b

    def combine(s, x, i):
        better = beats(x, s[0])
        return where(better, x, s[0]), where(better, i, s[1])

    def merge(a, b):
        better = beats(b[0], a[0]) | (ties(a[0], b[0]) & (b[1] < a[1]))
        return where(better, b[0], a[0]), where(better, b[1], a[1])

    def finish(s, n):
        index = where(s[1] == _NOWHERE, 0, s[1])
        return (s[0], index) if with_value else index

    start = _lowest(t) if largest else _highest(t)
    return Fold(
        init=lambda: (start, _NOWHERE),
        combine=combine,
        merge=merge,
        finish=finish,
        state_types=("T", dt.int64),
        out_types=("T", dt.int64) if with_value else (dt.int64,),
        identity=False,
        search=(_greater(t) if largest else _lesser(t), beats, ties),
    )


@composite(
    "max.other(Tensor self, Tensor other) -> Tensor",
    variants="function, method, out",
    aten=("max.out",),
    tags=frozenset({"pointwise"}),
)
def max_other(self, other):
    """The larger of two elements each; NaN if one is."""
    return op.maximum(self, other)


@rule
def check_not_empty(self: "Tensor", name: "str") -> "none":
    """An element to find, of a dtype that has an order."""
    if self.numel() == 0:
        raise RuntimeError(
            f"[{name}] {name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument."
        )
    if self.is_complex() or is_float8(self.dtype) or self.dtype in (dt.uint16, dt.uint32, dt.uint64):
        raise NotImplementedError(f"[{name}] \"{name}_all\" not implemented for '{self.dtype}'")


@composite(
    "max(Tensor self) -> Tensor",
    node="MaxBackward1",
    variants="function, method, out",
    aten=("max.unary_out",),
    tags=frozenset({"reduction"}),
)
def max(self):
    """The largest element; NaN if there is one."""
    check_not_empty(self, "max")
    return op.amax(self, [], False)


@gradient(max, "self")
def max_gradient(grad, self, result):
    return shared_among_equals(grad, self, result)


@reduction(
    "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    dtypes=_EXTREMES,
    types=_refusing("max", _ORDERS),
    aten=(
        "max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) max_values) -> (Tensor(a!) values, Tensor(b!) indices)",
    ),
    core=True,
)
def max_dim(t):
    """The largest elements along dim and where they are: the first of equal ones, the first NaN."""
    return _where_extreme(t, largest=True, with_value=True)


@gradient(max_dim, "self")
def max_dim_gradient(grad, self, dim, keepdim, result1):
    return placed(grad, self, dim, keepdim, result1)


@composite(
    "min.other(Tensor self, Tensor other) -> Tensor",
    variants="function, method, out",
    aten=("min.out",),
    tags=frozenset({"pointwise"}),
)
def min_other(self, other):
    """The smaller of two elements each; NaN if one is."""
    return op.minimum(self, other)


@composite(
    "min(Tensor self) -> Tensor",
    node="MinBackward1",
    variants="function, method, out",
    aten=("min.unary_out",),
    tags=frozenset({"reduction"}),
)
def min(self):
    """The smallest element; NaN if there is one."""
    check_not_empty(self, "min")
    return op.amin(self, [], False)


@gradient(min, "self")
def min_gradient(grad, self, result):
    return shared_among_equals(grad, self, result)


@reduction(
    "min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    dtypes=_EXTREMES,
    types=_refusing("min", _ORDERS),
    aten=(
        "min.dim_min(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) min, Tensor(b!) min_indices) -> (Tensor(a!) values, Tensor(b!) indices)",
    ),
    core=True,
)
def min_dim(t):
    """The smallest elements along dim and where they are: the first of equal ones, the first NaN."""
    return _where_extreme(t, largest=False, with_value=True)


@gradient(min_dim, "self")
def min_dim_gradient(grad, self, dim, keepdim, result1):
    return placed(grad, self, dim, keepdim, result1)


@reduction(
    "argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
    dtypes=NUMERIC,
    types=_refusing("argmax", _ORDERS, bools=True),
    core=True,
)
def argmax(t):
    """The index of the largest element along dim, or in the flattened tensor."""
    return _where_extreme(t, largest=True, with_value=False)


@reduction(
    "argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
    dtypes=NUMERIC,
    types=_refusing("argmin", _ORDERS, bools=True),
    core=True,
)
def argmin(t):
    """The index of the smallest element along dim, or in the flattened tensor."""
    return _where_extreme(t, largest=False, with_value=False)


# -- log(sum(exp(x))) --------------------------------------------------------------------------------------


def _log_sum_exp(t):
    """States: the largest real part m, and the sum of exp(x - m). One exponential per element."""

    def add(a, b):
        (m, s), (k, r) = a, b
        scale = exp(where(m == k, zero_like(m), -abs(k - m)))  # equal infinities are 0 apart
        if t.is_complex:
            scale = make_complex(scale, zero_like(scale))
        return maximum(m, k), where(k > m, s * scale + r, s + r * scale)

    def combine(s, x, i):
        if t.is_complex:
            phase = exp(make_complex(zero_like(imag(x)), imag(x)))
            return add(s, (real(x), phase))
        return add(s, (x, constant(1, t)))

    def finish(s, n):
        m, total = s
        return log(total) + (make_complex(m, zero_like(m)) if t.is_complex else m)

    return Fold(init=lambda: (-_INF, 0), combine=combine, merge=add, finish=finish, state_types=("real", "T"))


@reduction(
    "_logsumexp(Tensor self, int[]? dim, bool keepdim) -> Tensor",
    dtypes=(*FLOATS, *COMPLEX),
    promote=INT_TO_FLOAT,
    variants="",
    word="max_values_cpu",
)
def _logsumexp(t):
    """log(sum(exp(self))) without overflow."""
    return _log_sum_exp(t)


@gradient(_logsumexp, "self")
def logsumexp_gradient(grad, self, dim, keepdim, result):
    weights = (self - unreduced(result, self, dim, keepdim)).exp()
    return unreduced(grad, self, dim, keepdim) * weights.conj()


@composite(
    "logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    variants="function, method, out",
    tags=frozenset({"reduction"}),
    whole=True,
)
def logsumexp(self, dim, keepdim):
    """log(sum(exp(self))) over dim, without overflow."""
    return op._logsumexp(self, dim, keepdim)


@composite("special_logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", variants="function, out")
def special_logsumexp(self, dim, keepdim):
    """log(sum(exp(self))) over dim, without overflow."""
    return op._logsumexp(self, dim, keepdim)
