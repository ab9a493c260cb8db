"""export: one graph of a whole function, as a module with the function's own signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import tocha
from tocha import fx, nn
from tocha._dynamo import convert, eval_frame
from tocha._dynamo.exc import UserError, UserErrorType
from tocha.fx.experimental.proxy_tensor import make_fx
from tocha.fx.graph import _PyTreeCodeGen, _PyTreeInfo
from tocha.utils import _pytree as pytree


class ExportResult(NamedTuple):
    graph_module: fx.GraphModule
    guards: Any


class _Seen:
    """The backend: keeps the graph, and what it was called with and returned."""

    def __init__(self) -> None:
        self.module: fx.GraphModule | None = None
        self.inputs: list[Any] = []
        self.results: list[Any] = []

    def __call__(self, module: fx.GraphModule, examples: Any) -> Callable[..., Any]:
        if self.module is not None:
            raise AssertionError("export: the function became more than one graph")
        self.module = module

        def run(*args: Any) -> Any:
            self.inputs = list(args)
            self.results = list(module(*args))
            return tuple(self.results)

        return run


def export(
    f: Callable[..., Any], *extra_args: Any, aten_graph: bool = False, pre_dispatch: bool = False,
    decomposition_table: dict[Any, Callable[..., Any]] | None = None, tracing_mode: str = "symbolic", dynamic_shapes: Any = None,
    specialize_float: bool = True, assume_static_by_default: bool = False, same_signature: bool = True, disable_constraint_solver: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False, _log_export_usage: bool = True, constraints: Any = None, **extra_kwargs: Any,
) -> Any:  # fmt: skip
    """export(f)(*args): (graph_module, guards), the graph being the whole of what f does with such arguments.

    >>> import tocha
    >>> module, guards = tocha._dynamo.export(lambda x, k: {"out": x.sin() * k})(tocha.zeros(2), 3)
    >>> module(tocha.zeros(2), 3)
    {'out': tensor([0., 0.])}
    """
    if dynamic_shapes is not None or constraints is not None:
        raise NotImplementedError("[export] dynamic_shapes: mark sizes with tocha._dynamo.mark_dynamic")
    function = eval_frame.innermost(f)

    def inner(*args: Any, **kwargs: Any) -> ExportResult:
        eval_frame.reset()
        seen = _Seen()
        dynamic = None if tracing_mode == "symbolic" else False
        result = eval_frame.compile(function, backend=seen, fullgraph=True, dynamic=dynamic)(*args, **kwargs)
        guards = _guards()
        eval_frame.reset()
        if seen.module is None:
            raise AssertionError("Failed to produce a graph during tracing as no tensor operations were found and same_signature is False.")  # fmt: skip
        module = _with_signature(function, seen, args, kwargs, result)
        if aten_graph:
            module = _aten(module, args, kwargs, decomposition_table)
        return ExportResult(module, guards)

    return inner(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else inner


def _guards() -> list[Any]:
    return [guards for code in convert.CODES.values() for _, guards, _, _ in tocha._C._capture.code_entries(code)]


def _with_signature(function: Any, seen: _Seen, args: tuple, kwargs: dict, result: Any) -> fx.GraphModule:
    """The captured graph between placeholders for the function's arguments and its result's structure."""
    flat, in_spec = pytree.tree_flatten((args, kwargs))
    results, out_spec = pytree.tree_flatten(result)
    root, graph = nn.Module(), fx.Graph()
    placeholders = [graph.placeholder(f"arg{i}") for i in range(len(flat))]
    given = {id(a): p for a, p in zip(reversed(flat), reversed(placeholders)) if isinstance(a, tocha.Tensor)}
    kept = _named_tensors(function)

    def input_node(value: Any) -> Any:
        if id(value) in given:
            return given[id(value)]
        if not isinstance(value, tocha.Tensor):
            raise UserError(UserErrorType.CONSTRAINT_VIOLATION, f"[export] {value} depends on a size: export with tracing_mode='real'")  # fmt: skip
        name = kept.get(id(value), f"_constant{len(list(root.buffers()))}").replace(".", "_")
        if not hasattr(root, name):
            if isinstance(value, nn.Parameter):
                root.register_parameter(name, value)
            else:
                root.register_buffer(name, value)
        return graph.get_attr(name)

    assert seen.module is not None
    inner = dict(zip(seen.module.graph.find_nodes(op="placeholder"), [input_node(v) for v in seen.inputs]))
    outputs = graph.graph_copy(seen.module.graph, inner)
    made = {id(v): n for v, n in zip(seen.results, outputs)} if isinstance(outputs, (tuple, list)) else {}
    graph.output([made.get(id(r), given.get(id(r), r)) if isinstance(r, tocha.Tensor) else r for r in results])
    graph._codegen = _PyTreeCodeGen(_PyTreeInfo(_names(function, args, kwargs), in_spec, out_spec))
    return fx.GraphModule(root, graph)


def _named_tensors(function: Any) -> dict[int, str]:
    owner = function if isinstance(function, nn.Module) else getattr(function, "__self__", None)
    if not isinstance(owner, nn.Module):
        return {}
    return {id(t): n for n, t in [*owner.named_buffers(), *owner.named_parameters()]}


def _names(function: Any, args: tuple, kwargs: dict) -> list[str]:
    """The arguments' names, as the function has them."""
    called = function.forward if isinstance(function, nn.Module) else function
    parameters = list(inspect.signature(called).parameters.values())
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = [plain[i] if i < len(plain) else f"arg{i}" for i in range(len(args))]
    return [*names, *kwargs]


def _aten(module: fx.GraphModule, args: tuple, kwargs: dict, table: Any) -> fx.GraphModule:
    """The same in terms of operators."""
    flat, spec = pytree.tree_flatten((args, kwargs))
    codegen = module.graph._codegen

    def call(*leaves: Any) -> Any:
        given, named = pytree.tree_unflatten(list(leaves), spec)
        return pytree.tree_leaves(module(*given, **named))

    made = make_fx(call, decomposition_table=table, tracing_mode="fake", _allow_non_fake_inputs=True)(*flat)
    made.graph._codegen = codegen
    made.recompile()
    return made
