"""A loss curve as an SVG picture: each step's loss, and over it a running mean."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

WIDTH, HEIGHT, MARGIN = 720, 360, 48


def write_curve(path: Path, losses: Sequence[float], title: str) -> None:
    """Writes the picture; fewer than two losses draw an empty frame."""
    top = max(losses, default=1.0) or 1.0
    low = min(0.0, min(losses, default=0.0))

    def place(step: float, loss: float) -> str:
        x = MARGIN + step / max(len(losses) - 1, 1) * (WIDTH - 2 * MARGIN)
        y = HEIGHT - MARGIN - (loss - low) / (top - low) * (HEIGHT - 2 * MARGIN)
        return f"{x:.1f},{y:.1f}"

    def line(values: Sequence[float], colour: str, width: float) -> str:
        points = " ".join(place(i, v) for i, v in enumerate(values))
        return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"/>'

    marks = []
    for i in range(5):
        value = low + (top - low) * i / 4
        x, y = place(0, value).split(",")
        marks.append(f'<line x1="{x}" y1="{y}" x2="{WIDTH - MARGIN}" y2="{y}" stroke="#ddd"/>')
        marks.append(f'<text x="{MARGIN - 8}" y="{y}" text-anchor="end" dominant-baseline="middle">{value:.2f}</text>')
    marks.append(f'<text x="{WIDTH - MARGIN}" y="{HEIGHT - MARGIN + 20}" text-anchor="end">{len(losses)} steps</text>')
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" fill="white"/><text x="{MARGIN}" y="24" font-size="14">{escape(title)}</text>'
        + "".join(marks)
        + line(losses, "#b9cdea", 1)
        + line(running_mean(losses), "#1f4e9c", 2)
        + "</svg>\n"
    )


def running_mean(values: Sequence[float], keep: float = 0.95) -> list[float]:
    """Each value blended with those before it, without a bias towards 0 at the start."""
    means, total, weight = [], 0.0, 0.0
    for v in values:
        total, weight = keep * total + v, keep * weight + 1
        means.append(total / weight)
    return means
