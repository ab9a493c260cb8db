"""Graph: a list of nodes in the order they run, with an index by target and unique names for its values."""

from __future__ import annotations

import contextlib
import copy
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import tocha
import tocha.fx.node as node_file
from tocha.fx._codegen import (
    CUSTOM_BUILTINS as _custom_builtins,
)
from tocha.fx._codegen import (
    INPLACE_METHODS as inplace_methods,
)
from tocha.fx._codegen import (
    MAGIC_METHODS as magic_methods,
)
from tocha.fx._codegen import (
    REFLECTABLE_MAGIC_METHODS as reflectable_magic_methods,
)
from tocha.fx._codegen import (
    BoxedCodeGen,
    CodeGen,
    CustomBuiltin,
    PythonCode,
    PyTreeCodeGen,
    PyTreeInfo,
    format_target,
    parse_stack_trace,
    temporary_reprs,
)
from tocha.fx._describe import dtype_abbrs
from tocha.fx._names import Namespace, is_magic, snake_case
from tocha.fx.immutable_collections import immutable_dict
from tocha.fx.node import _GAP, Argument, Node, Target, map_arg
from tocha.nn import _Module as Module

if TYPE_CHECKING:
    from tocha.fx.graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]

# The names these have in PyTorch, where passes and backends import them from.
_BoxedCodeGen, _PyTreeCodeGen, _PyTreeInfo = BoxedCodeGen, PyTreeCodeGen, PyTreeInfo
_CustomBuiltin, _Namespace, _format_target, _parse_stack_trace = (
    CustomBuiltin,
    Namespace,
    format_target,
    parse_stack_trace,
)
_snake_case, _is_magic = snake_case, is_magic
_ALSO = (dtype_abbrs, inplace_methods, magic_methods, reflectable_magic_methods)

TransformCodeFunc = Callable[[list[str]], list[str]]


def _register_custom_builtin(name: str, import_str: str, obj: Any) -> None:
    """A name that all generated code may use."""
    _custom_builtins[name] = CustomBuiltin(import_str, obj)


