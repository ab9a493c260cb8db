"""Adafactor: steps measured by squares that are kept as one row and one column for each matrix."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha._core.type_info import finfo
from tocha.optim._update import number, unscaled
from tocha.optim.optimizer import GroupOptimizer, ParamsT, check_lr, step_counter, zeros_like

__all__ = ["Adafactor", "adafactor"]

Tensor = _C.Tensor


class Adafactor(GroupOptimizer):
    """Steps relative to the size of a parameter, measured by averages of squares; of matrices only the means of rows and columns
    are kept.

    >>> w = tocha.nn.Parameter(tocha.tensor([1.0, -2.0]))
    >>> opt = tocha.optim.Adafactor([w], lr=0.1)
    >>> (w**2).sum().backward()
    >>> opt.step()
    >>> w.detach()
    tensor([ 0.8419, -1.8419])
    """

    __module__ = "tocha.optim"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_lr(lr)
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("step",)

    def _new_state(self, group: dict[str, Any], p: Tensor) -> dict[str, Any]:
        if p.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        grad = p.grad
        assert grad is not None
        if grad.is_sparse:
            raise RuntimeError("Adafactor does not support sparse gradients")
        if grad.ndim < 2:
            return {"step": step_counter(), "variance": zeros_like(grad)}
        *rest, rows, columns = grad.shape
        return {
            "step": step_counter(),
            "row_var": grad.new_zeros((*rest, rows, 1)),
            "col_var": grad.new_zeros((*rest, 1, columns)),
        }

    def _update(self, group: dict[str, Any], has_complex: bool, *tensors: Any) -> None:
        params, grads, steps = tensors
        states = [self.state[p] for p in params]
        row_vars, col_vars, variances = ([s.get(name) for s in states] for name in ("row_var", "col_var", "variance"))
        options = self._options(group, "eps", has_complex=has_complex)
        options |= {"grad_scale": self.grad_scale, "found_inf": self.found_inf}
        options["eps1"], options["eps2"] = group["eps"]
        adafactor(params, grads, row_vars, col_vars, variances, steps, **options)


def adafactor(
    params: list[Tensor],
    grads: list[Tensor],
    row_vars: list[Any],
    col_vars: list[Any],
    variances: list[Any],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    d: float,
    lr: float | Tensor,
    beta2_decay: float,
    weight_decay: float,
    eps1: float | None,
    eps2: float,
    maximize: bool,
) -> None:
    """One step of Adafactor on lists of parameters, gradients and states, in place."""
    if not unscaled(grads, grad_scale, found_inf):
        return
    lr = number(lr)
    for p, grad, row_var, col_var, variance, step in zip(
        params, grads, row_vars, col_vars, variances, state_steps, strict=True
    ):
        grad = -grad if maximize else grad
        step += 1
        count = step.item()
        smallest = finfo(p.dtype).eps if eps1 is None else eps1
        size = max(eps2, p.norm(2).item() / p.numel() ** 0.5) * min(lr, 1 / count**0.5)
        if weight_decay != 0:
            p.mul_(1 - lr * weight_decay)
        squares = _square_estimate(grad, row_var, col_var, variance, count**beta2_decay, smallest)
        update = squares.clamp_(min=smallest * smallest).rsqrt_().mul_(grad)
        excess = max(1.0, update.norm(2).item() / (update.numel() ** 0.5 * d))
        p.add_(update, alpha=-size / excess)


def _square_estimate(grad: Tensor, row_var: Any, col_var: Any, variance: Any, weight: float, smallest: float) -> Tensor:
    """The average square of each element of the gradient, from the averages kept, which take this one in."""
    if grad.ndim < 2:
        variance.lerp_(grad.square(), weight)
        return variance.clone()
    row_var.lerp_(grad.norm(dim=-1, keepdim=True).square_().div_(grad.size(-1)), weight)
    col_var.lerp_(grad.norm(dim=-2, keepdim=True).square_().div_(grad.size(-2)), weight)
    return (row_var @ col_var).div_(row_var.mean(dim=-2, keepdim=True).clamp_(min=smallest))
