"""Losses as torch.nn.functional has them: reductions by name and the deprecated size_average and reduce.

The operators are in tocha/operators/losses.py.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

from tocha import _C

Tensor = _C.Tensor
_nn = _C._nn

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy", "ctc_loss", "gaussian_nll_loss",
    "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "linear_cross_entropy", "margin_ranking_loss", "mse_loss", "multi_margin_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss",
    "triplet_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def _legacy(reduction: str, size_average: bool | None, reduce: bool | None) -> str:
    """The reduction that the deprecated arguments ask for, where they are given."""
    if size_average is None and reduce is None:
        return reduction
    chosen = "none" if reduce is False else "sum" if size_average is False else "mean"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{chosen}' instead.", stacklevel=3
    )
    return chosen


def _code(reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> int:
    reduction = _legacy(reduction, size_average, reduce)
    if reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=3)
        reduction = "mean"
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _REDUCTIONS[reduction]


def _reduced(loss: Tensor, code: int) -> Tensor:
    return loss.mean() if code == 1 else loss.sum() if code == 2 else loss


def _compared(name: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """input and target in one size, with a warning where broadcasting was needed: it is seldom meant."""
    if target.size() == input.size():
        return input, target
    warnings.warn(
        f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). "
        f"This will likely lead to incorrect results in {name} due to broadcasting. Please ensure they have the same size.",
        stacklevel=3,
    )
    spread, aimed = _C.broadcast_tensors([input, target])
    return spread, aimed


def _check_weight(input: Tensor, weight: Tensor) -> None:
    if weight.size() != input.size():
        raise ValueError(
            f"Weights and input must have the same size, got {tuple(weight.size())} and {tuple(input.size())}"
        )


def _weighted_mean(loss: Tensor, weight: Tensor, code: int) -> Tensor:
    return (loss * weight).sum() / weight.sum() if code == 1 else _reduced(loss * weight, code)


def _weighted(loss: Callable, input: Tensor, target: Tensor, weight: Tensor | None, code: int) -> Tensor:
    """A loss by elements, reduced; with weights by their mean."""
    if weight is None:
        return loss(input, target, code)
    _check_weight(input, weight)
    return _weighted_mean(loss(input, target, 0), weight, code)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The mean squared error.

    >>> import tocha
    >>> mse_loss(tocha.tensor([1.0, 2.0]), tocha.tensor([1.0, 4.0]))
    tensor(2.)
    """
    code = _code(reduction, size_average, reduce)
    return _weighted(_nn.mse_loss, *_compared("mse_loss", input, target), weight, code)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The mean absolute error.

    >>> import tocha
    >>> l1_loss(tocha.tensor([1.0, 2.0]), tocha.tensor([1.0, 4.0]))
    tensor(1.)
    """
    code = _code(reduction, size_average, reduce)
    return _weighted(_nn.l1_loss, *_compared("l1_loss", input, target), weight, code)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Squared error below beta, absolute error beyond.

    >>> tocha.nn.functional.smooth_l1_loss(tocha.tensor([1.0, 2.0]), tocha.tensor([0.5, 4.0]))
    tensor(0.8125)
    """
    code = _code(reduction, size_average, reduce)
    input, target = _compared("smooth_l1_loss", input, target)
    return _nn.smooth_l1_loss(input, target, code, beta)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Half the squared error up to delta, delta times the absolute error beyond.

    >>> tocha.nn.functional.huber_loss(tocha.tensor([1.0, 2.0]), tocha.tensor([0.5, 6.0]), delta=2.0)
    tensor(3.0625)
    """
    code = _code(reduction)
    input, target = _compared("huber_loss", input, target)
    if weight is None:
        return _nn.huber_loss(input, target, code, delta)
    _check_weight(input, weight)
    return _reduced(_nn.huber_loss(input, target, 0, delta) * weight, code)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """The Kullback-Leibler divergence of log probabilities input from target; 'batchmean' is its mathematical mean.

    >>> tocha.nn.functional.kl_div(tocha.tensor([[0.5, 0.5]]).log(), tocha.tensor([[0.9, 0.1]]), reduction="batchmean")
    tensor(0.3681)
    """
    legacy = size_average is not None or reduce is not None
    reduction = _legacy(reduction, size_average, reduce)
    if reduction == "mean" and not legacy:
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' divides only by the batch size, and aligns with the KL div math definition.",
            stacklevel=2,
        )
    if reduction != "batchmean":
        return _C.kl_div(input, target, _code(reduction), log_target=log_target)
    total = _C.kl_div(input, target, _REDUCTIONS["sum"], log_target=log_target)
    return total / input.size(0) if input.dim() else total


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The cross entropy of probabilities input and target, of two classes.

    >>> tocha.nn.functional.binary_cross_entropy(tocha.tensor([0.9, 0.2]), tocha.tensor([1.0, 0.0]))
    tensor(0.1643)
    """
    return _nn.binary_cross_entropy(input, target, weight, _code(reduction, size_average, reduce))


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """binary_cross_entropy of sigmoid(input), computed from input.

    >>> tocha.nn.functional.binary_cross_entropy_with_logits(tocha.tensor([2.0, -1.0]), tocha.tensor([1.0, 0.0]))
    tensor(0.2201)
    """
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    return _C.binary_cross_entropy_with_logits(
        input, target, weight, pos_weight, _code(reduction, size_average, reduce)
    )


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The negative log likelihood of target classes, given log probabilities.

    >>> import tocha
    >>> nll_loss(tocha.tensor([[-1.0, -2.0]]), tocha.tensor([1]))
    tensor(2.)
    """
    return _nn.nll_loss(input, target, weight, _code(reduction, size_average, reduce), ignore_index)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The cross entropy of softmax(input) with target classes or probabilities.

    >>> import tocha
    >>> cross_entropy(tocha.zeros(1, 4), tocha.tensor([2]))
    tensor(1.3863)
    """
    return _nn.cross_entropy_loss(
        input, target, weight, _code(reduction, size_average, reduce), ignore_index, label_smoothing
    )


