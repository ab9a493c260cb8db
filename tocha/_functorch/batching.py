"""What a vmap makes of one operator: rules derived from the kinds of records, and those that records carry.

Native code asks for each form of a record once (`prepare`), aligns formulas and views itself (csrc/python/level_calls.cpp), and
calls the rule for the rest. Rules run outside of the vmap's level: what they compute is recorded by outer transforms.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from tocha import _C
from tocha._functorch.batch import Batch, any_batched, native_name, sample
from tocha._functorch.randomness import different, same
from tocha.operators.batched.kinds import DIMS, along_dims, mapped, shifted
from tocha.operators.families import load
from tocha.operators.overloads import INPLACE, OUT
from tocha.operators.record import OPERATORS, Operator

Tensor = _C.Tensor

RULE, ELEMENTWISE, GEOMETRY, BODY, BODY_WITH_GRADIENT = 1, 2, 3, 4, 5  # as csrc/dispatch/level_hooks.h has them
ERROR, SAME, DIFFERENT = range(3)


class Loops:
    """Which operators ran sample by sample, for tests; and whether to say so."""

    seen: ClassVar[set[str]] = set()
    warned: ClassVar[set[str]] = set()
    warn = True


Rule = Callable[..., Any]


# ---- what native code calls --------------------------------------------------------------------------


def prepare(name: str, form: str) -> tuple[int, bool, Callable]:
    """(kind, whether it draws random numbers, what is called with (level, size, randomness, values))."""
    load()
    importlib.import_module("tocha.operators.batched")
    importlib.import_module("tocha.operators.decomposed")
    record = OPERATORS[name]
    draws = "random" in record.tags
    if record.kind in ("composite", "foreach") and record.batching is None:
        return BODY_WITH_GRADIENT if record.gradients else BODY, draws, refuse
    rule = functional_rule(record)
    kind = RULE
    if form not in (OUT,) and not draws and record.batching is None:
        kind = {"pointwise": ELEMENTWISE, "view": GEOMETRY}.get(record.kind, RULE)
    if record.name == "copy_" and form != OUT:
        kind = ELEMENTWISE
    writes = form == INPLACE or record.name.endswith("_")

    def call(level: int, size: int, randomness: int, values: tuple) -> Any:
        b = Batch(level, size, randomness, record, form)
        if draws:
            return drawn(b, values)
        if form == OUT:
            return written_out(b, rule, values)
        if writes:
            return in_place(b, rule, values)
        return b.wrap(rule(b, *values))

    return kind, draws, call


def refuse(*args: Any) -> Any:
    raise RuntimeError("an operator that is made of others was taken for one of its own")


def functional_rule(record: Operator) -> Rule:
    """The rule of an operator: its own, or what follows from its kind; else a loop."""
    if record.batching is not None:
        return record.batching
    if record.kind == "pointwise":
        return elementwise
    if record.kind == "reduction":
        return along_dims
    if record.kind == "view":
        return as_strided_view
    if record.decomposition is not None:
        return decomposed
    return looped


def in_place(b: Batch, rule: Rule, values: tuple) -> Any:
    """A write: the functional result goes into self, which must be of the batch."""
    own, rest = values[0], values[1:]
    if not b.has(own):
        if not any_batched(b, rest):
            return _C._call_record(native_name(b.record, INPLACE), values)
        refuse_write(b)
    if b.record.kind == "view":
        value = rule(b, *values)
        return _C._hold(own, value, b.level, 0)
    if getattr(rule, "writes", False):
        rule(b, *values)
        return own
    result = rule(b, *values)
    b.first(own).copy_(result)
    return own


def written_out(b: Batch, rule: Rule, values: tuple) -> Any:
    count = len(b.record.schema.returns)
    outs, rest = values[:count], values[count:]
    found = rule(b, *rest)
    results = found if isinstance(found, tuple) else (found,)
    for out, r in zip(outs, results, strict=True):
        if not b.has(out):
            refuse_write(b)
        to = b.first(out)
        if to.shape != r.shape:
            to.resize_(r.shape)
            _C._hold(out, to, b.level, 0)
        to.copy_(r)
    return outs if len(outs) > 1 else outs[0]


def refuse_write(b: Batch) -> None:
    kernel = b.record.kind == "native" and b.record.name != "copy_"
    name = f"{b.record.name.rstrip('_')}_" if kernel else "inplace arithmetic"
    raise RuntimeError(
        f"[{b.record.name.rstrip('_')}_] vmap: {name}(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that has more "
        "elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped over in a vmap. "
        f"Please try to use out-of-place operators instead of {name}. If said operator is being called inside the PyTorch "
        "framework, please file a bug report instead."
    )


# ---- kinds -------------------------------------------------------------------------------------------


def elementwise(b: Batch, *values: Any) -> Any:
    """Formulas: operands are aligned, and 0-d ones keep their say in promotion."""
    operands = [v for v in values if isinstance(v, Tensor)]
    rank = max((t.ndim for t in operands), default=0)
    if len({t.dtype for t in operands}) > 1 and any(t.ndim == 0 for t in operands) and b.record.promote is not None:
        values = promoted(b, values, operands)
    return b.run(*(b.aligned(v, rank) for v in values))


def promoted(b: Batch, values: tuple, operands: list[Tensor]) -> tuple:
    """Operands of one dtype each: that of the result, as if a batch of 0-d tensors were one of them."""
    types = b.record.types or {}
    if any(code not in ("T", "checked", "filled", "number", "scalar", "rounded") for code in types.get("in", ())):
        return values
    plain = [_C.empty([1] * min(t.ndim, 1), dtype=t.dtype, device="meta") for t in operands]
    dtype = plain[0].dtype
    seen = plain[0]
    for t in plain[1:]:
        dtype = _C.result_type(seen, t)
        seen = _C.empty([1] * max(seen.ndim, t.ndim), dtype=dtype, device="meta")
    return tuple(v if not isinstance(v, Tensor) or v.dtype == dtype else cast(b, v, dtype) for v in values)


def cast(b: Batch, t: Tensor, dtype: Any) -> Tensor:
    value, dim = b.value(t)
    moved = value.to(dtype)
    return moved if dim is None else _C._wrap_level(moved, b.level, dim)


def as_strided_view(b: Batch, *values: Any) -> Any:
    """Views of values that are tracked: the view's rule on the geometry without the batch dim, or with dims counted behind it."""
    own = values[0]
    special = VIEWS.get(b.record.full_name)
    if special is not None:
        return special(b, *values)
    names = [a.name for a in b.record.schema.arguments]
    if any(n in DIMS for n in names):
        if own.ndim == 0:
            return zero_dim_view(b, values)
        first = b.first(own)
        found = shifted(b, (first, *values[1:]), own.ndim + (1 if b.record.name == "unsqueeze" else 0))
        if b.record.name == "permute":
            found[1] = [0, *found[1]]
        return b.run(*found)
    if "size" in names and b.record.name in ("view", "expand"):
        first = b.first(own)
        size = list(values[1])
        if b.record.name == "expand":
            first = first.reshape([first.shape[0], *[1] * (len(size) - own.ndim), *first.shape[1:]])
            return b.run(first, [-1, *size], *values[2:])
        return b.run(first, [first.shape[0], *inferred(size, own)])
    return by_geometry(b, values)


