"""Which dtypes operators compute in and return."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import Any

import tocha
from tocha import _C, Tensor
from tocha.ir.sym_types import SymBool, SymFloat, SymInt

ORDER = (bool, int, float, complex)  # each can say what those before it can
_COMPLEX: dict[Any, Any] = {
    tocha.complex32: tocha.float16,
    tocha.complex64: tocha.float32,
    tocha.complex128: tocha.float64,
}
_MADE_COMPLEX: dict[Any, Any] = {
    **{real: made for made, real in _COMPLEX.items()},
    tocha.bfloat16: tocha.complex64,
}
_LOW: dict[Any, Any] = {
    tocha.float16: tocha.float32,
    tocha.bfloat16: tocha.float32,
    tocha.complex32: tocha.complex64,
}
_WIDE = {
    tocha.float16: tocha.float64, tocha.bfloat16: tocha.float64, tocha.float32: tocha.float64,
    tocha.complex32: tocha.complex128, tocha.complex64: tocha.complex128,
}  # fmt: skip


class ELEMENTWISE_TYPE_PROMOTION_KIND(enum.Enum):
    """How an elementwise operator's dtypes come from those of its arguments."""

    DEFAULT = (0,)
    NO_OPMATH = (1,)
    INT_TO_FLOAT = (2,)
    ALWAYS_BOOL = (3,)
    COMPLEX_TO_FLOAT = (4,)
    BOOL_TO_LONG = (5,)


class REDUCTION_OUTPUT_TYPE_KIND(enum.Enum):
    """How a reduction's result comes from what it computes in."""

    SAME = (0,)
    COMPLEX_TO_FLOAT = (1,)
    KEEP_PROMOTED_TYPE = (2,)
    ALWAYS_BOOL = (3,)


def _is_dtype(dtype: Any) -> None:
    if not isinstance(dtype, tocha.dtype):
        raise AssertionError(f"Expected torch.dtype, got {type(dtype)}")


def is_boolean_dtype(dtype: tocha.dtype) -> bool:
    _is_dtype(dtype)
    return dtype is tocha.bool


def is_float_dtype(dtype: tocha.dtype) -> bool:
    _is_dtype(dtype)
    return dtype.is_floating_point


def is_complex_dtype(dtype: tocha.dtype) -> bool:
    _is_dtype(dtype)
    return dtype.is_complex


def is_integer_dtype(dtype: tocha.dtype) -> bool:
    _is_dtype(dtype)
    return not (dtype is tocha.bool or dtype.is_floating_point or dtype.is_complex)


def is_grad_dtype(dtype: tocha.dtype) -> bool:
    """Can tensors of it require gradients?"""
    return dtype.is_floating_point or dtype.is_complex


def is_low_precision_dtype(dtype: tocha.dtype) -> bool:
    _is_dtype(dtype)
    return dtype in _LOW


def corresponding_real_dtype(dtype: tocha.dtype) -> tocha.dtype:
    return _COMPLEX[dtype]


def corresponding_complex_dtype(dtype: tocha.dtype) -> tocha.dtype:
    return _MADE_COMPLEX[dtype]


def get_computation_dtype(dtype: tocha.dtype) -> tocha.dtype:
    """What kernels compute values of this dtype in."""
    return _LOW.get(dtype, dtype)


def get_acc_type(dtype: tocha.dtype, device: tocha.device) -> tocha.dtype:
    """What sums of this dtype are kept in."""
    return (_WIDE if device.type == "cpu" else _LOW).get(dtype, dtype)


def dtype_or_default(dtype: tocha.dtype | None) -> tocha.dtype:
    return _C.get_default_dtype() if dtype is None else dtype


def dtype_to_type(dtype: tocha.dtype) -> type:
    """The type of Python's numbers that a dtype's elements are."""
    _is_dtype(dtype)
    if dtype is _C.bool:
        return bool
    return complex if dtype.is_complex else float if dtype.is_floating_point else int


def dtype_to_type_ctor(dtype: tocha.dtype) -> Callable[[Any], Any]:
    """The same, as what makes such a number: symbols stay symbols."""
    kind = dtype_to_type(dtype)
    made: dict[type, Any] = {int: tocha.sym_int, float: tocha.sym_float}
    return made.get(kind, kind)


def type_to_dtype(typ: type) -> tocha.dtype:
    """The dtype of a tensor that is made of a number of this type."""
    if typ in (bool, SymBool):
        return _C.bool
    if typ in (int, SymInt):
        return _C.int64
    if typ in (float, SymFloat):
        return _C.get_default_dtype()
    if typ is complex:
        return corresponding_complex_dtype(_C.get_default_dtype())
    raise ValueError(f"Invalid type {typ}!")


def number_type(x: Any) -> type:
    """Of a symbol, the type of the numbers that it stands for."""
    return {SymInt: int, SymFloat: float, SymBool: bool}.get(type(x), type(x))


def get_dtype(x: Any) -> tocha.dtype:
    return x.dtype if isinstance(x, Tensor) else type_to_dtype(number_type(x))


