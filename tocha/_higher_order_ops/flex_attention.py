"""flex_attention as a node: the functions of scores and masks are its subgraphs, what they read its further arguments.

On plain tensors `tocha.nn.attention.flex_attention` computes (tocha/nn/attention/_flex_kernel.py), also where a graph with such a node runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tocha import _C, autograd
from tocha._higher_order_ops.operator import (
    Differentiable,
    HigherOrderOperator,
    emit,
    is_staged,
    own_memory,
    wanted_of,
    wants_gradient,
)
from tocha._higher_order_ops.subgraph import capture
from tocha._subclasses.fake import outside
from tocha.nn.attention._block_mask import _TENSORS, _WRITE_ORDER, BlockMask
from tocha.nn.attention._flex_kernel import Attention, in_layout_of, working_dtype
from tocha.nn.attention._mods import PositionsAreTensors

Tensor = _C.Tensor
NAME = "tocha.nn.attention.flex_attention"
PREFIXES = ("sdpa_score", "sdpa_mask")


@dataclass
class Settings:
    """What a call has besides the tensors that gradients flow to."""

    score_mod: Callable | None
    block_mask: tuple | None  # BlockMask.as_tuple(), the function of the mask last
    scale: float | None
    kernel_options: dict[str, Any]
    mask_buffers: tuple

    @property
    def lse(self) -> bool:
        return bool(self.kernel_options.get("OUTPUT_LOGSUMEXP"))

    @property
    def max_scores(self) -> bool:
        return bool(self.kernel_options.get("OUTPUT_MAX"))

    def with_score_buffers(self, buffers: Sequence[Any]) -> Callable | None:
        """score_mod as a function of scores and positions."""
        score_mod = self.score_mod
        if score_mod is None:
            return None
        return lambda score, b, h, q, k: first(score_mod(score, b, h, q, k, *buffers))

    def mask(self) -> BlockMask | None:
        """The mask as users make it."""
        if self.block_mask is None:
            return None
        q_len, kv_len, *rest = self.block_mask
        names = (*_TENSORS, *_WRITE_ORDER)
        tensors = dict(zip(names, rest, strict=False))
        spt, q_size, kv_size, mask_mod = rest[len(names) :]

        def mask_fn(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            return first(mask_mod(b, h, q, k, *self.mask_buffers))

        return BlockMask(
            (q_len, kv_len), **tensors, BLOCK_SIZE=(q_size, kv_size), mask_mod=mask_fn, dq_kv_order_spt=spt
        )

    def run(self, query: Tensor, key: Tensor, value: Tensor, buffers: Sequence[Any]) -> tuple:
        """The results, computed."""
        mask = self.mask()
        attention = Attention.of(
            query, key, value, self.with_score_buffers(buffers), mask, self.scale, self.lse, self.max_scores
        )
        out, *more = attention.run(mask)
        return in_layout_of(query, out), *more

    def facts(self, query: Tensor, value: Tensor) -> list[Any]:
        """The results without elements."""
        batch, heads, length, _ = query.shape
        out = in_layout_of(query, query.new_empty((batch, heads, length, value.shape[-1])))
        rows = [
            query.new_empty((batch, heads, length), dtype=working_dtype(query))
            for _ in range(self.lse + self.max_scores)
        ]
        return [out, *rows]


def first(found: Any) -> Any:
    """Graphs give tuples."""
    return found[0] if isinstance(found, tuple) else found


def of_own_memory(function: Callable) -> Callable:
    """A function whose result is no input of it."""

    def result(*given: Any) -> list[Any]:
        with PositionsAreTensors():
            return own_memory([first(function(*given))], given)

    result.__name__ = getattr(function, "__name__", "score_mod")
    return result


def staged_function(function: Callable, dtype: Any, device: Any, buffers: Sequence[Any]) -> tuple[Any, list[Any]]:
    """A score_mod (of a score of this dtype) or a mask_mod as a graph, and the tensors and sizes that it reads."""
    with outside():
        places = [_C.zeros((), dtype=_C.int64, device=device) for _ in range(4)]
        scores = [] if dtype is None else [_C.zeros((), dtype=dtype, device=device)]
    sub = capture(NAME, of_own_memory(function), [*scores, *places, *buffers])
    return sub.module, [*buffers, *sub.lifted]


class FlexAttention(HigherOrderOperator):
    """flex_attention(query, key, value, score_graph, block_mask, scale, options, what score_mod reads, what mask_mod reads)."""

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        score_mod: Callable | None,
        block_mask: tuple | None,
        scale: float | None,
        kernel_options: dict[str, Any],
        score_mod_other_buffers: Sequence[Any] = (),
        mask_mod_other_buffers: Sequence[Any] = (),
    ) -> tuple:
        given = Settings(score_mod, block_mask, scale, kernel_options, tuple(mask_mod_other_buffers))
        buffers = list(score_mod_other_buffers)
        if not is_staged((query, key, value, block_mask, buffers)):
            return given.run(query, key, value, buffers)
        if score_mod is not None:
            dtype = working_dtype(query)
            given.score_mod, buffers = staged_function(score_mod, dtype, query.device, buffers)
        if block_mask is not None:
            module, read = staged_function(block_mask[-1], None, query.device, given.mask_buffers)
            given.block_mask, given.mask_buffers = (*block_mask[:-1], module), tuple(read)
        if wants_gradient([query, key, value, *buffers]):
            return self.recorded(given, (query, key, value, *buffers))
        return self.below(given, query, key, value, buffers)

    def below(self, s: Settings, query: Tensor, key: Tensor, value: Tensor, buffers: Sequence[Any]) -> tuple:
        args = (
            query, key, value, s.score_mod, s.block_mask, s.scale, s.kernel_options, tuple(buffers), s.mask_buffers,
        )  # fmt: skip
        return emit(
            self, args, prefixes_of(s), lambda: s.run(query, key, value, buffers), lambda: s.facts(query, value)
        )

    def recorded(self, s: Settings, values: Sequence[Any]) -> tuple:
        """One autograd node, whose backward is one of the other operator."""
        wanted = wanted_of(values)

        def forward(*given: Any) -> tuple:
            query, key, value, *buffers = given
            return self.below(s, query, key, value, buffers), ()

        def backward(given: Sequence[Any], kept: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
            flowing = list(grads[: 1 + s.lse])
            found = iter(flex_attention_backward_op.of(s, given, flowing, wanted))
            return [next(found) if w else None for w in wanted]

        out = Differentiable.apply(forward, backward, *values)
        return (*out[:-1], out[-1].detach()) if s.max_scores else out


def prefixes_of(s: Settings) -> list[str]:
    given = (s.score_mod is not None, s.block_mask is not None)
    return [p for p, there in zip(PREFIXES, given, strict=True) if there]


class FlexAttentionBackward(HigherOrderOperator):
    """The gradients of one call, of those of its tensors that want one: scores are computed again."""

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        grads: Sequence[Tensor],
        score_mod: Callable | None,
        block_mask: tuple | None,
        scale: float | None,
        kernel_options: dict[str, Any],
        score_mod_other_buffers: Sequence[Any] = (),
        mask_mod_other_buffers: Sequence[Any] = (),
        wanted: Sequence[bool] = (),
    ) -> tuple:
        s = Settings(score_mod, block_mask, scale, kernel_options, tuple(mask_mod_other_buffers))
        return self.of(s, (query, key, value, *score_mod_other_buffers), grads, wanted)

    def of(self, s: Settings, values: Sequence[Any], grads: Sequence[Any], wanted: Sequence[bool]) -> tuple:
        if wants_gradient([*values, *grads]):
            raise RuntimeError("[flex_attention] double backward of flex_attention in a graph is not supported")
        query, key, value, *buffers = values
        args = (
            query, key, value, tuple(grads), s.score_mod, s.block_mask, s.scale, s.kernel_options, tuple(buffers),
            s.mask_buffers, tuple(wanted),
        )  # fmt: skip
        named = prefixes_of(s)
        return emit(
            self,
            args,
            named,
            lambda: gradients(s, values, grads, wanted),
            lambda: [_C.empty_like(v) for v, w in zip(values, wanted, strict=True) if w],
        )


def gradients(s: Settings, values: Sequence[Any], grads: Sequence[Any], wanted: Sequence[bool]) -> list[Tensor]:
    """The gradients of results as a function of values, in the layout of these."""
    with autograd.enable_grad():
        leaves = [v.detach().requires_grad_() if w else v for v, w in zip(values, wanted, strict=True)]
        query, key, value, *buffers = leaves
        results = s.run(query, key, value, buffers)[: len(grads)]
    inputs = [v for v, w in zip(leaves, wanted, strict=True) if w]
    pairs = [(r, g) for r, g in zip(results, grads, strict=True) if r.requires_grad]
    found: Sequence[Any] = [None] * len(inputs)
    if pairs:
        found = autograd.grad([r for r, _ in pairs], inputs, [g for _, g in pairs], allow_unused=True)
    made = []
    for v, g in zip(inputs, found, strict=True):
        like = _C.empty_like(v.detach())
        made.append(like.zero_() if g is None else g if g.stride() == like.stride() else like.copy_(g))
    return made


flex_attention_op = FlexAttention("flex_attention")
flex_attention_backward_op = FlexAttentionBackward("flex_attention_backward")
