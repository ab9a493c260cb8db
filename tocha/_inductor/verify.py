"""`config.verify = "sample"`: eager beside compiled, at the first call of a graph and at some later ones.

Where their results differ by more than rounding, eager's are kept from then on, the smallest piece of the graph that differs is named in a
warning, and a script that shows it is written beside the caches.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tocha
from tocha import _C, fx
from tocha._functorch.fx_minifier import minify
from tocha._inductor import store
from tocha._logging import events
from tocha.fx._scripts import input_text, short_script
from tocha.serialization import save

log = logging.getLogger("tocha._inductor.verify")
Tensor = _C.Tensor
Compiler = Callable[[fx.GraphModule], Callable[..., Sequence[Any]]]
# By dtype, relative and absolute: sums in another order differ by this much, wrong code by more.
TOLERANCE = {tocha.float64: (1e-9, 1e-9), tocha.float32: (1e-4, 1e-5), tocha.float16: (1e-2, 1e-3), tocha.bfloat16: (5e-2, 1e-2)}  # fmt: skip


def agree(got: Any, want: Any) -> bool:
    if not isinstance(want, Tensor):
        return type(got) is type(want) and got == want
    if not isinstance(got, Tensor) or (got.shape, got.dtype, got.stride()) != (want.shape, want.dtype, want.stride()):
        return False
    if not want.is_floating_point() and not want.is_complex():
        return tocha.equal(got, want)
    real = want.real.dtype if want.is_complex() else want.dtype
    relative, absolute = TOLERANCE.get(real, (1e-1, 1e-1))
    return bool(tocha.allclose(got, want, rtol=relative, atol=absolute, equal_nan=True))


def all_agree(got: Sequence[Any], want: Sequence[Any]) -> bool:
    return len(got) == len(want) and all(map(agree, got, want))


def assert_finite(values: Sequence[Any], what: str) -> None:
    for i, t in enumerate(values):
        if isinstance(t, Tensor) and (t.is_floating_point() or t.is_complex()) and not t.isfinite().all():
            raise AssertionError(f"[inductor] {what} {i} of a compiled graph has elements that are NaN or infinite")


class Finite:
    """A compiled graph whose arguments and results are looked at, for `config.nan_asserts`."""

    def __init__(self, run: Callable[..., Sequence[Any]]):
        self.run = run

    def __call__(self, *args: Any) -> Sequence[Any]:
        assert_finite(args, "argument")
        results = self.run(*args)
        assert_finite(results, "result")
        return results


class Verified:
    """A compiled graph that is looked at: at calls 1, 2, 4, 8 and so on."""

    def __init__(self, module: fx.GraphModule, run: Callable[..., Sequence[Any]], compiler: Compiler):
        self.module, self.run, self.compiler = module, run, compiler
        self.calls, self.differs = 0, False

    def __call__(self, *args: Any) -> Sequence[Any]:
        if self.differs:
            return self.module.forward(*args)
        self.calls += 1
        if self.calls & (self.calls - 1):
            return self.run(*args)
        state = tocha.get_rng_state()
        want = list(self.module.forward(*args))
        after = tocha.get_rng_state()
        tocha.set_rng_state(state)  # both draw the same numbers
        got = list(self.run(*args))
        tocha.set_rng_state(after)
        if all_agree(got, want):
            return got
        self.differs = True
        self.report(args)
        return want

    def report(self, args: Sequence[Any]) -> None:
        piece, inputs = smallest_difference(self.module, args, self.compiler)
        path = write_repro(piece, inputs, self.compiler)
        events.tell(events.Differed(self.module, args, piece, str(path)))
        operators = ", ".join(str(n.target) for n in piece.graph.nodes if n.op == "call_function")
        warnings.warn(
            f"[inductor] compiled and eager differ in {operators}: eager's results are kept. To see it: python {path}",
            stacklevel=3,
        )


def differs(piece: fx.GraphModule, inputs: Sequence[Any], compiler: Compiler) -> bool:
    state = tocha.get_rng_state()
    want = list(piece.forward(*inputs))
    tocha.set_rng_state(state)
    return not all_agree(list(compiler(piece)(*inputs)), want)


def smallest_difference(module: fx.GraphModule, args: Sequence[Any], compiler: Compiler) -> tuple[fx.GraphModule, list[Any]]:  # fmt: skip
    """The fewest operators that differ by themselves; the whole graph if it is all of them together."""
    return minify(module, args, lambda piece, inputs: differs(piece, inputs, compiler))


def write_repro(piece: fx.GraphModule, inputs: Sequence[Any], compiler: Compiler | None = None) -> Path:
    """A script beside the caches. Its inputs are random numbers where it differs on those too, else they are kept beside it."""
    folder = store.root() / "repros"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{store.digest_of(piece.code)}.py"
    operators = ", ".join(str(n.target) for n in piece.graph.nodes if n.op == "call_function")
    given = random_inputs(inputs)
    if compiler is not None and given is not None and differs(piece, given, compiler):
        texts = f"[{', '.join(map(input_text, given))}]"
    else:
        data = path.with_suffix(".pt")
        save([i.detach() if isinstance(i, Tensor) else i for i in inputs], data)
        texts = f"tocha.load({str(data)!r})"
    path.write_text(short_script(piece, f"Compiled and eager differ in {operators}.", texts))
    return path


def random_inputs(inputs: Sequence[Any]) -> list[Any] | None:
    """Inputs of the same sizes, as a script makes them; None where there is one that it cannot make."""
    made: list[Any] = []
    state = tocha.get_rng_state()
    tocha.manual_seed(0)
    for i in inputs:
        if isinstance(i, Tensor) and (not (i.is_floating_point() or i.is_complex()) or not i.is_contiguous()):
            return None
        made.append(tocha.randn(i.shape, dtype=i.dtype) if isinstance(i, Tensor) else i)
    tocha.set_rng_state(state)
    return made
