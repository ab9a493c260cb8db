"""Examples of tocha/operators/statistics.py."""


def var():
    """
    >>> x = tocha.tensor([[1.0, 2.0], [3.0, 6.0]])
    >>> tocha.var(x)
    tensor(4.6667)
    >>> tocha.var(x, dim=1, correction=0)
    tensor([0.2500, 2.2500])
    """


def std():
    """
    >>> x = tocha.tensor([[1.0, 2.0], [3.0, 6.0]])
    >>> tocha.std(x)
    tensor(2.1602)
    >>> tocha.std(x, dim=1)
    tensor([0.7071, 2.1213])
    """


def var_mean():
    """
    >>> tocha.var_mean(tocha.tensor([1.0, 2.0, 6.0]))
    (tensor(7.), tensor(3.))
    """


def std_mean():
    """
    >>> tocha.std_mean(tocha.tensor([1.0, 2.0, 6.0]))
    (tensor(2.6458), tensor(3.))
    """


def nanmean():
    """
    >>> tocha.nanmean(tocha.tensor([1.0, float("nan"), 3.0]))
    tensor(2.)
    """


def trace():
    """
    >>> tocha.trace(tocha.tensor([[1, 2], [3, 4]]))
    tensor(5)
    """


def sum_to_size():
    """
    >>> tocha.ones(3, 4).sum_to_size(1, 4)
    tensor([[3., 3., 3., 3.]])
    """


def median():
    """
    >>> tocha.median(tocha.tensor([5.0, 1.0, 3.0]))
    tensor(3.)
    >>> tocha.median(tocha.tensor([[5, 1, 3], [2, 4, 6]]), dim=1)
    tocha.return_types.median(
    values=tensor([3, 4]),
    indices=tensor([2, 1]))
    """


def nanmedian():
    """
    >>> tocha.nanmedian(tocha.tensor([5.0, float("nan"), 3.0, 1.0]))
    tensor(3.)
    """


def mode():
    """
    >>> tocha.mode(tocha.tensor([1, 3, 3, 2]))
    tocha.return_types.mode(
    values=tensor(3),
    indices=tensor(2))
    """


def quantile():
    """
    >>> tocha.quantile(tocha.tensor([0.0, 1.0, 2.0, 3.0]), tocha.tensor([0.25, 0.5]))
    tensor([0.7500, 1.5000])
    """


def nanquantile():
    """
    >>> tocha.nanquantile(tocha.tensor([0.0, float("nan"), 2.0]), 0.5)
    tensor(1.)
    """


def cov():
    """
    >>> tocha.cov(tocha.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """


def corrcoef():
    """
    >>> tocha.corrcoef(tocha.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """


def bincount():
    """
    >>> tocha.bincount(tocha.tensor([0, 2, 2, 3]))
    tensor([1, 0, 2, 1])
    >>> tocha.bincount(tocha.tensor([0, 1, 1]), weights=tocha.tensor([0.5, 1.0, 2.0]))
    tensor([0.5000, 3.0000])
    """


def histc():
    """
    >>> tocha.histc(tocha.tensor([1.0, 2.0, 1.0, 4.0]), bins=4, min=0, max=4)
    tensor([0., 2., 1., 1.])
    """


def histogram():
    """
    >>> tocha.histogram(tocha.tensor([1.0, 2.0, 1.0]), bins=2, range=(0.0, 3.0))
    tocha.return_types.histogram(
    hist=tensor([2., 1.]),
    bin_edges=tensor([0.0000, 1.5000, 3.0000]))
    """


def histogramdd():
    """
    >>> tocha.histogramdd(tocha.tensor([[0.0, 1.0], [1.0, 0.0]]), bins=[2, 2]).hist
    tensor([[0., 1.],
            [1., 0.]])
    """
