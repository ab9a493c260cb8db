"""The same models, seeded alike, on tocha and PyTorch: equal weights at the start, equal losses while training."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

import tocha

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import models

# Batch norm over four pictures amplifies rounding after the first steps.
STEPS = {"GPT": 20, "ResNet-18": 3, "LSTM": 20, "MLP": 20}


@pytest.mark.parametrize("name", models.MODELS)
def test_models_start_alike_and_train_alike(name):
    ours, theirs = (models.case(m, models.MODELS[name]) for m in (tocha, torch))
    expected = theirs.model.state_dict()
    for key, value in ours.model.state_dict().items():
        assert value.tolist() == expected[key].tolist(), key
    losses = [(ours.step().item(), theirs.step().item()) for _ in range(STEPS[name])]
    for step, (got, want) in enumerate(losses):
        assert got == pytest.approx(want, rel=1e-3), f"step {step}"
    assert losses[-1][0] < losses[0][0]
