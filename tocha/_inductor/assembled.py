"""Arguments of operators that a program calls, with places where its tensors and sizes go."""

from __future__ import annotations

import struct
from typing import Any


class TensorPlace(int):
    """A tensor, by its number."""


class Size(int):
    """A size or another whole number that is known when the program is called."""


class Real(int):
    """A number whose bits are given as a size."""


class Truth(int):
    """Whether a size is not 0."""


class Element(int):
    """The number in a tensor."""


def real_of(bits: int) -> float:
    return struct.unpack("d", struct.pack("q", bits))[0]


class Assembled:
    """Calls a function with tensors and sizes put back where they were in its arguments: the tensors come one by one, the
    sizes after them, in a list."""

    def __init__(self, function: Any, form: list[Any], names: tuple[str, ...]):
        self.function, self.form, self.names = function, form, names
        self.fixed: dict[str, Any] = {"function": function, "real": real_of}
        values = [self.text(v) for v in form]
        split = len(values) - len(names)
        if not all(k.isidentifier() for k in names):  # they may come from a file
            raise ValueError(f"{names} are no names of arguments")
        values[split:] = [f"{k}={v}" for k, v in zip(names, values[split:], strict=True)]
        self.run = eval(f"lambda *given: function({', '.join(values)})", self.fixed)

    def text(self, v: Any) -> str:
        """Python that gives the value."""
        if isinstance(v, TensorPlace):
            return f"given[{int(v)}]"
        if isinstance(v, Element):
            return f"given[{int(v)}].item()"
        if isinstance(v, Size):
            return f"given[-1][{int(v)}]"
        if isinstance(v, Real):
            return f"real(given[-1][{int(v)}])"
        if isinstance(v, Truth):
            return f"(given[-1][{int(v)}] != 0)"
        if type(v) in (list, tuple):
            parts = "".join(f"{self.text(x)}, " for x in v)
            return f"[{parts}]" if type(v) is list else f"({parts})"
        name = f"fixed_{len(self.fixed)}"
        self.fixed[name] = v
        return name

    def __call__(self, *given: Any) -> Any:
        return self.run(*given)
