"""Examples of tocha/operators/activations.py."""


def relu():
    """
    >>> tocha.relu(tocha.tensor([-1.0, 0.0, 2.0]))
    tensor([0., 0., 2.])
    """


def threshold_backward():
    """
    >>> tocha.ops.aten.threshold_backward(tocha.tensor([1.0, 1.0]), tocha.tensor([-1.0, 2.0]), 0)
    tensor([0., 1.])
    """


def nn_leaky_relu():
    """
    >>> tocha.nn.functional.leaky_relu(tocha.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """


def leaky_relu_backward():
    """
    >>> tocha.ops.aten.leaky_relu_backward(tocha.tensor([1.0, 1.0]), tocha.tensor([-1.0, 2.0]), 0.1, False)
    tensor([0.1000, 1.0000])
    """


def nn_hardtanh():
    """
    >>> tocha.nn.functional.hardtanh(tocha.tensor([-2.0, 0.5, 2.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """


def nn_relu6():
    """
    >>> tocha.nn.functional.relu6(tocha.tensor([-1.0, 3.0, 9.0]))
    tensor([0., 3., 6.])
    """


def threshold():
    """
    >>> tocha.threshold(tocha.tensor([0.5, 1.0, 2.0]), 1.0, -3.0)
    tensor([-3., -3.,  2.])
    """


def nn_hardsigmoid():
    """
    >>> tocha.nn.functional.hardsigmoid(tocha.tensor([-4.0, 0.0, 1.5, 4.0]))
    tensor([0.0000, 0.5000, 0.7500, 1.0000])
    """


def nn_hardswish():
    """
    >>> tocha.nn.functional.hardswish(tocha.tensor([-1.0, 0.0, 1.5, 4.0]))
    tensor([-0.3333,  0.0000,  1.1250,  4.0000])
    """


def hardshrink():
    """
    >>> tocha.hardshrink(tocha.tensor([-1.0, 0.3, 0.6]), 0.5)
    tensor([-1.0000,  0.0000,  0.6000])
    """


def nn_softshrink():
    """
    >>> tocha.nn.functional.softshrink(tocha.tensor([-1.0, 0.25, 0.75]), 0.5)
    tensor([-0.5000,  0.0000,  0.2500])
    """


def prelu():
    """
    >>> tocha.prelu(tocha.tensor([-2.0, 3.0]), tocha.tensor([0.25]))
    tensor([-0.5000,  3.0000])
    """


def nn_elu():
    """
    >>> tocha.nn.functional.elu(tocha.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """


def selu():
    """
    >>> tocha.selu(tocha.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """


def celu():
    """
    >>> tocha.celu(tocha.tensor([-1.0, 2.0]), alpha=0.5)
    tensor([-0.4323,  2.0000])
    """


def nn_gelu():
    """
    >>> tocha.nn.functional.gelu(tocha.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.0000,  0.8413])
    >>> tocha.nn.functional.gelu(tocha.tensor([-1.0, 0.0, 1.0]), approximate="tanh")
    tensor([-0.1588,  0.0000,  0.8412])
    """


def gelu_backward():
    """
    >>> tocha.ops.aten.gelu_backward(tocha.ones(3), tocha.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.0833,  0.5000,  1.0833])
    """


def nn_silu():
    """
    >>> tocha.nn.functional.silu(tocha.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.2689,  0.0000,  0.7311])
    """


def silu_backward():
    """
    >>> tocha.ops.aten.silu_backward(tocha.ones(3), tocha.tensor([-1.0, 0.0, 1.0]))
    tensor([0.0723, 0.5000, 0.9277])
    """


def nn_mish():
    """
    >>> tocha.nn.functional.mish(tocha.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.3034,  0.0000,  0.8651])
    """


def nn_softplus():
    """
    >>> tocha.nn.functional.softplus(tocha.tensor([-1.0, 0.0, 30.0]))
    tensor([ 0.3133,  0.6931, 30.0000])
    """


def nn_logsigmoid():
    """
    >>> tocha.nn.functional.logsigmoid(tocha.tensor([-1.0, 0.0, 1.0]))
    tensor([-1.3133, -0.6931, -0.3133])
    """


def nn_softsign():
    """
    >>> tocha.nn.functional.softsign(tocha.tensor([-1.0, 0.0, 3.0]))
    tensor([-0.5000,  0.0000,  0.7500])
    """


def nn_tanhshrink():
    """
    >>> tocha.nn.functional.tanhshrink(tocha.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.2384,  0.0000,  0.2384])
    """


def nn_glu():
    """
    >>> tocha.nn.functional.glu(tocha.tensor([[1.0, 2.0, 0.0, 10.0]]))
    tensor([[0.5000, 1.9999]])
    """
