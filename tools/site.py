"""Writes the pages that the site is made of into build/site: those of docs/, and a reference of every public name and operator.

`make docs` runs this, then MkDocs (mkdocs.yml). Examples on the pages are the docstrings', which the tests run.
"""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "site"
MODULES = (
    "tocha", "tocha.nn", "tocha.nn.functional", "tocha.nn.init", "tocha.nn.utils", "tocha.nn.attention", "tocha.optim", "tocha.optim.lr_scheduler",
    "tocha.autograd", "tocha.func", "tocha.linalg", "tocha.fft", "tocha.special", "tocha.signal.windows", "tocha.distributions", "tocha.sparse",
    "tocha.masked", "tocha.utils.data", "tocha.utils.checkpoint", "tocha.utils.safetensors", "tocha.serialization", "tocha.amp", "tocha.random",
    "tocha.fx", "tocha.compiler", "tocha.library", "tocha.testing", "tocha.hub", "tocha.jit", "tocha.distributed", "tocha.profiler", "tocha.overrides",
    "tocha.multiprocessing", "tocha.accelerator", "tocha.futures",
)  # fmt: skip


def _public(module: Any) -> list[str]:
    listed = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    return sorted({n for n in listed if not n.startswith("_") and not inspect.ismodule(getattr(module, n, None))})


def _signature(name: str, value: Any) -> str:
    try:
        return f"{name}{inspect.signature(value)}"
    except (TypeError, ValueError):
        return name


def _documented(text: str) -> str:
    """A docstring as Markdown: examples become code."""
    lines, inside = [], False
    for line in inspect.cleandoc(text).splitlines():
        if line.lstrip().startswith(">>>") and not inside:
            lines, inside = [*lines, "", "```python"], True
        elif inside and not line.strip():
            lines, inside = [*lines, "```"], False
        lines.append(line.strip() if inside else line.replace("<", "&lt;"))
    return "\n".join([*lines, "```"] if inside else lines)


def _entry(name: str, value: Any) -> str:
    signature = re.sub(r" at 0x[0-9a-f]+", "", _signature(name, value)) if callable(value) else name
    return f"### {name}\n\n```python\n{signature}\n```\n\n{_documented(inspect.getdoc(value) or '')}\n"


def _module_page(name: str) -> str:
    module = importlib.import_module(name)
    entries = []
    for n in _public(module):
        value = getattr(module, n, None)
        if callable(value) or inspect.isclass(value):
            entries.append(_entry(n, value))
    return f"# {name}\n\n{_documented(module.__doc__ or '')}\n\n" + "\n".join(entries)


def _operators_page() -> str:
    """Every operator, from its record: schema and what it says."""
    records = importlib.import_module("tocha.operators.overloads").table()
    lines = [
        "# Operators",
        "",
        "Known as `tocha.ops.aten.NAME.OVERLOAD`; each is one record in `tocha/operators/`.",
        "",
    ]
    for name in sorted(records):
        lines += [f"### {name}", ""]
        for overload, operator in records[name].items():
            lines.append(f"- `{getattr(operator, 'text', None) or f'{name}.{overload}'}`")
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    shutil.rmtree(OUT, ignore_errors=True)
    shutil.copytree(ROOT / "docs", OUT)
    readme = (ROOT / "README.md").read_text().replace("](docs/", "](")
    (OUT / "index.md").write_text(readme)
    (OUT / "changelog.md").write_text((ROOT / "CHANGELOG.md").read_text().replace("](docs/", "]("))
    (OUT / "contributing.md").write_text(
        (ROOT / "CONTRIBUTING.md").read_text().replace("](docs/", "](").replace("(CHANGELOG.md)", "(changelog.md)")
    )
    reference = OUT / "reference"
    reference.mkdir(exist_ok=True)  # docs/ has pages of it that are written by hand
    for name in MODULES:
        (reference / f"{name}.md").write_text(_module_page(name))
    (reference / "operators.md").write_text(_operators_page())
    print(f"{len(MODULES) + 1} pages of reference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
