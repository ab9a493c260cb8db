"""What functorch calls experimental."""

from tocha._functorch.apis import chunk_vmap
from tocha._functorch.batch_norm_replacement import replace_all_batch_norm_modules_
from tocha._functorch.eager_transforms import jvp
from tocha._functorch.functionalize import functionalize
from tocha._functorch.jacobians import hessian, jacfwd

__all__ = ["chunk_vmap", "functionalize", "hessian", "jacfwd", "jvp", "replace_all_batch_norm_modules_"]
