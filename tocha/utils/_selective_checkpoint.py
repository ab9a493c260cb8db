"""Selective checkpointing: which operators of a checkpointed region are kept, and which backward computes again.

`tocha.utils.checkpoint` shows these names; they need dispatch modes, which stand above it.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C
from tocha._ops import OpOverload, ops
from tocha.utils import _pytree as pytree
from tocha.utils._python_dispatch import TorchDispatchMode

Tensor = _C.Tensor


class CheckpointPolicy(enum.Enum):
    """What is asked for an operator's results; compilers may decide otherwise where it says `prefer`.

    >>> [policy.name for policy in tocha.utils.checkpoint.CheckpointPolicy]
    ['MUST_SAVE', 'PREFER_SAVE', 'MUST_RECOMPUTE', 'PREFER_RECOMPUTE', 'MUST_CPU_OFFLOAD', 'PREFER_CPU_OFFLOAD']
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


# Operators that policies are not asked about; programs may add others. Questions about sizes never come this far.
SAC_IGNORED_OPS = {ops.aten.detach.default}
SAVED = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)


class SelectiveCheckpointContext:
    """What a policy is told besides the operator: what that gave. Policies are asked in the first run alone, so that
    `is_recompute` is always False.

    >>> def policy(ctx, op, *args, **kwargs):
    ...     print(type(ctx).__name__, ctx.op_output.shape)
    ...     return tocha.utils.checkpoint.CheckpointPolicy.PREFER_RECOMPUTE
    >>> from functools import partial
    >>> x = tocha.ones(2, requires_grad=True)
    >>> contexts = partial(tocha.utils.checkpoint.create_selective_checkpoint_contexts, policy)
    >>> y = tocha.utils.checkpoint.checkpoint(tocha.exp, x, use_reentrant=False, context_fn=contexts)
    SelectiveCheckpointContext tocha.Size([2])
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None):
        self.is_recompute, self.op_output = is_recompute, op_output


NOT_KEPT, TAKEN = object(), object()  # stand for what is computed again, and for what was kept for one backward


def asked(policy_fn: Callable, out: Any, func: Any, args: tuple, kwargs: dict[str, Any]) -> CheckpointPolicy:
    """What a policy says of a call; True and False are must-save and prefer-recompute."""
    found = policy_fn(SelectiveCheckpointContext(is_recompute=False, op_output=out), func, *args, **kwargs)
    if isinstance(found, bool):
        return CheckpointPolicy.MUST_SAVE if found else CheckpointPolicy.PREFER_RECOMPUTE
    return found


def is_free(func: Any) -> bool:
    """Operators that nothing has to be kept of: they show what is there."""
    return func in SAC_IGNORED_OPS or func is ops.aten.alias.default


class _CachingTorchDispatchMode(TorchDispatchMode):
    """The first run: keeps what the policy says."""

    def __init__(self, policy_fn: Callable, storage: dict[Any, list[Any]]):
        super().__init__()
        self.policy_fn, self.storage = policy_fn, storage

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not is_free(func):
            kept = asked(self.policy_fn, out, func, args, kwargs or {}) in SAVED
            entry = pytree.tree_map_only(Tensor, lambda t: (t.detach(), t._version), out) if kept else NOT_KEPT
            self.storage[func].append(entry)
        return out


class _CachedTorchDispatchMode(TorchDispatchMode):
    """The second run: takes what was kept, call by call, and computes the rest."""

    def __init__(self, storage: dict[Any, list[Any]], allow_cache_entry_mutation: bool):
        super().__init__()
        self.storage, self.allows_writes = storage, allow_cache_entry_mutation

    def __enter__(self) -> Any:
        self.calls: Counter[Any] = Counter()
        return super().__enter__()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        if is_free(func):
            return func(*args, **(kwargs or {}))
        entries, at = self.storage[func], self.calls[func]
        if at >= len(entries):
            raise RuntimeError(f"{func} encountered during backward but not found in storage")
        self.calls[func] += 1
        entry = entries[at]
        if entry is NOT_KEPT:
            return func(*args, **(kwargs or {}))
        if entry is TAKEN:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under selective "
                "activation checkpoint."
            )
        entries[at] = TAKEN
        return pytree.tree_map(self.taken, entry, is_leaf=is_kept)

    def taken(self, entry: Any) -> Any:
        if not is_kept(entry):
            return entry
        t, version = entry
        if t._version != version and not self.allows_writes:
            raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
        return t


def is_kept(entry: Any) -> bool:
    return isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], Tensor) and isinstance(entry[1], int)


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable | Sequence[Any], allow_cache_entry_mutation: bool = False
) -> tuple[TorchDispatchMode, TorchDispatchMode]:
    """The contexts for `checkpoint(..., context_fn=...)` of a policy, or of a list of operators whose results are kept.

    >>> import functools, tocha
    >>> from tocha.utils.checkpoint import checkpoint
    >>> x = tocha.ones(2, 2, requires_grad=True)
    >>> kept = functools.partial(create_selective_checkpoint_contexts, [tocha.ops.aten.mm.default])
    >>> checkpoint(lambda t: (t @ t).sin(), x, use_reentrant=False, context_fn=kept).sum().backward()
    >>> x.grad
    tensor([[-1.6646, -1.6646],
            [-1.6646, -1.6646]])
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, OpOverload):
                extra = (
                    "Please update the OpOverloadPacket to a specific OpOverload."
                    f"For example, if you have `{op}`, change it to `{op}.default`."
                    if hasattr(op, "overloads")
                    else ""
                )
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}. {extra}"
                )
        kept = list(policy_fn_or_list)

        def policy_fn(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            return CheckpointPolicy.MUST_SAVE if op in kept else CheckpointPolicy.PREFER_RECOMPUTE

    elif callable(policy_fn_or_list):
        policy_fn = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage: dict[Any, list[Any]] = defaultdict(list)
    return (
        _CachingTorchDispatchMode(policy_fn, storage),
        _CachedTorchDispatchMode(storage, allow_cache_entry_mutation),
    )
