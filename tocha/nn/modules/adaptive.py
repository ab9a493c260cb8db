"""The softmax over many classes that spends least on the rare ones (Grave et al., 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tocha import _C
from tocha.nn import functional as F
from tocha.nn.modules.container import ModuleList, Sequential
from tocha.nn.modules.linear import Linear
from tocha.nn.modules.module import Module

Tensor = _C.Tensor

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    """What AdaptiveLogSoftmaxWithLoss returns."""

    output: Tensor
    loss: Tensor


def _check_cutoffs(cutoffs: list[int], n_classes: int) -> None:
    if not cutoffs:
        raise ValueError("cutoffs should be a sequence of length larger than 0")
    rising = cutoffs == sorted(set(cutoffs))
    if not rising or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1 or any(int(c) != c for c in cutoffs):
        raise ValueError(
            "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
            "where each value is between 1 and n_classes-1"
        )


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log probabilities over classes ordered by frequency: the head holds the frequent ones and one entry for every
    cluster of rarer ones, and a cluster projects to a space smaller by another factor div_value.

    >>> import tocha
    >>> layer = AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[5, 10], div_value=2.0)
    >>> layer.log_prob(tocha.ones(2, 8)).shape
    tocha.Size([2, 20])
    """

    in_features: int
    n_classes: int
    cutoffs: list[int]
    div_value: float
    head_bias: bool
    head: Linear
    tail: ModuleList

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        _check_cutoffs(cutoffs, n_classes)
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            width = int(in_features // div_value ** (i + 1))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, width, bias=False, device=device, dtype=dtype),
                    Linear(width, size, bias=False, device=device, dtype=dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Draws all weights anew."""
        self.head.reset_parameters()
        for projection, scores in self.tail:
            projection.reset_parameters()
            scores.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """The log probability of each sample's target, and the mean negative log likelihood."""
        batched = target_.dim() > 0
        self._check_batch(input_, target_)
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        self._check_target(target)
        head = F.log_softmax(self.head(input), 1)
        entry, within = self._head_entries(input, target)
        output = head.gather(1, entry.unsqueeze(1)).squeeze(1) + within
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _head_entries(self, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Where each target's class or cluster stands in the head, and its log probability within the cluster."""
        entry = target.clone()
        within = input.new_zeros(target.size(0))
        for i, layer in enumerate(self.tail):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            scores = F.log_softmax(layer(input.index_select(0, rows)), 1)
            local = scores.gather(1, (target[rows] - low).unsqueeze(1)).squeeze(1)
            entry.index_fill_(0, rows, self.shortlist_size + i)
            within = within.index_copy(0, rows, local.to(within.dtype))
        return entry, within

    def _check_batch(self, input: Tensor, target: Tensor) -> None:
        if target.dim() == 1:
            if input.shape[0] != target.shape[0]:
                raise RuntimeError("Input and target should have the same size in the batch dimension.")
            if input.dim() != 2:
                raise RuntimeError(
                    "1D target tensor expects 2D input tensors, but found inputs with size", input.size()
                )
        elif target.dim() == 0:
            if input.dim() != 1:
                raise RuntimeError(
                    "0D target tensor expects 1D input tensors, but found inputs with size", input.size()
                )
        else:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")

    def _check_target(self, target: Tensor) -> None:
        outside = (target < 0) | (target >= self.n_classes)
        if target.numel() and bool(outside.any()):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        head = F.log_softmax(head_output, 1)
        parts = [head[:, : self.shortlist_size]]
        for i, layer in enumerate(self.tail):
            cluster = head[:, self.shortlist_size + i].unsqueeze(1)
            parts.append(F.log_softmax(layer(input), 1) + cluster)
        return _C.cat(parts, 1)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log probabilities of all classes: (N, in_features) to (N, n_classes)."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The likeliest class of every sample; the clusters are computed only for the samples that choose one."""
        head = self.head(input)
        output = head.argmax(1)
        rare = output >= self.shortlist_size
        if not bool(rare.any()):
            return output
        if bool(rare.all()):
            return self.log_prob(input).argmax(1)
        output[rare] = self._get_full_log_prob(input[rare], head[rare]).argmax(1)
        return output
