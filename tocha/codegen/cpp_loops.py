"""Kernels as C++: rows outside (shared among threads), each loop of the kernel over the columns inside.

Scalar formulas are printed by cpp_scalar, as in the build; folds keep an array of lanes that the C++
compiler vectorizes.
"""

from __future__ import annotations

from tocha.codegen.cpp_scalar import Names, emit, vectorizes
from tocha.ir import dtypes as dt
from tocha.ir import scalar
from tocha.ir.dtypes import DType
from tocha.ir.loops import Buffer, Kernel, Load, Loop
from tocha.ir.rewrite import simplify
from tocha.operators.derived import resolve

LANES = 64
PRELUDE = """#include "cpu/engine/loop_prelude.h"

namespace {
using namespace tocha;
constexpr int64_t kLanes = 64;
"""


class KernelWriter:
    """One kernel: `void name(char* const* p, int64_t begin, int64_t end)` over rows [begin, end)."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.buffers: list[Buffer | Loop] = []  # what p points at: inputs first, then outputs
        for loop in kernel.loops:
            for load in loop.loads:
                if load.source not in kernel.loops and load.source not in self.buffers:
                    self.buffers.append(load.source)
        self.inputs = len(self.buffers)
        self.buffers += kernel.outputs
        self.lines: list[str] = []

    def text(self) -> str:
        k = self.kernel
        self.put(0, f"void {k.name}(char* const* p, int64_t begin, int64_t end) {{")
        for i, b in enumerate(self.buffers):
            const = "const " if i < self.inputs else ""
            self.put(
                1,
                f"auto* {b.name} = reinterpret_cast<{const}{b.dtype.cpp}*>(p[{i}]);  // {b.dtype.name}{list(shape(b))}",
            )
        self.put(1, "for (int64_t r = begin; r < end; ++r) {")
        for loop in k.loops:
            self.put(2, f"// {loop.name}: {loop.dtype.name}{list(loop.out_sizes)}")
            (self.fold if loop.is_reduction else self.elementwise)(loop)
        self.put(1, "}")
        self.put(0, "}")
        return "\n".join(self.lines)

    def put(self, depth: int, line: str) -> None:
        self.lines.append("  " * depth + line)

    def column_terms(self, loop: Loop, load: Load, column: str) -> list[str]:
        """What of a load's position depends on the column."""
        if load.source in self.kernel.loops:
            return []
        n = len(loop.sizes) - count_trailing(loop.sizes, self.kernel.columns)
        return index_terms(loop.sizes[n:], load.strides[n:], column)

    def read(self, loop: Loop, load: Load, column: str) -> str:
        """C++ for the element that a load gives at row r and this column."""
        if load.source in self.kernel.loops:
            return f"{load.source.name}_row"
        n = len(loop.sizes) - count_trailing(loop.sizes, self.kernel.columns)
        terms = [*index_terms(loop.sizes[:n], load.strides[:n], "r"), *self.column_terms(loop, load, column)]
        if load.offset:
            terms.append(str(load.offset))
        return f"{load.source.name}[{' + '.join(terms) or '0'}]"

    def elementwise(self, loop: Loop) -> None:
        names = Names([f"x{i}" for i in range(len(loop.loads))])
        # Vectors are of neighbours, or of one value that serves the whole row.
        runs = all(self.column_terms(loop, load, "c") in ([], ["c"]) for load in loop.loads)
        vector = runs and vectorizes((loop.formula,))
        if vector:
            self.put(0, "#if TOCHA_VECTOR_F32")
            self.vectors(loop, names)
            self.put(0, "#else")
        code = emit((loop.formula,), names)
        for line in code.prologue:
            self.put(2, line)
        self.put(0, "#pragma GCC ivdep")
        self.put(2, f"for (int64_t c = 0; c < {self.kernel.columns}; ++c) {{")
        self.body(loop, code.body, "c", 3)
        self.put(3, f"{loop.name}[r * {self.kernel.columns} + c] = {code.results[0]};")
        self.put(2, "}")
        if vector:
            self.put(0, "#endif")

    def vectors(self, loop: Loop, names: Names) -> None:
        """The loop over whole vectors of columns; what remains is a part of one more vector."""
        code = emit((loop.formula,), names, vector=True)
        columns = self.kernel.columns
        for line in code.prologue:
            self.put(2, line)

        def step(suffix: str, rest: str) -> None:
            for i, load in enumerate(loop.loads):
                element = self.read(loop, load, "c")
                whole = (
                    f"math::load{suffix}(&{element}{rest})"
                    if self.column_terms(loop, load, "c")
                    else f"math::splat({element})"
                )
                self.put(3, f"const auto x{i} = {whole};")
            for line in code.body:
                self.put(3, line)
            self.put(3, f"math::store{suffix}(&{loop.name}[r * {columns} + c], {code.results[0]}{rest});")

        self.put(2, "int64_t c = 0;")
        self.put(2, f"for (; c + math::kLanes <= {columns}; c += math::kLanes) {{")
        step("", "")
        self.put(2, "}")
        self.put(2, f"if (c < {columns}) {{")
        step("_first", f", {columns} - c")
        self.put(2, "}")

    def body(self, loop: Loop, lines: tuple[str, ...], column: str, depth: int) -> None:
        for i, load in enumerate(loop.loads):
            self.put(depth, f"const {load.source.dtype.cpp} x{i} = {self.read(loop, load, column)};")
        for line in lines:
            self.put(depth, line)

    def fold(self, loop: Loop) -> None:
        t: DType = loop.formula.dtype
        fold = loop.fold
        states = [resolve(d, t) for d in fold.state_types]
        ins = tuple(scalar.Input(len(loop.loads) + i, d) for i, d in enumerate(states))
        one = len(states) == 1
        new = fold.combine(ins[0] if one else ins, loop.formula, scalar.index())
        columns = self.kernel.columns
        result = f"{loop.name}_row"
        self.put(2, f"{loop.dtype.cpp} {result};")
        self.put(2, "{")
        initial = emitted(fold.init(), states, [])
        for i, (d, value) in enumerate(zip(states, initial.results, strict=True)):
            self.put(3, f"{d.cpp} s{i}[kLanes];")
            self.put(3, f"for (int64_t l = 0; l < kLanes; ++l) s{i}[l] = {value};")
        names = [*(f"x{i}" for i in range(len(loop.loads))), *(f"s{i}[l]" for i in range(len(states)))]
        code = emitted(new, states, names, index="at")
        for line in code.prologue:
            self.put(3, line)
        whole = columns // LANES * LANES
        for start, stop, lanes in ((0, whole, LANES), (whole, columns, columns - whole)):
            if stop <= start:
                continue
            self.put(3, f"for (int64_t c = {start}; c < {stop}; c += kLanes) {{")
            self.put(0, "#pragma GCC ivdep")
            self.put(4, f"for (int64_t l = 0; l < {lanes}; ++l) {{")
            self.put(5, "const int64_t at = c + l;")
            self.body(loop, code.body, "at", 5)
            for i, (d, value) in enumerate(zip(states, code.results, strict=True)):
                self.put(5, f"const {d.cpp} n{i} = {value};")
            for i in range(len(states)):
                self.put(5, f"s{i}[l] = n{i};")
            self.put(4, "}")
            self.put(3, "}")
        others = tuple(scalar.Input(len(states) + i, d) for i, d in enumerate(states))
        mine = tuple(scalar.Input(i, d) for i, d in enumerate(states))
        merged = fold.merge(mine[0] if one else mine, others[0] if one else others)
        code = emitted(
            merged, states, [*(f"s{i}[l]" for i in range(len(states))), *(f"s{i}[l + h]" for i in range(len(states)))]
        )
        self.put(3, "for (int64_t h = kLanes / 2; h > 0; h /= 2) {")
        self.put(4, "for (int64_t l = 0; l < h; ++l) {")
        for line in code.prologue + code.body:
            self.put(5, line)
        for i, (d, value) in enumerate(zip(states, code.results, strict=True)):
            self.put(5, f"const {d.cpp} n{i} = {value};")
        for i in range(len(states)):
            self.put(5, f"s{i}[l] = n{i};")
        self.put(4, "}")
        self.put(3, "}")
        count = 1
        for axis in loop.reduced:
            count *= loop.sizes[axis]
        finished = fold.finish(mine[0] if one else mine, scalar.constant(count, dt.int64))
        code = emitted(finished, [loop.dtype], [f"s{i}[0]" for i in range(len(states))])
        for line in code.prologue + code.body:
            self.put(3, line)
        self.put(3, f"{result} = {code.results[0]};")
        self.put(2, "}")
        if loop in self.kernel.outputs:
            self.put(2, f"{loop.name}[r] = {result};")


