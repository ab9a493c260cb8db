"""The transforms under PyTorch's name for this module."""

from tocha._functorch.eager_transforms import grad, grad_and_value
from tocha._functorch.vmap import vmap

__all__ = ["grad", "grad_and_value", "vmap"]
