"""Modes of the library that captured code switches: the switch becomes a node, and holds while the rest is captured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tocha
from tocha import _C

# Native switches: what they are called with is recorded.
SWITCHES = frozenset({"_set_grad_enabled", "_set_inference", "set_autocast_enabled", "set_autocast_dtype", "set_autocast_cache_enabled", "autocast_increment_nesting", "autocast_decrement_nesting", "clear_autocast_cache", "set_default_dtype", "_set_default_dtype"})  # fmt: skip


# Who reads what captured code may switch itself: guards look at that as one word.
_READERS = ("is_autocast", "is_grad_enabled", "is_inference_mode", "get_default_dtype", "get_default_device", "get_autocast")  # fmt: skip


def holds(name: str) -> bool:
    return name.startswith(_READERS)


def switch(function: Any, args: list[Any]) -> Any:
    """Switches for the time of the capture. Facts are on the meta device: what holds for the CPU holds for them."""
    if function.__name__ in ("set_autocast_enabled", "set_autocast_dtype") and args[0] == "cpu":
        function("meta", *args[1:])
    return function(*args)


@dataclass
class State:
    """The modes of the library at one moment."""

    grad: bool
    inference: bool
    cache: bool
    dtype: Any
    autocast: dict[str, tuple[bool, Any]]
    nesting: int

    @staticmethod
    def now() -> State:
        autocast = {d: (_C.is_autocast_enabled(d), _C.get_autocast_dtype(d)) for d in ("cpu", "cuda", "meta")}
        grad, inference = _C.is_grad_enabled(), _C.is_inference_mode_enabled()
        return State(grad, inference, _C.is_autocast_cache_enabled(), _C.get_default_dtype(), autocast, _nesting())

    def restore(self) -> None:
        _C._set_inference(self.inference)
        _C._set_grad_enabled(self.grad)
        for device, (enabled, dtype) in self.autocast.items():
            _C.set_autocast_enabled(device, enabled)
            _C.set_autocast_dtype(device, dtype)
        _C.set_autocast_cache_enabled(self.cache)
        tocha.set_default_dtype(self.dtype)
        while _nesting() > self.nesting:
            _C.autocast_decrement_nesting()
        while _nesting() < self.nesting:
            _C.autocast_increment_nesting()


class Preserved:
    """Modes are afterwards what they were."""

    def __enter__(self) -> Preserved:
        self.before = State.now()
        _C.set_autocast_enabled("meta", self.before.autocast["cpu"][0])
        _C.set_autocast_dtype("meta", self.before.autocast["cpu"][1])
        self.started = State.now()
        return self

    def __exit__(self, *error: object) -> None:
        self.before.restore()

    def during(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, called in the modes of before: those in which the graph will be called."""

        def call(*args: Any) -> Any:
            now = State.now()
            self.before.restore()
            try:
                return function(*args)
            finally:
                now.restore()

        return call

    def switched(self) -> Callable[[], None] | None:
        """What sets the modes in which the captured program leaves, if they are others than those it was called in."""
        now = State.now()
        if now == self.started:
            return None
        now.autocast["meta"] = self.before.autocast["meta"]
        return now.restore


def _nesting() -> int:
    _C.autocast_increment_nesting()
    return _C.autocast_decrement_nesting()
