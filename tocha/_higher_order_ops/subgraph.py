"""A function given to a higher-order operator as a graph of its own.

It runs once on fakes, on memory of their own, under a tracer of its own. Tensors and sizes that it reads from the program around it become
further inputs of the graph (`lifted`). Writes to inputs, and results that share memory with them or with each other, are refused;
other writes are removed (tocha/_functorch/functionalize.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tocha import _C, _ops, autograd
from tocha._functorch.functionalize import functionalize_graph
from tocha._higher_order_ops.errors import UncapturedHigherOrderOpError, aliasing, mutation, uncaptured
from tocha._library.twins import written
from tocha._subclasses.fake import FakeTensor, new
from tocha._subclasses.fake_tensor import FakeTensorMode
from tocha._subclasses.reader import active_mode
from tocha.fx import Graph, GraphModule, Node
from tocha.fx.experimental._sym_nodes import SymbolicNodes
from tocha.fx.experimental.proxy_tensor import (
    ProxyTensor,
    ProxyTorchDispatchMode,
    PythonKeyTracer,
    disable_autocast_cache,
    disable_proxy_modes_tracing,
    get_proxy_mode,
    real_of,
    track_tensor_tree,
)
from tocha.fx.proxy import Proxy
from tocha.ir import sym_types
from tocha.ir import symbolic as s
from tocha.ir.shape_env import ShapeEnv
from tocha.ir.sym_types import Symbolic
from tocha.nn import Module
from tocha.operators.facts import Facts, Memory
from tocha.utils import _pytree as pytree

Tensor = _C.Tensor


# ---- tracing ---------------------------------------------------------------------------------------


class LiftedNumbers(SymbolicNodes):
    """Sizes that no input of the subgraph shows are inputs themselves."""

    def _solved(self, atom: s.Atom, env: Any) -> Proxy:
        try:
            return super()._solved(atom, env)
        except RuntimeError:
            return self.tracer.lift(sym_types.wrap(s.of_atom(atom), env))

    def _float_symbol(self, e: sym_types.FloatExpr, env: Any) -> Proxy:
        return self.tracer.lift(sym_types.wrap(e, env))


class SubgraphTracer(PythonKeyTracer):
    """Writes one subgraph down."""

    def __init__(self, fake_mode: Any, around: Any = None):
        super().__init__()
        self.around = around  # the tracer of the surrounding graph
        self.numbers = LiftedNumbers(self)
        self.graph, self.root = Graph(), Module()
        self.tensor_attrs = {}
        self.fake_mode = fake_mode
        self.last: Node | None = None
        self.lifted: list[Any] = []
        self.versions: list[int] = []

    def placeholder(self, value: Any) -> Proxy:
        place = self.graph.inserting_after(self.last) if self.last is not None else contextlib.nullcontext()
        if self.last is None and len(self.graph.nodes):
            place = self.graph.inserting_before(next(iter(self.graph.nodes)))
        count = len(self.graph.find_nodes(op="placeholder"))
        with place:
            proxy = self.create_proxy("placeholder", f"arg{count}_1", (), {})
        self.last = proxy.node
        track_tensor_tree(value, proxy, tracer=self)
        return proxy

    def lift(self, value: Any) -> Proxy:
        """A value of the program around becomes an input."""
        self.lifted.append(value)
        self.versions.append(version_of(self.fake_mode, value))
        return self.placeholder(value)

    def _constant(self, t: Tensor) -> Node:
        """Tensors from around: a real one may be seen as its fake here."""
        proxy = self.lift(t if self.is_known_around(t) else real_of(t))
        self.slots.set(t, ProxyTensor(proxy))
        return proxy.node

    def is_known_around(self, t: Tensor) -> bool:
        tracer = self.around
        while tracer is not None:
            if tracer.slots.get(t) is not None:
                return True
            tracer = getattr(tracer, "around", None)
        return False


def memory_of(fake_mode: Any, t: Any) -> Memory | None:
    """What stands for a tensor's memory while a subgraph is traced."""
    if not isinstance(t, Tensor):
        return None
    fake = t if isinstance(t, FakeTensor) else fake_mode.from_tensor(t)
    return fake._facts.memory


def version_of(fake_mode: Any, t: Any) -> int:
    memory = memory_of(fake_mode, t)
    return 0 if memory is None else memory.version


def fresh(fake_mode: Any, value: Any, requires_grad: bool = False) -> Any:
    """A fake like a value, on memory of its own and without history; numbers as they are."""
    if not isinstance(value, Tensor):
        return value
    f = (value if isinstance(value, FakeTensor) else fake_mode.from_tensor(value))._facts
    same = Facts(f.sizes, f.dtype, f.device, f.steps, f.offset, Memory(), f.conjugated, f.negated)
    same.is_plain, same._contiguous = f.is_plain, f._contiguous
    made = new(fake_mode, same)
    return made.requires_grad_() if requires_grad else made


