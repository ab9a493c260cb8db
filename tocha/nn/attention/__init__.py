"""Which implementation scaled_dot_product_attention may take, and biases made for it.

One implementation serves every backend's name here: a choice decides only whether attention may run.
"""

from __future__ import annotations

import contextlib
import contextvars
import enum
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tocha.nn.attention._registry import (
    activate_flash_attention_impl,
    current_flash_attention_impl,
    list_flash_attention_impls,
    register_flash_attention_impl,
    restore_flash_attention_impl,
)
from tocha.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from tocha.nn.attention import bias, flex_attention, varlen  # noqa: F401

__all__ = [
    "WARN_FOR_UNFUSED_KERNELS", "SDPBackend", "activate_flash_attention_impl", "current_flash_attention_impl",
    "list_flash_attention_impls", "register_flash_attention_impl", "restore_flash_attention_impl", "sdpa_kernel",
]  # fmt: skip

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.Enum):
    """The implementations of scaled dot-product attention that PyTorch names.

    >>> SDPBackend.MATH, int(SDPBackend.FLASH_ATTENTION)
    (<SDPBackend.MATH: 0>, 1)
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self) -> int:
        return self.value

    __index__ = __int__


_ORDER = (
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
    SDPBackend.OVERRIDEABLE,
)
_ON_CPU = {SDPBackend.MATH, SDPBackend.FLASH_ATTENTION}
_enabled: contextvars.ContextVar[tuple[SDPBackend, ...]] = contextvars.ContextVar("sdpa_backends", default=_ORDER)


class _NoBackend(TorchFunctionMode):
    """While active, refuses attention; so the function itself need not look at the choice."""

    def __torch_function__(
        self, func: Callable, types: Sequence[type], args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        if getattr(func, "__name__", "") == "scaled_dot_product_attention":
            raise RuntimeError(
                "No viable backend for scaled_dot_product_attention was found. This is likely due to turning off both "
                "the math kernel and the fused kernels."
            )
        return func(*args, **(kwargs or {}))


_refusal = _NoBackend()


def allow(backend: SDPBackend, enabled: bool) -> None:
    """Adds a backend to those that may be used from now on, or takes it away (backends.cuda.enable_flash_sdp, ...)."""
    before = _enabled.get()
    chosen = tuple(b for b in _ORDER if (enabled if b is backend else b in before))
    _enabled.set(chosen)
    could, can = (bool(_ON_CPU.intersection(choice)) for choice in (before, chosen))
    if could and not can:
        _refusal.__enter__()
    elif can and not could:
        _refusal.leave()


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    """The backends that may be used now; with_priority, the preferred first."""
    enabled = _enabled.get()
    return list(enabled) if with_priority else [b for b in _ORDER if b in enabled]


@contextlib.contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[None]:
    """Within it, scaled_dot_product_attention may use only these backends; set_priority: in this order.

    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     _cur_sdpa_kernel_backends()
    [<SDPBackend.MATH: 0>]
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            f"Backend must be an instance of SDPBackend or a list of SDPBackend instances, got {type(backends).__name__}"
        )
    chosen = [backends] if isinstance(backends, SDPBackend) else list(dict.fromkeys(backends))
    if not set_priority:
        chosen = [b for b in _ORDER if b in chosen]
    token = _enabled.set(tuple(chosen))
    try:
        with contextlib.nullcontext() if _ON_CPU.intersection(chosen) else _NoBackend():
            yield
    finally:
        _enabled.reset(token)


def __getattr__(name: str) -> Any:
    """The modules of other kinds of attention: when somebody asks."""
    if name in ("bias", "flex_attention", "varlen"):
        return importlib.import_module(f"tocha.nn.attention.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
