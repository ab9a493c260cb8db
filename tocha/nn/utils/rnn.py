"""Sequences of different lengths: padded to one length, or packed without padding.

A packed batch holds all first steps, then all second steps, and so on; sequences are in order of decreasing length,
so every step is a prefix of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple, Self

from tocha import _C

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]

Tensor = _C.Tensor


class PackedSequence_(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(PackedSequence_):
    """A batch of sequences of different lengths without padding; made by pack_sequence and pack_padded_sequence.

    data holds the steps, batch_sizes how many sequences have each step; sorted_indices and unsorted_indices say how
    the batch was ordered and how it is put back.

    >>> x = tocha.nn.utils.rnn.pack_sequence([tocha.tensor([1, 2, 3]), tocha.tensor([4, 5])])
    >>> x
    PackedSequence(data=tensor([1, 4, 2, 5, 3]), batch_sizes=tensor([2, 2, 1]), sorted_indices=None, unsorted_indices=None)
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, list | tuple) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. They "
                "should be instantiated by functions like pack_sequence and pack_padded_sequences in nn.utils.rnn."
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)  # type: ignore[arg-type]

    def _with(self, data: Tensor, move: Callable[[Tensor], Tensor] = lambda t: t) -> Self:
        if data is self.data:
            return self
        indices = (None if i is None else move(i) for i in (self.sorted_indices, self.unsorted_indices))
        return type(self)(data, self.batch_sizes, *indices)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """data moved and converted as by Tensor.to; the indices are moved too."""
        data = self.data.to(*args, **kwargs)
        where = data.device
        return self._with(data, lambda t: t.to(where))

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """data and indices on a CUDA device."""
        return self.to(*args, device="cuda", **kwargs)

    def cpu(self, *args: Any, **kwargs: Any) -> Self:
        """data and indices in the memory of the processor."""
        return self.to("cpu", *args, **kwargs)

    def pin_memory(self) -> Self:
        """data and indices in memory that devices can read by themselves."""
        moved = self._with(self.data.pin_memory(), lambda t: t.pin_memory())
        return type(self)(moved.data, self.batch_sizes.pin_memory(), moved.sorted_indices, moved.unsorted_indices)

    def double(self) -> Self:
        """data as float64."""
        return self.to(dtype=_C.float64)

    def float(self) -> Self:
        """data as float32."""
        return self.to(dtype=_C.float32)

    def half(self) -> Self:
        """data as float16."""
        return self.to(dtype=_C.float16)

    def long(self) -> Self:
        """data as int64."""
        return self.to(dtype=_C.int64)

    def int(self) -> Self:
        """data as int32."""
        return self.to(dtype=_C.int32)

    def short(self) -> Self:
        """data as int16."""
        return self.to(dtype=_C.int16)

    def char(self) -> Self:
        """data as int8."""
        return self.to(dtype=_C.int8)

    def byte(self) -> Self:
        """data as uint8."""
        return self.to(dtype=_C.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether data is on a CUDA device."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether data is in memory that devices can read by themselves."""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes another.

    >>> import tocha
    >>> invert_permutation(tocha.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    places = _C.arange(permutation.numel(), device=permutation.device, dtype=permutation.dtype)
    return _C.empty_like(permutation).scatter_(0, permutation, places)


def _blocks(lengths: list[int]) -> Iterator[tuple[int, int, int]]:
    """Runs of steps that have the same sequences: (first step, end, how many), for decreasing lengths."""
    start = 0
    for count in range(len(lengths), 0, -1):
        end = lengths[count - 1]
        if end > start:
            yield start, end, count
            start = end


def _check_lengths(lengths: list[int], input: Tensor, batch: int) -> None:
    if len(lengths) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} (batch_size={batch})"
        )
    if min(lengths) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if any(later > earlier for earlier, later in pairwise(lengths)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do "
            "not need ONNX exportability."
        )


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs a padded batch (steps first, or batch_first) whose sequences have these lengths.

    >>> import tocha
    >>> packed = pack_padded_sequence(tocha.tensor([[1, 2, 3], [4, 5, 0]]), [3, 2], batch_first=True)
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 5, 3]), tensor([2, 2, 1]))
    """
    lengths = lengths.to(_C.int64) if isinstance(lengths, Tensor) else _C.tensor(lengths, dtype=_C.int64)
    if lengths.dim() != 1 or lengths.device.type != "cpu":
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D {lengths.device.type} Long tensor"
        )
    sorted_indices = None
    if not enforce_sorted:
        lengths, order = _C.sort(lengths, descending=True)
        sorted_indices = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    steps = input.transpose(0, 1) if batch_first or input.dim() < 2 else input
    if steps.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    numbers = lengths.tolist()
    _check_lengths(numbers, steps, steps.size(1))
    pieces, sizes = [], []
    for start, end, count in _blocks(numbers):
        pieces.append(steps[start:end, :count].flatten(0, 1))
        sizes += [count] * (end - start)
    return PackedSequence(_C.cat(pieces), _C.tensor(sizes, dtype=_C.int64), sorted_indices, None)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The padded batch of a packed one, and the lengths of its sequences.

    >>> import tocha
    >>> pad_packed_sequence(pack_sequence([tocha.tensor([1, 2, 3]), tocha.tensor([4])]), batch_first=True)
    (tensor([[1, 2, 3],
            [4, 0, 0]]), tensor([3, 1]))
    """
    sizes = sequence.batch_sizes.tolist()
    if total_length is not None and total_length < len(sizes):
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, "
            f"but got total_length={total_length} and max sequence length being {len(sizes)}"
        )
    padded = _padded(sequence.data, sizes, total_length or len(sizes), padding_value)
    lengths_tensor = (sequence.batch_sizes.unsqueeze(1) > _C.arange(sizes[0])).sum(0)
    if batch_first:
        padded = padded.transpose(0, 1)
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(0 if batch_first else 1, sequence.unsorted_indices)
        lengths_tensor = lengths_tensor[sequence.unsorted_indices.cpu()]
    return padded, lengths_tensor


