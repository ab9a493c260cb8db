"""Compilations that fail or err, as scripts of a few lines: config.repro_after and repro_level, and what the scripts call.

Level 1 writes the whole graph, 2 the smallest piece of it that still fails, 3 writes every graph before it is compiled (for what ends the
process), 4 also looks at results: where compiled and eager differ, that is a failure too.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tocha
from tocha import _C, fx
from tocha._dynamo import config, eval_frame
from tocha._dynamo.testing import rand_strided
from tocha._functorch.fx_minifier import minify
from tocha._inductor import compile as compile_for
from tocha._inductor import config as inductor_config
from tocha._inductor import store, verify
from tocha.fx._scripts import input_text, short_script
from tocha.fx.experimental.proxy_tensor import make_fx
from tocha.serialization import save

__all__ = ["check", "rand_strided", "watched"]

log = logging.getLogger("tocha._dynamo.repro")
Tensor = _C.Tensor


def check(forward: Callable[..., Any], inputs: Sequence[Any], backend: str = "inductor", after: str = "aot") -> bool:
    """Runs a graph eagerly and compiled, and prints by how much they differ. In a script, says by its exit status whether they do."""
    tocha.manual_seed(0)
    inputs = [rand_like(i) for i in inputs]

    def plain(*args: Any) -> Any:
        return forward(None, *args)

    if after == "aot":
        graph = make_fx(plain, tracing_mode="fake")(*inputs)
        want, compiled = graph(*inputs), compile_for(graph, inputs)
    else:
        want, compiled = plain(*inputs), eval_frame.compile(plain, backend=backend)
    got = compiled(*inputs)
    same = verify.all_agree(list(got), list(want))
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        if isinstance(w, Tensor):
            print(f"result {k}: {w.numel()} elements, differ by at most {float((g.double() - w.double()).abs().max()) if w.numel() else 0}")  # fmt: skip
    print("compiled and eager agree" if same else "compiled and eager DIFFER")
    if not same and getattr(sys.modules.get("__main__"), "__file__", None) is not None and forward.__module__ == "__main__":  # fmt: skip
        raise SystemExit(1)
    return same


def rand_like(value: Any) -> Any:
    """The numbers that a script has made are drawn again from the seed: the same as when it was written."""
    if isinstance(value, Tensor) and value.is_floating_point() and value.is_contiguous():
        return tocha.randn(value.shape, dtype=value.dtype)
    return value


def folder() -> Path:
    made = Path(config.debug_dir_root) if config.debug_dir_root else store.root()
    made = made / "repros"
    made.mkdir(mode=0o700, parents=True, exist_ok=True)
    return made


def write_script(module: fx.GraphModule, inputs: Sequence[Any], backend: str, title: str) -> Path:
    """A captured graph as a script."""
    path = folder() / f"{store.digest_of(module.code + backend)}.py"
    texts = [input_text(i) for i in inputs]
    if all(not isinstance(i, Tensor) or i.is_floating_point() for i in inputs):
        given = f"[{', '.join(texts)}]"
    else:
        data = path.with_suffix(".pt")
        save([i.detach() if isinstance(i, Tensor) else i for i in inputs], data)
        given = f"tocha.load({str(data)!r})"
    path.write_text(short_script(module, title, given, f', backend={backend!r}, after="dynamo"'))
    return path


def name_of(backend: Any) -> str:
    while isinstance(backend, functools.partial):
        backend = backend.func
    return getattr(backend, "__name__", "inductor")


def watched(backend: Callable[..., Any]) -> Callable[..., Any]:
    """The backend, or, with config.repro_after, one that leaves a script where it fails."""
    if config.repro_after is None:
        return backend
    if config.repro_after not in ("dynamo", "aot"):
        raise ValueError(f"[config] repro_after is 'dynamo' or 'aot', got {config.repro_after!r}")

    def compile_watched(module: fx.GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
        real = [hint_of(i) for i in examples]
        if config.repro_level == 3:
            log.warning("[repro] the graph that is compiled next: %s", write_script(module, real, name_of(backend), "Compiled next."))  # fmt: skip
        looks = "sample" if config.repro_level == 4 and config.repro_after == "aot" else inductor_config.verify
        try:
            with inductor_config.patch(verify=looks):
                made = backend(module, examples)
        except Exception as error:
            left_script(module, real, backend, error)
            raise
        return Compared(module, made, backend) if config.repro_level == 4 and config.repro_after == "dynamo" else made

    return compile_watched


def hint_of(value: Any) -> Any:
    return value.node.hint if hasattr(value, "node") else value


def left_script(module: fx.GraphModule, inputs: Sequence[Any], backend: Callable[..., Any], error: Exception) -> None:
    kind = type(error)

    def fails(piece: fx.GraphModule, given: Sequence[Any]) -> bool:
        try:
            backend(piece, list(given))
        except Exception as again:
            return type(again) is kind
        return False

    found = (module, list(inputs)) if config.repro_level == 1 else minify(module, inputs, fails)
    path = write_script(
        *found, name_of(backend), f"{kind.__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    )
    log.error("[repro] compiling fails; a script that shows it: python %s", path)


class Compared:
    """A compiled graph whose first results are held against eager's."""

    def __init__(self, module: fx.GraphModule, run: Callable[..., Any], backend: Callable[..., Any]) -> None:
        self.module, self.run, self.backend = module, run, backend
        self.done = False

    def __call__(self, *args: Any) -> Any:
        if self.done:
            return self.run(*args)
        self.done = True
        if differs(self.module, args, self.run):
            found = minify(
                self.module, args, lambda piece, given: differs(piece, given, self.backend(piece, list(given)))
            )
            path = write_script(*found, name_of(self.backend), "Compiled and eager differ.")
            log.error("[repro] compiled and eager differ; a script that shows it: python %s", path)
        return self.run(*args)


def differs(module: fx.GraphModule, args: Sequence[Any], run: Callable[..., Any]) -> bool:
    def copied() -> list[Any]:
        return [a.detach().clone().requires_grad_(a.requires_grad) if isinstance(a, Tensor) else a for a in args]

    state = tocha.get_rng_state()
    want = list(module.forward(*copied()))
    tocha.set_rng_state(state)
    return not all(map(close, run(*copied()), want))


def close(got: Any, want: Any) -> bool:
    if not isinstance(want, Tensor) or not want.is_floating_point():
        return verify.agree(got, want)
    at_most = config.repro_tolerance
    return got.shape == want.shape and bool(tocha.allclose(got, want, rtol=at_most, atol=at_most, equal_nan=True))
