"""Making compressed sparse tensors: from their parts, and from tensors of other layouts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C
from tocha.sparse._compressed import (
    BLOCKED,
    BY_ROWS,
    LAYOUTS,
    Form,
    compress,
    flat,
    form,
    form_of_parts,
    is_compressed,
    keys,
    major,
    make_compressed,
    minor,
    places,
    spread,
    take_at,
    to_blocks,
)
from tocha.sparse._compressed_history import held, rebuild
from tocha.sparse._construct import check_sparse_tensor_invariants
from tocha.sparse._history import build, coalesced, values_of
from tocha.sparse._tensor import CompressedTensor, SparseTensor, Tensor, add_rows, is_sparse, layout_name, layout_of


def _index_names(layout: Any) -> tuple[str, str]:
    return ("crow_indices", "col_indices") if layout in BY_ROWS else ("ccol_indices", "row_indices")


# -- from parts ------------------------------------------------------------------------------------------


def check_shapes(layout: Any, groups: Tensor, within: Tensor, values: Tensor, size: Sequence[int]) -> None:
    """Refuses parts whose shapes or dtypes do not fit, in PyTorch's words."""
    outer, inner = _index_names(layout)
    blocks = 2 if layout in BLOCKED else 0
    batch, dense = groups.dim() - 1, values.dim() - groups.dim() - blocks
    if groups.dim() < 1:
        raise RuntimeError(f"{outer} must have dimensionality >= 1 but got {groups.dim()}")
    if groups.dim() != within.dim():
        raise RuntimeError(
            f"{outer} and {inner} dimensionalities must be equal but got {groups.dim()} and {within.dim()}, respectively"
        )
    if dense < 0:
        raise RuntimeError(
            "values must have dimensionality > sum of batch and block dimensionalities "
            f"(={batch} + {blocks}) but got {values.dim()}"
        )
    if len(size) != batch + 2 + dense:
        raise RuntimeError(
            "tensor dimensionality must be sum of batch, base, and dense dimensionalities "
            f"(={batch} + 2 + {dense}) but got {len(size)}"
        )
    batches = [list(part.shape[:batch]) for part in (groups, within, values)]
    if any(found != list(size[:batch]) for found in batches):
        raise RuntimeError(
            f"all batch dimensions of {outer} (={batches[0]}), {inner} (={batches[1]}), and values (={batches[2]}) "
            f"must be equal to tensor batch dimensions (={list(size[:batch])})"
        )
    _check_sizes(layout, groups, within, values, size)


_WORDS = {"int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte", "float32": "Float"}
_WORDS |= {"float64": "Double", "float16": "Half", "bool": "Bool"}


def _word(dtype: Any) -> str:
    """What messages call a dtype."""
    name = str(dtype).split(".")[-1]
    return _WORDS.get(name, name)


def _check_sizes(layout: Any, groups: Tensor, within: Tensor, values: Tensor, size: Sequence[int]) -> None:
    outer, inner = _index_names(layout)
    batch = groups.dim() - 1
    block = list(values.shape[batch + 1 : batch + 3]) if layout in BLOCKED else []
    for d, n in enumerate(block):
        if n == 0 or size[batch + d] % n:
            raise RuntimeError(
                f"tensor shape[{batch + d}] (={size[batch + d]}) must be divisible with blocksize[{d}] (={n}) "
                "as defined by values shape"
            )
    if within.size(-1) != values.size(batch):
        raise RuntimeError(
            f"{inner}.shape[-1] must be equal to nnz (={values.size(batch)}) as defined by values.shape[{batch}], "
            f"but got {within.size(-1)}"
        )
    found = form_of_parts(layout, groups, values, size)
    count, what = (found.rows, "row") if layout in BY_ROWS else (found.columns, "column")
    if groups.size(-1) != count + 1:
        what = f"{what} blocks" if block else f"{what}s"
        raise RuntimeError(
            f"{outer}.shape[-1] must be equal to the number of {what} + 1 (={count + 1}), but got {groups.size(-1)}"
        )


