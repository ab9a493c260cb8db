"""What PyTorch has in a package of its own, `functorch`: the transforms under their older names.

It lies here so that an installed functorch is never in its way; where `torch` names tocha, `functorch` names this module.
"""

from tocha._functorch.deprecated import (
    combine_state_for_ensemble,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    make_functional,
    make_functional_with_buffers,
    vjp,
    vmap,
)
from tocha._functorch.make_functional import FunctionalModule, FunctionalModuleWithBuffers
from tocha.fx.experimental.proxy_tensor import make_fx
from tocha.version import __version__

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "__version__", "combine_state_for_ensemble", "functionalize", "grad",
    "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "make_functional", "make_functional_with_buffers", "make_fx", "vjp", "vmap",
]  # fmt: skip
