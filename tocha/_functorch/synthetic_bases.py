"""Inputs that lie on the same memory, one of which is written to: the graph gets the tensor on which all of them lie, and makes them.

What a write to one input does to another cannot be seen from graphs in which inputs are separate values. So such a group is replaced
by its *base*: the tensor of which they are views, or one over the whole storage. The views are made again inside the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tocha import _C, autograd
from tocha._subclasses.fake import refresh
from tocha.ir.layout import is_dense

Tensor = _C.Tensor
Geometry = tuple[tuple[int, ...], tuple[int, ...], int]


def memory_key(t: Tensor) -> Any:
    """Equal for tensors on one storage, fakes and real ones."""
    facts = getattr(t, "_facts", None)
    if facts is not None:
        return id(facts.memory)
    return t.untyped_storage()._cdata if t.layout is _C.strided else id(t)


def geometry(t: Tensor) -> Geometry:
    return tuple(t.shape), tuple(t.stride()), t.storage_offset()


def extent(t: Tensor) -> tuple[int, int]:
    """The first byte of a tensor in its storage, and the one after its last."""
    width = t.element_size()
    first = t.storage_offset() * width
    if t.numel() == 0:
        return first, first
    last = sum((n - 1) * step for n, step in zip(t.shape, t.stride(), strict=True))
    return first, first + (last + 1) * width


def places(t: Tensor) -> set[int]:
    """The bytes at which its elements begin."""
    width = t.element_size()
    found = {t.storage_offset() * width}
    for n, step in zip(t.shape, t.stride(), strict=True):
        found = {p + i * step * width for p in found for i in range(n)}
    return found


LOOKED_AT = 1 << 16  # of tensors with more elements it is not asked whether they interleave without meeting


def overlap(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors of one storage have an element in common; yes where it would take long to know."""
    (a0, a1), (b0, b1) = extent(a), extent(b)
    if a1 <= b0 or b1 <= a0:
        return False
    known = all(type(n) is int for t in (a, b) for n in (*t.shape, *t.stride(), t.storage_offset()))
    if not known or a.element_size() != b.element_size() or max(a.numel(), b.numel()) > LOOKED_AT:
        return True
    return not places(a).isdisjoint(places(b))


def is_whole(t: Tensor) -> bool:
    """Whether a tensor is its storage, element by element."""
    facts = getattr(t, "_facts", None)
    size = t.untyped_storage().nbytes() if facts is None else facts.memory.nbytes
    return t.is_contiguous() and t.storage_offset() == 0 and size == t.numel() * t.element_size()


def keeps_addresses(t: Tensor) -> bool:
    """Whether a new value of a tensor has its elements at the addresses that they have: nothing lies before or between them. True where
    that is not known yet."""
    sizes, strides, offset = geometry(t)
    if not all(type(n) is int for n in (*sizes, *strides, offset)):
        return True
    return offset == 0 and is_dense(sizes, strides)


class Place:
    """Where a fake's elements lie: for putting it back there after a trace that moved it."""

    def __init__(self, t: Any):
        f = t._facts
        self.tensor, self.geometry, self.memory = t, (tuple(f.sizes), tuple(f.steps), f.offset), f.memory

    def restore(self) -> None:
        f = self.tensor._facts
        if (tuple(f.sizes), tuple(f.steps), f.offset) != self.geometry or f.memory is not self.memory:
            f.memory = self.memory
            f.reshape_in_place(*self.geometry)
            refresh(self.tensor)


def by_memory(args: Sequence[Any]) -> list[list[int]]:
    """The tensors among the arguments, by place, storage by storage."""
    found: dict[Any, list[int]] = {}
    for i, a in enumerate(args):
        if isinstance(a, Tensor) and a.layout is _C.strided:
            found.setdefault(memory_key(a), []).append(i)
    return list(found.values())


def interleaved(args: Sequence[Any], written: Sequence[int]) -> list[tuple[int, int]]:
    """Inputs, one of which is written to, that have no element in common, though one begins before the other ends: whether they meet
    depends on more than where they begin and end, which is what calls are asked for."""
    groups = [group for group in by_memory(args) if len(group) > 1]
    extents = {i: extent(args[i]) for group in groups for i in group}

    def crossed(i: int, j: int) -> bool:
        (a0, a1), (b0, b1) = extents[i], extents[j]
        return args[i] is not args[j] and a0 < b1 and b0 < a1

    return [
        (i, j)
        for group in groups
        for i in group
        if i in written
        for j in group
        if (j not in written or i < j) and crossed(i, j)
    ]


def groups_of(args: Sequence[Any], written: Sequence[int], by_address: Sequence[int] = ()) -> list[list[int]]:
    """The inputs, by place, that have to be made from one base: those of a storage on which one that is written meets another; and
    one that is written to and of whose storage the function shows more (`by_address`)."""
    found = []
    for group in by_memory(args):
        meets = any(
            args[i] is not args[j] and overlap(args[i], args[j]) for i in group if i in written for j in group if j != i
        )
        shows_more = any(i in written and not is_whole(args[i]) for i in group if i in by_address)
        if meets or (shows_more and base_for(args, group).kind != "itself"):
            found.append(group)
    return found


