"""Python bindings: parameter tables, unpacking functions, and the method tables of the module and the Tensor class."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from tocha._build.functions import includes, mutates, returns_tensors
from tocha.codegen.translator_types import cpp_string, default_cpp
from tocha.operators.record import COMMUTATIVE, Operator, operators
from tocha.operators.schema import Argument

ARG_TYPES = {
    "Tensor": "Tensor", "Operand": "Operand", "Tensor?": "OptTensor", "Tensor[]": "Tensors", "Tensor?[]": "OptTensors",
    "Scalar": "Scalar", "Scalar?": "OptScalar", "Scalar[]": "Scalars", "int": "Int", "int?": "OptInt", "int[]": "Ints",
    "int[]?": "OptInts", "float": "Float", "float?": "OptFloat", "float[]?": "OptFloats", "bool": "Bool", "bool?": "OptBool",
    "bool[]": "Bools", "str": "Str", "str?": "OptStr", "dtype": "DType", "dtype?": "OptDType", "device": "Device",
    "device?": "OptDevice", "layout?": "OptLayout", "memory_format?": "OptMemoryFormat", "Generator?": "OptGenerator",
    "Storage": "Storage",
}  # fmt: skip
UNPACK = {
    "Tensor": "as_tensor({0})", "Operand": "as_operand({0})", "Tensor?": "as_opt_tensor({0})", "Tensor[]": "as_tensors({0})",
    "Tensor?[]": "as_tensors({0})", "Scalar": "as_scalar({0})", "Scalar?": "optional({0}, as_scalar)", "Scalar[]": "as_scalars({0})",
    "int": "as_int({0})", "int?": "optional({0}, as_int)", "int[]": "as_ints({0}, {size})",
    "int[]?": "optional({0}, [](PyObject* o) {{ return as_ints(o, {size}); }})", "float": "as_double({0})",
    "float?": "optional({0}, as_double)", "float[]?": "optional({0}, as_doubles)", "bool": "as_bool({0})",
    "bool?": "optional({0}, as_bool)", "bool[]": "as_bools({0})", "str": "as_str({0})", "str?": "optional({0}, as_str)",
    "dtype": "as_dtype({0})", "dtype?": "optional({0}, as_dtype)", "device": "as_device({0})", "device?": "optional({0}, as_device)",
    "layout?": "({0} != Py_None)", "memory_format?": "optional({0}, as_memory_format)", "Generator?": "as_generator({0})",
    "Storage": "as_given_storage({0})",
}  # fmt: skip
SHOWN = {
    "Operand": "Tensor or Number", "Tensor?": "Tensor", "Tensor[]": "tuple of Tensors", "Scalar": "Number", "Scalar?": "Number",
    "int?": "int", "int[]": "tuple of ints", "int[]?": "tuple of ints", "float?": "float", "bool?": "bool", "str?": "str",
    "dtype": "tocha.dtype", "dtype?": "tocha.dtype", "device?": "tocha.device", "layout?": "tocha.layout",
    "memory_format?": "tocha.memory_format", "Generator?": "tocha.Generator", "Storage": "tocha.Storage",
}  # fmt: skip
SLOTS = {
    "__add__": "nb_add", "__sub__": "nb_subtract", "__mul__": "nb_multiply", "__truediv__": "nb_true_divide",
    "__floordiv__": "nb_floor_divide", "__mod__": "nb_remainder", "__matmul__": "nb_matrix_multiply", "__and__": "nb_and",
    "__or__": "nb_or", "__xor__": "nb_xor", "__lshift__": "nb_lshift", "__rshift__": "nb_rshift", "__neg__": "nb_negative",
    "__pos__": "nb_positive", "__abs__": "nb_absolute",
}  # fmt: skip
UNARY = ("__neg__", "__pos__", "__invert__", "__abs__")
# Operators that overrides get under their own names; of the others they get the method (x + y is Tensor.add).
OWN_NAMES = ("__floordiv__", "__and__", "__or__", "__xor__", "__lshift__", "__rshift__", "__eq__")
COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")


# What every factory takes besides its schema; csrc/python/parser.cpp applies them to the result.
FACTORY_PARAMS = (
    ("layout", "OptLayout", "tocha.layout", "None"),
    ("pin_memory", "OptBool", "bool", "False"),
    ("requires_grad", "Bool", "bool", "False"),
)


def is_factory(o: Operator, form: str) -> bool:
    return "factory" in o.tags and form in ("function", "method")


@dataclass
class Entry:
    """One Python callable: a function, method, in-place method or property with its overloads."""

    name: str
    form: str  # function, method, inplace, property
    namespace: str = ""
    overloads: list[Operator] = field(default_factory=list)

    @property
    def identifier(self) -> str:
        where = self.namespace or ("tensor" if self.form != "function" else "root")
        return f"{where}_{self.form}_{self.name}"

    @property
    def qualified(self) -> str:
        if self.form == "property":  # overrides get the property's getter
            return f"Tensor.{self.name}.__get__"
        if not self.form.startswith("function"):
            return f"Tensor.{self.name}"
        prefix = {"": "", "nn": "nn.functional."}.get(self.namespace, self.namespace + ".")
        return prefix + self.name


def entries() -> list[Entry]:
    table: dict[tuple[str, str, str], Entry] = {}

    def add(o: Operator, name: str, form: str, namespace: str = "") -> None:
        key = (namespace, form if form != "inplace" else "method", name)
        table.setdefault(key, Entry(name, form, namespace)).overloads.append(o)

    for o in operators():
        for name in (o.public_name, *o.aliases):
            if "." in name:  # special.expit: the function in another namespace
                namespace, _, function = name.partition(".")
                add(o, function, "function", namespace)
                continue
            if "function" in o.variants:
                add(o, name, "function", o.namespace)
                if "inplace" in o.variants and "inplace_method" not in o.variants:
                    add(o, name + "_", "function_inplace", o.namespace)
            method = o.name if name == o.public_name else name
            if "method" in o.variants:
                add(o, method, "method")
                if "inplace" in o.variants:
                    add(o, method + "_", "inplace")
            if "property" in o.variants:
                add(o, method, "property")
    return list(table.values())


def form_name(o: Operator, form: str) -> str:
    """What a form of a record is called where records are looked up: sum.dim, add_."""
    return f"{o.name}_.{o.schema.overload}".rstrip(".") if "inplace" in form else o.full_name


def python_name(a: Argument, index: int, form: str) -> str:
    renamed = a.name == "self" and index == 0 and a.type != "Tensor[]" and form.startswith("function")
    return "input" if renamed else a.name


def is_varargs(o: Operator, form: str) -> bool:
    """x.view(2, 3): the only positional argument besides self is a list of ints."""
    positional = [a for a in o.schema.arguments if not a.keyword_only]
    first = 1 if positional and positional[0].name == "self" else 0
    rest = positional[first:]
    if first and form.startswith("function"):
        return False
    return len(rest) == 1 and rest[0].type in ("int[]", "int[]?") and (rest[0].size is None)


def signature_text(o: Operator, form: str) -> str:
    parts, star = [], False
    for i, a in enumerate(o.schema.arguments):
        if i == 0 and not form.startswith("function"):
            continue
        if a.keyword_only and not star:
            parts.append("*")
            star = True
        default = "" if a.default is None else f" = {a.default}"
        parts.append(f"{SHOWN.get(a.type, a.type)} {python_name(a, i, form)}{default}")
    if is_factory(o, form):
        parts += ([] if star else ["*"]) + [f"{shown} {name} = {default}" for name, _, shown, default in FACTORY_PARAMS]
        star = True
    if form == "function" and "out" in o.variants:
        if not star:
            parts.append("*")
        parts.append("Tensor out = None" if len(o.schema.returns) == 1 else "tuple of Tensors out = None")
    return "(" + ", ".join(parts) + ")"


def unpack(a: Argument, slot: str) -> str:
    code = UNPACK[a.type].format(slot, size=a.size or 0)
    if a.default is None:
        return code
    default = default_cpp(a)
    own = a.cpp_type
    if a.type in ("int", "float", "bool"):
        return f"({slot} ? {code} : {default})"
    return f"({slot} ? {own}({code}) : {own}({default}))"


def wrap_result(o: Operator, call: str) -> list[str]:
    n = len(o.schema.returns)
    if n == 0:
        return [f"  {call};", f"  return Py_NewRef({'a[0]' if o.kind == 'foreach' else 'Py_None'});"]
    if n == 1:
        return [f"  return wrap({call});"]
    lines = [f"  auto r = {call};"]
    items = ", ".join(f"wrap(std::move(std::get<{i}>(r)))" for i in range(n))
    named = f"fields_{o.name}" if all(r.name for r in o.schema.returns) else "nullptr"
    return [*lines, f"  return wrap_fields({named}, {{{items}}});"]


def older_orders(o: Operator, form: str) -> list[list[Argument]]:
    """Positional forms from before numbers had to be named: add(self, alpha, other), addmm(beta, self, alpha, mat1, mat2)."""
    if "numbers_first" not in o.tags or form == "property":
        return []
    first, *tensors = [a for a in o.schema.arguments if not a.keyword_only]
    numbers = [a for a in o.schema.arguments if a.keyword_only]
    if len(numbers) == 1:
        return [[first, *numbers, *tensors]]
    beta, alpha = numbers
    lead = [beta, first] if form.startswith("function") else [first, beta]
    return [[*lead, alpha, *tensors], [*lead, *tensors]]


def older_text(o: Operator, form: str, order: list[Argument]) -> str:
    """How such a form is shown."""
    first = o.schema.arguments[0]
    shown = [a for a in order if a is not first or form.startswith("function")]
    parts = [f"{SHOWN.get(a.type, a.type)} {'input' if a is first else a.name}" for a in shown]
    if form == "function" and "out" in o.variants:
        parts += ["*", "Tensor out = None"]
    return "(" + ", ".join(parts) + ")"


def call_function(o: Operator, form: str, order: list[Argument] | None = None, warning: str = "") -> tuple[str, str]:
    """The name and text of the function that unpacks slots, which come in `order`, and calls the operator."""
    has_out = form == "function" and "out" in o.variants
    suffix = {"function": "_fn" if has_out else "", "inplace": "_in", "function_inplace": "_in"}.get(form, "")
    name = f"call_{o.cpp_name}{suffix}" + (f"_{form}_{'_'.join(a.name for a in order)}" if order else "")
    slots = {a.name: f"a[{i}]" for i, a in enumerate(order or o.schema.arguments)}
    args = [unpack(a, slots[a.name]) if a.name in slots else default_cpp(a) for a in o.schema.arguments]
    joined = ", ".join(args)
    lines = [f"PyObject* {name}(PyObject* const* a) {{"]
    if warning:
        lines.append(f"  warn_once({cpp_string(warning)});")
    if not o.schema.arguments:
        lines.append("  (void)a;")
    factory = is_factory(o, form)
    extra = f"a + {len(args)}"
    if factory:
        names = [*(a.name for a in o.schema.arguments), *(p[0] for p in FACTORY_PARAMS)]
        listed = ", ".join(cpp_string(n) for n in names)
        lines.append(f"  if (wants_other_layout({extra})) [[unlikely]] return make_in_layout({cpp_string(o.name)}, {{{listed}}}, a);")
    if has_out:
        k = len(slots) + (len(FACTORY_PARAMS) if factory else 0)
        n = len(o.schema.returns)
        lines.append(f"  if (a[{k}] && a[{k}] != Py_None) {{")
        if n == 1:
            given = out_arguments(o, args) if factory else joined
            lines.append(f"    Tensor out = as_tensor(a[{k}]);")
            lines.append(f"    ops::{o.cpp_name}_out(out, {given});" if given else f"    ops::{o.cpp_name}_out(out);")
            lines.append(f"    return wrap(finish_factory(std::move(out), {extra}));" if factory else "    return wrap(std::move(out));")
        else:
            lines.append(f"    Tensors outs = as_tensors(a[{k}]);")
            lines.append(f'    TOCHA_CHECK(outs.size() == {n}, Type, "[{o.name}] expected tuple of {n} elements but got ", outs.size(), " for out");')
            outs = ", ".join(f"outs[{i}]" for i in range(n))
            lines.append(f"    ops::{o.cpp_name}_out({outs}, {joined});")
            named = f"fields_{o.name}" if all(r.name for r in o.schema.returns) else "nullptr"
            lines.append(f"    return wrap_fields({named}, {{{', '.join(f'wrap(outs[{i}])' for i in range(n))}}});")
        lines.append("  }")
    call = f"ops::{o.cpp_name}{'_' if suffix == '_in' else ''}({joined})"
    if suffix == "_in" and o.kind == "foreach":
        lines += [f"  {call};", "  return Py_NewRef(a[0]);"]
    elif suffix == "_in":
        lines.append(f"  return wrap({call});")
    elif factory:
        lines.append(f"  return wrap(finish_factory({call}, {extra}));")
    else:
        lines += wrap_result(o, call)
    lines += ["}", ""]
    return name, "\n".join(lines)


def out_arguments(o: Operator, args: list[str]) -> str:
    """A factory's arguments when out= is given: it says dtype and device where the call does not."""
    codes = []
    for a, code in zip(o.schema.arguments, args, strict=True):
        agreed = {"dtype?": "factory_dtype", "device?": "factory_device"}.get(a.type)
        codes.append(f"{agreed}(out, {code})" if agreed else code)
    return ", ".join(codes)


