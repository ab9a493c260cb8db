"""interpolate, grid_sample, affine_grid, fold and unfold against matrices and loops written out in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tocha
from tocha.autograd import gradcheck, gradgradcheck

F = tocha.nn.functional


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def cubic(x: float, a: float = -0.75) -> float:
    x = abs(x)
    if x <= 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * a if x < 2 else 0.0


def matrix(mode: str, size: int, out: int, align: bool = False, scale: float | None = None) -> np.ndarray:
    """Resampling along one dim as a matrix (out, size)."""
    step = ((size - 1) / (out - 1) if out > 1 else 0) if align else (1 / scale if scale else size / out)
    m = np.zeros((out, size))
    for i in range(out):
        at = i * step if align else (i + 0.5) * step - 0.5
        if mode == "nearest":
            m[i, min(int(i * step), size - 1)] = 1
        elif mode == "nearest-exact":
            m[i, min(int((i + 0.5) * step), size - 1)] = 1
        elif mode == "linear":
            at = max(at, 0)
            low = min(int(at), size - 1)
            m[i, low] += 1 - (at - low)
            m[i, min(low + 1, size - 1)] += at - low
        elif mode == "cubic":
            low = math.floor(at)
            for k in range(-1, 3):
                m[i, min(max(low + k, 0), size - 1)] += cubic(at - low - k)
        else:
            wide = max(step, 1)
            reach, f = (1, lambda x: max(0.0, 1 - abs(x))) if mode == "linear-aa" else (2, lambda x: cubic(x, -0.5))
            center = step * (i + 0.5)
            for p in range(max(int(center - reach * wide + 0.5), 0), min(int(center + reach * wide + 0.5), size)):
                m[i, p] = f((p - center + 0.5) / wide)
            m[i] /= m[i].sum()
    return m


def resampled(x: np.ndarray, matrices: list[np.ndarray]) -> np.ndarray:
    for d, m in enumerate(matrices):
        x = np.moveaxis(np.tensordot(m, x, (1, d + 2)), 0, d + 2)
    return x


MODES = [
    ("nearest", "nearest", 1), ("nearest", "nearest", 2), ("nearest", "nearest", 3), ("nearest-exact", "nearest-exact", 2),
    ("linear", "linear", 1), ("bilinear", "linear", 2), ("trilinear", "linear", 3), ("bicubic", "cubic", 2),
]  # fmt: skip


@pytest.mark.parametrize("mode,kind,dims", MODES)
@pytest.mark.parametrize("align", [False, True])
def test_interpolate_to_sizes(mode, kind, dims, align):
    if align and "nearest" in mode:
        pytest.skip("nearest has no corners to align")
    spatial, sizes = (5, 6, 4)[:dims], (8, 3, 7)[:dims]
    x = normal(2, 3, *spatial)
    matrices = [matrix(kind, n, o, align) for n, o in zip(spatial, sizes, strict=True)]
    y = F.interpolate(tocha.tensor(x), size=sizes, mode=mode, align_corners=align or None)
    np.testing.assert_allclose(y.numpy(), resampled(x, matrices), atol=1e-12)


@pytest.mark.parametrize("mode,kind", [("bilinear", "linear-aa"), ("bicubic", "cubic-aa")])
def test_antialias_widens_the_filter(mode, kind):
    x = normal(1, 2, 12, 9)
    y = F.interpolate(tocha.tensor(x), size=(5, 14), mode=mode, antialias=True)
    np.testing.assert_allclose(y.numpy(), resampled(x, [matrix(kind, 12, 5), matrix(kind, 9, 14)]), atol=1e-12)


def test_scale_factors_stand_for_themselves_unless_recomputed():
    x = normal(1, 1, 10)
    kept = F.interpolate(tocha.tensor(x), scale_factor=1.75, mode="linear")
    again = F.interpolate(tocha.tensor(x), scale_factor=1.75, mode="linear", recompute_scale_factor=True)
    np.testing.assert_allclose(kept.numpy(), resampled(x, [matrix("linear", 10, 17, scale=1.75)]), atol=1e-12)
    np.testing.assert_allclose(again.numpy(), resampled(x, [matrix("linear", 10, 17)]), atol=1e-12)
    area = F.interpolate(tocha.tensor(normal(1, 1, 8, 8)), scale_factor=0.5, mode="area")
    np.testing.assert_allclose(area.numpy(), normal(1, 1, 8, 8).reshape(1, 1, 4, 2, 4, 2).mean((3, 5)))


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_channels_last(mode):
    x = tocha.tensor(normal(2, 5, 6, 7))
    last = x.contiguous(memory_format=tocha.channels_last)
    y = F.interpolate(last, size=(9, 4), mode=mode)
    assert y.is_contiguous(memory_format=tocha.channels_last)
    np.testing.assert_allclose(y.numpy(), F.interpolate(x, size=(9, 4), mode=mode).numpy(), atol=1e-12)
    g, grads = tocha.tensor(normal(2, 5, 9, 4)), []
    for t in (x, last):
        leaf = t.detach().requires_grad_()
        F.interpolate(leaf, size=(9, 4), mode=mode).backward(g)
        grads.append(leaf.grad.numpy())
    np.testing.assert_allclose(grads[0], grads[1], atol=1e-12)


def test_bytes_are_rounded_along_the_width_and_then_along_the_height():
    x = np.random.default_rng(0).integers(0, 256, (1, 2, 7, 6)).astype(np.uint8)
    for mode, kind in (("bilinear", "linear"), ("bicubic", "cubic")):
        y = F.interpolate(tocha.tensor(x), size=(10, 11), mode=mode).numpy()
        across = np.clip(np.floor(resampled(x.astype(float), [np.eye(7), matrix(kind, 6, 11)]) + 0.5), 0, 255)
        both = np.clip(np.floor(resampled(across, [matrix(kind, 7, 10)]) + 0.5), 0, 255)
        assert y.dtype == np.uint8
        assert np.abs(y.astype(float) - both).max() <= 1  # weights have 16 bits
        assert (y != both).mean() < 0.05


def test_interpolate_refuses():
    x = tocha.rand(1, 1, 4, 4)
    for kwargs in (
        {},
        {"size": 2, "scale_factor": 2},
        {"size": (2, 2, 2)},
        {"size": 2, "align_corners": True},
        {"size": 2, "antialias": True},
    ):
        with pytest.raises(ValueError):
            F.interpolate(x, **kwargs)
    for kwargs in ({"mode": "linear"}, {"mode": "trilinear"}, {"mode": "other"}):
        with pytest.raises(NotImplementedError):
            F.interpolate(x, size=2, **kwargs)
    with pytest.raises(RuntimeError, match="greater than 0"):
        F.interpolate(x, size=0)
    with pytest.raises(NotImplementedError):
        F.interpolate(x.long(), size=2)
    with pytest.warns(UserWarning, match="deprecated"):
        F.upsample(x, scale_factor=2)


# -- grids -------------------------------------------------------------------------------------------


def pixel(c: float, size: int, align: bool) -> float:
    return (c + 1) / 2 * (size - 1) if align else ((c + 1) * size - 1) / 2


def put_inside(x: float, size: int, padding: str, align: bool) -> float:
    if padding == "reflection":
        low, high = (0, size - 1) if align else (-0.5, size - 0.5)
        if high == low:
            return 0.0
        x = (x - low) % (2 * (high - low))
        x = low + (x if x <= high - low else 2 * (high - low) - x)
    return x if padding == "zeros" else min(max(x, 0), size - 1)


def axis_taps(c: float, size: int, mode: str, padding: str, align: bool) -> list[tuple[int, float]]:
    x = pixel(c, size, align)
    if mode == "bicubic":
        low = math.floor(x)
        return [(int(put_inside(low + k, size, padding, align)), cubic(x - low - k)) for k in range(-1, 3)]
    x = put_inside(x, size, padding, align)
    if mode == "nearest":
        return [(round(x), 1.0)]
    low = math.floor(x)
    return [(low, 1 - (x - low)), (low + 1, x - low)]


def sampled(x: np.ndarray, grid: np.ndarray, mode: str, padding: str, align: bool) -> np.ndarray:
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for n in range(x.shape[0]):
        for p in np.ndindex(*grid.shape[1:-1]):
            taps = [((), 1.0)]
            for d, c in enumerate(grid[(n, *p)]):
                along = axis_taps(c, x.shape[-1 - d], mode, padding, align)
                taps = [((i, *at), w * v) for at, w in taps for i, v in along]
            for at, w in taps:
                if all(0 <= i < s for i, s in zip(at, x.shape[2:], strict=True)):
                    out[(n, slice(None), *p)] += w * x[(n, slice(None), *at)]
    return out


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("dims", [2, 3])
def test_grid_sample(mode, padding, align, dims):
    if dims == 3 and mode == "bicubic":
        pytest.skip("volumes are not sampled bicubically")
    spatial, points = (5, 4, 3)[:dims], (3, 7, 2)[:dims]
    x, grid = normal(2, 5, *spatial), normal(2, *points, dims, seed=1) * 1.3
    y = F.grid_sample(tocha.tensor(x), tocha.tensor(grid), mode, padding, align)
    np.testing.assert_allclose(y.numpy(), sampled(x, grid, mode, padding, align), atol=1e-12)
    single = F.grid_sample(tocha.tensor(x).float(), tocha.tensor(grid).float(), mode, padding, align)
    if mode != "nearest":
        np.testing.assert_allclose(single.numpy(), y.numpy(), atol=1e-4)


def test_grid_points_that_are_nowhere():
    x = tocha.ones(1, 1, 3, 3)
    grid = tocha.tensor([[[[float("nan"), 0.0], [float("inf"), 0.0], [1e30, -1e30], [0.0, 0.0]]]])
    assert F.grid_sample(x, grid, align_corners=False).flatten().tolist() == [0, 0, 0, 1]
    x[0, 0, 0, 0] = float("inf")  # what no tap sees must not show
    assert F.grid_sample(x, grid, align_corners=False).flatten().tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample_gradients(mode, padding):
    x = tocha.tensor(normal(1, 2, 4, 5)).requires_grad_()
    grid = tocha.tensor(normal(1, 2, 3, 2, seed=4) * 0.6).requires_grad_()

    def f(x, grid):
        return F.grid_sample(x, grid, mode, padding, False)

    assert gradcheck(f, (x, grid))
    assert gradgradcheck(f, (x, grid))


def test_volumes_and_their_gradients():
    x = tocha.tensor(normal(1, 2, 3, 4, 3)).requires_grad_()
    grid = tocha.tensor(normal(1, 2, 2, 1, 3, seed=4) * 0.6).requires_grad_()
    assert gradcheck(lambda x, g: F.grid_sample(x, g, align_corners=False), (x, grid))
    assert gradgradcheck(lambda x, g: F.grid_sample(x, g, align_corners=False), (x, grid))


def test_affine_grid():
    theta = normal(2, 2, 3)
    for align in (False, True):
        y = F.affine_grid(tocha.tensor(theta), (2, 1, 3, 4), align_corners=align).numpy()
        lines = [np.linspace(-1, 1, n) * (1 if align else (n - 1) / n) for n in (3, 4)]
        base = np.stack([*np.meshgrid(lines[1], lines[0]), np.ones((3, 4))], -1)
        np.testing.assert_allclose(y, np.einsum("hwk,nik->nhwi", base, theta), atol=1e-12)
    t = tocha.tensor(normal(1, 3, 4)).requires_grad_()
    assert gradcheck(lambda t: F.affine_grid(t, (1, 1, 2, 3, 2), align_corners=False), (t,))
    with pytest.raises(ValueError):
        F.affine_grid(tocha.rand(1, 2, 3), (1, 1, 2, 2, 2), align_corners=False)


# -- patches -----------------------------------------------------------------------------------------


def patches(x: np.ndarray, kernel: int, dilation: int, padding: int, stride: int) -> np.ndarray:
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    reach = dilation * (kernel - 1) + 1
    columns = []
    for i in range(0, x.shape[2] - reach + 1, stride):
        for j in range(0, x.shape[3] - reach + 1, stride):
            columns.append(x[:, :, i : i + reach : dilation, j : j + reach : dilation].reshape(x.shape[0], -1))
    return np.stack(columns, -1)


@pytest.mark.parametrize("kernel,dilation,padding,stride", [(2, 1, 0, 1), (3, 1, 1, 2), (2, 2, 1, 1), (3, 2, 2, 3)])
def test_unfold_and_fold(kernel, dilation, padding, stride):
    x = normal(2, 3, 6, 7)
    t = tocha.tensor(x)
    y = F.unfold(t, kernel, dilation, padding, stride)
    np.testing.assert_array_equal(y.numpy(), patches(x, kernel, dilation, padding, stride))
    assert tocha.equal(F.unfold(t[0], kernel, dilation, padding, stride), y[0])
    # fold is the adjoint: <unfold(x), c> = <x, fold(c)>
    c = tocha.tensor(normal(*y.shape, seed=1))
    back = F.fold(c, (6, 7), kernel, dilation, padding, stride)
    np.testing.assert_allclose((y * c).sum().item(), (t * back).sum().item())
    leaf = t.clone().requires_grad_()
    assert gradcheck(lambda v: F.unfold(v, kernel, dilation, padding, stride), (leaf,))


@pytest.mark.parametrize("dtype", [tocha.bool, tocha.bfloat16, tocha.complex64, tocha.complex128])
def test_patches_of_other_dtypes(dtype):
    x = tocha.tensor(np.arange(18).reshape(1, 2, 3, 3)).to(dtype)
    columns = F.unfold(x, 2)
    assert columns.dtype == dtype
    assert F.fold(columns, (3, 3), 2).dtype == dtype
    with pytest.raises(NotImplementedError):
        F.unfold(
            x.to(tocha.int64)
            if dtype != tocha.complex64 and dtype != tocha.complex128
            else tocha.ones(1, 1, 3, 3).long(),
            2,
        )
