"""torch.sparse.FloatTensor and the others of old: constructors of sparse tensors in coordinate form, deprecated since long."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha._core.library_name import spoken
from tocha._core.switches import warn_once
from tocha._tensor.types import tensortype, types_of
from tocha.sparse._construct import sparse_coo_tensor

_FORMS = """
 * (*, tocha.device device = None)
 * (Tensor indices, Tensor values, *, tocha.device device = None)
 * (Tensor indices, Tensor values, tuple of ints size, *, tocha.device device = None)
 * (tuple of ints size, *, tocha.device device = None)
"""


class sparse_tensortype(tensortype):
    """The type of these classes: calling one makes a sparse tensor, and sparse tensors are instances by dtype."""

    __module__ = "tocha"  # type: ignore[misc]
    layout = _C.sparse_coo
    is_sparse = True

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return construct(cls.dtype, args, kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _C.Tensor) and instance.dtype == cls.dtype and instance.layout == _C.sparse_coo


def construct(dtype: _C.dtype, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What the old constructors make of indices and values, or of sizes."""
    device = kwargs.get("device")
    tensors = len(args) in (2, 3) and all(isinstance(a, _C.Tensor) for a in args[:2])
    if set(kwargs) - {"device"} or (args and isinstance(args[0], _C.Tensor) and not tensors):
        shown = ", ".join(type(a).__name__ for a in args)
        raise TypeError(
            f"new() received an invalid combination of arguments - got ({shown}), but expected one of:{_FORMS}"
        )
    if tensors:
        _warn("indices, values, shape" if len(args) == 3 else "indices, values")
        size = args[2:] and [tuple(args[2])]
        return sparse_coo_tensor(*args[:2], *size, device=device)
    if len(args) == 1 and isinstance(args[0], list) and not isinstance(args[0], _C.Size):
        raise TypeError(
            f"{spoken()}.sparse.SparseTensor(sequence) only accepts sizes.  Please use {spoken()}.sparse_coo_tensor() or "
            "construct a strided tensor and convert it to sparse via to_sparse."
        )
    _warn("shape" if args else "")
    size = (0,) if not args else tuple(args[0]) if isinstance(args[0], tuple) else args
    return sparse_coo_tensor(size=size, dtype=dtype, device=device)


def _warn(form: str) -> None:
    given = f"{form}, *, device=" if form else ""
    made = {"": "(0,), dtype="}.get(form, f"{form}, dtype=, device=")
    warn_once(
        f"{spoken()}.sparse.SparseTensor({given}) is deprecated.  Please use {spoken()}.sparse_coo_tensor({made})."
    )


def sparse_types() -> dict[str, Any]:
    """FloatTensor, DoubleTensor, ... of torch.sparse; there is none of bool."""
    return {
        name: sparse_tensortype(
            name,
            (),
            {"__module__": "tocha.sparse", "__doc__": f"Makes sparse tensors of {cls.dtype}.", "dtype": cls.dtype},
        )
        for name, cls in types_of("tocha").items()
        if cls.dtype != _C.bool
    }