def check_invariants_of(layout: Any, groups: Tensor, within: Tensor, values: Tensor, size: Sequence[int]) -> None:
    """Refuses indices that are out of range, out of order or there twice, in PyTorch's words."""
    outer, inner = _index_names(layout)
    if groups.dtype != within.dtype:
        raise RuntimeError(
            f"{outer} and {inner} must have the same dtype, but got {_word(groups.dtype)} and {_word(within.dtype)}"
        )
    if groups.dtype not in (_C.int32, _C.int64):
        raise RuntimeError(f"{outer} and {inner} dtype must be Int or Long, but got {_word(groups.dtype)}")
    rows, columns = ("nrows", "ncols") if layout in BY_ROWS else ("ncols", "nrows")
    found = form_of_parts(layout, groups, values, size)
    limit = found.columns if layout in BY_ROWS else found.rows
    steps = groups[..., 1:] - groups[..., :-1]

    def satisfied(condition: Tensor, text: str) -> None:
        if not bool(condition.all()):
            raise RuntimeError(f"`{text}` is not satisfied.")

    if groups.is_meta:
        return
    satisfied(groups[..., 0] == 0, f"{outer}[..., 0] == 0")
    satisfied(groups[..., -1] == within.size(-1), f"{outer}[..., -1] == nnz")
    satisfied(
        (steps >= 0) & (steps <= (limit if limit >= 0 else within.size(-1))),
        f"0 <= {outer}[..., 1:] - {outer}[..., :-1] <= {columns}",
    )
    satisfied((within >= 0) & (within < limit), f"0 <= {inner} < {columns}")
    rising = within[..., 1:] > within[..., :-1]
    first = _C.zeros(within.shape, dtype=_C.bool).reshape(-1, within.size(-1)) if within.size(-1) else None
    if first is not None and within.size(-1) > 1:
        starts = groups[..., :-1].reshape(first.size(0), -1).to(_C.int64).clamp(max=within.size(-1) - 1)
        first = first.scatter(1, starts, True).reshape(within.shape)[..., 1:]
        satisfied(
            rising | first,
            f"{inner}[..., {outer}[..., i - 1]:{outer}[..., i]] for all i = 1, ..., {rows} "
            "are sorted and distinct along the last dimension values",
        )


