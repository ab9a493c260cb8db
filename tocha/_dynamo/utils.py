"""Counts of what capture has done, for tests and for people."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterator
from typing import Any

from tocha import _C
from tocha._core import switches
from tocha._dynamo import config
from tocha._dynamo.comparing import checkpoint_params as checkpoint_params
from tocha._dynamo.comparing import clone_input as clone_input
from tocha._dynamo.comparing import clone_inputs as clone_inputs
from tocha._dynamo.comparing import clone_tensor as clone_tensor
from tocha._dynamo.comparing import preserve_rng_state as preserve_rng_state
from tocha._dynamo.comparing import rmse as rmse
from tocha._dynamo.comparing import same as same
from tocha._dynamo.comparing import timed as timed
from tocha._logging import events
from tocha._logging.collect import HISTORY

counters: collections.defaultdict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)


def _count(event: events.Event) -> None:
    match event:
        case events.CaptureBegan():
            counters["frames"]["total"] += 1
        case events.CaptureEnded(error=None):
            counters["frames"]["ok"] += 1
        case events.GraphCaptured(module=module):
            counters["stats"]["unique_graphs"] += 1
            counters["stats"]["calls_captured"] += sum(n.op.startswith("call_") for n in module.graph.nodes)
        case events.GraphBroke(refused=refused):
            counters["graph_break"][refused.detail] += 1
        case events.Recompiled(code=code):
            counters["recompiles"][code.co_qualname] += 1
        case events.CacheAsked(kind="graphs", hit=hit):
            counters["inductor"]["fxgraph_cache_hit" if hit else "fxgraph_cache_miss"] += 1
        case events.ProgramMade(compiled=compiled):
            counters["inductor"]["kernels"] += len(compiled.kernels)


@contextlib.contextmanager
def dynamo_timed(key: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """The block is a named piece of work, of which `compile_times` tells."""
    with events.stage(key):
        yield


def detect_fake_mode(inputs: Any = None) -> Any:
    """The fake mode that is active, or that these tensors belong to."""
    from tocha._guards import detect_fake_mode  # fake tensors are loaded when somebody asks

    return detect_fake_mode(inputs)


def ifdynstaticdefault(count1: Any, count2: Any) -> Any:
    """The first where sizes are numbers until they change, else the second.

    >>> ifdynstaticdefault(1, 3)
    1
    """
    return count1 if config.assume_static_by_default else count2


def count_calls(graph: Any) -> int:
    """How many nodes of a graph call something.

    >>> from tocha.fx import symbolic_trace
    >>> count_calls(symbolic_trace(lambda x: x.sin() + 1).graph)
    2
    """
    return sum(n.op.startswith("call_") for n in graph.nodes)


def is_namedtuple(obj: Any) -> bool:
    """Whether it is a tuple with names, the library's own among them.

    >>> is_namedtuple(collections.namedtuple("Pair", "a b")(1, 2)), is_namedtuple((1, 2))
    (True, False)
    """
    return isinstance(obj, tuple) and (hasattr(obj, "_fields") or hasattr(type(obj), "n_sequence_fields"))


def hashable(x: Any) -> bool:
    """Whether it can be a key.

    >>> hashable(1), hashable([])
    (True, False)
    """
    try:
        hash(x)
    except TypeError:
        return False
    return True


def identity(x: Any) -> Any:
    return x


def istype(obj: object, allowed_types: Any) -> bool:
    """Is it of this type, or one of these, itself and not of a subclass?

    >>> istype(True, int), istype(1, (int, str))
    (False, True)
    """
    return type(obj) in allowed_types if isinstance(allowed_types, (tuple, list, set)) else type(obj) is allowed_types


def is_compile_supported(device_type: Any) -> bool:
    """Whether functions on a type of device can be compiled.

    >>> is_compile_supported("cpu")
    True
    """
    return _C.device(device_type).type == "cpu"


def compile_times(repr: str = "str", aggregate: bool = False) -> Any:
    """How long each stage of compiling took: as a table, or ("csv") as its head and its rows."""
    times = {name: [sum(seconds)] if aggregate else seconds for name, seconds in events.TIMES.items()}
    rows = [(name, ", ".join(f"{s:.4f}" for s in seconds)) for name, seconds in times.items()]
    if repr == "csv":
        return [name for name, _ in rows], [text for _, text in rows]
    assert repr == "str", f"compile_times: 'str' or 'csv', got {repr!r}"
    width = max([len("Function"), *(len(name) for name, _ in rows)])
    lines = [f"{name:<{width}}  {text}" for name, text in [("Function", "Runtimes (s)"), *rows]]
    return "\n".join(["TorchDynamo compilation metrics:", *lines])


def warn_once(msg: str, stacklevel: int = 1) -> None:
    """A warning that comes once in a program."""
    switches.warn_once(msg, stacklevel=stacklevel + 1)


events.add(_count)
events.add(HISTORY)
