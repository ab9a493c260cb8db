"""Neural networks: modules and their parts, functions, initialisation, tools.

>>> import tocha
>>> tocha.nn.Sequential()(1)
1
"""

from tocha.nn import functional, init
from tocha.nn import modules as modules
from tocha.nn.modules import *  # noqa: F403
from tocha.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    *(name for name in vars(modules) if name[0].isupper()),
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "functional",
    "init",
]