def param_line(a: Argument, index: int, form: str) -> str:
    return (
        f'{{"{python_name(a, index, form)}", ArgType::{ARG_TYPES[a.type]}, {a.size or 0}, '
        f"{str(a.default is not None).lower()}, {str(a.keyword_only).lower()}}}"
    )


def more_params(o: Operator, form: str) -> list[str]:
    """What a form takes besides its schema."""
    params = []
    if is_factory(o, form):
        params += [f'{{"{n}", ArgType::{kind}, 0, true, true}}' for n, kind, *_ in FACTORY_PARAMS]
    if form == "function" and "out" in o.variants:
        kind = "OptTensor" if len(o.schema.returns) == 1 else "Outs"
        params.append(f'{{"out", ArgType::{kind}, 0, true, true}}')
    return params


def overridden_names(o: Operator) -> tuple[str, str]:
    """What overrides get of `x + y`: the public callable, and the one for when x is no tensor, called with (y, x).

    Comparisons never come with the tensor second: Python turns them round."""
    assert o.operator is not None
    forward = o.operator if o.operator in OWN_NAMES else o.name
    reflected = o.name if o.operator in COMMUTATIVE else "__r" + o.operator[2:].replace("true", "")
    return f'"Tensor.{forward}"', f'"Tensor.{reflected}"' if o.operator not in COMPARISONS else "nullptr"


