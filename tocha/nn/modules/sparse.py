"""Embedding tables."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha.autograd.grad_mode import no_grad
from tocha.nn import functional as F
from tocha.nn import init
from tocha.nn.modules.module import Module
from tocha.nn.parameter import Parameter

Tensor = _C.Tensor

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """What Embedding and EmbeddingBag share: the table and its first values."""

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool
    sparse: bool
    weight: Tensor

    def _make_weight(self, given: Tensor | None, trained: bool, device: Any, dtype: Any) -> None:
        size = (self.num_embeddings, self.embedding_dim)
        if given is None:
            self.weight = Parameter(_C.empty(size, device=device, dtype=dtype), requires_grad=trained)
            self.reset_parameters()
            return
        if tuple(given.shape) != size:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.weight = Parameter(given, requires_grad=trained)

    def _row(self, padding_idx: int | None, argument: str) -> int | None:
        """padding_idx counted from the first row."""
        if padding_idx is None:
            return None
        if not -self.num_embeddings <= padding_idx < self.num_embeddings:
            raise AssertionError(f"{argument} must be within num_embeddings")
        return padding_idx % self.num_embeddings

    def reset_parameters(self) -> None:
        """Draws the table from the normal distribution; the padding row is 0."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def _text_of_limits(self) -> str:
        text = "" if self.max_norm is None else f", max_norm={self.max_norm}"
        text += "" if self.norm_type == 2 else f", norm_type={self.norm_type}"
        return text + (f", scale_grad_by_freq={self.scale_grad_by_freq}" if self.scale_grad_by_freq else "")


def _rows_and_columns(embeddings: Tensor) -> tuple[int, int]:
    if embeddings.dim() != 2:
        raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
    return embeddings.shape[0], embeddings.shape[1]


class Embedding(_Table):
    """A row of a table for every index; the row padding_idx gets no gradient.

    >>> import tocha
    >>> Embedding(5, 3)(tocha.tensor([[0, 4]])).shape
    tocha.Size([1, 2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = self._row(padding_idx, "Padding_idx")
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self._make_weight(_weight, not _freeze, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        """(*) of indices to (*, embedding_dim)."""
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        text += "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return text + self._text_of_limits() + (", sparse=True" if self.sparse else "")

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """An Embedding of a given table; freeze keeps it from being trained."""
        rows, columns = _rows_and_columns(embeddings)
        return cls(
            rows, columns, padding_idx=padding_idx, max_norm=max_norm, norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq, sparse=sparse, _weight=embeddings, _freeze=freeze,
        )  # fmt: skip


class EmbeddingBag(_Table):
    """The mean, sum or maximum of the rows of each bag of indices, without storing the rows.

    >>> bag = tocha.nn.EmbeddingBag(10, 3, mode="sum")
    >>> bag(tocha.tensor([1, 2, 4, 5]), tocha.tensor([0, 3])).shape
    tocha.Size([2, 3])
    >>> bag(tocha.tensor([[1, 2], [4, 5]])).shape
    tocha.Size([2, 3])
    """

    mode: str
    include_last_offset: bool

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx = self._row(padding_idx, "padding_idx")
        self._make_weight(_weight, True, device, dtype)
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """Bags as rows of a 2-D input, or as runs of a 1-D input that begin at the offsets."""
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse,
            per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}{self._text_of_limits()}, mode={self.mode!r}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """An EmbeddingBag of a given table; freeze keeps it from being trained."""
        rows, columns = _rows_and_columns(embeddings)
        bag = cls(
            rows, columns, max_norm=max_norm, norm_type=norm_type, scale_grad_by_freq=scale_grad_by_freq, mode=mode,
            sparse=sparse, _weight=embeddings, include_last_offset=include_last_offset, padding_idx=padding_idx,
        )  # fmt: skip
        bag.weight.requires_grad = not freeze
        return bag
