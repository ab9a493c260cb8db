"""Copies of what programs are called with, and comparisons of what they return."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tocha

log = logging.getLogger("tocha._dynamo.utils")
SMALL = 1000  # elements: of so few the error is a matter of chance


def _is_sequence(x: Any) -> bool:
    return isinstance(x, (list, tuple, deque, tocha.nn.ParameterList))


def clone_tensor(x: Any) -> Any:
    """A copy, with a copy of its gradient."""
    made = x.clone().requires_grad_(x.requires_grad)
    if x.is_leaf and x.grad is not None:
        made.grad = x.grad.clone()
    return made


def clone_input(x: Any, *, dtype: Any = None) -> Any:
    """A copy of the same strides, which requires gradients if it is a leaf that does; what overlaps itself becomes contiguous."""
    with tocha.no_grad():
        if x.layout is not tocha.strided or 0 in x.stride() or x.device.type == "meta":
            made = tocha.clone(x) if dtype is None else x.to(dtype, copy=True)
            made = made.contiguous() if x.layout is tocha.strided else made
        else:
            made = tocha.empty_strided(x.shape, x.stride(), dtype=dtype or x.dtype, device=x.device)
            made.copy_(x)
        if x.is_leaf:
            made.requires_grad_(x.requires_grad)
            if x.grad is not None:
                made.grad = clone_input(x.grad, dtype=dtype)
        return made


def clone_inputs(example_inputs: Any) -> Any:
    """Copies of the tensors of a dict or a list; what else is in a list stays."""
    if type(example_inputs) is dict:
        for value in example_inputs.values():
            if not isinstance(value, tocha.Tensor):
                raise AssertionError(f"Expected value to be a torch.Tensor, got {type(value)}")
        return {name: clone_input(value) for name, value in example_inputs.items()}
    return [clone_input(x) if isinstance(x, tocha.Tensor) else x for x in example_inputs]


def rmse(ref: Any, res: Any) -> Any:
    """The root of the mean square of the difference.

    >>> rmse(tocha.tensor([1.0, 2.0]), tocha.tensor([1.0, 4.0]))
    tensor(1.4142)
    """
    return tocha.sqrt(tocha.mean(tocha.square(ref - res)))


@contextlib.contextmanager
def preserve_rng_state() -> Iterator[None]:
    """What is drawn in the block does not move the generator."""
    with tocha.random.fork_rng(devices=()):
        yield


def checkpoint_params(gm: Any) -> Callable[[], None]:
    """Keeps parameters, buffers and the generator as they are now; what it returns puts them back."""
    state = tocha.get_rng_state()
    kept = [(p, p._version, p.detach().clone()) for p in (*gm.parameters(), *gm.buffers())]

    def restore() -> None:
        with tocha.no_grad():
            tocha.set_rng_state(state)
            for p, version, value in kept:
                if p._version != version:
                    p.copy_(value)

    return restore


def timed(model: Any, example_inputs: Iterable[Any], times: int = 1) -> tuple[Any, float]:
    """What the last of so many calls returns, and their seconds, with the same random numbers."""
    given = list(example_inputs)
    tocha.manual_seed(1337)
    began = time.perf_counter()
    result = None
    for _ in range(times):
        result = model(*given)
    return result, time.perf_counter() - began


def _parts(structure: Any, keys: Any) -> Iterator[tuple[Any, Any]]:
    for key in keys:
        yield key, None if structure is None else structure[key]


def _tensors_same(ref: Any, res: Any, exact: Any, cos_similarity: bool, tol: float, equal_nan: bool, told: Any) -> bool:
    """Within the tolerance; or, of two roundings of one value, about as far from it as each other."""
    ref, res = (t.to_dense() if t.layout is not tocha.strided else t for t in (ref, res))
    if ref.dtype is tocha.bool:
        return bool((ref == res).all())
    wide = tocha.complex128 if ref.dtype.is_complex or res.dtype.is_complex else tocha.float64
    if cos_similarity:
        a, b = (tocha.nan_to_num(t.to(wide)).flatten() for t in (ref, res))
        if a.allclose(b, atol=tol, rtol=0):
            return True
        likeness = float(tocha.nn.functional.cosine_similarity(a, b, dim=0, eps=1e-6))
        if likeness < 0.99:
            told(f"Similarity score={likeness}")
        return likeness >= 0.99
    if ref.dtype != res.dtype:
        ref, res = ref.to(wide), res.to(wide)
    if tocha.allclose(ref, res, atol=tol, rtol=tol, equal_nan=equal_nan):
        return True
    if isinstance(exact, tocha.Tensor) and exact.is_floating_point():
        ref_error, res_error = (float(rmse(exact, t).detach()) for t in (ref, res))
        few = ref.numel() <= SMALL or ref.dtype in (tocha.float16, tocha.bfloat16)
        allowed = (3.0 if few else 2.0) * ref_error + tol / 10
        passes = res_error <= allowed or (equal_nan and res_error != res_error and ref_error != ref_error)
        if not passes:
            told(f"RMSE (res-fp64): {res_error:.5f}, (ref-fp64): {ref_error:.5f} and shape={res.size()}. res.dtype: {res.dtype}, multiplier: {3.0 if few else 2.0}, tol: {tol}")  # fmt: skip
        return passes
    told(f"Accuracy failed: allclose not within tol={tol}")
    return False


def same(
    ref: Any, res: Any, fp64_ref: Any = None, cos_similarity: bool = False, tol: float = 1e-4, equal_nan: bool = False,
    exact_dtype: bool = True, relax_numpy_equality: bool = False, ignore_non_fp: bool = False,
    log_error: Callable[..., None] = log.error, **others: Any,
) -> bool:  # fmt: skip
    """Are two structures of tensors and plain values equal, up to a tolerance?

    With `fp64_ref`, the same result in float64, tensors beyond it are still the same if both are about as far from that.

    >>> same([tocha.ones(2), 1], [tocha.ones(2) + 1e-6, 1])
    True
    """
    if others.keys() - {"use_larger_multiplier_for_smaller_tensor", "force_max_multiplier"}:
        raise NotImplementedError(f"[same] arguments that are not supported: {', '.join(others)}")

    def inner(a: Any, b: Any, exact: Any) -> bool:
        return same(
            a, b, exact, cos_similarity, tol, equal_nan, exact_dtype, relax_numpy_equality, ignore_non_fp, log_error
        )

    if _is_sequence(ref):
        if not _is_sequence(res) or len(ref) != len(res):
            return False
        exact = [None] * len(ref) if fp64_ref is None else fp64_ref
        return all(inner(a, b, e) for a, b, e in zip(ref, res, exact))
    if isinstance(ref, dict):
        if not isinstance(res, dict) or ref.keys() != res.keys():
            raise AssertionError(f"keys mismatch {set(ref)} == {set(res) if isinstance(res, dict) else res}")
        return all(inner(ref[k], res[k], e) for k, e in _parts(fp64_ref, sorted(ref, key=str)))
    if isinstance(ref, (set, frozenset)):
        if ref != res:
            raise AssertionError(f"elements mismatch {ref} == {res}")
        return True
    if isinstance(ref, (tocha.Tensor, float)):
        if isinstance(ref, float) and not isinstance(res, tocha.Tensor):
            a, b = tocha.tensor(ref, dtype=tocha.float64), tocha.tensor(res, dtype=tocha.float64)
            return _tensors_same(a, b, None, cos_similarity, tol, equal_nan, log_error)
        if not isinstance(res, tocha.Tensor):
            res = tocha.tensor(res)
        ref = tocha.tensor(ref) if isinstance(ref, float) else ref
        if exact_dtype and ref.dtype != res.dtype:
            log_error(f"dtype mismatch {ref.dtype}, {res.dtype}")
            return False
        if ignore_non_fp and not ref.is_floating_point():
            return True
        return _tensors_same(ref, res, fp64_ref, cos_similarity, tol, equal_nan, log_error)
    if ref is None or isinstance(ref, (str, int, tocha.device)):
        return bool(ref is res or ref == res) if not isinstance(res, tocha.Tensor) or ref is not None else False
    if type(ref).__module__ == "numpy":
        equal: Any = ref == res
        return bool(equal.all() if hasattr(equal, "all") else equal)
    raise RuntimeError(f"unsupported type: {type(ref).__name__}")
