"""The modules of tocha.nn, one file per family."""

from tocha.nn.modules.container import *  # noqa: F403
from tocha.nn.modules.lazy import LazyModuleMixin  # noqa: F401
from tocha.nn.modules.module import Module  # noqa: F401
