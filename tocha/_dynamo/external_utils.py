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
        return pytree.tree_map_only(np.ndarray, tocha.as_tensor, function(*args, **kwargs))

    return wrapped
