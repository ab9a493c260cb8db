"""Whole models, eager against eager: a training step (forward, backward, Adam) and inference."""

from __future__ import annotations

from collections.abc import Iterator

import models
import torch
from workloads import Workload

import tocha

TARGETS = {"GPT": (1.3, 1.3), "ResNet-18": (2.3, 1.15), "LSTM": (1.5, None), "MLP": (1.2, None)}


def workloads() -> Iterator[Workload]:
    for name, make in models.MODELS.items():
        ours, theirs = models.case(tocha, make), models.case(torch, make)
        step, infer = TARGETS[name]
        yield Workload("models", f"{name}, training step", ours.step, theirs.step, step)
        ours.model.eval(), theirs.model.eval()
        yield Workload("models", f"{name}, inference", ours.infer, theirs.infer, infer)
