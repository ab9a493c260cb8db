"""One capture's outcome: the graph with its inputs, guards, side effects, and the code that replaces a frame's."""

from __future__ import annotations

import operator
import re
import types
from typing import TYPE_CHECKING, Any

import tocha
from tocha import fx
from tocha._dynamo import facts
from tocha._dynamo.guards import Guards
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.source import Source
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant, is_plain
from tocha._dynamo.values.containers import ListValue, NamedTupleValue, SizeValue, TupleValue
from tocha._dynamo.values.functions import CellValue
from tocha._dynamo.values.lazy import Lazy
from tocha._dynamo.values.tensor import TensorValue

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame


class Effects:
    """Objects that captured code changed, in the order of their first change."""

    def __init__(self) -> None:
        self.order: list[Any] = []
        self.known: set[int] = set()

    def add(self, value: Any) -> None:
        if id(value) not in self.known:
            self.known.add(id(value))
            self.order.append(value)


class Output:
    def __init__(self, code: types.CodeType, globals_: dict, arguments: tuple[str, ...]) -> None:
        self.code, self.globals, self.arguments = code, globals_, arguments
        self.graph = fx.Graph()
        self.guards = Guards()
        self.guards.add_global_state()
        self.effects = Effects()
        self.inputs: list[TensorValue] = []
        self.memo: dict[int, tuple[Any, Value]] = {}  # a real object's id -> the object, its value
        self.cells: dict[int, tuple[Any, CellValue]] = {}
        self.by_fact: dict[int, TensorValue] = {}
        self.class_writes: dict[tuple[int, str], Value] = {}
        self.global_writes: dict[tuple[int, str], Value] = {}
        self.scopes: dict[int, dict] = {}
        self.aliases = 0
        self.steps = 0
        self.calls = 0
        self.kept: list[Any] = []

    # ---- values from outside

    def input(self, f: Frame, tensor: Any, source: Source) -> TensorValue:
        if type(tensor) not in (tocha.Tensor, tocha.nn.Parameter, tocha.nn.Buffer):
            raise Unsupported("subclass", f"an input of type {type(tensor).__name__}")
        if tensor.layout is not tocha.strided:
            raise Unsupported("value", f"a tensor of layout {tensor.layout}")
        self.guards.add_tensor(source, tensor, tuple(tensor.shape), tensor.stride())
        node = self.graph.placeholder(self.input_name(source))
        fact = facts.of(tensor)
        value = TensorValue(node, fact, tensor.device, source, tensor)
        self.by_fact[id(fact)] = value
        self.inputs.append(value)
        return value

    def input_name(self, source: Source) -> str:
        return re.sub(r"[^0-9A-Za-z]+", "_", source.name)

    def cell_of(self, f: Frame, cell: Any, source: Source | None, name: str) -> CellValue:
        """The tracked cell of a real one."""
        if id(cell) not in self.cells:
            made = CellValue(None, source, name)
            self.cells[id(cell)] = (cell, made)
            try:
                contents = cell.cell_contents
            except ValueError:
                contents = None
                made.contents = None
                if source is not None and source.base is not None:
                    place = source.base.attribute("__closure__").tuple_item(source.key)
                    self.guards.add(place, "empty_cell", None)
                return made
            made.contents = Lazy(f, contents, source if source is not None else Source("cell", None, Source("object", cell, None, name)))  # fmt: skip
        return self.cells[id(cell)][1]

    def guard_without(self, value: Any, name: str) -> None:
        """The object's own dict has no such name."""
        if value.source is not None:
            self.guards.add(value.source.attribute("__dict__"), "without", name)

    def guard_alias(self, value: Value, source: Source) -> None:
        """The same object was reached on another way: guards see to it that it stays the same."""
        first = value.source
        if first is None or first.identity == source.identity:
            return
        number = getattr(value, "alias_number", None)
        if number is None:
            number = value.alias_number = self.aliases  # type: ignore[attr-defined]
            self.aliases += 1
            self.guards.add(first, "alias", number)
        self.guards.add(source, "alias", number)

    # ---- the graph

    def call(self, f: Frame, op: str, target: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """A call that may become a node: it does when tensors come out of it, or go into one that returns nothing."""
        args = [a.realize() for a in args]
        kwargs = {k: v.realize() for k, v in kwargs.items()}
        examples = tuple(a.example() for a in args)
        named = {k: v.example() for k, v in kwargs.items()}
        try:
            result = facts.run(op, target, examples, named)
        except Unsupported:
            raise
        except Exception as error:
            f.raise_real(error)
        if not _has_tensor(result) and not (result is None and _has_tensor([examples, *named.values()])):
            return f.wrap_known(result)
        node = getattr(self.graph, op)(
            target, tuple(a.graph_argument() for a in args), {k: v.graph_argument() for k, v in kwargs.items()}
        )
        node.meta["stack_trace"] = f.stack_text
        self.calls += 1
        device = (
            facts.device_given(examples, named) or _device_of([*args, *kwargs.values()]) or tocha.get_default_device()
        )
        return self.result(f, node, result, device)

    def result(self, f: Frame, node: Any, result: Any, device: Any) -> Value:
        """Tracked values for what a node gives."""
        if isinstance(result, tocha.Tensor):
            if id(result) in self.by_fact:
                return self.by_fact[id(result)]
            node.meta["example_value"] = result
            value = TensorValue(node, result, device)
            self.by_fact[id(result)] = value
            return value
        if isinstance(result, tocha.Size):
            return SizeValue([Constant(n) for n in result])
        if isinstance(result, (tuple, list)):
            items: list[Value] = []
            for i, r in enumerate(result):
                if isinstance(r, (tocha.Tensor, tuple, list)) and not isinstance(r, tocha.Size):
                    piece = self.graph.call_function(operator.getitem, (node, i))
                    items.append(self.result(f, piece, r, device))
                else:
                    items.append(f.wrap_known(r))
            if type(result) is list:
                return ListValue(items)
            return TupleValue(items) if type(result) is tuple else NamedTupleValue(type(result), items)
        if is_plain(result):
            return Constant(result)
        raise Unsupported("value", f"a result of type {type(result).__name__}")

    def state_call(self, target: Any, args: list[Any]) -> None:
        """A node that changes the state of the library and has no value (grad mode)."""
        self.graph.call_function(target, tuple(args), {})
        self.calls += 1


def _has_tensor(value: Any) -> bool:
    if isinstance(value, tocha.Tensor):
        return True
    if isinstance(value, dict):
        return any(_has_tensor(v) for v in value.values())
    return isinstance(value, (tuple, list)) and any(_has_tensor(v) for v in value)


def _device_of(values: list[Any]) -> Any:
    for v in values:
        if isinstance(v, TensorValue):
            return v.device
        if isinstance(v, (ListValue, TupleValue)):
            found = _device_of([i.realize() for i in v.items])
            if found is not None:
                return found
    return None
