"""Tables of decompositions: for each operator a function that does the same with smaller ones.

They come from the records. `core_aten_decompositions()` has all but the core operators (docs/inside/core.md), into which it takes the
others apart; `decomposition_table` also has core operators that are made of smaller ones. Programs add their own with `register_decomposition`.

>>> import tocha
>>> from tocha.fx.experimental.proxy_tensor import make_fx
>>> table = get_decompositions([tocha.ops.aten.silu])
>>> print(make_fx(lambda x: tocha.nn.functional.silu(x), table)(tocha.ones(2)).code.strip())
def forward(self, x_1):
    sigmoid = tocha.ops.aten.sigmoid.default(x_1)
    mul = tocha.ops.aten.mul.Tensor(x_1, sigmoid);  x_1 = sigmoid = None
    return mul
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from tocha import _ops
from tocha._decomp.from_records import decomposition_of, is_smallest
from tocha._ops import OpOverload, OpOverloadPacket
from tocha.operators.overloads import FUNCTIONAL, Overload, table
from tocha.utils import _pytree as pytree

__all__ = [
    "core_aten_decompositions", "decomposition_table", "get_decompositions", "global_decomposition_table", "meta_table",
    "pre_autograd_decomposition_table", "register_decomposition", "remove_decompositions",
]  # fmt: skip

TYPES = ("post_autograd", "pre_autograd", "meta")
_registered: set[Any] = set()  # what programs have added


def handle_of(overload: Overload) -> OpOverload:
    name = overload.schema.name.removeprefix("aten::")
    return getattr(getattr(_ops.ops.aten, name), overload.schema.overload_name or "default")


def overloads_of_records() -> Iterable[Overload]:
    return (overload for forms in table().values() for overload in forms.values())


@cache
def _tables() -> dict[str, dict[Any, Callable]]:
    made = {}
    for overload in overloads_of_records():
        rule = decomposition_of(overload)
        if rule is not None:
            made[handle_of(overload)] = rule
    return {"post_autograd": made, "pre_autograd": {}, "meta": {}}


def __getattr__(name: str) -> Any:
    """The tables are made when somebody asks for one."""
    if name == "global_decomposition_table":
        return _tables()
    kinds = {
        "decomposition_table": "post_autograd",
        "pre_autograd_decomposition_table": "pre_autograd",
        "meta_table": "meta",
    }
    if name in kinds:
        return _tables()[kinds[name]]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _check_type(type: str) -> None:
    if type not in TYPES:
        raise AssertionError(f"type must be one of post_autograd, pre_autograd, or meta, got {type}")


def _overloads(op: Any) -> list[Any]:
    if isinstance(op, OpOverloadPacket):
        return [getattr(op, name) for name in op.overloads()]
    return [op]


def register_decomposition(
    aten_op: Any, registry: dict[Any, Callable] | None = None, *, type: str = "post_autograd", unsafe: bool = False
) -> Callable[[Callable], Callable]:
    """Adds a function as the decomposition of an operator, of one overload of it, or of several."""
    _check_type(type)

    def register(op: Any, fn: Callable, into: dict[Any, Callable]) -> None:
        if not callable(op):
            raise AssertionError(f"expected OpOverloadPacket, got {op.__class__}")
        for one in _overloads(op):
            own = registry is None and one not in _registered  # in place of what the record says
            if one in into and not own:
                raise RuntimeError(f"duplicate registrations for {one}")
            into[one] = fn
            if registry is None:
                _registered.add(one)

    def decorate(fn: Callable) -> Callable:
        into = _tables()[type] if registry is None else registry
        pytree.tree_map_(lambda op: register(op, fn, into), aten_op)
        return fn

    return decorate


def get_decompositions(aten_ops: Sequence[Any], type: str = "post_autograd") -> dict[OpOverload, Callable]:
    """The decompositions of these operators, with all overloads of those that are not one overload; what has none is left out."""
    _check_type(type)
    known = _tables()[type]
    return {one: known[one] for op in aten_ops for one in _overloads(op) if one in known}


def remove_decompositions(decompositions: dict[OpOverload, Callable], aten_ops: Sequence[Any]) -> None:
    """Takes operators out of a table."""
    for op in aten_ops:
        for one in _overloads(op):
            decompositions.pop(one, None)


@cache
def _smallest() -> frozenset[Any]:
    """Handles of what is not taken apart further, and of its in-place and out= forms."""
    records = {o.record for o in overloads_of_records() if o.form == FUNCTIONAL and is_smallest(o)}
    kept = []
    for o in overloads_of_records():
        if o.form == FUNCTIONAL:
            if is_smallest(o):
                kept.append(handle_of(o))
        elif o.record in records:
            kept.append(handle_of(o))
    return frozenset(kept)


def core_aten_decompositions() -> dict[OpOverload, Callable]:
    """A table that takes every operator apart into core operators."""
    kept = _smallest()
    return {h: f for h, f in _tables()["post_autograd"].items() if h not in kept or h in _registered}


_core_aten_decompositions_post_autograd = core_aten_decompositions


def core_overloads() -> Mapping[str, list[OpOverload]]:
    """What graphs consist of after `core_aten_decompositions`: PyTorch's core operators, and what else nothing smaller says, by kind."""
    found: dict[str, list[OpOverload]] = {}
    for o in overloads_of_records():
        if o.form == FUNCTIONAL and is_smallest(o):
            handle = handle_of(o)
            found.setdefault(kind_of(o, handle), []).append(handle)
    return found


def kind_of(overload: Overload, handle: OpOverload) -> str:
    o = overload.record
    if "core" in {t.name for t in handle.tags}:
        return "core"
    return o.algorithm or {"pointwise": "primitive", "reduction": "fold", "view": "view"}[o.kind]
