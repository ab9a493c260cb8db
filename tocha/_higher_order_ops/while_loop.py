"""while_loop(cond_fn, body_fn, carried_inputs): a loop whose end a tensor decides, as one node with two subgraphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C
from tocha._higher_order_ops.errors import uncaptured
from tocha._higher_order_ops.operator import (
    Differentiable,
    HigherOrderOperator,
    emit,
    gradient_function,
    is_differentiable,
    is_staged,
    wanted_of,
    wants_gradient,
)
from tocha._higher_order_ops.scan import stacked
from tocha._higher_order_ops.subgraph import (
    Subgraph,
    capture,
    captured,
    check_alike,
    check_once,
    disentangled,
    fake_mode_for,
    fresh,
)
from tocha.ir.sym_types import Symbolic
from tocha.utils import _pytree as pytree

Tensor = _C.Tensor
NAME = "tocha.while_loop"


def continues(answer: Any) -> bool:
    """What cond_fn says."""
    if not (isinstance(answer, Tensor) and answer.dtype == _C.bool and answer.numel() == 1) and not isinstance(
        answer, bool
    ):
        raise RuntimeError(f"cond_fn must return a boolean scalar tensor or a boolean but got {answer}")
    return bool(answer)


def check_condition(sub: Subgraph) -> None:
    (answer,) = sub.outputs if len(sub.outputs) == 1 else (None,)
    if isinstance(answer, Tensor) and (answer.dim() or answer.dtype != _C.bool):
        raise uncaptured(
            NAME,
            f"{NAME}: unsupported cond_fn return type",
            f"Expected cond_fn to return a scalar tensor or a bool but got {answer.shape if answer.dim() else answer.dtype}.",
        )
    if not isinstance(answer, Tensor | bool | Symbolic):
        raise RuntimeError(f"cond_fn must return a boolean scalar tensor or a boolean but got {answer}")


class WhileLoop(HigherOrderOperator):
    """The operator on flat values: while_loop(cond_graph, body_graph, carried_inputs, additional_inputs) gives the last carry.

    The stacking one gives what the body returned at each step, stacked: gradients need it.
    """

    only_calls = True

    def __init__(self, name: str, stacks: bool):
        super().__init__(name)
        self.stacks = stacks

    def __call__(
        self, cond_fn: Callable, body_fn: Callable, carried_inputs: Sequence[Any], additional_inputs: Sequence[Any] = ()
    ) -> tuple:
        if not is_staged((carried_inputs, additional_inputs)):
            return self.looped(cond_fn, body_fn, carried_inputs, additional_inputs)
        operands = [*symbols_for(carried_inputs), *additional_inputs]
        subs = captured(NAME, [cond_fn, body_fn], operands)
        check_condition(subs[0])
        check_alike(NAME, ("body_fn_output", "carried_inputs"), subs[1].outputs, carried_inputs)
        around = [*additional_inputs, *subs[0].lifted]
        if wants_gradient([*carried_inputs, *around]) and not self.stacks:
            return self.recorded(subs, carried_inputs, around, len(additional_inputs))
        return self.below(subs, carried_inputs, around)

    def looped(self, cond: Callable, body: Callable, carried: Sequence[Any], around: Sequence[Any]) -> tuple:
        rows: list[list[Any]] = []
        while continues(single(cond(*carried, *around))):
            carried = list(body(*carried, *around))
            rows.append(carried)
        if not self.stacks:
            return tuple(carried)
        if rows:
            return tuple(_C.stack(column) for column in zip(*rows, strict=True))
        return tuple(_C.empty((0, *c.shape), dtype=c.dtype, device=c.device) for c in carried)

    def below(self, subs: Sequence[Subgraph], carried: Sequence[Any], around: Sequence[Any]) -> tuple:
        cond, body = (sub.module for sub in subs)
        make_single(cond)

        def facts() -> list[Any]:
            mode = fake_mode_for([*carried, *around])
            if self.stacks:
                count = mode.shape_env.create_unbacked_symint(size_like=True)
                return [stacked(mode, count, c) for c in carried]
            return [
                fresh(mode, c) if isinstance(c, Tensor) else mode.shape_env.create_unbacked_symint() for c in carried
            ]

        prefixes = ("while_loop_cond_graph", "while_loop_body_graph")
        args = (cond, body, tuple(carried), tuple(around))
        return emit(self, args, prefixes, lambda: self.looped(cond, body, carried, around), facts)

    def recorded(self, subs: Sequence[Subgraph], carried: Sequence[Any], around: Sequence[Any], given: int) -> tuple:
        """One autograd node: forward stacks the carries, backward is a loop over them from the end."""
        n = len(carried)
        plain, given = disentangled(subs, given)
        flows = [is_differentiable(c) for c in carried]
        wanted = wanted_of([*carried, *around])
        if not all(isinstance(c, Tensor) for c in carried):
            raise RuntimeError(
                f"[{NAME}] gradients of a loop that carries numbers are not supported: got {list(carried)}"
            )

        def forward(*values: Any) -> tuple:
            rows = while_loop_stack_output.below(subs, values[:n], values[n:])
            history = [_C.cat([c.unsqueeze(0), r]) for c, r in zip(values[:n], rows, strict=True)]
            return [h[-1].clone() for h in history], history

        def backward(values: Sequence[Any], history: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
            rest = values[n:]
            lifted = [v for v, w in zip(rest[given:], wanted[n + given :], strict=True) if w]
            function = gradient_function(plain[1].function, [*flows, *wanted[n : n + given]], lifted, flows)
            to_carry = [g for g, d in zip(grads, flows, strict=True) if d]
            sums = [_C.zeros_like(v) for v, w in zip(rest, wanted[n:], strict=True) if w]
            count = len(to_carry)
            steps = _C.scalar_tensor(history[0].shape[0] - 1, dtype=_C.int64)

            def at(i: Any, row: Any) -> Any:
                return row.index_select(0, i.reshape(1)).squeeze(0)

            def body(i: Any, *parts: Any) -> list[Any]:
                to, so_far, rest = parts[:count], parts[count : count + len(sums)], parts[count + len(sums) :]
                rows, around = rest[:n], rest[n : n + given]
                before = [at(i - 1, row) for row in rows]
                before = [b.detach().requires_grad_() if d else b for b, d in zip(before, flows, strict=True)]
                found = function(*before, *around, *to)
                more = [a + b for a, b in zip(so_far, found[count:], strict=True)]
                return [i - 1, *found[:count], *more]

            body.wanted = [*[False] * (1 + count + len(sums) + n), *wanted[n : n + given]]  # type: ignore[attr-defined]
            loop = (steps, *to_carry, *sums)
            found = list(self(lambda i, *parts: i > 0, body, loop, (*history, *rest[:given])))[1:]
            left, totals = iter(found[:count]), iter(found[count:])
            to_carried = [next(left) if d else None for d in flows]
            return [
                *(g if w else None for g, w in zip(to_carried, wanted[:n], strict=True)),
                *(next(totals) if w else None for w in wanted[n:]),
            ]

        return Differentiable.apply(forward, backward, *carried, *around)


def single(answer: Any) -> Any:
    return answer[0] if isinstance(answer, tuple | list) and len(answer) == 1 else answer


def make_single(module: Any) -> None:
    """The condition's graph returns its answer, not a tuple."""
    node = module.graph.output_node()
    if isinstance(node.args[0], tuple | list) and len(node.args[0]) == 1:
        node.args = (node.args[0][0],)
        module.recompile()


