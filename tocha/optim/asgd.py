"""ASGD: stochastic gradient descent that keeps the average of where it went."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha.optim._update import apply, number, real_views, subsets
from tocha.optim.optimizer import (
    GroupOptimizer,
    ParamsT,
    check_capturable,
    check_lr,
    check_not_negative,
    step_counter,
    zeros_like,
)

__all__ = ["ASGD", "asgd"]

Tensor = _C.Tensor


class ASGD(GroupOptimizer):
    """Steps against the gradient with a falling rate; from step t0 on, the state `ax` is the average of the parameters.

    >>> w = tocha.nn.Parameter(tocha.tensor([1.0, -2.0]))
    >>> opt = tocha.optim.ASGD([w], lr=0.1)
    >>> (w**2).sum().backward()
    >>> opt.step()
    >>> w.detach()
    tensor([ 0.8000, -1.6000])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check_not_negative(lr=lr, weight_decay=weight_decay)  # type: ignore[arg-type]
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for own in self.state.values():
            for name in ("eta", "mu"):
                if isinstance(own, dict) and name in own and not isinstance(own[name], Tensor):
                    own[name] = step_counter(own[name])

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("ax", "mu", "eta", "step")

    def _new_state(self, group: dict[str, Any], p: Tensor) -> dict[str, Any]:
        rate = step_counter(float(group["lr"]))
        return {"step": step_counter(), "eta": rate, "mu": step_counter(1.0), "ax": zeros_like(p)}

    def _update(self, group: dict[str, Any], has_complex: bool, *tensors: Any) -> None:
        asgd(*tensors, **self._options(group, has_complex=has_complex))


def asgd(
    params: list[Tensor],
    grads: list[Tensor],
    axs: list[Tensor],
    mus: list[Tensor],
    etas: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lambd: float,
    lr: float,
    t0: float,
    alpha: float,
    weight_decay: float,
) -> None:
    """One step of ASGD on lists of parameters, gradients and states, in place."""
    check_capturable(capturable, params, "params, mus, etas, and state_steps")
    rate = number(lr)
    numbers = {"sign": -1.0 if maximize else 1.0, "weight_decay": weight_decay}
    keys = _together(_C._advance(state_steps), _C._values(etas), _C._values(mus), count=len(params))
    lists = [*real_views([params, axs, grads], has_complex), etas, mus]
    for (step, eta, mu), (*part, own_etas, own_mus) in subsets(keys, lists):
        apply("asgd", part, differentiable, **numbers, eta=eta, shrink=1 - lambd * eta, mu=mu)
        next_eta, next_mu = rate / (1 + lambd * rate * step) ** alpha, 1 / max(1, step - t0)
        for counters, value in ((own_etas, next_eta), (own_mus, next_mu)):
            for counter in counters:
                counter.fill_(value)


def _together(*values: Any, count: int) -> Any:
    """Values that are one for all, or a list, as one key for all, or a list of keys."""
    if not any(isinstance(v, list) for v in values):
        return values
    return list(zip(*(v if isinstance(v, list) else [v] * count for v in values), strict=True))
