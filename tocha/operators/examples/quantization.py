"""Examples of tocha/operators/quantization.py."""


def fake_quantize_per_tensor_affine():
    """
    >>> x = tocha.tensor([-0.26, 0.04, 0.5, 9.0])
    >>> tocha.fake_quantize_per_tensor_affine(x, scale=0.1, zero_point=0, quant_min=-8, quant_max=7)
    tensor([-0.3000,  0.0000,  0.5000,  0.7000])
    """


def fake_quantize_per_channel_affine():
    """
    >>> x = tocha.tensor([[0.26, 0.31], [0.26, 9.0]])
    >>> scale, zero_point = tocha.tensor([0.1, 0.2]), tocha.zeros(2, dtype=tocha.int32)
    >>> tocha.fake_quantize_per_channel_affine(x, scale, zero_point, axis=0, quant_min=0, quant_max=15)
    tensor([[0.3000, 0.3000],
            [0.2000, 3.0000]])
    """


def fake_quantize_per_tensor_affine_cachemask():
    """
    >>> x = tocha.tensor([-0.26, 0.04, 0.5, 9.0])
    >>> out, mask = tocha.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 0, -8, 7)
    >>> mask
    tensor([ True,  True,  True, False])
    """


def fake_quantize_per_tensor_affine_cachemask_backward():
    """
    >>> mask = tocha.tensor([True, False])
    >>> tocha.ops.aten.fake_quantize_per_tensor_affine_cachemask_backward(tocha.ones(2), mask)
    tensor([1., 0.])
    """


def fake_quantize_per_channel_affine_cachemask():
    """
    >>> x = tocha.tensor([[0.26, 0.31], [0.26, 9.0]])
    >>> scale, zero_point = tocha.tensor([0.1, 0.2]), tocha.zeros(2, dtype=tocha.int32)
    >>> out, mask = tocha.ops.aten.fake_quantize_per_channel_affine_cachemask(x, scale, zero_point, 0, 0, 15)
    >>> mask
    tensor([[ True,  True],
            [ True, False]])
    """


def fake_quantize_per_channel_affine_cachemask_backward():
    """
    >>> mask = tocha.tensor([True, False])
    >>> tocha.ops.aten.fake_quantize_per_channel_affine_cachemask_backward(tocha.ones(2), mask)
    tensor([1., 0.])
    """
