"""The settings of capture: name, type, default, what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tocha.utils import _config_module

_TABLE: _config_module.Table = {
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


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


_config_module.install(__name__, _TABLE, aliases={"cache_size_limit": "recompile_limit"}, or_none=True)
