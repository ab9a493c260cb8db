"""associative_scan(combine_fn, xs, dim): running results of an associative function, as one node with a subgraph."""

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
from tocha._higher_order_ops.scan import first, scan_op, stacked, wrapped_dim
from tocha._higher_order_ops.subgraph import Subgraph, captured, check_alike, disentangled, fake_mode_for
from tocha.utils import _pytree as pytree

Tensor = _C.Tensor
NAME = "tocha.ops.higher_order.associative_scan"


class AssociativeScan(HigherOrderOperator):
    """The operator on flat values: associative_scan(combine_graph, xs, additional_inputs), along the first dim."""

    only_calls = True

    def __call__(self, combine_fn: Callable, xs: Sequence[Any], additional_inputs: Sequence[Any] = ()) -> tuple:
        if not is_staged((xs, additional_inputs)):
            return self.looped(combine_fn, xs, additional_inputs)
        slices = [first(x) for x in xs]
        (sub,) = captured(NAME, [combine_fn], [*slices, *slices, *additional_inputs])
        check_alike(NAME, ("xs", "combine_fn_output"), slices, sub.outputs)
        around = [*additional_inputs, *sub.lifted]
        if wants_gradient([*xs, *around]):
            return self.recorded(sub, xs, around, len(additional_inputs))
        return self.below(sub, xs, around)

    def looped(self, combine: Callable, xs: Sequence[Any], around: Sequence[Any]) -> tuple:
        rows = [[x[0] for x in xs]] if len(xs[0]) else []
        for i in range(1, len(xs[0])):
            rows.append(list(combine(*rows[-1], *(x[i] for x in xs), *around)))
        return tuple(_C.stack(column) for column in zip(*rows, strict=True)) if rows else tuple(x.clone() for x in xs)

    def below(self, sub: Subgraph, xs: Sequence[Any], around: Sequence[Any]) -> tuple:
        def facts() -> list[Any]:
            mode = fake_mode_for([*xs, *around])
            return [stacked(mode, x.shape[0], y) for x, y in zip(xs, sub.outputs, strict=True)]

        args = (sub.module, list(xs), tuple(around))
        return emit(self, args, ("associative_scan_combine_graph",), lambda: self.looped(sub.module, xs, around), facts)

    def recorded(self, sub: Subgraph, xs: Sequence[Any], around: Sequence[Any], given: int) -> tuple:
        """One autograd node. y[t] = combine(y[t - 1], x[t]), so backward is a scan from the end over both."""
        m = len(xs)
        (plain,), given = disentangled([sub], given)
        wanted = wanted_of([*xs, *around])
        flows = [is_differentiable(o) for o in sub.outputs]

        def forward(*values: Any) -> tuple:
            out = self.below(sub, values[:m], values[m:])
            return out, out

        def backward(values: Sequence[Any], ys: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
            rest = values[m:]
            lifted = [v for v, w in zip(rest[given:], wanted[m + given :], strict=True) if w]
            function = gradient_function(plain.function, [*flows, *flows, *wanted[m : m + given]], lifted, flows)
            to_ys = [g for g, d in zip(grads, flows, strict=True) if d]
            count = len(to_ys)
            sums = [_C.zeros_like(v) for v, w in zip(rest, wanted[m:], strict=True) if w]

            def step(*parts: Any) -> list[Any]:
                carry, so_far, left = parts[:count], parts[count : count + len(sums)], parts[count + len(sums) :]
                here, before, after = left[:count], left[count : count + 2 * m], left[count + 2 * m :]
                total = [a + b for a, b in zip(carry, here, strict=True)]
                found = function(*before, *after, *total)
                more = [a + b for a, b in zip(so_far, found[2 * count :], strict=True)]
                return [*found[:count], *more, *found[count : 2 * count]]

            step.wanted = [*[False] * (2 * count + len(sums)), *function.wanted[: 2 * m + given]]  # type: ignore[attr-defined]
            init = [*(_C.zeros_like(g[0]) for g in to_ys), *sums]
            rows = [
                *(g[1:].flip(0) for g in to_ys),
                *(y[:-1].flip(0) for y in ys),
                *(x[1:].flip(0) for x in values[:m]),
            ]
            found = list(scan_op(step, init, rows, rest[:given]))
            to_first = [a + g[0] for a, g in zip(found[:count], to_ys, strict=True)]
            totals, to_rest = iter(found[count : count + len(sums)]), found[count + len(sums) :]
            whole = iter([_C.cat([a.unsqueeze(0), b.flip(0)]) for a, b in zip(to_first, to_rest, strict=True)])
            to_xs = [next(whole) if d else None for d in flows]
            return [
                *(g if w else None for g, w in zip(to_xs, wanted[:m], strict=True)),
                *(next(totals) if w else None for w in wanted[m:]),
            ]

        return Differentiable.apply(forward, backward, *xs, *around)


associative_scan_op = AssociativeScan("associative_scan")


def associative_scan(
    combine_fn: Callable, xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """Running results of an associative function along dim: y[0] = x[0], y[t] = combine_fn(y[t - 1], x[t]).

    >>> import tocha
    >>> associative_scan(lambda a, b: a * b, tocha.tensor([1., 2., 3., 4.]), 0, combine_mode="generic")
    tensor([ 1.,  2.,  6., 24.])
    """
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    if not isinstance(dim, int):
        raise ValueError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise ValueError(f"Reverse must be a bool, but got {type(reverse)}")
    leaves, spec = pytree.tree_flatten(xs)
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    for v in leaves:
        if not isinstance(v, Tensor):
            raise ValueError(f"xs leaves must be a Tensor, but got {v}")
    if combine_mode == "pointwise" and not all(v.device.type in ("cuda", "xpu") for v in leaves):
        raise ValueError("For combine_mode='pointwise', all input tensors need to be on CUDA or XPU")
    at = wrapped_dim(leaves[0], dim)
    rows = [v.movedim(at, 0) if at else v for v in leaves]
    if any(bool(v.shape[0] != rows[0].shape[0]) for v in rows):
        raise ValueError(
            f"All xs leaves must at least have the same number of elements along dim {dim}: got {[v.shape for v in leaves]}"
        )
    rows = [v.flip(0) for v in rows] if reverse else rows

    def flat(*given: Any) -> list[Any]:
        count = len(leaves)
        a, b = (pytree.tree_unflatten(given[i : i + count], spec) for i in (0, count))
        return pytree.tree_leaves(combine_fn(a, b))

    found = list(associative_scan_op(flat, rows))
    found = [v.flip(0) for v in found] if reverse else found
    return pytree.tree_unflatten([v.movedim(0, at) if at else v for v in found], spec)
