"""A function and its gradients as one graph without writes: what ahead-of-time differentiation partitions and compiles.

The function runs once on fakes, under the mode that records operators; then the engine runs backwards through what it did, from
placeholders for the gradients of its results. The functional pass removes writes from all of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tocha import _C, _ops, autograd
from tocha._functorch.checks import add_checks
from tocha._functorch.functionalize import (
    Alias,
    Functionalizer,
    NotFunctional,
    root_of,
    targets_of_writes,
    writes_any,
)
from tocha._functorch.partitioners import WRITABLE
from tocha._functorch.synthetic_bases import (
    OnBases,
    Place,
    base_or_self,
    groups_of,
    interleaved,
    memory_key,
    moved_from,
    overlap,
)
from tocha._functorch.views import Step, overlaps, repeats
from tocha._functorch.wrappers import Wrappers, WrapperViews, around, flat, flat_all, is_wrapper, paths
from tocha._functorch.wrapping import CONSTANT, INPUT, PART, RAW, VIEW_OF_INPUT, VIEW_OF_RAW, Mutation, Output, Refusal
from tocha._subclasses.fake import FakeTensor, new, outside, version_of
from tocha._subclasses.fake_tensor import FakeTensorMode
from tocha._subclasses.history import node_class
from tocha.fx import Graph, GraphModule, Node
from tocha.fx._lazy_graph_module import _LazyGraphModule
from tocha.fx.experimental.proxy_tensor import (
    ProxyTorchDispatchMode,
    PythonKeyTracer,
    decompose,
    disable_autocast_cache,
    disable_proxy_modes_tracing,
    snapshot_fake,
    track_tensor_tree,
)
from tocha.ir.layout import dense_order
from tocha.ir.shape_env import ShapeEnv
from tocha.ir.sym_types import Symbolic, SymInt
from tocha.ir.symbolic import Atom, atom_of, free_symbols, of_atom
from tocha.nn import Module
from tocha.operators.facts import Facts
from tocha.utils import _pytree as pytree

Tensor = _C.Tensor
AS_STRIDED = _ops.ops.aten.as_strided.default
DETACH = _ops.ops.aten.detach.default


@dataclass
class Traced:
    """A function as a graph, with what has to be done around it."""

    module: GraphModule
    num_inputs: int
    num_raw: int  # results of the graph that are no gradients
    outputs: list[Output]
    mutations: list[Mutation]
    differentiable: list[int] = field(
        default_factory=list
    )  # raw results that have gradients, in the order of the tangents
    tangents: list[Any] = field(default_factory=list)  # fakes
    fakes: list[Any] = field(default_factory=list)
    wrappers: Wrappers | None = None  # which arguments and results are made of several of the graph's
    on_bases: OnBases | None = None  # where inputs share memory: what the graph takes in their place
    sources: list[list[int]] = field(default_factory=list)  # per input: the tangents that reach it
    refusals: list[Refusal] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)  # of inputs on whose place in their storage the graph depends
    same: list[tuple[int, int]] = field(default_factory=list)  # inputs that are one tensor, and written to
    apart: list[tuple[int, int]] = field(
        default_factory=list
    )  # inputs that interleave in memory and must not meet there

    def fits(self, args: Sequence[Any]) -> bool:
        """Whether arguments lie in their memory as the graph has it."""
        same = all(args[i].storage_offset() == n for i, n in self.offsets.items())
        same = same and not any(
            memory_key(args[i]) == memory_key(args[j]) and overlap(args[i], args[j]) for i, j in self.apart
        )
        same = same and all(args[i] is args[j] for i, j in self.same)
        return same and (self.on_bases is None or self.on_bases.fits(args))

    @property
    def is_placed(self) -> bool:
        return bool(self.offsets or self.apart or self.same) or self.on_bases is not None

    @property
    def is_joint(self) -> bool:
        return bool(self.differentiable)


def fakes_of(args: Sequence[Any], dynamic: bool) -> tuple[Any, list[Any]]:
    """Fakes of the tensors among the arguments, in one mode."""
    mode = next((a.fake_mode for a in flat_all(args) if isinstance(a, FakeTensor)), None)
    if mode is None:
        mode = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=not dynamic, allow_non_fake_inputs=True)
    made: dict[int, Any] = {}  # an argument that is given twice is one tensor

    def fake_of(a: Any) -> Any:
        if id(a) not in made:
            if is_wrapper(a):
                made[id(a)] = around(a, fake_of).requires_grad_(a.requires_grad)
            else:
                made[id(a)] = without_history(a if isinstance(a, FakeTensor) else mode.from_tensor(a))
        return made[id(a)]

    for a in args:
        if dynamic and is_wrapper(a) and not mode.static_shapes:
            raise NotImplementedError(
                f"[aot_autograd] symbolic sizes of tensor subclasses are not supported: got {type(a).__name__} with dynamic=True"
            )
        if isinstance(a, Tensor):
            fake_of(a)
    return mode, [made[id(a)] if isinstance(a, Tensor) else a for a in args]


def without_history(fake: Any) -> Any:
    """A leaf on the fake's memory: a gradient of one input is not one of another of which it is a view."""
    if not isinstance(fake, FakeTensor) or fake._base is None:
        return fake
    with outside():
        return snapshot_fake(fake).requires_grad_(fake.requires_grad)


