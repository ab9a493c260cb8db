"""nonstrict_trace: a call of such a function is one node of the captured graph, whatever it is called with and whatever it returns."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tocha._dynamo.native_calls import known
from tocha._dynamo.source import Source
from tocha._dynamo.subgraphs import Given, apply_to, filled, structure_of
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.containers import TupleValue
from tocha._dynamo.values.objects import ObjectValue
from tocha.nn import _Module as Module
from tocha.nn.utils.stateless import _reparametrize_module

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame


class Called(Value):
    """A module among the arguments: its tensors are arguments too."""

    def __init__(self, f: Frame, value: ObjectValue, source: Source) -> None:
        self.module = value.real
        f.out.guards.add(source, "same", value.real)
        named = [
            *self.module.named_parameters(remove_duplicate=False),
            *self.module.named_buffers(remove_duplicate=False),
        ]
        self.tensors = f.new_dict((name, _tensor_of(f, value, name)) for name, _ in named)

    def constant(self) -> Module:
        return self.module


def _tensor_of(f: Frame, value: Value, path: str) -> Value:
    for name in path.split("."):
        value = value.get_attribute(f, name).realize()
    return value


def stand_in_graphs(function: Callable, wrapped: Callable) -> None:
    """Calls of `wrapped` in captured code are nodes that call `function`."""

    def handler(f: Frame, /, *args: Value, **kwargs: Value) -> Value:
        modules: list[Called] = []

        def argument(v: Value) -> Value:
            v = v.realize()
            if not (isinstance(v, ObjectValue) and isinstance(v.real, Module) and v.source is not None):
                return v
            modules.append(Called(f, v, v.source))
            return modules[-1]

        plain = [TupleValue([argument(a) for a in args]), f.new_dict((k, argument(v)) for k, v in kwargs.items())]
        given: list[Given] = []
        structure = structure_of(f, TupleValue([*plain, TupleValue([m.tensors for m in modules])]), given)

        def use(items: Any) -> Any:
            positional, named, tensors = filled(structure, items)
            with contextlib.ExitStack() as swapped:
                for m, own in zip(modules, tensors):
                    swapped.enter_context(_reparametrize_module(m.module, own))
                return function(*positional, **named)

        return apply_to(f, [], given, use, function.__name__)

    known(wrapped)(handler)
