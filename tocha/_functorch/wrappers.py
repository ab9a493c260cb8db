"""Tensor subclasses that are made of other tensors (`__tensor_flatten__`) in ahead-of-time autograd.

Graphs see the inner tensors only. A function runs on wrappers around fakes: its class says, operator by operator, what happens to
the inner tensors. Around the compiled graph arguments are taken apart, and results and gradients put together again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tocha import _C
from tocha._functorch.views import Step
from tocha.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass

Tensor = _C.Tensor


@dataclass
class Layout:
    """How a wrapper is put together: its class, what `__tensor_flatten__` said, and the layouts of its parts (None: a plain value)."""

    cls: type
    context: Any
    names: list[str]
    parts: list[Layout | None]
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def build(self, values: Iterator[Any]) -> Any:
        """A wrapper around the next values."""
        inner = {n: built(p, values) for n, p in zip(self.names, self.parts, strict=True)}
        return self.cls.__tensor_unflatten__(inner, self.context, self.size, self.stride)  # type: ignore[attr-defined]

    def check(self, t: Any, place: int) -> None:
        """The graph takes wrappers that are made as those it was traced with."""
        found = layout_of(t)
        if found is None or found.cls is not self.cls or found.names != self.names or found.context != self.context:
            raise RuntimeError(
                f"[aot_autograd] input {place} must be a {self.cls.__name__} made as when the function was traced: "
                f"expected {self.names} with {self.context}, got {t if found is None else (found.names, found.context)}"
            )


def layout_of(value: Any) -> Layout | None:
    if not is_traceable_wrapper_subclass(value):
        return None
    names, context = value.__tensor_flatten__()
    parts = [layout_of(getattr(value, n)) for n in names]
    return Layout(type(value), context, list(names), parts, tuple(value.shape), tuple(value.stride()))


def flat(value: Any) -> list[Any]:
    """The plain values that a value is made of: itself, or the parts of a wrapper."""
    if not is_traceable_wrapper_subclass(value):
        return [value]
    names, _ = value.__tensor_flatten__()
    return [v for n in names for v in flat(getattr(value, n))]


def flat_all(values: Sequence[Any]) -> list[Any]:
    return [v for value in values for v in flat(value)]


def paths(value: Any) -> list[tuple[str, ...]]:
    """Where each of the plain values is found, attribute by attribute."""
    if not is_traceable_wrapper_subclass(value):
        return [()]
    names, _ = value.__tensor_flatten__()
    return [(n, *rest) for n in names for rest in paths(getattr(value, n))]


def at_path(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        value = getattr(value, name)
    return value


def built(layout: Layout | None, values: Iterator[Any]) -> Any:
    return next(values) if layout is None else layout.build(values)


def built_all(layouts: Sequence[Layout | None], values: Sequence[Any]) -> list[Any]:
    """The wrappers and plain values that these plain values make."""
    left = iter(values)
    return [built(p, left) for p in layouts]


def around(t: Any, inner: Callable[[Any], Any]) -> Any:
    """A wrapper made as t is, around what `inner` makes of each of its plain tensors."""
    layout = layout_of(t)
    assert layout is not None
    return layout.build(iter([inner(v) for v in flat(t)]))


def is_wrapper(value: Any) -> bool:
    return is_traceable_wrapper_subclass(value)


@dataclass
class Wrappers:
    """What is a wrapper among the arguments of a traced function, its results, their tangents, and the gradients."""

    inputs: list[Layout | None]
    raws: list[Layout | None]
    tangents: list[Layout | None]
    grads: list[Layout | None]

    @staticmethod
    def of(
        inputs: Sequence[Any], raws: Sequence[Any], tangents: Sequence[Any], grads: Sequence[Any]
    ) -> Wrappers | None:
        """None where everything is plain."""
        if not any(map(is_wrapper, (*inputs, *raws, *tangents, *grads))):
            return None
        return Wrappers(*([layout_of(v) for v in values] for values in (inputs, raws, tangents, grads)))

    def taken_apart(self, args: Sequence[Any]) -> list[Any]:
        """Arguments as the graph takes them."""
        for i, (a, layout) in enumerate(zip(args, self.inputs, strict=True)):
            if layout is not None:
                layout.check(a, i)
        return flat_all(args)

    def places(self, inputs: set[int]) -> set[int]:
        """The places, among the graph's inputs, of the parts of these arguments."""
        owners = [i for i, p in enumerate(self.inputs) for _ in range(count(p))]
        return {k for k, i in enumerate(owners) if i in inputs}


def count(layout: Layout | None) -> int:
    return 1 if layout is None else sum(map(count, layout.parts))


# ---- tangents ----------------------------------------------------------------------------------------


def as_traced(grad: Any, expected: Layout | None, place: int) -> Any:
    """A gradient in the class that backward was traced with; classes may know how to change one of theirs."""
    found = layout_of(grad)
    if same_kind(found, expected):
        return grad
    coerce = getattr(grad, "__coerce_same_metadata_as_tangent__", None)
    wanted = Tensor if expected is None else expected.cls
    made = None if coerce is None else coerce(None if expected is None else expected.context, wanted)
    if made is not None:
        return made
    raise RuntimeError(
        "During the backward, we encountered a tensor subclass where we guessed its metadata incorrectly.\n[aot_autograd] "
        f"Expected: {None if expected is None else expected.context} (type {wanted}), got: "
        f"{None if found is None else found.context} (type {type(grad)}), shape: {grad.shape}, for the gradient of result {place}.\n"
        "Your tensor subclass must implement __coerce_same_metadata_as_tangent__."
    )


def same_kind(a: Layout | None, b: Layout | None) -> bool:
    if a is None or b is None:
        return a is b
    if a.cls is not b.cls or a.context != b.context:
        return False
    return all(same_kind(x, y) for x, y in zip(a.parts, b.parts, strict=True))


# ---- while a function is traced ----------------------------------------------------------------------


class WrapperViews(TorchDispatchMode):
    """Keeps, for each wrapper that is a view of another one, the operator that made it: results are made so again outside of the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[int, tuple[Any, Any, Step]] = {}  # by id: the view, what it is one of, and how

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if args and is_wrapper(args[0]) and func._schema._is_view_op():
            several = isinstance(out, list | tuple)
            call = object()
            for i, v in enumerate(out if several else (out,)):
                if is_wrapper(v):
                    self.made[id(v)] = (v, args[0], Step(func, args[1:], kwargs or {}, i if several else None, call))
        return out

    def chain(self, t: Any) -> tuple[Any, tuple[Step, ...]]:
        """The wrapper that t is a view of, and the operators from there to t."""
        steps: list[Step] = []
        while id(t) in self.made:
            _, t, step = self.made[id(t)]
            steps.append(step)
        return t, tuple(reversed(steps))
