"""Update formulas evaluated on tensors, operator by operator, so that a step can be differentiated."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from tocha import _C
from tocha.ir import dtypes as dt
from tocha.ir import scalar
from tocha.operators import updates

Tensor = _C.Tensor


@cache
def traced(formula: str, dtype: dt.DType) -> tuple[tuple[scalar.Node, ...], tuple[str, ...]]:
    """The formula's results as nodes, and the names of its numbers."""
    record = getattr(updates, formula)
    tensors = [a for a in record.schema.arguments if a.is_tensor]
    names = tuple(a.name for a in record.schema.arguments if not a.is_tensor)
    nodes = scalar.trace(record.body, [dtype] * len(tensors), [(n, dtype.compute) for n in names])
    return nodes, names


def operator(node: scalar.Node, args: list[Any]) -> Any:
    """One primitive, by the operator of its name; on numbers alone, in Python."""
    name = node.op.name
    if name == "cast":
        return args[0].to(getattr(_C, node.dtype.name)) if isinstance(args[0], Tensor) else args[0]
    if name == "where" and not isinstance(args[0], Tensor):
        return args[1] if args[0] else args[2]
    if not any(isinstance(a, Tensor) for a in args):
        return node.op.evaluate(node, *args)
    if name == "where" or isinstance(args[0], Tensor):
        return getattr(_C, name)(*args)
    # Not tensor(): in graphs that is a constant with memory of its own.
    return getattr(_C, name)(_C.scalar_tensor(args[0], dtype=getattr(_C, node.args[0].dtype.name)), *args[1:])


def results(formula: str, tensors: Sequence[Tensor], numbers: dict[str, Any]) -> list[Tensor]:
    """What the formula makes of tensors of one shape and dtype."""
    nodes, names = traced(formula, dt.by_name(str(tensors[0].dtype).rpartition(".")[2]))
    values: dict[scalar.Node, Any] = {}
    for node in scalar.topological(nodes):
        if node.op is scalar.INPUT:
            values[node] = tensors[node.attr]  # type: ignore[index]
        elif node.op is scalar.PARAM:
            values[node] = numbers[names[node.attr]]  # type: ignore[index]
        elif node.op is scalar.CONSTANT:
            values[node] = node.attr
        else:
            values[node] = operator(node, [values[a] for a in node.args])
    return [values[node] for node in nodes]


def apply_recorded(formula: str, lists: Sequence[list[Tensor]], numbers: dict[str, Any]) -> None:
    """The formula on each set of tensors; the results are copied into the first ones."""
    for tensors in zip(*lists, strict=True):
        # What the formula's operators keep must not be overwritten.
        kept = [t.clone() for t in tensors]
        for target, value in zip(tensors, results(formula, kept, numbers), strict=False):
            target.copy_(value)
