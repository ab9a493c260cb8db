"""Contractions whose indices are named at run time: einsum, tensordot, chain_matmul. Exported by `import tocha`.

An einsum call is planned once per equation and shapes: the plan is a short list of permutes, reshapes and
matrix products, so that a repeated call only runs those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tocha import _C
from tocha._core.switches import warn_once
from tocha.overrides import handle_torch_function, has_torch_function

__all__ = ["chain_matmul", "einsum", "spmm", "tensordot"]

Tensor = _C.Tensor
spmm = _C.mm  # PyTorch's name where the first matrix may be sparse
Labels = tuple[int, ...]  # letters count A-Z, a-z from 0; dims under an ellipsis are -1, -2, ... from the right
ELLIPSIS = None  # stands for `...` in a term
Term = tuple[int | None, ...]
Step = Callable[[Tensor], Tensor]


def einsum(*args: Any) -> Tensor:
    """Sums products of the operands' elements over the indices that the equation leaves out of the result.

    >>> import tocha
    >>> a = tocha.tensor([[1., 2.], [3., 4.]])
    >>> tocha.einsum("ij,jk->ik", a, a)
    tensor([[ 7., 10.],
            [15., 22.]])
    >>> tocha.einsum("ii", a)
    tensor(5.)

    The other form names indices by integers: einsum(a, [0, 1], a, [1, 2], [0, 2]).
    """
    if len(args) < 2:
        raise ValueError(
            "[einsum] einsum(): must specify the equation string and at least one operand, or at least one operand and its subscripts list"
        )
    if isinstance(args[0], Tensor):
        terms, output, operands = _from_sublists(args)
    else:
        if not isinstance(args[0], str):
            raise TypeError(f"einsum(): argument 'equation' (position 1) must be str, not {type(args[0]).__name__}")
        operands = args[1:]
        if len(operands) == 1 and isinstance(operands[0], list | tuple):
            if not has_torch_function(operands):  # overrides get the operands side by side, modes as they were given
                return einsum(args[0], *operands[0])
            return handle_torch_function(einsum, operands, *args)
        terms, output = _parse(args[0])
    if has_torch_function(operands):
        return handle_torch_function(einsum, operands, *args)
    for i, x in enumerate(operands):
        if not isinstance(x, Tensor):
            raise TypeError(f"[einsum] expected Tensor as element {i} in argument 1, but got {type(x).__name__}")
    if len(terms) != len(operands):
        fewer = "fewer" if len(operands) < len(terms) else "more"
        raise RuntimeError(
            f"[einsum] einsum(): {fewer} operands were provided than specified in the equation: {len(operands)} for {len(terms)} terms"
        )
    shapes = tuple(x.shape for x in operands)
    plain = all([type(x) is Tensor for x in operands]) or all([type(n) is int for shape in shapes for n in shape])
    return (_plan if plain else _plan.__wrapped__)(terms, output, shapes)(operands)  # symbols are no keys of a cache


# -- reading ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _parse(equation: str) -> tuple[tuple[Term, ...], Term | None]:
    left, arrow, right = equation.partition("->")
    terms, start = [], 0
    for i, text in enumerate(left.split(",")):
        terms.append(_term(text, start, f"operand {i}"))
        start += len(text) + 1
    output = _term(right, len(left) + 2, "the result") if arrow else None
    return tuple(terms), output


def _term(text: str, start: int, what: str) -> Term:
    out: list[int | None] = []
    i = 0
    while i < len(text):
        c = text[i]
        if c == ".":
            if text[i : i + 3] != "...":
                raise RuntimeError(f"[einsum] einsum(): found '.' for {what} that is not part of any ellipsis")
            if ELLIPSIS in out:
                raise RuntimeError(f"[einsum] einsum(): found '.' for {what} for which an ellipsis was already found")
            out.append(ELLIPSIS)
            i += 3
            continue
        if c.isascii() and c.isalpha():
            out.append(_label(c))
        elif c != " ":
            raise RuntimeError(
                f"[einsum] einsum(): invalid subscript given at index {start + i} in the equation string, subscripts must be in [a-zA-Z]: got {c!r}"
            )
        i += 1
    return tuple(out)


def _label(letter: str) -> int:
    return ord(letter) - ord("A") if letter.isupper() else ord(letter) - ord("a") + 26


def _letter(label: int) -> str:
    return chr(ord("A") + label) if label < 26 else chr(ord("a") + label - 26)


def _from_sublists(args: tuple) -> tuple[tuple[Term, ...], Term | None, tuple]:
    output = _sublist(args[-1]) if len(args) % 2 else None
    pairs = args[: len(args) // 2 * 2]
    return tuple(_sublist(s) for s in pairs[1::2]), output, pairs[::2]


def _sublist(items: Sequence) -> Term:
    out: list[int | None] = []
    for x in items:
        if x is Ellipsis:
            if ELLIPSIS in out:
                raise RuntimeError("[einsum] found a second ellipsis in a list of subscripts")
            out.append(ELLIPSIS)
            continue
        label = x.__index__()
        if not 0 <= label < 52:
            raise ValueError(
                f"[einsum] einsum(): subscript in subscript list is not within the valid range [0, 52): got {label}"
            )
        out.append(label)
    return tuple(out)


# -- planning --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _plan(
    terms: tuple[Term, ...], output: Term | None, shapes: tuple[tuple[int, ...], ...]
) -> Callable[[Sequence[Tensor]], Tensor]:
    operands = [_expand(i, t, s) for i, (t, s) in enumerate(zip(terms, shapes, strict=True))]
    sizes = _sizes(operands, shapes)
    out = _output(output, operands, sizes)
    prepared = [
        _prepare(i, labels, shape, sizes) for i, (labels, shape) in enumerate(zip(operands, shapes, strict=True))
    ]
    labels, first = prepared[0]
    joins: list[tuple[Step, Callable[[Tensor, Tensor], Tensor]]] = []
    for i, (other, prepare) in enumerate(prepared[1:], 1):
        kept = {*out, *(label for later, _ in prepared[i + 1 :] for label in later)}
        labels, join = _join(labels, other, kept, sizes, out)
        joins.append((prepare, join))
    last = _finish(labels, out)

    def run(tensors: Sequence[Tensor]) -> Tensor:
        x = first(tensors[0])
        for (prepare, join), t in zip(joins, tensors[1:], strict=True):
            x = join(x, prepare(t))
        return last(x)

    return run


def _expand(operand: int, term: Term, shape: tuple[int, ...]) -> Labels:
    """One label for every dim of the operand."""
    named = len(term) - (ELLIPSIS in term)
    if ELLIPSIS not in term:
        if named != len(shape):
            raise RuntimeError(
                f"[einsum] einsum(): the number of subscripts in the equation ({named}) does not match the number of dimensions ({len(shape)}) for operand {operand} and no ellipsis was given"
            )
        return term  # type: ignore[return-value]
    if named > len(shape):
        raise RuntimeError(
            f"[einsum] einsum(): the number of subscripts in the equation ({named}) is more than the number of dimensions ({len(shape)}) for operand {operand}"
        )
    at = term.index(ELLIPSIS)
    return (*term[:at], *range(named - len(shape), 0), *term[at + 1 :])  # type: ignore[return-value]


def _sizes(operands: list[Labels], shapes: tuple[tuple[int, ...], ...]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for i, (labels, shape) in enumerate(zip(operands, shapes, strict=True)):
        own: dict[int, int] = {}
        for label, size in zip(labels, shape, strict=True):
            if own.setdefault(label, size) != size:
                raise RuntimeError(
                    f"[einsum] einsum(): subscript {_letter(label)} is repeated for operand {i} but the sizes don't match, {size} != {own[label]}"
                )
        for label, size in own.items():
            seen = sizes.get(label, 1)
            if size != 1 and seen not in (1, size):
                if label < 0:
                    raise RuntimeError(
                        f"[einsum] einsum(): dimension {labels.index(label)} covered by ellipsis in operand {i}has size {size} which does not broadcast with previously seen ellipsis with size {seen} for the respective dimension"
                    )
                raise RuntimeError(
                    f"[einsum] einsum(): subscript {_letter(label)} has size {size} for operand {i} which does not broadcast with previously seen size {seen}"
                )
            sizes[label] = size if seen == 1 else seen
    return sizes


def _output(output: Term | None, operands: list[Labels], sizes: dict[int, int]) -> Labels:
    dots = sorted(label for label in sizes if label < 0)
    if output is None:
        every = [label for labels in operands for label in labels]
        return (*dots, *sorted(label for label in sizes if label >= 0 and every.count(label) == 1))
    out: list[int] = []
    for label in output:
        if label is ELLIPSIS:
            out += dots
            continue
        if label not in sizes:
            raise RuntimeError(
                f"[einsum] einsum(): output subscript {_letter(label)} does not appear in the equation for any input operand"
            )
        if label in out:
            raise RuntimeError(
                f"[einsum] einsum(): output subscript {_letter(label)} appears more than once in the output"
            )
        out.append(label)
    return tuple(out)


def _prepare(operand: int, labels: Labels, shape: tuple[int, ...], sizes: dict[int, int]) -> tuple[Labels, Step]:
    """Diagonals for repeated labels, and no dims of size 1 where other operands have more."""
    left = list(labels)
    diagonals: list[tuple[int, int]] = []
    while len(set(left)) < len(left):
        label = next(x for x in left if left.count(x) > 1)
        a = left.index(label)
        b = left.index(label, a + 1)
        diagonals.append((a, b))
        del left[b], left[a]
        left.append(label)
    size = dict(zip(labels, shape, strict=True))
    drop = tuple(i for i, label in enumerate(left) if size[label] == 1 and sizes[label] != 1)

    def run(x: Tensor) -> Tensor:
        for a, b in diagonals:
            x = x.diagonal(0, a, b)
        return x.squeeze(drop) if drop else x

    return tuple(label for i, label in enumerate(left) if i not in drop), run


def _join(
    left: Labels, right: Labels, kept: set[int], sizes: dict[int, int], out: Labels
) -> tuple[Labels, Callable[[Tensor, Tensor], Tensor]]:
    """Multiplies two operands and sums over what both have and nobody needs later."""
    batch = [x for x in left if x in right and x in kept]
    summed = [x for x in left if x in right and x not in kept]
    rows = [x for x in left if x not in right and x in kept]
    columns = [x for x in right if x not in left and x in kept]
    lone_left = tuple(i for i, x in enumerate(left) if x not in right and x not in kept)
    lone_right = tuple(i for i, x in enumerate(right) if x not in left and x not in kept)
    a = tuple(x for i, x in enumerate(left) if i not in lone_left)
    b = tuple(x for i, x in enumerate(right) if i not in lone_right)
    if all(sizes[x] == 1 for x in summed):  # nothing to add up: the layout and dtypes of a plain product
        thin_a, thin_b = (tuple(i for i, x in enumerate(own) if x in summed) for own in (a, b))
        labels = tuple(sorted({*a, *b} - {*summed}, key=lambda x: out.index(x) if x in out else len(out)))
        spread_a, spread_b = (_spread(tuple(x for x in own if x not in summed), labels) for own in (a, b))

        def multiply(x: Tensor, y: Tensor) -> Tensor:
            x = x.sum(lone_left) if lone_left else x
            y = y.sum(lone_right) if lone_right else y
            if summed:
                x, y = x.squeeze(thin_a), y.squeeze(thin_b)
            return spread_a(x) * spread_b(y)

        return labels, multiply

    # The result comes out in the order of `out` where swapping the factors achieves it.
    order = [x for x in out if x in rows or x in columns]
    swap = bool(order) and order[0] in columns
    if swap:
        rows, columns = columns, rows
    batch.sort(key=lambda x: out.index(x) if x in out else len(out))
    first, second = (b, a) if swap else (a, b)
    as_left = _matrices(first, (batch, rows, summed), sizes)
    as_right = _matrices(second, (batch, summed, columns), sizes)
    labels = (*batch, *rows, *columns)
    shape = [sizes[x] for x in labels]
    whole = len(rows) == 1 and len(columns) == 1

    def contract(x: Tensor, y: Tensor) -> Tensor:
        x = x.sum(lone_left, dtype=x.dtype) if lone_left else x
        y = y.sum(lone_right, dtype=y.dtype) if lone_right else y
        if swap:
            x, y = y, x
        product = as_left(x) @ as_right(y)
        return product if whole else product.reshape(shape)

    return labels, contract


def _permutation(labels: Labels, order: Sequence[int]) -> list[int] | None:
    """Where order's labels are, or None if they are in place."""
    where = [labels.index(x) for x in order]
    return None if where == list(range(len(where))) else where


