"""A scheduled program as one C++ source: kernels, and the entry that allocates, runs them, calls operators and hands out results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tocha.codegen.cpp_index import IndexPrinter
from tocha.codegen.cpp_loops import KernelWriter
from tocha.codegen.cpp_many import ManyWriter, form_of, writer_of
from tocha.codegen.cpp_scalar import memory_type
from tocha.codegen.cpp_source import BETWEEN, ENTRY, HEADER, LINE
from tocha.codegen.cpp_turns import Turns, write_turns
from tocha.codegen.translator_types import cpp_string
from tocha.ir import symbolic as s
from tocha.ir.kernels import Item, Kernel
from tocha.ir.loops import Buffer, Call, Convolution, Element, Followed, Geometry, NotLowered, Product, Program, Source
from tocha.ir.memory import MemoryPlan, last_uses, same_layout
from tocha.ir.sym_types import FloatExpr

BACKSLASH = "\\ "
OPENING = """
extern "C" [[gnu::visibility("default")]] int tocha_program(const tocha_api* api, void* program, void** inputs,
                                                            int owned, void** outputs) {
  if (api->version != kTochaApiVersion) return api->fail(0);
  (void)program, (void)inputs, (void)owned, (void)outputs;
"""


LONG_ENTRY = 400  # lines from which on it is not optimized: it takes the compiler longer than all kernels, and makes no difference
UNOPTIMIZED = '\nextern "C" TOCHA_UNOPTIMIZED int tocha_program(const tocha_api*, void*, void**, int, void**);'


class ProgramWriter:
    def __init__(self, program: Program, items: Sequence[Item], memory: MemoryPlan | None = None):
        self.program, self.items = program, items
        self.memory = memory or MemoryPlan()
        self.lines: list[str] = []
        self.index = IndexPrinter(program.known, self.size_name)
        self.where: dict[Buffer, str] = {}  # the C++ expression of a buffer's tensor
        self.data: set[Buffer] = set()
        self.functions: dict[Kernel, str] = {}
        self.calls: list[Call] = []
        self.sizes: dict[s.Atom, str] = {}
        self.ran = 0  # kernels so far
        self.checks = list(program.checks)
        self.relied_on = self.buffers_with_geometry()

    def buffers_with_geometry(self) -> set[Buffer]:
        """What kernels read or write where it lies, and what is seen through a view of which the program knows the geometry."""
        read = {b for k in self.items if isinstance(k, Kernel) for b in k.reads()} | set(self.memory.written.values())
        read |= {b for p in self.items if isinstance(p, Followed) for b in p.operands()}
        read |= {g.buffer for c in self.items if isinstance(c, Element) for g in c.tensors}
        shown = [g for c in self.items if isinstance(c, Call) for g in c.tensors]
        shown += [o for o in self.program.outputs if isinstance(o, Geometry)]
        return read | {g.buffer for g in shown if not g.is_whole and not any(g.buffer.bits)}

    def put(self, line: str) -> None:
        self.lines.append("  " + line)

    def size_name(self, a: s.Atom) -> str:
        found = self.sizes.get(a)
        if found is None:
            if a not in self.program.sizes:
                raise NotLowered(f"the number {a} is neither one of an input nor known by then")
            read = self.size_text(self.program.sizes[a])
            found = self.sizes[a] = f"size_{len(self.sizes)}"
            self.early.append(f"  const int64_t {found} = {read};")
        return found

    def size_text(self, source: Any) -> str:
        if isinstance(source, s.Expr):
            return self.index(source)
        return read_by(source, f"inputs[{source.position}]")

    def bind(self, c: Call) -> None:
        """Symbols that a call has made known."""
        for atom, source in c.binds.items():
            if isinstance(c, Element):
                (g,) = c.tensors
                read = f"*reinterpret_cast<const {memory_type(g.dtype)}*>({self.address(g)})"
                read = f"bits_of(double(float({read})))" if g.dtype.is_reduced else f"bits_of({read})" if g.dtype.is_floating else f"int64_t({read})"  # fmt: skip
            elif isinstance(source, s.Expr):
                read = self.index(source)
            else:
                made = c.results[source.position]
                assert made is not None
                read = read_by(source, self.where[made])
            self.sizes[atom] = f"size_{len(self.sizes)}"
            self.put(f"const int64_t {self.sizes[atom]} = {read};")
        if c.binds:
            self.check()

    def check(self) -> None:
        """What must hold of the symbols that are known by now."""
        for check in [k for k in self.checks if self.is_known(k.relation)]:
            self.checks.remove(check)
            self.put(
                f"if (!{self.index.relation(check.relation)}) return api->refuse({cpp_string(check.error)}, {cpp_string(check.message)});"
            )

    def write(self) -> str:
        kernels = [writer_of(k, self.program.known) for k in self.items if isinstance(k, Kernel)]
        for k in kernels:
            k.shared = self.memory.shared.get(k.kernel, set())
        texts = self.functions_of(kernels)
        writers = {k.kernel: k for k in kernels}
        self.early: list[str] = []
        self.inputs()
        self.check()
        last = self.last_uses()
        if self.memory.offsets:  # an arena of no bytes, where all that is in it is empty, is one too
            self.put(f"Arena arena(api, program, {max(1, self.memory.arena)});")
            self.put("if (!arena) return 1;")
            self.put("char* const memory_of_call = arena.data();")
        waiting: list[Buffer] = []  # of a group, to its end
        turns = Turns(self.items, writers, self.memory, self.program.known).groups()
        later = {k for group, _ in turns.values() for k in group[1:]}
        for i, item in enumerate(self.items):
            if item in turns:
                group, number = turns[item]
                write_turns(self, [writers[k] for k in group], number)
            elif item in later:
                pass
            elif isinstance(item, Followed):
                after = [k for k in self.items[i + 1 : i + 2] if isinstance(k, Kernel) and k.after is item]
                self.followed(item, writers[after[0]] if after else None)
            elif isinstance(item, Kernel):
                if item.after is None:
                    self.kernel(writers[item])
            elif isinstance(item, Element):
                self.bind(item)
            else:
                self.call(item)
            waiting += last.get(i, ())
            if i + 1 == len(self.items) or self.items[i + 1] not in later:
                for b in waiting:
                    self.forget(b)
                waiting = []
        self.outputs()
        self.put("return 0;")
        lines = [*self.early, *self.lines]
        opening = UNOPTIMIZED + OPENING if len(lines) > LONG_ENTRY else OPENING
        return HEADER + f"\n{BETWEEN}".join(texts) + ENTRY + opening + "\n".join(lines) + "\n}\n"

    def functions_of(self, kernels: Sequence[KernelWriter | ManyWriter]) -> list[str]:
        """The kernels' functions, one for all that do the same: the layers of a model have one, and take the time of one to compile."""
        alike: dict[str, list[tuple[Kernel, str]]] = {}
        for w in kernels:
            text, k = w.write(), w.kernel
            same = alike.setdefault(form_of(text, k.name), [])
            same.append((k, text))
            self.functions[k] = same[0][0].name
        return [
            "".join(f"// {k.name}: {origins(text)}\n{self.lines_of(k)}" for k, text in others) + self.with_lines(*first)
            for first, *others in alike.values()
        ]

    def with_lines(self, k: Kernel, text: str) -> str:
        """A kernel's function with the lines behind its operators."""
        end = text.index("\n") + 1 if text.startswith("// ") else 0
        return text[:end] + self.lines_of(k) + text[end:]

    def lines_of(self, k: Kernel) -> str:
        """The lines of the user's program that a kernel computes, as comments."""
        origins = (o for part in (k, *k.parts) for loop in part.loops for o in loop.origins)
        lines = dict.fromkeys(map(self.program.lines.get, origins))
        return "".join(
            f"{LINE}{line.rstrip(BACKSLASH)}\n" for line in lines if line
        )  # which would go on with the next line

    # -- tensors

    def forget(self, b: Buffer) -> None:
        """After the last use of a buffer."""
        if b in self.places:
            self.put(f"used_up(api, inputs, {self.places[b]}, owned);")
        elif b.producer is not None and b not in self.memory.offsets and b not in self.memory.written:
            self.put(f"{self.where[b].removesuffix('.get()')}.reset();")

    def variable(self, b: Buffer) -> str:
        return "b_" + re.sub(r"\W", "_", b.name)

    def inputs(self) -> None:
        self.places = {b: i for i, b in enumerate(self.program.inputs) if b is not None}
        named = [*self.program.inputs, *(b for b, _ in self.program.constants)]
        for i, b in enumerate(named):
            if b is None:
                continue
            self.where[b] = f"inputs[{i}]"
            if b in self.relied_on:
                self.expect(b, f"inputs[{i}]", i)

    def expect(self, b: Buffer, tensor: str, position: int) -> None:
        given = b.producer is None  # then symbols may be read off this very tensor, and guards have seen to the others
        sizes = [n if isinstance(n, int) or (not given and self.is_known(n)) else -1 for n in b.sizes]
        strides = [n if isinstance(n, int) or self.is_known(n) else -1 for n in b.strides]
        n = len(sizes)
        fixed = "static " if all(isinstance(n, int) for n in (*sizes, *strides)) else ""
        self.put("{")
        self.put(f"  {fixed}const int64_t sizes[] = {{{self.listed(sizes)}}}, strides[] = {{{self.listed(strides)}}};")
        self.put(f"  if (api->expect({tensor}, {position}, {self.dtype(b)}, {n}, sizes, strides)) return 1;")
        self.put("}")

    def is_known(self, e: s.Expr) -> bool:
        """Whether the program can compute it by now."""
        return all(a in self.program.sizes or a in self.sizes for a in s.free_symbols(e))

    def listed(self, values: Sequence[Any]) -> str:
        return (
            ", ".join(f"bits_of({self.index.real(v)})" if isinstance(v, FloatExpr) else self.index(v) for v in values)
            or "0"
        )

    @staticmethod
    def dtype(b: Any) -> str:
        return f"int64_t(DType::{b.dtype.cpp_enum})"

    def pointer(self, b: Buffer) -> str:
        name = "d_" + self.variable(b)
        if b not in self.data:
            self.data.add(b)
            if b in self.memory.offsets:
                self.put(f"char* const {name} = memory_of_call + {self.memory.offsets[b]};")
            else:
                self.put(f"char* const {name} = static_cast<char*>(api->data({self.where[b]}));")
        return name

    def held(self, b: Buffer) -> str:
        name = self.variable(b)
        self.put(f"Held {name}(api);")
        self.where[b] = f"{name}.get()"
        return name

    # -- steps

    def frame(self, w: KernelWriter | ManyWriter, tag: str = "") -> list[str]:
        """What a kernel is given, on memory that is there then; `tag` tells it from others."""
        for b in w.kernel.results():
            if b in w.buffers:
                self.allocate(b)
        pointers = [self.pointer(b) for b in w.memory]
        return [
            f"  char* const memory{tag}[] = {{{', '.join(pointers) or 'nullptr'}}};",
            f"  const int64_t sizes{tag}[] = {{{', '.join(self.size_name(a) for a in w.sizes) or '0'}}};",
            f"  KernelFrame frame{tag}{{memory{tag}, sizes{tag}, 0}};",
        ]

    def kernel(self, w: KernelWriter | ManyWriter) -> None:
        k = w.kernel
        frame = self.frame(w)
        self.put("{" if self.functions[k] == k.name else f"{{  // {k.name}")
        for line in frame:
            self.put(line)
        rows, grain = self.index(w.task_rows), self.index(w.grain)
        work = self.index(w.work)
        self.put(f"  run(api, program, {self.ran}, {rows}, {grain}, {work}, {self.functions[k]}, &frame);")
        self.ran += 1
        if w.faults:
            self.put("  if (frame.fault) return api->fail(frame.fault);")
        self.put("}")

    def followed(self, p: Followed, w: KernelWriter | ManyWriter | None) -> None:
        """A product or a convolution, and the kernel that follows it row by row."""
        self.allocate(p.result)
        temporaries: list[str] = []
        if isinstance(p, Convolution):
            kind, given = "convolution", self.convolution(p, temporaries)
        else:
            assert isinstance(p, Product)
            kind, given = "product", self.product(p)
        frame = self.frame(w) if w is not None else []
        self.put(f"{{  // {p.name}{f', then {w.kernel.name}' if w is not None else ''}")
        for line in frame:
            self.put(line)
        given += [self.functions[w.kernel], "&frame"] if w is not None else ["nullptr", "nullptr"]
        self.put(f"  const tocha_{kind} {kind}{{{', '.join(given)}}};")
        self.put(f"  if (timed(api, program, {self.ran}, [&] {{ return api->{kind}(&{kind}); }})) return 1;")
        self.ran += 1
        if w is not None and w.faults:
            self.put("  if (frame.fault) return api->fail(frame.fault);")
        self.put("}")
        for t in temporaries:
            self.put(f"{t}.reset();")

    def product(self, p: Product) -> list[str]:
        a, b, *bias = p.tensors
        c = Geometry(p.result, p.result.sizes, p.result.strides, 0, p.result.dtype)
        return [
            self.dtype(c), self.index(c.sizes[0]) if len(c.sizes) == 3 else "1",
            *(self.index(n) for n in (c.sizes[-2], c.sizes[-1], a.sizes[-1])), *map(self.matrices, (a, b, c)),
            self.address(bias[0]) if bias else "nullptr", self.pointer(p.packed) if p.packed is not None else "nullptr", str(p.engine), *map(str, p.tiling),
        ]  # fmt: skip

    def convolution(self, c: Convolution, temporaries: list[str]) -> list[str]:
        tensors = [self.where[c.result], *(self.tensor(g, temporaries) for g in c.tensors)]
        # What follows may take over the memory of the result, under a name of its own.
        made = f"made_{len(self.lines)}"
        self.put(f"void* const {made} = {tensors[0]};")
        bias = tensors[3] if len(tensors) == 4 else "nullptr"
        lists = [f"numbers_{len(self.lines)}_{i}" for i in range(3)]
        for name, values in zip(lists, (c.stride, c.padding, c.dilation), strict=True):
            self.put(f"const int64_t {name}[] = {{{', '.join(map(str, values))}}};")
        prepared = self.where[c.packed] if c.packed is not None else "nullptr"
        return [made, *tensors[1:3], bias, prepared, str(len(c.stride)), str(c.groups), *lists]

    def address(self, g: Geometry) -> str:
        """Of a tensor's first element."""
        offset = s.mul(g.offset, g.dtype.itemsize)
        return self.pointer(g.buffer) + (f" + {self.index(offset)}" if offset != 0 else "")

    def matrices(self, g: Geometry) -> str:
        batch = self.index(g.strides[0]) if len(g.strides) == 3 else "0"
        return f"{{{self.address(g)}, {self.index(g.strides[-2])}, {self.index(g.strides[-1])}, {batch}}}"

    def allocate(self, b: Buffer) -> None:
        """Memory for what a kernel makes."""
        if b in self.memory.offsets:
            return
        if b in self.memory.written:
            self.where[b] = self.where[self.memory.written[b]]
            return
        old = self.memory.reused.get(b)
        if old is not None:
            self.pointer(old)  # while it is still there under its own name
        name = self.held(b)
        self.put("{")
        self.put(f"  const int64_t sizes[] = {{{self.listed(b.sizes)}}}, strides[] = {{{self.listed(b.strides)}}};")
        made = f"api->empty({self.dtype(b)}, {len(b.sizes)}, sizes, strides)"
        if old is None:
            self.put(f"  {name}.take({made});")
        else:
            holder = self.where[old].removesuffix(".get()")
            given = f"{holder}.give()"
            if not same_layout(old, b):  # the tensor stays to the end of the step, which may still make it
                given = f"api->view({holder}.get(), {self.dtype(b)}, {len(b.sizes)}, sizes, strides, 0)"
            self.put(f"  {name}.take(api->reusable({holder}.get()) ? {given} : {made});")
        self.put(f"  if (!{name}.get()) return 1;")
        self.put("}")

    def tensor(self, g: Geometry, temporaries: list[str]) -> str:
        if g.is_whole:
            return self.where[g.buffer]
        name = f"view_{len(self.lines)}"
        self.put(f"Held {name}(api);")
        self.view(g, name)
        temporaries.append(name)
        return f"{name}.get()"

    def view(self, g: Geometry, name: str) -> None:
        self.put("{")
        self.put(f"  const int64_t sizes[] = {{{self.listed(g.sizes)}}}, strides[] = {{{self.listed(g.strides)}}};")
        self.put(
            f"  {name}.take(api->view({self.where[g.buffer]}, {self.dtype(g)}, {len(g.sizes)}, sizes, strides, {self.index(g.offset)}));"
        )
        self.put(f"  if (!{name}.get()) return 1;")
        self.put("}")

    def call(self, c: Call) -> None:
        which = len(self.calls)
        self.calls.append(c)
        temporaries: list[str] = []
        tensors = [self.tensor(g, temporaries) for g in c.tensors]
        names = [self.held(r) if r is not None and c.changes is None else None for r in c.results]
        self.put(f"{{  // {c.name}")
        self.put(f"  void* const tensors[] = {{{', '.join(tensors) or 'nullptr'}}};")
        self.put(f"  const int64_t sizes[] = {{{self.listed(c.sizes or ())}}};")
        self.put(f"  void* results[{max(1, len(names))}] = {{}};")
        counts = f"tensors, {len(tensors)}, sizes, {len(c.sizes or ())}, results, {len(names)}"
        self.put(f"  if (api->call(program, {which}, {counts})) return 1;")
        for i, n in enumerate(names):
            self.put(f"  {n}.take(results[{i}]);" if n else f"  api->release(results[{i}]);")
        self.put("}")
        for t in temporaries:
            self.put(f"{t}.reset();")
        if c.changes is not None:
            self.where.update((r, self.where[c.changes]) for r in c.results if r is not None)
        self.bind(c)
        for b in c.results:
            if b is not None and b in self.relied_on:
                self.expect(b, self.where[b], which)

    # -- lifetimes

    def last_uses(self) -> dict[int, list[Buffer]]:
        """After which item each buffer is no longer needed; results of the program live on."""
        last = last_uses(self.items)
        kept = {o.buffer for o in self.program.outputs if isinstance(o, Geometry)} | set(self.memory.written.values())
        out: dict[int, list[Buffer]] = {}
        for b, i in sorted(last.items(), key=lambda t: t[0].name):
            if b not in kept:
                out.setdefault(i, []).append(b)
        return out

    def outputs(self) -> None:
        for i, o in enumerate(self.program.outputs):
            if o is None:
                self.put(f"outputs[{i}] = nullptr;")
                continue
            if isinstance(o, float | FloatExpr):
                self.put(f"outputs[{i}] = api->real({self.index.real(o)});")
                continue
            if isinstance(o, bool | s.Relation):
                self.put(f"outputs[{i}] = api->truth({self.index.relation(o)});")
                continue
            if isinstance(o, int | s.Expr):
                self.put(f"outputs[{i}] = api->number({self.index(o)});")
                continue
            if not o.is_whole:
                name = f"result_{i}"
                self.put(f"Held {name}(api);")
                self.view(o, name)
                self.put(f"outputs[{i}] = {name}.give();")
                continue
            self.put(f"api->retain({self.where[o.buffer]});")
            self.put(f"outputs[{i}] = {self.where[o.buffer]};")


def origins(text: str) -> str:
    """The operators that a kernel came from, of the comments in its text."""
    return ", ".join(line.removeprefix("// ") for line in text.splitlines() if line.startswith("// "))


def read_by(source: Source, of: str) -> str:
    return f"api->{source.function}({of if source.dim is None else f'{of}, {source.dim}'})"


__all__ = ["ProgramWriter"]
