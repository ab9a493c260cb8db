"""Tracer: runs a module or a function on proxies and gives the graph of what it did."""

from __future__ import annotations

import collections
import copy
import functools
import inspect
import math
import operator
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import tocha
import tocha.utils._pytree as pytree
from tocha._core.library_name import ours
from tocha.fx._patching import Patcher, patch_globals, patch_library, patch_wrapped, wrapped_functions
from tocha.fx.graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from tocha.fx.graph_module import GraphModule
from tocha.fx.node import Argument, Node, base_types
from tocha.fx.proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase
from tocha.nn import Parameter
from tocha.nn import _Module as Module

__all__ = ["PH", "PHBase", "PHWithMeta", "Tracer", "symbolic_trace", "wrap"]

_orig_module_call: Callable = Module.__call__
_orig_module_getattr: Callable = Module.__getattr__
_is_fx_tracing_flag = False
_proxyable_classes: dict[type, None] = {}


def is_fx_tracing() -> bool:
    """Whether a trace is going on."""
    return _is_fx_tracing_flag


def is_fx_symbolic_tracing() -> bool:
    return _is_fx_tracing_flag


class ProxyableClassMeta(type):
    """Metaclass: making an instance with proxies as arguments becomes a node."""

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        found = [a for a in (*args, *kwargs.values()) if isinstance(a, Proxy)]
        if not found:
            return super().__call__(*args, **kwargs)
        if any(p.tracer is not found[0].tracer for p in found):
            raise TypeError(f"Found multiple different tracers while trying to trace creation of {cls}")
        return found[0].tracer.create_proxy("call_function", cls, args, kwargs)


class PHBase:
    """Stands for an input in concrete_args."""

    def __repr__(self) -> str:
        return "PH"


class PHWithMeta(PHBase):
    """An input whose placeholder gets the attributes of this object."""

    def __init__(self, ph_key: str | None = None) -> None:
        super().__init__()
        self.ph_key = ph_key


PH = PHBase()


def _transfer_attrs(fr: Any, to: Any) -> None:
    for name in dir(fr):
        if name != "ph_key" and not name.startswith("__") and not hasattr(to, name):
            setattr(to, name, getattr(fr, name))


def _assert_is_none(value: object, msg: str) -> None:
    if value is not None:
        raise AssertionError(msg)


