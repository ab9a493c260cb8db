"""A layered drawing of a directed graph: layers by the longest path, order within a layer by the neighbours, SVG text."""

from __future__ import annotations

import html
from dataclasses import dataclass

_CHARACTER, _LINE, _PADDING = 6.6, 15, 8
_GAP_X, _GAP_Y, _MARGIN = 24, 44, 16
_SWEEPS = 8


@dataclass
class Box:
    """One node of the drawing; layout sets its place."""

    key: str
    lines: list[str]
    color: str
    layer: int = 0
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        return max(len(line) for line in self.lines) * _CHARACTER + 2 * _PADDING

    @property
    def height(self) -> float:
        return len(self.lines) * _LINE + 2 * _PADDING


def _assign_layers(boxes: dict[str, Box], edges: list[tuple[str, str]]) -> None:
    """Every box one layer below the lowest of those that lead to it."""
    into: dict[str, list[str]] = {k: [] for k in boxes}
    out: dict[str, list[str]] = {k: [] for k in boxes}
    for tail, head in edges:
        into[head].append(tail)
        out[tail].append(head)
    waiting = {k: len(v) for k, v in into.items()}
    ready = [k for k in boxes if waiting[k] == 0]
    while ready:
        key = ready.pop(0)
        boxes[key].layer = max((boxes[t].layer + 1 for t in into[key]), default=0)
        for head in out[key]:
            waiting[head] -= 1
            if waiting[head] == 0:
                ready.append(head)
    # A box nothing leads to goes next to what uses it.
    for key in boxes:
        if not into[key] and out[key]:
            boxes[key].layer = min(boxes[h].layer for h in out[key]) - 1


def _order_layers(boxes: dict[str, Box], edges: list[tuple[str, str]]) -> list[list[Box]]:
    """Within a layer, by the mean place of the neighbours: down and up again until it settles."""
    layers: list[list[Box]] = [[] for _ in range(max((b.layer for b in boxes.values()), default=-1) + 1)]
    for box in boxes.values():
        layers[box.layer].append(box)
    near: dict[str, list[str]] = {k: [] for k in boxes}
    for tail, head in edges:
        near[tail].append(head)
        near[head].append(tail)
    place = {b.key: float(i) for layer in layers for i, b in enumerate(layer)}
    for sweep in range(_SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            mean = {b.key: sum(place[n] for n in near[b.key]) / len(near[b.key]) for b in layer if near[b.key]}
            layer.sort(key=lambda b, m=mean: m.get(b.key, place[b.key]))  # type: ignore[misc]
            place.update({b.key: float(i) for i, b in enumerate(layer)})
    return layers


def layout(boxes: list[Box], edges: list[tuple[str, str]]) -> None:
    """Sets the place of every box."""
    by_key = {b.key: b for b in boxes}
    _assign_layers(by_key, edges)
    layers = _order_layers(by_key, edges)
    widths = [sum(b.width for b in layer) + _GAP_X * (len(layer) - 1) for layer in layers]
    total = max(widths, default=0.0)
    y = float(_MARGIN)
    for layer, width in zip(layers, widths):
        x = _MARGIN + (total - width) / 2
        for box in layer:
            box.x, box.y = x, y
            x += box.width + _GAP_X
        y += max((b.height for b in layer), default=0) + _GAP_Y


def svg(title: str, boxes: list[Box], edges: list[tuple[str, str]]) -> str:
    """The picture of boxes that have their places."""
    by_key = {b.key: b for b in boxes}
    width = max((b.x + b.width for b in boxes), default=0.0) + _MARGIN
    height = max((b.y + b.height for b in boxes), default=0.0) + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="11">',
        f"<title>{html.escape(title)}</title>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z"/></marker></defs>',
    ]
    for tail, head in edges:
        a, b = by_key[tail], by_key[head]
        x0, y0, x1, y1 = a.x + a.width / 2, a.y + a.height, b.x + b.width / 2, b.y
        middle = (y0 + y1) / 2
        curve = f"M{x0:.1f} {y0:.1f} C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
        parts.append(f'<path d="{curve}" fill="none" stroke="#555" marker-end="url(#arrow)"/>')
    for box in boxes:
        parts.append(
            f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="6" '
            f'fill="{box.color}" stroke="#333"/>'
        )
        for i, line in enumerate(box.lines):
            y = box.y + _PADDING + (i + 0.75) * _LINE
            parts.append(f'<text x="{box.x + _PADDING:.1f}" y="{y:.1f}">{html.escape(line)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
