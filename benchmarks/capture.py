"""What capture costs, with the backend "eager": calls of captured functions over what they compute, guards, capturing itself.

python benchmarks/capture.py tocha    # the measurements of this library, one per line
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
import timeit
import warnings
from typing import Any

import models

TIMES = 8.0  # PyTorch's cost over tocha's, at least
OVERHEAD, GUARDS = 2e-6, 5e-6  # seconds, at most
ROUNDS, LAYERS = 300, 50
FIRST = """
import time, {name} as library
def f(x):
    return x.sin() + 1
x = library.ones(4)
start = time.process_time()
library.compile(f, backend="eager")(x)
print(time.process_time() - start)
"""


def least(f: Any, number: int) -> float:
    """Seconds of a call. Many short rounds: a long one always meets another process."""
    f()
    return min(timeit.repeat(f, number=number, repeat=ROUNDS)) / number


def overhead(library: Any) -> float:
    """Of one call of a captured function of two small tensors."""

    def f(x: Any, y: Any) -> Any:
        return x.sin() + y

    x, y, compiled = library.ones(4), library.ones(4), library.compile(f, backend="eager")
    return least(lambda: compiled(x, y), 500) - least(lambda: f(x, y), 500)


def guards(library: Any) -> float:
    """Of a module of 50 layers: a call whose graph adds one to one parameter, less that of a function that does so alone."""

    class Layer(library.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = library.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            return x + self.inner.weight.shape[0] - self.inner.bias.shape[0]

    class Whole(library.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = library.nn.ModuleList([Layer() for _ in range(LAYERS)])

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                n = layer.inner.weight.shape[0] - layer.inner.bias.shape[0]
            return x + n

    class One(library.nn.Module):
        def forward(self, x: Any) -> Any:
            return x + 0

    x = library.ones(4)
    many, one = library.compile(Whole(), backend="eager"), library.compile(One(), backend="eager")
    return least(lambda: many(x), 100) - least(lambda: one(x), 100)


def captured(library: Any) -> float:
    """Capturing the GPT's forward."""
    c, dynamo = models.case(library, models.gpt), importlib.import_module(f"{library.__name__}._dynamo")
    found = []
    for _ in range(4):
        dynamo.reset()
        compiled = library.compile(c.model, backend=lambda module, _: lambda *args: stop())
        start = time.process_time()
        try:
            compiled(c.batch[0])
        except Stop:
            found.append(time.process_time() - start)
    return min(found)


class Stop(Exception):
    """Raised in place of running the graph."""


def stop() -> None:
    raise Stop


def first(library: Any) -> float:
    """The first call of `x.sin() + 1` in a fresh process. Bytecode is kept, as installed packages have it."""
    command = [sys.executable, "-c", FIRST.format(name=library.__name__)]
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    runs = [subprocess.run(command, capture_output=True, text=True, check=True, env=kept) for _ in range(4)]
    return min(float(run.stdout) for run in runs)


MEASURES = {"call of two small tensors, over eager": overhead, f"guards of {LAYERS} layers": guards, "capturing the GPT": captured, "first call in a process": first}  # fmt: skip


def measure(name: str) -> None:
    warnings.filterwarnings("ignore")
    library = importlib.import_module(name)
    library.set_num_threads(1)
    for f in MEASURES.values():
        print(f(library), flush=True)


def show() -> None:
    def told(name: str) -> list[float]:
        said = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=True).stdout
        return [float(line) for line in said.split()]

    limits = {"call of two small tensors, over eager": OVERHEAD, f"guards of {LAYERS} layers": GUARDS}
    for what, ours, theirs in zip(MEASURES, told("tocha"), told("torch"), strict=True):
        good = ours <= limits.get(what, ours) and (theirs >= TIMES * ours or what.startswith("guards"))
        print(f"capture: {what:42} {ours * 1e6:12.2f} µs  PyTorch {theirs * 1e6:12.2f} µs  {theirs / ours:6.1f}x  {'ok' if good else 'MISSED'}")  # fmt: skip


if __name__ == "__main__":
    measure(sys.argv[1])
