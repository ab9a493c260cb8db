"""Hooks of modules: the tables for all modules, and the long way of a call when anything is hooked.

Module.__call__ goes straight to forward when there are no hooks; otherwise it comes here (`call_with_hooks`).
"""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from tocha import _C
from tocha.autograd.function import Function
from tocha.utils.hooks import RemovableHandle

Tensor = _C.Tensor
Hooks = OrderedDict[int, Callable]

# Hooks on every module. They are few, and looked at once per call through `any_global_hook`.
global_backward_pre_hooks: Hooks = OrderedDict()
global_backward_hooks: Hooks = OrderedDict()
global_forward_pre_hooks: Hooks = OrderedDict()
global_forward_hooks: Hooks = OrderedDict()
global_forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
global_forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
global_buffer_registration_hooks: Hooks = OrderedDict()
global_module_registration_hooks: Hooks = OrderedDict()
global_parameter_registration_hooks: Hooks = OrderedDict()


class _GlobalKind:
    """Whether the global backward hooks are full ones; None while there have been none."""

    full: bool | None = None


def add_hook(
    table: OrderedDict, hook: Callable, prepend: bool = False, flags: Sequence[OrderedDict] = ()
) -> RemovableHandle:
    """Puts a hook at the end (or the front) of a table, its number into each of flags; returns its handle."""
    handle = RemovableHandle(table, extra_dict=list(flags))
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)
    for flag in flags:
        flag[handle.id] = True
    return handle


def register_module_forward_pre_hook(hook: Callable[..., None]) -> RemovableHandle:
    """hook(module, args) runs before the forward of every module; what it returns replaces args."""
    return add_hook(global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable[..., None], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """hook(module, args, output) runs after the forward of every module; what it returns replaces output."""
    flags = []
    if with_kwargs:
        flags.append(global_forward_hooks_with_kwargs)
    if always_call:
        flags.append(global_forward_hooks_always_called)
    return add_hook(global_forward_hooks, hook, flags=flags)


def register_module_backward_hook(hook: Callable) -> RemovableHandle:
    """The old kind of backward hook, on every module: sees the last operation of the module only."""
    if _GlobalKind.full is True:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. "
            "Please use only one of them."
        )
    _GlobalKind.full = False
    return add_hook(global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook: Callable) -> RemovableHandle:
    """hook(module, grad_output) runs before the gradients of every module are computed."""
    return add_hook(global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Callable) -> RemovableHandle:
    """hook(module, grad_input, grad_output) runs when the gradients for the inputs of any module are there."""
    if _GlobalKind.full is False:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. "
            "Please use only one of them."
        )
    _GlobalKind.full = True
    return add_hook(global_backward_hooks, hook)


def register_module_buffer_registration_hook(hook: Callable[..., None]) -> RemovableHandle:
    """hook(module, name, buffer) runs whenever a module gets a buffer; what it returns takes the buffer's place."""
    return add_hook(global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable[..., None]) -> RemovableHandle:
    """hook(module, name, submodule) runs whenever a module gets a child; what it returns takes the child's place."""
    return add_hook(global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook: Callable[..., None]) -> RemovableHandle:
    """hook(module, name, param) runs whenever a module gets a parameter; what it returns takes its place."""
    return add_hook(global_parameter_registration_hooks, hook)


class Hooked(Protocol):
    """What hooks see of a module; Module itself is built on this file."""

    _backward_pre_hooks: OrderedDict[int, Callable]
    _backward_hooks: OrderedDict[int, Callable]
    _is_full_backward_hook: bool | None
    _forward_hooks: OrderedDict[int, Callable]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _forward_pre_hooks: OrderedDict[int, Callable]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]

    def forward(self, *input: Any) -> Any: ...


def passed_through(hooks: OrderedDict, module: Hooked, name: str, value: Any) -> Any:
    """A value about to be registered, as the registration hooks leave it."""
    for hook in hooks.values():
        replaced = hook(module, name, value)
        if replaced is not None:
            value = replaced
    return value


