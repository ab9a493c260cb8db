"""Switches of CUDA's libraries, which this build does not have, and of the implementations of attention, which it has."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from tocha._core import switches
from tocha._core.switches import set_float32_matmul_precision
from tocha.backends._flags import check_flag
from tocha.nn import attention
from tocha.nn.attention import SDPBackend

__all__ = [
    "allow_fp16_bf16_reduction_math_sdp",
    "cuBLASModule",
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "fp16_bf16_reduction_math_sdp_allowed",
    "is_built",
    "is_flash_attention_available",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "sdp_kernel",
]


def is_built() -> bool:
    """Whether this build has kernels for CUDA.

    >>> is_built()
    False
    """
    return False


class cuBLASModule:
    """How far products on CUDA may be rounded. allow_tf32 is the same switch as set_float32_matmul_precision.

    >>> import tocha
    >>> tocha.backends.cuda.matmul.allow_tf32 = True
    >>> tocha.get_float32_matmul_precision()
    'high'
    >>> tocha.set_float32_matmul_precision("highest")
    """

    def __init__(self) -> None:
        vars(self).update(
            allow_fp16_reduced_precision_reduction=True,
            allow_bf16_reduced_precision_reduction=True,
            allow_fp16_accumulation=False,
            fp32_precision="none",
        )

    def __getattr__(self, name: str) -> Any:
        if name == "allow_tf32":
            return switches.get_float32_matmul_precision() != "highest"
        raise AttributeError(f"Unknown attribute {name}")

    def __setattr__(self, name: str, value: Any) -> None:
        current = getattr(self, name)
        check_flag(f"backends.cuda.matmul.{name}", type(current), value)
        if name == "allow_tf32":
            set_float32_matmul_precision("high" if value else "highest")
        else:
            vars(self)[name] = value


matmul = cuBLASModule()


# -- attention -------------------------------------------------------------------------------------------


def _switch(backend: SDPBackend, name: str) -> tuple[Callable[[bool], None], Callable[[], bool]]:
    def enable(enabled: bool) -> None:
        check_flag(f"enable_{name}_sdp", bool, enabled)
        attention.allow(backend, enabled)

    def is_enabled() -> bool:
        return backend in attention._cur_sdpa_kernel_backends()

    enable.__name__, enable.__doc__ = f"enable_{name}_sdp", f"Whether attention may use the {name} implementation."
    is_enabled.__name__, is_enabled.__doc__ = f"{name}_sdp_enabled", f"What enable_{name}_sdp last set."
    return enable, is_enabled


enable_flash_sdp, flash_sdp_enabled = _switch(SDPBackend.FLASH_ATTENTION, "flash")
enable_mem_efficient_sdp, mem_efficient_sdp_enabled = _switch(SDPBackend.EFFICIENT_ATTENTION, "mem_efficient")
enable_math_sdp, math_sdp_enabled = _switch(SDPBackend.MATH, "math")
enable_cudnn_sdp, cudnn_sdp_enabled = _switch(SDPBackend.CUDNN_ATTENTION, "cudnn")


def is_flash_attention_available() -> bool:
    """Whether CUDA's flash attention is in this build."""
    return False


_reduced = False


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Whether the math implementation on CUDA may add in 16 bits."""
    global _reduced
    check_flag("allow_fp16_bf16_reduction_math_sdp", bool, enabled)
    _reduced = enabled


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """What allow_fp16_bf16_reduction_math_sdp last set."""
    return _reduced


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[None]:
    """The older form of nn.attention.sdpa_kernel."""
    chosen = {
        SDPBackend.FLASH_ATTENTION: enable_flash,
        SDPBackend.MATH: enable_math,
        SDPBackend.EFFICIENT_ATTENTION: enable_mem_efficient,
        SDPBackend.CUDNN_ATTENTION: enable_cudnn,
    }
    with attention.sdpa_kernel([backend for backend, enabled in chosen.items() if enabled]):
        yield
