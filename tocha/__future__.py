"""Switches for behaviour that PyTorch means to change."""

from __future__ import annotations

_overwrite = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether converting a module gives it new parameters instead of changing `.data`."""
    global _overwrite
    _overwrite = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether converting a module gives it new parameters."""
    return _overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether converting or loading a module swaps its parameters: that is not built, and refused."""
    if value:
        raise NotImplementedError(
            "[set_swap_module_params_on_conversion] is not built in tocha: use tocha.utils.swap_tensors"
        )


def get_swap_module_params_on_conversion() -> bool:
    """Whether converting or loading a module swaps its parameters."""
    return False
