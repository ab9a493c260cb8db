"""Examples of tocha/operators/dropout.py."""


def dropout():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.dropout(tocha.ones(6), 0.5, train=True)
    tensor([0., 0., 2., 0., 0., 0.])
    >>> tocha.dropout(tocha.ones(6), 0.5, train=False)
    tensor([1., 1., 1., 1., 1., 1.])
    """


def dropout_():
    """
    >>> _ = tocha.manual_seed(0)
    >>> x = tocha.ones(6)
    >>> tocha.dropout_(x, 0.5, train=True)
    tensor([0., 0., 2., 0., 0., 0.])
    """


def feature_dropout():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.feature_dropout(tocha.ones(1, 4, 2), 0.5, train=True)
    tensor([[[0., 0.],
             [0., 0.],
             [2., 2.],
             [0., 0.]]])
    """


def feature_dropout_():
    """
    >>> _ = tocha.manual_seed(0)
    >>> x = tocha.ones(1, 4, 2)
    >>> tocha.feature_dropout_(x, 0.5, train=True)
    tensor([[[0., 0.],
             [0., 0.],
             [2., 2.],
             [0., 0.]]])
    """


def alpha_dropout():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.alpha_dropout(tocha.ones(4), 0.5, train=True)
    tensor([-0.7792, -0.7792,  1.6656, -0.7792])
    """


def alpha_dropout_():
    """
    >>> _ = tocha.manual_seed(0)
    >>> x = tocha.ones(4)
    >>> tocha.alpha_dropout_(x, 0.5, train=True)
    tensor([-0.7792, -0.7792,  1.6656, -0.7792])
    """


def feature_alpha_dropout():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.feature_alpha_dropout(tocha.ones(1, 4, 2), 0.5, train=True)
    tensor([[[-0.7792, -0.7792],
             [-0.7792, -0.7792],
             [ 1.6656,  1.6656],
             [-0.7792, -0.7792]]])
    """


def feature_alpha_dropout_():
    """
    >>> _ = tocha.manual_seed(0)
    >>> x = tocha.ones(1, 4, 2)
    >>> tocha.feature_alpha_dropout_(x, 0.5, train=True)
    tensor([[[-0.7792, -0.7792],
             [-0.7792, -0.7792],
             [ 1.6656,  1.6656],
             [-0.7792, -0.7792]]])
    """


def native_dropout():
    """
    >>> out, kept = tocha.native_dropout(tocha.ones(1000), 0.5, True)
    >>> tocha.equal(out, kept * 2.0)
    True
    """


def native_dropout_backward():
    """
    >>> tocha.ops.aten.native_dropout_backward(tocha.ones(3), tocha.tensor([True, False, True]), 2.0)
    tensor([2., 0., 2.])
    """


def rrelu():
    """
    >>> tocha.rrelu(tocha.tensor([-1.0, 2.0]), 0.1, 0.3)
    tensor([-0.2000,  2.0000])
    """


def rrelu_():
    """
    >>> x = tocha.tensor([-1.0, 2.0])
    >>> tocha.rrelu_(x, 0.1, 0.3)
    tensor([-0.2000,  2.0000])
    """
