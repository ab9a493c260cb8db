"""Proxies: stand-ins for values while a program is traced. What is done to them becomes nodes of a graph."""

from __future__ import annotations

import collections
import copy
import dis
import enum
import inspect
import operator
import sys
import traceback
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import tocha
import tocha.fx.traceback as fx_traceback
from tocha.fx._names import is_tensor_method
from tocha.fx.graph import Graph, magic_methods, reflectable_magic_methods
from tocha.fx.node import Argument, Node, Target, base_types
from tocha.fx.operator_schemas import check_for_mutable_operation

__all__ = [
    "Attribute", "GraphAppendingTracer", "MetaProxy", "ParameterProxy", "Proxy", "Scope", "ScopeContextManager",
    "TraceError", "TracerBase",
]  # fmt: skip

_FX_FILES = (__file__.rpartition("/")[0] + "/",)
_COPIED_META = ("nn_module_stack", "source_fn_stack", "custom", "seq_nr", "torch_fn", "from_node")


class TraceError(ValueError):
    """A program cannot be traced: what it does depends on values."""


class Scope:
    """The module whose forward is being traced: its path and its class."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


class ScopeContextManager:
    """Within the block the tracer's scope is another module."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope = scope
        self._before = copy.copy(scope)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *exc: object) -> None:
        self._scope.module_path = self._before.module_path
        self._scope.module_type = self._before.module_type


class TracerBase:
    """What every tracer does: nodes from calls, arguments from values."""

    graph: Graph
    record_stack_traces: bool = False
    _record_forward_stack_traces_only: bool = False
    # Refuses functions that write to their arguments.
    check_mutable_operations: bool = False
    # Makes `assert` on traced values a node instead of an error.
    trace_asserts: bool = False
    # Makes reading a buffer a node, as reading a parameter is.
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, type]]

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Adds a node and notes where it comes from. Subclasses override it to see every node."""
        if kind == "call_function" and self.check_mutable_operations:
            check_for_mutable_operation(target, args, kwargs)  # type: ignore[arg-type]
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if fx_traceback.has_preserved_node_meta():
            current = fx_traceback.get_current_meta()
            if trace := current.get("stack_trace"):
                node.stack_trace = trace
            node.meta.update({k: copy.copy(current[k]) for k in _COPIED_META if k in current})
        elif self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        return node

    def proxy(self, node: Node) -> Proxy:
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Adds a node for a call with proxies and constants as arguments, and gives its proxy."""
        args_ = self.create_arg(args)
        kwargs_ = self.create_arg(kwargs)
        node = self.create_node(kind, target, args_, kwargs_, name, type_expr)
        proxy = proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)
        if self.record_stack_traces and node.stack_trace is None:
            node.stack_trace = "".join(self._user_stack())
        return proxy

    def _user_stack(self) -> list[str]:
        """The lines of the program that lead to this node, without those of the tracer."""
        summary = traceback.extract_stack(sys._getframe(2))
        return traceback.StackSummary.from_list([f for f in summary if not f.filename.startswith(_FX_FILES)]).format()

    def _find_user_frame(self) -> types.FrameType | None:
        """The innermost frame that does not belong to tracing."""
        frame = inspect.currentframe()
        while frame and frame.f_code.co_filename.startswith(_FX_FILES):
            frame = frame.f_back
        return frame

    def create_arg(self, a: Any) -> Argument:
        """A value as an argument of a node: proxies become their nodes, containers are gone through."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            if hasattr(a, "_fields"):
                # Nodes keep no named tuples of nodes: making one is a call.
                return self.create_node("call_function", type(a), tuple(self.create_arg(x) for x in a), {})
            return tuple([self.create_arg(x) for x in a])
        if isinstance(a, list):
            return [self.create_arg(x) for x in a]
        if isinstance(a, dict):
            return {self._key(k): self.create_arg(v) for k, v in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(a.start, a.stop, a.step)
        if is_dataclass(a) and not isinstance(a, type):
            values = {f.name: self.create_arg(getattr(a, f.name)) for f in fields(a)}
            return self.create_node("call_function", type(a), (), values)
        if isinstance(a, (*base_types, enum.Enum)) or a is None or a is ... or _is_symbol(a):
            return a
        if hasattr(a, "_schema") and callable(a):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _key(self, key: Any) -> Any:
        found: list[Proxy] = []
        _find_proxies(key, found)
        if found:
            shown = self.create_arg(key)
            raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {shown}")
        return self.create_arg(key)

    def to_bool(self, obj: Proxy) -> bool:
        """Called where a program asks whether a traced value is true."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator:
        """Called where a program iterates over a traced value."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument. See the tocha.fx docs for a more detailed explanation of what types of control "
            "flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy iteration errors"
        )

    def keys(self, obj: Proxy) -> Any:
        """Called where a program asks a traced value for its keys, as `**x` does."""
        return Attribute(obj, "keys")()


def _is_symbol(a: object) -> bool:
    return type(a).__name__ in ("SymInt", "SymFloat", "SymBool") and type(a).__module__.startswith("tocha")


def _find_proxies(value: Any, found: list[Proxy]) -> None:
    if isinstance(value, Proxy):
        found.append(value)
    elif isinstance(value, list | tuple):
        for v in value:
            _find_proxies(v, found)
    elif isinstance(value, dict):
        for k, v in value.items():
            _find_proxies(k, found)
            _find_proxies(v, found)
    elif isinstance(value, slice):
        _find_proxies((value.start, value.stop, value.step), found)


class GraphAppendingTracer(TracerBase):
    """Adds to a graph that exists: what a Proxy made by hand uses."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}