def passed_on(leaf: Any, base: Any = None) -> Any:
    """A tensor on a leaf's memory with a history, as the argument it stands for has: it may be written to. A view, if of any."""
    if is_wrapper(leaf):
        made = around(leaf, lambda inner: inner)
    else:
        f = leaf._facts
        same = Facts(f.sizes, f.dtype, f.device, f.steps, f.offset, f.memory, f.conjugated, f.negated)
        same.is_plain, same._contiguous = f.is_plain, f._contiguous
        made = new(leaf.fake_mode, same, base)
    node = node_class("PassedOn")()
    node.backward = lambda node, grad: (grad,)
    _C._record_node(node, (leaf,), (made,), False)
    return made


@cache
def functional_forms() -> dict[Any, Callable]:
    """Operators that write to arguments without saying so, as calls of others that do not."""
    aten = _ops.ops.aten

    def batch_norm(
        x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
    ) -> Any:
        if not training or mean is None or var is None:
            return NotImplemented
        functional = aten._native_batch_norm_legit_functional.default
        *found, new_mean, new_var = functional(x, weight, bias, mean, var, training, momentum, eps)
        mean.data.copy_(new_mean)  # through .data: as in eager mode its version stays
        var.data.copy_(new_var)
        return tuple(found)

    whole = {
        h: h.decompose
        for h in (aten.batch_norm.default, aten._batch_norm_impl_index.default, aten.instance_norm.default)
    }
    return {aten.native_batch_norm.default: batch_norm, **whole}


class Tracing:
    """One run of a function, written down."""

    def __init__(
        self, fn: Callable, args: Sequence[Any], table: Mapping | None, dynamic: bool, above_autograd: bool = False
    ):
        self.fn, self.table = fn, table
        self.fake_mode, self.leaves = fakes_of(args, dynamic)
        passed = {
            id(leaf): passed_on(leaf)
            for arg, leaf in {id(leaf): (arg, leaf) for arg, leaf in zip(args, self.leaves, strict=True)}.values()
            if is_traced(leaf) and leaf.requires_grad and not arg.is_leaf
        }
        self.given = [passed.get(id(leaf), leaf) for leaf in self.leaves]  # what is given twice is one tensor
        self.tracer = PythonKeyTracer()
        self.tracer.graph, self.tracer.root = Graph(), Module()
        self.tracer.tensor_attrs = {}
        self.tracer.fake_mode = self.fake_mode
        self.mode = ProxyTorchDispatchMode(self.tracer, "symbolic" if dynamic else "fake", above_autograd)
        self.last: Node | None = None
        self.views = WrapperViews() if any(map(is_wrapper, self.given)) else None

    def placeholder(self, name: str, value: Any) -> None:
        graph = self.tracer.graph
        place = graph.inserting_after(self.last) if self.last is not None else contextlib.nullcontext()
        with place:
            proxy = self.tracer.create_proxy("placeholder", name, (), {})
        self.last = proxy.node
        if isinstance(value, Tensor) and not (value.requires_grad and value.is_leaf):
            proxy.node.meta[WRITABLE] = True
        track_tensor_tree(value, proxy, tracer=self.tracer)

    def active(self) -> contextlib.ExitStack:
        stack = contextlib.ExitStack()
        table = {**functional_forms(), **(self.table or {})}
        for context in (disable_proxy_modes_tracing(), decompose(table), disable_autocast_cache()):
            stack.enter_context(context)
        stack.enter_context(self.fake_mode)
        stack.enter_context(self.mode)
        if self.views is not None:
            stack.enter_context(self.views)
        return stack

    def node_of(self, value: Any) -> Any:
        return self.tracer.create_arg(value)

    def run(self) -> tuple[list[Any], list[Mutation]]:
        """Calls the function: its results, and what it does to its inputs."""
        before = [WrapperBefore(v) if is_wrapper(v) else Before(v) for v in self.given]
        with self.active():
            outs = list(self.fn(*self.given))
        found: list[Mutation] = []
        for i, (v, b) in enumerate(zip(self.given, before, strict=True)):
            if is_traced(v) and not b.is_still(v):
                found.append(b.change(i, sum(m.raw is not None for m in found), v))
                if found[-1].geometry is not None and not found[-1].memory and not self.has_new_elements(v):
                    found[-1].raw = None
        return outs, found

    def has_new_elements(self, v: FakeTensor) -> bool:
        """Whether a node writes to the elements of an input, or to those of a view of it."""
        root = root_of(self.node_of(v))
        return any(root_of(target) is root for target in targets_of_writes(self.tracer.graph))


