"""Functions that captured code hands to transforms and to control flow: each is captured as a graph of its own.

The function is gone through like any other; what it added to the graph is then taken out of it. Values from outside that it
uses become inputs of its graph.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tocha
from tocha import fx
from tocha._dynamo import facts
from tocha._dynamo.native_calls import LATE
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import ListValue, TupleValue
from tocha._dynamo.values.functions import FunctionValue, PartialValue, real_function
from tocha._dynamo.values.mappings import DictValue
from tocha._dynamo.values.symbol import SymbolValue
from tocha._dynamo.values.tensor import TensorValue
from tocha.fx._lazy_graph_module import _LazyGraphModule
from tocha.ir.sym_types import Symbolic
from tocha.utils._pytree_nodes import node_of_type

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame


@dataclass(frozen=True)
class Slot:
    """The place of a tensor, or of a number that is a symbol, in a structure of Python objects."""

    index: int


@dataclass(frozen=True)
class Registered:
    """An object of a class that pytrees know."""

    cls: type
    children: list[Any]
    context: Any


Given = TensorValue | SymbolValue


def structure_of(f: Frame, value: Value, tensors: list[Given]) -> Any:
    """A tracked structure as Python objects, with slots for its tensors and symbols."""
    value = value.realize()
    if isinstance(value, TensorValue | SymbolValue):
        tensors.append(value)
        return Slot(len(tensors) - 1)
    if isinstance(value, (TupleValue, ListValue)):
        items = [structure_of(f, v, tensors) for v in value.items]
        return items if isinstance(value, ListValue) else tuple(items)
    if isinstance(value, DictValue):
        value.settle_keys(f)
        return {k.constant(): structure_of(f, v, tensors) for k, v in value.entries.values()}
    if value.is_constant():
        return value.constant()
    node = node_of_type[value.python_type()]
    if node is not None:
        children, context = f.wrap_known(node.flatten_fn).call(f, [value], {}).items  # type: ignore[attr-defined]
        items = [structure_of(f, v, tensors) for v in children.realize().items]
        return Registered(value.python_type(), items, context.realize().constant())
    raise Unsupported("value", f"{value.describe()}, given to a transform or returned in one")


def filled(structure: Any, items: Any, made: bool = True) -> Any:
    """The structure with things in its slots; objects of registered classes are made, or described as before."""
    if isinstance(structure, Slot):
        return items[structure.index]
    if isinstance(structure, (tuple, list)):
        return type(structure)(filled(s, items, made) for s in structure)
    if isinstance(structure, dict):
        return {k: filled(v, items, made) for k, v in structure.items()}
    if isinstance(structure, Registered):
        children = filled(structure.children, items, made)
        if not made:
            return Registered(structure.cls, children, structure.context)
        return node_of_type[structure.cls].unflatten_fn(children, structure.context)
    return structure


def _picked(structure: Any, value: Any, slots: dict[int, Any]) -> None:
    """What lies at the slots of a structure, in a value of the same form."""
    if isinstance(structure, Slot):
        slots[structure.index] = value
    elif isinstance(structure, (tuple, list)):
        for s, v in zip(structure, value, strict=True):
            _picked(s, v, slots)
    elif isinstance(structure, dict):
        for k, s in structure.items():
            _picked(s, value[k], slots)
    elif isinstance(structure, Registered):
        _picked(structure.children, list(node_of_type[structure.cls].flatten_fn(value)[0]), slots)


def _numbered(f: Frame, value: Value) -> Value:
    """Integers as symbols: what a loop counts is another number at each turn."""
    value = value.realize()
    if isinstance(value, (TupleValue, ListValue)):
        return type(value)([_numbered(f, v) for v in value.items])
    if isinstance(value, DictValue):
        value.settle_keys(f)
        return f.new_dict((k.constant(), _numbered(f, v)) for k, v in value.entries.values())
    if not value.is_constant() or type(value.constant()) not in (int, float):
        return value
    if type(value.constant()) is float:
        raise Unsupported("value", "a float that a loop carries")
    return SymbolValue(None, f.out.env.create_unbacked_symint())


def tracked(f: Frame, structure: Any) -> Value:
    """A structure of Python objects around tracked values as a tracked one."""
    if isinstance(structure, Value):
        return structure
    if isinstance(structure, tuple):
        return TupleValue([tracked(f, s) for s in structure])
    if isinstance(structure, list):
        return ListValue([tracked(f, s) for s in structure])
    if isinstance(structure, dict):
        return f.new_dict((k, tracked(f, v)) for k, v in structure.items())
    if isinstance(structure, Registered):
        unflatten = f.wrap_known(node_of_type[structure.cls].unflatten_fn)
        return unflatten.call(f, [tracked(f, structure.children), f.wrap_known(structure.context)], {})
    return f.wrap_known(structure)


def _argument() -> None:
    """Stands for an argument while a function is gone through."""


class Body:
    """A captured function: its nodes, the nodes outside that it uses, and the structure of what it returns."""

    def __init__(
        self,
        f: Frame,
        function: Value,
        args: list[Value],
        once: bool = False,
        kwargs: dict[str, Value] | None = None,
        unknown: bool = False,
    ) -> None:
        """`once`: the function is called a single time, as it is while capturing. `unknown`: numbers among its arguments change
        from call to call, and nothing is known of them."""
        out = f.out
        before = set(out.graph.nodes)
        given: list[Given] = []
        structures = [structure_of(f, _numbered(f, a) if unknown else a, given) for a in args]
        named = {k: structure_of(f, v, given) for k, v in (kwargs or {}).items()}
        inner = [self.inner(f, g, unknown) for g in given]
        self.taken = structures, named  # its arguments, with slots
        self.places = [i for i, (v, g) in enumerate(zip(inner, given)) if v is not g]
        self.arguments = [inner[i].node for i in self.places]
        values = {k: tracked(f, filled(s, inner, made=False)) for k, s in named.items()}
        positional = [tracked(f, filled(s, inner, made=False)) for s in structures]
        changed = len(out.effects.order)
        result = function.call(f, positional, values)
        if len(out.effects.order) != changed and not once:
            raise Unsupported("mutation", "a change of an object in a function given to a transform")
        self.returned: list[Given] = []
        self.structure = structure_of(f, result, self.returned)
        self.nodes = [n for n in out.graph.nodes if n not in before and n.op != "placeholder"]
        mine = set(self.nodes)
        kept = [p for v in out.effects.order if v.source is not None for p in v.parts()]
        if any(isinstance(p, TensorValue) and p.node in mine for p in kept):
            raise Unsupported("mutation", "an object that keeps a tensor of a function given to a transform")
        used = [i for n in self.nodes for i in n.all_input_nodes] + [r.node for r in self.returned]
        self.lifted = list(dict.fromkeys(n for n in used if n not in mine))

    @staticmethod
    def inner(f: Frame, given: Given, unknown: bool) -> Given:
        """What the function sees of an argument. Symbols stay what they are where calls do not differ in them."""
        if isinstance(given, SymbolValue) and not unknown:
            return given
        number = isinstance(given, SymbolValue)
        if number and given.python_type() is not int:
            raise Unsupported("value", f"a {given.python_type().__name__} that a loop carries")
        fact = f.out.env.create_unbacked_symint() if number else given.fact
        node = f.out.graph.call_function(_argument, ())
        node.meta["example_value"] = fact
        if not number:
            return TensorValue(node, fact)
        f.out.numbers[fact.expr] = node
        return SymbolValue(node, fact)

    def values(self, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        """What the graph takes of a call's arguments."""
        slots: dict[int, Any] = {}
        for structure, value in zip((*self.taken[0], self.taken[1]), (*args, kwargs), strict=True):
            _picked(structure, value, slots)
        return [slots[i] for i in self.places]

    def module(self, lifted: list[fx.Node]) -> fx.GraphModule:
        """The graph of a function of its arguments and these nodes."""
        graph = fx.Graph()
        found: dict[fx.Node, fx.Node] = {}
        for n in (*self.arguments, *lifted):
            if n not in found:
                found[n] = graph.placeholder(n.name)
                found[n].meta.update(n.meta)
            else:
                graph.placeholder(f"{n.name}_again")
        for n in self.nodes:
            if n not in found:
                found[n] = graph.node_copy(n, found.__getitem__)
        graph.output(tuple(found[r.node] for r in self.returned))
        return _LazyGraphModule({}, graph)

    def remove(self, f: Frame) -> None:
        """Takes the nodes out of the graph around."""
        gone = set(self.nodes)
        for n in reversed(self.nodes):
            f.out.graph.erase_node(n)
        f.out.by_fact = {k: v for k, v in f.out.by_fact.items() if v.node not in gone}
        f.out.numbers = {k: v for k, v in f.out.numbers.items() if v not in gone}


