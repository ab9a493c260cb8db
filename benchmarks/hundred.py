"""A hundred cases drawn from the catalogue's operators, sizes and directions, timed on tocha and PyTorch in turns.

python benchmarks/hundred.py                      # the hundred
python benchmarks/hundred.py --seed 7             # another hundred
python benchmarks/hundred.py --match 'flip|inv'   # every case of the catalogue whose family or name matches
python benchmarks/hundred.py --json FILE --markdown FILE
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from catalogue import SIZES, Case, cases

SEED = 11
COUNT = 100
ROUNDS = 21
REST = 0.025  # seconds: PyTorch's threads stay awake for some milliseconds after their work, on the same processors


@dataclass(frozen=True)
class Timing:
    family: str
    name: str
    size: str
    tocha: float  # seconds per call
    torch: float

    @property
    def ratio(self) -> float:
        return self.torch / self.tocha


def draw(seed: int, count: int = COUNT) -> list[Case]:
    """One case of every family, then any."""
    rng = random.Random(seed)
    everything = cases()
    rng.shuffle(everything)
    families: dict[str, Case] = {}
    for case in everything:
        families.setdefault(case.operator.family, case)
    first = list(families.values())
    rest = [case for case in everything if case not in first]
    return sorted([*first, *rest][:count], key=lambda c: (c.operator.family, c.name))


def serve(module: str, threads: int) -> None:
    """Answers lines of (case, number of calls) with the seconds per call: of one thread those that it ran, whoever
    else had the processor.
    """
    m = importlib.import_module(module)
    m.set_num_threads(threads)
    known = {case.name: case for case in cases()}
    clock = time.process_time if threads == 1 else time.perf_counter
    name, call = "", None
    for line in sys.stdin:
        wanted, number = json.loads(line)
        if wanted != name:
            m.manual_seed(0)
            name, call = wanted, known[wanted].make(m)
        print(per_call(call, number, clock), flush=True)


def per_call(call: Callable[[], object], number: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(number):
        call()
    return (clock() - start) / number


class Library:
    """A library in a process of its own, as programs have it."""

    def __init__(self, module: str, threads: int):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", module, "--threads", str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def per_call(self, case: Case, number: int) -> float:
        assert self.process.stdin and self.process.stdout
        print(json.dumps([case.name, number]), file=self.process.stdin)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{case.name} failed")
        return float(answer)

    def calls_for(self, case: Case, seconds: float) -> int:
        """How many calls fill about this time."""
        number = 1
        self.per_call(case, number)
        while True:
            elapsed = self.per_call(case, number) * number
            if elapsed > seconds / 4:
                return max(1, int(number * seconds / elapsed))
            number *= 4


def compare(case: Case, ours: Library, theirs: Library, rounds: int, seconds: float) -> Timing:
    """Rounds of so many seconds alternate, so that a noisy neighbour hits both; between them the other's threads go to
    sleep."""
    sides = [(library, library.calls_for(case, seconds), []) for library in (ours, theirs)]
    for i in range(rounds):
        for library, number, times in sides[:: 1 if i % 2 else -1]:
            time.sleep(REST)
            times.append(library.per_call(case, number))
    a, b = (statistics.median(times) for _, _, times in sides)
    return Timing(case.operator.family, case.name, SIZES[case.size], a, b)


def geometric_mean(rows: Iterable[Timing]) -> float:
    return math.exp(statistics.fmean(math.log(r.ratio) for r in rows))


def summary(rows: list[Timing]) -> str:
    behind = sorted((r for r in rows if r.ratio < 1), key=lambda r: r.ratio)
    worst = f", the least {behind[0].ratio:.2f}x ({behind[0].name})" if behind else ""
    return f"{len(rows)} cases: geometric mean {geometric_mean(rows):.2f}x, {len(behind)} below 1x{worst}"


def markdown(rows: list[Timing]) -> str:
    lines = [summary(rows), "", "| family | case | size | tocha | PyTorch | ratio |", "|---|---|---|---:|---:|---:|"]
    lines += [
        f"| {r.family} | {r.name} | {r.size} | {r.tocha * 1e6:,.1f} µs | {r.torch * 1e6:,.1f} µs | {r.ratio:.2f}x |"
        for r in rows
    ]
    return "\n".join(lines) + "\n"


def run(chosen: list[Case], rounds: int = ROUNDS, threads: int = 2, seconds: float = 0.01) -> list[Timing]:
    ours, theirs = Library("tocha", threads), Library("torch", threads)
    rows = []
    for case in chosen:
        rows.append(compare(case, ours, theirs, rounds, seconds))
        r = rows[-1]
        print(f"{r.family:16s}{r.name:60s}{r.tocha * 1e6:12.1f}us{r.torch * 1e6:12.1f}us{r.ratio:8.2f}x", flush=True)
    print(summary(rows))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--match", help="instead of a draw, every case whose family or name this pattern finds")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--threads", type=int, default=2, help="1: processor time, which other processes do not disturb"
    )
    parser.add_argument("--seconds", type=float, default=0.01, help="of one repetition")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve(given.serve, given.threads)
    pattern = re.compile(given.match or "")
    chosen = cases() if given.match else draw(given.seed)
    chosen = [c for c in chosen if pattern.search(c.operator.family) or pattern.search(c.name)]
    rows = run(chosen, given.rounds, given.threads, given.seconds)
    if given.json:
        given.json.write_text(json.dumps([{**asdict(r), "ratio": r.ratio} for r in rows], indent=1))
    if given.markdown:
        given.markdown.write_text(markdown(rows))


if __name__ == "__main__":
    main()
