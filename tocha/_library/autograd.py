"""Custom operators in the graph of operations: an autograd.Function for each, made from the formula that was registered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from tocha import _C
from tocha.autograd.function import Function

Tensor = _C.Tensor


@dataclass(frozen=True)
class Formula:
    """`backward(ctx, *grads)`, and what `setup_context(ctx, inputs, output)` leaves for it."""

    backward: Callable
    setup_context: Callable | None = None


def flat(values: Any) -> list[Any]:
    """Arguments with lists of tensors laid out one by one."""
    found: list[Any] = []
    for v in values:
        found += v if isinstance(v, list) else [v]
    return found


def grouped(values: Any, like: Any) -> tuple:
    """The same back in the form of `like`."""
    rest = list(values)
    found: list[Any] = []
    for v in like:
        n = len(v) if isinstance(v, list) else None
        found.append(rest[:n] if n is not None else rest[0])
        del rest[: 1 if n is None else n]
    return tuple(found)


@cache
def function_of(name: str) -> type[Function]:
    """The Function of an operator: its nodes are called GeneratedBackwardFor_ns_name_overloadBackward."""
    return type(f"GeneratedBackwardFor_{name}", (_Generated,), {"__module__": "tocha.autograd.function"})


class _Generated(Function):
    _sees_levels = True

    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: Any) -> Any:
        result = call.compute()
        call.keep(ctx, result)
        return tuple(flat(result if isinstance(result, tuple) else (result,)))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, *ctx._call.gradients(ctx, grads))


class _Call:
    """One call of an operator, from its arguments to their gradients."""

    def __init__(
        self, target: Any, formula: Formula | None, compute: Callable[[], Any], args: tuple, kwargs: dict[str, Any]
    ):
        self.target, self.formula, self.compute = target, formula, compute
        self.shape = tuple([None] * len(a) if isinstance(a, list) else None for a in args)
        self.args: tuple | None = args
        self.kwargs = kwargs
        self.results: tuple = ()

    def keep(self, ctx: Any, result: Any) -> None:
        assert self.args is not None
        whole = result if isinstance(result, tuple) else (result,)
        self.results = tuple([None] * len(r) if isinstance(r, list) else None for r in whole)
        ctx._call = self
        ctx.needs_input_grad = grouped(ctx.needs_input_grad[1:], self.shape)
        setup = self.formula and self.formula.setup_context
        if setup:
            if self.kwargs:
                setup(ctx=ctx, inputs=self.args, keyword_only_inputs=self.kwargs, output=result)
            else:
                setup(ctx, self.args, result)
        # What backward needs it has through ctx: the arguments themselves are not kept.
        self.args, self.compute = None, lambda: None

    def gradients(self, ctx: Any, grads: tuple) -> tuple:
        s = self.target.schema
        if self.formula is None:
            short = s.name.replace("::", ".")
            raise RuntimeError(
                f"Trying to backward through {short}.{s.overload_name or 'default'} but no autograd formula was registered. "
                "Please use register_autograd to add one."
            )
        made = self.formula.backward(ctx, *grouped(grads, self.results))
        made = made if isinstance(made, tuple) else (made,)
        while len(made) > len(self.shape) and made[-1] is None:
            made = made[:-1]
        if len(made) != len(self.shape):
            raise RuntimeError(
                f"function {type(ctx).__name__} returned an incorrect number of gradients (expected {len(self.shape)}, got {len(made)})"
            )
        return tuple(flat(self.of_list(i, g) for i, g in enumerate(made)))

    def of_list(self, i: int, grad: Any) -> Any:
        """The gradients of a list of tensors: a list of as many, or None for all."""
        shape = self.shape[i]
        if not isinstance(shape, list):
            return grad
        if grad is None:
            return list(shape)
        if not isinstance(grad, list | tuple) or len(grad) != len(shape):
            got = f"{len(grad)} of them" if isinstance(grad, list | tuple) else f"{type(grad)}"
            raise RuntimeError(
                f"Expected the return from backward for the list argument {self.target.schema._arguments[i].name} to be a list of "
                f"{len(shape)} gradients: got {got}"
            )
        return list(grad)


def recorded(
    target: Any, formula: Formula | None, compute: Callable[[], Any], args: tuple, kwargs: dict[str, Any]
) -> Any:
    """Runs an operator and records it."""
    s = target.schema
    name = f"{s.name.replace('::', '_')}_{s.overload_name or 'default'}"
    call = _Call(target, formula, compute, args, kwargs)
    results = function_of(name).apply(call, *flat(args))
    made = grouped(results if isinstance(results, tuple) else (results,), call.results)
    return made[0] if len(s._returns) == 1 else made
