"""Examples of tocha/operators/patches.py."""


def nn_im2col():
    """
    >>> x = tocha.arange(9.0).view(1, 1, 3, 3)
    >>> tocha.ops.aten.im2col(x, [2, 2], [1, 1], [0, 0], [1, 1])
    tensor([[[0., 1., 3., 4.],
             [1., 2., 4., 5.],
             [3., 4., 6., 7.],
             [4., 5., 7., 8.]]])
    """


def nn_col2im():
    """
    >>> tocha.ops.aten.col2im(tocha.ones(1, 4, 4), [3, 3], [2, 2], [1, 1], [0, 0], [1, 1])
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])
    """


def nn_unfold():
    """
    >>> x = tocha.arange(9.0).view(1, 1, 3, 3)
    >>> tocha.nn.functional.unfold(x, 2)
    tensor([[[0., 1., 3., 4.],
             [1., 2., 4., 5.],
             [3., 4., 6., 7.],
             [4., 5., 7., 8.]]])
    """


def nn_fold():
    """
    >>> tocha.nn.functional.fold(tocha.ones(1, 4, 4), (3, 3), 2)
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])
    """


def native_channel_shuffle():
    """
    >>> tocha.native_channel_shuffle(tocha.arange(4).view(1, 4, 1), 2).flatten()
    tensor([0, 2, 1, 3])
    """
