"""What the files of compiled graphs call (`TORCH_LOGS=output_code`, the debug folder): they load a program, and measure it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tocha._inductor.kept import load_kept

__all__ = ["load", "measure"]


def load(source: str, rest: dict[str, Any]) -> Callable[..., tuple]:
    """The program, compiled if its library is not in the cache: called with tensors, it returns a tuple."""
    return load_kept({**rest, "source": source.strip() + "\n"})


def measure(call: Callable[..., tuple], get_args: Callable[[], list], times: int = 10, repeat: int = 10) -> float:
    """Seconds of a call: the least of so many rounds, each the mean of so many calls. Prints them."""
    args = get_args()
    call(*args)
    rounds = []
    for _ in range(repeat):
        began = time.perf_counter()
        for _ in range(times):
            call(*args)
        rounds.append((time.perf_counter() - began) / times)
    print(f"{min(rounds):.9f} s, the least of {repeat} rounds of {times} calls")
    return min(rounds)
