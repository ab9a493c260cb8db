"""SGD: stochastic gradient descent, with momentum if wanted."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha.optim._update import apply, number, real_views, unscaled
from tocha.optim.optimizer import GroupOptimizer, ParamsT, check_fused, check_lr, check_not_negative, zeros_like

__all__ = ["SGD", "sgd"]

Tensor = _C.Tensor


class SGD(GroupOptimizer):
    """Steps against the gradient, or against a decaying sum of gradients (momentum).

    >>> import tocha
    >>> w = tocha.nn.Parameter(tocha.tensor([1.0, -2.0]))
    >>> optimizer = tocha.optim.SGD([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    Parameter containing:
    tensor([ 0.8000, -1.6000], requires_grad=True)
    """

    _step_supports_amp_scaling = False

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check_not_negative(lr=lr, momentum=momentum, weight_decay=weight_decay)  # type: ignore[arg-type]
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)
        if fused:
            self._step_supports_amp_scaling = True

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    def _new_state(self, group: dict[str, Any], p: Tensor) -> dict[str, Any]:
        return {"momentum_buffer": None}

    def _update(self, group: dict[str, Any], has_complex: bool, *tensors: Any) -> None:
        self._update_with(group, False, *tensors)

    def _update_sparse(self, group: dict[str, Any], has_complex: bool, *tensors: Any) -> None:
        self._update_with(group, True, *tensors)

    def _update_with(self, group: dict[str, Any], has_sparse_grad: bool, *tensors: Any) -> None:
        params, grads, *rest = tensors
        buffers: list[Any] = rest[0] if rest else [None] * len(params)
        fresh = [p for p, buffer in zip(params, buffers, strict=True) if buffer is None] if rest else []
        options = {"grad_scale": self.grad_scale, "found_inf": self.found_inf, "has_sparse_grad": has_sparse_grad}
        sgd(params, grads, buffers, **self._options(group, "differentiable", **options))
        if fresh:
            for p, buffer in zip(params, buffers, strict=True):
                self.state[p]["momentum_buffer"] = buffer


def sgd(
    params: list[Tensor],
    d_p_list: list[Tensor],
    momentum_buffer_list: list[Any],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """One step of SGD on lists of parameters and gradients, in place; buffers that are None begin with the gradient."""
    if has_sparse_grad and fused:
        raise RuntimeError("`_fused_sgd` does not support sparse gradients")
    if not unscaled(d_p_list, grad_scale, found_inf):
        return
    options: dict[str, Any] = {
        "weight_decay": weight_decay,
        "momentum": momentum,
        "lr": lr,
        "dampening": dampening,
        "nesterov": nesterov,
        "maximize": maximize,
    }
    lists = [params, momentum_buffer_list, d_p_list]
    if has_sparse_grad:
        _mixed_steps(lists, options)
    else:
        _dense_steps(lists, **options)


def _mixed_steps(lists: list[list], options: dict[str, Any]) -> None:
    """Parameters with sparse gradients one by one, the others together."""
    params, buffers, grads = lists
    dense = []
    for i, grad in enumerate(grads):
        if grad.is_sparse:
            buffers[i] = _sparse_step(params[i], grad, buffers[i], **options)
        else:
            dense.append(i)
    if dense:
        rest = _picked(lists, dense)
        _dense_steps(rest, **options)
        for i, buffer in zip(dense, rest[1], strict=True):
            buffers[i] = buffer


def _sparse_step(
    p: Tensor,
    grad: Tensor,
    buffer: Tensor | None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> Tensor | None:
    """A step along a sparse gradient, which touches only the rows it has; the buffer stays sparse. Returns the buffer."""
    grad = -grad if maximize else grad
    if weight_decay != 0:
        grad = grad.add(p, alpha=weight_decay)  # refused, as there is no such sum
    if momentum != 0:
        buffer = grad.detach().clone() if buffer is None else buffer.mul_(momentum).add_(grad, alpha=1 - dampening)
        grad = grad.add(buffer, alpha=momentum) if nesterov else buffer
    p.add_(grad, alpha=-number(lr))
    return buffer


def _dense_steps(
    lists: list[list],
    *,
    weight_decay: float,
    momentum: float,
    lr: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """Steps along dense gradients, all together."""
    params, momentum_buffer_list, d_p_list = lists
    recorded = _C.is_grad_enabled()
    numbers = {
        "sign": -1.0 if maximize else 1.0,
        "weight_decay": number(weight_decay, recorded),
        "lr": number(lr, recorded),
    }
    if momentum == 0:
        apply("sgd", _views([params, d_p_list]), recorded, **numbers)
        return
    numbers |= {"momentum": momentum, "nesterov": float(nesterov)}
    # A buffer's first value is the gradient itself: what was there before counts for nothing, dampening neither.
    fresh = [i for i, buffer in enumerate(momentum_buffer_list) if buffer is None]
    for i in fresh:
        momentum_buffer_list[i] = zeros_like(params[i])
    if fresh:
        apply("sgd_momentum", _views(_picked(lists, fresh)), recorded, **numbers, weight=1.0)
    if len(fresh) < len(params):
        known = set(fresh)
        rest = _picked(lists, [i for i in range(len(params)) if i not in known]) if fresh else lists
        apply("sgd_momentum", _views(rest), recorded, **numbers, weight=1 - dampening)


def _picked(lists: list[list], indices: list[int]) -> list[list]:
    return [[tensors[i] for i in indices] for tensors in lists]


def _views(lists: list[list[Tensor]]) -> Any:
    return real_views(lists, any(p.is_complex() for p in lists[0]))
