"""Passes over functional graphs of operators (what `make_fx`, functionalization and ahead-of-time autograd give), run from one list.

>>> import tocha
>>> from tocha.fx.experimental.proxy_tensor import make_fx
>>> def f(x):
...     return x.double().float() + x.t().t() * (x.exp() + x.exp())
>>> module = make_fx(f, tracing_mode="fake")(tocha.ones(2, 2))
>>> for step in simplify(module):
...     if step.changed:
...         print(step.name, step.changed)
common_subexpressions 1
view_chains 1
cancelling_casts 1
>>> print(module.code.strip())
def forward(self, x_1):
    exp = tocha.ops.aten.exp.default(x_1)
    add = tocha.ops.aten.add.Tensor(exp, exp);  exp = None
    mul = tocha.ops.aten.mul.Tensor(x_1, add);  add = None
    add_1 = tocha.ops.aten.add.Tensor(x_1, mul);  x_1 = mul = None
    return add_1
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tocha.fx.graph_module import GraphModule
from tocha.fx.passes.functional.constants import constant_folding
from tocha.fx.passes.functional.patterns import ATTENTION, BATCH_NORM, LINEAR, apply_table
from tocha.fx.passes.functional.simplify import cancelling_casts, common_subexpressions, dead_code, no_ops, view_chains
from tocha.fx.passes.functional.verify import NotFunctional, verify

__all__ = ["PASSES", "NotFunctional", "Step", "simplify", "verify"]

Pass = Callable[[GraphModule], int]

# In order. Removing duplicates first lets patterns see that a value has one reader.
PASSES: tuple[tuple[str, Pass], ...] = (
    ("dead_code", dead_code),
    ("common_subexpressions", common_subexpressions),
    ("no_ops", no_ops),
    ("view_chains", view_chains),
    ("cancelling_casts", cancelling_casts),
    ("attention", partial(apply_table, table=ATTENTION)),
    ("linear", partial(apply_table, table=LINEAR)),
    ("batch_norm", partial(apply_table, table=BATCH_NORM)),
    ("constant_folding", constant_folding),
    # Folding and patterns leave duplicates and copies behind.
    ("common_subexpressions", common_subexpressions),
    ("no_ops", no_ops),
    ("dead_code", dead_code),
)


@dataclass(frozen=True)
class Step:
    """One pass over one graph: how many things it changed, and how long it took."""

    name: str
    changed: int
    seconds: float


def simplify(module: GraphModule, passes: Sequence[tuple[str, Pass]] = PASSES, check: bool = False) -> list[Step]:
    """Runs passes over a functional graph, in place. With `check` the verifier looks at the graph after each of them."""
    if check:
        verify(module)
    steps = []
    for name, run in passes:
        start = time.perf_counter()
        changed = run(module)
        steps.append(Step(name, changed, time.perf_counter() - start))
        if check:
            try:
                verify(module, values=True)
            except RuntimeError as e:
                raise NotFunctional(f"[{name}] {e}") from e
    module.recompile()
    return steps
