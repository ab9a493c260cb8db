"""Who holds the memory: a page of its own in the report's manner, made from blocks with times, sizes and what asked for them."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tocha
from tocha.compiler._report import filled

MOST = 50_000  # blocks on a page: the largest


class Texts:
    """Each text once."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self.places: dict[str, int] = {}

    def place(self, text: str) -> int:
        if text not in self.places:
            self.places[text] = len(self.all)
            self.all.append(text)
        return self.places[text]

    def several(self, texts: Iterable[str]) -> list[int]:
        return [self.place(t) for t in texts]


def as_data(found: dict[str, Any]) -> dict[str, Any]:
    """`found` has a title and blocks: begin and end in microseconds (None: before, not yet), bytes, operator, ranges, modules, lines,
    name (who holds it now) and category."""
    texts = Texts()
    blocks = sorted(found["blocks"], key=lambda b: -b["bytes"])
    rows = [
        [
            b["begin"], b["end"], b["bytes"], texts.place(b["operator"]), texts.several(b["ranges"]), texts.several(b["modules"]),
            texts.several(b["lines"]), texts.place(b["name"]), texts.place(b["category"]),
        ]
        for b in blocks[:MOST]
    ]  # fmt: skip
    left = blocks[MOST:]
    return {
        "title": found["title"], "version": tocha.__version__, "made": time.strftime("%Y-%m-%d %H:%M:%S"),
        "machine": f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}",
        "left": [len(left), sum(b["bytes"] for b in left)], "texts": texts.all, "blocks": rows,
    }  # fmt: skip


def write(found: dict[str, Any], path: str | os.PathLike[str]) -> None:
    Path(path).write_text(filled("memory", as_data(found)))
