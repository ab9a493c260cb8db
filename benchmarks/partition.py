"""Bytes kept between forward and backward for the demo's GPT, by both libraries' partitioners, and the curve of memory budgets.

.venv-parity/bin/python benchmarks/partition.py [--batch 8]
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
import types
from pathlib import Path
from typing import Any

MODELS = Path(__file__).resolve().parents[1] / "examples" / "models.py"


def models_of(library: types.ModuleType) -> types.ModuleType:
    """The demo's models, written for tocha, on a library."""
    name = f"models_of_{library.__name__}"
    module = types.ModuleType(name)
    sys.modules[name] = module
    source = MODELS.read_text().replace(
        "import tocha\nfrom tocha import nn", f"import {library.__name__} as tocha\nfrom {library.__name__} import nn"
    )
    exec(compile(source, str(MODELS), "exec"), module.__dict__)
    return module


def kept_bytes(forward: Any, results: int, library: types.ModuleType) -> tuple[int, int]:
    """Bytes of tensors that forward hands to backward: those that it computed, and all."""
    outs = list(forward.graph.nodes)[-1].args[0]
    computed = total = 0
    for n in dict.fromkeys(outs[results:]):
        val = n.meta["val"]
        if isinstance(val, library.Tensor):
            size = val.numel() * val.element_size()
            total += size
            computed += size if n.op == "call_function" and n not in outs[:results] else 0
    return computed, total


def keep(graph: Any, inputs: Any) -> Any:
    """A compiler that returns its graph."""
    return graph


def measured(library: types.ModuleType, batch: int) -> dict[str, Any]:
    """One training graph of the GPT, traced, differentiated and partitioned."""
    prefix = library.__name__
    aot = importlib.import_module(f"{prefix}._functorch.aot_autograd")
    partitioners = importlib.import_module(f"{prefix}._functorch.partitioners")
    models = models_of(library)
    library.manual_seed(0)
    model = models.GPT(models.GPTConfig())
    tokens = library.randint(0, 96, (batch, 64))
    found: dict[str, Any] = {"graphs": []}

    def partition(joint: Any, inputs: Any, **kwargs: Any) -> Any:
        found["joint"] = joint
        forward, backward = partitioners.min_cut_rematerialization_partition(joint, inputs, **kwargs)
        found["kept"], found["all"] = kept_bytes(forward, kwargs["num_fwd_outputs"], library)
        found["results"] = kwargs["num_fwd_outputs"]
        return forward, backward

    def loss(x: Any) -> Any:
        logits = model(x)
        return library.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), x.view(-1))

    class Loss(library.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Any) -> Any:
            return loss(x)

    start = time.perf_counter()
    compiled = aot.aot_module(Loss(), fw_compiler=keep, bw_compiler=keep, partition_fn=partition)
    compiled(tokens).backward()
    found["seconds"] = time.perf_counter() - start
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=8)
    batch = parser.parse_args().batch
    import tocha

    libraries = [tocha]
    if importlib.util.find_spec("torch"):
        libraries.append(importlib.import_module("torch"))
    for library in libraries:
        found = measured(library, batch)
        print(
            f"{library.__name__:6} min-cut: kept {found['kept'] / 1e6:8.2f} MB computed by forward, {found['all'] / 1e6:8.2f} MB in all; "
            f"traced, partitioned and run once in {found['seconds']:.1f} s"
        )
        if library is tocha:
            from tocha._functorch.partitioners import memory_budget_curve

            for point in memory_budget_curve(found["joint"], num_fwd_outputs=found["results"]):
                print(
                    f"       budget {point.budget:4.2f}: {point.bytes_kept / 1e6:8.2f} MB kept, {point.work_again / 1e6:8.1f} M operations again"
                )


if __name__ == "__main__":
    main()
