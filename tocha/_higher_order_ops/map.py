"""map(f, xs, *args): a function of each slice of xs, as one node with a subgraph."""

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
from tocha._higher_order_ops.scan import first, shape_of_slice, stacked
from tocha._higher_order_ops.subgraph import Subgraph, capture, captured, check_once, disentangled, fake_mode_for
from tocha.utils import _pytree as pytree

Tensor = _C.Tensor
NAME = "tocha.ops.higher_order.map_impl"


class Map(HigherOrderOperator):
    """The operator on flat values: map_impl(graph, xs, pos_args) gives the stacked results."""

    only_calls = True

    def __call__(self, f: Callable, xs: Sequence[Any], pos_args: Sequence[Any] = ()) -> tuple:
        if not is_staged((xs, pos_args)):
            return self.looped(f, xs, pos_args)
        (sub,) = captured(NAME, [f], [*(first(x) for x in xs), *pos_args])
        around = [*pos_args, *sub.lifted]
        if wants_gradient([*xs, *around]):
            return self.recorded(sub, xs, around, len(pos_args))
        return self.below(sub, xs, around)

    def looped(self, f: Callable, xs: Sequence[Any], pos_args: Sequence[Any]) -> tuple:
        rows = [tuple(f(*(x[i] for x in xs), *pos_args)) for i in range(len(xs[0]))]
        return tuple(_C.stack(column) for column in zip(*rows, strict=True))

    def below(self, sub: Subgraph, xs: Sequence[Any], around: Sequence[Any]) -> tuple:
        def facts() -> list[Any]:
            mode = fake_mode_for([*xs, *around])
            return [stacked(mode, xs[0].shape[0], y) for y in sub.outputs]

        args = (sub.module, list(xs), list(around))
        return emit(self, args, ("body_graph",), lambda: self.looped(sub.module, xs, around), facts)

    def recorded(self, sub: Subgraph, xs: Sequence[Any], around: Sequence[Any], given: int) -> tuple:
        """One autograd node: backward maps the function's gradient; those of what all slices read are summed."""
        m = len(xs)
        (plain,), given = disentangled([sub], given)
        wanted = wanted_of([*xs, *around])
        differentiable = [is_differentiable(o) for o in sub.outputs]

        def forward(*values: Any) -> tuple:
            return self.below(sub, values[:m], values[m:]), ()

        def backward(values: Sequence[Any], kept: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
            lifted = [v for v, w in zip(values[m + given :], wanted[m + given :], strict=True) if w]
            function = gradient_function(plain.function, wanted[: m + given], lifted, differentiable)
            tangents = [g for g, d in zip(grads, differentiable, strict=True) if d]
            count = len(tangents)

            def of_slices(*parts: Any) -> list[Any]:
                return function(*parts[count:], *parts[:count])

            of_slices.wanted = [*[False] * count, *wanted[: m + given]]  # type: ignore[attr-defined]
            found = list(self(of_slices, [*tangents, *values[:m]], values[m : m + given]))
            each = iter(found)
            return [
                *(next(each) if w else None for w in wanted[:m]),
                *(next(each).sum(0) if w else None for w in wanted[m:]),
            ]

        return Differentiable.apply(forward, backward, *xs, *around)


map_impl = Map("map_impl")


def map(f: Callable, xs: Any, *args: Any) -> Any:
    """f(x, *args) of each slice x of xs along the first dim, stacked.

    >>> import tocha
    >>> map(lambda x, y: x.sum() + y, tocha.ones(2, 3), tocha.ones(()))
    tensor([4., 4.])
    """
    leaves, spec = pytree.tree_flatten(xs)
    if not all(isinstance(t, Tensor) for t in leaves):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {leaves}.")
    sizes = [tuple(t.shape) for t in leaves]
    lead = sizes[0][0]
    if isinstance(lead, int) and lead == 0:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    if any(bool(s[0] != lead) for s in sizes):
        raise RuntimeError(
            f"Leading dimensions of mapped xs must be consistent. Got shapes {[t.shape for t in leaves]}."
        )
    given, given_spec = pytree.tree_flatten(args)
    tensors = [i for i, v in enumerate(given) if isinstance(v, Tensor)]
    specs: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        others = list(given)
        for i, v in zip(tensors, values[len(leaves) :], strict=True):
            others[i] = v
        x = pytree.tree_unflatten(values[: len(leaves)], spec)
        results, out_spec = pytree.tree_flatten(f(x, *pytree.tree_unflatten(others, given_spec)))
        specs.append(out_spec)
        return results

    around = [given[i] for i in tensors]
    if not is_staged((leaves, around)):
        check_once(
            NAME, (f,), (*leaves, *given),
            lambda: check_results(capture(NAME, flat, [*(shape_of_slice(v) for v in leaves), *around])),
        )  # fmt: skip
    found = map_impl(flat, leaves, around)
    return pytree.tree_unflatten(list(found), specs[0])


def check_results(sub: Subgraph) -> None:
    for o in sub.outputs:
        if not isinstance(o, Tensor):
            raise uncaptured(
                NAME,
                "HOP: non tocha.Tensor leaf",
                f"Expected all leaves to be of tocha.Tensor type, but got {type(o)}.",
            )
