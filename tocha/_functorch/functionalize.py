"""Graphs without writes: in-place and out= operators become functional ones, a write to a view becomes a new value of its base,
and views of that base are made again where they are read.

The pass goes through a graph that `make_fx` recorded, in program order. Memory is known from schemas: what a view operator returns
lies on its argument's storage. Nodes that neither write nor read what was written are copied as they are; others are called on the
fakes of their values under a tracer, which adds their nodes.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any

from tocha import _C, _ops
from tocha._functorch.shared_writes import SharedWrite, leaves
from tocha._functorch.views import Step, overlaps, repeats, without_repeats
from tocha._library.custom_twins import custom_twin
from tocha._library.native_calls import default_object
from tocha._library.twins import functional_name, written
from tocha._subclasses import origins
from tocha._subclasses.fake import FakeTensor
from tocha._subclasses.history import NotFunctional, unrecorded
from tocha.fx import Graph, GraphModule, Node
from tocha.fx.experimental.proxy_tensor import (
    ProxyTensor,
    ProxyTorchDispatchMode,
    PythonKeyTracer,
    make_fx,
    track_tensor,
    track_tensor_tree,
)
from tocha.fx.proxy import Proxy
from tocha.ir import layout
from tocha.ir.shape_env import guard_or_false
from tocha.utils import _pytree as pytree

Tensor = _C.Tensor
AS_STRIDED = _ops.ops.aten.as_strided.default
SET_TO_TENSOR = _ops.ops.aten.set_.source_Tensor


class Storage:
    """Memory of the traced program: its value now, and how often it was written to."""

    def __init__(self, base: Tensor, given: Node | None = None):
        self.base, self.version = base, 0
        self.given = given  # the placeholder or attribute whose memory it is
        self.is_viewed = False
        self.is_seen_beyond = False  # there is a view of memory that the base's elements do not fill


class Alias:
    """A tensor of the traced program: a chain of views of a storage, and the functional value that it had when last read.
    `recorded`: the views as the program made them, where the chain is shorter; gradients go through each of them."""

    def __init__(
        self, storage: Storage, chain: tuple[Step, ...], value: Tensor | None, recorded: tuple[Step, ...] | None = None
    ):
        self.storage, self.chain, self.value, self.version = storage, chain, value, storage.version
        self.recorded = chain if recorded is None else recorded


def own_memory(t: Tensor) -> tuple[Tensor, tuple]:
    """Of an input whose elements share memory: a view with each of them once, and how the input is a view of that."""
    first = without_repeats(t)
    if not overlaps(first):
        return first, (Step(_ops.ops.aten.expand.default, (list(t.shape),), {}),)
    span = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
    return AS_STRIDED(t, [span], [1]), (Step(AS_STRIDED, (list(t.shape), list(t.stride())), {}),)


def written_once(base: Tensor, chain: tuple[Step, ...], new: Tensor) -> Tensor:
    """The base after all of a tensor was written to, through views whose elements share memory: going back view by view, elements that
    were not written would win. Where the elements lie is asked of their numbers, which are no addresses: those change from call to call."""
    places = _C.arange(base.numel(), device=base.device).view(base.shape)
    for step in chain:
        places = step.apply(places)
    once, new = without_repeats(places), without_repeats(new, places)
    return _ops.ops.aten.scatter.src(base.reshape(-1), 0, once.reshape(-1), new.reshape(-1)).view(base.shape)


def leaves_elements(handle: Any) -> bool:
    """Whether an operator that writes may leave some elements of its tensor as they are: scatter_, index_add_, masked_fill_."""
    record = getattr(getattr(handle._target, "overload", None), "record", None)
    return record is None or (record.kind == "native" and record.algorithm != "memory")


def is_tangent(n: Node) -> bool:
    """Whether a node stands for the gradient of a result, in a joint graph."""
    return n.op == "placeholder" and str(n.target).startswith("tangents_")


def is_metadata_write(handle: Any) -> bool:
    """Whether an in-place operator changes the geometry of its tensor and no element: t_, squeeze_."""
    o = getattr(getattr(handle._target, "overload", None), "record", None)
    return o is not None and o.kind == "view" and handle._schema.name.endswith("_")


class Functionalizer:
    """Rewrites one graph."""

    def __init__(self, module: GraphModule, keep_input_writes: bool = True):
        self.module, self.keep_input_writes = module, keep_input_writes
        self.tracer = PythonKeyTracer()
        self.tracer.graph, self.tracer.root = Graph(), module
        self.tracer.tensor_attrs = {}
        self.mode = ProxyTorchDispatchMode(self.tracer, "fake")
        self.of: dict[Node, Any] = {}  # by node of the given graph: Alias, a list of such, a number's node
        self.inputs: list[Alias | None] = []
        self.first: dict[Alias, Alias] = {}  # of a tensor whose geometry was changed: what it was at first
        self.moved: dict[Alias, Alias] = {}  # by the latter: what the tensor is now
        self.fake_mode = self._fake_mode()
        self.tracer.fake_mode = self.fake_mode

    def _fake_mode(self) -> Any:
        for n in self.module.graph.nodes:
            for v in pytree.tree_leaves(n.meta.get("val")):
                if isinstance(v, FakeTensor):
                    return v.fake_mode
        return None

    # -- values

    def node_of(self, t: Any) -> Any:
        slot = self.tracer.slots.get(t)
        assert slot is not None, "a value of the graph has a node"
        return slot.proxy.node

    def traced(self, f: Callable, *args: Any, **kwargs: Any) -> Any:
        """Calls f on values: what it calls becomes nodes."""
        with contextlib.ExitStack() as stack:
            if self.fake_mode is not None:
                stack.enter_context(self.fake_mode)
            stack.enter_context(self.mode)
            stack.enter_context(unrecorded())
            return f(*args, **kwargs)

    def read(self, alias: Alias) -> Tensor:
        """The value of a tensor now: made again from the base if that was written to."""
        s = alias.storage
        if alias.value is None or alias.version != s.version:
            value = s.base
            for step in alias.chain:
                value = self.traced(step.apply, value)
            alias.value, alias.version = value, s.version
        return alias.value

    def write(self, alias: Alias, new: Tensor) -> None:
        """The base's value after a tensor on it got a new one; all views of it are stale."""
        s = alias.storage
        if s.is_seen_beyond:
            raise seen_beyond()
        bases: list[Tensor] = []
        for i in range(len(alias.chain)):
            bases.append(self.traced(alias.chain[i - 1].apply, bases[-1]) if bases else s.base)
        value = new
        if alias.chain and any(overlaps(b) for b in (*bases[1:], self.read(alias))):
            value = self.written_through(alias, new)
        else:
            for step, base in zip(reversed(alias.chain), reversed(bases), strict=True):
                value = self.traced(step.undo, base, value)
        if lies_otherwise(value, s.base, with_gaps=s.given is None):
            value = self.traced(_ops.ops.aten.copy.default, s.base, value)
        s.base = value
        s.version += 1
        if not alias.chain:
            alias.value, alias.version = value, s.version

    def written_through(self, alias: Alias, new: Tensor) -> Tensor:
        """The base after a write to all of a tensor on it, where elements of the tensor, or of a view between, share memory."""
        return self.traced(written_once, alias.storage.base, alias.chain, new)

    def written_on_memory(self, alias: Alias, handle: Any) -> bool:
        """Whether the new value of a tensor does not say what becomes of its memory: the elements share it and some of them are left
        alone or read what was written to others, or a view on the way there shares it and is of another type."""
        if not alias.chain:
            return False
        if overlaps(self.read(alias)) and leaves_elements(handle):
            return True
        with contextlib.ExitStack() as stack:
            if self.fake_mode is not None:
                stack.enter_context(self.fake_mode)
            stack.enter_context(unrecorded())
            views = [alias.storage.base]
            for step in alias.chain:
                views.append(step.apply(views[-1]))
        kinds = {(v.dtype, v.is_conj(), v.is_neg()) for v in views}
        return len(kinds) > 1 and any(overlaps(v) for v in views[1:])

    def current(self, value: Any) -> Any:
        """What stands for an argument of a node: values for tensors, numbers as they are."""
        if isinstance(value, Node):
            found = self.of[value]
            if isinstance(found, Alias):
                return self.read(found)
            return [self.read(a) if isinstance(a, Alias) else a for a in found] if isinstance(found, list) else found
        if isinstance(value, list | tuple):
            return type(value)(self.current(v) for v in value)
        if isinstance(value, dict):
            return {k: self.current(v) for k, v in value.items()}
        return value

    def fresh(self, value: Any, given: Node | None = None) -> Any:
        """Values on memory of their own."""
        if isinstance(value, Tensor):
            return Alias(Storage(value, given), (), value)
        if isinstance(value, list | tuple):
            return [self.fresh(v) for v in value]
        return value

    # -- nodes

    def run(self) -> GraphModule:
        return self.finish(self.read_all())

    def read_all(self) -> Node:
        """Goes through all nodes but the output, which it returns."""
        for n in list(self.module.graph.nodes):
            if n.op == "output":
                return n
            with origins.at(n.stack_trace, n.meta.get("custom")):
                self.of[n] = self.node(n)
        raise AssertionError("a graph has an output")

    def node(self, n: Node) -> Any:
        if n.op in ("placeholder", "get_attr"):
            made = self.given(n)
            if n.op == "placeholder":
                self.inputs.append(made if isinstance(made, Alias) else None)
            return made
        if n.target is operator.getitem and isinstance(self.of.get(n.args[0]), list):  # type: ignore[arg-type]
            return self.of[n.args[0]][n.args[1]]  # type: ignore[index]
        if not isinstance(n.target, _ops.OpOverload):
            return self.fresh(self.copied(n))
        schema = n.target._schema
        if is_metadata_write(n.target):
            old, made = self.of[n.args[0]], self.view(n, functional_form(n.target))  # type: ignore[index]
            self.first[made] = first = self.first.get(old, old)
            self.moved[first] = made
            return made
        if n.target is SET_TO_TENSOR and all(isinstance(self.of.get(a), Alias) for a in n.args):  # type: ignore[arg-type]
            return self.set_to(n)
        if written(schema):
            return self.writing(n)
        if schema._is_view_op() and isinstance(n.args[0], Node):
            return self.view(n, n.target)
        return self.fresh(self.called(n))

    def set_to(self, n: Node) -> Alias:
        """A tensor that is put on the memory of another: from then on a view of that."""
        old, source = self.of[n.args[0]], self.of[n.args[1]]  # type: ignore[index]
        source.storage.is_viewed = True
        step = Step(_ops.ops.aten.alias.default, (), {})
        value = self.traced(step.apply, self.read(source))
        made = Alias(source.storage, (*source.chain, step), value, (*source.recorded, step))
        self.first[made] = first = self.first.get(old, old)
        self.moved[first] = made
        return made

    def given(self, n: Node) -> Any:
        """An input or a constant. One whose elements share memory is a view of a storage that has each of them once."""
        value = self.copied(n)
        if not isinstance(value, FakeTensor) or not overlaps(value):
            return self.fresh(value, n)
        base, chain = self.traced(own_memory, value)
        return Alias(Storage(base, n), chain, value, ())

    def called(self, n: Node) -> Any:
        """The results of a node that writes nothing."""
        if "val" in n.meta and all(looks_recorded(i, self.current(i)) for i in n.all_input_nodes):
            return self.copied(n)
        return self.traced(n.target, *self.current(n.args), **self.current(n.kwargs))  # type: ignore[operator]

    def copied(self, n: Node) -> Any:
        """The same node in the new graph; its value is the one that was recorded."""
        node = self.tracer.graph.node_copy(n, lambda i: self.tracer.create_arg(self.current(i)))
        value = n.meta.get("val")
        proxy = Proxy(node, self.tracer)
        if value is None:
            return proxy
        if isinstance(value, Tensor) and is_tangent(
            n
        ):  # sizes are not read off it: what comes before backward has them too
            self.tracer.slots.set(value, ProxyTensor(proxy, None))
        elif isinstance(value, Tensor):
            track_tensor(value, proxy, tracer=self.tracer)
        else:
            track_tensor_tree(value, proxy, tracer=self.tracer)
        return value

    def view(self, n: Node, handle: Any) -> Any:
        """A tensor on its argument's storage, or several."""
        of = self.of[n.args[0]]  # type: ignore[index]
        args, kwargs = self.current(n.args[1:]), self.current(n.kwargs)
        if not isinstance(of, Alias):
            return self.fresh(self.called(n))
        of.storage.is_viewed = True
        if handle is AS_STRIDED:
            return self.by_address(n, of, *args, **kwargs)
        value = self.called(n) if handle is n.target else self.traced(handle, self.read(of), *args, **kwargs)

        def part(v: Tensor, index: int | None = None) -> Alias:
            step = Step(handle, args, kwargs, index, n)
            return Alias(of.storage, (*of.chain, step), v, (*of.recorded, step))

        return [part(v, i) for i, v in enumerate(value)] if isinstance(value, list | tuple) else part(value)

    def by_address(self, n: Node, of: Alias, size: Any, stride: Any, storage_offset: Any = None) -> Alias:
        """A view by an address in the storage, of the tensor's own elements or of others there. Addresses of inputs change from call to
        call: the view is said from where the elements begin that it sees some of."""
        s, value = of.storage, self.read(of)
        moves_input = n.target is not AS_STRIDED and s.given is not None
        given = (size, stride) if storage_offset is None else (size, stride, storage_offset)
        step = Step(AS_STRIDED, given, {})
        recorded = (*of.recorded, step)
        made = None
        if not s.version:
            made = self.called(n) if n.target is AS_STRIDED else self.traced(AS_STRIDED, value, *given)
        offset = value.storage_offset() if storage_offset is None else storage_offset
        if holds(value, size, stride, offset):
            before, whole = of.chain, value
        elif same_kind(s.base, value) and holds(s.base, size, stride, offset):
            before, whole = (), s.base
        else:
            before, whole = (), None
        # An input that as_strided_ moves gets the new value of the elements that it sees then, and no others.
        if whole is None or moves_input:
            s.is_seen_beyond = True
            if made is None:
                raise seen_beyond()
            return Alias(s, (*of.chain, step), made, recorded)
        begins = offset - whole.storage_offset()
        if guard_or_false(begins == 0):
            chain: tuple[Step, ...] = (Step(AS_STRIDED, (size, stride), {}),)
        else:
            chain = (
                Step(AS_STRIDED, ([whole.numel()], [1]), {}),  # in the order of addresses
                Step(_ops.ops.aten.slice.Tensor, (0, begins, begins + span(size, stride)), {}),
                Step(AS_STRIDED, (size, stride), {}),
            )
        alias = Alias(s, (*before, *chain), made, recorded)
        self.read(alias)
        return alias

    def writing(self, n: Node) -> Any:
        """A node that writes: its functional form, whose results are the new values of what is written to."""
        target: Any = n.target
        schema = target._schema
        given = arguments_of(schema, n.args, n.kwargs)
        targets = [given.get(a.name) for a in written(schema)]
        if all(self.is_same(t, given.get("src")) for t in targets):
            return self.of[targets[0]]  # type: ignore[index]
        self.refuse_growing(n, targets)
        if target._namespace == "aten":
            self.refuse_repeated(n, targets)
        shared = SharedWrite(self, n, given)
        if shared.members:
            return self.returned(schema, targets, shared.run())
        form = functional_form(target)
        if form is None:
            raise NotFunctional(f"[functionalize] {target} writes to its arguments, and has no form that does not")
        results = self.results(n, form, given)
        own = [r for r in schema._returns if not r.alias]
        fresh, new = results[: len(own)], results[len(own) :]
        for t, value in zip(targets, new, strict=True):
            for one, v in zip(t, value, strict=True) if isinstance(t, list | tuple) else [(t, value)]:
                if one is not None:
                    self.written(self.of[one], v)
        return self.returned(schema, targets, fresh)

    def returned(self, schema: Any, targets: list[Any], fresh: list[Any]) -> Any:
        """What a node that writes gives: `fresh`, its own results, and tensors that it wrote to."""
        if not schema._returns and len(targets) == 1 and isinstance(targets[0], list | tuple):
            return [self.of[one] for one in targets[0]]  # _foreach_add_ and its like return what they wrote to
        returned: list[Any] = []
        if not schema._returns and isinstance(targets[0], list | tuple):
            return [self.of[t] for t in targets[0]]  # make_fx takes what was written to from the node
        for r in schema._returns:
            place = next((i for i, a in enumerate(written(schema)) if r.alias and a.alias == r.alias), None)
            returned.append(self.fresh(fresh.pop(0)) if place is None else self.of[targets[place]])  # type: ignore[index]
        return returned[0] if len(returned) == 1 else returned

    def is_same(self, target: Any, source: Any) -> bool:
        """Whether a tensor is copied to itself, or to a view that is the same elements in the same order."""
        if not isinstance(target, Node) or not isinstance(source, Node):
            return False
        a, b = self.of[target], self.of[source]
        if a is b:
            return True
        on_one = isinstance(a, Alias) and isinstance(b, Alias) and a.storage is b.storage
        return on_one and same_elements(self.read(a), self.read(b))

    def refuse_growing(self, n: Node, targets: list[Any]) -> None:
        """What gets another size (out=, resize_) lies on memory of its own afterwards, or reaches further on that of others."""
        schema: Any = n.target._schema  # type: ignore[union-attr]
        by_letter = {a.alias: t for a, t in zip(written(schema), targets, strict=True)}
        made = n.meta.get("val")
        for r, v in zip(schema._returns, made if isinstance(made, list | tuple) else [made], strict=False):
            t = by_letter.get(r.alias) if r.alias else None
            alias = self.of.get(t) if isinstance(t, Node) else None
            if not isinstance(alias, Alias) or not isinstance(v, Tensor) or same_sizes(self.read(alias), v):
                continue
            if alias.storage.is_viewed or alias.storage.given is not None:
                raise NotFunctional(
                    f"[functionalize] {n.target} gives another size to a tensor that is not the only one on its memory"
                )

    def refuse_repeated(self, n: Node, targets: list[Any]) -> None:
        """Refuses writes to expanded tensors as eager mode does; operators that may take them say so themselves when they run."""
        nodes = [t for t in leaves(targets) if isinstance(t, Node)]
        if not any(isinstance(self.of[t], Alias) and repeats(self.read(self.of[t])) for t in nodes):
            return
        record = getattr(getattr(n.target._target, "overload", None), "record", None)  # type: ignore[union-attr]
        if record is None or "any_overlap" not in record.tags or record.algorithm == "memory":
            raise RuntimeError(
                f"[{record.name if record is not None else n.target}] unsupported operation: more than one element of the written-to tensor refers to a single memory "
                "location. Please clone() the tensor before performing the operation."
            )

    def results(self, n: Node, form: Any, given: dict[str, Any]) -> list[Any]:
        """What the functional form gives, one value for each result and each thing that is written to."""
        schema = form._schema
        usual = {a.name: default_object(a) for a in n.target._schema._arguments if a.has_default_value()}  # type: ignore[union-attr]
        given = {
            a.name: given[a.name] if a.name in given else usual[a.name]
            for a in schema._arguments
            if a.name in given or (a.name in usual and not a.has_default_value())
        }
        names = [a for a in schema._arguments if a.name in given]
        values = {a.name: self.current(given[a.name]) for a in names}
        out = next((a.name for a in n.target._schema._arguments if a.is_out), None)  # type: ignore[union-attr]
        if out is not None:
            like = n.meta.get("val")
            for a in schema._arguments:  # of factories, which take the dtype of out=
                if a.name in ("dtype", "device") and a.name not in given and isinstance(like, Tensor) and a.kwarg_only:
                    values[a.name] = getattr(like, a.name)
                    names.append(a)
        found = self.traced(
            filled_in_place if form is _ops.ops.aten.bernoulli.p else form,
            *(values[a.name] for a in names if not a.kwarg_only),
            **{a.name: values[a.name] for a in names if a.kwarg_only},
        )
        if isinstance(found, tuple) or len(schema._returns) != 1:
            return list(found)
        if out is not None and isinstance(like, Tensor) and not same_sizes(found, like):  # out= keeps its own sizes
            found = self.traced(_ops.ops.aten.view.default, found, like.shape)
        return [found]

    def written(self, alias: Alias, new: Tensor) -> None:
        """A tensor has a new value, in its own dtype and shape unless out= gave it another shape."""
        old = self.read(alias)

        def fitted() -> Tensor:
            value = new
            if value.dtype != old.dtype:
                value = value.to(old.dtype)
            if not same_sizes(value, old) and value.numel() != old.numel() and alias.chain:
                value = value.expand(old.shape)
            return value

        self.write(alias, self.traced(fitted))

    # -- the end

    def finish(self, n: Node) -> GraphModule:
        outputs = self.current(n.args[0])
        if self.keep_input_writes:
            for alias in self.inputs:
                if alias is not None and alias.storage.version:
                    first = self.placeholder_value(alias)
                    first = self.traced(lambda t: own_memory(t)[0], first) if overlaps(first) else first
                    self.tracer.graph.call_function(
                        _ops.ops.aten.copy_.default, (self.node_of(first), self.node_of(alias.storage.base))
                    )
            self.move_inputs()
        made = self.tracer.create_arg(outputs)
        self.tracer.graph.output(made)
        return GraphModule(self.module, self.tracer.graph, type(self.module).__name__)

    def move_inputs(self) -> None:
        """Inputs whose geometry the program changed get it at the end."""
        for first, alias in self.moved.items():
            if first in self.inputs:
                value = self.read(alias)
                if alias.storage is not first.storage:
                    self.move_to(first, alias)
                    continue
                given = (value.shape, value.stride(), value.storage_offset())
                node = self.node_of(self.placeholder_value(first))
                shown = self.tracer.create_arg(tuple(list(g) if isinstance(g, tuple) else g for g in given))
                self.tracer.graph.call_function(_ops.ops.aten.as_strided_.default, (node, *shown))  # type: ignore[misc]

    def move_to(self, first: Alias, alias: Alias) -> None:
        """An input that the program put on other memory is put there: on that of another input, or on new memory."""
        value = self.read(alias)
        if alias.storage.given is not None:
            value = self.placeholder_value(alias)
            for step in alias.chain:
                value = self.traced(step.apply, value)
        node = self.node_of(self.placeholder_value(first))
        self.tracer.graph.call_function(SET_TO_TENSOR, (node, self.node_of(value)))

    def placeholder_value(self, alias: Alias) -> Tensor:
        assert alias.storage.given is not None
        return alias.storage.given.meta["val"]


