"""Backends that count, for tests."""

from __future__ import annotations

import contextlib
import functools
import random
import re
import sys
import unittest
from collections.abc import Callable
from typing import Any

import tocha
from tocha._dynamo import config
from tocha._dynamo.backends import lookup_backend
from tocha._dynamo.comparing import same as same


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
    """Keeps the graphs, which are compiled by the backend "inductor", and the graphs of operators that it compiles (`inductor_graphs`)."""

    def clear(self) -> None:
        super().clear()
        self.inductor_graphs: list[Any] = []

    def inner(self, module: Any, examples: list[Any]) -> Callable[..., Any]:
        from tocha._inductor.compile_fx import compile_fx, compile_fx_inner

        def keep(graph: Any, inputs: Any, **how: Any) -> Any:
            self.inductor_graphs.append(graph)
            return compile_fx_inner(graph, inputs, **how)

        self.graphs.append(module)
        return compile_fx(module, examples, inner_compile=keep)


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


def reset_rng_state(use_xla: bool = False) -> None:
    """Random numbers begin anew, Python's and the library's."""
    tocha.manual_seed(1337)
    random.seed(1337)


three = 3  # a constant of another module


def unsupported(first: Any, second: Any) -> Any:
    """Its second argument, after a graph break."""
    tocha._dynamo.graph_break()
    return second


def dummy_fx_compile(gm: Any, example_inputs: Any) -> Callable[..., Any]:
    """A backend that runs the graph as it is."""
    return gm.forward


def check_dynamic_shape_capture() -> bool:
    """Are all sizes taken to change, from the first call on?"""
    return not config.assume_static_by_default


def extract_graph(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, list[Any], list[Any]]:
    """What fn returns, its graphs, and their forward graphs as ahead-of-time autograd makes them."""
    backend = AotEagerAndRecordGraphs()
    result = tocha._dynamo.optimize(backend)(fn)(*args, **kwargs)
    return result, backend.graphs, backend.fw_graphs


def standard_test(
    self: Any, fn: Callable[..., Any], nargs: int, expected_ops: int | None = None, expected_ops_dynamic: int | None = None,
    expected_frame_count: int = 1,
) -> None:  # fmt: skip
    """Compiled, fn of so many matrices does what it does, in so many graphs of so many operators."""
    if check_dynamic_shape_capture() and expected_ops_dynamic is not None:
        expected_ops = expected_ops_dynamic
    counter = CompileCounter()
    cases = [tuple(tocha.randn(10, 10) for _ in range(nargs)) for _ in range(2)]
    expected = [fn(*args) for args in cases]
    tocha._dynamo.reset()
    compiled = tocha._dynamo.optimize_assert(counter)(fn)
    for args, value in zip(cases, expected):
        self.assertTrue(same(compiled(*args), value))
        self.assertTrue(same(compiled(*args), value))
    self.assertEqual(counter.frame_count, expected_frame_count)
    if expected_ops is not None:
        self.assertEqual(counter.op_count, expected_ops)


def _marks(name: str) -> Callable[[Any], Any]:
    def mark(fn: Any) -> Any:
        setattr(fn, name, True)
        return fn

    return mark


# Marks that `make_test_cls_with_patches(xfail_prop=...)` looks for.
expectedFailureDynamic = _marks("_expected_failure_dynamic")
expectedFailureCodegenDynamic = _marks("_expected_failure_codegen_dynamic")
expectedFailureDynamicWrapper = _marks("_expected_failure_dynamic_wrapper")


def _patched(fn: Callable[..., Any], patches: tuple[Any, ...]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        with contextlib.ExitStack() as stack:
            for settings, name, value in patches:
                stack.enter_context(settings.patch(name, value))
            return fn(*args, **kwargs)

    return run


def make_test_cls_with_patches(
    cls: type, cls_prefix: str, fn_suffix: str, *patches: Any, xfail_prop: str | None = None,
    decorator: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda fn: fn,
) -> type:  # fmt: skip
    """The same tests under other settings, each a (settings, name, value): those that are marked so are expected to fail."""
    made: dict[str, Any] = {}
    for name, value in vars(cls).items():
        if name in ("__dict__", "__weakref__"):
            continue
        if not (name.startswith("test_") and callable(value)):
            made[name] = value
        elif xfail_prop is not None and hasattr(value, xfail_prop):
            made[f"{name}{fn_suffix}"] = unittest.expectedFailure(_patched(value, patches))
        else:
            made[f"{name}{fn_suffix}"] = decorator(_patched(value, patches))
    return type(f"{cls_prefix}{cls.__name__}", cls.__bases__, made)


skipIfNotPy311 = unittest.skipIf(sys.version_info < (3, 11), "Requires Python 3.11+")
skipIfNotPy312 = unittest.skipIf(sys.version_info < (3, 12), "Requires Python 3.12+")
skipIfPy312 = unittest.skipIf(sys.version_info >= (3, 12), "Not supported in Python 3.12+")
skipIfOnlyNotPy312 = unittest.skipIf(sys.version_info[:2] != (3, 12), "Requires Python 3.12")
xfailIfPy312 = unittest.expectedFailure if sys.version_info >= (3, 12) else (lambda fn: fn)
