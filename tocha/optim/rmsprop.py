"""RMSprop: steps measured by recent gradients."""

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

__all__ = ["RMSprop", "rmsprop"]

Tensor = _C.Tensor


class RMSprop(GroupOptimizer):
    """Steps along the gradient, measured element by element by recent squares; `centered` takes their mean out.

    >>> w = tocha.nn.Parameter(tocha.tensor([1.0, -2.0]))
    >>> opt = tocha.optim.RMSprop([w], lr=0.01)
    >>> (w**2).sum().backward()
    >>> opt.step()
    >>> w.detach()
    tensor([ 0.9000, -1.9000])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check_not_negative(
            lr=lr,  # type: ignore[arg-type]
            eps=eps,
            momentum=momentum,
            weight_decay=weight_decay,
            alpha=alpha,
        )
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        momentum = ("momentum_buffer",) if group["momentum"] > 0 else ()
        centered = ("grad_avg",) if group["centered"] else ()
        return ("step", "square_avg", *centered, *momentum)

    def _new_state(self, group: dict[str, Any], p: Tensor) -> dict[str, Any]:
        names = ["square_avg"]
        names += ["momentum_buffer"] * (group["momentum"] > 0) + ["grad_avg"] * bool(group["centered"])
        return {"step": step_counter(), **{name: zeros_like(p) for name in names}}

    def _update(self, group: dict[str, Any], has_complex: bool, *tensors: Any) -> None:
        params, grads, steps, square_avgs, *rest = tensors
        grad_avgs = rest.pop(0) if group["centered"] else []
        options = self._options(group, has_complex=has_complex)
        rmsprop(params, grads, square_avgs, grad_avgs, rest[0] if rest else [], steps, **options)


def rmsprop(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    grad_avgs: list[Tensor],
    momentum_buffer_list: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
) -> None:
    """One step of RMSprop on lists of parameters, gradients and states, in place."""
    check_capturable(capturable, params)
    numbers = {
        "sign": -1.0 if maximize else 1.0,
        "weight_decay": weight_decay,
        "lr": number(lr, differentiable),
        "alpha": alpha,
        "weight": 1 - alpha,
        "eps": eps,
    }
    formula, lists = "rmsprop", [params, square_avgs]
    if centered:
        formula += "_centered"
        lists.append(grad_avgs)
    if momentum > 0:
        formula += "_momentum"
        lists.append(momentum_buffer_list)
        numbers["momentum"] = momentum
    for _, part in advanced(state_steps, real_views([*lists, grads], has_complex)):
        apply(formula, part, differentiable, **numbers)
