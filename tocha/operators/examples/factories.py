"""Examples of tocha/operators/factories.py."""


def empty():
    """
    >>> tocha.empty(2, 3).shape
    tocha.Size([2, 3])
    >>> tocha.empty((2, 3), dtype=tocha.int64).dtype
    tocha.int64
    """


def empty_strided():
    """
    >>> tocha.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """


def empty_permuted():
    """
    >>> tocha.empty_permuted((2, 3, 4), (0, 2, 1)).stride()
    (12, 1, 3)
    """


def empty_like():
    """
    >>> tocha.empty_like(tocha.ones(2, 3), dtype=tocha.int32).shape
    tocha.Size([2, 3])
    """


def new_empty():
    """
    >>> tocha.ones(2, dtype=tocha.float64).new_empty((3,)).dtype
    tocha.float64
    """


def new_empty_strided():
    """
    >>> tocha.ones(2).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """


def zeros():
    """
    >>> tocha.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    >>> tocha.zeros(2, dtype=tocha.int64)
    tensor([0, 0])
    """


def ones():
    """
    >>> tocha.ones(2, 3)
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    >>> tocha.ones(2, dtype=tocha.bool)
    tensor([True, True])
    """


def full():
    """
    >>> tocha.full((2, 2), 7)
    tensor([[7, 7],
            [7, 7]])
    >>> tocha.full((2,), 0.5)
    tensor([0.5000, 0.5000])
    """


def scalar_tensor():
    """
    >>> tocha.scalar_tensor(3.5)
    tensor(3.5000)
    """


def zeros_like():
    """
    >>> tocha.zeros_like(tocha.tensor([[1, 2], [3, 4]]))
    tensor([[0, 0],
            [0, 0]])
    """


def ones_like():
    """
    >>> tocha.ones_like(tocha.tensor([1.0, 2.0]))
    tensor([1., 1.])
    """


def full_like():
    """
    >>> tocha.full_like(tocha.tensor([1.0, 2.0]), 7)
    tensor([7., 7.])
    """


def new_zeros():
    """
    >>> tocha.ones(1, dtype=tocha.float64).new_zeros(2)
    tensor([0., 0.], dtype=tocha.float64)
    """


def new_ones():
    """
    >>> tocha.tensor([1]).new_ones((2, 2))
    tensor([[1, 1],
            [1, 1]])
    """


def new_full():
    """
    >>> tocha.tensor([1.0]).new_full((2,), 7)
    tensor([7., 7.])
    """


def eye():
    """
    >>> tocha.eye(3)
    tensor([[1., 0., 0.],
            [0., 1., 0.],
            [0., 0., 1.]])
    >>> tocha.eye(2, 3)
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """


def arange():
    """
    >>> tocha.arange(5)
    tensor([0, 1, 2, 3, 4])
    >>> tocha.arange(1, 2.5, 0.5)
    tensor([1.0000, 1.5000, 2.0000])
    """


def range():
    """
    >>> tocha.range(1, 4)
    tensor([1., 2., 3., 4.])
    >>> tocha.range(0, 1, 0.5)
    tensor([0.0000, 0.5000, 1.0000])
    """


def linspace():
    """
    >>> tocha.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """


def logspace():
    """
    >>> tocha.logspace(0, 3, 4)
    tensor([   1.,   10.,  100., 1000.])
    >>> tocha.logspace(0, 3, 4, base=2)
    tensor([1., 2., 4., 8.])
    """
