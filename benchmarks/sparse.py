"""Compressed sparse matrices: products with dense matrices and vectors, at 1% and at 10% of the elements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from workloads import Workload, pair

rng = np.random.default_rng(7)


def matrix(rows: int, columns: int, density: float) -> np.ndarray:
    kept = rng.random((rows, columns)) < density
    return (rng.standard_normal((rows, columns)) * kept).astype(np.float32)


def product(n: int, k: int, density: float, layout: str) -> Workload:
    a, b = matrix(n, n, density), rng.standard_normal((n, k)).astype(np.float32)

    def make(m, t):
        s, dense = t(a).to_sparse(layout=getattr(m, layout)), t(b) if k > 1 else t(b)[:, 0].contiguous()
        return lambda: s @ dense

    kind = layout.removeprefix("sparse_").upper()
    return pair("sparse", f"{kind} {n}x{n} at {density:.0%} @ {n}x{k}", make, 1.0)


def sampled(n: int, k: int, density: float) -> Workload:
    a, b, c = (
        matrix(n, n, density),
        rng.standard_normal((n, k)).astype(np.float32),
        rng.standard_normal((k, n)).astype(np.float32),
    )

    def make(m, t):
        s, left, right = t(a).to_sparse_csr(), t(b), t(c)
        return lambda: m.sparse.sampled_addmm(s, left, right)

    return pair("sparse", f"sampled_addmm {n}x{k}x{n} at {density:.0%}", make, 1.0)


def workloads() -> Iterator[Workload]:
    for density in (0.01, 0.1):
        for k in (1, 16, 64, 256):
            yield product(2000, k, density, "sparse_csr")
        yield product(2000, 64, density, "sparse_csc")
        yield sampled(1000, 64, density)
