"""Losses. `reduction` is 0 (none), 1 (mean) or 2 (sum); tocha/nn/functional_losses.py gives them PyTorch's signatures.

The element-wise part of a loss is one formula, so that it is one loop and its gradient another.
"""

from __future__ import annotations

import math
from functools import partial

from tocha.ir import dtypes as dt
from tocha.ir import scalar as s
from tocha.operators import interpreter
from tocha.operators.activations import soft_maximum
from tocha.operators.exponential import product_with
from tocha.operators.record import FLOATS, composite, facts, gradient, native, op, pointwise, rule
from tocha.operators.rules import Out, is_integral, recording, refuse_dtype

formula = partial(pointwise, dtypes=FLOATS, variants="", expensive=True)
loss = partial(composite, variants="function", autocast="float32")


@rule
def reduced(loss: "Tensor", reduction: "int") -> "Tensor":
    if reduction == 1:
        return loss.mean()
    if reduction == 2:
        return loss.sum()
    return loss


@rule
def sum_dtype(d: "dtype") -> "dtype":
    """Sums of half-precision losses would overflow."""
    return dt.float32 if d in (dt.float16, dt.bfloat16) else d


# -- distances ---------------------------------------------------------------------------------------


@formula("_squared_error(Tensor self, Tensor target) -> Tensor", expensive=False, word="mse_cpu")
def squared_error(x, y):
    """(self - target) squared."""
    d = x - y
    return d * d


@loss("nn_mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", node="MseLossBackward0", whole=True)
def mse_loss(self, target, reduction):
    """The mean squared error."""
    return reduced(op._squared_error(self, target), reduction)


@composite(
    "mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
    variants="",
    whole=True,
)
def mse_loss_backward(grad_output, self, target, reduction):
    """The gradient of mse_loss by self."""
    scale = 2.0 / self.numel() if reduction == 1 else 2.0
    return (self - target) * scale * grad_output


@loss("nn_l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor")
def l1_loss(self, target, reduction):
    """The mean absolute error."""
    return reduced((self - target).abs(), reduction)


@formula("_smooth_error(Tensor self, Tensor target, float beta) -> Tensor", expensive=False, word="smooth_l1_cpu")
def smooth_error(x, y, beta):
    """A parabola for errors below beta, a line beyond."""
    z = s.abs(x - y)
    return s.where(z < beta, 0.5 * z * z / beta, z - 0.5 * beta)


def bent(error, bound, inner, end):
    """The gradient of a parabola that goes on as lines where the error meets the bounds; NaN for NaN."""
    return s.where(error <= -bound, -end, s.where(error >= bound, end, inner))


@gradient(smooth_error, "self")
def smooth_error_gradient(grad, self, target, beta):
    return bent(self - target, beta, grad * (self - target) / beta, grad)


@gradient(smooth_error, "target")
def smooth_error_target_gradient(grad, self, target, beta):
    return -bent(self - target, beta, grad * (self - target) / beta, grad)


@loss(
    "nn_smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.0) -> Tensor",
    node="SmoothL1LossBackward0",
    whole=True,
)
def smooth_l1_loss(self, target, reduction, beta):
    """Squared error below beta, absolute error beyond, joined smoothly."""
    if not beta >= 0:
        raise RuntimeError(f"[smooth_l1_loss] smooth_l1_loss does not support negative values for beta. Got {beta}")
    if beta == 0:
        return op.nn_l1_loss(self, target, reduction)
    return reduced(op._smooth_error(self, target, beta), reduction)


@formula("_huber_error(Tensor self, Tensor target, float delta) -> Tensor", expensive=False, word="huber_cpu")
def huber_error(x, y, delta):
    """A parabola for errors up to delta, a line beyond."""
    z = s.abs(x - y)
    return s.where(z <= delta, 0.5 * z * z, delta * (z - 0.5 * delta))


@gradient(huber_error, "self")
def huber_error_gradient(grad, self, target, delta):
    return bent(self - target, delta, grad * (self - target), grad * delta)


