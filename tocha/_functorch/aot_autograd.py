"""Ahead-of-time autograd: a function is traced with its gradients, cut into a forward and a backward graph, and each is handed to a compiler.

>>> import tocha
>>> def show(graph, inputs):
...     print(graph.code.strip())
...     return graph
>>> f = aot_function(lambda x: (x * x.exp()).sum(), fw_compiler=show, bw_compiler=show)
>>> x = tocha.ones(2, requires_grad=True)
>>> f(x).backward()
def forward(self, primals_1):
    exp = tocha.ops.aten.exp.default(primals_1)
    mul = tocha.ops.aten.mul.Tensor(primals_1, exp)
    sum_1 = tocha.ops.aten.sum.default(mul);  mul = None
    return (sum_1, primals_1, exp)
def forward(self, primals_1, exp, tangents_1):
    expand = tocha.ops.aten.expand.default(tangents_1, [2]);  tangents_1 = None
    mul_1 = tocha.ops.aten.mul.Tensor(expand, exp)
    mul_2 = tocha.ops.aten.mul.Tensor(expand, primals_1);  expand = primals_1 = None
    detach = tocha.ops.aten.detach.default(exp);  exp = None
    detach_1 = tocha.ops.aten.detach.default(detach);  detach = None
    mul_3 = tocha.ops.aten.mul.Tensor(mul_2, detach_1);  mul_2 = detach_1 = None
    add = tocha.ops.aten.add.Tensor(mul_1, mul_3);  mul_1 = mul_3 = None
    return (add,)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tocha import _C
from tocha._functorch.compiling import compile_traced
from tocha._functorch.export import BackwardSignature, GraphSignature, aot_export_module
from tocha._functorch.followed import followed
from tocha._functorch.functionalize import NotFunctional
from tocha._functorch.inputs import captured
from tocha._functorch.joint import Traced, trace
from tocha._functorch.partitioners import default_partition
from tocha._logging import events
from tocha.autograd import enable_grad, set_grad_enabled
from tocha.func import functional_call
from tocha.fx import GraphModule
from tocha.nn import Module
from tocha.nn.utils.stateless import _reparametrize_module
from tocha.utils import _pytree as pytree

__all__ = [
    "BackwardSignature", "GraphSignature", "aot_export_joint_simple", "aot_export_module", "aot_function", "aot_module", "aot_module_simplified", "compiled_function",
    "make_boxed_compiler", "make_boxed_func", "nop",
]  # fmt: skip

Tensor = _C.Tensor
log = logging.getLogger("tocha._functorch")


def nop(graph: Any, example_inputs: Any) -> Any:
    """A compiler that returns its graph."""
    return graph


def make_boxed_func(f: Callable) -> Callable:
    """f as a function of one list."""

    def g(args: Sequence[Any]) -> Any:
        return f(*args)

    g._boxed_call = True  # type: ignore[attr-defined]
    return g


def make_boxed_compiler(compiler: Callable) -> Callable:
    """A compiler whose functions take one list."""

    def f(graph: Any, inputs: Any) -> Any:
        return make_boxed_func(compiler(graph, inputs))

    return f


def wants_gradients(args: Sequence[Any]) -> bool:
    return any(isinstance(a, Tensor) and a.requires_grad for a in args)


def with_gradients(compiled: Callable) -> Callable:
    """For a function that is called without gradients, and switches them on itself."""

    def call(args: Sequence[Any]) -> Any:
        with enable_grad():
            return compiled(args)

    return call


def create_compiled(
    flat_fn: Callable,
    flat_args: Sequence[Any],
    fw_compiler: Callable,
    bw_compiler: Callable | None,
    partition_fn: Callable | None,
    decompositions: Mapping | None,
    inference_compiler: Callable | None,
    dynamic: bool,
) -> Callable[[Sequence[Any]], list[Any]]:
    with set_grad_enabled(_C.is_grad_enabled()), events.stage("differentiate"):  # it may leave the mode switched
        traced = trace(
            flat_fn, flat_args, gradients=wants_gradients(flat_args), decompositions=decompositions, dynamic=dynamic
        )
    compiled = compile_traced(
        traced,
        fw_compiler,
        bw_compiler or fw_compiler,
        partition_fn or default_partition,
        inference_compiler or fw_compiler,
    )
    if traced.is_joint and not _C.is_grad_enabled():
        compiled = with_gradients(compiled)  # type: ignore[assignment]
    if not traced.is_placed:
        return compiled
    options = (fw_compiler, bw_compiler, partition_fn, decompositions, inference_compiler, dynamic)
    return Placed(traced, compiled, lambda args: create_compiled(flat_fn, args, *options))


def tell_uncompiled(reason: NotFunctional) -> None:
    events.tell(events.RanUncompiled(str(reason)))
    log.warning("[aot_autograd] a graph runs operator by operator: %s", reason)


class Placed:
    """A function that was compiled for the places of its arguments in their memory: for others it is compiled again."""

    def __init__(self, traced: Traced, compiled: Callable, again: Callable[[Sequence[Any]], Callable]):
        self.traced, self.compiled, self.again = traced, compiled, again
        self.otherwise: Callable | None = None

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        if self.traced.fits(args):
            return self.compiled(args)
        if self.otherwise is None:
            self.otherwise = self.again(args)
        return self.otherwise(args)


def aot_function(
    fn: Callable,
    fw_compiler: Callable,
    bw_compiler: Callable | None = None,
    partition_fn: Callable = default_partition,
    decompositions: Mapping | None = None,
    num_params_buffers: int = 0,
    keep_inference_input_mutations: bool = False,
    inference_compiler: Callable | None = None,
    *,
    dynamic: bool = False,
    enable_log: bool = True,
    **_: Any,
) -> Callable:
    """fn, compiled at its first call: traced on the arguments it gets there, differentiated, partitioned, and handed to compilers.

    Each compiler gets a graph and its example inputs and returns a callable. It is not compiled again for other arguments.
    """
    compiled: Callable | None = None
    as_it_is = False
    out_spec: Any = None

    def returned(*args: Any, **kwargs: Any) -> Any:
        nonlocal compiled, out_spec, as_it_is
        flat, spec = pytree.tree_flatten((args, kwargs))
        places = [i for i, a in enumerate(flat) if isinstance(a, Tensor) or (dynamic and type(a) is int)]
        if compiled is None and not as_it_is:

            def flat_fn(*given: Any) -> list[Any]:
                nonlocal out_spec
                leaves = list(flat)
                for i, v in zip(places, given, strict=True):
                    leaves[i] = v
                a, k = pytree.tree_unflatten(leaves, spec)
                results, out_spec = pytree.tree_flatten(fn(*a, **k))
                return results

            try:
                compiled = create_compiled(
                    flat_fn, [flat[i] for i in places], fw_compiler, bw_compiler, partition_fn, decompositions,
                    inference_compiler, dynamic,
                )  # fmt: skip
            except NotFunctional as reason:
                tell_uncompiled(reason)
                as_it_is = True
        if as_it_is:
            return fn(*args, **kwargs)
        assert compiled is not None
        return pytree.tree_unflatten(compiled([flat[i] for i in places]), out_spec)

    returned._allow_in_graph = True  # type: ignore[attr-defined]
    return returned


def aot_module(mod: Module, *args: Any, **kwargs: Any) -> Module:
    """A module whose forward is compiled by aot_function; its parameters and buffers are inputs of the graph."""

    def of_state(state: dict[str, Tensor], *inner: Any, **named: Any) -> Any:
        return functional_call(mod, state, inner, named)

    compiled = aot_function(of_state, *args, **kwargs)

    class AOTModule(Module):
        def __init__(self) -> None:
            super().__init__()
            self.orig_module = mod

        def forward(self, *inner: Any, **named: Any) -> Any:
            state = {**dict(mod.named_parameters()), **dict(mod.named_buffers())}
            return compiled(state, *inner, **named)

    return AOTModule()


def state_of(mod: Module) -> tuple[list[str], list[Tensor]]:
    """Parameters, then buffers, each once."""
    named = {**dict(mod.named_parameters(remove_duplicate=False)), **dict(mod.named_buffers(remove_duplicate=False))}
    return list(named), list(named.values())


def aot_module_simplified(
    mod: Module,
    args: Sequence[Any],
    fw_compiler: Callable,
    bw_compiler: Callable | None = None,
    partition_fn: Callable = default_partition,
    decompositions: Mapping | None = None,
    keep_inference_input_mutations: bool = False,
    inference_compiler: Callable | None = None,
    **_: Any,
) -> Callable:
    """A module compiled for these arguments, which are flat tensors; parameters and buffers come first among the graph's inputs."""
    names, state = state_of(mod)

    def of_flat(*flat: Any) -> Any:
        run = followed(mod) if isinstance(mod, GraphModule) else mod  # hooks on all modules are not for graphs
        with _reparametrize_module(mod, dict(zip(names, flat[: len(names)], strict=True)), tie_weights=True):
            return run(*flat[len(names) :])

    out_spec: Any = None

    def flat_fn(*flat: Any) -> list[Any]:
        nonlocal out_spec
        results, out_spec = pytree.tree_flatten(of_flat(*flat))
        return results

    given, dynamic = captured(mod, args)
    try:
        compiled: Any = create_compiled(
            flat_fn,
            [*state, *given],
            fw_compiler,
            bw_compiler,
            partition_fn,
            decompositions,
            inference_compiler,
            dynamic,
        )
    except NotFunctional as reason:
        tell_uncompiled(reason)
        compiled = None

    def forward(*runtime_args: Any) -> Any:
        if compiled is None:
            return mod.forward(*runtime_args)
        return pytree.tree_unflatten(compiled([*state, *runtime_args]), out_spec)

    forward.compiled = compiled  # type: ignore[attr-defined]
    forward.out_spec = out_spec  # type: ignore[attr-defined]
    forward.zero_grad = mod.zero_grad  # type: ignore[attr-defined]
    forward.named_parameters = mod.named_parameters  # type: ignore[attr-defined]
    forward.named_buffers = mod.named_buffers  # type: ignore[attr-defined]
    return forward


def aot_export_joint_simple(
    func: Callable,
    args: Sequence[Any],
    *,
    trace_joint: bool,
    num_params_buffers: int = 0,
    decompositions: Mapping | None = None,
) -> Any:
    """The graph of a function without writes and aliases: of its results, or (trace_joint) also of its gradients."""
    spec: Any = None

    def flat_fn(*flat: Any) -> list[Any]:
        nonlocal spec
        results, spec = pytree.tree_flatten(func(*flat))
        return results

    traced = trace(flat_fn, list(args), gradients=trace_joint, decompositions=decompositions, dynamic=False)
    if traced.mutations:
        raise RuntimeError(f"aot_export_joint_simple does not support input mutations. {traced.mutations}")
    if any(o.kind not in ("raw", "constant") for o in traced.outputs):
        raise RuntimeError(f"aot_export_joint_simple does not support outputs that alias inputs. {traced.outputs}")
    for refusal in traced.refusals:
        raise refusal.error()
    if trace_joint and not traced.is_joint:
        raise RuntimeError("aot_export_joint_simple(trace_joint=True): no result of the function requires a gradient")
    return traced.module


compiled_function = aot_function
