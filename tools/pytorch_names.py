"""Writes tocha/_alias/pytorch_names.json: the modules of PyTorch that tocha has no counterpart of, and their public names.

Read from an installed PyTorch (make parity's environment), without importing it. Under the alias such a module can be
imported, and each of its names refuses when it is used (tocha/_alias/refused.py).
"""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "tocha" / "_alias" / "pytorch_names.json"
# Not for programs: tests, vendored packages, the insides of compilers.
SKIPPED = (
    "testing.",
    "utils.hipify",
    "utils.benchmark.examples",
    "onnx.ops",
    "export.passes",
    "include",
    "bin",
    "ao.ns",
    "distributed.benchmarks",
)


def is_private(name: str) -> bool:
    return any(part.startswith("_") for part in name.split("."))


def modules(package: Path) -> dict[str, Path]:
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name and "-" not in name and not name.startswith(SKIPPED) and not is_private(name):
            found[name] = path
    return found


def has_counterpart(name: str) -> bool:
    base = ROOT / "tocha" / Path(*name.split("."))
    return base.with_suffix(".py").exists() or (base / "__init__.py").exists()


def _defined(statement: ast.stmt) -> list[tuple[str, str]]:
    if isinstance(statement, ast.ClassDef):
        return [(statement.name, "class")]
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return [(statement.name, "function")]
    if isinstance(statement, ast.Assign):
        return [(t.id, "value") for t in statement.targets if isinstance(t, ast.Name)]
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [(statement.target.id, "value")]
    if isinstance(statement, ast.ImportFrom) and (statement.level or (statement.module or "").startswith("torch")):
        # imported from its own package: offered again
        return [(a.asname or a.name, "class" if a.name[:1].isupper() else "function") for a in statement.names]
    if isinstance(statement, ast.If | ast.Try | ast.With):
        return [pair for body in _bodies(statement) for s in body for pair in _defined(s)]
    return []


def _bodies(statement: ast.stmt) -> list[list[ast.stmt]]:
    handlers = [h.body for h in getattr(statement, "handlers", [])]
    return [statement.body, getattr(statement, "orelse", []), *handlers]  # type: ignore[attr-defined]


def _starred(statement: ast.stmt, path: Path, package: Path) -> Path | None:
    """The file that `from x import *` takes names from."""
    if not isinstance(statement, ast.ImportFrom) or statement.names[0].name != "*":
        return None
    if statement.level:
        base = path.parents[statement.level - 1]
        base = base / Path(*(statement.module or "").split("."))
    else:
        base = package.parent / Path(*(statement.module or "").split("."))
    return next((f for f in (base.with_suffix(".py"), base / "__init__.py") if f.exists()), None)


def names(path: Path, package: Path, depth: int = 3) -> dict[str, str]:
    body = ast.parse(path.read_text()).body
    found = {name: kind for s in body for name, kind in _defined(s)}
    for statement in body if depth else ():
        if (other := _starred(statement, path, package)) is not None:
            found = names(other, package, depth - 1) | found
    return {name: kind for name, kind in found.items() if name != "*" and not name.startswith("_")}


def main() -> int:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None or (ROOT / "tocha") in Path(spec.origin).parents:
        print("PyTorch is not installed here: run with .venv-parity/bin/python", file=sys.stderr)
        return 1
    package = Path(spec.origin).parent
    table = {}
    for name, path in modules(package).items():
        if not has_counterpart(name):
            kinds: dict[str, list[str]] = {"package": []} if path.name == "__init__.py" else {}
            for public, kind in sorted(names(path, package).items()):
                kinds.setdefault(kind, []).append(public)
            table[name] = {k: " ".join(v) for k, v in kinds.items()}
    lines = [f"{json.dumps(n)}: {json.dumps(v)}" for n, v in sorted(table.items())]
    OUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(table)} modules")
    return 0


if __name__ == "__main__":
    sys.exit(main())
