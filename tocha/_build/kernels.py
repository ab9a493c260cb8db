"""C++ loops for pointwise operators and reductions: one contiguous loop per operator and compute dtype.

The loops of a family are split over a few files so that they compile in parallel; each file is compiled
once per instruction set.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tocha.codegen.cpp_packs import PACK, PACKS
from tocha.codegen.cpp_scalar import (
    REGISTERS,
    Emitted,
    Names,
    emit,
    loaded,
    memory_type,
    on_vectors,
    shortcut_tests,
    shortcuts,
    stored_as,
    vectorizes,
)
from tocha.ir import dtypes as dt
from tocha.ir import primitives, scalar
from tocha.ir.node import topological
from tocha.ir.packed import goes_on_packs
from tocha.ir.rewrite import simplify
from tocha.operators.derived import params, resolve, type_codes
from tocha.operators.record import Fold, Operator, operators

LOOPS_PER_FILE = 110
HEADER = """// Generated from tocha/operators/{module}.py; do not edit.
#include "cpu/engine/loop_prelude.h"
{more}
namespace tocha::cpu {{
namespace {{
"""
PARAM_BYTES = 16
ROW_LANES = 64  # accumulators of a reduction along a contiguous run
ROW_VECTORS = 4  # the same as whole vectors
ROW_SHORT = 16  # shorter runs are reduced in order
SHORTCUT_RUN = 512
EXTREMES = {primitives.maximum, primitives.minimum}
FOLD_PRIMITIVES = {primitives.add, primitives.mul, *EXTREMES}  # of csrc/cpu/vecmath/neon.h
FOLD_VECTORS = {
    dt.float32: ("F32x16", "kLanes"),
    dt.float64: ("F64x8", "kWideLanes"),
    dt.int64: ("I64x8", "kWideLanes"),
}


def loop_dtypes(o: Operator) -> list[dt.DType]:
    """Compute dtypes that get a loop: reduced floats share float32's, unless the operator wants its own. A reduction
    may name fewer in types["loops"]: integers without one share int64's."""
    own = [d for d in (o.types or {}).get("loops", o.dtypes) if not d.is_reduced]
    for d in o.dtypes:
        if d.is_reduced and d.compute not in own:
            own.append(d.compute)
    if "stored" in o.tags:
        own += [d for d in o.dtypes if d in (dt.float16, dt.bfloat16)]
    elif "direct_half" in o.tags:  # float16 converts quicker a buffer at a time
        own += [d for d in o.dtypes if d is dt.bfloat16]
    return own


def loop_name(o: Operator, t: dt.DType) -> str:
    return f"{o.cpp_name}_{t.code}"


def pointwise_loop(o: Operator, t: dt.DType) -> str:
    outs, ins, ps = type_codes(o)
    in_types = [resolve(c, t) for c in ins]
    out_types = [resolve(c, t) for c in outs]
    param_types = [resolve(c, t.compute) for c in ps]
    names = [a.name for a in params(o)]
    stored = "stored" in o.tags  # half types enter the formula as they are
    nodes = scalar.trace(o.body, in_types, list(zip(names, param_types, strict=True)), out_types, compute=not stored)
    return loop_text(loop_name(o, t), simplify(nodes), out_types, in_types, param_types)


def loop_text(
    name: str, nodes: tuple, out_types: list[dt.DType], in_types: list[dt.DType], param_types: list[dt.DType]
) -> str:
    """One contiguous loop over formulas of Input(i) and Param(i)."""
    leaves = Names([f"x{i}" for i in range(len(in_types))], [f"p{i}" for i in range(len(param_types))])
    code = emit(nodes, leaves)
    lines = [f"unsigned {name}(char* const* p, int64_t n, const void* params) {{"]
    if not param_types:
        lines.append("  (void)params;")
    for i, d in enumerate(out_types):
        lines.append(f"  auto* o{i} = reinterpret_cast<{d.cpp}*>(p[{i}]);")
    for i, d in enumerate(in_types):
        lines.append(f"  const auto* a{i} = reinterpret_cast<const {memory_type(d)}*>(p[{i + len(out_types)}]);")
    lines += parameter_lines(param_types)
    lines += ["  " + c for c in code.prologue]
    if code.faults:
        lines.append("  unsigned fault = 0;")
    loads = [f"const {d.cpp} x{i} = {loaded(d, f'a{i}[i]')};" for i, d in enumerate(in_types)]
    stores = [
        c for i, (d, r) in enumerate(zip(out_types, code.results, strict=True)) for c in stored_as(d, f"o{i}[i]", r)
    ]
    others = []
    if vectorizes(nodes):
        others += ["#if TOCHA_VECTOR_F32", *vector_loop(nodes, leaves)]
    if goes_on_packs(nodes) and not code.faults and not shortcuts(nodes):
        others += ["#elif TOCHA_PACKED_LOOPS" if others else "#if TOCHA_PACKED_LOOPS", *pack_loop(nodes, leaves)]
    lines += [*others, "#else"] if others else []
    lines += element_loops(nodes, leaves, code, loads, stores)
    lines += ["#endif"] if others else []
    lines += [f"  return {'fault' if code.faults else '0'};", "}", ""]
    return "\n".join(lines)


def element_loops(nodes: tuple, leaves: Names, code: Emitted, loads: list[str], stores: list[str]) -> list[str]:
    """The loop over the elements; in runs, where some formula has a shortcut: where not all of a run can take it, the
    others are done again, aside, as the result may lie where the operand does."""
    plain = "for (int64_t i = 0; i < n; ++i) {"
    special = shortcuts(nodes)
    if not special:
        return ["#pragma GCC ivdep", f"  {plain}", *("    " + c for c in (*loads, *code.body, *stores)), "  }"]
    run = "for (int64_t i = begin; i < end; ++i) {"
    tests = shortcut_tests(special, leaves)
    short = emit(nodes, leaves, short=True)
    assert short.prologue == code.prologue and short.results == code.results
    lines = [f"  for (int64_t begin = 0; begin < n; begin += {SHORTCUT_RUN}) {{"]
    lines += [
        f"    const int64_t end = begin + {SHORTCUT_RUN} < n ? begin + {SHORTCUT_RUN} : n;",
        "    unsigned long_way = 0;",
        f"    {run}",
    ]
    test = " | ".join(tests.results)
    lines += ["      " + c for c in (*loads, *tests.prologue, *tests.body, f"long_way |= {test} ? 1 : 0;")]
    lines += ["    }", "    if (long_way) {"]
    if len(nodes) == 1 and nodes[0].dtype in (dt.float32, dt.float64) and not code.faults:
        kept = f"held[i - begin] = {code.results[0]};"
        lines += [f"      {nodes[0].dtype.cpp} held[{SHORTCUT_RUN}];", "#pragma GCC ivdep", f"      {run}"]
        lines += [*("        " + c for c in (*loads, *short.body, kept)), "      }", f"      {run}"]
        lines += [*("        " + c for c in (*loads, *tests.body)), f"        if (!({test})) continue;", "        {"]
        lines += [*("          " + c for c in (*code.body, kept)), "        }", "      }"]
        lines.append("      for (int64_t i = begin; i < end; ++i) o0[i] = held[i - begin];")
    else:
        lines += [f"      {run}", *("        " + c for c in (*loads, *code.body, *stores)), "      }"]
    lines += ["    } else {", "#pragma GCC ivdep"]
    lines += [f"      {run}", *("        " + c for c in (*loads, *short.body, *stores)), "      }", "    }", "  }"]
    return lines


def vector_loop(nodes: tuple, leaves: Names) -> list[str]:
    """The loop over whole vectors, and one more vector for the rest: the result of an element never depends on where
    it lies."""
    code = emit(nodes, leaves, vector=REGISTERS)

