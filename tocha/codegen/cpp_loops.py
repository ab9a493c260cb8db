"""Kernels as C++: rows, points and lanes of loops, with scalar formulas that the compiler makes vectors of.

A kernel is a function over a range of rows (or of points, or of blocks of lanes). Inside, loops of one level share a pass over
the columns; what one pass folds, the next may read. Values stay in variables, or in an array that holds a row, where nobody
outside of the kernel wants them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tocha.codegen.cpp_backward import goes_backward, write_backward
from tocha.codegen.cpp_fills import write_fill, write_zeros
from tocha.codegen.cpp_index import IndexPrinter
from tocha.codegen.cpp_lanes import SHORT_BODY, write_lanes
from tocha.codegen.cpp_neighbours import Neighbour, gains, neighbours_of, split_by_quotient, split_by_sizes, write_out
from tocha.codegen.cpp_packs import goes_by_packs, write_packs
from tocha.codegen.cpp_pass import Cuts, NarrowPosition, Pass, later, write_row
from tocha.codegen.cpp_runs import lie_together, write_runs
from tocha.codegen.cpp_scalar import Emitted, Names, VectorForm, emit, loaded, memory_type, stored_as
from tocha.codegen.cpp_scratch import choose_scratch, declare_rows, lodged
from tocha.codegen.cpp_search import write_search
from tocha.codegen.cpp_tiles import transposed_along, write_tiles
from tocha.codegen.cpp_vectors import ADDED, APART, Aside, States, is_one, step_of, write_vector_fold
from tocha.ir import dtypes as dt
from tocha.ir import scalar
from tocha.ir import symbolic as s
from tocha.ir.assumptions import Assumptions
from tocha.ir.kernels import LANES, POINTS, Kernel, Member, fold_count, fold_number, refine
from tocha.ir.loops import Buffer, Load, Position, index_of
from tocha.ir.node import INDEX, INPUT, PARAM, Cost, Node, topological
from tocha.ir.rewrite import simplify
from tocha.ir.sym_types import FloatExpr

UNROLLED_BODY = 10
FORMS = {(scalar.where, d): "chosen({0}, {1}, {2})" for d in (dt.float32, dt.float64)}
MOST_RANGES = 16  # of a loop that is cut at places whose order is not known
TASK_WORK = 1 << 15  # elements that make a task worth a thread


@dataclass
class Text:
    """Lines of C++ with their depth."""

    lines: list[str] = field(default_factory=list)
    depth: int = 1

    def put(self, line: str) -> None:
        self.lines.append(line if line.startswith("#") else "  " * self.depth + line)

    def open(self, line: str) -> None:
        self.put(line)
        self.depth += 1

    def close(self, line: str = "}") -> None:
        self.depth -= 1
        self.put(line)


class KernelWriter:
    """One kernel: what its pointers are, and its text."""

    def __init__(self, kernel: Kernel, known: Assumptions):
        self.kernel, self.known = kernel, known
        self.text = Text()
        self.buffers: dict[Buffer, str] = {}  # memory that the kernel is given
        self.shared: set[Buffer] = set()  # of it, what lies on the memory of another buffer
        self.sizes: dict[s.Atom, str] = {}  # sizes that are symbols
        self.variables: dict[Buffer, str] = {}  # one value per row
        self.scratch: dict[Buffer, Member] = {}
        self.strips: dict[Buffer, Any] = {}  # arrays between two loops of a pass, and where in them an element goes
        self.places: dict[Member, dict[s.Atom, Any]] = {}
        # Where the last dims are written out: the same for each point of them.
        self.last_points: list[dict[Member, dict[s.Atom, Any]]] = []
        self.names: dict[s.Atom, str] = {}
        self.faults = False
        self.first_dim_is_outermost = True  # of the tasks
        self.index = IndexPrinter(known, self.symbol_name)
        self.passes = 0
        self.fetched: set[Buffer] = set()  # what an earlier pass over the row has read
        self.row: Any = None  # the variable along which the next row lies, where passes go over rows

    # -- names

    def symbol_name(self, a: s.Atom) -> str:
        if a in self.names:
            return self.names[a]
        if a not in self.sizes:
            self.sizes[a] = f"n{len(self.sizes)}"
        return self.sizes[a]

    def pointer(self, b: Buffer | Neighbour) -> str:
        if isinstance(b, Neighbour):
            return self.pointer(b.buffer)
        if b in self.scratch or b in self.strips:
            return f"row_{b.name}"
        return self.buffers.setdefault(b, f"p{len(self.buffers)}")

    def new_variables(self, prefix: str, sizes: Sequence[Any]) -> list[Any]:
        made = []
        for i, n in enumerate(sizes):
            v = s.symbol(f"{prefix}{i}")
            atom = s.atom_of(v)
            assert atom is not None
            self.known.constrain(atom, 0, n - 1 if isinstance(n, int) else float("inf"))
            if isinstance(n, s.Expr):
                self.known.learn(s.lt(self.known.index(v, n), n))
            self.names[atom] = f"{prefix}{i}"
            made.append(v)
        return made

    def new_variable(self, name: str, size: Any) -> Any:
        (made,) = self.new_variables(name, [size])
        self.names[s.atom_of(made)] = name  # type: ignore[index]
        return made

    def simplified(self, e: Any, places: dict[s.Atom, Any]) -> Any:
        return self.known.simplify(s.substitute(e, places))

    def place_rows(self, m: Member, sizes: Sequence[Any], variables: Sequence[Any]) -> None:
        self.place(m, m.rows, m.row_sizes, sizes, variables, [*([1] * (len(m.rows) - 1)), m.inner or 1])

    def place_columns(self, m: Member, sizes: Sequence[Any], variables: Sequence[Any]) -> None:
        self.place(m, m.columns, m.column_sizes, sizes, variables, [1] * len(m.columns))

    def place(
        self, m: Member, dims: Sequence[int], own: Sequence[Any], sizes: Sequence[Any], variables: Sequence[Any], units: Sequence[int]
    ) -> None:  # fmt: skip
        """A member's variables in terms of the kernel's, whose sizes are factors of the member's."""
        at = self.places.setdefault(m, {})
        j = len(sizes) - 1
        for d, n, unit in reversed(list(zip(dims, own, units, strict=False))):
            if n == 1:
                continue
            value: Any = 0
            step: Any = 1
            while step is not n and step != n:
                value = s.add(value, s.mul(variables[j], step))
                step = s.mul(step, sizes[j])
                j -= 1
            atom = s.atom_of(m.loop.variables[d]) if isinstance(m.loop.variables[d], s.Expr) else None
            if atom is not None:
                at[atom] = s.add(at.get(atom, 0), s.scale(value, unit))

    # -- the whole

    def write(self) -> str:
        body = {LANES: write_lanes, POINTS: KernelWriter.points}.get(self.kernel.kind, KernelWriter.rows)
        body(self)
        inner = self.text
        head = Text()
        head.lines.append(f"// {', '.join(dict.fromkeys(o for loop in self.kernel.loops for o in loop.origins))}")
        head.lines.append(f"void {self.kernel.name}(void* context, int64_t begin, int64_t end) {{")
        head.put("auto& frame = *static_cast<KernelFrame*>(context);")
        written = set(self.kernel.results())
        for i, (b, name) in enumerate(self.buffers.items()):
            const = "" if b in written else "const "
            alone = "" if b in self.shared else " __restrict"
            head.put(
                f"{const}{memory_type(b.dtype)}*{alone} {name} = reinterpret_cast<{const}{memory_type(b.dtype)}*>(frame.memory[{i}]);"
            )
        for i, name in enumerate(self.sizes.values()):
            head.put(f"const int64_t {name} = frame.sizes[{i}];")
        if self.faults:
            head.put("unsigned fault = 0;")
            inner.put("if (fault) __atomic_fetch_or(&frame.fault, fault, __ATOMIC_RELAXED);")
        return "\n".join([*head.lines, *inner.lines, "}"]) + "\n"

    # -- points

    def points(self) -> None:
        members = self.kernel.members
        sizes: list[Any] = [n for n in members[0].column_sizes if n != 1]
        for m in members[1:]:
            found = refine(sizes, m.column_sizes)
            assert found is not None
            sizes = found
        variables = self.new_variables("i", sizes)
        for m in members:
            self.place_columns(m, sizes, variables)
        split = split_by_quotient(self, sizes, variables, members)
        sizes, variables = split or split_by_sizes(self, sizes, variables, members)
        whole = sizes, variables, {m: dict(at) for m, at in self.places.items()}
        sizes, variables = self.coalesced(sizes, variables, members)
        p = Pass(self)
        outputs = self.pass_values(p, members)
        if split or gains(p, outputs, sizes, variables):
            sizes, variables = write_out(self, whole[0][-1] if split else sizes[-1], *whole)
            p = Pass(self)
            outputs = neighbours_of(self, p, members)
        neighbours = max(1, len(self.last_points))
        self.task_rows, self.task_columns = s.product(sizes[:-1]), s.mul(sizes[-1] if sizes else 1, neighbours)
        if len(sizes) <= 1:
            self.task_rows, self.task_columns = s.product(sizes), neighbours
            for (
                v
            ) in variables:  # named alike whatever the dims were, so that kernels that do the same have the same text
                self.names[s.atom_of(v)] = "i"  # type: ignore[index]
            self.emit_points(p, outputs, variables[0] if variables else None, "begin", "end")
            return
        across = None if self.last_points else transposed_along(p, sizes, variables)
        if across is not None:
            write_tiles(self, p, outputs, sizes, variables, across)
            return
        if not self.last_points and write_fill(self, p, outputs, sizes, variables):
            return
        if any(goes_backward(r, variables[-1], variables[-2]) for r in p.reads):
            self.row = variables[-2]  # else the processor looks ahead well enough
        self.text.open("for (int64_t r = begin; r < end; ++r) {")
        self.decode("r", sizes[:-1], variables[:-1])
        write_row(self, variables[:-1], p, outputs, variables[-1], "0", self.index(sizes[-1]))
        self.text.close()

    def pass_values(self, p: Pass, members: Sequence[Member]) -> list[tuple[Buffer, Node]]:
        """Nodes of the members' results, and which of them are stored."""
        outputs = []
        for m in members:
            nodes = p.nodes(m, m.loop.formulas)
            for b, n in zip(m.loop.results, nodes, strict=True):
                p.values[b] = n
                if b not in self.kernel.inner or b in self.scratch:
                    outputs.append((b, n))
        return outputs

    def emit_points(
        self, p: Pass, outputs: list[tuple[Buffer, Node]], variable: Any, begin: str, end: str, most: int = MOST_RANGES, done: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        """A loop over points; several where conditions on its variable hold for a part of it only."""
        last = self.hoistable(variable)
        single = last is not None and not goes_by_packs(self, p, outputs, last)  # on packs comparisons cost little
        cuts = Cuts(p, [n for _, n in outputs], variable, moving=True, single=single, done=done)
        cuts.declare_edges()
        if cuts.at_one_place and not lie_together(self, p, outputs):
            # The row as if the place were none, and then the place: a loop with known ends, and one element.
            low, high = cuts.edges
            for first, past in ((None, low), (low, high)):
                part, nodes = cuts.within(first, past)
                made = [(b, n) for (b, _), n in zip(outputs, nodes, strict=True)]
                if first is None:
                    self.emit_range(part, made, variable, begin, end)
                else:
                    self.text.open(f"if ({self.index(low)} >= {begin} && {self.index(low)} < {end}) {{")
                    self.emit_range(part, made, variable, self.index(low), self.index(high))
                    self.text.close()
            return
        for low, high in cuts.ranges:
            part, nodes = cuts.within(low, high)
            first = begin if low is None else later(begin, self.index(low), "index_max")
            past = end if high is None else later(end, self.index(high), "index_min")
            made = [(b, n) for (b, _), n in zip(outputs, nodes, strict=True)]
            guarded = bool(cuts.edges) and part.reads_unguarded(nodes, p, variable)
            if guarded:
                self.text.open(f"if ({first} < {past}) {{")
            if cuts.symbolic and 1 < len(cuts.ranges) <= most:  # places of which nobody knew how they lie to these
                self.emit_points(part, made, variable, first, past, most // len(cuts.ranges), [*done, *cuts.edges])
            else:
                self.emit_range(part, made, variable, first, past)
            if guarded:
                self.text.close()

    def emit_range(self, p: Pass, outputs: list[tuple[Buffer, Node]], variable: Any, begin: str, end: str) -> None:
        for write in (write_packs, write_runs, write_zeros, write_backward):
            if write(self, p, outputs, variable, begin, end):
                return
        t = self.text
        name = self.names[s.atom_of(variable)] if variable is not None else "once"  # type: ignore[index]
        code = self.emitted(p, [n for _, n in outputs], {}, self.hoistable(variable))
        t.open("{")
        for line in code.prologue:
            t.put(line)
        t.put("#pragma GCC ivdep")
        dear = any(n.op.cost is Cost.EXPENSIVE for n in topological([n for _, n in outputs]))
        if len(code.body) <= UNROLLED_BODY and not dear:
            t.put("#pragma GCC unroll 4")
        t.open(f"for (int64_t {name} = {begin}; {name} < {end}; ++{name}) {{")
        for line in code.body:
            t.put(line)
        for (b, _), r in zip(outputs, code.results, strict=True):
            self.store(b, r)
        t.close()
        t.close()

    def hoistable(self, variable: Any) -> Any:
        """The variable, if its loop surely runs: where it may not, nothing may be read before it."""
        if variable is None or self.known.bounds(variable)[1] < 0:
            return None
        return variable

    def store(self, b: Buffer, value: str) -> None:
        """Writes an element of b, at the point at hand."""
        for line in stored_as(b.dtype, f"{self.pointer(b)}[{self.index(self.store_place(b))}]", value):
            self.text.put(line)

    def store_place(self, b: Buffer | Neighbour) -> Any:
        if isinstance(b, Neighbour):
            return b.place
        if b in self.strips:
            return self.strips[b]
        m = self.member_of(b)
        at = self.places[m]
        index = [self.simplified(v, at) for v in m.loop.places]
        if b in self.scratch:
            return self.column_number(m, index)
        return s.total([s.mul(i, n) for i, n in zip(index, b.strides, strict=True)])

    def member_of(self, b: Buffer) -> Member:
        return next(m for m in self.kernel.members if b in m.loop.results)

    def column_number(self, m: Member, index: Sequence[Any]) -> Any:
        return self.known.simplify(m.column_number(index))

    def scratch_address(self, b: Buffer, address: Any) -> Any:
        m = self.scratch[b]
        return self.column_number(m, index_of(address, b.sizes, b.strides, self.known))

    def decode(self, number: str, sizes: Sequence[Any], variables: Sequence[Any]) -> None:
        """Declares the variables of a point given by its number."""
        rest = number
        for i in reversed(range(len(sizes))):
            name = self.names[s.atom_of(variables[i])]  # type: ignore[index]
            if i == 0:
                self.text.put(f"const int64_t {name} = {rest};")
            else:
                n = self.index.grouped(sizes[i])
                self.text.put(f"const int64_t {name} = {rest} % {n};")
                if i > 0:
                    self.text.put(f"const int64_t rest_{name} = {rest} / {n};")
                    rest = f"rest_{name}"

    def coalesced(
        self, sizes: list[Any], variables: list[Any], members: Sequence[Member], columns: bool = True
    ) -> tuple[list[Any], list[Any]]:
        """Neighbouring dims as one, where every address goes on across them."""
        expressions = self.expressions(members)
        nested = any(
            s.has_functions(r.address if isinstance(r, Load) else r.value) for m in members for r in m.loop.reads
        )
        i = len(sizes) - 2
        sizes, variables = list(sizes), list(variables)
        while i >= 0:
            outer, inner = variables[i], variables[i + 1]
            (both,) = self.new_variables(f"{'c' if columns else 'q'}{i}_", [s.mul(sizes[i], sizes[i + 1])])
            change = {s.atom_of(inner): s.add(both, s.scale(s.mul(outer, sizes[i + 1]), -1))}
            changed = [s.substitute(e, change) for e in expressions]  # type: ignore[arg-type]
            atom = s.atom_of(outer)
            if not any(atom in s.free_symbols(e) for e in changed):
                before = [(places, m, places[m]) for places in self.last_points or [self.places] for m in members]
                for places, m, at in before:
                    places[m] = {k: s.substitute(v, change) for k, v in at.items()}  # type: ignore[arg-type]
                if nested and any(atom in s.free_symbols(e) for e in self.expressions(members)):
                    for places, m, at in before:  # what two variables told of a quotient, one does not
                        places[m] = at
                    i -= 1
                    continue
                expressions = changed
                sizes[i : i + 2] = [s.mul(sizes[i], sizes[i + 1])]
                variables[i : i + 2] = [both]
            i -= 1
        return sizes, variables

    def expressions(self, members: Sequence[Member]) -> list[Any]:
        """Every index expression of the members, on the kernel's variables."""
        found = []
        for m, at in [(m, places[m]) for places in self.last_points or [self.places] for m in members]:
            for r in m.loop.reads:
                if isinstance(r, Load):
                    if r.guard is not True:
                        found.append(s.substitute(r.guard, at))
                    found.append(self.simplified(r.address, at))
                else:
                    found.append(self.simplified(r.value, at))
            index = [self.simplified(v, at) for v in m.loop.places]
            for b in m.loop.results:
                found.append(s.total([s.mul(i, n) for i, n in zip(index, b.strides, strict=True)]))
                if b in self.scratch:
                    found.append(self.column_number(m, index))
            if m.loop.fold is not None and any(n.op is INDEX for n in topological(m.loop.fold.combine)):
                found.append(fold_number(m.loop, at, self.known))
        return found

    # -- formulas

    def emitted(
        self,
        p: Pass,
        nodes: Sequence[Node],
        states: dict[int, str],
        along: Any = None,
        vector: VectorForm | None = None,
        short: bool = False,
    ) -> Emitted:
        """C++ of nodes: reads first, then what depends on them; results in order.

        What does not change `along` a variable is read and computed before its loop. With `vector`, whole vectors are read; with `short`,
        shortcuts are taken.
        """
        prefix = f"t{self.passes}_"
        self.passes += 1
        outputs = simplify(tuple(nodes))
        needed = {
            n.attr for n in topological((*outputs, *(value for value, _ in p.indirect.values()))) if n.op is INPUT
        }
        texts = [self.read_name(r, i, prefix) for i, r in enumerate(p.reads)]
        names = Names(texts, texts, [states.get(i, "") for i in range(max(states, default=-1) + 1)], prefix=prefix)
        fixed, changing = p.fixed_reads(along), p.changing(along)
        lines: list[str] = []
        prologue: list[str] = []
        declared: set[s.Atom] = set()
        waiting = [(r, i) for r, i in p.reads.items() if i in needed and not isinstance(r, str)]
        indirect = list(p.indirect.items())
        mine = set(p.indirect)
        done = {i for r, i in p.reads.items() if isinstance(r, str)}
        while waiting or indirect:
            before = len(waiting) + len(indirect)
            for r, i in list(waiting):
                if not (p.symbols_of(r) & mine) - declared:
                    if i in fixed:
                        prologue.append(self.read_line(r, texts[i]))
                    else:
                        lines.append(self.read_line(r, texts[i], vector, along))
                    waiting.remove((r, i))
                    done.add(i)
            for atom, (value, size) in list(indirect):
                if all(n.attr in done for n in topological((value,)) if n.op is INPUT):
                    code = emit((value,), Names(texts, prefix=f"{prefix}{atom.name}_"))
                    prologue += code.prologue
                    into = lines if atom in changing else prologue
                    into += code.body
                    self.faults = True
                    self.names[atom] = f"{prefix}{atom.name}"
                    into.append(
                        f"const int64_t {self.names[atom]} = checked_index({code.results[0]}, {self.index(size)}, fault);"
                    )
                    declared.add(atom)
                    indirect.remove((atom, (value, size)))
            assert len(waiting) + len(indirect) < before, "reads that wait for each other"
        code = emit(self.with_fixed(outputs, fixed), names, short=short, vector=vector, forms=None if vector else FORMS)
        self.faults |= code.faults
        return Emitted((*prologue, *code.prologue), (*lines, *code.body), code.results, code.faults)

    @staticmethod
    def with_fixed(nodes: Sequence[Node], fixed: set[int]) -> tuple[Node, ...]:
        """Nodes with the reads that do not change as parameters, so that what is made of them alone is computed once."""
        leaves = [n for n in topological(nodes) if n.op is INPUT and n.attr in fixed]
        return scalar.substitute(tuple(nodes), {n: scalar.Param(n.attr, n.dtype) for n in leaves})  # type: ignore[arg-type]

    def read_name(self, r: Any, i: int, prefix: str) -> str:
        return r if isinstance(r, str) else f"x{prefix}{i}"

    def read_line(self, r: Load | Position, name: str, vector: VectorForm | None = None, along: Any = None) -> str:
        if vector is not None and isinstance(r, Load):
            step = step_of(r.address, along)
            form = vector.load if is_one(step) else vector.apart
            return f"const auto {name} = {form.format(f'{self.pointer(r.buffer)} + {self.index(r.address)}', step)};"
        if isinstance(r, Position):
            if isinstance(r.value, FloatExpr | float):
                return f"const double {name} = {self.index.real(r.value)};"
            if vector is not None and vector.position:
                return f"const auto {name} = {vector.position.format(self.index(r.value))};"
            if isinstance(r, NarrowPosition):
                return f"const int32_t {name} = int32_t({self.index(r.value)});"
            return f"const int64_t {name} = {self.index(r.value)};"
        t = r.buffer.dtype.cpp
        element = loaded(r.buffer.dtype, f"{self.pointer(r.buffer)}[{self.index(r.address)}]")
        if r.guard is not True:
            element = f"{self.index.relation(r.guard)} ? {element} : {t}()"
        return f"const {t} {name} = {element};"

    # -- rows

    def rows(self) -> None:
        members = self.kernel.members
        sizes: list[Any] = []
        for i, m in enumerate(members):
            own = [n for n in m.row_sizes if n != 1]
            found = own if i == 0 else refine(sizes, own)
            assert found is not None
            sizes = found
        variables = self.new_variables("r", sizes)
        groups: dict[Any, list[Any]] = {}
        for m in members:
            self.place_rows(m, sizes, variables)
            count = s.product(m.column_sizes)
            own = [n for n in m.column_sizes if n != 1]
            merged = refine(groups[count], own) if count in groups else own
            assert merged is not None
            groups[count] = merged
        columns: dict[Any, tuple[list[Any], list[Any]]] = {}
        self.group_of = {m: s.product(m.column_sizes) for m in members}
        for g, (count, own) in enumerate(groups.items()):
            made = self.new_variables(f"j{g}_", own)
            for m in members:
                if self.group_of[m] is count or self.group_of[m] == count:
                    self.place_columns(m, own, made)
            columns[count] = (own, made)
        self.levels = self.leveled()
        choose_scratch(self, members)
        for count, (own, made) in columns.items():
            mine = [m for m in members if self.group_of[m] == count]
            columns[count] = self.coalesced(own, made, mine)
        sizes, variables = self.coalesced(sizes, variables, members, columns=False)
        self.row = variables[-1] if variables else None
        self.row_variables = variables
        self.task_rows = s.product(sizes)
        self.task_columns = s.total([c for c in groups])
        held = lodged(self, [s.atom_of(v) for _, made in columns.values() for v in made])
        ends = declare_rows(self, held)
        self.text.open("for (int64_t r = begin; r < end; ++r) {")
        if sizes:
            self.decode("r", sizes, variables)
        for b, start in held.items():
            self.text.put(f"{memory_type(b.dtype)}* const row_{b.name} = {start};")
        for level in range(max(self.levels.values()) + 1):
            here = [m for m in members if self.levels[m] == level]
            single = [m for m in here if m.loop.fold is None and self.group_of[m] == 1]
            if single:
                self.row_values(single)
            for count, (own, made) in columns.items():
                mine = [m for m in here if m not in single and self.group_of[m] == count]
                if mine:
                    self.column_pass(mine, own, made)
        self.text.close()
        for line in ends:
            self.text.put(line)

    def leveled(self) -> dict[Member, int]:
        """The pass in which each member can run: after the folds that it reads."""
        levels: dict[Member, int] = {}
        for m in self.kernel.members:
            level = 0
            for load in m.loop.loads():
                producer = next((o for o in self.kernel.members if load.buffer in o.loop.results), None)
                if producer is None or producer is m:
                    continue
                later = 1
                if producer.loop.fold is None:
                    later = 0 if self.group_of[producer] == 1 or self.at_same_column(producer, m, load) else 1
                level = max(level, levels[producer] + later)
            levels[m] = level
        return levels

    def at_same_column(self, producer: Member, m: Member, load: Load) -> bool:
        if self.group_of[producer] != self.group_of[m]:
            return False
        address = self.simplified(load.address, self.places[m])
        index = index_of(address, load.buffer.sizes, load.buffer.strides, self.known)
        here = self.column_number(m, [self.simplified(v, self.places[m]) for v in m.loop.variables])
        return self.column_number(producer, index) is here

    def row_values(self, members: Sequence[Member]) -> None:
        """Members with one value per row."""
        p = Pass(self)
        outputs = []
        for m in members:
            for b, n in zip(m.loop.results, p.nodes(m, m.loop.formulas), strict=True):
                p.values[b] = n
                outputs.append((b, n))
        code = self.emitted(p, [n for _, n in outputs], {})
        for line in (*code.prologue, *code.body):
            self.text.put(line)
        for (b, _), r in zip(outputs, code.results, strict=True):
            self.variables[b] = f"v_{b.name}"
            self.text.put(f"const {b.dtype.cpp} v_{b.name} = {r};")
            if b not in self.kernel.inner:
                self.store(b, f"v_{b.name}")

    def column_pass(self, members: Sequence[Member], sizes: list[Any], variables: list[Any]) -> None:
        """One pass over the columns of a row: elements that are stored, and folds."""
        t = self.text
        p = Pass(self)
        plain = [m for m in members if m.loop.fold is None]
        folds = [m for m in members if m.loop.fold is not None]
        outputs = []
        for m in [m for m in members if m.loop.fold is None]:
            for b, n in zip(m.loop.results, p.nodes(m, m.loop.formulas), strict=True):
                p.values[b] = n
                if b not in self.kernel.inner or b in self.scratch:
                    outputs.append((b, n))
        last = variables[-1] if variables else None
        if not folds:
            for v, n in zip(variables[:-1], sizes[:-1], strict=True):
                name = self.names[s.atom_of(v)]  # type: ignore[index]
                t.open(f"for (int64_t {name} = 0; {name} < {self.index(n)}; ++{name}) {{")
            outer = [*self.row_variables, *variables[:-1]]
            write_row(self, outer, p, outputs, last, "0", self.index(sizes[-1]) if sizes else "1")
            for _ in variables[:-1]:
                t.close()
            return
        assert plain is not None
        self.fold_pass(p, outputs, folds, sizes, variables)

    def fold_pass(
        self,
        p: Pass,
        outputs: list[tuple[Buffer, Node]],
        folds: Sequence[Member],
        sizes: list[Any],
        variables: list[Any],
    ) -> None:
        t = self.text
        alone = not outputs and bool(variables) and self.hoistable(variables[-1]) is not None
        if (alone and write_search(self, p, folds, sizes, variables)) or write_vector_fold(
            self, p, outputs, folds, sizes, variables
        ):
            self.name_results(folds)
            return
        tag = f"s{self.passes}"
        states, combined = self.combined(p, folds, lambda k: f"{tag}_{k}[l]")
        last = self.hoistable(variables[-1]) if len(variables) == 1 else None
        code = self.emitted(p, [*(n for _, n in outputs), *combined], dict(enumerate(states)), last)
        for m in folds:
            for b in m.loop.results:
                t.put(f"{b.dtype.cpp} v_{b.name};")
        t.open("{")
        for line in code.prologue:
            t.put(line)
        self.start_states(folds, tag, "kLanes")
        aside = Aside.of(self, folds, s.product(sizes), ADDED * APART, self.arrays_of_states(folds, tag, "kLanes"))
        for v, n in zip(variables[:-1], sizes[:-1], strict=True):
            name = self.names[s.atom_of(v)]  # type: ignore[index]
            t.open(f"for (int64_t {name} = 0; {name} < {self.index(n)}; ++{name}) {{")
        name = self.names[s.atom_of(variables[-1])] if variables else "once"  # type: ignore[index]
        end = self.index(sizes[-1]) if sizes else "1"
        t.open(f"auto step = [&](int64_t {name}, int64_t l) __attribute__((always_inline)) {{")
        if not variables:
            t.put(f"(void){name};")
        self.step_lines(code, outputs, folds, tag)
        t.close("};")
        t.put("int64_t c = 0;")
        whole = end
        if aside is not None:
            end = aside.open_chunk(sizes[-1] if sizes else 1, end)
        # Several elements go into a lane at once where that is little code: the states are then read and written less often.
        for times in (4, 1) if len(code.body) <= SHORT_BODY else (1,):
            t.open(f"for (; c + {times} * kLanes <= {end}; c += {times} * kLanes) {{")
            t.put("#pragma GCC ivdep")
            t.put("#pragma GCC unroll 1")  # unrolled, it would not be vectors
            steps = " ".join(f"step(c + {k} * kLanes + l, l);" for k in range(times))
            t.put(f"for (int64_t l = 0; l < kLanes; ++l) {{ {steps} }}")
            t.close()
        t.put(f"for (int64_t l = 0; c + l < {end}; ++l) step(c + l, l);")
        if aside is not None:
            aside.count(whole)
        for _ in variables[:-1]:
            t.close()
        if aside is not None:
            aside.add()
        self.merge_lanes(folds, tag)
        self.finish_first(folds, tag)
        t.close()
        self.name_results(folds)

    def arrays_of_states(self, folds: Sequence[Member], tag: str, count: str) -> list[States]:
        types = [memory_type(d) for m in folds for d in m.loop.fold.states]  # type: ignore[union-attr]
        return [States([f"{tag}_{k}" for k in range(len(types))], types, None, count, "#pragma GCC ivdep")]

    def name_results(self, folds: Sequence[Member]) -> None:
        """What was folded is in variables from now on, and in memory where somebody wants it."""
        for m in folds:
            for b in m.loop.results:
                self.variables[b] = f"v_{b.name}"
                if b not in self.kernel.inner:
                    self.store(b, f"v_{b.name}")

    def combined(self, p: Pass, folds: Sequence[Member], state: Any) -> tuple[list[str], list[Node]]:
        """The states after one more element, as nodes; states are Output leaves."""
        nodes = self.combined_elements(folds, lambda m: p.nodes(m, m.loop.formulas), p)
        return [state(k) for k in range(len(nodes))], nodes

    def combined_elements(
        self, folds: Sequence[Member], elements: Any, p: Pass, at: dict[s.Atom, Any] | None = None
    ) -> list[Node]:
        """The states after one more element, where variables stand for what `at` says."""
        nodes: list[Node] = []
        for m in folds:
            fold = m.loop.fold
            assert fold is not None
            base = len(nodes)
            change = {scalar.Param(i, d): scalar.Output(base + i, d) for i, d in enumerate(fold.states)}
            change |= {scalar.Input(i, e.dtype): e for i, e in enumerate(elements(m))}
            if any(n.op is INDEX for n in topological(fold.combine)):
                number = fold_number(m.loop, self.places[m], self.known)
                change[scalar.index()] = p.input(Position(s.substitute(number, at or {})), dt.int64)
            nodes += scalar.substitute(fold.combine, change)
        return nodes

    def start_states(self, folds: Sequence[Member], tag: str, width: str, types: list[str] | None = None) -> None:
        k = 0
        for m in folds:
            fold = m.loop.fold
            assert fold is not None
            code = emit(fold.init, Names(prefix=f"init{k}_"))
            for line in (*code.prologue, *code.body):
                self.text.put(line)
            for d, r in zip(fold.states, code.results, strict=True):
                self.text.put(f"alignas(64) {types[k] if types else memory_type(d)} {tag}_{k}[{width}];")
                start = f"-({r})" if types and d is dt.bool_ else r  # a mask, if it is as wide as one
                self.text.put(f"for (int64_t l = 0; l < {width}; ++l) {tag}_{k}[l] = {start};")
                k += 1

    def step_lines(self, code: Emitted, outputs: list[tuple[Buffer, Node]], folds: Sequence[Member], tag: str) -> None:
        for line in code.body:
            self.text.put(line)
        for (b, _), r in zip(outputs, code.results, strict=False):
            self.store(b, r)
        dtypes = [d for m in folds for d in m.loop.fold.states]  # type: ignore[union-attr]
        news = code.results[len(outputs) :]
        for k, (d, r) in enumerate(zip(dtypes, news, strict=True)):
            self.text.put(f"const {d.cpp} new_{k} = {r};")
        for k in range(len(dtypes)):
            self.text.put(f"{tag}_{k}[l] = new_{k};")

    def merge_lanes(self, folds: Sequence[Member], tag: str) -> None:
        """Merges the lanes into the first."""
        t = self.text
        t.open("for (int64_t h = kLanes / 2; h > 0; h /= 2) {")
        t.open("for (int64_t l = 0; l < h; ++l) {")
        k = 0
        for f, m in enumerate(folds):
            fold = m.loop.fold
            assert fold is not None
            n = len(fold.states)
            mine = [f"{tag}_{k + i}[l]" for i in range(n)]
            others = [f"{tag}_{k + i}[l + h]" for i in range(n)]
            code = self.of_states(fold.merge, [*mine, *others], f"m{f}_")
            for line in (*code.prologue, *code.body):
                t.put(line)
            for i, (d, r) in enumerate(zip(fold.states, code.results, strict=True)):
                t.put(f"const {d.cpp} new_{k + i} = {r};")
            for i in range(n):
                t.put(f"{mine[i]} = new_{k + i};")
            k += n
        t.close()
        t.close()

    def finish_first(self, folds: Sequence[Member], tag: str) -> None:
        """Finishes what is in the first lane."""
        k = 0
        for f, m in enumerate(folds):
            k = self.finish(m, [f"{tag}_{k + i}[0]" for i in range(len(m.loop.fold.states))], f"f{f}_", k)  # type: ignore[union-attr]

    def finish(self, m: Member, states: list[str], prefix: str, k: int) -> int:
        fold = m.loop.fold
        assert fold is not None
        count = f"int64_t({self.index(fold_count(m.loop))})"
        code = self.of_states(fold.finish, [*states, count], prefix)
        for line in (*code.prologue, *code.body):
            self.text.put(line)
        for b, r in zip(m.loop.results, code.results, strict=True):
            self.text.put(f"v_{b.name} = {r};")
        return k + len(fold.states)

    def of_states(
        self, nodes: Sequence[Node], names: list[str], prefix: str, vector: VectorForm | None = None
    ) -> Emitted:
        leaves = {n for n in topological(nodes) if n.op is PARAM}
        changed = scalar.substitute(nodes, {n: scalar.Output(n.attr, n.dtype) for n in leaves})  # type: ignore[arg-type]
        return emit(changed, Names(outputs=names, prefix=prefix), vector=vector)

    @property
    def memory(self) -> list[Buffer]:
        return list(self.buffers)

    @property
    def work(self) -> Any:
        return s.mul(self.task_rows, self.task_columns)

    @property
    def grain(self) -> Any:
        """Rows that are worth a thread."""
        return s.maximum(1, s.floordiv(TASK_WORK, s.maximum(self.task_columns, 1)))
