"""Operators that graphs need beside those that programs call: sizes as values, and tensors that were just made of Python's data."""

from __future__ import annotations

from tocha.operators.record import composite


@composite(
    "sym_size.int(Tensor self, int dim) -> int",
    variants="",
    aten=("sym_size.int(Tensor self, int dim) -> SymInt",),
    core=True,
)
def sym_size(self, dim):
    """The size of one dim, a symbol where it is one."""
    return self.size(dim)


@composite(
    "sym_stride.int(Tensor self, int dim) -> int",
    variants="",
    aten=("sym_stride.int(Tensor self, int dim) -> SymInt",),
    core=True,
)
def sym_stride(self, dim):
    """The stride of one dim, a symbol where it is one."""
    return self.stride(dim)


@composite("sym_numel(Tensor self) -> int", variants="", aten=("sym_numel(Tensor self) -> SymInt",), core=True)
def sym_numel(self):
    """The number of elements, a symbol where it is one."""
    return self.numel()


@composite(
    "sym_storage_offset(Tensor self) -> int",
    variants="",
    aten=("sym_storage_offset(Tensor self) -> SymInt",),
    core=True,
)
def sym_storage_offset(self):
    """Where in the storage the first element lies, a symbol where it is one."""
    return self.storage_offset()


@composite("lift_fresh(Tensor(a) self) -> Tensor(a)", variants="", whole=True)
def lift_fresh(self):
    """self: says to whoever watches that this tensor was just made of Python's data."""
    return self
