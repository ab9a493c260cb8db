"""C++ functions for the operators: typed, one per overload and variant, in namespace tocha::ops.

Pointwise operators and reductions become a static table entry and a call of the engine; views, composites
and shape rules are translated from the record's Python.
"""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Callable
from functools import cache

from tocha._build.foreach import Foreach
from tocha._build.gradients import (
    GradientNode,
    forgets_inputs,
    has_formulas,
    lacks_gradient,
    node_for,
    node_label,
    node_name,
    pointwise_tables,
    seen_whole,
    unknown,
    zero_table,
)
from tocha._build.kernels import fold_of, is_ordered, loop_dtypes, states
from tocha._build.refusals import mask_of, messages_name, refusals, words_table
from tocha._build.signatures import (
    argument_names,
    cut,
    mutates,
    names_in,
    out_parameters,
    parameters,
    result_type,
    returns_tensors,
)
from tocha._build.taken_over import TakenOver
from tocha.codegen.translator import Translator
from tocha.codegen.translator_types import (
    Value,
    annotations_of,
    coerce,
    default_cpp,
    own_type,
    parameter_type,
    return_type,
)
from tocha.ir import dtypes as dt
from tocha.operators.derived import formulas, operands, params, type_codes
from tocha.operators.record import AS_COMPUTED, Operator, operators

SOURCE = """// Generated from tocha/operators/{module}.py; do not edit.
#include "autograd/record.h"
#include "dispatch/autocast.h"
#include "dispatch/native.h"
#include "dispatch/taken_over.h"
{includes}#include "rules_generated.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

namespace tocha {{
"""


def writes_lists(o: Operator) -> bool:
    """An operator that changes the tensors of a list and returns nothing."""
    return mutates(o) and not o.schema.returns


def declarations(o: Operator) -> list[str]:
    if writes_lists(o):
        return [f"void {o.cpp_name}({parameters(o)});"]
    if o.kind == "foreach":
        inplace = [f"void {o.cpp_name}_({parameters(o)});"] if "inplace" in o.variants else []
        return [f"{result_type(o)} {o.cpp_name}({parameters(o)});", *inplace]
    if mutates(o):
        return [f"Tensor {o.cpp_name}({parameters(o)});"]
    lines = [f"{result_type(o)} {o.cpp_name}({parameters(o)});"]
    if "out" in o.variants:
        lines.append(f"void {o.cpp_name}_out({out_parameters(o)});")
    if "inplace" in o.variants:
        lines.append(f"Tensor {o.cpp_name}_({parameters(o)});")
    return lines


@cache
def declared_in() -> dict[str, str]:
    """The family whose header declares a function of namespace ops."""
    return {m[1]: o.module for o in operators() for line in declarations(o) if (m := re.search(r"(\w+)\(", line))}


def includes(text: str) -> str:
    """The headers of the families that a generated source calls, so that one record's edit rebuilds no more than it must."""
    home = declared_in()
    families = sorted({home[name] for name in set(re.findall(r"\w+", text)) if name in home})
    speaks = '#include "core/dtype_messages.h"\n' if re.search(r"\b(RefusalEntry|c_name_of|kernel_word)\b", text) else ""
    return speaks + "".join(f'#include "ops/{m}.h"\n' for m in families)


def kernel_declarations(o: Operator) -> list[str]:
    """What hand-written C++ must define for a native operator."""
    if o.kind != "native":
        return []
    rest = parameters(o)
    if mutates(o) or "inplace_kernel" in o.tags:
        name = o.kernel if o.kernel.endswith("_") else o.kernel + "_"
        return [f"void {name}({rest});"]
    if is_free(o):
        return [f"{result_type(o)} {o.kernel}({rest});"]
    return [f"void {o.kernel}({out_parameters(o)});"]


def is_free(o: Operator) -> bool:
    """A kernel that makes its own results."""
    return "dynamic" in o.tags or not returns_tensors(o)


def type_code(code: object) -> str:
    if code in AS_COMPUTED:
        return f"{{TypeCode::{'T' if code == 'T' else f'T_{code}'}, DType::Undefined}}"
    if code == "real":
        return "{TypeCode::real_of_T, DType::Undefined}"
    if code == "complex":
        return "{TypeCode::complex_of_T, DType::Undefined}"
    if code == "wide":
        return "{TypeCode::wide_T, DType::Undefined}"
    assert isinstance(code, dt.DType)
    return f"{{TypeCode::fixed, DType::{code.cpp_enum}}}"


def checks_numbers(ins: list) -> bool:
    """Whether a number for one of these operands may be refused."""
    return not {"checked", "filled", "number"}.isdisjoint(ins)


def scalar_of(a) -> str:
    """An argument as a Scalar parameter of a loop."""
    return a.name if a.type == "Scalar" else f"Scalar({a.name})"


def pointwise_op(o: Operator) -> list[str]:
    """What a pointwise operator is, as data: the static op_NAME."""
    outs, ins, ps = type_codes(o)
    codes = ", ".join(type_code(c) for c in (*outs, *ins, *ps))
    return [
        f"TOCHA_LOOPS(Loop, {o.cpp_name})",
        f"static const TypeCode types_{o.cpp_name}[] = {{{codes}}};",
        f'static const PointwiseOp op_{o.cpp_name} = {{"{messages_name(o)}", TOCHA_LOOPS_OF({o.cpp_name}), {len(outs)}, {len(ins)}, {len(ps)}, '
        f"Promote::{o.promote}, {str(o.expensive).lower()}, {str(checks_numbers(ins)).lower()}, {mask_of(o.dtypes)}, types_{o.cpp_name}}};",
    ]


