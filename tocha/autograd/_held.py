"""What nodes whose forward and backward are graphs keep: higher-order operators, and functions captured with objects among their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tocha import _C

Tensor = _C.Tensor


class Held:
    """A list of values whose tensors are kept by autograd."""

    def __init__(self, values: Sequence[Any]):
        self.tensors = [v for v in values if isinstance(v, Tensor)]
        self.others = [None if isinstance(v, Tensor) else (v,) for v in values]

    def restored(self, tensors: Sequence[Tensor]) -> list[Any]:
        left = iter(tensors)
        return [next(left) if o is None else o[0] for o in self.others]
