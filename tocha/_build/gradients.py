"""Autograd from the records: backward kernels and tables for formulas, nodes and recording for everything else.

A pointwise operator's gradient is derived from its formula: one kernel per input and one for all inputs, plus the
same formulas written with operators (for gradients of gradients, and complex numbers). Other operators have gradient
functions on their records, translated like composites; each becomes a Node that keeps what the function asks for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from tocha.operators.reads import ALWAYS, Condition, Reads, reads, weakest
from tocha._build.tensor_formulas import TensorFormula
from tocha.codegen.translator import Translator
from tocha.codegen.translator_types import TranslationError, own_type, return_type
from tocha.ir import dtypes as dt
from tocha.ir import scalar
from tocha.ir.derivative import saved
from tocha.ir.node import CONSTANT, GRAD, INPUT, OUTPUT, Node
from tocha.operators.derived import formulas, has_one_dtype, operands, params, refusal, traced, type_codes, unknown_node, usable
from tocha.operators.record import Operator, operators

REAL = (dt.float32, dt.float64)
LEAVES = {GRAD: "grad", INPUT: "input", OUTPUT: "output"}


def node_name(o: Operator) -> str:
    """What the node is called in Python: AddBackward0, Log1PBackward0."""
    if unknown_node(o):
        return "NotImplemented"
    if isinstance(o.node, str) and o.node:
        return o.node.partition("|")[0] if "=" in o.node else o.node
    name = o.name.removeprefix("nn_").strip("_")
    return "".join(p.title() if any(map(str.isdigit, p)) else p[:1].upper() + p[1:] for p in name.split("_")) + "Backward0"


def unknown(o: Operator, inplace: bool = False) -> str:
    """C++ for the words in which the operator says that nobody knows its derivative."""
    error, backward, forward = refusal(o, inplace)
    return f'static const autograd::Unknown unknown_{o.cpp_name}{"_" * inplace} = {{{kind_of(error)}, "{backward}", "{forward}"}};'


def kind_of(error: type[Exception]) -> str:
    return "ErrorKind::NotImplemented" if error is NotImplementedError else "ErrorKind::Runtime"


def node_label(o: Operator, use_rule: Callable) -> str | None:
    """C++ for the name of a node that depends on the arguments; null where it is the usual one."""
    if isinstance(o.node, str):
        usual, *others = o.node.split("|")
        text = f'"{usual}"' if o.kind == "composite" and not o.gradients else "nullptr"
        for argument, name in (n.split("=") for n in reversed(others) if "=" in n):
            text = f'{argument}.is_wrapped_number() ? "{name}" : {text}'
        return text if "=" in o.node else None
    use_rule(o.node)
    names = ", ".join(inspect.signature(o.node).parameters)
    return f"autograd::interned(rules::{o.node.__name__}({names}))"


# ---- formulas ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fused:
    """A backward kernel: formulas over leaves, as an elementwise operator of its own."""

    name: str
    leaves: tuple[tuple[str, int], ...]
    in_codes: tuple
    out_codes: tuple
    formulas: dict  # compute dtype -> formulas over Input(i) = leaves[i]


def is_zero(n: Node) -> bool:
    return n.op is CONSTANT and n.attr == 0


def passes(n: Node | None) -> bool:
    return n is not None and n.op is GRAD


def real_dtypes(o: Operator) -> list[dt.DType]:
    """Compute dtypes that get backward kernels."""
    return [d for d in REAL if d in o.dtypes or any(x.is_reduced and x.compute is d for x in o.dtypes)]


def leaf(n: Node) -> tuple[str, int]:
    """What a leaf of a gradient formula reads: ("grad", 0), ("input", 1), ..."""
    assert isinstance(n.attr, int)
    return LEAVES[n.op], n.attr


def fused(o: Operator, which: list[int], name: str) -> Fused | None:
    per_dtype: dict[dt.DType, tuple[Node, ...]] = {}
    leaves: list[tuple[str, int]] = []
    for t in real_dtypes(o):
        found = formulas(o, t)
        assert found is not None
        wanted = tuple(n for i in which if (n := found[i]) is not None and not is_zero(n))
        if len(wanted) < len(which):
            return None
        per_dtype[t] = wanted
        for n in scalar.topological(wanted):
            if n.op in LEAVES and leaf(n) not in leaves:
                leaves.append(leaf(n))
    if not per_dtype or not leaves:
        return None
    order = {"grad": 0, "input": 1, "output": 2}
    leaves.sort(key=lambda at: (order[at[0]], at[1]))
    outs, ins, _ = type_codes(o)
    codes = tuple({"grad": outs, "input": ins, "output": outs}[kind][i] for kind, i in leaves)
    positions = {at: k for k, at in enumerate(leaves)}
    renamed = {}
    for t, wanted in per_dtype.items():
        swap = {}
        for n in scalar.topological(wanted):
            if n.op in LEAVES:
                swap[n] = scalar.Input(positions[leaf(n)], n.dtype)
        renamed[t] = scalar.substitute(wanted, swap)
    return Fused(name, tuple(leaves), codes, tuple(ins[i] for i in which), renamed)


@cache
def known_operators() -> dict[Node, Operator]:
    """Operators without parameters by their float32 formula: a backward kernel that is one of them needs no code."""
    known: dict[Node, Operator] = {}
    for o in operators():
        if o.kind == "pointwise" and not params(o) and dt.float32 in o.dtypes and dt.float64 in o.dtypes and has_one_dtype(o):
            nodes = traced(o, dt.float32)
            if len(nodes) == 1:
                known.setdefault(nodes[0], o)
    return known


@cache
def kernels_of(o: Operator) -> tuple[list[Fused | None], list[Operator | None]]:
    """Per input and then for all: the backward kernel, or the operator that already is it."""
    found = formulas(o, real_dtypes(o)[0]) if real_dtypes(o) else None
    n = len(operands(o))
    if found is None:
        return [None] * (n + 1), [None] * (n + 1)
    own: list[Fused | None] = []
    reused: list[Operator | None] = []
    for i in range(n):
        f = None if found[i] is None or passes(found[i]) else fused(o, [i], f"{o.cpp_name}_d{i}")
        same = known_operators().get(f.formulas[dt.float32][0]) if f and dt.float32 in f.formulas else None
        own.append(f)
        reused.append(same)
    differentiable = [i for i in range(n) if found[i] is not None]
    whole = None
    if n > 1 and len(differentiable) == n and not any(passes(found[i]) for i in range(n)):
        whole = fused(o, list(range(n)), f"{o.cpp_name}_d")
    own.append(whole)
    reused.append(None)
    return own, reused


def has_formulas(o: Operator) -> bool:
    return o.kind == "pointwise" and any(formulas(o, t) is not None for t in (dt.float32, dt.float64, dt.complex64) if usable(o, t))


def generated_kernels(o: Operator) -> list[Fused]:
    """Backward kernels that need loops."""
    if o.kind != "pointwise" or not has_formulas(o):
        return []
    own, reused = kernels_of(o)
    return [f for f, r in zip(own, reused, strict=True) if f is not None and r is None]


# ---- the same formulas with operators ------------------------------------------------------------


def seen_functions(o: Operator, use_rule: Callable) -> tuple[list[str], list[str]]:
    """PyTorch's gradients of an elementwise operator: functions, and the tests that call them."""
    functions, calls = [], []
    places = {a.name: f"x[{i}]" for i, a in enumerate(operands(o))} | {a.name: f"p[{i}]" for i, a in enumerate(params(o))}
    places |= {"grad": "g[0]", "result": "y[0]"}
    kinds = {a.name: "Tensor" for a in operands(o)} | {a.name: "Scalar" for a in params(o)} | {"grad": "Tensor", "result": "Tensor"}
    for i, a in enumerate(operands(o)):
        f = o.seen_gradients.get((a.name,))
        if f is None:
            continue
        given = list(inspect.signature(f).parameters)
        t = Translator(f, {n: kinds[n] for n in given}, "Tensor", use_rule)
        signature = t.signature()
        functions += [f"static Tensor seen_{o.cpp_name}_{a.name}({signature}) {{", *t.body(), "}"]
        calls.append(f"    if (which == {i}) return seen_{o.cpp_name}_{a.name}({', '.join(places[n] for n in given)});")
    if calls:
        read = " && ".join(f"(!x[{i}] || !x[{i}].is_complex())" for i in range(len(operands(o))))
        calls = [f"  if (((dispatch_forced | autograd::marks(g[0])) & kDispatches) && {read} && !g[0].is_complex()) {{", *calls, "  }"]
    return functions, calls


