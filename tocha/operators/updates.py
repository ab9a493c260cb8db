"""One step of each optimizer on one element, as formulas: what it makes of a parameter, its state and its gradient.

The build makes of each a loop and a walk over all parameters at once (`tocha/operators/foreach.py`); tocha.optim calls
that walk, and evaluates the same formulas on tensors where a step is to be differentiated. Numbers that are the same for all
elements (bias corrections, step sizes) come ready as arguments.
"""

from __future__ import annotations

from functools import partial

from tocha.ir import scalar as s
from tocha.operators.record import FLOATS, pointwise

# The results replace the operands of the same position.
update = partial(
    pointwise, dtypes=FLOATS, variants="function", tags=frozenset({"no_gradient", "direct_half", "foreach_inplace"})
)


def ascent(param, grad, sign, weight_decay):
    """The gradient of what is minimized, weight decay included."""
    grad = sign * grad
    return s.where(weight_decay == 0, grad, grad + weight_decay * param)


def toward(average, value, weight):
    """average moved toward value, from the nearer side."""
    return s.where(s.abs(weight) < 0.5, average + weight * (value - average), value - (value - average) * (1 - weight))


@update(
    "_sgd(Tensor param, Tensor grad, *, Scalar sign, Scalar weight_decay, Scalar lr) -> Tensor",
)
def sgd(param, grad, sign, weight_decay, lr):
    """A step against the gradient."""
    return param - lr * ascent(param, grad, sign, weight_decay)


@update(
    "_sgd_momentum(Tensor param, Tensor momentum_buffer, Tensor grad, *, Scalar sign, Scalar weight_decay, Scalar lr, "
    "Scalar momentum, Scalar weight, Scalar nesterov) -> (Tensor, Tensor)",
)
def sgd_momentum(param, buffer, grad, sign, weight_decay, lr, momentum, weight, nesterov):
    """A step against a decaying sum of gradients, or (nesterov) against where that will be."""
    grad = ascent(param, grad, sign, weight_decay)
    buffer = momentum * buffer + weight * grad
    return param - lr * s.where(nesterov != 0, grad + momentum * buffer, buffer), buffer


def adam_moments(param, exp_avg, exp_avg_sq, grad, shrink, sign, weight_decay, weight1, beta2, weight2):
    param = param * shrink
    grad = ascent(param, grad, sign, weight_decay)
    return param, toward(exp_avg, grad, weight1), exp_avg_sq * beta2 + weight2 * grad * grad, grad


@update(
    "_adam(Tensor param, Tensor exp_avg, Tensor exp_avg_sq, Tensor grad, *, Scalar shrink, Scalar sign, Scalar weight_decay, "
    "Scalar weight1, Scalar beta2, Scalar weight2, Scalar step_size, Scalar measure, Scalar eps) -> (Tensor, Tensor, Tensor)",
)
def adam(param, exp_avg, exp_avg_sq, grad, step_size, measure, eps, **moments):
    """A step along the average gradient, measured by its average magnitude."""
    param, exp_avg, exp_avg_sq, _ = adam_moments(param, exp_avg, exp_avg_sq, grad, **moments)
    return param - step_size * exp_avg / (s.sqrt(exp_avg_sq) * measure + eps), exp_avg, exp_avg_sq


@update(
    "_adam_amsgrad(Tensor param, Tensor exp_avg, Tensor exp_avg_sq, Tensor max_exp_avg_sq, Tensor grad, *, Scalar shrink, "
    "Scalar sign, Scalar weight_decay, Scalar weight1, Scalar beta2, Scalar weight2, Scalar step_size, Scalar measure, "
    "Scalar eps) -> (Tensor, Tensor, Tensor, Tensor)",
)
def adam_amsgrad(param, exp_avg, exp_avg_sq, max_exp_avg_sq, grad, step_size, measure, eps, **moments):
    """Adam whose measure never falls."""
    param, exp_avg, exp_avg_sq, _ = adam_moments(param, exp_avg, exp_avg_sq, grad, **moments)
    greatest = s.maximum(max_exp_avg_sq, exp_avg_sq)
    return param - step_size * exp_avg / (s.sqrt(greatest) * measure + eps), exp_avg, exp_avg_sq, greatest


