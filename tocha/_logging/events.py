"""What the compiler tells of its work. docs/inside/events.md says who tells what, and who listens."""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False, repr=False)
class Event:
    """When it happened, and in which compilation: set when it is told."""

    time: int = field(default=0, init=False)  # nanoseconds, time.perf_counter_ns
    compile_id: str = field(default="", init=False)
    thread: int = field(default=0, init=False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in vars(self).items())})"


@dataclass(eq=False, repr=False)
class CaptureBegan(Event):
    """A frame is about to be captured."""

    code: Any


@dataclass(eq=False, repr=False)
class CaptureEnded(Event):
    """It was, or not."""

    code: Any
    error: BaseException | None  # why nothing was captured; None if something was


@dataclass(eq=False, repr=False)
class Recompiled(Event):
    """A function is captured again: what did not hold of the earlier captures."""

    code: Any
    reason: str | None
    every_reason: Callable[[], list[str]]  # what fails of each of the earlier captures


@dataclass(eq=False, repr=False)
class GraphBroke(Event):
    """Capture stops at an instruction."""

    code: Any
    refused: Any  # tocha._dynamo.refusals.Unsupported
    calls: int  # operators that were in the graph by then


@dataclass(eq=False, repr=False)
class GraphCaptured(Event):
    """What a backend is given."""

    module: Any
    examples: Sequence[Any]


@dataclass(eq=False, repr=False)
class FrameMade(Event):
    """A captured frame: its guards and symbols, and the code that runs in its place."""

    code: Any
    output: Any  # tocha._dynamo.output.Output
    made: Any


@dataclass(eq=False, repr=False)
class GraphMade(Event):
    """A graph on its way through the compiler."""

    stage: str  # joint, forward, backward, inference, post_grad
    module: Any


@dataclass(eq=False, repr=False)
class LoopsMade(Event):
    """Loops before and after they are fused."""

    stage: str  # pre_fusion, post_fusion
    loops: Any  # a Program, or kernels and calls in order


@dataclass(eq=False, repr=False)
class ProductTuned(Event):
    """The way in which a matrix product is computed (config.max_autotune)."""

    product: str
    chosen: str
    seconds: dict[str, float]  # of every way; empty where the choice was known from before


@dataclass(eq=False, repr=False)
class LayoutChosen(Event):
    """How the pictures of a graph of convolutions lie (config.layout_optimization)."""

    chosen: str
    copies: int  # that channels last take
    given: float  # seconds of all convolutions as their pictures lie
    last: float  # and with channels last, copies included


@dataclass(eq=False, repr=False)
class ProgramMade(Event):
    """What runs in place of a graph."""

    module: Any
    compiled: Any  # tocha._inductor.programs.CompiledGraph
    keeps_memory: bool = False  # of temporaries, between calls


@dataclass(eq=False, repr=False)
class ProgramLoaded(Event):
    """The same from the cache: its kernels, what they were before they were fused, and the bytes that they read and write."""

    counts: Sequence[int]


@dataclass(eq=False, repr=False)
class RanUncompiled(Event):
    """A graph that runs operator by operator."""

    reason: str


@dataclass(eq=False, repr=False)
class Differed(Event):
    """Compiled and eager differ (config.verify): the graph and its inputs, the smallest piece of it that does, and its script."""

    module: Any
    args: Sequence[Any]
    piece: Any
    path: str


@dataclass(eq=False, repr=False)
class CacheAsked(Event):
    """Whether a cache on disk had it."""

    kind: str
    hit: bool
    what_changed: Callable[[], str]


@dataclass(eq=False, repr=False)
class StageBegan(Event):
    """A named piece of work."""

    name: str


@dataclass(eq=False, repr=False)
class StageEnded(Event):
    """Its end, and when it began."""

    name: str
    began: int


@dataclass(eq=False, repr=False)
class Stepped(Event):
    """The tracer is at an instruction. Told only while somebody wants to see every one (`STEPS`)."""

    file: str
    line: int
    function: str
    depth: int
    instruction: str
    argument: Any
    stack: int
    first: bool  # of its frame
    new_line: bool


