"""Whole models, eager against eager: a training step (forward, backward, Adam) and inference; a GPT in bfloat16."""

from __future__ import annotations

from collections.abc import Iterator

import models
from harness import Remote
from workloads import Workload

TARGETS = {
    ("GPT", "step"): 1.3,
    ("GPT", "infer"): 1.3,
    ("ResNet-18", "step"): 2.3,
    ("ResNet-18", "infer"): 1.15,
    ("LSTM", "step"): 1.5,
    ("MLP", "step"): 1.2,
}
CALLS = {"step": "training step", "infer": "inference"}


def workloads() -> Iterator[Workload]:
    for name in models.MODELS:
        for call, words in CALLS.items():
            ours, theirs = (Remote(models.__file__, library, name, call) for library in ("tocha", "torch"))
            yield Workload("models", f"{name}, {words}", ours, theirs, TARGETS.get((name, call)))
    ours, theirs = (Remote(models.__file__, library, "GPT", "narrow_step") for library in ("tocha", "torch"))
    yield Workload("models in bfloat16", "GPT, training step", ours, theirs, 1.2)
    yield Workload(
        "models in bfloat16", "GPT, against float32", ours, Remote(models.__file__, "tocha", "GPT", "step"), 1
    )
