"""What distributions share: broadcasting of parameters, probabilities and log odds, values made when asked for, triangles as vectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import tocha
from tocha import _C, Size, Tensor
from tocha.overrides import is_tensor_like

euler_constant = 0.57721566490153286060
# Their names come from the native tables, so type checkers do not know them.
linalg: Any = tocha.linalg
special: Any = tocha.special

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors and numbers in one shape; numbers take the dtype and device of the first tensor, or the default ones.

    >>> broadcast_all(tocha.zeros(2), 1.5)
    (tensor([0., 0.]), tensor([1.5000, 1.5000]))
    """
    first = None
    for value in values:
        if is_tensor_like(value):
            first = value if first is None else first
        elif not isinstance(value, (int, float)):
            raise ValueError(
                "[broadcast_all] Input arguments must all be instances of Number, torch.Tensor or objects "
                f"implementing __torch_function__.: got {type(value).__name__}"
            )
    if first is None:
        dtype = tocha.get_default_dtype()
        return tuple(tocha.tensor(value, dtype=dtype) for value in values)
    if not all(is_tensor_like(value) for value in values):
        dtype, device = (first.dtype, first.device) if isinstance(first, Tensor) else (tocha.get_default_dtype(), None)
        values = tuple(
            value if is_tensor_like(value) else tocha.tensor(value, dtype=dtype, device=device) for value in values
        )
    return tuple(tocha.broadcast_tensors(*values))


def _all_hold(checked: Any) -> bool:
    """Whether a check holds for all elements: under vmap for those of all examples, as a distribution is refused for any of them."""
    while (level := _C._level_of(checked)) is not None:
        checked = level[1]
    return bool(checked.all())


def _size(shape: Any) -> Size:
    return shape if isinstance(shape, Size) else Size(shape)


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    return tocha.empty(shape, dtype=dtype, device=device).normal_()


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last dim dims."""
    if dim == 0:
        return value
    return value.reshape(value.shape[:-dim] + (-1,)).sum(-1)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of log odds, or of (unnormalized) log probabilities along the last dim.

    >>> logits_to_probs(tocha.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """
    return tocha.sigmoid(logits) if is_binary else tocha.softmax(logits, -1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept away from 0 and 1 by the dtype's eps, so that their logarithms are finite."""
    eps = tocha.finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log odds of probabilities, or log probabilities along the last dim.

    >>> probs_to_logits(tocha.tensor(0.5), is_binary=True)
    tensor(0.)
    """
    inside = clamp_probs(probs)
    return tocha.log(inside) - tocha.log1p(-inside) if is_binary else tocha.log(inside)


class lazy_property:
    """A property computed when first asked for (with gradients on) and kept as an attribute of the instance."""

    def __init__(self, wrapped: Callable) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return _documented_property(self.wrapped)
        with tocha.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _documented_property(lazy_property, property):
    """What a class answers for a lazy property: documentation tools read it as a property."""

    def __init__(self, wrapped: Callable) -> None:
        property.__init__(self, wrapped)


def _triangle(n: int, diag: int) -> int:
    """How many elements an n x n matrix has on and below its diag-th diagonal."""
    return sum(min(max(row + 1 + diag, 0), n) for row in range(n))


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """A lower triangular matrix whose elements, row by row, are the last dim of vec.

    >>> vec_to_tril_matrix(tocha.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    length, n = vec.shape[-1], max(0, -diag)
    while _triangle(n, diag) < length:
        n += 1
    if _triangle(n, diag) != length:
        raise ValueError(
            f"[vec_to_tril_matrix] The size of last dimension is {length} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix."
        )
    matrix = vec.new_zeros(vec.shape[:-1] + (n, n))
    inside = tocha.arange(n, device=vec.device) < tocha.arange(n, device=vec.device).view(n, 1) + (diag + 1)
    matrix[..., inside] = vec
    return matrix


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements of mat on and below its diag-th diagonal, row by row.

    >>> tril_matrix_to_vec(tocha.tensor([[1.0, 0.0], [2.0, 3.0]]))
    tensor([1., 2., 3.])
    """
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"[tril_matrix_to_vec] diag ({diag}) provided is outside [{-n}, {n - 1}].")
    positions = tocha.arange(n, device=mat.device)
    return mat[..., positions < positions.view(n, 1) + (diag + 1)]
