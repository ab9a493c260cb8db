"""Examples of tocha/operators/norms.py."""


def linalg_vector_norm():
    """
    >>> tocha.linalg.vector_norm(tocha.tensor([3.0, -4.0]))
    tensor(5.)
    >>> tocha.linalg.vector_norm(tocha.tensor([3.0, -4.0]), ord=1)
    tensor(7.)
    """


def linalg_matrix_norm():
    """
    >>> tocha.linalg.matrix_norm(tocha.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(5.)
    >>> tocha.linalg.matrix_norm(tocha.tensor([[1.0, 2.0], [3.0, 4.0]]), ord=1)
    tensor(6.)
    """


def linalg_norm():
    """
    >>> tocha.linalg.norm(tocha.tensor([3.0, 4.0]))
    tensor(5.)
    >>> tocha.linalg.norm(tocha.tensor([[1.0, 2.0], [3.0, 4.0]]), ord=float("inf"))
    tensor(7.)
    """


def norm():
    """
    >>> tocha.norm(tocha.tensor([3.0, 4.0]))
    tensor(5.)
    >>> tocha.norm(tocha.tensor([[3.0, 4.0], [1.0, 1.0]]), p=1, dim=1)
    tensor([7., 2.])
    """


def frobenius_norm():
    """
    >>> tocha.frobenius_norm(tocha.tensor([[1.0, 2.0], [2.0, 4.0]]), dim=(0, 1))
    tensor(5.)
    """


def nuclear_norm():
    """
    >>> tocha.nuclear_norm(tocha.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor(5.)
    """


def dist():
    """
    >>> tocha.dist(tocha.tensor([1.0, 2.0]), tocha.tensor([4.0, 6.0]))
    tensor(5.)
    """


def renorm():
    """
    >>> tocha.renorm(tocha.tensor([[3.0, 4.0], [0.3, 0.4]]), p=2, dim=0, maxnorm=1)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """


def nn_normalize():
    """
    >>> tocha.nn.functional.normalize(tocha.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """


def cosine_similarity():
    """
    >>> tocha.cosine_similarity(tocha.tensor([[1.0, 0.0]]), tocha.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """


def nn_cosine_similarity():
    """
    >>> tocha.nn.functional.cosine_similarity(tocha.tensor([[1.0, 0.0]]), tocha.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """


def pairwise_distance():
    """
    >>> tocha.pairwise_distance(tocha.tensor([[0.0, 0.0]]), tocha.tensor([[3.0, 4.0]]))
    tensor([5.0000])
    """


def nn_pairwise_distance():
    """
    >>> tocha.nn.functional.pairwise_distance(tocha.tensor([[0.0, 0.0]]), tocha.tensor([[3.0, 4.0]]))
    tensor([5.0000])
    """


def norm_except_dim():
    """
    >>> tocha.norm_except_dim(tocha.tensor([[3.0, 4.0], [6.0, 8.0]]), 2, 0)
    tensor([[ 5.],
            [10.]])
    """
