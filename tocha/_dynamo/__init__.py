"""Capture: ordinary Python becomes graphs. docs/inside/capture.md follows one function through it."""

import importlib as _importlib
import os as _os
from typing import Any as _Any

from tocha._dynamo import backends as backends
from tocha._dynamo import config as config
from tocha._dynamo import debug_mode as debug_mode
from tocha._dynamo import exc as exc
from tocha._dynamo.backends import list_backends as list_backends
from tocha._dynamo.backends import lookup_backend as lookup_backend
from tocha._dynamo.backends import register_backend as register_backend
from tocha._dynamo.callbacks import on_compile_end as on_compile_end
from tocha._dynamo.callbacks import on_compile_start as on_compile_start
from tocha._dynamo.comptime import comptime as comptime
from tocha._dynamo.decorators import allow_c_slot as allow_c_slot
from tocha._dynamo.decorators import assume_constant_result as assume_constant_result
from tocha._dynamo.decorators import disable_nested_graph_breaks as disable_nested_graph_breaks
from tocha._dynamo.decorators import dont_skip_tracing as dont_skip_tracing
from tocha._dynamo.decorators import error_on_graph_break as error_on_graph_break
from tocha._dynamo.decorators import forbid_in_graph as forbid_in_graph
from tocha._dynamo.decorators import get_recursion_limit as get_recursion_limit
from tocha._dynamo.decorators import is_dynamo_disable_recursive as is_dynamo_disable_recursive
from tocha._dynamo.decorators import mark_static_address as mark_static_address
from tocha._dynamo.decorators import nonstrict_trace as nonstrict_trace
from tocha._dynamo.decorators import override_cudagraphs as override_cudagraphs
from tocha._dynamo.decorators import override_optimization_hint as override_optimization_hint
from tocha._dynamo.decorators import patch_dynamo_config as patch_dynamo_config
from tocha._dynamo.decorators import (
    register_hook_for_recompile_user_context as register_hook_for_recompile_user_context,
)
from tocha._dynamo.decorators import replay as replay
from tocha._dynamo.decorators import reset_recompile_user_contexts as reset_recompile_user_contexts
from tocha._dynamo.decorators import set_recursion_limit as set_recursion_limit
from tocha._dynamo.decorators import skip_frame as skip_frame
from tocha._dynamo.decorators import step_unsupported as step_unsupported
from tocha._dynamo.decorators import substitute_in_graph as substitute_in_graph
from tocha._dynamo.dynamic import mark_dynamic as mark_dynamic
from tocha._dynamo.dynamic import mark_static as mark_static
from tocha._dynamo.dynamic import mark_unbacked as mark_unbacked
from tocha._dynamo.dynamic import maybe_mark_dynamic as maybe_mark_dynamic
from tocha._dynamo.eval_frame import OptimizedModule as OptimizedModule
from tocha._dynamo.eval_frame import allow_in_graph as allow_in_graph
from tocha._dynamo.eval_frame import disable as disable
from tocha._dynamo.eval_frame import disallow_in_graph as disallow_in_graph
from tocha._dynamo.eval_frame import graph_break as graph_break
from tocha._dynamo.eval_frame import is_compiling as is_compiling
from tocha._dynamo.eval_frame import is_dynamo_supported as is_dynamo_supported
from tocha._dynamo.eval_frame import is_inductor_supported as is_inductor_supported
from tocha._dynamo.eval_frame import optimize as optimize
from tocha._dynamo.eval_frame import optimize_assert as optimize_assert
from tocha._dynamo.eval_frame import reset as reset
from tocha._dynamo.eval_frame import reset_code as reset_code
from tocha._dynamo.eval_frame import reset_code_caches as reset_code_caches
from tocha._dynamo.explaining import ExplainOutput as ExplainOutput
from tocha._dynamo.explaining import explain as explain
from tocha._dynamo.stance import run as run
from tocha._dynamo.stance import set_stance as set_stance
from tocha._logging import _init_from_environment as _init_logs
from tocha._logging.artifacts import VERBOSE as _VERBOSE

_VERBOSE.append(lambda: config.verbose)
_init_logs()
if _os.environ.get("TOCHA_REPORT"):
    _importlib.import_module("tocha.compiler").report(_os.environ["TOCHA_REPORT"])


def __getattr__(name: str) -> _Any:
    """What few programs ask for is loaded when one does."""
    if name == "export":
        return _importlib.import_module("tocha._dynamo.exporting").export
    if name in ("compiled_autograd", "external_utils", "testing", "utils"):
        return _importlib.import_module(f"tocha._dynamo.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
