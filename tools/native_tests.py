"""Builds and runs tests/native/*.cpp: standalone programs that check raw kernels. Rebuilds only what changed."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import scipy_openblas32 as blas

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "native-tests"
FLAGS = [
    "-std=c++20",
    "-O1",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
    "-DTOCHA_SINGLE_ISA",
    "-march=native",
]


def sources_of(test: Path) -> list[Path]:
    """A test's first lines name the sources it needs: `// sources: core/parallel.cpp cpu/sort.cpp`."""
    for line in test.read_text().splitlines()[:10]:
        if line.startswith("// sources:"):
            return [ROOT / "csrc" / s for s in line.removeprefix("// sources:").split()]
    return []


def build(test: Path, extra: list[str]) -> Path:
    program = OUT / test.stem
    sources = [test, *sources_of(test)]
    newest = max(p.stat().st_mtime for p in [*sources, *(ROOT / "csrc").rglob("*.h")])
    if not program.exists() or program.stat().st_mtime < newest:
        command = [
            os.environ.get("CXX", "g++"),
            *FLAGS,
            *extra,
            f"-I{ROOT / 'csrc'}",
            f"-I{sysconfig.get_paths()['include']}",
            f"-I{blas.get_include_dir()}",
        ]
        libraries = [
            f"-L{blas.get_lib_dir()}",
            f"-l{blas.get_library()}",
            f"-Wl,-rpath,{blas.get_lib_dir()}",
            "-lpthread",
        ]
        subprocess.run([*command, *map(str, sources), "-o", str(program), *libraries], check=True)
    return program


def main() -> int:
    extra = sys.argv[1:]
    OUT.mkdir(parents=True, exist_ok=True)
    tests = sorted((ROOT / "tests" / "native").glob("*_test.cpp"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        programs = list(pool.map(lambda t: build(t, extra), tests))
    failed = 0
    for program in programs:
        result = subprocess.run([str(program)], capture_output=True, text=True)
        print(f"{'ok' if result.returncode == 0 else 'FAILED':8s}{program.name}")
        if result.returncode:
            failed += 1
            print(result.stdout[-4000:], result.stderr[-4000:])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
