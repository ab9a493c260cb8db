"""NAdam: Adam with Nesterov momentum."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha.optim._update import advanced, apply, number, real_views, subsets
from tocha.optim.adam import MomentOptimizer, moment_numbers
from tocha.optim.optimizer import (
    ParamsT,
    check_betas,
    check_capturable,
    check_lr,
    check_not_negative,
    step_counter,
)

__all__ = ["NAdam", "nadam"]

Tensor = _C.Tensor


class NAdam(MomentOptimizer):
    """Adam that looks ahead: its momentum counts as if the next gradient were like this one.

    >>> w = tocha.nn.Parameter(tocha.tensor([1.0, -2.0]))
    >>> opt = tocha.optim.NAdam([w], lr=0.1)
    >>> (w**2).sum().backward()
    >>> opt.step()
    >>> w.detach()
    tensor([ 0.8944, -1.8944])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check_not_negative(lr=lr, eps=eps)  # type: ignore[arg-type]
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay, momentum_decay=momentum_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for own in self.state.values():
            if isinstance(own, dict) and not isinstance(own.get("mu_product", None), Tensor | None):
                own["mu_product"] = step_counter(own["mu_product"])

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", "mu_product", "step")

    def _new_state(self, group: dict[str, Any], p: Tensor) -> dict[str, Any]:
        moments = super()._new_state(group, p)
        return {"step": moments.pop("step"), "mu_product": step_counter(1.0), **moments}

    def _update(self, group: dict[str, Any], has_complex: bool, *tensors: Any) -> None:
        nadam(*tensors, **self._options(group, has_complex=has_complex))


def nadam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    mu_products: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
    momentum_decay: float,
    eps: float,
) -> None:
    """One step of NAdam on lists of parameters, gradients and states, in place."""
    check_capturable(capturable, params, "params, mu_products and state_steps")
    lr = number(lr, differentiable)
    numbers = moment_numbers(lr, beta1, beta2, weight_decay, maximize, decoupled_weight_decay)
    lists = [*real_views([params, exp_avgs, exp_avg_sqs, grads], has_complex), mu_products]
    for step, (*same_step, products) in advanced(state_steps, lists):
        mu, mu_next = (beta1 * (1.0 - 0.5 * 0.96 ** (t * momentum_decay)) for t in (step, step + 1))
        _C._foreach_mul_(products, mu)
        for product, part in subsets(_C._values(products), same_step):
            apply(
                "nadam",
                part,
                differentiable,
                **numbers,
                grad_size=lr * (1 - mu) / (1 - product),
                avg_size=lr * mu_next / (1 - product * mu_next),
                bias2=1 - beta2**step,
                eps=eps,
            )
