"""Sources to shared libraries: which compiler, with which flags, and the cache of what it made."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import itertools
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import tocha
from tocha import _C
from tocha._inductor import store
from tocha._inductor.store import Folder, Parts, digest
from tocha._logging import events
from tocha.codegen.cpp_source import units, without_lines

FLAGS = (
    "-std=c++20", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math",
    "-ffp-contract=off", "-fno-semantic-interposition", "-w", "-DTOCHA_SINGLE_ISA",
)  # fmt: skip
# GCC on aarch64 also schedules before it gives out registers. Dear functions gain up to a tenth by it, as eager kernels do; but it
# takes time with the square of a block's length (two thirds of all for a formula of 64 exponentials).
UNSCHEDULED = ("-fno-schedule-insns",)
SCHEDULED_CALLS = 8  # in a block

LONG = 1 << 14  # characters of a source, for each of which a processor more is worth starting
MOST_UNITS = 8
PRELUDE = "cpu/engine/program_prelude.h"
LIBRARIES = Folder("programs", ".so")
numbers = itertools.count()
COMPILERS = Folder("compilers", ".txt")
HEADERS = Folder("headers", ".gch")


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
    """The command of a C++ compiler: $CXX, or g++, clang++, or the one in the ziglang wheel."""
    named = os.environ.get("CXX")
    if named:
        command = (named,) if shutil.which(named) else tuple(shlex.split(named))
        if not command or not shutil.which(command[0]):
            raise CompilerError(f"[compile] no C++ compiler found: CXX is {named!r}, which is not there")
        return command
    for name in ("g++", "clang++"):
        if shutil.which(name):
            return (name,)
    try:
        import ziglang  # type: ignore[import-not-found]  # noqa: F401
    except ImportError:
        raise CompilerError(
            "[compile] no C++ compiler found: set CXX, install g++ or clang++, or pip install tocha[compiler]"
        ) from None
    return (sys.executable, "-m", "ziglang", "c++")


@cache
def compiler_version(command: tuple[str, ...]) -> str:
    """What the compiler says of itself. Asking it takes a process: the answer is kept for as long as its file is the same."""
    file = Path(shutil.which(command[0]) or command[0]).resolve()
    state = file.stat()
    parts = {"command": " ".join(command), "file": f"{file} {state.st_size} {state.st_mtime_ns}"}
    known = COMPILERS.read(parts)
    if known is not None:
        return known.decode()
    try:
        told = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as reason:
        raise CompilerError(f"[compile] {' '.join(command)} is no C++ compiler: {reason}") from None
    said = told.partition("\n")[0]
    COMPILERS.write(parts, said.encode())
    return said


@cache
def processor() -> str:
    """What the processor can do: code made for one is not run on another."""
    if sys.platform.startswith("linux"):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return platform.machine() + " " + hashlib.sha256(line.encode()).hexdigest()[:16]
    return f"{platform.machine()} {platform.processor()}"


def key_parts(source: str) -> Parts:
    command = compiler()
    return {
        "source": without_lines(source),
        "compiler": " ".join(command),
        "compiler version": compiler_version(command),
        "flags": " ".join((*all_flags(), *source_flags(source))),
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
    return (*FLAGS, *instruction_set())


def source_flags(source: str) -> tuple[str, ...]:
    """Flags for one source: those for long blocks, where it has one."""
    calls = 0
    for line in source.splitlines():
        calls = calls + line.count("math::") if line.lstrip().startswith("const ") else 0
        if calls > SCHEDULED_CALLS:
            return UNSCHEDULED
    return ()


@cache
def instruction_set() -> tuple[str, ...]:
    """Flags for this processor, or for what eager kernels are held to (TOCHA_CPU_ISA): compiled graphs round as those do."""
    if platform.machine() in ("aarch64", "arm64"):
        # Tuned as the eager kernels are: for Neoverse's own tables GCC makes loops that are a tenth slower there.
        return ("-mcpu=native", "-mtune=generic")
    if os.environ.get("TOCHA_CPU_ISA") == "base":
        return ("-march=x86-64",)
    if _C._cpu_capability() == "AVX2":
        return ("-march=native", "-mno-avx512f")
    return ("-march=native", "-mprefer-vector-width=512")  # as the eager kernels are


def library_of(source: str) -> Path:
    """The shared library of a source; compiled if it is not in the cache."""
    parts = key_parts(source)
    return LIBRARIES.find(parts) or compile_source(source, parts)


def compile_source(source: str, parts: Parts) -> Path:
    """Compiles, and keeps the library and its source; where the disk takes nothing, for this process alone."""
    with events.stage("c++"):
        library = built(source)
    path = LIBRARIES.write(parts, library)
    if path is None:
        path = store.private_folder() / f"{digest(parts)}-{next(numbers)}.so"  # what is loaded is never written to
        path.write_bytes(store.sealed(library))
        return path
    store.put(path.with_suffix(".cpp"), source.encode())
    return path


def built(source: str) -> bytes:
    """The library. Memory for files may be full, a precompiled prelude damaged: what fails is compiled once more without both."""
    try:
        return built_in(work_folder(), source, precompiled_flags())
    except (CompilerError, OSError):
        made = built_in(None, source, ())
        forget_prelude()
        return made


def built_in(folder: str | None, source: str, flags: tuple[str, ...]) -> bytes:
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix="compiling-") as work:
            made = Path(work) / "program.so"
            build(source, Path(work), made, flags)
            return made.read_bytes()
    except FileNotFoundError:
        raise CompilerError(f"[compile] {compiler()[0]} made no library of the generated code") from None
    except OSError as reason:
        raise CompilerError(f"[compile] there is no place to compile in: {reason}") from None


def build(source: str, work: Path, made: Path, flags: tuple[str, ...]) -> None:
    """Long sources are compiled in parts, side by side, and linked."""
    texts = units(source, min(MOST_UNITS, len(source) // LONG, processors()))
    files = [work / (f"part_{i}.cpp" if i < len(texts) - 1 else "program.cpp") for i in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    flags = (*source_flags(source), *flags)
    if len(files) == 1:
        return run_compiler([*flags, "-shared", str(files[0]), "-o", str(made)])
    objects = [str(f.with_suffix(".o")) for f in files]
    finish([start_compiler([*flags, "-c", str(f), "-o", o]) for f, o in zip(files, objects, strict=True)])
    run_compiler(["-shared", *objects, "-o", str(made)])


def processors() -> int:
    """How many this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def work_folder() -> str | None:
    """Where the compiler works: memory, if there is any to be had as files."""
    shared = Path("/dev/shm")
    return str(shared) if shared.is_dir() and os.access(shared, os.W_OK | os.X_OK) else None


