"""`make_fx`: runs a function on tensors and writes down the operators that it calls, below autograd, as a graph.

Tensors of the program are tensors (real, or fakes whose sizes may be symbols); a dispatch mode sees every operator and keeps,
for each tensor, the node that made it. Tensors that no node made are constants of the graph.

>>> import tocha
>>> def f(x):
...     y = (x.sin() * 2).sum()
...     return tocha.autograd.grad(y, x)[0]
>>> print(make_fx(f)(tocha.ones(3, requires_grad=True)).code.strip())
def forward(self, x_1):
    sin = tocha.ops.aten.sin.default(x_1)
    mul = tocha.ops.aten.mul.Tensor(sin, 2);  sin = None
    sum_1 = tocha.ops.aten.sum.default(mul);  mul = None
    ones_like = tocha.ops.aten.ones_like.default(sum_1, memory_format = tocha.preserve_format);  sum_1 = None
    expand = tocha.ops.aten.expand.default(ones_like, [3]);  ones_like = None
    mul_1 = tocha.ops.aten.mul.Tensor(expand, 2);  expand = None
    cos = tocha.ops.aten.cos.default(x_1);  x_1 = None
    mul_2 = tocha.ops.aten.mul.Tensor(mul_1, cos);  mul_1 = cos = None
    return mul_2
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tocha import _C, _ops
from tocha._library.dispatch import modes
from tocha._library.tags import Tag
from tocha._subclasses import origins
from tocha._subclasses.fake import FakeTensor, outside
from tocha._subclasses.fake_tensor import FakeTensorMode
from tocha._subclasses.methods import data as fake_snapshot
from tocha.fx._symbolic_trace import PH, Tracer
from tocha.fx.experimental._above_autograd import AboveAutograd
from tocha.fx.experimental._sym_nodes import SymbolicNodes
from tocha.fx.graph import Graph
from tocha.fx.graph_module import GraphModule
from tocha.fx.interpreter import Interpreter
from tocha.fx.node import Argument, Node
from tocha.fx.passes.shape_prop import TensorMetadata, _extract_tensor_metadata
from tocha.fx.proxy import Proxy
from tocha.ir.shape_env import ShapeEnv
from tocha.ir.sym_types import Symbolic, SymBool, SymFloat, SymInt
from tocha.nn import Module, Parameter
from tocha.utils import _pytree as pytree
from tocha.utils._python_dispatch import (
    TorchDispatchMode,
    is_traceable_wrapper_subclass,
    is_traceable_wrapper_subclass_type,
)

__all__ = [
    "DecompositionInterpreter", "ProxyTorchDispatchMode", "PythonKeyTracer", "decompose", "disable_autocast_cache",
    "disable_proxy_modes_tracing", "dispatch_trace", "get_innermost_proxy_mode", "get_proxy_mode", "get_proxy_slot",
    "has_proxy_slot", "is_sym_node", "make_fx", "maybe_disable_fake_tensor_mode",
    "maybe_disable_thunkify", "maybe_enable_thunkify", "maybe_handle_decomp", "py_sym_types", "selective_decompose", "set_proxy_slot", "snapshot_fake", "track_tensor_tree",
]  # fmt: skip

Tensor = _C.Tensor
py_sym_types = (SymInt, SymFloat, SymBool)
PLAIN = frozenset(
    {int, float, bool, complex, str, type(None), _C.dtype, _C.device}
)  # types of values that nodes keep as they are
CONSTANT_NUMEL_LIMIT = 1  # how many elements are remembered of a tensor whose values are known while tracing
CURRENT_DECOMPOSITION_TABLE: Mapping[Any, Callable] = {}


# ---- what stands for a tensor ------------------------------------------------------------------------


class ProxyTensor:
    """The node of a tensor, and whether its elements are the same at each run of the graph."""

    __slots__ = ("constant", "proxy")

    def __init__(self, proxy: Proxy, constant: Any = None):
        self.proxy, self.constant = proxy, constant


_ProxyTensor = ProxyTensor


class Slots:
    """ProxyTensors by tensor, forgotten with it."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[Any, ProxyTensor]] = {}

    def get(self, t: Tensor) -> ProxyTensor | None:
        found = self._of.get(id(t))
        return found[1] if found is not None and found[0]() is t else None

    def set(self, t: Tensor, slot: ProxyTensor) -> None:
        key = id(t)

        def forget(reference: Any) -> None:
            found = self._of.get(key)
            if found is not None and found[0] is reference:
                del self._of[key]

        self._of[key] = (weakref.ref(t, forget), slot)

    def state(self) -> dict[int, tuple[Any, ProxyTensor]]:
        return dict(self._of)

    def restore(self, state: dict[int, tuple[Any, ProxyTensor]]) -> None:
        self._of = {key: found for key, found in state.items() if found[0]() is not None}