class _InsertPoint:
    """Until the end of a `with` block (or for good, without one) new nodes go to another place."""

    def __init__(self, graph: Graph, new_insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self.orig_insert, graph._insert = graph._insert, new_insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        self.graph._insert = self.orig_insert


class _node_list:
    """The nodes of a graph in order. Nodes may be erased, inserted and moved while one iterates."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        if direction not in ("_next", "_prev"):
            raise AssertionError(f"direction must be '_next' or '_prev', got {direction}")
        self.graph = graph
        self.direction = direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        # An erased node still knows what came after it, so that one can go on from there.
        if self.direction == "_next":
            node = root._next
            while node is not root:
                if not node._erased:
                    yield node
                node = node._next
        else:
            node = root._prev
            while node is not root:
                if not node._erased:
                    yield node
                node = node._prev

    def __reversed__(self) -> Iterator[Node]:
        return iter(_node_list(self.graph, "_next" if self.direction == "_prev" else "_prev"))


class _FindNodesLookupTable:
    """Nodes by kind; functions by kind and target."""

    def __init__(self) -> None:
        self.table: dict[tuple[str, Target | None], dict[Node, None]] = {}

    def _key(self, node: Node) -> tuple[str, Target | None]:
        return node._op, node._target if node._op == "call_function" else None

    def __contains__(self, node: Node) -> bool:
        return node in self.table.get(self._key(node), ())

    def insert(self, node: Node) -> None:
        key = self._key(node)
        found = self.table.get(key)
        if found is None:
            found = self.table[key] = {}
        found[node] = None

    def remove(self, node: Node) -> None:
        self.table[self._key(node)].pop(node)

    def find_nodes(self, *, op: str, target: Target | None = None) -> list[Node]:
        if op == "call_function":
            if target is None:
                raise AssertionError("target must not be None for call_function op")
            return list(self.table.get((op, target), ()))
        found = self.table.get((op, None), {})
        return list(found) if target is None else [n for n in found if n._target == target]


class Graph:
    """A program: inputs, calls and an output, each a Node.

    >>> import tocha
    >>> graph = tocha.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_method("relu", (x,))
    >>> _ = graph.output(y)
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %relu : [num_users=1] = call_method[target=relu](args = (%x,), kwargs = {})
        return relu
    >>> print(graph.python_code("self").src.strip())
    def forward(self, x):
        relu = x.relu();  x = None
        return relu
    """

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._graph_namespace = Namespace()
        self._owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen: CodeGen = CodeGen()
        self._co_fields: dict[str, Any] = {}
        self._find_nodes_lookup_table = _FindNodesLookupTable()

    # ---- the list ----

    @property
    def owning_module(self) -> GraphModule | None:
        """The GraphModule that runs this graph, if there is one."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, module: GraphModule | None) -> None:
        self._owning_module = module

    @property
    def nodes(self) -> _node_list:
        return _node_list(self)

    def output_node(self) -> Node:
        node = next(iter(reversed(self.nodes)))
        if node.op != "output":
            raise AssertionError(f"Expected output node, got op={node.op}")
        return node

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of a kind, or with a target, without looking at all of them; in the graph's order unless sort=False."""
        found = self._find_nodes_lookup_table.find_nodes(op=op, target=target)
        return sorted(found) if sort else found

    def _number_nodes(self) -> None:
        """Gives every node a new place to compare by, with room between."""
        for i, n in enumerate(self.nodes, 1):
            n._sort_key = i * _GAP

    def _replace_hooks(self) -> list[Callable]:
        return getattr(self._owning_module, "_replace_hooks", None) or []

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.meta.clear()
            self.erase_node(node)

    # ---- making nodes ----

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Adds a node at the insertion point: the end, unless inserting_before or inserting_after changed it."""
        if op not in ("call_function", "call_method", "get_attr", "call_module", "placeholder", "output"):
            raise AssertionError(f"op {op!r} is not in _legal_ops")
        args = () if args is None else args
        kwargs = {} if kwargs is None else kwargs
        if not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        unique = self._graph_namespace.create_name(name if name is not None else self._target_to_str(target), None)
        node = Node(self, unique, op, target, args, kwargs, type_expr)
        self._graph_namespace.associate_name_with_obj(unique, node)
        self._insert(node)
        self._find_nodes_lookup_table.insert(node)
        self._len += 1
        for hook in getattr(self._owning_module, "_create_node_hooks", None) or ():
            hook(node)
        return node

    def _target_to_str(self, target: Target | None) -> str:
        if isinstance(target, str):
            name = target[2:-2] if is_magic(target) else target
        else:
            name = getattr(target, "__name__", None) or type(target).__name__
            name = name[2:-2] if is_magic(name) else name
        return snake_case(name)

    def placeholder(
        self, name: str, type_expr: Any | None = None, default_value: Any = inspect.Parameter.empty
    ) -> Node:
        """Adds an input."""
        args = () if default_value is inspect.Parameter.empty else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any | None = None) -> Node:
        """Adds the reading of a parameter, buffer or constant: "layer.weight"."""
        self._warn_unless_there(qualified_name)
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def _warn_unless_there(self, qualified_name: str) -> None:
        module: Any = self._owning_module
        if module is None:
            return
        parent, _, name = qualified_name.rpartition(".")
        try:
            found = hasattr(module.get_submodule(parent), name)
        except AttributeError:
            found = False
        if not found:
            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the necessary "
                "Parameter, or nn.Module.register_buffer to add the necessary buffer",
                stacklevel=3,
            )

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Adds the call of a submodule."""
        if self._owning_module is not None:
            self._owning_module.get_submodule(module_name)  # raises if it is not there
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Adds the call of a method of args[0]."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
        name: str | None = None,
    ) -> Node:
        """Adds the call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result: Argument, type_expr: Any | None = None) -> Node:
        """Adds what the program returns."""
        return self.create_node("output", "output", args=(result,), type_expr=type_expr)

    def create_size_node(self, tensor_node: Node, dim: int) -> Node:
        return self.call_method("size", (tensor_node, dim))

    def create_stride_node(self, tensor_node: Node, dim: int) -> Node:
        return self.call_method("stride", (tensor_node, dim))

    def create_storage_offset_node(self, tensor_node: Node) -> Node:
        return self.call_method("storage_offset", (tensor_node,))

    # ---- where nodes go ----

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go before n (before everything, without n): `with graph.inserting_before(n): ...`."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go right after n (to the end, without n)."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    # ---- taking nodes away, copying ----

    def erase_node(self, to_erase: Node) -> None:
        """Removes a node that nobody uses."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in getattr(self._owning_module, "_erase_node_hooks", None) or ():
            hook(to_erase)
        self._find_nodes_lookup_table.remove(to_erase)
        to_erase._unlink()
        to_erase._erased = True
        self._len -= 1
        to_erase._set_arguments((), {})

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x) -> Node:
        """Adds a copy of a node of another graph; arg_transform says which nodes its arguments become."""
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        if not isinstance(args, tuple):
            raise AssertionError(f"Expected tuple, got {type(args)}")
        result = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        result.meta = node.meta.copy()
        return result

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Argument | None:
        """Adds copies of all nodes of a graph but its output; gives what that graph returns, in terms of the copies.

        val_map says which nodes stand for which already, and knows all copies in the end.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        memo = {} if memo is None else memo
        g = Graph(tracer_cls=self._tracer_cls)
        memo[id(self)] = g
        val_map: dict[Node, Node] = {}
        found = g.graph_copy(self, val_map, return_output_node=True)
        g._codegen = copy.deepcopy(self._codegen)
        g._co_fields = dict(self._co_fields)
        if found is not None:
            result, old = found
            output = g.output(result, type_expr=getattr(old, "type", None))
            output.meta = copy.copy(old.meta)
            g._rename_like(output, old)
        memo.update({id(old): new for old, new in val_map.items()})
        return g

    def _rename_like(self, node: Node, other: Node) -> None:
        if node.name != other.name:
            node._rename(other.name)

    def __getstate__(self) -> dict[str, Any]:
        """Nodes one after the other: following their links instead would nest as deep as the graph is long."""
        numbers = {n: i for i, n in enumerate(self.nodes)}

        def number(a: Argument) -> Argument:
            return map_arg(a, lambda n: _NodeNumber(numbers[n]))

        rows = [(n.op, n.target, number(n.args), number(n.kwargs), n.name, n.type, n.meta, vars(n)) for n in self.nodes]
        state = {k: v for k, v in vars(self).items() if k not in _DERIVED}
        return {"state": state, "rows": rows}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        Graph.__init__(self)
        nodes: list[Node] = []

        def node_of(a: Argument) -> Argument:
            return map_arg_where(a, _NodeNumber, lambda n: nodes[n.number])

        for op, target, args, kwargs, name, kind, meta, extra in saved["rows"]:
            node = self.create_node(op, target, node_of(args), dict(node_of(kwargs)), name, kind)
            node.meta = meta
            vars(node).update(extra)
            nodes.append(node)
        vars(self).update(saved["state"])

    # ---- checking and cleaning ----

    def lint(self) -> None:
        """Raises where the graph is not well formed: order, ownership, names, targets of its owning module."""
        seen: set[Node] = set()
        names: set[str] = set()

        def check_argument(arg: Node, user: Node) -> None:
            if arg.graph is not self:
                raise RuntimeError(
                    f"Argument '{arg}' of Node '{user}' does not belong to this Graph, but was used as an argument! If you "
                    f"are copying nodes from another graph, make sure to use ``arg_transform`` on node_copy() to remap "
                    f"values\n{self}"
                )
            if arg not in seen:
                raise RuntimeError(
                    f"Argument '{arg}' of Node '{user}' was used before it has been defined! Please check that Nodes in the "
                    f"graph are topologically ordered\n{self}"
                )

        for node in self.nodes:
            if node.op not in _CHECKED_OPS:
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            if node not in self._find_nodes_lookup_table:
                raise RuntimeError(f"Node '{node}' is not added to the side table")
            for arg in node._input_nodes:
                check_argument(arg, node)
            for user in node.users:
                if user._erased or node not in user._input_nodes:
                    raise RuntimeError(f"Node '{user}' is listed as a user of '{node}' but does not use it")
            seen.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
        if self._owning_module is not None:
            self._lint_targets()

    def _lint_targets(self) -> None:
        for node in self.nodes:
            if node.op in ("get_attr", "call_module"):
                _check_reference(self._owning_module, node)
            elif node.op == "call_function" and not callable(node.target):
                raise ValueError(
                    f"Node {node} target {node.target} has type {type(node.target)} but a Callable is expected"
                )

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Removes what nobody uses and has no effect, here and in the graphs of submodules. Says whether there was any.

        >>> import tocha
        >>> def f(x):
        ...     unused = x + 1
        ...     return x * 2
        >>> graph = tocha.fx.symbolic_trace(f).graph
        >>> graph.eliminate_dead_code()
        True
        >>> list(graph.nodes)
        [x, mul, output]
        """
        self.lint()
        impure = is_impure_node or Node.is_impure
        changed = False
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
                changed = True
        for child in self._owning_module.children() if self._owning_module is not None else ():
            inner = getattr(child, "graph", None)
            if isinstance(inner, Graph):
                changed |= inner.eliminate_dead_code(is_impure_node)
        return changed

    # ---- text ----

    def set_codegen(self, codegen: CodeGen) -> None:
        self._codegen = codegen

    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> contextlib.AbstractContextManager[None]:
        """Passes the lines of generated code through a function: make_transformer gets the one that was there.

        As a context manager it ends with the block.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextlib.contextmanager
        def restoring() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return restoring()

    def process_inputs(self, *args: Any) -> Any:
        """The values of the placeholders, from the arguments of the generated function."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        return self._codegen.process_outputs(out)

    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        """The graph as the text of a function; root_module is what that function calls its module: "self"."""
        namespace = Namespace()
        names = {n: namespace.create_name(n.name, n) for n in self.nodes}
        with temporary_reprs(self.nodes, names.__getitem__):
            return self._codegen._gen_python_code(
                self.nodes,
                root_module,
                namespace,
                verbose=verbose,
                include_stride=include_stride,
                include_device=include_device,
                colored=colored,
                expanded_def=expanded_def,
                record_func=record_func,
                additional_meta=additional_meta,
            )

    def __str__(self) -> str:
        """One line per node."""
        return "graph():" + "".join(f"\n    {n.format_node()}" for n in self.nodes)

    def print_tabular(self) -> None:
        """Prints the nodes as a table."""
        rows = [[n.op, n.name, str(n.target), str(n.args), str(n.kwargs)] for n in self.nodes]
        print(_table(["opcode", "name", "target", "args", "kwargs"], rows))

    def __repr__(self) -> str:
        return object.__repr__(self)