@update(
    "_nadam(Tensor param, Tensor exp_avg, Tensor exp_avg_sq, Tensor grad, *, Scalar shrink, Scalar sign, Scalar weight_decay, "
    "Scalar weight1, Scalar beta2, Scalar weight2, Scalar grad_size, Scalar avg_size, Scalar bias2, Scalar eps) "
    "-> (Tensor, Tensor, Tensor)",
)
def nadam(param, exp_avg, exp_avg_sq, grad, grad_size, avg_size, bias2, eps, **moments):
    """Adam along the gradient and where the average will be."""
    param, exp_avg, exp_avg_sq, grad = adam_moments(param, exp_avg, exp_avg_sq, grad, **moments)
    measure = s.sqrt(exp_avg_sq / bias2) + eps
    return param - grad_size * grad / measure - avg_size * exp_avg / measure, exp_avg, exp_avg_sq


@update(
    "_radam(Tensor param, Tensor exp_avg, Tensor exp_avg_sq, Tensor grad, *, Scalar shrink, Scalar sign, Scalar weight_decay, "
    "Scalar weight1, Scalar beta2, Scalar weight2, Scalar lr, Scalar bias1, Scalar bias2_sqrt, Scalar rect, Scalar eps) "
    "-> (Tensor, Tensor, Tensor)",
)
def radam(param, exp_avg, exp_avg_sq, grad, lr, bias1, bias2_sqrt, rect, eps, **moments):
    """Adam whose measure is used once its variance is known (rect is not 0)."""
    param, exp_avg, exp_avg_sq, _ = adam_moments(param, exp_avg, exp_avg_sq, grad, **moments)
    plain = exp_avg / bias1 * lr
    rectified = plain * (bias2_sqrt / (s.sqrt(exp_avg_sq) + eps)) * rect
    return param - s.where(rect == 0, plain, rectified), exp_avg, exp_avg_sq


@update(
    "_adamax(Tensor param, Tensor exp_avg, Tensor exp_inf, Tensor grad, *, Scalar sign, Scalar weight_decay, Scalar weight1, "
    "Scalar beta2, Scalar eps, Scalar step_size) -> (Tensor, Tensor, Tensor)",
)
def adamax(param, exp_avg, exp_inf, grad, sign, weight_decay, weight1, beta2, eps, step_size):
    """A step along the average gradient, measured by its decaying maximum."""
    grad = ascent(param, grad, sign, weight_decay)
    exp_avg = toward(exp_avg, grad, weight1)
    exp_inf = s.maximum(exp_inf * beta2, s.abs(grad) + eps)
    return param - step_size * exp_avg / exp_inf, exp_avg, exp_inf


@update(
    "_adagrad(Tensor param, Tensor state_sum, Tensor grad, *, Scalar sign, Scalar weight_decay, Scalar lr, Scalar eps) "
    "-> (Tensor, Tensor)",
)
def adagrad(param, state_sum, grad, sign, weight_decay, lr, eps):
    """A step along the gradient, measured by all gradients so far."""
    grad = ascent(param, grad, sign, weight_decay)
    state_sum = state_sum + grad * grad
    return param - lr * grad / (s.sqrt(state_sum) + eps), state_sum


@update(
    "_adadelta(Tensor param, Tensor square_avg, Tensor acc_delta, Tensor grad, *, Scalar sign, Scalar weight_decay, Scalar lr, "
    "Scalar rho, Scalar weight, Scalar eps) -> (Tensor, Tensor, Tensor)",
)
def adadelta(param, square_avg, acc_delta, grad, sign, weight_decay, lr, rho, weight, eps):
    """A step as long as recent steps were, in the measure of recent gradients."""
    grad = ascent(param, grad, sign, weight_decay)
    square_avg = square_avg * rho + weight * grad * grad
    delta = s.sqrt(acc_delta + eps) / s.sqrt(square_avg + eps) * grad
    return param - lr * delta, square_avg, acc_delta * rho + weight * delta * delta


RMSPROP = "Scalar sign, Scalar weight_decay, Scalar lr, Scalar alpha, Scalar weight, Scalar eps"


