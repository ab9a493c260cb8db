"""Examples of tocha/operators/pseudoinverse.py."""


def linalg_matrix_rank():
    """
    >>> tocha.linalg.matrix_rank(tocha.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """


def linalg_pinv():
    """
    >>> tocha.linalg.pinv(tocha.tensor([[2.0, 0.0], [0.0, 4.0], [0.0, 0.0]]))
    tensor([[0.5000, 0.0000, 0.0000],
            [0.0000, 0.2500, 0.0000]])
    """


def pinverse():
    """
    >>> tocha.pinverse(tocha.tensor([[2.0, 0.0], [0.0, 4.0], [0.0, 0.0]]))
    tensor([[0.5000, 0.0000, 0.0000],
            [0.0000, 0.2500, 0.0000]])
    """


def linalg_lstsq():
    """
    >>> A = tocha.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> tocha.linalg.lstsq(A, tocha.tensor([[1.0], [3.0], [5.5]])).solution
    tensor([[0.9167],
            [2.2500]])
    """


def linalg_cond():
    """
    >>> tocha.linalg.cond(tocha.tensor([[2.0, 0.0], [0.0, 8.0]]))
    tensor(4.)
    """
