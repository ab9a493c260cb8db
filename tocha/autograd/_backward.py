"""backward and grad: checks of their arguments around the native engine. tocha.autograd exports them."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from typing import Any

from tocha import _C, overrides
from tocha._core.switches import warn_once
from tocha.autograd import graph

Tensor = _C.Tensor


def _as_tuple(value: Any) -> tuple:
    if value is None:
        return ()
    return (value,) if isinstance(value, Tensor | graph.GradientEdge) else tuple(value)


def _starting_grads(outputs: tuple, grads: tuple) -> tuple:
    """The gradients to start from: ones for scalars, given ones as they are."""
    found: list[Tensor | None] = []
    for out, g in zip(outputs, grads, strict=True):
        if isinstance(g, Tensor):
            found.append(g)
            continue
        if g is not None:
            raise TypeError(f"[backward] gradients can be either Tensors or None, but got {type(g).__name__}")
        if isinstance(out, graph.GradientEdge):
            raise RuntimeError(
                "[backward] grad can be implicitly created only for scalar outputs, not for a GradientEdge"
            )
        if not out.requires_grad:
            found.append(None)
            continue
        if out.numel() != 1:
            raise RuntimeError(
                f"[backward] grad can be implicitly created only for scalar outputs, but the output has shape {list(out.shape)}"
            )
        if not out.is_floating_point():
            raise RuntimeError(
                f"[backward] grad can be implicitly created only for real scalar outputs but got {out.dtype}"
            )
        found.append(_C.ones_like(out, memory_format=_C.preserve_format))
    return tuple(found)


_CYCLE = (
    "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient which "
    "can cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this. If you have to use "
    "this function, make sure to reset the .grad fields of your parameters to None after use to break the cycle and "
    "avoid the leak."
)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Adds the gradients of tensors to the grad of the leaves they came from (or of inputs only).

    >>> import tocha
    >>> x = tocha.ones(3, requires_grad=True)
    >>> tocha.autograd.backward([x.sum(), (2 * x).sum()])
    >>> x.grad
    tensor([3., 3., 3.])
    """
    if _C._levels():
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use functorch.grad or functorch.vjp instead "
            "or call backward() outside of functorch transforms."
        )
    if grad_variables is not None:
        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError("[backward] `grad_tensors` and `grad_variables` (deprecated) arguments both passed")
        grad_tensors = grad_variables
    wanted = _as_tuple(inputs)
    if inputs is not None and not wanted:
        raise RuntimeError("[backward] `inputs` argument to `backward` cannot be empty.")
    roots = _as_tuple(tensors)
    grads = _as_tuple(grad_tensors) or (None,) * len(roots)
    if len(grads) != len(roots):
        raise RuntimeError(f"[backward] got {len(roots)} tensors and {len(grads)} gradients")
    starting = _starting_grads(roots, grads)
    keep = create_graph if retain_graph is None else retain_graph
    if create_graph:
        warn_once(_CYCLE)
    _C._backward(roots, starting, keep, create_graph, wanted, True, True)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:
    """The gradients of outputs by inputs, as a tuple; nothing is added to any grad.

    >>> import tocha
    >>> x = tocha.tensor(3.0, requires_grad=True)
    >>> (g,) = tocha.autograd.grad(x**3, x, create_graph=True)
    >>> tocha.autograd.grad(g, x)
    (tensor(18.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "[grad] Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    unused = materialize_grads if allow_unused is None else allow_unused
    roots, wanted = _as_tuple(outputs), _as_tuple(inputs)
    overridable = [t for t in (*roots, *wanted) if isinstance(t, Tensor)]
    if overrides.has_torch_function(overridable):
        return overrides.handle_torch_function(
            grad, overridable, roots, wanted, grad_outputs=grad_outputs, retain_graph=retain_graph, create_graph=create_graph,
            only_inputs=only_inputs, allow_unused=unused, is_grads_batched=is_grads_batched, materialize_grads=materialize_grads,
        )  # fmt: skip
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for other "
            "parts of the graph, please use tocha.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    grads = _as_tuple(grad_outputs) or (None,) * len(roots)
    if len(grads) != len(roots):
        raise RuntimeError(f"[grad] got {len(roots)} outputs and {len(grads)} grad_outputs")
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        return _batched(roots, wanted, grads, keep, create_graph, unused)
    found = _C._backward(roots, _starting_grads(roots, grads), keep, create_graph, wanted, unused, False)
    if materialize_grads:
        found = tuple(
            _C.zeros_like(i, requires_grad=create_graph) if g is None else g for g, i in zip(found, wanted, strict=True)
        )
    return found


def _batched(roots: tuple, wanted: tuple, grads: Sequence, keep: bool, create: bool, unused: bool) -> tuple:
    """One backward for all rows of the given gradients at once: a vmap of it."""
    vmap = importlib.import_module("tocha.func").vmap
    reached: list[bool] = []

    def one(*rows: Tensor) -> tuple:
        found = _C._backward(roots, _starting_grads(roots, rows), keep, create, wanted, unused, False)
        reached[:] = [g is not None for g in found]
        return tuple(g for g in found if g is not None)

    if not any(isinstance(g, Tensor) for g in grads):
        return _C._backward(roots, _starting_grads(roots, tuple(grads)), keep, create, wanted, unused, False)
    dims = tuple(0 if isinstance(g, Tensor) else None for g in grads)
    found = iter(vmap(one, in_dims=dims, randomness="error")(*grads))
    return tuple(next(found) if there else None for there in reached)