class WrappedHook:
    """A hook that is handed its module first, without keeping the module alive; survives pickling and copies."""

    def __init__(self, hook: Callable, module: Hooked | None = None) -> None:
        self.hook = hook
        self.with_module = module is not None
        self.module = weakref.ref(module) if module is not None else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.module is None:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict:
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.module is not None:
            state["module"] = self.module()
        return state

    def __setstate__(self, state: dict) -> None:
        self.hook = state["hook"]
        self.with_module = state["with_module"]
        self.module = None
        if self.with_module:
            if state["module"] is None:
                raise RuntimeError("You are trying to revive the hook of a dead Module!")
            self.module = weakref.ref(state["module"])


class BackwardHookFunction(Function):
    """Does nothing, but is a place in the graph: all inputs (or all outputs) of a module pass through one node."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.mark_non_differentiable(*(t for t in tensors if not t.requires_grad))
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


class BackwardHook:
    """The full backward hooks of one call of a module: a node around its inputs and one around its outputs."""

    def __init__(self, module: Hooked, hooks: Sequence[Callable], pre_hooks: Sequence[Callable]) -> None:
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_outputs: tuple | None = None
        self.inputs_count = self.outputs_count = -1
        self.input_places: list[int] | None = None
        self.output_places: list[int] | None = None

    def setup_input_hook(self, args: tuple) -> tuple:
        """args with their tensors taken through the node whose gradients are the module's."""
        self.inputs_count = len(args)
        args, self.input_places, node = _through_node(args)
        if node is not None:
            node.register_hook(self._inputs_done)
        return args

    def setup_output_hook(self, output: Any) -> Any:
        """The module's output, with its tensors taken through the node where gradients arrive."""
        single = isinstance(output, Tensor)
        values = (output,) if single else output
        if not isinstance(values, tuple):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors "
                f"but received {type(values)}",
                stacklevel=2,
            )
            return output
        self.outputs_count = len(values)
        values, self.output_places, node = _through_node(values)
        if node is not None:
            node.register_prehook(self._outputs_arrive)
        return values[0] if single else values

    def _outputs_arrive(self, grads: tuple) -> tuple | None:
        assert self.output_places is not None
        self.grad_outputs = _spread(self.output_places, grads, self.outputs_count)
        replaced = self._run_pre_hooks()
        arrived = self.grad_outputs
        if self.input_places is None:
            self._run_without_inputs()
        return tuple(arrived[i] for i in self.output_places) if replaced else None

    def _run_pre_hooks(self) -> bool:
        replaced = False
        for hook in self.pre_hooks:
            returned = hook(self.module, self.grad_outputs)
            if returned is not None:
                self.grad_outputs = _same_count(returned, self.grad_outputs, "Backward pre hook", "grad_output")
                replaced = True
        return replaced

    def _run_without_inputs(self) -> None:
        """No input needs a gradient: the hooks run as soon as gradients arrive at the outputs."""
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
            "require gradients. See the documentation of tocha.nn.Module.register_full_backward_hook for more details.",
            stacklevel=2,
        )
        nothing = (None,) * self.inputs_count
        for hook in self.hooks:
            returned = hook(self.module, nothing, self.grad_outputs)
            if returned is not None and not (isinstance(returned, tuple) and all(r is None for r in returned)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None "
                    "for all gradients."
                )
        self.grad_outputs = None

    def _inputs_done(self, grads: tuple, _: tuple) -> tuple | None:
        if self.grad_outputs is None:  # the outputs took no part in this backward
            return None
        assert self.input_places is not None
        all_grads = _spread(self.input_places, grads, self.inputs_count)
        for hook in self.hooks:
            returned = hook(self.module, all_grads, self.grad_outputs)
            if returned is not None:
                all_grads = _same_count(returned, all_grads, "Backward hook", "grad_input")
        self.grad_outputs = None
        return tuple(all_grads[i] for i in self.input_places)