    def step(suffix: str, rest: str) -> list[str]:
        loads = [f"const auto {x} = math::load{suffix}(a{k} + i{rest});" for k, x in enumerate(leaves.inputs)]
        stores = [f"math::store{suffix}(o{k} + i, {r}{rest});" for k, r in enumerate(code.results)]
        return ["    " + c for c in (*loads, *code.body, *stores)]

    ahead = [f"    math::look_ahead(a{k} + i);" for k in range(len(leaves.inputs))]
    lines = ["  int64_t i = 0;", "  for (; i + math::kLanes <= n; i += math::kLanes) {", *ahead, *step("", ""), "  }"]
    return [*lines, "  if (i < n) {", *step("_first", ", n - i"), "  }"]


def pack_loop(nodes: tuple, leaves: Names) -> list[str]:
    """The loop over packs of registers, whose chains of operations overlap; rounded as the scalar forms are."""
    code = emit(nodes, leaves, vector=PACKS)
    lines = ["  auto step = [&](int64_t i, auto how) __attribute__((always_inline)) {"]
    lines += [f"    const auto {x} = vec::load(a{k} + i, how);" for k, x in enumerate(leaves.inputs)]
    lines += ["    " + c for c in code.body]
    lines += [f"    vec::store(o{k} + i, vec::pack({r}), how);" for k, r in enumerate(code.results)]
    lines += ["  };", "  int64_t i = 0;", f"  for (; i + {PACK} <= n; i += {PACK}) step(i, vec::Whole());"]
    return [*lines, "  if (i < n) step(i, vec::First{n - i});"]


def parameter_lines(types: list[dt.DType]) -> list[str]:
    return [
        f"  const auto p{i} = *reinterpret_cast<const {d.cpp}*>(static_cast<const char*>(params) + {i * PARAM_BYTES});"
        for i, d in enumerate(types)
    ]


def fold_of(o: Operator, t: dt.DType) -> Fold:
    return o.body(t)


def states(f: Fold, t: dt.DType) -> list[dt.DType]:
    return [resolve(c, t) for c in f.state_types]


def is_ordered(o: Operator) -> bool:
    """Whether a reduction's combine asks where an element is."""
    e = FoldEmitter(o, loop_dtypes(o)[0])
    values = e.combined()
    return any(n.op is scalar.INDEX for n in topological(values if isinstance(values, tuple) else (values,)))


class FoldEmitter:
    """The five loops of one reduction for one compute dtype."""

