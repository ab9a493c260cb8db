"""C++ for the door below autograd: where generated operators hand a call to whoever takes it over (docs/inside/dispatch.md)."""

from __future__ import annotations

from collections.abc import Callable

from tocha._build.gradients import seen_whole
from tocha._build.signatures import argument_names, mutates, result_type
from tocha.codegen.translator import Translator
from tocha.codegen.translator_types import return_type
from tocha.operators.record import Operator


def gives_view(o: Operator) -> bool:
    """Whether the result looks into the first argument, and counts as a view of it."""
    shared = (
        o.schema.returns
        and o.schema.returns[0].alias
        and o.schema.returns[0].alias[0] == o.schema.arguments[0].alias[:1]
    )
    return o.kind == "view" or bool(shared and "no_gradient" not in o.tags and "!" not in o.schema.returns[0].alias)


SPOKEN_RESULTS = ("Tensor", "Tensor?", "Tensor[]", "bool", "int", "float", "Scalar")


def outspoken(o: Operator) -> bool:
    """Whether Python can answer for it: results are tensors or numbers. Not questions that any device answers from its facts."""
    of_facts = o.algorithm == "answer" and "any_device" in o.tags and o.schema.returns
    return not of_facts and all(
        r.type in SPOKEN_RESULTS for r in o.schema.returns
    )


class TakenOver:
    """What a family's source has for calls that are taken over."""

    use_rule: Callable[[Callable], None]
    statics: list[str]

    def recording(self, o: Operator, form: str) -> list[str]:
        raise NotImplementedError

    def asked(self, o: Operator, form: str) -> list[str]:
        """What happens where somebody asks to be told of the call: it is recorded first, and below that taken over."""
        tensors = [a.name for a in o.schema.arguments if a.is_tensor]
        outs = [f"out{i}" for i in range(len(o.schema.returns))] if form == "out" else []
        test = f"autograd::noticed({', '.join([*outs, *tensors])})" if outs or tensors else "factories_forced"
        record = self.recording(o, form) if tensors else []
        if o.parts is not None and form == "function":
            return self.in_parts(o, test, record)
        if form == "out":
            return [*record, f"  if ({test}) [[unlikely]] {{", *self.handed_over(o, form), "  }"]
        return [f"  if ({test}) [[unlikely]] {{", *("  " + line for line in record), *self.handed_over(o, form), "  }"]

    def in_parts(self, o: Operator, test: str, record: list[str]) -> list[str]:
        """An operator that is taken apart above autograd for those who take operators over: they see its parts."""
        assert o.parts is not None
        types = {a.name: "Tensor" if a.type == "Operand" else a.type for a in o.schema.arguments}
        t = Translator(o.parts, types, return_type(o), self.use_rule)
        signature = t.signature()
        self.statics.append(
            f"static {result_type(o)} parts_{o.cpp_name}({signature}) {{\n" + "\n".join(t.body()) + "\n}"
        )
        name = self.described_call(o, "function")
        take = f"if (dispatch::taken({name}, given)) return parts_{o.cpp_name}({', '.join(argument_names(o))});"
        return [
            f"  if ({test}) [[unlikely]] {{",
            f"    {self.given(o, 'function')}",
            f"    {self.profiled(o, 'function', None, False)}",
            f"    {take}",
            *("  " + line for line in record),
            "  }",
        ]

    def described_call(self, o: Operator, form: str) -> str:
        """The static that names this form of the record to Python."""
        name = f"taken_{self.function_name(o, form)}"
        outs = len(o.schema.returns) if form == "out" else 0
        kind = {"function": "view" if gives_view(o) else "functional", "inplace": "inplace", "out": "out"}[form]
        line = f'static dispatch::Call {name} = {{"{o.full_name}", dispatch::Call::{kind}, {outs + len(o.schema.arguments)}, {outs}}};'
        if line not in self.statics:
            self.statics.append(line)
        return name

    @staticmethod
    def function_name(o: Operator, form: str) -> str:
        suffix = {"function": "", "inplace": "_", "out": "_out"}[form]
        return f"{o.cpp_name}{'' if suffix == '_' and mutates(o) else suffix}"

    @staticmethod
    def passed(o: Operator, form: str, names: list[str] | None = None) -> list[str]:
        outs = [f"out{i}" for i in range(len(o.schema.returns))] if form == "out" else []
        return [*outs, *(names or argument_names(o))]

    def given(self, o: Operator, form: str, names: list[str] | None = None) -> str:
        """The arguments of a call as values of any type; `names`: what they are called here."""
        return f"const dispatch::Value given[] = {{{', '.join(self.passed(o, form, names))}}};"

    def handed_over(self, o: Operator, form: str, names: list[str] | None = None) -> list[str]:
        if not outspoken(o):
            return []
        name = self.described_call(o, form)
        run = f"dispatch::run({name}, given)"
        nothing = form == "out" or result_type(o) == "void" or (form == "inplace" and o.kind == "foreach")
        if nothing:
            leave = f"{{ {run}; return; }}"
        elif form == "inplace":
            leave = f"{{ {run}; return {argument_names(o)[0]}; }}"
        else:
            leave = f"return {run}.as<{result_type(o)}>();"
        given = f"    {self.given(o, form, names)}\n    {self.profiled(o, form, names, nothing)}"
        return [given, f"    if (dispatch::taken({name}, given)) {leave}"]

    def profiled(self, o: Operator, form: str, names: list[str] | None, nothing: bool) -> str:
        """The call made again within a range, where a profiler wants one."""
        name, passed, function = self.described_call(o, form), self.passed(o, form, names), self.function_name(o, form)
        mark = "range" if "range" not in (*passed, function) else "range_of_call"
        again = f"{'ops::' if function in passed else ''}{function}({', '.join(passed)})"  # an argument may hide the function
        leave = f"{again}; return;" if nothing else f"return {again};"
        return f"if (dispatch::profiled({name})) {{ dispatch::ProfiledCall {mark}({name}, given); {leave} }}"

    def whole(self, o: Operator, form: str, names: list[str] | None = None) -> list[str]:
        """A composite that is taken over as one operator, unless its parts are to be recorded."""
        names = names or argument_names(o)
        tensors = ", ".join(n for n, a in zip(names, o.schema.arguments, strict=True) if a.is_tensor)
        if seen_whole(o) and form == "function":
            given, take = self.handed_over(o, form, names)
            record = f"    if (dispatch::taken({self.described_call(o, form)}, given) && autograd::wanted({tensors})) return record_{o.cpp_name}({', '.join(names)});"
            return [
                f"  if (autograd::noticed({tensors})) [[unlikely]] {{",
                given,
                record,
                take.replace("if (dispatch", f"if (!autograd::wanted({tensors}) && dispatch", 1),
                "  }",
            ]
        recorded = (
            "" if "factory" in o.tags else f" && !autograd::wanted({tensors})"
        )  # no history in what is made afresh
        test = f"autograd::noticed({tensors}){recorded}" if tensors else "factories_forced"
        return [f"  if ({test}) [[unlikely]] {{", *self.handed_over(o, form, names), "  }"]

    def by_copy(self, o: Operator) -> list[str]:
        """The in-place form where somebody takes its parts over: they make the result, which is copied."""
        first = o.schema.arguments[0].name
        tensors = ", ".join(a.name for a in o.schema.arguments if a.is_tensor)
        names = ", ".join(argument_names(o))
        return [
            f'  if (autograd::asked({tensors})) [[unlikely]] return autograd::overwritten({first}, {o.cpp_name}({names}), "{o.name}_");'
        ]
