"""Modes of the library that captured code switches: the switch becomes a node, and holds while the rest is captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tocha
from tocha import _C

# Native switches: what they are called with is recorded.
SWITCHES = frozenset({"_set_grad_enabled", "_set_inference", "set_autocast_enabled", "set_autocast_dtype", "set_autocast_cache_enabled", "autocast_increment_nesting", "autocast_decrement_nesting", "clear_autocast_cache", "set_default_dtype", "_set_default_dtype"})  # fmt: skip


def switch(function: Any, args: list[Any]) -> Any:
    """Switches for the time of the capture. Facts are on the meta device: what holds for the CPU holds for them."""
    if function.__name__ in ("set_autocast_enabled", "set_autocast_dtype") and args[0] == "cpu":
        function("meta", *args[1:])
    return function(*args)


class Preserved:
    """Modes are afterwards what they were."""

    def __enter__(self) -> Preserved:
        self.grad, self.inference = _C.is_grad_enabled(), _C.is_inference_mode_enabled()
        self.cache, self.dtype = _C.is_autocast_cache_enabled(), _C.get_default_dtype()
        self.autocast = {d: (_C.is_autocast_enabled(d), _C.get_autocast_dtype(d)) for d in ("cpu", "cuda", "meta")}
        _C.set_autocast_enabled("meta", self.autocast["cpu"][0])
        _C.set_autocast_dtype("meta", self.autocast["cpu"][1])
        self.nesting = _nesting()
        return self

    def during(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, called in the modes of before: those in which the graph will be called."""

        def call(*args: Any) -> Any:
            with Preserved():
                self.__exit__()
                return function(*args)

        return call

    def __exit__(self, *error: object) -> None:
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


def _nesting() -> int:
    _C.autocast_increment_nesting()
    return _C.autocast_decrement_nesting()
