"""Functions of torch.nn.functional that need no kernel of their own: sampling, grids, old names, grouped products."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tocha import _C, overrides

Tensor = _C.Tensor
_nn = _C._nn

__all__ = [
    "GRID_SAMPLE_INTERPOLATION_MODES", "GRID_SAMPLE_PADDING_MODES", "assert_int_or_pair", "boolean_dispatch",
    "grouped_mm", "gumbel_softmax", "handle_torch_function", "has_torch_function", "has_torch_function_unary",
    "has_torch_function_variadic", "log_softmax", "native_channel_shuffle", "softmax", "softmin",
]  # fmt: skip

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}

native_channel_shuffle = _C.channel_shuffle
handle_torch_function = overrides.handle_torch_function
has_torch_function = overrides.has_torch_function
has_torch_function_unary = overrides.has_torch_function_unary
has_torch_function_variadic = overrides.has_torch_function_variadic


def _warn_of_implicit_dim(function: str, stacklevel: int) -> None:
    warnings.warn(
        f"Implicit dimension choice for {function} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: _C.dtype | None = None) -> Tensor:
    """exp(input) / sum(exp(input)) along dim. Leaving dim out is deprecated: 0 for 0, 1 or 3 dims, else 1.

    >>> import tocha
    >>> softmax(tocha.zeros(2, 2), dim=1)
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """
    if dim is None:
        _warn_of_implicit_dim("softmax", _stacklevel)
    return _nn.softmax(input, dim, _stacklevel, dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: _C.dtype | None = None) -> Tensor:
    """log(softmax(input, dim)), computed without overflow.

    >>> tocha.nn.functional.log_softmax(tocha.tensor([1.0, 2.0, 3.0]), dim=-1)
    tensor([-2.4076, -1.4076, -0.4076])
    """
    if dim is None:
        _warn_of_implicit_dim("log_softmax", _stacklevel)
    return _nn.log_softmax(input, dim, _stacklevel, dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: _C.dtype | None = None) -> Tensor:
    """softmax of -input along dim.

    >>> tocha.nn.functional.softmin(tocha.tensor([1.0, 2.0, 3.0]), dim=-1)
    tensor([0.6652, 0.2447, 0.0900])
    """
    if dim is None:
        _warn_of_implicit_dim("softmin", _stacklevel)
    return _nn.softmin(input, dim, _stacklevel, dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A sample of the relaxed categorical distribution of the logits: softmax((logits + gumbel noise) / tau).

    hard makes the sample one-hot; its gradient remains that of the soft sample. eps has no effect.

    >>> import tocha
    >>> sample = gumbel_softmax(tocha.zeros(2, 5), hard=True)
    >>> sample.sum(-1)
    tensor([1., 1.])
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = -_C.empty_like(logits, memory_format=_C.contiguous_format).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = _C.zeros_like(logits, memory_format=_C.contiguous_format).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft


def assert_int_or_pair(arg: Any, arg_name: str, message: str) -> None:
    """Raises AssertionError, with the message about arg_name, unless arg is an int or has two elements."""
    if not isinstance(arg, int) and len(arg) != 2:
        raise AssertionError(message.format(arg_name))


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable,
    if_false: Callable,
    module_name: str | None,
    func_name: str | None,
) -> Callable:
    """A function that calls if_true or if_false, by the value of one of its arguments."""

    def dispatched(*args: Any, **kwargs: Any) -> Any:
        chosen = args[arg_index] if arg_index < len(args) else kwargs.get(arg_name, default)
        return (if_true if chosen else if_false)(*args, **kwargs)

    dispatched.__doc__ = if_true.__doc__ or if_false.__doc__
    dispatched.__module__ = module_name or dispatched.__module__
    dispatched.__name__ = func_name or dispatched.__name__
    return dispatched


def _spans(offs: Tensor) -> list[tuple[int, int]]:
    ends = [int(e) for e in offs.tolist()]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Tensor:
    """One matrix product per group; offs are the ends of the groups along the dim that a 2-D operand is cut in.

    2-D by 3-D cuts the rows of mat_a, 3-D by 2-D the columns of mat_b, 2-D by 2-D the dim that is summed over.

    >>> import tocha
    >>> a, b = tocha.ones(3, 2), tocha.ones(2, 2, 1)
    >>> grouped_mm(a, b, offs=tocha.tensor([1, 3], dtype=tocha.int32))
    tensor([[2.],
            [2.],
            [2.]])
    """
    kinds = (mat_a.dim(), mat_b.dim())
    if any(d not in (2, 3) for d in kinds):
        raise RuntimeError("[grouped_mm] mat_a and mat_b have to be 2 or 3 dimensional")
    if (2 in kinds) != (offs is not None):
        raise RuntimeError("[grouped_mm] offs is to be given where an operand is 2D, and only there")
    if offs is None:
        product = mat_a.bmm(mat_b)
    elif kinds == (2, 3):
        product = _C.cat([mat_a[i:j] @ mat_b[g] for g, (i, j) in enumerate(_spans(offs))])
    elif kinds == (3, 2):
        product = _C.cat([mat_a[g] @ mat_b[:, i:j] for g, (i, j) in enumerate(_spans(offs))], 1)
    else:
        product = _C.stack([mat_a[:, i:j] @ mat_b[i:j] for i, j in _spans(offs)])
    if bias is not None:
        product = product + bias
    return product if out_dtype is None else product.to(out_dtype)
