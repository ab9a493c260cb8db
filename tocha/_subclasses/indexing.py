"""x[index] and x[index] = value on fake tensors: csrc/python/indexing.cpp with sizes that may be symbols."""

from __future__ import annotations

import warnings
from typing import Any

from tocha import _C
from tocha._subclasses.calls import invoke, mode_of, tensors_of
from tocha._subclasses.fake import FakeTensor, outside
from tocha._subclasses.reader import active_mode
from tocha.ir.sym_types import SymInt

Tensor = _C.Tensor
MASKS = (_C.bool, _C.uint8)


def is_sequence(v: Any) -> bool:
    return isinstance(v, list | tuple | range) or (hasattr(v, "__array__") and not isinstance(v, Tensor))


def is_select(v: Any) -> bool:
    """Whether it picks one element of a dim."""
    if isinstance(v, bool):
        return False
    if isinstance(v, Tensor):
        return v.dim() == 0 and v.dtype not in MASKS and not (v.is_floating_point() or v.is_complex())
    return isinstance(v, int | SymInt) or (hasattr(v, "__index__") and not is_sequence(v))


def no_element(v: Any) -> bool:
    """Whether no tensor is made of a list with this in it: then the list stands for a tuple."""
    return v is None or v is Ellipsis or isinstance(v, slice | Tensor | list | tuple)


def as_tuple(index: Any) -> tuple:
    if isinstance(index, tuple):
        return index
    if isinstance(index, list) and len(index) < 32 and any(map(no_element, index)):
        warnings.warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated; use x[tuple(seq)] instead of x[seq].",
            UserWarning,
            stacklevel=3,
        )
        return tuple(index)
    return (index,)


def index_tensor(mode: Any, v: Any) -> FakeTensor:
    if not isinstance(v, Tensor):
        with outside():
            real = _C.tensor(v if not isinstance(v, tuple | range) else list(v))
            if real.numel() == 0:
                real = real.to(_C.int64)
        v = mode.lifted(real)
    fake = mode.fake_of(v)
    if fake.is_floating_point() or fake.is_complex():
        raise IndexError(f"tensors used as indices must be long, int, byte or bool tensors, got {fake.dtype}")
    return fake


def dims_of(v: Any) -> int:
    """How many dims of self an item takes."""
    if v is None or v is Ellipsis or isinstance(v, bool):
        return 0
    if isinstance(v, Tensor) and v.dtype in MASKS:
        return v.dim()
    return 1


class Taken:
    """An index, applied: the basic part as views, the tensors that pick elements by dim of what they leave."""

    def __init__(self, mode: Any, t: FakeTensor, index: Any):
        self.mode, self.view = mode, t
        self.picks: list[FakeTensor | None] = []
        self.places = 0
        items = [
            v if v is None or v is Ellipsis or isinstance(v, bool | slice) or is_select(v) else index_tensor(mode, v)
            for v in map(self.checked, as_tuple(index))
        ]
        taken = sum(map(dims_of, items))
        rank = t.dim()
        if taken > rank:
            raise IndexError(f"too many indices for tensor of dimension {rank}")
        if items and rank == 0 and is_select(items[0]):
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python to convert a 0-dim tensor to a number"
            )
        dim, seen = 0, False
        for v in items:
            if v is Ellipsis:
                dim += 0 if seen else rank - taken
                seen = True
            else:
                dim = self.apply(v, dim)

    def checked(self, v: Any) -> Any:
        if isinstance(v, str):
            raise TypeError("invalid index of type 'str'")
        known = v is None or v is Ellipsis or isinstance(v, bool | slice | Tensor) or is_select(v) or is_sequence(v)
        if not known:
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
                f"(got {type(v).__name__})"
            )
        return v

    def apply(self, v: Any, dim: int) -> int:
        if v is None:
            self.view = invoke("unsqueeze", self.view, dim)
            return dim + 1
        if isinstance(v, slice):
            self.slice(v, dim)
            return dim + 1
        if isinstance(v, bool):
            # A mask of no dims stands at a new dim, of which it takes all or nothing.
            self.view = invoke("unsqueeze", self.view, dim)
            with outside():
                picked = _C.zeros(int(v), dtype=_C.int64)
            return self.pick(self.mode.lifted(picked), dim)
        if is_select(v):
            n = self.view._facts.sizes[dim]
            i = v.item() if isinstance(v, Tensor) else v if isinstance(v, SymInt) else v.__index__()
            if isinstance(i, int) and isinstance(n, int) and not -n <= i < n:
                raise IndexError(f"index {i} is out of bounds for dimension {dim} with size {n}")
            self.view = invoke("select", self.view, dim, i)
            return dim
        return self.pick(v, dim)

    def slice(self, s: slice, dim: int) -> None:
        if self.view.dim() == 0:
            raise IndexError("slice() cannot be applied to a 0-dim tensor.")
        start, stop, step = (plain_bound(v) for v in (s.start, s.stop, s.step))
        step = 1 if step is None else step
        if step <= 0:
            raise ValueError("step must be greater than zero")
        if start is None and stop is None and isinstance(step, int) and step == 1:
            return
        self.view = invoke("slice", self.view, dim, start, stop, step)

    def pick(self, t: FakeTensor, dim: int) -> int:
        self.picks += [None] * (dim - self.places)
        self.places = max(self.places, dim)
        mask = t.dtype in MASKS
        if mask and t.dim() == 0:
            self.view = invoke("unsqueeze", self.view, dim)
            t = invoke("unsqueeze", t, 0)
            if t.dtype is _C.uint8:
                t = invoke("to.dtype", t, _C.bool)
        n = t.dim() if mask else 1
        self.picks.append(t)
        self.places += n
        return dim + n


