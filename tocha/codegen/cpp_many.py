"""Kernels that run as one: a table of functions, memory and rows, whose tasks the threads share.

Parts that do the same are one function: an optimizer's update of many parameters is written once.
"""

from __future__ import annotations

import re
from typing import Any

from tocha.codegen.cpp_index import IndexPrinter
from tocha.codegen.cpp_loops import TASK_WORK, KernelWriter
from tocha.ir import symbolic as s
from tocha.ir.assumptions import Assumptions
from tocha.ir.kernels import MANY, Kernel
from tocha.ir.loops import Buffer

MOST_IN_TURNS = 4  # parts
MUCH_TO_READ = 1 << 16  # elements, which would be gone from the cache after a part


def form_of(text: str, name: str) -> str:
    """What a kernel's text says but for names: of its own function, of the values in it, and of the operators that it came from."""
    numbers: dict[str, int] = {}
    code = re.sub(r"^// .*\n", "", text, flags=re.M)
    code = re.sub(rf"\b{name}(?=_\d+\b|\b)", "kernel", code)
    return re.sub(r"\b(v|row)_\w+", lambda m: f"{m[1]}_{numbers.setdefault(m[0], len(numbers))}", code)


class ManyWriter:
    """What a KernelWriter is for one kernel, for several side by side."""

    def __init__(self, kernel: Kernel, known: Assumptions):
        self.kernel = kernel
        self.parts = [KernelWriter(k, known) for k in kernel.parts]
        self.shared: set[Buffer] = set()
        self.own: dict[s.Atom, str] = {}
        self.index = IndexPrinter(known, self.symbol_name)

    def symbol_name(self, a: s.Atom) -> str:
        return self.own.setdefault(a, f"frame.sizes[{sum(len(p.sizes) for p in self.parts) + len(self.own)}]")

    @property
    def memory(self) -> list[Buffer]:
        return [b for p in self.parts for b in p.buffers]

    @property
    def buffers(self) -> set[Buffer]:
        return set(self.memory)

    @property
    def sizes(self) -> list[s.Atom]:
        return [*(a for p in self.parts for a in p.sizes), *self.own]

    @property
    def faults(self) -> bool:
        return any(p.faults for p in self.parts)

    @property
    def task_rows(self) -> Any:
        return s.total([s.ceildiv(p.task_rows, p.grain) for p in self.parts])

    @property
    def work(self) -> Any:
        return s.total([p.work for p in self.parts])

    @property
    def grain(self) -> Any:
        """One task, but all of them if there is little to do."""
        work = self.work
        return self.task_rows if isinstance(work, int) and work <= TASK_WORK else 1

    @property
    def in_turns(self) -> bool:
        """Whether the parts read much of the same memory: rows of a norm's gradient, and sums across those rows."""
        first, *others = (p.kernel.reads() for p in self.parts)
        sizes = [b.numel() for b in first.intersection(*others)]
        return len(self.parts) <= MOST_IN_TURNS and any(not isinstance(n, int) or n >= MUCH_TO_READ for n in sizes)

    def write(self) -> str:
        functions: dict[str, str] = {}
        names: dict[str, str] = {}
        rows: list[str] = []
        memory = sizes = 0
        for p in self.parts:
            p.shared = self.shared & {*p.kernel.results(), *p.kernel.reads()}
            text = p.write()
            name = names.setdefault(form_of(text, p.kernel.name), f"{self.kernel.name}_{len(names)}")
            functions.setdefault(name, text.replace(f"void {p.kernel.name}(", f"void {name}("))
            rows.append(f"{{{name}, {memory}, {sizes}, @{len(rows)}@}}")
            memory, sizes = memory + len(p.buffers), sizes + len(p.sizes)
        for i, p in enumerate(self.parts):
            rows[i] = rows[i].replace(f"@{i}@", f"{self.index(p.task_rows)}, {self.index(p.grain)}")
        table = ",\n      ".join(rows)
        return "\n".join([
            *functions.values(),
            f"void {self.kernel.name}(void* context, int64_t begin, int64_t end) {{",
            "  auto& frame = *static_cast<KernelFrame*>(context);",
            f"  const KernelPart parts[] = {{\n      {table}}};",
            f"  {'run_in_turns' if self.in_turns else 'run_parts'}(parts, {len(rows)}, frame, begin, end);",
            "}\n",
        ])  # fmt: skip


def writer_of(kernel: Kernel, known: Assumptions) -> KernelWriter | ManyWriter:
    return ManyWriter(kernel, known) if kernel.kind == MANY else KernelWriter(kernel, known)
