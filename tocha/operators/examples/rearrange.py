"""Examples of tocha/operators/rearrange.py."""


def flip():
    """
    >>> tocha.flip(tocha.tensor([[1, 2], [3, 4]]), (0,))
    tensor([[3, 4],
            [1, 2]])
    >>> tocha.flip(tocha.tensor([[1, 2], [3, 4]]), (0, 1))
    tensor([[4, 3],
            [2, 1]])
    """


def fliplr():
    """
    >>> tocha.fliplr(tocha.tensor([[1, 2], [3, 4]]))
    tensor([[2, 1],
            [4, 3]])
    """


def flipud():
    """
    >>> tocha.flipud(tocha.tensor([[1, 2], [3, 4]]))
    tensor([[3, 4],
            [1, 2]])
    """


def roll():
    """
    >>> tocha.roll(tocha.tensor([1, 2, 3, 4]), 1)
    tensor([4, 1, 2, 3])
    >>> tocha.roll(tocha.tensor([[1, 2], [3, 4]]), 1, dims=1)
    tensor([[2, 1],
            [4, 3]])
    """


def rot90():
    """
    >>> tocha.rot90(tocha.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """


def repeat():
    """
    >>> tocha.tensor([1, 2]).repeat(2)
    tensor([1, 2, 1, 2])
    >>> tocha.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """


def tile():
    """
    >>> tocha.tile(tocha.tensor([1, 2]), (2, 2))
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """


def repeat_interleave():
    """
    >>> tocha.repeat_interleave(tocha.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    >>> tocha.repeat_interleave(tocha.tensor([1, 2]), tocha.tensor([3, 1]))
    tensor([1, 1, 1, 2])
    """


def pixel_shuffle():
    """
    >>> tocha.pixel_shuffle(tocha.arange(4).view(1, 4, 1, 1), 2)
    tensor([[[[0, 1],
              [2, 3]]]])
    """


def pixel_unshuffle():
    """
    >>> tocha.pixel_unshuffle(tocha.arange(4).view(1, 1, 2, 2), 2).shape
    tocha.Size([1, 4, 1, 1])
    """


def channel_shuffle():
    """
    >>> tocha.channel_shuffle(tocha.arange(4).view(1, 4, 1, 1), 2).flatten()
    tensor([0, 2, 1, 3])
    """


def constant_pad_nd():
    """
    >>> tocha.constant_pad_nd(tocha.tensor([[1, 2]]), (1, 1, 0, 1), 9)
    tensor([[9, 1, 2, 9],
            [9, 9, 9, 9]])
    """


def nn_pad():
    """
    >>> tocha.nn.functional.pad(tocha.tensor([[1.0, 2.0, 3.0]]), (1, 2))
    tensor([[0., 1., 2., 3., 0., 0.]])
    >>> tocha.nn.functional.pad(tocha.tensor([[1.0, 2.0, 3.0]]), (1, 1), mode="reflect")
    tensor([[2., 1., 2., 3., 2.]])
    """