class Before:
    """What an input is before the function runs."""

    def __init__(self, v: Any):
        self.geometry = geometry_of(v)
        self.memory = memory_of(v)
        if isinstance(v, FakeTensor):
            self.written, self.version, self.history = self.memory.version, version_of(v), v.grad_fn

    def is_still(self, v: FakeTensor) -> bool:
        same = memory_of(v) is self.memory and self.memory.version == self.written
        return same and geometry_of(v) == self.geometry

    def change(self, place: int, raw: int, v: FakeTensor) -> Mutation:
        recorded = v.requires_grad and v.grad_fn is not self.history
        geometry = moved_from(self.geometry, geometry_of(v)) if geometry_of(v) != self.geometry else None
        return Mutation(place, raw, recorded, geometry, memory_of(v) is not self.memory, version_of(v) - self.version)


class WrapperBefore:
    """The same of a wrapper: what its parts are."""

    def __init__(self, v: Any):
        self.parts = [Before(p) for p in flat(v)]
        self.version, self.history, self.geometry = version_of(v), v.grad_fn, (v.shape, v.stride(), v.storage_offset())

    def is_still(self, v: Any) -> bool:
        same = self.geometry == (v.shape, v.stride(), v.storage_offset())
        return same and all(b.is_still(p) for b, p in zip(self.parts, flat(v), strict=True))

    def change(self, place: int, raw: int, v: Any) -> Mutation:
        moved = any(geometry_of(p) != b.geometry for b, p in zip(self.parts, flat(v), strict=True))
        if moved or self.geometry != (v.shape, v.stride(), v.storage_offset()):
            raise RuntimeError(
                "Metadata mutations are currently not allowed on tensor subclasses\n"
                f"[aot_autograd] input {place}, a {type(v).__name__}, is {tuple(v.shape)} after the call"
            )
        return Mutation(
            place, raw, v.requires_grad and v.grad_fn is not self.history, writes=version_of(v) - self.version
        )


def is_traced(v: Any) -> bool:
    """Whether a value is a tensor of the trace, or a wrapper around such."""
    return isinstance(v, FakeTensor) or is_wrapper(v)


def memory_of(t: Any) -> Any:
    return t._facts.memory if isinstance(t, FakeTensor) else None


def trace(
    fn: Callable,
    args: Sequence[Any],
    *,
    gradients: bool,
    decompositions: Mapping | None,
    dynamic: bool,
    storages: Sequence[int] = (),
) -> Traced:
    """fn, a function of flat arguments with flat results, as a graph; with those of its gradients if any are wanted.

    `storages`: the arguments that are all of their memory, also where the size of that is not known.
    """
    t = Tracing(fn, args, decompositions, dynamic)
    before = [Place(a) for a in args if isinstance(a, FakeTensor)]
    for i, value in enumerate(flat_all(t.given)):
        t.placeholder(f"primals_{i + 1}", value)
    outs, mutations = t.run()
    written = [m.input for m in mutations]
    shown = [i for i in by_address(t) if i not in storages]
    after = [Place(p.tensor) for p in before]
    for p in before:  # groups are of arguments as they came, and the function may be called again on them
        p.restore()
    groups = groups_of(args, written, shown)
    if any(map(is_wrapper, (*args, *outs))):
        refuse_shared(args, written, groups)
    if groups:
        return trace_on_bases(OnBases(fn, args, groups), args, gradients, decompositions, dynamic)
    for p in after:
        p.restore()
    raws = [t.given[m.input] for m in mutations if m.raw is not None]
    outputs = assign(t, outs, raws, {m.input for m in mutations if m.memory})
    traced = finish(t, outs, outputs, raws, mutations, gradients)
    traced.offsets = {i: n for i in shown if type(n := args[i].storage_offset()) is int}
    traced.apart = interleaved(args, written)
    traced.same = [(i, j) for i in written for j, a in enumerate(args) if j > i and a is args[i]]
    return traced


