"""Attention whose scores a function may change (score_mod) and whose mask is known in blocks (BlockMask).

Here are the public functions and their checks; _flex_kernel.py computes, _block_mask.py keeps masks, _mods.py calls the
functions that users write.
"""

from __future__ import annotations

import functools
import importlib
import math
import warnings
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

from tocha import _C
from tocha.amp.autocast_mode import autocast
from tocha.nn.attention._block_mask import (
    DEFAULT_BLOCK_SIZE,
    BlockMask,
    _sliced_mask_mod_error,
    ceil_div,
    rows_of,
    write_order,
)
from tocha.nn.attention._block_mask import DEFAULT_BLOCK_SIZE as _DEFAULT_SPARSE_BLOCK_SIZE  # noqa: F401
from tocha.nn.attention._flex_kernel import SCORES_AT_ONCE, Attention, check_heads, in_layout_of
from tocha.nn.attention._mods import (
    Kind,
    MaskMod,
    Mod,
    Positions,
    ScoreMod,
    and_masks,
    is_staged,
    kind_of,
    noop_mask,
    or_masks,
)

Tensor = _C.Tensor
_nn = _C._nn

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "FlexKernelOptions", "and_masks", "create_block_mask", "create_mask",
    "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip

_BACKENDS = ("AUTO", "TRITON", "FLASH", "TRITON_DECODE")


class AuxRequest(NamedTuple):
    """Which results besides the output flex_attention is to give.

    >>> from tocha.nn.attention.flex_attention import AuxRequest, flex_attention
    >>> q = tocha.ones(1, 1, 2, 4)
    >>> out, aux = flex_attention(q, q, q, return_aux=AuxRequest(lse=True))
    >>> aux.lse
    tensor([[[2.6931, 2.6931]]])
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The results asked for with AuxRequest; None for the others.

    lse is the logarithm of each row's sum of exponentials, max_scores each row's largest score.

    >>> from tocha.nn.attention.flex_attention import AuxRequest, flex_attention
    >>> q = tocha.ones(1, 1, 2, 4)
    >>> out, aux = flex_attention(q, q, q, return_aux=AuxRequest(lse=True))
    >>> aux.lse.shape, aux.max_scores
    (tocha.Size([1, 1, 2]), None)
    """

    lse: Tensor | None = None
    max_scores: Tensor | None = None


class FlexKernelOptions(TypedDict, total=False):
    """Settings of GPU kernels. They are checked, and change nothing on a CPU.

    >>> from tocha.nn.attention.flex_attention import FlexKernelOptions
    >>> FlexKernelOptions(BLOCK_M=64)
    {'BLOCK_M': 64}
    """

    num_warps: NotRequired[int]
    num_stages: NotRequired[int]
    BLOCK_M: NotRequired[int]
    BLOCK_N: NotRequired[int]
    BLOCK_M1: NotRequired[int]
    BLOCK_N1: NotRequired[int]
    BLOCK_M2: NotRequired[int]
    BLOCK_N2: NotRequired[int]
    PRESCALE_QK: NotRequired[bool]
    ROWS_GUARANTEED_SAFE: NotRequired[bool]
    BLOCKS_ARE_CONTIGUOUS: NotRequired[bool]
    WRITE_DQ: NotRequired[bool]
    FORCE_USE_FLEX_ATTENTION: NotRequired[bool]
    USE_TMA: NotRequired[bool]
    kpack: NotRequired[int]
    matrix_instr_nonkdim: NotRequired[int]
    waves_per_eu: NotRequired[int]
    BACKEND: NotRequired[Literal["AUTO", "TRITON", "FLASH", "TRITON_DECODE"]]


