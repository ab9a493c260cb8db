"""allow_mutation_on_saved_tensors: what backward needs is copied when, and only when, somebody writes over it.

Hooks see what operations save; a function mode sees writes before they happen. tocha.autograd.graph re-exports the context.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tocha import _C
from tocha.autograd._saved_hooks import saved_tensors_hooks
from tocha.overrides import TorchFunctionMode

Tensor = _C.Tensor


class _State(threading.local):
    active = False


_state = _State()


class _Saved:
    """A saved tensor: the memory itself until it is written, then a copy of what it was."""

    def __init__(self, t: Tensor) -> None:
        self.tensor: Tensor | None = t.detach()


class _Record:
    """What was saved within one context, by the memory it lies in."""

    def __init__(self) -> None:
        self.by_memory: dict[int, weakref.WeakSet[_Saved]] = {}
        self.all: weakref.WeakSet[_Saved] = weakref.WeakSet()

    def pack(self, t: Tensor) -> _Saved:
        saved = _Saved(t)
        self.by_memory.setdefault(t.untyped_storage()._cdata, weakref.WeakSet()).add(saved)
        self.all.add(saved)
        return saved

    def unpack(self, saved: _Saved) -> Tensor:
        if saved.tensor is None:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context "
                "in which the graph was originally recorded."
            )
        return saved.tensor

    def about_to_write(self, t: Tensor) -> None:
        for saved in self.by_memory.pop(t.untyped_storage()._cdata, ()):
            assert saved.tensor is not None
            saved.tensor = saved.tensor.clone()

    def clear(self) -> None:
        """Ends the context: what was saved is let go."""
        for saved in self.all:
            saved.tensor = None
        self.by_memory.clear()


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)


def _written(func: Callable, args: tuple, kwargs: dict) -> Iterator[Tensor]:
    """The tensors that a call writes: out=, and the first argument of what is named as in-place."""
    yield from _tensors(kwargs.get("out"))
    name = getattr(func, "__name__", "")
    in_place = name.endswith("_") and not name.endswith("__")
    augmented = name.startswith("__i") and name.endswith("__") and hasattr(Tensor, f"__{name[3:]}")
    if args and (in_place or augmented or name == "__setitem__"):
        yield from _tensors(args[0])


class _Watch(TorchFunctionMode):
    def __init__(self, record: _Record) -> None:
        self.record = record

    def __torch_function__(
        self, func: Callable, types: Sequence[type], args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        for t in _written(func, args, kwargs or {}):
            self.record.about_to_write(t)
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_Record]:
    """Within it tensors that backward needs may be written over: backward gets what they were. It has to run here, too.

    >>> import tocha
    >>> with tocha.autograd.graph.allow_mutation_on_saved_tensors():
    ...     a = tocha.ones(3, requires_grad=True)
    ...     b = a.clone()
    ...     out = (b**2).sum()
    ...     _ = b.sin_()
    ...     out.backward()
    >>> a.grad
    tensor([2., 2., 2.])
    """
    if _state.active:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    record = _Record()
    _state.active = True
    try:
        with saved_tensors_hooks(record.pack, record.unpack), _Watch(record):
            yield record
    finally:
        _state.active = False
        record.clear()
