"""What PyTorch answers otherwise on one kind of processor, or with one library, than on another: there its answer is no rule."""

from __future__ import annotations

import platform

import torch

X86 = platform.machine() in ("x86_64", "AMD64")
MKL = torch.backends.mkl.is_available()  # Fourier transforms and LAPACK are Intel's
