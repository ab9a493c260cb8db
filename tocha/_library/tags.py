"""Tags of operator handles, derived from the records."""

from __future__ import annotations

import enum

from tocha.operators.overloads import FUNCTIONAL, INPLACE, OUT, Overload, names

Tag = enum.Enum(
    "Tag",
    "core cudagraph_unsafe data_dependent_output dynamic_output_shape flexible_layout generated inplace inplace_view "
    "maybe_aliasing_or_mutating needs_contiguous_strides needs_exact_strides needs_fixed_stride_order nondeterministic_bitwise "
    "nondeterministic_seeded out out_variant pointwise pt2_compliant_tag reduction view_copy",
    module="tocha",
    start=0,
)


def is_core(overload: Overload) -> bool:
    """Aliases are not, nor overloads with a number for self."""
    o, s = overload.record, overload.schema
    short = s.name.removeprefix("aten::")
    if isinstance(o.core, tuple):
        return (f"{short}.{s.overload_name}" if s.overload_name else short) in o.core
    number_first = bool(s._arguments) and s._arguments[0].text == "Scalar" and any(a.is_tensor for a in s._arguments)
    return o.core and short == next(names(o)) and not number_first


def tags_of(overload: Overload) -> list[Tag]:
    """What PyTorch's tags say: from the kind and the form; those that cannot be told so are tags of the record."""
    o, form = overload.record, overload.form
    written = form == INPLACE or o.name.endswith("_")
    says = {
        Tag.core: form == FUNCTIONAL and is_core(overload),
        Tag.inplace: written,
        Tag.inplace_view: written and o.kind == "view",
        Tag.nondeterministic_seeded: "random" in o.tags,
        Tag.out: form == OUT,
        Tag.pointwise: o.kind == "pointwise",
        Tag.pt2_compliant_tag: True,
        Tag.reduction: o.kind == "reduction",
        Tag.view_copy: o.module == "view_copies",
    }
    return [tag for tag in Tag if says.get(tag) or tag.name in o.tags]
