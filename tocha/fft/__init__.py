"""Discrete Fourier transforms: what the records put in the namespace `fft`, under torch.fft's names.

>>> import tocha
>>> tocha.fft.fft(tocha.tensor([1.0, 0.0, 0.0, 0.0]))
tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
"""

from tocha import _C

globals().update({_n: _v for _n, _v in vars(_C._fft).items() if not _n.startswith("_")})
