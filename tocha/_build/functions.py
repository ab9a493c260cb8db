"""C++ functions for the operators: typed, one per overload and variant, in namespace tocha::ops.

Pointwise operators and reductions become a static table entry and a call of the engine; views, composites
and shape rules are translated from the record's Python.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from functools import cache

from tocha._build.foreach import Foreach
from tocha._build.gradients import GradientNode, has_formulas, lacks_gradient, node_for, node_label, node_name, pointwise_tables
from tocha._build.kernels import fold_of, is_ordered, loop_dtypes, operands, params, states, type_codes
from tocha.codegen.native import Translator
from tocha.codegen.native_types import Value, annotations_of, coerce, cpp_string, default_cpp, own_type, parameter_type, return_type
from tocha.ir import dtypes as dt
from tocha.operators.record import Operator, operators

CPP_ENUM = {
    "bool": "Bool", "uint8": "UInt8", "int8": "Int8", "int16": "Int16", "int32": "Int32", "int64": "Int64",
    "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64", "float16": "Float16", "bfloat16": "BFloat16",
    "float32": "Float32", "float64": "Float64", "complex64": "Complex64", "complex128": "Complex128",
    "float8_e4m3fn": "Float8_e4m3fn", "float8_e5m2": "Float8_e5m2",
}  # fmt: skip
SOURCE = """// Generated from tocha/operators/{module}.py; do not edit.
#include "autograd/record.h"
#include "dispatch/autocast.h"
#include "dispatch/native.h"
{includes}#include "rules_generated.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

namespace tocha {{
"""


def result_type(o: Operator) -> str:
    t = return_type(o)
    return "void" if t == "none" else own_type(t)


def parameters(o: Operator) -> str:
    return ", ".join(f"{a.cpp_parameter} {a.name}" for a in o.schema.arguments)


def argument_names(o: Operator) -> list[str]:
    return [a.name for a in o.schema.arguments]


def mutates(o: Operator) -> bool:
    """An operator that exists only in place: uniform_, copy_."""
    return o.name.endswith("_")


def returns_tensors(o: Operator) -> bool:
    return bool(o.schema.returns) and all(r.type == "Tensor" for r in o.schema.returns)


def out_parameters(o: Operator) -> str:
    outs = ", ".join(f"const Tensor& out{i}" for i in range(len(o.schema.returns)))
    rest = parameters(o)
    return f"{outs}, {rest}" if rest else outs


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
    speaks = '#include "core/dtype_messages.h"\n' if re.search(r"\b(RefusalEntry|c_name_of)\b", text) else ""
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
    if code == "T":
        return "{TypeCode::T, DType::Undefined}"
    if code == "real":
        return "{TypeCode::real_of_T, DType::Undefined}"
    if code == "complex":
        return "{TypeCode::complex_of_T, DType::Undefined}"
    if code == "wide":
        return "{TypeCode::wide_T, DType::Undefined}"
    assert isinstance(code, dt.DType)
    return f"{{TypeCode::fixed, DType::{CPP_ENUM[code.name]}}}"


def mask_of(dtypes: tuple) -> str:
    order = {d: i for i, d in enumerate(dt.DTYPES)}
    return hex(sum(1 << order[d] for d in dtypes)) + "u"


def scalar_of(a) -> str:
    """An argument as a Scalar parameter of a loop."""
    return a.name if a.type == "Scalar" else f"Scalar({a.name})"


def names_in(signature: str) -> list[str]:
    """The names of a C++ function's parameters."""
    return re.findall(r"(\w+)(?:,|$)", signature)


def refusals(o: Operator) -> list[str]:
    """The record's own words for dtypes it does not take, entered into the table that failing calls look at."""
    said = (o.types or {}).get("refused", {})
    return [
        f"static const RefusalEntry refusal_{o.cpp_name}_{i}({{{cpp_string(messages_name(o))}, {mask_of(d)}, "
        f"{str(isinstance(e, NotImplementedError)).lower()}, {cpp_string(str(e))}}});"
        for i, (d, e) in enumerate(said.items())
    ]


def messages_name(o: Operator) -> str:
    return o.public_name.lstrip("_")


def pointwise_op(o: Operator) -> list[str]:
    """What a pointwise operator is, as data: the static op_NAME."""
    outs, ins, ps = type_codes(o)
    codes = ", ".join(type_code(c) for c in (*outs, *ins, *ps))
    return [
        f"TOCHA_LOOPS(Loop, {o.cpp_name})",
        f"static const TypeCode types_{o.cpp_name}[] = {{{codes}}};",
        f'static const PointwiseOp op_{o.cpp_name} = {{"{messages_name(o)}", TOCHA_LOOPS_OF({o.cpp_name}), {len(outs)}, {len(ins)}, {len(ps)}, '
        f"Promote::{o.promote}, {str(o.expensive).lower()}, {mask_of(o.dtypes)}, types_{o.cpp_name}}};",
    ]


class Family:
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
        if "foreach::" in body:
            kernels += '#include "dispatch/foreach.h"\n'
        out = SOURCE.format(module=self.module, includes=kernels + includes(body + "".join(self.statics)))
        return out + "\n".join(self.statics) + "\n\nnamespace ops {\n\n" + body + "\n\n}  // namespace ops\n}  // namespace tocha\n"

