"""Activation checkpointing: a function's intermediate results are computed again in backward instead of being kept."""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tocha import _C, random
from tocha.autograd.function import Function
from tocha.autograd.grad_mode import enable_grad
from tocha.autograd.graph import saved_tensors_hooks

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

Tensor = _C.Tensor
_early_stop: bool | None = None
_SELECTIVE = (
    "CheckpointPolicy",
    "SAC_IGNORED_OPS",
    "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
)
CheckpointPolicy: Any  # these are made when somebody asks
SAC_IGNORED_OPS: Any
SelectiveCheckpointContext: Any
create_selective_checkpoint_contexts: Any


class CheckpointError(RuntimeError):
    """What was computed again is not what was computed before.

    >>> issubclass(tocha.utils.checkpoint.CheckpointError, RuntimeError)
    True
    """


class _Stop(Exception):
    """All that was needed has been computed again."""


def noop_context_fn() -> tuple[Any, Any]:
    """No special contexts for the first run and for the second.

    >>> forward, recompute = tocha.utils.checkpoint.noop_context_fn()
    >>> type(forward).__name__
    'nullcontext'
    """
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Any:
    """Whether the second run stops as soon as everything needed is there (it does, unless told otherwise).

    >>> with tocha.utils.checkpoint.set_checkpoint_early_stop(False):
    ...     tocha.utils.checkpoint.checkpoint(tocha.exp, tocha.zeros(1), use_reentrant=False)
    tensor([1.])
    """
    global _early_stop
    before = _early_stop
    _early_stop = enable
    try:
        yield
    finally:
        _early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Any:
    """Accepted for programs that ask for it; messages always say what differed.

    >>> with tocha.utils.checkpoint.set_checkpoint_debug_enabled(False):
    ...     tocha.utils.checkpoint.checkpoint(tocha.exp, tocha.zeros(1), use_reentrant=False)
    tensor([1.])
    """
    yield


class GraphExecGroup:
    """Backward walks within one of these compute a checkpointed region again once, for all of them together.

    The walks must not need one value twice. For checkpoint(..., use_reentrant=False).

    >>> import tocha
    >>> x = tocha.ones(2, requires_grad=True)
    >>> a, b = checkpoint(lambda t: (t.sin(), t.exp()), x, use_reentrant=False)
    >>> with GraphExecGroup():
    ...     a.sum().backward()
    ...     b.sum().backward()
    >>> x.grad
    tensor([3.2586, 3.2586])
    """

    _stack = threading.local()

    def __enter__(self) -> GraphExecGroup:
        if self._get_current_group() is not None:
            raise RuntimeError(
                f"GraphExecGroup contexts cannot be nested. Already inside group {self._get_current_group()}"
            )
        GraphExecGroup._stack.current = self
        return self

    def __exit__(self, *exc: object) -> None:
        GraphExecGroup._stack.current = None

    @classmethod
    def _get_current_group(cls) -> GraphExecGroup | None:
        return getattr(cls._stack, "current", None)


class _Random:
    """The state of the random stream, to run twice with the same numbers."""

    def __init__(self, preserve: bool) -> None:
        self.state = random.get_rng_state() if preserve else None

    @contextlib.contextmanager
    def again(self) -> Any:
        if self.state is None:
            yield
            return
        now = random.get_rng_state()
        random.set_rng_state(self.state)
        try:
            yield
        finally:
            random.set_rng_state(now)


