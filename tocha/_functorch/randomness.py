"""Random operators inside a vmap: drawn once and shared by all samples, or drawn for each of them."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha._functorch.batch import Batch, any_batched, looped_silently, native_name, tensors_in
from tocha.operators.overloads import INPLACE

Tensor = _C.Tensor


def writes(b: Batch) -> bool:
    return b.form == INPLACE or b.record.name.endswith("_")


def natively(b: Batch, values: tuple) -> Any:
    return _C._call_record(native_name(b.record, b.form), values)


def same(b: Batch, values: tuple) -> Any:
    """One draw for all samples."""
    if not any_batched(b, values):
        return natively(b, values)
    if writes(b):
        own = b.first(values[0])
        if any_batched(b, values[1:]):
            return with_one_seed(b, values)
        drawn = own[0].clone() if b.size else own.sum(0)
        natively(b, (drawn, *values[1:]))
        own.copy_(drawn.expand(own.shape))
        return values[0]
    if len(tensors_in(values)) == 1 and shapes_only(b):
        # Only the shape of the one tensor counts.
        value, dim = b.value(values[0])
        return natively(b, (value.select(dim, 0), *values[1:]))
    return with_one_seed(b, values)


def shapes_only(b: Batch) -> bool:
    """Whether an operator draws numbers of its first argument's shape, whatever its elements are."""
    return b.record.name.endswith("_like") or b.record.full_name == "bernoulli.p"


def with_one_seed(b: Batch, values: tuple) -> Any:
    """Parameters differ from sample to sample: each draws from the same state of the generator."""
    generator = next((v for v in values if isinstance(v, _C.Generator)), None) or _C.default_generator
    state = generator.get_state()
    results = []
    for i in range(b.size):
        generator.set_state(state)
        results.append(looped_silently(b, values, i))
    if writes(b):
        return values[0]
    return b.wrap(_C.stack(results))


def different(b: Batch, values: tuple) -> Any:
    """A draw for each sample."""
    arguments = [a.name for a in b.record.schema.arguments]
    if writes(b):
        if not b.has(values[0]):
            refuse_random_write(b)
        own = b.first(values[0])
        rest = tuple(b.aligned(v, own.ndim - 1) for v in values[1:])
        natively(b, (own, *rest))
        return values[0]
    if "size" in arguments and not tensors_in(values):
        at = arguments.index("size")
        return b.wrap(natively(b, (*values[:at], [b.size, *values[at]], *values[at + 1 :])))
    if not tensors_in(values):
        return b.wrap(_C.stack([natively(b, values) for _ in range(b.size)]))
    if b.record.name == "multinomial":
        return multinomial(b, *values)
    if len(tensors_in(values)) == 1:
        return b.wrap(natively(b, tuple(b.all(v).contiguous() if isinstance(v, Tensor) else v for v in values)))
    rank = max(t.ndim for t in tensors_in(values))
    full = [b.aligned(v, rank) if isinstance(v, Tensor) and b.has(v) else v for v in values]
    at = next(i for i, v in enumerate(full) if isinstance(v, Tensor))
    if not any_batched(b, values):
        full[at] = full[at].expand([b.size, *full[at].shape]).contiguous()
    return b.wrap(natively(b, tuple(full)))


def multinomial(b: Batch, own: Tensor, count: int, replacement: bool, generator: Any) -> Any:
    rows = b.all(own)
    flat = rows.reshape([-1, rows.shape[-1]])
    drawn = natively(b, (flat, count, replacement, generator))
    return b.wrap(drawn.reshape([*rows.shape[:-1], count]))


def refuse_random_write(b: Batch) -> None:
    raise RuntimeError(
        f"[{b.record.name}] vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness. "
        "If this is necessary for your usage, please file an issue with functorch."
    )
