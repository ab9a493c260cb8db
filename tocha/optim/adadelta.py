"""Adadelta: steps as long as recent steps were, in the measure of recent gradients."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha.optim._update import advanced, apply, number, real_views
from tocha.optim.optimizer import (
    GroupOptimizer,
    ParamsT,
    check_capturable,
    check_lr,
    check_not_negative,
    step_counter,
    zeros_like,
)

__all__ = ["Adadelta", "adadelta"]

Tensor = _C.Tensor


class Adadelta(GroupOptimizer):
    """Steps whose length follows from those before, so that the learning rate has no unit to get wrong.

    >>> w = tocha.nn.Parameter(tocha.tensor([1.0, -2.0]))
    >>> opt = tocha.optim.Adadelta([w], lr=1.0)
    >>> (w**2).sum().backward()
    >>> opt.step()
    >>> w.detach()
    tensor([ 0.9968, -1.9968])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check_not_negative(lr=lr)  # type: ignore[arg-type]
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_not_negative(eps=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("square_avg", "acc_delta", "step")

    def _new_state(self, group: dict[str, Any], p: Tensor) -> dict[str, Any]:
        return {"step": step_counter(), "square_avg": zeros_like(p), "acc_delta": zeros_like(p)}

    def _update(self, group: dict[str, Any], has_complex: bool, *tensors: Any) -> None:
        adadelta(*tensors, **self._options(group, has_complex=has_complex))


def adadelta(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    acc_deltas: list[Tensor],
    state_steps: list[Tensor],
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """One step of Adadelta on lists of parameters, gradients and states, in place."""
    check_capturable(capturable, params, devices=["cuda", "xpu", "hpu", "privateuseone"])
    numbers = {
        "sign": -1.0 if maximize else 1.0,
        "weight_decay": weight_decay,
        "lr": number(lr, differentiable),
        "rho": rho,
        "weight": 1 - rho,
        "eps": eps,
    }
    for _, part in advanced(state_steps, real_views([params, square_avgs, acc_deltas, grads], has_complex)):
        apply("adadelta", part, differentiable, **numbers)
