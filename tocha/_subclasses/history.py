"""Fake tensors in the graph of operations: nodes whose backward is the record's gradient, interpreted on fakes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

from tocha import _C
from tocha._library import dispatch
from tocha._subclasses import data_sizes, origins
from tocha.ir.shape_env import may_overlap
from tocha.operators.derived import refusal, unknown_node
from tocha.operators.differentiate import Call, gradients
from tocha.operators.facts import Facts
from tocha.operators.interpreter import formula_of
from tocha.operators.reads import kept
from tocha.operators.record import OPERATORS, Operator
from tocha.utils._python_dispatch import is_traceable_wrapper_subclass


class unrecorded:
    """Operators called here have no history."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = _C.is_grad_enabled()
        _C._set_grad_enabled(False)

    def __exit__(self, *_: object) -> None:
        _C._set_grad_enabled(self.before)


def refuse_out(o: Operator, given: list[Any]) -> None:
    if _C.is_grad_enabled() and any(t.requires_grad for t in given):
        raise RuntimeError(
            f"[{o.name}] {o.name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )


@cache
def known_inputs(o: Operator) -> tuple[str, ...]:
    """The inputs for which the record knows a gradient."""
    if o.kind == "pointwise":
        return tuple(formula_of(o).operands)
    if o.gradients:
        return tuple(n for names in o.gradients for n in names)
    if o.kind == "view":
        return (o.schema.arguments[0].name,)
    return tuple(a.name for a in o.schema.arguments if a.is_tensor or a.type == "Tensor[]")


def node_name(o: Operator, arguments: dict[str, Any], inplace: bool) -> str:
    """PyTorch's name of the node."""
    if unknown_node(o):
        return "NotImplemented"
    if inplace and o.inplace_node:
        return o.inplace_node
    if callable(o.node):
        names = o.node.__code__.co_varnames[: o.node.__code__.co_argcount]
        return o.node(*(arguments[n] for n in names))
    if o.node:
        usual, *others = o.node.split("|")
        for other in others:
            argument, _, name = other.partition("=")
            if name and getattr(arguments[argument], "number", None) is not None:
                return name
            if not name and arguments.get("dim") not in (None, []):
                return other
        return usual
    name = o.name.removeprefix("nn_").strip("_")
    parts = [p.title() if any(map(str.isdigit, p)) else p[:1].upper() + p[1:] for p in name.split("_")]
    return "".join(parts) + "Backward0"


class FakeNode(_C._FunctionBase):
    """What remembers a call and gives its gradients."""

    materialize_grads = False
    backward: Callable[..., tuple]  # of the node and the gradients of its results

    def name(self) -> str:
        return type(self).__name__

    def apply(self, *grads: Any) -> tuple:
        return self.backward(self, *grads)


@cache
def node_class(name: str) -> type[FakeNode]:
    return type(name, (FakeNode,), {})


class Backward:
    """The gradients of one call, for the inputs that want some."""

    def __init__(self, reader: Any, call: Call, inputs: list[tuple[str, int | None]]):
        self.mode, self.call, self.inputs = reader.mode, call, inputs
        self.origin = origins.CURRENT.text, origins.CURRENT.notes
        names = kept(call.operator, [n for n, _ in inputs], call.arguments)
        for f in facts_in([self.value(n) for n in names if n not in call.arguments]):
            reader.tensor_of(f, [])  # also of a result that has no history
        known = [f for v in (*call.arguments.values(), *call.results) for f in facts_in(v)]
        self.tensors = {id(f): t for f in known if (t := reader.tensors.get(id(f))) is not None}
        self.geometry = [(f, f.sizes, f.steps, f.offset) for f in known]
        # What is read for its elements must not be written to before backward, and goes through saved_tensors_hooks.
        self.kept = [id(f) for n in names for f in facts_in(self.value(n)) if id(f) in self.tensors]

    def value(self, name: str) -> Any:
        """An argument, or a result by its place ("result1")."""
        given = self.call.arguments
        return given[name] if name in given else self.call.results[int(name.removeprefix("result") or 0)]

    def to_save(self) -> tuple:
        return tuple(self.tensors[i] for i in self.kept)

    def reader(self, node: FakeNode) -> Any:
        made = self.mode.recorder([])
        made.tensors.update(self.tensors)
        made.tensors.update(zip(self.kept, node.saved_tensors, strict=True))
        made.quiet = not _C.is_grad_enabled()
        return made

    def __call__(self, node: FakeNode, *grads: Any) -> tuple:
        with origins.at(*self.origin):
            return self.of(node, grads)

    def of(self, node: FakeNode, grads: tuple) -> tuple:
        reader = self.reader(node)
        o = self.call.operator
        if not (o.gradients or o.kind in ("pointwise", "view")):
            error, text, _ = refusal(o)
            raise error(text)
        shown: list[Any] = []
        given = []
        one_by_one = asks_one_by_one(o)
        for g, r in zip(grads, self.call.results, strict=True):
            if g is None:
                shown.append(None if one_by_one else self.zeros(reader, r))
            elif is_traceable_wrapper_subclass(g):
                shown.append(reader.adopt_wrapper(g))
            else:
                given.append(self.mode.fake_of(g))
                reader.tensors[id(given[-1]._facts)] = given[-1]
                shown.append(given[-1]._facts)
                data_sizes.of_the_same_sizes(self.mode.shape_env, shown[-1], r)
        wanted = list(dict.fromkeys(n for n, _ in self.inputs))
        compute = partial(gradients, reader, self.call_as_it_was(reader), shown, wanted)
        found = data_sizes.in_general_position(self.mode.shape_env, compute)
        out = []
        for name, at in self.inputs:
            g = found[name]
            g = g if at is None or g is None else g[at]
            out.append(None if g is None else reader.tensor_of(g, given))
            if name in o.flat and out[-1] is not None and _C.is_grad_enabled():
                hang(node, out[-1], self.tensors[id(self.call.arguments[name])])
        return tuple(out)

    def call_as_it_was(self, reader: Any) -> Call:
        """The call, with views in place of tensors whose own geometry was changed since (t_, unsqueeze_)."""
        moved = {id(f): geometry for f, *geometry in self.geometry if f.sizes is not geometry[0]}
        if not moved:
            return self.call

        def as_it_was(v: Any) -> Any:
            if isinstance(v, list | tuple):
                return type(v)(as_it_was(x) for x in v)
            return reader.apply("as_strided", (v, *moved[id(v)]), {}) if id(v) in moved else v

        with reader:
            given = {n: as_it_was(v) for n, v in self.call.arguments.items()}
            return Call(self.call.operator, given, as_it_was(list(self.call.results)))

    def zeros(self, reader: Any, result: Any) -> Any:
        floating = isinstance(result, Facts) and result.dtype.is_differentiable
        if not floating:
            return None
        with reader:
            return reader.apply("zeros_like", (result,), {})


@cache
def asks_one_by_one(o: Operator) -> bool:
    """Whether an operator's gradients ask for those of its results by number, and look whether each came: as in native autograd, what
    did not come is no zeros then, which would be computed with."""
    rules = [*o.gradients.values(), *o.seen_gradients.values()]
    names = {p for f in rules for p in f.__code__.co_varnames[: f.__code__.co_argcount]}
    numbered = any(p.startswith("grad") and p[4:].isdigit() for p in names)
    return numbered and not names & {"grad", "grads"}


def hang(operation: FakeNode, g: Any, x: Any) -> None:
    """Makes a gradient, which does not change with x, a function of x all the same."""
    node = node_class(operation.name().rpartition("Backward")[0] + "BackwardBackward0")()
    inputs = tuple(t for t in (g, x) if t.requires_grad)
    node.backward = lambda _, grad: (grad, _C.zeros_like(grad))[-len(inputs) :]
    node.to_save = ()
    _C._record_node(node, inputs, (g,), False)


def label(reader: Any, o: Operator, arguments: dict[str, Any], inplace: bool, result: Any) -> None:
    """The node of a composite's result goes by the composite's own name."""
    given = {id(f) for v in arguments.values() for f in facts_in(v)}
    for f in facts_in(result):
        t = reader.tensors.get(id(f))
        node = t.grad_fn if t is not None and id(f) not in given else None
        if isinstance(node, FakeNode):
            node.__class__ = node_class(node_name(o, arguments, inplace))


def facts_in(v: Any) -> Iterator[Facts]:
    if isinstance(v, Facts):
        yield v
    elif isinstance(v, list | tuple):
        for x in v:
            yield from facts_in(x)


def wanting_inputs(reader: Any, o: Operator, arguments: dict[str, Any]) -> list[tuple[str, int | None, Any]]:
    """(argument, place in a list, tensor) of what a gradient flows to."""
    found: list[tuple[str, int | None, Any]] = []
    for n in known_inputs(o):
        v = arguments[n]
        if isinstance(v, list):
            found += [(n, i, t) for i, x in enumerate(v) if (t := reader.wanting(x)) is not None]
        elif (t := reader.wanting(v)) is not None:
            found.append((n, None, t))
    return found


def refuse_constants(reader: Any, o: Operator, arguments: dict[str, Any]) -> None:
    for n in o.constants if reader.recording() else ():
        if reader.wanting(arguments.get(n)) is not None:
            raise RuntimeError(
                f"[{o.name}] The function '{o.name}' is not differentiable with respect to argument '{n}'. This input cannot have "
                "requires_grad True."
            )


@cache
def is_differentiable(o: Operator) -> bool:
    """Whether results have a history; a kernel whose gradient nobody knows says so when it is asked for."""
    if "no_gradient" in o.tags:
        return False
    if o.gradients or o.kind in ("pointwise", "view"):
        return True
    returns = {r.type for r in o.schema.returns}
    return "factory" not in o.tags and bool(returns) and returns <= {"Tensor", "Tensor[]"}


def flat_results(result: Any) -> list[Any]:
    """The results of a call, those of lists among them each for itself."""
    if not isinstance(result, list | tuple):
        return [result]
    return [r for part in result for r in (part if isinstance(part, list) else [part])]


def recorded(reader: Any, o: Operator, arguments: dict[str, Any], inplace: bool) -> Any:
    """Runs an operator on facts and puts a node on the tensors that come out."""
    writes = inplace or o.name.endswith("_")
    target = next(iter(arguments.values()), None) if writes else None
    if isinstance(target, Facts) and (written := reader.tensors.get(id(target))) is not None and o.kind != "view":
        _C._check_writable(written, o.name)
    refuse_constants(reader, o, arguments)
    records = is_differentiable(o) and not _C.is_inference_mode_enabled()
    inputs = wanting_inputs(reader, o, arguments) if records else []
    before = dict(arguments)
    if writes and inputs and isinstance(target, Facts):
        before[next(iter(arguments))] = value_before(reader, target)
    result = reader.silently(o, arguments, inplace)
    if isinstance(target, Facts) and (written := reader.tensors.get(id(target))) is not None:
        if o.kind == "view" and inputs:
            moved(reader, o, before, inputs, written)
            return result
        count_write(written)  # now: what is kept of it is of this version
    if not inputs or any(result is v for v in arguments.values() if not writes):
        return result
    results = flat_results(result)
    slots = [(n, i) for n, i, _ in inputs]
    node = node_class(node_name(o, arguments, inplace))()
    if writes and isinstance(target, Facts):
        node.backward = Backward(reader, Call(o, before, [target]), slots)
        node.to_save = node.backward.to_save()
        written = reader.tensor_of(target, [])
        record_write(reader, node, [t for *_, t in inputs], written, slots[0][0] == next(iter(arguments)))
        return result
    given = [t for *_, t in inputs]
    chosen = []
    for i, r in enumerate(results):
        flows = isinstance(r, Facts) and r.dtype.is_differentiable
        flows = flows and (o.differentiable is None or i in o.differentiable)
        chosen.append(reader.tensor_of(r, given) if flows else None)
    if not any(t is not None for t in chosen):
        return result
    node.backward = Backward(reader, Call(o, before, results), slots)
    node.to_save = node.backward.to_save()
    _C._record_node(node, tuple(given), tuple(chosen), isinstance(result, list))
    return result


def moved(reader: Any, o: Operator, before: dict[str, Any], inputs: Sequence[tuple], t: Any) -> None:
    """Records that a tensor's own geometry changes, and no element. The history of a view is that of its base, seen as the view lies
    by then: it is made when somebody asks for it."""
    if t._base is None or not t._base.requires_grad:
        node = node_class(node_name(o, before, True))()
        node.backward = Backward(reader, Call(o, before, [t._facts]), [(n, i) for n, i, _ in inputs])
        node.to_save = node.backward.to_save()
        _C._record_node(node, tuple(given for *_, given in inputs), (t,), False)
    count_write(t)


def count_write(t: Any) -> None:
    """The tensor's version counts a write to its memory, if it does not yet."""
    memory = t._facts.memory
    if memory.version > memory.counted:
        memory.counted = memory.version
        if not t.is_inference():
            t._bump_version()


def value_before(reader: Any, target: Facts) -> Facts:
    """What stands for a tensor's elements before a write: somebody who writes operators down needs a copy of them."""
    if not dispatch.modes.stack or _C._dispatch_disabled():
        return snapshot(target)
    with reader, unrecorded():
        return reader.apply("clone", (target,), {})


def snapshot(f: Facts) -> Facts:
    """The facts of a tensor before it is written to; no tensor has them: its history is the node's own edge."""
    made = Facts(f.sizes, f.dtype, f.device, f.steps, f.offset, None, f.conjugated, f.negated)
    made.is_plain, made._contiguous = f.is_plain, f._contiguous
    return made


def record_write(reader: Any, node: FakeNode, inputs: list[Any], target: Any, first: bool) -> None:
    """The target's history after a write; for a view, its base's is that of the written part and of the rest."""
    base = target._base
    if base is None:
        _C._record_write(node, tuple(inputs), target)
        return
    slices = node_class("CopySlices")()
    others = inputs[1:] if first else inputs
    slices.to_save = node.to_save
    slices.backward = Slices(reader.mode, node.backward, base._facts, target._facts, first)
    _C._record_write(slices, (base, *others), base)
    record_as_part(target)


def record_as_part(view: Any) -> None:
    """The history of a view is that of its base, of which it is a part."""
    node = node_class("AsStridedBackward0")()
    node.backward = Part(view.fake_mode, view._base._facts, view._facts)
    _C._record_node(node, (view._base,), (view,), False)


class NotFunctional(RuntimeError):
    """What a program does to memory has no form without writes. Its graph runs as it was captured."""


class Part:
    """The gradient of a base from that of a view of it: zeros but for the view."""

    def __init__(self, mode: Any, base: Facts, view: Facts):
        self.mode, self.base, self.view = mode, snapshot(base), snapshot(view)

    def part_of(self, reader: Any, whole: Facts) -> Facts:
        """The view of these values, which lie as the base does and are neither conjugated nor negated."""
        b, v = self.base, self.view
        conjugated, negated = b.conjugated != v.conjugated, b.negated != v.negated
        sizes, steps, offset = list(v.sizes), list(v.steps), v.offset - b.offset
        if b.dtype.is_complex and not v.dtype.is_complex:
            whole, offset = reader.apply("view_as_real", (whole,), {}), v.offset - 2 * b.offset
            conjugated, negated = False, negated != (b.conjugated and offset % 2 == 1)
        if v.dtype.is_complex and not b.dtype.is_complex:
            pairs = ([*sizes, 2], [*(2 * n for n in steps), 1], 2 * v.offset - b.offset)
            part = reader.apply("view_as_complex", (reader.apply("as_strided", (whole, *pairs), {}),), {})
        else:
            part = reader.apply("as_strided", (whole, sizes, steps, offset), {})
        for changed, operator in ((conjugated, "conj"), (negated, "_neg_view")):
            part = reader.apply(operator, (part,), {}) if changed else part
        return part

    def __call__(self, node: FakeNode, grad: Any) -> tuple:
        reader = self.mode.recorder([self.mode.fake_of(grad)])
        reader.quiet = not _C.is_grad_enabled()
        b = self.base
        with reader:
            whole = reader.apply(
                "empty_strided", (list(b.sizes), list(b.steps)), {"dtype": b.dtype, "device": b.device}
            )
            reader.apply("zero_", (whole,), {})
            part = self.part_of(reader, whole)
            if may_overlap(part.sizes, part.steps):
                if part.dtype is not b.dtype or part.conjugated or part.negated:
                    raise NotFunctional(
                        "[autograd] windows that overlap, of another type than what they are windows of"
                    )
                given = {
                    "self": whole,
                    "size": list(part.sizes),
                    "stride": list(part.steps),
                    "storage_offset": part.offset,
                }
                whole = gradients(reader, Call(OPERATORS["as_strided"], given, [part]), [grad._facts], ["self"])["self"]
            else:
                reader.apply("copy_", (part, grad._facts), {})
        return (reader.tensor_of(whole, []),)


class Slices(Part):
    """The gradient of a base of which a part was written: through the operation for that part, as it is for the rest."""

    def __init__(self, mode: Any, through: Any, base: Facts, view: Facts, first: bool):
        super().__init__(mode, base, view)
        self.through, self.first = through, first

    def __call__(self, node: FakeNode, grad: Any) -> tuple:
        reader = self.mode.recorder([self.mode.fake_of(grad)])
        reader.quiet = not _C.is_grad_enabled()
        b = self.base
        with reader:
            whole = reader.apply(
                "empty_strided", (list(b.sizes), list(b.steps)), {"dtype": b.dtype, "device": b.device}
            )
            reader.apply("copy_", (whole, grad._facts), {})
            part = self.part_of(reader, whole)
            arrived = reader.apply("clone", (part,), {})
            passed = self.through(node, reader.tensor_of(arrived, []))
            inner, others = (passed[0], passed[1:]) if self.first else (None, passed)
            if inner is None:
                reader.apply("zero_", (part,), {})
            else:
                reader.tensors[id(inner._facts)] = inner
                reader.apply("copy_", (part, inner._facts), {})
        return (reader.tensor_of(whole, []), *others)
