"""How much memory a part of a compiled program may spend on what its backward reads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tocha._core.on_demand import Later

_utils, traceback = Later("tocha._utils"), Later("tocha.fx.traceback")
BUDGET = "activation_memory_budget"


@contextlib.contextmanager
def region_activation_memory_budget(budget: float) -> Iterator[None]:
    """In compiled code: 0.0 keeps of the block only what backward cannot compute again, 1.0 what costs the least time.

    It holds for whole graphs: all that is computed in one stands in such blocks, of one budget.

    >>> def f(x):
    ...     with tocha.autograd.graph.region_activation_memory_budget(0.0):
    ...         return x.sin().exp().sum()
    >>> x = tocha.zeros(2, requires_grad=True)
    >>> tocha.compile(f, backend="aot_eager")(x).backward()
    >>> x.grad
    tensor([1., 1.])
    """
    if not 0 <= budget <= 1:
        raise ValueError(f"[region_activation_memory_budget] must be in [0, 1], got {budget}")
    if not _utils.is_captured():
        raise RuntimeError(
            "[region_activation_memory_budget] can only be used inside a tocha.compile region; it has no effect in eager mode"
        )
    with traceback.annotate({BUDGET: budget}):
        yield
