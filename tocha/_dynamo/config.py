"""The settings of capture. Every name that PyTorch's table has is accepted; those without effect here say so once."""

from __future__ import annotations

import contextlib
import difflib
import sys
import types
from typing import Any

_TABLE: dict[str, tuple[type | tuple[type, ...], Any, str]] = {
    "recompile_limit": (int, 8, "how often one function is captured before it runs uncaptured"),
    "accumulated_recompile_limit": (int, 256, "the same over all of a function's captures, whatever their backend"),
    "fail_on_recompile_limit_hit": (bool, False, "raise when the limit is reached, instead of a warning"),
    "suppress_errors": (bool, False, "when capturing or a backend fails, run the function uncaptured"),
    "verbose": (bool, False, "longer messages"),
    "disable": (bool, False, "compile() returns functions as they are"),
    "assume_static_by_default": (bool, True, "sizes are constants until one changes"),
    "automatic_dynamic_shapes": (bool, True, "a size that changed becomes a symbol"),
    "capture_scalar_outputs": (bool, False, "Tensor.item() in graphs"),
    "capture_dynamic_output_shape_ops": (bool, False, "operators whose result's size depends on elements in graphs"),
    "specialize_int": (bool, False, "ints are constants even after they changed"),
    "specialize_float": (bool, False, "floats are constants even after they changed"),
    "allow_unspec_int_on_nn_module": (bool, False, "ints of modules become symbols when they change"),
    "inline_inbuilt_nn_modules": (bool, True, "modules are gone through"),
    "guard_nn_modules": (bool, True, "modules are guarded"),
    "cache_size_limit": (int, 8, "the older name of recompile_limit"),
    "error_on_recompile": (bool, False, "raise when a function is captured again"),
    "compiled_autograd": (bool, False, "capture the backward walk"),
    "log_compilation_metrics": (bool, False, "no effect"),
    "allow_rnn": (bool, False, "recurrent modules in graphs"),
    "skip_nnmodule_hook_guards": (bool, True, "hooks are guarded only where modules have some"),
    "numpy_default_float": (str, "float64", "no effect"),
    "optimize_ddp": ((bool, str), True, "no effect"),
    "force_parameter_static_shapes": (bool, True, "sizes of parameters are constants"),
    "nested_graph_breaks": (bool, False, "no effect"),
    "enable_trace_contextlib": (bool, True, "no effect"),
    "trace_numpy": (bool, True, "no effect"),
    "raise_on_ctx_manager_usage": (bool, True, "no effect"),
    "error_on_graph_break": (bool, False, "a graph break is an error"),
}


def __getattr__(name: str) -> Any:
    raise AttributeError(f"[config] no such setting: {name!r}")


class _Config(types.ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
            return
        if name not in _TABLE:
            near = difflib.get_close_matches(name, _TABLE, 1)
            raise AttributeError(
                f"[config] no such setting: {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
            )
        kind = _TABLE[name][0]
        if not isinstance(value, kind) and value is not None:
            raise TypeError(f"[config] {name} takes {kind}, got {value!r}")
        if name == "cache_size_limit":
            name = "recompile_limit"
        super().__setattr__(name, value)

    def patch(self, changes: dict[str, Any] | str | None = None, value: Any = None, **more: Any) -> Any:
        """A context manager and decorator under which settings have other values."""
        every = {changes: value} if isinstance(changes, str) else {**(changes or {}), **more}

        @contextlib.contextmanager
        def changed() -> Any:
            before = {k: getattr(self, k) for k in every}
            for k, v in every.items():
                setattr(self, k, v)
            try:
                yield
            finally:
                for k, v in before.items():
                    setattr(self, k, v)

        return changed()

    def describe(self) -> str:
        return "\n".join(f"{n} = {getattr(self, n)!r}  # {doc}" for n, (_, _, doc) in _TABLE.items())


for _name, (_kind, _default, _doc) in _TABLE.items():
    globals()[_name] = _default
sys.modules[__name__].__class__ = _Config