def squeezed(b: Batch, own: Tensor) -> Any:
    ones = [d + 1 for d, n in enumerate(own.shape) if n == 1]
    first = b.first(own)
    return first.squeeze(ones) if ones else first.view(first.shape)


def transposed(b: Batch, own: Tensor) -> Any:
    first = b.first(own)
    if own.ndim > 2:
        raise RuntimeError(f"[t] t() expects a tensor with <= 2 dimensions, but self is {own.ndim}D")
    return first.transpose(1, 2) if own.ndim == 2 else first.view(first.shape)


def inferred(size: list[int], t: Tensor) -> list[int]:
    """Sizes with -1 found out: a batch of no elements could not say."""
    if -1 not in size:
        return size
    known = 1
    for n in size:
        known *= n if n != -1 else 1
    if known == 0 or t.numel() % known:
        return size
    return [t.numel() // known if n == -1 else n for n in size]


def zero_dim_view(b: Batch, values: tuple) -> Any:
    first = b.first(values[0])
    if b.record.name == "unsqueeze":
        return first.unsqueeze(1)
    return by_geometry(b, values)


def by_geometry(b: Batch, values: tuple) -> Any:
    """The rule runs on a tensor without memory that lies as a sample does."""
    own = values[0]
    first = b.first(own)
    sample = _C.empty_strided(own.shape, first.stride()[1:], dtype=own.dtype, device="meta")
    seen = _C._call_record(b.record.full_name, (sample, *values[1:]))

    def of(r: Tensor) -> Tensor:
        if r.dtype != own.dtype:
            return b.run(first, *values[1:])
        at = first.storage_offset() + r.storage_offset()
        return first.as_strided([first.shape[0], *r.shape], [first.stride(0), *r.stride()], at)

    return mapped(of, seen)


def strided(b: Batch, own: Tensor, size: list[int], stride: list[int], storage_offset: int | None) -> Any:
    first = b.first(own)
    at = first.storage_offset() if storage_offset is None else storage_offset
    return first.as_strided([first.shape[0], *size], [first.stride(0), *stride], at)


# Views that name no dims, where the value is tracked.
VIEWS: dict[str, Rule] = {
    "as_strided": strided,
    "alias": lambda b, own: b.run(b.first(own)),
    "view.dtype": lambda b, own, dtype: b.run(b.first(own), dtype),
    "squeeze": squeezed,
    "t": transposed,
}


def decomposed(b: Batch, *values: Any) -> Any:
    return b.decomposed(*values)


# ---- sample by sample --------------------------------------------------------------------------------


def looped(b: Batch, *values: Any) -> Any:
    """What no rule is known for: each sample by itself, and a warning that says so."""
    name = b.record.name
    check_loop(b, values)
    Loops.seen.add(b.record.full_name)
    if Loops.warn and name not in Loops.warned:
        Loops.warned.add(name)
        warnings.warn(
            f"There is a performance drop because we have not yet implemented the batching rule for aten::{b.record.full_name}. "
            "Please file us an issue on GitHub so that we can prioritize its implementation.",
            UserWarning,
            stacklevel=2,
        )
    results = [b.run(*(sample(b, v, i) for v in values)) for i in range(b.size)]
    return stacked(results)


def stacked(results: list[Any]) -> Any:
    head = results[0]
    if isinstance(head, Tensor):
        return _C.stack(results)
    if isinstance(head, list | tuple):
        return tuple(stacked([r[i] for r in results]) for i in range(len(head)))
    return head


ITEM = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, please try "
    "to rewrite what you're doing with other operations. If error is occurring somewhere inside PyTorch internals, please file a "
    "bug report."
)


