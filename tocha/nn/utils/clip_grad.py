"""Keeping gradients small: by their common norm, or each value for itself."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterable
from typing import Any

from tocha import _C
from tocha.autograd.grad_mode import no_grad

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]

Tensor = _C.Tensor


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    empty_generator = isinstance(parameters, types.GeneratorType)
    grads = []
    for p in parameters:
        empty_generator = False
        if p.grad is not None:
            grads.append(p.grad)
    if empty_generator:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=4)
    return grads


@no_grad()
def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors taken as one long vector.

    foreach is accepted for programs that give it; there is one way here.

    >>> import tocha
    >>> get_total_norm([tocha.tensor([3.0]), tocha.tensor([4.0])])
    tensor(5.)
    """
    parts = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    order = float(norm_type)
    if not parts:
        return _C.tensor(0.0)
    vector_norm = _C._linalg.vector_norm
    norms = [vector_norm(t, order) for t in parts]
    where = parts[0].device
    total = vector_norm(_C.stack([n.to(where) for n in norms]), order)
    if error_if_nonfinite and not total.isfinite():
        raise RuntimeError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite, so it cannot be clipped. To "
            "disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scales the gradients of parameters as if their norm were total_norm and should be max_norm at most.

    >>> p = tocha.nn.Parameter(tocha.zeros(2))
    >>> p.grad = tocha.tensor([3.0, 4.0])
    >>> tocha.nn.utils.clip_grads_with_norm_([p], 1.0, tocha.nn.utils.get_total_norm([p.grad]))
    >>> p.grad
    tensor([0.6000, 0.8000])
    """
    _scale(_gradients(parameters), float(max_norm), total_norm)


def _scale(grads: list[Tensor], max_norm: float, total_norm: Tensor) -> None:
    # A factor of 1 is multiplied in as well: to ask whether it is 1 would wait for the device.
    factor = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
    for g in grads:
        g.mul_(factor.to(g.device))


@no_grad()
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales gradients in place so that their common norm is max_norm at most; returns what it was.

    >>> import tocha
    >>> p = tocha.nn.Parameter(tocha.zeros(2))
    >>> p.grad = tocha.tensor([3.0, 4.0])
    >>> clip_grad_norm_(p, max_norm=1.0)
    tensor(5.)
    >>> p.grad
    tensor([0.6000, 0.8000])
    """
    grads = _gradients(parameters)
    total = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    _scale(grads, float(max_norm), total)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The old name of clip_grad_norm_; deprecated.

    >>> p = tocha.nn.Parameter(tocha.zeros(2))
    >>> p.grad = tocha.tensor([3.0, 4.0])
    >>> tocha.nn.utils.clip_grad_norm([p], 1.0)
    tensor(5.)
    >>> p.grad
    tensor([0.6000, 0.8000])
    """
    warnings.warn(
        "`tocha.nn.utils.clip_grad_norm` is now deprecated in favor of `tocha.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: Any, foreach: bool | None = None) -> None:
    """Puts every value of the gradients within [-clip_value, clip_value], in place.

    >>> import tocha
    >>> p = tocha.nn.Parameter(tocha.zeros(2))
    >>> p.grad = tocha.tensor([3.0, -0.5])
    >>> clip_grad_value_(p, 1.0)
    >>> p.grad
    tensor([ 1.0000, -0.5000])
    """
    bound = float(clip_value)
    for g in _gradients(parameters):
        g.clamp_min_(-bound).clamp_max_(bound)  # quicker than clamp_ with both
