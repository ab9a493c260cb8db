"""Float32 training is about as far from float64 as PyTorch's is: networks magnify the last bits of their convolutions."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import tocha  # noqa: E402


def gradients(m, dtype, weights, x, target):
    """Of a stack of 3x3 convolutions with batch norm, and what comes out of it."""
    weights = [m.from_numpy(w.copy()).to(dtype).requires_grad_() for w in weights]
    y = m.from_numpy(x.copy()).to(dtype)
    for w in weights:
        y = m.nn.functional.conv2d(y, w, padding=1)
        y = m.relu(m.nn.functional.batch_norm(y, None, None, training=True))
    ((y - m.from_numpy(target.copy()).to(dtype)) ** 2).mean().backward()
    return [y.detach().double().numpy()] + [w.grad.double().numpy() for w in weights]


def error(got, truth):
    return np.sqrt(sum(((g - t) ** 2).sum() for g, t in zip(got, truth)) / sum((t**2).sum() for t in truth))


@pytest.mark.parametrize("depth", [1, 6])
def test_gradients_are_as_near_to_float64_as_pytorch_s(depth):
    rng = np.random.default_rng(depth)
    weights = [(rng.standard_normal((64, 64, 3, 3)) / 17).astype(np.float32) for _ in range(depth)]
    x, target = (rng.standard_normal((4, 64, 16, 16)).astype(np.float32) for _ in range(2))
    truth = gradients(torch, torch.float64, weights, x, target)
    theirs = error(gradients(torch, torch.float32, weights, x, target), truth)
    ours = error(gradients(tocha, tocha.float32, weights, x, target), truth)
    assert ours < 4 * theirs and ours < 3e-5