def _inferred_size(layout: Any, groups: Tensor, within: Tensor, values: Tensor) -> list[int]:
    if groups.dim() < 1:
        raise RuntimeError(f"{_index_names(layout)[0]} must have dimensionality >= 1 but got {groups.dim()}")
    batch, blocks = groups.dim() - 1, 2 if layout in BLOCKED else 0
    if values.dim() < batch + blocks + 1:
        raise RuntimeError(
            "values must have dimensionality > sum of batch and block dimensionalities "
            f"(={batch} + {blocks}) but got {values.dim()}"
        )
    if within.is_floating_point() or within.is_complex() or within.dtype == _C.bool:
        raise NotImplementedError(
            f"\"estimate_sparse_compressed_tensor_size\" not implemented for '{_word(within.dtype)}'"
        )
    p, q = values.shape[batch + 1 : batch + 3] if blocks else (1, 1)
    plain = int(within.max()) + 1 if within.numel() else 0
    count = groups.size(-1) - 1
    rows, columns = (count, plain) if layout in BY_ROWS else (plain, count)
    return [*groups.shape[:-1], rows * p, columns * q, *values.shape[batch + 1 + blocks :]]


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A tensor in one of the compressed layouts, of the indices where its rows or columns begin, those within them, and values.

    >>> import tocha
    >>> s = tocha.sparse_compressed_tensor([0, 1, 2], [2, 0], [1.0, 2.0], (2, 3), layout=tocha.sparse_csr)
    >>> s.to_dense()
    tensor([[0., 0., 1.],
            [2., 0., 0.]])
    """
    if layout not in LAYOUTS:
        got = "none" if layout is None else layout_name(layout)
        raise RuntimeError(f"sparse_compressed_tensor expected sparse compressed tensor layout but got {got}")
    if pin_memory:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    if size is not None and not (isinstance(size, Sequence) and all(isinstance(n, int) for n in size)):
        raise TypeError("sparse_compressed_tensor(): argument 'size' must be tuple of ints")
    for part in (compressed_indices, plain_indices, values):
        if is_sparse(part) or is_compressed(part):
            raise TypeError("[sparse_compressed_tensor] indices and values must be dense")
    values = _C.as_tensor(values, dtype=dtype, device=device)
    groups = _C.as_tensor(compressed_indices, device=values.device).detach()
    within = _C.as_tensor(plain_indices, device=values.device).detach()
    if size is None:
        size = _inferred_size(layout, groups, within, values)
    if groups.dtype != within.dtype and {groups.dtype, within.dtype} <= {_C.int32, _C.int64}:
        within = within.to(groups.dtype)
    if any(n < 0 for n in size):
        check_invariants_of(layout, groups, within, values, size)
        raise RuntimeError(f"Trying to create tensor with negative dimension: {list(size)}")
    checked = check_sparse_tensor_invariants.is_enabled() if check_invariants is None else check_invariants
    check_shapes(layout, groups, within, values, size)
    if checked:
        check_invariants_of(layout, groups, within, values, size)
    made = rebuild("SparseCompressedTensor", values, layout, groups, within, size, checked)
    return made.requires_grad_() if requires_grad and not made.requires_grad else made


def _constructor(name: str, kind: Any, outer: str, inner: str, example: str) -> Callable:
    def construct(*args: Any, layout: Any = None, **named: Any) -> Tensor:
        if layout not in (None, kind):
            raise RuntimeError(f"{name}: layout must be {layout_name(kind)} but got {layout_name(layout)}")
        order = (outer, inner, "values", "size")
        given = dict(zip(order, args, strict=False))
        if len(args) > 4 or any(n in named for n in order[: len(args)]):
            raise TypeError(f"{name}() received an invalid combination of arguments")
        given |= {n: named.pop(n) for n in order if n in named}
        if not {outer, inner, "values"} <= given.keys():
            raise TypeError(
                f"{name}() received an invalid combination of arguments - expected {outer}, {inner} and values"
            )
        return sparse_compressed_tensor(*(given.get(n) for n in order), layout=kind, **named)

    construct.__name__ = construct.__qualname__ = name
    construct.__doc__ = f"""{name}({outer}, {inner}, values, size=None): a tensor of layout {kind}.

    >>> import tocha
    >>> tocha.{name}({example}).to_dense()
    tensor([[0., 3.],
            [4., 0.]])
    """
    return construct


_PAIR, _BLOCKS = "[0, 1, 2], [1, 0], [{}]", "[0, 1], [0], [[[0.0, 3.0], [4.0, 0.0]]]"
sparse_csr_tensor = _constructor(
    "sparse_csr_tensor", _C.sparse_csr, "crow_indices", "col_indices", _PAIR.format("3.0, 4.0")
)
sparse_csc_tensor = _constructor(
    "sparse_csc_tensor", _C.sparse_csc, "ccol_indices", "row_indices", _PAIR.format("4.0, 3.0")
)
sparse_bsr_tensor = _constructor("sparse_bsr_tensor", _C.sparse_bsr, "crow_indices", "col_indices", _BLOCKS)
sparse_bsc_tensor = _constructor("sparse_bsc_tensor", _C.sparse_bsc, "ccol_indices", "row_indices", _BLOCKS)


def validate(layout: Any, groups: Any, within: Any, values: Any, size: Any) -> None:
    """What `_validate_sparse_csr_tensor_args` and its kin ask."""
    check_shapes(layout, groups, within, values, size)
    check_invariants_of(layout, groups, within, values, size)


# -- from other layouts ----------------------------------------------------------------------------------


def _node_name(layout: Any) -> str:
    return "To" + layout_name(layout)


def _check_block(context: str, blocksize: Any, size: Sequence[int], batch: int) -> tuple[int, int]:
    given = [blocksize] * 2 if isinstance(blocksize, int) else list(blocksize)
    if len(given) != 2:
        raise RuntimeError(f"{context}: blocksize needs to be a tuple of size 2, but got {len(given)}")
    if min(given) <= 0:
        raise RuntimeError(f"{context}: blocksize needs to be positive, but got {given}")
    rows, columns = size[batch], size[batch + 1]
    if rows % given[0] or columns % given[1]:
        raise RuntimeError(
            f"{context}: tensor sparse size ({rows},{columns}) must be divisible by given blocksize ({given[0]},{given[1]})"
        )
    return given[0], given[1]


def from_dense(t: Tensor, layout: Any, blocksize: Any = None, dense_dim: int | None = None) -> Tensor:
    """A dense tensor in a compressed layout: what is not zero, or blocks that are not."""
    context = f"dense_to_{str(layout).split('.')[-1]}"
    most = t.dim() - 2
    if dense_dim is not None and not 0 <= dense_dim <= max(most, 0):
        raise RuntimeError(f"{context}: dense_dim argument must be in [0,{most}] range, but {dense_dim} is given")
    if most < 0:
        raise IndexError(
            f"[{context}] a matrix is expected: index {t.dim()} out of range for tensor of size {list(t.shape)}"
        )
    batch = most - (dense_dim or 0)
    block: tuple[int, ...] = ()
    if layout in BLOCKED:
        if blocksize is None:
            raise RuntimeError(
                f"dense_to_sparse: conversion from Strided to {layout_name(layout)} without blocksize argument given is not supported"
            )
        block = _check_block(context, blocksize, t.shape, batch)
    p, q = block or (1, 1)
    found = Form(
        tuple(t.shape[:batch]), t.shape[batch] // p, t.shape[batch + 1] // q, block, tuple(t.shape[batch + 2 :])
    )
    kept = to_blocks(t.detach() != 0, found)
    kept = kept.reshape(*kept.shape[:3], math.prod(kept.shape[3:])).any(-1) if kept.dim() > 3 else kept
    pattern = _pattern(kept, layout, found, t)
    values = take_at(t, pattern)
    return rebuild(_node_name(layout), values, layout, pattern._groups, pattern._within, t.shape)


def _pattern(kept: Tensor, layout: Any, found: Form, t: Tensor) -> CompressedTensor:
    """The places that are kept, [matrix, row, column], as a tensor whose values mean nothing."""
    if layout not in BY_ROWS:
        kept = kept.transpose(1, 2)
    counts = kept.sum(2)
    totals = counts.sum(1)
    if found.matrices > 1 and bool((totals != totals[0]).any()):
        raise RuntimeError("Expect the same number of specified elements per batch.")
    nnz = int(totals[0]) if found.matrices else 0
    groups = _C.cat([counts.new_zeros((found.matrices, 1)), counts.cumsum(1)], 1)
    within = kept.nonzero()[:, 2]
    shape = (*found.batch, nnz)
    values = t.detach().new_zeros(()).expand(*shape, *found.block, *found.dense)
    return make_compressed(
        layout, groups.reshape(*found.batch, -1) if found.batch else groups[0], within.reshape(shape), values, t.shape
    )


def from_coo(t: SparseTensor, layout: Any, blocksize: Any = None, dense_dim: int | None = None) -> Tensor:
    """A matrix in coordinate form in a compressed layout."""
    name = str(layout).split(".")[-1]
    if dense_dim is not None:
        raise RuntimeError(
            f"coo_to_{name}: conversion from Sparse to {layout_name(layout)} with dense_dim argument given is not supported"
        )
    if t.sparse_dim() != 2:
        raise RuntimeError(
            f"coo_to_{name}: conversion from Sparse to {layout_name(layout)} for input tensors with sparse_dim()!=2 is not supported"
        )
    t = coalesced(t)
    row, column = t._coo_indices
    values = values_of(t)
    if layout in BLOCKED:
        block = _check_block(f"coo_to_{name}", blocksize, t.shape, 0)
        return _gather_blocks(_node_name(layout), layout, row, column, values, t.shape, block)
    if layout not in BY_ROWS:
        order = (column * max(t.size(0), 1) + row).argsort()
        row, column, values = row[order], column[order], values.index_select(0, order)
    group, within = (row, column) if layout in BY_ROWS else (column, row)
    groups = compress(group, t.size(0) if layout in BY_ROWS else t.size(1), 1)[0]
    return rebuild(_node_name(layout), values, layout, groups, within.contiguous(), t.shape)


def _gather_blocks(
    name: str, layout: Any, row: Tensor, column: Tensor, values: Tensor, size: Sequence[int], block: tuple[int, int]
) -> Tensor:
    """Values at rows and columns of one matrix, gathered into blocks."""
    p, q = block
    rows, columns = size[0] // p, size[1] // q
    group, within, places_of_group, groups = row // p, column // q, columns, rows
    if layout not in BY_ROWS:
        group, within, places_of_group, groups = within, group, rows, columns
    distinct, which = _C._unique2(group * places_of_group + within, True, True)[:2]
    at = which * (p * q) + (row % p) * q + column % q
    blocks = add_rows(values, at, distinct.size(0) * p * q).reshape(-1, p, q, *values.shape[1:])
    begin = compress(distinct // max(places_of_group, 1), groups, 1)[0]
    return rebuild(name, blocks, layout, begin, distinct % max(places_of_group, 1), size)


def from_compressed(t: CompressedTensor, layout: Any, blocksize: Any = None, dense_dim: int | None = None) -> Tensor:
    """A compressed tensor in another compressed layout."""
    name, kind = str(layout).split(".")[-1], t._kind
    context = f"to_{name}" if kind == layout else f"sparse_compressed_to_{name}"
    if dense_dim is not None:
        raise RuntimeError(
            f"{context}: conversion from {layout_name(kind)} to {layout_name(layout)} with dense_dim argument given is not supported"
        )
    if layout not in BLOCKED and kind in BLOCKED:
        raise RuntimeError(f"{context}: expected SparseCsr or SparseCsc layout but got {layout_name(kind)}")
    if layout in BLOCKED and kind not in BLOCKED:
        return _to_blocked(t, layout, blocksize)
    if kind in BLOCKED and blocksize is not None:
        given = [blocksize] * 2 if isinstance(blocksize, int) else list(blocksize)
        if given != list(form(t).block):
            raise RuntimeError(
                f"{context}: conversion from {layout_name(kind)} to {layout_name(layout)} with blocksize changed from "
                f"{list(form(t).block)} to {given} is not supported"
            )
    return t if kind == layout else _flipped(t, layout)


def _to_blocked(t: CompressedTensor, layout: Any, blocksize: Any) -> Tensor:
    name, found = str(layout).split(".")[-1], form(t)
    if found.batch:
        raise RuntimeError(
            f"sparse_compressed_to_{name}: conversion from {layout_name(t._kind)} to {layout_name(layout)} for batched inputs is not supported"
        )
    block = _check_block(f"sparse_compressed_to_{name}", blocksize, t.shape, 0)
    at = places(t)
    made = _gather_blocks(_node_name(layout), layout, at.row, at.column, held(t), t.shape, block)
    return _with_index_dtype(made, t._groups.dtype)


def _with_index_dtype(t: Any, dtype: Any) -> Tensor:
    t._groups, t._within = t._groups.to(dtype), t._within.to(dtype)
    return t


def _flipped(t: CompressedTensor, layout: Any) -> Tensor:
    """Rows for columns, or the other way round, of the same tensor."""
    found = form(t)
    n, nnz, count, other = found.matrices, t._within.size(-1), major(t), minor(t)
    parts = flat(t, held(t))
    groups, within, order = _C._csr_transpose(parts.groups, parts.within, n * other)
    number = _C.arange(n).reshape(-1, 1)
    begin = _C.cat([number * nnz, groups[1:].reshape(n, other)], 1) - number * nnz
    within = within.reshape(n, nnz) - number * count
    values = parts.values.index_select(0, order).reshape(t._held.shape)
    dtype = t._groups.dtype
    indices = (begin.reshape(*found.batch, other + 1).to(dtype), within.reshape(t._within.shape).to(dtype))
    return rebuild(_node_name(layout), values, layout, *indices, t.shape)


def to_coo(t: CompressedTensor) -> Tensor:
    """The same tensor in coordinate form; batches and the matrix are its sparse dimensions."""
    found, at = form(t), places(t)
    values, row, column, matrix = held(t).reshape(-1, *found.block, *found.dense), at.row, at.column, at.matrix
    if found.block:
        p, q = found.block
        i, j = _C.arange(p).reshape(-1, 1), _C.arange(q).reshape(1, -1)
        row = (row.reshape(-1, 1, 1) * p + i).expand(-1, p, q).reshape(-1)
        column = (column.reshape(-1, 1, 1) * q + j).expand(-1, p, q).reshape(-1)
        matrix = matrix.repeat_interleave(p * q)
        values = values.reshape(-1, *found.dense)
    batch = list(_C._unravel_index(matrix, list(found.batch))) if found.batch else []
    indices = _C.stack([*batch, row, column])
    return build("ToSparse1", values, indices, t.shape, t._kind == _C.sparse_csr)


def to_dense(t: CompressedTensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The same numbers in a tensor that holds all of its elements."""
    if dtype is not None:
        raise RuntimeError("dtype argument is not supported by sparse_csr_to_dense")
    return spread(t, held(t))