    def __init__(self, o: Operator, t: dt.DType):
        self.o, self.t = o, t
        self.fold = fold_of(o, t)
        self.states = states(self.fold, t)
        self.param_names = [a.name for a in params(o) if a.name not in ("dim", "keepdim", "dtype")]
        codes = (o.types or {}).get("params", ("T",) * len(self.param_names))
        self.param_types = [resolve(c, t) for c in codes]
        self.outs = [resolve(c, t) for c in self.fold.out_types]

    def nodes(self) -> dict[str, scalar.Node]:
        return {n: scalar.Param(i, d) for i, (n, d) in enumerate(zip(self.param_names, self.param_types, strict=True))}

    def emit(
        self, values: object, targets: list[dt.DType], inputs: list[str], index: str = "i", prefix: str = "t"
    ) -> Emitted:
        return emit(self.typed(values, targets), self.names(inputs, index, prefix))

    def names(self, inputs: list[str], index: str = "i", prefix: str = "t") -> Names:
        return Names(inputs, [f"p{i}" for i in range(len(self.param_types))], index=index, prefix=prefix)

    @staticmethod
    def typed(values: object, targets: list[dt.DType]) -> tuple[scalar.Node, ...]:
        values = values if isinstance(values, tuple) else (values,)
        return simplify(
            tuple(
                scalar.cast(v, d) if isinstance(v, scalar.Node) else scalar.constant(v, d)
                for v, d in zip(values, targets, strict=True)
            )
        )

    def head(self, name: str, arguments: str) -> list[str]:
        lines = [f"void {self.o.cpp_name}_{self.t.code}_{name}({arguments}, const void* params) {{", "  (void)params;"]
        return lines + parameter_lines(self.param_types)

    def pointers(self, array: str, prefix: str, types: list[dt.DType]) -> list[str]:
        return [f"  auto* {prefix}{k} = reinterpret_cast<{d.cpp}*>({array}[{k}]);" for k, d in enumerate(types)]

