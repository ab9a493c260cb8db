"""The backend `inductor`: a captured graph and its inputs to a callable, from the cache or compiled."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C, fx
from tocha._functorch.runtime import Compiled
from tocha._guards import detect_fake_mode
from tocha._inductor import config, custom_graph_pass
from tocha._inductor.asked import Asked
from tocha._inductor.graph_cache import GraphEntry, key_of
from tocha._logging import events
from tocha.autograd import no_grad
from tocha.ir.sym_types import SymInt
from tocha.nn import Module
from tocha.utils import _pytree as pytree

__all__ = ["compile_fx", "compile_fx_inner", "compile_nested", "shape_env_from_inputs"]


def compilation_of(asked: Asked) -> Any:
    """What compiles it. Most of the compiler is loaded here: a process that finds all of its graphs starts without it."""
    return importlib.import_module("tocha._inductor.compilation").Compilation(asked)


def kept(asked: Asked) -> Compiled | None:
    """What was made of the same graph before. Where parameters are constants of a program, it is not looked for."""
    if (config.freezing and not asked.recorded) or asked.has_state or not isinstance(asked.module, fx.GraphModule):
        return None
    if asked.inner is not None or asked.decompositions is not None:
        return None  # what they do has no name
    parts = key_of(asked.module, asked.inputs)
    if parts is None:
        return None
    asked.entry = GraphEntry(parts, asked.module)
    return asked.entry.load(lambda: compilation_of(asked).traced_again())


def compile_fx(
    module: fx.GraphModule,
    example_inputs: Sequence[Any],
    options: dict[str, Any] | None = None,
    config_patches: dict[str, Any] | None = None,
    *,
    inner_compile: Callable[..., Any] | None = None,
    decompositions: dict[Any, Callable[..., Any]] | None = None,
    ignore_shape_env: bool = False,
    compile_region_name: str | None = None,
) -> Callable[..., Any]:
    """The backend: differentiates, partitions and compiles, or finds what was made of the same graph before. Options are settings, too.

    `inner_compile` is called for each graph of operators, forward and backward, in place of `compile_fx_inner`. The last two say in
    PyTorch where symbols are looked for and what a region is called, and change nothing here.
    """
    given = {k.replace("-", "_"): v for k, v in {**(config_patches or {}), **(options or {})}.items()}
    passes = {n: getattr(config, n) for n in custom_graph_pass.SETTINGS}  # also when backward is compiled, later
    asked = Asked(module, list(example_inputs), passes | given, _C.is_grad_enabled(), events.compile_id())
    asked.inner, asked.decompositions = inner_compile, decompositions
    with config.patch(asked.options):
        if isinstance(module, fx.GraphModule):
            custom_graph_pass.run([custom_graph_pass.BEFORE_DIFFERENTIATION], module)
        found = kept(asked)
        return compilation_of(asked).run() if found is None else found.run


def compile_fx_inner(
    gm: fx.GraphModule, example_inputs: Sequence[Any], **settings: Any
) -> Callable[[list[Any]], Sequence[Any]]:
    """A graph of operators, as make_fx gives it, without gradients: a callable that takes its arguments as a list, which it empties.
    PyTorch's other settings say how it was called, and change nothing here."""
    earlier = dict.fromkeys((custom_graph_pass.BEFORE_DIFFERENTIATION, *custom_graph_pass.BOTH_WAYS))
    with no_grad(), config.patch(earlier):  # those passes have seen what the graph was made of
        compiled = compile_fx(gm, example_inputs)

    def boxed(args: list[Any]) -> Sequence[Any]:
        given = list(args)
        if isinstance(args, list):
            args.clear()
        with no_grad():
            return compiled(*given)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


class OfLeaves(Module):
    """A module that takes the leaves of its arguments."""

    def __init__(self, of: Callable[..., Any], spec: pytree.TreeSpec):
        super().__init__()
        self.of, self.spec = of, spec

    def forward(self, *leaves: Any) -> Any:
        return self.of(*pytree.tree_unflatten(leaves, self.spec))


def compile_nested(
    module: Any, example_inputs: Sequence[Any], options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """The same for arguments that hold tensors in lists and dicts."""
    leaves, spec = pytree.tree_flatten(tuple(example_inputs))
    compiled = compile_fx(OfLeaves(module, spec), leaves, options)  # type: ignore[arg-type]

    def call(*args: Any) -> Any:
        given, found = pytree.tree_flatten(args)
        if found != spec:
            raise ValueError(f"[compile] arguments are nested as {found}, and were {spec} when the graph was compiled")
        return compiled(*given)

    return call


def shape_env_from_inputs(inputs: Sequence[Any]) -> Any:
    """Where the symbols of these inputs live: fake tensors, or symbols themselves; None of others."""
    mode = detect_fake_mode(inputs)
    if mode is not None:
        return mode.shape_env
    return next((x.node.shape_env for x in inputs if isinstance(x, SymInt)), None)
