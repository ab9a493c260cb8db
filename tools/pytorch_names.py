"""Writes tocha/_alias/pytorch_names.json: the modules of PyTorch that tocha has no counterpart of, and their names.

Read from an installed PyTorch (make parity's environment); modules without importing them. Under the alias such a module can be
imported, and each of its names refuses when it is used (tocha/_alias/refused.py).
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import sys
from pathlib import Path

from tocha._alias import native_names
from tocha._alias.refused import PARTLY

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tocha" / "_alias"
OUT, OPERATORS = FOLDER / "pytorch_names.json", FOLDER / "pytorch_operators.txt"
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
    "_inductor.autoheuristic",
    "_inductor.analysis",
    "_inductor.codegen.cuda",
    "_inductor.codegen.cutlass",
    "_inductor.codegen.nv_universal_gemm",
    "_inductor.codegen.rocm",
    "_inductor.compile_worker",
    "_inductor.kernel",
    "_inductor.template_heuristics",
    "_inductor.fx_passes.serialized_patterns",
    "_inductor.standalone_compile",  # the package has a function of that name
)


# Modules of distributed.tensor that are known by their older names too.
OLDER_HOMES = ("_shards_wrapper", "_utils", "experimental", "device_mesh")
# Private packages that are all inside: nobody but PyTorch itself imports from them.
INSIDE = frozenset(
    {
        "_dynamo",
        "_functorch",
        "_export",
        "_vendor",
        "_native",
        "_strobelight",
        "_higher_order_ops",
        "_refs",
        "_prims",
        "_decomp",
    }
)


def is_private(name: str) -> bool:
    """Whether a module is of PyTorch's insides. Single private modules (_custom_ops) are what packages import."""
    return bool(INSIDE & set(name.split("."))) or sum(part.startswith("_") for part in name.split(".")) > 1


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


Names = dict[str, tuple[str, str]]  # a name: its kind, and where it comes from if it is offered again


def _imported_from(statement: ast.ImportFrom, path: Path, package: Path) -> str | None:
    """The module of torch that a statement takes names from."""
    if not statement.level:
        return statement.module if (statement.module or "").split(".")[0] == "torch" else None
    parts = path.parents[statement.level - 1].relative_to(package.parent).parts
    return ".".join((*parts, statement.module) if statement.module else parts)


def _defined(statement: ast.stmt, path: Path, package: Path) -> Names:
    if isinstance(statement, ast.ClassDef):
        return {statement.name: ("class", "")} | _members(statement)
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        arguments = statement.args
        asks = statement.name.startswith("is_") and not (arguments.args or arguments.kwonlyargs or arguments.vararg)
        return {statement.name: ("predicate" if asks else "function", "")}
    if isinstance(statement, ast.Assign):
        return {t.id: ("value", "") for t in statement.targets if isinstance(t, ast.Name) and t.id[0] != "_"}
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return {statement.target.id: ("value", "")} if statement.target.id[0] != "_" else {}
    if isinstance(statement, ast.ImportFrom) and (origin := _imported_from(statement, path, package)):
        public = [(a.asname or a.name, a.name) for a in statement.names if a.name[0] not in "*_"]
        return {name: ("again", f"{origin}.{original}") for name, original in public}
    if isinstance(statement, ast.If | ast.Try | ast.With):
        return {n: k for body in _bodies(statement) for s in body for n, k in _defined(s, path, package).items()}
    return {}


def _members(statement: ast.ClassDef) -> Names:
    """What is named on a class without making one: the members of enumerations, methods of the class or static."""
    found = []
    is_enum = any("Enum" in ast.unparse(base) for base in statement.bases)
    for inner in statement.body:
        if is_enum and isinstance(inner, ast.Assign):
            found += [t.id for t in inner.targets if isinstance(t, ast.Name)]
        elif isinstance(inner, ast.FunctionDef) and any(
            isinstance(d, ast.Name) and d.id in ("staticmethod", "classmethod") for d in inner.decorator_list
        ):
            found.append(inner.name)
    return {f"{statement.name}.{n}": ("member", "") for n in found if n[0] != "_"}


def _bodies(statement: ast.stmt) -> list[list[ast.stmt]]:
    handlers = [h.body for h in getattr(statement, "handlers", [])]
    return [statement.body, getattr(statement, "orelse", []), *handlers]  # type: ignore[attr-defined]


def _starred(statement: ast.stmt, path: Path, package: Path) -> Path | None:
    """The file that `from x import *` takes names from."""
    if not isinstance(statement, ast.ImportFrom) or statement.names[0].name != "*":
        return None
    origin = _imported_from(statement, path, package)
    if origin is None:
        return None
    base = package.parent / Path(*origin.split("."))
    return next((f for f in (base.with_suffix(".py"), base / "__init__.py") if f.exists()), None)


