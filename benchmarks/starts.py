"""What compiling costs a process: its first training step with an empty cache and with a warm one, against PyTorch; and the memory of
compiled steps against that of tocha's eager ones.

python benchmarks/starts.py first tocha GPT     # seconds of the first compiled step of a process
python benchmarks/starts.py peak MLP step       # megabytes of tensors that ten steps had at most, above those before them
"""

from __future__ import annotations

import compileall
import importlib
import os
import subprocess
import sys
import tempfile
import time

import models

# Seconds of PyTorch's first step over ours, with an empty cache and with a warm one.
TARGETS = {"GPT": (8.0, 8.0), "ResNet-18": (6.0, 8.0)}


def first_step(module: str, name: str) -> float:
    m = importlib.import_module(module)
    m.set_num_threads(2)
    case = models.case(m, models.MODELS[name])
    case.step()  # what eager code sets up is not the compiler's
    start = time.perf_counter()
    case.compiled_step()
    return time.perf_counter() - start


def peak(name: str, call: str) -> float:
    m = importlib.import_module("tocha")
    m.set_num_threads(2)
    case = models.case(m, models.MODELS[name])
    before = m._C._cpu_memory()["in_use"]
    for _ in range(10):
        getattr(case, call)()
    return (m._C._cpu_memory()["peak"] - before) / 2**20


def asked(*words: str, cache: str | None = None) -> float:
    given = {
        k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"
    }  # both libraries start from byte code
    if cache:
        given["TORCHINDUCTOR_CACHE_DIR"] = cache
    command = [sys.executable, __file__, *words]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, env=given).stdout.split()[-1])


def show() -> None:
    compileall.compile_dir(
        os.path.dirname(importlib.import_module("tocha").__file__), quiet=2
    )  # an installation has done so
    print("\nfirst compiled training step of a process: empty cache, then warm")
    for name, targets in TARGETS.items():
        seconds: dict[str, list[float]] = {}
        for module in ("tocha", "torch"):
            with tempfile.TemporaryDirectory() as cache:
                seconds[module] = [asked("first", module, name, cache=cache) for _ in range(2)]
        for kind, ours, theirs, target in zip(
            ("cold", "warm"), seconds["tocha"], seconds["torch"], targets, strict=True
        ):
            low = "" if theirs / ours >= target else "  <--"
            print(f"{name:10s} {kind} {ours:7.2f} s against {theirs:7.2f} s {theirs / ours:7.2f}x{target:8.2f}x{low}")
    print("\npeak memory of compiled training steps, against tocha's eager ones (target 1)")
    for name in models.MODELS:
        compiled, eager = asked("peak", name, "compiled_step"), asked("peak", name, "step")
        print(f"{name:10s} {compiled:7.1f} MB against {eager:7.1f} MB ({compiled / eager:.2f} of eager's)")


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    print(first_step(*rest) if kind == "first" else peak(*rest))
