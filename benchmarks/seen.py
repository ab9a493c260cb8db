"""What looking costs: an operator with the profiler on, against PyTorch's; the history of memory; the report of the demo's GPT.

python benchmarks/seen.py
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models

CALLS = 2000
ROUNDS = 7
MICROSECONDS = 2.0  # that the profiler may add to an operator
MEGABYTES, SECONDS, OPEN = 3.0, 1.0, 1.0  # of the report
NODES = 2000


def per_call(run: Callable[[], Any]) -> float:
    """Microseconds of one call: the median of some rounds."""
    found = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(CALLS):
            run()
        found.append((time.perf_counter() - began) / CALLS * 1e6)
    return statistics.median(found)


def profiler_cost(library: Any) -> tuple[float, float]:
    """(plain, added by the profiler) of an addition of small tensors."""
    x = library.ones(8)
    run = lambda: x + x  # noqa: E731
    plain = per_call(run)
    found = []
    for _ in range(ROUNDS):
        with library.profiler.profile():
            began = time.perf_counter()
            for _ in range(CALLS):
                run()
            found.append((time.perf_counter() - began) / CALLS * 1e6)
    return plain, statistics.median(found) - plain


def history_cost(tocha: Any) -> tuple[float, float]:
    x = tocha.ones(8)
    run = lambda: x + x  # noqa: E731
    plain = per_call(run)
    memory = tocha.cpu.memory
    memory._record_memory_history(max_entries=1000)
    kept = per_call(run)
    memory._record_memory_history(enabled=None)
    return plain, kept - plain


def report_of_demo(folder: str, tocha: Any) -> tuple[Path, float]:
    """The GPT that make demo trains, one step: the page, and the seconds of making it from what was collected."""
    example = models.load(tocha)
    config = example.GPTConfig()
    model = example.GPT(config)
    tokens = tocha.randint(config.vocabulary, (16, config.context + 1))
    report = tocha.compiler.report(Path(folder) / "demo.html")
    tocha.compile(model.loss)(tokens[:, :-1], tokens[:, 1:]).backward()
    report.close()
    began = time.perf_counter()
    return report.write(), time.perf_counter() - began


def large_report(folder: str, tocha: Any) -> tuple[Path, float]:
    """A graph of 2,000 nodes: the page, and the seconds of making it from what was collected."""
    from tocha._logging import events
    from tocha._logging.collect import Collector
    from tocha.compiler._report import Report

    def deep(x: Any) -> Any:
        for _ in range(NODES // 2):
            x = (x + 1).sin()
        return x

    collector = Collector()
    with events.listening(collector):
        tocha.compile(deep, backend="eager")(tocha.ones(2))
    report = Report(Path(folder) / "large.html")
    report.close()
    report.collector = collector
    began = time.perf_counter()
    return report.write(), time.perf_counter() - began


def seconds_to_open(path: Path) -> float | None:
    """In a real browser, until the graph is drawn; None where there is none."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if browser is None:
        return None
    with sync_playwright() as p:
        started = p.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        started.new_page().goto("about:blank")
        page = started.new_page()
        began = time.perf_counter()
        page.goto(path.as_uri())
        page.get_by_role("tab", name="Graphs").click()
        page.locator(".graph [data-node]").first.wait_for()
        took = time.perf_counter() - began
        started.close()
    return took


def line(what: str, figure: str, target: str) -> None:
    print(f"  {what:<58} {figure:>12}   {target}")


def show() -> None:
    import tocha
    import tocha.profiler

    print("\nwhat looking costs")
    plain, added = profiler_cost(tocha)
    line("profiler, added to an addition of small tensors", f"{added:.2f} us", f"at most {MICROSECONDS:.0f} us (plain: {plain:.2f} us)")  # fmt: skip
    if os.environ.get("TOCHA_ALONE") is None:
        import torch
        import torch.profiler

        plain, added = profiler_cost(torch)
        line("PyTorch's profiler, added to the same", f"{added:.2f} us", f"(plain: {plain:.2f} us)")
    plain, added = history_cost(tocha)
    line("history of memory, added to the same", f"{added:.2f} us", "")
    with tempfile.TemporaryDirectory() as folder:
        path, wrote = report_of_demo(folder, tocha)
        line("report of the demo's GPT", f"{path.stat().st_size / 2**20:.2f} MB", f"at most {MEGABYTES:.0f} MB")
        line("  made in", f"{wrote:.3f} s", f"under {SECONDS:.0f} s")
        path, wrote = large_report(folder, tocha)
        line(f"report of {NODES} nodes made in", f"{wrote:.3f} s", f"under {SECONDS:.0f} s")
        opened = seconds_to_open(path)
        line("  opened in a browser in", "no browser" if opened is None else f"{opened:.3f} s", f"under {OPEN:.0f} s")


if __name__ == "__main__":
    show()
