"""What the libraries are that PyTorch can compute with, and switches for them; answers are true for this build.

tocha has kernels of its own and OpenBLAS, so most answer that they are not there; their switches can be set, and wait.
"""

from __future__ import annotations

import contextlib

from tocha.backends import cpu, cuda, cudnn, cusparselt, kleidiai, mha, mkl, mkldnn, mps, nnpack, openmp, opt_einsum
from tocha.backends._flags import held, make_flags

__all__ = [
    "cpu",
    "cuda",
    "cudnn",
    "cusparselt",
    "flags",
    "fp32_precision",
    "kleidiai",
    "mha",
    "mkl",
    "mkldnn",
    "mps",
    "nnpack",
    "openmp",
    "opt_einsum",
]

fp32_precision = "none"


def flags(fp32_precision: str = "none") -> contextlib.AbstractContextManager[None]:
    """Holds fp32_precision for a context.

    >>> with tocha.backends.flags(fp32_precision="ieee"):
    ...     tocha.backends.fp32_precision
    'ieee'
    """
    return held(__name__, {"fp32_precision": fp32_precision})


make_flags(__name__, fp32_precision=str)
