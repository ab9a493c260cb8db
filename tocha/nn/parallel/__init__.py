"""One module on several devices at once, each with its part of a batch."""

from tocha.nn.parallel.data_parallel import DataParallel, data_parallel
from tocha.nn.parallel.distributed import DistributedDataParallel
from tocha.nn.parallel.parallel_apply import parallel_apply
from tocha.nn.parallel.replicate import replicate
from tocha.nn.parallel.scatter_gather import gather, scatter

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]
