"""Adagrad: steps measured by all gradients so far."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha.optim._update import advanced, apply, number, real_views, unscaled
from tocha.optim.optimizer import (
    GroupOptimizer,
    ParamsT,
    check_fused,
    check_lr,
    check_not_negative,
    step_counter,
)

__all__ = ["Adagrad", "adagrad"]

Tensor = _C.Tensor


class Adagrad(GroupOptimizer):
    """Steps along the gradient, measured element by element by the sum of all squares so far.

    >>> w = tocha.nn.Parameter(tocha.tensor([1.0, -2.0]))
    >>> opt = tocha.optim.Adagrad([w], lr=0.1)
    >>> (w**2).sum().backward()
    >>> opt.step()
    >>> w.detach()
    tensor([ 0.9000, -1.9000])
    """

    _step_supports_amp_scaling = False

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check_not_negative(
            lr=lr,  # type: ignore[arg-type]
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)
        if fused:
            self._step_supports_amp_scaling = True
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p] = self._new_state(group, p)

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("sum", "step")

    def _new_state(self, group: dict[str, Any], p: Tensor) -> dict[str, Any]:
        start = group["initial_accumulator_value"]
        value = complex(start, start) if p.is_complex() else start
        return {"step": step_counter(), "sum": _C.full_like(p, value, memory_format=_C.preserve_format)}

    def share_memory(self) -> None:
        """Moves the sums to memory that other processes see."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()

    def _update(self, group: dict[str, Any], has_complex: bool, *tensors: Any) -> None:
        self._update_with(group, has_complex, False, *tensors)

    def _update_sparse(self, group: dict[str, Any], has_complex: bool, *tensors: Any) -> None:
        self._update_with(group, has_complex, True, *tensors)

    def _update_with(self, group: dict[str, Any], has_complex: bool, has_sparse_grad: bool, *tensors: Any) -> None:
        options = {"grad_scale": self.grad_scale, "found_inf": self.found_inf, "has_sparse_grad": has_sparse_grad}
        adagrad(*tensors, **self._options(group, "initial_accumulator_value", has_complex=has_complex, **options))


def adagrad(
    params: list[Tensor],
    grads: list[Tensor],
    state_sums: list[Tensor],
    state_steps: list[Tensor],
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    weight_decay: float,
    lr_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of Adagrad on lists of parameters, gradients and states, in place."""
    if has_sparse_grad and fused:
        raise RuntimeError("`fused` does not support sparse grad or complex param")
    if not unscaled(grads, grad_scale, found_inf):
        return
    lr = number(lr, differentiable)
    if has_sparse_grad:
        if weight_decay != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        sparse = {i for i, grad in enumerate(grads) if grad.is_sparse}
        for i in sorted(sparse):
            state_steps[i].add_(1)
            rate = lr / (1 + (state_steps[i].item() - 1) * lr_decay)
            _sparse_step(params[i], -grads[i] if maximize else grads[i], state_sums[i], rate, eps)
        params, grads, state_sums, state_steps = (
            [t for i, t in enumerate(tensors) if i not in sparse]
            for tensors in (params, grads, state_sums, state_steps)
        )
        if not params:
            return
    numbers = {"sign": -1.0 if maximize else 1.0, "weight_decay": weight_decay, "eps": eps}
    for step, part in advanced(state_steps, real_views([params, state_sums, grads], has_complex)):
        apply("adagrad", part, differentiable, **numbers, lr=lr / (1 + (step - 1) * lr_decay))


def _sparse_step(p: Tensor, grad: Tensor, state_sum: Tensor, rate: float, eps: float) -> None:
    """A step along a sparse gradient: only the elements of which it has values change."""
    grad = grad.coalesce().clone()
    state_sum.add_(grad.pow(2))
    measure = state_sum.sparse_mask(grad)._values().sqrt().add_(eps)
    grad._values().div_(measure)
    p.add_(grad, alpha=-rate)
