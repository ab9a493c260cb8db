"""Modules as functions of their parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tocha import _C
from tocha.nn.modules.module import Module
from tocha.nn.utils.stateless import _functional_call

__all__ = ["functional_call", "stack_module_state"]

Tensor = _C.Tensor


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """module(*args, **kwargs) with the given tensors in the place of its parameters and buffers.

    Names that are not given keep the module's own. tie_weights: a value for one name of a shared parameter is for all
    of its names. strict: exactly the module's names must be given.

    >>> import tocha
    >>> class Scale(tocha.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = tocha.nn.Parameter(tocha.ones(1))
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> functional_call(Scale(), {"factor": tocha.tensor([3.0])}, tocha.tensor([2.0]))
    tensor([6.])
    """
    given = parameter_and_buffer_dicts
    if isinstance(given, list | tuple):
        if not all(isinstance(d, dict) for d in given):
            raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
        repeated = [name for name, count in Counter(name for d in given for name in d).items() if count > 1]
        if repeated:
            raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        given = {name: value for d in given for name, value in d.items()}
    if not isinstance(given, dict):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(given)}"
        )
    return _functional_call(module, given, args, kwargs, tie_weights=tie_weights, strict=strict)


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and buffers of several models of one class, each stacked along a new first dimension.

    >>> models = [tocha.nn.Linear(2, 3) for _ in range(4)]
    >>> params, buffers = tocha.func.stack_module_state(models)
    >>> {name: tuple(p.shape) for name, p in params.items()}
    {'weight': (4, 3, 2), 'bias': (4, 3)}
    """
    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or not any(m.training for m in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if not all(type(m) is type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    params = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    return (
        {name: _stacked([p[name] for p in params]) for name in params[0]},
        {name: _stacked([b[name] for b in buffers]) for name in buffers[0]},
    )


def _stacked(tensors: list[Tensor]) -> Tensor:
    """The stack as a leaf: the models' own tensors are not trained through it."""
    need_grad = {t.requires_grad for t in tensors}
    if len(need_grad) > 1:
        raise RuntimeError("Expected parameters from different models to have the same requires_grad setting.")
    return _C.stack([t.detach() for t in tensors]).requires_grad_(need_grad.pop())
