"""What is said to dtypes that an operator does not take: the records' own words, and PyTorch's names of kernels."""

from __future__ import annotations

from tocha.codegen.translator_types import cpp_string
from tocha.ir import dtypes as dt
from tocha.operators.record import Operator, kernel_words


def mask_of(dtypes: tuple) -> str:
    order = {d: i for i, d in enumerate(dt.DTYPES)}
    return hex(sum(1 << order[d] for d in dtypes)) + "u"


def refusals(o: Operator) -> list[str]:
    """The record's own words for dtypes it does not take, entered into the table that failing calls look at."""
    said = (o.types or {}).get("refused", {})
    first = str((o.types or {}).get("refused_first", False)).lower()
    return [
        f"static const RefusalEntry refusal_{o.cpp_name}_{i}({{{cpp_string(messages_name(o))}, {mask_of(with_small(d))}, "
        f"{str(isinstance(e, NotImplementedError)).lower()}, {first}, {cpp_string(str(e))}}});"
        for i, (d, e) in enumerate(said.items())
    ]


def with_small(dtypes: tuple[dt.DType, ...]) -> tuple[dt.DType, ...]:
    """What is said of complex numbers is said of complex32 too."""
    return (*dtypes, dt.complex32) if dt.complex64 in dtypes and dt.complex32 not in dtypes else dtypes


def messages_name(o: Operator) -> str:
    return o.public_name.lstrip("_")


def words_table() -> str:
    """What PyTorch calls the kernels, in a source of its own: a word is changed without compiling its family."""
    entries = "\n".join(
        f"    {{{cpp_string(name)}, {cpp_string(word)}}}," for name, word in sorted(kernel_words().items())
    )
    return (
        '// Generated; do not edit.\n#include "core/dtype_messages.h"\n\nnamespace tocha {\nnamespace {\n\n'
        f"const KernelWord words[] = {{\n{entries}\n}};\nconst KernelWords entered(words, sizeof(words) / sizeof(words[0]));\n\n"
        "}  // namespace\n}  // namespace tocha\n"
    )
