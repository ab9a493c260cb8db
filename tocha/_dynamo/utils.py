"""Counts of what capture has done, for tests and for people."""

from __future__ import annotations

import collections
from typing import Any

from tocha import _C
from tocha._dynamo import convert

counters: collections.defaultdict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)


def _count(event: str, what: Any, detail: Any) -> None:
    if event == "graph":
        counters["stats"]["unique_graphs"] += 1
        counters["stats"]["calls_captured"] += sum(n.op.startswith("call_") for n in what.graph.nodes)
    elif event == "break":
        counters["graph_break"][detail.detail] += 1
    elif event == "recompile":
        counters["recompiles"][what.co_qualname] += 1
    elif event in ("total", "ok"):
        counters["frames"][event] += 1


convert.LISTENERS.append(_count)


def is_compile_supported(device_type: Any) -> bool:
    """Whether functions on a type of device can be compiled.

    >>> is_compile_supported("cpu")
    True
    """
    return _C.device(device_type).type == "cpu"
