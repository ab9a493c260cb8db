"""The graph itself: nodes and edges, hooks on nodes, several gradients and saved tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tocha import _C
from tocha.autograd._memory_budget import region_activation_memory_budget
from tocha.autograd._mutation import allow_mutation_on_saved_tensors
from tocha.autograd._saved_hooks import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from tocha.utils.hooks import RemovableHandle

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "region_activation_memory_budget",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]

Tensor = _C.Tensor


class _NodeMeta(type(_C._Node)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _C._Node | _C._FunctionBase)


class Node(_C._Node, metaclass=_NodeMeta):  # type: ignore[misc]
    """A recorded operation; `tensor.grad_fn` is one.

    >>> y = tocha.tensor([1.0], requires_grad=True).exp()
    >>> y.grad_fn.name()
    'ExpBackward0'
    >>> isinstance(y.grad_fn, tocha.autograd.graph.Node)
    True
    """


def _register_hook(self: Any, fn: Callable) -> RemovableHandle:
    """fn(grad_inputs, grad_outputs) runs after the node; what it returns replaces the gradients."""
    hooks = self._hooks("post")
    handle = RemovableHandle(hooks)
    hooks[handle.id] = fn
    return handle


def _register_prehook(self: Any, fn: Callable) -> RemovableHandle:
    """fn(grad_outputs) runs before the node; what it returns replaces them."""
    hooks = self._hooks("pre")
    handle = RemovableHandle(hooks)
    hooks[handle.id] = fn
    return handle


for _class in (_C._Node, _C._FunctionBase):
    _class.register_hook = _register_hook
    _class.register_prehook = _register_prehook


class GradientEdge(NamedTuple):
    """A place in the graph: one result of a node. Can stand for a tensor in backward and grad.

    >>> x = tocha.tensor([1.0, 2.0], requires_grad=True)
    >>> y = x * 3
    >>> edge = tocha.autograd.graph.get_gradient_edge(y)
    >>> tocha.autograd.grad((y**2).sum(), edge)
    (tensor([ 6., 12.]),)
    """

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Where tensor's gradient arrives.

    >>> import tocha
    >>> x = tocha.ones(1, requires_grad=True)
    >>> get_gradient_edge(x * 2).output_nr
    0
    """
    return GradientEdge(*_C._gradient_edge(tensor))


def increment_version(tensor: Any) -> None:
    """Marks memory as written, as an in-place operation would.

    >>> x = tocha.ones(2)
    >>> tocha.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        t._bump_version()


class _MultiHandle(RemovableHandle):
    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for h in self.handles:
            h.remove()

    def __getstate__(self) -> Any:
        return self.handles

    def __setstate__(self, state: Any) -> None:
        self.handles = state


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable, *, mode: str = "all") -> RemovableHandle:
    """mode "all": fn(grads) once all gradients of a backward have come; "any": fn(grad) with the first.

    >>> import tocha
    >>> a, b = (tocha.ones(1, requires_grad=True) for _ in range(2))
    >>> h = register_multi_grad_hook([a, b], lambda grads: print([g is not None for g in grads]))
    >>> (a * b).backward()
    [True, True]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = threading.Lock()
    if mode == "any":
        seen: set[int] = set()

        def first(grad: Tensor) -> None:
            with lock:
                task = _C._graph_task()
                if task in seen:
                    return
                seen.add(task)
            fn(grad)

        return _MultiHandle([t.register_hook(first) for t in tensors if t.requires_grad])
    state: dict[int, list] = {}
    wanted = [t for t in tensors if t.requires_grad]
    expected = {}

    def hook_for(index: int) -> Callable:
        def arrived(grad: Tensor) -> None:
            with lock:
                task = _C._graph_task()
                grads = state.setdefault(task, [None] * len(tensors))
                grads[index] = grad
                if task not in expected:
                    expected[task] = _C._reached(tuple(wanted))
                expected[task] -= 1
                done = expected[task] == 0
                if done:
                    del state[task], expected[task]
            if done:
                fn(grads)

        return arrived

    return _MultiHandle([t.register_hook(hook_for(i)) for i, t in enumerate(tensors) if t.requires_grad])
