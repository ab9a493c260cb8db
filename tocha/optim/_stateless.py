"""An optimizer on other parameters and state for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tocha import _C
from tocha.optim.optimizer import Optimizer

Tensor = _C.Tensor


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Within the context the optimizer works on the given parameters (in its order) and state (as of `state_dict`).

    Tensors of the given state that a step changes in place keep the change; everything else is put back at the end.

    >>> w = tocha.nn.Parameter(tocha.tensor([1.0, -2.0]))
    >>> opt = tocha.optim.SGD([w], lr=0.1)
    >>> other = tocha.tensor([5.0, 5.0])
    >>> other.grad = tocha.ones(2)
    >>> with tocha.optim.swap_in_optimizer_params_and_state(opt, {"w": other}, opt.state_dict()):
    ...     opt.step()
    >>> other, w.detach()
    (tensor([4.9000, 4.9000]), tensor([ 1., -2.]))
    """
    groups, state = optimizer.param_groups, optimizer.state
    parameters = list(swapin_parameters.values())
    if len(parameters) != sum(len(group["params"]) for group in groups):
        raise ValueError(
            f"the optimizer has {sum(len(g['params']) for g in groups)} parameters, {len(parameters)} were given"
        )
    by_number = dict(enumerate(parameters))
    new_groups = [
        {**saved, "params": [by_number[i] for i in saved["params"]]} for saved in swapin_optim_state["param_groups"]
    ]
    new_state = type(state)(state.default_factory)
    for key, value in swapin_optim_state["state"].items():
        new_state[by_number.get(key, key)] = dict(value) if isinstance(value, dict) else value
    try:
        optimizer.param_groups, optimizer.state = new_groups, new_state
        yield
    finally:
        optimizer.param_groups, optimizer.state = groups, state