def _check_linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, linear_bias: Tensor | None, ignore_index: int | None
) -> None:
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}")
    features, shape = input.size(-1), tuple(linear_weight.size())
    if features != shape[-1]:
        raise RuntimeError(
            f"expected equal input and linear_weight last dimensions (in_features), got {features} and {shape[-1]}, respectively"
        )
    if len(shape) > 2 and input.dim() < 2:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {shape} requires batched input, (N, {features}), got unbatched input with shape {tuple(input.size())}"
        )
    if linear_bias is not None and tuple(linear_bias.size()) != shape[:-1]:
        raise RuntimeError(f"expected linear_bias shape {shape[:-1]}, got {tuple(linear_bias.size())}")
    if ignore_index is not None and target.is_floating_point():
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")


def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None, weight: Tensor | None = None,
    reduction: str = "mean", ignore_index: int | None = None, label_smoothing: float = 0.0, options: object = None,
) -> Tensor:  # fmt: skip
    """cross_entropy of a linear layer: of input @ linear_weight.T. `options` of PyTorch's chunking change no value.

    >>> tocha.nn.functional.linear_cross_entropy(tocha.eye(2), tocha.eye(2), tocha.tensor([0, 1]))
    tensor(0.3133)
    """
    _check_linear_cross_entropy(input, linear_weight, target, linear_bias, ignore_index)
    rows = linear_weight.flatten(0, -2)
    bias = None if linear_bias is None else linear_bias.flatten()
    scores = _nn.linear(input, rows, bias).reshape([*input.size()[:-1], *linear_weight.size()[:-1]])
    return cross_entropy(
        scores,
        target,
        weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def _lengths(lengths: Tensor | tuple[int, ...]) -> Tensor:
    return lengths if isinstance(lengths, Tensor) else _C.tensor(lengths, dtype=_C.int64)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Connectionist temporal classification: all alignments of (T, N, C) log probabilities to the targets.

    >>> log_probs = tocha.full((4, 1, 3), 1 / 3).log()
    >>> tocha.nn.functional.ctc_loss(log_probs, tocha.tensor([[1, 2]]), tocha.tensor([4]), tocha.tensor([2]))
    tensor(0.8432)
    """
    return _C.ctc_loss(
        log_probs, targets, _lengths(input_lengths), _lengths(target_lengths), blank, _code(reduction), zero_infinity
    )


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The negative log likelihood of counts, given rates or their logarithms.

    >>> tocha.nn.functional.poisson_nll_loss(tocha.tensor([0.0, 1.0]), tocha.tensor([1.0, 3.0]))
    tensor(0.3591)
    """
    return _C.poisson_nll_loss(input, target, log_input, full, eps, _code(reduction, size_average, reduce))


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """The negative log likelihood of targets, given means and variances (at least eps).

    >>> tocha.nn.functional.gaussian_nll_loss(tocha.tensor([1.0, 2.0]), tocha.tensor([0.0, 2.0]), tocha.tensor([1.0, 4.0]))
    tensor(0.5966)
    """
    if not isinstance(var, Tensor):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = _C.full_like(input, var)
    elif var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif input.dim() != var.dim() or sum(y for x, y in zip(input.size(), var.size(), strict=True) if x != y) != 1:
            raise ValueError(
                f"var is of incorrect size: {tuple(var.size())} for an input of size {tuple(input.size())}"
            )
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not valid")
    if _C.any(var < 0):
        raise ValueError("var has negative entry/entries")
    bounded = var.clone()
    bounded.detach().clamp_(min=eps)  # not seen by autograd: what is below eps still gets its gradient
    loss = 0.5 * (bounded.log() + (input - target) ** 2 / bounded)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduced(loss, _REDUCTIONS[reduction])


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """input where target is 1, max(0, margin - input) where it is -1.

    >>> tocha.nn.functional.hinge_embedding_loss(tocha.tensor([0.5, 0.25]), tocha.tensor([1.0, -1.0]))
    tensor(0.6250)
    """
    return _C.hinge_embedding_loss(input, target, margin, _code(reduction, size_average, reduce))


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos(input1, input2) where target is 1, max(0, cos - margin) where it is -1.

    >>> tocha.nn.functional.cosine_embedding_loss(tocha.tensor([[1.0, 0.0]]), tocha.tensor([[1.0, 1.0]]), tocha.tensor([1.0]))
    tensor(0.2929)
    """
    return _C.cosine_embedding_loss(input1, input2, target, margin, _code(reduction, size_average, reduce))


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin - target * (input1 - input2)): input1 should rank higher where target is 1.

    >>> tocha.nn.functional.margin_ranking_loss(tocha.tensor([1.0, 2.0]), tocha.tensor([0.0, 3.0]), tocha.tensor([1.0, 1.0]), margin=0.5)
    tensor(0.7500)
    """
    code = _code(reduction, size_average, reduce)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _C.margin_ranking_loss(input1, input2, target, margin, code)


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """The logistic loss of two classes, 1 and -1.

    >>> tocha.nn.functional.soft_margin_loss(tocha.tensor([2.0, -1.0]), tocha.tensor([1.0, -1.0]))
    tensor(0.2201)
    """
    return _nn.soft_margin_loss(input, target, _code(reduction, size_average, reduce))


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """Hinge losses between each target class (up to the first -1) and each other class.

    >>> tocha.nn.functional.multilabel_margin_loss(tocha.tensor([[0.1, 0.2, 0.4, 0.8]]), tocha.tensor([[3, 0, -1, 1]]))
    tensor(0.8500)
    """
    return _nn.multilabel_margin_loss(input, target, _code(reduction, size_average, reduce))


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """binary_cross_entropy_with_logits, averaged over the classes in the last dim.

    >>> tocha.nn.functional.multilabel_soft_margin_loss(tocha.tensor([[2.0, -1.0]]), tocha.tensor([[1.0, 0.0]]))
    tensor(0.2201)
    """
    return _C._multilabel_soft_margin_loss(input, target, weight, _code(reduction, size_average, reduce))


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin - input[target] + input[i]) to the power p, averaged over the other classes i.

    >>> tocha.nn.functional.multi_margin_loss(tocha.tensor([[0.1, 0.9, 0.3]]), tocha.tensor([1]))
    tensor(0.2000)
    """
    return _nn.multi_margin_loss(input, target, p, margin, weight, _code(reduction, size_average, reduce))


def _check_margin(margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin + distance(anchor, positive) - distance(anchor, negative)), with the p-norm.

    >>> tocha.nn.functional.triplet_margin_loss(tocha.tensor([[0.0, 0.0]]), tocha.tensor([[1.0, 0.0]]), tocha.tensor([[0.0, 1.5]]))
    tensor(0.5000)
    """
    code = _code(reduction, size_average, reduce)
    _check_margin(margin)
    return _C.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, code)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """triplet_margin_loss with a distance of the caller's.

    >>> tocha.nn.functional.triplet_margin_with_distance_loss(tocha.tensor([[0.0, 0.0]]), tocha.tensor([[1.0, 0.0]]), tocha.tensor([[0.0, 1.5]]), distance_function=lambda a, b: (a - b).abs().sum(-1))
    tensor(0.5000)
    """
    code = _code(reduction)
    _check_margin(margin)
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            f"The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )
    distance = distance_function or _C.pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _C.minimum(far, distance(positive, negative))
    return _reduced(_C.clamp_min(margin + near - far, 0), code)
