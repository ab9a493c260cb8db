"""Collectives that gradients go through, by the names of torch.distributed.nn."""

from tocha.distributed.nn import functional as functional
from tocha.distributed.nn.functional import *  # noqa: F403
