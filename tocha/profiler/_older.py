"""The profiler as programs had it before schedules: tocha.autograd.profiler.profile."""

from __future__ import annotations

from typing import Any

import tocha.profiler as profiler
from tocha.profiler._events import EventList, FunctionEventAvg


class profile:
    """Records while it is on.

    >>> import tocha
    >>> with profile() as p:
    ...     _ = tocha.ones(2).exp()
    >>> [e.name for e in p.function_events if e.name != "aten::ones"]
    ['aten::exp']
    """

    def __init__(
        self, enabled: bool = True, *, use_cuda: bool = False, use_device: str | None = None, record_shapes: bool = False, with_flops: bool = False,
        profile_memory: bool = False, with_stack: bool = False, with_modules: bool = False, use_kineto: bool = True, use_cpu: bool = True,
        experimental_config: Any = None, acc_events: bool = False, **_: Any,
    ):  # fmt: skip
        self.enabled = enabled
        self._recorder = profiler.profile(
            record_shapes=record_shapes, profile_memory=profile_memory, with_stack=with_stack, with_flops=with_flops,
            with_modules=with_modules, acc_events=acc_events,
        )  # fmt: skip

    def __enter__(self) -> profile:
        if self.enabled:
            self._recorder.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.enabled:
            self._recorder.stop()

    @property
    def function_events(self) -> EventList:
        return self._recorder.events() if self.enabled else EventList()

    def __str__(self) -> str:
        return str(self.function_events)

    def table(self, sort_by: str | None = None, row_limit: int = 100, **shown: Any) -> str:
        return self.function_events.table(sort_by, row_limit, **shown)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False) -> EventList:  # fmt: skip
        return self.function_events.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> FunctionEventAvg:
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        return self.function_events.self_cpu_time_total

    def export_chrome_trace(self, path: str) -> None:
        self._recorder.export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        self._recorder.export_stacks(path, metric)