def by_address(t: Tracing) -> list[int]:
    """The inputs whose storage the function goes through by addresses: as_strided, of them or of views of them."""
    nodes = t.tracer.graph.find_nodes(op="call_function", target=AS_STRIDED)
    roots = {root_of(n) for n in nodes}
    return [i for i, v in enumerate(t.given) if roots and isinstance(v, FakeTensor) and root_of(t.node_of(v)) in roots]


def refuse_shared(args: Sequence[Any], written: Sequence[int], groups: list[list[int]]) -> None:
    """Inputs on one memory, one of which is written to, are made from one base: wrappers cannot be."""
    owners = [i for i, a in enumerate(args) for _ in flat(a)]
    if groups or groups_of(flat_all(args), [k for k, i in enumerate(owners) if i in written]):
        raise RuntimeError(
            "Encountered aliased inputs that are mutated in the graph, but at least one input/output\n"
            "to the graph is a tensor subclass. This is not supported today. You can try to\n"
            f"remove the aliasing yourself as a workaround.\n[aot_autograd] inputs {groups or 'inside the subclasses'}"
        )


def trace_on_bases(
    fn: OnBases, args: Sequence[Any], gradients: bool, decompositions: Mapping | None, dynamic: bool
) -> Traced:
    """The same where inputs share memory and are written to; results and writes that are such inputs count after the graph's own."""
    traced = trace(
        fn, fn.inner(args), gradients=gradients, decompositions=decompositions, dynamic=dynamic,
        storages=[k for k, b in enumerate(fn.bases) if b.kind == "storage"],
    )  # fmt: skip
    for place, i in fn.same.items():
        traced.outputs[place] = Output(INPUT, fn.num_inner + i)
    for i, g in fn.moved.items():
        traced.mutations.append(Mutation(fn.num_inner + i, None, False, g))
        base = next(k for k, b in enumerate(fn.bases) if i in b.members)
        counted = base_or_self(args[i]) is base_or_self(args[fn.bases[base].source])  # they have one version
        for m in traced.mutations:
            m.writes -= m.input == base and counted  # the change of geometry counts itself
    traced.on_bases, traced.offsets, traced.apart = fn, {}, []
    return traced


def geometry_of(t: Any) -> tuple | None:
    if not isinstance(t, FakeTensor):
        return None
    return tuple(t._facts.sizes), tuple(t._facts.steps), t._facts.offset


def assign(t: Tracing, outs: list[Any], raws: list[Any], moved: Collection[int]) -> list[Output]:
    """Says for each result where it comes from; what the graph has to give is added to `raws`. Of inputs on one memory the one that
    came with it is taken, not one that the program `moved` there."""
    roots = [root_of(t.node_of(o)) if isinstance(o, FakeTensor) else None for o in outs]
    order = sorted(range(len(t.given)), key=lambda i: (i in moved, i), reverse=True)
    inputs = {root_of(t.node_of(t.given[i])): i for i in order if isinstance(t.given[i], FakeTensor)}
    found = []
    for o, root in zip(outs, roots, strict=True):
        if isinstance(o, Symbolic):
            found.append(Output(RAW, place_of(raws, o)))
        elif is_wrapper(o):
            found.append(assign_wrapper(t, o, raws))
        elif not isinstance(o, FakeTensor):
            found.append(Output(CONSTANT, value=o))
        elif any(o is v for v in t.given):
            found.append(Output(INPUT, next(i for i, v in enumerate(t.given) if o is v)))
        elif (part := part_of_input(t, o)) is not None:
            found.append(part)
        elif has_history_of_its_own(o):
            found.append(Output(RAW, place_of(raws, o)))
        elif root in inputs:
            base = t.given[inputs[root]]
            refuse_apart(o, base)
            found.append(Output(VIEW_OF_INPUT, inputs[root], recorded=o.requires_grad or not base.requires_grad))
        else:
            sharing = [x for x, r in zip(outs, roots, strict=True) if r is root and based_alike(x, o)]
            base = base_among([x for x in sharing if not has_history_of_its_own(x)])
            refuse_apart(o, base)
            kind = RAW if o is base else VIEW_OF_RAW
            found.append(Output(kind, place_of(raws, base), recorded=o.requires_grad or not base.requires_grad))
    known = symbol_places(t.given)
    for o, out in zip(outs, found, strict=True):
        if out.kind in (VIEW_OF_INPUT, VIEW_OF_RAW) and not is_wrapper(o):
            for atom, (_, d) in symbol_places([o]).items():
                if atom not in known:  # the graph itself found it, and what makes the view asks for it
                    place_of(raws, o.shape[d])
            for number in numbers_of_views(t.node_of(o)):
                if atom_of(number.expr) not in known | symbol_places(raws):
                    raws.append(number)
    return found


