"""Ahead-of-time differentiation under functorch's name."""

from tocha._functorch.aot_autograd import (
    aot_function,
    aot_module,
    aot_module_simplified,
    compiled_function,
    make_boxed_compiler,
    make_boxed_func,
    nop,
)
from tocha._functorch.partitioners import default_partition, min_cut_rematerialization_partition
from tocha.fx.experimental.proxy_tensor import make_fx as pythonkey_decompose

__all__ = [
    "aot_function", "aot_module", "aot_module_simplified", "compiled_function", "default_partition", "make_boxed_compiler",
    "make_boxed_func", "min_cut_rematerialization_partition", "nop", "pythonkey_decompose",
]  # fmt: skip
