"""Recurrent networks and attention held against PyTorch: all forms of the former with first and second derivatives,
PyTorch's own samples of the latter with one seed for both.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

import tocha

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
FORMS = [
    (kind, layers, bidirectional, biases, projected, packed)
    for kind, layers, bidirectional, biases, projected, packed in itertools.product(
        GATES, (1, 2), (False, True), (False, True), (0, 3), (False, True)
    )
    if (kind == "lstm" or not projected) and (biases or layers == 1)
]


def ours(x):
    if isinstance(x, torch.Tensor):
        d = x.detach()
        if d.dtype is torch.bfloat16:
            y = tocha.tensor(d.view(torch.int16).numpy()).view(tocha.bfloat16)
        else:
            y = tocha.tensor(d.numpy())
        return y.requires_grad_(x.requires_grad)
    if isinstance(x, list | tuple):
        return type(x)(ours(v) for v in x)
    return x


def tensors(v):
    """All tensors in a nest of lists and dicts."""
    if isinstance(v, dict):
        v = list(v.values())
    if isinstance(v, list | tuple):
        return [t for x in v for t in tensors(x)]
    return [v] if isinstance(v, torch.Tensor | tocha.Tensor) else []


def agree(a, b, error):
    if a is None or b is None:
        assert a is b or not (a if b is None else b).any()
        return
    x, y = (t.detach().double().numpy() for t in (a, b))
    assert x.shape == y.shape
    np.testing.assert_allclose(y, x, rtol=error, atol=error * max(1, np.abs(x).max(initial=0)))


def derivatives(m, f, inputs):
    """Results, first and second derivatives of a nonlinear function of the results."""
    found = list(f())
    first = m.autograd.grad(sum((t * t.sin()).sum() for t in found), inputs, create_graph=True)
    second = m.autograd.grad(sum((g * g).sum() for g in first), inputs)
    plain = m.autograd.grad(sum((t * t.sin()).sum() for t in f()), inputs)
    return [*found, *first, *second, *plain]


@pytest.mark.parametrize("kind,layers,bidirectional,biases,projected,packed", FORMS)
def test_recurrent(kind, layers, bidirectional, biases, projected, packed):
    torch.manual_seed(0)
    ways, hidden, outputs = 2 if bidirectional else 1, 7, projected or 7
    make = dict(dtype=torch.float64, requires_grad=True)
    params = []
    for i in range(layers * ways):
        inputs = 6 if i < ways else outputs * ways
        shapes = [(GATES[kind] * hidden, inputs), (GATES[kind] * hidden, outputs)]
        shapes += [(GATES[kind] * hidden,)] * 2 * biases + [(outputs, hidden)] * bool(projected)
        params += [torch.randn(*s, **make) for s in shapes]
    states = [torch.randn(layers * ways, 4, outputs, **make)]
    if kind == "lstm":
        states.append(torch.randn(layers * ways, 4, hidden, **make))
    sizes = torch.tensor([4, 3, 1]) if packed else None
    x = torch.randn(8, 6, **make) if packed else torch.randn(4, 3, 6, **make)  # padded: batch first

    def results(m, x, states, params, sizes):
        hx = states if kind == "lstm" else states[0]
        common = (hx, params, biases, layers, 0.0, True, bidirectional)
        return lambda: getattr(m, kind)(x, sizes, *common) if packed else getattr(m, kind)(x, *common, True)

    given = (x, states, params, sizes)
    expected = derivatives(torch, results(torch, *given), [x, *states, *params])
    copies = tuple(ours(v) for v in given)
    got = derivatives(tocha, results(tocha, *copies), tensors(copies[:3]))
    for a, b in zip(expected, got, strict=True):
        agree(a, b, 1e-7)


ERRORS = {torch.float32: 2e-4, torch.float64: 1e-7, torch.bfloat16: 3e-2, torch.float16: 4e-3}


@pytest.mark.parametrize("dtype", ERRORS, ids=str)
@pytest.mark.parametrize("name", ["scaled_dot_product_attention", "multi_head_attention_forward"])
def test_attention_samples(name, dtype):
    """With dropout too: both draw the same mask from the same seed."""
    entry = next(o for o in op_db if o.name == f"nn.functional.{name}")
    if name.startswith("multi") and dtype in (torch.bfloat16, torch.float16):
        pytest.skip("its samples have scores of several hundred, whose order half precision does not keep")
    for sample in itertools.islice(entry.sample_inputs("cpu", dtype, requires_grad=False), 60):
        args = (sample.input, *sample.args)
        for t in tensors((args, sample.kwargs)):
            t.requires_grad_(t.is_floating_point())
        copies, options = ours(args), {k: ours(v) for k, v in sample.kwargs.items()}
        torch.manual_seed(1)
        expected = tensors([getattr(torch.nn.functional, name)(*args, **sample.kwargs)])
        tocha.manual_seed(1)
        got = tensors([getattr(tocha.nn.functional, name)(*copies, **options)])
        ins = [t for t in tensors((args, sample.kwargs)) if t.requires_grad]
        own = [t for t in tensors((copies, options)) if t.requires_grad]
        grads = torch.autograd.grad(sum((t * t).sum() for t in expected), ins, allow_unused=True)
        own_grads = tocha.autograd.grad(sum((t * t).sum() for t in got), own, allow_unused=True)
        for a, b in zip([*expected, *grads], [*got, *own_grads], strict=True):
            agree(a, b, ERRORS[dtype])
