"""Examples of tocha/operators/copies.py."""


def copy_():
    """
    >>> x = tocha.zeros(2)
    >>> x.copy_(tocha.tensor([1, 2]))
    tensor([1., 2.])
    """


def fill_():
    """
    >>> x = tocha.zeros(2)
    >>> x.fill_(7)
    tensor([7., 7.])
    """


def fill():
    """
    >>> tocha.fill(tocha.zeros(2), 7)
    tensor([7., 7.])
    """


def fill_diagonal_():
    """
    >>> tocha.zeros(2, 3).fill_diagonal_(5)
    tensor([[5., 0., 0.],
            [0., 5., 0.]])
    """


def zero_():
    """
    >>> x = tocha.tensor([1.0, 2.0])
    >>> x.zero_()
    tensor([0., 0.])
    """


def clone():
    """
    >>> x = tocha.tensor([1, 2])
    >>> y = tocha.clone(x)
    >>> y[0] = 9
    >>> x, y
    (tensor([1, 2]), tensor([9, 2]))
    """


def contiguous():
    """
    >>> x = tocha.arange(4).view(2, 2).t()
    >>> x.is_contiguous(), x.contiguous().is_contiguous()
    (False, True)
    """


def to():
    """
    >>> tocha.tensor([1, 2]).to(tocha.float64)
    tensor([1., 2.], dtype=tocha.float64)
    >>> tocha.tensor([1.5, 2.5]).to("cpu", tocha.int32)
    tensor([1, 2], dtype=tocha.int32)
    """


def type_as():
    """
    >>> tocha.tensor([1.7, 2.0]).type_as(tocha.tensor([1]))
    tensor([1, 2])
    """


def cpu():
    """
    >>> tocha.tensor([1, 2]).cpu()
    tensor([1, 2])
    """


def double():
    """
    >>> tocha.tensor([1, 2]).double()
    tensor([1., 2.], dtype=tocha.float64)
    """


def float():
    """
    >>> tocha.tensor([1, 2]).float()
    tensor([1., 2.])
    """


def half():
    """
    >>> tocha.tensor([1, 2]).half()
    tensor([1., 2.], dtype=tocha.float16)
    """


def bfloat16():
    """
    >>> tocha.tensor([1, 2]).bfloat16()
    tensor([1., 2.], dtype=tocha.bfloat16)
    """


def long():
    """
    >>> tocha.tensor([1.7, -2.7]).long()
    tensor([ 1, -2])
    """


def int():
    """
    >>> tocha.tensor([1.7, -2.7]).int()
    tensor([ 1, -2], dtype=tocha.int32)
    """


def short():
    """
    >>> tocha.tensor([1.7, -2.7]).short()
    tensor([ 1, -2], dtype=tocha.int16)
    """


def char():
    """
    >>> tocha.tensor([1.7, -2.7]).char()
    tensor([ 1, -2], dtype=tocha.int8)
    """


def byte():
    """
    >>> tocha.tensor([1.7, 255.0]).byte()
    tensor([  1, 255], dtype=tocha.uint8)
    """


def bool():
    """
    >>> tocha.tensor([0.0, 0.5, -2.0]).bool()
    tensor([False,  True,  True])
    """


def cfloat():
    """
    >>> tocha.tensor([1, 2]).cfloat()
    tensor([1.+0.j, 2.+0.j])
    """


def chalf():
    """
    >>> tocha.tensor([1, 2]).chalf().dtype
    tocha.complex32
    """


def cdouble():
    """
    >>> tocha.tensor([1, 2]).cdouble()
    tensor([1.+0.j, 2.+0.j], dtype=tocha.complex128)
    """
