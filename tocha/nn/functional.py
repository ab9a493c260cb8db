"""Functions for neural networks, under torch.nn.functional's names: what the records put in the namespace `nn`, and
thin functions around records where PyTorch's signature has `inplace=` or `training=`.
"""

from __future__ import annotations

import importlib
from typing import Any

from tocha import _C
from tocha._C import channel_shuffle, pixel_shuffle, pixel_unshuffle  # noqa: F401

globals().update({_n: _v for _n, _v in vars(_C._nn).items() if not _n.startswith("_")})

from tocha.nn.functional_attention import *  # noqa: E402, F403
from tocha.nn.functional_dropout import *  # noqa: E402, F403
from tocha.nn.functional_helpers import (  # noqa: E402, F401
    _canonical_mask,
    _check_key_padding_mask,
    _get_softmax_dim,
    _in_projection,
    _in_projection_packed,
    _mha_shape_check,
    _none_or_dtype,
    _verify_batch_size,
)
from tocha.nn.functional_losses import *  # noqa: E402, F403
from tocha.nn.functional_misc import *  # noqa: E402, F403
from tocha.nn.functional_norms import *  # noqa: E402, F403
from tocha.nn.functional_pooling import *  # noqa: E402, F403
from tocha.nn.functional_resampling import *  # noqa: E402, F403
from tocha.nn.functional_scaled import *  # noqa: E402, F403


def __getattr__(name: str) -> Any:
    if name == "grad":  # gradients of convolutions, which are made of the functions here
        return importlib.import_module("tocha.nn.grad")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_nn = _C._nn
Tensor = _C.Tensor
hardshrink = _C.hardshrink
prelu = _C.prelu
relu_ = _C.relu_
selu_ = _C.selu_
celu_ = _C.celu_
threshold_ = _C.threshold_


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """input where it is positive, else 0.

    >>> import tocha
    >>> relu(tocha.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return _C.relu_(input) if inplace else _C.relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """input kept within [0, 6].

    >>> import tocha
    >>> relu6(tocha.tensor([-1.0, 2.0, 7.0]))
    tensor([0., 2., 6.])
    """
    return _nn.relu6_(input) if inplace else _nn.relu6(input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """input where it is positive, else negative_slope * input.

    >>> tocha.nn.functional.leaky_relu(tocha.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    return _nn.leaky_relu_(input, negative_slope) if inplace else _nn.leaky_relu(input, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """input where it is positive, else alpha * (exp(input) - 1).

    >>> tocha.nn.functional.elu(tocha.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return _nn.elu_(input, alpha) if inplace else _nn.elu(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu scaled so that layers keep mean 0 and variance 1.

    >>> tocha.nn.functional.selu(tocha.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return _C.selu_(input) if inplace else _C.selu(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """input where it is positive, else alpha * (exp(input / alpha) - 1).

    >>> tocha.nn.functional.celu(tocha.tensor([-1.0, 2.0]), alpha=0.5)
    tensor([-0.4323,  2.0000])
    """
    return _C.celu_(input, alpha) if inplace else _C.celu(input, alpha)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """input * sigmoid(input).

    >>> tocha.nn.functional.silu(tocha.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.2689,  0.0000,  0.7311])
    """
    return _nn.silu_(input) if inplace else _nn.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """input * tanh(softplus(input)).

    >>> tocha.nn.functional.mish(tocha.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.3034,  0.0000,  0.8651])
    """
    return _nn.mish_(input) if inplace else _nn.mish(input)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """input kept within [min_val, max_val].

    >>> tocha.nn.functional.hardtanh(tocha.tensor([-2.0, 0.5, 2.0]), min_val=-0.5, max_val=1.0)
    tensor([-0.5000,  0.5000,  1.0000])
    """
    return _nn.hardtanh_(input, min_val, max_val) if inplace else _nn.hardtanh(input, min_val, max_val)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """(input + 3) / 6 kept within [0, 1].

    >>> tocha.nn.functional.hardsigmoid(tocha.tensor([-4.0, 0.0, 1.5, 4.0]))
    tensor([0.0000, 0.5000, 0.7500, 1.0000])
    """
    return _nn.hardsigmoid_(input) if inplace else _nn.hardsigmoid(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """input * hardsigmoid(input).

    >>> tocha.nn.functional.hardswish(tocha.tensor([-1.0, 0.0, 1.5, 4.0]))
    tensor([-0.3333,  0.0000,  1.1250,  4.0000])
    """
    return _nn.hardswish_(input) if inplace else _nn.hardswish(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """input where it is above the threshold, else value.

    >>> tocha.nn.functional.threshold(tocha.tensor([0.5, 1.0, 2.0]), 1.0, -3.0)
    tensor([-3., -3.,  2.])
    """
    return _C.threshold_(input, threshold, value) if inplace else _C.threshold(input, threshold, value)


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-input)).

    >>> tocha.nn.functional.sigmoid(tocha.tensor([-2.0, 0.0, 2.0]))
    tensor([0.1192, 0.5000, 0.8808])
    """
    return input.sigmoid()


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent.

    >>> tocha.nn.functional.tanh(tocha.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """
    return input.tanh()


for _function in [*globals().values()]:  # wherever it is written, this is where it is found: pickles name it so
    if getattr(_function, "__module__", "").startswith(f"{__name__}_"):
        _function.__module__ = __name__
del _function