def _through_node(values: tuple) -> tuple[tuple, list[int] | None, Any]:
    """values with their tensors behind one BackwardHookFunction node, where the tensors are, and the node."""
    places = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
    if not (_C.is_grad_enabled() and any(values[i].requires_grad for i in places)):
        return values, None, None
    passed = BackwardHookFunction.apply(*(values[i] for i in places))
    node = next(t.grad_fn for t in passed if t.requires_grad)
    found = list(values)
    for i, t in zip(places, passed, strict=True):
        found[i] = t
    named = isinstance(values, tuple) and hasattr(values, "_fields")
    return (type(values)(*found) if named else tuple(found)), places, node


def _spread(places: Sequence[int], grads: Sequence, count: int) -> tuple:
    """One gradient per value: None for those that are no tensors."""
    spread: list[Any] = [None] * count
    for i, g in zip(places, grads, strict=True):
        spread[i] = g
    return tuple(spread)


def _same_count(returned: Any, expected: Any, who: str, what: str) -> tuple:
    found = (returned,) if isinstance(returned, Tensor) else returned
    if len(found) != len(expected):
        raise RuntimeError(
            f"{who} returned an invalid number of {what}, got {len(found)}, but expected {len(expected)}"
        )
    return found


def backward_hooks(module: Hooked) -> tuple[list[Callable], list[Callable]]:
    """The full hooks of a module and its old kind of hooks, global ones first."""
    full: list[Callable] = []
    old: list[Callable] = []
    if global_backward_hooks:
        (full if _GlobalKind.full else old).extend(global_backward_hooks.values())
    if module._backward_hooks:
        (full if module._is_full_backward_hook else old).extend(module._backward_hooks.values())
    return full, old


def backward_pre_hooks(module: Hooked) -> list[Callable]:
    """The hooks of a module that run before its gradients are computed, global ones first."""
    return [*global_backward_pre_hooks.values(), *module._backward_pre_hooks.values()]


class _HookedCall:
    """One call of a module with hooks."""

    def __init__(self, module: Hooked, args: tuple, kwargs: dict) -> None:
        self.module, self.args, self.kwargs = module, args, kwargs
        self.result: Any = None
        self.ran: set[int] = set()

    def run(self) -> Any:
        module = self.module
        full, old = backward_hooks(module)
        before = backward_pre_hooks(module)
        self.run_pre_hooks()
        around = BackwardHook(module, full, before) if full or before else None
        if around is not None:
            self.args = around.setup_input_hook(self.args)
        self.result = module.forward(*self.args, **self.kwargs)
        for number, hook in (*global_forward_hooks.items(), *module._forward_hooks.items()):
            self.run_forward_hook(number, hook)
        if around is not None:
            if not isinstance(self.result, Tensor | tuple):
                warnings.warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors "
                    f"but received {type(self.result)}",
                    stacklevel=3,
                )
            else:
                self.result = around.setup_output_hook(self.result)
        if old:
            self.attach_old_backward_hooks(old)
        return self.result

    def run_pre_hooks(self) -> None:
        module = self.module
        for hook in global_forward_pre_hooks.values():
            self.replace_args(hook(module, self.args))
        for number, hook in tuple(module._forward_pre_hooks.items()):
            if number not in module._forward_pre_hooks_with_kwargs:
                self.replace_args(hook(module, self.args))
                continue
            returned = hook(module, self.args, self.kwargs)
            if returned is None:
                continue
            if not (isinstance(returned, tuple) and len(returned) == 2):
                raise RuntimeError(
                    f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {returned}."
                )
            self.args, self.kwargs = returned

    def replace_args(self, returned: Any) -> None:
        if returned is not None:
            self.args = returned if isinstance(returned, tuple) else (returned,)

    def run_forward_hook(self, number: int, hook: Callable) -> None:
        module = self.module
        self.ran.add(number)
        if number in module._forward_hooks_with_kwargs or number in global_forward_hooks_with_kwargs:
            returned = hook(module, self.args, self.kwargs, self.result)
        else:
            returned = hook(module, self.args, self.result)
        if returned is not None:
            self.result = returned

    def run_skipped_hooks(self) -> None:
        """After an error: the hooks that asked to be called always; their own errors become warnings."""
        tables = (
            (global_forward_hooks, global_forward_hooks_always_called, "global module forward hook"),
            (self.module._forward_hooks, self.module._forward_hooks_always_called, "module forward hook"),
        )
        for hooks, always, kind in tables:
            for number, hook in tuple(hooks.items()):
                if number not in always or number in self.ran:
                    continue
                try:
                    self.run_forward_hook(number, hook)
                except Exception as error:
                    warnings.warn(
                        f"{kind} with ``always_call=True`` raised an exception that was silenced as another error was "
                        f"raised in forward: {error}",
                        stacklevel=3,
                    )

    def attach_old_backward_hooks(self, hooks: Iterable[Callable]) -> None:
        found = self.result
        while not isinstance(found, Tensor):
            found = next(v for v in found.values() if isinstance(v, Tensor)) if isinstance(found, dict) else found[0]
        node = found.grad_fn
        if node is not None:
            for hook in hooks:
                node.register_hook(WrappedHook(hook, self.module))
            warn_of_missing_gradients(self.args, self.result, node)