Listener = Callable[[Event], None]
STEPS: list[str] = []  # who wants to see every instruction
THOROUGH: list[Listener] = []  # who wants to see everything: graphs are compiled, not taken from the cache
LISTENERS: list[Listener] = []
TIMES: dict[str, list[float]] = {}  # seconds of every stage by its name


class _State(threading.local):
    compile_id = ""
    telling = False


_STATE = _State()


def tell(event: Event) -> None:
    """Hands an event to all who listen."""
    if not LISTENERS or _STATE.telling:
        return
    event.time, event.compile_id, event.thread = time.perf_counter_ns(), _STATE.compile_id, threading.get_ident()
    _STATE.telling = True  # what listeners compile themselves is nobody's business
    try:
        for listen in list(LISTENERS):
            try:
                listen(event)
            except RecursionError:
                continue  # the program's own depth: the next event may find room
            except Exception as error:
                remove(listen)
                warnings.warn(f"[events] a listener failed and is taken off: {type(error).__name__}: {error}", stacklevel=2)  # fmt: skip
    finally:
        _STATE.telling = False


def step(frame: Any, instruction: Any) -> None:
    """For the tracer's loop, where STEPS is not empty."""
    line, before = frame.line, getattr(frame, "_line_told", None)
    frame._line_told = line
    tell(
        Stepped(
            frame.code.co_filename, line, frame.code.co_qualname, frame.depth, instruction.name, instruction.arg,
            len(frame.stack), before is None, before != line,
        )
    )  # fmt: skip


def add(listener: Listener, thorough: bool = False) -> Listener:
    if listener not in LISTENERS:
        LISTENERS.append(listener)
    if thorough and listener not in THOROUGH:
        THOROUGH.append(listener)
    return listener


def remove(listener: Listener) -> None:
    for known in (LISTENERS, THOROUGH):
        if listener in known:
            known.remove(listener)


@contextlib.contextmanager
def listening(listener: Listener, thorough: bool = True) -> Iterator[None]:
    """Events go to the listener too, for a while."""
    LISTENERS.append(listener)
    if thorough:
        THOROUGH.append(listener)
    try:
        yield
    finally:
        remove(listener)


def compile_id() -> str:
    """Of the compilation that is under way on this thread: frame/attempt."""
    return _STATE.compile_id


@contextlib.contextmanager
def within(known: str) -> Iterator[None]:
    """What is told belongs to a compilation that is known already."""
    before, _STATE.compile_id = _STATE.compile_id, known
    try:
        yield
    finally:
        _STATE.compile_id = before


@contextlib.contextmanager
def stage(name: str) -> Iterator[None]:
    """A named piece of work."""
    tell(StageBegan(name))
    began = time.perf_counter_ns()
    try:
        yield
    finally:
        TIMES.setdefault(name, []).append((time.perf_counter_ns() - began) / 1e9)
        tell(StageEnded(name, began))


_FRAMES: dict[int, tuple[Any, int, int]] = {}  # a code's id: the code, its number, captures so far
_numbers = iter(range(1 << 62))


def recompiled(code: Any, reason: str | None, every_reason: Callable[[], list[str]]) -> None:
    """A function is captured again: the compile id is that of the capture that follows."""
    _, number, attempts = _FRAMES.get(id(code), (code, 0, 0))
    with within(f"{number}/{attempts}"):
        tell(Recompiled(code, reason, every_reason))


@contextlib.contextmanager
def capturing(code: Any) -> Iterator[None]:
    """Around one capture of a frame: gives it its compile id."""
    _, number, attempts = _FRAMES.get(id(code)) or (code, next(_numbers), 0)
    _FRAMES[id(code)] = (code, number, attempts + 1)
    with within(f"{number}/{attempts}"):
        tell(CaptureBegan(code))
        try:
            with stage("capture"):
                yield
        except BaseException as error:
            tell(CaptureEnded(code, error))
            raise
        tell(CaptureEnded(code, None))


def forget() -> None:
    """Numbers begin again, and times."""
    global _numbers
    _FRAMES.clear()
    _numbers = iter(range(1 << 62))
    TIMES.clear()
