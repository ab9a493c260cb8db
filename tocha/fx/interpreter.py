"""Interpreter: runs a graph node by node, so that every step can be overridden. Transformer: the same, making a new graph."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import tocha.fx.traceback as fx_traceback
from tocha.fx._codegen import last_uses
from tocha.fx._symbolic_trace import Tracer
from tocha.fx.graph import Graph
from tocha.fx.graph_module import GraphModule
from tocha.fx.node import Argument, Node, Target, map_aggregate, map_arg
from tocha.fx.proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a graph. Methods named after the kinds of nodes do the work; override them to do something else.

    >>> import tocha
    >>> class Neg(tocha.fx.Interpreter):
    ...     def call_function(self, target, args, kwargs):
    ...         return -super().call_function(target, args, kwargs)
    >>> module = tocha.fx.symbolic_trace(lambda x: tocha.relu(x))
    >>> Neg(module).run(tocha.ones(2))
    tensor([-1., -1.])
    """

    def __init__(self, module: Any, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module = module
        self.submodules = dict(self.module.named_modules())
        self.graph = graph if graph is not None else self.module.graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses = last_uses(self.graph.nodes) if garbage_collect_values else {}

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """The graph's result for these arguments. Nodes in initial_env have their value already."""
        self.env = initial_env if initial_env is not None else {}
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter: Iterator[Any] = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    _explain(error, node)
                raise
            for dead in self.user_to_last_uses.get(node, ()):
                del self.env[dead]
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """The same with the arguments in a list, which is emptied so that they can be freed on the way."""
        placeholders = [n for n in self.graph.nodes if n.op == "placeholder"]
        env = dict(zip(placeholders, args_list, strict=True))
        args_list.clear()
        return self.run(initial_env=env)

    @contextlib.contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        with fx_traceback.set_current_meta(node, f"Interpreter_{self.__class__.__name__}"):
            yield

    def run_node(self, n: Node) -> Any:
        """The value of one node, from the values in env."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The next argument; all that are left for *args; the default where there is none left."""
        if not isinstance(target, str):
            raise AssertionError(f"Expected str, got {type(target)}")
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        if not isinstance(target, str):
            raise AssertionError(f"Expected str, got {type(target)}")
        return self.fetch_attr(target)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(target, str):
            raise AssertionError(f"Expected callable, got str: {target}")
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        if not isinstance(target, str):
            raise AssertionError(f"Expected str, got {type(target)}")
        owner, *rest = args
        return getattr(owner, target)(*rest, **kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        if not isinstance(target, str):
            raise AssertionError(f"Expected str, got {type(target)}")
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """What stands at a dotted path of the module."""
        found = self.module
        atoms = target.split(".")
        for i, atom in enumerate(atoms):
            if not hasattr(found, atom):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(atoms[: i + 1])}")
            found = getattr(found, atom)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple, dict]:
        """The arguments of a node with values in the places of nodes."""
        args = self.map_nodes_to_values(n.args, n)
        kwargs = self.map_nodes_to_values(n.kwargs, n)
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError(f"Expected a tuple and a dict, got {type(args)} and {type(kwargs)}")
        return args, kwargs

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        def value(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[node]

        return map_arg(args, value)


def _explain(error: Exception, node: Node) -> None:
    """Says in the error's message which node was running, and which line of the program it comes from."""
    text = f"While executing {node.format_node()}"
    if node.graph.owning_module is not None and node.stack_trace:
        text += f"\nOriginal traceback:\n{node.stack_trace}"
    text = f"{error.args[0]}\n\n{text}" if error.args else text
    error.args = (text, *error.args[1:])
    if isinstance(error, KeyError):
        raise RuntimeError(*error.args) from error


class Transformer(Interpreter):
    """An interpreter whose values are proxies: what its methods do makes a new module.

    >>> import tocha
    >>> class SigmoidForRelu(tocha.fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         return super().call_function(tocha.sigmoid if target is tocha.relu else target, args, kwargs)
    >>> module = tocha.fx.symbolic_trace(lambda x: tocha.relu(x))
    >>> print(SigmoidForRelu(module).transform().code.strip())
    def forward(self, x):
        sigmoid = tocha.sigmoid(x);  x = None
        return sigmoid
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)

        class TransformerTracer(Tracer):
            def __init__(self, graph: Graph) -> None:
                super().__init__()
                self.graph = graph
                self.tensor_attrs: dict[Any, str] = {}

            def is_leaf_module(self, _: Any, __: str) -> bool:
                return True

        self.tracer = TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        if not isinstance(target, str):
            raise AssertionError(f"Expected str, got {type(target)}")
        default = args[0] if args else inspect.Parameter.empty
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        if not isinstance(target, str):
            raise AssertionError(f"Expected str, got {type(target)}")
        submodule = self.fetch_attr(target)
        return self.tracer.call_module(submodule, submodule.forward, args, kwargs)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        if not callable(target):
            raise AssertionError(f"Expected callable, got {target}")
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The new module."""
        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            output = self.new_graph.output(map_aggregate(result, lambda a: a.node if isinstance(a, Proxy) else a))
            output.meta.update(self.graph.output_node().meta)
        return _transformed(self.module, self.new_graph)


def _transformed(module: GraphModule, graph: Graph) -> GraphModule:
    return GraphModule(module, graph, module._get_name() if isinstance(module, GraphModule) else "GraphModule")
