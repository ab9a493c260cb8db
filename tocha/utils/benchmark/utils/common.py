"""Measurements: times of repeated runs, and what they say."""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tocha import _C

__all__ = [
    "Measurement",
    "TaskSpec",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "trim_sigfig",
    "unit_to_english",
]
_UNITS = ((1e-9, "ns"), (1e-6, "us"), (1e-3, "ms"), (1.0, "s"))
_WORDS = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}
_MIN_CONFIDENCE, _WIDE = 25e-9, 0.1


@dataclass(frozen=True)
class TaskSpec:
    r"""What is measured.

    >>> from tocha.utils import benchmark
    >>> benchmark.TaskSpec(stmt="x + 1", setup="x = 2").summarize()
    'x + 1\nsetup: x = 2'
    """

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        return self.stmt if "\n" not in self.stmt else f"stmt:\n{self.stmt}"

    def setup_str(self) -> str:
        return f"setup: {self.setup}" if self.setup not in ("", "pass") else ""

    def summarize(self) -> str:
        parts = [self.title, self.description or "", self.setup_str()]
        return "\n".join(p for p in parts if p)


@dataclass
class Measurement:
    """Seconds of several runs of `number_per_run` executions each.

    >>> from tocha.utils import benchmark
    >>> m = benchmark.Timer("1 + 1").timeit(100)
    >>> m.number_per_run, m.median > 0
    (100, True)
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = field(default=None)

    @property
    def times(self) -> list[float]:
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """The width of the middle half."""
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    @property
    def significant_figures(self) -> int:
        """How many figures of the median mean something."""
        n = len(self.times)
        if n < 2:
            return 2
        relative = max(1.645 * self.iqr / 1.35 / math.sqrt(n), _MIN_CONFIDENCE) / max(self.median, 1e-30)
        return max(1, min(5, -math.floor(math.log10(max(relative, 1e-9)))))

    @property
    def has_warnings(self) -> bool:
        return self.iqr / max(self.median, 1e-30) > _WIDE

    def meets_confidence(self, threshold: float = _WIDE) -> bool:
        return len(self.times) > 4 and self.iqr / max(self.median, 1e-30) < threshold

    @property
    def title(self) -> str:
        return self.task_spec.title

    @property
    def env(self) -> str:
        return self.task_spec.env or ""

    @property
    def as_row_name(self) -> str:
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    def __repr__(self) -> str:
        unit, size = select_unit(self.median)
        figures = self.significant_figures
        lines = [
            f"<{type(self).__module__}.{type(self).__name__} object at {hex(id(self))}>",
            self.task_spec.summarize(),
        ]
        what = "Median: " if len(self.times) > 1 else ""
        lines.append(f"  {what}{trim_sigfig(self.median / size, max(2, figures)):.10g} {unit}")
        if len(self.times) > 1:
            lines.append(f"  IQR:    {trim_sigfig(self.iqr / size, 3):.3g} {unit}")
        runs = f"{len(self.times)} measurement{'s' if len(self.times) > 1 else ''}, {self.number_per_run} runs"
        lines.append(f"  {runs}{' per measurement' if len(self.times) > 1 else ''}, {self.num_threads} thread{'s' if self.num_threads > 1 else ''}")  # fmt: skip
        if self.has_warnings:
            lines.append(f"  WARNING: Interquartile range is {self.iqr / self.median * 100:.1f}% of the median: the machine was busy, or the statement varies.")  # fmt: skip
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Those of one task as one each."""
        groups: dict[TaskSpec, list[Measurement]] = {}
        for m in measurements:
            groups.setdefault(m.task_spec, []).append(m)
        return [Measurement(1, [t for m in group for t in m.times], spec) for spec, group in groups.items()]


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which a time reads best, and its seconds.

    >>> from tocha.utils import benchmark
    >>> benchmark.select_unit(2e-5)
    ('us', 1e-06)
    """
    size, unit = next(((s, u) for s, u in reversed(_UNITS) if t >= s), _UNITS[0])
    return unit, size


def unit_to_english(u: str) -> str:
    """The word for a unit of time.

    >>> from tocha.utils import benchmark
    >>> benchmark.unit_to_english("us")
    'microsecond'
    """
    return _WORDS[u]


def trim_sigfig(x: float, n: int) -> float:
    """x with n significant figures, in float32.

    >>> from tocha.utils import benchmark
    >>> round(benchmark.trim_sigfig(1.23456, 3), 6)
    1.23
    """
    unit = 10 ** (int(_C.tensor(float(x)).abs().log10().ceil()) - n)
    return float(_C.tensor(x / unit).round() * unit)


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """The different elements, in the order in which they first appear.

    >>> from tocha.utils import benchmark
    >>> benchmark.ordered_unique(["b", "a", "b"])
    ['b', 'a']
    """
    return list(dict.fromkeys(elements))


@contextlib.contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """A context in which tocha computes with n threads.

    >>> from tocha.utils import benchmark
    >>> with benchmark.set_torch_threads(1):
    ...     tocha.get_num_threads()
    1
    """
    before = _C.get_num_threads()
    try:
        _C.set_num_threads(n)
        yield
    finally:
        _C.set_num_threads(before)
