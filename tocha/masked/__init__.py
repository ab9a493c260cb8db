"""Operations that see only the elements whose mask is True, under torch.masked's names, and tensors that carry a mask."""

from __future__ import annotations

import importlib
from typing import Any

from tocha.masked._functions import (  # noqa: F401, the public names
    amax,
    amin,
    argmax,
    argmin,
    cumprod,
    cumsum,
    log_softmax,
    logaddexp,
    logsumexp,
    mean,
    median,
    norm,
    normalize,
    prod,
    softmax,
    softmin,
    std,
    sum,
    var,
)

_TENSORS = ("MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor")


def __getattr__(name: str) -> Any:
    """Masked tensors: when somebody asks for them."""
    if name in _TENSORS:
        return getattr(importlib.import_module("tocha.masked.maskedtensor"), name)
    if name in ("maskedtensor", "_ops"):
        return importlib.import_module(f"tocha.masked.{'maskedtensor' if name == 'maskedtensor' else '_functions'}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [name for name in globals() if not name.startswith("_") and name not in ("Any", "annotations", "importlib")]
__all__ += _TENSORS