class PythonKeyTracer(Tracer):
    """Adds nodes for operators that a mode tells of; nothing in the program is a proxy, so nothing has to be replaced."""

    def __init__(self) -> None:
        super().__init__(autowrap_modules=())
        self.slots = Slots()
        self.numbers = SymbolicNodes(self)
        self.fake_mode: Any = None  # in which real values are described
        self.default_dtype = _C.get_default_dtype()

    def _patch(self, patcher: Any, fn_globals: dict[str, Any]) -> None:
        """Nothing: see the class."""

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        return attr_val

    def create_arg(self, a: Any) -> Argument:
        if isinstance(a, Symbolic):
            made = self.numbers.of(a)
            return made.node if isinstance(made, Proxy) else made
        if isinstance(a, Tensor):
            known = self.slots.get(a)
            return known.proxy.node if known is not None else self._constant(a)
        return super().create_arg(a)

    def argument(self, a: Any) -> Argument:
        """An argument of an operator, by the short way where it is a value that needs none of the long one's care."""
        if type(a) in PLAIN:
            return a
        if type(a) in (list, tuple):
            return type(a)([self.argument(v) for v in a])
        return self.create_arg(a)

    def _constant(self, t: Tensor) -> Node:
        """A tensor that no node made is an attribute of the module."""
        real = real_of(t)
        name = self.tensor_attrs.get(real)
        if name is None and isinstance(real, Parameter):
            name = next((n for n, p in self.root.named_parameters() if p is real), None)
        if name is None:
            prefix = "_param_constant" if isinstance(real, Parameter) else "_tensor_constant"
            name = self.get_fresh_qualname(prefix)
            setattr(self.root, name, real)
        self.tensor_attrs[real] = name
        node = self.create_node("get_attr", name, (), {})
        node.meta["val"] = described(self, t)
        return node

    def unwrap_proxy(self, e: Any) -> Any:
        """What stands for a value in the graph; the value itself where nothing does."""
        if isinstance(e, Tensor):
            known = self.slots.get(e)
            return e if known is None else known.proxy
        return self.numbers.of(e) if isinstance(e, Symbolic) else e


def real_of(t: Tensor) -> Tensor:
    """The tensor of the program for which a fake stands; the fake itself where there is none."""
    if not isinstance(t, FakeTensor):
        return t
    if t.lifted_from is not None:
        return t.lifted_from
    found = t.fake_mode.fake_tensor_converter.real_of(t)
    return t if found is None else found


def set_proxy_slot(obj: Any, tracer: PythonKeyTracer, proxy: Any) -> None:
    """From now on this node stands for obj."""
    if isinstance(obj, Tensor):
        tracer.slots.set(obj, proxy if isinstance(proxy, ProxyTensor) else ProxyTensor(proxy))
    else:
        tracer.numbers.note_number(obj, proxy)


_NONE = object()


def get_proxy_slot(obj: Any, tracer: PythonKeyTracer, default: Any = _NONE, transform: Callable = lambda x: x) -> Any:
    """What stands for obj; default where nothing does."""
    if isinstance(obj, Tensor):
        found: Any = tracer.slots.get(obj)
    else:
        found = tracer.numbers.made.get(obj.expr)
    if found is None:
        if default is _NONE:
            raise RuntimeError(f"{obj} ({type(obj)}, {id(obj)})is not tracked with proxy for {tracer}")
        return default
    return transform(found)


