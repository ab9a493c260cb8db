"""Steps of optimizers in graphs. Natively they read their counts as numbers; here these are numbers that nothing is known of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tocha
from tocha import _C
from tocha._dynamo import leaves
from tocha._dynamo.native_calls import known
from tocha._dynamo.polyfills import BEFORE, SUBSTITUTES, polyfill
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.objects import ObjectValue
from tocha._subclasses.fake import FakeTensor
from tocha.ir.sym_types import is_symbolic
from tocha.optim import _update, optimizer, radam
from tocha.optim._recorded import apply_recorded

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame


def number_of(tensor: Any) -> Any:
    """tensor.item(), whatever the settings say of items in graphs."""
    return tensor.item()


@known(number_of)
def _number_of(f: Frame, tensor: Value) -> Value:
    before, f.out.env.allow_scalar_outputs = f.out.env.allow_scalar_outputs, True
    try:
        return f.out.call(f, "call_method", "item", [tensor], {})
    finally:
        f.out.env.allow_scalar_outputs = before


@polyfill(_C._values)
def values(tensors):
    return [number_of(t) for t in tensors]


@polyfill(_C._advance)
def advance(tensors):
    for t in tensors:
        t.add_(1)
    return [number_of(t) for t in tensors]


@polyfill(_C._gather_state)
def gather_state(params, state, names):
    with_grad = [p for p in params if p.grad is not None]
    if any(p not in state or any(n not in state[p] for n in names) for p in with_grad if names):
        return None
    lists = [[state[p][n] for p in with_grad] for n in names]
    grads = [p.grad for p in with_grad]
    return (any(p.is_complex() for p in with_grad), any(g.is_sparse for g in grads), with_grad, grads, *lists)


def number(value, differentiable=False):
    return number_of(value) if isinstance(value, tocha.Tensor) and not differentiable else value


def subsets(keys, lists):
    """One by one: which counts are equal is not known."""
    if not isinstance(keys, list):
        yield keys, lists
        return
    for i, key in enumerate(keys):
        yield key, [[tensors[i]] for tensors in lists]


def update(formula: str, lists: list[list[Any]], numbers: dict[str, Any]) -> None:
    """A leaf of graphs: the formula of an optimizer, which whoever traces it sees operator by operator."""
    if isinstance(lists[0][0], FakeTensor):
        shown = {n: tocha.scalar_tensor(v, dtype=tocha.float64) if is_symbolic(v) else v for n, v in numbers.items()}
        apply_recorded(formula, lists, shown)
    else:
        getattr(_C, f"_foreach_{formula}_")(*lists, **numbers)


def apply(formula, lists, differentiable, **numbers):
    if differentiable:
        apply_recorded(formula, lists, numbers)
    else:
        update(formula, lists, numbers)


def rectification(step, beta2, bias2):
    """Which of its two branches is taken depends on the count: in graphs on a tensor."""
    longest = 2 / (1 - beta2) - 1
    length = tocha.scalar_tensor(longest - 2 * step * (beta2**step) / bias2, dtype=tocha.float64)
    factor = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    return number_of(tocha.where(length <= 5.0, 0.0, factor.sqrt()))


leaves.allow(update)
leaves.allow(apply_recorded)


def _substitute(original: Any, function: Any) -> None:
    SUBSTITUTES[id(original)] = (original, function)


_substitute(_update.number, number)
_substitute(_update.subsets, subsets)
_substitute(_update.apply, apply)
_substitute(radam._rectification, rectification)


def _begin(f: Frame, args: list[Value]) -> None:
    """States that a first step would make are made now: the first graph is that of all steps."""
    owner = args[0].realize() if args else None
    if not isinstance(owner, ObjectValue) or owner.real is None or {"state", "param_groups"} & owner.written.keys():
        return
    real = owner.real
    if id(real.state) not in f.out.memo:
        for group in real.param_groups:
            real._gather(group)


BEFORE[id(optimizer.GroupOptimizer.step)] = (optimizer.GroupOptimizer.step, _begin)