class Family(TakenOver):
    """The generated source of one family."""

    def __init__(self, module: str, use_rule: Callable[[Callable], None]):
        self.module = module
        self.use_rule = use_rule
        self.kernels: list[str] = []
        self.statics: list[str] = []
        self.lines: list[str] = []

    def text(self) -> str:
        body = "\n".join(self.lines)
        kernels = f'#include "kernels/{self.module}.h"\n' if self.kernels else ""
        if "pointwise_into" in body:
            kernels += '#include "dispatch/inplace.h"\n'
        if any(name in body for name in ("check_sharing", "check_operand_shape", "result_dtype")):
            kernels += '#include "dispatch/overlap.h"\n'
        if "lay_out_like" in body:
            kernels += '#include "dispatch/like_self.h"\n'
        if "foreach::" in body:
            kernels += '#include "dispatch/foreach.h"\n'
        if any("computed_number" in s for s in self.statics):
            kernels += '#include "dispatch/numbers.h"\n'
        out = SOURCE.format(module=self.module, includes=kernels + includes(body + "".join(self.statics)))
        return out + "\n".join(self.statics) + "\n\nnamespace ops {\n\n" + body + "\n\n}  // namespace ops\n}  // namespace tocha\n"

    def add(self, o: Operator) -> None:
        self.kernels += kernel_declarations(o)
        self.node = node_for(o, self.use_rule)
        if self.node is not None:
            self.statics += self.node.definition()
            self.nodes(o, self.node)
        if seen_whole(o):
            node = GradientNode(o, self.use_rule)
            self.statics += [*node.definition(), *node.record(parameters(o), result_type(o))]
        getattr(self, o.kind)(o)

    # -- autograd and autocast ---------------------------------------------------------------------

    def autocast(self, o: Operator, signature: str | None = None) -> list[str]:
        """Within a region of mixed precision the operator calls itself once more, its arguments cast."""
        if not o.autocast:
            return []
        names = names_in(signature or parameters(o))
        named = list(zip(names, o.schema.arguments, strict=True))
        tensors = ", ".join(n for n, a in named if a.is_tensor)
        cast = ", ".join(f"autocast::cast({n}, to)" if a.is_tensor else n for n, a in named)
        return [
            f"  if (autocast::applies({tensors})) [[unlikely]] {{",
            f"    DType to = autocast::{o.autocast}({'hx' if o.autocast == 'state' else tensors});",
            "    autocast::Off off;",
            f"    return {o.cpp_name}({cast});",
            "  }",
        ]

    def nodes(self, o: Operator, node: GradientNode) -> None:
        """The functions that record; declared before the operators that call them."""
        if mutates(o):
            self.statics += node.record_inplace(parameters(o), o.cpp_name)
            return
        self.statics += node.record(parameters(o), result_type(o))
        if "inplace" in o.variants:
            self.statics += node.record_inplace(parameters(o), f"{o.cpp_name}_")

    def constants(self, o: Operator) -> list[str]:
        """Refuses gradients for inputs that have none by definition."""
        name = o.name.removeprefix("nn_")
        return [f'  autograd::check_constant({c}, "{name}", "{c}");' for c in o.constants]

    def guard(self, o: Operator, form: str) -> list[str]:
        """The first statement of an operator: goes the recording way when a gradient is wanted, or hands the call over."""
        if form == "function":
            return [*self.autocast(o), *self.asked(o, form)]
        return self.asked(o, form)

    def alert(self, o: Operator) -> list[str]:
        """Says that results may differ from run to run, to those who asked for results that do not."""
        if not o.nondeterministic:
            return []
        name = f'"{o.nondeterministic}"'
        if not isinstance(o.nondeterministic, str):
            self.use_rule(o.nondeterministic)
            name = f"rules::{o.nondeterministic.__name__}({', '.join(inspect.signature(o.nondeterministic).parameters)})"
        return [f"  if (switches.deterministic) [[unlikely]] alert_not_deterministic({name});"]

    def recording(self, o: Operator, form: str) -> list[str]:
        tensors = ", ".join(a.name for a in o.schema.arguments if a.is_tensor)
        if form == "out":
            return [f'  autograd::check_out("{o.name}", out0, {tensors});'] if returns_tensors(o) else []
        names = ", ".join(argument_names(o))
        if self.node is not None:
            target = f"{o.cpp_name}_" if form == "inplace" and not mutates(o) else o.cpp_name
            wanted = ", ".join(a.name for a in self.node.inputs)
            if form == "inplace" and o.schema.arguments[0] not in self.node.inputs:
                wanted = f"{o.schema.arguments[0].name}, {wanted}"
            return [f"  if (autograd::wanted({wanted})) [[unlikely]] return record_{target}({names});"]
        single = ", ".join(a.name for a in o.schema.arguments if a.type in ("Tensor", "Operand", "Tensor?"))
        lists = [a.name for a in o.schema.arguments if a.type in ("Tensor[]", "Tensor?[]")]
        if form == "inplace" and "no_gradient" not in o.tags and o.kind != "composite":
            first = o.schema.arguments[0].name
            self.statics.append(unknown(o, True))
            return [
                f"  if (autograd::wanted({tensors})) [[unlikely]] {{",
                f"    const Tensor ins[] = {{{single}}};",
                f'    autograd::NodeRef node = autograd::unknown_write(unknown_{o.cpp_name}_, "{o.name}", ins, {len(single.split(","))}, {lists[0] if lists else "Tensors()"});',
                f"    {{ autograd::Unrecorded off; {o.cpp_name}{'' if mutates(o) else '_'}({names}); }}",
                f"    autograd::rebase_history({first}, node);",
                f"    return {first};",
                "  }",
            ]
        if lacks_gradient(o) and form == "function":
            count = len(o.schema.returns)
            each = ["out"] if count == 1 else [f"std::get<{i}>(out)" for i in range(count)]
            self.statics.append(unknown(o))
            return [
                f"  if (autograd::wanted({tensors})) [[unlikely]] {{",
                f"    auto out = [&] {{ autograd::Unrecorded off; return {o.cpp_name}({names}); }}();",
                f"    Tensors outs; {' '.join(f'autograd::flatten(outs, {v});' for v in each)}",
                f"    const Tensor ins[] = {{{single or 'Tensor()'}}};",
                f'    autograd::record_unknown(unknown_{o.cpp_name}, "{node_name(o)}", ins, {len(single.split(",")) if single else 0}, {lists[0] if lists else "Tensors()"}, outs);',
                "    return out;",
                "  }",
            ]
        return []

    # -- pointwise ---------------------------------------------------------------------------------

    def describe(self, o: Operator) -> None:
        """Puts op_NAME into this source, once."""
        if f"PointwiseOp op_{o.cpp_name} = " not in "".join(self.statics):
            self.statics += pointwise_op(o)

    def pointwise(self, o: Operator) -> None:
        name = o.cpp_name
        nout, nin = len(o.schema.returns), len(operands(o))
        self.describe(o)
        self.statics += refusals(o)
        in_list = ", ".join(a.name for a in operands(o))
        prologue = [f"  const Tensor ins[] = {{{in_list}}};"]
        scalars = ", ".join(scalar_of(a) for a in params(o))
        prologue.append(f"  const Scalar params[] = {{{scalars}}};" if scalars else "  const Scalar* params = nullptr;")
        prologue += self.checks(o, "check")
        self.lines += [f"{result_type(o)} {name}({parameters(o)}) {{", *self.autocast(o)]
        derived = has_formulas(o)
        if derived:
            self.statics += pointwise_tables(o, type_code, self.use_rule)
        elif forgets_inputs(o):
            self.statics += zero_table(o)
        label = node_label(o, self.use_rule)
        named = f", {label}" if label else ""
        results = "  return std::move(outs[0]);" if nout == 1 else f"  return {{{', '.join(f'std::move(outs[{i}])' for i in range(nout))}}};"
        if like := (o.types or {}).get("like_self"):
            mask = sum(1 << dt.DTYPES.index(d) for d in like)
            results = f"  lay_out_like(self, {hex(mask)}u, outs, {nout});\n" + results
        record = []
        if derived:
            told = f"{{&{self.described_call(o, 'function')}, given}}"
            recorded = f"autograd::pointwise(gradient_{name}, op_{name}, outs, ins, params, {told}{named});"
            record = [f"    if (autograd::wanted(ins, {nin})) {{", *self.tangents(o), f"      {recorded}", f"    {results}", "    }"]
        elif "no_derivative" in o.tags:
            record = self.recording(o, "function")
        noticed = f"autograd::noticed(ins, {nin})"
        if o.parts is not None:
            asked = self.in_parts(o, noticed, record)
        else:
            first, take = self.handed_over(o, "function")
            asked = [f"  if ({noticed}) [[unlikely]] {{", first, *record, take, "  }"]
        self.lines += prologue + [f"  Tensor outs[{nout}];", *asked, f"  tocha::pointwise(op_{name}, outs, ins, params);", results, "}", ""]
        if "out" in o.variants:
            self.lines.append(f"void {name}_out({out_parameters(o)}) {{")
            self.lines += self.guard(o, "out")
            out_list = ", ".join(f"out{i}" for i in range(nout))
            exact = [line for i in range(nout) for line in out_dtype_check(o, i, f"result_dtype(op_{name}, ins, {i})")]
            exact = [f"  check_out_dtype(op_{name}, out0, ins);"] if "exact_out" in o.tags else exact
            self.lines += self.checks(o, "check_out") + prologue + exact + [f"  const Tensor outs[] = {{{out_list}}};", f"  pointwise_out(op_{name}, outs, ins, params, false);", "}", ""]
        if "inplace" in o.variants:
            self.lines.append(f"Tensor {name}_({parameters(o)}) {{")
            first = operands(o)[0].name
            prologue += self.checks(o, "check_inplace")
            record = []
            if "no_derivative" in o.tags:
                record = self.recording(o, "inplace")
            elif derived or forgets_inputs(o):
                told = f"{{&{self.described_call(o, 'inplace')}, given}}"
                recorded = f"autograd::pointwise_inplace(gradient_{name}, op_{name}, ins, params, {told}{named});"
                record = [f"    if (autograd::wanted(ins, {nin})) {{", *self.tangents(o), f"      {recorded}", f"      return {first};", "    }"]
            given, take = self.handed_over(o, "inplace")
            asked = [f"  if (autograd::noticed(ins, {nin})) [[unlikely]] {{", given, *record, take, "  }"]
            self.lines += prologue + [*asked, f"  pointwise_out(op_{name}, &{first}, ins, params, true);", f"  return {first};", "}", ""]

    def tangents(self, o: Operator) -> list[str]:
        """Refuses those of operands by which nobody knows the derivative."""
        if not o.underived:
            return []
        self.statics += [unknown(o)] if unknown(o) not in self.statics else []
        found = next(f for t in (dt.float32, dt.float64) if (f := formulas(o, t)) is not None)
        return [f"      autograd::refuse_tangents(unknown_{o.cpp_name}, ins + {i}, 1, Tensors());" for i, f in enumerate(found) if f is None]

    def sharing(self, o: Operator, target: str, allowed: str, first: int = 0) -> list[str]:
        """Refuses tensor arguments that share memory with the one that is written to."""
        kinds = ("Tensor", "Tensor?", "Tensor[]", "Tensor?[]", *(("Operand",) if allowed == "whole" else ()))
        named = [a.name for a in o.schema.arguments[first:] if a.type in kinds]
        return [f'  check_sharing("{o.name}", Sharing::{allowed}, {target}, {n});' for n in named]

    def out_sharing(self, o: Operator) -> list[str]:
        """What the record says of out=: `out_apart`, no argument may share memory with it; `out_whole`, not only some."""
        allowed = "none" if "out_apart" in o.tags else "whole" if "out_whole" in o.tags or self.elementwise(o) else ""
        return [line for i in range(len(o.schema.returns)) for line in self.sharing(o, f"out{i}", allowed)] if allowed else []

    def elementwise(self, o: Operator) -> bool:
        """A composite whose result comes from an elementwise operator; in place some of its cases may be copies and fills."""
        steps: list[Operator | None] = []
        if o.kind != "composite" or return_type(o) != "Tensor":
            return False

        def finish(value: Value, step: Operator | None, codes: list[str]) -> str:
            steps.append(step)
            return f"return {coerce(value, 'Tensor')};"

        self.translate(o, "Tensor", finish)
        found = [s is not None and (s.kind == "pointwise" or s is not o and self.elementwise(s)) for s in steps]
        return any(found) if "inplace" in o.variants else all(found)

    def checks(self, o: Operator, which: str) -> list[str]:
        """A record's own refusal of bad arguments, written in the subset."""
        check = (o.types or {}).get(which)
        if check is None:
            return []
        parameters_of = {"out0": "Tensor", **{a.name: a.type for a in o.schema.arguments}}
        t = Translator(check, {n: parameters_of[n] for n in check.__code__.co_varnames[: check.__code__.co_argcount]}, "none", self.use_rule)
        signature = t.signature()
        body = t.body()
        self.statics.append(f"static void {which}_{o.cpp_name}({signature}) {{\n" + "\n".join(body) + "\n}")
        return [f"  {which}_{o.cpp_name}({', '.join(n for n in t.types if n in t.parameters)});"]

    # -- reductions --------------------------------------------------------------------------------

    def reduction(self, o: Operator) -> None:
        name = o.cpp_name
        t0 = loop_dtypes(o)[0]
        f = fold_of(o, t0)
        extra = [a for a in params(o) if a.name not in ("dim", "keepdim", "dtype")]
        ps = list((o.types or {}).get("params", ("T",) * len(extra)))
        codes = ", ".join(type_code(c) for c in (*f.out_types, *f.state_types, *ps))
        nout, nstates = len(f.out_types), len(states(f, t0))
        self.statics.append(f"TOCHA_LOOPS(ReduceLoops, {name})")
        self.statics.append(f"static const TypeCode types_{name}[] = {{{codes}}};")
        self.statics += refusals(o)
        self.statics.append(
            f'static const ReductionOp op_{name} = {{"{messages_name(o)}", TOCHA_LOOPS_OF({name}), {nout}, {nstates}, {len(ps)}, '
            f"ReducePromote::{o.promote}, {str(f.identity).lower()}, {str(is_ordered(o)).lower()}, {mask_of(o.dtypes)}, types_{name}}};"
        )
        have = {a.name: a for a in o.schema.arguments}
        dims = "IntsView()"
        if "dim" in have:
            dims = {"int": "IntsView(&dim, 1)", "int[]": "dim", "int[]?": "dim ? IntsView(*dim) : IntsView()", "int?": "dim ? IntsView(&*dim, 1) : IntsView()"}[have["dim"].type]
        keepdim = "keepdim" if "keepdim" in have else "false"
        dtype = "dtype" if "dtype" in have else "std::nullopt"
        scalars = ", ".join(scalar_of(a) for a in extra)
        head = f"  const Scalar params[] = {{{scalars}}};" if scalars else "  const Scalar* params = nullptr;"
        call = f"self, {dims}, {keepdim}, {dtype}, params"
        self.lines += [f"{result_type(o)} {name}({parameters(o)}) {{", *self.guard(o, "function"), head, f"  Tensor outs[{nout}];", f"  tocha::reduction(op_{name}, outs, {call});"]
        self.lines += ["  return std::move(outs[0]);" if nout == 1 else f"  return {{{', '.join(f'std::move(outs[{i}])' for i in range(nout))}}};", "}", ""]
        if "out" in o.variants:
            out_list = ", ".join(f"out{i}" for i in range(nout))
            exact = [line for i in range(nout) for line in out_dtype_check(o, i, f"result_dtype(op_{name}, self, {dtype}, {i})")]
            self.lines += [f"void {name}_out({out_parameters(o)}) {{", *self.guard(o, "out"), head, *exact, f"  const Tensor outs[] = {{{out_list}}};", f"  reduction_out(op_{name}, outs, {call});", "}", ""]

    # -- lists ---------------------------------------------------------------------------------------

    def foreach(self, o: Operator) -> None:
        assert o.each is not None
        if o.each.kind == "pointwise":
            self.describe(o.each)
        guard = self.whole(o, "function") if not mutates(o) else []
        inplace = self.whole(o, "inplace") if mutates(o) or "inplace" in o.variants else []
        self.lines += Foreach(o, mutates(o), guard, inplace).definitions()

    # -- translated kinds --------------------------------------------------------------------------

    def translate(self, o: Operator, returns: str, finish: Callable | None = None) -> tuple[str, list[str]]:
        types = {a.name: "Tensor" if a.type == "Operand" else a.type for a in o.schema.arguments}
        t = Translator(o.body, types, returns, self.use_rule, finish)
        signature = t.signature()
        return signature, t.body()

    def view(self, o: Operator) -> None:
        many = return_type(o) == "Tensor[]"
        spec = "View[]" if many else "View"
        signature, body = self.translate(o, spec)
        self.statics.append(f"static {own_type(spec)} view_{o.cpp_name}({signature}) {{\n" + "\n".join(body) + "\n}")
        names = ", ".join(argument_names(o))
        make = "make_views" if many else "make_view"
        base = argument_names(o)[0]
        self.lines += [f"{result_type(o)} {o.cpp_name}({parameters(o)}) {{", *self.guard(o, "function"), f"  return {make}({base}, view_{o.cpp_name}({names}));", "}", ""]
        if "inplace" in o.variants:
            self.lines += [
                f"Tensor {o.cpp_name}_({parameters(o)}) {{",
                *self.guard(o, "inplace"),
                f"  change_geometry(self, view_{o.cpp_name}({names}));",
                "  return self;",
                "}",
                "",
            ]

    def composite(self, o: Operator) -> None:
        signature, body = self.translate(o, return_type(o))
        guard = self.constants(o) + (self.guard(o, "function") if o.gradients else self.autocast(o, signature)) + self.alert(o)
        if o.parts is not None and not o.gradients:
            tensors = ", ".join(a.name for a in o.schema.arguments if a.is_tensor)
            guard += self.in_parts(o, f"autograd::noticed({tensors})", [])
        if o.whole and not o.gradients:
            guard += self.whole(o, "function", names_in(signature))
        label = node_label(o, self.use_rule) or (f'"{o.node}"' if o.node else None)
        if label is None or o.gradients or not all(r.type in ("Tensor", "Tensor[]") for r in o.schema.returns):
            self.lines += [f"{result_type(o)} {o.cpp_name}({signature}) {{", *guard, *body, "}", ""]
        else:
            self.lines += [f"static {result_type(o)} unnamed_{o.cpp_name}({signature}) {{", *body, "}", ""]
            self.lines += [
                f"{result_type(o)} {o.cpp_name}({signature}) {{",
                *guard,
                "  const uint64_t first = autograd::next_sequence_number();",
                f"  {result_type(o)} out = unnamed_{o.cpp_name}({', '.join(names_in(signature))});",
                f"  if (autograd::recorded_since(out, first)) [[unlikely]] autograd::label(out, {label}, first);",
                "  return out;",
                "}",
                "",
            ]
        self.derived_variants(o)

    def derived_variants(self, o: Operator) -> None:
        """out= and in-place forms of operators that return fresh tensors."""
        names = ", ".join(argument_names(o))
        n = len(o.schema.returns)
        if "out" in o.variants:
            self.lines.append(f"void {o.cpp_name}_out({out_parameters(o)}) {{")
            self.lines += (self.guard(o, "out") if o.kind != "composite" or o.whole or o.gradients else self.recording(o, "out")) + self.out_sharing(o) + self.checks(o, "check_out")
            self.lines.append(f"  auto result = {o.cpp_name}({names});")
            if self.elementwise(o):
                given = [a.name for a in o.schema.arguments if a.type in ("Tensor", "Operand", "Tensor?")]
                self.lines += [f'  check_no_internal_overlap(out0, "{o.name}");', *(f'  check_operand_shape("{o.name}", out0, {g}, result);' for g in given)]
            for i in range(n):
                value = "result" if n == 1 else f"std::get<{i}>(result)"
                self.lines += out_dtype_check(o, i, f"{value}.dtype()")
                self.lines += kind_of_out(o, f"out{i}")
                self.lines += self.factory_out(o, f"out{i}", f"{value}.sizes()")
                self.lines.append(f'  copy_to_out(out{i}, {value}, "{o.name}");')
            self.lines += ["}", ""]
        if "inplace" in o.variants:
            first = o.schema.arguments[0].name
            checks, sharing = self.checks(o, "check_inplace"), self.sharing(o, first, "whole", 1) if self.elementwise(o) else []
            guard = [*(self.guard(o, "inplace") if self.node else self.overwriting(o, [*checks, *sharing])), *checks]
            if o.kind == "composite" and not self.node:
                guard += [*(self.whole(o, "inplace") if o.whole else []), *self.by_copy(o)]
            guard += sharing
            if o.kind == "composite" and not o.autocast:
                signature, body = self.straight_body(o)
                self.lines += [f"static Tensor straight_{o.cpp_name}({signature}) {{", *body, "}", ""]
                write = [f"  return straight_{o.cpp_name}({names});"]
            else:
                write = [f'  write_inplace({first}, {o.cpp_name}({names}), "{o.name}_");', f"  return {first};"]
            self.lines += [f"Tensor {o.cpp_name}_({parameters(o)}) {{", *guard, *write, "}", ""]

    def factory_out(self, o: Operator, out: str, sizes: str) -> list[str]:
        """Factories give out= their size without the usual warning."""
        if "factory" not in o.tags:
            return []
        told = [f"  warn_of_length({out}, {sizes});"] if "computed_length" in o.tags else []
        return [*told, f"  resize_for_factory({out}, {sizes});"]

    def straight_body(self, o: Operator) -> tuple[str, list[str]]:
        """A composite's body for the form in place: where its last step is elementwise, that writes into self."""
        first = o.schema.arguments[0].name
        label = f'"{o.name}_"'

        def finish(value: Value, step: Operator | None, codes: list[str]) -> str:
            plain = step is not None and step.kind == "pointwise" and len(step.schema.returns) == 1
            if step is None or not plain or step.autocast or "check" in (step.types or {}):
                return f"write_inplace({first}, {coerce(value, 'Tensor')}, {label}); return {first};"
            self.describe(step)
            given = dict(zip((a.name for a in step.schema.arguments), codes, strict=True))
            ins = ", ".join(given[a.name] for a in operands(step))
            scalars = ", ".join(given[a.name] if a.type == "Scalar" else f"Scalar({given[a.name]})" for a in params(step))
            values = f"const Scalar params[] = {{{scalars}}};" if scalars else "const Scalar* params = nullptr;"
            call = f"return pointwise_into(op_{step.cpp_name}, {first}, ins, params, {label});"
            return f"{{ const Tensor ins[] = {{{ins}}}; {values} {call} }}"

        return self.translate(o, "Tensor", finish)

    def overwriting(self, o: Operator, checks: list[str]) -> list[str]:
        """The in-place form of a composite when a gradient is wanted: its operators, on a copy of self, record themselves."""
        if o.kind != "composite" or "no_gradient" in o.tags:
            return []
        first, *rest = argument_names(o)
        tensors = ", ".join(a.name for a in o.schema.arguments if a.is_tensor)
        call = ", ".join([f"autograd::before_overwriting({first})", *rest])
        checks = [f'  autograd::check_writable({first}, "{o.name}_");', *checks] if checks else []
        record = [*map(str.strip, checks), f'return autograd::overwritten({first}, {o.cpp_name}({call}), "{o.name}_");']
        return [f"  if (autograd::wanted({tensors})) [[unlikely]] {{ {' '.join(record)} }}"]

    # -- native ------------------------------------------------------------------------------------

    def native(self, o: Operator) -> None:
        names = ", ".join(argument_names(o))
        if writes_lists(o):
            self.lines += [f"void {o.cpp_name}({parameters(o)}) {{", *self.asked(o, "inplace"), f"  native::{o.kernel}({names});", "}", ""]
            return
        if mutates(o):
            first = o.schema.arguments[0].name
            kernel = o.kernel if o.kernel.endswith("_") else o.kernel + "_"
            check = [*self.writable(o, o.name), *(self.sharing(o, first, "whole", 1) if "whole" in o.tags else [])]
            self.lines += [
                f"Tensor {o.cpp_name}({parameters(o)}) {{",
                *self.guard(o, "inplace"),
                *check,
                *self.within_reach(o, first),
                f"  {self.on_memory(o, first, kernel, names)}",
                *([] if "own_version" in o.tags else [f"  {first}.bump_version();"]),
                f"  return {first};",
                "}",
                "",
            ]
            return
        if "inplace_kernel" in o.tags:
            self.inplace_kernel(o)
            return
        if is_free(o):
            tensors = ", ".join(a.name for a in o.schema.arguments if a.is_tensor)
            guard = []
            if "any_device" not in o.tags and tensors:
                elsewhere = f"return {self.kernel_elsewhere(o, o.kernel, 'place', result_type(o), parameters(o), names)}"
                guard = [f'  const Device place = refuse_meta("{o.name}", {tensors});', f"  if (!place.is_cpu()) [[unlikely]] {elsewhere}"]
            self.lines += [f"{result_type(o)} {o.cpp_name}({parameters(o)}) {{", *self.guard(o, "function"), *guard, f"  return native::{o.kernel}({names});", "}", ""]
            if returns_tensors(o):
                self.derived_variants(o)
            return
        self.structured(o)

    def on_memory(self, o: Operator, tensor: str, kernel: str, names: str) -> str:
        """Calls a kernel that writes to a tensor. Kernels see meta tensors only if their record says that they can."""
        if "any_device" in o.tags:
            return f"native::{kernel}({names});"
        call = self.on_device(o, tensor, kernel, "void", parameters(o), names)
        return f'if (computes_into("{o.name}", {self.tensors_among(o, tensor)})) {{ {call} }}'

    def on_device(self, o: Operator, tensor: str, kernel: str, result: str, given: str, names: str) -> str:
        """The kernel of the device of `tensor`: the CPU's directly, another's from the table."""
        gate = "if (computes(out0)) " if tensor == "out0" else ""
        if "by_table" in o.tags:
            return f"{gate}native::{kernel}({names});"
        elsewhere = self.kernel_elsewhere(o, kernel, f"{tensor}.device()", result, given, names)
        return f"if ({tensor}.is_cpu()) [[likely]] native::{kernel}({names}); else {gate}{elsewhere}"

    def kernel_elsewhere(self, o: Operator, kernel: str, device: str, result: str, given: str, names: str) -> str:
        types = ", ".join(re.sub(r"\w+$", "", p).strip() for p in cut(given))
        return f'kernel_on<{result}({types})>("{o.name}", "{kernel}", {device})({names});'

    def tensors_among(self, o: Operator, written: str) -> str:
        """What is written, then the other tensors of a call that writes in place of its first argument."""
        return ", ".join([written, *(a.name for a in o.schema.arguments[1:] if a.is_tensor)])

    def within_reach(self, o: Operator, written: str) -> list[str]:
        """Kernels that see meta tensors are not handed a mix of devices either, unless they move between them."""
        if "any_device" not in o.tags or "across_devices" in o.tags:
            return []
        return [f'  computes_into("{o.name}", {self.tensors_among(o, written)});']

    def writable(self, o: Operator, name: str) -> list[str]:
        first = o.schema.arguments[0].name
        return [f"  check_not_inference({first});"] if "any_overlap" in o.tags else [f'  check_inplace({first}, "{name}");']

    def inplace_kernel(self, o: Operator) -> None:
        kernel = o.kernel if o.kernel.endswith("_") else o.kernel + "_"
        first, *rest = argument_names(o)
        others = "".join(", " + r for r in rest)
        self.lines += [
            f"Tensor {o.cpp_name}({parameters(o)}) {{",
            *self.guard(o, "function"),
            *self.alert(o),
            f"  Tensor result = {f'clone({first}, MemoryFormat::Contiguous)' if 'contiguous' in o.tags else f'clone_dense({first})'};",
            *self.within_reach(o, "result"),
            f"  {self.on_memory(o, 'result', kernel, 'result' + others)}",
            "  return result;",
            "}",
            "",
        ]
        if "inplace" in o.variants:
            self.lines += [
                f"Tensor {o.cpp_name}_({parameters(o)}) {{",
                *self.guard(o, "inplace"),
                *self.alert(o),
                *self.writable(o, f"{o.name}_"),
                *([] if "any_overlap" in o.tags else self.sharing(o, first, "none", 1)),
                *self.within_reach(o, first),
                f"  {self.on_memory(o, first, kernel, first + others)}",
                f"  {first}.bump_version();",
                f"  return {first};",
                "}",
                "",
            ]
        if "out" in o.variants:
            self.lines += [f"void {o.cpp_name}_out({out_parameters(o)}) {{", *self.guard(o, "out"), *out_dtype_check(o, 0, f"{first}.dtype()"), *self.sharing(o, "out0", "none", 1), f'  check_sharing("{o.name}", Sharing::whole, out0, {first});', f'  copy_to_out(out0, {o.cpp_name}({first}{others}), "{o.name}");', "}", ""]

    def structured(self, o: Operator) -> None:
        """Outputs are made by the shape rule, then the kernel fills them."""
        n = len(o.schema.returns)
        spec = "Out" if n == 1 else "(" + "|".join(["Out"] * n) + ")"
        signature, body = self.translate(o, spec)
        self.statics.append(f"static {own_type(spec)} shape_{o.cpp_name}({signature}) {{\n" + "\n".join(body) + "\n}")
        names = ", ".join(argument_names(o))
        tensors = [a.name for a in o.schema.arguments if a.is_tensor]
        device = f'common_device("{o.name}", {", ".join(tensors)})' if tensors else "Device{}"
        specs = ["spec"] if n == 1 else [f"std::get<{i}>(spec)" for i in range(n)]
        outs = ", ".join(f"out{i}" for i in range(n))
        kernel_arguments = f"{outs}{', ' + names if names else ''}"
        self.lines += [f"{result_type(o)} {o.cpp_name}({parameters(o)}) {{", *self.guard(o, "function"), f"  auto spec = shape_{o.cpp_name}({names});"]
        self.lines += [f"  const Device place = {device};"]
        self.lines += [f"  Tensor out{i} = make_out({s}, place);" for i, s in enumerate(specs)]
        self.lines += [f"  {self.on_device(o, 'out0', o.kernel, 'void', out_parameters(o), kernel_arguments)}"]
        self.lines += ["  return out0;" if n == 1 else f"  return {{{outs}}};", "}", ""]
        if "out" in o.variants:
            self.lines += [f"void {o.cpp_name}_out({out_parameters(o)}) {{", *self.guard(o, "out"), *self.out_sharing(o), *self.checks(o, "check_out"), f"  auto spec = shape_{o.cpp_name}({names});"]
            if tensors:
                self.lines += [f'  check_out_device("{o.name}", out{i}, {", ".join(tensors)});' for i in range(n)]
            tensors = [a.name for a in o.schema.arguments if a.type in ("Tensor", "Operand", "Tensor?")]
            lists = [a.name for a in o.schema.arguments if a.type in ("Tensor[]",)]
            for i, s in enumerate(specs):
                if "out_dtype" in o.tags:
                    given = "if (!dtype) " if any(a.name == "dtype" for a in o.schema.arguments) else ""
                    self.lines.append(f"  {given}{s}.dtype = out{i}.dtype();")
                self.lines += out_dtype_check(o, i, f"{s}.dtype")
                if "out_of_count" in o.tags:
                    self.lines.append(f"  if (out{i}.numel() == product({s}.sizes)) {s}.sizes = Ints(out{i}.sizes());")
                self.lines += self.factory_out(o, f"out{i}", f"{s}.sizes")
                if "given_out" in o.tags:
                    self.lines += given_out(o.name, f"out{i}", s)
                self.lines.append(f'  OutScope scope{i}(out{i}, {s}, "{o.name}");')
                self.lines += [f"  scope{i}.avoid({t});" for t in tensors + lists]
            scoped = ", ".join(f"scope{i}.target()" for i in range(n))
            scoped += ", " + names if names else ""
            self.lines += [f"  {self.on_device(o, 'out0', o.kernel, 'void', out_parameters(o), scoped)}"]
            self.lines += [f"  scope{i}.finish();" for i in range(n)] + ["}", ""]
        if "inplace" in o.variants:
            first = o.schema.arguments[0].name
            self.lines += [
                f"Tensor {o.cpp_name}_({parameters(o)}) {{",
                *self.guard(o, "inplace"),
                f'  write_inplace({first}, {o.cpp_name}({names}), "{o.name}_");',
                f"  return {first};",
                "}",
                "",
            ]