def checkpoint(
    function: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """function(*args, **kwargs), whose intermediate results are not kept but computed again in backward.

    >>> import tocha
    >>> x = tocha.ones(3, requires_grad=True)
    >>> checkpoint(lambda t: t.sin().exp(), x, use_reentrant=False).sum().backward()
    >>> x.grad
    tensor([1.2534, 1.2534, 1.2534])
    """
    if use_reentrant is None:
        warnings.warn(
            "tocha.utils.checkpoint: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
            "recommended, but if you need to preserve the current default behavior, you can pass use_reentrant=True.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    if _is_traced():
        tagged = importlib.import_module("tocha._higher_order_ops.checkpoint").tagged
        return tagged(function, None if context_fn is noop_context_fn else context_fn, args, kwargs)
    if use_reentrant:
        return CheckpointFunction.apply(function, preserve, *args)
    return _hooked(function, preserve, context_fn, determinism_check, early_stop, args, kwargs)


def _is_traced() -> bool:
    """Whether a graph is being made of what runs: then the region's nodes are marked, and the partitioner sees to the rest."""
    tracing = sys.modules.get("tocha.fx.experimental.proxy_tensor")
    return tracing is not None and tracing.get_proxy_mode() is not None


def __getattr__(name: str) -> Any:
    """Selective checkpointing, which needs dispatch modes."""
    if name in _SELECTIVE:
        return getattr(importlib.import_module("tocha.utils._selective_checkpoint"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warns if no input requires a gradient: what is checkpointed would get none either.

    >>> tocha.utils.checkpoint.check_backward_validity([tocha.ones(1, requires_grad=True)]) is None
    True
    """
    if not any(isinstance(t, Tensor) and t.requires_grad for t in inputs):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=3)


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs with tensors as leaves of their own, which require gradients as before.

    >>> import tocha
    >>> x = tocha.ones(2, requires_grad=True)
    >>> detach_variable((x * 2, "word"))
    (tensor([2., 2.], requires_grad=True), 'word')
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(t.detach().requires_grad_(t.requires_grad) if isinstance(t, Tensor) else t for t in inputs)


class DefaultDeviceType:
    """The kind of device whose random state is kept when all tensors are on the CPU.

    >>> tocha.utils.checkpoint.DefaultDeviceType.get_device_type()
    'cpu'
    """

    _default = "cpu"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Sets the kind of device."""
        DefaultDeviceType._default = device

    @staticmethod
    def get_device_type() -> str:
        """What set_device_type last set: at first the accelerator, and "cpu" where there is none."""
        return DefaultDeviceType._default


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Indices and random states of the devices that tensors among args are on; the CPU is not one of them.

    >>> tocha.utils.checkpoint.get_device_states(tocha.ones(2))
    ([], [])
    """
    devices = sorted({a.get_device() for a in args if isinstance(a, Tensor) and a.device.type not in ("cpu", "meta")})
    return devices, [_generator_of(i).get_state() for i in devices]


def set_device_states(devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None) -> None:
    """Sets what get_device_states returned.

    >>> tocha.utils.checkpoint.set_device_states([], []) is None
    True
    """
    if device_type == "meta":
        return
    for index, state in zip(devices, states, strict=False):
        _generator_of(index, device_type).set_state(state)


def _generator_of(index: int, device_type: str | None = None) -> Any:
    return _C.Generator(device=f"{device_type or DefaultDeviceType.get_device_type()}:{index}")


class CheckpointFunction(Function):
    """Runs without recording; backward runs again with recording and walks that small graph.

    >>> issubclass(tocha.utils.checkpoint.CheckpointFunction, tocha.autograd.Function)
    True
    """

    @staticmethod
    def forward(ctx: Any, run: Callable, preserve: bool, *args: Any) -> Any:
        ctx.run = run
        ctx.random = _Random(preserve)
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.others = [None if isinstance(a, Tensor) else a for a in args]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        check_backward_validity(args)
        return run(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        from tocha import autograd

        inputs = list(ctx.others)
        for place, t in zip(ctx.places, detach_variable(ctx.saved_tensors), strict=True):
            inputs[place] = t
        with ctx.random.again(), enable_grad():
            outputs = ctx.run(*inputs)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [(o, g) for o, g in zip(outputs, grads, strict=True) if isinstance(o, Tensor) and o.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        autograd.backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, *(i.grad if isinstance(i, Tensor) else None for i in inputs))


def _facts(t: Tensor) -> tuple:
    return tuple(t.shape), t.dtype, t.device


def _hooked(
    function: Callable, preserve: bool, context_fn: Callable, check: str, early_stop: bool, args: tuple, kwargs: dict
) -> Any:
    """Instead of every tensor that would be kept its number is; the first one asked for brings them all back."""
    if check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ('default', 'none') but got {check}")
    first_context, second_context = context_fn()
    randoms = _Random(preserve)
    facts: list[tuple] = []
    again: dict[Any, dict[int, Tensor]] = {}  # per backward walk, or group of them: number -> tensor
    takers: dict[int, int] = {}  # the walk that took a value
    stop_early = early_stop if _early_stop is None else _early_stop

    def pack(t: Tensor) -> int:
        facts.append(_facts(t))
        return len(facts) - 1

    def unpack(number: int) -> Tensor:
        # A node may ask twice for a value. All of them go with the last node of the region, or when another walk begins.
        task = _C._graph_task()
        group = GraphExecGroup._get_current_group()
        held = again.get(group or task)
        if held is None:
            again.clear()
            takers.clear()
            held = again[group or task] = recompute()
        if takers.setdefault(number, task) != task:
            raise CheckpointError(
                "tocha.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. Performing two "
                "backward calls that overlap is not allowed while under the GraphExecGroup context"
            )
        found = held[number]
        if check == "default" and _facts(found) != facts[number]:
            raise CheckpointError(
                f"tocha.utils.checkpoint: Recomputed values for the following tensors have different metadata than during the forward pass. "
                f"tensor at position {number}: saved metadata: {facts[number]}, recomputed metadata: {_facts(found)}"
            )
        return found

    def recompute() -> dict[int, Tensor]:
        held: dict[int, Tensor] = {}

        def hold(t: Tensor) -> Tensor:
            held[len(held)] = t.detach()
            if stop_early and len(held) == len(facts):
                raise _Stop
            return t

        fresh = [a.detach().requires_grad_(a.requires_grad) if isinstance(a, Tensor) else a for a in args]
        with (
            randoms.again(),
            second_context,
            enable_grad(),
            saved_tensors_hooks(hold, lambda t: t),
            contextlib.suppress(_Stop),
        ):
            function(*fresh, **kwargs)
        if len(held) != len(facts):
            raise CheckpointError(
                "tocha.utils.checkpoint: A different number of tensors was saved during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(facts)}\nNumber of tensors saved during recomputation: {len(held)}."
            )
        return held

    with saved_tensors_hooks(pack, unpack), first_context:
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """A chain of functions cut into segments, all but the last checkpointed.

    >>> model = tocha.nn.Sequential(tocha.nn.Linear(2, 2), tocha.nn.ReLU(), tocha.nn.Linear(2, 1))
    >>> x = tocha.ones(1, 2, requires_grad=True)
    >>> y = tocha.utils.checkpoint.checkpoint_sequential(model, 2, x, use_reentrant=False)
    >>> tocha.equal(y, model(x))
    True
    """
    if use_reentrant is None:
        warnings.warn(
            "tocha.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    chain: Sequence[Callable] = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def run(start: int, end: int) -> Callable:
        def forward(value: Any) -> Any:
            for f in chain[start : end + 1]:
                value = f(value)
            return value

        return forward

    size = len(chain) // segments
    end = -1
    for start in range(0, size * (segments - 1), size):
        end = start + size - 1
        input = checkpoint(run(start, end), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return run(end + 1, len(chain) - 1)(input)
