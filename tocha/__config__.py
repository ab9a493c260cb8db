"""How this build of tocha was made and how it runs: for reports of problems."""

from __future__ import annotations

import os
import platform

from tocha import _C, version

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Version, libraries and instruction set, in lines of text.

    >>> print(show())
    tocha built with:
      - version ..., for PyTorch ...
      - ...
    """
    units = ", ".join(f"{unit or 'none'} for {dtype}" for dtype, unit in _C._matrix_units().items())
    lines = [
        f"version {version.__version__}, for PyTorch {version.torch_version}",
        f"Python {platform.python_version()} ({platform.python_compiler()})",
        f"{platform.system()} on {platform.machine()}",
        "BLAS and LAPACK from OpenBLAS",
        f"CPU capability usage: {_C._cpu_capability()}",
        f"matrix units: {units}",
        "CUDA is not enabled",
    ]
    return "tocha built with:\n" + "".join(f"  - {line}\n" for line in lines)


def parallel_info() -> str:
    """The number of threads and what decides it, in lines of text."""
    variables = ("OMP_NUM_THREADS", "TOCHA_NUM_THREADS")
    return "\n".join(
        [
            f"tocha.get_num_threads() : {_C.get_num_threads()}",
            f"hardware threads : {os.cpu_count()}",
            "Environment variables:",
            *(f"\t{name} : {os.environ.get(name, '[not set]')}" for name in variables),
            "parallel backend: threads of tocha",
            "",
        ]
    )
