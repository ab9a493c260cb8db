"""Comparisons of a graph with what a backend makes of it."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from typing import Any

import tocha
from tocha._dynamo.comparing import clone_inputs, same
from tocha._dynamo.testing import reduce_to_scalar_loss, requires_bwd_pass

__all__ = [
    "AccuracyError", "backend_accuracy_fails", "cast_to", "cast_to_fp64", "clone_inputs_retaining_gradness", "run_fwd_maybe_bwd",
    "same_two_models",
]  # fmt: skip

log = logging.getLogger(__name__)


class AccuracyError(Exception):
    """What was compiled returns something else."""


def clone_inputs_retaining_gradness(example_inputs: Sequence[Any]) -> list[Any]:
    """Copies that require gradients where the originals do, leaves or not."""
    made = clone_inputs(list(example_inputs))
    for given, copied in zip(example_inputs, made):
        if isinstance(given, tocha.Tensor):
            copied.requires_grad_(given.requires_grad)
    return made


def cast_to(dtype: Any, model: Any, inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The model and its inputs, with all that is floating-point in this dtype."""
    cast = [x.to(dtype) if isinstance(x, tocha.Tensor) and x.is_floating_point() else x for x in inputs]
    return model.to(dtype), cast


def cast_to_fp64(model: Any, inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
    return cast_to(tocha.float64, model, inputs)


def run_fwd_maybe_bwd(gm: Any, args: Sequence[Any], only_fwd: bool = False, disable_clone: bool = False) -> Any:
    """What the module returns; with gradients, a list of that, of the parameters' gradients and of the inputs'."""
    if not disable_clone:
        gm, args = copy.deepcopy(gm), clone_inputs_retaining_gradness(args)
    if hasattr(gm, "zero_grad"):
        gm.zero_grad(True)
    out = gm(*args)
    if only_fwd or not requires_bwd_pass(out):
        return out
    reduce_to_scalar_loss(out).backward()
    named = dict(gm.named_parameters()) if hasattr(gm, "named_parameters") else {}
    of_inputs = [x.grad for x in args if isinstance(x, tocha.Tensor) and x.is_leaf]
    return [out, {name: p.grad for name, p in named.items()}, of_inputs]


def same_two_models(
    gm: Any, opt_gm: Any, example_inputs: Sequence[Any], only_fwd: bool = False, *, require_fp64: bool = False,
    ignore_non_fp: bool = False,
) -> bool:  # fmt: skip
    """Do both return the same, gradients included, up to rounding? What float64 returns says how much that may be."""
    ref = run_fwd_maybe_bwd(gm, example_inputs, only_fwd)
    exact = None
    try:
        wide, inputs = cast_to_fp64(copy.deepcopy(gm), clone_inputs_retaining_gradness(example_inputs))
        exact = run_fwd_maybe_bwd(wide, inputs, only_fwd)
    except Exception as error:
        if require_fp64:
            raise RuntimeError(f"Could not generate fp64 outputs: {error}") from error
        log.warning("Could not generate fp64 outputs")
    try:
        res = run_fwd_maybe_bwd(opt_gm, example_inputs, only_fwd)
    except Exception:
        log.exception("While minifying the program in accuracy minification mode, ran into a runtime exception which is likely an unrelated issue. Skipping this graph.")  # fmt: skip
        return True
    return same(ref, res, exact, tol=1e-3, equal_nan=True, ignore_non_fp=ignore_non_fp)


def backend_accuracy_fails(
    gm: Any, example_inputs: Sequence[Any], compiler_fn: Callable[..., Any], only_fwd: bool = False, *,
    require_fp64: bool = False, ignore_non_fp: bool = False,
) -> bool:  # fmt: skip
    """Does what the backend makes of the graph return something else?"""
    compiled = compiler_fn(copy.deepcopy(gm), clone_inputs_retaining_gradness(example_inputs))
    return not same_two_models(
        gm, compiled, example_inputs, only_fwd, require_fp64=require_fp64, ignore_non_fp=ignore_non_fp
    )
