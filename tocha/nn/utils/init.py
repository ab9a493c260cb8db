"""Building a module without spending time on the values of its parameters."""

from __future__ import annotations

import inspect
from typing import Any

from tocha.nn.modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """module_cls(*args, **kwargs) whose parameters are memory only: they have whatever values it holds.

    The class must take a `device` and create its parameters there.

    >>> tocha.nn.utils.skip_init(tocha.nn.Linear, 2, 3)
    Linear(in_features=2, out_features=3, bias=True)
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)