    def combined(self) -> scalar.Node | tuple[scalar.Node, ...]:
        """The states after one more element."""
        k = len(self.states)
        inputs = tuple(scalar.Input(i, d) for i, d in enumerate(self.states))
        return self.fold.combine(
            inputs if k > 1 else inputs[0], scalar.Input(k, self.t), scalar.index(), **self.nodes()
        )

    def merged(self) -> scalar.Node | tuple[scalar.Node, ...]:
        """The states of two ranges that follow each other, as those of one."""
        k = len(self.states)
        first = tuple(scalar.Input(i, d) for i, d in enumerate(self.states))
        second = tuple(scalar.Input(k + i, d) for i, d in enumerate(self.states))
        return self.fold.merge(first if k > 1 else first[0], second if k > 1 else second[0], **self.nodes())

    def lambda_(self, name: str, arguments: str, reads: list[str], code: Emitted, writes: list[str]) -> list[str]:
        """A local function that reads states, and replaces them by the code's results."""
        lines = [f"  auto {name} = [&]({arguments}) {{", *("    " + r for r in reads), *("    " + c for c in code.body)]
        lines += [
            f"    const {d.cpp} n{i} = {r};" for i, (d, r) in enumerate(zip(self.states, code.results, strict=False))
        ]
        return [*lines, *("    " + w for w in writes), "  };"]

    def row(self) -> list[str]:
        """The loop over one contiguous run. Lanes of its own are brought into the one state by a tree of merges."""
        k, t = len(self.states), self.t.cpp
        lines = self.head("row", "char* const* s, const char* x, int64_t n, int64_t index")
        lines += [
            "  (void)index;",
            *self.pointers("s", "s", self.states),
            f"  const auto* p = reinterpret_cast<const {t}*>(x);",
        ]
        step = self.emit(self.combined(), self.states, [*(f"c{i}" for i in range(k)), "v"], index="at", prefix="f")
        lines += ["  " + c for c in step.prologue]
        arrays = ", ".join(f"{d.cpp}* l{i}" for i, d in enumerate(self.states))
        reads = ["(void)at;", *(f"const {d.cpp} c{i} = l{i}[j];" for i, d in enumerate(self.states))]
        lines += self.lambda_(
            "fold", f"{arrays}, int64_t j, const {t} v, int64_t at", reads, step, [f"l{i}[j] = n{i};" for i in range(k)]
        )
        states_ = ", ".join(f"s{i}" for i in range(k))
        # A few elements are taken in order.
        lines += [
            f"  if (n < {ROW_SHORT}) {{",
            f"    for (int64_t i = 0; i < n; ++i) fold({states_}, 0, p[i], index + i);",
            "    return;",
            "  }",
        ]
        if self.fold.search is not None:
            return lines + self.search_row() + ["}", ""]
        lanes = self.lanes_row(self.states, self.fold.init(**self.nodes()), self.merged(), "fold")
        lanes.append(f"  merge({', '.join(f's{i}, l{i}' for i in range(k))});")
        if guard := self.vector_guard():
            lanes = [f"#if {guard}", *self.vectors_row(), "#else", *lanes, "#endif"]
        return [*lines, *lanes, "}", ""]

    def vector_guard(self) -> str | None:
        """What says that the instruction set has the vectors that this fold needs (csrc/cpu/vecmath); None where no set has."""
        combined, merged = self.typed(self.combined(), self.states), self.typed(self.merged(), self.states)
        if self.t not in FOLD_VECTORS or on_vectors(combined, self.t) is None or on_vectors(merged, self.t) is None:
            return None
        used = {node.op for node in topological([*combined, *merged]) if node.args}
        if self.t is not dt.float32:
            able = EXTREMES if self.t is dt.float64 else EXTREMES | {primitives.add}
            return "TOCHA_FOLDS_WIDE" if used <= able else None
        return "TOCHA_FOLDS_F32" if used <= FOLD_PRIMITIVES else "TOCHA_VECTOR_F32"

