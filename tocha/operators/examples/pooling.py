"""Examples of tocha/operators/pooling.py."""


def nn_max_pool2d_with_indices():
    """
    >>> tocha.ops.aten.max_pool2d_with_indices(tocha.arange(16.0).view(1, 4, 4), [2, 2])
    (tensor([[[ 5.,  7.],
             [13., 15.]]]), tensor([[[ 5,  7],
             [13, 15]]]))
    """


def nn_max_pool3d_with_indices():
    """
    >>> tocha.ops.aten.max_pool3d_with_indices(tocha.arange(8.0).view(1, 2, 2, 2), [2, 2, 2])
    (tensor([[[[7.]]]]), tensor([[[[7]]]]))
    """


def max_pool2d_with_indices_backward():
    """
    >>> x = tocha.arange(4.0).view(1, 2, 2)
    >>> y, at = tocha.ops.aten.max_pool2d_with_indices(x, [2, 2])
    >>> tocha.ops.aten.max_pool2d_with_indices_backward(tocha.ones(1, 1, 1), x, [2, 2], [2, 2], [0, 0], [1, 1], False, at)
    tensor([[[0., 0.],
             [0., 1.]]])
    """


def max_pool1d_with_indices():
    """
    >>> tocha.max_pool1d_with_indices(tocha.tensor([[1.0, 3.0, 2.0, 5.0]]), 2)
    (tensor([[3., 5.]]), tensor([[1, 3]]))
    """


def max_pool1d():
    """
    >>> tocha.max_pool1d(tocha.tensor([[1.0, 3.0, 2.0, 5.0]]), 2)
    tensor([[3., 5.]])
    >>> tocha.max_pool1d(tocha.tensor([[1.0, 3.0, 2.0, 5.0]]), 2, stride=1)
    tensor([[3., 3., 5.]])
    """


def max_pool2d():
    """
    >>> tocha.max_pool2d(tocha.arange(16.0).view(1, 4, 4), 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """


def max_pool3d():
    """
    >>> tocha.max_pool3d(tocha.arange(8.0).view(1, 2, 2, 2), 2)
    tensor([[[[7.]]]])
    """


def nn_avg_pool2d():
    """
    >>> tocha.nn.functional.avg_pool2d(tocha.arange(16.0).view(1, 4, 4), 2)
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """


def nn_avg_pool3d():
    """
    >>> tocha.nn.functional.avg_pool3d(tocha.arange(8.0).view(1, 2, 2, 2), 2)
    tensor([[[[3.5000]]]])
    """


def avg_pool1d():
    """
    >>> tocha.avg_pool1d(tocha.tensor([[1.0, 3.0, 2.0, 6.0]]), 2)
    tensor([[2., 4.]])
    """


def nn_adaptive_avg_pool2d():
    """
    >>> tocha.nn.functional.adaptive_avg_pool2d(tocha.arange(16.0).view(1, 4, 4), 2)
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """


def nn_adaptive_avg_pool3d():
    """
    >>> tocha.nn.functional.adaptive_avg_pool3d(tocha.ones(1, 4, 5, 6), (2, 2, 3)).shape
    tocha.Size([1, 2, 2, 3])
    """


def adaptive_avg_pool1d():
    """
    >>> tocha.adaptive_avg_pool1d(tocha.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]]), 2)
    tensor([[2., 4.]])
    """


def nn_adaptive_max_pool2d():
    """
    >>> tocha.ops.aten.adaptive_max_pool2d(tocha.arange(16.0).view(1, 4, 4), [2, 2])[0]
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """


def nn_adaptive_max_pool3d():
    """
    >>> tocha.ops.aten.adaptive_max_pool3d(tocha.ones(1, 4, 5, 6), [2, 2, 3])[0].shape
    tocha.Size([1, 2, 2, 3])
    """


def adaptive_max_pool1d():
    """
    >>> tocha.adaptive_max_pool1d(tocha.tensor([[1.0, 5.0, 3.0, 4.0]]), 2)
    (tensor([[5., 4.]]), tensor([[1, 3]]))
    """


def nn_fractional_max_pool2d():
    """
    >>> tocha.ops.aten.fractional_max_pool2d(tocha.arange(16.0).view(1, 4, 4), [2, 2], [2, 2], tocha.tensor([[[0.0, 0.0]]]))[0]
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """


def nn_fractional_max_pool3d():
    """
    >>> tocha.ops.aten.fractional_max_pool3d(tocha.ones(1, 4, 4, 4), [2, 2, 2], [2, 2, 2], tocha.tensor([[[0.0, 0.0, 0.0]]]))[0].shape
    tocha.Size([1, 2, 2, 2])
    """


def nn_max_unpool2d():
    """
    >>> tocha.ops.aten.max_unpool2d(tocha.tensor([[[3.0]]]), tocha.tensor([[[3]]]), [2, 2])
    tensor([[[0., 0.],
             [0., 3.]]])
    """


def nn_max_unpool3d():
    """
    >>> tocha.ops.aten.max_unpool3d(tocha.tensor([[[[3.0]]]]), tocha.tensor([[[[7]]]]), [2, 2, 2], [2, 2, 2], [0, 0, 0])
    tensor([[[[0., 0.],
              [0., 0.]],
    <BLANKLINE>
             [[0., 0.],
              [0., 3.]]]])
    """
