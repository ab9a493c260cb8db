"""Loops over formulas with shortcuts: functions that have a branch, and a form without one that is right for most operands (`tan`, `fmod`,
`lgamma`). Runs of elements take the short form, which the compiler makes vectors of, and note whether some must not; those few are
computed again in full. Eager kernels do the same (_build/kernels.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tocha.codegen.cpp_pass import Pass
from tocha.codegen.cpp_scalar import shortcut_test, shortcuts, stored_as
from tocha.ir import symbolic as s
from tocha.ir.loops import Buffer, Load
from tocha.ir.node import Node
from tocha.ir.rewrite import simplify

RUN = 512  # elements


def write_runs(w: Any, p: Pass, outputs: Sequence[tuple[Buffer, Node]], variable: Any, begin: str, end: str) -> bool:
    """Writes a loop over points; False if its formulas have no shortcuts. w is the kernel's writer (cpp_loops.py)."""
    last = w.hoistable(variable)
    if last is None or any(s.free_symbols(w.store_place(b)) & set(p.indirect) for b, _ in outputs):
        return False
    nodes = simplify(tuple(n for _, n in outputs))
    fixed = p.fixed_reads(last)
    special = [n for n in shortcuts(nodes) if shortcuts(w.with_fixed((n,), fixed))]
    if not special:
        return False
    t, name = w.text, w.names[s.atom_of(last)]
    operands = [a for n in special for a in n.args]
    # One array of results to a run where they lie on what is read: some elements are read again.
    held = lie_together(w, p, outputs)
    short = w.emitted(p, [*nodes, *operands], {}, last, short=True)
    again = w.emitted(p, operands, {}, last, short=True)
    full = w.emitted(p, nodes, {}, last)
    t.open("{")
    for line in dict.fromkeys((*short.prologue, *again.prologue, *full.prologue)):
        t.put(line)
    t.open(f"for (int64_t run = {begin}; run < {end}; run += {RUN}) {{")
    t.put(f"const int64_t run_end = index_min({end}, run + {RUN});")
    flags = {n.op.common_dtype(n): f"long_way{n.op.common_dtype(n).itemsize}" for n in special}
    for d, flag in flags.items():  # of the operands' width: lanes of two widths would be packed
        t.put(f"uint{8 * d.itemsize}_t {flag} = 0;")
    if held:
        for k, (b, _) in enumerate(outputs):
            t.put(f"{b.dtype.cpp} held{k}[{RUN}];")
    each = f"for (int64_t {name} = run; {name} < run_end; ++{name}) {{"

    def store(results: Sequence[str]) -> None:
        for k, ((b, _), r) in enumerate(zip(outputs, results, strict=False)):
            if held:
                for line in stored_as(b.dtype, f"held{k}[{name} - run]", r):
                    t.put(line)
            else:
                w.store(b, r)

    t.put("#pragma GCC ivdep")
    t.open(each)
    for line in short.body:
        t.put(line)
    store(short.results)
    for n, test in zip(special, tests(special, short.results[len(outputs) :]), strict=True):
        t.put(f"{flags[n.op.common_dtype(n)]} |= {test} ? 1 : 0;")
    t.close()
    t.open(f"if ({' || '.join(dict.fromkeys(flags.values()))}) {{")
    t.open(each)
    for line in again.body:
        t.put(line)
    t.put(f"if (!({' | '.join(dict.fromkeys(tests(special, again.results)))})) continue;")
    for line in full.body:
        t.put(line)
    store(full.results)
    t.close()
    t.close()
    if held:
        t.open(each)
        for k, (b, _) in enumerate(outputs):
            w.store(b, f"held{k}[{name} - run]")
        t.close()
    t.close()
    t.close()
    return True


def tests(special: Sequence[Node], operands: Sequence[str]) -> list[str]:
    """Which of the nodes must not take their shortcut, given the texts of all operands in a row."""
    texts = iter(operands)
    return [shortcut_test(n, [next(texts) for _ in n.args]) for n in special]


def lie_together(w: Any, p: Pass, outputs: Sequence[tuple[Buffer, Node]]) -> bool:
    """Whether results may lie on memory that the pass reads."""
    read = {r.buffer for r in p.reads if isinstance(r, Load)}
    own = {b for b, _ in outputs if isinstance(b, Buffer)}
    return bool((read | own) & (w.shared | w.scratch.keys())) or len(own) < len(outputs) or bool(read & own)