    def add(self, o: Operator) -> None:
        self.kernels += kernel_declarations(o)
        self.node = node_for(o, self.use_rule)
        if self.node is not None:
            self.statics += self.node.definition()
            self.nodes(o, self.node)
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
        """The first statement of an operator: goes the recording way when a gradient is wanted."""
        tensors = ", ".join(a.name for a in o.schema.arguments if a.is_tensor)
        if not tensors:
            return []
        if form == "function":
            return [*self.autocast(o), *self.recording(o, form)]
        return self.recording(o, form)

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
            hidden = f" || autograd::hides_base({o.schema.arguments[0].name})" if form == "inplace" else ""
            return [f"  if (autograd::wanted({wanted}){hidden}) [[unlikely]] return record_{target}({names});"]
        if form == "inplace" and "no_gradient" not in o.tags and o.kind != "composite":
            return [f'  if (autograd::wanted({tensors})) [[unlikely]] autograd::refuse_inplace({o.schema.arguments[0].name}, "{o.name}");']
        if lacks_gradient(o) and form == "function":
            single = ", ".join(a.name for a in o.schema.arguments if a.type in ("Tensor", "Operand", "Tensor?"))
            lists = [a.name for a in o.schema.arguments if a.type in ("Tensor[]", "Tensor?[]")]
            count = len(o.schema.returns)
            listed = o.schema.returns[0].type == "Tensor[]"
            outs = "out.data(), static_cast<int>(out.size())" if listed else "outs, " + str(count)
            unpack = [] if listed else [f"    const Tensor outs[] = {{{'out' if count == 1 else ', '.join(f'std::get<{i}>(out)' for i in range(count))}}};"]
            return [
                f"  if (autograd::wanted({tensors})) [[unlikely]] {{",
                f"    auto out = [&] {{ autograd::Unrecorded off; return {o.cpp_name}({names}); }}();",
                *unpack,
                f"    const Tensor ins[] = {{{single or 'Tensor()'}}};",
                f'    autograd::record_unknown("{o.name}", "{node_name(o)}", ins, {len(single.split(",")) if single else 0}, {lists[0] if lists else "Tensors()"}, {outs});',
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
        formulas = has_formulas(o)
        if formulas:
            self.statics += pointwise_tables(o, type_code)
        label = node_label(o, self.use_rule)
        record = []
        if formulas:
            named = f", {label}" if label else ""
            record = [f"  if (autograd::wanted(ins, {nin})) [[unlikely]]", f"    autograd::pointwise(gradient_{name}, op_{name}, outs, ins, params{named});", "  else"]
        self.lines += prologue + [f"  Tensor outs[{nout}];", *record, f"  tocha::pointwise(op_{name}, outs, ins, params);"]
        if nout == 1:
            self.lines += ["  return std::move(outs[0]);", "}", ""]
        else:
            self.lines += [f"  return {{{', '.join(f'std::move(outs[{i}])' for i in range(nout))}}};", "}", ""]
        if "out" in o.variants:
            self.lines.append(f"void {name}_out({out_parameters(o)}) {{")
            self.lines += self.guard(o, "out")
            out_list = ", ".join(f"out{i}" for i in range(nout))
            exact = [f"  check_out_dtype(op_{name}, out0, ins);"] if "exact_out" in o.tags else []
            self.lines += prologue + exact + [f"  const Tensor outs[] = {{{out_list}}};", f"  pointwise_out(op_{name}, outs, ins, params, false);", "}", ""]
        if "inplace" in o.variants:
            self.lines.append(f"Tensor {name}_({parameters(o)}) {{")
            first = operands(o)[0].name
            prologue += self.checks(o, "check_inplace")
            record = []
            if formulas:
                record = [f"  if (autograd::wanted(ins, {nin}) || autograd::hides_base({first})) [[unlikely]]", f"    autograd::pointwise_inplace(gradient_{name}, op_{name}, ins, params{named});", "  else"]
            self.lines += prologue + [*record, f"  pointwise_out(op_{name}, &{first}, ins, params, true);", f"  return {first};", "}", ""]

    def checks(self, o: Operator, which: str) -> list[str]:
        """A record's own refusal of bad arguments, written in the subset."""
        check = (o.types or {}).get(which)
        if check is None:
            return []
        parameters_of = {a.name: a.type for a in o.schema.arguments}
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
            self.lines += [f"void {name}_out({out_parameters(o)}) {{", *self.guard(o, "out"), head, f"  const Tensor outs[] = {{{out_list}}};", f"  reduction_out(op_{name}, outs, {call});", "}", ""]

    # -- lists ---------------------------------------------------------------------------------------

    def foreach(self, o: Operator) -> None:
        assert o.each is not None
        if o.each.kind == "pointwise":
            self.describe(o.each)
        self.lines += Foreach(o, mutates(o)).definitions()

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
                "  check_not_inference(self);",
                f"  ViewSpec v = view_{o.cpp_name}({names});",
                "  set_sizes_and_strides(self, v.sizes, v.strides, v.offset);",
                "  self.bump_version();",
                "  return self;",
                "}",
                "",
            ]

