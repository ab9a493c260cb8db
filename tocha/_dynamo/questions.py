"""What programs ask of sizes and numbers that may be symbols (`statically_known_true`, `guard_or_false`, ...): the functions themselves
answer, asked of the symbols, so that those that add no guard add none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tocha._dynamo import facts
from tocha._dynamo.native_calls import LATE
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.symbol import SymbolValue

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame

_HOMES = {
    "tocha.ir.shape_env": ("statically_known_true", "guard_or_false", "guard_or_true"),
    "tocha.ir.sym_types": ("is_symbolic",),
    "tocha.fx.experimental.symbolic_shapes": (
        "statically_known_false", "has_static_value", "is_concrete_int", "is_concrete_float", "is_concrete_bool", "guard_int", "guard_float",
        "guard_bool", "guard_scalar", "guard_size_oblivious", "has_free_symbols", "has_free_unbacked_symbols", "optimization_hint",
    ),
}  # fmt: skip


def _asked(real: Callable[..., Any]) -> Callable[..., Value]:
    def ask(f: Frame, *args: Value, **kwargs: Value) -> Value:
        given = [a.example() for a in args]
        named = {k: a.example() for k, a in kwargs.items()}
        env = f.out.env if any(isinstance(a, SymbolValue) for a in (*args, *kwargs.values())) else None
        return f.wrap_known(facts.decided(lambda: real(*given, **named), env))

    return ask


LATE.update(((home, name), _asked) for home, names in _HOMES.items() for name in names)
