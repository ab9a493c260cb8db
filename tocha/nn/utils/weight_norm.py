"""Weights as a length times a direction: the older way, by a hook before forward. See parametrizations.weight_norm."""

from __future__ import annotations

import warnings
from typing import Any

from tocha import _C
from tocha.nn.modules.module import Module
from tocha.nn.parameter import Parameter, is_lazy

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]

Tensor = _C.Tensor


def norm_except_dim(v: Tensor, dim: int) -> Tensor:
    """The norms of v's slices along dim, shaped to divide v; the norm of all of v for dim -1."""
    if dim == -1:
        return v.norm()
    return v.norm(2, [d for d in range(v.dim()) if d != dim % v.dim()], keepdim=True)


def from_length_and_direction(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """v scaled so that the norms of its slices along dim are g."""
    return v * (g / norm_except_dim(v, dim))


class WeightNorm:
    """The hook that puts the weight together before every forward."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """The weight of its length and direction."""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return from_length_and_direction(v, g, self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Splits a parameter of module and registers the hook."""
        warnings.warn(
            "`tocha.nn.utils.weight_norm` is deprecated in favor of `tocha.nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
            stacklevel=3,
        )
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        fn = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure to run the dummy forward "
                "before applying weight normalization"
            )
        del module._parameters[name]
        module.register_parameter(name + "_g", Parameter(norm_except_dim(weight.detach(), fn.dim)))
        module.register_parameter(name + "_v", Parameter(weight.detach()))
        setattr(module, name, fn.compute_weight(module))
        module.register_forward_pre_hook(fn)
        return fn

    def remove(self, module: Module) -> None:
        """Makes the weight an ordinary parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Splits a parameter into its length (name_g) and direction (name_v), per slice along dim; None: as a whole.

    Salimans and Kingma (2016). Deprecated: parametrizations.weight_norm does the same.

    >>> m = tocha.nn.utils.weight_norm(tocha.nn.Linear(3, 4))
    >>> [(name, tuple(p.shape)) for name, p in m.named_parameters()]
    [('bias', (4,)), ('weight_g', (4, 1)), ('weight_v', (4, 3))]
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Makes a parameter that weight_norm split an ordinary one again.

    >>> m = tocha.nn.utils.weight_norm(tocha.nn.Linear(3, 4))
    >>> _ = tocha.nn.utils.remove_weight_norm(m)
    >>> [name for name, _ in m.named_parameters()]
    ['bias', 'weight']
    """
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