    def composite(self, o: Operator) -> None:
        signature, body = self.translate(o, return_type(o))
        guard = self.constants(o) + (self.guard(o, "function") if o.gradients else self.autocast(o, signature))
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
            self.lines += self.guard(o, "out")
            self.lines.append(f"  auto result = {o.cpp_name}({names});")
            for i in range(n):
                value = "result" if n == 1 else f"std::get<{i}>(result)"
                if "exact_out" in o.tags:
                    self.lines.append(
                        f'  TOCHA_CHECK(out{i}.dtype() == {value}.dtype(), Runtime, "[{o.name}] Expected out tensor to have dtype ", '
                        f'{value}.dtype(), ", but got ", out{i}.dtype(), " instead");'
                    )
                self.lines.append(f'  copy_to_out(out{i}, {value}, "{o.name}");')
            self.lines += ["}", ""]
        if "inplace" in o.variants:
            first = o.schema.arguments[0].name
            guard = [*(self.guard(o, "inplace") if self.node else self.overwriting(o)), *self.checks(o, "check_inplace")]
            straight = o.kind == "composite" and not o.autocast
            if straight:
                signature, body = self.straight_body(o)
                self.lines += [f"static Tensor straight_{o.cpp_name}({signature}) {{", *body, "}", ""]
                write = [f"  return straight_{o.cpp_name}({names});"]
            else:
                write = [f'  write_inplace({first}, {o.cpp_name}({names}), "{o.name}_");', f"  return {first};"]
            self.lines += [f"Tensor {o.cpp_name}_({parameters(o)}) {{", *guard, *write, "}", ""]

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

    def overwriting(self, o: Operator) -> list[str]:
        """The in-place form of a composite when a gradient is wanted: its operators record themselves."""
        if o.kind != "composite" or "no_gradient" in o.tags:
            return []
        first, *rest = argument_names(o)
        tensors = ", ".join(a.name for a in o.schema.arguments if a.is_tensor)
        call = ", ".join([f"autograd::before_overwriting({first})", *rest])
        return [f'  if (autograd::wanted({tensors})) [[unlikely]] return autograd::overwritten({first}, {o.cpp_name}({call}), "{o.name}_");']

    # -- native ------------------------------------------------------------------------------------

