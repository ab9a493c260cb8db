"""Folds on whole vectors: accumulators that never leave their registers, several of them so that additions overlap.

For formulas that are arithmetic, comparison and choice on one floating type, read and written at neighbouring places; the
others are written as loops that the compiler makes vectors of (cpp_loops.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tocha.codegen.cpp_scalar import Emitted, Names, VectorForm, emit, memory_type
from tocha.ir import dtypes as dt
from tocha.ir import scalar
from tocha.ir import symbolic as s
from tocha.ir.kernels import Member
from tocha.ir.loops import Buffer, Load, Position
from tocha.ir.node import CONSTANT, INDEX, INPUT, OUTPUT, PARAM, Cost, Node, topological
from tocha.ir.packed import goes_on_packs
from tocha.ir.rewrite import simplify

LONG_BODY = 24  # statements, beyond which registers do not last for so many
SHORT_ROW = 8  # elements, below which there is nothing for vectors
WIDEST = 64  # bytes that a vector has at most
IN_ORDER = 16  # elements: shorter rows are folded in order by the eager kernels, whose zeros keep their sign
SHORT_STEP = 6  # statements of a step across rows, beyond which registers do not last for a whole group
ROWS_AHEAD = 4
STRIP = 512  # elements that are computed before they are folded
NOWHERE = 2**31 - 1  # as a position in lanes of 32 bits
# Elements on which an accumulator is put aside: one by one, each of many equal ones is rounded the same way.
ADDED = 256
ROWS_ADDED = 512
APART = 32  # kLanes of the prelude
LONGEST_FETCHED = 4096  # elements: of longer rows the first ones would be gone again when they are read


@dataclass(frozen=True)
class Registers:
    """What a fold goes by: the type of a state and its number of elements, how formulas are written and results stored, and how many
    accumulators a state has, so that additions overlap."""

    type: str
    width: str
    form: VectorForm
    store: str
    copies: int
    widest: int  # elements at most
    mask: str = ""  # truths and positions: integers that are as wide as the values


BITS = frozenset({scalar.bitwise_and, scalar.bitwise_or, scalar.bitwise_xor, scalar.bitwise_not})
COMPARISONS = frozenset({scalar.eq, scalar.ne, scalar.lt, scalar.le, scalar.gt, scalar.ge})
# Multiplications of long integers have no vectors on many processors.
INTEGER = BITS | COMPARISONS | {
    scalar.add, scalar.sub, scalar.neg, scalar.absolute, scalar.maximum, scalar.minimum, scalar.where,
}  # fmt: skip


def registers(
    type: str, d: dt.DType, mask: str, load: str = "vec::load({0})", store: str = "vec::store({0}, {1});"
) -> Registers:
    form = VectorForm(
        "vec::all",
        load,
        {
            scalar.where: "vec::choose({0}, {1}, {2})",
            scalar.bitwise_not: "vec::inverse({0})",
            scalar.CAST: "vec::choose({0}, vec::all({type}(1)), vec::all({type}(0)))",  # of a truth
        },
        f"vec::positions<{mask}>({{0}})",
        {scalar.maximum: "vec::highest({0}, {1})", scalar.minimum: "vec::lowest({0}, {1})"},
    )
    return Registers(f"vec::{type}", f"vec::width<{memory_type(d)}>", form, store, 4, WIDEST // size_of(d), mask)


SINGLE = frozenset({dt.float32, dt.complex64})
SMALL = frozenset({dt.float16, dt.bfloat16})


def size_of(d: dt.DType) -> int:
    """The bytes of an element in memory."""
    return max(1, d.bits // 8)


TYPES = {
    dt.float32: registers("F32", dt.float32, "vec::I32"),
    dt.float64: registers("F64", dt.float64, "vec::I64"),
    dt.int32: registers("I32", dt.int32, "vec::I32"),
    dt.int64: registers("I64", dt.int64, "vec::I64"),
    dt.uint8: registers("U8", dt.uint8, "vec::I8"),
    dt.bool_: registers("I8", dt.bool_, "vec::I8", "vec::truths({0})", "vec::store_truths({0}, {1});"),
}
# Dear formulas take longer than the additions wait.
PACKS = Registers(
    "vec::Pack",
    "vec::kPack",
    VectorForm("vec::pack", "vec::load({0}, vec::Whole())", {scalar.where: "vec::choose({0}, {1}, {2})"}),
    "vec::store({0}, vec::pack({1}), vec::Whole());",
    1,
    16,
)


def lanewise(outputs: Sequence[Node]) -> dt.DType | None:
    """The type of vectors on which these nodes can be computed; params are the same for all lanes. None if there is none.

    Beside values of that type there may be truths, and positions (int64) that are chosen from and compared with each other.
    """
    leaves = {n.dtype for n in topological(outputs) if n.op in (INPUT, OUTPUT)}
    values = leaves - {dt.bool_}
    if len(values) > 1:
        values -= {dt.int64}
    t = next(iter(values)) if values else dt.bool_
    if len(values) > 1 or not leaves or t not in TYPES:
        return None
    varying: set[Node] = set()
    for n in topological(outputs):
        if n.op in (CONSTANT, PARAM):
            continue
        if n.op is INDEX:
            return None
        if n.op in (INPUT, OUTPUT):
            varying.add(n)
        elif any(a in varying for a in n.args):
            if not on_lanes(n, t, varying):
                return None
            varying.add(n)
        if n in varying and n.dtype not in (t, dt.bool_) and not (n.dtype is dt.int64 and t.bits >= 32):
            return None
    return t if all(o in varying for o in outputs) else None


def on_lanes(n: Node, t: dt.DType, varying: set[Node]) -> bool:
    """Whether an operation is one of vectors of a type; a mask is not made of a truth that is the same for all lanes."""
    types = {a.dtype for a in n.args}
    if any(a.dtype is dt.bool_ and a not in varying for a in n.args):
        return False
    if dt.int64 in types and t is not dt.int64:  # positions
        chosen = n.op is scalar.where or (n.op in COMPARISONS and types == {dt.int64})
        return chosen and (t.bits == 64 or all(a in varying for a in n.args))
    if types == {dt.bool_}:
        return n.op in BITS or n.op in (scalar.eq, scalar.ne) or (n.op is scalar.CAST and n.dtype is t)
    if n.op is scalar.isnan:
        return t.is_floating
    if t.is_floating:
        return n.op in BITS or (n.op.vector and n.op.cost is Cost.CHEAP and n.op is not scalar.sqrt)
    return n.op in INTEGER or (n.op is scalar.mul and t is dt.int32)


def packed(outputs: Sequence[Node]) -> dt.DType | None:
    """The type of packs on which these nodes are better computed; None if they are not."""
    return dt.float32 if goes_on_packs(outputs) else None


def step_of(address: Any, variable: Any) -> Any:
    """How far apart neighbours along a variable lie."""
    return s.add(s.substitute(address, {atom_of(variable): s.add(variable, 1)}), s.scale(address, -1))


def atom_of(variable: Any) -> s.Atom:
    atom = s.atom_of(variable)
    assert atom is not None
    return atom


def is_one(step: Any) -> bool:
    return isinstance(step, int) and step == 1


def vector_type(
    w: Any,
    p: Any,
    nodes: Sequence[Node],
    outputs: Sequence[tuple[Buffer, Node]],
    folds: Sequence[Member],
    last: Any,
    type_of: Callable[[Sequence[Node]], dt.DType | None] = lanewise,
) -> dt.DType | None:
    """The type of a pass that can go by vectors (or packs) along its last variable; None if it cannot."""
    if p.indices_change(last):
        return None
    fixed = p.fixed_reads(last)
    outputs_ = simplify(tuple(nodes))
    needed = {n.attr for n in topological(outputs_) if n.op is INPUT} - fixed
    reads = [r for r, i in p.reads.items() if i in needed]
    for r in reads:
        along = isinstance(r, Position) or (isinstance(r, Load) and r.guard is True)
        if not along or not is_one(step_of(r.value if isinstance(r, Position) else r.address, last)):
            return None
    t = type_of(w.with_fixed(outputs_, fixed))
    if t is None or not all(fits(w, r, t) for r in reads):
        return None
    for b, n in outputs:
        if b.dtype is not t or n.dtype is not t or not is_one(step_of(w.store_place(b), last)):
            return None
    for m in folds:
        fold = m.loop.fold
        assert fold is not None
        leaves = {n: scalar.Output(n.attr, n.dtype) for n in topological(fold.merge) if n.op is PARAM}  # type: ignore[arg-type]
        merge = scalar.substitute(fold.merge, leaves)  # type: ignore[arg-type]
        if type_of is not lanewise:
            if any(d is not t for d in fold.states) or goes_on_packs(merge) is None:
                return None
        elif lanewise(merge) not in (t, dt.bool_):
            return None
    return t


def fits(w: Any, r: Load | Position, t: dt.DType) -> bool:
    """Whether a read has the width of vectors of a type."""
    if isinstance(r, Load):
        return r.buffer.dtype is t or (t is dt.float32 and r.buffer.dtype in SMALL)
    return t.bits == 64 or w.known.bounds(r.value)[1] < NOWHERE


def widened(nodes: Sequence[Node], fixed: set[int]) -> list[Node]:
    """Formulas in which small floats that are read are the float32 that they stand for, as vectors of them are; those of which something else
    is made stay what they are, and keep a formula off vectors."""
    outputs = simplify(tuple(nodes))
    change = {
        n: scalar.Input(n.args[0].attr, dt.float32)  # type: ignore[arg-type]
        for n in topological(outputs)
        if n.op is scalar.CAST and n.dtype is dt.float32 and n.args[0].op is INPUT and n.args[0].dtype in SMALL
        and n.args[0].attr not in fixed
    }  # fmt: skip
    return list(scalar.substitute(outputs, change))


def asked_for(w: Any, p: Any, last: Any) -> list[str]:
    """What asks for memory that a pass will read, as the processor's own look-ahead begins anew with every page: the same place of the next
    row, or what lies further on, where there are no rows or they are too long for that."""
    lines, own = [], w.scratch.keys() | w.strips.keys() | w.variables.keys()
    for r in p.reads:
        if not isinstance(r, Load) or r.buffer in own or not is_one(step_of(r.address, last)):
            continue
        step = LONGEST_FETCHED + 1 if w.row is None else step_of(r.address, w.row)
        start = s.substitute(r.address, {atom_of(last): 0})
        if not isinstance(step, int) or abs(step) > LONGEST_FETCHED:
            if w.row is None or r.buffer not in w.fetched:
                lines.append(f"vec::look_ahead<1>({w.pointer(r.buffer)} + {w.index(start)} + c);")
        elif abs(step) >= SHORT_ROW:
            lines.append(f"vec::fetch({w.pointer(r.buffer)} + {w.index(s.add(start, step))} + c);")
    return lines


def write_loop(w: Any, p: Any, last: Any, head: str, body: str) -> None:
    """A loop over c whose steps take long enough to ask for memory meanwhile."""
    lines = asked_for(w, p, last)
    if not lines:
        w.text.put(f"{head} {body}")
        return
    w.text.open(f"{head} {{")
    for line in (*lines, body):
        w.text.put(line)
    w.text.close()


def write_vector_fold(
    w: Any, p: Any, outputs: list[tuple[Buffer, Node]], folds: Sequence[Member], sizes: list[Any], variables: list[Any]
) -> bool:
    """Writes a pass over the columns of a row that folds, on vectors; False if it has no such form."""
    last = w.hoistable(variables[-1]) if variables else None
    if last is None or (isinstance(sizes[-1], int) and sizes[-1] < SHORT_ROW):
        return False
    names, combined = w.combined(p, folds, lambda k: f"a{k}")
    nodes = [*(n for _, n in outputs), *combined]
    wide = widened(nodes, p.fixed_reads(last))
    t = vector_type(w, p, wide, outputs, folds, last)
    if t is not None:
        VectorFold(w, p, outputs, folds, t, TYPES[t]).write(nodes, names, sizes, variables, wide)
        return True
    if vector_type(w, p, nodes, outputs, folds, last, packed) is not None:
        VectorFold(w, p, outputs, folds, dt.float32, PACKS).write(nodes, names, sizes, variables)
        return True
    strips = Strips(w, p, outputs, folds, last, sizes[-1])
    t = strips.vector_type()
    if t is not None:
        by = TYPES[t]
    elif (t := strips.vector_type(packed)) is not None:
        by = PACKS
    else:
        return False
    VectorFold(w, strips.pass_, [], folds, t, by, strips).write(strips.combined, names, sizes, variables)
    return True


class Strips:
    """Elements that have no form on vectors, computed into arrays from which they are then folded."""

    def __init__(
        self, w: Any, p: Any, outputs: list[tuple[Buffer, Node]], folds: Sequence[Member], variable: Any, size: Any
    ):
        self.w, self.p, self.folds, self.variable = w, p, folds, variable
        self.outputs = list(outputs)
        self.base, self.at = w.new_variable("base", size), w.new_variable("e", STRIP)
        self.pass_ = type(p)(w)
        made: dict[Node, Node] = {}
        self.arrays: list[Buffer] = []
        for m in folds:
            for n in simplify(p.nodes(m, m.loop.formulas)):
                if n not in made:
                    made[n] = self.array(n)
        self.combined = w.combined_elements(
            folds, lambda m: [made[n] for n in simplify(p.nodes(m, m.loop.formulas))], self.pass_, self.in_strip()
        )

    def in_strip(self) -> dict[s.Atom, Any]:
        """The pass's variable in terms of the strip's."""
        return {atom_of(self.variable): s.add(self.base, self.at)}

    def array(self, n: Node) -> Node:
        """An element where it is read again: where the pass puts it anyway, or in an array of its own."""
        for b, stored in self.outputs:
            place = self.w.store_place(b)
            if simplify((stored,))[0] is n and is_one(step_of(place, self.variable)):
                there = s.substitute(place, self.in_strip())
                return self.pass_.input(Load(b, there), n.dtype)
        b = Buffer(f"strip{self.w.passes}_{len(self.arrays)}", (STRIP,), (1,), n.dtype)
        self.w.strips[b] = s.add(self.variable, s.scale(self.base, -1))
        self.arrays.append(b)
        self.outputs.append((b, n))
        return self.pass_.input(Load(b, self.at), n.dtype)

    def vector_type(self, type_of: Callable[[Sequence[Node]], dt.DType | None] = lanewise) -> dt.DType | None:
        return vector_type(self.w, self.pass_, self.combined, [], self.folds, self.at, type_of)

    def open(self, end: str) -> None:
        """The loop over strips, and what computes one."""
        w, text = self.w, self.w.text
        for b in self.arrays:
            text.put(f"alignas(64) {memory_type(b.dtype)} row_{b.name}[{STRIP}];")
        text.open(f"for (int64_t base = 0; base < {end}; base += {STRIP}) {{")
        text.put(f"const int64_t size = index_min({STRIP}, {end} - base);")
        w.emit_points(self.p, self.outputs, self.variable, "base", "base + size")


def merge_states(
    w: Any, folds: Sequence[Member], mine: Sequence[str], others: Sequence[str], form: VectorForm | None, tag: str
) -> None:
    """Writes mine = merge(mine, others), fold by fold."""
    k = 0
    for f, m in enumerate(folds):
        fold = m.loop.fold
        assert fold is not None
        n = len(fold.states)
        code = w.of_states(fold.merge, [*mine[k : k + n], *others[k : k + n]], f"{tag}{f}_", form)
        w.text.open("{")
        for line in (*code.prologue, *code.body):
            w.text.put(line)
        for i, r in enumerate(code.results):
            w.text.put(f"const auto new_{i} = {r};")
        for i in range(n):
            w.text.put(f"{mine[k + i]} = new_{i};")
        w.text.close()
        k += n


@dataclass(frozen=True)
class States:
    """Accumulators of the same kind: one name and type for each state of the folds; arrays, if there is a count, in which those from first to
    end are meant."""

    names: Sequence[str]
    types: Sequence[str]
    form: VectorForm | None = None
    count: str = ""
    pragma: str = ""
    first: str = "0"
    end: str = ""


class Aside:
    """A second state for each accumulator of a pass. Every so many elements the accumulators are merged into it and begin anew, so that a
    sum of millions is as exact as one of thousands."""

    def __init__(self, w: Any, folds: Sequence[Member], most: int, states: Sequence[States]):
        self.w, self.folds, self.most, self.states, self.chunked = w, folds, most, states, False
        self.text = t = w.text
        for group in states:
            for name, kind in zip(group.names, group.types, strict=True):
                size, first = (f"[{group.count}]", f"[{group.end or group.count} - 1]") if group.count else ("", "")
                t.put(f"{kind} far_{name}{size};")
                t.put(f"const {kind} none_{name} = {name}{first};")
        t.put("int64_t added = 0;")
        t.put("bool put_aside = false;")

    @staticmethod
    def of(w: Any, folds: Sequence[Member], count: Any, most: int, states: Sequence[States]) -> Aside | None:
        """None where there are no sums of single precision that may have more elements than are added one by one."""
        if isinstance(count, int) and count <= most:
            return None
        merges = [n for m in folds if m.loop.fold is not None for n in topological(m.loop.fold.merge)]
        if not any(n.op is scalar.add and n.dtype in SINGLE for n in merges):
            return None
        return Aside(w, folds, most, states)

    def for_each(self, group: States, body: str) -> None:
        if group.pragma:
            self.text.put(group.pragma)
        self.text.put(f"for (int64_t l = {group.first}; l < {group.end or group.count}; ++l) {body}")

    def open_chunk(self, size: Any, end: str) -> str:
        """Opens the loop over parts of the innermost dim that are short enough, if it is not; gives where a part ends."""
        self.chunked = not isinstance(size, int) or size > self.most
        if not self.chunked:
            return end
        self.text.open(f"for (int64_t start = 0; start < {end}; start += {self.most}) {{")
        self.text.put(f"const int64_t stop = index_min({end}, start + {self.most});")
        return "stop"

    def count(self, end: str) -> None:
        """Behind the innermost loop: puts aside what has become long, and closes the loop over parts."""
        t = self.text
        t.put(f"added += {'stop - start' if self.chunked else end};")
        t.open(f"if (added >= {self.most}) {{")
        t.put("added = 0;")
        t.open("if (put_aside) {")
        self.merge("far_", "")
        t.close()
        t.open("else {")
        for group in self.states:
            self.each(group, [f"far_{n}{{0}} = {n}{{0}};" for n in group.names])
        t.close()
        for group in self.states:
            self.each(group, [f"{n}{{0}} = none_{n};" for n in group.names])
        t.put("put_aside = true;")
        t.close()
        if self.chunked:
            t.close()

    def add(self) -> None:
        self.text.open("if (put_aside) {")
        self.merge("", "far_")
        self.text.close()

    def each(self, group: States, lines: Sequence[str]) -> None:
        at = "[l]" if group.count else ""
        body = " ".join(line.format(at) for line in lines)
        self.for_each(group, f"{{ {body} }}") if group.count else self.text.put(body)

    def merge(self, to: str, of: str) -> None:
        n = sum(len(m.loop.fold.states) for m in self.folds if m.loop.fold is not None)
        for group in self.states:
            at = "[l]" if group.count else ""
            if group.count:
                self.for_each(group, "{")
            for i in range(0, len(group.names), n):
                names = group.names[i : i + n]
                mine, others = [f"{to}{x}{at}" for x in names], [f"{of}{x}{at}" for x in names]
                merge_states(self.w, self.folds, mine, others, group.form, "a")
            if group.count:
                self.text.put("}")


class VectorFold:
    """The text of one pass: `w` is the kernel's writer (cpp_loops.py)."""

    def __init__(
        self,
        w: Any,
        p: Any,
        outputs: list[tuple[Buffer, Node]],
        folds: Sequence[Member],
        t: dt.DType,
        by: Registers,
        strips: Strips | None = None,
    ):
        self.strips, self.by = strips, by
        self.w, self.p, self.outputs, self.folds = w, p, outputs, folds
        self.t = t
        self.dtypes = states_of(folds)
        self.states = len(self.dtypes)
        self.types = [by.type if d is t else by.mask for d in self.dtypes]
        self.tag = f"s{w.passes}"

    def write(
        self, nodes: list[Node], names: list[str], sizes: list[Any], variables: list[Any], wide: Sequence[Node] | None = None
    ) -> None:  # fmt: skip
        """`wide`: the nodes on vectors, where these differ."""
        w, text = self.w, self.w.text
        end = w.index(sizes[-1])
        states, last = dict(enumerate(names)), variables[-1] if self.strips is None else self.strips.at
        form = self.by.form
        if isinstance(sizes[-1], int) and sizes[-1] < IN_ORDER:
            form = replace(form, of_states={})
        by_packs, has_rest = self.by is PACKS, self.has_rest(sizes[-1])
        if by_packs:  # what is left over is a pack whose last lanes do not count
            form = replace(form, load="vec::load({0}, how)")
        whole = w.emitted(self.p, wide or nodes, states, last, vector=form)
        rest = w.emitted(self.p, nodes, states, last) if has_rest and not by_packs else None
        self.copies = self.by.copies if len(whole.body) <= LONG_BODY else 1
        for m in self.folds:
            for b in m.loop.results:
                text.put(f"{b.dtype.cpp} v_{b.name};")
        text.open("{")
        text.put(f"constexpr int64_t W = {self.by.width};")
        self.start(rest is not None)
        aside = self.aside(s.product(sizes), rest is not None)
        for v, n in zip(variables[:-1], sizes[:-1], strict=True):
            name = w.names[s.atom_of(v)]
            text.open(f"for (int64_t {name} = 0; {name} < {w.index(n)}; ++{name}) {{")
        if self.strips is not None:
            self.strips.open(end)
            end = "size"
        name = w.names[s.atom_of(last)]
        if by_packs:
            self.function("step", name, self.types, whole, "vec::store({0}, vec::pack({1}), how);", "auto how, ")
        else:
            self.function("step", name, self.types, whole, self.by.store)
        if rest is not None:
            self.function("rest", name, [d.cpp for d in self.dtypes], rest, "*({0}) = {1};")
        text.put("int64_t c = 0;")
        block = end
        if aside is not None and self.strips is None:
            end = aside.open_chunk(sizes[-1], block)
        if self.copies > 1:
            text.open(f"for (; c + {self.copies} * W <= {end}; c += {self.copies} * W) {{")
            self.look_ahead(last)
            for u in range(self.copies):
                text.put(f"step(c + {u} * W, {self.group(u)});")
            text.close()
        head = f"for (; c + W <= {end}; c += W)"
        if by_packs:
            write_loop(w, self.p, last, head, f"step(c, vec::Whole(), {self.group(0)});")
            if has_rest:
                self.write_part(end)
        else:
            text.put(f"{head} step(c, {self.group(0)});")
        if rest is not None:
            text.put(f"for (; c < {end}; ++c) rest(c, {', '.join(f'z{k}' for k in range(self.states))});")
        if aside is not None:
            aside.count(block)
        for _ in variables[:-1] if self.strips is None else variables:
            text.close()
        if aside is not None:
            aside.add()
        self.merge_copies()
        self.finish(rest is not None)
        text.close()

    def write_part(self, end: str) -> None:
        """The step of a pack that is not whole: the states of the lanes behind the end stay."""
        text, states = self.w.text, range(self.states)
        text.open(f"if (c < {end}) {{")
        text.put(f"const auto there = vec::Positions{{0}} < vec::pack(int64_t({end} - c));")
        text.put(f"vec::Pack {', '.join(f'b{k} = {self.tag}_{k}_0' for k in states)};")
        text.put(f"step(c, vec::First{{{end} - c}}, {', '.join(f'b{k}' for k in states)});")
        for k in states:
            text.put(f"{self.tag}_{k}_0 = vec::choose(there, b{k}, {self.tag}_{k}_0);")
        text.put(f"c = {end};")
        text.close()

    def aside(self, count: Any, rest: bool) -> Aside | None:
        """What long sums are put into; None where none of them is long."""
        numbers = [(k, u) for u in range(self.copies) for k in range(self.states)]
        states = [
            States([f"{self.tag}_{k}_{u}" for k, u in numbers], [self.types[k] for k, _ in numbers], self.by.form)
        ]
        if rest:
            states.append(States([f"z{k}" for k in range(self.states)], [d.cpp for d in self.dtypes]))
        return Aside.of(self.w, self.folds, count, ADDED * self.by.widest * self.copies, states)

    def look_ahead(self, last: Any) -> None:
        """Asks for what the loop will read soon, where this pass is the first that reads it: the others find it in the cache."""
        w = self.w
        for r in self.p.reads:
            if not isinstance(r, Load) or r.buffer in w.fetched or r.buffer in w.scratch or r.buffer in w.strips:
                continue
            if is_one(step_of(r.address, last)):
                w.fetched.add(r.buffer)
                start = s.substitute(r.address, {atom_of(last): 0})
                w.text.put(f"vec::look_ahead<{self.copies}>({w.pointer(r.buffer)} + {w.index(start)} + c);")

    def has_rest(self, n: Any) -> bool:
        return not isinstance(n, int) or n % self.by.widest != 0

    def group(self, u: int) -> str:
        return ", ".join(f"{self.tag}_{k}_{u}" for k in range(self.states))

    def start(self, rest: bool) -> None:
        k = 0
        for m in self.folds:
            fold = m.loop.fold
            assert fold is not None
            code = emit(fold.init, Names(prefix=f"init{k}_"))
            for line in (*code.prologue, *code.body):
                self.w.text.put(line)
            for r in code.results:
                value = self.same_in_all_lanes(k, r)
                copies = ", ".join(f"{self.tag}_{k}_{u} = {value}" for u in range(self.copies))
                self.w.text.put(f"{self.types[k]} {copies};")
                if rest:
                    self.w.text.put(f"{self.dtypes[k].cpp} z{k} = {r};")
                k += 1

    def narrowed(self, k: int) -> bool:
        """Whether a state is positions in lanes that are narrower than positions."""
        return self.dtypes[k] is dt.int64 and self.t.bits < 64

    def same_in_all_lanes(self, k: int, value: str) -> str:
        if self.dtypes[k] is dt.bool_:
            return f"vec::mask<{self.types[k]}>({value})"
        return f"{self.by.form.splat}({f'vec::narrow_position({value})' if self.narrowed(k) else value})"

    def of_first_lane(self, k: int) -> str:
        value = f"vec::first({self.tag}_{k}_0)"
        if self.dtypes[k] is dt.bool_:
            return f"{value} != 0"
        return f"vec::wide_position({value})" if self.narrowed(k) else value

    def function(
        self, name: str, variable: str, types: Sequence[str], code: Emitted, store: str, how: str = ""
    ) -> None:
        text = self.w.text
        for line in code.prologue:
            text.put(line)
        given = ", ".join(f"{t}& a{k}" for k, t in enumerate(types))
        text.open(f"auto {name} = [&](int64_t {variable}, {how}{given}) __attribute__((always_inline)) {{")
        for line in code.body:
            text.put(line)
        for (b, _), r in zip(self.outputs, code.results, strict=False):
            text.put(store.format(f"{self.w.pointer(b)} + {self.w.index(self.w.store_place(b))}", r))
        for k, r in enumerate(code.results[len(self.outputs) :]):
            text.put(f"const auto new_{k} = {r};")
        for k in range(self.states):
            text.put(f"a{k} = new_{k};")
        text.close("};")

    def merged(self, mine: list[str], others: list[str], vector: bool, tag: str) -> None:
        merge_states(self.w, self.folds, mine, others, self.by.form if vector else None, tag)

    def merge_copies(self) -> None:
        distance = self.copies // 2
        while distance:
            for u in range(distance):
                mine = [f"{self.tag}_{k}_{u}" for k in range(self.states)]
                others = [f"{self.tag}_{k}_{u + distance}" for k in range(self.states)]
                self.merged(mine, others, True, f"m{u}_")
            distance //= 2

    def finish(self, rest: bool) -> None:
        """Merges the lanes of what is left, and finishes."""
        text, states = self.w.text, range(self.states)
        given = [*(f"{self.types[k]}& a{k}" for k in states), *(f"{self.types[k]} b{k}" for k in states)]
        text.open(f"auto merge = [&]({', '.join(given)}) __attribute__((always_inline)) {{")
        self.merged([f"a{k}" for k in states], [f"b{k}" for k in states], True, "l")
        text.close("};")
        text.put(f"vec::merge_lanes<W / 2>(merge, {self.group(0)});")
        for k in states:
            text.put(f"{self.dtypes[k].cpp} {self.tag}_{k}[] = {{{self.of_first_lane(k)}}};")
        if rest:
            self.merged([f"{self.tag}_{k}[0]" for k in states], [f"z{k}" for k in states], False, "r")
        self.w.finish_first(self.folds, self.tag)


