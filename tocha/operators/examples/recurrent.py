"""Examples of tocha/operators/recurrent.py."""


def lstm():
    """
    >>> cell = tocha.nn.LSTM(2, 3)
    >>> weights = list(cell.parameters())
    >>> h = (tocha.zeros(1, 1, 3), tocha.zeros(1, 1, 3))
    >>> out, hn, cn = tocha.lstm(tocha.ones(5, 1, 2), h, weights, True, 1, 0.0, False, False, False)
    >>> out.shape, hn.shape, cn.shape
    (tocha.Size([5, 1, 3]), tocha.Size([1, 1, 3]), tocha.Size([1, 1, 3]))
    """


def gru():
    """
    >>> weights = list(tocha.nn.GRU(2, 3).parameters())
    >>> out, hn = tocha.gru(tocha.ones(5, 1, 2), tocha.zeros(1, 1, 3), weights, True, 1, 0.0, False, False, False)
    >>> out.shape, hn.shape
    (tocha.Size([5, 1, 3]), tocha.Size([1, 1, 3]))
    """


def rnn_tanh():
    """
    >>> weights = list(tocha.nn.RNN(2, 3).parameters())
    >>> out, hn = tocha.rnn_tanh(tocha.ones(5, 1, 2), tocha.zeros(1, 1, 3), weights, True, 1, 0.0, False, False, False)
    >>> out.shape, hn.shape
    (tocha.Size([5, 1, 3]), tocha.Size([1, 1, 3]))
    """


def rnn_relu():
    """
    >>> weights = list(tocha.nn.RNN(2, 3).parameters())
    >>> out, hn = tocha.rnn_relu(tocha.ones(5, 1, 2), tocha.zeros(1, 1, 3), weights, True, 1, 0.0, False, False, False)
    >>> out.shape, hn.shape
    (tocha.Size([5, 1, 3]), tocha.Size([1, 1, 3]))
    """


def lstm_cell():
    """
    >>> h, c = tocha.lstm_cell(tocha.ones(1, 2), (tocha.zeros(1, 1), tocha.zeros(1, 1)), tocha.ones(4, 2), tocha.ones(4, 1))
    >>> h, c
    (tensor([[0.6083]]), tensor([[0.8491]]))
    """


def gru_cell():
    """
    >>> tocha.gru_cell(tocha.ones(1, 2), tocha.zeros(1, 1), tocha.ones(3, 2), tocha.ones(3, 1))
    tensor([[0.1149]])
    """


def rnn_tanh_cell():
    """
    >>> tocha.rnn_tanh_cell(tocha.tensor([[0.5, 0.5]]), tocha.zeros(1, 1), tocha.ones(1, 2), tocha.ones(1, 1))
    tensor([[0.7616]])
    """


def rnn_relu_cell():
    """
    >>> tocha.rnn_relu_cell(tocha.tensor([[0.5, 0.5]]), tocha.zeros(1, 1), tocha.ones(1, 2), tocha.ones(1, 1))
    tensor([[1.]])
    """
