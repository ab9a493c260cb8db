"""Compiled programs: whole models and fused functions through `compile`, against torch.compile and against tocha's own eager.

And their matrix products, convolutions, attention and recurrent layers alone against torch.compile's whole step: what the ratio would be
if all else cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import models
from harness import Remote
from workloads import Workload

TARGETS = {
    ("GPT", "compiled_step"): 1.8,
    ("GPT", "compiled_infer"): 2.0,
    ("ResNet-18", "compiled_step"): 3.0,
    ("ResNet-18", "compiled_infer"): 2.4,
    ("LSTM", "compiled_step"): 2.0,
    ("MLP", "compiled_step"): 2.6,
}
CALLS = {"compiled_step": ("step", "training step"), "compiled_infer": ("infer", "inference")}


def workloads() -> Iterator[Workload]:
    for name in models.MODELS:
        for call, (eager, words) in CALLS.items():
            ours, theirs = (Remote(models.__file__, library, name, call) for library in ("tocha", "torch"))
            yield Workload("compiled", f"{name}, {words}", ours, theirs, TARGETS.get((name, call)))
            plain = Remote(models.__file__, "tocha", name, eager)
            least = 1.05 if name == "ResNet-18" else 1.15
            yield Workload("compiled against eager", f"{name}, {words}", ours, plain, least)
            products = Remote(models.__file__, "tocha", name, f"{eager}_products")
            yield Workload("products alone against a compiled step", f"{name}, {words}", products, theirs)
