"""The settings of the compiler's back end: name, type, default, what it does. Names of PyTorch's table that do nothing here say so once.

>>> from tocha._inductor import config
>>> with config.patch(fallback_to_eager=True):
...     config.fallback_to_eager
True
"""

from __future__ import annotations

import contextlib
import difflib
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

_TABLE: dict[str, tuple[type | tuple[type, ...], Any, str]] = {
    "fallback_to_eager": (bool, False, "without a C++ compiler, graphs run operator by operator, with a warning"),
    "force_disable_caches": (bool, False, "every program is compiled anew"),
    "fallback_random": (bool, True, "random numbers are those of eager; there are no others"),
    "emulate_precision_casts": (bool, True, "values are rounded where eager stores them; always so"),
    "look_back": (int, 24, "kernels that a loop may join"),
    "longest_decomposition": (int, 48, "loops of which a kernel may consist before it is called whole"),
}
# PyTorch's, without effect on programs for the CPU.
_WITHOUT_EFFECT: dict[str, Any] = {
    "max_autotune": False, "max_autotune_pointwise": False, "max_autotune_gemm": False, "coordinate_descent_tuning": False,
    "epilogue_fusion": True, "pattern_matcher": True, "shape_padding": True, "permute_fusion": False, "freezing": False,
    "debug": False, "trace.enabled": False, "trace.graph_diagram": False, "triton.cudagraphs": False,
    "triton.unique_kernel_names": True, "cpp.threads": -1, "cpp.simdlen": None, "cpp.min_chunk_size": 512,
    "cpp.enable_kernel_profile": False, "size_asserts": True, "alignment_asserts": True, "comment_origin": False,
    "profiler_mark_wrapper_call": False, "fx_graph_cache": True, "compile_threads": 1, "cpp_wrapper": False,
    "implicit_fallbacks": True, "dce": False, "inplace_buffers": True, "allow_buffer_reuse": True, "memory_planning": False,
    "aggressive_fusion": False, "max_fusion_size": 64, "realize_reads_threshold": 4, "realize_opcount_threshold": 30,
}  # fmt: skip
_said: set[str] = set()


def _known(name: str) -> None:
    if name not in _TABLE and name not in _WITHOUT_EFFECT:
        near = difflib.get_close_matches(name, [*_TABLE, *_WITHOUT_EFFECT], 1)
        raise AttributeError(f"[config] no such setting: {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    _known(name)
    return _WITHOUT_EFFECT[name]


class _Config(types.ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
            return
        _known(name)
        if name in _WITHOUT_EFFECT:
            if value != _WITHOUT_EFFECT[name] and name not in _said:
                _said.add(name)
                warnings.warn(f"[inductor] the setting {name!r} has no effect", stacklevel=2)
            return
        kind = _TABLE[name][0]
        if not isinstance(value, kind):
            raise TypeError(f"[config] {name} takes {kind}, got {value!r}")
        super().__setattr__(name, value)

    def patch(self, changes: dict[str, Any] | str | None = None, value: Any = None, **more: Any) -> Any:
        """A context manager and decorator under which settings have other values."""
        every = {changes: value} if isinstance(changes, str) else {**(changes or {}), **more}

        @contextlib.contextmanager
        def changed() -> Iterator[None]:
            before = {k: getattr(self, k) for k in every}
            for k, v in every.items():
                setattr(self, k, v)
            try:
                yield
            finally:
                for k, v in before.items():
                    if k in _TABLE:
                        setattr(self, k, v)

        return changed()

    def describe(self) -> str:
        return "\n".join(f"{n} = {getattr(self, n)!r}  # {doc}" for n, (_, _, doc) in _TABLE.items())

    def names(self) -> list[str]:
        return sorted([*_TABLE, *_WITHOUT_EFFECT])


for _name, (_kind, _default, _doc) in _TABLE.items():
    globals()[_name] = _default
sys.modules[__name__].__class__ = _Config