@dataclass
class Base:
    """One group: where its base is found among the arguments, and how its members lie on it."""

    members: list[int]
    source: int  # the argument that leads to the base
    kind: str  # "itself", "base" (what that argument is a view of) or "storage"
    geometries: list[Geometry]
    whole: Geometry  # the base's own

    def of(self, args: Sequence[Any]) -> Tensor:
        """The base of these arguments."""
        t = args[self.source]
        if self.kind == "itself":
            return t
        if self.kind == "base":
            return t._base
        with autograd.no_grad():
            size = t.untyped_storage().nbytes() // t.element_size()
            return t.detach().as_strided((size,), (1,), 0)

    def fits(self, args: Sequence[Any]) -> bool:
        """Whether the base and the members lie as when the function was traced."""
        base = self.of(args)
        if base is None or geometry(base) != self.whole or not keeps_addresses(base):
            return False
        memory = memory_key(base)
        return all(
            geometry(args[i]) == g and memory_key(args[i]) == memory
            for i, g in zip(self.members, self.geometries, strict=True)
        )


def base_for(args: Sequence[Any], group: list[int]) -> Base:
    """What stands for a group of inputs: the tensor of which they are views, if it is all of its storage, else the storage. Members
    are made by addresses in the storage, which are those in a new value of the base only if nothing lies before or between its elements."""

    def base(source: int, kind: str) -> Base:
        made = Base(group, source, kind, [geometry(args[i]) for i in group], ((), (), 0))
        made.whole = geometry(made.of(args))
        return made

    roots = {id(b): i for i in group if (b := base_or_self(args[i])).requires_grad}
    if len(roots) > 1:
        raise RuntimeError(
            "aot_autograd() does not yet handle non-differentiable view input mutations.\n[aot_autograd] inputs "
            f"{group} share memory, one of them is written to, and they are not views of one tensor that autograd knows"
        )
    if roots:
        (source,) = roots.values()
        if len(group) > 1 and not keeps_addresses(base_or_self(args[source])):
            raise RuntimeError(
                f"[aot_autograd] inputs {group} share memory, one of them is written to, and the tensor with gradients that they are "
                "views of has other elements before or between its own"
            )
        return base(source, "itself" if args[source]._base is None else "base")
    bases = {id(b): b for i in group for b in [base_or_self(args[i])]}
    if len(bases) > 1 or not is_whole(*bases.values()):
        return base(group[0], "storage")
    itself = next((i for i in group if id(args[i]) in bases), None)
    return base(group[0], "base") if itself is None else base(itself, "itself")


def base_or_self(t: Tensor) -> Tensor:
    return t if t._base is None else t._base


def remake(base: Tensor, like: Tensor, g: Geometry) -> Tensor:
    """A member as a view of its base."""
    if geometry(base) == g and base.dtype is like.dtype and base.requires_grad == like.requires_grad:
        return base
    if base.requires_grad and not like.requires_grad:
        base = base.detach()
    if base.dtype is not like.dtype:
        if base.is_complex() != like.is_complex():
            base = _C.view_as_real(base) if base.is_complex() else base
        if base.dtype is not like.dtype:
            base = base.view(like.dtype)
    return base.as_strided(*g)


def moved_from(before: Any, now: Any) -> Any:
    """A geometry whose offset counts from the first element that the tensor had: another call's may lie elsewhere in its storage."""
    return (*now[:2], now[2] - before[2]) if before is not None and now is not None else now


class OnBases:
    """A function of flat arguments as one of bases and the arguments that belong to none."""

    def __init__(self, fn: Callable, args: Sequence[Any], groups: list[list[int]]):
        self.fn, self.args = fn, list(args)
        self.bases = [base_for(args, g) for g in groups]
        taken = {i for g in groups for i in g}
        self.rest = [i for i in range(len(args)) if i not in taken]
        self.same: dict[int, int] = {}  # results that are members: which argument each is
        self.moved: dict[int, Geometry] = {}  # members whose own geometry the function changed

    @property
    def num_inner(self) -> int:
        return len(self.bases) + len(self.rest)

    def inner(self, args: Sequence[Any]) -> list[Any]:
        """What the traced function takes in place of these arguments."""
        return [*(b.of(args) for b in self.bases), *(args[i] for i in self.rest)]

    def fits(self, args: Sequence[Any]) -> bool:
        return all(b.fits(args) for b in self.bases)

    def __call__(self, *inner: Any) -> Any:
        full: list[Any] = [None] * len(self.args)
        for i, value in zip(self.rest, inner[len(self.bases) :], strict=True):
            full[i] = value
        members: dict[int, Any] = {}
        for base, value in zip(self.bases, inner, strict=False):
            for i, g in zip(base.members, base.geometries, strict=True):
                again = next((j for j in members if self.args[j] is self.args[i]), None)
                full[i] = members[i] = remake(value, self.args[i], g) if again is None else members[again]
        before = {i: geometry(m) for i, m in members.items()}
        outs = list(self.fn(*full))
        self.same = {k: i for k, o in enumerate(outs) for i, m in reversed(members.items()) if o is m}
        self.moved = {i: moved_from(before[i], geometry(m)) for i, m in members.items() if geometry(m) != before[i]}
        return outs
