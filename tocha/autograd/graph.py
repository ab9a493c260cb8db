"""The graph itself: nodes and edges, hooks on nodes, several gradients and saved tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tocha import _C
from tocha.utils.hooks import RemovableHandle

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]

Tensor = _C.Tensor


class _NodeMeta(type(_C._Node)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _C._Node | _C._FunctionBase)


class Node(_C._Node, metaclass=_NodeMeta):  # type: ignore[misc]
    """A recorded operation; `tensor.grad_fn` is one."""


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
    """A place in the graph: one result of a node. Can stand for a tensor in backward and grad."""

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
    """Marks memory as written, as an in-place operation would."""
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        t._bump_version()


class _Stack(threading.local):
    def __init__(self) -> None:
        self.pairs: list[tuple[Callable, Callable]] = []
        self.disabled: list[str] = []


_stack = _Stack()


def _apply_stack() -> None:
    pack, unpack = _stack.pairs[-1] if _stack.pairs else (None, None)
    _C._set_saved_hooks(pack, unpack)


class saved_tensors_hooks:
    """What operations keep for backward passes through pack_hook, and through unpack_hook when it is used.

    >>> import tocha
    >>> x = tocha.ones(2, requires_grad=True)
    >>> with saved_tensors_hooks(lambda t: t.numpy(), lambda a: tocha.from_numpy(a)):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        if _stack.disabled:
            raise RuntimeError(_stack.disabled[-1])
        _stack.pairs.append((self.pack_hook, self.unpack_hook))
        _apply_stack()

    def __exit__(self, *exc: object) -> None:
        _stack.pairs.pop()
        _apply_stack()


class disable_saved_tensors_hooks:
    """Within it, using saved_tensors_hooks is an error with this message."""

    def __init__(self, error_message: str) -> None:
        self.message = error_message

    def __enter__(self) -> None:
        if _stack.pairs:
            raise RuntimeError(self.message)
        _stack.disabled.append(self.message)

    def __exit__(self, *exc: object) -> None:
        _stack.disabled.pop()

    def __call__(self, f: Callable) -> Callable:
        def call(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.message):
                return f(*args, **kwargs)

        return call


class save_on_cpu(saved_tensors_hooks):
    """Keeps what backward needs in the CPU's memory (pinned, if asked)."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(t: Tensor) -> tuple:
            if not pin_memory:
                return t.device, t.cpu()
            held = _C.empty(t.size(), dtype=t.dtype, layout=t.layout, pin_memory=not t.is_cpu)
            held.copy_(t)
            return t.device, held

        def unpack(packed: tuple) -> Tensor:
            device, held = packed
            return held.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


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


# Built on saved_tensors_hooks, so it can only be loaded once that is defined.
from tocha.autograd._mutation import allow_mutation_on_saved_tensors  # noqa: E402
