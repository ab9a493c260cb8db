"""SparseAdam: Adam that touches only the elements of which a sparse gradient has values."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha.optim._update import apply, number
from tocha.optim.optimizer import GroupOptimizer, ParamsT, check_betas, check_lr, zeros_like

__all__ = ["SparseAdam"]

Tensor = _C.Tensor


class SparseAdam(GroupOptimizer):
    """Adam for dense parameters with sparse gradients, such as those of embeddings; averages of other elements rest.

    >>> emb = tocha.nn.Embedding(4, 2, sparse=True)
    >>> opt = tocha.optim.SparseAdam(emb.parameters(), lr=0.1)
    >>> before = emb.weight.detach().clone()
    >>> emb(tocha.tensor([1, 3])).sum().backward()
    >>> opt.step()
    >>> (emb.weight != before).any(dim=1)
    tensor([False,  True, False,  True])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_lr(lr)
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        sparse = [
            [i, k] for i, group in enumerate(self.param_groups) for k, p in enumerate(group["params"]) if p.is_sparse
        ]
        if sparse:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def _new_state(self, group: dict[str, Any], p: Tensor) -> dict[str, Any]:
        return {"step": 0, "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}

    def _update(self, group: dict[str, Any], has_complex: bool, *tensors: Any) -> None:
        raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")

    def _update_sparse(self, group: dict[str, Any], has_complex: bool, *tensors: Any) -> None:
        params, grads, exp_avgs, exp_avg_sqs = tensors
        if not all(g.is_sparse for g in grads):
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        states = [self.state[p] for p in params]
        for state in states:
            state["step"] += 1
        beta1, beta2 = group["betas"]
        sparse_adam(
            params,
            grads,
            exp_avgs,
            exp_avg_sqs,
            [state["step"] for state in states],
            eps=group["eps"],
            beta1=beta1,
            beta2=beta2,
            lr=number(group["lr"]),
            maximize=group["maximize"],
        )


def sparse_adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[int],
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float,
    maximize: bool,
) -> None:
    """One step of SparseAdam: the elements with gradients are taken out, updated together and put back."""
    for p, grad, exp_avg, exp_avg_sq, step in zip(params, grads, exp_avgs, exp_avg_sqs, state_steps, strict=True):
        grad = grad.coalesce()
        if grad._nnz() == 0:
            continue
        where = tuple(grad._indices())
        bias1, bias2 = 1 - beta1**step, 1 - beta2**step
        numbers = {
            "shrink": 1.0,
            "sign": -1.0 if maximize else 1.0,
            "weight_decay": 0.0,
            "weight1": 1 - beta1,
            "beta2": beta2,
            "weight2": 1 - beta2,
            "step_size": lr * bias2**0.5 / bias1,
            "measure": 1.0,
            "eps": eps,
        }
        parts = [t[where] for t in (p, exp_avg, exp_avg_sq)]
        apply("adam", [[part] for part in (*parts, grad._values())], False, **numbers)
        for target, part in zip((p, exp_avg, exp_avg_sq), parts, strict=True):
            target[where] = part