@gradient(huber_error, "target")
def huber_error_target_gradient(grad, self, target, delta):
    return -bent(self - target, delta, grad * (self - target), grad * delta)


@loss(
    "nn_huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.0) -> Tensor",
    node="HuberLossBackward0",
    whole=True,
)
def huber_loss(self, target, reduction, delta):
    """Half the squared error up to delta, delta times the absolute error beyond."""
    if not delta > 0:
        raise RuntimeError(f"[huber_loss] huber_loss does not support non-positive values for delta. Got {delta}")
    return reduced(op._huber_error(self, target, delta), reduction)


# -- likelihoods -------------------------------------------------------------------------------------


@formula("_kl(Tensor target, Tensor input) -> Tensor")
def kl(t, x):
    """target * (log(target) - input), 0 where target is 0."""
    return product_with(t, t, s.log) - t * x


@gradient(kl, "target")
def kl_target_gradient(grad, target, input):
    return grad * (s.where(target == 0, s.zero_like(target), s.log(target)) + target / target - input)


@formula("_kl_log(Tensor target, Tensor input) -> Tensor")
def kl_log(t, x):
    """exp(target) * (target - input)."""
    return s.exp(t) * (t - x)


@loss(
    "kl_div(Tensor self, Tensor target, int reduction=0, *, bool log_target=False) -> Tensor",
    aten=("kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor",),
)
def kl_div(self, target, reduction, log_target):
    """The Kullback-Leibler divergence of exp(self) from target (or from exp(target))."""
    for t in [self, target]:
        if t.is_complex():
            raise RuntimeError(f"[kl_div] kl_div: Complex inputs not supported. Got {self.dtype} and {target.dtype}")
        if not t.is_floating_point():
            raise RuntimeError(f"[kl_div] kl_div: Integral inputs not supported. Got {self.dtype} and {target.dtype}")
    return reduced(op._kl_log(target, self) if log_target else op._kl(target, self), reduction)


@formula("_bce(Tensor self, Tensor target) -> Tensor")
def bce(x, t):
    """-(target * log(self) + (1 - target) * log(1 - self)), with logarithms not below -100."""
    return (t - 1) * s.maximum(s.log1p(-x), -100) - t * s.maximum(s.log(x), -100)


@gradient(bce, "self")
def bce_gradient(grad, self, target):
    return grad * (self - target) / s.maximum((1 - self) * self, 1e-12)


@gradient(bce, "target")
def bce_target_gradient(grad, self):
    return grad * s.minimum(s.maximum(s.log1p(-self) - s.log(self), -100), 100)


@loss(
    "nn_binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
    node="BinaryCrossEntropyBackward0",
    constants=("weight",),
    whole=True,
    word="binary_cross_entropy",
)
def binary_cross_entropy(self, target, weight, reduction):
    """The cross entropy of probabilities self and target, of two classes."""
    if not self.is_floating_point():
        refuse_dtype("binary_cross_entropy", self.dtype)
    if target.dtype != self.dtype:
        raise RuntimeError(f"[binary_cross_entropy] Found dtype {target.dtype} but expected {self.dtype}")
    if self.shape != target.shape:
        raise ValueError(
            f"[binary_cross_entropy] Using a target size (torch.Size({target.shape})) that is different to the input size (torch.Size({self.shape})) is deprecated. Please ensure they have the same size."
        )
    op._check_range(self, 0, 1, "[binary_cross_entropy] all elements of input should be between 0 and 1")
    each = op._bce(self, target)
    if weight is not None:
        each = (each * weight).to(self.dtype)
    return reduced(each, reduction)


@formula("_bce_logits(Tensor target, Tensor input) -> Tensor", word="log_sigmoid_cpu")
def bce_logits(t, x):
    """_bce of sigmoid(input), without overflow."""
    return (1 - t) * x + soft_maximum(-x)


@gradient(bce_logits, "input")
def bce_logits_gradient(grad, target, input):
    return grad * (s.sigmoid(input) - target)


