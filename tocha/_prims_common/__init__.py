"""Small questions about dtypes, shapes, strides and dims: what rules of operators written in Python ask.

>>> make_contiguous_strides_for((2, 3, 4))
(12, 4, 1)
>>> elementwise_dtypes(tocha.ones(2, dtype=tocha.float16), 1.5, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)
(tocha.float32, tocha.float16)
"""

from __future__ import annotations

from typing import Any, TypeAlias

import tocha
from tocha import Tensor
from tocha._prims_common.dtypes import (
    ELEMENTWISE_TYPE_PROMOTION_KIND,
    REDUCTION_OUTPUT_TYPE_KIND,
    can_safe_cast_to,
    corresponding_complex_dtype,
    corresponding_real_dtype,
    dtype_or_default,
    dtype_to_type,
    dtype_to_type_ctor,
    elementwise_dtypes,
    get_acc_type,
    get_computation_dtype,
    get_dtype,
    get_higher_dtype,
    get_higher_type,
    is_boolean_dtype,
    is_complex_dtype,
    is_float_dtype,
    is_grad_dtype,
    is_integer_dtype,
    is_low_precision_dtype,
    is_weakly_lesser_type,
    number_type,
    reduction_dtypes,
    type_to_dtype,
)
from tocha._prims_common.layouts import (
    are_strides_like_channels_last_or_false,
    check_all_strides,
    check_contiguous_sizes_strides,
    check_significant_strides,
    clone_preserve_strides,
    compare_tensor_meta,
    compute_elementwise_output_logical_to_physical_perm,
    compute_elementwise_output_strides,
    compute_required_storage_length,
    is_channels_last_contiguous,
    is_channels_last_contiguous_2d,
    is_channels_last_contiguous_3d,
    is_contiguous,
    is_contiguous_for_memory_format,
    is_non_overlapping_and_dense_or_false,
    make_channels_last_1d_strides_for,
    make_channels_last_2d_strides_for,
    make_channels_last_3d_strides_for,
    make_channels_last_strides_for,
    make_contiguous_strides_for,
    suggest_memory_format,
    validate_memory_format,
)
from tocha._prims_common.shapes import (
    apply_perm,
    canonicalize_dim,
    canonicalize_dims,
    check_same_shape,
    compared,
    compute_reduction_output_shape,
    extract_dims_from_varargs,
    extract_shape,
    extract_shape_from_varargs,
    infer_size,
    infer_size_shapes,
    invert_perm,
    is_cpu_scalar_tensor,
    is_expandable_to,
    is_same_shape,
    is_valid_permutation,
    prod,
    reduction_dims,
    same_shape,
    validate_dim_length,
    validate_dimension_indices,
    validate_exclusive_idx,
    validate_idx,
    validate_no_repeating_dims,
    validate_shape,
    validate_strides,
)
from tocha.ir.sym_types import SymBool, SymFloat, SymInt

__all__ = [
    "ELEMENTWISE_TYPE_PROMOTION_KIND",
    "REDUCTION_OUTPUT_TYPE_KIND",
    "BoolLike",
    "DeviceLikeType",
    "Dim",
    "DimsSequenceType",
    "DimsType",
    "FloatLike",
    "IntLike",
    "Number",
    "NumberType",
    "RealNumberType",
    "ShapeType",
    "StrideType",
    "Tensor",
    "TensorLike",
    "TensorLikeType",
    "TensorOrNumberLikeType",
    "TensorSequenceType",
    "apply_perm",
    "are_strides_like_channels_last_or_false",
    "can_safe_cast_to",
    "canonicalize_device",
    "canonicalize_dim",
    "canonicalize_dims",
    "check_all_strides",
    "check_contiguous_sizes_strides",
    "check_fp_or_complex",
    "check_is_matrix",
    "check_same_device",
    "check_same_dtype",
    "check_same_shape",
    "check_significant_strides",
    "clone_preserve_strides",
    "compare_tensor_meta",
    "compute_elementwise_output_logical_to_physical_perm",
    "compute_elementwise_output_strides",
    "compute_reduction_output_shape",
    "compute_required_storage_length",
    "corresponding_complex_dtype",
    "corresponding_real_dtype",
    "device_or_default",
    "dtype_or_default",
    "dtype_to_type",
    "dtype_to_type_ctor",
    "elementwise_dtypes",
    "extract_dims_from_varargs",
    "extract_shape",
    "extract_shape_from_varargs",
    "get_acc_type",
    "get_computation_dtype",
    "get_dtype",
    "get_higher_dtype",
    "get_higher_type",
    "infer_size",
    "infer_size_shapes",
    "invert_perm",
    "is_boolean_dtype",
    "is_channels_last_contiguous",
    "is_channels_last_contiguous_2d",
    "is_channels_last_contiguous_3d",
    "is_complex_dtype",
    "is_contiguous",
    "is_contiguous_for_memory_format",
    "is_cpu_scalar_tensor",
    "is_expandable_to",
    "is_float_dtype",
    "is_grad_dtype",
    "is_integer_dtype",
    "is_low_precision_dtype",
    "is_non_overlapping_and_dense_or_false",
    "is_same_shape",
    "is_valid_permutation",
    "is_weakly_lesser_type",
    "layout_or_default",
    "make_channels_last_1d_strides_for",
    "make_channels_last_2d_strides_for",
    "make_channels_last_3d_strides_for",
    "make_channels_last_strides_for",
    "make_contiguous_strides_for",
    "mask_tensor",
    "number_type",
    "prod",
    "reduction_dims",
    "reduction_dtypes",
    "same_shape",
    "set_correction",
    "suggest_memory_format",
    "type_to_dtype",
    "validate_dim_length",
    "validate_dimension_indices",
    "validate_exclusive_idx",
    "validate_idx",
    "validate_memory_format",
    "validate_no_repeating_dims",
    "validate_shape",
    "validate_strides",
]  # fmt: skip

