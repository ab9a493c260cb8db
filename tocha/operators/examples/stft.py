"""Examples of tocha/operators/stft.py."""


def stft():
    """
    >>> x = tocha.ones(8)
    >>> tocha.stft(x, n_fft=4, window=tocha.ones(4), center=False, return_complex=True).shape
    tocha.Size([3, 5])
    """


def istft():
    """
    >>> window = tocha.hann_window(4)
    >>> x = tocha.arange(8.0)
    >>> spectrum = tocha.stft(x, 4, window=window, return_complex=True)
    >>> tocha.allclose(tocha.istft(spectrum, 4, window=window), x, atol=1e-5)
    True
    """
