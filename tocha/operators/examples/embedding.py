"""Examples of tocha/operators/embedding.py."""


def embedding_dense_backward():
    """
    >>> tocha.ops.aten.embedding_dense_backward(tocha.ones(3, 2), tocha.tensor([0, 2, 2]), 4, -1, False)
    tensor([[1., 1.],
            [0., 0.],
            [2., 2.],
            [0., 0.]])
    """


def embedding_bag():
    """
    >>> weight = tocha.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    >>> tocha.embedding_bag(weight, tocha.tensor([0, 1, 2]), tocha.tensor([0, 2]))[0]
    tensor([[3., 3.],
            [3., 3.]])
    """


def nn_embedding_bag():
    """
    >>> weight = tocha.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    >>> tocha.nn.functional.embedding_bag(tocha.tensor([[0, 1], [2, 2]]), weight, mode="sum")
    tensor([[3., 3.],
            [6., 6.]])
    """
