"""cond(pred, true_fn, false_fn, operands): one of two functions, chosen by a tensor, as one node with two subgraphs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C, autograd
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
from tocha._higher_order_ops.subgraph import Subgraph, capture, captured, check_once, disentangled, fake_mode_for, fresh
from tocha.ir.sym_types import Symbolic, SymBool
from tocha.utils import _pytree as pytree

Tensor = _C.Tensor
NAME = "tocha.cond"


class Cond(HigherOrderOperator):
    """The operator on flat operands: cond(pred, true_graph, false_graph, operands) gives a tuple."""

    only_calls = True

    def __call__(self, pred: Any, true_fn: Callable, false_fn: Callable, operands: Sequence[Any] = ()) -> tuple:
        if not is_staged((pred, operands)):
            return self.chosen(pred, true_fn, false_fn, operands)
        subs = captured(NAME, [true_fn, false_fn], operands)
        check_branches(subs)
        values = [*operands, *subs[0].lifted]
        if not wants_gradient(values):
            return self.below(pred, subs, values)
        return self.recorded(pred, subs, values, len(operands))

    def chosen(self, pred: Any, true_fn: Callable, false_fn: Callable, operands: Sequence[Any]) -> tuple:
        """The branch that a plain pred says."""
        return tuple(touching((true_fn if pred else false_fn)(*operands), operands))

    def below(self, pred: Any, subs: Sequence[Subgraph], values: Sequence[Any]) -> tuple:
        """The node; nothing is recorded by autograd."""
        true, false = (sub.module for sub in subs)

        def run() -> Sequence[Any]:
            return (true if pred else false)(*values)

        args = (pred, true, false, tuple(values))
        return emit(self, args, ("true_graph", "false_graph"), run, lambda: merged(values, subs))

    def recorded(self, pred: Any, subs: Sequence[Subgraph], values: Sequence[Any], count: int) -> tuple:
        """One autograd node. Backward is a cond of the branches' gradients, which computes the branch again."""
        wanted = wanted_of(values)
        differentiable = [is_differentiable(o) for o in subs[0].outputs]
        plain, count = disentangled(subs, count)

        def forward(*given: Any) -> tuple:
            return self.below(given[0], subs, given[1:]), ()

        def backward(given: Sequence[Any], kept: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
            around = [v for v, w in zip(given[1 + count :], wanted[count:], strict=True) if w]
            functions = [gradient_function(s.function, wanted[:count], around, differentiable) for s in plain]
            tangents = [g for g, d in zip(grads, differentiable, strict=True) if d]
            found = iter(self(given[0], functions[0], functions[1], (*given[1 : 1 + count], *tangents)))
            return [None, *(next(found) if w else None for w in wanted)]

        return Differentiable.apply(forward, backward, pred, *values)


class Touching(autograd.Function):
    """Results depend on whatever either branch reads: what the chosen one does not read has gradients of zeros."""

    @staticmethod
    def forward(ctx: Any, count: int, *values: Tensor) -> tuple:
        ctx.save_for_backward(*values[count:])
        return tuple(r.view_as(r) for r in values[:count])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, *grads, *(_C.zeros_like(v) for v in ctx.saved_tensors)


def touching(results: Sequence[Any], read: Sequence[Any]) -> list[Any]:
    """The results of a branch, with the history that they would have if both had been looked at."""
    wanted = {id(v): v for v in read if is_differentiable(v) and v.requires_grad}
    flowing = [r for r in results if is_differentiable(r)]
    if not wanted or not flowing or not _C.is_grad_enabled():
        return list(results)
    touched = iter(Touching.apply(len(flowing), *flowing, *wanted.values()))
    return [next(touched) if is_differentiable(r) else r for r in results]


def merged(values: Sequence[Any], subs: Sequence[Subgraph]) -> list[Any]:
    """What is known of the results whichever branch runs: sizes in which they differ are unknown."""
    mode = fake_mode_for([*values, *subs[0].outputs])
    return [merged_result(mode, a, b) for a, b in zip(subs[0].outputs, subs[1].outputs, strict=True)]


def merged_result(mode: Any, a: Any, b: Any) -> Any:
    if not isinstance(a, Tensor):
        return a if a is None or a == b else mode.shape_env.create_unbacked_symint()
    same = len(a.shape) == len(b.shape) and all(bool(m == n) for m, n in zip(a.shape, b.shape, strict=True))
    if same:
        return fresh(mode, a)
    if len(a.shape) != len(b.shape):
        raise RuntimeError(
            f"When merging two branches' output in tocha.cond, expected same number of dims but got {a.shape} and {b.shape}."
        )
    sizes = [
        m if bool(m == n) else mode.shape_env.create_unbacked_symint(size_like=True)
        for m, n in zip(a.shape, b.shape, strict=True)
    ]
    with mode:
        return _C.empty(sizes, dtype=a.dtype, device=a.device)


def check_branches(subs: Sequence[Subgraph]) -> None:
    a, b = subs
    if len(a.outputs) != len(b.outputs) or (a.spec != b.spec and len(a.outputs) != 1):
        raise uncaptured(
            NAME, f"{NAME}: differing branch outputs", "Expected branches to return the same pytree structure."
        )
    for x, y in zip(a.outputs, b.outputs, strict=True):
        for v in (x, y):
            if not isinstance(v, Tensor | Symbolic) and type(v) is not int:
                raise uncaptured(
                    NAME,
                    f"{NAME}: unsupported branch return type (constant non-int)",
                    "Constants returned from branches must be ints.",
                )
        if isinstance(x, Tensor) != isinstance(y, Tensor):
            raise uncaptured(
                NAME, f"{NAME}: differing branch outputs", "Expected branches to return the same pytree structure."
            )
        if isinstance(x, Tensor):
            for name in ("dtype", "device"):
                if getattr(x, name) != getattr(y, name):
                    raise RuntimeError(
                        f"When merging two branches' output in tocha.cond, expected same {name} but got {getattr(x, name)} and {getattr(y, name)}."
                    )


cond_op = Cond("cond")


def validate(pred: Any, true_fn: Any, false_fn: Any, operands: Any) -> None:
    if not isinstance(pred, bool | Tensor | SymBool):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, tuple | list) or not pytree.tree_all(lambda t: isinstance(t, Tensor), operands):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, "
            f"but got {operands}."
        )