def _known(*types: type) -> None:
    if any(t not in ORDER for t in types):
        raise RuntimeError(f"Expected builtin numeric types, found {', '.join(map(str, types))}")


def get_higher_type(a: type, b: type) -> type:
    _known(a, b)
    return max(a, b, key=ORDER.index)


def is_weakly_lesser_type(a: type, b: type) -> bool:
    """Can type b say what type a can?"""
    _known(a, b)
    return ORDER.index(a) <= ORDER.index(b)


def can_safe_cast_to(*, cast_to: tocha.dtype, cast_from: tocha.dtype) -> bool:
    return is_weakly_lesser_type(dtype_to_type(cast_from), dtype_to_type(cast_to))


# From what is promoted to what; two of one level are promoted to the first of the next.
_LEVELS: tuple[tuple[Any, ...], ...] = (
    (tocha.bool,), (tocha.uint8, tocha.int8), (tocha.int16,), (tocha.int32,), (tocha.int64,), (tocha.float16, tocha.bfloat16),
    (tocha.float32,), (tocha.float64,), (tocha.complex32,), (tocha.complex64,), (tocha.complex128,),
)  # fmt: skip


def _level(dtype: tocha.dtype) -> int:
    found = next((i for i, level in enumerate(_LEVELS) if dtype in level), None)
    if found is None:
        raise RuntimeError(f"Unexpected dtype {dtype}!")
    return found


def get_higher_dtype(a: Any, b: Any) -> tocha.dtype | None:
    """What both are promoted to, without regard to dims; None says nothing."""
    dtypes = [x if isinstance(x, tocha.dtype) else get_dtype(x) for x in (a, b) if x is not None]
    if len(dtypes) < 2 or dtypes[0] is dtypes[1]:
        return dtypes[0] if dtypes else None
    levels = [_level(d) for d in dtypes]
    if levels[0] == levels[1]:
        return _LEVELS[levels[0] + 1][0]
    return max(dtypes, key=_level)


def _promoted(args: tuple[Any, ...]) -> tocha.dtype:
    """Of what has dims, what has none, and numbers, the later only count by what kind of number they are."""
    dims = [a.dtype for a in args if isinstance(a, Tensor) and a.dim()]
    none = [a.dtype for a in args if isinstance(a, Tensor) and not a.dim()]
    types = [number_type(a) for a in args if not isinstance(a, Tensor)]
    number: Any = functools.reduce(get_higher_type, types)(0) if types else None
    if none:
        zero = tocha.empty((), dtype=functools.reduce(tocha.promote_types, none))
        number = zero if number is None else tocha.empty((), dtype=tocha.result_type(zero, number))
    if dims:
        own = functools.reduce(tocha.promote_types, dims)
        return own if number is None else tocha.result_type(tocha.empty(0, dtype=own), number)
    return get_dtype(number)


def elementwise_dtypes(*_args: Any, type_promotion_kind: ELEMENTWISE_TYPE_PROMOTION_KIND) -> tuple[tocha.dtype, tocha.dtype]:  # fmt: skip
    """What an elementwise operator of these tensors and numbers computes in, and what it returns."""
    args = tuple(a for a in _args if a is not None)
    for a in args:
        if not isinstance(a, (Tensor, bool, int, float, complex, SymInt, SymFloat, SymBool)):
            raise ValueError(f"Unexpected type {type(a)} when computing elementwise type promotion!")
    result, kind = _promoted(args), ELEMENTWISE_TYPE_PROMOTION_KIND
    match type_promotion_kind:
        case kind.DEFAULT:
            return get_computation_dtype(result), result
        case kind.NO_OPMATH:
            return result, result
        case kind.INT_TO_FLOAT:
            result = result if is_grad_dtype(result) else _C.get_default_dtype()
            return get_computation_dtype(result), result
        case kind.COMPLEX_TO_FLOAT:
            made = corresponding_real_dtype(result) if result.is_complex else result
            return get_computation_dtype(result), made
        case kind.BOOL_TO_LONG:
            result = tocha.int64 if result is _C.bool else result
            return get_computation_dtype(result), result
        case kind.ALWAYS_BOOL:
            return get_computation_dtype(result), _C.bool
    raise ValueError(f"Unknown type promotion kind {type_promotion_kind!s}")


def reduction_dtypes(
    arg: Tensor, output_dtype_kind: REDUCTION_OUTPUT_TYPE_KIND, dtype: tocha.dtype | None = None
) -> tuple[tocha.dtype, tocha.dtype | None]:
    """What a reduction computes in, and what it returns (None: what it computed in)."""
    of = arg.dtype if dtype is None else dtype
    inside, kind = get_computation_dtype(of), REDUCTION_OUTPUT_TYPE_KIND
    if output_dtype_kind is kind.ALWAYS_BOOL:
        return inside, _C.bool
    if output_dtype_kind is kind.KEEP_PROMOTED_TYPE:
        return inside, None
    if output_dtype_kind is kind.COMPLEX_TO_FLOAT and of.is_complex:
        return inside, corresponding_real_dtype(of)
    return inside, of