def check_kept(o: Operator, which: int, inputs: set[int], outputs: set[int]) -> None:
    """A seen gradient reads what the node keeps for the derived one."""
    f = o.seen_gradients.get((operands(o)[which].name,))
    asked = set(inspect.signature(f).parameters) if f else set()
    kept = {operands(o)[k].name for k in inputs} | ({"result"} if outputs else set()) | {"grad"} | {a.name for a in params(o)}
    if asked - kept:
        raise TranslationError(f"seen gradient of {o.full_name}: {sorted(asked - kept)} is not kept")


def composite_function(o: Operator, use_rule: Callable) -> list[str]:
    """static Tensor gradient_of_X(which, grads, inputs, outputs, params)"""
    functions, seen = seen_functions(o, use_rule)
    lines = [*functions, f"static Tensor gradient_of_{o.cpp_name}(int which, const Tensor* g, const Tensor* x, const Tensor* y, const Scalar* p) {{"]
    lines += ["  (void)which; (void)g; (void)x; (void)y; (void)p;", *seen]
    versions = []
    wide = (dt.complex128 if dt.complex128 in o.dtypes else dt.complex64, dt.float64 if dt.float64 in o.dtypes else dt.float32)
    for t in wide:  # constants are as exact as the widest inputs need
        if usable(o, t) and formulas(o, t) is not None:
            versions.append(t)
    for t in versions:
        found = formulas(o, t)
        assert found is not None
        if len(versions) > 1 and t.is_complex:
            tensors = [*(f"g[{i}]" for i in range(len(o.schema.returns))), *(f"x[{i}]" for i in range(len(operands(o))))]
            lines.append("  if (" + " || ".join(f"({v} && {v}.is_complex())" for v in tensors) + ") {")
        else:
            lines.append("  {")
        for i, n in enumerate(found):
            if n is None:
                continue
            w = TensorFormula()
            result = "ops::zeros_like(g[0], std::nullopt, std::nullopt, std::nullopt)" if is_zero(n) else w.name(n)
            lines.append(f"    if (which == {i}) {{")
            lines += ["      " + c for c in w.lines] + [f"      return {result};", "    }"]
        lines.append("  }")
    error, text, _ = refusal(o)
    lines.append(f'  fail({kind_of(error)}, "{text}");')
    return [*lines, "}"]


