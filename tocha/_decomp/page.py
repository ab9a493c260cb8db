"""docs/inside/core.md: the core operators, written from the records.

python -m tocha._decomp.page    # writes the page
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tocha._decomp import core_overloads
from tocha._ops import OpOverload

PAGE = Path(__file__).resolve().parents[2] / "docs" / "inside" / "core.md"

HEAD = """# Core operators

What graphs consist of when `core_aten_decompositions()` has taken everything apart. This page is generated from the records: `python -m tocha._decomp.page`; a test holds it to them.

```python
>>> import tocha
>>> from tocha._decomp import core_aten_decompositions
>>> from tocha.fx.experimental.proxy_tensor import make_fx
>>> f = lambda x: tocha.nn.functional.hardswish(x)
>>> print(make_fx(f, core_aten_decompositions())(tocha.ones(2)).code.strip())
def forward(self, x_1):
    add = tocha.ops.aten.add.Tensor(x_1, 3.0)
    clamp = tocha.ops.aten.clamp.default(add, 0.0, 6.0);  add = None
    mul = tocha.ops.aten.mul.Tensor(x_1, clamp);  x_1 = clamp = None
    div = tocha.ops.aten.div.Tensor(mul, 6.0);  mul = None
    return div
```

A composite is taken apart by its body, a kernel by its decomposition, a formula by carrying it out with operators: half types in float32, as kernels compute.
In-place and `out=` forms compute the result and copy it. What stays:

- PyTorch's core set (`core` on the record, `tocha.Tag.core` on the handle);
- what is outside of that set and has no smaller parts: *primitives*, formulas that are one scalar function; *folds*; views that are no other view; and kernels, by their algorithm.

Functional graphs also have the twins of writes (`aten.copy` for `copy_`) and arithmetic on sizes.
"""

TITLES = {
    "core": "PyTorch's core set",
    "primitive": "Primitives",
    "fold": "Folds",
    "view": "Views",
}


def names(handles: Iterable[OpOverload]) -> str:
    return ", ".join(f"`{str(h).removeprefix('aten.').removesuffix('.default')}`" for h in sorted(handles, key=str))


def text() -> str:
    """The page as the records say it."""
    groups = core_overloads()
    kernels = sorted(k for k in groups if k not in TITLES)
    parts = [HEAD]
    for kind, title in TITLES.items():
        if groups.get(kind):
            parts.append(f"## {title} ({len(groups[kind])})\n\n{names(groups[kind])}\n")
    parts.append("## Kernels\n\n" + "\n".join(f"- {kind}: {names(groups[kind])}" for kind in kernels) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(text())