def out_dtype_check(o: Operator, i: int, result: str) -> list[str]:
    """Refuses an out= of another dtype than the result's, where the record says so: in its own words or in PyTorch's usual ones."""
    text = o.out_words(i)
    if text is None:
        return []
    said = {"result": result, "out": f"out{i}.dtype()", "c_result": f"c_name_of({result})", "c_out": f"c_name_of(out{i}.dtype())"}
    said |= {a.name: f'({a.name} ? "True" : "False")' for a in o.schema.arguments if a.type == "bool"}
    parts = [said[p] if k % 2 else f'"{p}"' for k, p in enumerate(re.split(r"\{(\w+)\}", f"[{o.name}] {text}")) if p]
    return [f"  TOCHA_CHECK(out{i}.dtype() == {result}, Runtime, {', '.join(parts)});"]


def kind_of_out(o: Operator, out: str) -> list[str]:
    """Checks that out= is complex, or floating point, where the record says so: the name it says it under, and the kind."""
    if "out_kind" not in (o.types or {}):
        return []
    said, kind = o.types["out_kind"]  # type: ignore[index]
    test = "is_complex" if kind == "complex" else "is_floating"
    return [f'  TOCHA_CHECK({out}.{test}(), Runtime, "[{o.name}] {said} expects a {kind} output tensor, but got ", {out}.dtype());']


