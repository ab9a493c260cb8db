"""Folds on whole vectors: accumulators that never leave their registers, several of them so that additions overlap.

For formulas that are arithmetic, comparison and choice on one floating type, read and written at neighbouring places; the
others are written as loops that the compiler makes vectors of (cpp_loops.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tocha.codegen.cpp_scalar import Emitted, Names, VectorForm, emit
from tocha.ir import dtypes as dt
from tocha.ir import scalar
from tocha.ir import symbolic as s
from tocha.ir.kernels import Member
from tocha.ir.loops import Buffer, Load
from tocha.ir.node import CONSTANT, INDEX, INPUT, OUTPUT, PARAM, Cost, Node, topological
from tocha.ir.packed import goes_on_packs
from tocha.ir.rewrite import simplify

VECTORS = VectorForm("vec::all", "vec::load({0})")
LONG_BODY = 24  # statements, beyond which registers do not last for so many
SHORT_ROW = 8  # elements, below which there is nothing for vectors
WIDEST = 16  # elements that a vector has at most
STRIP = 512  # elements that are computed before they are folded
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


TYPES = {
    dt.float32: Registers("vec::F32", "vec::width<float>", VECTORS, "vec::store({0}, {1});", 4),
    dt.float64: Registers("vec::F64", "vec::width<double>", VECTORS, "vec::store({0}, {1});", 4),
}
# Dear formulas take longer than the additions wait.
PACKS = Registers(
    "vec::Pack",
    "vec::kPack",
    VectorForm("vec::pack", "vec::load({0}, vec::Whole())", {scalar.where: "vec::choose({0}, {1}, {2})"}),
    "vec::store({0}, vec::pack({1}), vec::Whole());",
    1,
)


def lanewise(outputs: Sequence[Node]) -> dt.DType | None:
    """The type of vectors on which these nodes can be computed; params are the same for all lanes. None if there is none."""
    varying: set[Node] = set()
    t: dt.DType | None = None
    for n in topological(outputs):
        if n.op in (CONSTANT, PARAM):
            continue
        if n.op in (INPUT, OUTPUT):
            t = n.dtype if t is None else t
            if n.dtype is not t or t not in TYPES:
                return None
            varying.add(n)
            continue
        if n.op is INDEX:
            return None
        if not any(a in varying for a in n.args):
            continue
        vector = n.op.vector and n.op.cost is Cost.CHEAP and n.op is not scalar.sqrt
        masks = all(a in varying for a in n.args if a.dtype is dt.bool_)
        if not vector or not masks or (n.dtype is not t and n.dtype is not dt.bool_):
            return None
        varying.add(n)
    return t if all(o in varying and o.dtype is t for o in outputs) else None


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
    for r, i in p.reads.items():
        if i in needed and not (isinstance(r, Load) and r.guard is True and is_one(step_of(r.address, last))):
            return None
    t = type_of(w.with_fixed(outputs_, fixed))
    if t is None:
        return None
    for b, _ in outputs:
        if b.dtype is not t or not is_one(step_of(w.store_place(b), last)):
            return None
    for m in folds:
        fold = m.loop.fold
        assert fold is not None
        leaves = {n: scalar.Output(n.attr, n.dtype) for n in topological(fold.merge) if n.op is PARAM}  # type: ignore[arg-type]
        merge = scalar.substitute(fold.merge, leaves)  # type: ignore[arg-type]
        merges = lanewise(merge) is t if type_of is lanewise else goes_on_packs(merge) is not None
        if any(d is not t for d in fold.states) or not merges:
            return None
    return t


def next_row(w: Any, p: Any, last: Any) -> list[str]:
    """What asks for the same place of the next row of what a pass reads: the processor's own look-ahead begins anew with every page."""
    if w.row is None:
        return []
    lines, own = [], w.scratch.keys() | w.strips.keys() | w.variables.keys()
    for r in p.reads:
        if not isinstance(r, Load) or r.buffer in own:
            continue
        start, step = s.substitute(r.address, {atom_of(last): 0}), step_of(r.address, w.row)
        if is_one(step_of(r.address, last)) and isinstance(step, int) and SHORT_ROW <= abs(step) <= LONGEST_FETCHED:
            lines.append(f"vec::fetch({w.pointer(r.buffer)} + {w.index(s.add(start, step))} + c);")
    return lines


