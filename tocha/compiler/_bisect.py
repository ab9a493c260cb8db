"""bisect(fn, args): where a compiled function goes wrong: which stage, which pass, which kernel."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tocha
from tocha import _C, fx
from tocha._dynamo import eval_frame
from tocha._functorch.fx_minifier import piece_of, stands_alone, values_of
from tocha._inductor import config
from tocha._inductor.describe import operators_of
from tocha._inductor.programs import compile_graph
from tocha._inductor.verify import all_agree, differs
from tocha._logging import events
from tocha.ir.kernels import Kernel
from tocha.utils import _pytree as pytree

Tensor = _C.Tensor
# Each does what the one before does, and one thing more.
STAGES = {"eager": "capture", "aot_eager": "differentiation ahead of time", "inductor": "the back end"}


@dataclass
class Bisection:
    """What was found. `backend` is None where compiled and eager agree."""

    backend: str | None = None
    error: str = ""
    passes: list[str] = field(default_factory=list)  # without any one of these it is right
    kernel: str = ""
    operators: list[str] = field(default_factory=list)
    source: str = ""
    script: str = ""
    tried: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.backend is not None

    def __str__(self) -> str:
        lines = [f"  {name}: {result}" for name, result in self.tried.items()]
        if self.backend is None:
            return "\n".join(["Compiled and eager agree.", *lines])
        lines.insert(0, f"At fault: {STAGES[self.backend]} (backend {self.backend!r})")
        if self.error:
            lines.append(f"  it raises {self.error}")
        if self.passes:
            lines.append(f"  right without the pass: {', '.join(self.passes)}")
        if self.kernel:
            lines.append(f"  kernel: {self.kernel} ({', '.join(self.operators)})")
        if self.script:
            lines.append(f"  to see it: python {self.script}")
        return "\n".join(lines)


def run_once(fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """Results, then the gradients of inputs and parameters that want one; all from copies, with the same random numbers."""
    tocha.manual_seed(0)
    args, kwargs = copy.deepcopy((list(args), kwargs))
    parameters = list(fn.parameters()) if hasattr(fn, "parameters") else []
    kept = [p.grad for p in parameters]
    for p in parameters:
        p.grad = None
    leaves = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor) and t.requires_grad and t.is_leaf]
    results = pytree.tree_leaves(fn(*args, **kwargs))
    wanted = [r for r in results if isinstance(r, Tensor) and r.requires_grad]
    if wanted:
        tocha.autograd.backward([r.sum() if not r.is_complex() else r.abs().sum() for r in wanted])
    found = [r.detach() if isinstance(r, Tensor) else r for r in results]
    found += [t.grad for t in (*leaves, *parameters)]
    for p, g in zip(parameters, kept):
        p.grad = g
    return found


def outcome(fn: Callable[..., Any], backend: str, args: Sequence[Any], kwargs: dict[str, Any], want: list[Any]) -> str:
    """ "agrees", "differs", or what it raises."""
    eval_frame.reset()
    try:
        got = run_once(eval_frame.compile(fn, backend=backend), args, kwargs)
    except Exception as error:
        return f"raises {type(error).__name__}: {error}"
    return "agrees" if all_agree(got, want) else "differs"


def bisect(fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Bisection:
    """Runs fn eagerly, then through one stage of the compiler after another, and names the first that errs; of the back end, the passes
    without which it is right, the kernel, and a script that shows it.

    >>> import tocha
    >>> bool(bisect(lambda x: x.sin(), [tocha.ones(2)]))
    False
    """
    given, found = kwargs or {}, Bisection()
    fn = eval_frame.innermost(fn._orig_mod if isinstance(fn, eval_frame.OptimizedModule) else fn)
    want = run_once(fn, args, given)
    with config.patch(fx_graph_cache=False):
        for backend in STAGES:
            found.tried[backend] = said = outcome(fn, backend, args, given, want)
            if said != "agrees":
                found.backend, found.error = backend, said.removeprefix("raises ") if said.startswith("raises") else ""
                break
        if found.backend == "inductor":
            found.passes = passes_at_fault(found, fn, args, given, want)
            if not found.error:
                find_kernel(found, fn, args, given)
    eval_frame.reset()
    return found


def passes_at_fault(found: Bisection, fn: Any, args: Any, kwargs: Any, want: list[Any]) -> list[str]:
    """Those without which alone the results are right."""
    right = []
    for name in config.PASSES:
        with config.patch(disabled_passes=name):
            said = found.tried[f"inductor without {name}"] = outcome(fn, "inductor", args, kwargs, want)
        if said == "agrees":
            right.append(name)
    return right


def find_kernel(found: Bisection, fn: Any, args: Any, kwargs: Any) -> None:
    """The first kernel that errs by itself, of the first graph whose results differ."""
    seen: list[events.Differed] = []

    def note(event: events.Event) -> None:
        if isinstance(event, events.Differed):
            seen.append(event)

    logging.getLogger("tocha._inductor.verify").setLevel(logging.CRITICAL)
    eval_frame.reset()
    with config.patch(verify="sample"), events.listening(note), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_once(eval_frame.compile(fn), args, kwargs)
    if not seen:
        return
    first = seen[0]
    found.script = first.path
    found.operators = [str(n.target) for n in first.piece.graph.nodes if n.op == "call_function"]
    whole = compile_graph(first.module)
    for kernel in whole.kernels:
        if errs(kernel, first.module, first.args):
            texts = whole.described(first.module)["steps"]
            found.kernel = kernel.name
            found.source = next((s["source"] for s in texts if s["name"] == kernel.name), "")
            return


def errs(kernel: Kernel, module: fx.GraphModule, args: Sequence[Any]) -> bool:
    values = values_of(module, args)
    inside = set(operators_of(kernel))
    nodes = [n for n in module.graph.nodes if n.name in inside]
    results = [n for n in nodes if any(u not in nodes for u in n.users) and isinstance(values[n], Tensor)]
    if not results or not stands_alone(nodes, results, values):
        return False
    piece, inputs = piece_of(module, nodes, values, results)
    return differs(piece, inputs, lambda graph: compile_graph(graph).run)
