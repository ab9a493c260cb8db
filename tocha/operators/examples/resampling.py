"""Examples of tocha/operators/resampling.py."""


def nn_upsample_nearest1d():
    """
    >>> tocha.ops.aten.upsample_nearest1d(tocha.tensor([[[1.0, 2.0]]]), [4])
    tensor([[[1., 1., 2., 2.]]])
    """


def nn_upsample_nearest2d():
    """
    >>> tocha.ops.aten.upsample_nearest2d(tocha.tensor([[[[1.0, 2.0]]]]), [2, 4])
    tensor([[[[1., 1., 2., 2.],
              [1., 1., 2., 2.]]]])
    """


def nn_upsample_nearest3d():
    """
    >>> tocha.ops.aten.upsample_nearest3d(tocha.ones(1, 1, 2, 2, 2), [4, 4, 4]).shape
    tocha.Size([1, 1, 4, 4, 4])
    """


def nn_upsample_linear1d():
    """
    >>> tocha.ops.aten.upsample_linear1d(tocha.tensor([[[0.0, 3.0]]]), [4], True)
    tensor([[[0., 1., 2., 3.]]])
    """


def nn_upsample_bilinear2d():
    """
    >>> tocha.ops.aten.upsample_bilinear2d(tocha.tensor([[[[0.0, 3.0]]]]), [1, 4], True)
    tensor([[[[0., 1., 2., 3.]]]])
    """


def nn_upsample_trilinear3d():
    """
    >>> tocha.ops.aten.upsample_trilinear3d(tocha.ones(1, 1, 2, 2, 2), [4, 4, 4], False).shape
    tocha.Size([1, 1, 4, 4, 4])
    """


def nn_upsample_bicubic2d():
    """
    >>> tocha.ops.aten.upsample_bicubic2d(tocha.tensor([[[[0.0, 3.0]]]]), [1, 4], True)
    tensor([[[[0.0000, 0.9444, 2.0556, 3.0000]]]])
    """


def grid_sampler_2d():
    """
    >>> grid = tocha.tensor([[[[-1.0, -1.0], [1.0, 1.0]]]])
    >>> tocha.grid_sampler_2d(tocha.arange(4.0).view(1, 1, 2, 2), grid, 0, 0, True)
    tensor([[[[0., 3.]]]])
    """


def grid_sampler_3d():
    """
    >>> tocha.grid_sampler_3d(tocha.arange(8.0).view(1, 1, 2, 2, 2), tocha.zeros(1, 1, 1, 1, 3), 0, 0, True)
    tensor([[[[[3.5000]]]]])
    """


def grid_sampler():
    """
    >>> tocha.grid_sampler(tocha.arange(4.0).view(1, 1, 2, 2), tocha.zeros(1, 1, 1, 2), 0, 0, True)
    tensor([[[[1.5000]]]])
    """


def affine_grid_generator():
    """
    >>> tocha.affine_grid_generator(tocha.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), [1, 1, 1, 2], True)
    tensor([[[[-1.,  0.],
              [ 1.,  0.]]]])
    """


def nn__upsample_nearest_exact1d():
    """
    >>> tocha.ops.aten._upsample_nearest_exact1d(tocha.tensor([[[1.0, 2.0, 3.0]]]), [2])
    tensor([[[1., 3.]]])
    """


def nn__upsample_nearest_exact2d():
    """
    >>> tocha.ops.aten._upsample_nearest_exact2d(tocha.tensor([[[[1.0, 2.0, 3.0]]]]), [1, 2])
    tensor([[[[1., 3.]]]])
    """


def nn__upsample_nearest_exact3d():
    """
    >>> tocha.ops.aten._upsample_nearest_exact3d(tocha.ones(1, 1, 2, 2, 2), [4, 4, 4]).shape
    tocha.Size([1, 1, 4, 4, 4])
    """


def nn__upsample_bilinear2d_aa():
    """
    >>> tocha.ops.aten._upsample_bilinear2d_aa(tocha.tensor([[[[0.0, 1.0, 2.0, 3.0]]]]), [1, 2], False)
    tensor([[[[0.7143, 2.2857]]]])
    """


def nn__upsample_bicubic2d_aa():
    """
    >>> tocha.ops.aten._upsample_bicubic2d_aa(tocha.tensor([[[[0.0, 1.0, 2.0, 3.0]]]]), [1, 2], False)
    tensor([[[[0.5868, 2.4132]]]])
    """


def nn__upsample_lanczos2d_aa():
    """
    >>> tocha.ops.aten._upsample_lanczos2d_aa(tocha.tensor([[[[0.0, 1.0, 2.0, 3.0]]]]), [1, 2], False)
    tensor([[[[0.5381, 2.4619]]]])
    """
