"""The cache of whole graphs: from a captured graph to its compiled form without differentiating, lowering or compiling.

A key is the captured graph as text, the facts of its inputs, and everything else that decides what is made of them. An entry holds what is
done around the graph and, for each of its programs, the source and what the loader takes; the library of the source has a cache of its own.
The backward program has an entry to itself, since it is made when the first backward runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import tocha
from tocha import _C, fx
from tocha._functorch import config as functorch_config
from tocha._functorch.runtime import Compiled, wrapped
from tocha._inductor import codecache, config, custom_graph_pass, decomposition
from tocha._inductor.entries import NotKept, decode_wrapping, encode, encode_constant, encode_wrapping
from tocha._inductor.kept import load_kept
from tocha._inductor.store import Folder, Parts, counts
from tocha._logging import events
from tocha._ops import OpOverload
from tocha._subclasses.fake import FakeTensor
from tocha.autograd._memory_budget import BUDGET
from tocha.ir.sym_types import Symbolic

log = logging.getLogger("tocha._inductor.cache")
GRAPHS = Folder("graphs", ".json")
OWN = ("tocha", "_operator", "math", "builtins")  # packages whose functions are known by their names


def key_of(module: fx.GraphModule, inputs: Sequence[Any]) -> Parts | None:
    """The named parts of a graph's key; None where the graph cannot be kept, or there is no compiler to keep it of."""
    if (
        config.force_disable_caches
        or not config.fx_graph_cache
        or config.verify
        or config.nan_asserts
        or events.THOROUGH
        or decomposition.own()
    ):
        return None
    passes = custom_graph_pass.key()
    if passes is None:
        return None
    try:
        return {
            "graph": graph_text(module),
            "inputs": "\n".join(map(input_text, placeholders(module, inputs), inputs)),
            "known sizes": sizes_text(module),
            "modes": modes_text(),
            "settings": config.key_text(without=custom_graph_pass.SETTINGS),
            "passes": passes,
            "memory budget": budget_text(module),
            "threads": str(_C.get_num_threads()) if config.max_autotune or config.max_autotune_gemm else "",
            "tocha": own_digest(),
            **{k: v for k, v in codecache.key_parts("").items() if k != "source"},
        }
    except (NotKept, codecache.CompilerError) as reason:
        log.info("[cache] a graph is not kept: %s", reason)
        return None


def budget_text(module: fx.GraphModule) -> str:
    asked = {str(n.meta.get("custom", {}).get(BUDGET)) for n in module.graph.nodes}
    return f"{functorch_config.activation_memory_budget}, {sorted(asked)}"


def placeholders(module: fx.GraphModule, inputs: Sequence[Any]) -> list[fx.Node]:
    nodes = module.graph.find_nodes(op="placeholder")
    if len(nodes) != len(inputs):
        raise NotKept("inputs that are not those of the graph")
    return nodes


def graph_text(module: fx.GraphModule) -> str:
    """Every node, by kind, target and arguments."""
    lines = []
    for n in module.graph.nodes:
        lines.append(f"{n.name} = {n.op} {target_text(module, n)} {argument_text(n.args)} {argument_text(n.kwargs)}")
    return "\n".join(lines)


def target_text(module: fx.GraphModule, n: fx.Node) -> str:
    if n.op in ("placeholder", "output", "call_method"):
        return str(n.target)
    if n.op == "get_attr":
        value: Any = module
        for part in str(n.target).split("."):
            value = getattr(value, part)
        if isinstance(value, fx.GraphModule):
            return "{\n" + graph_text(value) + "\n}"
        if isinstance(value, _C.Tensor) and not isinstance(value, FakeTensor):
            return json.dumps(encode_constant(value))
        raise NotKept(f"an attribute that is {type(value).__name__}")
    if n.op != "call_function":
        raise NotKept(f"a node that is {n.op}")
    return function_text(n.target)


def function_text(f: Any) -> str:
    """The name of a function of the library or of Python, by which every process finds the same one."""
    if isinstance(f, OpOverload):
        if f.namespace != "aten":
            raise NotKept(f"an operator of somebody else: {f}")
        return str(f)
    home: str = getattr(f, "__module__", None) or ""
    name = str(getattr(f, "__qualname__", None) or getattr(f, "__name__", ""))
    owner = getattr(f, "__self__", None)
    if isinstance(owner, ModuleType):  # a native function
        home = owner.__name__
    elif isinstance(owner, type):  # a class's own: `apply` of all autograd.Functions is written in one place
        home, name = owner.__module__, f"{owner.__qualname__}.{getattr(f, '__name__', '')}"
    elif owner is not None:
        raise NotKept(f"a method of an object: {f}")
    if home.split(".")[0] not in OWN or "<" in name or not name:
        raise NotKept(f"a function of somebody else: {f}")
    return f"{home}.{name}"


def argument_text(v: Any) -> str:
    if isinstance(v, fx.Node):
        return f"%{v.name}"
    if isinstance(v, Symbolic):
        return f"${v}"
    if isinstance(v, dict):
        return "{" + ", ".join(f"{k}: {argument_text(x)}" for k, x in v.items()) + "}"
    if isinstance(v, tuple | list):
        return f"{type(v).__name__}({', '.join(map(argument_text, v))})"
    if isinstance(v, slice):
        return f"slice({argument_text((v.start, v.stop, v.step))})"
    if v is Ellipsis:
        return "..."
    if callable(v) and not isinstance(v, type | _C.dtype):
        return function_text(v)
    return json.dumps(encode(v))


