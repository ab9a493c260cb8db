"""Passes over a DataLoader on tocha and PyTorch: small and large samples, without workers and with two."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from workloads import Workload

import tocha
import tocha.utils.data


def one_pass(m, dataset, **options) -> Callable[[], object]:
    """Goes once through the dataset; workers stay from one call to the next."""
    loader = m.utils.data.DataLoader(dataset, persistent_workers=options["num_workers"] > 0, **options)

    def run() -> None:
        for batch in loader:
            del batch

    return run


def workloads() -> Iterator[Workload]:
    rng = np.random.default_rng(0)
    images = rng.standard_normal((64, 3, 224, 224)).astype(np.float32)
    thumbnails = rng.standard_normal((1024, 3, 32, 32)).astype(np.float32)
    labels = np.arange(1024)

    def tensors(m, *arrays):
        return m.utils.data.TensorDataset(*(m.tensor(a) for a in arrays))

    def numbers(m):
        return list(range(4096))

    def arrays(m):
        return [{"x": t, "y": int(y)} for t, y in zip(thumbnails, labels)]

    cases = {
        "numbers, batches of 32": (numbers, {"batch_size": 32}),
        "32 x 32 images and labels, batches of 32": (lambda m: tensors(m, thumbnails, labels), {"batch_size": 32}),
        "the same as dicts of arrays": (arrays, {"batch_size": 32}),
        "224 x 224 images, batches of 16": (lambda m: tensors(m, images, labels[:64]), {"batch_size": 16}),
    }
    for workers in (0, 2):
        for name, (make, options) in cases.items():
            ours, theirs = (one_pass(m, make(m), num_workers=workers, shuffle=True, **options) for m in (tocha, torch))
            yield Workload(f"DataLoader, {workers} workers", name, ours, theirs, 1)


if __name__ == "__main__":
    import harness

    tocha.set_num_threads(2)
    torch.set_num_threads(2)
    harness.show([harness.compare(w.group, w.name, w.ours, w.theirs, w.target, rounds=7) for w in workloads()])
