"""Folds that find a value and its place (argmax): the best of a block first, and where it is only if it beats what came before.

To carry positions along with values takes several times the instructions of finding the value alone. For elements that go by
vectors (cpp_vectors.py); others carry their positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tocha.codegen.cpp_scalar import Names, emit
from tocha.codegen.cpp_vectors import IN_ORDER, TYPES, VectorFold, atom_of, vector_type
from tocha.ir import dtypes as dt
from tocha.ir import scalar
from tocha.ir import symbolic as s
from tocha.ir.kernels import Member, fold_number
from tocha.ir.loops import Buffer
from tocha.ir.node import Node

BLOCK = 512  # elements


def write_search(w: Any, p: Any, folds: Sequence[Member], sizes: list[Any], variables: list[Any]) -> bool:
    """Writes a pass over the columns of a row that does nothing but search, on vectors; False if it is no such pass."""
    short = isinstance(sizes[-1], int) and sizes[-1] < IN_ORDER
    if short or len(folds) != 1 or folds[0].loop.fold.search is None:  # type: ignore[union-attr]
        return False
    search = Search(w, p, folds[0], sizes, variables)
    if search.t is None:
        return False
    search.write()
    return True


class Search:
    def __init__(self, w: Any, p: Any, m: Member, sizes: list[Any], variables: list[Any]):
        self.w, self.m, self.sizes, self.variables = w, m, sizes, variables
        fold = m.loop.fold
        assert fold is not None and fold.search is not None
        self.fold, self.states = fold, fold.states
        pick, self.beats, self.ties = fold.search
        self.base, self.at = w.new_variable("base", sizes[-1]), w.new_variable("e", BLOCK)
        here = {atom_of(variables[-1]): s.add(self.base, self.at)}
        places = w.places[m]
        w.places[m] = {k: s.substitute(v, here) for k, v in places.items()}
        self.p = type(p)(w)
        (self.element,) = self.p.nodes(m, m.loop.formulas)
        self.number = fold_number(m.loop, w.places[m], w.known)
        w.places[m] = places
        d = self.states[0]
        value = scalar.Param(0, d)
        best = Buffer(f"best_of_{m.loop.results[0].name}", (), (), d)
        element = (scalar.Input(0, d),)
        combine = scalar.substitute((pick,), {scalar.Param(1, d): element[0]})
        extreme = replace(
            fold, states=(d,), init=fold.init[:1], combine=combine, merge=(pick,), finish=(value,), search=None
        )
        self.best = replace(m, loop=replace(m.loop, fold=extreme, results=[best]))
        (self.picked,) = scalar.substitute((pick,), {value: scalar.Output(0, d), scalar.Param(1, d): self.element})
        (self.tie,) = scalar.substitute((self.ties,), {value: self.element, scalar.Param(1, d): scalar.Output(0, d)})
        self.t = vector_type(w, self.p, [self.picked], [], [self.best], self.at)
        if self.t is not d or vector_type(w, self.p, [self.tie], [], [], self.at) is not d:
            self.t = None

    def write(self) -> None:
        w, text, fold = self.w, self.w.text, self.fold
        by = TYPES[self.t]  # type: ignore[index]
        n = self.sizes[-1]
        tag = f"s{w.passes}"
        for b in self.m.loop.results:
            text.put(f"{b.dtype.cpp} v_{b.name};")
        text.open("{")
        code = emit(fold.init, Names(prefix="init_"))
        for line in (*code.prologue, *code.body):
            text.put(line)
        for k, (d, r) in enumerate(zip(self.states, code.results, strict=True)):
            text.put(f"{d.cpp} {tag}_{k}[] = {{{r}}};")
        for v, size in zip(self.variables[:-1], self.sizes[:-1], strict=True):
            name = w.names[s.atom_of(v)]
            text.open(f"for (int64_t {name} = 0; {name} < {w.index(size)}; ++{name}) {{")
        text.open(f"for (int64_t base = 0; base < {w.index(n)}; base += {BLOCK}) {{")
        text.put(f"const int64_t size = index_min({BLOCK}, {w.index(n)} - base);")
        whole = n if isinstance(n, int) and n < BLOCK else BLOCK
        known = isinstance(n, int) and n % whole == 0
        size = whole if known else w.new_variable("size", BLOCK + 1)
        VectorFold(w, self.p, [], [self.best], self.t, by).write([self.picked], ["a0"], [size], [self.at])  # type: ignore[arg-type]
        best = f"v_{self.best.loop.results[0].name}"
        better = w.of_states((self.beats,), [best, f"{tag}_0[0]"], "better_")
        for line in (*better.prologue, *better.body):
            text.put(line)
        text.open(f"if ({better.results[0]}) {{")
        self.find(by, best, tag)
        text.close()
        text.close()
        for _ in self.variables[:-1]:
            text.close()
        w.finish_first([self.m], tag)
        text.close()

    def find(self, by: Any, best: str, tag: str) -> None:
        """The first element that ties with the best."""
        w, text = self.w, self.w.text
        text.put(f"constexpr int64_t W = {by.width};")
        splat = f"vec::mask<{by.type}>" if self.t is dt.bool_ else by.form.splat
        text.put(f"const {by.type} bests = {splat}({best});")
        self.function("same", [self.tie], "bests", replace(by.form, of_states={}))
        self.function("is_it", [self.tie], best)
        self.function("element", [self.element], best)
        text.put(f"auto number = [&](int64_t e) __attribute__((always_inline)) {{ return {w.index(self.number)}; }};")
        text.put("int64_t c = 0;")
        hits = " | ".join(f"same(c + {u} * W)" for u in range(4))
        text.put(f"while (c + 4 * W <= size && !vec::any({hits})) c += 4 * W;")
        text.put("while (!is_it(c)) ++c;")
        text.put(f"{tag}_0[0] = element(c);")
        text.put(f"{tag}_1[0] = number(c);")

    def function(self, name: str, nodes: list[Node], best: str, form: Any = None) -> None:
        code = self.w.emitted(self.p, nodes, {0: best}, self.at, vector=form)
        text = self.w.text
        for line in code.prologue:
            text.put(line)
        text.open(f"auto {name} = [&](int64_t e) __attribute__((always_inline)) {{")
        for line in code.body:
            text.put(line)
        text.put(f"return {code.results[0]};")
        text.close("};")
