"""What every tensor answers about being sparse; `import tocha` puts these onto the class.

Sparse tensors have methods of their own for all of them (tocha/sparse), a room that is opened when one is made.
"""

from __future__ import annotations

import importlib
from typing import Any

from tocha import _C
from tocha._core.errors import refusing
from tocha.overrides import add_method, add_property

Tensor = _C.Tensor


def _layouts() -> Any:
    return importlib.import_module("tocha.sparse._layouts")


def to_sparse(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """to_sparse(sparse_dim=None): the sparse form of a tensor, of which its first sparse_dim dimensions are sparse.

    >>> import tocha
    >>> tocha.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse()
    tensor(indices=tensor([[0],
                           [1]]),
           values=tensor([2.]),
           size=(2, 2), nnz=1, layout=tocha.sparse_coo)
    """
    return _layouts().to_sparse(self, *args, **kwargs)


def to_sparse_coo(self: Tensor) -> Tensor:
    """The tensor in coordinate form.

    >>> tocha.tensor([[0, 1], [2, 0]]).to_sparse_coo()
    tensor(indices=tensor([[0, 1],
                           [1, 0]]),
           values=tensor([1, 2]),
           size=(2, 2), nnz=2, layout=tocha.sparse_coo)
    """
    return self.to_sparse()


def _compressing(name: str, blocked: bool) -> Any:
    layout = getattr(_C, name.removeprefix("to_"))

    def compress(self: Tensor, dense_dim: int | None = None) -> Tensor:
        return self.to_sparse(layout=layout, dense_dim=dense_dim)

    def compress_blocks(self: Tensor, blocksize: Any, dense_dim: int | None = None) -> Tensor:
        return self.to_sparse(layout=layout, blocksize=blocksize, dense_dim=dense_dim)

    method = compress_blocks if blocked else compress
    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"""The tensor in layout {layout}.

    >>> import tocha
    >>> tocha.eye(2).{name}({"(1, 2)" if blocked else ""}).layout
    {layout}
    """
    return method


def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """A tensor that holds all of its elements: itself, if it is not sparse.

    >>> tocha.tensor([[0, 1], [2, 0]]).to_sparse().to_dense()
    tensor([[0, 1],
            [2, 0]])
    """
    return self if dtype is None else self.to(dtype)


def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The elements at the indices of a sparse mask, as a sparse tensor with those indices.

    >>> tocha.tensor([[1.0, 2.0], [3.0, 4.0]]).sparse_mask(tocha.eye(2).to_sparse()).to_dense()
    tensor([[1., 0.],
            [0., 4.]])
    """
    return _layouts().sparse_mask(self, mask)


def sparse_dim(self: Tensor) -> int:
    """How many dimensions are sparse: none.

    >>> tocha.eye(2).to_sparse(1).sparse_dim()
    1
    """
    return 0


def dense_dim(self: Tensor) -> int:
    """How many dimensions are dense: all of them.

    >>> tocha.eye(2).to_sparse(1).dense_dim()
    1
    """
    return self.dim()


def _refused(name: str, expected: str) -> Any:
    error = f"{name} expected {expected} but got Strided"
    return refusing(name, "For sparse tensors only.", lambda: RuntimeError(error))


def _without_form(name: str) -> Any:
    error = f"[{name}] is for sparse tensors only"
    return refusing(name, "For sparse tensors only.", lambda: NotImplementedError(error))


def _geometry() -> Any:
    return importlib.import_module("tocha.sparse._geometry")


def _smm(self: Tensor, mat: Tensor) -> Tensor:
    """The product of a sparse and a dense matrix as a sparse one.

    >>> tocha.eye(2).to_sparse().smm(tocha.tensor([[1.0, 2.0], [3.0, 4.0]])).to_dense()
    tensor([[1., 2.],
            [3., 4.]])
    """
    return _geometry().smm(self, mat)


def _sspaddmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * self + alpha * (mat1 @ mat2) of sparse matrices self and mat1, as a sparse one.

    >>> tocha.zeros(2, 2).to_sparse().sspaddmm(tocha.eye(2).to_sparse(), tocha.tensor([[1.0, 2.0], [3.0, 4.0]])).to_dense()
    tensor([[1., 2.],
            [3., 4.]])
    """
    return _geometry().sspaddmm(self, mat1, mat2, beta=beta, alpha=alpha)


def install() -> None:
    """Puts these onto Tensor; called once by `import tocha`."""
    for method in (to_sparse, to_dense, sparse_mask, sparse_dim, dense_dim):
        add_method(method.__name__, method)
    Tensor.to_sparse_coo = to_sparse_coo  # type: ignore[attr-defined]
    for name in ("coalesce", "is_coalesced", "indices"):
        add_method(name, _refused(name, "sparse coordinate tensor layout"))
    add_method("values", _refused("values", "sparse tensor layout"))
    for name in ("to_sparse_csr", "to_sparse_csc", "to_sparse_bsr", "to_sparse_bsc"):
        add_method(name, _compressing(name, "_bs" in name))
    for name, what in (("crow", "row"), ("col", "row"), ("ccol", "column"), ("row", "column")):
        add_method(f"{name}_indices", _refused(f"{name}_indices", f"sparse {what} compressed tensor layout"))
    for name in ("sparse_resize_", "sparse_resize_and_clear_", "resize_as_sparse_"):
        add_method(name, _without_form(name))
    for name, function in (("smm", _smm), ("sspaddmm", _sspaddmm)):
        add_method(name, function)
    for name in ("_indices", "_values", "_nnz", "_coalesced_", "_dimI", "_dimV"):
        add_method(name, _without_form(name))
    add_property("is_sparse_csr", lambda self: False)