def given_out(name: str, out: str, spec: str) -> list[str]:
    """Checks that out= already is what the shape rule says: results are not resized to fit."""
    return [
        f"  for (size_t d = 0; d < {spec}.sizes.size(); ++d) {{",
        f'    TOCHA_CHECK(static_cast<int64_t>(d) < {out}.dim(), Index, "[{name}] Dimension out of range: result has ", {out}.dim(), " dims of ", {spec}.sizes.size());',
        f'    TOCHA_CHECK({out}.sizes()[d] == {spec}.sizes[d], Runtime, "[{name}] Expected result.size(", d, ") to be ", {spec}.sizes[d], " but got ", {out}.sizes()[d]);',
        "  }",
        f'  TOCHA_CHECK({out}.dim() == static_cast<int64_t>({spec}.sizes.size()), Runtime, "[{name}] Expected result to be of dimension ", {spec}.sizes.size(), " but got ", {out}.dim());',
        f'  TOCHA_CHECK({out}.is_contiguous(), Runtime, "[{name}] Expected result to be contiguous, got strides ", {out}.strides());',
    ]


class Rules:
    """Helper rules that translated bodies call, translated once each."""

    def __init__(self) -> None:
        self.waiting: list[Callable] = []
        self.known: dict[str, Callable] = {}
        self.declarations: list[str] = []
        self.definitions: list[str] = []

    def use(self, f: Callable) -> None:
        if f.__name__ in self.known:
            if self.known[f.__name__] is not f:
                raise ValueError(f"two rules are called {f.__name__}")
            return
        self.known[f.__name__] = f
        self.waiting.append(f)

    def finish(self) -> None:
        while self.waiting:
            f = self.waiting.pop()
            hints = annotations_of(f)
            returns = hints.pop("return")
            t = Translator(f, hints, returns, self.use)
            signature = t.signature()
            head = f"{'void' if returns == 'none' else own_type(returns)} {f.__name__}({signature})"
            self.declarations.append(head + ";")
            self.definitions.append(head + " {\n" + "\n".join(t.body()) + "\n}\n")


