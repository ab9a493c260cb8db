"""The report: everything that was compiled as one page that needs nothing else. docs/guide/report.md shows it."""

from __future__ import annotations

import atexit
import json
import linecache
import os
import platform
import threading
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tocha
from tocha._logging import events, recording
from tocha._logging.collect import Collector, Compilation, Graph
from tocha._logging.layout import places_of

HERE = Path(__file__).parent
AROUND = 3  # lines before and after those that are marked
LISTENS = 2.0  # seconds for which kernels are timed after each compilation


class Report:
    """Records from now on; written when it is left, when `write` is called, and at the end of the program.

    >>> import tempfile, tocha
    >>> with tempfile.TemporaryDirectory() as folder, Report(f"{folder}/report.html") as made:
    ...     _ = tocha.compile(lambda x: x.sin(), backend="eager")(tocha.ones(2))
    >>> len(made.collector.compilations)
    1
    """

    def __init__(self, path: str | os.PathLike[str], compare_with: str | os.PathLike[str] | None = None) -> None:
        self.path, self.compare_with = Path(path), compare_with
        self.collector = Collector()
        self.took: Counter[str] = Counter()  # nanoseconds of each kernel
        self.ran: Counter[str] = Counter()
        self.timer: threading.Timer | None = None
        events.add(self.listen, thorough=True)
        atexit.register(self.write)

    def listen(self, event: events.Event) -> None:
        self.collector(event)
        if isinstance(event, events.ProgramMade):
            self.time_kernels()

    def time_kernels(self) -> None:
        """For a while: what a long training does later is not recorded."""
        if self.timer is None and recording.take(self, operators=False):
            self.timer = threading.Timer(LISTENS, self.stop_timing)
            self.timer.daemon = True
            self.timer.start()

    def stop_timing(self) -> None:
        timer, self.timer = self.timer, None
        if timer is not None:
            timer.cancel()
        for name, kind, begin, end, *_ in recording.give(self):
            if kind == "kernel" and end:
                self.took[name] += end - begin
                self.ran[name] += 1

    def write(self) -> Path:
        self.stop_timing()
        self.path.write_text(page(self.data()))
        return self.path

    def close(self) -> None:
        events.remove(self.listen)
        atexit.unregister(self.write)

    def __enter__(self) -> Report:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
        self.write()

    def data(self) -> dict[str, Any]:
        compilations = self.collector.compilations
        for c in compilations:
            for k in c.kernels:
                name = f"{k['name']}({', '.join(k['operators'])})"
                k["us"] = self.took[name] / max(1, self.ran[name]) / 1e3
        files, marks = sources(compilations)
        other = data_of(Path(self.compare_with)) if self.compare_with else None
        return {
            "version": tocha.__version__, "machine": f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}",
            "made": time.strftime("%Y-%m-%d %H:%M:%S"), "peak": peak(), "files": files, "marks": marks, "other": other,
            "compilations": [as_data(c) for c in compilations],
        }  # fmt: skip


def report(path: str | os.PathLike[str], compare_with: str | os.PathLike[str] | None = None) -> Report:
    """Records what is compiled from now on, for a page at `path`: with `with`, until the block ends, else until the program does.

    `compare_with` is another report, whose figures are shown beside these.
    """
    return Report(path, compare_with)


def as_data(c: Compilation) -> dict[str, Any]:
    """A compilation, with the places of nodes."""
    made = asdict(c)
    made["graphs"] = [placed(g) for g in c.graphs]
    return made


def placed(g: Graph) -> dict[str, Any]:
    places = places_of({n.name: n.inputs for n in g.nodes})
    nodes = []
    for n in g.nodes:
        x, y = places[n.name]
        place = asdict(n.place) if n.place else None
        nodes.append({"name": n.name, "op": n.op, "target": n.target, "inputs": n.inputs, "value": n.value, "bytes": n.bytes, "place": place, "x": x, "y": y})  # fmt: skip
    return {"stage": g.stage, "code": g.code, "nodes": nodes}


def sources(compilations: list[Compilation]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Lines of the program around those that were captured or broke a graph, and what happened at each."""
    library = str(Path(tocha.__file__).parent) + os.sep
    marks: dict[str, dict[int, dict[str, list]]] = {}

    def mark(file: str, line: int) -> dict[str, list]:
        return marks.setdefault(file, {}).setdefault(line, {"ops": [], "breaks": []})

    for c in compilations:
        if not c.file.startswith(library):
            mark(c.file, c.line)
        for g in c.captured:
            for n in g.calls:
                if n.place and not n.place.file.startswith(library) and n.name not in (ops := mark(n.place.file, n.place.line)["ops"]):  # fmt: skip
                    ops.append(n.name)
        for b in c.breaks:
            inside = [p for p in b.stack if not p.file.startswith(library)]
            if inside:
                known = mark(inside[-1].file, inside[-1].line)["breaks"]
                found = {"number": b.number, "name": b.name, "reason": b.reason, "hint": b.hint}
                if found not in known:
                    known.append(found)
    return {f: {"spans": spans(f, sorted(lines))} for f, lines in marks.items()}, marks


def spans(file: str, lines: list[int]) -> list[tuple[int, list[str]]]:
    """Runs of lines around these, each with the number of its first."""
    text = [x.rstrip("\n") for x in linecache.getlines(file)]
    found: list[tuple[int, int]] = []
    for n in lines:
        low, high = max(1, n - AROUND), min(len(text), n + AROUND)
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        elif low <= high:
            found.append((low, high))
    return [(low, text[low - 1 : high]) for low, high in found]


def peak() -> dict[str, float]:
    """What the machine does at best, for rooflines: GB/s of copying and GFLOP/s of a matrix product, measured."""

    def best(run: Any, times: int = 3) -> float:
        found = []
        for _ in range(times):
            began = time.perf_counter()
            run()
            found.append(time.perf_counter() - began)
        return max(min(found), 1e-9)

    with tocha.no_grad():
        a, b, m = tocha.ones(1 << 22), tocha.ones(1 << 22), tocha.ones(384, 384)
        return {
            "bandwidth": 2 * a.numel() * 4 / best(lambda: b.copy_(a)) / 1e9,
            "flops": 2 * 384**3 / best(lambda: m @ m) / 1e9,
        }


def page(data: dict[str, Any]) -> str:
    return filled("page", data)


def filled(name: str, data: dict[str, Any]) -> str:
    """A page with its style, data and script in it."""
    text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    parts = {
        "/*STYLE*/": (HERE / "style.css").read_text(),
        "/*DATA*/": text,
        "/*SCRIPT*/": (HERE / f"{name}.js").read_text(),
    }
    made = (HERE / f"{name}.html").read_text()
    for place, content in parts.items():
        before, after = made.split(place, 1)
        made = before + content + after
    return made


def data_of(path: Path) -> dict[str, Any]:
    """What a report was made of."""
    text = path.read_text()
    start = text.index('id="data">') + len('id="data">')
    return json.loads(text[start : text.index("</script>", start)])