def _spread(labels: Labels, order: Labels) -> Step:
    """Labels in this order, with dims of size 1 for those the operand has not got."""
    where = _permutation(labels, [x for x in order if x in labels])
    missing = [i for i, x in enumerate(order) if x not in labels]

    def run(x: Tensor) -> Tensor:
        if where is not None:
            x = x.permute(where)
        for i in missing:
            x = x.unsqueeze(i)
        return x

    return run


def _matrices(labels: Labels, groups: tuple[list[int], list[int], list[int]], sizes: dict[int, int]) -> Step:
    """The operand as a batch of matrices: groups are the batch's dims, the rows' and the columns'."""
    batch, rows, columns = groups
    where = _permutation(labels, [*batch, *rows, *columns])
    plain = len(rows) == 1 and len(columns) == 1
    shape = [*(sizes[x] for x in batch), math.prod(sizes[x] for x in rows), math.prod(sizes[x] for x in columns)]

    def run(x: Tensor) -> Tensor:
        if where is not None:
            x = x.permute(where)
        return x if plain else x.reshape(shape)

    return run


def _finish(labels: Labels, out: Labels) -> Step:
    """Sums what the result does not have and puts its dims in order."""
    summed = tuple(i for i, x in enumerate(labels) if x not in out)
    where = _permutation(tuple(x for x in labels if x in out), out)

    def run(x: Tensor) -> Tensor:
        x = x.sum(summed) if summed else x
        return x if where is None else x.permute(where)

    return run


