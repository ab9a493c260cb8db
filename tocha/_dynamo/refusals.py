"""Refusals: everything that capture does not take into a graph, numbered, with an explanation and a hint."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tocha._dynamo.exc import TorchDynamoException


@dataclass(eq=False)
class Refusal:
    """A row of the registry."""

    number: int
    name: str
    explanation: str
    hint: str


REGISTRY: dict[str, Refusal] = {}


def _add(number: int, name: str, explanation: str, hint: str) -> None:
    assert name not in REGISTRY and all(r.number != number for r in REGISTRY.values())
    REGISTRY[name] = Refusal(number, name, explanation, hint)


_add(1, "graph_break", "The program called tocha._dynamo.graph_break().", "Remove the call, or leave fullgraph off.")
_add(2, "opcode", "This bytecode instruction cannot be captured.", "Move the construct out of compiled code.")
_add(3, "data_dependent_branch", "A branch depends on the elements of a tensor.", "Use tocha.where or tocha.cond.")
_add(4, "tensor_to_python", "A tensor's elements were asked for as a Python value.", "Keep the value in a tensor.")
_add(5, "builtin", "A native function that capture knows nothing about was called.", "Register a polyfill with tocha.compiler.substitute_in_graph, or move the call out of compiled code.")  # fmt: skip
_add(6, "print", "Something was printed or logged.", "Print outside of compiled code.")
_add(7, "attribute", "An attribute of this kind of object cannot be captured.", "Read it before compiled code runs.")
_add(8, "call", "This kind of object cannot be called in captured code.", "Call it outside of compiled code.")
_add(9, "reconstruct", "This value cannot be made again by generated code.", "Do not keep it across the break.")
_add(10, "disabled", "The function is marked with tocha.compiler.disable.", "Remove the mark.")
_add(11, "value", "Objects of this kind are not tracked.", "Make it a plain Python value, or use it outside.")
_add(12, "facts", "An operator's result depends on the elements of its inputs.", "Compute it outside of compiled code.")
_add(13, "recursion", "Calls are nested too deeply to be inlined.", "Make the recursion shallower, or a loop.")
_add(14, "steps", "The program takes too many steps to be unrolled.", "Move the loop out of compiled code.")
_add(15, "mutation", "A change of this kind of object cannot be replayed.", "Change it outside of compiled code.")
_add(16, "hash", "A value that is not a constant was used as a key or put into a set.", "Use constants as keys.")
_add(17, "generator", "A generator that has started cannot leave captured code.", "Make it a list.")
_add(18, "class_body", "A class was made inside captured code in a way that cannot be replayed.", "Make it outside.")
_add(19, "operator", "An operator between values of these kinds cannot be captured.", "Write it in another way.")
_add(20, "library_state", "The call changes the state of the library.", "Call it outside of compiled code.")
_add(
    21,
    "subclass",
    "A subclass of Tensor that takes operators over (__torch_dispatch__) and cannot be taken apart is not captured.",
    "Give it __tensor_flatten__ and __tensor_unflatten__, or use plain tensors in compiled code.",
)
_add(22, "autograd", "Differentiation inside captured code is not captured.", "Differentiate outside of compiled code, or set tocha._dynamo.config.trace_autograd_ops = True.")  # fmt: skip
_add(
    23, "import", "A module could not be imported.", "Import it at the top of the file, where its error can be handled."
)
_add(24, "random", "Python's or NumPy's random numbers were drawn.", "Draw them outside, or use tocha's.")
_add(
    25, "native_iterator", "An iterator made outside of compiled code was advanced.", "Make it inside, or pass a list."
)
_add(26, "disallowed", "The function is marked with tocha._dynamo.disallow_in_graph.", "Remove the mark.")
_add(27, "exception", "An exception leaves compiled code: its traceback shows the functions that it came through.", "Catch it in compiled code.")  # fmt: skip
_add(28, "sparse_gradient", "The gradient of a call is sparse, and graphs hold dense tensors only.", "Call it outside of compiled code, or leave sparse=True off.")  # fmt: skip


@dataclass(eq=False)
class Place:
    """A line of the user's program."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f'  File "{self.file}", line {self.line}, in {self.function}'

    @property
    def with_code(self) -> str:
        """As a traceback shows it: with the line's text, where there is one."""
        code = linecache.getline(self.file, self.line).strip()
        return f"{self}\n    {code}" if code else str(self)


class Unsupported(TorchDynamoException):
    """The tracer met something that it does not take into the graph."""

    def __init__(self, name: str, detail: str) -> None:
        self.refusal = REGISTRY[name]
        self.detail = detail
        self.stack: list[Place] = []
        self.at: int | None = None  # the captured frame's instruction to break at, where it is not the last one
        super().__init__(detail)

    def __str__(self) -> str:
        r = self.refusal
        lines = [f"[capture] {self.detail}", f"  Explanation: {r.explanation}", f"  Hint: {r.hint}"]
        lines.append(f"  Graph break number {r.number} ({r.name}): docs/guide/graph_breaks.md")
        if self.stack:
            lines += ["from user code:", *(str(p) for p in self.stack)]
        return "\n".join(lines)


class Forbidden(AssertionError):
    """A function that must not be gone through (forbid_in_graph) was called."""


class SkipFrame(Exception):
    """Nothing of this frame can be captured: it runs in Python."""

    def __init__(self, reason: str, cause: Unsupported | None = None) -> None:
        super().__init__(reason)
        self.cause = cause


class Changes(SkipFrame):
    """Something has to happen before the frame is captured, once: it is looked at anew after that."""

    def __init__(self, reason: str, happens: Callable[[], None]) -> None:
        super().__init__(reason)
        self.happens = happens


class Escapes(Exception):
    """An exception leaves the frame, and what raised it says it best: wherever these guards hold it runs uncaptured."""

    def __init__(self, guards: Any = None) -> None:
        self.guards = guards
