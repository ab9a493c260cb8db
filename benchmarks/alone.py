"""Every operator of the catalogue, compiled by itself, against the same call uncompiled: compiled code is never to be slower.

python benchmarks/alone.py                   # all, at their largest sizes
python benchmarks/alone.py 'softmax|flip'    # those whose name matches

One thread and its processor time, which others do not disturb; the least of rounds in turns.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from catalogue import SIZES, Case, cases
from functions import geometric_mean

import tocha

LEAST = 0.95
SECONDS, ROUNDS = 0.01, 5


def compiled(case: Case) -> Case:
    call = case.operator.call
    inner = tocha.compile(lambda *tensors: call(tocha, *tensors))
    return replace(case, operator=replace(case.operator, call=lambda _, *tensors: inner(*tensors)))


def seconds(call: Callable[[], object], number: int) -> float:
    start = time.process_time()
    for _ in range(number):
        call()
    return (time.process_time() - start) / number


def times(case: Case) -> tuple[float, float]:
    """Seconds of a call: uncompiled, compiled."""
    tocha._dynamo.reset()
    calls = [c.make(tocha) for c in (case, compiled(case))]
    for call in calls:
        call(), call()
    number = max(1, int(SECONDS / max(seconds(calls[0], 1), 1e-7)))
    rounds = [[seconds(call, number) for call in calls] for _ in range(ROUNDS)]
    return min(r[0] for r in rounds), min(r[1] for r in rounds)


def main(pattern: str) -> None:
    tocha.set_num_threads(1)
    ratios = []
    for case in cases():
        if case.size != len(SIZES) - 1 or not re.search(pattern, case.name):
            continue
        plain, own = times(case)
        ratios.append(plain / own)
        low = "  <--" if ratios[-1] < LEAST else ""
        print(f"{case.name:60s}{plain * 1e6:12.1f}us{own * 1e6:12.1f}us{ratios[-1]:8.2f}x{low}", flush=True)
    below = sum(r < LEAST for r in ratios)
    print(f"{len(ratios)} cases: geometric mean {geometric_mean(ratios):.2f}x, {below} below {LEAST}x")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
