"""Programs on tensor subclasses (tests/functorch/wrapper_programs.py) do through ahead-of-time autograd what they do in PyTorch."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from beside import theirs

import tocha

TEXT = (Path(__file__).parents[1] / "functorch" / "wrapper_programs.py").read_text()


def programs(library: str) -> Any:
    """The same text, about one library or the other."""
    made = ModuleType(f"wrapper_programs_of_{library}")
    exec(compile(TEXT.replace("tocha", library), made.__name__, "exec"), made.__dict__)
    return made


OF = {torch: programs("torch"), tocha: programs("tocha")}
# PyTorch returns tensors that are other objects than those of eager mode, or refuses what eager mode takes.
UNLIKE_EAGER = {"nested"}


def parts(library: Any, value: Any) -> list[Any]:
    p = OF[library]
    if isinstance(value, p.Pair):
        return ["Pair", value.requires_grad, *parts(library, value.a), *parts(library, value.b)]
    if isinstance(value, p.Scaled):
        return ["Scaled", value.requires_grad, *parts(library, value.inner * value.scale)]
    return [value]


def outcome(library: Any, name: str, grad: bool) -> tuple[list[Any], list[int]]:
    """Results, gradients, and the inputs afterwards; how many inputs and results each graph has."""
    p = OF[library]
    aot = importlib.import_module(f"{library.__name__}._functorch.aot_autograd")
    sizes: list[int] = []

    def compiler(graph: Any, inputs: Any) -> Any:
        nodes = list(graph.graph.nodes)
        sizes.append(sum(n.op == "placeholder" for n in nodes))
        return aot.make_boxed_func(graph.forward)

    leaves = p.inputs(grad)
    given = [t * 1 if grad and name.startswith("written") else t for t in leaves]
    found = aot.aot_function(p.WRAPPED[name], fw_compiler=compiler, bw_compiler=compiler)(*given)
    outs = list(found) if isinstance(found, tuple | list) else [] if found is None else [found]
    seen = [v for o in outs for v in parts(library, o)]
    roots = [o for o in outs if isinstance(o, library.Tensor) and o.requires_grad]
    if roots:
        grads = library.autograd.grad(roots, leaves, [o.detach() * 2 for o in roots], allow_unused=True)
        seen += [v for g in grads for v in parts(library, g)]
    return [*seen, *(v for t in given for v in parts(library, t))], sizes[:1]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", OF[tocha].WRAPPED)
def test_results_gradients_and_writes(name: str, grad: bool) -> None:
    expected, their_sizes = outcome(torch, name, grad)
    found, sizes = outcome(tocha, name, grad)
    assert sizes == their_sizes
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        if isinstance(b, torch.Tensor):
            torch.testing.assert_close(theirs(a), b)
        else:
            assert a == b
