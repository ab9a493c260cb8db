"""Functions of functions and of modules: vmap, grad, vjp, jvp, Jacobians and Hessians."""

import importlib
from typing import Any

from tocha.func.functional_call import functional_call, stack_module_state

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]

# They stand on what `import tocha` does not load.
_HOMES = {
    "debug_unwrap": "levels",
    "functionalize": "functionalize",
    "grad": "eager_transforms",
    "grad_and_value": "eager_transforms",
    "hessian": "jacobians",
    "jacfwd": "jacobians",
    "jacrev": "jacobians",
    "jvp": "eager_transforms",
    "linearize": "eager_transforms",
    "rearrange": "rearrange",
    "replace_all_batch_norm_modules_": "batch_norm_replacement",
    "vjp": "eager_transforms",
    "vmap": "vmap",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"tocha._functorch.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
