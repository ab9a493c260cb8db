"""Distances and similarities of two inputs."""

from __future__ import annotations

from tocha import _C
from tocha.nn import functional as F
from tocha.nn.modules.module import Module

Tensor = _C.Tensor

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 + eps over the last dim.

    >>> tocha.nn.PairwiseDistance(p=2)(tocha.tensor([[0.0, 0.0]]), tocha.tensor([[3.0, 4.0]]))
    tensor([5.0000])
    """

    norm: float
    eps: float
    keepdim: bool

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The distance of each pair."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine of the angle between x1 and x2 along dim.

    >>> tocha.nn.CosineSimilarity(dim=1)(tocha.tensor([[1.0, 0.0]]), tocha.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """

    dim: int
    eps: float

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The similarity of each pair."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