def to_layout(t: Tensor, layout: Any, blocksize: Any = None, dense_dim: int | None = None) -> Tensor:
    """A tensor of any layout in a compressed one."""
    if is_compressed(t):
        return from_compressed(t, layout, blocksize, dense_dim)
    if is_sparse(t):
        return from_coo(t, layout, blocksize, dense_dim)
    return from_dense(t, layout, blocksize, dense_dim)


def to_sparse(
    t: Tensor, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: int | None = None
) -> Tensor:
    """A compressed tensor in another layout, coordinates by default."""
    if layout in (None, _C.sparse_coo):
        if blocksize is not None:
            raise RuntimeError(
                f"to_sparse: conversion from {layout_of(t)} to Sparse with blocksize argument given is not supported"
            )
        if sparse_dim not in (None, t._groups.dim() + 1):  # type: ignore[attr-defined]
            raise RuntimeError(
                f"sparse_compressed_to_sparse: conversion from {layout_of(t)} to Sparse with sparse_dim argument !=2 is not supported"
            )
        return to_coo(t)  # type: ignore[arg-type]
    if layout == _C.strided:
        return t.to_dense()
    return to_layout(t, layout, blocksize, dense_dim)


def ordered_keys(t: CompressedTensor) -> Tensor | None:
    """The keys of the values if they rise, as checked tensors' do; else None."""
    found = keys(t)
    return found if found.numel() < 2 or bool((found[1:] > found[:-1]).all()) else None