def seen_beyond() -> NotFunctional:
    return NotFunctional(
        "[functionalize] as_strided sees memory between the elements of a tensor, or beyond them, and the program writes to that tensor"
    )


def span(size: Any, stride: Any) -> Any:
    """How many elements of memory a view reaches over."""
    return 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))


def holds(t: Tensor, size: Any, stride: Any, offset: Any) -> bool:
    """Whether a view by an address is known to see elements of a tensor and nothing else."""
    if not layout.is_dense(t.shape, t.stride()):
        return False
    begins = offset - t.storage_offset()
    return guard_or_false(begins >= 0) and guard_or_false(begins + span(size, stride) <= t.numel())


def same_kind(a: Tensor, b: Tensor) -> bool:
    """Whether two views of one memory read it alike."""
    return a.dtype == b.dtype and a.is_conj() == b.is_conj() and a.is_neg() == b.is_neg()


def root_of(n: Node) -> Node:
    """The node that made the memory on which a value lies, as schemas say it."""
    while n.op == "call_function":
        of: Any = n.args[0] if n.target is operator.getitem else n
        if not isinstance(of, Node) or not isinstance(of.target, _ops.OpOverload):
            return n
        if of.target is SET_TO_TENSOR and isinstance(of.args[1], Node):
            n = of.args[1]
            continue
        schema = of.target._schema
        place = n.args[1] if of is not n and len(schema._returns) > 1 else 0
        letters = schema._returns[place].alias if schema._returns else ""  # type: ignore[index]
        given = arguments_of(schema, of.args, of.kwargs)
        source = next((given.get(a.name) for a in schema._arguments if letters and a.alias[:1] == letters[:1]), None)
        if of is not n and not schema._returns:  # of a list that it writes to: _foreach_add_
            source = next((given.get(a.name) for a in written(schema)), None)
        if isinstance(source, list | tuple):
            source = source[n.args[1]] if of is not n else None  # type: ignore[index]
        if not isinstance(source, Node):
            return n
        n = source
    return n


