"""The settings of the compiler's back end: name, type, default, what it does. Names of PyTorch's table that do nothing here say so once.

>>> from tocha._inductor import config
>>> with config.patch(fallback_to_eager=True):
...     config.fallback_to_eager
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tocha.utils import _config_module

_TABLE: _config_module.Table = {
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


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


_config_module.install(__name__, _TABLE, _WITHOUT_EFFECT)
