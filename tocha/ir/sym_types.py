"""SymInt, SymFloat and SymBool: the numbers that users hold where a size is not known yet.

They carry an expression (tocha.ir.symbolic, FloatExpr here) and the ShapeEnv that knows its symbols. Arithmetic builds
expressions; asking for a value (`int(n)`, `if n > 3`) asks the environment, which answers from what it knows or from
its hints, and records a guard.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tocha.ir import symbolic as s

if TYPE_CHECKING:
    from tocha.ir.shape_env import ShapeEnv


_FUNCTIONS: dict[str, Callable[..., float]] = {
    "float": float,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "neg": operator.neg,
    "abs": abs,
    "min": min,
    "max": max,
    **{
        n: getattr(math, n)
        for n in ("sqrt", "exp", "log", "log2", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan")
    },
}
_INFIX = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**"}


class FloatExpr:
    """A float that depends on symbols: a function of integer expressions, numbers and other FloatExprs."""

    __slots__ = ("args", "name")

    def __init__(self, name: str, args: tuple):
        self.name, self.args = name, args

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FloatExpr) and self.name == other.name and self.args == other.args

    def __hash__(self) -> int:
        return hash((self.name, self.args))

    @property
    def symbols(self) -> frozenset[s.Atom]:
        if self.name == "symbol":
            return frozenset(self.args)
        return frozenset().union(*(a.symbols for a in self.args if isinstance(a, s.Expr | FloatExpr)))

    def evaluate(self, values: Mapping[s.Atom, int]) -> float:
        if self.name == "symbol":
            return values[self.args[0]]
        return _FUNCTIONS[self.name](*(s.evaluate(a, values) for a in self.args))

    def substitute(self, values: Mapping[s.Atom, Any]) -> Any:
        if self.name == "symbol":
            return values.get(self.args[0], self)
        return float_expr(self.name, *(s.substitute(a, values) for a in self.args))

    def simplify(self, known: Any) -> Any:
        if self.name == "symbol":
            return known.replacements.get(self.args[0], self)
        return float_expr(self.name, *(known.simplify(a) for a in self.args))

    def scaled_integer(self) -> tuple[Any, float] | None:
        """e and k where this is the float of an integer expression e, times a number k."""
        if self.name == "float":
            return self.args[0], 1.0
        if self.name == "mul":
            for number, other in (self.args, self.args[::-1]):
                if isinstance(number, int | float) and math.isfinite(number):
                    inner = other.scaled_integer() if isinstance(other, FloatExpr) else (other, 1.0)
                    return None if inner is None else (inner[0], inner[1] * number)
        return None

    def text(self, name: Callable[[s.Atom], str] | None = None) -> str:
        if self.name == "symbol":
            return name(self.args[0]) if name else self.args[0].name
        if self.name in _INFIX:
            return f"({s.operand(self.args[0], name)} {_INFIX[self.name]} {s.operand(self.args[1], name)})"
        if self.name == "neg":
            return f"(-{s.operand(self.args[0], name)})"
        args = [s.text(a, name) for a in self.args]
        prefix = "" if self.name in ("float", "abs", "min", "max") else "math."
        return f"{prefix}{self.name}({', '.join(args)})"

    __repr__ = text


def float_symbol(atom: s.Atom) -> FloatExpr:
    return FloatExpr("symbol", (atom,))


def float_expr(name: str, *args: Any) -> Any:
    """The function of these arguments; a plain float if they are plain."""
    if all(isinstance(a, int | float) for a in args):
        return _FUNCTIONS[name](*args)
    if name == "float" and isinstance(args[0], FloatExpr):
        return args[0]
    return FloatExpr(name, args)


class Symbolic:
    """What the three kinds share: an expression, and who knows its symbols."""

    __slots__ = ("env", "expr")
    __hash__ = None  # type: ignore[assignment]
    expr: Any
    env: ShapeEnv

    def __init__(self, expr: Any, env: ShapeEnv):
        self.expr, self.env = expr, env

    def __repr__(self) -> str:
        return str(self.env.simplify(self.expr))

    def __deepcopy__(self, memo: dict) -> Symbolic:
        return self

    def __sym_int__(self) -> Any:
        raise NotImplementedError

    def __sym_float__(self) -> Any:
        raise NotImplementedError

    @property
    def node(self) -> SymNode:
        return SymNode(self)


def expression(x: Any) -> Any:
    """The expression of a symbolic number; a plain number is its own."""
    return x.expr if isinstance(x, Symbolic) else x


def wrap(expr: Any, env: ShapeEnv) -> Any:
    """The number for an expression: plain where that is plain."""
    if isinstance(expr, s.Expr):
        return SymInt(expr, env)
    if isinstance(expr, s.Relation):
        return SymBool(expr, env)
    return SymFloat(expr, env) if isinstance(expr, FloatExpr) else expr


def settled(n: Any) -> Any:
    """A number as it is known by now."""
    return wrap(n.env.simplify(n.expr), n.env) if isinstance(n, Symbolic) else n


def _is_int(x: Any) -> bool:
    return isinstance(x, int | SymInt | SymBool)


def _as_int(x: Any) -> Any:
    if isinstance(x, SymBool):
        return s.choose(x.expr, 1, 0)
    return int(x) if isinstance(x, bool) else expression(x)


def _arithmetic(
    name: str, on_ints: Callable[[Any, Any], Any] | None, swapped: bool = False
) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, int | float | Symbolic):
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
        if on_ints is not None and _is_int(a) and _is_int(b):
            return wrap(on_ints(_as_int(a), _as_int(b)), self.env)
        a, b = (_as_int(x) if _is_int(x) else expression(x) for x in (a, b))
        return wrap(float_expr(name, a, b), self.env)

    return method


def _comparison(symbol: str, on_ints: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, int | float | Symbolic):
            return symbol == "!=" if symbol in ("==", "!=") else NotImplemented
        if _is_int(self) and _is_int(other):
            return wrap(on_ints(_as_int(self), _as_int(other)), self.env)
        if isinstance(other, float) and isinstance(self, SymInt) and other.is_integer():
            return wrap(on_ints(self.expr, int(other)), self.env)
        if isinstance(other, float) and math.isinf(other) and isinstance(self, SymInt):
            return s.COMPARISONS[symbol](0, other)
        a, b = (_as_int(x) if _is_int(x) else expression(x) for x in (self, other))
        return wrap(s.compare_floats(symbol, a, b), self.env)

    return method


def _int_power(a: Any, b: Any) -> Any:
    if isinstance(b, int):
        return s.power(a, b) if b >= 0 else float_expr("pow", a, b)
    return s.opaque("pow", a, b)


class SymNumber(Symbolic):
    """Arithmetic and comparisons of symbolic ints and floats."""

    __slots__ = ()

    __add__ = _arithmetic("add", s.add)
    __radd__ = _arithmetic("add", s.add, swapped=True)
    __sub__ = _arithmetic("sub", lambda a, b: s.add(a, s.scale(b, -1)))
    __rsub__ = _arithmetic("sub", lambda a, b: s.add(a, s.scale(b, -1)), swapped=True)
    __mul__ = _arithmetic("mul", s.mul)
    __rmul__ = _arithmetic("mul", s.mul, swapped=True)
    __floordiv__ = _arithmetic("floordiv", s.floordiv)
    __rfloordiv__ = _arithmetic("floordiv", s.floordiv, swapped=True)
    __mod__ = _arithmetic("mod", s.mod)
    __rmod__ = _arithmetic("mod", s.mod, swapped=True)
    __truediv__ = _arithmetic("truediv", None)
    __rtruediv__ = _arithmetic("truediv", None, swapped=True)
    __pow__ = _arithmetic("pow", _int_power)
    __rpow__ = _arithmetic("pow", _int_power, swapped=True)
    __eq__ = _comparison("==", s.eq)  # type: ignore[assignment]
    __ne__ = _comparison("!=", s.ne)  # type: ignore[assignment]
    __lt__ = _comparison("<", s.lt)
    __le__ = _comparison("<=", s.le)
    __gt__ = _comparison(">", s.gt)
    __ge__ = _comparison(">=", s.ge)
    __hash__ = None  # type: ignore[assignment]

    def __pos__(self) -> Any:
        return self

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    def __sym_max__(self, other: Any) -> Any:
        return sym_max(self, other)

    def __sym_min__(self, other: Any) -> Any:
        return sym_min(self, other)


def _bits(kind: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if not _is_int(other):
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
        return wrap(s.opaque(kind, _as_int(a), _as_int(b)), self.env)

    return method


class SymInt(SymNumber):
    """An int that is an expression of sizes."""

    __slots__ = ()

    __and__, __rand__ = _bits("and"), _bits("and", True)
    __or__, __ror__ = _bits("or"), _bits("or", True)
    __xor__, __rxor__ = _bits("xor"), _bits("xor", True)
    __lshift__, __rlshift__ = _bits("lshift"), _bits("lshift", True)
    __rshift__, __rrshift__ = _bits("rshift"), _bits("rshift", True)

    def __neg__(self) -> Any:
        return wrap(s.scale(self.expr, -1), self.env)

    def __invert__(self) -> Any:
        return wrap(s.add(s.scale(self.expr, -1), -1), self.env)

    def __abs__(self) -> Any:
        if self.env.known.holds(s.ge(self.expr, 0)):
            return self
        return wrap(s.opaque("abs", self.expr), self.env)

    def __int__(self) -> int:
        return self.env.specialize(self.expr)

    __index__ = __int__

    def __float__(self) -> float:
        return float(int(self))

    def __trunc__(self) -> Any:
        return self

    __floor__ = __ceil__ = __trunc__

    def __round__(self, digits: int | None = None) -> Any:
        return self

    def __sym_float__(self) -> Any:
        return wrap(float_expr("float", self.expr), self.env)

    def __sym_int__(self) -> Any:
        return self

    def is_integer(self) -> bool:
        return True

    def as_integer_ratio(self) -> tuple[Any, int]:
        return self, 1

    def bit_length(self) -> int:
        return int(self).bit_length()

    def conjugate(self) -> Any:
        return self


class SymFloat(SymNumber):
    """A float that depends on sizes."""

    __slots__ = ()

    def __neg__(self) -> Any:
        return wrap(float_expr("neg", self.expr), self.env)

    def __abs__(self) -> Any:
        return wrap(float_expr("abs", self.expr), self.env)

    def __float__(self) -> float:
        return self.env.specialize(self.expr)

    def __int__(self) -> int:
        return int(self.__trunc__())

    def __trunc__(self) -> Any:
        return wrap(s.rounding("trunc", self.expr), self.env)

    def __floor__(self) -> Any:
        return wrap(s.rounding("floor", self.expr), self.env)

    def __ceil__(self) -> Any:
        return wrap(s.rounding("ceil", self.expr), self.env)

    def __round__(self, digits: int | None = None) -> Any:
        if digits is not None:
            return round(float(self), digits)
        return wrap(s.rounding("round", self.expr), self.env)

    def __sym_float__(self) -> Any:
        return self

    def __sym_int__(self) -> Any:
        return self.__trunc__()

    def is_integer(self) -> Any:
        return self.__trunc__() == self

    def conjugate(self) -> Any:
        return self


class SymBool(Symbolic):
    """A bool that depends on sizes."""

    __slots__ = ()

    def __and__(self, other: Any) -> Any:
        return wrap(s.combine("and", [self.expr, _relation(other)]), self.env)

    def __or__(self, other: Any) -> Any:
        return wrap(s.combine("or", [self.expr, _relation(other)]), self.env)

    __rand__, __ror__ = __and__, __or__

    def __xor__(self, other: Any) -> Any:
        return self != other

    def __sym_not__(self) -> Any:
        return wrap(s.negate(self.expr), self.env)

    __invert__ = __sym_not__

    def __eq__(self, other: Any) -> Any:
        if not isinstance(other, int | SymInt | SymBool):
            return False
        return wrap(s.eq(_as_int(self), _as_int(other)), self.env)

    def __ne__(self, other: Any) -> Any:
        if not isinstance(other, int | SymInt | SymBool):
            return True
        return wrap(s.ne(_as_int(self), _as_int(other)), self.env)

    __hash__ = None  # type: ignore[assignment]

    def _int(self) -> Any:
        return wrap(_as_int(self), self.env)

    def __add__(self, other: Any) -> Any:
        return self._int() + other

    __radd__ = __add__

    def __mul__(self, other: Any) -> Any:
        return self._int() * other

    __rmul__ = __mul__

    def __bool__(self) -> bool:
        return self.env.decide(self.expr)

    def __int__(self) -> int:
        return int(bool(self))

    def __sym_int__(self) -> Any:
        return self._int()

    def __sym_float__(self) -> Any:
        return sym_float(self._int())


def _relation(x: Any) -> Any:
    if isinstance(x, bool):
        return x
    return x.expr if isinstance(x, SymBool) else s.ne(_as_int(x), 0)


class SymNode:
    """What `n.node` shows of a symbolic number: its expression, hint and environment, under PyTorch's names."""

    __slots__ = ("of",)

    def __init__(self, of: Symbolic):
        self.of = of

    @property
    def expr(self) -> Any:
        return self.of.env.simplify(self.of.expr)

    @property
    def _expr(self) -> Any:
        return self.of.expr

    @property
    def shape_env(self) -> ShapeEnv:
        return self.of.env

    @property
    def pytype(self) -> type:
        return {SymInt: int, SymFloat: float, SymBool: bool}[type(self.of)]  # type: ignore[index]

    @property
    def hint(self) -> Any:
        return self.of.env.hint(self.of.expr)

    def has_hint(self) -> bool:
        return self.hint is not None

    def require_hint(self, fallback: Any = None) -> Any:
        hint = self.hint
        return fallback if hint is None and fallback is not None else self.of.env.require_hint(self.of.expr)

    def maybe_as_int(self) -> int | None:
        e = self.expr
        return e if isinstance(e, int) and not isinstance(e, bool) else None

    def maybe_as_float(self) -> float | None:
        e = self.expr
        return e if isinstance(e, float) else None

    def maybe_as_bool(self) -> bool | None:
        e = self.of.env.known.holds(self.of.expr) if isinstance(self.of, SymBool) else None
        return e

    def is_constant(self) -> bool:
        return isinstance(self.expr, bool | int | float)

    def is_symbolic(self) -> bool:
        return True

    def is_int(self) -> bool:
        return isinstance(self.of, SymInt)

    def is_float(self) -> bool:
        return isinstance(self.of, SymFloat)

    def is_bool(self) -> bool:
        return isinstance(self.of, SymBool)

    def is_nested_int(self) -> bool:
        return False

    def guard_int(self, file: str = "", line: int = 0) -> int:
        return int(self.of)  # type: ignore[call-overload]

    def guard_float(self, file: str = "", line: int = 0) -> float:
        return float(self.of)  # type: ignore[arg-type]

    def guard_bool(self, file: str = "", line: int = 0) -> bool:
        return bool(self.of)

    def expect_true(self, file: str = "", line: int = 0) -> bool:
        return self.of.env.expect(self.of.expr)

    def __str__(self) -> str:
        return str(self.expr)

    __repr__ = __str__