def generate() -> dict[str, str]:
    rules = Rules()
    families: dict[str, Family] = {}
    declared: dict[str, list[str]] = defaultdict(list)
    for o in operators():
        family = families.setdefault(o.module, Family(o.module, rules.use))
        family.add(o)
        declared[o.module] += declarations(o)
    rules.finish()
    head = "// Generated from tocha/operators; do not edit.\n#pragma once\n"
    files = {f"ops_{m}.cpp": f.text() for m, f in families.items()}

    def header(namespace: str, lines: list[str]) -> str:
        space = f"namespace tocha::{namespace}"
        return f'{head}\n#include "dispatch/op_types.h"\n\n{space} {{\n\n' + "\n".join(dict.fromkeys(lines)) + f"\n\n}}  // {space}\n"

    for m, family in families.items():
        files[f"ops/{m}.h"] = header("ops", declared[m])
        if family.kernels:  # written by hand under csrc
            files[f"kernels/{m}.h"] = header("native", family.kernels)
    files["rules_generated.h"] = head + '\n#include "dispatch/rules.h"\n\nnamespace tocha::rules {\n\n' + "\n".join(rules.declarations) + "\n\n}\n"
    body = "\n".join(rules.definitions)
    files["rules_generated.cpp"] = (
        '// Generated; do not edit.\n#include "rules_generated.h"\n#include "autograd/mode.h"\n' + includes(body) + "\nnamespace tocha::rules {\n\n" + body + "\n}\n"
    )
    files["kernel_words.cpp"] = words_table()
    return files


__all__ = ["declarations", "default_cpp", "generate", "parameter_type"]