def fake_mode_for(values: Sequence[Any]) -> Any:
    for v in values:
        if isinstance(v, FakeTensor):
            return v.fake_mode
    mode = get_proxy_mode()
    if mode is not None and mode.tracer.fake_mode is not None:
        return mode.tracer.fake_mode
    if active_mode() is not None:
        return active_mode()
    return FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True, allow_non_fake_inputs=True)


@dataclass
class Subgraph:
    """A function as a graph: of its operands, then of what it reads around it."""

    function: Callable
    module: GraphModule
    lifted: list[Any]
    outputs: list[Any]  # fakes and numbers
    spec: Any  # of the results

    def extended(self, lifted: Sequence[Any], num_operands: int) -> Subgraph:
        """The same graph of a longer list of lifted values, in their order."""
        if len(lifted) == len(self.lifted) and all(map(is_same, lifted, self.lifted)):
            return self
        graph = Graph()
        places = self.module.graph.find_nodes(op="placeholder")
        made: dict[Node, Node] = {}
        known = list(zip(self.lifted, places[num_operands:], strict=True))
        inputs = [*places[:num_operands], *(next((n for v, n in known if is_same(v, w)), None) for w in lifted)]
        for i, node in enumerate(inputs):
            new = graph.placeholder(f"arg{i}_1")
            if node is not None:
                new.meta, made[node] = dict(node.meta), new
            else:
                value = lifted[i - num_operands]
                new.meta["val"] = value if not isinstance(value, Tensor) or isinstance(value, FakeTensor) else None
        for node in self.module.graph.nodes:
            if node.op != "placeholder":
                made[node] = graph.node_copy(node, lambda n: made[n])
        module = GraphModule(self.module, graph, type(self.module).__name__)
        return Subgraph(self.function, module, list(lifted), self.outputs, self.spec)


def disentangled(subs: Sequence[Subgraph], given: int) -> tuple[Sequence[Subgraph], int]:
    """Graphs to differentiate, and how many of their inputs are operands.

    A lifted tensor that was computed from another one brings that one's gradient along. Then the graphs are differentiated, of which
    both are inputs; else the functions themselves, which know more (gradients that programs define, no_grad).
    """
    lifted = [v for v in subs[0].lifted if isinstance(v, Tensor) and v.requires_grad]
    if len(lifted) < 2 or all(v.is_leaf for v in lifted):
        return subs, given
    return [Subgraph(s.module, s.module, [], s.outputs, s.spec) for s in subs], given + len(subs[0].lifted)


def is_same(a: Any, b: Any) -> bool:
    if isinstance(a, Symbolic) and isinstance(b, Symbolic):
        return a.expr == b.expr
    return a is b


def capture(op: str, function: Callable, operands: Sequence[Any]) -> Subgraph:
    """Runs a function of flat operands on fakes and gives its graph. `function.wanted`: operands whose fakes require a gradient."""
    wanted = getattr(function, "wanted", ())
    fake_mode = fake_mode_for(operands)
    outer = get_proxy_mode()
    tracer = SubgraphTracer(fake_mode, outer.tracer if outer is not None else None)
    grads = [bool(wanted) and wanted[i] for i in range(len(operands))]
    given = [fresh(fake_mode, v, g) for v, g in zip(operands, grads, strict=True)]
    how, above = ("fake", False) if outer is None else (outer.tracing_mode, outer.pre_dispatch)
    mode = ProxyTorchDispatchMode(tracer, how, above)
    with contextlib.ExitStack() as stack:
        stack.enter_context(disable_proxy_modes_tracing())
        stack.enter_context(disable_autocast_cache())
        for v in given:
            tracer.placeholder(v)
        stack.enter_context(fake_mode)
        if not wanted:
            stack.enter_context(autograd.no_grad())
        stack.enter_context(mode)
        results = function(*given)
        outputs, spec = pytree.tree_flatten(results)
    check_memory(op, tracer, given, outputs)
    for o in outputs:
        if o is not None and not isinstance(o, Tensor | Symbolic | int | float | bool):
            raise uncaptured(
                op, "HOP: non tocha.Tensor leaf", f"Expected all leaves to be of tocha.Tensor type, but got {type(o)}."
            )
    tracer.graph.output(tuple(tracer.create_arg(o) for o in outputs))
    module = GraphModule(tracer.root, tracer.graph, name_of(function))
    if any(isinstance(n.target, _ops.OpOverload) and written(n.target._schema) for n in module.graph.nodes):
        module = functionalize_graph(module)
        module.graph.eliminate_dead_code()
        module.recompile()
    return Subgraph(function, module, tracer.lifted, outputs, spec)


def name_of(function: Callable) -> str:
    name = getattr(function, "__name__", "") or type(function).__name__
    return name if name.isidentifier() else "subgraph"


