"""A line on the terminal while a compilation takes long: what is being done, for how many seconds."""

from __future__ import annotations

import os
import sys
import threading
import time

from tocha._logging import events

PATIENCE = 2.0  # seconds before the line appears
PERIOD = 0.2
WORDS = {
    "capture": "capturing", "backend": "compiling", "differentiate": "differentiating", "partition": "partitioning", "lowering": "lowering",
    "scheduling": "fusing", "memory": "planning memory", "code": "writing code", "library": "loading", "c++": "compiling C++", "backward": "compiling backward",
}  # fmt: skip


class Progress:
    """Listens to stages. The line is drawn by a thread that lives as long as the outermost stage."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.graphs = self.kernels = self.done = 0
        self.function = ""
        self.began = 0.0
        self.drawn = False
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.owner = 0

    def is_wanted(self) -> bool:
        return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TOCHA_PROGRESS", "1") != "0"

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.CaptureBegan(code=code):
                self.function = code.co_name
            case events.GraphCaptured():
                self.graphs += 1
            case events.LoopsMade(stage="post_fusion", loops=loops):
                self.kernels += len(loops)
            case events.ProgramMade(compiled=compiled):
                self.done += len(compiled.items)
            case events.StageBegan(name=name):
                self.begin(name, event.thread)
            case events.StageEnded():
                self.end(event.thread)

    def begin(self, name: str, thread: int) -> None:
        if self.open and thread != self.owner:
            return
        self.open.append(name)
        if len(self.open) > 1 or not self.is_wanted():
            return
        self.owner, self.began, self.drawn = thread, time.monotonic(), False
        self.graphs = self.kernels = self.done = 0
        self.ended = threading.Event()
        threading.Thread(target=self.draw, args=(self.ended,), daemon=True).start()

    def end(self, thread: int) -> None:
        if not self.open or (self.owner and thread != self.owner):
            return
        self.open.pop()
        if self.open:
            return
        self.ended.set()
        self.owner = 0
        with self.lock:
            if self.drawn:
                self.write("\r\x1b[K")
                self.drawn = False

    def draw(self, ended: threading.Event) -> None:
        if ended.wait(PATIENCE):
            return
        while not ended.wait(PERIOD):
            with self.lock:
                if not ended.is_set():
                    self.write(f"\r\x1b[K{self.text()}")
                    self.drawn = True

    def text(self) -> str:
        stage = WORDS.get(self.open[-1], self.open[-1]) if self.open else ""
        kernels = f", kernels {self.done} of {self.kernels}" if self.kernels else ""
        return f"[tocha] {stage} {self.function}{kernels}, {time.monotonic() - self.began:.0f} s"

    @staticmethod
    def write(text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):  # a terminal that has gone
            pass


PROGRESS = Progress()
