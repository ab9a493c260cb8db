"""Discrete Fourier transforms: what the records put in the namespace `fft`, under torch.fft's names.

>>> import tocha
>>> tocha.fft.rfft(tocha.tensor([1.0, 2.0, 3.0, 4.0])).tolist()
[(10+0j), (-2+2j), (-2+0j)]
"""

from tocha import _C

globals().update({_n: _v for _n, _v in vars(_C._fft).items() if not _n.startswith("_")})