def create_mask(
    mod_fn: ScoreMod | MaskMod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """The mask, one entry for each score, that a mask_mod describes; of a score_mod, where it is not minus infinity.

    >>> create_mask(lambda b, h, q, k: q >= k, 1, 1, 2, 3)
    tensor([[[[ True, False, False],
              [ True,  True, False]]]])
    """
    kind = kind_of(mod_fn)
    at = Positions.of(B or 1, H or 1, Q_LEN, KV_LEN, device)
    mod = Mod(mod_fn, kind, at)
    if kind is Kind.MASK:
        return mod(at).contiguous()
    return mod(at, _C.zeros(at.shape, device=at.key.device)) != -math.inf


def _block_rows(mod: Mod, at: Positions, sizes: tuple[int, int]) -> Iterator[tuple[Tensor, Tensor]]:
    """For groups of rows of blocks: which blocks have an entry that is True, and which have nothing else."""
    rows_at_once = max(1, SCORES_AT_ONCE // sizes[0] // max(math.prod((*at.shape[:2], at.shape[3])), 1))
    for queries in at.query.split(rows_at_once * sizes[0]):
        here = at._replace(query=queries)
        mask = mod(here)
        if mask.dtype != _C.bool:
            raise AssertionError(f"mask.dtype must be {_C.bool}, got {mask.dtype}")
        counts = (ceil_div(len(queries), sizes[0]), ceil_div(len(at.key), sizes[1]))
        padding = (0, counts[1] * sizes[1] - len(at.key), 0, counts[0] * sizes[0] - len(queries))
        blocks = _nn.pad(mask, padding, value=False).view(*mask.shape[:2], counts[0], sizes[0], counts[1], sizes[1])
        yield blocks.any(-1).any(-2), blocks.all(-1).all(-2)


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:
    """The BlockMask that a mask_mod describes; B and H may be None where it does not look at batch or head.

    separate_full_blocks keeps the blocks that are True all over apart: they need no mask_mod later.
    compute_dq_write_order adds the order in which kernels may add up gradients of queries, from the last block of keys
    to the first with dq_kv_order. _compile has no effect.

    >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 384, 384)
    >>> mask.kv_num_blocks, mask.full_kv_num_blocks
    (tensor([[[1, 1, 1]]], dtype=tocha.int32), tensor([[[0, 1, 2]]], dtype=tocha.int32))
    >>> print(mask)
    BlockMask(shape=(1, 1, 384, 384), sparsity=33.33%,
    (0, 0)
    ██
    ████
    ██████
    )
    """
    if kind_of(mask_mod) is not Kind.MASK:
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    if not isinstance(dq_kv_order, bool):
        raise ValueError("dq_kv_order must be a bool when using create_block_mask")
    q_size, kv_size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    at = Positions.of(B or 1, H or 1, Q_LEN, KV_LEN, device)
    found = list(_block_rows(Mod(mask_mod, Kind.MASK, at), at, (q_size, kv_size)))
    some, whole = (_C.cat(parts, 2) for parts in zip(*found, strict=True))
    partial = rows_of(some & ~whole if separate_full_blocks else some)
    full = rows_of(whole) if separate_full_blocks else (None, None)
    made = BlockMask.from_kv_blocks(
        *partial, full[0], full[1], BLOCK_SIZE=(q_size, kv_size), mask_mod=mask_mod, seq_lengths=(Q_LEN, KV_LEN)
    )
    if compute_dq_write_order:
        made.dq_kv_order_spt = dq_kv_order
        made.dq_write_order, made.dq_write_order_full = write_order(made, dq_kv_order)
    return made


def _check_inputs(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    kinds = {x.device.type for x in (query, key, value)}
    if len(kinds) > 1:
        raise ValueError(
            f"Expected query, key, and value to have the same device type, but got query.device: {query.device}, "
            f"key.device: {key.device}, and value.device: {value.device} instead."
        )
    if "meta" in kinds:
        raise ValueError(
            "FlexAttention is only supported on CUDA, CPU, HPU, or MPS devices. Found input tensors on meta device."
        )
    if any(x.dim() != 4 for x in (query, key, value)):
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if query.size(-1) != key.size(-1):
        raise ValueError(
            "Expect query and key/value to have the same embedding dimension but got "
            f"E={query.size(-1)} and E={key.size(-1)}."
        )
    check_heads(query.size(1), key.size(1), enable_gqa)


def _check_batches(query: Tensor, key: Tensor, block_mask: BlockMask | None) -> None:
    batch, keys = query.size(0), key.size(0)
    if batch == keys:
        return
    if block_mask is None:
        raise ValueError(
            "Expect query and key/value to have the same batch size, or non-none block_mask, but got block_mask=None, "
            f"Bq={batch}, and Bkv={keys}."
        )
    masks = block_mask.kv_num_blocks.size(0)
    if masks != batch:
        raise ValueError(
            "Expect query and key/value to have the same batch size, or block_mask and query to have the same batch "
            f"size, but got Bq={batch}, Bkv={keys}, B_block_mask={masks}."
        )
    if keys != 1:
        raise RuntimeError(f"Bq and Bkv must broadcast. Got Bq={batch} and Bkv={keys}")


def _check_block_mask(block_mask: BlockMask, query: Tensor, key: Tensor) -> None:
    size, _ = block_mask.BLOCK_SIZE
    rows, columns = block_mask.shape[-2:]
    q_len, kv_len = query.size(-2), key.size(-2)
    seen = f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={q_len} and kv_len={kv_len}. "
    if q_len > rows or kv_len > columns:
        raise ValueError(
            f"{seen}As the block mask was created for a smaller length than you're using it for, you likely need to "
            "create a new block mask."
        )
    if q_len < rows or kv_len < columns:
        raise ValueError(
            f"{seen}As the block mask was created for a larger length than you're using it for, you can either 1. create "
            "a new block mask with the correct length, or 2. 'adjust' the existing block mask to the correct length by "
            "calling block_mask._adjust(q_len, kv_len). This essentially 'crops' the block mask to the upper left "
            "corner, which does not work for all mask_mods!"
        )
    if block_mask.kv_num_blocks.device != query.device:
        raise RuntimeError(
            "Expect q/k/v and block_mask to be on the same device but got "
            f"{query.device} and {block_mask.kv_num_blocks.device}."
        )
    there, needed = block_mask.kv_indices.shape[-2], ceil_div(q_len, size)
    if there < needed:
        raise ValueError(f"[flex_attention] block_mask has {there} rows of blocks, but {q_len} queries take {needed}")
    if block_mask.mask_mod is _sliced_mask_mod_error:
        raise RuntimeError("Cannot use mask_mod from a sliced BlockMask")


def _check_kernel_options(kernel_options: FlexKernelOptions | None) -> None:
    options: dict[str, Any] = {} if kernel_options is None else dict(kernel_options)
    for name in ("OUTPUT_LOGSUMEXP", "OUTPUT_MAX"):
        if name in options:
            raise AssertionError(f"{name} must not be in kernel_options")
    if "BACKEND" not in options:
        return
    if options["BACKEND"] not in _BACKENDS:
        raise ValueError(f"Invalid BACKEND value '{options['BACKEND']}'. Must be one of {_BACKENDS}")
    if options.get("FORCE_USE_FLEX_ATTENTION"):
        raise RuntimeError(
            "BACKEND cannot be combined with legacy FORCE_USE_FLEX_ATTENTION. BACKEND supersedes the legacy knob; please "
            "drop FORCE_USE_FLEX_ATTENTION and only specify the desired BACKEND."
        )


@functools.cache
def _warn_of_return_lse() -> None:
    """Once in a process, like PyTorch."""
    warnings.warn(
        "return_lse is deprecated and will be removed in v2.10. Please use return_aux=AuxRequest(lse=True) instead.",
        FutureWarning,
        stacklevel=3,
    )


def _lowered(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The inputs in the precision of an autocast region, if there is one."""
    kind = query.device.type
    if not _C.is_autocast_enabled(kind):
        return query, key, value
    dtype = _C.get_autocast_dtype(kind)
    q, k, v = (x.to(dtype) if x.is_floating_point() and x.dtype != _C.float64 else x for x in (query, key, value))
    return q, k, v


def _staged(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None,
    block_mask: BlockMask | None,
    scale: float | None,
    kernel_options: FlexKernelOptions | None,
    wanted: AuxRequest,
) -> tuple[Any, ...] | None:
    """The results where graphs are made, or tensors have no elements: the call is one node there."""
    mask = None if block_mask is None else block_mask.as_tuple()
    if not is_staged((query, key, value, mask)):
        return None
    node = importlib.import_module("tocha._higher_order_ops.flex_attention")
    options = {**(kernel_options or {}), "OUTPUT_LOGSUMEXP": wanted.lse, "OUTPUT_MAX": wanted.max_scores}
    return node.flex_attention_op(query, key, value, score_mod, mask, scale, options)


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Tensor | tuple[Tensor, Tensor] | tuple[Tensor, AuxOutput]:
    """softmax(score_mod(query @ key^T * scale)) @ value for [batch, heads, length, width], where block_mask lets.

    score_mod gets scores and their batch, head, query and key numbers, as tensors that broadcast; gradients flow
    through it, also to tensors it uses. Queries that see no key give 0. With enable_gqa a head of key and value serves
    several of query. return_aux asks for more results; return_lse is its older form.

    >>> import tocha
    >>> x = tocha.tensor([[[[1.0, 0.0], [0.0, 1.0]]]])
    >>> def own(score, b, h, q, k):
    ...     return tocha.where(q == k, score, -tocha.inf)
    >>> flex_attention(x, x, x, own)
    tensor([[[[1., 0.],
              [0., 1.]]]])
    """
    _check_inputs(query, key, value, enable_gqa)
    _check_batches(query, key, block_mask)
    if block_mask is not None:
        _check_block_mask(block_mask, query, key)
    _check_kernel_options(kernel_options)
    if return_lse and return_aux is not None:
        raise ValueError(
            "Cannot specify both return_lse and return_aux. return_lse is deprecated, please use "
            "return_aux=AuxRequest(lse=True) instead."
        )
    if return_lse:
        _warn_of_return_lse()
    wanted = AuxRequest(lse=True) if return_lse else return_aux or AuxRequest()
    query, key, value = _lowered(query, key, value)
    with autocast(query.device.type, enabled=False):
        found = _staged(query, key, value, score_mod, block_mask, scale, kernel_options, wanted)
        if found is None:
            attention = Attention.of(query, key, value, score_mod, block_mask, scale, wanted.lse, wanted.max_scores)
            out, *rest = attention.run(block_mask)
            found = (in_layout_of(query, out), *rest)
    out = found[0]
    if return_lse:
        return out, found[1]
    if return_aux is None:
        return out
    more = iter(found[1:])
    return out, AuxOutput(next(more) if wanted.lse else None, next(more) if wanted.max_scores else None)
