"""Functions for neural networks: what the records put in the namespace `nn`, under torch.nn.functional's names."""

from tocha import _C
from tocha._C import channel_shuffle, pixel_shuffle, pixel_unshuffle  # noqa: F401

globals().update({_n: _v for _n, _v in vars(_C._nn).items() if not _n.startswith("_")})

from tocha.nn.functional_dropout import *  # noqa: E402, F403