def has_proxy_slot(obj: Any, tracer: PythonKeyTracer) -> bool:
    return get_proxy_slot(obj, tracer, None) is not None


def is_sym_node(node: Node) -> bool:
    """Whether a call gives a symbolic number."""
    return "val" in node.meta and isinstance(node.meta["val"], py_sym_types)


# ---- what nodes know ---------------------------------------------------------------------------------


def snapshot_fake(val: Tensor, include_real: bool = False) -> Tensor:
    """A fake as it is now: later writes to its shape do not change this one."""
    return fake_snapshot(val) if isinstance(val, FakeTensor) else val.detach()


def described(tracer: PythonKeyTracer, value: Any) -> Any:
    """A value as `node.meta["val"]` shows it: tensors as fakes."""
    if isinstance(value, FakeTensor):
        return fake_snapshot(value)
    if isinstance(value, Tensor):
        if tracer.fake_mode is None or value.layout is not _C.strided:
            return None
        with outside():
            made = tracer.fake_mode.from_tensor(value.detach(), static_shapes=True)
        made.requires_grad = value.requires_grad and value.is_leaf
        return made
    if isinstance(value, list | tuple):
        return (
            type(value)([described(tracer, v) for v in value])
            if not hasattr(value, "_fields")
            else tuple(described(tracer, v) for v in value)
        )
    return value


def set_meta(proxy: Proxy, val: Any) -> Proxy:
    """Notes of a node what its value looks like."""
    shown = described(proxy.tracer, val)  # type: ignore[arg-type]
    proxy.node.meta["val"] = shown
    if isinstance(shown, Tensor) and shown.layout is _C.strided:
        proxy.node.meta["tensor_meta"] = metadata_of(shown)
    return proxy


def metadata_of(t: Tensor) -> TensorMetadata:
    f = t._facts if isinstance(t, FakeTensor) else None
    if f is None or len(f.sizes) in (4, 5) or t._symbolic:
        with outside():
            return _extract_tensor_metadata(t)
    format = _C.contiguous_format if f.is_contiguous() else None
    return TensorMetadata(_C.Size(f.sizes), t.dtype, t.requires_grad, tuple(f.steps), format, False, {})


def track_tensor(t: Tensor, proxy: Proxy, *, constant: Any = None, tracer: PythonKeyTracer) -> None:
    """A node stands for a tensor, and for the symbols of its sizes."""
    if isinstance(t, FakeTensor) and t._symbolic:
        tracer.numbers.note_tensor(t, proxy)
    tracer.slots.set(t, ProxyTensor(proxy, constant))


def track_tensor_tree(inner_res: Any, proxy_res: Any, *, constant: Any = None, tracer: PythonKeyTracer) -> Any:
    """The same for all that a call returned: elements of lists are nodes of their own."""

    def track(value: Any, proxy: Any, constant: Any) -> None:
        if isinstance(value, Tensor):
            set_meta(proxy, value)
            track_tensor(value, proxy, constant=constant, tracer=tracer)
        elif isinstance(value, Symbolic):
            set_meta(proxy, value)
            tracer.numbers.note_number(value, proxy)
        elif isinstance(value, list | tuple):
            if isinstance(proxy, Proxy):
                set_meta(proxy, value)
            for i, v in enumerate(value):
                if v is not None:
                    track(v, proxy[i], None if constant is None else constant[i])  # type: ignore[index]
        elif isinstance(value, dict):
            for k, v in value.items():
                track(v, proxy[k], None if constant is None else constant[k])  # type: ignore[index]
        elif isinstance(proxy, Proxy):
            proxy.node.meta["val"] = value

    track(inner_res, proxy_res, constant)
    return inner_res


# ---- the mode ----------------------------------------------------------------------------------------