# ---- functions of symbolic numbers ---------------------------------------------------------------


def _env_of(*values: Any) -> ShapeEnv | None:
    return next((v.env for v in values if isinstance(v, Symbolic)), None)


def _extremum(kind: str, values: tuple) -> Any:
    env = _env_of(*values)
    if env is None:
        return (max if kind == "max" else min)(values)
    if all(map(_is_int, values)):
        return wrap(env.known.simplify(s.extremum(kind, [_as_int(v) for v in values])), env)
    out = expression(values[0])
    for v in values[1:]:
        out = float_expr(kind, out, expression(v))
    return wrap(float_expr("float", out), env)


def sym_max(*values: Any) -> Any:
    """max() that stays symbolic."""
    return _extremum("max", values)


def sym_min(*values: Any) -> Any:
    """min() that stays symbolic."""
    return _extremum("min", values)


def sym_int(x: Any) -> Any:
    """int() that stays symbolic: towards zero for floats."""
    return x.__sym_int__() if isinstance(x, Symbolic) else int(x)


def sym_float(x: Any) -> Any:
    """float() that stays symbolic."""
    return x.__sym_float__() if isinstance(x, Symbolic) else float(x)


def sym_not(x: Any) -> Any:
    """`not` that stays symbolic."""
    return x.__sym_not__() if isinstance(x, SymBool) else not x


def sym_ite(condition: Any, if_true: Any, if_false: Any) -> Any:
    """`if_true if condition else if_false` that stays symbolic."""
    if not isinstance(condition, SymBool):
        return if_true if condition else if_false
    if isinstance(if_true, bool | SymBool):
        yes = s.combine("and", [condition.expr, _relation(if_true)])
        no = s.combine("and", [s.negate(condition.expr), _relation(if_false)])
        return wrap(s.combine("or", [yes, no]), condition.env)
    return wrap(s.choose(condition.expr, expression(if_true), expression(if_false)), condition.env)


def sym_sum(values: Any) -> Any:
    """sum() in one step."""
    env = _env_of(*values)
    return sum(values) if env is None else wrap(s.total(_as_int(v) for v in values), env)


def sym_function(name: str) -> Callable[[Any], Any]:
    """math.NAME that stays symbolic."""

    def call(x: Any) -> Any:
        if isinstance(x, Symbolic):
            return wrap(float_expr(name, expression(x)), x.env)
        return _FUNCTIONS[name](x)

    call.__name__ = f"_sym_{name}"
    return call


def is_symbolic(x: Any) -> bool:
    return isinstance(x, Symbolic)
