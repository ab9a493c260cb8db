"""Losses as layers. Each keeps its arguments and calls the function of its name in tocha.nn.functional."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from tocha import _C
from tocha.nn import functional as F
from tocha.nn.functional_losses import _legacy
from tocha.nn.modules.distance import PairwiseDistance
from tocha.nn.modules.linear import Linear
from tocha.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions
from tocha.nn.modules.module import Module

Tensor = _C.Tensor

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss", "HingeEmbeddingLoss",
    "HuberLoss", "KLDivLoss", "L1Loss", "LinearCrossEntropyLoss", "MSELoss", "MarginRankingLoss", "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "NLLLoss2d", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss",
    "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip


class _Loss(Module):
    """What losses share: how the terms are reduced. size_average and reduce are the old way to say it."""

    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = _legacy(reduction, size_average, reduce)


class _WeightedLoss(_Loss):
    """A loss with a weight for every class, kept as a buffer."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """The mean absolute error.

    >>> import tocha
    >>> L1Loss()(tocha.tensor([1.0, 2.0]), tocha.tensor([1.0, 4.0]))
    tensor(1.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of input against target."""
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """The mean squared error.

    >>> tocha.nn.MSELoss()(tocha.tensor([1.0, 2.0]), tocha.tensor([0.0, 4.0]))
    tensor(2.5000)
    >>> tocha.nn.MSELoss(reduction="sum")(tocha.tensor([1.0, 2.0]), tocha.tensor([0.0, 4.0]))
    tensor(5.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of input against target."""
        return F.mse_loss(input, target, reduction=self.reduction)


class NLLLoss(_WeightedLoss):
    """Minus the log probability that the input gives to the target class.

    >>> tocha.nn.NLLLoss()(tocha.tensor([[0.9, 0.1], [0.2, 0.8]]).log(), tocha.tensor([0, 1]))
    tensor(0.1643)
    """

    ignore_index: int

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of log probabilities (N, C, *) against classes (N, *)."""
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """The old name of NLLLoss for images.

    >>> tocha.nn.NLLLoss2d()(tocha.full((1, 2, 1, 1), 0.5).log(), tocha.tensor([[[1]]]))
    tensor(0.6931)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in replacement.",
            category=FutureWarning,
            stacklevel=2,
        )
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class PoissonNLLLoss(_Loss):
    """The negative log likelihood of counts under Poisson rates, given as logs with log_input.

    >>> tocha.nn.PoissonNLLLoss()(tocha.tensor([0.0, 1.0]), tocha.tensor([1.0, 3.0]))
    tensor(0.3591)
    """

    log_input: bool
    full: bool
    eps: float

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """The loss of rates against counts."""
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(_Loss):
    """The negative log likelihood of targets under normal distributions of given mean and variance.

    >>> tocha.nn.GaussianNLLLoss()(tocha.tensor([1.0, 2.0]), tocha.tensor([0.0, 2.0]), tocha.tensor([1.0, 4.0]))
    tensor(0.5966)
    """

    full: bool
    eps: float

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """The loss of means and variances against target."""
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence of log probabilities from a target distribution.

    >>> tocha.nn.KLDivLoss(reduction="batchmean")(tocha.tensor([[0.5, 0.5]]).log(), tocha.tensor([[0.9, 0.1]]))
    tensor(0.3681)
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of log probabilities against target."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class BCELoss(_WeightedLoss):
    """The cross entropy of probabilities, of two classes.

    >>> tocha.nn.BCELoss()(tocha.tensor([0.9, 0.2]), tocha.tensor([1.0, 0.0]))
    tensor(0.1643)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of probabilities against target."""
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """BCELoss of sigmoid(input), without overflow; pos_weight weighs the positive class.

    >>> tocha.nn.BCEWithLogitsLoss()(tocha.tensor([2.0, -1.0]), tocha.tensor([1.0, 0.0]))
    tensor(0.2201)
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of logits against target."""
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class HingeEmbeddingLoss(_Loss):
    """input where the target is 1, max(0, margin - input) where it is -1.

    >>> tocha.nn.HingeEmbeddingLoss()(tocha.tensor([0.5, 0.25]), tocha.tensor([1.0, -1.0]))
    tensor(0.6250)
    """

    margin: float

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of distances against targets of 1 and -1."""
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """A hinge between each class that a sample has and each that it has not.

    >>> tocha.nn.MultiLabelMarginLoss()(tocha.tensor([[0.1, 0.2, 0.4, 0.8]]), tocha.tensor([[3, 0, -1, 1]]))
    tensor(0.8500)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of scores (N, C) against classes (N, C), ended by -1."""
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Squared error below beta, absolute error beyond.

    >>> tocha.nn.SmoothL1Loss()(tocha.tensor([1.0, 2.0]), tocha.tensor([0.5, 4.0]))
    tensor(0.8125)
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of input against target."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Half the squared error up to delta, delta times the absolute error beyond.

    >>> tocha.nn.HuberLoss(delta=2.0)(tocha.tensor([1.0, 2.0]), tocha.tensor([0.5, 6.0]))
    tensor(3.0625)
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of input against target."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target * input)) for targets of 1 and -1.

    >>> tocha.nn.SoftMarginLoss()(tocha.tensor([2.0, -1.0]), tocha.tensor([1.0, -1.0]))
    tensor(0.2201)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of scores against targets of 1 and -1."""
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class CrossEntropyLoss(_WeightedLoss):
    """The cross entropy of softmax(input) and the target: classes, or their probabilities.

    >>> import tocha
    >>> CrossEntropyLoss()(tocha.zeros(2, 4), tocha.tensor([0, 3]))
    tensor(1.3863)
    """

    ignore_index: int
    label_smoothing: float

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of scores (N, C, *) against classes (N, *) or probabilities (N, C, *)."""
        return F.cross_entropy(
            input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )  # fmt: skip


class LinearCrossEntropyLoss(_WeightedLoss):
    """CrossEntropyLoss of a linear layer that belongs to the loss: the last layer of a classifier.

    out_features are the further dims of the target. The options of a chunked computation change no value.

    >>> _ = tocha.manual_seed(0)
    >>> loss = tocha.nn.LinearCrossEntropyLoss(3, 5)
    >>> loss(tocha.ones(2, 3), tocha.tensor([0, 4])).shape
    tocha.Size([])
    """

    num_classes: int
    out_features: tuple[int, ...]
    ignore_index: int | None
    label_smoothing: float
    options: LinearCrossEntropyOptions | None

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        super().__init__(weight, None, None, reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options
        rows = num_classes * math.prod(out_features)
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of features (N, in_features) against classes (N, *out_features) or their probabilities."""
        weight, bias = self.linear.weight, self.linear.bias
        size = (self.num_classes, *self.out_features)
        return F.linear_cross_entropy(
            input, weight.reshape(*size, weight.size(-1)), target,
            linear_bias=None if bias is None else bias.reshape(size), weight=self.weight, reduction=self.reduction,
            ignore_index=self.ignore_index, label_smoothing=self.label_smoothing, options=self.options,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The binary cross entropy of every class, averaged over classes.

    >>> tocha.nn.MultiLabelSoftMarginLoss()(tocha.tensor([[2.0, -1.0]]), tocha.tensor([[1.0, 0.0]]))
    tensor(0.2201)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of scores (N, C) against targets (N, C) of 0 and 1."""
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """1 - cos for pairs whose target is 1, max(0, cos - margin) for those whose target is -1.

    >>> tocha.nn.CosineEmbeddingLoss()(tocha.tensor([[1.0, 0.0]]), tocha.tensor([[1.0, 1.0]]), tocha.tensor([1.0]))
    tensor(0.2929)
    """

    margin: float

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """The loss of pairs against targets of 1 and -1."""
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    """max(0, margin - target * (input1 - input2)): target 1 asks input1 to be the greater.

    >>> tocha.nn.MarginRankingLoss(margin=0.5)(tocha.tensor([1.0, 2.0]), tocha.tensor([0.0, 3.0]), tocha.tensor([1.0, 1.0]))
    tensor(0.7500)
    """

    margin: float

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """The loss of pairs against targets of 1 and -1."""
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """A hinge to the power p between the target class and each other class.

    >>> tocha.nn.MultiMarginLoss()(tocha.tensor([[0.1, 0.9, 0.3]]), tocha.tensor([1]))
    tensor(0.2000)
    """

    p: int
    margin: float

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D instead")
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of scores (N, C) against classes (N)."""
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class TripletMarginLoss(_Loss):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), d a p-norm.

    >>> tocha.nn.TripletMarginLoss()(tocha.tensor([[0.0, 0.0]]), tocha.tensor([[1.0, 0.0]]), tocha.tensor([[0.0, 1.5]]))
    tensor(0.5000)
    """

    margin: float
    p: float
    eps: float
    swap: bool

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead")
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """The loss of triples."""
        return F.triplet_margin_loss(
            anchor, positive, negative, margin=self.margin, p=self.p, eps=self.eps, swap=self.swap, reduction=self.reduction
        )  # fmt: skip


class TripletMarginWithDistanceLoss(_Loss):
    """TripletMarginLoss with a distance of one's own: a function or a module of two tensors.

    >>> loss = tocha.nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().sum(-1))
    >>> loss(tocha.tensor([[0.0, 0.0]]), tocha.tensor([[1.0, 0.0]]), tocha.tensor([[0.0, 1.5]]))
    tensor(0.5000)
    """

    margin: float
    swap: bool

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average=None, reduce=None, reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """The loss of triples."""
        return F.triplet_margin_with_distance_loss(
            anchor, positive, negative, distance_function=self.distance_function, margin=self.margin, swap=self.swap,
            reduction=self.reduction,
        )  # fmt: skip


class CTCLoss(_Loss):
    """Connectionist temporal classification: all alignments of a sequence of distributions to a target.

    >>> log_probs = tocha.full((4, 1, 3), 1 / 3).log()
    >>> tocha.nn.CTCLoss()(log_probs, tocha.tensor([[1, 2]]), tocha.tensor([4]), tocha.tensor([2]))
    tensor(0.8432)
    """

    blank: int
    zero_infinity: bool

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor) -> Tensor:
        """The loss of log probabilities (T, N, C) against targets (N, S), or all targets in a row."""
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )
