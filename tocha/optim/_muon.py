"""Muon: steps along the orthogonal matrix nearest to the momentum, for the matrices of hidden layers."""

from __future__ import annotations

import math
from typing import Any

from tocha import _C
from tocha.optim._update import number
from tocha.optim.optimizer import GroupOptimizer, ParamsT, check_lr, zeros_like

__all__ = ["Muon"]

Tensor = _C.Tensor
NS_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
MOST_NS_STEPS = 100


class Muon(GroupOptimizer):
    """Makes the momentum of each matrix nearly orthogonal (Newton-Schulz iterations in bfloat16) and steps along it.

    Parameters must be matrices; biases, embeddings and the like go to another optimizer. `adjust_lr_fn` says how steps grow
    with the matrix: "original" (the default) or "match_rms_adamw".

    >>> w = tocha.nn.Parameter(tocha.eye(2))
    >>> opt = tocha.optim.Muon([w], lr=0.1, weight_decay=0.0)
    >>> (w**2).sum().backward()
    >>> opt.step()
    >>> w.detach()
    tensor([[0.8875, 0.0000],
            [0.0000, 0.8875]])
    """

    __module__ = "tocha.optim"

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = NS_COEFFICIENTS,
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_lr(lr)
        for name, value in (("Learning rate", lr), ("momentum", momentum), ("weight decay", weight_decay)):
            if not value >= 0.0:
                raise ValueError(f"{name} should be >= 0 but is: {value}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}"
                    )

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("momentum_buffer",)

    def _new_state(self, group: dict[str, Any], p: Tensor) -> dict[str, Any]:
        if p.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        return {"momentum_buffer": zeros_like(p.grad)}  # type: ignore[arg-type]

    def _update(self, group: dict[str, Any], has_complex: bool, *tensors: Any) -> None:
        muon(*tensors, **self._options(group, has_complex=has_complex))


def orthogonalized(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """The matrix with its singular values brought near 1 by Newton-Schulz iterations, in bfloat16."""
    if steps >= MOST_NS_STEPS:
        raise ValueError(f"Number of steps must be less than {MOST_NS_STEPS} for computational efficiency")
    if matrix.ndim != 2:
        raise ValueError("Input tensor gradient must be a 2D matrix")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    x = matrix.to(_C.bfloat16)
    tall = x.size(0) > x.size(1)
    x = x.T if tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = _C.addmm(x, _C.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def _adjusted(lr: float, how: str | None, rows: int, columns: int) -> float:
    if how == "match_rms_adamw":
        return lr * 0.2 * math.sqrt(max(rows, columns))
    return lr * math.sqrt(max(1, rows / columns))


def muon(
    params: list[Tensor],
    grads: list[Tensor],
    muon_momentum_bufs: list[Tensor],
    *,
    foreach: bool | None = None,
    lr: float,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
    ns_coefficients: tuple[float, float, float],
    ns_steps: int,
    eps: float,
    adjust_lr_fn: str | None,
    has_complex: bool,
) -> None:
    """One step of Muon on lists of matrices, gradients and momenta, in place."""
    if has_complex:
        raise ValueError("Complex parameters are not supported")
    lr = number(lr)
    _C._foreach_lerp_(muon_momentum_bufs, grads, 1 - momentum)
    for p, grad, buffer in zip(params, grads, muon_momentum_bufs, strict=True):
        direction = grad.lerp(buffer, momentum) if nesterov else buffer
        direction = orthogonalized(direction, ns_coefficients, ns_steps, eps)
        p.mul_(1 - lr * weight_decay)
        p.add_(direction, alpha=-_adjusted(lr, adjust_lr_fn, p.size(0), p.size(1)))
