"""Flash-attention implementations that other packages bring: registered by name, one of them active at a time."""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable
from typing import Literal, Protocol

__all__ = [
    "FlashAttentionHandle", "activate_flash_attention_impl", "current_flash_attention_impl",
    "list_flash_attention_impls", "register_flash_attention_impl", "restore_flash_attention_impl",
]  # fmt: skip

_log = logging.getLogger(__name__)


class FlashAttentionHandle(Protocol):
    """What an implementation gives back when it is put in place."""

    def remove(self) -> None:
        """Takes the implementation out again."""


Implementation = str | Literal["FA3", "FA4"]
_Register = Callable[..., FlashAttentionHandle | None]


def _needs_package(package: str) -> None:
    """Puts nothing in place: these kernels are for GPUs, and a machine that has them has this package."""
    importlib.import_module(package)
    raise RuntimeError(f"{package} has kernels for CUDA devices, and no such device can be used here")


_known: dict[str, _Register] = {
    "FA3": functools.partial(_needs_package, "flash_attn_interface"),
    "FA4": functools.partial(_needs_package, "flash_attn.cute.interface"),
}
_active: tuple[str, FlashAttentionHandle] | None = None


def register_flash_attention_impl(impl: Implementation, *, register_fn: _Register) -> None:
    """Makes an implementation known under a name; register_fn puts it in place when it is activated.

    register_fn may return a handle, whose `remove` is called when the implementation goes.

    >>> from tocha.nn import attention
    >>> attention.register_flash_attention_impl("mine", register_fn=lambda: None)
    >>> "mine" in attention.list_flash_attention_impls()
    True
    """
    _known[impl] = register_fn


def activate_flash_attention_impl(impl: Implementation) -> None:
    """Puts a known implementation in place of the one there was.

    >>> from tocha.nn import attention
    >>> class Handle:
    ...     def remove(self):
    ...         pass
    >>> attention.register_flash_attention_impl("docs", register_fn=Handle)
    >>> attention.activate_flash_attention_impl("docs")
    >>> attention.current_flash_attention_impl()
    'docs'
    >>> attention.restore_flash_attention_impl()
    """
    global _active
    register = _known.get(impl)
    if register is None:
        raise ValueError(
            f"Unknown flash attention impl '{impl}'. Available implementations: {list_flash_attention_impls()}"
        )
    restore_flash_attention_impl(_raise_warn=False)
    handle = register()
    if handle is not None:
        _active = (impl, handle)


def restore_flash_attention_impl(_raise_warn: bool = True) -> None:
    """Takes the active implementation out; with _raise_warn, logs a warning if there is none.

    >>> from tocha.nn import attention
    >>> attention.restore_flash_attention_impl(_raise_warn=False)
    >>> attention.current_flash_attention_impl() is None
    True
    """
    global _active
    if _active is None:
        if _raise_warn:
            _log.warning("Trying to restore default FA2 impl when no custom impl was activated")
        return
    _, handle = _active
    _active = None
    handle.remove()


def list_flash_attention_impls() -> list[str]:
    """The names of the known implementations.

    >>> list_flash_attention_impls()[:2]
    ['FA3', 'FA4']
    """
    return sorted(_known)


def current_flash_attention_impl() -> str | None:
    """The name of the active implementation, or None.

    >>> current_flash_attention_impl() is None
    True
    """
    return None if _active is None else _active[0]
