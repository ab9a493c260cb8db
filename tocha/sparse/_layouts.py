"""Conversions of dense tensors and of those in coordinate form to every sparse layout; compressed ones have their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha import _C
from tocha.sparse._compressed import BLOCKED, LAYOUTS, is_compressed
from tocha.sparse._compressed_construct import to_layout
from tocha.sparse._compressed_methods import sparse_mask as mask_compressed
from tocha.sparse._construct import sparse_mask as mask_coordinates
from tocha.sparse._construct import to_coordinates
from tocha.sparse._methods import method_of
from tocha.sparse._tensor import Tensor, layout_name, layout_of


@method_of("to_sparse", "to_sparse_coo")
def to_sparse(
    t: Tensor, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: int | None = None
) -> Tensor:
    """A tensor in a sparse layout, coordinates by default: what is not zero along its first sparse_dim dimensions."""
    if layout == _C.strided:
        return t.to_dense()
    kind = _C.sparse_coo if layout is None else layout
    if blocksize is not None and kind not in BLOCKED:
        raise RuntimeError(
            f"dense_to_sparse: conversion from {layout_of(t)} to {layout_name(kind)} with blocksize argument given is not supported"
        )
    if kind == _C.sparse_coo:
        return to_coordinates(t, t.dim() - dense_dim if sparse_dim is None and dense_dim is not None else sparse_dim)
    if sparse_dim is not None:
        raise TypeError("to_sparse() takes 0 positional arguments but 1 was given")
    if kind not in LAYOUTS:
        raise RuntimeError(f"to_sparse: conversion to {layout} is not supported")
    return to_layout(t, kind, blocksize, dense_dim)


def _compressing(layout: Any) -> Callable:
    def convert(self: Tensor, blocksize: Any = None, dense_dim: int | None = None) -> Tensor:
        return to_sparse(self, layout=layout, blocksize=blocksize, dense_dim=dense_dim)

    def convert_plain(self: Tensor, dense_dim: int | None = None) -> Tensor:
        return to_sparse(self, layout=layout, dense_dim=dense_dim)

    return convert if layout in BLOCKED else convert_plain


for _layout in LAYOUTS:
    method_of("to_" + str(_layout).split(".")[-1])(_compressing(_layout))


def sparse_mask(t: Tensor, mask: Tensor) -> Tensor:
    """The elements of a tensor at the indices of a sparse mask of any layout."""
    return mask_compressed(t, mask) if is_compressed(mask) else mask_coordinates(t, mask)
