"""Examples of tocha/operators/indexing.py."""


def index():
    """
    >>> tocha.ops.aten.index(tocha.arange(6).view(2, 3), [tocha.tensor([0, 1]), tocha.tensor([2, 0])])
    tensor([2, 3])
    """


def index_put():
    """
    >>> tocha.index_put(tocha.zeros(3), (tocha.tensor([0, 2]),), tocha.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """


def index_select():
    """
    >>> tocha.index_select(tocha.tensor([[1, 2], [3, 4], [5, 6]]), 0, tocha.tensor([2, 0]))
    tensor([[5, 6],
            [1, 2]])
    """


def index_add():
    """
    >>> tocha.index_add(tocha.zeros(3), 0, tocha.tensor([0, 2, 2]), tocha.tensor([1.0, 2.0, 3.0]))
    tensor([1., 0., 5.])
    """


def index_copy():
    """
    >>> tocha.index_copy(tocha.zeros(3), 0, tocha.tensor([2, 0]), tocha.tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """


def index_fill():
    """
    >>> tocha.index_fill(tocha.zeros(3), 0, tocha.tensor([0, 2]), 7)
    tensor([7., 0., 7.])
    """


def index_reduce():
    """
    >>> tocha.index_reduce(tocha.ones(3), 0, tocha.tensor([0, 2, 2]), tocha.tensor([5.0, 2.0, 3.0]), "prod")
    tensor([5., 1., 6.])
    """


def take():
    """
    >>> tocha.take(tocha.tensor([[1, 2], [3, 4]]), tocha.tensor([0, 3]))
    tensor([1, 4])
    """


def put():
    """
    >>> tocha.put(tocha.zeros(2, 2), tocha.tensor([0, 3]), tocha.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """


def take_along_dim():
    """
    >>> x = tocha.tensor([[30, 10], [20, 40]])
    >>> tocha.take_along_dim(x, x.argsort(dim=1), dim=1)
    tensor([[10, 30],
            [20, 40]])
    """


def embedding():
    """
    >>> weight = tocha.tensor([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]])
    >>> tocha.embedding(weight, tocha.tensor([2, 1]))
    tensor([[3., 4.],
            [1., 2.]])
    """


def embedding_renorm_():
    """
    >>> weight = tocha.tensor([[3.0, 4.0], [0.3, 0.4]])
    >>> tocha.embedding_renorm_(weight, tocha.tensor([0, 1]), 1.0, 2.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """


def nn_embedding():
    """
    >>> weight = tocha.tensor([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]])
    >>> tocha.nn.functional.embedding(tocha.tensor([2, 1]), weight)
    tensor([[3., 4.],
            [1., 2.]])
    """


def nn_one_hot():
    """
    >>> tocha.nn.functional.one_hot(tocha.tensor([0, 2]), num_classes=3)
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """


def isin():
    """
    >>> tocha.isin(tocha.tensor([1, 2, 3]), tocha.tensor([2, 3]))
    tensor([False,  True,  True])
    """
