"""Times the same call on tocha and PyTorch, turn by turn, and reports the ratio of the least times."""

from __future__ import annotations

import gc
import math
import statistics
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property


@dataclass
class Row:
    group: str
    name: str
    tocha: float  # seconds per call
    torch: float
    target: float | None

    @property
    def ratio(self) -> float:
        return self.torch / self.tocha


class Remote:
    """A call in a process of its own, that answers every number with the seconds per call over so many calls.

    Programs have one library. PyTorch's times in a process that it shares with tocha are not those that it has alone;
    in turns with another process they are.
    """

    def __init__(self, *command: str):
        self.command = command

    @cached_property
    def process(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *self.command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        weakref.finalize(self, process.communicate)
        return process

    def per_call(self, number: int) -> float:
        assert self.process.stdin and self.process.stdout
        print(number, file=self.process.stdin)
        return float(self.process.stdout.readline())


def per_call(f: Callable[[], object] | Remote, number: int) -> float:
    if isinstance(f, Remote):
        return f.per_call(number)
    start = time.perf_counter()
    for _ in range(number):
        f()
    return (time.perf_counter() - start) / number


def calls_for(f: Callable[[], object] | Remote, seconds: float) -> int:
    """How many calls fill about this time."""
    number = 1
    while True:
        elapsed = per_call(f, number) * number
        if elapsed > seconds / 4:
            return max(1, int(number * seconds / max(elapsed, 1e-9)))
        number *= 4


def compare(
    group: str,
    name: str,
    ours: Callable[[], object] | Remote,
    theirs: Callable[[], object] | Remote,
    target: float | None = None,
    rounds: int = 15,
) -> Row:
    """Rounds alternate, so that a noisy neighbour hits both; the least of each side's times is the least disturbed."""
    per_call(ours, 1), per_call(theirs, 1)
    gc.collect()
    gc.disable()
    try:
        seconds = 0.1 if isinstance(ours, Remote) else 0.02
        n_ours, n_theirs = calls_for(ours, seconds), calls_for(theirs, seconds)
        a, b = [], []
        for i in range(rounds):
            first, second = (
                ((ours, n_ours, a), (theirs, n_theirs, b)) if i % 2 else ((theirs, n_theirs, b), (ours, n_ours, a))
            )
            for f, n, times in (first, second):
                time.sleep(0.002)  # lets the other library's threads go to sleep
                times.append(per_call(f, n))
    finally:
        gc.enable()
    return Row(group, name, min(a), min(b), target)


def show(rows: list[Row]) -> None:
    width = max(len(r.name) for r in rows) + 2
    group = None
    for r in rows:
        if r.group != group:
            group = r.group
            mean = math.exp(statistics.fmean(math.log(x.ratio) for x in rows if x.group == group))
            print(f"\n{group}: geometric mean {mean:.2f}x")
            print(f"{'':{width}s}{'tocha':>12s}{'PyTorch':>12s}{'ratio':>9s}{'target':>9s}")
        verdict = "" if r.target is None else f"{r.target:8.2f}x" + ("" if r.ratio >= r.target else "  <--")
        print(f"{r.name:{width}s}{r.tocha * 1e6:10.2f}us{r.torch * 1e6:10.2f}us{r.ratio:8.2f}x{verdict}")