def write_loop(w: Any, p: Any, last: Any, head: str, body: str) -> None:
    """A loop over c whose steps take long enough to fetch the next row meanwhile."""
    lines = next_row(w, p, last)
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
    t = vector_type(w, p, nodes, outputs, folds, last)
    if t is not None:
        VectorFold(w, p, outputs, folds, t, TYPES[t]).write(nodes, names, sizes, variables)
        return True
    if vector_type(w, p, nodes, outputs, folds, last, packed) is not None:
        VectorFold(w, p, outputs, folds, dt.float32, PACKS).write(nodes, names, sizes, variables)
        return True
    strips = Strips(w, p, outputs, folds, last, sizes[-1])
    t = strips.vector_type()
    if t is None:
        return False
    VectorFold(w, strips.pass_, [], folds, t, TYPES[t], strips).write(strips.combined, names, sizes, variables)
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
        self.combined = w.combined_elements(folds, lambda m: [made[n] for n in simplify(p.nodes(m, m.loop.formulas))])

    def array(self, n: Node) -> Node:
        """An element where it is read again: where the pass puts it anyway, or in an array of its own."""
        for b, stored in self.outputs:
            place = self.w.store_place(b)
            if simplify((stored,))[0] is n and is_one(step_of(place, self.variable)):
                there = s.substitute(place, {atom_of(self.variable): s.add(self.base, self.at)})
                return self.pass_.input(Load(b, there), n.dtype)
        b = Buffer(f"strip{self.w.passes}_{len(self.arrays)}", (STRIP,), (1,), n.dtype)
        self.w.strips[b] = s.add(self.variable, s.scale(self.base, -1))
        self.arrays.append(b)
        self.outputs.append((b, n))
        return self.pass_.input(Load(b, self.at), n.dtype)

    def vector_type(self) -> dt.DType | None:
        ordered = any(n.op is INDEX for m in self.folds for n in topological(m.loop.fold.combine))  # type: ignore[union-attr]
        return None if ordered else vector_type(self.w, self.pass_, self.combined, [], self.folds, self.at)

    def open(self, end: str) -> None:
        """The loop over strips, and what computes one."""
        w, text = self.w, self.w.text
        for b in self.arrays:
            text.put(f"alignas(64) {b.dtype.cpp} row_{b.name}[{STRIP}];")
        text.open(f"for (int64_t base = 0; base < {end}; base += {STRIP}) {{")
        text.put(f"const int64_t size = index_min({STRIP}, {end} - base);")
        w.emit_points(self.p, self.outputs, self.variable, "base", "base + size")


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
        self.states = sum(len(m.loop.fold.states) for m in folds)  # type: ignore[union-attr, misc]
        self.tag = f"s{w.passes}"

    def write(self, nodes: list[Node], names: list[str], sizes: list[Any], variables: list[Any]) -> None:
        w, text = self.w, self.w.text
        end = w.index(sizes[-1])
        states, last = dict(enumerate(names)), variables[-1] if self.strips is None else self.strips.at
        whole = w.emitted(self.p, nodes, states, last, vector=self.by.form)
        rest = w.emitted(self.p, nodes, states, last) if self.has_rest(sizes[-1]) else None
        self.copies = self.by.copies if len(whole.body) <= LONG_BODY else 1
        for m in self.folds:
            for b in m.loop.results:
                text.put(f"{b.dtype.cpp} v_{b.name};")
        text.open("{")
        text.put(f"constexpr int64_t W = {self.by.width};")
        self.start(rest is not None)
        for v, n in zip(variables[:-1], sizes[:-1], strict=True):
            name = w.names[s.atom_of(v)]
            text.open(f"for (int64_t {name} = 0; {name} < {w.index(n)}; ++{name}) {{")
        if self.strips is not None:
            self.strips.open(end)
            end = "size"
        name = w.names[s.atom_of(last)]
        self.function("step", name, self.by.type, whole, self.by.store)
        if rest is not None:
            self.function("rest", name, self.t.cpp, rest, "*({0}) = {1};")
        text.put("int64_t c = 0;")
        if self.copies > 1:
            text.open(f"for (; c + {self.copies} * W <= {end}; c += {self.copies} * W) {{")
            self.look_ahead(last)
            for u in range(self.copies):
                text.put(f"step(c + {u} * W, {self.group(u)});")
            text.close()
        head, body = f"for (; c + W <= {end}; c += W)", f"step(c, {self.group(0)});"
        if self.by is PACKS:
            write_loop(w, self.p, last, head, body)
        else:
            text.put(f"{head} {body}")
        if rest is not None:
            text.put(f"for (; c < {end}; ++c) rest(c, {', '.join(f'z{k}' for k in range(self.states))});")
        for _ in variables[:-1] if self.strips is None else variables:
            text.close()
        self.merge_copies()
        self.finish(rest is not None)
        text.close()

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

    @staticmethod
    def has_rest(n: Any) -> bool:
        return not isinstance(n, int) or n % WIDEST != 0

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
                copies = ", ".join(f"{self.tag}_{k}_{u} = {self.by.form.splat}({r})" for u in range(self.copies))
                self.w.text.put(f"{self.by.type} {copies};")
                if rest:
                    self.w.text.put(f"{self.t.cpp} z{k} = {r};")
                k += 1

    def function(self, name: str, variable: str, state: str, code: Emitted, store: str) -> None:
        text = self.w.text
        for line in code.prologue:
            text.put(line)
        given = ", ".join(f"{state}& a{k}" for k in range(self.states))
        text.open(f"auto {name} = [&](int64_t {variable}, {given}) __attribute__((always_inline)) {{")
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
        """Writes mine = merge(mine, others), fold by fold."""
        k = 0
        text = self.w.text
        for f, m in enumerate(self.folds):
            fold = m.loop.fold
            assert fold is not None
            n = len(fold.states)
            form = self.by.form if vector else None
            code = self.w.of_states(fold.merge, [*mine[k : k + n], *others[k : k + n]], f"{tag}{f}_", form)
            text.open("{")
            for line in (*code.prologue, *code.body):
                text.put(line)
            for i, r in enumerate(code.results):
                text.put(f"const auto new_{i} = {r};")
            for i in range(n):
                text.put(f"{mine[k + i]} = new_{i};")
            text.close()
            k += n

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
        given = [*(f"{self.by.type}& a{k}" for k in states), *(f"{self.by.type} b{k}" for k in states)]
        text.open(f"auto merge = [&]({', '.join(given)}) __attribute__((always_inline)) {{")
        self.merged([f"a{k}" for k in states], [f"b{k}" for k in states], True, "l")
        text.close("};")
        text.put(f"vec::merge_lanes<W / 2>(merge, {self.group(0)});")
        for k in states:
            text.put(f"{self.t.cpp} {self.tag}_{k}[] = {{vec::first({self.tag}_{k}_0)}};")
        if rest:
            self.merged([f"{self.tag}_{k}[0]" for k in states], [f"z{k}" for k in states], False, "r")
        self.w.finish_first(self.folds, self.tag)
