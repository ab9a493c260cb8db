"""Examples of tocha/operators/normalization.py."""


def native_layer_norm():
    """
    >>> out, mean, rstd = tocha.native_layer_norm(tocha.tensor([[1.0, 3.0]]), [2], None, None, 1e-5)
    >>> out, mean, rstd
    (tensor([[-1.0000,  1.0000]]), tensor([[2.]]), tensor([[1.0000]]))
    """


def layer_norm():
    """
    >>> tocha.layer_norm(tocha.tensor([[1.0, 3.0], [2.0, 8.0]]), [2])
    tensor([[-1.0000,  1.0000],
            [-1.0000,  1.0000]])
    """


def nn_layer_norm():
    """
    >>> tocha.nn.functional.layer_norm(tocha.tensor([[1.0, 3.0], [2.0, 8.0]]), [2], weight=tocha.tensor([2.0, 1.0]))
    tensor([[-2.0000,  1.0000],
            [-2.0000,  1.0000]])
    """


def rms_norm():
    """
    >>> tocha.rms_norm(tocha.tensor([[3.0, 4.0]]), [2])
    tensor([[0.8485, 1.1314]])
    """


def nn_rms_norm():
    """
    >>> tocha.nn.functional.rms_norm(tocha.tensor([[3.0, 4.0]]), [2])
    tensor([[0.8485, 1.1314]])
    """


def native_group_norm():
    """
    >>> out, mean, rstd = tocha.native_group_norm(tocha.tensor([[[1.0], [3.0]]]), None, None, 1, 2, 1, 1, 1e-5)
    >>> out, mean
    (tensor([[[-1.0000],
             [ 1.0000]]]), tensor([[2.]]))
    """


def group_norm():
    """
    >>> tocha.group_norm(tocha.tensor([[1.0, 3.0, 10.0, 20.0]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """


def nn_group_norm():
    """
    >>> tocha.nn.functional.group_norm(tocha.tensor([[1.0, 3.0, 10.0, 20.0]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
