"""A compiled graph as plain data: its kernels with operators, bytes, FLOPs and source, native calls, the memory plan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from tocha import fx
from tocha._functorch.costs import work
from tocha.ir import symbolic as s
from tocha.ir.kernels import Item, Kernel
from tocha.ir.loops import Buffer, Call, Followed, Loop
from tocha.ir.memory import MemoryPlan, last_uses, nbytes, used
from tocha.ir.node import CONSTANT, INPUT, PARAM, topological


def loops_of(kernel: Kernel) -> list[Loop]:
    """Of a kernel that is several, all."""
    return list({id(loop): loop for k in (kernel, *kernel.parts) for loop in k.loops}.values())


def operators_of(kernel: Kernel) -> list[str]:
    """The nodes of the graph that a kernel computes, in order."""
    return list(dict.fromkeys(name for loop in loops_of(kernel) for name in loop.origins))


def kernel_names(items: Sequence[Item]) -> tuple[str, ...]:
    """What profilers call products, convolutions and kernels, in the order of the program: the operators in them."""
    after = {k.after: k for k in items if isinstance(k, Kernel) and k.after is not None}
    names = []
    for i in items:
        if isinstance(i, Followed):
            names.append(i.name + (f" and {named(after[i])}" if i in after else ""))
        elif isinstance(i, Kernel) and i.after is None:
            names.append(named(i))
    return tuple(names)


def named(k: Kernel) -> str:
    return f"{k.name}({', '.join(operators_of(k))})"


def total_bytes(buffers: Iterable[Buffer]) -> int | None:
    """None where a size is known only when the program runs."""
    sizes = [nbytes(b) for b in buffers]
    return None if None in sizes else sum(n for n in sizes if n is not None)


def bytes_of(item: Item) -> int:
    """What an item reads and writes, where sizes are known: of a view nothing."""
    if not isinstance(item, Kernel) and item.is_view:
        return 0
    return total_bytes(dict.fromkeys(used(item))) or 0


def flops(loop: Loop) -> int | None:
    """Operations on elements, one for each node of the formulas and folds."""
    points = s.product(loop.sizes)
    if not isinstance(points, int):
        return None
    roots = (*loop.formulas, *(loop.fold.combine if loop.fold else ()))
    return points * sum(n.op not in (INPUT, CONSTANT, PARAM) for n in topological(roots))


def sources(source: str) -> dict[str, str]:
    """The text of each kernel's function, by the names of all kernels that it is for."""
    found = {}
    for m in re.finditer(r"((?:^// [^\n]*\n)*)^(void (kernel_\d+)\(.*?^})", source, re.M | re.S):
        for name in (m[3], *re.findall(r"^// (kernel_\d+): ", m[1], re.M)):
            found[name] = m[2]
    return found


def described_kernel(k: Kernel, texts: dict[str, str]) -> dict[str, Any]:
    counts = [flops(loop) for loop in loops_of(k)]
    return {
        "name": k.name,
        "kind": k.kind,
        "operators": operators_of(k),
        "bytes": total_bytes(b for b in dict.fromkeys(used(k))),
        "saved": total_bytes(k.inner),  # what fusing keeps out of memory
        "flops": None if None in counts else sum(n for n in counts if n is not None),
        "loops": [repr(loop) for loop in loops_of(k)],
        "source": texts.get(k.name, ""),
    }


def described_call(c: Call, nodes: dict[str, fx.Node]) -> dict[str, Any]:
    from_node = nodes.get(c.origins[0]) if c.origins else None
    buffers = dict.fromkeys([*(g.buffer for g in c.tensors), *(r for r in c.results if r is not None)])
    return {
        "name": c.name, "kind": "call", "operators": list(c.origins), "bytes": total_bytes(buffers), "saved": 0,
        "flops": work(from_node) if from_node is not None else None, "loops": [repr(c)], "source": "",
    }  # fmt: skip


def described_memory(items: Sequence[Item], plan: MemoryPlan) -> dict[str, Any]:
    """Every value that has memory: how much, where, and from which to which step."""
    first: dict[Buffer, int] = {}
    for i, item in enumerate(items):
        for b in used(item):
            first.setdefault(b, i)
    rows = []
    for b, end in last_uses(items).items():
        place = "input" if b.producer is None else "arena" if b in plan.offsets else "tensor"
        if b in plan.written:
            place = "written input"
        elif b in plan.reused:
            place = "reused"
        rows.append(
            {"name": b.name, "bytes": nbytes(b), "first": first[b], "last": end, "place": place, "offset": plan.offsets.get(b)}
        )  # fmt: skip
    return {"arena": plan.arena, "steps": len(items), "buffers": sorted(rows, key=lambda r: (r["first"], r["name"]))}


def described(items: Sequence[Item], plan: MemoryPlan, source: str, module: fx.GraphModule) -> dict[str, Any]:
    texts, nodes = sources(source), {n.name: n for n in module.graph.nodes}
    steps = [described_kernel(i, texts) if isinstance(i, Kernel) else described_call(i, nodes) for i in items]
    return {"steps": steps, "memory": described_memory(items, plan), "source": source}
