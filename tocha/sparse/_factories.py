"""Factories with a sparse layout: native factories ask here when `layout=` is not strided, and sparse tensors for their like.

As in PyTorch such a tensor holds nothing at first. Filling one sets only what it holds, so that ones in rows are empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from tocha import _C
from tocha.sparse._compressed import BLOCKED, BY_ROWS, LAYOUTS, is_compressed, make_compressed
from tocha.sparse._compressed_history import with_held
from tocha.sparse._compressed_math import without_values
from tocha.sparse._compressed_methods import compressed_form, detach
from tocha.sparse._tensor import SparseTensor, Tensor, form_of, is_sparse, layout_name, layout_of, make, sparse_dims

Size = Sequence[int]


def _numbers(size: Any) -> tuple[int, ...]:
    """A size as loose numbers or as a sequence."""
    sizes = size[0] if len(size) == 1 and isinstance(size[0], Sequence) else size
    if any(n < 0 for n in sizes):
        raise RuntimeError(f"Trying to create tensor with negative dimension: {list(sizes)}")
    return tuple(int(n) for n in sizes)


def _coordinates(size: Size, sparse: int, dtype: Any, device: Any) -> Tensor:
    indices = _C.empty((sparse, 0), dtype=_C.int64, device=device)
    return make(indices, _C.empty((0, *size[sparse:]), dtype=dtype, device=device), size, True)


def _compressed(size: Size, layout: Any, block: Size, dense: int, dtype: Any, device: Any) -> Tensor:
    batch = len(size) - 2 - dense
    group = batch if layout in BY_ROWS else batch + 1
    count = size[group] // (block[group - batch] if block else 1)
    groups = _C.zeros((*size[:batch], count + 1), dtype=_C.int64, device=device)
    within = _C.empty((*size[:batch], 0), dtype=_C.int64, device=device)
    held = _C.empty((*size[:batch], 0, *block, *size[batch + 2 :]), dtype=dtype, device=device)
    return make_compressed(layout, groups, within, held, size)


def without_elements(size: Size, layout: Any, dtype: Any = None, device: Any = None, name: str = "empty") -> Tensor:
    """A tensor of this size and layout that holds nothing."""
    if layout == _C.sparse_coo:
        return _coordinates(size, len(size), dtype, device)
    if layout not in LAYOUTS:
        raise RuntimeError(f"unsupported memory format option or layout: {layout}")
    if len(size) < 2:
        raise RuntimeError(
            f"torch.{name}: Only batched sparse compressed (non-block) tensors are supported, but got size {list(size)}"
        )
    if layout in BLOCKED:
        raise RuntimeError(
            f"{name}_sparse_compressed expected sparse compressed (non-block) tensor layout but got {layout_name(layout)}"
        )
    return _compressed(size, layout, (), 0, dtype, device)


def _refuse_like(input: Any, layout: Any) -> NoReturn:
    raise RuntimeError(
        "empty_like with different sparse layout is not supported "
        f"(self is {layout_of(input)} but you requested {layout_name(layout)})"
    )


def empty_like_of(input: Tensor, layout: Any, dtype: Any, device: Any) -> Tensor:
    """A tensor of the places of one in compressed form, or else without any."""
    kind = layout or input.layout
    if is_compressed(input):
        if kind != input._kind:
            _refuse_like(input, kind)
        return with_held(detach(input), "Empty", _C.empty_like(input._held, dtype=dtype, device=device))
    if not is_sparse(input):
        raise NotImplementedError(
            f"Could not run 'aten::empty_strided' with arguments from the '{layout_name(kind)}CPU' backend"
        )
    if kind == _C.strided:
        return _C.empty(input.shape, dtype=dtype, device=device)
    if kind == _C.sparse_coo:
        return _coordinates(input.shape, sparse_dims(input), dtype, device)
    return without_elements(input.shape, kind, dtype, device)


def zeros_like_of(input: Tensor, layout: Any, dtype: Any, device: Any) -> Tensor:
    """A tensor of the same shape that holds nothing."""
    kind = layout or input.layout
    if kind == _C.strided:
        if is_compressed(input):
            _refuse_like(input, kind)
        return _C.zeros(input.shape, dtype=dtype, device=device)
    if is_compressed(input) and kind == input._kind:
        made = without_values(input)
        return made if dtype == input.dtype else made.to(dtype)
    dense = 0 if not (is_sparse(input) or is_compressed(input)) else input.dense_dim()
    if kind == _C.sparse_coo:
        return _coordinates(input.shape, input.dim() - dense, dtype, device)
    count = input._groups.dim() if is_compressed(input) else 0
    block = tuple(input._held.shape[count : count + 2]) if is_compressed(input) and input._kind in BLOCKED else ()
    name = "sparse_compressed_tensor_with_dims"
    if block and kind not in BLOCKED:
        raise RuntimeError(f"{name}: blocksize cannot be specified for non-block layout {layout_name(kind)}")
    if kind in BLOCKED and not block:
        raise RuntimeError(f"{name}: blocksize needs to be a tuple of size 2, but got 0")
    return _compressed(input.shape, kind, block, dense, dtype, device)


def _filled(base: str, made: Tensor, given: dict[str, Any]) -> Tensor:
    """A tensor filled as the factory of this name, without new_ and _like, does it."""
    match base:
        case "empty" | "zeros":
            return made
        case "ones":
            return made.fill_(1)
        case "full":
            return made.fill_(given["fill_value"])
        case "rand":
            return made.uniform_()
        case "randn":
            return made.normal_(generator=given.get("generator"))
    return made.random_()


def make_in_layout(factory: str, given: dict[str, Any]) -> Tensor:
    """What a factory gives for arguments with a layout, by their names in its schema."""
    layout: Any = given.get("layout")
    source: Any = given.get("self")
    base = factory.removeprefix("new_").removesuffix("_like")
    if ("size" not in given and not factory.endswith("_like")) or "stride" in given:
        if "stride" not in given:  # made empty, to be filled from outside
            without_elements((0,), layout)
        raise NotImplementedError(f"Could not run 'aten::{factory}.out' with arguments from the 'SparseCPU' backend")
    dtype = given.get("dtype") or (source.dtype if source is not None else _dtype_of(base, given))
    device = given.get("device") or (source.device if source is not None else None)
    if factory.endswith("_like"):
        made = (zeros_like_of if base == "zeros" else empty_like_of)(source, layout, dtype, device)
    else:
        if layout == _C.sparse_coo and base in ("ones", "full") and source is None:
            raise RuntimeError("full(...) is not implemented for sparse layout")
        size = _numbers((given["size"],))
        name = "zeros" if base == "zeros" and len(size) < 2 and source is None else "empty"
        made = without_elements(size, layout or source.layout, dtype, device, name)
    made = _filled(base, made, given)
    return made.requires_grad_(given["requires_grad"]) if given.get("requires_grad") else made


def _dtype_of(base: str, given: dict[str, Any]) -> Any:
    return _C.full((), given["fill_value"]).dtype if base == "full" else _C.int64 if base == "randint" else None


def _like(name: str) -> None:
    def form(input: Any, *args: Any, **named: Any) -> Tensor:
        given = dict(zip(("fill_value",) if name == "full_like" else (), args, strict=False))
        return make_in_layout(name, {"self": input, **given, **named})

    form_of(name)(form)
    compressed_form(name)(form)


def _new(name: str) -> None:
    def form(self: Any, *size: Any, **named: Any) -> Tensor:
        if name == "new_full" and len(size) > 1:
            named["fill_value"], size = size[1], size[:1]
        given = {"self": self, "layout": self.layout, **named}
        sizes = _numbers((given.pop("size"),) if "size" in given else size)
        if given["layout"] == _C.strided:
            held = self._held if is_compressed(self) else self._coo_values
            named = {k: v for k, v in given.items() if k not in ("self", "layout")}
            return getattr(held, name)(sizes, **named)
        return make_in_layout(name, {**given, "size": sizes})

    form_of(name)(form)
    compressed_form(name)(form)


for _name in dir(_C):
    if _name.endswith("_like"):
        _like(_name)
for _name in ("empty", "zeros", "ones", "full"):
    _new(f"new_{_name}")


@form_of("new_tensor")
def new_tensor(self: SparseTensor, data: Any, **named: Any) -> Tensor:
    """A dense tensor of the dtype and device of a sparse one."""
    return self._coo_values.new_tensor(data, **named)


@compressed_form("new_tensor")
def new_tensor_compressed(self: Any, data: Any, **named: Any) -> NoReturn:
    """PyTorch has none."""
    raise RuntimeError("Cannot map DispatchKey SparseCsrCPU to a unique layout.")