def names(path: Path, package: Path, depth: int = 3) -> Names:
    body = ast.parse(path.read_text()).body
    found = {name: kind for s in body for name, kind in _defined(s, path, package).items()}
    for statement in body if depth else ():
        if (other := _starred(statement, path, package)) is not None:
            parts = other.relative_to(package.parent).with_suffix("").parts
            home = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            starred = names(other, package, depth - 1)
            again = {n: ("again", k[1] or f"{home}.{n}") for n, k in starred.items() if n[0] != "_" and "." not in n}
            found = again | found
    return {name: kind for name, kind in found.items() if not name.startswith("__")}


def _listed(path: Path) -> set[str]:
    """What a module's __all__ says."""
    for statement in ast.parse(path.read_text()).body:
        is_list = isinstance(statement, ast.Assign) and isinstance(statement.value, ast.List)
        if is_list and any(isinstance(t, ast.Name) and t.id == "__all__" for t in statement.targets):  # type: ignore[attr-defined]
            return {e.value for e in statement.value.elts if isinstance(e, ast.Constant)}  # type: ignore[attr-defined]
    return set()


def entry(path: Path, package: Path) -> dict[str, str]:
    """A module's names by kind, as the table holds them."""
    is_package, found = path.name == "__init__.py", names(path, package)
    kinds: dict[str, list[str]] = {"package": []} if is_package else {}
    # Packages, and modules that define nothing, offer names again on purpose. Others have imports of their own needs:
    # of those programs take classes (FSDP's settings from the module of its class).
    offers = is_package or not any(kind in ("class", "function", "predicate") for kind, _ in found.values())
    listed = _listed(path)
    for name, (kind, origin) in sorted(found.items()):
        is_class = name[0].isupper() and origin.count(".") > 1
        if kind == "again" and not offers and name not in listed and not is_class:
            continue
        kinds.setdefault(kind, []).append(f"{name}={origin}" if origin else name)
    return {k: " ".join(v) for k, v in kinds.items()}


def native_classes() -> dict[str, str]:
    """The public classes of torch._C that tocha._C lacks: those of scripts refuse, others are tocha's by the same name."""
    ours, native = importlib.import_module("tocha"), importlib.import_module("torch")._C
    found = [n for n, v in vars(native).items() if isinstance(v, type) and n[0] != "_" and not hasattr(ours._C, n)]
    elsewhere = sorted(n for n in found if hasattr(ours, n))
    return {
        "again": " ".join(f"{n}=torch.{n}" for n in elsewhere),
        "class": " ".join(
            sorted(set(found) - {*elsewhere, *native_names.LATE, *(v.__name__ for v in native_names.NAMES)})
        ),
    }


def missing_operators() -> list[str]:
    """The schemas of PyTorch's operators that tocha does not have in any form; forms with out= are left out.

    Operators that are known by PyTorch's names alone have one overload, and lack the others.
    """
    ours = importlib.import_module("tocha").ops.aten
    bodies = importlib.import_module("tocha._library.composites").names("aten")
    pytorch = importlib.import_module("torch")._C
    dispatched = set(pytorch._dispatch_get_all_op_names())
    found = []
    for schema in pytorch._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        full = f"{schema.name}.{schema.overload_name}".rstrip(".")
        lacking = not hasattr(ours, name) or (name in bodies and schema.overload_name)
        if space == "aten" and full in dispatched and "out" not in schema.overload_name and lacking:
            found.append(str(schema).partition("::")[2])
    return sorted(found)


def main() -> int:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None or (ROOT / "tocha") in Path(spec.origin).parents:
        print("PyTorch is not installed here: run with .venv-parity/bin/python", file=sys.stderr)
        return 1
    package = Path(spec.origin).parent
    table = {}
    for name, path in modules(package).items():
        if not has_counterpart(name) or f"torch.{name}" in PARTLY:
            table[name] = entry(path, package)
    table["_C"] = native_classes()
    for name in OLDER_HOMES:
        table[f"distributed._tensor.{name}"] = table[f"distributed.tensor.{name}"]
    lines = [f"{json.dumps(n)}: {json.dumps(v)}" for n, v in sorted(table.items())]
    OUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    schemas = missing_operators()
    OPERATORS.write_text("".join(f"{s}\n" for s in schemas))
    print(f"{len(table)} modules, {len(schemas)} operators")
    return 0


if __name__ == "__main__":
    sys.exit(main())
