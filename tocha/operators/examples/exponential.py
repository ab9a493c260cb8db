"""Examples of tocha/operators/exponential.py."""


def exp():
    """
    >>> tocha.exp(tocha.tensor([0.0, 1.0, 2.0]))
    tensor([1.0000, 2.7183, 7.3891])
    """


def exp2():
    """
    >>> tocha.exp2(tocha.tensor([0.0, 1.0, 3.0]))
    tensor([1., 2., 8.])
    """


def expm1():
    """
    >>> tocha.expm1(tocha.tensor([0.0, 1.0]))
    tensor([0.0000, 1.7183])
    """


def log():
    """
    >>> tocha.log(tocha.tensor([1.0, tocha.e, 10.0]))
    tensor([0.0000, 1.0000, 2.3026])
    """


def log2():
    """
    >>> tocha.log2(tocha.tensor([1.0, 8.0]))
    tensor([0., 3.])
    """


def log10():
    """
    >>> tocha.log10(tocha.tensor([1.0, 1000.0]))
    tensor([0., 3.])
    """


def log1p():
    """
    >>> tocha.log1p(tocha.tensor([0.0, 1.0]))
    tensor([0.0000, 0.6931])
    """


def sigmoid():
    """
    >>> tocha.sigmoid(tocha.tensor([-2.0, 0.0, 2.0]))
    tensor([0.1192, 0.5000, 0.8808])
    """


def sigmoid_backward():
    """
    >>> tocha.ops.aten.sigmoid_backward(tocha.ones(2), tocha.tensor([0.5, 0.9]))
    tensor([0.2500, 0.0900])
    """


def logit():
    """
    >>> tocha.logit(tocha.tensor([0.5, 0.9]))
    tensor([0.0000, 2.1972])
    >>> tocha.logit(tocha.tensor([0.0, 0.9]), eps=0.01)
    tensor([-4.5951,  2.1972])
    """


def logaddexp():
    """
    >>> tocha.logaddexp(tocha.tensor([0.0, 1000.0]), tocha.tensor([0.0, 1000.0]))
    tensor([6.9315e-01, 1.0007e+03])
    """


def logaddexp2():
    """
    >>> tocha.logaddexp2(tocha.tensor([0.0, 10.0]), tocha.tensor([0.0, 10.0]))
    tensor([ 1., 11.])
    """


def xlogy():
    """
    >>> tocha.xlogy(tocha.tensor([0.0, 2.0]), tocha.tensor([0.0, 3.0]))
    tensor([0.0000, 2.1972])
    """


def special_xlog1py():
    """
    >>> tocha.special.xlog1py(tocha.tensor([0.0, 2.0]), tocha.tensor([-1.0, 1.0]))
    tensor([0.0000, 1.3863])
    """


def special_entr():
    """
    >>> tocha.special.entr(tocha.tensor([-1.0, 0.0, 0.5]))
    tensor([  -inf, 0.0000, 0.3466])
    """