@formula("_bce_logits_weighted(Tensor target, Tensor input, Tensor pos_weight) -> Tensor")
def bce_logits_weighted(t, x, w):
    """_bce_logits with the positive class weighted."""
    return (1 - t) * x + (1 + (w - 1) * t) * soft_maximum(-x)


@gradient(bce_logits_weighted, "input")
def bce_logits_weighted_gradient(grad, target, input, pos_weight):
    return grad * ((1 - target) - (1 + (pos_weight - 1) * target) * s.sigmoid(-input))


@rule
def logistic_losses(self: "Tensor", target: "Tensor", pos_weight: "Tensor?") -> "Tensor":
    if self.dtype in (dt.float16, dt.bfloat16):  # PyTorch rounds after each step, and where terms cancel it shows
        rest = op.nn_logsigmoid(self)
        if pos_weight is not None:
            rest = ((pos_weight - 1) * target + 1) * rest
        return (1 - target) * self - rest
    return op._bce_logits(target, self) if pos_weight is None else op._bce_logits_weighted(target, self, pos_weight)


@loss(
    "binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=0) -> Tensor",
    node="BinaryCrossEntropyWithLogitsBackward0",
    constants=("weight", "pos_weight"),
    aten=(
        "binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1) -> Tensor",
    ),
    whole=True,
    word="log_sigmoid_cpu",
)
def binary_cross_entropy_with_logits(self, target, weight, pos_weight, reduction):
    """binary_cross_entropy of sigmoid(self), computed from self."""
    if not self.is_floating_point():
        refuse_dtype("binary_cross_entropy_with_logits", self.dtype)
    if not target.is_floating_point():
        raise RuntimeError(
            f"[binary_cross_entropy_with_logits] expected a floating point target, but got {target.dtype}"
        )
    each = logistic_losses(self, target, pos_weight)
    if weight is not None:
        each = each * weight
    return reduced(each.to(target.dtype), reduction)  # PyTorch writes into what it made of the target


@loss("poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> Tensor")
def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    """The negative log likelihood of counts, given rates or their logarithms."""
    each = op.exp(input) - target * input if log_input else input - target * op.log(input + eps)
    if full:  # Stirling's formula for the logarithm of the factorial
        factorial = target * op.log(target) - target + 0.5 * op.log(2 * math.pi * target)
        each = each + factorial.masked_fill(target <= 1, 0)
    return reduced(each, reduction)


@rule
def check_classes(self: "Tensor", target: "Tensor", weight: "Tensor?") -> "none":
    if self.dim() == 0:
        raise ValueError(f"[nll_loss] Expected 1 or more dimensions (got 0) with target of size {target.shape}")
    if self.dim() == 1 and target.dim() == 1 and target.numel() != 1:
        raise ValueError(f"[nll_loss] For 1D input, 1D target must have size 1, but got target size: {target.numel()}")
    if self.dim() > 1 and (target.dim() == 0 or self.size(0) != target.size(0)):
        given = 0 if target.dim() == 0 else target.size(0)
        raise ValueError(
            f"[nll_loss] Expected input batch_size ({self.size(0)}) to match target batch_size ({given}). Got input of size {self.shape} and target of size {target.shape}"
        )
    if target.dtype != dt.int64 and target.dtype != dt.uint8:
        raise RuntimeError(f"[nll_loss] expected target dtype to be Long or Byte, but got {target.dtype}")
    if not self.is_floating_point():
        if self.dim() > 2:
            raise NotImplementedError(f"[nll_loss] \"nll_loss2d_forward_out_frame\" not implemented for '{self.dtype}'")
        refuse_dtype("nll_loss", self.dtype)
    if self.dim() == 1:
        if target.dim() > 1 or target.numel() != 1:
            raise RuntimeError(
                f"[nll_loss] 0D or 1D target tensor expected, multi-target not supported: an input of size {self.shape} has one class, got a target of size {target.shape}"
            )
    elif target.shape != [self.shape[0], *self.shape[2:]]:
        if self.dim() == 2:
            raise RuntimeError(
                f"[nll_loss] 0D or 1D target tensor expected, multi-target not supported: got {target.shape} for an input of size {self.shape}"
            )
        raise RuntimeError(
            f"[nll_loss] Expected target size {[self.shape[0], *self.shape[2:]]}, got {target.shape}: the input has size {self.shape}"
        )
    classes = self.size(0 if self.dim() == 1 else 1)
    if weight is not None:
        if weight.dim() != 1 or weight.size(0) != classes:
            raise RuntimeError(
                f"[nll_loss] weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of shape: {weight.shape}"
            )
        if weight.dtype != self.dtype:
            raise RuntimeError(f"[nll_loss] expected scalar type {self.dtype} but found {weight.dtype}")


