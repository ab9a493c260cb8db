"""Functions around the program's own that captured code goes through."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import tocha
from tocha.utils import _pytree as pytree


def wrap_numpy(function: Callable) -> Callable:
    """A function of NumPy arrays as one of tensors."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = pytree.tree_map_only(tocha.Tensor, lambda t: t.numpy(), (args, kwargs))
        # A scalar in captured code is an array of no dims, which gradients go through.
        kinds = (np.ndarray, np.generic) if tocha.compiler.is_compiling() else np.ndarray  # type: ignore[attr-defined]
        return pytree.tree_map_only(kinds, tocha.as_tensor, function(*args, **kwargs))

    return wrapped