def given_by(node: fx.Node) -> Given:
    """What a node gives, as a tracked value."""
    fact = node.meta["example_value"]
    return SymbolValue(node, fact) if facts.is_number(fact) else TensorValue(node, fact)


def _giving(node: fx.Node) -> Callable[[], fx.Node]:
    return lambda: node


def node_of(f: Frame, target: Callable, nodes: tuple, examples: tuple) -> list[Value]:
    """A node that gives a tuple of tensors, and of functions of tensors."""
    try:
        result = facts.run(f.out.fake_mode, "call_function", target, examples, {})
    except Unsupported:
        raise
    except Exception as error:
        f.out.raise_operator_error(f, error, "call_function", target, examples, {})
    node = f.out.graph.call_function(target, nodes)
    node.meta["stack_trace"] = f.stack_text
    f.out.calls += 1
    made: list[Value] = []
    for i, r in enumerate(result):
        piece = f.out.graph.call_function(operator.getitem, (node, i))
        if callable(r):
            piece.meta["example_value"] = r
            made.append(CalledLater(piece, r))
        elif facts.is_number(r):
            made.append(f.out.number(r, _giving(piece)))
        else:
            made.append(f.out.result(f, piece, r))
    return made


# ---- what is done with captured functions


def apply_to(f: Frame, bodies: list[Body], given: list[Given], use: Callable[..., Any], name: str = "transformed") -> Value:  # fmt: skip
    """The node that applies use(items, functions...) to captured functions, and what comes out of it."""
    modules, count = [b.module(b.lifted) for b in bodies], len(given)
    lifted = list(dict.fromkeys(n for b in bodies for n in b.lifted))
    places = [[lifted.index(n) + count for n in b.lifted] for b in bodies]
    structures = [b.structure for b in bodies]
    shown: dict[str, Any] = {}
    values = [b.values for b in bodies]

    def transformed(*items: Any) -> tuple:
        def function(k: int) -> Callable:
            def call(*args: Any, **kwargs: Any) -> Any:
                flat = values[k](args, kwargs)
                return filled(structures[k], modules[k](*flat, *(items[i] for i in places[k])))

            return call

        slots: dict[int, Any] = {}
        result = use(items[:count], *(function(k) for k in range(len(modules))))
        if "structure" not in shown:
            shown["structure"] = _slots(result, [])
        _picked(shown["structure"], result, slots)
        return tuple(slots[i] for i in range(len(slots)))

    transformed.__name__ = name
    for b in reversed(bodies):
        b.remove(f)
    examples = (*(g.fact for g in given), *(n.meta["example_value"] for n in lifted))
    made = node_of(f, transformed, (*(g.node for g in given), *lifted), examples)
    return tracked(f, filled(shown["structure"], made, made=False))


