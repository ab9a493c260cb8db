"""RAdam: Adam that waits until the variance of its measure is known."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha.optim._update import advanced, apply, number, real_views
from tocha.optim.adam import MomentOptimizer, moment_numbers
from tocha.optim.optimizer import ParamsT, check_betas, check_capturable, check_lr, check_not_negative

__all__ = ["RAdam", "radam"]

Tensor = _C.Tensor


class RAdam(MomentOptimizer):
    """Adam whose first steps are not measured: their magnitudes are not known well enough.

    >>> w = tocha.nn.Parameter(tocha.tensor([1.0, -2.0]))
    >>> opt = tocha.optim.RAdam([w], lr=0.1)
    >>> (w**2).sum().backward()
    >>> opt.step()
    >>> w.detach()
    tensor([ 0.8000, -1.6000])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
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
        check_not_negative(weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _update(self, group: dict[str, Any], has_complex: bool, *tensors: Any) -> None:
        radam(*tensors, **self._options(group, has_complex=has_complex))


def radam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
    eps: float,
) -> None:
    """One step of RAdam on lists of parameters, gradients and states, in place."""
    check_capturable(capturable, params)
    lr = number(lr, differentiable)
    numbers = moment_numbers(lr, beta1, beta2, weight_decay, maximize, decoupled_weight_decay)
    for step, part in advanced(state_steps, real_views([params, exp_avgs, exp_avg_sqs, grads], has_complex)):
        bias2 = 1 - beta2**step
        apply(
            "radam",
            part,
            differentiable,
            **numbers,
            lr=lr,
            bias1=1 - beta1**step,
            bias2_sqrt=bias2**0.5,
            rect=_rectification(step, beta2, bias2),
            eps=eps,
        )


def _rectification(step: float, beta2: float, bias2: float) -> float:
    """What the measured step is multiplied by; 0 while it must not be measured."""
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * step * (beta2**step) / bias2
    if length <= 5.0:
        return 0.0
    return ((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)) ** 0.5
