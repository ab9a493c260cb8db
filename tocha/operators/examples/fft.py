"""Examples of tocha/operators/fft.py."""


def fft_fft():
    """
    >>> tocha.fft.fft(tocha.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
    """


def fft_ifft():
    """
    >>> tocha.fft.ifft(tocha.tensor([10, -2 + 2j, -2, -2 - 2j])).real
    tensor([1., 2., 3., 4.])
    """


def fft_rfft():
    """
    >>> tocha.fft.rfft(tocha.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([10.+0.j, -2.+2.j, -2.+0.j])
    """


def fft_irfft():
    """
    >>> tocha.fft.irfft(tocha.tensor([10, -2 + 2j, -2]))
    tensor([1., 2., 3., 4.])
    """


def fft_hfft():
    """
    >>> tocha.fft.hfft(tocha.tensor([10, -2 + 2j, -2]), n=4)
    tensor([ 4., 16., 12.,  8.])
    """


def fft_ihfft():
    """
    >>> tocha.fft.ihfft(tocha.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([ 2.5000-0.0000j, -0.5000-0.5000j, -0.5000-0.0000j])
    """


def fft_fftn():
    """
    >>> tocha.fft.fftn(tocha.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]])
    """


def fft_ifftn():
    """
    >>> tocha.fft.ifftn(tocha.tensor([[10.0, -2.0], [-4.0, 0.0]])).real
    tensor([[1., 2.],
            [3., 4.]])
    """


def fft_rfftn():
    """
    >>> tocha.fft.rfftn(tocha.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]])
    """


def fft_irfftn():
    """
    >>> tocha.fft.irfftn(tocha.tensor([[10.0, -2.0], [-4.0, 0.0]]))
    tensor([[1., 2.],
            [3., 4.]])
    """


def fft_hfftn():
    """
    >>> tocha.fft.hfftn(tocha.tensor([[10.0, -2.0], [-4.0, 0.0]]))
    tensor([[ 4.,  8.],
            [12., 16.]])
    """


def fft_ihfftn():
    """
    >>> tocha.fft.ihfftn(tocha.tensor([[1.0, 2.0], [3.0, 4.0]])).real
    tensor([[ 2.5000, -0.5000],
            [-1.0000,  0.0000]])
    """


def fft_fft2():
    """
    >>> tocha.fft.fft2(tocha.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]])
    """


def fft_ifft2():
    """
    >>> tocha.fft.ifft2(tocha.tensor([[10.0, -2.0], [-4.0, 0.0]])).real
    tensor([[1., 2.],
            [3., 4.]])
    """


def fft_rfft2():
    """
    >>> tocha.fft.rfft2(tocha.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]])
    """


def fft_irfft2():
    """
    >>> tocha.fft.irfft2(tocha.tensor([[10.0, -2.0], [-4.0, 0.0]]))
    tensor([[1., 2.],
            [3., 4.]])
    """


def fft_hfft2():
    """
    >>> tocha.fft.hfft2(tocha.tensor([[10.0, -2.0], [-4.0, 0.0]]))
    tensor([[ 4.,  8.],
            [12., 16.]])
    """


def fft_ihfft2():
    """
    >>> tocha.fft.ihfft2(tocha.tensor([[1.0, 2.0], [3.0, 4.0]])).real
    tensor([[ 2.5000, -0.5000],
            [-1.0000,  0.0000]])
    """


def fft_fftfreq():
    """
    >>> tocha.fft.fftfreq(4, d=0.5)
    tensor([ 0.0000,  0.5000, -1.0000, -0.5000])
    """


def fft_rfftfreq():
    """
    >>> tocha.fft.rfftfreq(4, d=0.5)
    tensor([0.0000, 0.5000, 1.0000])
    """


def fft_fftshift():
    """
    >>> tocha.fft.fftshift(tocha.tensor([0, 1, 2, -2, -1]))
    tensor([-2, -1,  0,  1,  2])
    """


def fft_ifftshift():
    """
    >>> tocha.fft.ifftshift(tocha.tensor([-2, -1, 0, 1, 2]))
    tensor([ 0,  1,  2, -2, -1])
    """