def _slots(value: Any, found: list[Any]) -> Any:
    """The structure of what a function returned; its tensors are added to the list."""
    if isinstance(value, tocha.Tensor | Symbolic) or callable(value):
        found.append(value)
        return Slot(len(found) - 1)
    if isinstance(value, (tuple, list)):
        items = [_slots(v, found) for v in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {k: _slots(v, found) for k, v in value.items()}
    node = node_of_type[type(value)]
    if node is not None:
        children, context = node.flatten_fn(value)
        return Registered(type(value), [_slots(v, found) for v in children], context)
    return value


def _slice_of(f: Frame, fact: Any, dim: int) -> Any:
    """What is known of a slice, also where there is none to take."""
    n = fact.shape[dim]
    if not (isinstance(n, int) and n == 0):
        return facts.run(f.out.fake_mode, "call_method", "select", (fact, dim, 0), {})
    dim %= fact.dim()
    sizes, strides = ([*of[:dim], *of[dim + 1 :]] for of in (fact.shape, fact.stride()))
    return facts.run(f.out.fake_mode, "call_method", "new_empty_strided", (fact, sizes, strides), {})


def _inside(f: Frame, value: Value, dims: Any) -> Value:
    """A structure as functions see it that are called for one slice after another: without these dims."""
    given: list[Given] = []
    structure = structure_of(f, value, given)
    found: list[Any] = []

    def add(s: Any, dim: Any) -> None:
        if isinstance(s, Slot):
            found.append(dim)
        elif isinstance(s, (tuple, list)):
            for one, d in zip(s, dim if isinstance(dim, (tuple, list)) else [dim] * len(s)):
                add(one, d)
        elif isinstance(s, dict):
            for k, one in s.items():
                add(one, dim[k] if isinstance(dim, dict) else dim)

    add(structure, dims)
    inner = [
        g if d is None or isinstance(g, SymbolValue) else TensorValue(g.node, _slice_of(f, g.fact, d))
        for g, d in zip(given, found)
    ]
    return tracked(f, filled(structure, inner, made=False))


class TransformValue(Value):
    """What tocha.func.grad(function) returned."""

    def __init__(self, transform: Callable, function: Value, options: dict[str, Any]) -> None:
        self.transform, self.function, self.options = transform, function, options

    def python_type(self) -> type:
        return type(_argument)

    def call(self, f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        given: list[Given] = []
        structures = tuple(structure_of(f, a, given) for a in args)
        named = {k: structure_of(f, v, given) for k, v in kwargs.items()}
        inner, inner_named = args, kwargs
        if self.transform.__name__ == "vmap":
            inner = _inside(f, TupleValue(args), self.options.get("in_dims", 0)).items  # type: ignore[attr-defined]
            inner_named = {k: _inside(f, v, 0) for k, v in kwargs.items()}
        body = Body(f, self.function, inner, once=True, kwargs=inner_named)
        transform, options = self.transform, self.options
        return apply_to(
            f, [body], given,
            lambda items, fn: transform(fn, **options)(*filled(structures, items), **filled(named, items)),
        )  # fmt: skip


class CalledLater(Value):
    """A function of tensors that a node of the graph gives: what vjp and linearize return beside their values."""

    def __init__(self, node: fx.Node, example: Callable) -> None:
        self.node, self.example_function = node, example

    def python_type(self) -> type:
        return type(_argument)

    def call(self, f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        given: list[Given] = []
        at = tuple(structure_of(f, a, given) for a in args)
        options = {k: v.constant() for k, v in kwargs.items()}
        shown: dict[str, Any] = {}

        def called(function: Callable, *items: Any) -> tuple:
            found: list[Any] = []
            shown["structure"] = _slots(function(*filled(at, items), **options), found)
            return tuple(found)

        examples = (self.example_function, *(g.fact for g in given))
        made = node_of(f, called, (self.node, *(g.node for g in given)), examples)
        return tracked(f, filled(shown["structure"], made, made=False))


def _transform(*names: str) -> Callable:
    def handler(real: Callable) -> Callable:
        def make(f: Frame, function: Value, *args: Value, **kwargs: Value) -> Value:
            options = dict(zip(names, args)) | kwargs
            return TransformValue(real, function.realize(), {k: v.constant() for k, v in options.items()})

        return make

    return handler


for _home, _name, _options in (
    ("eager_transforms", "grad", ("argnums", "has_aux")),
    ("eager_transforms", "grad_and_value", ("argnums", "has_aux")),
    ("vmap", "vmap", ("in_dims", "out_dims", "randomness")),
    ("jacobians", "jacrev", ("argnums", "has_aux")),
    ("jacobians", "jacfwd", ("argnums", "has_aux")),
    ("jacobians", "hessian", ("argnums",)),
):
    LATE[f"tocha._functorch.{_home}", _name] = _transform(*_options)


def _made_before(transform: str, *names: str, named: bool = True) -> Callable:
    """What a transform that was made elsewhere calls, with its options, args and kwargs: here it is one made in captured code."""

    def handler(real: Callable) -> Callable:
        public = getattr(importlib.import_module(real.__module__), transform)

        def call(f: Frame, function: Value, *values: Value) -> Value:
            rest = values[len(names) :]
            options = {k: v.constant() for k, v in zip(names, values)}
            kwargs = rest[1].realize() if named else None
            given = {} if kwargs is None else {k.constant(): v for k, v in kwargs.entries.values()}  # type: ignore[attr-defined]
            return TransformValue(public, function.realize(), options).call(f, rest[0].realize().unpack(f), given)

        return call

    return handler


LATE["tocha._functorch.eager_transforms", "grad_and_value_impl"] = _made_before("grad_and_value", "argnums", "has_aux")
LATE["tocha._functorch.vmap", "run"] = _made_before("vmap", "in_dims", "out_dims", "randomness", "chunk_size")
LATE["tocha._functorch.jacobians", "jacrev_impl"] = _made_before(
    "jacrev", "argnums", "has_aux", "chunk_size", named=False
)
LATE["tocha._functorch.jacobians", "jacfwd_impl"] = _made_before(
    "jacfwd", "argnums", "has_aux", "randomness", named=False
)


def _jvp(real: Callable) -> Callable:
    def jvp(f: Frame, func: Value, primals: Value, tangents: Value, **kwargs: Value) -> Value:
        given: list[Given] = []
        at, along = structure_of(f, primals, given), structure_of(f, tangents, given)
        options = {k: v.constant() for k, v in kwargs.items()}
        body = Body(f, func.realize(), primals.realize().unpack(f), once=True)
        return apply_to(
            f, [body], given, lambda items, fn: real(fn, filled(at, items), filled(along, items), **options)
        )

    return jvp


def _at_primals(real: Callable) -> Callable:
    """vjp, linearize: the value of a function at its arguments, and a function."""

    def transform(f: Frame, func: Value, *primals: Value, **kwargs: Value) -> Value:
        given: list[Given] = []
        at = tuple(structure_of(f, p, given) for p in primals)
        options = {k: v.constant() for k, v in kwargs.items()}
        body = Body(f, func.realize(), list(primals), once=True)
        return apply_to(f, [body], given, lambda items, fn: real(fn, *filled(at, items), **options))

    return transform


def _cond(real: Callable) -> Callable:
    def cond(f: Frame, pred: Value, true_fn: Value, false_fn: Value, operands: Value | None = None) -> Value:
        pred, args = pred.realize(), operands.realize().unpack(f) if operands is not None else []
        if not isinstance(pred, TensorValue):
            if isinstance(pred, Constant):
                importlib.import_module(real.__module__).tell_of_constant()
            return (true_fn if pred.truth(f) else false_fn).realize().call(f, args, {})
        given: list[Given] = [pred]
        at = tuple(structure_of(f, a, given) for a in args)
        bodies = [Body(f, branch.realize(), args) for branch in (true_fn, false_fn)]
        return apply_to(f, bodies, given, lambda items, yes, no: real(items[0], yes, no, filled(at, items)))

    return cond


def _while_loop(real: Callable) -> Callable:
    def while_loop(f: Frame, cond_fn: Value, body_fn: Value, carried_inputs: Value) -> Value:
        args, given = carried_inputs.realize().unpack(f), []  # type: ignore[var-annotated]
        at = tuple(structure_of(f, a, given) for a in args)
        bodies = [Body(f, function.realize(), args, unknown=True) for function in (cond_fn, body_fn)]
        return apply_to(f, bodies, given, lambda items, test, body: real(test, body, filled(at, items)))

    return while_loop


def _map(real: Callable) -> Callable:
    def map_(f: Frame, function: Value, xs: Value, *args: Value) -> Value:
        given: list[Given] = []
        at, rest = structure_of(f, xs, given), tuple(structure_of(f, a, given) for a in args)
        body = Body(f, function.realize(), [_inside(f, xs, 0), *args])
        return apply_to(f, [body], given, lambda items, fn: real(fn, filled(at, items), *filled(rest, items)))

    return map_


def _scan(real: Callable) -> Callable:
    def scan(f: Frame, combine_fn: Value, init: Value, xs: Value, **kwargs: Value) -> Value:
        options = {k: v.constant() for k, v in kwargs.items()}
        given: list[Given] = []
        start, at = structure_of(f, init, given), structure_of(f, xs, given)
        body = Body(f, combine_fn.realize(), [init, _inside(f, xs, options.get("dim", 0))])
        return apply_to(
            f, [body], given, lambda items, fn: real(fn, filled(start, items), filled(at, items), **options)
        )

    return scan


def _associative_scan(real: Callable) -> Callable:
    def scan(f: Frame, combine_fn: Value, xs: Value, dim: Value, *args: Value, **kwargs: Value) -> Value:
        options = {"dim": dim.constant()} | dict(zip(("reverse", "combine_mode"), (a.constant() for a in args)))
        options |= {k: v.constant() for k, v in kwargs.items()}
        given: list[Given] = []
        at = structure_of(f, xs, given)
        inner = _inside(f, xs, options["dim"])
        body = Body(f, combine_fn.realize(), [inner, inner])
        return apply_to(f, [body], given, lambda items, fn: real(fn, filled(at, items), **options))

    return scan


_CHECKPOINTS = ("use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state")


def _option(f: Frame, value: Value) -> Any:
    return real_function(f, value) if isinstance(value, FunctionValue | PartialValue) else value.constant()


def _checkpoint(real: Callable) -> Callable:
    def checkpoint(f: Frame, function: Value, *args: Value, **kwargs: Value) -> Value:
        options = {k: _option(f, kwargs.pop(k).realize()) for k in _CHECKPOINTS if k in kwargs}
        given: list[Given] = []
        at = tuple(structure_of(f, a, given) for a in args)
        named = {k: structure_of(f, v, given) for k, v in kwargs.items()}
        body = Body(f, function.realize(), list(args), once=True, kwargs=kwargs)
        return apply_to(
            f, [body], given, lambda items, fn: real(fn, *filled(at, items), **filled(named, items), **options)
        )

    return checkpoint


LATE["tocha.utils.checkpoint", "checkpoint"] = _checkpoint
LATE["tocha._functorch.eager_transforms", "jvp"] = _jvp
LATE["tocha._functorch.eager_transforms", "vjp"] = _at_primals
LATE["tocha._functorch.eager_transforms", "linearize"] = _at_primals
LATE["tocha._higher_order_ops.cond", "cond"] = _cond
LATE["tocha._higher_order_ops.while_loop", "while_loop"] = _while_loop
LATE["tocha._higher_order_ops.map", "map"] = _map
LATE["tocha._higher_order_ops.scan", "scan"] = _scan
LATE["tocha._higher_order_ops.associative_scan", "associative_scan"] = _associative_scan