    def vectors_row(self) -> list[str]:
        """The same on whole vectors, whose accumulators never leave their registers."""
        combined, merged = self.typed(self.combined(), self.states), self.typed(self.merged(), self.states)
        vector, lanes = FOLD_VECTORS[self.t]
        count = f"math::{lanes}"
        k = len(self.states)
        vectors = ROW_VECTORS if self.t is dt.float32 else ROW_VECTORS // k  # as many as NEON has registers for
        start = self.emit(self.fold.init(**self.nodes()), self.states, [], prefix="i")
        step = emit(combined, self.names([*(f"c{i}" for i in range(k)), "v"], prefix="f"), vector=REGISTERS)
        join = emit(
            merged, self.names([f"a{i}" for i in range(k)] + [f"b{i}" for i in range(k)], prefix="m"), vector=REGISTERS
        )
        lines = ["  " + c for c in (*start.prologue, *start.body, *join.prologue)]

        def function(name: str, changed: str, others: str, code: Emitted) -> list[str]:
            given = ", ".join(f"math::{vector}& {changed}{i}" for i in range(k))
            # A call would take the accumulators' addresses, and keep them in memory.
            text = [f"  auto {name} = [&]({given}, {others}) __attribute__((always_inline)) {{"]
            text += ["    " + c for c in code.body]
            text += [f"    const auto n{i} = {r};" for i, r in enumerate(code.results)]
            return [*text, *(f"    {changed}{i} = n{i};" for i in range(k)), "  };"]

        def group(u: int, prefix: str = "l") -> str:
            return ", ".join(f"{prefix}{i}_{u}" for i in range(k))

        lines += function("fold_vector", "c", f"const math::{vector} v", step)
        lines += function("merge_vector", "a", ", ".join(f"const math::{vector} b{i}" for i in range(k)), join)
        for u in range(vectors):
            lines += [f"  auto l{i}_{u} = math::splat({r});" for i, r in enumerate(start.results)]
        lines += [
            "  int64_t i = 0;",
            f"  for (; i + {vectors} * {count} <= n; i += {vectors} * {count}) {{",
        ]
        lines += [f"    fold_vector({group(u)}, math::load(p + i + {u} * {count}));" for u in range(vectors)]
        lines += [
            "  }",
            f"  for (; i + {count} <= n; i += {count}) fold_vector({group(0)}, math::load(p + i));",
        ]
        lines += [f"  merge_vector({group(u)}, {group(u + s)});" for s in (2, 1) if s < vectors for u in range(s)]
        lines += ["  if (i < n) {", *(f"    auto t{i}_0 = l{i}_0;" for i in range(k))]
        lines += [f"    fold_vector({group(0, 't')}, math::load_first(p + i, n - i));"]
        lines += [f"    l{i}_0 = math::keep_first(t{i}_0, l{i}_0, n - i);" for i in range(k)] + ["  }"]
        for distance in (8, 4, 2, 1) if self.t is dt.float32 else (4, 2, 1):
            swapped = ", ".join(f"math::swapped<{distance}>(l{i}_0)" for i in range(k))
            lines.append(f"  merge_vector({group(0)}, {swapped});")
        lines += [f"  auto t{i} = math::splat(s{i}[0]);" for i in range(k)]
        lines.append(f"  merge_vector({', '.join(f't{i}' for i in range(k))}, {group(0)});")
        return [*lines, *(f"  s{i}[0] = math::first(t{i});" for i in range(k))]

    def lanes_row(self, types: list[dt.DType], init: object, merged: object, fold: str) -> list[str]:
        """Folds the run into lanes l0, l1, ... and merges those into their first."""
        k, lanes = len(types), ROW_LANES
        start = self.emit(init, types, [], prefix="i")
        join = self.emit(merged, types, [f"a{i}" for i in range(k)] + [f"b{i}" for i in range(k)], prefix="m")
        lines = ["  " + c for c in (*start.prologue, *start.body, *join.prologue)]
        pairs = ", ".join(f"{d.cpp}* u{i}, const {d.cpp}* w{i}" for i, d in enumerate(types))
        reads = [f"const {d.cpp} a{i} = *u{i}, b{i} = *w{i};" for i, d in enumerate(types)]
        lines += self.lambda_("merge", pairs, reads, join, [f"*u{i} = n{i};" for i in range(k)])
        lines += [f"  alignas(64) {d.cpp} l{i}[{lanes}];" for i, d in enumerate(types)]
        args = ", ".join(f"l{i}" for i in range(k))