    def native(self, o: Operator) -> None:
        names = ", ".join(argument_names(o))
        if writes_lists(o):
            self.lines += [f"void {o.cpp_name}({parameters(o)}) {{", f"  native::{o.kernel}({names});", "}", ""]
            return
        if mutates(o):
            first = o.schema.arguments[0].name
            kernel = o.kernel if o.kernel.endswith("_") else o.kernel + "_"
            check = [f"  check_not_inference({first});"] if "any_overlap" in o.tags else [f'  check_inplace({first}, "{o.name}");']
            self.lines += [
                f"Tensor {o.cpp_name}({parameters(o)}) {{",
                *self.guard(o, "inplace"),
                *check,
                f"  {self.on_memory(o, first)}native::{kernel}({names});",
                f"  {first}.bump_version();",
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
            guard = [] if "any_device" in o.tags else [f'  refuse_meta("{o.name}", {tensors});']
            self.lines += [f"{result_type(o)} {o.cpp_name}({parameters(o)}) {{", *self.guard(o, "function"), *guard, f"  return native::{o.kernel}({names});", "}", ""]
            if returns_tensors(o):
                self.derived_variants(o)
            return
        self.structured(o)

    def on_memory(self, o: Operator, tensor: str) -> str:
        """Kernels see meta tensors only if their record says that they can."""
        return "" if "any_device" in o.tags else f"if (computes({tensor})) "

    def inplace_kernel(self, o: Operator) -> None:
        kernel = o.kernel if o.kernel.endswith("_") else o.kernel + "_"
        first, *rest = argument_names(o)
        others = "".join(", " + r for r in rest)
        self.lines += [
            f"Tensor {o.cpp_name}({parameters(o)}) {{",
            *self.guard(o, "function"),
            f"  Tensor result = clone_dense({first});",
            f"  {self.on_memory(o, 'result')}native::{kernel}(result{others});",
            "  return result;",
            "}",
            "",
        ]
        if "inplace" in o.variants:
            self.lines += [
                f"Tensor {o.cpp_name}_({parameters(o)}) {{",
                *self.guard(o, "inplace"),
                f'  check_inplace({first}, "{o.name}_");',
                f"  {self.on_memory(o, first)}native::{kernel}({first}{others});",
                f"  {first}.bump_version();",
                f"  return {first};",
                "}",
                "",
            ]
        if "out" in o.variants:
            self.lines += [f"void {o.cpp_name}_out({out_parameters(o)}) {{", *self.guard(o, "out"), f'  copy_to_out(out0, {o.cpp_name}({first}{others}), "{o.name}");', "}", ""]

    def structured(self, o: Operator) -> None:
        """Outputs are made by the shape rule, then the kernel fills them."""
        n = len(o.schema.returns)
        spec = "Out" if n == 1 else "(" + "|".join(["Out"] * n) + ")"
        signature, body = self.translate(o, spec)
        self.statics.append(f"static {own_type(spec)} shape_{o.cpp_name}({signature}) {{\n" + "\n".join(body) + "\n}")
        names = ", ".join(argument_names(o))
        tensors = [a.name for a in o.schema.arguments if a.is_tensor]
        model = f"model_of({', '.join(tensors)})" if tensors else "Tensor()"
        specs = ["spec"] if n == 1 else [f"std::get<{i}>(spec)" for i in range(n)]
        outs = ", ".join(f"out{i}" for i in range(n))
        call = f"native::{o.kernel}({outs}{', ' + names if names else ''})"
        self.lines += [f"{result_type(o)} {o.cpp_name}({parameters(o)}) {{", *self.guard(o, "function"), f"  auto spec = shape_{o.cpp_name}({names});"]
        self.lines += [f"  Tensor out{i} = make_out({s}, {model});" for i, s in enumerate(specs)]
        self.lines += [f"  if (computes(out0)) {call};"]
        self.lines += ["  return out0;" if n == 1 else f"  return {{{outs}}};", "}", ""]
        if "out" in o.variants:
            self.lines += [f"void {o.cpp_name}_out({out_parameters(o)}) {{", *self.guard(o, "out"), f"  auto spec = shape_{o.cpp_name}({names});"]
            tensors = [a.name for a in o.schema.arguments if a.type in ("Tensor", "Operand", "Tensor?")]
            lists = [a.name for a in o.schema.arguments if a.type in ("Tensor[]",)]
            for i, s in enumerate(specs):
                if "out_dtype" in o.tags:
                    given = "if (!dtype) " if any(a.name == "dtype" for a in o.schema.arguments) else ""
                    self.lines.append(f"  {given}{s}.dtype = out{i}.dtype();")
                if "exact_out" in o.tags:
                    self.lines.append(f'  TOCHA_CHECK(out{i}.dtype() == {s}.dtype, Runtime, "[{o.name}] {o.name} expects ", {s}.dtype, " tensor out, got: ", out{i}.dtype());')
                self.lines.append(f'  OutScope scope{i}(out{i}, {s}, "{o.name}");')
                self.lines += [f"  scope{i}.avoid({t});" for t in tensors + lists]
            scoped = ", ".join(f"scope{i}.target()" for i in range(n))
            self.lines += [f"  if (computes(out0)) native::{o.kernel}({scoped}{', ' + names if names else ''});"]
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
        '// Generated; do not edit.\n#include "rules_generated.h"\n' + includes(body) + "\nnamespace tocha::rules {\n\n" + body + "\n}\n"
    )
    return files


__all__ = ["declarations", "default_cpp", "generate", "parameter_type"]
