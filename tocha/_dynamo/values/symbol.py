"""Numbers that are not constants: a node of the graph and an expression of symbols."""

from __future__ import annotations

import builtins
import math
import operator
from typing import TYPE_CHECKING, Any

import tocha
from tocha._dynamo import facts
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant
from tocha.fx.experimental.symbolic_shapes import free_symbols
from tocha.ir.sym_types import SymBool, SymFloat, SymInt

if TYPE_CHECKING:
    from tocha._dynamo.codegen import Codegen
    from tocha._dynamo.frame import Frame
    from tocha.ir.shape_env import ShapeEnv

_KINDS: dict[type, type] = {SymInt: int, SymFloat: float, SymBool: bool}


class SymbolValue(Value):
    """`fact` is the symbolic number. Whoever asks for a constant gets its value of now, which then is guarded."""

    def __init__(self, node: Any, fact: Any, source: Any = None, real: Any = None) -> None:
        self.node, self.fact, self.source, self.real = node, fact, source, real

    def __repr__(self) -> str:
        return f"{type(self.fact).__name__}({self.fact})"

    def python_type(self) -> type:
        return _KINDS[type(self.fact)]

    def constant(self) -> Any:
        kind = self.python_type()
        return facts.decided(lambda: kind(self.fact), self.fact.env)

    def is_constant(self) -> bool:
        return False

    def graph_argument(self) -> Any:
        return self.node

    def example(self) -> Any:
        return self.fact

    def truth(self, f: Frame) -> bool:
        return facts.decided(lambda: bool(self.fact), self.fact.env)

    def get_attribute(self, f: Frame, name: str) -> Value:
        if name == "real" or (name == "numerator" and isinstance(self.fact, SymInt)):
            return self
        return Constant(self.constant()).get_attribute(f, name)

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if hasattr(self.python_type(), name):
            return f.call_native_method(self, name, args, kwargs)
        return Constant(self.constant()).call_method(f, name, args, kwargs)

    def hash_key(self, f: Frame) -> Any:
        return self.constant()

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_number(self)


def is_number(v: Value) -> bool:
    return isinstance(v, SymbolValue) or (isinstance(v, Constant) and type(v.value) in (int, float, bool))


def are_symbolic(*values: Value) -> bool:
    """Numbers, one of them a symbol at least."""
    return any(isinstance(v, SymbolValue) for v in values) and all(is_number(v) for v in values)


def number_call(f: Frame, function: Any, args: list[Value]) -> Value:
    return f.out.call(f, "call_function", function, args, {})


_POWERS = (operator.pow, operator.ipow)
_GROWING = (*_POWERS, operator.mul, operator.imul, operator.lshift, operator.ilshift)
_SHIFTS = (operator.lshift, operator.ilshift, operator.rshift, operator.irshift)
_ARITHMETIC = (*_GROWING, *_SHIFTS, operator.add, operator.iadd, operator.sub, operator.isub)
_LARGEST = 2**62


def _has_power(base: Any, exponent: Any) -> bool:
    """Whether a power is a real number: of numbers below zero it may be complex, of zero an error."""
    return bool(base >= 0 if not facts.is_number(exponent) and exponent >= 0 else base > 0)


def fits(env: ShapeEnv, target: Any, args: tuple, result: Any, numbers: set[Any]) -> bool:
    """Whether graphs compute a number as Python does: they have 64 bits, and no errors. Of `numbers`, the symbols that stand for
    anything and not for sizes, it is guarded that it does so with the next values too."""
    if target not in _ARITHMETIC:
        return True
    hints = [env.hint(a.expr) if facts.is_number(a) else a for a in args]
    if any(h is None for h in hints):
        return True
    try:
        value = target(*hints)
    except (ArithmeticError, ValueError):
        return False
    if type(value) is not _KINDS[type(result)] or (type(value) is int and abs(value) > _LARGEST):
        return False
    if target in _POWERS and type(value) is float and not facts.decided(lambda: _has_power(*args)):
        return False
    if target in _SHIFTS and facts.is_number(args[1]):
        facts.decided(lambda: bool(args[1] >= 0))
    if target in _GROWING and type(value) is int and not numbers.isdisjoint(free_symbols([result])):
        facts.decided(lambda: bool(result <= _LARGEST) and bool(result >= -_LARGEST))
    return True


# Functions of numbers that stay symbolic, under the name that graphs have them by.
FUNCTIONS: dict[Any, Any] = {
    builtins.abs: operator.abs,
    builtins.int: tocha.sym_int,
    builtins.float: tocha.sym_float,
    math.floor: math.floor,
    math.ceil: math.ceil,
    math.trunc: tocha.sym_int,
    builtins.round: builtins.round,
}
for _name in dir(math):
    _function = getattr(tocha, f"_sym_{_name}", None)
    if _function is not None:
        FUNCTIONS.setdefault(getattr(math, _name), _function)


def _is_nan(f: Frame, x: Value) -> Value:
    return number_call(f, operator.ne, [x, x])


def _is_infinite(f: Frame, x: Value) -> Value:
    return number_call(f, operator.eq, [number_call(f, operator.abs, [x]), Constant(math.inf)])


def _is_finite(f: Frame, x: Value) -> Value:
    return number_call(f, operator.lt, [number_call(f, operator.abs, [x]), Constant(math.inf)])


# Integers are answered by their type; floats may come from data, or be too large.
_CLASSES: dict[Any, Any] = {math.isnan: _is_nan, math.isinf: _is_infinite, math.isfinite: _is_finite}


def symbolic_result(f: Frame, function: Any, args: list[Value]) -> Value | None:
    """What a native function makes of symbolic numbers; None where it has to have plain ones."""
    if not are_symbolic(*args):
        return None
    if function in _CLASSES and len(args) == 1:
        return _CLASSES[function](f, args[0])
    if function in (builtins.max, builtins.min):
        return number_call(f, tocha.sym_max if function is max else tocha.sym_min, args)
    if function not in FUNCTIONS or len(args) != 1:
        return None
    if function is int and isinstance(args[0].fact, SymInt):  # type: ignore[attr-defined]
        return args[0]
    if function is float and isinstance(args[0].fact, SymFloat):  # type: ignore[attr-defined]
        return args[0]
    return number_call(f, FUNCTIONS[function], args)
