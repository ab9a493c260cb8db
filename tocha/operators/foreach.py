"""Operators on lists of tensors: `_foreach_add(tensors, 1)` is `[t + 1 for t in tensors]`.

Derived from the records of single tensors: `each` says what happens to one. The build makes the loop over the lists, and walks
over all elements of all tensors at once where they lie flat.
"""

from __future__ import annotations

from tocha.operators import import_families
from tocha.operators.record import OPERATORS, Operator, composite, native, operators, register
from tocha.operators.schema import parse

import_families(besides="foreach")

BOTH = "function, inplace"


def foreach(schema: str, each: str, variants: str = BOTH, **fields) -> Operator:
    """A record that runs the record `each` on the tensors of lists. Its arguments stand for those of `each` by position."""
    one = OPERATORS[each]
    fields.setdefault("samples", two_of_each(schema))
    doc = f"For each tensor of the list: {one.doc[:1].lower()}{one.doc[1:]}"
    name = "foreach"
    return register(
        "foreach",
        schema,
        one.body,
        variants,
        doc,
        module=name,
        each=one,
        dtypes=one.dtypes,
        expensive=one.expensive,
        **fields,
    )


def two_of_each(schema: str):
    """Samples: two tensors in each list, two numbers for lists of numbers."""

    def samples(t):
        args, kwargs = [], {}
        for a in parse(schema).arguments:
            if a.default is not None:
                continue
            kinds = {"Tensor[]": lambda: [t(3, 4), t(2)], "Scalar[]": lambda: [2, 3], "Tensor": t, "Scalar": lambda: 2}
            value = kinds[a.type]()
            if a.keyword_only:
                kwargs[a.name] = value
            else:
                args.append(value)
        return [(args, kwargs)]

    return samples


def in_lists(o: Operator) -> str:
    """The schema of a record with lists in the place of tensors."""
    parts = []
    for a in o.schema.arguments:
        if a.keyword_only and "*" not in parts:
            parts.append("*")
        kind = "Tensor[]" if a.is_tensor else a.type
        parts.append(f"{kind} {a.name}" + (f"={a.default}" if a.default is not None else ""))
    return ", ".join(parts)


def is_function_of_one(o: Operator) -> bool:
    if o.kind != "pointwise" or o.namespace or not {"function", "inplace"} <= o.variants:
        return False
    return len(o.schema.arguments) == 1 and len(o.schema.returns) == 1


for _o in operators():
    if is_function_of_one(_o):
        foreach(f"_foreach_{_o.name}(Tensor[] self) -> Tensor[]", _o.full_name)
    if "foreach_inplace" in _o.tags:
        foreach(f"_foreach{_o.name}_({in_lists(_o)}) -> ()", _o.full_name, "function", tags=_o.tags)


def of_two(name: str, scalar: str = "scalar", scalars: str = "scalars", other: str = "other") -> None:
    """The second operand is a number, a number for each tensor, or a tensor for each tensor."""
    foreach(f"_foreach_{name}.Scalar(Tensor[] self, Scalar {scalar}) -> Tensor[]", name)
    alpha = ", *, Scalar alpha=1" if any(a.name == "alpha" for a in OPERATORS[name].schema.arguments) else ""
    foreach(f"_foreach_{name}.List(Tensor[] self, Tensor[] {other}{alpha}) -> Tensor[]", name)
    foreach(f"_foreach_{name}.ScalarList(Tensor[] self, Scalar[] {scalars}) -> Tensor[]", name)


# Tensors of one element come before numbers, which would take them too.
foreach("_foreach_add.Tensor(Tensor[] self, Tensor other, *, Scalar alpha=1) -> Tensor[]", "add")
foreach("_foreach_mul.Tensor(Tensor[] self, Tensor other) -> Tensor[]", "mul")
foreach("_foreach_div.Tensor(Tensor[] self, Tensor other) -> Tensor[]", "div")
of_two("add")
of_two("sub")
of_two("mul")
of_two("div")
of_two("maximum")
of_two("minimum")
of_two("clamp_min")
of_two("clamp_max")
of_two("pow", "exponent", "exponent", "exponent")
foreach("_foreach_pow.ScalarAndTensor(Scalar self, Tensor[] exponent) -> Tensor[]", "pow.Scalar", "function")


