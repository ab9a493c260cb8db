"""Fails if a file outside tocha/operators lists operator names: the records are the only list.

A list is a display (list, tuple, set, dict keys) or a C++ initializer with six or more strings or names
of which most are operators. The scalar IR's primitives are a level below operators and are exempt; so is the
translator, which knows the functions of Python's math module, and capture's tables of NumPy's functions.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FEWEST = 6
SHARE = 0.8
EXEMPT = (
    "tocha/operators/",
    "tocha/ir/",
    "tocha/codegen/translator.py",
    "tocha/codegen/translator_types.py",
    "tocha/_build/",
    "tocha/_dynamo/arrays.py",
    "tests/",
    "benchmarks/",
    "examples/",
    "tools/",
)
# Words that are operators' names and ordinary words too.
COMMON = {
    "bool",
    "float",
    "double",
    "int",
    "long",
    "short",
    "half",
    "byte",
    "char",
    "bfloat16",
    "to",
    "item",
    "type",
    "full",
    "size",
    "where",
    "copy_",
    "set_",
}


def operator_names() -> set[str]:
    names = set()
    for path in (ROOT / "tocha" / "operators").glob("*.py"):
        names |= set(re.findall(r'@\w+\(\s*"(\w+)[.(]', path.read_text()))
    return {n for n in names if len(n) > 2} - COMMON


def displays(path: Path) -> list[tuple[int, list[str]]]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        items: list[ast.expr | None] = []
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            items = list(node.elts)
        elif isinstance(node, ast.Dict):
            items = list(node.keys)
        words = [i.value for i in items if isinstance(i, ast.Constant) and isinstance(i.value, str)]
        words += [i.id for i in items if isinstance(i, ast.Name)] + [
            i.attr for i in items if isinstance(i, ast.Attribute)
        ]
        found.append((getattr(node, "lineno", 0), words))
    return found


def initializers(path: Path) -> list[tuple[int, list[str]]]:
    text = path.read_text()
    found = []
    for m in re.finditer(r"\{((?:\s*\"\w+\"\s*,)+\s*\"\w+\"\s*,?)\s*\}", text):
        found.append((text.count("\n", 0, m.start()) + 1, re.findall(r'"(\w+)"', m.group(1))))
    return found


def main() -> int:
    names = operator_names()
    problems = []
    for path in sorted([*ROOT.glob("tocha/**/*.py"), *ROOT.glob("csrc/**/*.cpp"), *ROOT.glob("csrc/**/*.h")]):
        relative = str(path.relative_to(ROOT))
        if relative.startswith(EXEMPT):
            continue
        lists = displays(path) if path.suffix == ".py" else initializers(path)
        for line, words in lists:
            hits = [w for w in words if w.removeprefix("nn_").removeprefix("special_") in names]
            if len(hits) >= FEWEST and len(hits) >= SHARE * len(words):
                problems.append(f"{relative}:{line}: lists operators: {', '.join(hits[:8])} ...")
    print("\n".join(problems) or f"no second list of the {len(names)} operators")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
