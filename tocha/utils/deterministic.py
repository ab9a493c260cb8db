"""What deterministic algorithms do about memory that nobody has written.

While they are asked for and `fill_uninitialized_memory` is True, `empty` and its like fill their tensors with NaN, or
the greatest integer, and `resize_` fills what it adds.

>>> import tocha
>>> from tocha.utils import deterministic
>>> tocha.use_deterministic_algorithms(True)
>>> tocha.empty(2), tocha.empty(1, dtype=tocha.int8)
(tensor([nan, nan]), tensor([127], dtype=tocha.int8))
>>> tocha.use_deterministic_algorithms(False)
"""

import sys
import types

from tocha._core import switches


class _Deterministic(types.ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether tensors without values are filled while deterministic algorithms are asked for; True unless set."""
        return switches.fills_uninitialized()

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, value: bool) -> None:
        switches.set_fill_uninitialized(value)


sys.modules[__name__].__class__ = _Deterministic
