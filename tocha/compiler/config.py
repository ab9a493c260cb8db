"""The settings of compiling as a whole: name, type, default, what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tocha._dynamo import config as _dynamo_config
from tocha.utils import _config_module

_TABLE: _config_module.Table = {
    "dynamic_sources": (
        str,
        "",
        "inputs whose sizes and numbers are symbols, by name, with commas: L['x'], L['self'].width; patterns too",
        "TORCH_COMPILE_DYNAMIC_SOURCES",
    ),
    "unbacked_sources": (
        str,
        "",
        "inputs of whose sizes nothing is known while capturing, by name",
        "TORCH_COMPILE_UNBACKED_SOURCES",
    ),
}
# Settings of PyTorch's that nothing here depends on: whoever changes one is told so, once.
_WITHOUT_EFFECT: dict[str, Any] = {
    "cache_key_tag": "", "dynamic_values": "", "force_cudagraph_gc": False, "force_disable_caches": False, "job_id": None, "pgo_extra_read_key": None,
    "pgo_extra_write_key": None,
}  # fmt: skip

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


# Settings of capture that PyTorch shows here too.
_OF_CAPTURE = (
    "accumulated_recompile_limit", "allow_unspec_int_on_nn_module", "assume_static_by_default", "automatic_dynamic_shapes", "capture_dynamic_output_shape_ops",
    "capture_scalar_outputs", "dynamic_shapes", "enable_cpp_symbolic_shape_guards", "fail_on_recompile_limit_hit", "log_file_name", "recompile_limit",
    "reorderable_logging_functions", "skip_tensor_guards_with_matching_dict_tags", "verbose", "wrap_top_frame",
)  # fmt: skip
_config_module.install(__name__, _TABLE, _WITHOUT_EFFECT, elsewhere=dict.fromkeys(_OF_CAPTURE, _dynamo_config))
