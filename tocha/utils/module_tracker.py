"""Which modules run: in forward, and in backward those whose forward recorded the node that runs.

>>> import tocha
>>> layers, seen = tocha.nn.Sequential(tocha.nn.Linear(2, 2)), []
>>> with ModuleTracker() as tracker:
...     _ = layers[0].register_forward_pre_hook(lambda *_: seen.append(sorted(tracker.parents)))
...     _ = layers(tocha.ones(1, 2))
>>> seen, tracker.parents
([['Global', 'Sequential', 'Sequential.0']], {'Global'})
"""

from __future__ import annotations

import bisect
import weakref
from typing import Any

from tocha import _C, nn

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """`parents` has the names of the modules that run, and "Global"; `is_bw` says whether that is in backward."""

    def __init__(self) -> None:
        self._names: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        self._open: tuple[str, ...] = ()
        # Nodes from a number on (until the next) were recorded while these modules ran.
        self._numbers: list[int] = []
        self._modules: list[tuple[str, ...]] = []
        self._handles: list[Any] = []

    @property
    def is_bw(self) -> bool:
        return _C._graph_task() != -1

    @property
    def parents(self) -> set[str]:
        return {"Global", *self.names()}

    def names(self) -> tuple[str, ...]:
        """Of the modules that run, outermost first."""
        node = None if self._open else _C._current_node()
        if node is None:
            return self._open
        at = bisect.bisect_right(self._numbers, node._sequence_nr()) - 1
        return self._modules[at] if at >= 0 else ()

    def name_of(self, module: nn.Module) -> str:
        if module not in self._names:
            above = type(module).__name__
            for name, child in module.named_modules():
                self._names.setdefault(child, f"{above}.{name}" if name else above)
        return self._names[module]

    def _note(self, names: tuple[str, ...]) -> None:
        self._open = names
        self._numbers.append(_C._next_sequence_number())
        self._modules.append(names)

    def _enter(self, module: nn.Module, args: Any) -> None:
        self._note((*self._open, self.name_of(module)))

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        self._note(self._open[:-1])

    def __enter__(self) -> ModuleTracker:
        self._handles = [
            nn.modules.module.register_module_forward_pre_hook(self._enter),
            nn.modules.module.register_module_forward_hook(self._leave, always_call=True),
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._open = ()