class VectorLanes:
    """Folds across rows: the states of some neighbouring results stay in registers while the rows go by."""

    def __init__(self, w: Any, p: Any, folds: Sequence[Member], t: dt.DType, by: Registers, code: Emitted, lane: Any):
        self.w, self.p, self.t, self.by, self.code, self.lane = w, p, t, by, code, lane
        self.folds = folds
        self.dtypes = states_of(folds)
        self.types = [self.by.type if d is t else self.by.mask for d in self.dtypes]

    @staticmethod
    def of(w: Any, p: Any, folds: Sequence[Member], combined: list[Node], lane: Any) -> VectorLanes | None:
        """How these folds go by vectors along the lanes; None if they do not."""
        if w.hoistable(lane) is None:
            return None
        wide, dtypes = widened(combined, p.fixed_reads(lane)), states_of(folds)
        t = vector_type(w, p, wide, [], folds, lane)
        by = TYPES[t] if t is not None and (t.bits == 64 or dt.int64 not in dtypes) else None
        if by is None:
            wide, by = combined, PACKS
            t = vector_type(w, p, combined, [], folds, lane, packed)
        if t is None:
            return None
        form = replace(by.form, of_states={})  # the eager kernels fold columns in order
        code = w.emitted(p, wide, {k: f"a{k}" for k in range(len(dtypes))}, lane, vector=form)
        return VectorLanes(w, p, folds, t, by, code, lane)

    def memory_type(self, k: int) -> str:
        """What an array of states is of: truths are as wide as what they were found from."""
        if self.dtypes[k] is dt.bool_ and self.t is not dt.bool_:
            return {"vec::I8": "int8_t", "vec::I32": "int32_t", "vec::I64": "int64_t"}[self.types[k]]
        return memory_type(self.dtypes[k])

    def as_values(self, elements: Sequence[str]) -> list[str]:
        """Elements of arrays of states: a truth is any number but 0."""
        return [f"({e} != 0)" if d is dt.bool_ else e for e, d in zip(elements, self.dtypes, strict=True)]

    def write(self, sizes: Sequence[Any], variables: Sequence[Any]) -> None:
        """Folds all the lanes that are in whole vectors; `done` is how many."""
        w, text, states = self.w, self.w.text, range(len(self.types))
        names = [w.names[s.atom_of(v)] for v in variables] or ["once"]
        given = ", ".join(f"{t}& a{k}" for k, t in enumerate(self.types))
        text.put("int64_t done = 0;")
        text.open("auto groups_of = [&]<int kVectors>() __attribute__((always_inline)) {")
        text.put(f"constexpr int64_t W = {self.by.width};")
        text.open("for (; done + kVectors * W <= width; done += kVectors * W) {")
        load = "vec::load({0})" if self.t is not dt.bool_ and self.by is not PACKS else self.by.form.load
        for k in states:
            text.put(f"{self.types[k]} g{k}[kVectors];")
            text.put("#pragma GCC unroll 16")
            text.put(f"for (int u = 0; u < kVectors; ++u) g{k}[u] = {load.format(f's_{k} + done + u * W')};")
        group = States(
            [f"g{k}" for k in states],
            self.types,
            replace(self.by.form, of_states={}),
            "kVectors",
            "#pragma GCC unroll 16",
        )
        aside = Aside.of(w, self.folds, s.product(sizes), ROWS_ADDED, [group])
        ends = [w.index(n) for n in sizes] or ["1"]
        for name, n in zip(names[:-1], ends[:-1], strict=True):
            text.open(f"for (int64_t {name} = 0; {name} < {n}; ++{name}) {{")
        start, stop = "0", ends[-1]
        if aside is not None:
            stop = aside.open_chunk(sizes[-1], stop)
            start = "start" if aside.chunked else "0"
        text.open(f"for (int64_t {names[-1]} = {start}; {names[-1]} < {stop}; ++{names[-1]}) {{")
        self.fetch(variables)
        text.open(f"auto step_vector = [&](int64_t l, {given}) __attribute__((always_inline)) {{")
        text.put(f"const int64_t {w.names[s.atom_of(self.lane)]} = block + l;")
        for line in (*self.code.prologue, *self.code.body):
            text.put(line)
        for k, r in enumerate(self.code.results):
            text.put(f"const auto new_{k} = {r};")
        for k in states:
            text.put(f"a{k} = new_{k};")
        text.close("};")
        text.put("#pragma GCC unroll 16")
        text.put(
            f"for (int u = 0; u < kVectors; ++u) step_vector(done + u * W, {', '.join(f'g{k}[u]' for k in states)});"
        )
        text.close()
        if aside is not None:
            aside.count(ends[-1])
        for _ in names[:-1]:
            text.close()
        if aside is not None:
            aside.add()
        for k in states:
            text.put("#pragma GCC unroll 16")
            text.put(f"for (int u = 0; u < kVectors; ++u) {self.by.store.format(f's_{k} + done + u * W', f'g{k}[u]')}")
        text.close()
        text.close("};")
        few = len(self.types) <= 2 and len(self.code.body) <= SHORT_STEP
        for part in () if self.by is PACKS else (len(self.types), 4) if few else (4,):
            text.put(f"groups_of.template operator()<vec::kGroup / {part}>();")
        text.put("groups_of.template operator()<1>();")

    def fetch(self, variables: Sequence[Any]) -> None:
        """Asks for rows before their turn: to the processor they are steps of more than a page."""
        w = self.w
        for r in self.p.reads if variables else ():
            if not isinstance(r, Load) or r.buffer in w.scratch or not is_one(step_of(r.address, self.lane)):
                continue
            step = step_of(r.address, variables[-1])
            if isinstance(step, int) and step:
                start = s.substitute(r.address, {atom_of(self.lane): 0})
                ahead = w.index(s.add(start, ROWS_AHEAD * step))
                w.text.put(f"vec::fetch<kVectors>({w.pointer(r.buffer)} + {ahead} + block + done);")


def states_of(folds: Sequence[Member]) -> list[dt.DType]:
    return [d for m in folds for d in m.loop.fold.states]  # type: ignore[union-attr]
