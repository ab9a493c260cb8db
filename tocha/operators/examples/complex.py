"""Examples of tocha/operators/complex.py."""


def real():
    """
    >>> tocha.real(tocha.tensor([1 + 2j, 3 - 4j]))
    tensor([1., 3.])
    """


def imag():
    """
    >>> tocha.imag(tocha.tensor([1 + 2j, 3 - 4j]))
    tensor([ 2., -4.])
    """


def view_as_real():
    """
    >>> tocha.view_as_real(tocha.tensor([1 + 2j, 3 - 4j]))
    tensor([[ 1.,  2.],
            [ 3., -4.]])
    """


def view_as_complex():
    """
    >>> tocha.view_as_complex(tocha.tensor([[1.0, 2.0], [3.0, -4.0]]))
    tensor([1.+2.j, 3.-4.j])
    """


def angle():
    """
    >>> tocha.angle(tocha.tensor([1j, -1, 1 + 1j]))
    tensor([1.5708, 3.1416, 0.7854])
    """


def conj():
    """
    >>> tocha.conj(tocha.tensor([1 + 2j, 3 - 4j]))
    tensor([1.-2.j, 3.+4.j])
    """


def resolve_conj():
    """
    >>> x = tocha.conj(tocha.tensor([1 + 2j]))
    >>> x.is_conj()
    True
    >>> tocha.resolve_conj(x).is_conj()
    False
    """


def resolve_neg():
    """
    >>> x = tocha.conj(tocha.tensor([1 + 2j])).imag
    >>> x.is_neg()
    True
    >>> tocha.resolve_neg(x).is_neg()
    False
    """


def conj_physical():
    """
    >>> tocha.conj_physical(tocha.tensor([1 + 2j, 3 - 4j]))
    tensor([1.-2.j, 3.+4.j])
    """


def complex():
    """
    >>> tocha.complex(tocha.tensor([1.0, 2.0]), tocha.tensor([3.0, 4.0]))
    tensor([1.+3.j, 2.+4.j])
    """


def polar():
    """
    >>> tocha.polar(tocha.tensor([1.0, 2.0]), tocha.tensor([0.0, 0.5]))
    tensor([1.0000+0.0000j, 1.7552+0.9589j])
    """
