"""How tensors lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tocha
from tocha import Tensor
from tocha._prims_common.shapes import is_cpu_scalar_tensor, is_same_shape, prod, same_shape, validate_shape
from tocha._subclasses.errors import MetadataMismatchError
from tocha.ir import layout

_FORMATS = {tocha.contiguous_format, tocha.preserve_format, tocha.channels_last, tocha.channels_last_3d}


def _strides_in(order: Sequence[int], shape: Sequence[Any], least: int = 1) -> tuple[Any, ...]:
    """Strides where the dims of `order` lie one in another, the first outermost."""
    strides: list[Any] = [0] * len(shape)
    step: Any = 1
    for d in reversed(order):
        strides[d] = step
        step = step * (max(shape[d], least) if isinstance(shape[d], int) else shape[d])
    return tuple(strides)


def make_contiguous_strides_for(shape: Sequence[Any], row_major: bool = True) -> tuple[Any, ...]:
    """Strides of a tensor without gaps, row by row (or column by column in its last two dims).

    >>> make_contiguous_strides_for((2, 3, 4), row_major=False)
    (12, 1, 3)
    """
    validate_shape(shape)
    order = list(range(len(shape)))
    if not row_major and len(order) > 1:
        order[-2:] = order[:-3:-1]
    return _strides_in(order, shape)


def _channels_last(shape: Sequence[Any], rank: int, name: str) -> tuple[Any, ...]:
    if len(shape) != rank:
        raise RuntimeError(f"Only tensors of rank {rank} can use the {name} memory format")
    return _strides_in([0, *range(2, rank), 1], shape, least=0)


def make_channels_last_1d_strides_for(shape: Sequence[Any]) -> tuple[Any, ...]:
    return _channels_last(shape, 3, "channels_last_1d")


def make_channels_last_2d_strides_for(shape: Sequence[Any]) -> tuple[Any, ...]:
    return _channels_last(shape, 4, "channels_last")


def make_channels_last_3d_strides_for(shape: Sequence[Any]) -> tuple[Any, ...]:
    return _channels_last(shape, 5, "channels_last_3d")


def make_channels_last_strides_for(shape: Sequence[Any]) -> tuple[Any, ...]:
    if not 3 <= len(shape) <= 5:
        raise RuntimeError(f"no channels last format strides exist in {len(shape)} dimensions")
    return _strides_in([0, *range(2, len(shape)), 1], shape, least=0)


def compute_required_storage_length(shape: Sequence[Any], strides: Sequence[Any], storage_offset: Any) -> Any:
    """How many elements a storage must have for such a view.

    >>> compute_required_storage_length((2, 3), (3, 1), 4)
    10
    """
    if prod(shape) == 0:
        return 0
    return 1 + storage_offset + sum((n - 1) * s for n, s in zip(shape, strides))


def check_contiguous_sizes_strides(sizes: Sequence[Any], strides: Sequence[Any], false_if_dde: bool = False) -> bool:
    """Are these the strides of a contiguous tensor? Those of dims of one element say nothing."""
    if prod(sizes) == 0:
        return True
    return all(n == 1 or s == w for n, s, w in zip(sizes, strides, make_contiguous_strides_for(sizes)))


def are_strides_like_channels_last_or_false(shape: Sequence[Any], strides: Sequence[Any]) -> bool:
    return layout.suggested_format(shape, strides).name in ("channels_last", "channels_last_3d")


def is_contiguous(a: Tensor, false_if_dde: bool = False) -> bool:
    return a.is_contiguous()


def is_channels_last_contiguous_2d(a: Tensor, false_if_dde: bool = False) -> bool:
    return a.dim() == 4 and a.is_contiguous(memory_format=tocha.channels_last)


def is_channels_last_contiguous_3d(a: Tensor, false_if_dde: bool = False) -> bool:
    return a.dim() == 5 and a.is_contiguous(memory_format=tocha.channels_last_3d)


def is_channels_last_contiguous(a: Tensor) -> bool:
    return is_channels_last_contiguous_2d(a) or is_channels_last_contiguous_3d(a)


def validate_memory_format(memory_format: tocha.memory_format) -> None:
    if memory_format not in _FORMATS:
        raise RuntimeError(f"Received unknown memory format {memory_format}!")


def is_contiguous_for_memory_format(a: Tensor, *, memory_format: tocha.memory_format, false_if_dde: bool = False) -> bool:  # fmt: skip
    validate_memory_format(memory_format)
    if memory_format is tocha.channels_last:
        return is_channels_last_contiguous_2d(a)
    if memory_format is tocha.channels_last_3d:
        return is_channels_last_contiguous_3d(a)
    return a.is_contiguous()


def is_non_overlapping_and_dense_or_false(a: Tensor) -> bool:
    """Do elements fill their memory, each in a place of its own?"""
    return a.layout is tocha.strided and layout.is_dense(a.shape, a.stride())


def suggest_memory_format(x: Tensor) -> tocha.memory_format:
    """How a result that lies as x does would be made."""
    if x.layout is not tocha.strided:
        return tocha.contiguous_format
    return getattr(tocha, layout.suggested_format(x.shape, x.stride()).name)


def clone_preserve_strides(x: Tensor) -> Tensor:
    """A copy of the same strides, which overlaps itself where x does."""
    needed = compute_required_storage_length(x.shape, x.stride(), 0)
    return x.as_strided((needed,), (1,), x.storage_offset()).clone().as_strided(x.shape, x.stride(), 0)


def _strided(tensors: tuple[Any, ...]) -> list[Tensor]:
    """Those that have a say in how a result lies: numbers and tensors of no dims have none."""
    if not tensors:
        raise ValueError("Can't compute elementwise output strides for zero tensors!")
    asked = [t for t in tensors if isinstance(t, Tensor) and not is_cpu_scalar_tensor(t)]
    for t in asked:
        if not is_same_shape(t.shape, asked[0].shape):
            raise RuntimeError(f"Shape {t.shape} is not the expected shape {asked[0].shape}!")
    return asked


def compute_elementwise_output_strides(*tensors: Any) -> tuple[Any, ...]:
    """The strides of what an elementwise operator makes of these.

    >>> compute_elementwise_output_strides(tocha.ones(2, 3).t())
    (1, 3)
    """
    asked = _strided(tensors)
    return tuple(layout.result_strides(asked[0].shape, [(t.shape, t.stride()) for t in asked])) if asked else ()


def compute_elementwise_output_logical_to_physical_perm(
    *tensors: Any, _skip_checks: bool = False, ambiguity_check: bool = False
) -> tuple[list[int], bool]:
    """The dims of such a result from the outermost in memory to the innermost, and False: their order is not ambiguous."""
    strides = compute_elementwise_output_strides(*tensors)
    return sorted(range(len(strides)), key=lambda d: -strides[d]), False


def _first_difference(a: Tensor, b: Tensor, dims: Sequence[int]) -> tuple[bool, int | None]:
    found = next((d for d in dims if a.stride(d) != b.stride(d)), None)
    return found is None, found


def check_all_strides(a: Tensor, b: Tensor, *, only_cuda: bool = True) -> tuple[bool, int | None]:
    """Are all strides equal, and which is the first that is not? `only_cuda` looks at tensors on CUDA alone."""
    if only_cuda and "cuda" not in (a.device.type, b.device.type):
        return True, None
    return _first_difference(a, b, range(a.dim()))


def check_significant_strides(
    a: Tensor, b: Tensor, *, only_cuda: bool = True, allow_rhs_unbacked: bool = False
) -> tuple[bool, int | None]:
    """The same of strides that say something: not those of dims of one element, nor of tensors of none."""
    if (only_cuda and "cuda" not in (a.device.type, b.device.type)) or not a.numel():
        return True, None
    return _first_difference(a, b, [d for d in range(a.dim()) if a.size(d) > 1])


def compare_tensor_meta(
    a: Tensor, b: Tensor, check_sizes: bool = True, check_strides: bool = False, *, allow_rhs_unbacked: bool = False,
    check_conj: bool = True,
) -> None:  # fmt: skip
    """Two tensors are alike but for their elements, or else MetadataMismatchError says in what they differ."""
    if check_sizes and not same_shape(a.shape, b.shape, allow_rhs_unbacked=allow_rhs_unbacked):
        raise MetadataMismatchError(f"Shapes {a.shape} and {b.shape} are not equal!")
    if a.dtype != b.dtype:
        raise MetadataMismatchError(f"Dtypes {a.dtype} and {b.dtype} are not equal!")
    if a.device != b.device:
        raise MetadataMismatchError(f"Devices {a.device} and {b.device} are not equal!")
    if check_strides:
        alike, at = check_significant_strides(a, b, only_cuda=False)
        if not alike:
            raise MetadataMismatchError(f"Stride mismatch! Strides are {a.stride()} and {b.stride()} (mismatched at {at})!")  # fmt: skip
        if a.storage_offset() != b.storage_offset():
            raise MetadataMismatchError(f"Storage offset mismatch! Storage offsets are {a.storage_offset()} and {b.storage_offset()}!")  # fmt: skip
    if check_conj and a.is_conj() != b.is_conj():
        raise MetadataMismatchError(f"Conj mismatch! is_conj is set to {a.is_conj()} and {b.is_conj()}")
