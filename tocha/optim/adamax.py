"""Adamax: Adam measured by the greatest gradient of late."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha.optim._update import advanced, apply, number, real_views
from tocha.optim.optimizer import (
    GroupOptimizer,
    ParamsT,
    check_betas,
    check_capturable,
    check_lr,
    check_not_negative,
    step_counter,
    zeros_like,
)

__all__ = ["Adamax", "adamax"]

Tensor = _C.Tensor


class Adamax(GroupOptimizer):
    """Steps along an average of gradients, measured by their decaying maximum.

    >>> w = tocha.nn.Parameter(tocha.tensor([1.0, -2.0]))
    >>> opt = tocha.optim.Adamax([w], lr=0.1)
    >>> (w**2).sum().backward()
    >>> opt.step()
    >>> w.detach()
    tensor([ 0.9000, -1.9000])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check_not_negative(lr=lr, eps=eps)  # type: ignore[arg-type]
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_inf", "step")

    def _new_state(self, group: dict[str, Any], p: Tensor) -> dict[str, Any]:
        return {"step": step_counter(), "exp_avg": zeros_like(p), "exp_inf": zeros_like(p)}

    def _update(self, group: dict[str, Any], has_complex: bool, *tensors: Any) -> None:
        adamax(*tensors, **self._options(group, has_complex=has_complex))


def adamax(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_infs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
) -> None:
    """One step of Adamax on lists of parameters, gradients and states, in place."""
    check_capturable(capturable, params)
    lr = number(lr, differentiable)
    numbers = {
        "sign": -1.0 if maximize else 1.0,
        "weight_decay": weight_decay,
        "weight1": 1 - beta1,
        "beta2": beta2,
        "eps": eps,
    }
    for step, part in advanced(state_steps, real_views([params, exp_avgs, exp_infs, grads], has_complex)):
        apply("adamax", part, differentiable, **numbers, step_size=lr / (1 - beta1**step))