def numbers_of_views(node: Node) -> list[SymInt]:
    """The symbols that come from data among what a view, and those it is a view of, were made with."""
    found: dict[Atom, SymInt] = {}
    root = root_of(node)
    while node is not root and node.op == "call_function":
        given = pytree.tree_leaves((node.args, node.kwargs))
        numbers = [n.meta["val"] for n in given if isinstance(n, Node) and isinstance(n.meta.get("val"), SymInt)]
        for number in numbers:
            atoms = [a for a in free_symbols(number.expr) if number.env.is_unbacked_symint(a)]
            found.update((a, SymInt(of_atom(a), number.env)) for a in atoms)
        if not node.args or not isinstance(node.args[0], Node):
            break
        node = node.args[0]
    return list(found.values())


def symbol_places(values: Sequence[Any]) -> dict[Atom, tuple[int, int | None]]:
    """Where symbols can be read off values: a number's place, or that of a tensor and its dim."""
    found: dict[Atom, tuple[int, int | None]] = {}
    for i, v in enumerate(values):
        numbers = [(None, v)] if isinstance(v, Symbolic) else enumerate(v.shape) if isinstance(v, FakeTensor) else ()
        for d, n in numbers:
            atom = atom_of(n.expr) if isinstance(n, SymInt) else None
            if atom is not None and atom.kind == "symbol":
                found.setdefault(atom, (i, d))
    return found


def assign_wrapper(t: Tracing, o: Any, raws: list[Any]) -> Output:
    """Where a wrapper comes from. Views of inputs are made outside; of other memory every wrapper is one of its own."""
    base, chain = (o, ()) if t.views is None else t.views.chain(o)
    place = next((i for i, v in enumerate(t.given) if v is base), None)
    if place is None:
        return Output(RAW, place_of(raws, o))
    if not chain:
        return Output(INPUT, place)
    return Output(VIEW_OF_INPUT, place, chain, recorded=o.requires_grad or not base.requires_grad)


def part_of_input(t: Tracing, o: Any) -> Output | None:
    """An inner tensor of an input, as it is."""
    for i, v in enumerate(t.given):
        if is_wrapper(v):
            for part, path in zip(flat(v), paths(v), strict=True):
                if part is o:
                    return Output(PART, i, path=path)
    return None


def based_alike(a: Any, b: Any) -> bool:
    """Whether two results on one memory may be views of one tensor: bits that are read as another dtype are no view to autograd."""
    return based_on(a).dtype == based_on(b).dtype


def has_history_of_its_own(o: Any) -> bool:
    """Whether a view that is made outside would not have the gradient: what a function of the program returned as one has the
    function's, and a view of what was then detached in place has the one from before."""
    return _C._is_view_of_function(o) or (o.requires_grad and o._base is not None and not o._base.requires_grad)


def based_on(t: Any) -> Any:
    """What a tensor is a view of, to autograd."""
    return t if t._base is None else t._base


def refuse_apart(t: Any, base: Any) -> None:
    """What was detached, and written to afterwards, has a history of its own on memory that it shares."""
    if t.requires_grad and based_on(t) is not based_on(base):
        raise NotFunctional(
            "[aot_autograd] a result that was detached and then written to shares memory with another, or with an input"
        )