class ProxyTorchDispatchMode(TorchDispatchMode):
    """Sees every operator and adds it to the tracer's graph."""

    def __init__(
        self,
        tracer: PythonKeyTracer,
        tracing_mode: str = "real",
        pre_dispatch: bool = False,
        _allow_fake_constant: bool = False,
        _error_on_data_dependent_ops: bool = True,
    ):
        super().__init__()
        self.tracer, self.tracing_mode, self.pre_dispatch = tracer, tracing_mode, pre_dispatch
        self._allow_fake_constant = _allow_fake_constant
        self._error_on_data_dependent_ops = _error_on_data_dependent_ops
        self.enable_tracing = True
        self.above = AboveAutograd(self, proxy_call) if pre_dispatch else None

    def __enter__(self) -> Any:
        if self.above is not None:
            self.above.open()
        return super().__enter__()

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        if self.above is not None:
            self.above.close()

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        if not self.enable_tracing:
            return func(*args, **(kwargs or {}))
        if (
            types
            and any(map(is_traceable_wrapper_subclass_type, types))
            and self.meets_unknown_wrapper(args, kwargs or {})
        ):
            return NotImplemented  # its class calls operators on what it is made of, and these are seen
        return proxy_call(self, func, self.pre_dispatch, args, kwargs or {})

    def meets_unknown_wrapper(self, args: tuple, kwargs: dict[str, Any]) -> bool:
        given = tensors_given(args, kwargs)
        return any(is_traceable_wrapper_subclass(t) and self.tracer.slots.get(t) is None for t in given)


