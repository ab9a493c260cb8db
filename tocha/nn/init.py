"""How parameters start: each function fills a tensor in place, records nothing for gradients, and returns it.

The same seed gives the same numbers as PyTorch.
"""

from __future__ import annotations

import functools
import math
import re
import warnings
from collections.abc import Callable
from typing import Any

from tocha import _C, overrides
from tocha.autograd.grad_mode import no_grad

__all__ = [
    "calculate_gain", "constant", "constant_", "dirac", "dirac_", "eye", "eye_", "kaiming_normal", "kaiming_normal_",
    "kaiming_uniform", "kaiming_uniform_", "normal", "normal_", "ones_", "orthogonal", "orthogonal_", "sparse", "sparse_",
    "trunc_normal_", "uniform", "uniform_", "xavier_normal", "xavier_normal_", "xavier_uniform", "xavier_uniform_", "zeros_",
]  # fmt: skip

Tensor = _C.Tensor
_Filler = Callable[..., Tensor]


def _filler(f: _Filler) -> _Filler:
    """Makes f run without recording; subclasses of Tensor may take it over."""

    @functools.wraps(f)
    def run(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if overrides.has_torch_function((tensor,)):
            return overrides.handle_torch_function(run, (tensor,), tensor, *args, **kwargs)
        with no_grad():
            return f(tensor, *args, **kwargs)

    return run


_GAINS = {"sigmoid": 1, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
_LINEAR = re.compile(r"linear|conv(_transpose)?[123]d")


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much weights before a nonlinearity are scaled; param is leaky_relu's slope.

    >>> calculate_gain("relu")
    1.4142135623730951
    """
    if _LINEAR.fullmatch(nonlinearity):
        return 1
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    if param is None:
        param = 0.01
    elif isinstance(param, bool) or not isinstance(param, int | float):
        raise ValueError(f"negative_slope {param} not a valid number")
    return math.sqrt(2.0 / (1 + param**2))


@_filler
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: _C.Generator | None = None) -> Tensor:
    """Numbers evenly from [a, b).

    >>> import tocha
    >>> bool((uniform_(tocha.empty(8), 2, 3) >= 2).all())
    True
    """
    return tensor.uniform_(a, b, generator=generator)


@_filler
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: _C.Generator | None = None) -> Tensor:
    """Numbers from a normal distribution.

    >>> _ = tocha.manual_seed(0)
    >>> tocha.nn.init.normal_(tocha.empty(3), mean=10.0, std=2.0)
    tensor([13.0820,  9.4131,  5.6424])
    """
    return tensor.normal_(mean, std, generator=generator)


def _normal_cdf(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


@_filler
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: _C.Generator | None = None,
) -> Tensor:
    """Numbers from a normal distribution, those outside [a, b] drawn again.

    >>> import tocha
    >>> bool((trunc_normal_(tocha.empty(100), a=0, b=1) >= 0).all())
    True
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect.",
            stacklevel=3,
        )
    if tensor.untyped_storage().device.type == "meta":  # a meta tensor or a fake one: there is nothing to look at
        return tensor.normal_(mean, std, generator=generator)
    inside = _normal_cdf((b - mean) / std) - _normal_cdf((a - mean) / std)
    if inside > 0.3:
        return _drawn_again(tensor, mean, std, a, b, generator)
    return _by_rejection(tensor, mean, std, a, b, generator)


def _drawn_again(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: _C.Generator | None) -> Tensor:
    """Most of the distribution is inside: normal numbers, until none is outside."""
    low, high = (_C.tensor(bound, dtype=tensor.dtype).item() for bound in (a, b))
    found = tensor.normal_(mean, std, generator=generator)
    outside = (found < low) | (found > high)
    while outside.any():
        found = _C.where(outside, _C.empty_like(found).normal_(mean, std, generator=generator), found)
        outside = (found < low) | (found > high)
    return tensor if found is tensor else tensor.copy_(found)


def _by_rejection(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: _C.Generator | None
) -> Tensor:
    """Little of the distribution is inside: even numbers, kept with the probability of their density."""
    highest = -0.5 * ((min(max(mean, a), b) - mean) / std) ** 2
    found, chance = _C.empty_like(tensor), _C.empty_like(tensor)
    rejected: Tensor | None = None
    while rejected is None or rejected.any():
        drawn = _C.empty_like(tensor).uniform_(a, b, generator=generator)
        found = drawn.clone() if rejected is None else _C.where(rejected, drawn, found)
        density = drawn.sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(highest)
        again = chance.uniform_(generator=generator).log_() > density
        rejected = again if rejected is None else rejected & again
    return tensor.copy_(found)


@_filler
def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value everywhere.

    >>> import tocha
    >>> constant_(tocha.empty(2), 0.3)
    tensor([0.3000, 0.3000])
    """
    return tensor.fill_(val)


@_filler
def ones_(tensor: Tensor) -> Tensor:
    """1 everywhere.

    >>> tocha.nn.init.ones_(tocha.empty(2, 2))
    tensor([[1., 1.],
            [1., 1.]])
    """
    return tensor.fill_(1.0)


@_filler
def zeros_(tensor: Tensor) -> Tensor:
    """0 everywhere.

    >>> tocha.nn.init.zeros_(tocha.empty(2, 2))
    tensor([[0., 0.],
            [0., 0.]])
    """
    return tensor.zero_()


@_filler
def eye_(tensor: Tensor) -> Tensor:
    """The identity: a linear layer that gives as many of its inputs as it can.

    >>> import tocha
    >>> eye_(tocha.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return tensor.copy_(_C.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


@_filler
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution that gives as many of its channels as it can, in each group.

    >>> import tocha
    >>> dirac_(tocha.empty(2, 2, 3))
    tensor([[[0., 1., 0.],
             [0., 0., 0.]],
    <BLANKLINE>
            [[0., 0., 0.],
             [0., 1., 0.]]])
    """
    if tensor.ndimension() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.size(0) % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = tensor.size(0) // groups
    middle = tuple(n // 2 for n in tensor.shape[2:])
    tensor.zero_()
    for group in range(min(groups, tensor.size(0))):
        for channel in range(min(per_group, tensor.size(1))):
            tensor[(group * per_group + channel, channel, *middle)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output of this weight has, and how many outputs an input."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.size(1) * field, tensor.size(0) * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    modes = ["fan_in", "fan_out"]
    if mode not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode)]


def _xavier_std(tensor: Tensor, gain: float) -> float:
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return gain * math.sqrt(2.0 / float(fan_in + fan_out))


@_filler
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: _C.Generator | None = None) -> Tensor:
    """Even numbers, so wide that activations and gradients keep their size (Glorot and Bengio, 2010).

    >>> _ = tocha.manual_seed(0)
    >>> tocha.nn.init.xavier_uniform_(tocha.empty(2, 2), gain=tocha.nn.init.calculate_gain("relu"))
    tensor([[-0.0130,  0.9291],
            [-1.4256, -1.2747]])
    """
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return tensor.uniform_(-bound, bound, generator=generator)


@_filler
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: _C.Generator | None = None) -> Tensor:
    """Normal numbers, so wide that activations and gradients keep their size (Glorot and Bengio, 2010).

    >>> _ = tocha.manual_seed(0)
    >>> tocha.nn.init.xavier_normal_(tocha.empty(2, 2))
    tensor([[ 1.0896, -0.2075],
            [-1.5406,  0.4019]])
    """
    return tensor.normal_(0.0, _xavier_std(tensor, gain), generator=generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float | None:
    """None for tensors without elements, with a warning."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=4)
        return None
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


@_filler
def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: _C.Generator | None = None,
) -> Tensor:
    """Even numbers, so wide that activations behind rectifiers keep their size (He et al., 2015).

    a is leaky_relu's slope; mode says whether activations ("fan_in") or gradients ("fan_out") are kept.

    >>> _ = tocha.manual_seed(0)
    >>> tocha.nn.init.kaiming_uniform_(tocha.empty(2, 2), nonlinearity="relu")
    tensor([[-0.0130,  0.9291],
            [-1.4256, -1.2747]])
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    return tensor.uniform_(-bound, bound, generator=generator)


@_filler
def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: _C.Generator | None = None,
) -> Tensor:
    """Normal numbers, so wide that activations behind rectifiers keep their size (He et al., 2015).

    >>> _ = tocha.manual_seed(0)
    >>> tocha.nn.init.kaiming_normal_(tocha.empty(2, 2), nonlinearity="relu")
    tensor([[ 1.5410, -0.2934],
            [-2.1788,  0.5684]])
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else tensor.normal_(0, std, generator=generator)


@_filler
def orthogonal_(tensor: Tensor, gain: float = 1, generator: _C.Generator | None = None) -> Tensor:
    """A (semi-)orthogonal matrix, times gain; dimensions after the first are taken together.

    >>> import tocha
    >>> w = orthogonal_(tocha.empty(3, 5))
    >>> tocha.allclose(w @ w.T, tocha.eye(3), atol=1e-6)
    True
    """
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    drawn = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
    q, r = _C._linalg.qr(drawn.t() if rows < columns else drawn)
    q = q * r.diagonal().sign()  # the one decomposition whose diagonal is positive: evenly distributed
    tensor.view_as(q.t() if rows < columns else q).copy_(q.t() if rows < columns else q)
    return tensor.mul_(gain)


@_filler
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: _C.Generator | None = None) -> Tensor:
    """Normal numbers, of which a part (sparsity) of each column is 0 (Martens, 2010).

    generator draws the numbers; as in PyTorch, which of them become 0 is always up to the default generator.

    >>> (tocha.nn.init.sparse_(tocha.empty(10, 4), sparsity=0.3) == 0).sum(dim=0)
    tensor([3, 3, 3, 3])
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        tensor[_C.randperm(rows)[:zeros], column] = 0
    return tensor


def _no_grad_uniform_(tensor: Tensor, a: float, b: float, generator: _C.Generator | None = None) -> Tensor:
    return uniform_(tensor, a, b, generator)


def _no_grad_normal_(tensor: Tensor, mean: float, std: float, generator: _C.Generator | None = None) -> Tensor:
    return normal_(tensor, mean, std, generator)


def _no_grad_trunc_normal_(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: _C.Generator | None = None
) -> Tensor:
    return trunc_normal_(tensor, mean, std, a, b, generator)


def _no_grad_fill_(tensor: Tensor, val: float) -> Tensor:
    return constant_(tensor, val)


def _no_grad_zero_(tensor: Tensor) -> Tensor:
    return zeros_(tensor)


def _deprecated(f: _Filler) -> _Filler:
    """The old name of a filler, without its underscore."""
    new = f.__name__
    old = new[:-1]

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning, stacklevel=2)
        return f(*args, **kwargs)

    run.__doc__ = f"The old name of {new}; deprecated."
    run.__name__ = old
    return run


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
