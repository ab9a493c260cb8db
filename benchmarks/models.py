"""The models that benchmarks train. Each takes the library as an argument and imports neither."""

from __future__ import annotations

import numpy as np

WIDTH, BATCH, LAYERS = 512, 128, 6


def mlp_arrays() -> list[np.ndarray]:
    """A batch, then weight and bias of each layer."""
    rng = np.random.default_rng(3)
    made = [rng.standard_normal((BATCH, WIDTH))]
    for _ in range(LAYERS):
        made += [rng.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5, rng.standard_normal(WIDTH)]
    return [a.astype(np.float32) for a in made]


def mlp_loss(m, x, parameters: list):
    for weight, bias in zip(parameters[::2], parameters[1::2], strict=True):
        x = m.nn.functional.relu(m.nn.functional.linear(x, weight, bias))
    return x.square().mean()
