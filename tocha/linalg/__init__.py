"""Linear algebra: what the records put in the namespace `linalg`, under torch.linalg's names."""

from tocha import _C

globals().update({_n: _v for _n, _v in vars(_C._linalg).items() if not _n.startswith("_")})
LinAlgError = _C._LinAlgError