def run_compiler(arguments: list[str]) -> None:
    finish([start_compiler(arguments)])


def start_compiler(arguments: list[str]) -> subprocess.Popen[str]:
    command = [*compiler(), *all_flags(), *arguments, f"-I{include_directory()}"]
    around = dict(os.environ)
    if "-o" in arguments:  # temporary files go where the result does, where there is room
        around["TMPDIR"] = str(Path(arguments[arguments.index("-o") + 1]).parent)
    try:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=around)
    except OSError as reason:
        raise CompilerError(f"[compile] {command[0]} cannot be started: {reason}") from None


def finish(started: Sequence[subprocess.Popen[str]]) -> None:
    said = [process.communicate()[1] for process in started]  # all of them, before one is complained of
    for process, text in zip(started, said, strict=True):
        if process.returncode:
            raise CompilerError(f"[compile] {compiler()[0]} refused the generated code:\n{text[:4000]}")


class Precompiling:
    """The prelude while the compiler makes its precompiled form, in a folder of the cache."""

    def __init__(self, folder: Path):
        self.made = folder / f"{PRELUDE}.gch"
        self.made.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.work = tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True)
        self.new = Path(self.work.name) / "prelude.gch"
        self.process = start_compiler(["-x", "c++-header", str(include_directory() / PRELUDE), "-o", str(self.new)])
        atexit.register(self.stop)

    def finish(self) -> None:
        try:
            finish([self.process])
            os.replace(self.new, self.made)
        finally:
            self.stop()

    def stop(self) -> None:
        """Nobody waits for it any more."""
        atexit.unregister(self.stop)
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        self.work.cleanup()


under_way: dict[tuple[int, Path], Precompiling] = {}  # by process: a fork cannot wait for what its parent started


def prelude_folder() -> Path | None:
    """Where GCC finds the prelude in its precompiled form, which is made once; other compilers read the header."""
    if "clang" in compiler_version(compiler()).lower() or "zig" in " ".join(compiler()):
        return None
    return HEADERS.directory() / digest(key_parts(""))


def start_prelude() -> None:
    """Has the prelude precompiled, if it is not, while a graph is being traced. What goes wrong is told when it is needed."""
    if precompiled_flags.cache_info().currsize:
        return
    try:
        folder = prelude_folder()
        if folder is not None and not (folder / f"{PRELUDE}.gch").exists() and (os.getpid(), folder) not in under_way:
            under_way[os.getpid(), folder] = Precompiling(folder)
    except (CompilerError, OSError):
        pass


@cache
def precompiled_flags() -> tuple[str, ...]:
    """What makes the compiler take the prelude in its precompiled form."""
    folder = prelude_folder()
    if folder is None:
        return ()
    try:
        started = under_way.pop((os.getpid(), folder), None)
        if started is not None or not (folder / f"{PRELUDE}.gch").exists():
            (started or Precompiling(folder)).finish()
    except (
        CompilerError,
        OSError,
    ):  # a disk that takes nothing: the header is read, and a compiler that errs is told of then
        return ()
    return (f"-I{folder}",)


def forget_prelude() -> None:
    """What was compiled without it could not be compiled with it: it is made again when the next process needs it."""
    folder = prelude_folder()
    if folder is not None:
        with contextlib.suppress(OSError):
            (folder / f"{PRELUDE}.gch").unlink()
    precompiled_flags.cache_clear()