def rms_average(square_avg, grad, alpha, weight):
    return square_avg * alpha + weight * grad * grad


@update(f"_rmsprop(Tensor param, Tensor square_avg, Tensor grad, *, {RMSPROP}) -> (Tensor, Tensor)")
def rmsprop(param, square_avg, grad, sign, weight_decay, lr, alpha, weight, eps):
    """A step along the gradient, measured by recent gradients."""
    grad = ascent(param, grad, sign, weight_decay)
    square_avg = rms_average(square_avg, grad, alpha, weight)
    return param - lr * grad / (s.sqrt(square_avg) + eps), square_avg


@update(
    "_rmsprop_momentum(Tensor param, Tensor square_avg, Tensor momentum_buffer, Tensor grad, *, "
    f"{RMSPROP}, Scalar momentum) -> (Tensor, Tensor, Tensor)"
)
def rmsprop_momentum(param, square_avg, buffer, grad, sign, weight_decay, lr, alpha, weight, eps, momentum):
    """RMSprop along a decaying sum of measured gradients."""
    grad = ascent(param, grad, sign, weight_decay)
    square_avg = rms_average(square_avg, grad, alpha, weight)
    buffer = momentum * buffer + grad / (s.sqrt(square_avg) + eps)
    return param - lr * buffer, square_avg, buffer


@update(
    "_rmsprop_centered(Tensor param, Tensor square_avg, Tensor grad_avg, Tensor grad, *, "
    f"{RMSPROP}) -> (Tensor, Tensor, Tensor)"
)
def rmsprop_centered(param, square_avg, grad_avg, grad, sign, weight_decay, lr, alpha, weight, eps):
    """RMSprop measured by the deviation of recent gradients."""
    grad = ascent(param, grad, sign, weight_decay)
    square_avg, grad_avg = rms_average(square_avg, grad, alpha, weight), toward(grad_avg, grad, weight)
    return param - lr * grad / (s.sqrt(square_avg - grad_avg * grad_avg) + eps), square_avg, grad_avg


@update(
    "_rmsprop_centered_momentum(Tensor param, Tensor square_avg, Tensor grad_avg, Tensor momentum_buffer, Tensor grad, *, "
    f"{RMSPROP}, Scalar momentum) -> (Tensor, Tensor, Tensor, Tensor)"
)
def rmsprop_centered_momentum(
    param, square_avg, grad_avg, buffer, grad, sign, weight_decay, lr, alpha, weight, eps, momentum
):
    """RMSprop with both."""
    grad = ascent(param, grad, sign, weight_decay)
    square_avg, grad_avg = rms_average(square_avg, grad, alpha, weight), toward(grad_avg, grad, weight)
    buffer = momentum * buffer + grad / (s.sqrt(square_avg - grad_avg * grad_avg) + eps)
    return param - lr * buffer, square_avg, grad_avg, buffer


@update(
    "_rprop(Tensor param, Tensor prev, Tensor step_size, Tensor grad, *, Scalar sign, Scalar etaminus, Scalar etaplus, "
    "Scalar step_size_min, Scalar step_size_max) -> (Tensor, Tensor, Tensor)",
)
def rprop(param, prev, step_size, grad, sign, etaminus, etaplus, step_size_min, step_size_max):
    """A step by sign only, longer where the sign stays and shorter (and not taken) where it turned."""
    grad = sign * grad
    turn = prev * grad
    factor = s.where(turn > 0, etaplus, s.where(turn < 0, etaminus, s.constant(1, param.dtype)))
    step_size = s.clamp(step_size * factor, step_size_min, step_size_max)
    grad = s.where(turn < 0, s.zero_like(grad), grad)
    return param - s.sign(grad) * step_size, grad, step_size


@update(
    "_asgd(Tensor param, Tensor ax, Tensor grad, *, Scalar sign, Scalar weight_decay, Scalar eta, Scalar shrink, Scalar mu) "
    "-> (Tensor, Tensor)",
)
def asgd(param, ax, grad, sign, weight_decay, eta, shrink, mu):
    """A step against the gradient, and the average of where the steps led."""
    param = param * shrink - eta * ascent(param, grad, sign, weight_decay)
    return param, s.where(mu == 1, param, ax + (param - ax) * mu)
