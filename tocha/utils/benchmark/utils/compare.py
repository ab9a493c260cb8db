"""Compare: measurements as a table, rows by sub-label and columns by description."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from tocha.utils.benchmark.utils import common

__all__ = ["Colorize", "Compare"]
GOOD, BEST, BAD, VERY_BAD, TERMINATE = "\033[32m", "\033[92m\033[1m", "\033[31m", "\033[91m\033[1m", "\033[0m\033[0m"


class Colorize(enum.Enum):
    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """Tables of measurements: one for each label, with a part for each number of threads.

    >>> from tocha.utils.benchmark import Measurement, TaskSpec
    >>> specs = [TaskSpec("x", "", label="sum", sub_label=s, description="tocha") for s in ("small", "large")]
    >>> Compare([Measurement(1, [1e-6 * (i + 1)], s) for i, s in enumerate(specs)]).print()
    [--------- sum ----------]
                     |  tocha
    1 threads: ---------------
          small      |    1
          large      |    2
    <BLANKLINE>
    Times are in microseconds (us).
    <BLANKLINE>
    """

    def __init__(self, results: Sequence[common.Measurement]) -> None:
        self._results: list[common.Measurement] = []
        self.extend_results(results)
        self._trims, self._colorizes, self._warns = False, Colorize.NONE, False

    def extend_results(self, results: Sequence[Any]) -> None:
        for r in results:
            if not isinstance(r, common.Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(r)} instead.")
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        self._trims = True

    def colorize(self, rowwise: bool = False) -> None:
        self._colorizes = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        self._warns = True

    def print(self) -> None:
        print(str(self))

    def __str__(self) -> str:
        merged = common.Measurement.merge(self._results)
        labels = common.ordered_unique(m.task_spec.label for m in merged)
        return "\n".join(self._table([m for m in merged if m.task_spec.label == label]) for label in labels)

    def _table(self, found: list[common.Measurement]) -> str:
        unit, size = common.select_unit(min(m.median for m in found))
        columns = common.ordered_unique(m.task_spec.description for m in found)
        threads = sorted({m.task_spec.num_threads for m in found})
        names = common.ordered_unique((m.task_spec.env, m.as_row_name) for m in found)
        cells = {(m.task_spec.num_threads, m.task_spec.env, m.as_row_name, m.task_spec.description): m for m in found}
        texts = {k: self._shown(m, size) for k, m in cells.items()}
        stub = max(len(f"({e}) {n}" if e else n) for e, n in names) + 6
        widths = [max(len(c or ""), *(len(t) for k, t in texts.items() if k[3] == c), 5) for c in columns]
        head = " " * (stub + 4) + "".join(f"  |  {(c or '').center(w)}" for c, w in zip(columns, widths))
        label = found[0].task_spec.label or ""
        lines = [f"[{f' {label} '.center(len(head) - 1, '-')}]", head.rstrip()]
        for n in threads:
            lines.append(f"{n} threads: ".ljust(len(head) + 1, "-"))
            for e, name in names:
                keys = [(n, e, name, c) for c in columns]
                if any(k in texts for k in keys):
                    row = "".join(f"  |  {self._coloured(k, texts, cells, w)}" for k, w in zip(keys, widths))
                    lines.append((" " * 6 + (f"({e}) {name}" if e else name).ljust(stub - 2) + row).rstrip())
        lines.append(f"\nTimes are in {common.unit_to_english(unit)}s ({unit}).\n")
        if self._warns and any(m.has_warnings for m in found):
            lines.append("(! XX%) Measurement has high variance, where XX is the IQR / median * 100.\n")
        return "\n".join(lines)

    def _shown(self, m: common.Measurement, size: float) -> str:
        value = m.median / size
        digits = min(m.significant_figures, 4) if self._trims else 4
        text = f"{common.trim_sigfig(value, digits):.10g}" if self._trims else f"{value:.1f}".removesuffix(".0")
        return text + (f" (! {m.iqr / m.median * 100:.0f}%)" if self._warns and m.has_warnings else "")

    def _coloured(self, key: tuple, texts: dict, cells: dict, width: int) -> str:
        text = texts.get(key, "").center(width)
        if self._colorizes is Colorize.NONE or key not in cells:
            return text
        at = 3 if self._colorizes is Colorize.COLUMNWISE else 2
        same = [m.median for k, m in cells.items() if (k[at] == key[at] and (at == 3 or k[:2] == key[:2]))]
        ratio = cells[key].median / min(same)
        colour = (
            BEST if ratio <= 1.001 else GOOD if ratio < 1.15 else "" if ratio < 2 else BAD if ratio < 3 else VERY_BAD
        )
        return f"{colour}{text}{TERMINATE}" if colour and len(same) > 1 else text
