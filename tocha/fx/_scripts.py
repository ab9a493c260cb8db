"""Graphs as Python files that run: for the debug folder, and for what reproduces an error."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import tocha
from tocha import _C
from tocha.fx.graph_module import GraphModule

Tensor = _C.Tensor
ALWAYS = {"inf", "nan", "NoneType", "tocha", "device", "fx_pytree", "pytree"}


def hint(n: Any) -> int:
    """A size as a number."""
    if isinstance(n, int):
        return n
    found = n.node.hint
    return 8 if found is None else int(found)


def input_text(value: Any) -> str:
    """An expression for something like a value: random numbers in a tensor of its sizes and strides."""
    if isinstance(value, Tensor):
        sizes, strides = tuple(map(hint, value.shape)), tuple(map(hint, value.stride()))
        wants = ".requires_grad_()" if value.requires_grad and value.is_leaf else ""
        return f"rand_strided({sizes}, {strides}, {value.dtype}){wants}"
    if hasattr(value, "node"):  # a symbolic number
        return repr(value.node.hint)
    return repr(value)


def examples_of(module: GraphModule) -> list[Any]:
    """What the graph's inputs are, as far as its nodes know."""
    return [n.meta.get("example_value", n.meta.get("val")) for n in module.graph.find_nodes(op="placeholder")]


def import_text(name: str, value: Any) -> str:
    if value is tocha:  # by the name that the text has for it
        return f"import tocha as {name}"
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}"
    home, qualified = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if home and qualified.isidentifier():
        return f"from {home} import {qualified} as {name}"
    return f"{name} = None  # {value!r} has no name to import it by"


class Writer:
    """Classes of a graph and of the graphs inside it."""

    def __init__(self) -> None:
        self.classes: list[str] = []
        self.imports: dict[str, str] = {}
        self.constants: dict[str, Tensor] = {}

    def add(self, module: GraphModule, name: str) -> None:
        made = module.graph.python_code("self")
        self.imports |= {k: import_text(k, v) for k, v in made.globals.items() if k not in ALWAYS}
        held = [self.attribute(module, str(n.target), name) for n in module.graph.find_nodes(op="get_attr")]
        lines = [f"class {name}(tocha.nn.Module):"]
        if held:
            lines += ["    def __init__(self):", "        super().__init__()", *(f"        {x}" for x in dict.fromkeys(held)), ""]  # fmt: skip
        lines.append(textwrap.indent(inspect.cleandoc("\n" + made.src.strip()), "    "))
        self.classes.append("\n".join(lines))

    def attribute(self, module: GraphModule, target: str, owner: str) -> str:
        value: Any = module
        for part in target.split("."):
            value = getattr(value, part)
        if isinstance(value, GraphModule):
            inner = f"{owner}_{target.replace('.', '_')}"
            self.add(value, inner)
            return f"self.{target} = {inner}()"
        self.constants[f"{owner}.{target}"] = value
        return f"self.{target} = constants[{f'{owner}.{target}'!r}]"


def graph_script(
    module: GraphModule, title: str, constants: str = "constants.pt", inputs: Sequence[Any] | None = None
) -> tuple[str, dict[str, Tensor]]:
    """A file that makes inputs like the graph's and runs it; and the constants that it loads, by name."""
    writer = Writer()
    writer.add(module, "Graph")
    examples = examples_of(module) if inputs is None else list(inputs)
    names = [n.name for n in module.graph.find_nodes(op="placeholder")]
    made = "\n    ".join(f"{input_text(v)},  # {n}" for n, v in zip(names, examples))
    parts = [
        f'"""{title}"""',
        "import pathlib\n\nimport tocha\nfrom tocha import device\nfrom tocha._dynamo.testing import rand_strided",
        *writer.imports.values(),
        'inf, nan, NoneType = float("inf"), float("nan"), type(None)',
    ]
    if writer.constants:
        parts.append(f"constants = tocha.load(pathlib.Path(__file__).parent / {constants!r})")
    parts += writer.classes
    parts.append(f"inputs = [\n    {made}\n]" if examples else "inputs = []")
    parts.append('if __name__ == "__main__":\n    print(Graph()(*inputs))')
    return "\n\n".join(parts) + "\n", writer.constants


def short_script(module: GraphModule, title: str, inputs: str, how: str = "") -> str:
    """A graph without constants in as few lines as it takes: `check` says whether compiled and eager agree on it."""
    made = module.graph.python_code("self")
    lines = ["import tocha", "from tocha._dynamo.repro import check, rand_strided"]
    if "device(" in made.src:
        lines.append("from tocha import device")
    if re.search(r"\b(inf|nan)\b", made.src):
        lines.append('inf, nan = float("inf"), float("nan")')
    lines += [import_text(k, v) for k, v in made.globals.items() if k not in ALWAYS]
    body = [line for line in inspect.cleandoc("\n" + made.src.strip()).split("\n") if line.strip()]
    return "\n".join([f'"""{title}"""', *lines, *body, f"check(forward, {inputs}{how})"]) + "\n"
