"""Examples of tocha/operators/distances.py."""


def linalg_cross():
    """
    >>> tocha.linalg.cross(tocha.tensor([1.0, 0.0, 0.0]), tocha.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """


def cross():
    """
    >>> tocha.cross(tocha.tensor([1.0, 0.0, 0.0]), tocha.tensor([0.0, 1.0, 0.0]), dim=0)
    tensor([0., 0., 1.])
    """


def cdist():
    """
    >>> tocha.cdist(tocha.tensor([[0.0, 0.0]]), tocha.tensor([[3.0, 4.0], [1.0, 0.0]]))
    tensor([[5., 1.]])
    >>> tocha.cdist(tocha.tensor([[0.0, 0.0]]), tocha.tensor([[3.0, 4.0], [1.0, 0.0]]), p=1.0)
    tensor([[7., 1.]])
    """


def pdist():
    """
    >>> tocha.pdist(tocha.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 4.0]]))
    tensor([5., 4., 3.])
    """


def nn_pdist():
    """
    >>> tocha.nn.functional.pdist(tocha.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 4.0]]))
    tensor([5., 4., 3.])
    """
