"""Writes docs/guide/names.md: the public names of PyTorch's modules, and which of them are here, refused or absent.

Run where both libraries are installed (.venv-parity/bin/python tools/name_table.py).
"""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "guide" / "names.md"
MODULES = (
    "", "Tensor", "nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "nn.parameter", "optim", "optim.lr_scheduler", "utils",
    "utils.data", "utils.checkpoint", "linalg", "fft", "special", "distributions", "autograd", "autograd.functional", "func", "sparse",
    "amp", "random", "testing", "storage", "serialization", "fx", "compiler", "library", "masked", "signal.windows", "overrides", "hub",
    "multiprocessing", "backends",
)  # fmt: skip


def _object(root: str, name: str) -> Any:
    if not name:
        return importlib.import_module(root)
    try:
        return importlib.import_module(f"{root}.{name}")
    except ImportError:
        return getattr(importlib.import_module(root), name)


def public_names(found: Any) -> list[str]:
    """What a module says is public; else what it holds that is no module and has no leading underscore."""
    listed = getattr(found, "__all__", None)
    if listed:
        return sorted({n for n in listed if not n.startswith("_")})
    names = [n for n in dir(found) if not n.startswith("_")]
    return [n for n in names if not isinstance(getattr(found, n, None), types.ModuleType) and not _is_foreign(found, n)]


def _is_foreign(found: Any, name: str) -> bool:
    """Imported from the standard library by the way."""
    module = getattr(getattr(found, name, None), "__module__", None)
    return isinstance(module, str) and module.partition(".")[0] in sys.stdlib_module_names


def state(ours: Any, name: str) -> str:
    """present, refused or absent."""
    try:
        value = getattr(ours, name)
    except AttributeError:
        return "absent"
    return "refused" if getattr(getattr(value, "__code__", None), "co_name", "") == "refuse" else "present"


def rows() -> list[tuple[str, int, list[str], list[str]]]:
    found = []
    for name in MODULES:
        theirs = _object("torch", name)
        try:
            ours = _object("tocha", name)
        except (ImportError, AttributeError):
            ours = None
        states = {n: state(ours, n) for n in public_names(theirs)}
        refused, absent = ([n for n, s in states.items() if s == wanted] for wanted in ("refused", "absent"))
        found.append((f"torch.{name}".rstrip("."), len(states), refused, absent))
    return found


def page(found: list[tuple[str, int, list[str], list[str]]]) -> str:
    total = sum(count for _, count, _, _ in found)
    missing = sum(len(absent) for *_, absent in found)
    refused = sum(len(r) for _, _, r, _ in found)
    lines = [
        "# Coming from PyTorch: the names",
        "",
        f"Of {total} public names of these modules of PyTorch 2.13, {total - missing - refused} are here, {refused} refuse when they are used, and {missing} are absent.",
        "Written by `tools/name_table.py`; what a name does is in the reference.",
        "",
        "| module | names | present | refused | absent |",
        "|---|---|---|---|---|",
    ]
    for name, count, refusing, absent in found:
        lines.append(
            f"| `{name}` | {count} | {count - len(refusing) - len(absent)} | {len(refusing)} | {len(absent)} |"
        )
    for title, index in (("Refused", 2), ("Absent", 3)):
        lines += ["", f"## {title}", ""]
        lines += [f"- `{row[0]}`: {', '.join(f'`{n}`' for n in row[index])}" for row in found if row[index]]
    return "\n".join(lines) + "\n"


def main() -> int:
    PAGE.write_text(page(rows()))
    print(PAGE.read_text().splitlines()[2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
