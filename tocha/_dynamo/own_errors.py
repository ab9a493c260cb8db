"""Whose error is it? An operator that refuses its arguments raises the program's error; a rule of facts that is wrong raises ours.

The operator itself knows: it is run once on real tensors of the same geometry. Where it takes them the rule was wrong.
"""

from __future__ import annotations

from typing import Any

import tocha
from tocha._core.library_name import ours
from tocha._dynamo.exc import InternalTorchDynamoError
from tocha._dynamo.values.constant import is_plain
from tocha._subclasses.fake import FakeTensor
from tocha.fx.experimental.symbolic_shapes import free_symbols
from tocha.utils._pytree import tree_flatten, tree_map

_MOST_ELEMENTS = 1 << 20
_ACCIDENTS = (NameError, AttributeError, TypeError, LookupError, ValueError, AssertionError, ArithmeticError)


def check(error: Exception, op: str, target: Any, args: tuple, kwargs: dict) -> None:
    """Raises an internal error where the operator would have taken these arguments."""
    if not isinstance(error, _ACCIDENTS) or not is_of_library(target):
        return
    if isinstance(error, NameError) or takes(op, target, args, kwargs):
        raise defect(error, target) from error


def is_of_library(target: Any) -> bool:
    """A method, or a function that is not the program's."""
    name = ours(getattr(target, "__module__", None) or type(target).__module__)
    return isinstance(target, str) or name.partition(".")[0] in ("tocha", "_operator", "builtins")


def takes(op: str, target: Any, args: tuple, kwargs: dict) -> bool:
    """Whether the operator runs on real tensors like these."""
    if not can_be_run(args, kwargs):
        return False
    try:
        run(op, target, args, kwargs)
    except Exception:
        return False
    return True


def can_be_run(args: tuple, kwargs: dict) -> bool:
    leaves = tree_flatten((args, kwargs))[0]
    tensors = [leaf for leaf in leaves if isinstance(leaf, FakeTensor)]
    if any(not is_plain(leaf) and not isinstance(leaf, FakeTensor | slice) for leaf in leaves) or free_symbols(tensors):
        return False
    return all(t.device.type == "cpu" and extent(t) < _MOST_ELEMENTS for t in tensors)


def extent(tensor: Any) -> int:
    return 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride())) if tensor.numel() else 0


def run(op: str, target: Any, args: tuple, kwargs: dict) -> None:
    """The call on tensors of ones, with the generator of random numbers left as it was."""
    state = tocha.get_rng_state()
    try:
        with tocha.no_grad():
            args, kwargs = tree_map(real, args), tree_map(real, kwargs)
            (getattr(args[0], target)(*args[1:], **kwargs) if op == "call_method" else target(*args, **kwargs))
    finally:
        tocha.set_rng_state(state)


def real(leaf: Any) -> Any:
    if not isinstance(leaf, FakeTensor):
        return leaf
    return tocha.empty_strided(tuple(leaf.shape), leaf.stride(), dtype=leaf.dtype).fill_(1)


def defect(error: Exception, target: Any) -> InternalTorchDynamoError:
    shown = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    return InternalTorchDynamoError(
        f"[capture] what is known of {shown}'s result could not be computed: {type(error).__name__}: {error}"
    )
