"""The settings of the compiler's back end: name, type, default, what it does. Names of PyTorch's table that do nothing here say so once.

>>> from tocha._inductor import config
>>> with config.patch(fallback_to_eager=True):
...     config.fallback_to_eager
True
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tocha._inductor.other_settings import OTHER_SETTINGS
from tocha.utils import _config_module

_TABLE: _config_module.Table = {
    "fallback_to_eager": (bool, False, "without a C++ compiler, graphs run operator by operator, with a warning"),
    "force_disable_caches": (
        bool,
        False,
        "nothing is read from the caches on disk, or kept there",
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES",
    ),
    "fx_graph_cache": (
        bool,
        True,
        "captured graphs are looked for in the cache on disk",
        "TORCHINDUCTOR_FX_GRAPH_CACHE",
    ),
    "cache_size_limit": (int, 4 << 30, "bytes of the cache on disk; what was not used for the longest time goes first"),
    "triton.cudagraphs": (bool, False, "programs keep the memory of temporaries between calls (mode reduce-overhead)"),
    "verify": (str, "", "'sample': eager runs beside compiled at some calls; where they differ its results are kept"),
    "nan_asserts": (bool, False, "what goes into a compiled graph and comes out of it is asserted to be finite"),
    "freezing": (
        bool,
        False,
        "in graphs without gradients parameters are constants: batch norms are folded, weights laid out once; writes to them are not seen",
        "TORCHINDUCTOR_FREEZING",
    ),
    "max_autotune": (
        bool,
        False,
        "every way of computing a matrix product is measured when it is compiled, and the fastest kept on disk (modes max-autotune)",
        "TORCHINDUCTOR_MAX_AUTOTUNE",
    ),
    "max_autotune_gemm": (bool, False, "the same", "TORCHINDUCTOR_MAX_AUTOTUNE_GEMM"),
    "layout_optimization": (
        bool,
        True,
        "with max_autotune, in graphs without gradients: whether pictures lie with channels last between convolutions is measured, copies included",
        "TORCHINDUCTOR_LAYOUT_OPTIMIZATION",
    ),
    "fallback_random": (bool, True, "random numbers are those of eager; there are no others"),
    "emulate_precision_casts": (bool, True, "values are rounded where eager stores them; always so"),
    "look_back": (int, 24, "kernels that a loop may join"),
    "disabled_passes": (
        str,
        "",
        "passes that are left out, separated by commas: inline, rewrite, cut, fuse, products, epilogues, side_by_side, sooner, reuse",
    ),
    "trace.enabled": (
        bool,
        False,
        "each compilation writes a folder with what was made at every stage",
        "TORCH_COMPILE_DEBUG",
    ),
    "trace.graph_diagram": (bool, False, "and its graphs as drawings"),
    "trace.debug_dir": (
        str,
        "",
        "where that folder is made; the current folder, if it is empty",
        "TORCH_COMPILE_DEBUG_DIR",
    ),
    "pre_grad_custom_pass": (object, None, "called with each captured graph before it is differentiated"),
    "joint_custom_pre_pass": (
        object,
        None,
        "called with each graph of operators that holds both ways, or the only one",
    ),
    "joint_custom_post_pass": (object, None, "called behind it"),
    "custom_partitioner_fn": (object, None, "cuts graphs that hold both ways into forward and backward"),
    "post_grad_custom_pre_pass": (
        object,
        None,
        "called with each graph of operators that is compiled, forward and backward",
    ),
    "post_grad_custom_post_pass": (object, None, "called behind it"),
    "longest_decomposition": (int, 48, "loops of which a kernel may consist before it is called whole"),
}


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


_config_module.install(__name__, _TABLE, OTHER_SETTINGS)
PASSES = (
    "short_folds",
    "inline",
    "rewrite",
    "in_place",
    "cut",
    "fuse",
    "products",
    "epilogues",
    "side_by_side",
    "sooner",
    "reuse",
)


def runs(name: str) -> bool:
    """Whether a pass is made: disabled_passes leaves some out, to find which one errs."""
    return name not in sys.modules[__name__].disabled_passes.split(",")
