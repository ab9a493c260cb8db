"""Backends that take graphs of operators, forward and backward: what captured graphs become by ahead-of-time autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tocha
from tocha import fx
from tocha._functorch.aot_autograd import aot_module_simplified

__all__ = ["AotAutograd", "aot_autograd", "device_from_inputs", "dtype_from_inputs"]


class AotAutograd:
    """A backend made of compilers for the forward and the backward graph."""

    def __init__(self, **kwargs: Any) -> None:
        self.__name__ = "compiler_fn"
        self.kwargs = kwargs

    def __call__(self, gm: fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
        if kwargs:
            raise RuntimeError(f"[aot_autograd] options are not known: got {sorted(kwargs)}")
        return aot_module_simplified(gm, example_inputs, **self.kwargs)


def aot_autograd(**kwargs: Any) -> AotAutograd:
    """A backend that hands the forward and the backward graph to `fw_compiler` and `bw_compiler`."""
    return AotAutograd(**kwargs)


def device_from_inputs(example_inputs: Sequence[Any]) -> Any:
    return next((x.device for x in example_inputs if isinstance(x, tocha.Tensor)), tocha.device("cpu"))


def dtype_from_inputs(example_inputs: Sequence[Any]) -> Any:
    return next((x.dtype for x in example_inputs if isinstance(x, tocha.Tensor)), tocha.float32)