def tell_of_constant() -> None:
    """Captured code keeps the branch alone that such a predicate chooses."""
    warnings.warn(
        "Pred is a Python constant. When used with tocha.cond, it specializes on one of the branches. If you want tocha.cond "
        "to preserve two branches, please make the predicate a boolean tensor or a SymBool.",
        UserWarning,
        stacklevel=2,
    )


def cond(pred: Any, true_fn: Callable, false_fn: Callable, operands: Any = ()) -> Any:
    """true_fn(*operands) if pred else false_fn(*operands). Both are traced where graphs are made; they must return results of one form.

    >>> import tocha
    >>> x = tocha.ones(2)
    >>> cond(x.sum() > 1, lambda t: t * 2, lambda t: t - 1, (x,))
    tensor([2., 2.])
    """
    if isinstance(pred, bool | int | float) and not isinstance(pred, Symbolic):
        return true_fn(*operands) if pred else false_fn(*operands)
    validate(pred, true_fn, false_fn, operands)
    leaves, spec = pytree.tree_flatten(operands)
    specs: list[Any] = []

    def flat(function: Callable) -> Callable:
        def f(*given: Any) -> Any:
            results, out_spec = pytree.tree_flatten(function(*pytree.tree_unflatten(given, spec)))
            specs.append(out_spec)
            return tuple(results)

        return f

    if not is_staged((pred, leaves)):

        def check() -> list[Tensor]:
            subs = [structured(f, leaves, spec) for f in (true_fn, false_fn)]
            check_branches(subs)
            return [v for sub in subs for v in sub.lifted if isinstance(v, Tensor)]

        read = check_once(NAME, (true_fn, false_fn), leaves, check)
        result = cond_op(pred, flat(true_fn), flat(false_fn), tuple(leaves))
        return pytree.tree_unflatten(touching(result, read), specs[-1])
    result = cond_op(pred, flat(true_fn), flat(false_fn), tuple(leaves))
    if len(specs) >= 2 and specs[0] != specs[1] and specs[0].num_leaves != 1:
        raise uncaptured(
            NAME, f"{NAME}: differing branch outputs", "Expected branches to return the same pytree structure."
        )
    return pytree.tree_unflatten(result, specs[0])


def structured(function: Callable, leaves: Sequence[Any], spec: Any) -> Subgraph:
    return capture(NAME, lambda *given: function(*pytree.tree_unflatten(given, spec)), leaves)
