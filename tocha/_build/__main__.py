"""python -m tocha._build --out DIR: writes the generated sources; files that did not change keep their time.

Runs before the native module exists, so `tocha` itself is replaced by an empty package.
"""

from __future__ import annotations

import argparse
import sys
import types
from pathlib import Path


def bare_package() -> None:
    """Makes `tocha` importable as a namespace only."""
    root = Path(__file__).resolve().parents[1]
    package = types.ModuleType("tocha")
    package.__path__ = [str(root)]
    sys.modules["tocha"] = package
    sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() not in (root, Path(__file__).resolve().parent)]


def write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="where the C++ goes")
    parser.add_argument("--stubs", type=Path, help="where the type stubs go")
    parser.add_argument("--list", action="store_true", help="print the files that would be written, by kind")
    options = parser.parse_args()
    bare_package()
    from tocha._build import bindings, functions, kernels, stubs
    from tocha.operators import import_families

    import_families()  # not the decompositions beside them, which are for the compiler
    files: dict[str, str] = {}
    files |= kernels.generate()
    files |= functions.generate()
    files |= bindings.generate()
    files |= stubs.generate()
    if options.list:
        for kind in ("isa", "plain"):
            names = [f for f in files if f.endswith(".cpp") and f.endswith("_loops.cpp") == (kind == "isa")]
            print(kind, *sorted(names))
        return
    for name, text in files.items():
        where = options.stubs if name.endswith(".pyi") else options.out
        if where is not None:
            write(where / name, text)
    if options.out is None:
        return
    # A family that is gone must not leave its sources behind.
    for old in options.out.glob("*.cpp"):
        if old.name not in files:
            old.unlink()


if __name__ == "__main__":
    main()