def pointwise_tables(o: Operator, type_code: Callable, use_rule: Callable) -> list[str]:
    """Static tables: kernels, leaves, what is kept; ends with `gradient_X`."""
    name = o.cpp_name
    own, reused = kernels_of(o)
    lines: list[str] = []
    rows = []
    _, ins, ps = type_codes(o)
    mask_of = {d: i for i, d in enumerate(dt.DTYPES)}
    floats = [d for d in o.dtypes if d.is_differentiable and not d.is_complex]
    mask = hex(sum(1 << mask_of[d] for d in floats)) + "u"
    for f, same in zip(own, reused, strict=True):
        if f is None:
            rows.append("{nullptr, nullptr}")
            continue
        leaves = ", ".join(f"{{autograd::GradientLeaf::{kind}, {i}}}" for kind, i in f.leaves)
        lines.append(f"static const autograd::GradientLeaf leaves_{f.name}[] = {{{leaves}}};")
        loops = f.name
        if same is not None:
            loops = f"{f.name}_as_{same.cpp_name}"
            lines.append(f"TOCHA_LOOPS_AS(Loop, {same.cpp_name}, {loops})")
        else:
            lines.append(f"TOCHA_LOOPS(Loop, {f.name})")
        count = 0 if same is not None else len(ps)
        codes = ", ".join(type_code(c) for c in (*f.out_codes, *f.in_codes, *(() if same is not None else ps)))
        lines.append(f"static const TypeCode types_{f.name}[] = {{{codes}}};")
        lines.append(
            f'static const PointwiseOp op_{f.name} = {{"{o.name}_backward", TOCHA_LOOPS_OF({loops}), {len(f.out_codes)}, {len(f.in_codes)}, {count}, '
            f"Promote::common, {str(o.expensive).lower()}, false, {mask}, types_{f.name}}};"
        )
        rows.append(f"{{&op_{f.name}, leaves_{f.name}}}")
    needs_in, needs_out, through = [], [], []
    for i in range(len(ins)):
        keep: tuple[set[int], set[int]] = (set(), set())
        pass_all = True
        for t in (dt.float32, dt.float64, dt.complex64):
            found = formulas(o, t) if usable(o, t) else None
            if found is None:
                continue
            n = found[i]
            if n is None:
                pass_all = False
                continue
            read = saved([n])
            keep[0].update(read.inputs)
            keep[1].update(read.outputs)
            pass_all = pass_all and passes(n) and n.attr == 0
        check_kept(o, i, *keep)
        needs_in.append(str(sum(1 << k for k in keep[0])))
        needs_out.append(str(sum(1 << k for k in keep[1])))
        through.append(str(int(pass_all)))
    return [*lines, *composite_function(o, use_rule), *gradient_table(o, rows, through, needs_in, needs_out, f"gradient_of_{name}")]


