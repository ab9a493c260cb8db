"""Jacobians and Hessians: vjp or jvp mapped over a basis."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tocha import _C
from tocha._functorch.eager_transforms import checked_argnums, chosen, jvp_impl, vjp_impl
from tocha._functorch.vmap import check_randomness, vmap
from tocha.autograd.functional import _basis as basis
from tocha.utils._pytree import tree_flatten, tree_unflatten

Tensor = _C.Tensor


def refuse_complex(name: str, tree: Any, is_input: bool) -> None:
    for t in tree_flatten(tree)[0]:
        if isinstance(t, Tensor) and t.is_complex():
            what = "inputs" if is_input else "outputs"
            raise RuntimeError(
                f"{name}: Expected all {what} to be real but received complex tensor at flattened input idx: 0"
            )


def jacrev(
    func: Callable,
    argnums: Any = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable:
    """The Jacobian of a function by reverse mode: one row per element of the result, all at once.

    >>> import tocha
    >>> from tocha.func import jacrev
    >>> jacrev(tocha.sin)(tocha.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def jacobian(*args: Any) -> Any:
        return jacrev_impl(func, argnums, has_aux, chunk_size, args)

    return jacobian


def jacrev_impl(func: Callable, argnums: Any, has_aux: bool, chunk_size: int | None, args: tuple) -> Any:
    refuse_complex("jacrev", args, True)
    found = vjp_impl(func, args, argnums, has_aux)
    output, pull_back = found[0], found[1]
    flat, out_spec = tree_flatten(output)
    refuse_complex("jacrev", output, False)
    places = checked_argnums(argnums, len(args))
    primals = chosen(args, places)
    flat_primals, in_spec = tree_flatten(primals)
    rows = pulled(pull_back, flat, out_spec, chunk_size)
    whole = tree_unflatten(split_by_output(rows, flat, flat_primals, in_spec), out_spec)
    return (whole, found[2]) if has_aux else whole


def pulled(pull_back: Callable, outputs: list[Tensor], spec: Any, chunk: int | None) -> list[Tensor]:
    """Gradients for each unit vector of the results, by leaf of the arguments."""

    def back(*cotangents: Tensor) -> list[Tensor]:
        return tree_flatten(pull_back(tree_unflatten(list(cotangents), spec)))[0]

    total = sum(t.numel() for t in outputs)
    if chunk is None or chunk >= total:
        return list(vmap(back)(*basis(outputs)))
    pieces = []
    for start in range(0, total, chunk):
        part = basis(outputs, start, min(start + chunk, total))
        if chunk == 1:
            pieces.append([g.unsqueeze(0) for g in back(*(p.squeeze(0) for p in part))])
        else:
            pieces.append(list(vmap(back)(*part)))
    return [_C.cat(list(p)) for p in zip(*pieces, strict=True)]


def split_by_output(rows: list[Tensor], outputs: list[Tensor], primals: list[Tensor], in_spec: Any) -> list[Any]:
    """For each result its rows of every argument's gradients, in the shapes of both."""
    sizes = [t.numel() for t in outputs]
    parts = [r.split(sizes, 0) for r in rows]
    found = []
    for i, out in enumerate(outputs):
        each = [p[i].reshape([*out.shape, *x.shape]) for p, x in zip(parts, primals, strict=True)]
        found.append(tree_unflatten(each, in_spec))
    return found


def jacfwd(func: Callable, argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error") -> Callable:
    """The Jacobian of a function by forward mode: one column per element of the arguments, all at once.

    >>> import tocha
    >>> from tocha.func import jacfwd
    >>> jacfwd(lambda x: x**2)(tocha.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    check_randomness(randomness)

    @functools.wraps(func)
    def jacobian(*args: Any) -> Any:
        return jacfwd_impl(func, argnums, has_aux, randomness, args)

    return jacobian


def jacfwd_impl(func: Callable, argnums: Any, has_aux: bool, randomness: str, args: tuple) -> Any:
    refuse_complex("jacfwd", args, True)
    places = checked_argnums(argnums, len(args))
    primals = chosen(args, places)
    flat_primals, in_spec = tree_flatten(primals)
    if not all(isinstance(p, Tensor) for p in flat_primals):
        raise RuntimeError("jacfwd: Expected the arguments that are differentiated by to be Tensors")

    def push(*tangents: Tensor) -> Any:
        given = tree_unflatten(list(tangents), in_spec)
        moved = jvp_impl(func, args, (given,) if isinstance(places, int) else given, places, False, has_aux)
        return (moved[1], moved[0], moved[2]) if has_aux else (moved[1], moved[0])

    dims: tuple = (0, None, None) if has_aux else (0, None)
    found = vmap(push, out_dims=dims, randomness=randomness)(*basis(flat_primals))
    columns, output = found[0], found[1]
    refuse_complex("jacfwd", output, False)
    flat, out_spec = tree_flatten(columns)
    flat_outputs = tree_flatten(output)[0]
    sizes = [p.numel() for p in flat_primals]
    rows = []
    for c, out in zip(flat, flat_outputs, strict=True):
        each = [
            part.movedim(0, -1).reshape([*out.shape, *p.shape])
            for part, p in zip(c.split(sizes, 0), flat_primals, strict=True)
        ]
        rows.append(tree_unflatten(each, in_spec))
    whole = tree_unflatten(rows, out_spec)
    return (whole, found[2]) if has_aux else whole


def hessian(func: Callable, argnums: Any = 0) -> Callable:
    """Second derivatives: forward mode over reverse mode.

    >>> import tocha
    >>> from tocha.func import hessian
    >>> hessian(lambda x: (x**3).sum())(tocha.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
