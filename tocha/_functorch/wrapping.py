"""What is done around a compiled graph, as plain data: where results come from, what is written to inputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tocha._functorch.synthetic_bases import OnBases
from tocha._functorch.views import Step
from tocha.ir.symbolic import Atom

RAW, INPUT, VIEW_OF_INPUT, VIEW_OF_RAW, CONSTANT = "raw", "input", "view of input", "view of raw", "constant"
PART = "part of input"  # an inner tensor of a wrapper
# Sizes and strides; where those are symbols the order of dims from the innermost on, and nothing.
Layout = tuple[tuple[int, ...], tuple[int, ...]]
NATIVE_KINDS = {RAW: 0, INPUT: 1, CONSTANT: 2}
VIEW = 3
ORIGINS = {VIEW_OF_RAW: NATIVE_KINDS[RAW], VIEW_OF_INPUT: NATIVE_KINDS[INPUT]}


@dataclass
class Output:
    """Where a result of the function comes from: the graph, an input, or a view of one of them that is made outside."""

    kind: str
    index: int = -1
    chain: tuple[Step, ...] = ()
    recorded: bool = True  # whether autograd may see the views being made
    value: Any = None
    path: tuple[str, ...] = ()  # to the part of an input


@dataclass
class Mutation:
    """An input that the function writes to: which result of the graph is its new value."""

    input: int
    raw: int | None  # none where only its geometry changes
    recorded: bool  # whether autograd sees the write
    geometry: tuple | None = (
        None  # its sizes, strides and offset (from where it began, not in the storage), if those change
    )
    memory: bool = False  # it lies on other memory afterwards (set_)
    writes: int = 0  # by how much its version goes up


@dataclass
class Refusal:
    """Why the gradient of a result of the graph cannot be taken on to some inputs."""

    raw: int
    inputs: list[int]
    not_implemented: bool  # a NotImplementedError
    reason: str

    def error(self) -> RuntimeError:
        return (NotImplementedError if self.not_implemented else RuntimeError)(self.reason)


@dataclass
class Wrapping:
    """What is done around a compiled graph. It holds nothing of the graph, and can be written down."""

    num_raw: int
    outputs: list[Output]
    mutations: list[Mutation]
    differentiable: list[int] = field(default_factory=list)
    layouts: list[Layout] = field(default_factory=list)  # that backward was traced with
    copied: list[int] = field(default_factory=list)  # saved values that are written to after the graph has run
    sources: list[list[int]] = field(default_factory=list)  # per input: the tangents that reach it
    refusals: list[Refusal] = field(default_factory=list)
    on_bases: OnBases | None = None
    wrappers: Any = None
    tangents: list[Any] = field(default_factory=list)  # fakes, for those that wrappers are made of
    # Where symbols that views are made with are read: off an input (or a raw result), a number's place or a tensor's and its dim.
    symbols: dict[Atom, tuple[bool, int, int | None]] = field(default_factory=dict)

    @property
    def with_history(self) -> set[int]:
        """Raw results that are recorded, whether or not their gradients can be had."""
        return {*self.differentiable, *(r.raw for r in self.refusals)}

    @property
    def is_native(self) -> bool:
        """Whether nothing but the native function is needed."""
        plain = all(map(is_plain_result, self.outputs)) and all(map(is_plain_write, self.mutations))
        return plain and self.on_bases is None and self.wrappers is None


def is_plain_result(o: Output) -> bool:
    """Whether a result is a value that is there, or a view of one by numbers that do not change."""
    return o.kind in NATIVE_KINDS or (o.kind in ORIGINS and not any(step.is_symbolic for step in o.chain))


def is_plain_write(m: Mutation) -> bool:
    """Whether a write only puts values in: no other geometry or memory."""
    return m.raw is not None and m.geometry is None and not m.memory
