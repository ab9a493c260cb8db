"""The checks of sparse tensors' parts under the names that PyTorch's own helpers have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha import _C
from tocha.sparse._compressed_construct import validate
from tocha.sparse._construct import sparse_coo_tensor
from tocha.sparse._tensor import Tensor


def _validate_sparse_coo_tensor_args(
    indices: Tensor, values: Tensor, size: Any, is_coalesced: bool | None = None, check_pinning: bool | None = None
) -> None:
    sparse_coo_tensor(indices, values, size, check_invariants=True, is_coalesced=is_coalesced)


def _validate_sparse_compressed_tensor_args(
    compressed_indices: Tensor,
    plain_indices: Tensor,
    values: Tensor,
    size: Any,
    layout: Any,
    check_pinning: bool | None = None,
) -> None:
    validate(layout, compressed_indices, plain_indices, values, size)


def _validator(layout: Any) -> Callable:
    def check(groups: Tensor, within: Tensor, values: Tensor, size: Any, check_pinning: bool | None = None) -> None:
        validate(layout, groups, within, values, size)

    return check


_validate_sparse_csr_tensor_args = _validator(_C.sparse_csr)
_validate_sparse_csc_tensor_args = _validator(_C.sparse_csc)
_validate_sparse_bsr_tensor_args = _validator(_C.sparse_bsr)
_validate_sparse_bsc_tensor_args = _validator(_C.sparse_bsc)
