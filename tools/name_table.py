"""Writes docs/guide/names.md: the public names of PyTorch's modules, and which of them are here, refused or absent.

Run where both libraries are installed (.venv-parity/bin/python tools/name_table.py).
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
import types
from pathlib import Path
from typing import Any

import torch

PAGE = Path(__file__).resolve().parent.parent / "docs" / "guide" / "names.md"
MODULES = (
    "", "Tensor", "nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "nn.parameter", "optim", "optim.lr_scheduler", "utils",
    "utils.data", "utils.checkpoint", "linalg", "fft", "special", "distributions", "autograd", "autograd.functional", "func", "sparse",
    "amp", "random", "testing", "storage", "serialization", "fx", "compiler", "library", "masked", "signal.windows", "overrides", "hub",
    "multiprocessing", "backends",
)  # fmt: skip

OTHER_DEVICES = re.compile(
    "(?i)cudnn|miopen|cuda|cusparse|cutlass|xla|ipu|xpu|mps|hpu|vulkan|mtia|maia|semi_?structured"
)
# What pybind11 writes where nobody wrote anything: the members of an enumeration, or a function's types.
NATIVE_SIGNATURE = re.compile(r"Members:[\s\w]*|\w+\((\w+: [^\n]*)?\) -> [^\n]*")


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


def is_documented(value: Any) -> bool:
    """Whether PyTorch says anything of a name: a docstring that is its own, not its type's, nor a native signature only.

    Every entry of its documentation has a docstring, constants excepted: dtypes and layouts count as documented too.
    """
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return True
    if isinstance(value, str | int | float | dict | list | set | tuple):
        return False
    text = vars(value).get("__doc__") if isinstance(value, type) else getattr(value, "__doc__", None)
    if not isinstance(text, str) or not text.strip() or text == type(value).__doc__:
        return False
    return not NATIVE_SIGNATURE.fullmatch(text.strip())


def state(ours: Any, name: str) -> str:
    """present, refused or absent."""
    try:
        value = getattr(ours, name)
    except AttributeError:
        return "absent"
    if type(value).__name__ == "QuantizedDtype":
        return "refused"
    refuses = getattr(getattr(inspect.unwrap(value), "__code__", None), "co_name", "") == "refuse"
    of_other_tensors = (getattr(value, "__doc__", None) or "").startswith("For ")  # sparse ones have them, say
    return "refused" if refuses and not of_other_tensors else "present"


@dataclasses.dataclass
class Row:
    """A module's names: those that count, by state, and the others."""

    module: str
    counted: dict[str, str]
    others: dict[str, str]  # undocumented, or for devices that are not here
    ours: list[str]  # names that only tocha has

    def names(self, wanted: str) -> list[str]:
        return [n for n, found in self.counted.items() if found == wanted]


def here_only(ours: Any, theirs: Any) -> list[str]:
    """Public names that PyTorch's module does not have."""
    if ours is None:
        return []
    listed = getattr(ours, "__all__", None) or (
        [n for n in dir(ours) if not isinstance(getattr(ours, n, None), types.ModuleType) and not _is_foreign(ours, n)]
    )
    names = {n for n in listed if not n.startswith("_") and n != "annotations"}
    return sorted(n for n in names if not hasattr(theirs, n))


def rows() -> list[Row]:
    found = []
    for name in MODULES:
        theirs = _object("torch", name)
        try:
            ours = _object("tocha", name)
        except (ImportError, AttributeError):
            ours = None
        row = Row(f"torch.{name}".rstrip("."), {}, {}, here_only(ours, theirs))
        for n in public_names(theirs):
            counts = is_documented(getattr(theirs, n, None)) and not OTHER_DEVICES.search(n)
            (row.counted if counts else row.others)[n] = state(ours, n)
        found.append(row)
    return found


def page(found: list[Row]) -> str:
    total = sum(len(row.counted) for row in found)
    here, refused, absent = (
        sum(len(row.names(wanted)) for row in found) for wanted in ("present", "refused", "absent")
    )
    others = [s for row in found for s in row.others.values()]
    lines = [
        "# Coming from PyTorch: the names",
        "",
        f"Of {total} documented names of these modules of PyTorch 2.13, {here} are here ({100 * here / total:.1f} %), {refused} refuse when they "
        f"are used, and {absent} are absent. Of {len(others)} others, which PyTorch shows without saying what they do or which are for devices "
        f"that are not here, {others.count('present')} are here.",
        "Written by `tools/name_table.py`; what a name does is on its page of the reference, to which the site links.",
        "",
        "| module | documented | present | refused | absent | others | of them present |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found:
        counts = [len(row.names(wanted)) for wanted in ("present", "refused", "absent")]
        rest = list(row.others.values())
        cells = [len(row.counted), *counts, len(rest), rest.count("present")]
        lines.append(f"| `{row.module}` | {' | '.join(map(str, cells))} |")
    for title, wanted in (("Refused", "refused"), ("Absent", "absent"), ("Present", "present")):
        lines += ["", f"## {title}", ""]
        lines += [f"- `{row.module}`: {_listed(row.names(wanted))}" for row in found if row.names(wanted)]
    lines += ["", "## Not counted, and refused or absent", ""]
    for row in found:
        missing = [n for n, found_as in row.others.items() if found_as != "present"]
        lines += [f"- `{row.module}`: {_listed(missing)}"] if missing else []
    lines += ["", "## Here only", "", "Names that PyTorch does not have.", ""]
    lines += [f"- `{row.module}`: {_listed(row.ours)}" for row in found if row.ours]
    return "\n".join(lines) + "\n"


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{n}`" for n in names)


def main() -> int:
    PAGE.write_text(page(rows()))
    print(PAGE.read_text().splitlines()[2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
