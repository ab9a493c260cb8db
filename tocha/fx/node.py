"""A node of a graph: one call, one input, one attribute or the output, with its place in the graph's list and its users."""

from __future__ import annotations

import builtins
import operator
import types
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tocha
from tocha.fx._describe import describe_tensor
from tocha.fx._names import qualified_name
from tocha.fx.immutable_collections import immutable_dict, immutable_list
from tocha.fx.operator_schemas import ArgsKwargsPair, normalize_function, normalize_module
from tocha.overrides._overridable import _parameters

if TYPE_CHECKING:
    from tocha.fx.graph import Graph

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

Target = Callable[..., Any] | str
Argument = Any
LEGAL_OPS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
_legal_ops = dict.fromkeys(LEGAL_OPS)
base_types = (
    str, int, float, bool, complex, tocha.dtype, tocha.Tensor, tocha.device, tocha.memory_format, tocha.layout,
)  # fmt: skip
# Places in the list leave room for this many insertions at one point before they are numbered again.
_GAP = 1 << 40

_side_effectful_functions: set[Callable] = {
    operator.setitem, tocha._assert, tocha._C._set_grad_enabled, tocha.amp._enter_autocast, tocha.amp._exit_autocast,
}  # fmt: skip


def has_side_effect(fn: Callable) -> Callable:
    """Registers a function whose calls must stay though nobody uses their result.

    >>> import tocha.fx
    >>> @tocha.fx.has_side_effect
    ... def log(x):
    ...     print(x)
    >>> log.__name__
    'log'
    """
    _side_effectful_functions.add(fn)
    return fn


_LEAVES = frozenset([int, float, bool, complex, str, type(None)])


