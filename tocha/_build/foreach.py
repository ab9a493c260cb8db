"""C++ for operators on lists: the loop that calls the operator of one tensor, and the walk over all of them at once."""

from __future__ import annotations

from tocha.codegen.translator_types import default_cpp
from tocha.operators.record import Operator
from tocha.operators.resolve import matched
from tocha.operators.schema import Argument

MANY = ("Tensor[]", "Scalar[]")


class Foreach:
    """The functions of one operator on lists."""

    def __init__(self, o: Operator, inplace_only: bool, guard: list[str], inplace_guard: list[str]):
        self.o = o
        self.guard = guard  # what comes before all else, in either form
        self.inplace_guard = inplace_guard
        self.inplace_only = inplace_only
        self.pairs = matched(o)
        self.lists = [a for a in o.schema.arguments if a.type in MANY]
        self.tensors = [a.name for a in o.schema.arguments if a.type == "Tensor[]"]
        self.parameters = ", ".join(f"{a.cpp_parameter} {a.name}" for a in o.schema.arguments)

    def definitions(self) -> list[str]:
        name = self.o.cpp_name
        if self.inplace_only:
            return self.inplace(name)
        lines = self.function(name)
        return lines + self.inplace(name + "_") if "inplace" in self.o.variants else lines

    def checks(self) -> list[str]:
        """Lists as long as each other, and tensors that stand for numbers."""
        first = self.tensors[0]
        lines = [f'  foreach::check_filled("{self.o.name}", {first});']
        for a in self.lists:
            if a.name != first:
                lines.append(f'  foreach::check_length("{self.o.name}", {first}, {a.name});')
        for wanted, given in self.pairs:
            if given is None or given.type != "Tensor" or wanted.name == "self":
                continue
            if wanted.is_tensor:
                lines.append(f'  foreach::check_scalar_tensor("{self.o.name}", {given.name});')
            else:
                lines.append(f'  const auto {given.name}_list = foreach::scalars_of("{self.o.name}", {given.name}, {first}.size());')
        for wanted, given in self.pairs:
            if given is not None and wanted.is_tensor and given.type == "Scalar":
                lines.append(f"  const Tensor {given.name}_number = wrapped_number({given.name});")
        return lines

    def value(self, wanted: Argument, given: Argument | None) -> str:
        """The argument for tensor i."""
        if given is None:
            return default_cpp(wanted)
        if given.type == "Tensor[]":
            return f"{given.name}[i]"
        if given.type == "Scalar[]":
            return f"wrapped_number({given.name}[i])" if wanted.is_tensor else f"{given.name}[i]"
        if wanted.is_tensor and given.type == "Scalar":
            return f"{given.name}_number"
        if not wanted.is_tensor and given.type == "Tensor":
            return f"{given.name}_list[i]"
        return given.name

    def call(self, function: str) -> str:
        return f"ops::{function}({', '.join(self.value(*pair) for pair in self.pairs)})"

    def function(self, name: str) -> list[str]:
        assert self.o.each is not None
        first = self.tensors[0]
        return [
            f"Tensors {name}({self.parameters}) {{",
            *self.guard,
            *self.checks(),
            "  Tensors out;",
            f"  out.reserve({first}.size());",
            f"  for (size_t i = 0; i < {first}.size(); ++i) out.push_back({self.call(self.o.each.cpp_name)});",
            "  return out;",
            "}",
            "",
        ]

    def inplace_call(self) -> str:
        """The operator of one tensor, in place of the first argument."""
        each = self.o.each
        assert each is not None
        if each.cpp_name.endswith("_"):
            return self.call(each.cpp_name)
        if "inplace" in each.variants:
            return self.call(each.cpp_name + "_")
        return f'foreach::assign({self.tensors[0]}[i], {self.call(each.cpp_name)}, "{self.o.name}_")'

    def inplace(self, name: str) -> list[str]:
        each = self.o.each
        assert each is not None
        lines = [f"void {name}({self.parameters}) {{", *self.inplace_guard, *self.checks()]
        first = self.tensors[0]
        loop = f"  for (size_t i = 0; i < {first}.size(); ++i) {self.inplace_call()};"
        if each.kind != "pointwise" or not self.is_flat():
            return [*lines, loop, "}", ""]
        lists = [given.name for wanted, given in self.pairs if wanted.is_tensor and given is not None]
        numbers = [self.value(*pair) for pair in self.pairs if not pair[0].is_tensor]
        lines.append(f"  const Tensors* const lists[] = {{{', '.join('&' + n for n in lists)}}};")
        lines.append(f"  const Scalar params[] = {{{', '.join(f'Scalar({n})' for n in numbers)}}};" if numbers else "  const Scalar* const params = nullptr;")
        walk = f"foreach::pointwise_(op_{each.cpp_name}, lists, params)"
        recorded = f"autograd::wanted({', '.join(lists)})"
        if self.inplace_only:
            name = self.o.name
            refuse = f'fail(ErrorKind::Runtime, "[{name}] derivative for {name} is not implemented");'
            return [*lines, f'  if ({recorded}) {{ autograd::check_writable({first}[0], "{name}"); {refuse} }}', f"  {walk};", "}", ""]
        return [*lines, f"  if (!{recorded}) return {walk};", loop, "}", ""]

    def is_flat(self) -> bool:
        """Whether all operands come in lists and all numbers are the same for all tensors."""
        assert self.o.each is not None
        if {"check", "check_inplace"} & (self.o.each.types or {}).keys():
            return False
        return all(
            given is not None and given.type == "Tensor[]" if wanted.is_tensor else given is None or given.type == "Scalar"
            for wanted, given in self.pairs
        )
