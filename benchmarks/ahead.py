"""What differentiating ahead of time costs: the GPT's training graph traced, differentiated and partitioned, and what it keeps for backward.

python benchmarks/ahead.py tocha    # seconds of this process, and bytes kept between forward and backward
"""

from __future__ import annotations

import gc
import importlib
import subprocess
import sys
import time
import warnings
from typing import Any

import models

ROUNDS = 5
SECONDS, SHARE = 1.0, 0.1  # at most so long, and at most this part of PyTorch's time


class Stop(Exception):
    """Raised by the compiler: what comes after tracing and partitioning is not measured."""


def kept_bytes(graph: Any) -> int:
    """Bytes of what a forward graph hands to backward, inputs not counted: these are there anyway."""
    outputs = graph.graph.output_node().args[0][1:]
    made = {n for n in outputs if n.op != "placeholder" and hasattr(n.meta.get("val"), "untyped_storage")}
    memory = {
        id(v._facts.memory) if hasattr(v := n.meta["val"], "_facts") else v.untyped_storage()._cdata: v for n in made
    }
    return sum(v.numel() * v.element_size() for v in memory.values())


def measure(name: str) -> tuple[float, int]:
    """Seconds, and bytes kept, of one library."""
    warnings.filterwarnings("ignore")
    library = importlib.import_module(name)
    aot = importlib.import_module(f"{name}._functorch.aot_autograd")
    cut = importlib.import_module(f"{name}._functorch.partitioners").min_cut_rematerialization_partition
    functional_call = importlib.import_module(f"{name}.func").functional_call
    c = models.case(library, models.gpt)
    names, parameters = zip(*c.model.named_parameters(), strict=True)
    cross_entropy = library.nn.functional.cross_entropy
    kept = 0

    def loss(*flat: Any) -> Any:
        *state, tokens, targets = flat
        logits = functional_call(c.model, dict(zip(names, state, strict=True)), (tokens,))
        return cross_entropy(logits.flatten(0, 1), targets.flatten())

    def stop(graph: Any, _: Any) -> Any:
        nonlocal kept
        kept = kept_bytes(graph)
        raise Stop

    def once() -> float:
        compiled = aot.aot_function(loss, fw_compiler=stop, bw_compiler=lambda graph, _: graph, partition_fn=cut)
        start = time.process_time()
        try:
            compiled(*parameters, *c.batch)
        except Stop:
            return time.process_time() - start
        raise AssertionError("the compiler was not called")

    once()
    gc.collect()
    gc.disable()
    return min(once() for _ in range(ROUNDS)), kept


def show() -> None:
    """Prints both libraries beside each other; each in a process of its own."""
    found = {}
    for name in ("tocha", "torch"):
        said = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=True).stdout
        seconds, kept = said.split()[-2:]
        found[name] = float(seconds), int(kept)
    (ours, mine), (theirs, other) = found["tocha"], found["torch"]
    met = "met" if ours <= min(SECONDS, SHARE * theirs) else "missed"
    print("\nahead of time: the GPT's training graph (traced, differentiated, partitioned)")
    print(f"  {'':12}{'tocha':>12}{'PyTorch':>12}")
    print(
        f"  {'seconds':12}{ours:12.3f}{theirs:12.3f}   {ours / theirs:.2f} of PyTorch's, wanted {SHARE} and {SECONDS} s: {met}"
    )
    print(
        f"  {'kept, KiB':12}{mine / 1024:12.0f}{other / 1024:12.0f}   wanted no more than PyTorch's: {'met' if mine <= other else 'missed'}"
    )


if __name__ == "__main__":
    print(*measure(sys.argv[1]))