def map_aggregate(a: Argument, fn: Callable[[Argument], Argument]) -> Argument:
    """fn of everything inside tuples, lists, dicts and slices; lists and dicts become immutable ones."""
    kind = type(a)
    if kind is Node or kind in _LEAVES:
        return fn(a)
    if kind is tuple:
        return tuple([map_aggregate(x, fn) for x in a])
    if kind is immutable_list or isinstance(a, list):
        return immutable_list([map_aggregate(x, fn) for x in a])
    if isinstance(a, tuple):
        mapped = [map_aggregate(x, fn) for x in a]
        return kind(*mapped) if hasattr(a, "_fields") else tuple(mapped)
    if isinstance(a, dict):
        return immutable_dict([(k, map_aggregate(v, fn)) for k, v in a.items()])
    if kind is slice:
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a: Argument, fn: Callable[[Node], Argument]) -> Argument:
    """fn of every node inside an argument; everything else stays.

    >>> import tocha.fx
    >>> graph = tocha.fx.symbolic_trace(lambda x: x + 1).graph
    >>> node = list(graph.nodes)[1]
    >>> tocha.fx.node.map_arg(node.args, lambda n: n.name)
    ('x', 1)
    """
    if not callable(fn):
        raise AssertionError("tocha.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def _collect_nodes(a: Argument, found: dict[Node, None]) -> Argument:
    """An immutable copy of an argument; its nodes are added to found."""
    kind = type(a)
    if kind is Node:
        found[a] = None
        return a
    if kind in _LEAVES:
        return a
    if kind is tuple:
        return tuple([_collect_nodes(x, found) for x in a])
    if kind is list or kind is immutable_list:
        return immutable_list([_collect_nodes(x, found) for x in a])

    def visit(x: Argument) -> Argument:
        if isinstance(x, Node):
            found[x] = None
        return x

    return map_aggregate(a, visit)


def _format_arg(arg: object, max_list_len: float = float("inf")) -> str:
    """An argument as the lines of a printed graph show it: nodes with %, strings bare."""
    if hasattr(arg, "_custom_fx_repr_fn"):
        return arg._custom_fx_repr_fn()
    if isinstance(arg, list | tuple):
        shown = [_format_arg(a) for i, a in enumerate(arg) if i < max_list_len]
        more = ", ..." if len(arg) > max_list_len + 1 else ""
        inside = ", ".join(shown) + more
        if isinstance(arg, list):
            return f"[{inside}]"
        return f"({inside},)" if len(shown) == 1 else f"({inside})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {_format_arg(v)}" for k, v in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


def _type_repr(obj: object) -> str:
    """A type as one writes it: short for builtins, with its module otherwise."""
    if isinstance(obj, type) and not isinstance(obj, typing.types.GenericAlias):  # type: ignore[attr-defined]
        return obj.__qualname__ if obj.__module__ == "builtins" else f"{obj.__module__}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    return getattr(obj, "__name__", repr(obj)) if callable(obj) and hasattr(obj, "__code__") else repr(obj)


def _get_qualified_name(func: Callable[..., Any]) -> str:
    return qualified_name(func)


class Node:
    """One value of a graph.

    `op` says what kind: placeholder (an input), get_attr (a parameter or buffer), call_function, call_module, call_method,
    output. `target` is the function, or the name of the method, attribute or module. `args` and `kwargs` hold other nodes,
    possibly within lists, tuples, dicts and slices. Nodes are made by the methods of Graph.

    >>> import tocha
    >>> graph = tocha.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(tocha.relu, (x,))
    >>> y.format_node()
    '%relu : [num_users=0] = call_function[target=tocha.relu](args = (%x,), kwargs = {})'
    >>> list(x.users)
    [relu]
    """

    __slots__ = (
        "__dict__", "__weakref__", "_args", "_erased", "_input_nodes", "_kwargs", "_next", "_op", "_prev", "_repr_fn",
        "_sort_key", "_target", "graph", "meta", "name", "type", "users",
    )  # fmt: skip

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any | None = None,
    ) -> None:
        _check_target(graph, name, op, target)
        self.graph = graph
        self.name = name
        self._op = op
        self._target = target
        self._input_nodes: dict[Node, None] = {}
        self.users: dict[Node, None] = {}
        self.type = return_type
        self.meta: dict[str, Any] = {}
        self._repr_fn: Callable[[Node], str] | None = None
        self._erased = False
        self._prev = self._next = self
        self._sort_key = 0
        self._args: tuple[Argument, ...] = ()
        self._kwargs: dict[str, Argument] = immutable_dict()
        self._set_arguments(args, kwargs)

    # ---- what it computes ----

    def _set_op(self, op: str) -> None:
        self._move_in_index(op, self._target)

    def _set_target(self, target: Target) -> None:
        self._move_in_index(self._op, target)

    def _move_in_index(self, op: str, target: Target) -> None:
        indexed = self._erased is False and self._next is not self
        if indexed:
            self.graph._find_nodes_lookup_table.remove(self)
        self._op, self._target = op, target
        if indexed:
            self.graph._find_nodes_lookup_table.insert(self)

    op = property(operator.attrgetter("_op"), _set_op)
    target = property(operator.attrgetter("_target"), _set_target)

    def _set_args(self, args: tuple[Argument, ...]) -> None:
        self._set_arguments(args, self._kwargs)

    def _set_kwargs(self, kwargs: dict[str, Argument]) -> None:
        self._set_arguments(self._args, kwargs)

    args = property(operator.attrgetter("_args"), _set_args, doc="Positional arguments. Assigning updates all users.")
    kwargs = property(
        operator.attrgetter("_kwargs"), _set_kwargs, doc="Keyword arguments. Assigning updates all users."
    )

    def _set_arguments(self, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> None:
        found: dict[Node, None] = {}
        self._args = tuple([_collect_nodes(a, found) for a in args])
        self._kwargs = immutable_dict([(k, _collect_nodes(v, found)) for k, v in kwargs.items()])
        old = self._input_nodes
        self._input_nodes = found
        for n in old:
            if n not in found:
                n.users.pop(self, None)
        for n in found:
            n.users[self] = None

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        if not 0 <= idx <= len(self.args):
            raise AssertionError(f"insert_args index must be between 0 and len(self.args), got {idx}")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        self.kwargs = {**self.kwargs, key: arg}

    # ---- its place in the list ----

    @property
    def next(self) -> Node:
        """The node after this one; after the last stands the graph's root."""
        return self._next

    @property
    def prev(self) -> Node:
        return self._prev

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def _link_between(self, before: Node, after: Node) -> None:
        before._next = after._prev = self
        self._prev, self._next = before, after
        low = before._sort_key
        high = low + 2 * _GAP if after._op == "root" else after._sort_key
        if high - low < 2:
            self.graph._number_nodes()
        else:
            self._sort_key = (low + high) // 2

    def prepend(self, x: Node) -> None:
        """Puts node x before this one, wherever it stood."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._unlink()
        x._link_between(self._prev, self)

    def append(self, x: Node) -> None:
        """Puts node x after this one, wherever it stood."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is not x and self._next is not x:
            self._next.prepend(x)

    def __lt__(self, other: Node) -> bool:
        return self._sort_key < other._sort_key

    def __gt__(self, other: Node) -> bool:
        return self._sort_key > other._sort_key

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or self > other

    # ---- replacing ----

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Makes every user (for which delete_user_cb says yes) use another node; gives the users changed."""
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), "
                    "but replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = [u for u in self.users if delete_user_cb is None or delete_user_cb(u)]
        for user in changed:
            user._replace(self, replace_with)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Uses new_input wherever this node used old_input."""
        self._replace(old_input, new_input)

    def _replace(self, old: Node, new: Node) -> None:
        for hook in self.graph._replace_hooks():
            hook(old=old, new=new.name, user=self)

        def swap(n: Node) -> Node:
            return new if n is old else n

        self._set_arguments(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    # ---- what is known about it ----

    @property
    def stack_trace(self) -> str | None:
        """Where the program made this value, if tracing recorded it."""
        return self.meta.get("stack_trace", None)

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it must stay though nobody uses it."""
        if self._op in ("placeholder", "output"):
            return True
        if self._op == "call_function":
            return self._target in _side_effectful_functions or _has_effect(self._target, impure_random)
        if self._op == "call_method":
            return False
        if self._op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            module = owner.get_submodule(self._target)  # type: ignore[arg-type]
            if module is None:
                raise AssertionError(f"Did not find expected submodule target {self._target}")
            return getattr(module, "_is_impure", False)
        return False

    def normalized_arguments(
        self,
        root: Any,
        arg_types: tuple[Any] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> ArgsKwargsPair | None:
        """The arguments in the order of the callee's signature, defaults filled in; None where that is not known."""
        return _normalize(self, root, arg_types, kwarg_types, normalize_to_only_use_kwargs)

    # ---- text ----

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    @staticmethod
    def _pretty_print_target(target: object) -> str:
        if isinstance(target, str):
            return target
        if not hasattr(target, "__name__"):
            return str(target)
        name = qualified_name(target).replace("_operator.", "operator.")
        return f"builtins.{name}" if getattr(builtins, name, None) is target else name

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """One line about the node. With the two lists, inputs and the return type go there instead (as Graph prints)."""
        if self._op == "placeholder" and placeholder_names is not None:
            arg = f"{self._target}: {_type_repr(self.type)}" if self.type else str(self._target)
            placeholder_names.append(arg + (f"={self._args[0]}" if self._args else ""))
            return None
        if self._op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
            return f"return {self._args[0]}"
        kind = f"{_type_repr(self.type)} " if self.type else ""
        metadata = _metadata(self) if include_tensor_metadata else ""
        head = f"%{self.name} : {kind}{metadata}[num_users={len(self.users)}] = {self._op}"
        if self._op == "placeholder":
            default = f"(default={self._args[0]})" if self._args else ""
            return f"{head}[target={self._target}]{default}"
        if self._op == "get_attr":
            return f"{head}[target={self._pretty_print_target(self._target)}]"
        arguments = f"(args = {_format_arg(self._args)}, kwargs = {_format_arg(self._kwargs)})"
        return f"{head}[target={self._pretty_print_target(self._target)}]{arguments}"

    def _rename(self, candidate: str) -> None:
        if candidate == self.name:
            return
        self.name = self.graph._graph_namespace.create_name(candidate, None)
        self.graph._graph_namespace._rename_object(self, self.name)

    def __reduce__(self) -> Any:
        # The list is written by the graph, node after node: following it from here would nest as deep as it is long.
        return _node_of_graph, (self.graph, self.name)


def _node_of_graph(graph: Graph, name: str) -> Node:
    return next(n for n in graph.nodes if n.name == name)


def _check_target(graph: Graph, name: str, op: str, target: Target) -> None:
    if op not in _legal_ops:
        raise AssertionError(f"op {op!r} is not in _legal_ops")
    if op == "call_function":
        if not callable(target):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {_typename(target)} "
                "but a Callable is expected"
            )
    elif not isinstance(target, str):
        raise ValueError(
            f"Node [graph = {graph}, name = '{name}'] target {target} has type {_typename(target)} but a str is expected"
        )


def _typename(x: object) -> str:
    module = type(x).__module__
    return type(x).__qualname__ if module == "builtins" else f"{module}.{type(x).__qualname__}"


def _metadata(node: Node) -> str:
    value = node.meta.get("val", node.meta.get("tensor_meta"))
    text = describe_tensor(value, include_stride=True, include_device=True) if value is not None else ""
    return f'Tensor "{text}"' if text else ""


def _has_effect(function: Any, impure_random: bool) -> bool:
    """Operator handles say in their schema whether they write or have no result, and in their tags whether they draw random numbers;
    other functions of random numbers take a generator."""
    schema = getattr(function, "_schema", None)
    if schema is None:
        is_native = isinstance(function, types.BuiltinFunctionType)
        return impure_random and is_native and any("Generator" in p for p in _parameters(function))
    random = impure_random and any(str(t).rpartition(".")[2] == "nondeterministic_seeded" for t in function.tags)
    return bool(schema.is_mutable) or not schema._returns or random


def _normalize(node: Node, root: Any, arg_types: Any, kwarg_types: Any, only_kwargs: bool) -> ArgsKwargsPair | None:
    if node.op == "call_function":
        return normalize_function(node.target, node.args, node.kwargs, arg_types, kwarg_types, only_kwargs)  # type: ignore[arg-type]
    if node.op == "call_module":
        return normalize_module(root, node.target, node.args, node.kwargs, only_kwargs)
    return None
