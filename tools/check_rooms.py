"""Holds the order of the rooms (docs/inside/rooms.md): lower ones never import or include higher ones, no Python modules
import each other in a circle, and generated C++ has its place among the written."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Lower first; rooms on one line are neighbours and may know each other.
PYTHON = [
    {"ir"},
    {"operators", "codegen"},
    {"_build"},
    {
        "_C", "__config__", "__future__", "_core", "_functions", "_lobpcg", "_lowrank", "_symbolic", "_tensor", "_tensor_str", "_utils",
        "accelerator", "amp", "autograd", "backends", "cpu", "cuda", "fft", "func", "functional", "linalg", "masked",
        "multiprocessing", "nested", "nn", "optim", "overrides", "quasirandom", "random", "serialization", "signal", "sparse", "special",
        "storage", "testing", "torch_version", "types", "utils", "version", "xpu", "mps", "mtia", "futures", "hub",
    },
    {"", "_custom_ops", "_decomp", "_guards", "_library", "_logging", "_dispatch", "_ops", "_prims", "_prims_common", "_refs", "_subclasses", "distributions", "library"},  # "" is tocha itself: what all of the library makes together
    {"fx"},
    {"_functorch", "_higher_order_ops", "functorch"},
    {"_inductor"},
    {"_dynamo", "compiler"},
    {"export", "ao", "onnx", "distributed", "jit", "_jit_internal", "profiler", "compat"},
    {"_alias", "as_torch", "__main__"},  # over everything: the whole library under another name
]  # fmt: skip
# Modules that have their place in PyTorch's order of names, and stand in another room by what they do.
STANDS_IN = {
    "tocha.utils._mode_utils": "_library",
    "tocha.utils._python_dispatch": "_library",
    "tocha.utils._selective_checkpoint": "_library",
    "tocha.utils.backend_registration": "_library",
    "tocha.utils.flop_counter": "_library",
    "tocha.cpu.memory": "profiler",
    "tocha._inductor.exc": "_dynamo",
    "tocha._inductor.test_case": "_dynamo",
}
# A lower room opens these when a program asks for them.
ON_DEMAND = {
    ("tocha.utils.data.distributed", "tocha.distributed"),
    ("tocha._tensor.types", "tocha._ops"),
    ("tocha.functorch.compile", "tocha._inductor.compilation"),
    ("tocha.nn.parallel.distributed", "tocha.distributed"),
    ("tocha.utils._python_dispatch", "tocha._library.dispatch"),
    ("tocha.utils.backend_registration", "tocha"),
    ("tocha.utils.checkpoint", "tocha._higher_order_ops.checkpoint"),
    ("tocha.nn.attention._mods", "tocha._higher_order_ops.operator"),
    ("tocha.nn.attention.flex_attention", "tocha._higher_order_ops.flex_attention"),
    ("tocha.utils.checkpoint", "tocha.utils._selective_checkpoint"),
    ("tocha._ops", "tocha._higher_order_ops"),
    ("tocha.nn.modules.module", "tocha._dynamo.eval_frame"),
    ("tocha._inductor.utils", "tocha._dynamo"),
    ("tocha._utils", "tocha.compiler"),
    ("tocha.optim.optimizer", "tocha.compiler"),
    ("tocha.storage", "tocha.serialization"),
}
# Kinds of values that make one another: within these rooms functions may import what imports them.
MUTUAL = {"_dynamo"}
NATIVE = [{"core"}, {"dispatch"}, {"autograd"}, {"ops"}, {"cpu", "cuda"}, {"capture"}, {"python"}]
# The generated headers only declare: they know this one file, and all rooms from dispatch on may call what they declare.
# Rooms below the definitions say here what they call, family by family.
DECLARED = ("ops", "kernels")
DECLARATIONS_KNOW = {"dispatch/op_types.h"}
CALLED_FROM_BELOW = {
    "dispatch": {"ops/copies.h", "ops/resizing.h", "kernels/resizing.h"},
    "autograd": {
        f"ops/{f}.h" for f in ("arithmetic", "comparison", "complex", "copies", "factories", "reductions", "views")
    },
}


def rank(rooms: list[set[str]], name: str) -> int | None:
    return next((i for i, level in enumerate(rooms) if name in level), None)


# -- Python ------------------------------------------------------------------------------------------------


def modules(root: Path) -> dict[str, Path]:
    """Every module by its dotted name."""
    found = {}
    for path in sorted((root / "tocha").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def statements(node: ast.AST, with_types: bool) -> Iterator[ast.AST]:
    """All nodes below; what is for type checkers only where asked for, and not what packages load on demand."""
    for child in ast.iter_child_nodes(node):
        if (is_type_checking(child) and not with_types) or (
            isinstance(child, ast.FunctionDef) and child.name == "__getattr__"
        ):
            continue
        yield child
        yield from statements(child, with_types)


def imported(node: ast.AST, known: dict[str, Path]) -> list[str]:
    """The modules of tocha that a statement imports: `from tocha import x` is tocha.x where that is one, else tocha."""
    if isinstance(node, ast.Import):
        names = [a.name for a in node.names]
    elif isinstance(node, ast.ImportFrom):
        whole = [f"{node.module}.{a.name}" for a in node.names]
        names = [name if name in known or name == "tocha._C" else str(node.module) for name in whole]
    elif (
        isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("import_module")
        and isinstance(node.args[0], ast.Constant)
    ):
        names = [str(node.args[0].value)]
    else:
        return []
    return [n for n in names if n == "tocha" or n.startswith("tocha.")]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def python_imports(path: Path, known: dict[str, Path], with_types: bool) -> list[tuple[int, str]]:
    nodes = statements(parsed(path), with_types)
    return [(node.lineno, name) for node in nodes for name in imported(node, known)]  # type: ignore[attr-defined]


def room_of(module: str) -> str:
    return STANDS_IN.get(module) or (module.split(".") + [""])[1]


def python_problems(root: Path) -> list[str]:
    problems = []
    known = modules(root)
    for module, path in known.items():
        room = room_of(module)
        if not room:
            continue  # tocha/__init__.py puts everything together
        mine = rank(PYTHON, room)
        if mine is None:
            problems.append(f"{path}: {room} has no place in the order of rooms")
            continue
        for line, name in python_imports(path, known, with_types=True):
            if name.startswith(f"{module}."):
                continue  # a package names its parts
            other = rank(PYTHON, room_of(name))
            if other is not None and other > mine and (module, name) not in ON_DEMAND:
                problems.append(f"{path}:{line}: {room} imports {name}, a higher room")
    return problems


def circles(root: Path) -> list[str]:
    """Modules that import each other, imports inside functions included: those only hide a circle."""
    known = modules(root)
    uses = {}
    for module, path in known.items():
        names = {n for _, n in python_imports(path, known, with_types=False) if (module, n) not in ON_DEMAND}
        if room_of(module) in MUTUAL:
            at_once = {n for node in parsed(path).body for n in imported(node, known)}
            names = {n for n in names if room_of(n) != room_of(module) or n in at_once}
        uses[module] = {n for n in names if n in known and n != module}
    return circles_among(uses, "imports")


def circles_among(uses: dict[str, set[str]], what: str) -> list[str]:
    problems: list[str] = []
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> None:
        if module in path:
            problems.append(f"a circle of {what}: {' -> '.join([*path[path.index(module) :], module])}")
        elif module not in done:
            for other in sorted(uses.get(module, ())):
                visit(other, [*path, module])
            done.add(module)

    for module in uses:
        visit(module, [])
    return problems


# -- C++ ---------------------------------------------------------------------------------------------------


def native_includes(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if m := re.match(r'#include "([\w/]+\.h)"', line):
            yield number, m.group(1)


def include_problems(path: Path, room: str) -> list[str]:
    problems = []
    mine = rank(NATIVE, room)
    if mine is None:
        return [f"{path}: {room} has no place in the order of rooms"]
    for number, name in native_includes(path):
        other = name.split("/")[0]
        if other in DECLARED:
            if mine < NATIVE.index({"ops"}) and name not in CALLED_FROM_BELOW.get(room, set()):
                problems.append(f"{path}:{number}: {room} includes {name}, which it is not said to call")
        elif (there := rank(NATIVE, other)) is not None and there > mine:
            problems.append(f"{path}:{number}: {room} includes {name}, a higher room")
    return problems


def native_problems(csrc: Path) -> list[str]:
    paths = sorted([*csrc.rglob("*.h"), *csrc.rglob("*.cpp")])
    return [p for path in paths for p in include_problems(path, path.relative_to(csrc).parts[0])]


def family_circles(cpu: Path) -> list[str]:
    """Families of kernels that include each other."""
    uses: dict[str, set[str]] = {}
    for path in sorted([*cpu.rglob("*.h"), *cpu.rglob("*.cpp")]):
        family = path.relative_to(cpu).parts[0]
        others = {name.split("/")[1] for _, name in native_includes(path) if name.startswith("cpu/")}
        uses.setdefault(family, set()).update(others - {family})
    return circles_among(uses, "includes")


def generated_room(name: str) -> str:
    """Loops are kernels of the CPU, bindings belong to Python; the rest defines the operators."""
    return "cpu" if name.endswith("_loops.cpp") else "python" if name.startswith("bind_") else "ops"


def generated_problems(out: Path) -> list[str]:
    problems = []
    for path in sorted([*out.rglob("*.h"), *out.rglob("*.cpp")]):
        if path.parent.name not in DECLARED:
            problems += include_problems(path, generated_room(path.name))
            continue
        for number, name in native_includes(path):
            if name not in DECLARATIONS_KNOW:
                problems.append(f"{path}:{number}: a header of declarations includes {name}")
    return problems


def generate(out: Path) -> None:
    command = [sys.executable, "-S", str(ROOT / "tocha" / "_build" / "__main__.py"), "--out", str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    problems = [*python_problems(ROOT), *circles(ROOT), *native_problems(ROOT / "csrc")]
    problems += family_circles(ROOT / "csrc" / "cpu")
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        problems += generated_problems(Path(folder))
    print("\n".join(problems) or "rooms are in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
