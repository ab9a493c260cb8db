"""scan(combine_fn, init, xs): a loop along a dim that hands a carry on and stacks results, as one node with a subgraph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C
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
from tocha.utils import _pytree as pytree

Tensor = _C.Tensor
NAME = "tocha.ops.higher_order.scan"


def stacked(mode: Any, count: Any, y: Any) -> Any:
    """A fake of `count` results like y."""
    with mode:
        return _C.empty((count, *y.shape), dtype=y.dtype, device=y.device)


class Scan(HigherOrderOperator):
    """The operator on flat values: scan(combine_graph, init, xs, additional_inputs) gives the last carry, then stacked results."""

    only_calls = True

    def __call__(
        self, combine_fn: Callable, init: Sequence[Any], xs: Sequence[Any], additional_inputs: Sequence[Any] = ()
    ) -> tuple:
        if not is_staged((init, xs, additional_inputs)):
            return self.looped(combine_fn, init, xs, additional_inputs)
        (sub,) = captured(NAME, [combine_fn], [*init, *(first(x) for x in xs), *additional_inputs])
        check_alike(NAME, ("init", "carry"), init, sub.outputs[: len(init)])
        around = [*additional_inputs, *sub.lifted]
        if wants_gradient([*init, *xs, *around]):
            return self.recorded(sub, init, xs, around, len(additional_inputs))
        return self.below(sub, init, xs, around)

    def looped(self, combine: Callable, init: Sequence[Any], xs: Sequence[Any], additional: Sequence[Any]) -> tuple:
        carry, rows = list(init), []
        for i in range(len(xs[0]) if xs else 0):
            out = list(combine(*carry, *(x[i] for x in xs), *additional))
            carry = out[: len(init)]
            rows.append(out[len(init) :])
        if rows:
            return (*carry, *(_C.stack(column) for column in zip(*rows, strict=True)))
        if not xs:
            return tuple(carry)
        like = capture(NAME, combine, [*init, *(shape_of_slice(x) for x in xs), *additional]).outputs[len(init) :]
        return (*carry, *(_C.empty((0, *y.shape), dtype=y.dtype, device=y.device) for y in like))

    def below(self, sub: Subgraph, init: Sequence[Any], xs: Sequence[Any], around: Sequence[Any]) -> tuple:
        def facts() -> list[Any]:
            mode = fake_mode_for([*init, *xs, *around])
            carry, ys = sub.outputs[: len(init)], sub.outputs[len(init) :]
            return [*(fresh(mode, c) for c in carry), *(stacked(mode, xs[0].shape[0], y) for y in ys)]

        args = (sub.module, list(init), list(xs), tuple(around))
        return emit(self, args, ("scan_combine_graph",), lambda: self.looped(sub.module, init, xs, around), facts)

    def recorded(
        self, sub: Subgraph, init: Sequence[Any], xs: Sequence[Any], around: Sequence[Any], given: int
    ) -> tuple:
        """One autograd node: forward also stacks the carries, backward is a scan over them from the end."""
        n, m = len(init), len(xs)
        keep = keeping(sub, n)
        (plain,), given = disentangled([sub], given)
        differentiable = [is_differentiable(o) for o in sub.outputs]
        carried = differentiable[:n]
        wanted = wanted_of([*init, *xs, *around])

        def forward(*values: Any) -> tuple:
            out = self.below(keep, values[:n], values[n : n + m], values[n + m :])
            return out[:-n] if n else out, out[-n:] if n else ()

        def backward(values: Sequence[Any], carries: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
            steps, rest = values[n : n + m], values[n + m :]
            lifted = [v for v, w in zip(rest[given:], wanted[n + m + given :], strict=True) if w]
            flows = [*carried, *wanted[n : n + m + given]]
            function = gradient_function(plain.function, flows, lifted, differentiable)
            to_carry = [g for g, d in zip(grads[:n], carried, strict=True) if d]
            to_rows = [g for g, d in zip(grads[n:], differentiable[n:], strict=True) if d]
            sums = [_C.zeros_like(v) for v in (*kept_of(rest[:given], wanted[n + m :]), *lifted)]
            step = backward_step(function, len(to_carry), len(sums), len(to_rows), n + m, sum(wanted[n : n + m]), given)
            rows = [v.flip(0) for v in (*to_rows, *carries, *steps)]
            found = list(self(step, [*to_carry, *sums], rows, rest[:given]))
            to_init, totals, to_xs = (
                found[: len(to_carry)],
                found[len(to_carry) : len(to_carry) + len(sums)],
                found[len(to_carry) + len(sums) :],
            )
            at = iter(to_init)
            from_init = [next(at) if d else None for d in carried]
            left, summed = iter([v.flip(0) for v in to_xs]), iter(totals)
            return [
                *(g if w else None for g, w in zip(from_init, wanted[:n], strict=True)),
                *(next(left) if w else None for w in wanted[n : n + m]),
                *(next(summed) if w else None for w in wanted[n + m :]),
            ]

        return Differentiable.apply(forward, backward, *init, *xs, *around)


def first(x: Any) -> Any:
    return x[0]


def shape_of_slice(x: Tensor) -> Tensor:
    return _C.empty(x.shape[1:], dtype=x.dtype, device=x.device)


def kept_of(values: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
    return [v for v, w in zip(values, wanted, strict=False) if w]


def keeping(sub: Subgraph, n: int) -> Subgraph:
    """The subgraph with copies of the carries that came in as further results."""

    def function(*given: Any) -> list[Any]:
        return [*sub.module(*given), *(c.clone() for c in given[:n])]

    made = capture(NAME, function, [p.meta["val"] for p in sub.module.graph.find_nodes(op="placeholder")])
    return Subgraph(sub.function, made.module, sub.lifted, made.outputs, made.spec)


def backward_step(
    function: Callable, carries: int, sums: int, rows: int, operands: int, to_xs: int, given: int
) -> Callable:
    """A step of the backward scan: (gradients of the carry, sums so far; gradients of a row, the carry, the slices; what is around)."""

    def step(*values: Any) -> list[Any]:
        to_carry, so_far = values[:carries], values[carries : carries + sums]
        rest = values[carries + sums :]
        to_rows, forward, around = rest[:rows], rest[rows : rows + operands], rest[rows + operands :]
        found = function(*forward, *around, *to_carry, *to_rows)
        before, slices, more = found[:carries], found[carries : carries + to_xs], found[carries + to_xs :]
        return [*before, *(a + b for a, b in zip(so_far, more, strict=True)), *slices]

    flows = function.wanted[:operands]  # type: ignore[attr-defined]
    to_around = function.wanted[operands : operands + given]  # type: ignore[attr-defined]
    step.wanted = [*[False] * (carries + sums + rows), *flows, *to_around]  # type: ignore[attr-defined]
    return step


scan_op = Scan("scan")


def scan(combine_fn: Callable, init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> tuple[Any, Any]:
    """A loop over the slices of xs along dim: (carry, y) = combine_fn(carry, x). Gives the last carry and the stacked ys.

    >>> import tocha
    >>> scan(lambda carry, x: (carry + x, carry * x), tocha.zeros(()), tocha.arange(4.))
    (tensor(6.), tensor([0., 0., 2., 9.]))
    """
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    carry, carry_spec = pytree.tree_flatten(init)
    leaves, xs_spec = pytree.tree_flatten(xs)
    for v in carry:
        if not isinstance(v, Tensor):
            raise RuntimeError(f"All init leaves must be a Tensor but got {v}")
    for v in leaves:
        if not isinstance(v, Tensor):
            raise RuntimeError(f"All xs leaves must be a Tensor but got {v}")
    if not leaves:
        return pytree.tree_unflatten(carry, carry_spec), xs
    at = wrapped_dim(leaves[0], dim)
    rows = [v.movedim(at, 0) for v in leaves]
    rows = [v.flip(0) for v in rows] if reverse else rows
    specs: list[Any] = []

    def flat(*given: Any) -> list[Any]:
        c = pytree.tree_unflatten(given[: len(carry)], carry_spec)
        x = pytree.tree_unflatten(given[len(carry) :], xs_spec)
        new, y = combine_fn(c, x)
        new_leaves, new_spec = pytree.tree_flatten(new)
        y_leaves, y_spec = pytree.tree_flatten(y)
        specs.append((new_spec, y_spec))
        return [*new_leaves, *y_leaves]

    def check() -> None:
        sub = capture(NAME, flat, [*carry, *(shape_of_slice(v) for v in rows)])
        count = specs[-1][0].num_leaves
        check_alike(NAME, ("init", "carry"), carry, sub.outputs[:count])

    if not is_staged((carry, rows)):
        check_once(NAME, (combine_fn,), (*carry, *rows), check)
        if len(rows[0]) == 0 and not specs:
            check()
    found = scan_op(flat, carry, rows)
    last = list(found[: len(carry)])
    ys = list(found[len(carry) :])
    ys = [v.flip(0) for v in ys] if reverse else ys
    ys = [v.movedim(0, at) for v in ys] if at else ys
    return pytree.tree_unflatten(last, carry_spec), pytree.tree_unflatten(ys, specs[0][1])


def wrapped_dim(x: Tensor, dim: int) -> int:
    n = x.dim()
    if not -n <= dim < n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    return dim % n