@native(
    "_nll(Tensor self, Tensor target, Tensor? weight, int ignore_index) -> (Tensor, Tensor)",
    variants="",
    differentiable=(0,),
    node="NllLossBackward0",
    flat=("self",),
)
def _nll(self, target, weight, ignore_index):
    """For each target minus the score of that class, weighted, and the weight; both 0 where the target is ignore_index."""
    check_classes(self, target, weight)
    sizes = [] if self.dim() == 1 else list(target.shape)
    return Out(sizes, self.dtype), Out(sizes, self.dtype)


@gradient(_nll, "self")
def nll_gradient(grad, self, target, weight, ignore_index):
    return op._nll_backward(grad, target, weight, ignore_index, self.shape)


@native(
    "_nll_backward(Tensor grad_output, Tensor target, Tensor? weight, int ignore_index, int[] sizes) -> Tensor",
    variants="",
)
def _nll_backward(grad_output, target, weight, ignore_index, sizes):
    """The gradient of the scores: minus grad_output, weighted, at the target classes, and 0 elsewhere."""
    return Out(sizes, grad_output.dtype)


@gradient(_nll_backward, "grad_output")
def nll_backward_gradient(grad, target, weight, ignore_index):
    return op._nll(grad, target, weight, ignore_index)[0]


@rule
def nll_node(self: "Tensor") -> "str":
    return "NllLossBackward0" if self.dim() <= 2 else "NllLoss2DBackward0"


@loss(
    "nn_nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor",
    node=nll_node,
    constants=("weight",),
    samples=lambda t: [
        ((t(3, 5), t.index(3, below=5), t(5)), {}),
        ((t(2, 5, 4), t.index(2, 4, below=5)), {"reduction": 0}),
    ],
    word="nll_loss_out_frame",
)
def nll_loss(self, target, weight, reduction, ignore_index):
    """The negative log likelihood of the target classes, given log probabilities of (N, C, ...) or (C)."""
    each, weights = op._nll(self, target, weight, ignore_index)
    return class_losses(each, weights, reduction)


@native(
    "_cross_entropy(Tensor self, Tensor target, Tensor? weight, int ignore_index) -> (Tensor, Tensor, Tensor)",
    variants="",
    differentiable=(0,),
    node="NllLossBackward0",
)
def _cross_entropy(self, target, weight, ignore_index):
    """_nll of log_softmax(self) for rows of scores, without keeping that: each loss, its weight, and the logarithm of
    each row's sum of exponentials.
    """
    check_classes(self, target, weight)
    rows = [self.size(0)]
    return (
        Out(rows, self.dtype),
        Out(rows, self.dtype),
        Out(rows, dt.float64 if self.dtype == dt.float64 else dt.float32),
    )


@native(
    "_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, Tensor lse, int ignore_index) -> Tensor",
    variants="",
    tags=frozenset({"no_gradient"}),  # where one is wanted, cross_entropy_gradient takes operators instead
)
def _cross_entropy_backward(grad_output, self, target, weight, lse, ignore_index):
    """The gradient of the scores: grad_output, weighted, times softmax(self) less 1 at the target class."""
    return Out(self.shape, self.dtype)


@gradient(_cross_entropy, "self")
def cross_entropy_gradient(grad, self, target, weight, ignore_index, result1, result2):
    if recording():
        shares = op.softmax(self, 1) * (grad * result1).unsqueeze(1)
        return shares + op._nll_backward(grad, target, weight, ignore_index, self.shape)
    return op._cross_entropy_backward(grad, self, target, weight, result2, ignore_index)


