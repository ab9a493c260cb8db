"""Examples of tocha/operators/losses.py."""


def nn_mse_loss():
    """
    >>> tocha.nn.functional.mse_loss(tocha.tensor([1.0, 2.0]), tocha.tensor([0.0, 4.0]))
    tensor(2.5000)
    >>> tocha.nn.functional.mse_loss(tocha.tensor([1.0, 2.0]), tocha.tensor([0.0, 4.0]), reduction="none")
    tensor([1., 4.])
    """


def mse_loss_backward():
    """
    >>> tocha.ops.aten.mse_loss_backward(tocha.tensor(1.0), tocha.tensor([1.0, 2.0]), tocha.tensor([0.0, 4.0]), 1)
    tensor([ 1., -2.])
    """


def nn_l1_loss():
    """
    >>> tocha.nn.functional.l1_loss(tocha.tensor([1.0, 2.0]), tocha.tensor([0.0, 4.0]))
    tensor(1.5000)
    """


def nn_smooth_l1_loss():
    """
    >>> tocha.nn.functional.smooth_l1_loss(tocha.tensor([1.0, 2.0]), tocha.tensor([0.5, 4.0]))
    tensor(0.8125)
    """


def nn_huber_loss():
    """
    >>> tocha.nn.functional.huber_loss(tocha.tensor([1.0, 2.0]), tocha.tensor([0.5, 6.0]), delta=2.0)
    tensor(3.0625)
    """


def kl_div():
    """
    >>> tocha.kl_div(tocha.tensor([0.5, 0.5]).log(), tocha.tensor([0.9, 0.1]))
    tensor([ 0.5290, -0.1609])
    """


def nn_binary_cross_entropy():
    """
    >>> tocha.nn.functional.binary_cross_entropy(tocha.tensor([0.9, 0.2]), tocha.tensor([1.0, 0.0]))
    tensor(0.1643)
    """


def binary_cross_entropy_with_logits():
    """
    >>> tocha.binary_cross_entropy_with_logits(tocha.tensor([2.0, -1.0]), tocha.tensor([1.0, 0.0]))
    tensor([0.1269, 0.3133])
    """


def poisson_nll_loss():
    """
    >>> tocha.poisson_nll_loss(tocha.tensor([0.0, 1.0]), tocha.tensor([1.0, 3.0]), True, False, 1e-8, 1)
    tensor(0.3591)
    """


def nn_nll_loss():
    """
    >>> tocha.nn.functional.nll_loss(tocha.tensor([[0.9, 0.1], [0.2, 0.8]]).log(), tocha.tensor([0, 1]))
    tensor(0.1643)
    """


def nn_cross_entropy_loss():
    """
    >>> tocha.ops.aten.cross_entropy_loss(tocha.tensor([[2.0, 0.0], [0.0, 1.0]]), tocha.tensor([0, 1]))
    tensor(0.2201)
    """


def hinge_embedding_loss():
    """
    >>> tocha.hinge_embedding_loss(tocha.tensor([0.5, 0.25]), tocha.tensor([1.0, -1.0]))
    tensor([0.5000, 0.7500])
    """


def cosine_embedding_loss():
    """
    >>> tocha.cosine_embedding_loss(tocha.tensor([[1.0, 0.0]]), tocha.tensor([[1.0, 1.0]]), tocha.tensor([1.0]))
    tensor([0.2929])
    """


def margin_ranking_loss():
    """
    >>> tocha.margin_ranking_loss(tocha.tensor([1.0, 2.0]), tocha.tensor([0.0, 3.0]), tocha.tensor([1.0, 1.0]), margin=0.5)
    tensor([0.0000, 1.5000])
    """


def nn_soft_margin_loss():
    """
    >>> tocha.nn.functional.soft_margin_loss(tocha.tensor([2.0, -1.0]), tocha.tensor([1.0, -1.0]))
    tensor(0.2201)
    """


def nn_multilabel_margin_loss():
    """
    >>> tocha.nn.functional.multilabel_margin_loss(tocha.tensor([[0.1, 0.2, 0.4, 0.8]]), tocha.tensor([[3, 0, -1, 1]]))
    tensor(0.8500)
    """


def nn_multi_margin_loss():
    """
    >>> tocha.nn.functional.multi_margin_loss(tocha.tensor([[0.1, 0.9, 0.3]]), tocha.tensor([1]))
    tensor(0.2000)
    """


def triplet_margin_loss():
    """
    >>> tocha.triplet_margin_loss(tocha.tensor([[0.0, 0.0]]), tocha.tensor([[1.0, 0.0]]), tocha.tensor([[0.0, 1.5]]))
    tensor([0.5000])
    """


def ctc_loss():
    """
    >>> log_probs = tocha.full((4, 1, 3), 1 / 3).log()
    >>> tocha.ctc_loss(log_probs, tocha.tensor([[1, 2]]), tocha.tensor([4]), tocha.tensor([2]))
    tensor([1.6864])
    """
