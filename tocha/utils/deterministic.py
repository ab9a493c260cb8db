"""What deterministic algorithms do about memory that nobody has written.

tocha.empty never writes the memory it hands out, so the flag is False and cannot be set.
"""

import sys
import types


class _Deterministic(types.ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether tensors without values are filled with NaN while deterministic algorithms are asked for."""
        return False

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, value: bool) -> None:
        if value:
            raise RuntimeError("tocha does not fill memory that nobody has written: this flag can only be False")


sys.modules[__name__].__class__ = _Deterministic