# -- the others ------------------------------------------------------------------------------------------------


def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Sums products over the last `dims` dims of a and the first of b, or over the dims listed for each.

    >>> import tocha
    >>> tocha.tensordot(tocha.ones(2, 3, 4), tocha.ones(4, 3), dims=([1, 2], [1, 0]))
    tensor([12., 12.])
    """
    if has_torch_function((a, b)):
        return handle_torch_function(tensordot, (a, b), a, b, dims=dims, out=out)
    over_a, over_b = _tensordot_dims(a, b, dims)
    if a.dtype != b.dtype:
        raise RuntimeError(f"[tensordot] both inputs should have same dtype, but got {a.dtype} and {b.dtype}")
    for i, j in zip(over_a, over_b, strict=True):
        if a.shape[i] == b.shape[j]:
            continue
        if b.shape[j] == 1:
            a = a.sum((i,), True, dtype=a.dtype)
        elif a.shape[i] == 1:
            b = b.sum((j,), True, dtype=b.dtype)
        else:
            raise RuntimeError(
                f"[tensordot] contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and second has size {b.shape[j]} in dim {j}"
            )
    free_a = [i for i in range(a.dim()) if i not in over_a]
    free_b = [j for j in range(b.dim()) if j not in over_b]
    rows, columns = [a.shape[i] for i in free_a], [b.shape[j] for j in free_b]
    depth = math.prod(a.shape[i] for i in over_a)
    left = a.permute([*free_a, *over_a]).reshape(math.prod(rows), depth)
    right = b.permute([*over_b, *free_b]).reshape(depth, math.prod(columns))
    result = (left @ right).reshape([*rows, *columns]) if rows or columns else left.ravel().dot(right.ravel())
    return result if out is None else _into(out, result)


def _into(out: Tensor, result: Tensor) -> Tensor:
    """The rule of out=: the dtype must be right, the shape is made so."""
    if out.dtype != result.dtype:
        raise RuntimeError(
            f"[tensordot] tensordot: Expected the output tensor to have dtype {result.dtype}, but got an output tensor with dtype {out.dtype}"
        )
    if out.shape != result.shape:
        out.resize_(result.shape)
    return out.copy_(result)


def _tensordot_dims(a: Tensor, b: Tensor, dims: Any) -> tuple[list[int], list[int]]:
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims.numel() > 1 else int(dims.item())
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"[tensordot] tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(
                f"[tensordot] tensordot expects dims < ndim_a or ndim_b, but got dims={dims} for {list(a.shape)} and {list(b.shape)}"
            )
        return list(range(a.dim() - dims, a.dim())), list(range(dims))
    if not isinstance(dims, tuple | list) or len(dims) != 2:
        raise RuntimeError(
            f"[tensordot] tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] containing two lists, but got dims={dims}"
        )
    if not all(isinstance(d, tuple | list) for d in dims):
        raise TypeError(
            f"[tensordot] tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] containing two lists, but got dims={dims}"
        )
    if len(dims[0]) != len(dims[1]):
        raise RuntimeError(f"[tensordot] both dimension lists should have same length, but got {dims!r}")
    return _wrapped(dims[0], a.dim()), _wrapped(dims[1], b.dim())


def _wrapped(dims: Sequence[int], ndim: int) -> list[int]:
    out = []
    for d in dims:
        if not -ndim <= d < ndim:
            raise IndexError(
                f"[tensordot] Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {d})"
            )
        out.append(d % ndim)
    if len(set(out)) < len(out):
        raise RuntimeError(f"[tensordot] a dim appears multiple times in {list(dims)}")
    return out


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """Deprecated form of linalg.multi_dot: the product of matrices in the cheapest order.

    >>> tocha.chain_matmul(tocha.ones(2, 3), tocha.ones(3, 4), tocha.ones(4, 1))
    tensor([[12.],
            [12.]])
    """
    if has_torch_function(matrices):
        return handle_torch_function(chain_matmul, matrices, *matrices, out=out)
    warn_once(
        "tocha.chain_matmul is deprecated and will be removed in a future release. Use tocha.linalg.multi_dot instead, "
        "which accepts a list of two or more tensors rather than multiple parameters."
    )
    if not matrices:
        raise RuntimeError("[chain_matmul] chain_matmul(): Expected one or more matrices")
    for m in matrices:
        if m.dim() != 2:
            raise RuntimeError(f"[chain_matmul] Tensor dimension is {m.dim()}, expected 2 instead.")
    if len(matrices) == 1:
        return matrices[0] if out is None else _into(out, matrices[0])
    return _C._linalg.multi_dot(matrices, out=out)
