"""Examples of tocha/operators/batch_norm.py."""


def native_batch_norm():
    """
    >>> out, mean, invstd = tocha.native_batch_norm(tocha.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 1e-5)
    >>> out, mean
    (tensor([[-1.0000],
            [ 1.0000]]), tensor([2.]))
    """


def batch_norm():
    """
    >>> x = tocha.tensor([[1.0, 10.0], [3.0, 30.0]])
    >>> tocha.batch_norm(x, None, None, None, None, True, 0.1, 1e-5, False)
    tensor([[-1.0000, -1.0000],
            [ 1.0000,  1.0000]])
    """


def nn_batch_norm():
    """
    >>> x = tocha.tensor([[1.0, 10.0], [3.0, 30.0]])
    >>> tocha.nn.functional.batch_norm(x, tocha.tensor([2.0, 20.0]), tocha.tensor([1.0, 100.0]))
    tensor([[-1.0000, -1.0000],
            [ 1.0000,  1.0000]])
    """


def instance_norm():
    """
    >>> tocha.instance_norm(tocha.tensor([[[1.0, 3.0], [5.0, 9.0]]]), None, None, None, None, True, 0.1, 1e-5, False)
    tensor([[[-1.0000,  1.0000],
             [-1.0000,  1.0000]]])
    """


def nn_instance_norm():
    """
    >>> tocha.nn.functional.instance_norm(tocha.tensor([[[1.0, 3.0], [5.0, 9.0]]]))
    tensor([[[-1.0000,  1.0000],
             [-1.0000,  1.0000]]])
    """
