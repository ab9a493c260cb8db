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
SECONDS = 0.01  # of one repetition


@dataclass(frozen=True)
class Timing:
    family: str
    name: str
    size: str
    tocha: float  # seconds per call, the median of the rounds
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


def serve(module: str) -> None:
    """Answers lines of (case, number of calls) with the seconds per call."""
    m = importlib.import_module(module)
    m.set_num_threads(2)
    known = {case.name: case for case in cases()}
    name, call = "", None
    for line in sys.stdin:
        wanted, number = json.loads(line)
        if wanted != name:
            m.manual_seed(0)
            name, call = wanted, known[wanted].make(m)
        print(per_call(call, number), flush=True)


def per_call(call: Callable[[], object], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        call()
    return (time.perf_counter() - start) / number


class Library:
    """A library in a process of its own, as programs have it."""

    def __init__(self, module: str):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", module],
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


def compare(case: Case, ours: Library, theirs: Library, rounds: int = ROUNDS) -> Timing:
    """Rounds alternate, so that a noisy neighbour hits both."""
    sides = [(library, library.calls_for(case, SECONDS), []) for library in (ours, theirs)]
    for i in range(rounds):
        for library, number, times in sides[:: 1 if i % 2 else -1]:
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


def run(chosen: list[Case], rounds: int = ROUNDS) -> list[Timing]:
    ours, theirs = Library("tocha"), Library("torch")
    rows = []
    for case in chosen:
        rows.append(compare(case, ours, theirs, rounds))
        r = rows[-1]
        print(f"{r.family:16s}{r.name:60s}{r.tocha * 1e6:12.1f}us{r.torch * 1e6:12.1f}us{r.ratio:8.2f}x", flush=True)
    print(summary(rows))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--match", help="instead of a draw, every case whose family or name this pattern finds")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve(given.serve)
    pattern = re.compile(given.match or "")
    chosen = cases() if given.match else draw(given.seed)
    rows = run([c for c in chosen if pattern.search(c.operator.family) or pattern.search(c.name)], given.rounds)
    if given.json:
        given.json.write_text(json.dumps([{**asdict(r), "ratio": r.ratio} for r in rows], indent=1))
    if given.markdown:
        given.markdown.write_text(markdown(rows))


if __name__ == "__main__":
    main()
