"""What a graph's values cost to keep and to compute again, from the records of their operators."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from tocha import _C, _ops
from tocha._library.tags import Tag
from tocha._subclasses.fake import FakeTensor
from tocha.fx import Node
from tocha.fx.passes.functional.nodes import record_of
from tocha.ir.sym_types import Symbolic

ITEM = _ops.ops.aten._local_scalar_dense.default
CHEAP, DEAR = 1, 16  # of a formula's element, in bytes that are moved meanwhile
UNKNOWN_SIZE = 8192  # what a size that only elements decide is taken for


def values(node: Node) -> Iterator[Any]:
    """What a node computes, one by one."""
    val = node.meta.get("val")
    yield from val if isinstance(val, list | tuple) else (val,)


def is_number(node: Node) -> bool:
    """Whether a node's value is a size or another symbolic number."""
    return isinstance(node.meta.get("val"), Symbolic)


def is_several(node: Node) -> bool:
    """Whether its results are only seen one by one, through getitem."""
    return isinstance(node.meta.get("val"), list | tuple)


def size_of(n: Any) -> int:
    if isinstance(n, int):
        return n
    hint = n.node.hint
    return UNKNOWN_SIZE if hint is None else int(hint)


def numel(t: Any) -> int:
    count = 1
    for n in t._facts.sizes if isinstance(t, FakeTensor) else t.shape:
        count *= size_of(n)
    return count


def bytes_of(node: Node) -> int:
    return sum(numel(v) * v.element_size() for v in values(node) if isinstance(v, _C.Tensor))


def is_random(node: Node) -> bool:
    """Whether it draws random numbers: also a functional form, such as uniform_ has, which is no record."""
    return Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def is_cheap(node: Node) -> bool:
    """Whether it may be computed again: loops that fuse with what reads them."""
    if node.op != "call_function":
        return False
    if is_number(node):
        return node.target is not ITEM  # of elements: the tensor may be another by then
    if node.target is operator.getitem:
        return is_cheap(node.all_input_nodes[0])
    o = record_of(node)
    if o is None or is_random(node):
        return False
    return o.kind in ("pointwise", "reduction", "view") or o.algorithm in ("memory", "fill")


def again(node: Node) -> float:
    """What it costs to compute a value of loops once more, in bytes that are moved in that time: exponentials and their kin take longer than
    reading what they gave."""
    o = record_of(node)
    if o is None or o.kind not in ("pointwise", "reduction"):
        return 0.0
    given = [node] if o.kind == "pointwise" else node.all_input_nodes[:1]
    elements = sum(numel(v) for n in given for v in values(n) if isinstance(v, _C.Tensor))
    return elements * (DEAR if o.expensive else CHEAP)


def is_fused(node: Node) -> bool:
    """Whether a reader takes its elements as they are computed, without a pass over memory of its own."""
    o = record_of(node)
    return o is not None and o.kind in ("pointwise", "view", "reduction")


def work(node: Node) -> int:
    """About how many operations computing it takes."""
    o = record_of(node)
    if o is None or o.kind == "view" or node.target is operator.getitem:
        return 0
    out = sum(numel(v) for v in values(node) if isinstance(v, _C.Tensor))
    read = [numel(v) for n in node.all_input_nodes for v in values(n) if isinstance(v, _C.Tensor)]
    if o.algorithm in ("product", "convolution") and len(read) >= 2:
        # Each result is a sum over what the operands share: |a||b||out| is the square of that many products.
        a, b = sorted(read)[-2:]
        return 2 * max(1, round((a * b * max(out, 1)) ** 0.5))
    return out + sum(read)