def input_text(node: fx.Node, given: Any) -> str:
    """The facts of an input: of the capture, where sizes may be symbols, and of the tensor that came."""
    value = node.meta.get("example_value")
    if not isinstance(given, _C.Tensor):
        return f"{type(given).__name__} {value if isinstance(value, Symbolic) else argument_text(given)}"
    if type(given) not in (_C.Tensor, tocha.nn.Parameter) or not isinstance(value, FakeTensor):
        raise NotKept(f"an input that is {type(given).__name__}")
    geometry = node.meta.get("geometry")
    f = value._facts
    return (
        f"{geometry} {f.dtype} {given.device} grad={given.requires_grad} leaf={given.is_leaf} base={given._base is not None}"
        f" conj={given.is_conj()} neg={given.is_neg()} inference={given.is_inference()} memory={memory_number(node)}"
    )


def memory_number(node: fx.Node) -> int:
    """Which inputs lie on the same memory as they come: the number of the first of them."""
    memory = node.meta.get("memory")
    for i, other in enumerate(node.graph.find_nodes(op="placeholder")):
        if memory is not None and other.meta.get("memory") is memory:
            return i
    return -1


def shape_env(module: fx.GraphModule) -> Any:
    for n in module.graph.nodes:
        value = n.meta.get("example_value")
        if isinstance(value, FakeTensor) and value._symbolic:
            return value.fake_mode.shape_env
        if isinstance(value, Symbolic):  # a number, beside sizes that are known
            return value.env
    return None


def sizes_text(module: fx.GraphModule) -> str:
    env = shape_env(module)
    if env is None:
        return ""
    known = env.known
    sets = (known.nonnegative, known.nonzero, known.true)
    return "\n".join(
        [
            *sorted(f"{a}: {r}" for a, r in known.ranges.items()),
            *sorted(f"{a} = {e}" for a, e in known.replacements.items()),
            *sorted(f"{a} of {e}" for a, e in known.multiples.items()),
            *("; ".join(sorted(map(str, x))) for x in sets),
            *sorted(str(g.expr) for g in env.guards),  # also of floats, which are not among what is known of sizes
        ]
    )


def modes_text() -> str:
    autocast = [(d, _C.is_autocast_enabled(d), str(_C.get_autocast_dtype(d))) for d in ("cpu", "cuda")]
    return f"{_C.is_grad_enabled()} {_C.is_inference_mode_enabled()} {_C.get_default_dtype()} {autocast} {_C.is_autocast_cache_enabled()}"


@cache
def own_digest() -> str:
    """Of the version, and of the Python that decides what graphs become."""
    found = hashlib.sha256(tocha.__version__.encode())
    home = Path(tocha.__file__).parent
    for path in sorted(home.rglob("*.py")):
        found.update(path.relative_to(home).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


class GraphEntry:
    """One graph on its way into the cache or out of it."""

    def __init__(self, parts: Parts, module: fx.GraphModule):
        self.parts = parts
        self.env = shape_env(module)
        self.guards = self.assumed()

    def assumed(self) -> Any:
        """What compiling has assumed of sizes: a graph for which that grew must be looked at again in every process. What it found of
        numbers that come from data is checked by the program."""
        if self.env is None:
            return None
        return len(self.env.guards), len(self.env.known.replacements.keys() - set(self.env.unbacked))

    def of_backward(self) -> Parts:
        return {**self.parts, "pass": "backward"}

    def load(self, trace: Callable[[], Compiled]) -> Compiled | None:
        """`trace`: what makes everything anew, where the backward graph is wanted and not here."""
        with dropped_if_strange():
            found = read(self.parts)
            if found is not None:
                w = decode_wrapping(found["around"])
                backward = KeptBackward(self, trace) if w.differentiable else None
                return wrapped(w, load_kept(found["program"]), backward)
        return None

    def load_backward(self) -> Callable | None:
        with dropped_if_strange():
            found = read(self.of_backward())
            return load_kept(found["program"]) if found is not None else None
        return None

    def save(self, compiled: Compiled, program: Any) -> None:
        if self.assumed() == self.guards:
            self.write(self.parts, {"around": encode_wrapping(compiled.wrapping)}, program)

    def save_backward(self, program: Any) -> None:
        if self.assumed() == self.guards:
            self.write(self.of_backward(), {}, program)

    def write(self, parts: Parts, entry: dict[str, Any], program: Any) -> None:
        try:
            entry["program"] = program.kept()
            GRAPHS.write(parts, json.dumps(entry).encode())
        except NotKept as reason:
            log.info("[cache] a graph is not kept: %s", reason)


class KeptBackward:
    """The backward program of a graph that came from the cache: found when it is first needed, or made."""

    def __init__(self, entry: GraphEntry, trace: Callable[[], Compiled]):
        self.entry = entry
        self.traced = cache(lambda: trace().backward)
        self.callable = cache(lambda: entry.load_backward() or self.traced().callable())

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        if any(isinstance(a, FakeTensor) for a in args):  # whoever traces sees the graph itself
            return self.traced()(args)
        return list(self.callable()(*args))


def read(parts: Parts) -> Any:
    content = GRAPHS.read(parts)
    return None if content is None else json.loads(content)


@contextlib.contextmanager
def dropped_if_strange() -> Iterator[None]:
    """An entry that says what nobody here understands is as good as none."""
    try:
        yield
    except (KeyError, ValueError, TypeError, AttributeError) as reason:
        counts.dropped += 1
        log.warning("[cache] an entry is not understood and dropped: %s", reason)
