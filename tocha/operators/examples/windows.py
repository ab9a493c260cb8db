"""Examples of tocha/operators/windows.py."""


def bartlett_window():
    """
    >>> tocha.bartlett_window(5, periodic=False)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """


def kaiser_window():
    """
    >>> tocha.kaiser_window(5, periodic=False)
    tensor([5.2773e-05, 2.1567e-01, 1.0000e+00, 2.1567e-01, 5.2773e-05])
    """


def hann_window():
    """
    >>> tocha.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    >>> tocha.hann_window(5, periodic=False)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """


def hamming_window():
    """
    >>> tocha.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """


def blackman_window():
    """
    >>> tocha.blackman_window(4)[1:]
    tensor([0.3400, 1.0000, 0.3400])
    """
