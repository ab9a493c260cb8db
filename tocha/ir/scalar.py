"""The language of formulas: nodes, every primitive as a function, tracing and evaluation.

Operator records write their bodies with what this module exports; the build and the compiler trace them:

    >>> from tocha.ir.dtypes import float32
    >>> (y,) = trace(lambda x: x * sigmoid(x), [float32])
    >>> y
    mul(input0:f32, sigmoid(input0:f32))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tocha.ir.dtypes import *
from tocha.ir.dtypes import DType, Number
from tocha.ir.node import (  # noqa: F401
    CONSTANT,
    GRAD,
    INDEX,
    INPUT,
    OUTPUT,
    PARAM,
    Cost,
    Grad,
    Input,
    Node,
    NoDerivative,
    Output,
    Param,
    Primitive,
    constant,
    make,
    topological,
)
from tocha.ir.primitives import *
from tocha.ir.primitives import absolute as abs  # noqa: F401
from tocha.ir.select import *
from tocha.ir.select import cast
from tocha.ir.special import *


def square(x: Node) -> Node:
    return x * x


def trace(
    fn: Callable[..., Node | tuple[Node, ...]],
    dtypes: Sequence[DType],
    params: Sequence[tuple[str, DType]] | None = None,
    results: Sequence[DType] | None = None,
    *,
    compute: bool = True,
) -> tuple[Node, ...]:
    """The nodes of fn's results, called with one Input per dtype and one Param per (name, dtype), by keyword.

    Operands stored in float16, bfloat16 or float8 enter as float32 unless `compute` is off; `results`, where given,
    are the dtypes the outputs are converted to.
    """
    inputs = [Input(i, dtype) for i, dtype in enumerate(dtypes)]
    if compute:
        inputs = [cast(x, x.dtype.compute) for x in inputs]
    keywords = {name: Param(i, dtype) for i, (name, dtype) in enumerate(params or ())}
    outputs = fn(*inputs, **keywords)
    if not isinstance(outputs, tuple):
        outputs = (outputs,)
    for output in outputs:
        if not isinstance(output, Node):
            raise TypeError(f"a formula must return nodes, got {output!r}: give constants a dtype with constant()")
    if results is None:
        return tuple(outputs)
    if len(results) != len(outputs):
        raise TypeError(f"the formula has {len(outputs)} results, {len(results)} dtypes were given")
    return tuple(cast(output, dtype) for output, dtype in zip(outputs, results))


def evaluate(
    outputs: Sequence[Node],
    inputs: Sequence[Number] = (),
    params: Sequence[Number] = (),
    saved: Sequence[Number] = (),
    grads: Sequence[Number] = (),
    index: int = 0,
) -> tuple[Number, ...]:
    """The values of nodes in Python, rounded to each node's dtype on the way.

    >>> from tocha.ir.dtypes import int8
    >>> evaluate(trace(lambda x: x + 100, [int8]), inputs=[100])
    (-56,)
    """
    leaves = {INPUT: inputs, PARAM: params, OUTPUT: saved, GRAD: grads}
    values: dict[Node, Number] = {}
    for node in topological(outputs):
        if node.op in leaves:
            value = leaves[node.op][node.attr]  # type: ignore[index]
        elif node.op is CONSTANT:
            value = node.attr  # type: ignore[assignment]
        elif node.op is INDEX:
            value = index
        else:
            value = node.op.evaluate(node, *(values[arg] for arg in node.args))
        values[node] = node.dtype.convert(value)
    return tuple(values[output] for output in outputs)


def substitute(outputs: Sequence[Node], replacements: dict[Node, Node]) -> tuple[Node, ...]:
    """The outputs with every occurrence of a key replaced by its value, outermost first."""
    done = dict(replacements)
    for node in topological(outputs, done):
        done[node] = make(node.op, node.dtype, tuple(done[arg] for arg in node.args), node.attr)
    return tuple(done[output] for output in outputs)
