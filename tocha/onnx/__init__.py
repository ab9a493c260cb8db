"""torch.onnx as programs meet it that do not export: whether an export is under way, settings, translations of operators.

Nothing is exported: `export` refuses.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NoReturn

from tocha.onnx import symbolic_helper

__all__ = [
    "OnnxExporterError", "OperatorExportTypes", "TensorProtoDataType", "TrainingMode", "export", "is_in_onnx_export",
    "register_custom_op_symbolic", "symbolic_helper", "unregister_custom_op_symbolic",
]  # fmt: skip

TrainingMode = enum.IntEnum("TrainingMode", "EVAL PRESERVE TRAINING", start=0, module=__name__)
OperatorExportTypes = enum.IntEnum(
    "OperatorExportTypes", "ONNX ONNX_ATEN ONNX_ATEN_FALLBACK ONNX_FALLTHROUGH", start=0, module=__name__
)
TensorProtoDataType = enum.IntEnum(
    "TensorProtoDataType",
    "UNDEFINED FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FLOAT16 DOUBLE UINT32 UINT64 COMPLEX64 COMPLEX128 BFLOAT16 "
    "FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ",
    start=0,
    module=__name__,
)
producer_name = "tocha"
_symbolic: dict[tuple[str, int], Callable] = {}  # how an operator is written, by name and opset


class OnnxExporterError(RuntimeError):
    """What an export raises."""


def is_in_onnx_export() -> bool:
    """Whether an export is under way: none ever is.

    >>> is_in_onnx_export()
    False
    """
    return False


def export(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: models are not exported to ONNX."""
    raise NotImplementedError("[onnx.export] export to ONNX is not built in tocha")


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable, opset_version: int) -> None:
    """Tells how an operator "domain::name" is written in an opset."""
    _check_name(symbolic_name)
    _symbolic[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Forgets how an operator is written."""
    _check_name(symbolic_name)
    _symbolic.pop((symbolic_name, opset_version), None)


def _check_name(name: str) -> None:
    domain, _, operator = name.partition("::")
    if not domain or not operator:
        raise OnnxExporterError(
            f"[register_custom_op_symbolic] Failed to register operator {name}: it should be domain::name"
        )