_CHECKED_OPS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output")
# Not pickled: made again with the nodes.
_DERIVED = ("_root", "_insert", "_len", "_graph_namespace", "_find_nodes_lookup_table", "_owning_module")


class _NodeNumber:
    """Stands for a node in a pickled graph."""

    def __init__(self, number: int) -> None:
        self.number = number


def map_arg_where(a: Argument, kind: type, fn: Callable[[Any], Argument]) -> Argument:
    """fn of every value of a kind inside an argument."""
    if isinstance(a, kind):
        return fn(a)
    if isinstance(a, tuple) and hasattr(a, "_fields"):
        return type(a)(*[map_arg_where(x, kind, fn) for x in a])
    if isinstance(a, list | tuple):
        return type(a)([map_arg_where(x, kind, fn) for x in a])
    if isinstance(a, dict):
        return immutable_dict([(k, map_arg_where(v, kind, fn)) for k, v in a.items()])
    if isinstance(a, slice):
        return slice(*[map_arg_where(x, kind, fn) for x in (a.start, a.stop, a.step)])
    return a


def _check_reference(owner: Any, node: Node) -> None:
    """That every step of a dotted target leads to something."""
    place = owner
    path = ""
    atoms = node.target.split(".")
    for i, atom in enumerate(atoms):
        if not hasattr(place, atom):
            raise RuntimeError(f"Node {node} target {node.target} references nonexistent attribute {atom} of {path}")
        found = getattr(place, atom)
        path = f"{path}.{atom}" if path else atom
        if node.op == "call_module" and not isinstance(found, Module):
            raise RuntimeError(f"Node {node} target {node.target} {path} of {path} does not reference an nn.Module")
        if i == len(atoms) - 1 and node.op == "get_attr" and not _is_readable(place, found, atom):
            warnings.warn(
                f"Node {node} target {node.target} {path} of {path} does not reference an nn.Module, nn.Parameter, or buffer, "
                "which is what 'get_attr' Nodes typically target",
                stacklevel=4,
            )
        place = found


def _is_readable(owner: Any, value: Any, name: str) -> bool:
    return isinstance(value, Module | tocha.nn.Parameter) or name in getattr(owner, "_buffers", ())


def _table(header: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(r[i]) for r in [header, *rows]) for i in range(len(header))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip() for r in [header, *rows]]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(lines)


node_file.Graph = Graph  # type: ignore[misc]  # annotations there name it
