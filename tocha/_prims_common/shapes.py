"""Shapes and dims: what is in range, and what follows from what."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import tocha
from tocha import Tensor
from tocha.ir.sym_types import SymInt


def prod(xs: Sequence[Any]) -> Any:
    return functools.reduce(operator.mul, xs, 1)


def validate_dim_length(length: Any) -> None:
    check: Any = tocha._check
    check(length >= 0)


def validate_shape(shape: Any) -> None:
    if not isinstance(shape, Sequence):
        raise AssertionError(f"shape must be a Sequence, got {type(shape)}")
    for length in shape:
        validate_dim_length(length)


def validate_strides(strides: Any) -> None:
    if not isinstance(strides, Sequence):
        raise AssertionError(f"strides must be a Sequence, got {type(strides)}")
    for stride in strides:
        if stride < 0:
            raise AssertionError(f"stride must be non-negative, got {stride}")


def validate_idx(rank: int, idx: int) -> None:
    """A dim of so many, where no dims have one."""
    if not (0 <= idx < rank or idx == 0):
        raise AssertionError(f"idx {idx} is out of bounds for rank {rank}")


def validate_dimension_indices(rank: int, indices: Sequence[int]) -> None:
    for idx in indices:
        validate_idx(rank, idx)


def validate_exclusive_idx(rank: int, ex_idx: int) -> None:
    """An end of a range of dims."""
    if not 0 < ex_idx <= rank:
        raise AssertionError(f"ex_idx {ex_idx} is out of bounds for rank {rank} (must be in (0, rank])")


def validate_no_repeating_dims(dims: Sequence[int]) -> None:
    if len(dims) != len(set(dims)):
        raise RuntimeError("duplicate value in the list of dims")


def canonicalize_dim(rank: int, idx: int, wrap_scalar: bool = True) -> int:
    """A dim counted from the front.

    >>> canonicalize_dim(3, -1)
    2
    """
    if rank < 0:
        raise IndexError(f"Rank cannot be negative but got {rank}")
    if rank == 0:
        if not wrap_scalar:
            raise IndexError(f"Dimension specified as {idx} but tensor has no dimensions")
        rank = 1
    if not -rank <= idx < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {idx})")
    return idx + rank if idx < 0 else idx


def canonicalize_dims(rank: int, indices: Any, wrap_scalar: bool = True) -> Any:
    if isinstance(indices, int):
        return canonicalize_dim(rank, indices, wrap_scalar)
    return tuple(canonicalize_dim(rank, idx, wrap_scalar) for idx in indices)


def is_valid_permutation(rank: int, perm: Any) -> bool:
    return isinstance(perm, Sequence) and sorted(perm) == list(range(rank))


def apply_perm(inp: Sequence[Any], perm: Sequence[int]) -> list[Any]:
    return [inp[p] for p in perm]


def invert_perm(perm: Sequence[int]) -> list[int]:
    return sorted(range(len(perm)), key=perm.__getitem__)


def is_same_shape(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return tuple(a) == tuple(b)


def same_shape(a: Sequence[Any], b: Sequence[Any], *, allow_rhs_unbacked: bool = False) -> bool:
    """Sizes from data on the right may be taken to fit."""
    if len(a) != len(b):
        return False
    return all((allow_rhs_unbacked and isinstance(y, SymInt)) or x == y for x, y in zip(a, b))


def is_cpu_scalar_tensor(a: object) -> bool:
    return isinstance(a, Tensor) and a.dim() == 0 and a.device.type == "cpu"


def compared(args: Sequence[Any], allow_cpu_scalar_tensors: bool) -> list[Tensor]:
    """The tensors that must be alike; those of no dims on the CPU may be let through."""
    return [a for a in args if isinstance(a, Tensor) and not (allow_cpu_scalar_tensors and is_cpu_scalar_tensor(a))]


def check_same_shape(*args: Any, allow_cpu_scalar_tensors: bool) -> None:
    """All tensors have one shape; those of no dims on the CPU may be let through."""
    tensors = compared(args, allow_cpu_scalar_tensors)
    for a in tensors:
        if not is_same_shape(a.shape, tensors[0].shape):
            raise RuntimeError(f"Shape {a.shape} is not the expected shape {tensors[0].shape}!")


def extract_shape(*args: Any, allow_cpu_scalar_tensors: bool) -> Any:
    """The one shape that tensors have; None where there are several, or no tensors."""
    of_scalar, found = None, None
    for a in args:
        if not isinstance(a, Tensor):
            continue
        if allow_cpu_scalar_tensors and is_cpu_scalar_tensor(a):
            of_scalar = a.shape
            continue
        found = a.shape if found is None else found
        if not is_same_shape(found, a.shape):
            return None
    return of_scalar if found is None else found


def extract_dims_from_varargs(dims: Any) -> Any:
    """Dims that were given one by one, or as one sequence."""
    return dims[0] if dims and isinstance(dims[0], Sequence) else dims


def extract_shape_from_varargs(shape: Any, validate: bool = True) -> tuple[Any, ...]:
    """Sizes that were given one by one, or as one sequence."""
    if len(shape) == 1 and isinstance(shape[0], Sequence):
        shape = shape[0]
    if validate:
        validate_shape(shape)
    return shape


def infer_size(shape: Sequence[Any], numel: Any) -> tuple[Any, ...]:
    """Sizes of which one may be -1, for so many elements.

    >>> infer_size((2, -1), 6)
    (2, 3)
    """
    unknown = [i for i, n in enumerate(shape) if n == -1]
    if len(unknown) > 1:
        raise RuntimeError("only one dimension can be inferred")
    for n in shape:
        if n < -1:
            raise RuntimeError(f"invalid shape dimension {n}. If this was symbolic, it was assumed to not be -1.If this was meant to be inferred, please explicitly pass in -1.")  # fmt: skip
    known = prod([n for n in shape if n != -1])
    if unknown and numel == 0 and known == 0:
        raise RuntimeError(f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension size -1 can be any value and is ambiguous")  # fmt: skip
    fits = known != 0 and numel % known == 0 if unknown else known == numel
    if not fits:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    return tuple(numel // known if n == -1 else n for n in shape)


def infer_size_shapes(a: Sequence[Any], b: Sequence[Any]) -> tuple[Any, ...]:
    """What two shapes are broadcast to."""
    found = []
    rank = max(len(a), len(b))
    for i, (x, y) in enumerate(zip([1] * (rank - len(a)) + [*a], [1] * (rank - len(b)) + [*b])):
        if x != y and x != 1 and y != 1:
            raise RuntimeError(f"The size of tensor a ({x}) must match the size of tensor b ({y}) at non-jagged dimension {i}")  # fmt: skip
        found.append(y if x == 1 else x)
    return tuple(found)


def is_expandable_to(shape: Sequence[Any], desired: Sequence[Any]) -> bool:
    if len(shape) > len(desired):
        return False
    return all(n in (1, d) for n, d in zip(reversed(shape), reversed(desired)))


def reduction_dims(shape: Sequence[Any], dims: Sequence[int] | None) -> tuple[int, ...]:
    """The dims that are reduced, counted from the front: all where none are named."""
    if dims is None:
        return tuple(range(len(shape)))
    found = tuple(canonicalize_dim(len(shape), d) for d in dims)
    validate_no_repeating_dims(found)
    return found


def compute_reduction_output_shape(shape: Sequence[Any], dimensions: Sequence[int]) -> tuple[Any, ...]:
    validate_dimension_indices(len(shape), dimensions)
    return tuple(n for i, n in enumerate(shape) if i not in dimensions)
