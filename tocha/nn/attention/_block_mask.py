"""BlockMask: which blocks of keys each block of queries looks at. flex_attention reads it, create_block_mask makes it.

Rows of blocks are kept as counts and column numbers: the first `num_blocks[row]` entries of `indices[row]` count. Blocks
that are full need no mask_mod; the others ("partial") do. The q_* tensors hold the same seen from the keys.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NoReturn

from tocha import _C
from tocha.nn.attention._mods import MaskMod, noop_mask

Tensor = _C.Tensor
Rows = tuple[Tensor, Tensor]
_NO_ROWS: tuple[None, None] = (None, None)
Index = int | slice | Tensor

DEFAULT_BLOCK_SIZE = 128
_TENSORS = (
    "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices",
    "q_num_blocks", "q_indices", "full_q_num_blocks", "full_q_indices",
)  # fmt: skip
_WRITE_ORDER = ("dq_write_order", "dq_write_order_full", "dq_kv_order")


def ceil_div(n: int, size: int) -> int:
    """How many blocks of this size hold n."""
    return -(-n // size)


def rows_of(dense: Tensor) -> Rows:
    """Counts and column numbers of a matrix of blocks that are there or not."""
    order = dense.to(_C.int32).argsort(dim=-1, descending=True, stable=True)
    return dense.sum(-1, dtype=_C.int32), order.to(_C.int32)


def dense_of(rows: Rows, columns: int) -> Tensor:
    """The matrix of blocks (bool) that counts and column numbers describe."""
    counts, indices = rows
    slots = _C.arange(indices.shape[-1], device=indices.device)
    counted = slots < counts.unsqueeze(-1)
    nowhere = _C.where(counted, indices, columns).to(_C.int64)
    room = _C.zeros((*indices.shape[:-1], columns + 1), dtype=_C.bool, device=indices.device)
    return room.scatter(-1, nowhere, True)[..., :columns]


def _transposed(rows: Rows) -> Rows:
    """The same blocks, row by row of the keys."""
    return rows_of(dense_of(rows, rows[1].shape[-1]).mT)


def _cropped(rows: Rows, new_rows: int, new_columns: int) -> Rows:
    dense = dense_of(rows, rows[1].shape[-1])
    return rows_of(dense[..., :new_rows, :new_columns])


def _pair(counts: Tensor | None, indices: Tensor | None, kind: str) -> Rows | None:
    """Both tensors of a kind of rows, or neither."""
    if (counts is None) != (indices is None):
        raise AssertionError(f"{kind}_num_blocks and {kind}_indices must be both provided or omitted")
    return None if counts is None or indices is None else (counts, indices)


def _sliced_mask_mod_error(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> NoReturn:
    """Stands in for the mask_mod of a slice, whose positions are no longer those it was written for."""
    raise RuntimeError("Cannot use mask_mod from a sliced BlockMask")


def _as_slice(index: Any) -> Any:
    """An int as the slice that keeps its dim."""
    if index is Ellipsis:
        raise ValueError("[BlockMask] an index is made of ints, slices and tensors, but got an ellipsis")
    return slice(index, index + 1 or None) if isinstance(index, int) else index


def write_order(mask: BlockMask, descending: bool) -> tuple[Tensor, Tensor | None]:
    """When each block adds to the gradient of its queries, for kernels that add in a fixed order.

    Entry [key block][slot] is how many blocks of that row of queries come before, among partial and full ones, with
    the key blocks taken in ascending or descending order.
    """
    present = mask.to_dense()
    before = present.cumsum(-1, dtype=_C.int32) - present
    if descending:
        before = present.sum(-1, keepdim=True, dtype=_C.int32) - 1 - before
    ranks = before.mT
    partial, full = mask.q_indices, mask.full_q_indices
    if partial is None:
        raise RuntimeError("[BlockMask] the write order needs the blocks of queries: compute_q_blocks=True")
    order = ranks.gather(-1, partial.to(_C.int64))
    return order, None if full is None else ranks.gather(-1, full.to(_C.int64))


class BlockMask:
    """A mask of attention in blocks of queries by keys, of which those that nobody looks at are left out.

    >>> import tocha
    >>> counts = tocha.tensor([1, 2], dtype=tocha.int32)
    >>> columns = tocha.tensor([[0, 1], [0, 1]], dtype=tocha.int32)
    >>> mask = BlockMask.from_kv_blocks(counts, columns, BLOCK_SIZE=4)
    >>> mask.shape, mask.sparsity()
    ((8, 8), 25.0)
    >>> mask.to_dense()
    tensor([[1, 0],
            [1, 1]], dtype=tocha.int32)
    """

    __module__ = "tocha.nn.attention.flex_attention"

    seq_lengths: tuple[int, int]
    kv_num_blocks: Tensor
    kv_indices: Tensor
    full_kv_num_blocks: Tensor | None
    full_kv_indices: Tensor | None
    q_num_blocks: Tensor | None
    q_indices: Tensor | None
    full_q_num_blocks: Tensor | None
    full_q_indices: Tensor | None
    BLOCK_SIZE: tuple[int, int]
    mask_mod: MaskMod
    dq_write_order: Tensor | None
    dq_write_order_full: Tensor | None
    dq_kv_order: Tensor | None
    dq_kv_order_spt: bool | None

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (DEFAULT_BLOCK_SIZE, DEFAULT_BLOCK_SIZE),
        mask_mod: MaskMod = noop_mask,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Tensor | None = None,
        dq_kv_order_spt: bool | None = None,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if kv_num_blocks is None:
            raise AssertionError("kv_num_blocks must be provided")
        _pair(full_kv_num_blocks, full_kv_indices, "full_kv")
        _pair(full_q_num_blocks, full_q_indices, "full_q")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks = kv_num_blocks
        self.kv_indices = kv_indices
        self.full_kv_num_blocks = full_kv_num_blocks
        self.full_kv_indices = full_kv_indices
        self.q_num_blocks = q_num_blocks
        self.q_indices = q_indices
        self.full_q_num_blocks = full_q_num_blocks
        self.full_q_indices = full_q_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod
        self.dq_write_order = dq_write_order
        self.dq_write_order_full = dq_write_order_full
        self.dq_kv_order = dq_kv_order
        self.dq_kv_order_spt = dq_kv_order_spt

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK_SIZE,
        mask_mod: MaskMod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Tensor | bool | None = None,
    ) -> BlockMask:
        """A mask from the blocks of keys that each row of queries looks at: partial ones, and full ones if known.

        Lengths are whole blocks unless seq_lengths gives them. compute_q_blocks also lists the blocks by keys.
        """
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if dq_kv_order is not None and not isinstance(dq_kv_order, bool | Tensor):
            raise ValueError("dq_kv_order must be a bool, Tensor, or None")
        partial = (kv_num_blocks, kv_indices)
        full = _pair(full_kv_num_blocks, full_kv_indices, "full_kv")
        sizes = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        rows, columns = kv_indices.shape[-2:]
        by_keys = _transposed(partial) if compute_q_blocks else _NO_ROWS
        full_by_keys = _transposed(full) if compute_q_blocks and full is not None else _NO_ROWS
        return cls(
            (rows * sizes[0], columns * sizes[1]) if seq_lengths is None else seq_lengths,
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            by_keys[0],
            by_keys[1],
            full_by_keys[0],
            full_by_keys[1],
            sizes,
            noop_mask if mask_mod is None else mask_mod,
            dq_write_order=dq_write_order,
            dq_write_order_full=dq_write_order_full,
            dq_kv_order=dq_kv_order if isinstance(dq_kv_order, Tensor) else None,
            dq_kv_order_spt=dq_kv_order if isinstance(dq_kv_order, bool) else None,
        )

    def _full(self) -> Rows | None:
        return _pair(self.full_kv_num_blocks, self.full_kv_indices, "full_kv")

    def _with_rows(self, partial: Rows, full: Rows | None, mask_mod: MaskMod, lengths: tuple[int, int]) -> BlockMask:
        """A mask of other blocks that is like this one else."""
        if isinstance(self.dq_kv_order, Tensor):
            raise NotImplementedError(
                "Slicing BlockMask with tensor dq_kv_order is not supported yet. Construct a new BlockMask with matching "
                "precomputed dq_write_order metadata."
            )
        counts, indices = full or _NO_ROWS
        made = type(self).from_kv_blocks(
            *partial, counts, indices, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=mask_mod, seq_lengths=lengths,
            compute_q_blocks=self.q_indices is not None,
        )  # fmt: skip
        made.dq_kv_order_spt = self.dq_kv_order_spt
        if self.dq_write_order is not None and self.dq_kv_order_spt is not None:
            made.dq_write_order, made.dq_write_order_full = write_order(made, self.dq_kv_order_spt)
        return made

    def __getitem__(self, index: Index | tuple[Index, ...]) -> BlockMask:
        """The mask of some batches, heads and rows of blocks; dims stay. Its mask_mod is for the caller to set.

        >>> import tocha
        >>> counts = tocha.ones(4, 2, 3, dtype=tocha.int32)
        >>> mask = BlockMask.from_kv_blocks(counts, tocha.zeros(4, 2, 3, 3, dtype=tocha.int32))
        >>> mask[0].shape, mask[1:3, 1].shape
        ((1, 2, 384, 384), (2, 1, 384, 384))
        """
        parts = index if isinstance(index, tuple) else (index,)
        where = tuple(_as_slice(i) for i in parts[: self.kv_num_blocks.dim()])
        full = self._full()
        sliced = None if full is None else (full[0][where], full[1][where])
        partial = (self.kv_num_blocks[where], self.kv_indices[where])
        return self._with_rows(partial, sliced, _sliced_mask_mod_error, self.seq_lengths)

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The upper left corner of the mask, for shorter sequences."""
        rows, columns = ceil_div(new_q_len, self.BLOCK_SIZE[0]), ceil_div(new_kv_len, self.BLOCK_SIZE[1])
        full = self._full()
        return self._with_rows(
            _cropped((self.kv_num_blocks, self.kv_indices), rows, columns),
            None if full is None else _cropped(full, rows, columns),
            self.mask_mod,
            (new_q_len, new_kv_len),
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """(batch, heads, queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """How many scores there are, masked or not."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """The share of scores, in percent, that lie in blocks left out; negative where blocks reach over the ends."""
        blocks = int(self.kv_num_blocks.sum())
        if self.full_kv_num_blocks is not None:
            blocks += int(self.full_kv_num_blocks.sum())
        return 100 * (1 - blocks * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to_dense(self) -> Tensor:
        """1 for every block that is there, partial or full, and 0 for the others."""
        columns = self.kv_indices.shape[-1]
        found = dense_of((self.kv_num_blocks, self.kv_indices), columns)
        full = self._full()
        return (found if full is None else found | dense_of(full, columns)).to(_C.int32)

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """Lengths, tensors, block sizes and mask_mod, in the order of the constructor; flatten opens the two pairs."""
        lengths, sizes = (self.seq_lengths, self.BLOCK_SIZE) if flatten else ((self.seq_lengths,), (self.BLOCK_SIZE,))
        tensors = (getattr(self, name) for name in (*_TENSORS, *_WRITE_ORDER))
        return (*lengths, *tensors, self.dq_kv_order_spt, *sizes, self.mask_mod)

    def to(self, device: Any) -> BlockMask:
        """The mask with its tensors on another device.

        >>> import tocha
        >>> counts = tocha.ones(1, dtype=tocha.int32)
        >>> BlockMask.from_kv_blocks(counts, tocha.zeros(1, 1, dtype=tocha.int32)).to("meta").kv_indices.device
        device(type='meta')
        """
        moved = {name: getattr(self, name) for name in (*_TENSORS, *_WRITE_ORDER)}
        moved = {name: None if x is None else x.to(device) for name, x in moved.items()}
        return BlockMask(
            self.seq_lengths,
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=self.mask_mod,
            dq_kv_order_spt=self.dq_kv_order_spt,
            **moved,
        )

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """A picture of the blocks for each of the first `limit` batches and heads: full, partly there, or empty.

        grid_size is how many cells at most to draw in each direction; -1 draws every block.
        """
        dense = self.to_dense()
        rows, columns = dense.shape[-2:]
        across = (rows, columns) if grid_size == -1 else grid_size
        if isinstance(across, int):
            across = (across, across)
        most_rows, most_columns = across
        steps = (max(ceil_div(rows, most_rows), 1), max(ceil_div(columns, most_columns), 1))
        drawn: list[str] = []
        for spot in itertools.product(*(range(n) for n in dense.shape[:-2])):
            if len(drawn) == limit:
                drawn.append(
                    "...\nTo print out more, set BlockMask.to_string(limit=N)\n"
                    "You can also index (BlockMask[batch, head]) to choose a specific batch or head"
                )
                break
            drawn.append(f"{spot}\n{_picture(dense[spot], steps)}")
        return "\n".join(drawn)

    def __str__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string().strip()}\n)"

    def __repr__(self) -> str:
        def shown(value: Any) -> str:
            return str(value.shape) if isinstance(value, Tensor) else str(value)

        lines = [f"{name}={shown(getattr(self, name))}" for name in _TENSORS]
        lines += [f"BLOCK_SIZE={self.BLOCK_SIZE}", f"shape={self.shape}", f"sparsity={self.sparsity():.2f}%"]
        lines.append(f"mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}")
        return "BlockMask(\n    " + ",\n    ".join(lines) + "\n)"


def _picture(dense: Tensor, steps: tuple[int, int]) -> str:
    """A matrix of blocks as text, one cell for so many rows and columns of them."""
    lines = []
    for band in dense.split(steps[0]):
        shares = (cell.float().mean().item() for cell in band.split(steps[1], dim=1))
        lines.append("".join("██" if share == 1 else "░░" if share > 0 else "  " for share in shares))
    return "\n".join(lines) + "\n"
