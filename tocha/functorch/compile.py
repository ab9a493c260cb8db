"""Ahead-of-time differentiation under functorch's name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from tocha import _ops
from tocha._decomp import get_decompositions
from tocha._functorch import config
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
from tocha.nn import Module

__all__ = [
    "aot_function", "aot_module", "aot_module_simplified", "compiled_function", "compiled_module", "config", "default_partition",
    "make_boxed_compiler", "make_boxed_func", "memory_efficient_fusion", "min_cut_rematerialization_partition", "nop", "print_compile",
    "pythonkey_decompose",
]  # fmt: skip

compiled_module = aot_module

# Operators of pointwise functions and of their gradients, which fuse when they are taken apart.
_TAKEN_APART = (
    "conj_physical", "detach", "elu", "elu_backward", "gelu_backward", "hardsigmoid", "hardsigmoid_backward", "hardswish", "hardswish_backward",
    "hardtanh", "hardtanh_backward", "is_same_size", "leaky_relu", "leaky_relu_backward", "masked_fill", "sigmoid_backward", "silu_backward",
    "tanh_backward", "threshold_backward",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name != "default_decompositions":  # a table that is made when it is first asked for
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    aten = _ops.ops.aten
    globals()[name] = get_decompositions([getattr(aten, n) for n in _TAKEN_APART if hasattr(aten, n)])
    return globals()[name]


def print_compile(graph: Any, inputs: Any) -> Any:
    """A compiler that prints the graph and runs it as it is."""
    print(graph.code)
    return graph


def memory_efficient_fusion(fn: Callable[..., Any] | Module, **kwargs: Any) -> Callable[..., Any] | Module:
    """A function or module whose graphs are compiled, and whose backward computes again what is cheap instead of keeping it.

    >>> memory_efficient_fusion(lambda x: x.sin() + 1)(tocha.zeros(2))
    tensor([1., 1.])
    """
    back_end = importlib.import_module("tocha._inductor.compilation")  # a higher room, loaded when it is asked for
    given = {"fw_compiler": back_end.compile_inner, "bw_compiler": back_end.compile_inner,
             "partition_fn": min_cut_rematerialization_partition, "decompositions": {}, **kwargs}  # fmt: skip
    return aot_module(fn, **given) if isinstance(fn, Module) else aot_function(fn, **given)