def base_among(sharing: list[Any]) -> Any:
    """Of results on one memory the graph gives one tensor, with a history if any has; the others are views of it made outside."""
    if all(x is sharing[0] for x in sharing):
        return sharing[0]
    bases = [based_on(x) for x in sharing]
    return next((b for b in bases if b.requires_grad), bases[0])


def place_of(raws: list[Any], value: Any) -> int:
    """The place of a result of the graph; the same value is one result."""
    for i, r in enumerate(raws):
        if r is value:
            return i
    raws.append(value)
    return len(raws) - 1


def finish(
    t: Tracing, outs: list[Any], outputs: list[Output], raws: list[Any], mutations: list[Mutation], gradients: bool
) -> Traced:
    refuse_addresses(t)
    recorded = {m.raw: m.recorded for m in mutations if m.raw is not None}
    differentiable = [
        i for i, r in enumerate(raws)
        if gradients and is_traced(r) and r.requires_grad and r.grad_fn is not None and recorded.get(i, True)
    ]  # fmt: skip
    tangents: list[Any] = []
    grads: list[Any] = []
    refusals: list[Refusal] = []
    if differentiable:
        refuse_windows(t)
        before = Mark(t)
        try:
            tangents, grads = differentiated(t, [raws[i] for i in differentiable])
        except RuntimeError as e:
            if not is_refusal(e):
                raise
            before.restore()
            refusals = refused(t, {i: raws[i] for i in differentiable})
            if not refusals:
                raise
            differentiable, tangents, grads = differentiated_without(t, {i: raws[i] for i in differentiable}, refusals)
    nodes = [t.node_of(v) for v in flat_all((*raws, *grads))]
    views = [
        t.node_of(o) if out.kind in (VIEW_OF_INPUT, VIEW_OF_RAW) and not is_wrapper(o) else None
        for o, out in zip(outs, outputs, strict=True)
    ]
    around_graph = dict(
        num_inputs=len(flat_all(t.given)), num_raw=len(flat_all(raws)), outputs=outputs, mutations=mutations,
        differentiable=differentiable, tangents=flat_all(tangents), fakes=flat_all(t.leaves),
        wrappers=Wrappers.of(t.given, raws, tangents, grads), refusals=refusals,
        sources=sources_of(t, [raws[i] for i in differentiable]),
    )  # fmt: skip
    t.tracer.graph.output(tuple(nodes))
    module = _LazyGraphModule(t.tracer.root, t.tracer.graph, "joint_forward_backward" if grads else "forward")
    env = t.fake_mode.shape_env
    if not any(v is not None for v in views) and not writes_any(t.tracer.graph):
        add_checks(t.tracer, env)
        t.tracer.graph.eliminate_dead_code()
        refuse_fake_constants(module)
        return Traced(module, **around_graph)  # type: ignore[arg-type]
    pass_ = Functionalizer(module, keep_input_writes=False)
    pass_.read_all()
    values = [pass_.current(n) for n in nodes]
    for o, node, out in zip(outs, views, outputs, strict=True):
        if node is not None:
            out.chain = chain_of(pass_, node, t.node_of(raws[out.index]) if out.kind == VIEW_OF_RAW else None)
            if out.kind == VIEW_OF_RAW and raws[out.index].requires_grad and not o.requires_grad:
                out.chain = (*out.chain, Step(DETACH, (), {}))  # also where what is returned was detached from it
    pass_.tracer.graph.output(tuple(pass_.tracer.create_arg(v) for v in values))
    add_checks(pass_.tracer, env)
    pass_.tracer.graph.eliminate_dead_code()
    made = _LazyGraphModule(module, pass_.tracer.graph, type(module).__name__)
    refuse_fake_constants(made)
    return Traced(made, **around_graph)  # type: ignore[arg-type]


def refuse_addresses(t: Tracing) -> None:
    """How far an input moves is kept, not where to: its address changes from call to call."""
    for n in t.tracer.graph.find_nodes(op="call_function", target=_ops.ops.aten.as_strided_.default):
        offset = n.args[3] if len(n.args) > 3 else n.kwargs.get("storage_offset")
        if offset is not None and root_of(n).op == "placeholder":
            raise NotFunctional("[aot_autograd] as_strided_ puts an input at an address of its storage")


def refuse_windows(t: Tracing) -> None:
    """What autograd gives for writes to windows that overlap depends on the order of addresses, in backward too."""
    for target in targets_of_writes(t.tracer.graph):
        value = target.meta.get("val")
        if isinstance(value, FakeTensor) and overlaps(value) and not repeats(value):
            raise NotFunctional("[aot_autograd] windows that overlap are written to where gradients are wanted")