def gradient_table(o: Operator, kernels: list[str], passing: list[str], keeps_in: list[str], keeps_out: list[str], composite: str) -> list[str]:
    """The static `gradient_X`: rows of C++ values per input."""
    name = o.cpp_name
    quoted = [f'"{a.name}"' for a in (*operands(o), *params(o))]
    return [
        f"static const autograd::FusedGradient fused_{name}[] = {{{', '.join(kernels)}}};",
        f"static const uint8_t passes_{name}[] = {{{', '.join(passing)}}};",
        f"static const uint16_t keeps_in_{name}[] = {{{', '.join(keeps_in)}}}, keeps_out_{name}[] = {{{', '.join(keeps_out)}}};",
        f"static const char* const names_{name}[] = {{{', '.join(quoted)}}};",
        f'static const autograd::PointwiseGradient gradient_{name} = {{"{node_name(o)}", names_{name}, {len(operands(o))}, {len(o.schema.returns)}, {len(params(o))}, '
        f"passes_{name}, fused_{name}, keeps_in_{name}, keeps_out_{name}, {composite}}};",
    ]


def forgets_inputs(o: Operator) -> bool:
    """In place what had a gradient is replaced by something that has none, such as the result of a comparison: 0 flows."""
    if o.kind != "pointwise" or "inplace" not in o.variants or o.tags & {"no_gradient", "no_derivative"}:
        return False
    return not has_formulas(o) and any(d.is_differentiable for d in o.dtypes)


def zero_table(o: Operator) -> list[str]:
    n = len(operands(o))
    return gradient_table(o, ["{nullptr, nullptr}"] * (n + 1), ["0"] * n, ["0"] * n, ["0"] * n, "autograd::zero_gradient")


# ---- gradient functions ---------------------------------------------------------------------------


@dataclass
class Keep:
    """A value that a node holds on to."""

    name: str
    type: str
    kind: str  # tensor, shape, list, shapes, output, value
    index: int = 0
    elements: list[str] = field(default_factory=list)  # C++ tests, any of which says that its elements will be read
    facts: list[str] = field(default_factory=list)  # likewise its shape

    @property
    def field(self) -> str:
        return f"{self.name}_"

    @property
    def declaration(self) -> str:
        if self.kind in ("tensor", "shape", "output"):
            return f"autograd::Saved {self.field};"
        if self.kind in ("list", "shapes"):
            return f"autograd::SavedList {self.field};"
        return f"{own_type(self.type)} {self.field}{{}};"

    @property
    def read(self) -> str:
        return f"{self.field}.get(*this)" if self.kind != "value" else self.field


