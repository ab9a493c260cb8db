"""What compiled programs can run on here."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

__all__ = [
    "GPU_TYPE", "HAS_CPU", "HAS_CUDA_AND_TRITON", "HAS_GPU", "HAS_GPU_AND_TRITON", "HAS_MULTIGPU", "HAS_TRITON", "HAS_XPU_AND_TRITON",
    "clone_preserve_strides_offset", "requires_gpu",
]  # fmt: skip

HAS_CPU = True
HAS_GPU = HAS_MULTIGPU = HAS_TRITON = HAS_GPU_AND_TRITON = HAS_CUDA_AND_TRITON = HAS_XPU_AND_TRITON = False
GPU_TYPE = "cuda"  # the name of what is not there, for tests that are skipped


def requires_gpu(inner: Any = None) -> Callable:
    """Skips the test: functions are compiled for the CPU."""
    skip = unittest.skipIf(not HAS_GPU, "requires gpu")
    return skip(inner) if callable(inner) else skip


def clone_preserve_strides_offset(x: Any, device: Any = None) -> Any:
    """A copy with the strides, and at the offset, of the original."""
    needed = x.storage_offset() + sum((n - 1) * s for n, s in zip(x.shape, x.stride())) + 1 if x.numel() else 0
    buffer = x.as_strided((needed,), (1,), 0).clone()
    return (buffer if device is None else buffer.to(device)).as_strided(x.shape, x.stride(), x.storage_offset())