def like(raw: Any) -> Any:
    """A tensor in the place of a result's gradient."""
    if is_wrapper(raw):
        return around(raw, like)
    made = _C.empty_like(raw.detach())
    # Calls lay a gradient of symbolic sizes out by the order of its dims.
    if made._symbolic and dense_order(made._facts.sizes, made._facts.steps) is None:
        made = _C.empty_like(made, memory_format=_C.contiguous_format)
    return made


def differentiated(t: Tracing, roots: list[Any]) -> tuple[list[Any], list[Any]]:
    """Placeholders for the gradients of the roots, and those of the inputs."""
    tangents = tangents_for(t, roots)
    return tangents, gradients_of(t, roots, tangents, inputs_asked_for(t))


def tangents_for(t: Tracing, roots: list[Any]) -> list[Any]:
    with t.fake_mode, autograd.no_grad():
        tangents = [like(r) for r in roots]
    for k, tangent in enumerate(flat_all(tangents)):
        t.placeholder(f"tangents_{k + 1}", tangent)
    return tangents


def differentiated_without(
    t: Tracing, roots: Mapping[int, Any], refusals: list[Refusal]
) -> tuple[list[int], list[Any], list[Any]]:
    """The same where some roots have no gradient by some inputs; first those that have one by any."""
    places, sources = list(roots), sources_of(t, list(roots.values()))
    groups: dict[tuple[int, ...], list[int]] = {}  # inputs by the roots that have gradients by them
    for i in inputs_asked_for(t):
        without = {r.raw for r in refusals if i in r.inputs}
        having = tuple(places[k] for k in sources[i] if places[k] not in without)
        groups.setdefault(having, []).append(i)
    kept = [k for k in places if any(k in having for having in groups)]
    if not kept:
        return [], [], []
    tangents = tangents_for(t, [roots[k] for k in kept])
    grads: list[Any] = [None] * len(t.leaves)
    for having, inputs in groups.items():
        if having:
            given = [tangents[kept.index(k)] for k in having]
            for i, g in enumerate(gradients_of(t, [roots[k] for k in having], given, inputs)):
                grads[i] = g if i in inputs else grads[i]
    return kept, tangents, grads


class Mark:
    """What a trace is, so that what an attempt adds to it can be taken out again: nodes, where symbols are read, and
    which node a tensor is: an operator may return its argument."""

    def __init__(self, t: Tracing):
        self.t, self.nodes, self.last = t, set(t.tracer.graph.nodes), t.last
        numbers = t.tracer.numbers
        self.made, self.sources = dict(numbers.made), dict(numbers.sources)
        self.slots = t.tracer.slots.state()

    def restore(self) -> None:
        graph, numbers = self.t.tracer.graph, self.t.tracer.numbers
        for n in reversed([n for n in graph.nodes if n not in self.nodes]):
            graph.erase_node(n)
        self.t.last = self.last
        numbers.made, numbers.sources = dict(self.made), dict(self.sources)
        self.t.tracer.slots.restore(self.slots)


def is_refusal(e: RuntimeError) -> bool:
    """Whether autograd says that a gradient cannot be had of what a program did, which it says only to who asks for it."""
    text = str(e)
    return "modified by an inplace operation" in text or ("derivative for" in text and "not implemented" in text)