def emitted(values, targets: list[DType], names: list[str], index: str = "i"):
    values = values if isinstance(values, tuple) else (values,)
    nodes = tuple(
        scalar.cast(v, d) if isinstance(v, scalar.Node) else scalar.constant(v, d)
        for v, d in zip(values, targets, strict=True)
    )
    return emit(simplify(nodes), Names(names, index=index))


def shape(b: Buffer | Loop) -> tuple[int, ...]:
    return b.sizes if isinstance(b, Buffer) else b.out_sizes


def count_trailing(sizes: tuple[int, ...], columns: int) -> int:
    """How many trailing dims make up the columns."""
    n, total = 0, 1
    while n < len(sizes) and total != columns:
        n += 1
        total *= sizes[-n]
    return n


def index_terms(sizes: tuple[int, ...], strides: tuple[int, ...], variable: str) -> list[str]:
    """A position over several dims, given as one running number, times the strides; dims that run on are merged."""
    dims: list[tuple[int, int]] = []  # innermost first: (size, stride)
    for size, stride in reversed(list(zip(sizes, strides, strict=True))):
        if size == 1:
            continue
        if dims and stride == dims[-1][1] * dims[-1][0]:
            dims[-1] = (dims[-1][0] * size, dims[-1][1])
        else:
            dims.append((size, stride))
    terms, below = [], 1
    for i, (size, stride) in enumerate(dims):
        part = variable if below == 1 else f"({variable} / {below})"
        if i + 1 < len(dims):
            part = f"({part} % {size})"
        if stride:
            terms.append(part if stride == 1 else f"{part} * {stride}")
        below *= size
    return terms


def module(kernels: list[Kernel]) -> tuple[str, list[KernelWriter]]:
    """The C++ of a whole program, and what each kernel's pointers are."""
    writers = [KernelWriter(k) for k in kernels]
    parts = [PRELUDE, *(w.text() + "\n" for w in writers), "}  // namespace\n"]
    for k in kernels:
        parts.append(
            f'extern "C" [[gnu::visibility("default")]] void run_{k.name}(void* p, int64_t begin, int64_t end) {{ {k.name}(static_cast<char* const*>(p), begin, end); }}'
        )
    return "\n".join(parts) + "\n", writers
