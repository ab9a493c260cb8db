"""Where the nodes of a graph are drawn: in layers from inputs to results, near what they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

Graph = Mapping[str, Sequence[str]]  # a node: what it reads; in the graph's own order
WIDTH, HEIGHT = 190, 64


def layers_of(graph: Graph) -> dict[str, int]:
    """Each node below all that it reads; what reads nothing just above its first reader."""
    layer: dict[str, int] = {}
    for name, inputs in graph.items():
        layer[name] = 1 + max((layer[i] for i in inputs if i in layer), default=-1)
    first: dict[str, int] = {}
    for name, inputs in graph.items():
        for i in inputs:
            first[i] = min(first.get(i, layer[name]), layer[name])
    return {n: max(0, first[n] - 1) if not graph[n] and n in first else at for n, at in layer.items()}


def places_of(graph: Graph) -> dict[str, tuple[int, int]]:
    """Column and layer of every node; no two are at one place."""
    layer = layers_of(graph)
    rows: dict[int, list[str]] = {}
    for name in graph:
        rows.setdefault(layer[name], []).append(name)
    readers: dict[str, list[str]] = {}
    for name, inputs in graph.items():
        for i in inputs:
            readers.setdefault(i, []).append(name)
    column: dict[str, int] = {}
    for at in sorted(rows):
        wishes = {}
        for name in rows[at]:
            around = [column[i] for i in graph[name] if i in column] or [column[r] for r in readers.get(name, []) if r in column]  # fmt: skip
            wishes[name] = sum(around) / len(around) if around else 0.0
        taken: set[int] = set()
        for name in sorted(rows[at], key=lambda n: wishes[n]):
            wish = round(wishes[name])
            place = next(p for d in range(len(rows[at]) + 1) for p in (wish + d, wish - d) if p not in taken)
            taken.add(place)
            column[name] = place
    left = min(column.values(), default=0)
    return {n: (column[n] - left, layer[n]) for n in graph}


def svg(graph: Graph, texts: Mapping[str, str]) -> str:
    """The graph as a drawing."""
    places = places_of(graph)
    wide = (max((c for c, _ in places.values()), default=0) + 1) * WIDTH
    high = (max((row for _, row in places.values()), default=0) + 1) * HEIGHT
    lines, boxes = [], []
    for name, (c, row) in places.items():
        x, y = c * WIDTH + 8, row * HEIGHT + 8
        for i in graph[name]:
            if i in places:
                fx, fy = places[i][0] * WIDTH + WIDTH // 2, places[i][1] * HEIGHT + HEIGHT - 16
                lines.append(
                    f'<path d="M{fx} {fy} C{fx} {fy + 14} {x + WIDTH // 2 - 8} {y - 14} {x + WIDTH // 2 - 8} {y}"/>'
                )
        boxes.append(f'<g><title>{escape(texts[name])}</title><rect x="{x}" y="{y}" width="{WIDTH - 16}" height="{HEIGHT - 24}" rx="5"/><text x="{x + 8}" y="{y + 24}">{escape(name[:24])}</text></g>')  # fmt: skip
    style = "path{fill:none;stroke:#888}rect{fill:#eef3fb;stroke:#5b7db1}text{font:13px monospace}"
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}"><style>{style}</style>{"".join(lines)}{"".join(boxes)}</svg>'  # fmt: skip
