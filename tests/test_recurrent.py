"""Recurrent networks against NumPy step by step: cells, layers, directions, packed data, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import tocha
from tocha.autograd import gradcheck, gradgradcheck

rng = np.random.default_rng(0)
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def normal(*shape):
    return rng.standard_normal(shape) * 0.5


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step(kind, x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr=None):
    """One step for one batch; the cell is None but for LSTM."""
    a, b = x @ w_ih.T + b_ih, h @ w_hh.T + b_hh
    if kind == "lstm":
        i, f, g, o = np.split(a + b, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        return (h if w_hr is None else h @ w_hr.T), c
    if kind == "gru":
        (ar, az, an), (br, bz, bn) = np.split(a, 3, -1), np.split(b, 3, -1)
        z, new = sigmoid(az + bz), np.tanh(an + sigmoid(ar + br) * bn)
        return (1 - z) * new + z * h, None
    return (np.tanh(a + b) if kind == "rnn_tanh" else np.maximum(a + b, 0)), None


def layer_weights(kind, inputs, hidden, outputs=None):
    n, outputs_ = GATES[kind] * hidden, outputs or hidden
    made = [normal(n, inputs), normal(n, outputs_) / outputs_**0.5, normal(n), normal(n)]
    return made if outputs is None else [*made, normal(outputs, hidden)]


def run_steps(kind, x, h, c, weights, reverse=False):
    """Outputs and last states of one layer over [steps, samples, features]."""
    out = [None] * len(x)
    for t in reversed(range(len(x))) if reverse else range(len(x)):
        h, c = step(kind, x[t], h, c, *weights)
        out[t] = h
    return np.stack(out), h, c


def call(kind, x, states, weights, layers=1, bidirectional=False, batch_first=False, dropout=0.0, train=False):
    hx = states if kind == "lstm" else states[0]
    return getattr(tocha, kind)(x, hx, weights, True, layers, dropout, train, bidirectional, batch_first)


def initial(kind, layers, samples, hidden, outputs=None):
    states = [normal(layers, samples, outputs or hidden)]
    return [*states, normal(layers, samples, hidden)] if kind == "lstm" else states


def tensors(arrays, dtype=tocha.float64):
    return [tocha.tensor(a).to(dtype) for a in arrays]


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("samples,hidden", [(1, 3), (5, 33), (9, 64), (2, 200)])
def test_layer(kind, samples, hidden):
    x, states, weights = normal(6, samples, 7), initial(kind, 1, samples, hidden), layer_weights(kind, 7, hidden)
    out, h, c = run_steps(kind, x, states[0][0], states[1][0] if kind == "lstm" else None, weights)
    for dtype, error in ((tocha.float64, 1e-10), (tocha.float32, 1e-4)):
        got = call(kind, tocha.tensor(x).to(dtype), tensors(states, dtype), tensors(weights, dtype))
        np.testing.assert_allclose(got[0].numpy(), out, rtol=error, atol=error)
        np.testing.assert_allclose(got[1][0].numpy(), h, rtol=error, atol=error)
        if kind == "lstm":
            np.testing.assert_allclose(got[2][0].numpy(), c, rtol=error, atol=error)


@pytest.mark.parametrize("dtype,error", [(tocha.bfloat16, 3e-2), (tocha.float16, 4e-3)])
def test_half(dtype, error):
    x, states, weights = normal(4, 3, 5), initial("lstm", 1, 3, 6), layer_weights("lstm", 5, 6)
    expected = run_steps("lstm", x, states[0][0], states[1][0], weights)[0]
    out = call("lstm", tocha.tensor(x).to(dtype), tensors(states, dtype), tensors(weights, dtype))[0]
    assert out.dtype == dtype
    np.testing.assert_allclose(out.float().numpy(), expected, atol=error)


def test_layers_and_directions_and_projection():
    """Two LSTM layers, both ways, projected: the second reads both directions of the first."""
    x, states = normal(5, 3, 4), initial("lstm", 4, 3, 6, 2)
    weights = [layer_weights("lstm", 4, 6, 2) for _ in range(4)]
    data = x
    for layer in range(2):
        both = [
            run_steps("lstm", data, states[0][i], states[1][i], weights[i], reverse=i % 2 == 1)[0]
            for i in (2 * layer, 2 * layer + 1)
        ]
        data = np.concatenate(both, -1)
    flat = tensors(w for ws in weights for w in ws)
    out, h, c = call("lstm", tocha.tensor(x), tensors(states), flat, layers=2, bidirectional=True)
    np.testing.assert_allclose(out.numpy(), data, rtol=1e-10)
    assert h.shape == (4, 3, 2) and c.shape == (4, 3, 6)
    np.testing.assert_allclose(h[3].numpy(), data[0, :, 2:], rtol=1e-10)  # the way back ends at the first step
    first = call(
        "lstm", tocha.tensor(x.swapaxes(0, 1).copy()), tensors(states), flat, 2, bidirectional=True, batch_first=True
    )
    assert (first[0].transpose(0, 1) == out).all()


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_packed_sequences_are_sequences_one_by_one(kind, bidirectional):
    lengths, hidden, ways = [5, 3, 3, 1], 4, 2 if bidirectional else 1
    sequences = [normal(n, 1, 3) for n in lengths]
    states = initial(kind, ways, len(lengths), hidden)
    weights = [w for _ in range(ways) for w in layer_weights(kind, 3, hidden)]
    sizes = [sum(n > t for n in lengths) for t in range(5)]
    packed = np.concatenate([sequences[i][t] for t in range(5) for i in range(sizes[t])])
    hx = tensors(states) if kind == "lstm" else tensors(states)[0]
    got = getattr(tocha, kind)(
        tocha.tensor(packed), tocha.tensor(sizes), hx, tensors(weights), True, 1, 0.0, False, bidirectional
    )
    for i, sequence in enumerate(sequences):
        alone = call(
            kind, tocha.tensor(sequence), tensors(s[:, i : i + 1] for s in states), tensors(weights), 1, bidirectional
        )
        rows = [sum(sizes[:t]) + i for t in range(lengths[i])]
        np.testing.assert_allclose(got[0].numpy()[rows], alone[0][:, 0].numpy(), rtol=1e-10)
        for a, b in zip(got[1:], alone[1:], strict=True):
            np.testing.assert_allclose(a[:, i].numpy(), b[:, 0].numpy(), rtol=1e-10)


@pytest.mark.parametrize("kind", GATES)
def test_cells_are_layers_of_one_step(kind):
    x, states, weights = normal(3, 5), initial(kind, 1, 3, 4), layer_weights(kind, 5, 4)
    expected = step(kind, x, states[0][0], states[1][0] if kind == "lstm" else None, *weights)
    hx = [tocha.tensor(s[0]) for s in states]
    got = getattr(tocha, f"{kind}_cell")(tocha.tensor(x), hx if kind == "lstm" else hx[0], *tensors(weights))
    for a, b in zip(got if kind == "lstm" else [got], expected, strict=False):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-10)


@pytest.mark.parametrize("kind,projected", [("lstm", False), ("lstm", True), ("gru", False), ("rnn_tanh", False), ("rnn_relu", False)])  # fmt: skip
def test_gradients_by_finite_differences(kind, projected):
    """Packed data, two directions, all inputs; first and second derivatives."""
    outputs = 2 if projected else None
    states = [t.requires_grad_() for t in tensors(initial(kind, 2, 2, 3, outputs))]
    weights = [t.requires_grad_() for _ in range(2) for t in tensors(layer_weights(kind, 2, 3, outputs))]
    data, sizes = tocha.tensor(normal(3, 2)).requires_grad_(), tocha.tensor([2, 1])

    def f(data, *rest):
        hx, params = rest[: len(states)], rest[len(states) :]
        hx = list(hx) if kind == "lstm" else hx[0]
        return getattr(tocha, kind)(data, sizes, hx, list(params), True, 1, 0.0, False, True)

    assert gradcheck(f, (data, *states, *weights))
    if kind != "rnn_relu":
        assert gradgradcheck(f, (data, *states, *weights))


@pytest.mark.parametrize("samples", [2, 12])  # few samples: each step is cut for the threads
def test_gradients_do_not_depend_on_how_work_is_cut(samples):
    x, states, weights = normal(3, samples, 40), initial("gru", 1, samples, 150), layer_weights("gru", 40, 150)
    given = [t.requires_grad_() for t in tensors([x, *states, *weights])]
    grad = tocha.tensor(normal(3, samples, 150))

    def gradients():
        return tocha.autograd.grad(call("gru", given[0], given[1:2], given[2:])[0], given, grad)

    threads = tocha.get_num_threads()
    try:
        tocha.set_num_threads(1)
        alone = gradients()
    finally:
        tocha.set_num_threads(threads)
    for a, b in zip(alone, gradients(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-12)


def test_unwanted_gradients_are_not_made():
    """Only the recurrent weight learns: everything else stays without a gradient."""
    given = tensors([normal(3, 2, 4), *initial("lstm", 1, 2, 3), *layer_weights("lstm", 4, 3)])
    given[4].requires_grad_()
    call("lstm", given[0], given[1:3], given[3:])[0].sum().backward()
    assert given[4].grad.shape == (12, 3) and all(t.grad is None for i, t in enumerate(given) if i != 4)


def test_dropout_between_layers_only():
    x, states = tocha.ones(3, 2, 4), [tocha.zeros(2, 2, 4)] * 2
    weights = tensors([*layer_weights("lstm", 4, 4), *layer_weights("lstm", 4, 4)], tocha.float32)
    plain = call("lstm", x, states, weights, 2)
    assert (call("lstm", x, states, weights, 2, dropout=0.5)[0] == plain[0]).all()
    dropped = call("lstm", x, states, weights, 2, dropout=0.5, train=True)
    assert (dropped[1][0] == plain[1][0]).all() and (dropped[1][1] != plain[1][1]).any()


def test_refusals():
    x, states, weights = (
        tocha.ones(3, 2, 4),
        [tocha.zeros(1, 2, 3)] * 2,
        tensors(layer_weights("lstm", 4, 3), tocha.float32),
    )
    for bad in [
        lambda: call("lstm", x, states[:1], weights),
        lambda: call("lstm", x, states, weights[:3]),
        lambda: call("lstm", x[..., :2], states, weights),
        lambda: call("lstm", x[:0], states, weights),
        lambda: call("lstm", x.double(), states, weights),
        lambda: call("lstm", x, [tocha.zeros(1, 3, 3)] * 2, weights),
        lambda: tocha.lstm(x[0], tocha.tensor([1, 2]), states, weights, True, 1, 0.0, False, False),
    ]:
        with pytest.raises(RuntimeError):
            bad()
