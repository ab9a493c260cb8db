"""Examples of tocha/operators/softmax.py."""


def softmax():
    """
    >>> tocha.softmax(tocha.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([0.0900, 0.2447, 0.6652])
    """


def log_softmax():
    """
    >>> tocha.log_softmax(tocha.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([-2.4076, -1.4076, -0.4076])
    """


def special_softmax():
    """
    >>> tocha.special.softmax(tocha.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([0.0900, 0.2447, 0.6652])
    """


def special_log_softmax():
    """
    >>> tocha.special.log_softmax(tocha.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([-2.4076, -1.4076, -0.4076])
    """


def nn_softmax():
    """
    >>> tocha.nn.functional.softmax(tocha.tensor([[1.0, 2.0, 3.0]]), dim=-1)
    tensor([[0.0900, 0.2447, 0.6652]])
    """


def nn_log_softmax():
    """
    >>> tocha.nn.functional.log_softmax(tocha.tensor([[1.0, 2.0, 3.0]]), dim=-1)
    tensor([[-2.4076, -1.4076, -0.4076]])
    """


def nn_softmin():
    """
    >>> tocha.nn.functional.softmin(tocha.tensor([[1.0, 2.0, 3.0]]), dim=-1)
    tensor([[0.6652, 0.2447, 0.0900]])
    """