class Source:
    """The bindings of one family."""

    def __init__(self, module: str):
        self.module = module
        self.calls: dict[str, str] = {}
        self.lines: list[str] = []
        self.tables: dict[str, list[str]] = defaultdict(list)

    def add(self, e: Entry) -> None:
        ident = e.identifier
        form = "function" if e.form == "function_inplace" else e.form
        signatures = []
        for k, o in enumerate(e.overloads):
            name, text = call_function(o, e.form)
            self.calls[name] = text
            params = [param_line(a, i, e.form) for i, a in enumerate(o.schema.arguments)] + more_params(o, e.form)
            array = "nullptr"
            if params:
                array = f"params_{ident}_{k}"
                self.lines.append(f"Param {array}[] = {{{', '.join(params)}}};")
            text = cpp_string(signature_text(o, e.form))
            varargs = str(is_varargs(o, e.form)).lower()
            signatures.append(f'{{{array}, {len(params)}, {varargs}, {name}, {text}, "{form_name(o, e.form)}"}}')
        signatures += [line for o in e.overloads if e.name.removesuffix("_") == o.name for line in self.older_signatures(o, e)]
        self.lines.append(f"Signature signatures_{ident}[] = {{{', '.join(signatures)}}};")
        is_method = str(form != "function").lower()
        self.lines.append(
            f'Function function_{ident} = {{"{e.name}", "{e.qualified}", {is_method}, signatures_{ident}, {len(signatures)}}};'
        )
        doc = cpp_string(documentation(e))
        if form == "property":
            assigned = any("assignable" in o.tags for o in e.overloads)
            setter = f'assign_property, {doc}, const_cast<char*>("{e.name}")' if assigned else f"nullptr, {doc}, nullptr"
            self.tables["getters"].append(f'{{"{e.name}", property_entry<function_{ident}>, {setter}}}')
        elif form == "function":
            where = "functions_" + (e.namespace or "root")
            self.tables[where].append(self.method_def(e, f"function_entry<function_{ident}>", doc))
        else:
            self.tables["methods"].append(self.method_def(e, f"method_entry<function_{ident}>", doc))

    def older_signatures(self, o: Operator, e: Entry) -> list[str]:
        """Deprecated forms, tried after all others and named by no error."""
        lines = []
        for k, order in enumerate(older_orders(o, e.form)):
            warning = (
                f"This overload of {e.name} is deprecated:\n\t{e.name}{older_text(o, e.form, order)}\n"
                f"Consider using one of the following signatures instead:\n\t{e.name}{signature_text(o, e.form)}"
            )
            name, text = call_function(o, e.form, order, warning)
            self.calls[name] = text
            params = [
                f'{{"{python_name(a, o.schema.arguments.index(a), e.form)}", ArgType::{ARG_TYPES[a.type]}, 0, false, false}}' for a in order
            ]
            if e.form == "function" and "out" in o.variants:
                params.append('{"out", ArgType::OptTensor, 0, true, true}')
            array = f"params_{e.identifier}_older_{k}"
            self.lines.append(f"Param {array}[] = {{{', '.join(params)}}};")
            lines.append(f'{{{array}, {len(params)}, false, {name}, nullptr, "{form_name(o, e.form)}"}}')
        return lines

    def record(self, o: Operator) -> None:
        """The forms of a record as operator handles call them, whether or not Python has a name for them."""
        forms = ["function", "function_inplace"] if "inplace" in o.variants else ["function"]
        for form in forms:
            name = form_name(o, form)
            call, text = call_function(o, form)
            self.calls[call] = text
            params = [param_line(a, i, "method") for i, a in enumerate(o.schema.arguments)] + more_params(o, form)
            array = f"params_record_{o.cpp_name}_{form}" if params else "nullptr"
            if params:
                self.lines.append(f"Param {array}[] = {{{', '.join(params)}}};")
            self.tables["records"].append(f'{{"{name}", {array}, {len(params)}, {call}}}')

    def method_def(self, e: Entry, entry: str, doc: str) -> str:
        return f'{{"{e.name}", reinterpret_cast<PyCFunction>({entry}), METH_FASTCALL | METH_KEYWORDS, {doc}}}'

    def operators(self, ops: list[Operator]) -> None:
        """Number slots, for records that name a Python operator."""
        for o in ops:
            if o.operator is None or o.operator == "__invert__":  # ~ is in csrc/python/tensor_slots.cpp: it refuses in its own way
                continue
            ident = f"tensor_method_{o.name}"
            if o.operator in UNARY:
                self.tables["slots"].append(f"{{Py_{SLOTS[o.operator]}, reinterpret_cast<void*>(unary_entry<function_{ident}>)}}")
                continue
            self.binary_operator(o)

    def binary_operator(self, o: Operator) -> None:
        """a + b takes numbers on either side (a @ b does not); the operator's other arguments keep their defaults."""
        assert o.operator is not None
        ident = f"operator_{o.name}"
        kind = o.schema.arguments[1].type
        first, second = (a.name for a in o.schema.arguments[:2])
        params = f'{{"{first}", ArgType::{kind}, 0, false, false}}, {{"{second}", ArgType::{kind}, 0, false, false}}'
        rest = "".join(", " + default_cpp(a) for a in o.schema.arguments[2:])
        swapped = o if o.operator in COMMUTATIVE else next((r for r in operators() if r.reverse == o.operator), None)
        turn = ""
        if swapped is not None:  # 2 * x is x * 2: the tensor is self
            more = rest if swapped is o else ""
            turn = f"  if (!is_tensor(a[0])) return wrap(ops::{swapped.cpp_name}(as_operand(a[1]), as_operand(a[0]){more}));\n"
        self.calls[f"call_{ident}"] = (
            f"PyObject* call_{ident}(PyObject* const* a) {{\n{turn}  return wrap(ops::{o.cpp_name}(as_operand(a[0]), as_operand(a[1]){rest}));\n}}\n"
        )
        self.lines.append(f"Param params_{ident}[] = {{{params}}};")
        self.lines.append(f'Signature signatures_{ident}[] = {{{{params_{ident}, 2, false, call_{ident}, "(Tensor self, Tensor other)", "{o.full_name}"}}}};')
        forward, reflected = overridden_names(o)
        self.lines.append(f'Function function_{ident} = {{"{o.operator}", {forward}, false, signatures_{ident}, 1, {reflected}}};')
        if o.operator in SLOTS:
            self.tables["slots"].append(f"{{Py_{SLOTS[o.operator]}, reinterpret_cast<void*>(binary_entry<function_{ident}>)}}")
        elif o.operator == "__pow__":
            self.tables["pow"].append(f"binary_entry<function_{ident}>")
        else:
            self.tables["compare"].append(f"{{Py_{o.operator.strip('_').upper()}, binary_entry<function_{ident}>}}")
        if "inplace" in o.variants and o.operator not in COMPARISONS:
            self.inplace_operator(o)

    def inplace_operator(self, o: Operator) -> None:
        assert o.operator is not None
        ident = f"operator_inplace_{o.name}"
        dunder = "__i" + o.operator[2:]
        second = o.schema.arguments[1].name
        params = f'{{"self", ArgType::Tensor, 0, false, false}}, {{"{second}", ArgType::Operand, 0, false, false}}'
        rest = "".join(", " + default_cpp(a) for a in o.schema.arguments[2:])
        self.calls[f"call_{ident}"] = (
            f"PyObject* call_{ident}(PyObject* const* a) {{\n  return wrap(ops::{o.cpp_name}_(as_tensor(a[0]), as_operand(a[1]){rest}));\n}}\n"
        )
        self.lines.append(f"Param params_{ident}[] = {{{params}}};")
        self.lines.append(f'Signature signatures_{ident}[] = {{{{params_{ident}, 2, false, call_{ident}, "(Tensor self, Tensor other)", "{form_name(o, "inplace")}"}}}};')
        public = dunder if o.operator in OWN_NAMES and o.operator != "__floordiv__" else o.name + "_"
        self.lines.append(f'Function function_{ident} = {{"{dunder}", "Tensor.{public}", false, signatures_{ident}, 1}};')
        if o.operator == "__pow__":
            self.tables["ipow"].append(f"binary_entry<function_{ident}>")
        else:
            slot = SLOTS[o.operator].replace("nb_", "nb_inplace_")
            self.tables["slots"].append(f"{{Py_{slot}, reinterpret_cast<void*>(binary_entry<function_{ident}>)}}")

    def text(self, ops: list[Operator]) -> str:
        fields = [o for o in ops if len(o.schema.returns) > 1 and all(r.name for r in o.schema.returns)]
        out = [f"// Generated from tocha/operators/{self.module}.py; do not edit."]
        called = "".join([*self.calls.values(), *self.lines])
        out += ['#include "dispatch/rules.h"', includes(called) + '#include "python/bindings.h"\n#include "python/indexing.h"', "", "namespace tocha::python {", "namespace {", ""]
        seen = set()
        for o in fields:
            if o.name in seen:
                continue
            seen.add(o.name)
            out.append(f"PyTypeObject* fields_{o.name} = nullptr;")
            names = ", ".join(f'{{"{r.name}", nullptr}}' for r in o.schema.returns)
            out.append(f"PyStructSequence_Field field_names_{o.name}[] = {{{names}, {{nullptr, nullptr}}}};")
            self.tables["returns"].append(
                f'{{"{o.name}", {{"tocha.return_types.{o.name}", nullptr, field_names_{o.name}, {len(o.schema.returns)}}}, &fields_{o.name}}}'
            )
        out += ["", *self.calls.values(), *self.lines, ""]
        rows = {
            "methods": "PyMethodDef", "getters": "PyGetSetDef", "slots": "PyType_Slot", "compare": "Comparison",
            "returns": "ReturnType", "records": "RecordCall", "pow": "binaryfunc", "ipow": "binaryfunc",
        } | {k: "PyMethodDef" for k in self.tables if k.startswith("functions_")}  # fmt: skip
        for key, kind in rows.items():
            if self.tables.get(key):
                out.append(f"{kind} table_{key}[] = {{\n  " + ",\n  ".join(self.tables[key]) + "};")
        out += ["", "}  // namespace", "", f"void bind_{self.module}(Bindings& b) {{"]
        for key in sorted(k for k in self.tables if self.tables[k]):
            if key.startswith("functions_"):
                out.append(f'  b.functions("{key.removeprefix("functions_").replace("root", "")}", table_{key}, std::size(table_{key}));')
            else:
                out.append(f"  b.{key}(table_{key}, std::size(table_{key}));")
        out += ["  (void)b;", "}", "", "}  // namespace tocha::python", ""]
        return "\n".join(out)


