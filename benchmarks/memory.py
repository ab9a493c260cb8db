"""Peak resident memory of a training step, each library in a process of its own.

python benchmarks/memory.py tocha    # what one process reports: megabytes above the state before the first step
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import models


def status(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return float(line.split()[1]) / 1024
    raise KeyError(field)


def mlp_step(m) -> Callable[[], None]:
    x, *parameters = [m.tensor(a) for a in models.mlp_arrays()]
    for p in parameters:
        p.requires_grad_()

    def step() -> None:
        models.mlp_loss(m, x, parameters).backward()
        with m.no_grad():
            for p in parameters:
                p.sub_(p.grad, alpha=0.01)
                p.grad = None

    return step


STEPS = {"6-layer MLP": mlp_step}


def growth(module: str, name: str) -> float:
    """Megabytes that the peak of ten steps lies above what was resident before the first."""
    m = importlib.import_module(module)
    m.set_num_threads(2)
    step = STEPS[name](m)
    (m.rand(64, 64) @ m.rand(64, 64)).sum().item()  # threads and workspaces of the matrix product
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    for _ in range(10):
        step()
    return status("VmHWM") - before


def show() -> None:
    print("\npeak memory of training steps, above the model and its data")
    for name in STEPS:
        ours, theirs = (
            float(
                subprocess.run(
                    [sys.executable, __file__, module, name], capture_output=True, text=True, check=True
                ).stdout
            )
            for module in ("tocha", "torch")
        )
        print(f"{name}: {ours:.1f} MB against {theirs:.1f} MB ({ours / theirs:.2f} of PyTorch's; target 1)")


if __name__ == "__main__":
    print(growth(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "6-layer MLP"))