class GradientNode:
    """The C++ of one operator's node: struct, translated functions, and what recording does."""

    def __init__(self, o: Operator, use_rule: Callable):
        self.o = o
        self.use_rule = use_rule
        self.by_name = {a.name: a for a in o.schema.arguments}
        self.rules: dict[tuple[str, ...], Callable | None] = dict(o.gradients)
        self.seen = dict(o.seen_gradients)
        if seen_whole(o):
            self.rules, self.seen = {**self.seen}, {}
        if o.kind == "view" and not self.rules:
            self.rules = {(o.schema.arguments[0].name,): None}  # through the view itself
        listed = {n for names in self.rules for n in names}
        self.inputs = [a for a in o.schema.arguments if a.name in listed]
        self.struct = f"Node_{o.cpp_name}"
        self.many = [r.type for r in o.schema.returns] == ["Tensor[]"]
        self.keeps: dict[str, Keep] = {}
        for names, f in self.rules.items():
            for p, r in (self.view_reads() if f is None else reads(f)).items():
                if p in ("grad", "grads", "wanted") or (p.startswith("grad") and p[4:].isdigit()):
                    continue
                self.keep(p, names, r)
        for names, seen in self.seen.items():
            for p in inspect.signature(seen).parameters:  # values cost nothing to keep
                if p in self.by_name and p not in self.keeps and not self.by_name[p].is_tensor:
                    self.keep(p, names, Reads(facts={ALWAYS}))
            unkept = [p for p in inspect.signature(seen).parameters if p not in ("grad", "grads") and p not in self.keeps]
            if unkept or names not in self.rules:
                raise TranslationError(f"seen gradient of {o.full_name}: {unkept or names} is not kept")

    def view_reads(self) -> dict[str, Reads]:
        """What the gradient through a view needs: the view's arguments, and the shape of what it looks into."""
        return {a.name: Reads(facts={ALWAYS}) for a in self.o.schema.arguments}

    def keep(self, p: str, names: tuple[str, ...], r: Reads) -> None:
        """The gradient of these inputs reads p so."""
        k = self.keeps.setdefault(p, self.kept(p, r))
        if k.kind == "shape" and r.elements:
            k.kind = "tensor"
        if k.kind == "output":
            k.elements += self.tests(names, r.elements | r.facts)
        elif k.kind == "shapes":
            k.facts += self.tests(names, r.elements | r.facts)
        else:
            k.elements += self.tests(names, r.elements)
            k.facts += self.tests(names, r.facts)

    def kept(self, p: str, r: Reads) -> Keep:
        if p == "result" or (p.startswith("result") and p[6:].isdigit()):
            return Keep(p, "Tensor", "output", int(p[6:] or 0))
        a = self.by_name.get(p)
        if a is None:
            raise TranslationError(f"gradient of {self.o.full_name}: {p} is no argument of it")
        if a.type in ("Tensor", "Operand", "Tensor?"):
            return Keep(p, a.type, "shape")
        if a.type in ("Tensor[]", "Tensor?[]"):
            # That a list is only asked for shapes, through loop variables, the record promises.
            return Keep(p, a.type, "shapes" if not r.elements or "list_shapes" in self.o.tags else "list")
        return Keep(p, a.type, "value")

    def tests(self, names: tuple[str, ...], conditions: set[Condition]) -> list[str]:
        """C++ for each condition that is no case of another: the gradient is wanted, and flags are as it says."""
        known = weakest({frozenset(c for c in condition if self.is_known(*c)) for condition in conditions})
        return [self.test(names, c) for c in sorted(known, key=sorted)]

    def is_known(self, what: str, value: bool) -> bool:
        """Whether this can be asked while recording. Not that a gradient is unwanted: backward may want fewer."""
        if what.startswith("wanted["):
            return value
        return what in self.by_name and self.by_name[what].type == "bool"

    def test(self, names: tuple[str, ...], condition: Condition) -> str:
        if not condition and len(names) == len(self.inputs):
            return "true"  # or nothing would be recorded
        asked = [int(what[len("wanted[") : -1]) for what, _ in sorted(condition) if what.startswith("wanted[")]
        flags = [what if value else f"!{what}" for what, value in sorted(condition) if what in self.by_name]
        wanted = [f"autograd::tracked({names[i]})" for i in asked]
        if not wanted and (len(names) < len(self.inputs) or not flags):
            wanted = [" || ".join(f"autograd::tracked({n})" for n in names)]
            if flags and len(names) > 1:
                wanted = [f"({wanted[0]})"]
        return " && ".join([*wanted, *flags])

    def function(self, names: tuple[str, ...], f: Callable, prefix: str = "gradient") -> list[str]:
        types: dict[str, str] = {}
        for p in inspect.signature(f).parameters:
            types[p] = self.type_of(p)
        single = self.by_name[names[0]]
        returns = "Tensor[]" if single.type in ("Tensor[]", "Tensor?[]") else "Tensor?"
        if len(names) > 1:
            returns = "(" + "|".join("Tensor[]" if self.by_name[n].type.startswith("Tensor[") else "Tensor?" for n in names) + ")"
        t = Translator(f, types, returns, self.use_rule)
        signature = t.signature()
        body = t.body()
        return [f"static {own_type(returns)} {prefix}_{self.o.cpp_name}_{'_'.join(names)}({signature}) {{", *body, "}"]

    def type_of(self, p: str) -> str:
        if p == "grads":
            return "Tensor[]"
        if p == "wanted":
            return "bool[]"
        if p == "grad":
            return "Tensor"
        if p.startswith("grad") and p[4:].isdigit():
            return "Tensor?"
        if p == "result" or (p.startswith("result") and p[6:].isdigit()):
            return "Tensor"
        kind = self.by_name[p].type
        return "Tensor" if kind == "Operand" else kind

    def definition(self) -> list[str]:
        lines = [unknown(self.o)] if "first_order" in self.o.tags and self.rules else []
        for names, f in self.rules.items():
            if f is not None:
                lines += self.function(names, f)
        for names, f in self.seen.items():
            lines += self.function(names, f, "seen")
        lines += [f"struct {self.struct} final : autograd::Node {{", f'  const char* name() const override {{ return {self.name_text()}; }}']
        lines += [f"  {k.declaration}" for k in self.keeps.values()]
        lines += [f"  size_t count_{a.name} = 0;" for a in self.inputs if a.type.startswith("Tensor") and a.type.endswith("[]")]
        if self.name_choice():
            lines.append("  bool variant_ = false;")
        lines += ["  void apply(autograd::Grads& grads, autograd::Grads& out) override {", *self.apply(), "  }"]
        lines += ["  void fields(autograd::Fields& f) override {", *self.shown_fields(), "  }"]
        resets = [f"{k.field}.reset();" for k in self.keeps.values() if k.kind in ("tensor", "output", "list")]
        if resets:
            lines.append(f"  void release_saved() override {{ {' '.join(resets)} released = true; }}")
        return [*lines, "};"]

    SHOWN = {"tensor": "tensor", "output": "tensor", "shape": "sizes", "list": "tensors"}
    SHOWN_VALUES = {"int": "number", "float": "number", "bool": "number", "Scalar": "number", "str": "text"}

    def shown_fields(self) -> list[str]:
        """What the node keeps, by PyTorch's names, for the collector and for Python."""
        lines = ["    (void)f;"]
        for k in self.keeps.values():
            if k.kind == "value":
                base = k.type.removesuffix("?")
                method = "ints" if base.startswith("int[") else self.SHOWN_VALUES.get(base)
            else:
                method = self.SHOWN.get(k.kind)
            if method:
                value = f"Scalar({k.field})" if method == "number" and not k.type.endswith("?") else k.field
                lines.append(f'    f.{method}("{self.shown_name(k)}", {value});')
        return lines

    def shown_name(self, k: Keep) -> str:
        """A result goes by the name that the schema gives it."""
        returns = self.o.schema.returns
        if k.kind == "output" and len(returns) > 1:
            return returns[k.index].name or f"result{k.index}"
        return k.name

    def name_choice(self) -> bool:
        return "|" in node_name(self.o)

    def name_text(self) -> str:
        name = node_name(self.o)
        if "|" in name:
            plain, with_dim = name.split("|")
            return f'variant_ ? "{with_dim}" : "{plain}"'
        return f'"{name}"'

    def apply(self) -> list[str]:
        lines = []
        o = self.o
        parameters = {p for f in self.rules.values() if f is not None for p in inspect.signature(f).parameters}
        numbered = any(p.startswith("grad") and p[4:].isdigit() for p in parameters)
        if self.many:
            lines += ["    bool any = false;", "    for (const Tensor& g : grads) any = any || g;", "    if (!any) return;"]
            lines += [
                "    for (size_t i = 0; i < grads.size(); ++i)",
                "      if (!grads[i]) grads[i] = ops::zeros(inputs[i].sizes, inputs[i].dtype, inputs[i].device);",
            ]
        elif numbered:
            lines += ["    bool any = false;", "    for (const Tensor& g : grads) any = any || g;", "    if (!any) return;"]
        else:
            lines += ["    if (!grads[0]) return;", "    const Tensor& grad = grads[0];", "    (void)grad;"]
        lines.append("    size_t at = 0;")
        for a in self.inputs:
            lines.append(f"    const size_t at_{a.name} = at;")
            lines.append(f"    at += {self.count(a)};")
        lines.append("    (void)at;")
        for names, f in sorted(self.rules.items(), key=lambda rule: rule[0]):  # PyTorch's order
            test = " || ".join(self.wants(n) for n in names)
            lines.append(f"    if ({test}) {{")
            if names in self.seen:
                call = f"seen_{o.cpp_name}_{names[0]}({self.arguments(self.seen[names], names)})"
                lines += ["    if (((dispatch_forced | autograd::marks(grads[0])) & kDispatches) && !grads[0].is_complex()) {", *self.put(names[0], call), "    } else {"]
            if f is None:
                lines += self.through_view()
            else:
                call = f"gradient_{o.cpp_name}_{'_'.join(names)}({self.arguments(f, names)})"
                if len(names) > 1:
                    lines.append(f"      auto found = {call};")
                    for i, n in enumerate(names):
                        lines += self.put(n, f"std::get<{i}>(found)")
                else:
                    lines += self.put(names[0], call)
            if names in self.seen:
                lines.append("    }")
            lines.append("    }")
        return lines

    def arguments(self, f: Callable, names: tuple[str, ...]) -> str:
        """What a gradient function is called with."""
        args = []
        for p in inspect.signature(f).parameters:
            if p in ("grad", "grads"):
                args.append(p)
            elif p == "wanted":
                args.append("std::vector<bool>{" + ", ".join(self.wants(n) for n in names) + "}")
            elif p.startswith("grad") and p[4:].isdigit():
                args.append(f"grads[{p[4:]}]")
            else:
                args.append(self.keeps[p].read)
        return ", ".join(args)

    def count(self, a) -> str:
        return f"count_{a.name}" if a.type.startswith("Tensor") and a.type.endswith("[]") else "1"

    def wants(self, name: str) -> str:
        a = self.by_name[name]
        if self.count(a) == "1":
            return f"wants(at_{name})"
        return f"autograd::wants_any(*this, at_{name}, count_{name})"

    def put(self, name: str, code: str) -> list[str]:
        a = self.by_name[name]
        if self.count(a) == "1":
            given = f"autograd::hanging({code}, *this, at_{name})" if name in self.o.flat else code
            return [f"      if (wants(at_{name})) out[at_{name}] = {given};"]
        return [f"      autograd::put_all(out, at_{name}, {code});"]

    def through_view(self) -> list[str]:
        """The gradient written into zeros through the same view."""
        o = self.o
        base = o.schema.arguments[0].name
        names = ["whole" if a.name == base else self.keeps[a.name].read for a in o.schema.arguments]
        lines = [
            f"      Tensor shape = {self.keeps[base].read};",
            "      Tensor whole = ops::zeros(shape.sizes(), shape.dtype(), shape.device());",
        ]
        if self.many:
            lines += [
                f"      Tensors parts = ops::{o.cpp_name}({', '.join(names)});",
                "      for (size_t i = 0; i < parts.size(); ++i) whole = autograd::written(whole, parts[i], grads[i]);",
            ]
        else:
            lines.append(f"      whole = autograd::written(whole, ops::{o.cpp_name}({', '.join(names)}), grads[0]);")
        return [*lines, f"      out[at_{base}] = whole;"]

    # -- recording

    def saves(self, replaced: str | None = None) -> list[str]:
        """Statements that keep inputs, for the gradients that are wanted. `replaced`: what stands in for self."""
        lines = []
        first = self.o.schema.arguments[0].name
        for k in self.keeps.values():
            if k.kind == "output":
                continue
            if k.kind == "value":
                lines.append(f"  node->{k.field} = {own_value(k)};")
                continue
            value = replaced if replaced and k.name == first else k.name
            if k.name == first and "kept_as_rows" in self.o.tags:
                value = f"autograd::kept_rows({value})"
            whole, shape = ("inputs", "shapes_of") if k.kind in ("list", "shapes") else ("input", "shape_of")
            rest = [] if "true" in k.elements else [t for t in k.facts if t not in k.elements]
            ways = [(k.elements, f"{whole}({value})"), (rest, f"{shape}({k.name})")]
            lines.append("  " + " else ".join(f"{where(tests)}node->{k.field}.{call};" for tests, call in ways if tests))
        return [line for line in lines if line.strip()]

    def collect(self) -> list[str]:
        lines = []
        for a in self.inputs:
            lines.append(f"  autograd::collect(*ref, {a.name});")
            if self.count(a) != "1":
                lines.append(f"  node->count_{a.name} = {a.name}.size();")
        return lines

    def start(self, name: str = "") -> list[str]:
        lines = [
            f"  autograd::NodeRef ref = autograd::make_node<{self.struct}>();",
            f"  [[maybe_unused]] auto* node = static_cast<{self.struct}*>(ref.get());",
            "  if (modes().anomaly) autograd::remember_call(*ref);",
        ]
        if self.name_choice():
            lines.append("  node->variant_ = autograd::is_given(dim);")
        if label := f'"{name}"' if name else node_label(self.o, self.use_rule):
            lines.append(f"  ref->label = {label};")
        return lines + self.collect()

    def outputs(self, names: list[str]) -> list[str]:
        lines = []
        for k in self.keeps.values():
            if k.kind == "output":
                lines.append(f"  {where(k.elements)}node->{k.field}.output({names[k.index]}, {k.index});")
        return lines

    def forward(self, outs: list[str]) -> list[str]:
        """Tangents of the results, in forward mode."""
        flat = " ".join(f"autograd::flatten(ins, {a.name});" for a in self.inputs)
        if "first_order" in self.o.tags:
            return [f"  if (modes().forward_level) {{ Tensors ins; {flat} autograd::refuse_tangents(unknown_{self.o.cpp_name}, nullptr, 0, ins); }}"]
        known = self.o.differentiable
        carried = [v if known is None or i in known else "Tensor()" for i, v in enumerate(outs)]
        results = "out" if self.many else f"{{{', '.join(carried)}}}"
        return [f"  if (modes().forward_level) {{ Tensors ins; {flat} autograd::carry(*ref, ins, {results}); }}"]

    def record(self, parameters: str, result: str) -> list[str]:
        """static T record_X(arguments)"""
        o = self.o
        names = ", ".join(a.name for a in o.schema.arguments)
        lines = [f"static {result} record_{o.cpp_name}({parameters}) {{", *self.start(), *self.saves()]
        lines += [f"  {result} out = [&] {{", "    autograd::Unrecorded off;", f"    return ops::{o.cpp_name}({names});", "  }();"]
        n = len(o.schema.returns)
        outs = ["out"] if n == 1 else [f"std::get<{i}>(out)" for i in range(n)]
        if o.kind == "view":
            if self.many:
                lines += [f"  for (const Tensor& t : out) autograd::set_view_history(t, {self.inputs[0].name}, ref, true);"]
            else:
                lines += [f"  autograd::set_view_history(out, {self.inputs[0].name}, ref, false);"]
        else:
            if n == 1 and not self.many and "view" in o.tags:
                lines += [f"  if (out.is({self.inputs[0].name})) return out;", f"  autograd::set_view_history(out, {self.inputs[0].name}, ref, false);", *self.outputs(outs), *self.forward(outs), "  return out;", "}"]
                return lines
            if n == 1 and not self.many and "dynamic" in o.tags:
                lines += [f"  if ({' || '.join(f'out.is({a.name})' for a in self.inputs if self.count(a) == '1') or 'false'}) return out;"]
            if any(a.name == "dtype" for a in o.schema.arguments) and (o.kind == "reduction" or "out_dtype" in o.tags):
                lines += [
                    "  if (!is_floating(out.dtype()) && !is_complex(out.dtype())) [[unlikely]]",
                    f'    fail(ErrorKind::Runtime, "[{o.name}] Autograd not support dtype: ", out.dtype());',
                ]
            for i, v in enumerate(outs):
                known = o.differentiable is None or i in o.differentiable
                lines.append(f"  autograd::set_history({v}, ref);" if known else f"  autograd::skip_output({v}, *ref);")
        return [*lines, *self.outputs(outs), *self.forward(outs), "  return out;", "}"]

    def record_inplace(self, parameters: str, function: str) -> list[str]:
        o = self.o
        names = ", ".join(a.name for a in o.schema.arguments)
        first = o.schema.arguments[0].name
        overwritten = first in self.keeps and self.keeps[first].kind == "tensor"
        lines = [f"static Tensor record_{function}({parameters}) {{", f'  autograd::check_writable({first}, "{o.name}");', *self.start(o.inplace_node)]
        if overwritten:
            lines += ["  Tensor before;", f"  {where(self.keeps[first].elements)}before = autograd::before_overwriting({first});"]
        lines += self.saves("before" if overwritten else None)
        reshapes = o.kind == "view"
        if reshapes:
            lines += [f"  Tensor before = modes().forward_level ? autograd::as_it_is({first}) : Tensor();"]
        lines += ["  {", "    autograd::Unrecorded off;", f"    ops::{function}({names});", "  }"]
        # Another geometry writes nothing: the base keeps its history, and only self has another.
        lines += [f"  autograd::{'replace' if reshapes else 'rebase'}_history({first}, ref);"]
        forward = ["  if (before) autograd::carry(*ref, {before}, {self});"] if reshapes else self.forward([first])
        return [*lines, *self.outputs([first] * 4), *forward, f"  return {first};", "}"]


