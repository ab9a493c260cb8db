"""Averages of events as text, in the columns that PyTorch's profiler has."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

WIDTH = 12  # of figures
GAP = "  "
UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}


def shown_time(us: float, unit: str | None = None) -> str:
    """
    >>> shown_time(1551.0), shown_time(12.5), shown_time(1551.0, "us")
    ('1.551ms', '12.500us', '1551.000us')
    """
    unit = unit or next((u for u, size in UNITS.items() if us >= size), "us")
    return f"{us / UNITS[unit]:.3f}{unit}"


def shown_memory(n: int) -> str:
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(n) >= size:
            return f"{n / size:.2f} {unit}"
    return f"{n} B"


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def flops_unit(rows: Sequence[Any]) -> tuple[str, float]:
    """A unit in which the largest figure has less than six digits before the point."""
    units = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")
    most = max((e.flops for e in rows), default=0)
    at = max(0, min(len(units) - 1, int(math.log10(most) / 3))) if most > 0 else 0
    return units[at], 10.0 ** (3 * at)


def table(
    events: Any, sort_by: str | None, row_limit: int, src_width: int, name_width: int, shapes_width: int, header: str | None,
    top_level_only: bool, time_unit: str | None,
) -> str:  # fmt: skip
    if not events:
        return ""
    rows = list(events)
    if sort_by is not None:
        for device in ("cuda", "xpu", "privateuse1"):
            sort_by = sort_by.replace(device, "device")
        rows.sort(key=lambda e: getattr(e, sort_by), reverse=True)
    columns: list[tuple[str, int, Callable[[Any], str]]] = [
        ("Name", min(name_width, max(len(e.key) for e in rows) + 4), lambda e: cut(e.key, name_width))
    ]

    def figure(title: str, show: Callable[[Any], str]) -> None:
        columns.append((title, WIDTH, show))

    def share(part: float, whole: float) -> str:
        return f"{100 * part / whole:.2f}%" if whole else "NaN" if part else "0.00%"

    total = events.self_cpu_time_total
    figure("Self CPU %", lambda e: share(e.self_cpu_time_total, total))
    figure("Self CPU", lambda e: shown_time(e.self_cpu_time_total, time_unit))
    figure("CPU total %", lambda e: share(e.cpu_time_total, total))
    figure("CPU total", lambda e: shown_time(e.cpu_time_total, time_unit))
    figure("CPU time avg", lambda e: shown_time(e.cpu_time, time_unit))
    if events.profile_memory:
        figure("CPU Mem", lambda e: shown_memory(e.cpu_memory_usage))
        figure("Self CPU Mem", lambda e: shown_memory(e.self_cpu_memory_usage))
    figure("# of Calls", lambda e: str(e.count))
    if any(e.input_shapes for e in rows):
        width = min(shapes_width, max(len(str(e.input_shapes)) for e in rows) + 4)
        columns.append(("Input Shapes", width, lambda e: str(e.input_shapes)[:width]))
    lines_of = any(e.stack for e in rows)
    if lines_of:
        wide = min(src_width, max(len(line) for e in rows for line in e.stack) + 4)
        columns.append(("Source Location", wide, lambda e: src(e.stack[0], wide) if e.stack else ""))
    if events.with_flops:
        unit, scale = flops_unit(rows)
        figure(f"Total {unit}", lambda e: f"{e.flops / scale:.3f}" if e.flops > 0 else "--")
    rule = "".join("-" * width + GAP for _, width, _ in columns)
    made = []
    if header is not None:
        made += ["=" * len(rule), header]
    if top_level_only:
        made += ["=" * len(rule), "This report only display top-level ops statistics"]
        rows = [e for e in rows if e.cpu_parent is None]
    made += [rule, "".join(f"{title:>{width}}" + GAP for title, width, _ in columns), rule]
    for e in rows if row_limit < 0 else rows[:row_limit]:
        made.append("".join(f"{show(e):>{width}}" + GAP for _, width, show in columns))
        if lines_of:
            made += more_lines(e, columns)
    return "\n".join([*made, rule, f"Self CPU time total: {shown_time(total, time_unit)}", ""])


def src(line: str, width: int) -> str:
    """The end of a line is what tells it apart."""
    return line if len(line) <= width else "..." + line[3 - width :]


def more_lines(e: Any, columns: list[tuple[str, int, Callable[[Any], str]]]) -> list[str]:
    """The rest of a stack below its first line."""
    texts = [[src(line, width) if title == "Source Location" else "" for title, width, _ in columns] for line in e.stack[1:]]  # fmt: skip
    return ["".join(f"{t:>{width}}" + GAP for t, (_, width, _) in zip(row, columns)) for row in texts]
