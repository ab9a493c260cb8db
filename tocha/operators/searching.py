"""Finding places in sorted sequences."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.record import composite, native, op, rule
from tocha.operators.rules import Out, warn_once


@rule
def check_search(boundaries: "Tensor", values: "Tensor", right: "bool", side: "str?", sorter: "Tensor?") -> "none":
    if side is not None:
        if side != "left" and side != "right":
            raise RuntimeError(
                f"[searchsorted] torch.searchsorted(): side can only be 'left' or 'right' but got {side}"
            )
        if side == "left" and right:
            raise RuntimeError(
                f"[searchsorted] torch.searchsorted(): side and right can't be set to opposites, got side of {side} while right was True"
            )
    if boundaries.ndim == 0:
        raise RuntimeError(
            "[searchsorted] torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension"
        )
    if values.ndim == 0 and values.numel() == 1 and boundaries.ndim != 1:
        raise RuntimeError(
            f"[searchsorted] torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries tensor dim({boundaries.ndim})"
        )
    if boundaries.ndim != 1 and (boundaries.ndim != values.ndim or boundaries.shape[:-1] != values.shape[:-1]):
        raise RuntimeError(
            f"[searchsorted] torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value tensor must match, but we got boundaries tensor {boundaries.shape} and input value tensor {values.shape}"
        )
    if sorter is not None:
        if sorter.shape != boundaries.shape:
            raise RuntimeError(
                f"[searchsorted] torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor {boundaries.shape}and got sorter tensor {sorter.shape}"
            )
        if sorter.dtype != dt.int64:
            raise RuntimeError(
                f"[searchsorted] torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {sorter.dtype}"
            )


@rule
def warn_of_copy(which: "str", t: "Tensor") -> "none":
    if not t.is_contiguous():
        warn_once(
            f"tocha.searchsorted(): {which} tensor is non-contiguous, this will lower the performance due to extra data copy when converting non-contiguous tensor to contiguous, please use contiguous {which} tensor if possible. This message will only appear once per program."
        )


@native(
    "searchsorted(Tensor sorted_sequence, Tensor input, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
    algorithm="search",
    variants="function, out",
    aten=(
        "searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
    ),
    word="searchsorted_out_cpu",
    types={
        "out_words": "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on whether out_int32 flag is True, but we got output tensor's dtype {out} and out_int32 flag is {out_int32}"
    },
)
def searchsorted(sorted_sequence, input, out_int32, right, side, sorter):
    """Where each value goes into the sorted sequence (or into its own row of it) so that it stays sorted."""
    check_search(sorted_sequence, input, right, side, sorter)
    warn_of_copy("boundary", sorted_sequence)
    warn_of_copy("input value", input)
    if sorter is not None:
        warn_of_copy("sorter", sorter)
    return Out(input.shape, dt.int32 if out_int32 else dt.int64)


@composite(
    "searchsorted.Scalar(Tensor sorted_sequence, Scalar input, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
    variants="function, out",
    samples=lambda t: [((t.of([0.1, 0.4, 0.7]), 0.4), {})],
    aten=(
        "searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
    ),
    whole=True,
    types={
        "out_words": "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on whether out_int32 flag is True, but we got output tensor's dtype {out} and out_int32 flag is {out_int32}"
    },
)
def searchsorted_scalar(sorted_sequence, input, out_int32, right, side, sorter):
    """Where a number goes into the sorted sequence so that it stays sorted."""
    return op.searchsorted(sorted_sequence, input, out_int32=out_int32, right=right, side=side, sorter=sorter)


@composite(
    "bucketize(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
    variants="function, out",
    samples=lambda t: [((t(3, 4), t.of([0.3, 0.5, 0.8])), {})],
    aten=("bucketize.Tensor",),
    whole=True,
    types={
        "out_words": "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on whether out_int32 flag is True, but we got output tensor's dtype {out} and out_int32 flag is {out_int32}"
    },
)
def bucketize(self, boundaries, out_int32, right):
    """The number of the bucket between boundaries that each element is in."""
    if boundaries.ndim != 1:
        raise RuntimeError(
            f"[bucketize] torch.searchsorted(): boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})"
        )
    return op.searchsorted(boundaries, self, out_int32=out_int32, right=right)


@composite(
    "bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
    variants="function, out",
    samples=lambda t: [((0.5, t.of([0.3, 0.5, 0.8])), {"right": True})],
    whole=True,
    types={
        "out_words": "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on whether out_int32 flag is True, but we got output tensor's dtype {out} and out_int32 flag is {out_int32}"
    },
)
def bucketize_scalar(self, boundaries, out_int32, right):
    """The number of the bucket between boundaries that a number is in."""
    if boundaries.ndim != 1:
        raise RuntimeError(
            f"[bucketize] torch.searchsorted(): boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})"
        )
    return op.searchsorted(boundaries, self, out_int32=out_int32, right=right)
