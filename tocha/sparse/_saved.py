"""How sparse tensors are pickled: as PyTorch does it, by a function that files name (tocha._utils)."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha._utils import _rebuild_sparse_tensor
from tocha.sparse._tensor import CompressedTensor, SparseTensor


def _reduce_ex(self: SparseTensor, protocol: Any) -> tuple:
    parts = (self._coo_indices, self._coo_values, self.shape, self._coo_coalesced)
    return _rebuild_sparse_tensor, (_C.sparse_coo, parts)


SparseTensor.__reduce_ex__ = _reduce_ex  # type: ignore[assignment, method-assign]


def _reduce_compressed(self: CompressedTensor, protocol: Any) -> tuple:
    return _rebuild_sparse_tensor, (self._kind, (self._groups, self._within, self._held, self.shape))


CompressedTensor.__reduce_ex__ = _reduce_compressed  # type: ignore[assignment, method-assign]
