"""Checkpointed regions of graphs: their nodes say that backward computes them again, and the partitioner does as they say."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from tocha.fx import Node
from tocha.fx.experimental.proxy_tensor import get_proxy_mode
from tocha.fx.node import map_arg
from tocha.utils._selective_checkpoint import CheckpointPolicy, asked

_regions = itertools.count(1)


def tagged(function: Callable, context_fn: Callable | None, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Runs a checkpointed function while somebody traces: `meta["recompute"]` of its nodes is the policy, `meta["ac_graph_id"]` its number."""
    mode = get_proxy_mode()
    assert mode is not None, "somebody traces"
    graph = mode.tracer.graph
    before = set(graph.nodes)
    policy_fn = getattr(context_fn()[0], "policy_fn", None) if context_fn is not None else None
    out = function(*args, **kwargs)
    region = next(_regions)
    for n in graph.nodes:
        if n not in before and n.op == "call_function" and "ac_graph_id" not in n.meta:
            n.meta["recompute"] = policy_of(n, policy_fn)
            n.meta["ac_graph_id"] = region
    return out


def policy_of(n: Node, policy_fn: Callable | None) -> CheckpointPolicy:
    if policy_fn is None:
        return CheckpointPolicy.PREFER_RECOMPUTE
    args, kwargs = (map_arg(v, lambda m: m.meta.get("val")) for v in (n.args, n.kwargs))
    return asked(policy_fn, n.meta.get("val"), n.target, tuple(args), dict(kwargs))