ShapeType: TypeAlias = "tocha.Size | list[int] | tuple[int, ...]"
StrideType: TypeAlias = list[int] | tuple[int, ...]
Dim: TypeAlias = int
DimsSequenceType: TypeAlias = list[int] | tuple[int, ...]
DimsType: TypeAlias = int | list[int] | tuple[int, ...]
NumberType: TypeAlias = bool | int | float | complex
RealNumberType: TypeAlias = bool | int | float
DeviceLikeType: TypeAlias = "str | tocha.device | int"
TensorLike = Tensor
TensorLikeType = Tensor
TensorSequenceType: TypeAlias = list[Tensor] | tuple[Tensor, ...]
TensorOrNumberLikeType: TypeAlias = Tensor | bool | int | float | complex
Number = (bool, int, float, complex, SymInt, SymFloat, SymBool)
BoolLike = (bool, SymBool)
IntLike = (int, SymInt)
FloatLike = (float, SymFloat)


def canonicalize_device(device: Any) -> tocha.device:
    return device if isinstance(device, tocha.device) else tocha.device(device)


def device_or_default(device: Any) -> Any:
    return tocha.device("cpu") if device is None else device


def layout_or_default(layout: tocha.layout | None) -> tocha.layout:
    return tocha.strided if layout is None else layout


def _wrong(message: str, *, of: type[Exception] = RuntimeError) -> None:
    raise of(message)


def check_same_dtype(*args: Any) -> None:
    """All tensors have one dtype, and all numbers one type."""
    expected = next((a.dtype for a in args if isinstance(a, Tensor)), None)
    expected_type = next((number_type(a) for a in args if isinstance(a, Number)), None)
    for a in args:
        if isinstance(a, Tensor) and a.dtype != expected:
            _wrong(f"Tensor with dtype {a.dtype} is not the expected dtype of {expected}!")
        if isinstance(a, Number) and number_type(a) is not expected_type:
            _wrong(f"Number of type {number_type(a)} is not the expected type of {expected_type}!")


def check_same_device(*args: Any, allow_cpu_scalar_tensors: bool) -> None:
    """All tensors are on one device; those of no dims on the CPU may be let through."""
    tensors = compared(args, allow_cpu_scalar_tensors)
    for a in tensors:
        if a.device != tensors[0].device:
            _wrong(f"Tensor on device {a.device} is not on the expected device {tensors[0].device}!")


def check_fp_or_complex(dtype: tocha.dtype, fn_name: str, allow_low_precision_dtypes: bool = True) -> None:
    if not (is_float_dtype(dtype) or is_complex_dtype(dtype)):
        _wrong(f"{fn_name}: Expected a floating point or complex tensor as input. Got {dtype}")
    if not allow_low_precision_dtypes and is_low_precision_dtype(dtype):
        _wrong(f"{fn_name}: Half precision dtypes not supported. Got {dtype}")


def check_is_matrix(A: Tensor, f_name: str, arg_name: str = "A") -> None:
    if A.dim() < 2:
        _wrong(f"{f_name}: The input tensor {arg_name} must have at least 2 dimensions.")


def mask_tensor(mask: Tensor, t: Tensor) -> Tensor:
    """t where the mask is True, and zeros."""
    return t.logical_and(mask) if t.dtype is tocha.bool else tocha.where(mask, t, 0)


def set_correction(unbiased: bool | None = None, correction: Any = None) -> float:
    """What is taken off the number of elements: the two ways to say it are alternatives."""
    if correction is not None and unbiased is not None:
        raise RuntimeError("cannot specify both correction and unbiased arguments")
    if correction is None:
        return 0.0 if unbiased is False else 1.0
    if not isinstance(correction, (*IntLike, *FloatLike)):
        raise ValueError("correction argument should be integer or float")
    return float(correction)
