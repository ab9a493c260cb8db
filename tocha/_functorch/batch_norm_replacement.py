"""Batch normalization without running statistics: those are written in place, which a vmap over samples cannot do."""

from __future__ import annotations

from tocha.nn import Module
from tocha.nn.modules.batchnorm import _BatchNorm


def batch_norm_without_running_stats(module: Module) -> None:
    if isinstance(module, _BatchNorm) and module.track_running_stats:
        module.running_mean = None
        module.running_var = None
        module.num_batches_tracked = None
        module.track_running_stats = False


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Makes every batch normalization in root work on the batch's own statistics alone; root itself is changed and returned.

    >>> import tocha
    >>> from tocha.func import replace_all_batch_norm_modules_
    >>> replace_all_batch_norm_modules_(tocha.nn.BatchNorm1d(3)).running_mean is None
    True
    """
    for module in root.modules():
        batch_norm_without_running_stats(module)
    return root