def where(tests: list[str]) -> str:
    """`if (...) ` for any of these C++ tests; nothing where one always holds."""
    if "true" in tests:
        return ""
    return "if (" + " || ".join(f"({t})" if "&&" in t and len(tests) > 1 else t for t in dict.fromkeys(tests)) + ") "


def own_value(k: Keep) -> str:
    return f"Ints({k.name})" if k.type == "int[]" else k.name


def node_for(o: Operator, use_rule: Callable) -> GradientNode | None:
    """The node of an operator with gradient functions; None for formulas, composites and what has no gradient."""
    if o.kind == "pointwise" or "no_gradient" in o.tags:
        return None
    if o.gradients or o.kind == "view":
        return GradientNode(o, use_rule)
    return None


def seen_whole(o: Operator) -> bool:
    """A composite that is recorded as one operator where somebody takes it over; else its parts are."""
    return o.kind == "composite" and o.whole and bool(o.seen_gradients) and not o.gradients


def lacks_gradient(o: Operator) -> bool:
    """Differentiable results, perhaps, but nobody has said how: recorded, and refused when backward gets there."""
    if o.kind == "pointwise":
        return "no_derivative" in o.tags
    if o.kind in ("composite", "view", "foreach") or o.gradients or "no_gradient" in o.tags or "factory" in o.tags:
        return False
    returns = {r.type for r in o.schema.returns}
    return bool(returns) and returns <= {"Tensor", "Tensor[]"} and any(a.is_tensor for a in o.schema.arguments)


__all__ = [
    "GradientNode", "composite_function", "forgets_inputs", "generated_kernels", "has_formulas", "lacks_gradient", "node_for", "node_label", "pointwise_tables",
    "return_type", "unknown", "zero_table",
]  # fmt: skip