def documentation(e: Entry) -> str:
    o = e.overloads[0]
    head = "\n".join(f"{e.name}{signature_text(x, e.form)}" for x in e.overloads)
    return f"{head}\n\n{o.doc}" if o.doc else head


def generate() -> dict[str, str]:
    families: dict[str, list[Operator]] = defaultdict(list)
    for o in operators():
        families[o.module].append(o)
    sources = {m: Source(m) for m in families}
    for e in entries():
        sources[e.overloads[0].module].add(e)
    # An entry's overloads may come from several families; its calls live where the entry is.
    files = {}
    for m, ops in families.items():
        sources[m].operators(ops)
        for o in ops:
            sources[m].record(o)
        files[f"bind_{m}.cpp"] = sources[m].text(ops)
    declared = "\n".join(f"void bind_{m}(Bindings& b);" for m in families)
    called = "\n".join(f"  bind_{m}(b);" for m in families)
    files["bind_all.cpp"] = (
        f'// Generated; do not edit.\n#include "python/bindings.h"\n\nnamespace tocha::python {{\n\n{declared}\n\nvoid bind_all(Bindings& b) {{\n{called}\n}}\n\n}}\n'
    )
    return files


__all__ = ["Entry", "entries", "generate", "mutates", "returns_tensors"]
