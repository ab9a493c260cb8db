"""A tour of tocha's tensors: what they are, what they do, and how fast, against NumPy. `make demo` runs this."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

import tocha


def say(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m")


def show(expression: str, scope: dict) -> None:
    value = eval(expression, scope)
    text = str(value).replace("\n", "\n        ")
    print(f"    >>> {expression}\n        {text}")


def tour() -> None:
    scope: dict = {"tocha": tocha, "np": np}
    say("Tensors are made from Python values, NumPy arrays (sharing memory), or factories.")
    for line in (
        "tocha.tensor([[1, 2], [3, 4]])",
        "tocha.arange(6).view(2, 3)",
        "tocha.linspace(0, 1, 5)",
        "tocha.from_numpy(np.eye(2))",
    ):
        show(line, scope)
    say("Types promote and shapes broadcast as in PyTorch.")
    scope["a"] = tocha.tensor([1, 2, 3])
    for line in ("a + 1.5", "a[:, None] * a", "a / 2", "(a > 1) & (a < 3)", "tocha.result_type(a, 1.0)"):
        show(line, scope)
    say("Views share memory; in-place operators write to it.")
    scope["x"] = tocha.zeros(3, 4)
    scope["row"] = scope["x"][1]
    scope["row"] += 7
    show("x", scope)
    show("x.t().stride(), x.t().is_contiguous()", scope)
    say("Indexing takes slices, masks, index tensors and mixtures.")
    scope["m"] = tocha.arange(12).view(3, 4)
    for line in ("m[:, ::2]", "m[m % 3 == 0]", "m[[0, 2], [1, 3]]", "m[..., -1]"):
        show(line, scope)
    say("Reductions, sorting, matrix products.")
    for line in (
        "m.sum(dim=0)",
        "m.float().mean(1, keepdim=True)",
        "m.max(dim=1)",
        "tocha.tensor([3, 1, 2]).sort(descending=True)",
        "m.float() @ m.float().T",
    ):
        show(line, scope)
    say("Random numbers are PyTorch's, bit for bit, for the same seed.")
    tocha.manual_seed(0)
    show("tocha.rand(3)", scope)
    show("tocha.randn(2, 2)", scope)
    say("Bad input says what was wrong, with what was seen.")
    try:
        tocha.ones(3, 4) @ tocha.ones(5, 6)
    except RuntimeError as e:
        print(f"    RuntimeError: {e}")


def best(f: Callable[[], object]) -> float:
    f()
    number = 1
    while True:
        start = time.perf_counter()
        for _ in range(number):
            f()
        elapsed = time.perf_counter() - start
        if elapsed > 0.01:
            break
        number *= 4
    times = []
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(number):
            f()
        times.append((time.perf_counter() - start) / number)
    return statistics.median(times)


def speed() -> None:
    say(f"Speed against NumPy {np.__version__} (one million float32, {tocha.get_num_threads()} threads):")
    rng = np.random.default_rng(0)
    x = rng.random(1_000_000, dtype=np.float32) + 0.5
    m = rng.standard_normal((512, 512)).astype(np.float32)
    t, u = tocha.from_numpy(x), tocha.from_numpy(m)
    rows = {
        "x + x": (lambda: t + t, lambda: x + x),
        "exp(x)": (lambda: t.exp(), lambda: np.exp(x)),
        "tanh(x)": (lambda: t.tanh(), lambda: np.tanh(x)),
        "sum(x)": (lambda: t.sum(), lambda: x.sum()),
        "sort(x)": (lambda: t.sort(), lambda: np.sort(x)),
        "512 x 512 @": (lambda: u @ u, lambda: m @ m),
    }
    print(f"    {'':14s}{'tocha':>12s}{'NumPy':>12s}{'ratio':>9s}")
    for name, (ours, theirs) in rows.items():
        a, b = best(ours), best(theirs)
        print(f"    {name:14s}{a * 1e6:10.0f}us{b * 1e6:10.0f}us{b / a:8.1f}x")


if __name__ == "__main__":
    tour()
    speed()
