"""How a step reaches its formula: the native walk over all parameters, or the formula on tensors where the step is recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tocha import _C

Tensor = _C.Tensor
Number = Any  # a Python number, or a tensor of one element where steps are differentiable


def number(value: Any, differentiable: bool = False) -> Any:
    """An option that may be a tensor, as a number; recorded steps keep the tensor."""
    return value.item() if isinstance(value, Tensor) and not differentiable else value


def real_views(lists: Sequence[list[Tensor]], has_complex: bool) -> Sequence[list[Tensor]]:
    """The lists with complex tensors seen as pairs of reals."""
    if not has_complex:
        return lists
    return [[_C.view_as_real(t) if t.is_complex() else t for t in tensors] for tensors in lists]


def subsets(keys: Any, lists: Sequence[list]) -> Iterator[tuple[Any, Sequence[list]]]:
    """(key, lists) for the tensors that share a key; `keys` is one for all, or a list."""
    if not isinstance(keys, list):
        yield keys, lists
        return
    members: dict[Any, list[int]] = {}
    for i, key in enumerate(keys):
        members.setdefault(key, []).append(i)
    for key, indices in members.items():
        yield key, [[tensors[i] for i in indices] for tensors in lists]


def advanced(steps: list[Tensor], lists: Sequence[list[Tensor]]) -> Iterator[tuple[float, Sequence[list[Tensor]]]]:
    """Counts a step, then gives (the count, lists) for the tensors that have made the same number of steps."""
    yield from subsets(_C._advance(steps), lists)


def apply(formula: str, lists: Sequence[list[Tensor]], differentiable: bool, **numbers: Number) -> None:
    """Runs an update formula on the tensors of the lists, in place of the first ones."""
    if differentiable:
        from tocha.optim._recorded import apply_recorded

        apply_recorded(formula, lists, numbers)
    else:
        getattr(_C, f"_foreach_{formula}_")(*lists, **numbers)


def unscaled(grads: list[Tensor], grad_scale: Tensor | None, found_inf: Tensor | None) -> bool:
    """Takes a gradient scaler's factor out of the gradients; False when they are not finite and the step must not be made."""
    if found_inf is not None and found_inf.item() != 0:
        return False
    if grad_scale is not None:
        _C._foreach_div_(grads, grad_scale.item())
    return True
