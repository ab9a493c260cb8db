"""Holds the order of the rooms: lower ones never import or include higher ones (docs/inside/rooms.md)."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Lower first; rooms on one line are neighbours and may know each other.
PYTHON = [
    {"ir"},
    {"operators", "codegen"},
    {"_build"},
    {
        "_C",
        "_load",
        "version",
        "_tensor",
        "_tensor_str",
        "_functions",
        "_type_info",
        "_utils",
        "_library",
        "_operators",
        "_ops",
        "overrides",
        "storage",
        "functional",
        "special",
        "autograd",
        "utils",
        "multiprocessing",
        "_einsum",
        "_lobpcg",
        "_lowrank",
        "_unique",
        "_errors",
        "_overridable",
        "_return_types",
        "_switches",
        "_tensor_methods",
        "_tensor_types",
        "__config__",
        "accelerator",
        "backends",
        "cpu",
        "cuda",
        "testing",
        "types",
        "signal",
        "library",
        "linalg",
        "fft",
        "distributions",
        "nn",
        "optim",
        "amp",
        "func",
        "serialization",
        "_serialization",
        "random",
        "masked",
        "sparse",
        "_sparse_methods",
    },
    {"fx"},
    {"_functorch"},
    {"_inductor"},
    {"_dynamo"},
    {"export", "ao", "onnx", "distributed", "jit", "profiler", "compat"},
]
NATIVE = [{"core"}, {"dispatch"}, {"autograd"}, {"cpu", "cuda"}, {"capture"}, {"python"}]


def rank(rooms: list[set[str]], name: str) -> int | None:
    return next((i for i, level in enumerate(rooms) if name in level), None)


def python_imports(path: Path) -> list[tuple[int, str]]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module] if node.module != "tocha" else [f"tocha.{a.name}" for a in node.names]
        found += [(node.lineno, n) for n in names if n.startswith("tocha.")]
    return found


def main() -> int:
    problems = []
    for path in sorted((ROOT / "tocha").rglob("*.py")):
        parts = path.relative_to(ROOT / "tocha").parts
        room = parts[0].removesuffix(".py")
        mine = rank(PYTHON, room)
        if mine is None:
            if room != "__init__":
                problems.append(f"{path}: {room} has no place in the order of rooms")
            continue
        for line, name in python_imports(path):
            other = rank(PYTHON, name.split(".")[1])
            if other is not None and other > mine:
                problems.append(f"{path}:{line}: {room} imports {name}, a higher room")
    for path in sorted([*(ROOT / "csrc").rglob("*.h"), *(ROOT / "csrc").rglob("*.cpp")]):
        room = path.relative_to(ROOT / "csrc").parts[0]
        mine = rank(NATIVE, room)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            m = re.match(r'#include "(\w+)/', line)
            other = rank(NATIVE, m.group(1)) if m else None
            if mine is not None and other is not None and other > mine:
                problems.append(f"{path}:{number}: {room} includes {m.group(1)}, a higher room")
    print("\n".join(problems) or "rooms are in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
