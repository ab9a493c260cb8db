"""Functions for neural networks: what the records put in the namespace `nn`, under torch.nn.functional's names."""

from tocha import _C

globals().update({_n: _v for _n, _v in vars(_C._nn).items() if not _n.startswith("_")})