        def over(count: int, statements: list[str]) -> list[str]:
            # Unrolled in full before it is vectorized, a short loop would become that many scalars.
            whole = ["#pragma GCC unroll 1"] if count <= ROW_SHORT else []
            return [
                "#pragma GCC ivdep",
                *whole,
                f"    for (int64_t j = 0; j < {count}; ++j) {{",
                *("      " + c for c in statements),
                "    }",
            ]

        def start_lanes(width: int) -> list[str]:
            return over(width, [f"l{i}[j] = {r};" for i, r in enumerate(start.results)])

        def run(width: int, unroll: int) -> list[str]:
            body = [f"{fold}({args}, j, p[i + {w * width} + j], index + i + {w * width} + j);" for w in range(unroll)]
            return [f"  for (; i + {unroll * width} <= n; i += {unroll * width}) {{", *over(width, body), "  }"]

        def tree(upper: int, lower: int) -> list[str]:
            text = []
            while upper >= lower:
                joined = ", ".join(f"l{i} + j, l{i} + j + {upper}" for i in range(k))
                text += over(upper, [f"merge({joined});"])
                upper //= 2
            return text

        lines += [
            "  int64_t i = 0;",
            f"  if (n < {lanes}) {{",
            *start_lanes(ROW_SHORT),
            "  } else {",
            *start_lanes(lanes),
            *run(lanes, 4),
            *run(lanes, 1),
        ]
        lines += [*tree(lanes // 2, ROW_SHORT), "  }", *run(ROW_SHORT, 1), *tree(ROW_SHORT // 2, 1)]
        return [*lines, f"  for (; i < n; ++i) {fold}({args}, 0, p[i], index + i);"]

    def search_row(self) -> list[str]:
        """The best value of the run first, by its own lanes; where it is only if it beats what came before."""
        assert self.fold.search is not None
        pick, beats, ties = self.fold.search
        t, d = self.t.cpp, self.states[0]
        a, b = scalar.Input(0, d), scalar.Input(1, d)
        picked = self.emit(pick(a, b), [d], ["c0", "v"], prefix="g")
        better = self.emit(beats(b, a), [dt.bool_], ["was", "best"], prefix="w")
        tie = self.emit(ties(a, b), [dt.bool_], ["v", "best"], prefix="q")
        lines = [
            f"  auto best_of = [&]({d.cpp}* l0, int64_t j, const {t} v, int64_t) {{",
            f"    const {d.cpp} c0 = l0[j];",
        ]
        lines += ["    " + c for c in picked.body] + [f"    l0[j] = {picked.results[0]};", "  };"]
        init = self.fold.init(**self.nodes())[0]
        lines += self.lanes_row([d], init, pick(a, b), "best_of")
        lines += [
            f"  const {d.cpp} best = l0[0], was = s0[0];",
            *("  " + c for c in better.body),
            f"  if (!({better.results[0]})) return;",
        ]
        lines += [
            f"  auto is_it = [&](const {t} v) {{",
            *("    " + c for c in tie.body),
            f"    return {tie.results[0]};",
            "  };",
        ]
        lines += [
            "  int64_t at = 0;",
            f"  for (; at + {ROW_LANES} <= n; at += {ROW_LANES}) {{",
            "    unsigned hits = 0;",
        ]
        lines += [
            f"    for (int64_t j = 0; j < {ROW_LANES}; ++j) hits += is_it(p[at + j]);",
            "    if (hits) break;",
            "  }",
        ]
        lines += ["  while (at < n && !is_it(p[at])) ++at;", "  s0[0] = best;", "  s1[0] = index + at;"]
        return lines

    def text(self) -> str:
        k = len(self.states)
        state_inputs = tuple(scalar.Input(i, d) for i, d in enumerate(self.states))
        lines: list[str] = []
        # init
        code = self.emit(self.fold.init(**self.nodes()), self.states, [])
        lines += self.head("init", "char* const* s, int64_t m") + self.pointers("s", "s", self.states)
        lines += ["  " + c for c in code.prologue + code.body]
        lines += (
            ["  for (int64_t j = 0; j < m; ++j) {"]
            + [f"    s{i}[j] = {r};" for i, r in enumerate(code.results)]
            + ["  }", "}", ""]
        )
        # fold, several rows at a time so that states stay in registers
        new = self.combined()
        lines += self.head(
            "fold",
            "char* const* s, const char* x, int64_t rows, int64_t row_stride, int64_t m, int64_t index, int64_t row_index, int64_t lane_index",
        )
        lines += ["  (void)index; (void)row_index; (void)lane_index;"] + self.pointers("s", "s", self.states)
        prologue = self.emit(new, self.states, [f"c{i}" for i in range(k)] + ["v"]).prologue
        lines += ["  " + c for c in prologue]
        lines += ["  int64_t r = 0;"]
        for unroll in (4, 1):
            lines += [f"  for (; r + {unroll} <= rows; r += {unroll}) {{"]
            for u in range(unroll):
                lines.append(
                    f"    const auto* x{u} = reinterpret_cast<const {self.t.cpp}*>(x + (r + {u}) * row_stride);"
                )
            lines += ["#pragma GCC ivdep", "    for (int64_t j = 0; j < m; ++j) {"]
            lines += [f"      {d.cpp} c{i} = s{i}[j];" for i, d in enumerate(self.states)]
            for u in range(unroll):
                inputs = [f"c{i}" for i in range(k)] + ["v"]
                code = self.emit(new, self.states, inputs, index="at")
                lines += ["      {", f"        const {self.t.cpp} v = x{u}[j];"]
                if "at" in " ".join(code.body):
                    lines.append(f"        const int64_t at = index + (r + {u}) * row_index + j * lane_index;")
                lines += ["        " + c for c in code.body]
                lines += [
                    f"        const {d.cpp} n{i} = {r};"
                    for i, (d, r) in enumerate(zip(self.states, code.results, strict=True))
                ]
                lines += [f"        c{i} = n{i};" for i in range(k)] + ["      }"]
            lines += [f"      s{i}[j] = c{i};" for i in range(k)] + ["    }", "  }"]
        lines += ["}", ""]
        # row: a contiguous run into lane 0
        lines += self.row()
        # merge
        code = self.emit(self.merged(), self.states, [f"a{i}" for i in range(k)] + [f"b{i}" for i in range(k)])
        lines += self.head("merge", "char* const* s, char* const* o, int64_t m")
        lines += self.pointers("s", "s", self.states) + self.pointers("o", "o", self.states)
        lines += ["  " + c for c in code.prologue] + ["#pragma GCC ivdep", "  for (int64_t j = 0; j < m; ++j) {"]
        lines += [f"    const {d.cpp} a{i} = s{i}[j], b{i} = o{i}[j];" for i, d in enumerate(self.states)]
        lines += (
            ["    " + c for c in code.body]
            + [f"    s{i}[j] = {r};" for i, r in enumerate(code.results)]
            + ["  }", "}", ""]
        )
        # finish
        count = scalar.Param(len(self.param_types), dt.int64)
        finished = self.fold.finish(state_inputs if k > 1 else state_inputs[0], count, **self.nodes())
        finished = finished if isinstance(finished, tuple) else (finished,)
        nodes = tuple(scalar.cast(v, d) for v, d in zip(finished, self.outs, strict=True))
        code = emit(
            simplify(nodes),
            Names([f"a{i}" for i in range(k)], [*(f"p{i}" for i in range(len(self.param_types))), "count"]),
        )
        lines += self.head("finish", "char* const* o, char* const* s, int64_t m, int64_t count")
        lines += ["  (void)count;"] + self.pointers("s", "s", self.states) + self.pointers("o", "o", self.outs)
        lines += ["  " + c for c in code.prologue] + ["#pragma GCC ivdep", "  for (int64_t j = 0; j < m; ++j) {"]
        lines += [f"    const {d.cpp} a{i} = s{i}[j];" for i, d in enumerate(self.states)]
        lines += (
            ["    " + c for c in code.body]
            + [f"    o{i}[j] = {r};" for i, r in enumerate(code.results)]
            + ["  }", "}", ""]
        )
        return "\n".join(lines)


def tables(o: Operator) -> str:
    slots = []
    have = {d.code: d for d in loop_dtypes(o)}
    for d in dt.DTYPES:
        if d.code not in have:
            slots.append("nullptr" if o.kind == "pointwise" else "{}")
        elif o.kind == "pointwise":
            slots.append(loop_name(o, d))
        else:
            base = loop_name(o, d)
            slots.append(f"{{{base}_init, {base}_fold, {base}_row, {base}_merge, {base}_finish}}")
    kind = "Loop" if o.kind == "pointwise" else "ReduceLoops"
    return f"extern const {kind} {o.cpp_name}_loops[kNumDTypes] = {{{', '.join(slots)}}};\n"


def shards(ops: list[Operator]) -> Iterator[list[Operator]]:
    shard: list[Operator] = []
    weight = 0
    for o in ops:
        cost = len(loop_dtypes(o)) * (4 if o.kind == "reduction" else 1)
        if shard and weight + cost > LOOPS_PER_FILE:
            yield shard
            shard, weight = [], 0
        shard.append(o)
        weight += cost
    if shard:
        yield shard


def backward_files(families: dict[str, list[Operator]]) -> dict[str, str]:
    """The backward kernels of formulas, beside those they come from."""
    from tocha._build.gradients import generated_kernels

    files = {}
    for module, ops in families.items():
        pairs = [(o, f) for o in ops for f in generated_kernels(o)]
        for number, at in enumerate(range(0, len(pairs), LOOPS_PER_FILE // 2)):
            text, tables_text = HEADER.format(module=module, more=""), ""
            for o, f in pairs[at : at + LOOPS_PER_FILE // 2]:
                slots = {}
                for t, nodes in f.formulas.items():
                    param_types = [resolve(c, t) for c in type_codes(o)[2]]
                    name = f"{f.name}_{t.code}"
                    outs, ins = [resolve(c, t) for c in f.out_codes], [resolve(c, t) for c in f.in_codes]
                    text += "\n" + loop_text(name, nodes, outs, ins, param_types)
                    slots[t] = name
                row = ", ".join(slots.get(d, "nullptr") for d in dt.DTYPES)
                tables_text += f"extern const Loop {f.name}_loops[kNumDTypes] = {{{row}}};\n"
            text += (
                "\n}  // namespace\n\nnamespace TOCHA_ISA_TABLES {\n"
                + tables_text
                + "}\n\n}  // namespace tocha::cpu\n"
            )
            files[f"{module}_backward_{number}_loops.cpp"] = text
    return files


def generate() -> dict[str, str]:
    families: dict[str, list[Operator]] = defaultdict(list)
    for o in operators():
        if o.kind in ("pointwise", "reduction"):
            families[o.module].append(o)
    files = backward_files(families)
    for module, ops in families.items():
        for number, shard in enumerate(shards(ops)):
            folds = any(o.kind == "reduction" for o in shard)
            text = HEADER.format(module=module, more='#include "cpu/vecmath/neon.h"\n' if folds else "")
            for o in shard:
                for t in loop_dtypes(o):
                    text += "\n" + (pointwise_loop(o, t) if o.kind == "pointwise" else FoldEmitter(o, t).text())
            text += "\n}  // namespace\n\nnamespace TOCHA_ISA_TABLES {\n"
            text += "".join(tables(o) for o in shard)
            text += "}\n\n}  // namespace tocha::cpu\n"
            files[f"{module}_{number}_loops.cpp"] = text
    return files
