"""What it costs to know without computing: a record's facts on ints, and chains of records over symbols.

PyTorch's side are its fake tensors, which are asked the same. Targets are seconds, so they are shown beside the ratio.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tocha.ir import dtypes as dt
from tocha.ir.shape_env import ShapeEnv
from tocha.operators import families
from tocha.operators.facts import Facts
from tocha.operators.interpreter import Interpreter

NODES, SYMBOLS = 2000, 10


def symbolic_facts(env: ShapeEnv, sizes: tuple[int, ...]) -> Facts:
    symbols = [env.create_symintnode(env.create_symbol(n, f"n{i}"), hint=n) for i, n in enumerate(sizes)]
    return Facts(symbols, dt.float32)


def least(f: Callable[[], object], calls: int, rounds: int = 7) -> float:
    """Seconds per call of this process, whatever else the machine does."""
    f()
    found = []
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(calls):
            f()
        found.append((time.process_time() - start) / calls)
    return min(found)


def of_one_call() -> list[tuple[str, float, float]]:
    """Name, our seconds, PyTorch's."""
    a, b, row = Facts((3, 4), dt.float32), Facts((3, 4), dt.float32), Facts((4,), dt.float32)
    with FakeTensorMode():
        x, y, z = torch.empty(3, 4), torch.empty(3, 4), torch.empty(4)
    pairs = [
        ("add of one shape", lambda: a + b, lambda: x + y),
        ("add of a number", lambda: a + 1, lambda: x + 1),
        ("add of a row", lambda: a + row, lambda: x + z),
        ("sin", lambda: a.sin(), lambda: x.sin()),
    ]
    return [(name, least(ours, 2000), least(theirs, 200)) for name, ours, theirs in pairs]


def chain() -> float:
    x = symbolic_facts(ShapeEnv(), tuple(range(5, 5 + SYMBOLS)))
    start = time.process_time()
    y = x
    for i in range(NODES):
        y = y + x if i % 2 else y.sin()
    return time.process_time() - start


def show() -> None:
    families.load()
    with Interpreter():
        for name, ours, theirs in of_one_call():
            print(f"facts: {name}: {ours * 1e6:.1f} us (target 20), PyTorch's fake {theirs * 1e6:.0f} us")
        print(f"facts: {NODES} nodes over {SYMBOLS} symbols: {min(chain() for _ in range(3)):.3f} s (target 1)")
