"""Rprop: steps by the gradient's sign alone."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha.optim._update import advanced, apply, real_views
from tocha.optim.optimizer import (
    GroupOptimizer,
    ParamsT,
    check_capturable,
    check_lr,
    check_not_negative,
    step_counter,
    zeros_like,
)

__all__ = ["Rprop", "rprop"]

Tensor = _C.Tensor


class Rprop(GroupOptimizer):
    """Steps by sign, each element with a length of its own: longer while the sign stays, shorter when it turns.

    >>> w = tocha.nn.Parameter(tocha.tensor([1.0, -2.0]))
    >>> opt = tocha.optim.Rprop([w], lr=0.1)
    >>> (w**2).sum().backward()
    >>> opt.step()
    >>> w.detach()
    tensor([ 0.9000, -1.9000])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check_not_negative(lr=lr)  # type: ignore[arg-type]
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("prev", "step_size", "step")

    def _new_state(self, group: dict[str, Any], p: Tensor) -> dict[str, Any]:
        lr = float(group["lr"])
        size = _C.full_like(p, complex(lr, lr) if p.is_complex() else lr, memory_format=_C.preserve_format)
        return {"step": step_counter(), "prev": zeros_like(p), "step_size": size}

    def _update(self, group: dict[str, Any], has_complex: bool, *tensors: Any) -> None:
        rprop(*tensors, **self._options(group, "lr", has_complex=has_complex))


def rprop(
    params: list[Tensor],
    grads: list[Tensor],
    prevs: list[Tensor],
    step_sizes: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """One step of Rprop on lists of parameters, gradients and states, in place."""
    check_capturable(capturable, params)
    numbers = {
        "sign": -1.0 if maximize else 1.0,
        "etaminus": etaminus,
        "etaplus": etaplus,
        "step_size_min": step_size_min,
        "step_size_max": step_size_max,
    }
    for _, part in advanced(state_steps, real_views([params, prevs, step_sizes, grads], has_complex)):
        apply("rprop", part, differentiable, **numbers)
