"""Backends that count, for tests."""

from __future__ import annotations

import collections
import random
import re
from collections.abc import Callable
from typing import Any

import tocha
from tocha._dynamo.backends import lookup_backend


class CompileCounter:
    """Counts graphs (`frame_count`) and their operators (`op_count`)."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.frame_count = self.op_count = 0
        self.graphs: list[Any] = []
        self.example_inputs: list[Any] = []

    def __call__(self, module: Any, examples: list[Any]) -> Callable[..., Any]:
        self.frame_count += 1
        self.op_count += sum(n.op.startswith("call_") for n in module.graph.nodes)
        return self.inner(module, examples)

    def inner(self, module: Any, examples: list[Any]) -> Callable[..., Any]:
        return module.forward


class CompileCounterWithBackend(CompileCounter):
    """The same, and hands the graphs on."""

    def __init__(self, backend: Any) -> None:
        super().__init__()
        self.backend = backend

    def inner(self, module: Any, examples: list[Any]) -> Callable[..., Any]:
        self.graphs.append(module)
        return lookup_backend(self.backend)(module, examples)


class EagerAndRecordGraphs(CompileCounter):
    """Keeps the graphs."""

    def inner(self, module: Any, examples: list[Any]) -> Callable[..., Any]:
        self.graphs.append(module)
        self.example_inputs.append(examples)
        return module.forward


class InductorAndRecordGraphs(CompileCounter):
    """Keeps the graphs, which are compiled by the backend "inductor"."""

    def inner(self, module: Any, examples: list[Any]) -> Callable[..., Any]:
        self.graphs.append(module)
        return lookup_backend("inductor")(module, examples)


class CompileCounterInt(CompileCounter):
    """Counts sizes and numbers among the operators too."""


class AotEagerAndRecordGraphs(CompileCounter):
    """Keeps the graphs, and those that ahead-of-time autograd makes of them."""

    def clear(self) -> None:
        super().clear()
        self.fw_graphs: list[Any] = []
        self.bw_graphs: list[Any] = []

    def inner(self, module: Any, examples: list[Any]) -> Callable[..., Any]:
        from tocha._dynamo.backends.common import aot_autograd

        self.graphs.append(module)
        kept = aot_autograd(fw_compiler=self._keeps(self.fw_graphs), bw_compiler=self._keeps(self.bw_graphs))
        return kept(module, examples)

    def _keeps(self, graphs: list[Any]) -> Callable[..., Any]:
        def compiler(module: Any, examples: Any) -> Any:
            graphs.append(module)
            return module.forward

        return compiler


def rand_strided(
    size: Any, stride: Any, dtype: Any = None, device: Any = "cpu", extra_size: int = 0, memory_format: Any = None
) -> Any:
    """A tensor of random numbers with these sizes and strides."""
    dtype = dtype or tocha.float32
    needed = sum((n - 1) * s for n, s in zip(size, stride)) + 1 + extra_size if all(size) else extra_size
    if dtype.is_floating_point or dtype.is_complex:
        buffer = tocha.randn(needed, dtype=dtype, device=device)
    else:
        buffer = tocha.zeros(needed, dtype=dtype, device=device)
    return tocha.as_strided(buffer, size, stride)


def reduce_to_scalar_loss(out: Any) -> Any:
    """The mean of all that a model returns."""
    if isinstance(out, tocha.Tensor):
        return out.sum() / out.numel()
    if isinstance(out, (list, tuple, set)):
        return sum(reduce_to_scalar_loss(x) for x in out) / len(out)
    if isinstance(out, dict):
        return sum(reduce_to_scalar_loss(v) for v in out.values()) / len(out)
    raise NotImplementedError(f"Don't know how to reduce {type(out)}")


def requires_bwd_pass(out: Any) -> bool:
    """Does anything in it have a gradient?"""
    if isinstance(out, tocha.Tensor):
        return out.requires_grad
    values = out.values() if isinstance(out, dict) else out
    return isinstance(out, (list, tuple, dict)) and any(requires_bwd_pass(v) for v in values)


def normalize_gm(text: str) -> str:
    """A graph's text without comments, empty lines and spaces at the ends of lines."""
    text = re.sub(r"(?m)^ *#.*\n?", "", text)
    lines = (re.sub(r" +#.*$", "", line).rstrip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def strip_comment(text: str) -> str:
    """Without lines that are comments, and without comments at the ends of lines."""
    return re.sub(r"(?m)^ *#.*\n?", "", str(text))


def remove_trailing_space(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n"))


def remove_optimized_module_prefix(name: str) -> str:
    """A parameter's name as the module itself has it.

    >>> remove_optimized_module_prefix("_orig_mod.layer.weight")
    'layer.weight'
    """
    return re.sub(r"^_orig_mod[.]", "", name)


def clone_me(x: Any) -> Any:
    """A copy that wants gradients where the tensor does."""
    return None if x is None else x.detach().clone().requires_grad_(x.requires_grad)


def same(a: Any, b: Any, tol: float = 1e-4, equal_nan: bool = False) -> bool:
    """Are two structures of tensors and plain values equal, up to a tolerance?

    >>> same([tocha.ones(2), 1], [tocha.ones(2) + 1e-6, 1])
    True
    """
    if isinstance(a, tocha.Tensor):
        if not isinstance(b, tocha.Tensor) or a.shape != b.shape or a.dtype != b.dtype:
            return False
        return tocha.allclose(a, b, atol=tol, rtol=tol, equal_nan=equal_nan)
    if isinstance(a, (list, tuple, collections.deque, tocha.Size)):
        return isinstance(b, (list, tuple, collections.deque, tocha.Size)) and len(a) == len(b) and all(same(x, y, tol, equal_nan) for x, y in zip(a, b))  # fmt: skip
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k], tol, equal_nan) for k in a)
    if isinstance(a, set):
        return isinstance(b, set) and a == b
    if isinstance(a, float):
        return isinstance(b, float) and (abs(a - b) <= tol or a == b or (equal_nan and a != a and b != b))
    return type(a) is type(b) and bool(a == b)


def reset_rng_state(use_xla: bool = False) -> None:
    """Random numbers begin anew, Python's and the library's."""
    tocha.manual_seed(1337)
    random.seed(1337)