def maybe_handle_decomp(mode: ProxyTorchDispatchMode, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What the table of decompositions makes of a call, traced; NotImplemented where it has none."""
    rule = CURRENT_DECOMPOSITION_TABLE.get(op)
    if rule is None:
        return NotImplemented
    with mode:
        return rule(*args, **kwargs)


def is_constant(tracer: PythonKeyTracer, t: Tensor) -> bool:
    """Whether the element of a tensor is known, and the same at each run of the graph."""
    if isinstance(t, FakeTensor):
        return t.constant is not None
    slot = tracer.slots.get(t)
    return slot is not None and slot.constant is not None


def tensors_of(values: Any) -> list[Tensor]:
    return [t for t in pytree.tree_leaves(values) if isinstance(t, Tensor)]


def tensors_given(args: tuple, kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors among the arguments of an operator, which are values and lists of values."""
    found: list[Tensor] = []
    for a in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(a, Tensor):
            found.append(a)
        elif isinstance(a, list | tuple):
            found += [t for t in a if isinstance(t, Tensor)]
    return found


def refuse_unknown_element(mode: ProxyTorchDispatchMode, func: Any, given: list[Tensor]) -> None:
    """A number that depends on what flows through the graph cannot be written down; a symbol can."""
    if not mode._error_on_data_dependent_ops or Tag.data_dependent_output not in func.tags:
        return
    tracked = [t for t in given if mode.tracer.slots.get(t) is not None]
    if not tracked or all(is_constant(mode.tracer, t) for t in given):
        return
    env = next((t.fake_mode.shape_env for t in given if isinstance(t, FakeTensor)), None)
    if env is not None and env.allow_scalar_outputs:
        return
    raise RuntimeError(
        f"It appears that you're trying to get value out of a tracing tensor with {func} - erroring out! It's likely that this is "
        "caused by data-dependent control flow or similar.  It may be possible to trace this with dynamic shapes; try setting "
        "tracing_mode='symbolic' in your make_fx call."
    )


ITEM, LIFT, LIFT_COPY = KNOWN_HANDLES = ("aten::_local_scalar_dense", "aten::lift_fresh", "aten::lift_fresh_copy")


def proxy_call(mode: ProxyTorchDispatchMode, func: Any, pre_dispatch: bool, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Runs an operator, and adds a node for it."""
    found = maybe_handle_decomp(mode, func, args, kwargs)
    if found is not NotImplemented:
        return found
    tracer = mode.tracer
    given = tensors_given(args, kwargs)
    if func._name in KNOWN_HANDLES:
        if func._name == ITEM and is_constant(tracer, given[0]):
            return func(*args, **kwargs)
        func = _ops.ops.aten.lift_fresh_copy.default if func._name == LIFT else func
    refuse_unknown_element(mode, func, given)
    name = func.overloadpacket.__name__
    shown_args = tuple([tracer.argument(a) for a in args])
    shown_kwargs = {k: tracer.argument(a) for k, a in kwargs.items()}
    was_constant = constant_before(tracer, func, given)
    node = tracer.create_node("call_function", func, shown_args, shown_kwargs, tracer.graph._target_to_str(name))
    origins.CURRENT.mark(node)
    if tracer.record_stack_traces and node.stack_trace is None:
        node.stack_trace = "".join(tracer._user_stack())
    proxy: Any = Proxy(node, tracer)
    out = func(*args, **kwargs)
    if not pre_dispatch and given and out is given[0] and func._schema._is_view_op():
        # `real` of a real tensor: the tensor itself, by its own name.
        tracer.graph.erase_node(node)
        return out
    if not given and _C.get_default_dtype() is not tracer.default_dtype:
        say_dtype(node, func, out)
    writes = name[-1] == "_" and name[0] != "_"
    constant = True if was_constant and is_small(out) else None
    if writes and isinstance(args[0], list | tuple):
        for i, t in enumerate(args[0]):
            track_tensor(t, proxy[i], tracer=tracer)
        out = args[0] if out is None else out
    track_tensor_tree(out, proxy, constant=constant, tracer=tracer) if isinstance(out, Tensor) else track_tensor_tree(
        out, proxy, tracer=tracer
    )
    return out


def say_dtype(node: Node, func: Any, out: Any) -> None:
    """The program made another dtype the default for a while: what is made meanwhile has it, whenever the graph runs."""
    takes = any(a.name == "dtype" for a in func._schema.arguments)
    if takes and isinstance(out, Tensor) and node.kwargs.get("dtype") is None:
        node.kwargs = {**node.kwargs, "dtype": out.dtype}


def is_small(out: Any) -> bool:
    return isinstance(out, Tensor) and not isinstance(out, FakeTensor) and out.numel() <= CONSTANT_NUMEL_LIMIT


def constant_before(tracer: PythonKeyTracer, func: Any, given: list[Tensor]) -> bool:
    """Whether real tensors go in whose elements are the same at each run, and so must the result be."""
    if func._name == LIFT_COPY:
        return True
    for t in given:
        if isinstance(t, FakeTensor) or not is_constant(tracer, t):
            return False
    return bool(given) and Tag.nondeterministic_seeded not in func.tags


def get_proxy_mode() -> ProxyTorchDispatchMode | None:
    """The mode that traces now, if any."""
    return next((m for m in reversed(modes.stack) if isinstance(m, ProxyTorchDispatchMode)), None)


def get_innermost_proxy_mode() -> ProxyTorchDispatchMode | None:
    return get_proxy_mode()


@contextlib.contextmanager
def disable_proxy_modes_tracing(enable_current: bool = False) -> Iterator[ProxyTorchDispatchMode | None]:
    """Within the context operators run and are not written down."""
    before = modes.stack
    modes.stack = [m for m in before if not isinstance(m, ProxyTorchDispatchMode)]
    _C._set_dispatch_modes(len(modes.stack))
    try:
        yield next((m for m in reversed(before) if isinstance(m, ProxyTorchDispatchMode)), None)
    finally:
        modes.stack = before
        _C._set_dispatch_modes(len(before))


@contextlib.contextmanager
def maybe_disable_fake_tensor_mode() -> Iterator[None]:
    """Within the context tensors are real, whatever mode is active."""
    before = _C._set_fake_mode(False)
    try:
        yield
    finally:
        _C._set_fake_mode(before)


@contextlib.contextmanager
def decompose(decomposition_table: Mapping[Any, Callable] | None) -> Iterator[Mapping[Any, Callable]]:
    """Within the context make_fx replaces these operators by what their functions call."""
    global CURRENT_DECOMPOSITION_TABLE
    before, CURRENT_DECOMPOSITION_TABLE = CURRENT_DECOMPOSITION_TABLE, decomposition_table or {}
    try:
        yield CURRENT_DECOMPOSITION_TABLE
    finally:
        CURRENT_DECOMPOSITION_TABLE = before


@contextlib.contextmanager
def disable_autocast_cache() -> Iterator[None]:
    """Within the context autocast keeps no casts: those of a trace belong to its graph."""
    before = _C.is_autocast_cache_enabled()
    _C.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        _C.set_autocast_cache_enabled(before)


# ---- tracing -----------------------------------------------------------------------------------------


def dispatch_trace(
    root: Module | Callable, tracer: Tracer, concrete_args: tuple[Any, ...] | None = None
) -> GraphModule:
    """The graph of what a function (of proxies) calls."""
    graph: Graph = tracer.trace(root, concrete_args)  # type: ignore[arg-type]
    name = root.__class__.__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


def fake_signature(fn: Callable, nargs: int) -> Callable:
    """fn with parameters arg0, arg1, ... in place of what it says."""
    names = ", ".join(f"arg{i}" for i in range(nargs))
    return eval(f"lambda {names}: fn({names})", {"fn": fn})


def needs_signature(f: Callable) -> bool:
    code = getattr(inspect.unwrap(f), "__code__", None)
    return code is None or inspect.ismethod(f) or bool(code.co_flags & inspect.CO_VARARGS)


def wrap_key(f: Callable, tensors: tuple, tracer: PythonKeyTracer, mode: Any, fake_mode: Any) -> Callable:
    """A function of placeholders that runs f on the tensors, traced, and returns what stands for its results."""
    flat_tensors, _ = pytree.tree_flatten(tensors)

    @functools.wraps(f)
    def wrapped(*proxies: Any) -> Any:
        flat_proxies, _ = pytree.tree_flatten(proxies)
        for t, p in zip(flat_tensors, flat_proxies, strict=True):
            if isinstance(p, Proxy):
                track_tensor_tree(t, p, tracer=tracer)
        with fake_mode, mode:
            out = f(*tensors)
        return pytree.tree_map(tracer.unwrap_proxy, out)

    return wrapped


class Inputs:
    """How the arguments of a traced function become what it is run on."""

    def __init__(self, tracing_mode: str, allow_non_fake_inputs: bool, args: tuple):
        if tracing_mode not in ("real", "fake", "symbolic"):
            raise AssertionError(f"Unexpected tracing type: {tracing_mode}")
        self.tracing_mode = tracing_mode
        given = next((t.fake_mode for t in tensors_of(args) if isinstance(t, FakeTensor)), None)
        self.mode: Any = given
        self.shape_env: Any = None if given is None else given.shape_env
        if given is None:
            self.shape_env = ShapeEnv() if tracing_mode != "real" else None
            self.mode = FakeTensorMode(
                allow_fallback_kernels=True,
                allow_non_fake_inputs=allow_non_fake_inputs or tracing_mode == "real",
                shape_env=self.shape_env,
                static_shapes=tracing_mode != "symbolic",
            )
        self.are_fake = given is not None or tracing_mode != "real"

    def convert(self, x: Any) -> Any:
        if isinstance(x, Tensor) and self.are_fake:
            return x if isinstance(x, FakeTensor) else self.mode.from_tensor(x)
        if self.tracing_mode == "symbolic" and type(x) is int:
            return self.shape_env.create_symintnode(self.shape_env.create_symbol(x, positive=None), hint=x)
        return x


def make_fx(
    f: Callable,
    decomposition_table: Mapping[Any, Callable] | None = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
    _allow_fake_constant: bool = False,
    _error_on_data_dependent_ops: bool = True,
    record_stack_traces: bool = False,
    proxy_module_inputs: bool = False,
    _disable_torch_fn_metadata_mode: bool = False,
) -> Callable[..., GraphModule]:
    """Gives a function that runs f on its arguments and returns the graph of operators that f called.

    tracing_mode: "real" runs on the tensors as they are, "fake" on tensors without elements, "symbolic" on such whose sizes are
    symbols, so that the graph serves other sizes. decomposition_table replaces operators by functions of other ones.
    pre_dispatch: operators are seen above autograd, composites whole, with the program's switches of grad mode and autocast.
    """

    @functools.wraps(f)
    def wrapped(*args: Any) -> GraphModule:
        inputs = Inputs(tracing_mode, _allow_non_fake_inputs, args)
        tracer = PythonKeyTracer()
        tracer.fake_mode = inputs.mode
        tracer.record_stack_traces = record_stack_traces
        phs = pytree.tree_map(lambda _: PH, args)
        function = fake_signature(f, len(phs)) if needs_signature(f) else f
        converted = pytree.tree_map(inputs.convert, args)
        mode = ProxyTorchDispatchMode(
            tracer, tracing_mode, pre_dispatch, _allow_fake_constant, _error_on_data_dependent_ops
        )
        fake_mode = inputs.mode if inputs.are_fake else contextlib.nullcontext()
        with decompose(decomposition_table), disable_autocast_cache(), disable_proxy_modes_tracing():
            root = wrap_key(function, converted, tracer, mode, fake_mode)
            made = dispatch_trace(root, tracer, tuple(phs))
        if tracing_mode == "symbolic":
            made.shape_env = inputs.shape_env
        return made

    return wrapped


def get_isolated_graphmodule(
    func: Callable, args: tuple, kwargs: dict[str, Any], tracing_mode: str = "real",
    decomposition_table: Mapping[Any, Callable] | None = None,
) -> GraphModule:  # fmt: skip
    """The graph of one call, whatever is being traced around it."""
    flat, spec = pytree.tree_flatten((args, kwargs))

    def of_leaves(*leaves: Any) -> Any:
        a, k = pytree.tree_unflatten(list(leaves), spec)
        return func(*a, **k)

    with disable_proxy_modes_tracing():
        return make_fx(of_leaves, decomposition_table, tracing_mode)(*flat)


class DecompositionInterpreter(Interpreter):
    """Runs a graph and writes it into another one, operators of a table replaced by what their functions call."""

    def __init__(
        self, module: GraphModule, new_graph: Graph, decomposition_table: Mapping[Any, Callable] | None = None, **_: Any
    ):
        super().__init__(module)
        self.new_graph, self.decomposition_table = new_graph, decomposition_table or {}

    def run(self, *args: Any, **_: Any) -> GraphModule:
        traced = make_fx(self.module, self.decomposition_table)(*args)  # type: ignore[arg-type]
        self.new_graph.output(self.new_graph.graph_copy(traced.graph, {}))
        return traced


class Selective(Interpreter):
    """Runs a graph under a trace; a table of decompositions counts for the nodes that are chosen."""

    def __init__(self, module: GraphModule, table: Mapping[Any, Callable], chosen: Callable[[Node], bool]):
        super().__init__(module)
        self.table, self.chosen = table, chosen

    def run_node(self, n: Node) -> Any:
        with decompose(self.table if n.op == "call_function" and self.chosen(n) else {}):
            return super().run_node(n)


def selective_decompose(
    joint_gm: GraphModule,
    *args: Any,
    decomposition: Mapping[Any, Callable] | None,
    should_decompose: Callable[[Node], bool],
    trace_joint_graph: bool,
) -> GraphModule:
    """The graph traced again; the decompositions count for those of its nodes that should_decompose chooses."""
    runner = Selective(joint_gm, decomposition or {}, should_decompose)
    if not trace_joint_graph:
        return make_fx(lambda *given: runner.run(*given))(*args)
    primals, tangents = args  # a joint graph is a function of two lists

    def joint(primals: Any, tangents: Any) -> Any:
        return runner.run(primals, tangents)

    return make_fx(joint)(primals, tangents)


@contextlib.contextmanager
def maybe_enable_thunkify() -> Iterator[None]:
    """Numbers become nodes only where they are used, in this context and outside of it."""
    yield


@contextlib.contextmanager
def maybe_disable_thunkify() -> Iterator[None]:
    yield
