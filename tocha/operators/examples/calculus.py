"""Examples of tocha/operators/calculus.py."""


def diff():
    """
    >>> tocha.diff(tocha.tensor([1, 3, 6, 10]))
    tensor([2, 3, 4])
    >>> tocha.diff(tocha.tensor([1, 3, 6, 10]), n=2)
    tensor([1, 1])
    """


def trapezoid():
    """
    >>> tocha.trapezoid(tocha.tensor([1.0, 2.0, 3.0]))
    tensor(4.)
    >>> tocha.trapezoid(tocha.tensor([1.0, 2.0, 3.0]), dx=0.5)
    tensor(2.)
    """


def cumulative_trapezoid():
    """
    >>> tocha.cumulative_trapezoid(tocha.tensor([1.0, 2.0, 3.0]))
    tensor([1.5000, 4.0000])
    """


def gradient():
    """
    >>> tocha.gradient(tocha.tensor([1.0, 4.0, 9.0, 16.0]))
    (tensor([3., 4., 6., 7.]),)
    """
