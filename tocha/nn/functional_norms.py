"""Normalisation that torch.nn.functional composes of other operators. The rest are records: operators/batch_norm.py, normalization.py."""

from __future__ import annotations

from tocha import _C

Tensor = _C.Tensor
_nn = _C._nn

__all__ = ["local_response_norm"]


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """input divided by (k + alpha * the mean square of `size` neighbouring channels) ** beta.

    >>> import tocha
    >>> local_response_norm(tocha.ones(1, 2, 1), size=1, alpha=1.0, beta=1.0)
    tensor([[[0.5000],
             [0.5000]]])
    """
    dims = input.dim()
    if dims < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {dims} dimensions)")
    if input.numel() == 0:
        return input
    before, after = size // 2, (size - 1) // 2
    squares = input.mul(input).unsqueeze(1)
    if dims == 3:
        means = _nn.avg_pool2d(_nn.pad(squares, (0, 0, before, after)), (size, 1), stride=1)
    else:
        n, c, h = input.shape[:3]
        squares = squares.reshape(n, 1, c, h, -1)
        means = _nn.avg_pool3d(_nn.pad(squares, (0, 0, 0, 0, before, after)), (size, 1, 1), stride=1)
    return input / means.squeeze(1).reshape(input.shape).mul(alpha).add(k).pow(beta)
