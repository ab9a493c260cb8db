"""Symbolic reverse-mode derivatives of formulas.

`gradient` turns a formula y(x, ...) into the formulas of its inputs' gradients, in terms of the arriving gradients
(Grad leaves), the inputs and, where that is better, the results themselves (Output leaves). Complex gradients follow
PyTorch: the conjugate Wirtinger derivative, so that a step against the gradient descends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tocha.ir.node import CONSTANT, GRAD, INPUT, OUTPUT, PARAM, Cost, Grad, Node, NoDerivative, Output, topological
from tocha.ir.rewrite import SIMPLIFY, Rewriter
from tocha.ir.scalar import substitute
from tocha.ir.select import CAST, cast, where, zero_like


@dataclass(frozen=True)
class Saved:
    """The leaves that formulas read, by position."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    params: tuple[int, ...]
    grads: tuple[int, ...]


def saved(nodes: Sequence[Node | None]) -> Saved:
    """What gradient formulas need: inputs and outputs to keep, parameters, arriving gradients."""
    leaves: dict[object, set[int]] = {INPUT: set(), OUTPUT: set(), PARAM: set(), GRAD: set()}
    for node in topological([node for node in nodes if node is not None]):
        if node.op in leaves:
            leaves[node.op].add(node.attr)  # type: ignore[arg-type]
    return Saved(*(tuple(sorted(leaves[leaf])) for leaf in (INPUT, OUTPUT, PARAM, GRAD)))


def gradient(outputs: Sequence[Node], wanted: Sequence[int], in_results: bool = True) -> tuple[Node | None, ...]:
    """For each wanted input, the formula of its gradient; None for one that no output depends on differentiably.
    In terms of the results where that is better, unless they must not be kept.

    >>> from tocha.ir.dtypes import float32
    >>> from tocha.ir.scalar import tanh, trace
    >>> gradient(trace(lambda x: tanh(x), [float32]), [0])
    (mul(grad0:f32, sub(1.0:f32, mul(output0:f32, output0:f32))),)
    """
    adjoints = _accumulate(outputs, set(wanted))
    found = [adjoints.get(index) for index in wanted]
    formulas = [node for node in found if node is not None]
    rest = iter(_in_results(outputs, formulas) if in_results else Rewriter(SIMPLIFY)(formulas))
    return tuple(None if node is None else next(rest) for node in found)


def _accumulate(outputs: Sequence[Node], wanted: set[int]) -> dict[int, Node]:
    """Walks the formula from its results to its inputs, summing what arrives at each node."""
    order = topological(outputs)
    relevant = _depends_on(order, wanted)
    sums: dict[Node, Node] = {}
    for index, output in enumerate(outputs):
        if output in relevant:
            _add_to(sums, output, Grad(index, output.dtype))
    for node in reversed(order):
        arriving = sums.get(node)
        if arriving is None or node.op is INPUT:
            continue
        for position, arg in enumerate(node.args):
            if arg in relevant:
                _add_to(sums, arg, _rule(node, position, arriving))
    return {node.attr: sums[node] for node in sums if node.op is INPUT}  # type: ignore[misc]


def _depends_on(order: Sequence[Node], wanted: set[int]) -> set[Node]:
    """The nodes through which a wanted input has a gradient."""
    relevant: set[Node] = set()
    for node in order:
        if not node.dtype.is_differentiable or node.op.gradients is None:
            continue
        if node.op is INPUT:
            if node.attr in wanted:
                relevant.add(node)
        elif any(arg in relevant for arg in node.args):
            relevant.add(node)
    return relevant


def _rule(node: Node, position: int, arriving: Node) -> Node:
    assert node.op.gradients is not None
    rule = node.op.gradients[position]
    if rule is None:
        raise NoDerivative(f"the derivative of {node.op} by its operand {position} is not implemented")
    arg = node.args[position]
    if _is_zero(arriving):
        return zero_like(arg)
    # Masks stay outside: on the branch that where() did not take, 0 * inf must not become NaN.
    if arriving.op is where and (_is_zero(arriving.args[1]) or _is_zero(arriving.args[2])):
        condition, if_true, if_false = arriving.args
        return _masked(condition, _rule(node, position, if_true), _rule(node, position, if_false))
    return rule(arriving, node, *node.args)


def _is_zero(node: Node) -> bool:
    return node.op is CONSTANT and node.attr == 0


def _add_to(sums: dict[Node, Node], node: Node, contribution: Node) -> None:
    known = sums.get(node)
    sums[node] = contribution if known is None else _sum(known, contribution)


def _sum(a: Node, b: Node) -> Node:
    if _is_zero(a) or _is_zero(b):
        return b if _is_zero(a) else a
    # Under one condition the sum remains a choice, whose zeros the next rule keeps apart.
    if a.op is where and b.op is where and a.args[0] is b.args[0]:
        (condition, a_true, a_false), (_, b_true, b_false) = a.args, b.args
        return where(condition, _sum(a_true, b_true), _sum(a_false, b_false))
    return a + b


def _masked(condition: Node, if_true: Node, if_false: Node) -> Node:
    return if_true if _is_zero(if_true) and _is_zero(if_false) else where(condition, if_true, if_false)


def _results_for(outputs: Sequence[Node]) -> dict[Node, Node]:
    """The nodes whose values the results hold. A result stored in float16 stands for the float32 it was rounded
    from, as in PyTorch."""
    replacements: dict[Node, Node] = {}
    for index, output in enumerate(outputs):
        if output.op is INPUT or output.op is CONSTANT:
            continue
        result = Output(index, output.dtype)
        replacements.setdefault(output, result)
        if output.op is CAST and output.dtype.compute is output.args[0].dtype:
            replacements.setdefault(output.args[0], cast(result, output.args[0].dtype))
    return replacements


def _in_results(outputs: Sequence[Node], formulas: Sequence[Node]) -> tuple[Node, ...]:
    """The formulas in terms of the results, if that spares an expensive function or keeps no more tensors."""
    simplify = Rewriter(SIMPLIFY)
    plain = simplify(formulas)
    replaced = simplify(substitute(formulas, _results_for(outputs)))
    if _expensive_nodes(replaced) < _expensive_nodes(plain) or _kept(replaced) <= _kept(plain):
        return replaced
    return plain


def _kept(formulas: Sequence[Node]) -> int:
    needed = saved(formulas)
    return len(needed.inputs) + len(needed.outputs)


def _expensive_nodes(formulas: Sequence[Node]) -> int:
    return sum(node.op.cost is Cost.EXPENSIVE for node in topological(formulas))
