"""vmap: a function of one sample becomes a function of a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tocha import _C
from tocha._functorch import custom_functions
from tocha._functorch.levels import RANDOMNESS, VMAP, level
from tocha.autograd._saved_hooks import disable_saved_tensors_hooks
from tocha.utils._pytree import TreeSpec, _broadcast_to_and_flatten, tree_flatten, tree_map, tree_unflatten

Tensor = _C.Tensor


custom_functions.install()


def name_of(func: Callable) -> str:
    return getattr(func, "__name__", repr(func))


def vmap(
    func: Callable,
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable:
    """A function that maps `func` over a dim of its arguments, all samples at once.

    in_dims and out_dims say which dims of arguments and results are mapped over, as ints or structures of them; None: not at all. randomness:
    random operators are refused ("error"), draw once for all samples ("same") or for each ("different"). chunk_size: how many samples at a time.

    >>> import tocha
    >>> from tocha.func import vmap
    >>> vmap(tocha.dot)(tocha.ones(3, 2), tocha.arange(6.0).reshape(3, 2))
    tensor([1., 5., 9.])
    """
    check_randomness(randomness)
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        return run(func, in_dims, out_dims, randomness, chunk_size, args, kwargs)

    return mapped


def check_randomness(randomness: str) -> None:
    if randomness not in RANDOMNESS:
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")


def run(
    func: Callable, in_dims: Any, out_dims: Any, randomness: str, chunk: int | None, args: tuple, kwargs: dict
) -> Any:
    check_out_dims(out_dims, func)
    size, dims, flat, spec = inputs_of(in_dims, args, func)
    if chunk is not None:
        return chunked(func, dims, flat, spec, out_dims, randomness, chunk, size, kwargs)
    return at_once(func, size, dims, flat, spec, out_dims, randomness, kwargs)


def at_once(
    func: Callable, size: int, dims: list, flat: list, spec: TreeSpec, out_dims: Any, randomness: str, kwargs: dict
) -> Any:
    with (
        disable_saved_tensors_hooks(
            "torch.func.vmap doesn't yet support saved tensor hooks. Please open an issue with your use case."
        ),
        level(VMAP, size, randomness) as at,
    ):
        args = tree_unflatten([put(v, d, at) for v, d in zip(flat, dims, strict=True)], spec)
        named = tree_map(lambda v: put(v, 0, at) if isinstance(v, Tensor) else v, kwargs)
        return results_of(func(*args, **named), out_dims, at, size, func)


def put(value: Any, dim: int | None, at: int) -> Any:
    return value if dim is None else _C._wrap_level(value, at, dim)


# ---- what goes in ------------------------------------------------------------------------------------


def inputs_of(in_dims: Any, args: tuple, func: Callable) -> tuple[int, list, list, TreeSpec]:
    """(batch size, dim of each leaf, leaves, structure)"""
    name = name_of(func)
    if not isinstance(in_dims, int) and not isinstance(in_dims, tuple):
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a (potentially nested) tuple "
            f"matching the structure of inputs, got: {type(in_dims)}."
        )
    if len(args) == 0:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function "
            "with no inputs. The latter is unsupported."
        )
    flat, spec = tree_flatten(args)
    dims = _broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the structure of `inputs`. "
            f"in_dims has structure {tree_flatten(in_dims)[1]} but inputs has structure {spec}."
        )
    dims = [checked_dim(v, d, in_dims, name) for v, d in zip(flat, dims, strict=True)]
    sizes = [v.shape[d] for v, d in zip(flat, dims, strict=True) if d is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(n != sizes[0] for n in sizes):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped dimension"
        )
    return sizes[0], dims, flat, spec


def checked_dim(value: Any, dim: Any, in_dims: Any, name: str) -> int | None:
    where = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for"
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueError(f"{where} an input but in_dim must be either an integer dimension or None.")
    if not isinstance(value, Tensor):
        raise ValueError(
            f"{where} an input but the input is of type {type(value)}. We cannot vmap over non-Tensor arguments, please use None "
            "as the respective in_dim"
        )
    n = value.ndim
    if not -n <= dim < n:
        raise ValueError(
            f"{where} some input, but that input is a Tensor of dimensionality {n} so expected in_dim to satisfy -{n} <= in_dim < {n}."
        )
    return dim % n


# ---- what comes out ----------------------------------------------------------------------------------


def check_out_dims(out_dims: Any, func: Callable) -> None:
    if isinstance(out_dims, int) or out_dims is None:
        return
    if any(not isinstance(d, int) and d is not None for d in tree_flatten(out_dims)[0]):
        raise ValueError(
            f"vmap({name_of(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints "
            "representing where in the outputs the vmapped dimension should appear."
        )


def results_of(outputs: Any, out_dims: Any, at: int, size: int, func: Callable) -> Any:
    flat, spec = tree_flatten(outputs)
    dims = dims_of_results(out_dims, flat, spec, func)
    return tree_unflatten([take(v, d, at, size, func) for v, d in zip(flat, dims, strict=True)], spec)


def dims_of_results(out_dims: Any, flat: list, spec: TreeSpec, func: Callable) -> list:
    if isinstance(out_dims, int) or out_dims is None:
        return [out_dims] * len(flat)
    single = len(flat) == 1 and spec.is_leaf()
    if single and isinstance(out_dims, tuple) and len(out_dims) == 1:
        return list(out_dims)
    dims = _broadcast_to_and_flatten(out_dims, spec)
    if dims is None:
        raise ValueError(
            f"vmap({name_of(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of `outputs`. "
            f"out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure {spec}."
        )
    return dims


def take(value: Any, out_dim: int | None, at: int, size: int, func: Callable) -> Any:
    """A result with its batch dim at out_dim."""
    found = _C._unwrap_level(value, at)
    if out_dim is None:
        if found is not None:
            raise ValueError(
                f"vmap({name_of(func)}, ...): `{name_of(func)}` can not return a BatchedTensor when out_dim is None"
            )
        return value
    if not isinstance(value, Tensor):
        raise ValueError(
            f"vmap({name_of(func)}, ...): `{name_of(func)}` must only return Tensors, got type {type(value)}. Did you mean to set "
            "out_dims= to None for output?"
        )
    n = value.ndim + 1
    if not -n <= out_dim < n:
        raise IndexError(
            f"[vmap] Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {out_dim})"
        )
    if found is None:
        where = out_dim % n
        return _C._outside(at, lambda: value.expand([size, *value.shape]).movedim(0, where))
    inner, dim = found
    return inner if dim == out_dim % n else _C._outside(at, lambda: inner.movedim(dim, out_dim))


# ---- some samples at a time --------------------------------------------------------------------------


def chunked(
    func: Callable,
    dims: list,
    flat: list,
    spec: TreeSpec,
    out_dims: Any,
    randomness: str,
    chunk: int,
    size: int,
    kwargs: dict,
) -> Any:
    if size == 0 or chunk >= size:
        return at_once(func, size, dims, flat, spec, out_dims, randomness, kwargs)
    state = _C.default_generator.get_state() if randomness == "same" else None
    pieces, structure = [], None
    for start in range(0, size, chunk):
        n = min(chunk, size - start)
        part = [v if d is None else v.narrow(d, start, n) for v, d in zip(flat, dims, strict=True)]
        if state is not None:
            _C.default_generator.set_state(state)
        found, structure = tree_flatten(at_once(func, n, dims, part, spec, out_dims, randomness, kwargs))
        pieces.append(found)
    assert structure is not None
    where = dims_of_results(out_dims, pieces[0], structure, func)
    return tree_unflatten([joined(p, d) for p, d in zip(zip(*pieces, strict=True), where, strict=True)], structure)


def joined(pieces: tuple, dim: int | None) -> Any:
    return pieces[0] if dim is None else _C.cat(list(pieces), dim)
