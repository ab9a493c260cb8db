"""vmap: a function of one sample becomes a function of a batch.

Its steps have PyTorch's names and arguments (`_process_batched_inputs`, `_create_batched_inputs`, `_unwrap_batched`): packages put others in
their place, for containers of tensors of their own. A level is said by its number, counted from 1 for the outermost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tocha import _C
from tocha._functorch import custom_functions
from tocha._functorch.levels import RANDOMNESS, VMAP, depth, id_of, level
from tocha.autograd._saved_hooks import disable_saved_tensors_hooks
from tocha.utils._pytree import TreeSpec, _broadcast_to_and_flatten, tree_flatten, tree_unflatten

Tensor = _C.Tensor


custom_functions.install()


def _get_name(func: Callable) -> str:
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
    size, dims, flat, spec = _process_batched_inputs(in_dims, args, func)
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
        level(VMAP, size, randomness),
    ):
        number = depth()
        args = _create_batched_inputs(dims, flat, number, spec)
        return _unwrap_batched(func(*args, **kwargs), out_dims, number, size, func)


# ---- what goes in ------------------------------------------------------------------------------------


def _process_batched_inputs(in_dims: Any, args: tuple, func: Callable) -> tuple[int, list, list, TreeSpec]:
    """(batch size, dim of each leaf, leaves, structure)"""
    name = _get_name(func)
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


def _add_batch_dim(tensor: Any, in_dim: int, level: int) -> Any:
    """A tensor as a batch of the level: what the function is given."""
    return _C._wrap_level(tensor, id_of(level), in_dim)


def _create_batched_inputs(flat_in_dims: list, flat_args: list, vmap_level: int, args_spec: TreeSpec) -> Any:
    at = id_of(vmap_level)
    values = zip(flat_args, flat_in_dims, strict=True)
    return tree_unflatten([v if d is None else _C._wrap_level(v, at, d) for v, d in values], args_spec)


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
            f"vmap({_get_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints "
            "representing where in the outputs the vmapped dimension should appear."
        )


def _unwrap_batched(batched_outputs: Any, out_dims: Any, vmap_level: int, batch_size: int, func: Callable) -> Any:
    flat, spec = tree_flatten(batched_outputs)
    dims = dims_of_results(out_dims, flat, spec, func)
    name, at = _get_name(func), id_of(vmap_level)
    return tree_unflatten([take(name, v, at, batch_size, d) for v, d in zip(flat, dims, strict=True)], spec)


def _maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    """A result with its batch dim at out_dim; as it is where that is None."""
    return take(name, batched_output, id_of(vmap_level), batch_size, out_dim)


def _remove_batch_dim(tensor: Any, level: int, batch_size: int, out_dim: int) -> Any:
    """The batch that a tensor of the level stands for, along out_dim."""
    return take("vmap", tensor, id_of(level), batch_size, out_dim)


def dims_of_results(out_dims: Any, flat: list, spec: TreeSpec, func: Callable) -> list:
    if isinstance(out_dims, int) or out_dims is None:
        return [out_dims] * len(flat)
    single = len(flat) == 1 and spec.is_leaf()
    if single and isinstance(out_dims, tuple) and len(out_dims) == 1:
        return list(out_dims)
    dims = _broadcast_to_and_flatten(out_dims, spec)
    if dims is None:
        raise ValueError(
            f"vmap({_get_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of `outputs`. "
            f"out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure {spec}."
        )
    return dims


def take(name: str, value: Any, at: int, size: int, out_dim: int | None) -> Any:
    found = _C._unwrap_level(value, at)
    if out_dim is None:
        if found is not None:
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return value
    if not isinstance(value, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(value)}. Did you mean to set "
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