def _padded(data: Tensor, sizes: list[int], total: int, value: float) -> Tensor:
    """Steps first: every step filled up to the whole batch, as one concatenation."""
    batch, rest = sizes[0], data.shape[1:]
    fill = data.new_full((batch, *rest), value)
    pieces = []
    for step, size in zip(data.split(sizes), sizes, strict=True):
        pieces.append(step)
        if size < batch:
            pieces.append(fill[size:])
    pieces += [fill] * (total - len(sizes))
    return _C.cat(pieces).view(total, batch, *rest)


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences of different lengths as one tensor (steps first, or batch_first), filled up with padding_value.

    >>> import tocha
    >>> pad_sequence([tocha.tensor([1, 2, 3]), tocha.tensor([4])], batch_first=True)
    tensor([[1, 2, 3],
            [4, 0, 0]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    parts = list(sequences.unbind(0)) if isinstance(sequences, Tensor) else list(sequences)
    if not parts:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    first = parts[0]
    longest = max(s.size(0) for s in parts)
    if any(s.shape[1:] != first.shape[1:] for s in parts):
        shapes = ", ".join(str(list(s.shape)) for s in parts)
        raise RuntimeError(f"pad_sequence: sequences may differ in their first dimension only, but got shapes {shapes}")
    fill = first.new_full((longest, *first.shape[1:]), padding_value)
    if _C.is_grad_enabled() and any(s.requires_grad for s in parts):
        return _padded_recording(parts, fill, batch_first, padding_side)
    return _padded_in_place(parts, fill, batch_first, padding_side)


def _padded_in_place(parts: list[Tensor], fill: Tensor, batch_first: bool, side: str) -> Tensor:
    """Every value is written once more than the filling: the quick way, which gradients cannot follow."""
    batch_dim = 0 if batch_first else 1
    padded = fill.unsqueeze(batch_dim).repeat_interleave(len(parts), batch_dim)
    for row, sequence in zip(padded.unbind(batch_dim), parts, strict=True):
        length = sequence.size(0)
        row.narrow(0, row.size(0) - length if side == "left" else 0, length).copy_(sequence)
    return padded


def _padded_recording(parts: list[Tensor], fill: Tensor, batch_first: bool, side: str) -> Tensor:
    """All sequences with their filling, as one concatenation."""
    pieces = []
    for sequence in parts:
        pair = [sequence, fill[sequence.size(0) :]]
        pieces += pair[::-1] if side == "left" else pair
    padded = _C.cat(pieces).view(len(parts), *fill.shape)
    return padded if batch_first else padded.transpose(0, 1).contiguous()


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences in a padded batch (padded at the end).

    >>> padded = tocha.tensor([[1, 4], [2, 5], [3, 0]])
    >>> tocha.nn.utils.rnn.unpad_sequence(padded, tocha.tensor([3, 2]))
    [tensor([1, 2, 3]), tensor([4, 5])]
    """
    batch = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    place = _C.arange(batch.size(1), device=lengths.device)
    return [row[place < length] for row, length in zip(batch.unbind(0), lengths, strict=False)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences; they must come in order of decreasing length unless enforce_sorted=False.

    >>> import tocha
    >>> pack_sequence([tocha.tensor([1, 2]), tocha.tensor([3])]).data
    tensor([1, 3, 2])
    """
    lengths = _C.tensor([s.size(0) for s in sequences], dtype=_C.int64)
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences in a packed batch.

    >>> packed = tocha.nn.utils.rnn.pack_sequence([tocha.tensor([1, 2, 3]), tocha.tensor([4, 5])])
    >>> tocha.nn.utils.rnn.unpack_sequence(packed)
    [tensor([1, 2, 3]), tensor([4, 5])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
