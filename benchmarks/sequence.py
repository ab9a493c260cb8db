"""Sequence models: attention, recurrent networks, embeddings, the loss over a vocabulary, and what a GPT block is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from workloads import Workload, pair

rng = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def trained(group: str, name: str, arrays: list[np.ndarray], f: Callable, target: float | None = None) -> Iterator:
    """f(module, *tensors) forward alone, and with the backward pass of the sum of its result."""

    def forward(m, t):
        tensors = [t(a) for a in arrays]
        return lambda: f(m, *tensors)

    def both(m, t):
        tensors = [t(a) for a in arrays]
        leaves = [x.requires_grad_() for x in tensors if x.is_floating_point()]
        grad = m.ones_like(f(m, *tensors).detach())

        def run() -> None:
            m.autograd.grad(f(m, *tensors), leaves, grad)

        return run

    yield pair(group, name, forward, target)
    yield pair(group, f"{name}, backward too", both, target)


def attention() -> Iterator[Workload]:
    for sizes in ((8, 4, 64, 32), (4, 8, 256, 64)):
        for causal in (False, True):

            def attend(m, q, k, v, causal=causal):
                return m.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

            name = "x".join(map(str, sizes)) + (" causal" if causal else "")
            yield from trained("attention", name, [normal(*sizes) for _ in range(3)], attend, 1.2)


def recurrent() -> Iterator[Workload]:
    steps, samples, width = 32, 16, 128
    for kind, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1)):
        weights = [
            normal(*s) * 0.1
            for s in ((gates * width, width), (gates * width, width), (gates * width,), (gates * width,))
        ]
        states = [np.zeros((2, samples, width), np.float32)] * (2 if kind == "lstm" else 1)

        def run(m, x, *rest, kind=kind, states=states):
            given, params = rest[: len(states)], rest[len(states) :]
            hx = given if kind == "lstm" else given[0]
            return getattr(m, kind)(x, hx, params, True, 2, 0.0, True, False, False)[0]

        yield from trained(
            "recurrent, 2 layers", kind, [normal(steps, samples, width), *states, *weights, *weights], run
        )


def language_model(m, t, state: list[np.ndarray], words: np.ndarray) -> Callable[[], None]:
    """A training step: embedding, two LSTM layers, the logits of the next word, their loss, and plain descent."""
    table, out_weight, out_bias, *layers = [t(a).requires_grad_() for a in state]
    parameters = [table, out_weight, out_bias, *layers]
    inputs, targets = t(words[:-1]), t(words[1:].reshape(-1))
    zeros = m.zeros(2, words.shape[1], table.shape[1])
    F = m.nn.functional

    def step() -> None:
        x = F.embedding(inputs, table)
        h = m.lstm(x, (zeros, zeros), layers, True, 2, 0.0, True, False, False)[0]
        loss = F.cross_entropy(F.linear(h.reshape(-1, h.shape[-1]), out_weight, out_bias), targets)
        loss.backward()
        with m.no_grad():
            for p in parameters:
                p.sub_(p.grad, alpha=1e-6)
                p.grad = None

    return step


def lstm_language_model() -> Iterator[Workload]:
    vocabulary, width, samples, steps = 1000, 128, 16, 32
    layer = [(4 * width, width), (4 * width, width), (4 * width,), (4 * width,)]
    shapes = [(vocabulary, width), (vocabulary, width), (vocabulary,), *layer, *layer]
    state = [normal(*s) * 0.1 for s in shapes]
    words = rng.integers(0, vocabulary, (steps + 1, samples))
    yield pair("LSTM language model", "training step", lambda m, t: language_model(m, t, state, words), 1.5)


def embeddings() -> Iterator[Workload]:
    indices = rng.integers(0, 10_000, (16, 64))

    def embed(m, table, i):
        return m.nn.functional.embedding(i, table)

    def bag(m, table, i):
        return m.nn.functional.embedding_bag(i, table)

    yield from trained("embedding of 16x64 in 10,000x128", "embedding", [normal(10_000, 128), indices], embed, 1)
    yield from trained("embedding of 16x64 in 10,000x128", "embedding_bag", [normal(10_000, 128), indices], bag, 1)


def losses() -> Iterator[Workload]:
    for classes in (100, 1000, 50_000):
        scores, targets = normal(512, classes), rng.integers(0, classes, 512)

        def loss(m, x, y):
            return m.nn.functional.cross_entropy(x, y)

        yield from trained("cross entropy of 512", f"{classes} classes", [scores, targets], loss, 1)


def block_parts() -> Iterator[Workload]:
    """What a block of a GPT (8 x 64 tokens, width 128) is made of besides products and attention."""
    x, w, b = normal(8, 64, 128), normal(128), normal(128)
    group = "GPT block, 8x64x128"
    yield from trained(
        group, "layer_norm", [x, w, b], lambda m, x, w, b: m.nn.functional.layer_norm(x, (128,), w, b), 1
    )
    yield from trained(group, "rms_norm", [x, w], lambda m, x, w: m.nn.functional.rms_norm(x, (128,), w), 1)
    wide = normal(8, 64, 512)
    yield from trained(group, "gelu", [wide], lambda m, x: m.nn.functional.gelu(x), 1)
    yield from trained(group, "gelu tanh", [wide], lambda m, x: m.nn.functional.gelu(x, approximate="tanh"), 1)
    yield from trained(group, "softmax", [normal(8, 4, 64, 64)], lambda m, x: m.softmax(x, -1), 1)
    yield from trained(group, "add", [x, x], lambda m, x, y: x + y, 1)
    weight, bias = normal(512, 128), normal(512)
    yield from trained(group, "linear", [x, weight, bias], lambda m, x, w, b: m.nn.functional.linear(x, w, b), 1)


def workloads() -> Iterator[Workload]:
    yield from attention()
    yield from recurrent()
    yield from lstm_language_model()
    yield from embeddings()
    yield from losses()
    yield from block_parts()
