"""Kernels as Triton: the loops that cpp_loops prints as C++, one program for a block of points or of rows.

A kernel of points is flat. A kernel of rows holds whole rows in registers: columns are the second dim of every value, folds are reductions
over it. Formulas come from the primitives' own templates. What neither form can say is NotLowered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tocha.codegen.cpp_index import IndexPrinter
from tocha.ir import symbolic as s
from tocha.ir.assumptions import Assumptions
from tocha.ir.dtypes import DType, Kind, Number
from tocha.ir.kernels import LANES, MANY, POINTS, Kernel, Member, fold_count, fold_number
from tocha.ir.loops import Buffer, FoldNodes, Load, NotLowered, Position, address_of
from tocha.ir.node import CONSTANT, INDEX, INPUT, PARAM, Node, topological

HEADER = """import triton
import triton.language as tl
from triton.language.extra import libdevice
"""


class TritonIndex(IndexPrinter):
    """Index expressions on blocks of integers."""

    def atom(self, a: s.Atom) -> str:
        if a.kind == "floordiv":
            return f"({self.grouped(a.args[0])} // {self.grouped(a.args[1])})"
        if a.kind in ("min", "max"):
            text = self(a.args[0])
            for other in a.args[1:]:
                text = f"tl.{a.kind}imum({text}, {self(other)})"
            return text
        if a.kind == "choose":
            return f"tl.where({self.relation(a.args[0])}, {self(a.args[1])}, {self(a.args[2])})"
        return super().atom(a)

    def relation(self, r: Any) -> str:
        if isinstance(r, bool):
            return str(r)
        return f"(~{self.relation(r.args[0])})" if r.kind == "not" else super().relation(r)


def literal(value: Number, dtype: DType) -> str:
    if dtype.kind is Kind.BOOLEAN:
        return str(bool(value))
    if dtype.kind is Kind.INTEGER:
        return str(int(value))  # type: ignore[arg-type]
    if dtype.kind is Kind.COMPLEX:
        raise NotLowered("Triton has no complex numbers")
    number = float(value)  # type: ignore[arg-type]
    return repr(number) if math.isfinite(number) else f'float("{number}")'


def template(node: Node) -> str:
    found = node.op.triton
    if isinstance(found, dict):
        kind = node.op.common_dtype(node).kind
        found = next((text for kinds, text in found.items() if kind in kinds), None)
    if found is None:
        raise NotLowered(f"{node.op} has no Triton")
    return str(found)


class TritonKernel:
    """The text of one kernel."""

    def __init__(self, kernel: Kernel, known: Assumptions):
        if kernel.kind in (LANES, MANY) or any(m.inner is not None for m in kernel.members):
            raise NotLowered(f"a kernel of {kernel.kind} has no Triton form yet")
        self.kernel, self.known = kernel, known
        self.is_flat = kernel.kind == POINTS
        self.lines: list[str] = []
        self.functions: list[str] = []
        self.names: dict[s.Atom, str] = {}
        self.sizes: dict[s.Atom, str] = {}
        self.pointers: dict[Buffer, str] = {}
        self.values: dict[Buffer, str] = {}
        self.index = TritonIndex(known, self.symbol_name)

    def symbol_name(self, a: s.Atom) -> str:
        return self.names.get(a) or self.sizes.setdefault(a, f"ks{len(self.sizes)}")

    def put(self, line: str) -> None:
        self.lines.append("    " + line)

    def write(self) -> str:
        first = self.kernel.members[0]
        columns = s.product(first.column_sizes) if self.is_flat else self.widest()
        rows = columns if self.is_flat else s.product(first.row_sizes)
        shape = "" if self.is_flat else "[:, None]"
        self.put(f"xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK){shape}")
        self.put(f"xmask = xindex < {self.index(rows)}")
        if not self.is_flat:
            self.put("rindex = tl.arange(0, RBLOCK)[None, :]")
            self.put(f"rmask = rindex < {self.index(columns)}")
        for m in self.kernel.members:
            self.member(m)
        return HEADER + "".join(self.functions) + self.head() + "\n".join(self.lines) + "\n"

    def widest(self) -> Any:
        counts = {s.product(m.column_sizes) for m in self.kernel.members} - {1}
        if len(counts) > 1:
            raise NotLowered("rows of several lengths have no Triton form yet")
        return counts.pop() if counts else 1

    def head(self) -> str:
        blocks = "XBLOCK: tl.constexpr" + ("" if self.is_flat else ", RBLOCK: tl.constexpr")
        names = [*self.pointers.values(), *self.sizes.values(), blocks]
        origins = ", ".join(dict.fromkeys(o for loop in self.kernel.loops for o in loop.origins))
        return f"\n\n# {origins}\n@triton.jit\ndef {self.kernel.name}({', '.join(names)}):\n"

    # -- places

    def decode(self, m: Member) -> None:
        """The loop's variables from the number of the row and of the column."""
        for dims, name in ((m.rows, "xindex"), (m.columns, "xindex" if self.is_flat else "rindex")):
            step: Any = 1
            for d in reversed(dims):
                atom = s.atom_of(m.loop.variables[d]) if isinstance(m.loop.variables[d], s.Expr) else None
                n = m.loop.sizes[d]
                if atom is not None:
                    text = name if step == 1 else f"({name} // {self.index(step)})"
                    self.names[atom] = text if d == dims[0] else f"({text} % {self.index(n)})"
                step = s.mul(step, n)

    def has_columns(self, m: Member) -> bool:
        return not self.is_flat and s.product(m.column_sizes) != 1

    def mask(self, m: Member, guard: Any = True) -> str:
        parts = ["xmask", *(["rmask"] if self.has_columns(m) else [])]
        return " & ".join([*parts, *([] if guard is True else [self.index.relation(guard)])])

    def pointer(self, b: Buffer) -> str:
        return self.pointers.setdefault(b, f"ptr{len(self.pointers)}")

    # -- values

    def member(self, m: Member) -> None:
        self.decode(m)
        if m.loop.indirect:
            raise NotLowered("places that elements name have no Triton form yet")
        inputs = [self.read(m, r) for r in m.loop.reads]
        texts = self.formulas(m.loop.formulas, {INPUT: inputs}, m.loop.name)
        if m.loop.fold is not None:
            texts = self.folded(m, m.loop.fold, texts[0])
        for b, text in zip(m.loop.results, texts, strict=True):
            self.values[b] = text
            if b not in self.kernel.inner:
                self.store(m, b, text)

    def read(self, m: Member, r: Load | Position) -> str:
        if isinstance(r, Position):
            return self.index.grouped(r.value)
        if r.buffer in self.values:
            return self.values[self.here(m, r)]
        other = "" if r.guard is True else ", other=0"
        return f"tl.load({self.pointer(r.buffer)} + ({self.index(r.address)}), mask={self.mask(m, r.guard)}{other})"

    def here(self, m: Member, r: Load) -> Buffer:
        """A value of this kernel, where it is read at the point that is being computed."""
        maker = next(o for o in self.kernel.members if r.buffer in o.loop.results)
        outer = len(maker.loop.sizes) - maker.loop.folded
        own = m.loop.variables[:outer] if len(m.loop.variables) >= outer else m.loop.variables
        same = self.known.simplify(r.address) == self.known.simplify(address_of(own, r.buffer.strides))
        if r.guard is not True or not same:
            raise NotLowered(f"{r.buffer.name} is read at another place than it is made")
        return r.buffer

    def formulas(self, outputs: Sequence[Node], leaves: dict[Any, Sequence[str]], prefix: str, position: str = "", indent: str = "") -> list[str]:  # fmt: skip
        text: dict[Node, str] = {}
        for node in topological(outputs):
            if node.op is CONSTANT:
                assert node.attr is not None
                text[node] = literal(node.attr, node.dtype)
            elif node.op is INDEX:
                text[node] = position
            elif not node.args:
                text[node] = leaves[node.op][node.attr]  # type: ignore[index]
            else:
                names = [text[a] for a in node.args]
                value = template(node).format(*names, type=node.dtype.triton, T=node.op.common_dtype(node).triton)
                text[node] = f"{prefix}_{len(self.lines)}"
                self.put(f"{indent}{text[node]} = {value}")
        return [text[o] for o in outputs]

    def folded(self, m: Member, fold: FoldNodes, element: str) -> list[str]:
        """Every element as a state, the states of a row reduced, the result made of what is left."""
        start = self.formulas(fold.init, {}, f"{m.loop.name}_start")
        place = self.index.grouped(fold_number(m.loop, {}, self.known))
        states = self.formulas(fold.combine, {PARAM: start, INPUT: [element]}, f"{m.loop.name}_state", place)
        names = [f"{m.loop.name}_all{k}" for k in range(len(states))]
        kept = [f"tl.where({self.mask(m)}, {state}, {init})" for state, init in zip(states, start, strict=True)]
        merge = self.merging(m, fold)
        given = kept[0] if len(kept) == 1 else f"({', '.join(kept)})"
        if self.has_columns(m):
            self.put(f"{', '.join(names)} = tl.reduce({given}, 1, {merge}, keep_dims=True)")
        else:
            self.put(f"{', '.join(names)} = {', '.join(kept)}")
        return self.formulas(fold.finish, {PARAM: [*names, self.index(fold_count(m.loop))]}, f"{m.loop.name}_result")

    def merging(self, m: Member, fold: FoldNodes) -> str:
        """The function that makes one set of states of two."""
        name = f"{m.loop.name}_merge"
        mine = [f"a{k}" for k in range(len(fold.states))] + [f"b{k}" for k in range(len(fold.states))]
        before, self.lines = self.lines, []
        found = self.formulas(fold.merge, {PARAM: mine}, "t")
        body, self.lines = self.lines, before
        lines = [*body, f"    return {', '.join(found)}"]
        self.functions.append(f"\n\n@triton.jit\ndef {name}({', '.join(mine)}):\n" + "\n".join(lines) + "\n")
        return name

    def store(self, m: Member, b: Buffer, text: str) -> None:
        address = self.index(address_of(m.loop.places, b.strides))
        mask = "xmask" if m.loop.folded else self.mask(m)
        self.put(f"tl.store({self.pointer(b)} + ({address}), {text}, mask={mask})")


def triton_kernel(kernel: Kernel, known: Assumptions) -> str:
    """A kernel as a function of Triton, with what it needs above it."""
    return TritonKernel(kernel, known).write()
