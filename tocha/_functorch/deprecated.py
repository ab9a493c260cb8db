"""The names of the package functorch, which say where they are now."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from tocha._functorch import apis, eager_transforms, jacobians
from tocha._functorch import functionalize as functional
from tocha._functorch import make_functional as modules

__all__ = [
    "combine_state_for_ensemble", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "make_functional",
    "make_functional_with_buffers", "vjp", "vmap",
]  # fmt: skip


def moved(f: Callable, instead: str = "") -> Callable:
    """f with a warning that names what to use."""
    name = f.__name__

    @functools.wraps(f)
    def deprecated(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"We've integrated functorch into PyTorch. As the final step of the integration, `functorch.{name}` is deprecated as of "
            "PyTorch 2.0 and will be deleted in a future version of PyTorch >= 2.3. Please use "
            f"`{instead or f'torch.func.{name}'}` instead; see the PyTorch 2.0 release notes and/or the `torch.func` migration guide "
            "for more details https://pytorch.org/docs/main/func.migrating.html",
            FutureWarning,
            stacklevel=2,
        )
        return f(*args, **kwargs)

    return deprecated


vmap = moved(apis.vmap, "torch.vmap")
grad = moved(apis.grad)
grad_and_value = moved(apis.grad_and_value)
vjp = moved(eager_transforms.vjp)
jvp = moved(eager_transforms.jvp)
jacrev = moved(jacobians.jacrev)
jacfwd = moved(jacobians.jacfwd)
hessian = moved(jacobians.hessian)
functionalize = moved(functional.functionalize)
make_functional = moved(modules.make_functional, "torch.func.functional_call")
make_functional_with_buffers = moved(modules.make_functional_with_buffers, "torch.func.functional_call")
combine_state_for_ensemble = moved(modules.combine_state_for_ensemble, "torch.func.stack_module_state")