def check_memory(op: str, tracer: SubgraphTracer, given: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Inputs are not written to; each result has memory of its own."""
    mode = tracer.fake_mode
    inputs = [(v, 0) for v in given] + list(zip(tracer.lifted, tracer.versions, strict=True))
    for i, (v, version) in enumerate(inputs):
        if version_of(mode, v) != version:
            raise mutation(op, f"input {i} is written to")
    owners = {memory_of(mode, v): f"input {i}" for i, (v, _) in enumerate(inputs) if isinstance(v, Tensor)}
    for i, o in enumerate(outputs):
        memory = memory_of(mode, o)
        if memory is None:
            continue
        if memory in owners:
            raise aliasing(op, f"result {i} shares memory with {owners[memory]}")
        owners[memory] = f"result {i}"


def closure_of(function: Callable) -> tuple | None:
    """What a plain function is made of, to know it again: its code, and what it reads from around it. None for other callables."""
    code = getattr(function, "__code__", None)
    if code is None or getattr(function, "__defaults__", None) or getattr(function, "__kwdefaults__", None):
        return None
    cells: list[Any] = []
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            return None
        if isinstance(value, Tensor):
            cells.append((tuple(value.shape), value.stride(), value.dtype, value.device))
        elif value is None or isinstance(value, int | float | str | bool | type):
            cells.append(value)
        elif callable(value) and (inner := closure_of(value)) is not None:
            cells.append(inner)
        else:
            return None
    return code, tuple(cells)


def around(functions: Sequence[Callable]) -> dict[Any, Tensor]:
    """The tensors that functions may read besides their arguments, by the places where the same code finds them again."""
    found: dict[Any, Tensor] = {}

    def look(place: tuple, function: Any) -> None:
        code = getattr(function, "__code__", None)
        if code is None:
            return
        for name in code.co_names:
            if isinstance(function.__globals__.get(name), Tensor):
                found[*place, name] = function.__globals__[name]
        for i, cell in enumerate(function.__closure__ or ()):
            value = cell.cell_contents
            if isinstance(value, Tensor):
                found[*place, i] = value
            else:
                look((*place, i), value)

    for i, function in enumerate(functions):
        look((i,), function)
    return found


_passed: dict[
    tuple, list[Any]
] = {}  # calls that were checked, the latest last: the places of what they read around them
MOST_PASSED = 4096


def check_once(
    op: str, functions: Sequence[Callable], operands: Sequence[Any], check: Callable[[], Sequence[Tensor] | None]
) -> Sequence[Tensor]:
    """Checks a call on plain tensors; calls of the same code on tensors of the same form are checked once. Gives the tensors that
    the functions read besides their operands, as far as `check` tells them."""
    shapes = tuple((tuple(v.shape), v.stride(), v.dtype, v.device) if isinstance(v, Tensor) else v for v in operands)
    parts = [closure_of(f) for f in functions]
    key = None if any(p is None for p in parts) else (op, tuple(parts), shapes)
    known = around(functions) if key is not None else {}
    if key is not None and key in _passed and all(place in known for place in _passed[key]):
        return [known[place] for place in _passed[key]]
    read = check() or ()
    places = [next((p for p, t in known.items() if t is r), None) for r in read]
    if key is not None and None not in places:
        if len(_passed) >= MOST_PASSED:
            del _passed[next(iter(_passed))]
        _passed[key] = places
    return read


# ---- what must agree -------------------------------------------------------------------------------


def differences(a: Any, b: Any) -> list[str]:
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return [] if isinstance(a, Tensor) == isinstance(b, Tensor) else [f"'type: {type(a)} vs {type(b)}'"]
    found = []
    for name in ("dtype", "device", "shape"):
        x, y = getattr(a, name), getattr(b, name)
        same = len(x) == len(y) and all(bool(m == n) for m, n in zip(x, y, strict=True)) if name == "shape" else x == y
        if not same:
            found.append(f"'{name}: {x} vs {y}'")
    return found


def check_alike(op: str, names: tuple[str, str], a: Sequence[Any], b: Sequence[Any]) -> None:
    """What a loop hands on has the form of what it was given."""
    if len(a) != len(b):
        raise UncapturedHigherOrderOpError(
            f"Expected {names[0]} and {names[1]} to have same number of outputs but got lhs:{list(a)} and rhs:{list(b)}\n"
            f"  Higher Order Operator: {op}"
        )
    pairs = [(i, differences(x, y), x, y) for i, (x, y) in enumerate(zip(a, b, strict=True))]
    wrong = [f"pair[{i}] differ in {', '.join(d)}, where lhs is {x} and rhs is {y}" for i, d, x, y in pairs if d]
    if wrong:
        raise UncapturedHigherOrderOpError(
            f"Expected {names[0]} and {names[1]} to have same metadata but found:\n"
            + "\n".join(wrong)
            + f"\n  Higher Order Operator: {op}"
        )


def captured(op: str, functions: Sequence[Callable], operands: Sequence[Any]) -> list[Subgraph]:
    """Several functions of the same operands, as graphs of the same inputs."""
    subs = [capture(op, f, operands) for f in functions]
    lifted: list[Any] = []
    for sub in subs:
        lifted += [v for v in sub.lifted if not any(is_same(v, w) for w in lifted)]
    return [sub.extended(lifted, len(operands)) for sub in subs]
