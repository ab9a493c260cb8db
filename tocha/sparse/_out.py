"""out= of functions with sparse operands or a sparse result: the form runs without it, and what it gives goes there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha import _C
from tocha.sparse._compressed import BLOCKED, is_compressed
from tocha.sparse._compressed_construct import to_coo, to_layout
from tocha.sparse._compressed_methods import compressed_form
from tocha.sparse._factories import without_elements
from tocha.sparse._tensor import COMPRESSED_FORMS, WITH_OUT, Tensor, form_of, is_sparse, layout_name, name_of


def _is_any_sparse(t: Any) -> bool:
    return is_sparse(t) or is_compressed(t)


def with_out(func: Any, form: Callable, args: tuple, kwargs: dict) -> Any:
    """A call of func, whose form this is, with out=."""
    if getattr(form, "takes_out", False):
        return form(*args, **kwargs)
    out, named = kwargs["out"], {k: v for k, v in kwargs.items() if k != "out"}
    operands = (*args, *named.values(), *(args[0] if args and isinstance(args[0], list | tuple) else ()))
    name = name_of(func)
    if any(isinstance(t, Tensor) and t.requires_grad and _C.is_grad_enabled() for t in (*operands, out)):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad."
        )
    if name == "mul" and out.layout == _C.sparse_csr:  # the one function whose operands may have any layout then
        args, form = tuple(_in_rows(t) if isinstance(t, Tensor) else t for t in args), COMPRESSED_FORMS[func]
        operands = args
    made = form(*args, **named) if any(_is_any_sparse(t) for t in operands) else func(*args, **named)
    if name == "mm" and is_compressed(made) and out.layout == _C.strided:
        made = made.to_dense()
    return put(name, out, made)


def _in_rows(t: Any) -> Tensor:
    return to_layout(to_coo(t) if is_compressed(t) and t._kind in BLOCKED else t, _C.sparse_csr)


def put(name: str, out: Any, made: Any) -> Any:
    """Gives out what was made, if it has its layout."""
    if not isinstance(made, Tensor) or made.layout != out.layout or (_is_any_sparse(out) and not _may_be_given(out)):
        kind = layout_name(made.layout) if isinstance(made, Tensor) else type(made).__name__
        raise RuntimeError(f"[{name}] expected out= of layout {kind}, got {layout_name(out.layout)}")
    if not _is_any_sparse(out):
        return out.resize_(made.shape).copy_(made)
    if made.dtype == _C.bool and out.dtype != _C.bool:
        raise RuntimeError(f"{name} does not support non-boolean outputs.")
    if not _C.can_cast(made.dtype, out.dtype):
        raise RuntimeError(f"result type {made.dtype} can't be cast to the desired output type {out.dtype}")
    out.data = made.detach().to(out.dtype)
    out._bump_version()
    return out


def _may_be_given(out: Any) -> bool:
    """PyTorch gives results to tensors in coordinate form and in rows only."""
    return is_sparse(out) or out._kind == _C.sparse_csr


WITH_OUT.append(with_out)


def zeros(*size: Any, out: Any, **named: Any) -> Tensor:
    """zeros(size, out=sparse): it holds nothing then."""
    sizes = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    out.data = without_elements(tuple(sizes), out.layout, out.dtype, out.device, "zeros")
    return out


zeros.takes_out = True  # type: ignore[attr-defined]
form_of("zeros")(zeros)
compressed_form("zeros")(zeros)
