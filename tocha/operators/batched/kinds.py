"""Rules that serve many operators: along dims, over leading dims, over a first dim of samples. `b` is the batch (tocha/_functorch/batching.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha.operators.record import Operator, batching

DIMS = ("dim", "dims", "dim0", "dim1", "dim2", "dimension", "axis", "axis0", "axis1", "start_dim", "end_dim")


def wrapped_dim(b: Any, d: int, rank: int) -> int:
    n = max(rank, 1)
    if not -n <= d < n:
        raise IndexError(
            f"[{b.record.name}] Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d})"
        )
    return d % n + 1


def shifted(b: Any, values: tuple, rank: int) -> list[Any]:
    """Arguments that name dims, as those of tensors with a batch dim in front."""
    found = []
    for a, v in zip(b.record.schema.arguments, values, strict=False):
        if a.name in DIMS and isinstance(v, int) and not isinstance(v, bool):
            v = wrapped_dim(b, v, rank)
        elif a.name in DIMS and isinstance(v, list | tuple):
            v = [wrapped_dim(b, d, rank) for d in v]
        found.append(v)
    return found


def along_dims(b: Any, *values: Any) -> Any:
    """Operators along dims of tensors of one rank: the batch dim goes in front and dims count from behind it."""
    rank = max(v.ndim for v in values if b.is_tensor(v))
    reduces = b.record.kind == "reduction" or "keepdim" in (a.name for a in b.record.schema.arguments)
    if reduces:
        values, shape = over_all(b, values, rank)
    found = shifted(b, values, rank)
    for i, v in enumerate(found):
        if b.is_tensor(v):
            t = b.first(v) if b.has(v) else b.all(v)
            found[i] = t.unsqueeze(-1) if v.ndim == 0 else t
    if reduces and shape is not None:
        at = [a.name for a in b.record.schema.arguments]
        found[0] = found[0].reshape([found[0].shape[0], -1])
        found[at.index("dim")] = 1
        if "keepdim" in at and found[at.index("keepdim")]:
            return mapped(lambda r: r.reshape([r.shape[0], *shape]), b.run(*found))
    result = b.run(*found)
    return mapped(lambda r: r.squeeze(1) if r.ndim == 2 else r, result) if rank == 0 else result


def over_all(b: Any, values: tuple, rank: int) -> tuple[tuple, list[int] | None]:
    """A reduction of everything: of all dims but the batch's. Where one dim is taken, of the elements in a row (then also the shape
    that keepdim asks for)."""
    arguments = b.record.schema.arguments
    for i, a in enumerate(arguments[: len(values)]):
        if a.name != "dim" or not (values[i] is None or values[i] == []):
            continue
        if a.type.startswith("int["):
            return (*values[:i], list(range(max(rank, 1))), *values[i + 1 :]), None
        return values, [1] * rank
    return values, None


def mapped(f: Callable, result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(mapped(f, r) for r in result)
    return [mapped(f, r) for r in result] if isinstance(result, list) else f(result)


def leading(b: Any, *values: Any) -> Any:
    """Operators on the last dims of tensors, over all dims before them: those are broadcast, and the batch dim is one more."""
    rank = max(v.ndim for v in values if b.is_tensor(v))
    return b.run(*(b.aligned(v, rank) if b.is_tensor(v) else v for v in values))


def leading_whole(b: Any, *values: Any) -> Any:
    """The same for operators that broadcast nothing: all operands are of the batch."""
    return b.run(*(b.all(v).contiguous() if b.is_tensor(v) else v for v in values))


def of_samples(*sized: str) -> Callable:
    """For operators whose tensors all begin with a dim of samples: it and the batch dim become one. `sized`: arguments that are the
    sizes of such tensors."""

    def rule(b: Any, *values: Any) -> Any:
        names = [a.name for a in b.record.schema.arguments]
        samples = next(v.shape[0] for v in values if b.is_tensor(v))
        found = []
        for name, v in zip(names, values, strict=True):
            if b.is_tensor(v):
                v = b.all(v).flatten(0, 1)
            elif name in sized:
                v = [b.size * v[0], *v[1:]]
            found.append(v)
        return mapped(lambda r: r.unflatten(0, [b.size, samples]), b.run(*found))

    return rule


def over_planes(b: Any, *values: Any) -> Any:
    """For operators on the last dims of tensors of one rank, with any dims before them; other tensors are the same for all."""
    found = [b.first(v) if b.has(v) else b.all(v) if b.is_tensor(v) else v for v in values]
    return b.run(*found)


def register(rule: Callable, *records: Operator) -> None:
    batching(*records)(rule)
