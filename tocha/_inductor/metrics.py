"""Counts of what was compiled since this module was imported, or since `reset()`.

>>> import tocha
>>> from tocha._inductor import metrics
>>> metrics.reset()
>>> _ = tocha.compile(lambda x: (x.sin() + 1).cos())(tocha.ones(1000))
>>> metrics.generated_kernel_count, metrics.num_bytes_accessed
(1, 8000)
"""

from __future__ import annotations

import dataclasses

from tocha._logging import events

__all__ = [
    "CachedMetricsDeltas", "CachedMetricsHelper", "generated_kernel_count", "get_metric_fields", "ir_nodes_pre_fusion",
    "num_bytes_accessed", "reset",
]  # fmt: skip

generated_kernel_count = 0  # kernels of which a program consists
ir_nodes_pre_fusion = 0  # loops, products and native calls before they are fused
num_bytes_accessed = 0  # what kernels and native calls read and write, where sizes are known


@dataclasses.dataclass
class CachedMetricsDeltas:
    """The counts, or by how much they rose."""

    generated_kernel_count: int
    ir_nodes_pre_fusion: int
    num_bytes_accessed: int


def get_metric_fields() -> list[str]:
    return [f.name for f in dataclasses.fields(CachedMetricsDeltas)]


class CachedMetricsHelper:
    """By how much the counts rise from when it is made."""

    def __init__(self) -> None:
        self.before = {name: globals()[name] for name in get_metric_fields()}

    def get_deltas(self) -> CachedMetricsDeltas:
        return CachedMetricsDeltas(**{name: globals()[name] - was for name, was in self.before.items()})

    @staticmethod
    def apply_deltas(delta: CachedMetricsDeltas) -> None:
        for name, risen in dataclasses.asdict(delta).items():
            globals()[name] += risen


def reset() -> None:
    """All of them are 0 again."""
    globals().update(dict.fromkeys(get_metric_fields(), 0))


def _count(event: events.Event) -> None:
    match event:
        case events.ProgramMade(compiled=compiled):
            CachedMetricsHelper.apply_deltas(CachedMetricsDeltas(*compiled.counts))
        case events.ProgramLoaded(counts=counts):
            CachedMetricsHelper.apply_deltas(CachedMetricsDeltas(*counts))


events.add(_count)
