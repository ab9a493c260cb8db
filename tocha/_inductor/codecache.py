"""Sources to shared libraries, through a cache on disk.

An entry is named by a digest of named parts (source, compiler and its version, flags, processor, version of the interface), so that
a miss can say what changed. Files appear whole or not at all, under a folder that only the user may enter.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import tocha
from tocha._inductor import config

FLAGS = (
    "-std=c++20", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math",
    "-ffp-contract=off", "-fno-semantic-interposition", "-w", "-DTOCHA_SINGLE_ISA",
)  # fmt: skip


PRELUDE = "cpu/engine/program_prelude.h"


class CompilerError(RuntimeError):
    """No compiler, or one that refused the generated code."""


def include_directory() -> Path:
    """The headers that sources include: installed beside the package, or in the source tree."""
    here = Path(tocha.__file__).parent
    for candidate in (here / "include", here.parent / "csrc"):
        if (candidate / PRELUDE).exists():
            return candidate
    raise CompilerError("[compile] tocha's kernel headers are not installed")


@cache
def compiler() -> tuple[str, ...]:
    """The command of a C++ compiler: $CXX, g++, clang++, or the one in the ziglang wheel."""
    for name in (os.environ.get("CXX"), "g++", "clang++"):
        if name and shutil.which(name.split()[0]):
            return tuple(name.split())
    try:
        import ziglang  # type: ignore[import-not-found]  # noqa: F401
    except ImportError:
        raise CompilerError(
            "[compile] no C++ compiler found: set CXX, install g++ or clang++, or pip install tocha[compiler]"
        ) from None
    return (sys.executable, "-m", "ziglang", "c++")


@cache
def compiler_version(command: tuple[str, ...]) -> str:
    return subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


@cache
def processor() -> str:
    """What the processor can do: code made for one is not run on another."""
    if sys.platform.startswith("linux"):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return platform.machine() + " " + hashlib.sha256(line.encode()).hexdigest()[:16]
    return f"{platform.machine()} {platform.processor()}"


def cache_directory() -> Path:
    named = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or os.environ.get("TOCHA_CACHE_DIR")
    root = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tocha"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    return root


def key_parts(source: str) -> dict[str, str]:
    command = compiler()
    return {
        "source": source,
        "compiler": " ".join(command),
        "compiler version": compiler_version(command),
        "flags": " ".join(all_flags()),
        "processor": processor(),
        "headers": headers_digest(),
    }


@cache
def headers_digest() -> str:
    """Of every header that a source may include."""
    root = include_directory()
    found = hashlib.sha256()
    for folder in ("core", "cpu"):
        for path in sorted((root / folder).rglob("*.h")):
            found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def all_flags() -> tuple[str, ...]:
    native = "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native"
    return (*FLAGS, native)


def digest(parts: dict[str, str]) -> str:
    return hashlib.sha256("\0".join(f"{k}={v}" for k, v in parts.items()).encode()).hexdigest()[:40]


USED: set[Path] = set()  # the libraries that this process has asked for


def library_of(source: str) -> Path:
    """The shared library of a source; compiled if it is not in the cache."""
    root = cache_directory() / "programs"
    root.mkdir(mode=0o700, exist_ok=True)
    path = root / f"{digest(key_parts(source))}.so"
    USED.add(path)
    if config.force_disable_caches or not path.exists():
        compile_source(source, path)
    return path


def compile_source(source: str, path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        text = Path(work) / "program.cpp"
        text.write_text(source)
        made = Path(work) / "program.so"
        run_compiler([*precompiled_flags(), "-shared", str(text), "-o", str(made)])
        os.replace(text, path.with_suffix(".cpp"))
        os.replace(made, path)


def run_compiler(arguments: list[str]) -> None:
    command = [*compiler(), *all_flags(), *arguments, f"-I{include_directory()}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise CompilerError(f"[compile] {command[0]} refused the generated code:\n{result.stderr[:4000]}")


@cache
def precompiled_flags() -> tuple[str, ...]:
    """What makes GCC take the prelude in its precompiled form, which is made once; other compilers read the header."""
    if "clang" in compiler_version(compiler()).lower() or "zig" in " ".join(compiler()):
        return ()
    root = cache_directory() / "headers" / digest(key_parts(""))
    made = root / f"{PRELUDE}.gch"
    if not made.exists():
        made.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root) as work:
            new = Path(work) / "prelude.gch"
            run_compiler(["-x", "c++-header", str(include_directory() / PRELUDE), "-o", str(new)])
            os.replace(new, made)
    return (f"-I{root}",)
