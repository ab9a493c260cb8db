"""Builds and runs tests/native/*.cpp: standalone programs that check raw kernels. Rebuilds only what changed.

Arguments are further compiler flags; each set of flags has a build folder of its own.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import scipy_openblas32 as blas

ROOT = Path(__file__).resolve().parents[1]
CSRC = ROOT / "csrc"
FLAGS = [
    "-std=c++20",
    "-O1",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
    "-DTOCHA_SINGLE_ISA",
    "-march=native",
]
INCLUDES = [f"-I{CSRC}", f"-I{sysconfig.get_paths()['include']}", f"-I{blas.get_include_dir()}"]
LIBRARIES = [
    f"-L{blas.get_lib_dir()}",
    f"-l{blas.get_library()}",
    f"-Wl,-rpath,{blas.get_lib_dir()}",
    "-lpthread",
]
COMPILER = [*filter(None, [shutil.which("ccache")]), os.environ.get("CXX", "g++")]


def sources_of(test: Path) -> list[Path]:
    """A test's first lines name the sources it needs: `// sources: core/parallel.cpp cpu/sort/*.cpp`, or none."""
    lines = [line for line in test.read_text().splitlines()[:10] if line.startswith("// sources:")]
    if not lines:
        raise SystemExit(f"{test.name} has no line `// sources: ...`")
    found = {pattern: sorted(CSRC.glob(pattern)) for line in lines for pattern in line.split()[2:]}
    missing = [pattern for pattern, paths in found.items() if not paths]
    if missing:
        raise SystemExit(f"{test.name}: no such sources: {', '.join(missing)}")
    return [path for paths in found.values() for path in paths]


def flags_of(source: Path) -> list[str]:
    """A source that needs flags of its own says so, for each architecture: `// flags: x86_64 -mavx512bf16`."""
    start = f"// flags: {platform.machine()} "
    lines = [line for line in source.read_text().splitlines()[:10] if line.startswith(start)]
    return [flag for line in lines for flag in line.removeprefix(start).split()]


def newer(path: Path, than: float) -> bool:
    return path.exists() and path.stat().st_mtime > than


class Build:
    def __init__(self, flags: list[str]) -> None:
        self.flags = [*FLAGS, *flags]
        name = "-".join(["native-tests", *(f.strip("-").replace("=", "-").replace(",", "-") for f in flags)])
        self.out = ROOT / "build" / name
        self.out.mkdir(parents=True, exist_ok=True)
        self.headers = max(p.stat().st_mtime for p in CSRC.rglob("*.h"))

    def object_of(self, source: Path) -> Path:
        return self.out / "-".join(source.relative_to(ROOT).with_suffix(".o").parts)

    def compile(self, source: Path) -> None:
        target = self.object_of(source)
        if not newer(target, max(source.stat().st_mtime, self.headers)):
            flags = [*self.flags, *flags_of(source), *INCLUDES]
            subprocess.run([*COMPILER, *flags, "-c", str(source), "-o", str(target)], check=True)

    def link(self, test: Path) -> Path:
        program = self.out / test.stem
        objects = [self.object_of(s) for s in [test, *sources_of(test)]]
        if not newer(program, max(o.stat().st_mtime for o in objects)):
            command = [COMPILER[-1], *self.flags, *map(str, objects), "-o", str(program), *LIBRARIES]
            subprocess.run(command, check=True)
        return program


def main() -> int:
    build = Build(sys.argv[1:])
    tests = sorted((ROOT / "tests" / "native").glob("*_test.cpp"))
    if not tests:
        raise SystemExit("no native tests found")
    sources = sorted({s for test in tests for s in [test, *sources_of(test)]})
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(build.compile, sources))
    failed = 0
    for program in map(build.link, tests):
        result = subprocess.run([str(program)], capture_output=True, text=True)
        print(f"{'ok' if result.returncode == 0 else 'FAILED':8s}{program.name}")
        if result.returncode:
            failed += 1
            print(result.stdout[-4000:], result.stderr[-4000:])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