def writes_any(graph: Graph) -> bool:
    """Whether a node of the graph writes to a tensor or changes one's geometry: else it is in functional form already."""
    return any(
        n.op == "call_function" and isinstance(n.target, _ops.OpOverload) and written(n.target._schema)
        for n in graph.nodes
    )


def targets_of_writes(graph: Graph) -> Iterator[Node]:
    """The tensors that nodes of the graph write elements to."""
    for n in graph.nodes:
        if n.op == "call_function" and isinstance(n.target, _ops.OpOverload) and not is_metadata_write(n.target):
            given = arguments_of(n.target._schema, n.args, n.kwargs)
            for a in written(n.target._schema):
                yield from (t for t in leaves(given.get(a.name)) if isinstance(t, Node))


def same_sizes(a: Tensor, b: Tensor) -> bool:
    return len(a.shape) == len(b.shape) and all(bool(x == y) for x, y in zip(a.shape, b.shape, strict=True))


def same_elements(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors on one storage are the same elements in the same order, but for dims of one element in front."""
    if not isinstance(a, FakeTensor) or not isinstance(b, FakeTensor):
        return False
    f, g = a._facts, b._facts
    seen = [(x.dtype, x.conjugated, x.negated, *map(str, (x.offset, *leading_ones_off(x)))) for x in (f, g)]
    return seen[0] == seen[1]


def leading_ones_off(f: Any) -> list[tuple[Any, Any]]:
    dims = list(zip(f.sizes, f.steps, strict=True))
    while dims and type(dims[0][0]) is int and dims[0][0] == 1:
        del dims[0]
    return dims


def filled_in_place(target: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """bernoulli.p as bernoulli_ draws: elements are filled in the order of their addresses, not of a tensor of its own."""
    order = sorted(range(target.ndim), key=target.stride().__getitem__, reverse=True)
    if order == list(range(target.ndim)):
        return _ops.ops.aten.bernoulli.p(target, p, generator=generator)
    drawn = _ops.ops.aten.bernoulli.p(target.permute(order), p, generator=generator)
    return drawn.permute([order.index(d) for d in range(target.ndim)])


def lies_otherwise(value: Tensor, old: Tensor, with_gaps: bool) -> bool:
    """Whether the dims of a new value lie in another order than those of the tensor that it is written to: results of what reads it
    are laid out by that. `with_gaps`: or do without its gaps, which the caller would see (an input is still there with its own)."""
    if not isinstance(value, FakeTensor) or not isinstance(old, FakeTensor) or len(value.shape) != len(old.shape):
        return False
    a, b = value._facts, old._facts
    steps = b.steps if with_gaps and layout.has_gaps(b.sizes, b.steps) else layout.like_strides(b.sizes, b.steps)
    return tuple(map(str, a.sizes)) == tuple(map(str, b.sizes)) and tuple(map(str, a.steps)) != tuple(map(str, steps))


def looks_recorded(n: Node, value: Any) -> bool:
    """Whether a value has the geometry and dtype of the one that was recorded for a node."""
    recorded = n.meta.get("val")
    if not isinstance(recorded, Tensor) or value is recorded:
        return True
    if isinstance(value, FakeTensor) and isinstance(recorded, FakeTensor):
        a, b = value._facts, recorded._facts
        return a.dtype is b.dtype and tuple(map(str, (*a.sizes, *a.steps, a.offset))) == tuple(
            map(str, (*b.sizes, *b.steps, b.offset))
        )
    return False


def arguments_of(schema: Any, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """A call's arguments by name."""
    places = [a.name for a in schema._arguments if not a.kwarg_only]
    return {**dict(zip(places, args, strict=False)), **kwargs}


def functional_form(handle: Any) -> Any:
    """The operator that gives what another one writes; None where there is none."""
    s = handle._schema
    if handle._namespace != "aten":
        return custom_twin(handle)
    found = functional_name(s.name.removeprefix("aten::"), s.overload_name)
    if found is None:
        return None
    return getattr(getattr(_ops.ops.aten, found[0]), found[1] or "default")


def functionalize_graph(module: GraphModule, keep_input_writes: bool = True) -> GraphModule:
    """The graph without writes, but for those to its inputs, which come last."""
    return Functionalizer(module, keep_input_writes).run()


def functionalize(func: Callable, *, remove: str = "mutations") -> Callable:
    """func without writes to tensors that it made: `make_fx(functionalize(f))` is a graph without them.

    Writes to arguments are done at the end, as func does them.

    >>> def f(x):
    ...     y = x.clone()
    ...     y.add_(1)
    ...     return y
    >>> tocha.func.functionalize(f)(tocha.tensor([1.0]))
    tensor([2.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for kwarg 'remove': {remove}. "
            "Valid options are:\n     remove='mutations': all inplace and out= operators will be removed from the program, and "
            "replaced with their out-of-place equivalents.\n     remove='mutations_and_views': In addition to the above, all view "
            "operators {view} will be replaced with their non-aliasing counterparts, {view}_copy."
        )

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        flat, spec = pytree.tree_flatten((args, kwargs))
        places = [i for i, x in enumerate(flat) if isinstance(x, Tensor)]
        out_spec: Any = None

        def of_tensors(*tensors: Tensor) -> Any:
            nonlocal out_spec
            leaves = list(flat)
            for i, t in zip(places, tensors, strict=True):
                leaves[i] = t
            a, k = pytree.tree_unflatten(leaves, spec)
            results, out_spec = pytree.tree_flatten(func(*a, **k))
            return results

        from tocha.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

        with disable_proxy_modes_tracing():
            traced = make_fx(of_tensors, tracing_mode="fake", _allow_non_fake_inputs=True)(*(flat[i] for i in places))
            try:
                module = functionalize_graph(traced)
            except NotFunctional:
                return func(*args, **kwargs)
            if remove == "mutations_and_views":
                copy_views(module)
        return pytree.tree_unflatten(list(module(*(flat[i] for i in places))), out_spec)

    return wrapped


def copy_views(module: GraphModule) -> None:
    """Views become copies: aten.view_copy for aten.view."""
    aten = _ops.ops.aten
    for n in module.graph.nodes:
        if isinstance(n.target, _ops.OpOverload) and n.target._schema._is_view_op():
            packet = getattr(aten, f"{n.target._opname}_copy", None)
            if packet is not None:
                n.target = getattr(packet, n.target._overloadname)
    module.recompile()
