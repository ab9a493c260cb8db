"""`config.verify = "sample"`: eager beside compiled, at the first call of a graph and at some later ones.

Where their results differ by more than rounding, eager's are kept from then on, the smallest piece of the graph that differs is named in a
warning, and a script that shows it is written beside the caches.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tocha
from tocha import _C, fx
from tocha._inductor import store
from tocha.serialization import save

log = logging.getLogger("tocha._inductor.verify")
Tensor = _C.Tensor
Compiler = Callable[[fx.GraphModule], Callable[..., Sequence[Any]]]
# By dtype, relative and absolute: sums in another order differ by this much, wrong code by more.
TOLERANCE = {tocha.float64: (1e-9, 1e-9), tocha.float32: (1e-4, 1e-5), tocha.float16: (1e-2, 1e-3), tocha.bfloat16: (5e-2, 1e-2)}  # fmt: skip


def agree(got: Any, want: Any) -> bool:
    if not isinstance(want, Tensor):
        return type(got) is type(want) and got == want
    if not isinstance(got, Tensor) or (got.shape, got.dtype, got.stride()) != (want.shape, want.dtype, want.stride()):
        return False
    if not want.is_floating_point() and not want.is_complex():
        return tocha.equal(got, want)
    real = want.real.dtype if want.is_complex() else want.dtype
    relative, absolute = TOLERANCE.get(real, (1e-1, 1e-1))
    return bool(tocha.allclose(got, want, rtol=relative, atol=absolute, equal_nan=True))


def all_agree(got: Sequence[Any], want: Sequence[Any]) -> bool:
    return len(got) == len(want) and all(map(agree, got, want))


class Verified:
    """A compiled graph that is looked at: at calls 1, 2, 4, 8 and so on."""

    def __init__(self, module: fx.GraphModule, run: Callable[..., Sequence[Any]], compiler: Compiler):
        self.module, self.run, self.compiler = module, run, compiler
        self.calls, self.differs = 0, False

    def __call__(self, *args: Any) -> Sequence[Any]:
        if self.differs:
            return self.module.forward(*args)
        self.calls += 1
        if self.calls & (self.calls - 1):
            return self.run(*args)
        state = tocha.get_rng_state()
        want = list(self.module.forward(*args))
        after = tocha.get_rng_state()
        tocha.set_rng_state(state)  # both draw the same numbers
        got = list(self.run(*args))
        tocha.set_rng_state(after)
        if all_agree(got, want):
            return got
        self.differs = True
        self.report(args)
        return want

    def report(self, args: Sequence[Any]) -> None:
        piece, inputs = smallest_difference(self.module, args, self.compiler)
        path = write_repro(piece, inputs)
        operators = ", ".join(str(n.target) for n in piece.graph.nodes if n.op == "call_function")
        warnings.warn(
            f"[inductor] compiled and eager differ in {operators}: eager's results are kept. To see it: python {path}",
            stacklevel=3,
        )


def values_of(module: fx.GraphModule, args: Sequence[Any]) -> dict[fx.Node, Any]:
    """What eager computes at every node."""
    found: dict[fx.Node, Any] = {}

    class Recording(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            found[n] = super().run_node(n)
            return found[n]

    Recording(module, garbage_collect_values=False).run(*args)
    return found


def piece_of(module: fx.GraphModule, nodes: Sequence[fx.Node], values: dict[fx.Node, Any]) -> tuple[fx.GraphModule, list[Any]]:  # fmt: skip
    """Some nodes as a graph of their own, with the values of what they read; its result is the last node's."""
    graph, env, inputs = fx.Graph(), {}, []
    wanted = set(nodes)
    for n in dict.fromkeys(x for m in nodes for x in m.all_input_nodes if x not in wanted):
        env[n] = graph.placeholder(n.name)
        env[n].meta = dict(n.meta)
        inputs.append(values[n])
    for n in nodes:
        env[n] = graph.node_copy(n, lambda x: env[x])
    graph.output([env[nodes[-1]]])
    return fx.GraphModule(module, graph), inputs


def differs(piece: fx.GraphModule, inputs: Sequence[Any], compiler: Compiler) -> bool:
    state = tocha.get_rng_state()
    want = list(piece.forward(*inputs))
    tocha.set_rng_state(state)
    return not all_agree(list(compiler(piece)(*inputs)), want)


def smallest_difference(module: fx.GraphModule, args: Sequence[Any], compiler: Compiler) -> tuple[fx.GraphModule, list[Any]]:  # fmt: skip
    """The fewest neighbouring operators that differ by themselves; the whole graph if it is all of them together."""
    values = values_of(module, args)
    nodes = [n for n in module.graph.nodes if n.op == "call_function"]
    length = 1
    while length < len(nodes):
        for first in range(0, len(nodes) - length + 1, max(1, length // 2)):
            chosen = nodes[first : first + length]
            piece, inputs = piece_of(module, chosen, values)
            stands_alone = isinstance(values[chosen[-1]], Tensor) and not any(
                isinstance(i, tuple | list) for i in inputs
            )
            if stands_alone and differs(piece, inputs, compiler):
                return piece, inputs
        length *= 2
    return module, list(args)


REPRO = '''"""Compiled and eager differ in this graph."""

import tocha
from tocha import device  # noqa: F401
from tocha._inductor import compile
from tocha.fx.experimental.proxy_tensor import make_fx

inf, nan = float("inf"), float("nan")


{code}

inputs = tocha.load({data!r})
graph = make_fx(lambda *args: forward(None, *args), tracing_mode="fake")(*inputs)
want = graph(*inputs)
got = compile(graph, inputs)(*inputs)
for g, w in zip(got, want, strict=True):
    print((g.double() - w.double()).abs().max() if w.numel() else "no elements")
'''


def write_repro(piece: fx.GraphModule, inputs: Sequence[Any]) -> Path:
    """A script beside the caches, with its inputs."""
    folder = store.root() / "repros"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{store.digest_of(piece.code)}.py"
    data = path.with_suffix(".pt")
    save([i.detach() if isinstance(i, Tensor) else i for i in inputs], data)
    path.write_text(REPRO.format(code=piece.code.strip(), data=str(data)))
    return path