def plain_bound(v: Any) -> Any:
    if v is None or isinstance(v, int | SymInt):
        return v
    return v.item() if isinstance(v, Tensor) else v.__index__()


def taken(t: Any, index: Any, value: Any = None) -> Taken:
    given = [
        *tensors_of((t,)),
        *tensors_of(index if isinstance(index, list | tuple) else (index,)),
        *tensors_of((value,)),
    ]
    mode = mode_of(given)
    return Taken(mode, mode.fake_of(t), index)


def is_real(*values: Any) -> bool:
    """Whether native code does it: calls are only watched, and no fake is among them."""
    return active_mode() is None and not any(isinstance(v, FakeTensor) for v in tensors_of(values))


def getitem(t: Tensor, index: Any) -> Any:
    if is_real(t, *as_tuple(index)):
        return NotImplemented
    found = taken(t, index)
    if any(p is not None for p in found.picks):
        return invoke("index", found.view, found.picks)
    return invoke("alias", found.view) if found.view is t else found.view


def fitting(value: FakeTensor, ndim: int) -> FakeTensor:
    """Leading dims of size 1 beyond the target's are dropped, as NumPy does on assignment."""
    sizes = list(value._facts.sizes)
    drop = 0
    while drop < len(sizes) - ndim and sizes[drop] == 1:
        drop += 1
    return invoke("reshape", value, sizes[drop:]) if drop else value


def _as_tensor(mode: Any, number: Any, dtype: Any) -> Any:
    if not isinstance(number, bool | int | float | complex):  # a symbol
        with mode:
            return _C.scalar_tensor(number, dtype=dtype)
    with outside():
        made = _C.tensor(number).to(dtype)
    return mode.lifted(made)


def setitem(t: Tensor, index: Any, value: Any) -> Any:
    if is_real(t, value, *as_tuple(index)):
        return NotImplemented
    if index is False:  # chooses nothing, and is no mask: dtypes may differ
        return None
    if index is True:
        index = None
    found = taken(t, index, value)
    target = found.view
    advanced = any(p is not None for p in found.picks)
    if not isinstance(value, Tensor):
        if not isinstance(value, bool | int | float | complex) and not hasattr(value, "__sym_float__"):
            raise TypeError(f"can't assign a {type(value).__name__} to a torch.{t.dtype}Tensor")
        if not advanced:
            invoke("fill_", target, value)
            return None
        value = _as_tensor(found.mode, value, t.dtype)
        if target.device.type != "cpu":
            value = value.to(target.device)
    value = found.mode.fake_of(value)
    if advanced:
        invoke("index_put_", target, found.picks, fitting(value, 0))
        return None
    value = fitting(value, target.dim())
    if value.dim() == 0 and value.device == target.device:
        invoke("fill_", target, value)
    else:
        invoke("copy_", target, value)
    return None