class CompiledTable(OrderedDict):
    """The table of backward hooks of a module that was compiled in place: true even when it is empty, so that calls of it
    leave the quick path, which others then do not pay for.
    """

    def __bool__(self) -> bool:
        return True


def call_with_hooks(module: Hooked, args: tuple, kwargs: dict) -> Any:
    """module(*args, **kwargs) with every hook that is registered on it or on all modules."""
    compiled = module.__dict__.get("_compiled_call_impl")
    return call_hooks(module, args, kwargs) if compiled is None else compiled(*args, **kwargs)


def call_hooks(module: Hooked, args: tuple, kwargs: dict) -> Any:
    """The same, though the module may have been compiled."""
    call = _HookedCall(module, args, kwargs)
    if not (module._forward_hooks_always_called or global_forward_hooks_always_called):
        return call.run()
    try:
        return call.run()
    except Exception:
        call.run_skipped_hooks()
        raise


_MISSING = "This hook will be missing some {}. Please use register_full_backward_hook to get the documented behavior."


def warn_of_missing_gradients(inputs: Any, result: Any, node: Any) -> None:
    """Warns where a hook of the old kind cannot see all the gradients of a module."""
    outputs = (result,) if isinstance(result, Tensor) else result
    if not (isinstance(outputs, tuple) and all(isinstance(r, Tensor) for r in outputs)):
        _warn_old("does not return a single Tensor or a tuple of Tensors", "of the grad_output")
        return
    arguments = (inputs,) if isinstance(inputs, Tensor) else inputs
    if not (isinstance(arguments, tuple) and all(isinstance(a, Tensor) for a in arguments)):
        _warn_old("does not take as input a single Tensor or a tuple of Tensors", "of the grad_input")
        return
    nodes = {r.grad_fn for r in outputs if r.grad_fn is not None}
    if len(nodes) > 1 or (nodes and node not in nodes):
        warnings.warn(
            "Using a non-full backward hook when outputs are generated by different autograd Nodes is deprecated and "
            "will be removed in future versions. " + _MISSING.format("grad_output"),
            FutureWarning,
            stacklevel=6,
        )
        return
    before = {edge[0] for edge in node.next_functions}
    expected = {a.grad_fn if a.grad_fn is not None else _C._gradient_edge(a)[0] for a in arguments if a.requires_grad}
    if before != expected:
        warnings.warn(
            "Using a non-full backward hook when the forward contains multiple autograd Nodes is deprecated and will be "
            "removed in future versions. " + _MISSING.format("grad_input"),
            FutureWarning,
            stacklevel=6,
        )


def _warn_old(case: str, what: str) -> None:
    warnings.warn(
        f"Using non-full backward hooks on a Module that {case} is deprecated and will be removed in future versions. "
        + _MISSING.format(what),
        FutureWarning,
        stacklevel=7,
    )
