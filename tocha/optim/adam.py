"""Adam, and the shared pieces of the optimizers that keep averages of the gradient and of its square."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha.optim._update import advanced, apply, number, real_views, unscaled
from tocha.optim.optimizer import (
    GroupOptimizer,
    ParamsT,
    check_betas,
    check_capturable,
    check_fused,
    check_lr,
    check_not_negative,
    step_counter,
    zeros_like,
)

__all__ = ["Adam", "adam"]

Tensor = _C.Tensor


class MomentOptimizer(GroupOptimizer):
    """An optimizer whose states are a step count and the averages exp_avg and exp_avg_sq."""

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", "step")

    def _new_state(self, group: dict[str, Any], p: Tensor) -> dict[str, Any]:
        return {"step": step_counter(), "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}


def moment_numbers(
    lr: Any, beta1: Any, beta2: Any, weight_decay: float, maximize: bool, decoupled_weight_decay: bool
) -> dict[str, Any]:
    """What the formulas of such optimizers need for weight decay and the averages."""
    return {
        "shrink": 1 - lr * weight_decay if decoupled_weight_decay else 1.0,
        "sign": -1.0 if maximize else 1.0,
        "weight_decay": 0.0 if decoupled_weight_decay else weight_decay,
        "weight1": 1 - beta1,
        "beta2": beta2,
        "weight2": 1 - beta2,
    }


class Adam(MomentOptimizer):
    """Steps along an average of gradients, measured element by element by their average magnitude.

    With `amsgrad` the measure never falls; `decoupled_weight_decay` shrinks the parameters directly (AdamW).

    >>> import tocha
    >>> w = tocha.nn.Parameter(tocha.tensor([1.0, -2.0]))
    >>> optimizer = tocha.optim.Adam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    Parameter containing:
    tensor([ 0.9000, -1.9000], requires_grad=True)
    """

    _step_supports_amp_scaling = False

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_lr(lr, foreach, capturable)
        check_not_negative(lr=lr, eps=eps)  # type: ignore[arg-type]
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        _check_tensor_betas(betas, foreach, capturable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)
        if fused:
            self._step_supports_amp_scaling = True

    def _update_sparse(self, group: dict[str, Any], has_complex: bool, *tensors: Any) -> None:
        raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        names = ("exp_avg", "exp_avg_sq", "step")
        return (*names, "max_exp_avg_sq") if group["amsgrad"] else names

    def _new_state(self, group: dict[str, Any], p: Tensor) -> dict[str, Any]:
        state = super()._new_state(group, p)
        return {**state, "max_exp_avg_sq": zeros_like(p)} if group["amsgrad"] else state

    def _update(self, group: dict[str, Any], has_complex: bool, *tensors: Any) -> None:
        params, grads, exp_avgs, exp_avg_sqs, steps, *rest = tensors
        options = self._options(group, has_complex=has_complex)
        options |= {"grad_scale": self.grad_scale, "found_inf": self.found_inf}
        adam(params, grads, exp_avgs, exp_avg_sqs, rest[0] if rest else [], steps, **options)


def _check_tensor_betas(betas: tuple[Any, Any], foreach: bool | None, capturable: bool) -> None:
    are_tensors = [isinstance(beta, Tensor) for beta in betas]
    if are_tensors[0] != are_tensors[1]:
        raise ValueError("betas must be either both floats or both Tensors")
    for i, beta in enumerate(betas):
        if not isinstance(beta, Tensor):
            continue
        if not capturable and foreach:
            raise ValueError(f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True")
        if beta.numel() != 1:
            raise ValueError(f"Tensor betas[{i}] must be 1-element")


def adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of Adam on lists of parameters, gradients and states, in place."""
    check_capturable(capturable, params)
    if not unscaled(grads, grad_scale, found_inf):
        return
    lr, beta1, beta2 = (number(x, differentiable) for x in (lr, beta1, beta2))
    numbers = moment_numbers(lr, beta1, beta2, weight_decay, maximize, decoupled_weight_decay)
    lists = [params, exp_avgs, exp_avg_sqs, *([max_exp_avg_sqs] if amsgrad else []), grads]
    formula = "adam_amsgrad" if amsgrad else "adam"
    for step, part in advanced(state_steps, real_views(lists, has_complex)):
        step_size = lr / (1 - beta1**step)
        measure = 1 / (1 - beta2**step) ** 0.5
        apply(formula, part, differentiable, **numbers, step_size=step_size, measure=measure, eps=eps)
