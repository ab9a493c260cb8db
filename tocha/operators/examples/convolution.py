"""Examples of tocha/operators/convolution.py."""


def convolution():
    """
    >>> x = tocha.arange(5.0).view(1, 1, 5)
    >>> tocha.convolution(x, tocha.ones(1, 1, 3), None, [1], [0], [1], False, [0], 1)
    tensor([[[3., 6., 9.]]])
    """


def convolution_backward():
    """
    >>> x, w = tocha.ones(1, 1, 4), tocha.ones(1, 1, 2)
    >>> grads = tocha.ops.aten.convolution_backward(tocha.ones(1, 1, 3), x, w, [1], [1], [0], [1], False, [0], 1, [True, True, True])
    >>> grads[0]
    tensor([[[1., 2., 2., 1.]]])
    >>> grads[1]
    tensor([[[3., 3.]]])
    """


def conv1d():
    """
    >>> x = tocha.arange(5.0).view(1, 1, 5)
    >>> tocha.conv1d(x, tocha.tensor([[[1.0, 0.0, -1.0]]]))
    tensor([[[-2., -2., -2.]]])
    >>> tocha.conv1d(x, tocha.tensor([[[1.0, 0.0, -1.0]]]), padding=1)
    tensor([[[-1., -2., -2., -2.,  3.]]])
    """


def conv2d():
    """
    >>> x = tocha.arange(9.0).view(1, 1, 3, 3)
    >>> tocha.conv2d(x, tocha.ones(1, 1, 2, 2))
    tensor([[[[ 8., 12.],
              [20., 24.]]]])
    >>> tocha.conv2d(x, tocha.ones(4, 1, 3, 3), padding=1).shape
    tocha.Size([1, 4, 3, 3])
    """


def conv3d():
    """
    >>> tocha.conv3d(tocha.ones(1, 2, 4, 4, 4), tocha.ones(3, 2, 2, 2, 2)).shape
    tocha.Size([1, 3, 3, 3, 3])
    """


def conv_transpose1d():
    """
    >>> tocha.conv_transpose1d(tocha.tensor([[[1.0, 2.0, 3.0]]]), tocha.tensor([[[1.0, 1.0]]]))
    tensor([[[1., 3., 5., 3.]]])
    >>> tocha.conv_transpose1d(tocha.tensor([[[1.0, 2.0, 3.0]]]), tocha.tensor([[[1.0, 1.0]]]), stride=2)
    tensor([[[1., 1., 2., 2., 3., 3.]]])
    """


def conv_transpose2d():
    """
    >>> tocha.conv_transpose2d(tocha.tensor([[[[1.0, 2.0]]]]), tocha.ones(1, 1, 2, 2))
    tensor([[[[1., 3., 2.],
              [1., 3., 2.]]]])
    """


def conv_transpose3d():
    """
    >>> tocha.conv_transpose3d(tocha.ones(1, 2, 4, 4, 4), tocha.ones(2, 3, 2, 2, 2), stride=2).shape
    tocha.Size([1, 3, 8, 8, 8])
    """


def conv_tbc():
    """
    >>> tocha.conv_tbc(tocha.ones(5, 1, 2), tocha.ones(3, 2, 4), tocha.zeros(4)).shape
    tocha.Size([3, 1, 4])
    """
