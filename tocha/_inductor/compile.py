"""A graph to a callable: lower, schedule, print as C++, compile, load. The text is the key of the cache."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import tocha
from tocha import _C
from tocha._inductor.graph import Graph
from tocha._inductor.schedule import schedule
from tocha.codegen.cpp_loops import KernelWriter, module, shape
from tocha.ir.loops import Buffer, Kernel, Loop, show

FLAGS = (
    "-std=c++20",
    "-O3",
    "-march=native",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
    "-DTOCHA_SINGLE_ISA",
)
ROWS_PER_TASK_WORK = 1 << 15  # elements that make a task worth a thread


def include_directory() -> Path:
    """The headers that kernels include: installed beside the package, or in the source tree."""
    here = Path(tocha.__file__).parent
    for candidate in (here / "include", here.parent / "csrc"):
        if (candidate / "cpu" / "engine" / "loop_prelude.h").exists():
            return candidate
    raise FileNotFoundError("tocha's kernel headers are not installed")


def compiler() -> str:
    for name in (os.environ.get("CXX"), "g++", "clang++"):
        if name and shutil.which(name):
            return name
    raise RuntimeError("[compile] no C++ compiler found: set CXX, or install g++ or clang++")


def cache_directory() -> Path:
    root = Path(
        os.environ.get("TOCHA_CACHE_DIR") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tocha"
    )
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    return root


@cache
def build(text: str) -> ctypes.CDLL:
    """The shared library of this source; built once per text, compiler and flags."""
    command = [compiler(), *FLAGS, f"-I{include_directory()}"]
    key = hashlib.sha256("\n".join([text, *command]).encode()).hexdigest()[:32]
    library = cache_directory() / f"{key}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=cache_directory()) as work:
            source = Path(work) / "kernels.cpp"
            source.write_text(text)
            result = subprocess.run([*command, str(source), "-o", f"{work}/kernels.so"], capture_output=True, text=True)
            if result.returncode:
                raise RuntimeError(f"[compile] {command[0]} refused the generated code:\n{result.stderr[:4000]}")
            os.replace(f"{work}/kernels.so", library)
    return ctypes.CDLL(str(library))


@dataclass
class Compiled:
    """A compiled graph: call it with tensors in the order of the graph's inputs."""

    inputs: list[Buffer]
    outputs: list[Loop]
    kernels: list[Kernel]
    writers: list[KernelWriter]
    source: str

    def __post_init__(self) -> None:
        self.library = build(self.source)
        self.run = [ctypes.cast(getattr(self.library, f"run_{k.name}"), ctypes.c_void_p).value for k in self.kernels]

    def __str__(self) -> str:
        return show(self.kernels)

    def __call__(self, *tensors: _C.Tensor) -> tuple[_C.Tensor, ...]:
        if len(tensors) != len(self.inputs):
            raise TypeError(f"[compiled graph] takes {len(self.inputs)} tensors, got {len(tensors)}")
        held: dict[Buffer | Loop, _C.Tensor] = {}
        for b, t in zip(self.inputs, tensors, strict=True):
            if tuple(t.shape) != b.sizes or str(t.dtype) != f"tocha.{b.dtype.name}":
                raise RuntimeError(
                    f"[compiled graph] {b.name} must be {b.dtype.name}{list(b.sizes)}, got {t.dtype}{list(t.shape)}"
                )
            held[b] = t.contiguous()
        for kernel, writer, run in zip(self.kernels, self.writers, self.run, strict=True):
            for loop in kernel.outputs:
                held[loop] = _C.empty(shape(loop), dtype=getattr(_C, loop.dtype.name))
            pointers = (ctypes.c_void_p * len(writer.buffers))(*(held[b].data_ptr() for b in writer.buffers))
            grain = max(1, ROWS_PER_TASK_WORK // max(1, kernel.columns))
            _C._run_rows(run, ctypes.addressof(pointers), kernel.rows, grain)
        return tuple(held[o] for o in self.outputs)


def compile_graph(graph: Graph) -> Compiled:
    """The pipeline, from top to bottom."""
    producers = [v.producer for v in graph.outputs]
    order: dict[Loop, None] = {}
    for value in graph.outputs:
        for loop in value.producers():
            order[loop] = None
    kernels = schedule([p for p in producers if isinstance(p, Loop)], list(order))
    source, writers = module(kernels)
    written = {loop.name: loop for k in kernels for loop in k.outputs}
    return Compiled(graph.inputs, [written[p.name] for p in producers], kernels, writers, source)