class Proxy:
    """Stands for the value of a node. Operators, methods, attributes and tocha functions of it add nodes.

    Asking for its truth, its length or its elements raises: a trace has no values. Unpacking into a known number of names
    works (`a, b = x`).

    >>> import tocha
    >>> graph = tocha.fx.Graph()
    >>> x = tocha.fx.Proxy(graph.placeholder("x"))
    >>> y = tocha.relu(x + 1).sum(dim=0)
    >>> list(graph.nodes)
    [x, add, relu, sum_1]
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        return Attribute(self, k)

    def __getstate__(self) -> dict:
        return self.__dict__

    def __setstate__(self, d: dict) -> None:
        self.__dict__ = d

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        copied = type(self).__new__(type(self))
        copied.__dict__.update(
            {k: copy.deepcopy(v, memo) for k, v in self.__dict__.items() if k not in ("node", "tracer")}
        )
        copied.__dict__.update(node=self.__dict__["node"], tracer=self.__dict__["tracer"])
        return copied

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Proxy]:
        frame = inspect.currentframe()
        calling = frame.f_back if frame else None
        if calling is None:
            raise AssertionError("No calling frame")
        instruction = _instruction_at(calling)
        if instruction is not None and instruction.opname == "UNPACK_SEQUENCE":
            return (
                self.tracer.create_proxy("call_function", operator.getitem, (self, i), {})
                for i in range(instruction.arg or 0)
            )
        return self.tracer.iter(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts:
            frame = inspect.currentframe()
            calling = frame.f_back if frame else None
            if calling is not None and _decides_an_assert(calling):
                self.tracer.create_proxy("call_function", tocha._assert, (self, None), {})
                return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "tocha.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable,
        types: tuple[type, ...],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        args, kwargs = args or (), kwargs or {}
        found: list[Proxy] = []
        _find_proxies((args, kwargs), found)
        tracers = {id(p.tracer): p.tracer for p in found}
        if len(tracers) != 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers.values())} while trying to trace operations {orig_method}"
            )
        tracer = next(iter(tracers.values()))
        name = getattr(orig_method, "__name__", "")
        if name in ("__get__", "__set__") and inspect.ismethodwrapper(orig_method):
            field = orig_method.__self__.__name__  # type: ignore[attr-defined]
            return tracer.create_proxy("call_function", getattr, (args[0], field), {})
        if is_tensor_method(orig_method):
            return tracer.create_proxy("call_method", _METHOD_OF_SLOT.get(name, name), args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs, name=tracer.graph._target_to_str(name))


# Comparisons arrive as the slots of Tensor; a graph says the method's name.
_METHOD_OF_SLOT = {f"__{n}__": n for n in ("eq", "ne", "lt", "le", "gt", "ge")}


def _instruction_at(frame: types.FrameType) -> dis.Instruction | None:
    return next((i for i in dis.get_instructions(frame.f_code) if i.offset == frame.f_lasti), None)


def _decides_an_assert(frame: types.FrameType) -> bool:
    """Whether the bytecode jumps over the raising of an AssertionError if this value is true."""
    after = [i for i in dis.get_instructions(frame.f_code) if i.offset >= frame.f_lasti and i.opname != "CACHE"]
    names = [i.opname for i in after[:4]]
    jump = next((k for k, n in enumerate(names) if n.startswith("POP_JUMP") and n.endswith("IF_TRUE")), None)
    if jump is None or jump + 1 >= len(after):
        return False
    raised = after[jump + 1]
    return raised.opname == "LOAD_ASSERTION_ERROR" or (
        raised.opname == "LOAD_COMMON_CONSTANT" and raised.argrepr == "AssertionError"
    )


class MetaProxy(Proxy):
    """A proxy that also runs what is done to it, on the meta values of its node."""

    def __init__(self, node: Node, tracer: TracerBase | None = None, fake_mode: Any = None) -> None:
        super().__init__(node, tracer)
        self.fake_mode = fake_mode

    def __repr__(self) -> str:
        return f"MetaProxy({self.node.name})"

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable,
        types: tuple[type, ...],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        args, kwargs = args or (), kwargs or {}
        found: list[Proxy] = []
        _find_proxies((args, kwargs), found)
        modes = [p.fake_mode for p in found if isinstance(p, MetaProxy)]
        if not modes:
            raise AssertionError("Expected at least one MetaProxy in args")
        plain = super().__torch_function__(orig_method, types, args, kwargs)
        result = MetaProxy(plain.node, plain.tracer, modes[0])
        fx_args, fx_kwargs = _values(args), _values(kwargs)
        if modes[0] is None:
            result.node.meta["val"] = orig_method(*fx_args, **fx_kwargs)
        else:
            with modes[0]:
                result.node.meta["val"] = orig_method(*fx_args, **fx_kwargs)
        return result


def _values(a: Any) -> Any:
    """Arguments with the meta values of proxies in their places."""
    if isinstance(a, Proxy):
        return a.node.meta["val"]
    if isinstance(a, list | tuple):
        return type(a)([_values(x) for x in a])
    return {k: _values(v) for k, v in a.items()} if isinstance(a, dict) else a


class Attribute(Proxy):
    """An attribute of a proxy. It becomes a node when it is used; called, it becomes the call of a method instead."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter (with Tracer(param_shapes_constant=True)): its shape is known while tracing."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, tocha.Tensor):
            raise AssertionError(f"Expected Parameter, got {type(param)}")
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        return self.param.shape

    def size(self, *args: Any) -> Any:
        return self.param.size(*args)

    def dim(self) -> int:
        return self.param.dim()

    @property
    def ndim(self) -> int:
        return self.param.ndim

    def numel(self) -> int:
        return self.param.numel()

    def nelement(self) -> int:
        return self.param.nelement()


def _operator_method(method: str) -> Callable[..., Any]:
    target = getattr(operator, method)

    def run(self: Proxy, *args: Any) -> Any:
        return self.tracer.create_proxy("call_function", target, (self, *args), {})

    run.__name__ = run.__qualname__ = method
    return run


def _reflected_method(method: str) -> Callable[..., Any]:
    target = getattr(operator, method)

    def run(self: Proxy, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", target, (other, self), {})

    run.__name__ = run.__qualname__ = f"r{method}"
    return run


def _install_operators() -> None:
    for name in magic_methods:
        setattr(Proxy, f"__{name.strip('_')}__", _operator_method(name))
    for name in reflectable_magic_methods:
        if name != "getitem":
            setattr(Proxy, f"__r{name.strip('_')}__", _reflected_method(name))
    Proxy.__hash__ = object.__hash__  # type: ignore[method-assign, assignment]


_install_operators()
