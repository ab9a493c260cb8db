"""out_dtype(op, dtype, *args): an operator computed in the wider of its operands' dtypes and another, which its result has."""

from __future__ import annotations

import functools
from typing import Any

from tocha import _C
from tocha._higher_order_ops.operator import HigherOrderOperator
from tocha._ops import OpOverload, ops

ALLOWED = (
    "linear.default", "mm.default", "conv2d.default", "convolution.default", "mul.Tensor", "mul.Scalar", "div.Tensor", "div.Scalar",
)  # fmt: skip


class OutDtype(HigherOrderOperator):
    """The operator: integers of one byte are multiplied without leaving their range."""

    def __call__(self, op: Any, output_dtype: Any, *args: Any) -> Any:
        if not isinstance(op, OpOverload):
            raise ValueError("[out_dtype] out_dtype's first argument must be an OpOverload")
        if op._schema.is_mutable:
            raise ValueError("[out_dtype] out_dtype's first argument needs to be a functional operator")
        allowed = [functools.reduce(getattr, name.split("."), ops.aten) for name in ALLOWED]
        if op not in allowed:
            raise ValueError(f"[out_dtype] out_dtype only allows the following operators: {allowed}.")
        dtypes = [a.dtype for a in args if isinstance(a, _C.Tensor)]
        wide = functools.reduce(_C.promote_types, dtypes, output_dtype)
        return op(*(a.to(wide) if isinstance(a, _C.Tensor) else a for a in args)).to(output_dtype)


out_dtype = OutDtype("out_dtype")
