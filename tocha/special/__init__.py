"""Special functions: what the records put in the namespace `special`, under torch.special's names."""

from tocha import _C

globals().update({_n: _v for _n, _v in vars(_C._special).items() if not _n.startswith("_")})