def of_three(name: str) -> None:
    """The factor is a number, a number for each tensor, or a tensor of such."""
    lists = "Tensor[] self, Tensor[] tensor1, Tensor[] tensor2"
    foreach(f"_foreach_{name}.Scalar({lists}, Scalar value=1) -> Tensor[]", name)
    foreach(f"_foreach_{name}.ScalarList({lists}, Scalar[] scalars) -> Tensor[]", name)
    foreach(
        f"_foreach_{name}.Tensor({lists}, Tensor scalars) -> Tensor[]",
        name,
        samples=lambda t: [(([t(3), t(2)], [t(3), t(2)], [t(3), t(2)], t(2)), {})],
    )


of_three("addcmul")
of_three("addcdiv")
foreach("_foreach_lerp.List(Tensor[] self, Tensor[] tensors1, Tensor[] weights) -> Tensor[]", "lerp")
foreach("_foreach_lerp.Scalar(Tensor[] self, Tensor[] tensors1, Scalar weight) -> Tensor[]", "lerp")
foreach("_foreach_lerp.ScalarList(Tensor[] self, Tensor[] tensors1, Scalar[] weight) -> Tensor[]", "lerp")
foreach("_foreach_clone(Tensor[] self, *, memory_format? memory_format=None) -> Tensor[]", "clone", "function")
foreach(
    "_foreach_mm(Tensor[] self, Tensor[] mat2) -> Tensor[]",
    "mm",
    "function",
    samples=lambda t: [(([t(3, 4), t(2, 2)], [t(4, 2), t(2, 3)]), {})],
)
foreach("_foreach_max(Tensor[] self) -> Tensor[]", "max", "function")


@composite("_powsum(Tensor self, Scalar ord=2, dtype? dtype=None) -> Tensor", variants="function")
def powsum(self, ord, dtype):
    """The sum of |self| ** ord."""
    x = self if dtype is None else self.to(dtype)
    return x.abs().pow(ord).sum()


foreach(
    "_foreach_norm(Tensor[] self, Scalar ord=2, dtype? dtype=None) -> Tensor[]",
    "linalg_vector_norm",
    "function",
    aten=("_foreach_norm.Scalar",),
)
foreach(
    "_foreach_powsum(Tensor[] self, Scalar ord=2, dtype? dtype=None) -> Tensor[]",
    "_powsum",
    "function",
    aten=("_foreach_powsum.Scalar",),
)
foreach("_foreach_zero_(Tensor[] self) -> ()", "zero_", "function")
foreach("_foreach_copy_(Tensor[] self, Tensor[] src, bool non_blocking=False) -> ()", "copy_", "function")


# Gradient scaling


@native(
    "_amp_foreach_non_finite_check_and_unscale_(Tensor[] self, Tensor(b!) found_inf, Tensor inv_scale) -> ()",
    variants="function",
    tags=frozenset({"no_gradient"}),
    samples=lambda t: [(([t(3), t(2)], t.of([0.0]), t.of([0.5])), {})],
)
def non_finite_check_and_unscale(self, found_inf, inv_scale):
    """Multiplies all tensors by inv_scale in place; found_inf becomes 1 if an element was infinite or no number."""


@native(
    "_amp_update_scale_(Tensor self, Tensor(b!) growth_tracker, Tensor found_inf, float scale_growth_factor, float scale_backoff_factor, int growth_interval) -> Tensor",
    variants="function",
    tags=frozenset({"no_gradient"}),
    samples=lambda t: [
        ((t(dtype="float32"), t(dtype="int32", low=0, high=1), t(dtype="float32"), 2.0, 0.5, 3), {}),
    ],
)
def update_scale(self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval):
    """Makes the scale (self) smaller where found_inf says so, and greater after growth_interval steps without."""
