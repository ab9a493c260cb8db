"""Timer: runs a statement often enough to know how long it takes."""

from __future__ import annotations

import enum
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tocha.utils.benchmark.utils import common

__all__ = ["Language", "Timer", "timer"]
timer = timeit.default_timer
CALLGRIND = """
import tocha
{setup}
def run(n):
    for _ in range(n):
{body}
run({warmup})
import ctypes
run({number})
"""


class Language(enum.Enum):
    PYTHON = 0
    CPP = 1


class Timer:
    """A statement with its setup. `num_threads` is how many threads operators use; `label`, `sub_label` and `description` name it in tables.

    >>> from tocha.utils import benchmark
    >>> timer = benchmark.Timer("x + x", globals={"x": tocha.ones(4)})
    >>> timer.timeit(10).number_per_run
    10
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "", timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None, label: str | None = None, sub_label: str | None = None,
        description: str | None = None, env: str | None = None, num_threads: int = 1, language: Any = Language.PYTHON,
    ) -> None:  # fmt: skip
        if language not in (Language.PYTHON, "py", "python"):
            raise NotImplementedError(f"[Timer] statements are Python, got language={language!r}")
        if not isinstance(stmt, str):
            raise ValueError(f"Currently only a `str` stmt is supported, got {type(stmt).__name__}")
        stmt, setup = textwrap.dedent(stmt).strip(), textwrap.dedent(setup).strip()
        self._globals = dict(globals or {})
        if not self._globals.get("tocha"):
            self._globals["tocha"] = sys.modules["tocha"]
        self._timer = timeit.Timer(stmt=stmt, setup=setup, timer=timer, globals=self._globals)
        self._task_spec = common.TaskSpec(
            stmt=stmt, setup=setup, global_setup=global_setup, label=label, sub_label=sub_label, description=description, env=env,
            num_threads=num_threads,
        )  # fmt: skip

    def _timeit(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number: int = 1_000_000) -> common.Measurement:
        """One measurement of `number` executions, after a few to warm up."""
        with common.set_torch_threads(self._task_spec.num_threads):
            self._timeit(number=max(int(number // 100), 2))
            return common.Measurement(number, [self._timeit(number=number)], self._task_spec)

    def _number_for(self, seconds: float) -> int:
        """How many executions take about so long."""
        number = 1
        while True:
            took = self._timeit(number)
            if took >= seconds or number >= 1 << 40:
                return number
            number = max(number * 2, min(number * 10, int(number * seconds / took * 1.2)))

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> common.Measurement:
        """Blocks of executions until they have taken `min_run_time` seconds together."""
        with common.set_torch_threads(self._task_spec.num_threads):
            number = self._number_for(min_run_time / 1000)
            times: list[float] = []
            while sum(times) < min_run_time or len(times) < 2:
                times.append(self._timeit(number))
                if callback is not None:
                    callback(number, times[-1])
        return common.Measurement(number, times, self._task_spec)

    def adaptive_autorange(self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0, callback: Any = None) -> common.Measurement:  # fmt: skip
        """Blocks until the middle half of the times is narrow, or until max_run_time."""
        with common.set_torch_threads(self._task_spec.num_threads):
            number = self._number_for(0.05 * min_run_time)
            times: list[float] = []
            while True:
                times.append(self._timeit(number))
                if callback is not None:
                    callback(number, times[-1])
                found = common.Measurement(number, times, self._task_spec)
                if sum(times) >= max_run_time or (sum(times) >= min_run_time and found.meets_confidence(threshold)):
                    return found

    def autorange(self, callback: Any = None) -> None:
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def collect_callgrind(self, number: int = 100, *, repeats: int | None = None, collect_baseline: bool = True, retain_out_file: bool = False) -> Any:  # fmt: skip
        """Instructions of `number` executions, counted by valgrind's callgrind, or else by Linux's perf."""
        if shutil.which("valgrind") is None and shutil.which("perf") is None:
            raise OSError("[Timer.collect_callgrind] Could not find callgrind: install valgrind or perf")
        if self._globals.keys() - {"tocha", "__builtins__"}:
            raise ValueError("[Timer.collect_callgrind] globals cannot be taken to another process: make them in setup")
        counts = [self._instructions(number) - (self._instructions(0) if collect_baseline else 0) for _ in range(repeats or 1)]  # fmt: skip
        made = [InstructionCount(self._task_spec, number, n) for n in counts]
        return made if repeats else made[0]

    def _instructions(self, number: int) -> int:
        body = textwrap.indent(self._task_spec.stmt, " " * 8)
        text = CALLGRIND.format(setup=self._task_spec.setup, body=body, warmup=2, number=number)
        reasons = []
        with tempfile.TemporaryDirectory() as folder:
            script, out = Path(folder) / "stmt.py", Path(folder) / "callgrind.out"
            script.write_text(text)
            env = {**os.environ, "OMP_NUM_THREADS": str(self._task_spec.num_threads)}
            for counter in (
                ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"],
                ["perf", "stat", "-x,", "-e", "instructions:u"],
            ):
                if shutil.which(counter[0]) is None:
                    continue
                done = subprocess.run([*counter, sys.executable, str(script)], env=env, check=False, capture_output=True, text=True)  # fmt: skip
                said = out.read_text() if out.exists() else done.stderr
                found = re.search(r"^(?:summary: |totals: )(\d+)|^(\d+),", said, re.M) if done.returncode == 0 else None
                if found is not None:
                    return int(found[1] or found[2])
                reasons.append(f"{counter[0]} gave no number of instructions: {done.stderr.strip()[-300:]}")
        raise OSError(f"[Timer.collect_callgrind] {'; '.join(reasons)}")


class InstructionCount:
    """How many instructions `number_per_run` executions took."""

    def __init__(self, task_spec: common.TaskSpec, number_per_run: int, instructions: int) -> None:
        self.task_spec, self.number_per_run, self.instructions = task_spec, number_per_run, instructions

    def counts(self, *, denoise: bool = False) -> int:
        return self.instructions

    def __repr__(self) -> str:
        return f"{self.task_spec.summarize()}\n  {self.instructions:,} instructions, {self.number_per_run} runs"
