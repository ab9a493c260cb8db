"""Examples of tocha/operators/random.py."""


def rand():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.rand(2, 3)
    tensor([[0.4963, 0.7682, 0.0885],
            [0.1320, 0.3074, 0.6341]])
    """


def randn():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.randn(2, 3)
    tensor([[ 1.5410, -0.2934, -2.1788],
            [ 0.5684, -1.0845, -1.3986]])
    """


def randint():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.randint(10, (5,))
    tensor([4, 9, 3, 0, 3])
    >>> tocha.randint(5, 8, (4,))
    tensor([5, 6, 6, 6])
    """


def randperm():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.randperm(5)
    tensor([4, 0, 1, 3, 2])
    """


def rand_like():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.rand_like(tocha.zeros(3))
    tensor([0.4963, 0.7682, 0.0885])
    """


def randn_like():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.randn_like(tocha.zeros(3))
    tensor([ 1.5410, -0.2934, -2.1788])
    """


def randint_like():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.randint_like(tocha.zeros(4), 10)
    tensor([4., 9., 3., 0.])
    """


def normal():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.normal(tocha.tensor([0.0, 100.0]), tocha.tensor([1.0, 0.1]))
    tensor([ 1.5410, 99.9707])
    >>> tocha.normal(5.0, 2.0, (3,))
    tensor([0.6424, 6.1369, 2.8310])
    """


def bernoulli():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.bernoulli(tocha.full((6,), 0.5))
    tensor([1., 0., 1., 1., 1., 0.])
    >>> tocha.bernoulli(tocha.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """


def multinomial():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.multinomial(tocha.tensor([0.0, 1.0, 3.0]), 5, replacement=True)
    tensor([2, 2, 2, 2, 2])
    """


def poisson():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.poisson(tocha.tensor([0.0, 1.0, 100.0]))
    tensor([  0.,   2., 117.])
    """


def binomial():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.binomial(tocha.tensor([10.0, 100.0]), tocha.tensor([0.5, 0.2]))
    tensor([ 7., 21.])
    """


def uniform_():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.empty(3).uniform_(-1, 1)
    tensor([-0.0075,  0.5364, -0.8230])
    """


def normal_():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.empty(3).normal_(10, 2)
    tensor([13.0820,  9.4131,  5.6424])
    """


def random_():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.empty(4, dtype=tocha.int64).random_(0, 10)
    tensor([4, 9, 3, 0])
    """


def bernoulli_():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.empty(6).bernoulli_(0.5)
    tensor([0., 0., 1., 0., 0., 0.])
    """


def exponential_():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.empty(3).exponential_(2.0)
    tensor([1.7542, 0.6152, 0.3075])
    """


def cauchy_():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.empty(3).cauchy_()
    tensor([10.5977,  0.7648, -0.1283])
    """


def log_normal_():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.empty(3).log_normal_()
    tensor([5.9263e+01, 1.5116e+00, 3.4819e-02])
    """


def geometric_():
    """
    >>> _ = tocha.manual_seed(0)
    >>> tocha.empty(3).geometric_(0.3)
    tensor([1., 1., 3.])
    """