def check_loop(b: Batch, values: tuple) -> None:
    """Operators whose results have no one shape, or are no tensors, do not run over a batch."""
    record = b.record
    if record.name == "_local_scalar_dense":
        raise RuntimeError(ITEM)
    if "dynamic_output_shape" in record.tags:
        raise RuntimeError(
            "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over "
            f"aten::{record.name}. Please file an issue at https://github.com/pytorch/pytorch/issues if you need this feature."
        )
    if record.name == "masked_select":
        raise RuntimeError(
            "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this because for each batch "
            "this would return a differently shaped Tensor. Please file an issue at https://github.com/pytorch/pytorch/issues if you "
            "need this feature."
        )
    if record.name == "allclose":
        raise RuntimeError(
            "vmap over torch.allclose isn't supported yet. Please file an issue at https://github.com/pytorch/pytorch/issues if you need this feature."
        )
    if record.name == "equal":
        raise RuntimeError("Batching rule not implemented for aten::equal. We could not generate a fallback.")
    if record.algorithm == "answer":
        raise RuntimeError(
            "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that yet, "
            "please file an issue at https://github.com/pytorch/pytorch/issues ."
        )
    if b.size == 0:
        raise RuntimeError(
            f"Batching rule not implemented for aten::{record.name} and batch size 0: the fallback path does not know its result"
        )


# ---- random numbers ----------------------------------------------------------------------------------


def drawn(b: Batch, values: tuple) -> Any:
    """Random operators: refused, drawn once for all samples, or for each of them."""
    if b.randomness == ERROR:
        raise RuntimeError(
            "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness "
            "flags on vmap or perform the randomness operation out of vmap"
        )
    return different(b, values) if b.randomness == DIFFERENT else same(b, values)
