"""Compiled functions inside inference mode: its tensors have no versions and no history."""

import pytest

import tocha
from tocha import nn


@pytest.fixture(params=["eager", "aot_eager", "inductor"])
def backend(request):
    return request.param


@pytest.mark.parametrize("make", [lambda: nn.Linear(4, 4), lambda: nn.LayerNorm(4), lambda: nn.BatchNorm1d(4)])
def test_modules(make, backend):
    module = make()
    compiled = tocha.compile(module, backend=backend)
    x = tocha.randn(2, 4)
    module.eval()
    with tocha.inference_mode():
        found, expected = compiled(x), module(x)
    tocha.testing.assert_close(found, expected)
    assert found.is_inference() and not found.requires_grad
    assert compiled(x).requires_grad


def written(x, target):
    target.add_(x)
    y = x * 2
    y.mul_(3)
    return y + target


def test_writes(backend):
    compiled = tocha.compile(written, backend=backend)
    with tocha.inference_mode():
        x, target = tocha.ones(3), tocha.zeros(3)
        assert compiled(x, target).tolist() == [7, 7, 7]
        assert target.tolist() == [1, 1, 1]
    target = tocha.zeros(3)
    before = target._version
    compiled(tocha.ones(3), target)
    assert target._version == before + 1