@rule
def class_losses(each: "Tensor", weights: "Tensor", reduction: "int") -> "Tensor":
    """The reduction of losses of classes: a mean is weighted as they are."""
    if reduction != 1:
        return reduced(each, reduction)
    wide = sum_dtype(each.dtype)
    return (each.sum(dtype=wide) / weights.sum(dtype=wide)).to(each.dtype)


@rule
def along_classes(weight: "Tensor", like: "Tensor", dim: "int") -> "Tensor":
    """A vector of one number per class, ready to broadcast."""
    shape = [1] * like.dim()
    shape[dim] = weight.numel()
    return weight.view(shape)


@rule
def cross_entropy_of_probabilities(
    self: "Tensor", target: "Tensor", weight: "Tensor?", reduction: "int", smoothing: "float", dim: "int"
) -> "Tensor":
    classes = self.size(dim)
    if smoothing > 0:
        target = target * (1 - smoothing) + smoothing / classes
    scores = op.log_softmax(self, dim) * target
    if weight is not None:
        scores = scores * along_classes(weight, self, dim)
    if reduction == 0:
        return -scores.sum([dim])
    total = -scores.sum()
    if reduction == 2:
        return total
    return total / (self.numel() // max(classes, 1))


@rule
def smoothed_cross_entropy(
    self: "Tensor",
    target: "Tensor",
    weight: "Tensor?",
    reduction: "int",
    ignore_index: "int",
    smoothing: "float",
    dim: "int",
) -> "Tensor":
    """Cross entropy with targets mixed with the uniform distribution."""
    scores = op.log_softmax(self, dim)
    each, weights = op._nll(scores, target, weight, ignore_index)
    spread = scores if weight is None else scores * along_classes(weight, self, dim)
    uniform = -spread.sum([dim]).masked_fill(target == ignore_index, 0)
    return class_losses(each * (1 - smoothing) + uniform * (smoothing / self.size(dim)), weights, reduction)


@composite(
    "_cross_entropy_of_classes(Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index) -> Tensor",
    node="NllLossBackward0",
    constants=("weight",),
    variants="",
    samples=lambda t: [((t(3, 5), t.index(3, below=5), t(5), 1, -100), {})],
)
def _cross_entropy_of_classes(self, target, weight, reduction, ignore_index):
    """log_softmax and nll_loss of a matrix in one pass over it."""
    each, weights, _ = op._cross_entropy(self, target, weight, ignore_index)
    return class_losses(each, weights, reduction)


@loss(
    "nn_cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, float label_smoothing=0.0) -> Tensor",
    samples=lambda t: [
        ((t(3, 4), t(3, 4)), {}),
        ((t(3, 5), t.index(3, below=5)), {"ignore_index": 2}),
        ((t(2, 5, 4), t.index(2, 4, below=5)), {"label_smoothing": 0.1}),
    ],
)
def cross_entropy_loss(self, target, weight, reduction, ignore_index, label_smoothing):
    """The cross entropy of softmax(self) with target classes, or with probabilities of self's size."""
    if not (label_smoothing >= 0 and label_smoothing <= 1):
        raise RuntimeError(f"[cross_entropy] label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    dim = 0 if self.dim() == 1 else 1
    if self.shape == target.shape:
        if not target.is_floating_point():
            raise RuntimeError(
                f"[cross_entropy] Expected floating point type for target with class probabilities, got {target.dtype}"
            )
        if ignore_index >= 0:
            raise RuntimeError(
                f"[cross_entropy] ignore_index is not supported for floating point target, got {ignore_index}"
            )
        if weight is not None and (weight.dim() != 1 or weight.numel() != self.size(dim)):
            raise RuntimeError(
                f"[cross_entropy] cross_entropy: weight tensor should be defined either for all {self.size(dim)} classes or no classes but got weight tensor of shape: {weight.shape}"
            )
        return cross_entropy_of_probabilities(self, target, weight, reduction, label_smoothing, dim)
    if label_smoothing > 0:
        return smoothed_cross_entropy(self, target, weight, reduction, ignore_index, label_smoothing, dim)
    if self.dim() == 2 and self.size(1) > 0 and self.is_floating_point():
        return op._cross_entropy_of_classes(self, target, weight, reduction, ignore_index)
    return op.nn_nll_loss(op.log_softmax(self, dim), target, weight, reduction, ignore_index)


# -- margins -----------------------------------------------------------------------------------------


@loss(
    "hinge_embedding_loss(Tensor self, Tensor target, float margin=1.0, int reduction=0) -> Tensor",
    aten=("hinge_embedding_loss(Tensor self, Tensor target, float margin=1., int reduction=1) -> Tensor",),
)
def hinge_embedding_loss(self, target, margin, reduction):
    """self where target is 1, max(0, margin - self) where it is -1."""
    apart = op.where(target != 1, (margin - self).clamp_min(0), 0)
    together = op.where(target != -1, self, 0)
    return reduced(apart + together, reduction)


@loss(
    "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=0) -> Tensor",
    samples=lambda t: [((t(3, 4), t(3, 4), t.of([1, -1, 1])), {})],
    aten=(
        "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor",
    ),
)
def cosine_embedding_loss(input1, input2, target, margin, reduction):
    """1 - cos(input1, input2) where target is 1, max(0, cos - margin) where it is -1."""
    if target.dim() > 1:
        raise RuntimeError(
            f"[cosine_embedding_loss] 0D or 1D target tensor expected, multi-target not supported, got {target.shape}"
        )
    if input1.dim() != target.dim() + 1 or input2.dim() != target.dim() + 1:
        raise RuntimeError(
            f"[cosine_embedding_loss] {target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found inputs with sizes {input1.shape} and {input2.shape}"
        )
    products = (input1 * input2).sum([-1])
    squares1 = (input1 * input1).sum([-1]) + 1e-12
    squares2 = (input2 * input2).sum([-1]) + 1e-12
    cos = products / op.sqrt(squares1 * squares2)
    return reduced(
        op.where(target == 1, 1 - cos, 0) + op.where(target == -1, (cos - margin).clamp_min(0), 0), reduction
    )


@loss(
    "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=0) -> Tensor",
    aten=(
        "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor",
    ),
)
def margin_ranking_loss(input1, input2, target, margin, reduction):
    """max(0, margin - target * (input1 - input2)): input1 should rank higher where target is 1."""
    return reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


@loss(
    "nn_soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    node="SoftMarginLossBackward0",
    constants=("target",),
    whole=True,
)
def soft_margin_loss(self, target, reduction):
    """The logistic loss of two classes, 1 and -1."""
    opposite = -self
    if is_integral(self.dtype):
        raise RuntimeError(
            f"[soft_margin_loss] result type Float can't be cast to the desired output type {self.dtype}: expected a floating point input"
        )
    if self.is_complex():
        raise RuntimeError(f"[soft_margin_loss] expected a floating point input, but got {self.dtype}")
    return reduced(op.log1p(op.exp(opposite * target.to(self.dtype))), reduction)


@composite(
    "_multilabel_soft_margin_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
    variants="function",
)
def _multilabel_soft_margin_loss(self, target, weight, reduction):
    """binary cross entropy with logits, averaged over the classes in the last dim."""
    if self.dim() == 0:
        raise IndexError("[multilabel_soft_margin_loss] Dimension specified as -1 but tensor has no dimensions")
    each = -(target * op.nn_logsigmoid(self) + (1 - target) * op.nn_logsigmoid(-self))
    if weight is not None:
        each = each * weight
    return reduced(each.sum([-1]) / self.size(-1), reduction)


@native(
    "_multilabel_margin(Tensor self, Tensor target) -> Tensor",
    variants="",
    node="MultilabelMarginLossBackward0",
    flat=("self",),
)
def _multilabel_margin(self, target):
    """multilabel_margin_loss of each sample."""
    if self.dim() > 2 or (self.dim() > 0 and self.size(-1) == 0):
        raise RuntimeError(
            f"[multilabel_margin_loss] Expected non-empty vector or matrix with optional 0-dim batch size, but got: {self.shape}"
        )
    if self.shape != target.shape:
        raise RuntimeError(
            f"[multilabel_margin_loss] inconsistent target size: {target.shape} for input of size: {self.shape}"
        )
    if target.dtype != dt.int64:
        raise RuntimeError(f"[multilabel_margin_loss] expected scalar type Long but found {target.dtype}")
    return Out(self.shape[:1] if self.dim() == 2 else [], self.dtype)


@gradient(_multilabel_margin, "self")
def multilabel_margin_gradient(grad, self, target):
    return op._multilabel_margin_slopes(self, target) * (grad.unsqueeze(-1) if self.dim() == 2 else grad)


@native("_multilabel_margin_slopes(Tensor self, Tensor target) -> Tensor", variants="", tags=frozenset({"no_gradient"}))
def _multilabel_margin_slopes(self, target):
    """The derivatives of each sample's multilabel_margin_loss by its scores."""
    return Out(self.shape, self.dtype)


@loss(
    "nn_multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    node="MultilabelMarginLossBackward0",
    samples=lambda t: [((t(3, 4), t.of([[0, 2, -1, 1], [3, -1, 0, 0], [1, 0, 2, 3]])), {})],
    word="multilabel_margin_loss_forward_out_frame",
)
def multilabel_margin_loss(self, target, reduction):
    """Hinge losses between each target class (up to the first -1) and each other class, over the number of classes."""
    return reduced(op._multilabel_margin(self, target), reduction)


@loss(
    "nn_multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=1) -> Tensor",
    node="MultiMarginLossBackward0",
    constants=("weight",),
    samples=lambda t: [((t(3, 4), t.index(3, below=4)), {}), ((t(3, 4), t.index(3, below=4), 2, 0.5, t(4), 0), {})],
    whole=True,
    word="multi_margin_loss_cpu_kernel",
)
def multi_margin_loss(self, target, p, margin, weight, reduction):
    """max(0, margin - self[target] + self[i]) to the power p, averaged over the other classes i."""
    if p.to_double() != 1 and p.to_double() != 2:
        raise ValueError(f"[multi_margin_loss] only p == 1 and p == 2 supported, got {p}")
    if weight is not None and weight.dim() != 1:
        raise ValueError(f"[multi_margin_loss] weight must be one-dimensional, got {weight.shape}")
    if self.dim() > 2 or (self.dim() > 0 and self.size(-1) == 0):
        raise RuntimeError(
            f"[multi_margin_loss] Expected non-empty vector or matrix with optional 0-dim batch size, but got: {self.shape}"
        )
    rows = self if self.dim() == 2 else self.reshape([1, -1])
    classes = rows.size(1)
    if target.dim() > 1 or target.numel() != rows.size(0) or (self.dim() == 2 and target.dim() != 1):
        raise RuntimeError(
            f"[multi_margin_loss] multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). Expected target size [{rows.size(0)}], but got {target.shape}. Input has shape {self.shape}."
        )
    if weight is not None and weight.numel() != classes:
        raise RuntimeError(f"[multi_margin_loss] inconsistent weight size, expected {classes} but got {weight.shape}")
    if target.dtype != dt.int64:
        raise RuntimeError(f"[multi_margin_loss] expected scalar type Long but found {target.dtype}")
    if self.dtype != dt.float32 and self.dtype != dt.float64:
        refuse_dtype("multi_margin_loss", self.dtype)
    op._check_range(target, 0, classes - 1, "[multi_margin_loss] target out of range")
    column = target.reshape([-1, 1])
    hinge = (margin - rows.gather(1, column) + rows).clamp_min(0)
    if p.to_double() == 2:
        hinge = hinge * hinge
    if weight is not None:
        hinge = hinge * weight.gather(0, target.reshape([-1])).unsqueeze(1)
    own = op.arange(classes, device=self.device) == column
    each = hinge.masked_fill(own, 0).sum([1]) / classes
    return reduced(each if target.dim() == 1 else each.squeeze(0), reduction)


@loss(
    "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2.0, float eps=1e-06, bool swap=False, int reduction=0) -> Tensor",
    aten=(
        "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., float p=2., float eps=1e-06, bool swap=False, int reduction=1) -> Tensor",
    ),
)
def triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction):
    """max(0, margin + distance(anchor, positive) - distance(anchor, negative))."""
    if anchor.dim() != positive.dim() or anchor.dim() != negative.dim():
        raise RuntimeError(
            f"[triplet_margin_loss] The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )
    near = op.pairwise_distance(anchor, positive, p, eps)
    far = op.pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = op.minimum(far, op.pairwise_distance(positive, negative, p, eps))
    return reduced((near - far + margin).clamp_min(0), reduction)


# -- sequences ---------------------------------------------------------------------------------------


@native(
    "_ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0) -> (Tensor, Tensor)",
    algorithm="recursion",
    variants="",
    differentiable=(0,),
    tags=frozenset({"dynamic", "first_order"}),
    underived="_ctc_loss",
    aten=(),
)
def _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank):
    """For each sequence minus the log likelihood of its target, and the forward variables of the recursion."""


@facts(_ctc_loss)
def ctc_facts(log_probs, targets, input_lengths, target_lengths, blank):
    times, batch = log_probs.sizes[:2]
    # Lines of the recursion are as long as the longest target: all of them where targets lie in rows.
    width = targets.sizes[1] if targets.ndim == 2 else interpreter.current().unknown_size("_ctc_loss")
    return log_probs.fresh([batch]), log_probs.fresh([batch, times, 2 * width + 1])


@gradient(_ctc_loss, "log_probs")
def ctc_gradient(grad, log_probs, targets, input_lengths, target_lengths, blank, result0, result1):
    return op._ctc_loss_backward(grad, log_probs, targets, input_lengths, target_lengths, blank, result0, result1)


@native(
    "_ctc_loss_backward(Tensor grad_output, Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank, Tensor losses, Tensor alphas) -> Tensor",
    algorithm="recursion",
    variants="",
    aten=(),
)
def _ctc_loss_backward(grad_output, log_probs, targets, input_lengths, target_lengths, blank, losses, alphas):
    """The gradient of what log_probs is the log_softmax of, as PyTorch defines it; 0 where grad_output is."""
    return Out(log_probs.shape, log_probs.dtype)


@loss(
    "ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, int reduction=0, bool zero_infinity=False) -> Tensor",
    samples=lambda t: [((t(6, 2, 5), t.of([[1, 2, 2], [3, 1, 4]]), t.of([6, 5]), t.of([3, 2])), {})],
    constraints={"log_probs": "log_probabilities"},
    tags=frozenset({"reads_values", "first_order"}),
    aten=(
        "ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor",
    ),
)
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity):
    """Connectionist temporal classification: all alignments of (T, N, C) log probabilities to the targets."""
    if not is_integral(input_lengths.dtype):
        raise RuntimeError(f"[ctc_loss] input_lengths must be integral, got {input_lengths.dtype}")
    batched = log_probs.dim() == 3
    if not batched and log_probs.dim() != 2:
        raise RuntimeError(f"[ctc_loss] log_probs must be (T, N, C) or (T, C), got {log_probs.shape}")
    steps = log_probs if batched else log_probs.unsqueeze(1)
    labels = targets if batched or targets.dim() != 1 else targets.unsqueeze(0)
    # The lengths may be changed before backward reads them.
    lengths, label_lengths = input_lengths.clone(), target_lengths.clone()
    each = op._ctc_loss(steps, labels, lengths, label_lengths, blank)[0]
    if zero_infinity:
        each = each.masked_fill(each == float("inf"), 0)
    if reduction == 1:
        return (each / label_lengths.reshape([-1]).clamp_min(1).to(each.dtype)).mean()
    if reduction == 2:
        return each.sum()
    return each if batched else each.squeeze(0)
