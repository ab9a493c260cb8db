"""Writes docs/reference/config.md from the tables of settings; --check says whether it is up to date."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

HOME = Path(__file__).resolve().parents[1] / "docs" / "reference" / "config.md"
MODULES = {
    "tocha._dynamo.config": "Capture: what becomes a graph, and when a function is captured again.",
    "tocha._functorch.config": "Differentiation ahead of time.",
    "tocha._inductor.config": "The back end: kernels, caches, looking at what it does.",
    "tocha.compiler.config": "Compiling as a whole. Settings of capture are known here too.",
}
HEAD = """# Settings

Made by `python tools/config_reference.py` from the tables; do not edit. Every setting is an attribute of its module, checked for its type:

```python
from tocha._dynamo import config
config.recompile_limit = 16
with config.patch(recompile_limit=4): ...   # for a while; as a decorator, for a function
saved = config.save_config()                # what was changed, as bytes
config.load_config(saved)
```

A name that no table has is refused with the nearest known one. Names of PyTorch 2.13 that do nothing here are accepted, and say so once when they are changed.
"""


def kind_text(kind: type | tuple[type, ...]) -> str:
    return " or ".join(
        "None" if k is type(None) else k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,))
    )


def section(name: str, meaning: str) -> list[str]:
    module = importlib.import_module(name)
    lines = [f"## `{name}`", "", meaning, ""]
    if module._table:
        lines += ["| setting | type | default | what it does | environment |", "|---|---|---|---|---|"]
        for setting, row in module._table.items():
            variable = f"`{row[3]}`" if len(row) == 4 else ""
            lines.append(f"| `{setting}` | {kind_text(row[0])} | `{row[1]!r}` | {row[2]} | {variable} |")
        lines.append("")
    if module._aliases:
        lines += ["Other names: " + ", ".join(f"`{a}` is `{b}`" for a, b in sorted(module._aliases.items())) + ".", ""]
    if module._elsewhere:
        lines += ["From elsewhere: " + ", ".join(f"`{n}`" for n in sorted(module._elsewhere)) + ".", ""]
    if module._without_effect:
        names = ", ".join(f"`{n}`" for n in sorted(module._without_effect))
        lines += [f"<details><summary>{len(module._without_effect)} names without effect</summary>", "", names, "", "</details>", ""]  # fmt: skip
    return lines


def reference() -> str:
    return (
        "\n".join([HEAD, *(line for name, meaning in MODULES.items() for line in section(name, meaning))]).rstrip()
        + "\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        if not HOME.exists() or HOME.read_text() != reference():
            raise SystemExit(f"{HOME} is not up to date: python tools/config_reference.py")
        return
    HOME.parent.mkdir(parents=True, exist_ok=True)
    HOME.write_text(reference())


if __name__ == "__main__":
    main()