def refused(t: Tracing, roots: Mapping[int, Any]) -> list[Refusal]:
    """Which results have no gradients by which inputs, and why."""
    found: dict[tuple, Refusal] = {}
    before = Mark(t)
    for k, root in roots.items():
        waiting = [inputs_asked_for(t)]
        while waiting:  # halves of inputs, until one is left
            inputs = waiting.pop()
            error = refusal_of(t, root, inputs)
            before.restore()
            if error is None:
                continue
            if len(inputs) > 1:
                waiting += [inputs[len(inputs) // 2 :], inputs[: len(inputs) // 2]]
                continue
            words = (k, isinstance(error, NotImplementedError), str(error))
            found.setdefault(words, Refusal(k, [], *words[1:])).inputs += inputs
    return list(found.values())


def refusal_of(t: Tracing, root: Any, inputs: list[int]) -> RuntimeError | None:
    try:
        gradients_of(t, [root], tangents_for(t, [root]), inputs)
    except RuntimeError as e:
        if not is_refusal(e):
            raise
        return e
    return None


def sources_of(t: Tracing, roots: list[Any]) -> list[list[int]]:
    """For every input the roots from which its history can be reached: others have no gradient for it, not even zeros."""
    reached: dict[Any, int] = {}  # by node: the inputs behind it, as bits
    for root in roots:
        stack = [root.grad_fn]
        while stack:
            node = stack[-1]
            behind = [n for n, _ in node.next_functions if n is not None]
            if missing := [n for n in behind if n not in reached]:
                stack.extend(missing)
                continue
            reached[node] = sum(1 << i for i, leaf in enumerate(t.leaves) if is_traced(leaf) and begins_at(leaf, node))
            for n in behind:
                reached[node] |= reached.get(n, 0)
            stack.pop()
    masks = [reached[root.grad_fn] for root in roots]
    return [[k for k, mask in enumerate(masks) if mask >> i & 1] for i in range(len(t.leaves))]


def begins_at(t: Any, node: Any) -> bool:
    """Whether a node is where the history of what is computed from a tensor ends."""
    return node is t.grad_fn if t.grad_fn is not None else getattr(node, "variable", None) is t


@contextlib.contextmanager
def without_nan_checks() -> Iterator[None]:
    """Facts have no elements that anomaly mode could look at."""
    enabled, check = _C._get_anomaly()
    _C._set_anomaly(enabled, False)
    try:
        yield
    finally:
        _C._set_anomaly(enabled, check)


def inputs_asked_for(t: Tracing) -> list[int]:
    """The inputs that have gradients. An input given twice gets it once."""
    found: list[int] = []
    for i, leaf in enumerate(t.leaves):
        if isinstance(leaf, Tensor) and leaf.requires_grad and not any(leaf is t.leaves[k] for k in found):
            found.append(i)
    return found


def gradients_of(t: Tracing, roots: list[Any], tangents: list[Any], inputs: list[int]) -> list[Any]:
    """The gradient of each input, None for those that have none or are not asked for."""
    with t.active(), without_nan_checks():
        wanted = [t.leaves[i] for i in inputs]
        found = autograd.grad(roots, wanted, grad_outputs=tangents, allow_unused=True, retain_graph=True)
    grads: list[Any] = [None] * len(t.leaves)
    for i, g in zip(inputs, found, strict=True):
        grads[i] = g
    return grads


def chain_of(pass_: Functionalizer, node: Node, base: Node | None) -> tuple[Step, ...]:
    """The views between an input, or a result, and another result on its memory."""
    alias = pass_.of[node]
    assert isinstance(alias, Alias)
    start = pass_.of[base] if base is not None else None
    before = start.recorded if isinstance(start, Alias) else ()
    given = None if alias.storage.given is None else pass_.of[alias.storage.given]
    if base is None and given in pass_.moved:  # the input has another geometry by then
        first = pass_.placeholder_value(alias)
        stays = pass_.read(pass_.moved[given]).storage_offset() == first.storage_offset()
        return (as_it_lies(first, stays), *alias.recorded)
    if base is None and given is None:  # the input was put on the graph's own memory, maybe through a view
        return (as_it_lies(alias.storage.base), *alias.recorded)
    if len(before) <= len(alias.recorded) and all(a is b for a, b in zip(before, alias.recorded, strict=False)):
        return alias.recorded[len(before) :]
    root = alias.storage.base if alias.storage.given is None else pass_.placeholder_value(alias)
    if start is not None and pass_.read(start).dtype == root.dtype:  # a view may be of another dtype, or conjugated
        return (as_it_lies(root), *alias.recorded)
    return (as_it_lies(pass_.read(alias)),)


def as_it_lies(t: Any, begins_there: bool = False) -> Step:
    """`begins_there`: what it is a view of begins with the same element, wherever that is in the storage."""
    offset = () if begins_there else (t.storage_offset(),)
    return Step(_ops.ops.aten.as_strided.default, (list(t.shape), list(t.stride()), *offset), {})


def refuse_fake_constants(module: GraphModule) -> None:
    for n in module.graph.find_nodes(op="get_attr"):
        value = module
        for part in str(n.target).split("."):
            value = getattr(value, part)
        if isinstance(value, FakeTensor):
            raise RuntimeError(
                f"[aot_autograd] a value without elements became a constant of the graph: {n.target} {value}"
            )
