"""What importing costs: time, memory, and the size of the installed package, against PyTorch's."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

PROBE = """
import time{before}
start = time.perf_counter()
import {module}
elapsed = time.perf_counter() - start
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(elapsed, status["VmRSS"].split()[0])
"""


def measure(module: str, before: str = "", runs: int = 5) -> tuple[float, float]:
    """Median seconds and megabytes of resident memory after the import of a module; what is before it does not count."""
    times, memory = [], []
    for _ in range(runs):
        out = subprocess.run(
            [sys.executable, "-c", PROBE.format(module=module, before=before)],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"TOCHA_AS_TORCH": "force"},  # PyTorch is here too
        )
        seconds, kilobytes = out.stdout.split()
        times.append(float(seconds))
        memory.append(float(kilobytes) / 1024)
    return statistics.median(times), statistics.median(memory)


def size_of(module: str) -> float:
    code = f"import importlib.util; print(importlib.util.find_spec('{module}').submodule_search_locations[0])"
    where = Path(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    )
    return sum(p.stat().st_size for p in where.rglob("*") if p.is_file() and "__pycache__" not in p.parts) / 1e6


def show() -> None:
    ours, theirs = measure("tocha"), measure("torch")
    print(
        f"\nimport: {ours[0] * 1e3:.0f} ms against {theirs[0] * 1e3:.0f} ms ({ours[0] / theirs[0]:.2f} of PyTorch's; target 0.25)"
    )
    print(
        f"memory after it: {ours[1]:.0f} MB against {theirs[1]:.0f} MB ({ours[1] / theirs[1]:.2f} of PyTorch's; target 0.33)"
    )
    print(f"alias: {measure('tocha.as_torch', before=', tocha', runs=15)[0] * 1e3:.1f} ms after tocha (target 20)")
    print(f"package: {size_of('tocha'):.1f} MB (target 30), PyTorch's {size_of('torch'):.0f} MB")
