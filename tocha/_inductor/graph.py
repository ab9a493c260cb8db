"""A straight-line program of operators on named inputs, and how it is lowered to loops.

>>> from tocha.ir import dtypes as dt
>>> g = Graph()
>>> x = g.input("x", (4, 8), dt.float32)
>>> y = g.output(op.exp(x).sum(-1))
>>> [loop.name for loop in g.outputs[0].producers()]
['exp_0', 'sum_1']
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tocha._inductor import lowering
from tocha.ir.dtypes import DType
from tocha.ir.loops import Buffer, Loop
from tocha.operators import families
from tocha.operators.binding import resolve
from tocha.operators.record import OPERATORS, Operator, op

__all__ = ["Graph", "Value", "op"]


class Value:
    """A tensor of the graph: what records' bodies see when the compiler runs them."""

    def __init__(self, graph: Graph, producer: Buffer | Loop):
        self.graph = graph
        self.producer = producer

    @property
    def shape(self) -> tuple[int, ...]:
        return self.producer.out_sizes if isinstance(self.producer, Loop) else self.producer.sizes

    @property
    def dtype(self) -> DType:
        return self.producer.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def dim(self) -> int:
        return len(self.shape)

    def size(self, dim: int) -> int:
        return self.shape[dim]

    def numel(self) -> int:
        n = 1
        for s in self.shape:
            n *= s
        return n

    def is_complex(self) -> bool:
        return self.dtype.is_complex

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating

    def producers(self) -> Iterator[Loop]:
        """The loops this value needs, in an order they can run in."""
        seen: set[int] = set()

        def visit(source: Buffer | Loop) -> Iterator[Loop]:
            if isinstance(source, Buffer) or id(source) in seen:
                return
            seen.add(id(source))
            for load in source.loads:
                yield from visit(load.source)
            yield source

        yield from visit(self.producer)

    @classmethod
    def __tocha_op__(cls, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        o, arguments = resolve(name, args, kwargs, lambda v: isinstance(v, Value))
        return lowering.lower(o, arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def method(*args: Any, **kwargs: Any) -> Any:
            return Value.__tocha_op__(name, (self, *args), kwargs)

        return method


def _python_operator(o: Operator, swapped: bool) -> Any:
    def apply(self: Value, *other: Any) -> Any:
        args = (*other, self) if swapped else (self, *other)
        return Value.__tocha_op__(o.name, args, {})

    return apply


families.load()
for _o in list(OPERATORS.values()):
    if _o.operator:
        setattr(Value, _o.operator, _python_operator(_o, False))
        if len(_o.schema.arguments) > 1:
            setattr(Value, "__r" + _o.operator[2:], _python_operator(_o, True))


class Graph:
    """Inputs, and the values that are wanted."""

    def __init__(self) -> None:
        self.inputs: list[Buffer] = []
        self.outputs: list[Value] = []
        self.count = 0

    def input(self, name: str, sizes: tuple[int, ...], dtype: DType) -> Value:
        b = Buffer(name, tuple(sizes), dtype)
        self.inputs.append(b)
        return self.value(b)

    def value(self, producer: Buffer | Loop) -> Value:
        """What an input or a loop computes, for further operators."""
        return Value(self, producer)

    def output(self, value: Value) -> Value:
        self.outputs.append(value)
        return value

    def name(self, base: str) -> str:
        self.count += 1
        return f"{base}_{self.count - 1}"
