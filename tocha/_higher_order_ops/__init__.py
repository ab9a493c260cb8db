"""Operators whose arguments are functions: control flow as nodes of graphs, with gradients (docs/inside/graphs.md)."""

from tocha._higher_order_ops.associative_scan import associative_scan, associative_scan_op
from tocha._higher_order_ops.cond import cond, cond_op
from tocha._higher_order_ops.errors import UncapturedHigherOrderOpError
from tocha._higher_order_ops.flex_attention import flex_attention_backward_op, flex_attention_op
from tocha._higher_order_ops.foreach_map import foreach_map
from tocha._higher_order_ops.map import map, map_impl
from tocha._higher_order_ops.operator import HigherOrderOperator
from tocha._higher_order_ops.out_dtype import out_dtype
from tocha._higher_order_ops.scan import scan, scan_op
from tocha._higher_order_ops.while_loop import while_loop, while_loop_op, while_loop_stack_output

__all__ = [
    "HigherOrderOperator", "UncapturedHigherOrderOpError", "associative_scan", "associative_scan_op", "cond", "cond_op",
    "flex_attention_backward_op", "flex_attention_op", "foreach_map", "map", "map_impl", "out_dtype", "scan", "scan_op", "while_loop", "while_loop_op", "while_loop_stack_output",
]  # fmt: skip
