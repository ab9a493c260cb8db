"""Writes docs/guide/graph_breaks.md from the registry of refusals: python tools/graph_breaks.py"""

from __future__ import annotations

import sys
from pathlib import Path

from tocha._dynamo.refusals import REGISTRY

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guide" / "graph_breaks.md"
HEAD = """# Graph breaks

What `tocha.compile` does not take into a graph runs in Python, and capture goes on after it. Each such place has a number; `fullgraph=True` raises with it and with the lines of your program,
`tocha._dynamo.explain(f)(*args)` lists them, and `logging.getLogger("tocha._dynamo")` at INFO tells of them as they happen. This page is made from the registry (`tocha/_dynamo/refusals.py`).

| number | name | explanation | hint |
|---|---|---|---|
"""


def text() -> str:
    rows = sorted(REGISTRY.values(), key=lambda r: r.number)
    return HEAD + "".join(f"| {r.number} | `{r.name}` | {r.explanation} | {r.hint} |\n" for r in rows)


if __name__ == "__main__":
    PAGE.write_text(text())
    sys.exit(0)