def symbols_for(carried: Sequence[Any]) -> list[Any]:
    """Numbers that a loop carries are unknown inside of it."""
    if all(isinstance(c, Tensor) for c in carried):
        return list(carried)
    env = fake_mode_for(carried).shape_env
    return [c if isinstance(c, Tensor) else env.create_unbacked_symint() for c in carried]


while_loop_op = WhileLoop("while_loop", False)
while_loop_stack_output = WhileLoop("while_loop_stack_output", True)


def while_loop(cond_fn: Callable, body_fn: Callable, carried_inputs: Any) -> Any:
    """While cond_fn(*carried) is true: carried = body_fn(*carried). Gives the last carry.

    >>> import tocha
    >>> while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (tocha.tensor(0), tocha.ones(2)))
    (tensor(3), tensor([8., 8.]))
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, tuple | list):
        raise uncaptured(
            NAME,
            f"{type(carried_inputs).__name__!r} object is not iterable",
            "Expect carried_inputs to be a tuple or list.",
        )
    leaves, spec = pytree.tree_flatten(carried_inputs)
    for v in leaves:
        if not isinstance(v, Tensor | int | float | Symbolic):
            raise RuntimeError(
                "Expect carried_inputs to be a tuple of possibly nested dict/list/tuple that only consists of tensor, int, or float leaves, "
                f"but got {carried_inputs}."
            )

    def cond(*given: Any) -> Any:
        return cond_fn(*pytree.tree_unflatten(given, spec))

    def body(*given: Any) -> list[Any]:
        return pytree.tree_leaves(body_fn(*pytree.tree_unflatten(given, spec)))

    def check() -> None:
        check_condition(capture(NAME, cond, leaves))
        check_alike(NAME, ("body_fn_output", "carried_inputs"), capture(NAME, body, leaves).outputs, leaves)

    if not is_staged(leaves) and all(isinstance(v, Tensor) for v in leaves):
        check_once(NAME, (cond_fn, body_fn), leaves, check)
    return pytree.tree_unflatten(list(while_loop_op(cond, body, tuple(leaves))), spec)
