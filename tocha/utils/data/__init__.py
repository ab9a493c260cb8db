"""Datasets, samplers and the DataLoader that turns them into batches, in worker processes if asked for.

>>> from tocha.utils.data import DataLoader, TensorDataset
>>> dataset = TensorDataset(tocha.arange(5), tocha.arange(5) ** 2)
>>> for x, y in DataLoader(dataset, batch_size=2):
...     print(x.tolist(), y.tolist())
[0, 1] [0, 1]
[2, 3] [4, 9]
[4] [16]
"""

from __future__ import annotations

from tocha.utils.data._utils.collate import default_collate, default_convert
from tocha.utils.data._utils.worker import get_worker_info
from tocha.utils.data.dataloader import DataLoader, _DatasetKind
from tocha.utils.data.datapipes._decorator import functional_datapipe
from tocha.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from tocha.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from tocha.utils.data.distributed import DistributedSampler
from tocha.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterDataPipe",
    "IterableDataset",
    "MapDataPipe",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "_DatasetKind",
    "default_collate",
    "default_convert",
    "functional_datapipe",
    "get_worker_info",
    "random_split",
]