def wrap(fn_or_name: str | Callable) -> str | Callable:
    """Makes a function of a module a leaf: a trace records its call instead of going into it.

    Called at module level with the function or its name (`wrap("len")`), or as a decorator.

    >>> import tocha.fx
    >>> tocha.fx.wrap("len")
    'len'
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    if callable(fn_or_name):
        if isinstance(fn_or_name, str):
            raise AssertionError("Unexpected: callable that is also a string")
        name = fn_or_name.__name__
    else:
        name = fn_or_name
    frame = inspect.currentframe()
    caller = frame.f_back if frame else None
    if caller is None:
        raise AssertionError("Could not get calling frame")
    if caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    wrapped_functions[(id(caller.f_globals), name)] = caller.f_globals
    return fn_or_name


class Tracer(TracerBase):
    """Traces modules and functions. Override is_leaf_module, call_module, create_arg, ... to change how.

    >>> import tocha
    >>> class Inside(tocha.fx.Tracer):
    ...     def is_leaf_module(self, m, module_qualified_name):
    ...         return False
    >>> print(Inside().trace(tocha.nn.ReLU()))
    graph():
        %input_1 : tocha.Tensor [num_users=1] = placeholder[target=input]
        %relu : [num_users=1] = call_function[target=tocha.nn.functional.relu](args = (%input_1,), kwargs = {inplace: False})
        return relu
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable, ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        self._autowrap_function_ids = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        }
        self._autowrap_function_ids.update(id(f) for f in autowrap_functions)
        self._autowrap_search: list[ModuleType] = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack: collections.OrderedDict[str, tuple[str, Any]] = collections.OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope: dict[str, tuple[str, type]] = {}
        self._qualname_counter: dict[str, int] = collections.defaultdict(int)
        self.tensor_attrs: dict[Any, str] = {}
        self.root: Module = Module()

    # ---- arguments ----

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name that the root has no attribute of: prefix and a number."""
        i = self._qualname_counter[prefix]
        while hasattr(self.root, f"{prefix}{i}"):
            i += 1
        self._qualname_counter[prefix] = i + 1
        return f"{prefix}{i}"

    def create_arg(self, a: Any) -> Argument:
        """Parameters and tensors of the root become get_attr nodes; tensors made while tracing become constants of it."""
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, tocha.Tensor):
            return self.create_node("get_attr", self._name_of_tensor(a), (), {})
        if type(a) in _proxyable_classes:
            return self._instance_as_attribute(a)
        return super().create_arg(a)

    def _name_of_tensor(self, a: Any) -> str:
        for name, buffer in self.root.named_buffers():
            if buffer is a:
                return name
        known = self.tensor_attrs.get(a)
        if known is None:
            known = self.get_fresh_qualname("_tensor_constant")
            self.tensor_attrs[a] = known
            setattr(self.root, known, a)
        return known

    def _instance_as_attribute(self, a: Any) -> Argument:
        name = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
        setattr(self.root, name, a)
        return self.create_node("get_attr", name, (), {})

    # ---- modules ----

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether the call of a module becomes one node: the library's own modules do, but for containers."""
        is_own = ours(m.__module__).startswith(("tocha.nn", "tocha.ao.nn"))
        return is_own and not isinstance(m, tocha.nn.Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Where a module stands in the root: "layers.0"."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError("module is not installed as a submodule")
            return path
        for name, module in self.root.named_modules():
            if mod is module:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Called for every call of a module: a node for leaves, its forward (with the arguments) for others."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))) as scope:
            count = self.num_calls.get(path, 0)
            key = f"{scope.module_path}@{count}" if count > 0 else scope.module_path
            self.module_stack[key] = (scope.module_path, scope.module_type)
            self.num_calls[path] = count + 1
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.popitem()

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Called for every attribute of a module: parameters (and buffers, if asked for) become proxies."""
        if isinstance(attr_val, Parameter):
            found = self._attribute_proxy(attr_val, self.root.named_parameters(), parameter_proxy_cache)
            if found is not None:
                return found
        elif self.proxy_buffer_attributes and isinstance(attr_val, tocha.Tensor):
            found = self._attribute_proxy(attr_val, self.root.named_buffers(), parameter_proxy_cache)
            if found is not None:
                return found
        return attr_val

    def _attribute_proxy(self, value: Any, named: Iterator[tuple[str, Any]], cache: dict[str, Any]) -> Any:
        name = next((n for n, v in named if v is value), None)
        if name is None:
            return None
        if name not in cache:

            def with_shape(node: Node) -> Proxy:
                return ParameterProxy(self, node, name, value)

            make = with_shape if self.param_shapes_constant else None
            cache[name] = self.create_proxy("get_attr", name, (), {}, proxy_factory_fn=make)
        return cache[name]

    # ---- inputs ----

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Callable, list[Any]]:
        """Placeholders for the parameters of the traced function, and the function to call with them."""
        wrapped = inspect.unwrap(root_fn)
        code = wrapped.__code__  # type: ignore[attr-defined]
        count = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames)
        signature = inspect.signature(wrapped)
        if isinstance(concrete_args, tuple):
            given = names[1:count] if is_module else names[:count]
            if len(given) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(given)} arguments but got {len(concrete_args)} concrete arguments"
                )
            concrete_args = dict(zip(given, concrete_args))
        args: list[Any] = []
        position = 0
        if is_module:
            if count == 0:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            position = 1
            args.append(self.root)
        orig_names = names[position:count]
        args += [self._proxy_placeholder(n, concrete_args, signature, wrapped) for n in orig_names]
        function: Any = root_fn
        if code.co_kwonlyargcount or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            function = self._spread(root_fn, code, count, names, args, concrete_args, signature)
        if concrete_args is not None:
            flat, spec = pytree.tree_flatten(tuple(args[position:]))
            if not all(child.is_leaf() for child in spec.children()):
                return self._taking_trees(function, spec, orig_names, is_module), flat
        return function, args

    def _spread(
        self,
        root_fn: Callable,
        code: Any,
        count: int,
        names: list[str],
        args: list[Any],
        concrete_args: Any,
        signature: inspect.Signature,
    ) -> Callable:
        """Calls the function with keyword-only arguments by name, and with one proxy for *args and one for **kwargs.

        The function itself must take these two as they come, not spread: its code says so in the copy used here.
        """
        names_rest = names[count:]
        if code.co_flags & inspect.CO_VARARGS:
            args.append(self._proxy_placeholder("*" + names_rest.pop(0), concrete_args, signature, root_fn))
        if code.co_flags & inspect.CO_VARKEYWORDS:
            args.append(self._proxy_placeholder("**" + names_rest.pop(0), concrete_args, signature, root_fn))
        return _without_spreading(inspect.unwrap(root_fn), len(args))

    def _taking_trees(self, function: Callable, spec: pytree.TreeSpec, names: list[str], is_module: bool) -> Callable:
        root = self.root

        def flat_function(*flat: Any) -> Any:
            tree = pytree.tree_unflatten(list(flat), spec)
            result = function(root, *tree) if is_module else function(*tree)
            leaves, out_spec = pytree.tree_flatten(result)
            codegen = self.graph._codegen
            if not isinstance(codegen, _PyTreeCodeGen):
                raise AssertionError("the graph of a function of trees has a code generator for trees")
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return leaves

        self.graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(names, spec, None)))
        return flat_function

    def _proxy_placeholder(
        self, name: str, concrete_args: dict[str, Any] | None, sig: inspect.Signature, fn_for_analysis: Callable
    ) -> Any:
        if concrete_args is not None and name in concrete_args:
            return self._specialized(name, concrete_args[name], sig)
        default: tuple = ()
        kind = None
        parameter = sig.parameters.get(name)
        if parameter is not None:
            default = () if parameter.default is inspect.Parameter.empty else (parameter.default,)
            kind = None if parameter.annotation is inspect.Parameter.empty else parameter.annotation
            kind = _evaluated(kind, fn_for_analysis)
        return self.create_proxy("placeholder", name, default, {}, type_expr=kind)

    def _specialized(self, name: str, value: Any, sig: inspect.Signature) -> Any:
        """Placeholders for what a concrete argument leaves open, and checks for what it fixes."""
        count = 0

        def replace(x: Any) -> Any:
            nonlocal count
            count += 1
            parameter = sig.parameters[name]
            default = () if parameter.default is inspect.Parameter.empty else (parameter.default,)
            proxy = self.create_proxy("placeholder", f"{name}_{count}", default, {})
            if isinstance(x, PHBase):
                if x is not PH:
                    _transfer_attrs(fr=x, to=proxy.node)
                return proxy
            message = f"{name} has been specialized to have value {x} but got another value"
            if x is None:
                self.create_proxy("call_function", _assert_is_none, (proxy, message), {})
                return x
            if isinstance(x, base_types) and type(x) is not tocha.Tensor:
                checked = self.create_proxy("call_function", operator.eq, (proxy, x), {})
                self.create_proxy("call_function", tocha._assert, (checked, message), {})
                return x
            return proxy

        return pytree.tree_map(replace, value)

    # ---- the trace ----

    def trace(
        self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | tuple[Any, ...] | None = None
    ) -> Graph:
        """The graph of a module's forward or of a function."""
        global _is_fx_tracing_flag
        before, _is_fx_tracing_flag = _is_fx_tracing_flag, True
        try:
            return self._trace(root, concrete_args)
        finally:
            _is_fx_tracing_flag = before

    def _trace(self, root: Any, concrete_args: Any) -> Graph:
        if isinstance(root, Module):
            self.root = root
            fn = self._forward_of(root)
            self.root_module_name = root._get_name()
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root = Module()
            fn = root
        called, fn = (
            fn,
            fn._function if isinstance(fn, tocha._C._capture.Wrapper) else fn,
        )  # a compiled one says what it is
        if not isinstance(fn, FunctionType):
            raise AssertionError(f"Expected FunctionType, got {type(fn)}")
        self.graph = Graph(tracer_cls=getattr(self, "__class__", None))
        code = inspect.unwrap(fn).__code__  # type: ignore[attr-defined]
        self.graph._co_fields = {
            "co_name": code.co_name,
            "co_filename": code.co_filename,
            "co_firstlineno": code.co_firstlineno,
        }
        self.tensor_attrs = {}
        self._collect_tensor_attributes(self.root, [])
        args: list[Any]
        fn_globals = fn.__globals__
        with Patcher() as patcher:
            # Inputs are made under the patches too, so that checks of concrete arguments are recorded.
            fn_to_call, args = self.create_args_for_root(fn, isinstance(root, Module), concrete_args)
            self._patch(patcher, fn_globals)
            result = (called if fn_to_call is fn else fn_to_call)(*args)
            self.create_node(
                "output",
                "output",
                (self.create_arg(result),),
                {},
                type_expr=_evaluated(fn.__annotations__.get("return"), fn),
            )
        self.submodule_paths = None
        return self.graph

    def _forward_of(self, root: Module) -> Any:
        if not hasattr(type(root), self.traced_func_name):
            raise AssertionError(f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}")
        fn = getattr(type(root), self.traced_func_name)
        own = vars(root).get(self.traced_func_name)
        return getattr(own, "__func__", fn) if own is not None else fn

    def _collect_tensor_attributes(self, module: Module, path: list[str]) -> None:
        for name, value in vars(module).items():
            if isinstance(value, tocha.Tensor):
                self.tensor_attrs[value] = ".".join([*path, name])
        for name, child in module.named_children():
            self._collect_tensor_attributes(child, [*path, name])

    def _patch(self, patcher: Patcher, fn_globals: dict[str, Any]) -> None:
        cache: dict[str, Any] = {}
        autowrapped = self._autowrap_function_ids

        @functools.wraps(_orig_module_getattr)
        def module_getattr(mod: Module, attr: str) -> Any:
            return self.getattr(attr, _orig_module_getattr(mod, attr), cache)

        @functools.wraps(_orig_module_call)
        def module_call(mod: Module, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return _orig_module_call(mod, *args, **kwargs)

            patch_globals(patcher, getattr(getattr(mod, "forward", mod), "__globals__", {}), autowrapped)
            return self.call_module(mod, forward, args, kwargs)

        patcher.patch_method(Module, "__getattr__", module_getattr)
        patcher.patch_method(Module, "__call__", module_call)
        patch_library(patcher)
        patch_wrapped(patcher)
        patch_globals(patcher, fn_globals, autowrapped)
        for module in self._autowrap_search:
            patch_globals(patcher, vars(module), autowrapped)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        new = Tracer.__new__(type(self))
        for name, value in self.__dict__.items():
            new.__dict__[name] = copy.copy(value) if name == "_autowrap_search" else copy.deepcopy(value, memo)
        return new


GraphModule._default_tracer = Tracer


def _without_spreading(function: Any, count: int) -> Any:
    """A copy of a function that takes *args and **kwargs as two plain parameters."""
    code = function.__code__
    new = code.replace(
        co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
        co_argcount=count,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
    )
    copied = FunctionType(new, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copied.__kwdefaults__ = None
    return copied


def _evaluated(annotation: Any, function: Any) -> Any:
    """Annotations that are text (as under `from __future__ import annotations`), where their names are known."""
    if not isinstance(annotation, str):
        return annotation
    try:
        found = eval(annotation, getattr(function, "__globals__", {}))
    except Exception:
        return None
    return None if found is Any else found


def symbolic_trace(root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """The GraphModule of a module or function.

    concrete_args fixes arguments (flags, None) and gives trees their structure, with PH for what stays open.

    >>> import tocha
    >>> def f(x, scale=2.0):
    ...     return tocha.relu(x) * scale
    >>> print(tocha.fx.symbolic_trace(f).code.strip())
    def forward(self, x, scale = 2.0):
        relu = tocha.relu(x);  x = None
        mul = relu * scale;  relu = scale = None
        return mul
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
