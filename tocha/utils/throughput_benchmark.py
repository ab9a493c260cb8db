"""How many calls of a module a second several calling threads get through, and how long one takes."""

from __future__ import annotations

import dataclasses
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from tocha.autograd import profiler

__all__ = ["ExecutionStats", "ThroughputBenchmark"]


@dataclasses.dataclass
class BenchmarkConfig:
    """What a run was asked to do."""

    num_calling_threads: int
    num_warmup_iters: int
    num_iters: int
    num_worker_threads: int = 1
    profiler_output_path: str = ""


class ExecutionStats:
    """What a run found."""

    def __init__(self, seconds: float, benchmark_config: BenchmarkConfig):
        self.benchmark_config = benchmark_config
        self.total_time_seconds = seconds

    @property
    def num_iters(self) -> int:
        """Calls that were timed, of all threads together."""
        return self.benchmark_config.num_iters

    @property
    def latency_avg_ms(self) -> float:
        """How long a call took a thread."""
        return 1e3 * self.total_time_seconds * self.benchmark_config.num_calling_threads / self.num_iters

    @property
    def iters_per_second(self) -> float:
        """Calls in a second, of all threads together."""
        return self.num_iters / self.total_time_seconds

    def __str__(self) -> str:
        return (
            f"Average latency per example: {self.latency_avg_ms:.3f}ms\n"
            f"Total number of iterations: {self.num_iters}\n"
            f"Total number of iterations per second (across all threads): {self.iters_per_second:.2f}\n"
            f"Total time: {1e3 * self.total_time_seconds:.3f}ms"
        )

    __repr__ = __str__


class ThroughputBenchmark:
    """Calls a module with the given inputs, in random order, from several threads.

    >>> import tocha
    >>> bench = ThroughputBenchmark(tocha.nn.Linear(2, 3))
    >>> bench.add_input(tocha.ones(1, 2))
    >>> bench.benchmark(num_calling_threads=2, num_warmup_iters=1, num_iters=10).num_iters
    10
    """

    def __init__(self, module: Callable):
        self._module = module
        self._inputs: list[tuple[tuple, dict[str, Any]]] = []

    def run_once(self, *args: Any, **kwargs: Any) -> Any:
        """One call with these inputs."""
        return self._module(*args, **kwargs)

    def add_input(self, *args: Any, **kwargs: Any) -> None:
        """Inputs that the run will use."""
        self._inputs.append((args, kwargs))

    def benchmark(
        self,
        num_calling_threads: int = 1,
        num_warmup_iters: int = 10,
        num_iters: int = 100,
        profiler_output_path: str = "",
    ) -> ExecutionStats:
        """Runs: every thread warms up, then they share the calls. With a path, a profile of them is written there."""
        if not self._inputs:
            raise RuntimeError(
                "[ThroughputBenchmark] Please provide benchmark inputs. Did you forget to call add_input()?"
            )
        config = BenchmarkConfig(
            num_calling_threads, num_warmup_iters, num_iters, profiler_output_path=profiler_output_path
        )
        run = _Run(self._module, self._inputs, config)
        if not profiler_output_path:
            return ExecutionStats(run.seconds(), config)
        with profiler.profile() as profile:
            seconds = run.seconds()
        profile.export_chrome_trace(profiler_output_path)
        return ExecutionStats(seconds, config)


class _Run:
    """The threads of one run: ready together, then they take calls until none is left."""

    def __init__(self, module: Callable, inputs: list, config: BenchmarkConfig):
        self._module, self._inputs, self._config = module, inputs, config
        self._left = iter(range(config.num_iters))
        self._lock = threading.Lock()
        self._ready = threading.Barrier(config.num_calling_threads + 1)
        self._errors: list[BaseException] = []

    def _call(self, draw: random.Random) -> None:
        args, kwargs = draw.choice(self._inputs)
        self._module(*args, **kwargs)

    def _work(self, seed: int) -> None:
        draw = random.Random(seed)
        try:
            for _ in range(self._config.num_warmup_iters):
                self._call(draw)
        except BaseException as error:
            self._errors.append(error)
        self._ready.wait()
        try:
            while not self._errors and self._take():
                self._call(draw)
        except BaseException as error:
            self._errors.append(error)

    def _take(self) -> bool:
        with self._lock:
            return next(self._left, None) is not None

    def seconds(self) -> float:
        threads = [threading.Thread(target=self._work, args=(i,)) for i in range(self._config.num_calling_threads)]
        for t in threads:
            t.start()
        self._ready.wait()
        begin = time.perf_counter()
        for t in threads:
            t.join()
        if self._errors:
            raise self._errors[0]
        return time.perf_counter() - begin
