"""torchvision's operators as the alias offers them, on cases whose answers are known without torchvision."""

from __future__ import annotations

import pytest

import tocha
from tocha._alias import torchvision_ops as ops


def test_nms_keeps_the_best_of_those_that_overlap():
    boxes = tocha.tensor([[0, 0, 1, 1.0], [0, 0, 1, 1.1], [2, 2, 3, 3]])
    assert tocha.ops.torchvision.nms(boxes, tocha.tensor([0.5, 0.6, 0.7]), 0.5).tolist() == [2, 1]
    assert ops.nms(boxes[:0], tocha.ones(0), 0.5).tolist() == []
    with pytest.raises(RuntimeError, match="4 elements in dimension 1"):
        ops.nms(tocha.ones(2, 3), tocha.ones(2), 0.5)


def test_roi_align_of_a_ramp_is_the_ramp_at_the_bins_centres():
    ramp = tocha.arange(8.0).expand(1, 1, 8, 8)
    out = ops.roi_align(ramp, tocha.tensor([[0, 1.0, 1.0, 5.0, 5.0]]), 1.0, 2, 2, 2, True)
    assert tocha.allclose(out, tocha.tensor([[[[1.5, 3.5], [1.5, 3.5]]]]))


def test_gradient_of_roi_align_spreads_each_bin():
    grad = ops._roi_align_backward(
        tocha.ones(1, 1, 2, 2), tocha.tensor([[0, 1.0, 1.0, 5.0, 5.0]]), 1.0, 2, 2, 1, 1, 8, 8, 2, True
    )
    assert grad.shape == (1, 1, 8, 8) and abs(grad.sum().item() - 4.0) < 1e-5


def test_roi_pool_takes_the_largest_pixel():
    image = tocha.arange(16.0).reshape(1, 1, 4, 4)
    out, where = ops.roi_pool(image, tocha.tensor([[0, 0.0, 0.0, 3.0, 3.0]]), 1.0, 2, 2)
    assert out.tolist() == [[[[5.0, 7.0], [13.0, 15.0]]]] and where.tolist() == [[[[5, 7], [13, 15]]]]
    grad = ops._roi_pool_backward(
        tocha.ones(1, 1, 2, 2), tocha.tensor([[0, 0.0, 0.0, 3.0, 3.0]]), where, 1.0, 2, 2, 1, 1, 4, 4
    )
    assert grad.flatten().nonzero().flatten().tolist() == [5, 7, 13, 15]


def test_without_offsets_a_deformable_convolution_is_a_convolution():
    tocha.manual_seed(0)
    x, w, b = tocha.randn(2, 4, 6, 5), tocha.randn(6, 2, 3, 3), tocha.randn(6)
    offset = tocha.zeros(2, 2 * 9, 3, 3)
    out = ops.deform_conv2d(x, w, offset, tocha.zeros(2, 1), b, 2, 2, 1, 1, 1, 1, 2, 1, False)
    assert tocha.allclose(out, tocha.nn.functional.conv2d(x, w, b, stride=2, padding=1, groups=2), atol=1e-5)


def test_nms_breaks_ties_as_its_order_and_holds_float64_against_the_threshold():
    tocha.manual_seed(0)
    for dtype in (tocha.float32, tocha.float64, tocha.float16):
        corners = tocha.rand(60, 2) * 20
        boxes = tocha.cat([corners, corners + tocha.rand(60, 2) * 10 + 1], 1).to(dtype)
        scores = tocha.arange(60) % 7 / 7
        kept, left = [], scores.argsort(descending=True, stable=True).tolist()
        while left:
            first, *rest = left
            kept.append(first)
            left = [j for j in rest if overlap(boxes[first], boxes[j]) <= 0.3]
        assert ops.nms(boxes, scores, 0.3).tolist() == kept


def overlap(a, b):
    a, b = (t if t.dtype == tocha.float64 else t.float() for t in (a, b))
    sides = (tocha.minimum(a[2:], b[2:]) - tocha.maximum(a[:2], b[:2])).clamp(min=0)
    shared = sides[0] * sides[1]
    areas = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return (shared / (areas - shared)).item()


def test_roi_pool_outside_and_of_strange_regions():
    image = tocha.arange(16.0).reshape(1, 1, 4, 4)
    strange = tocha.tensor(
        [[0, 9.0, 9.0, 12.0, 12.0], [0, float("nan"), 0.0, 1.0, float("inf")], [0, -9.0, -9.0, 9.0, 9.0]]
    )
    out, where = ops.roi_pool(image, strange, 1.0, 1, 1)
    assert out[0].item() == 0.0 and where[0].item() == -1 and out[2].item() == 15.0
    assert ops.roi_pool(image.half(), strange[2:].half(), 1.0, 1, 1)[0].dtype == tocha.float16
    with pytest.raises(IndexError, match="out of bounds for a batch of 1"):
        ops.roi_pool(image, tocha.tensor([[1, 0.0, 0.0, 3.0, 3.0]]), 1.0, 2, 2)
    grad = ops._roi_pool_backward(tocha.ones(3, 1, 1, 1), strange, where, 1.0, 1, 1, 1, 1, 4, 4)
    assert grad.flatten()[15].item() >= 1.0 and grad.sum().item() == (where >= 0).sum().item()
