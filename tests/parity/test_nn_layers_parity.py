"""Every layer of torch.nn, built from the samples that PyTorch's own tests use: same weights, text, state, messages."""

from __future__ import annotations

import inspect
import re
import warnings

import numpy as np
import pytest

import tocha

torch = pytest.importorskip("torch")
from torch.testing._internal.common_modules import module_db  # noqa: E402

TORCH_ONLY = {"Container", "DataParallel"}
LAYERS = sorted(n for n, c in vars(torch.nn).items() if isinstance(c, type) and issubclass(c, torch.nn.Module))
INFOS = {i.module_cls.__name__: i for i in module_db if i.module_cls.__module__.startswith("torch.nn.modules")}
EXTRA = {
    "Conv2d": [((4, 6, (4, 3)), {"padding": "same", "dilation": 2, "padding_mode": "reflect"}), ((4, 6, 3, 2, 1, 1, 2, False), {})],
    "Conv1d": [((4, 6, 3), {"padding": "valid", "padding_mode": "circular"})],
    "ConvTranspose2d": [((4, 6, 3, 2, 1, 1, 2, False, 2), {})],
    "ConvTranspose3d": [((4, 6, 2), {})],
    "BatchNorm2d": [((3,), {"bias": False}), ((3,), {"affine": False, "track_running_stats": False})],
    "InstanceNorm2d": [((3,), {"affine": True, "track_running_stats": True})],
    "SyncBatchNorm": [((3,), {})],
    "LazyBatchNorm1d": [((), {})],
    "LSTM": [((2, 5, 2), {"bidirectional": True, "proj_size": 3, "bias": False})],
    "EmbeddingBag": [((4, 2, 1.0, 1.0, True, "sum", True, None, True, -1), {})],
    "Embedding": [((4, 2, -1, 1.0, 1.0, True, True), {})],
    "CrossMapLRN2d": [((3,), {})],
    "AdaptiveLogSoftmaxWithLoss": [((16, 20, [5, 10]), {"head_bias": True, "div_value": 2.0})],
    "Upsample": [((), {"scale_factor": (2, 3), "mode": "bilinear", "align_corners": True}), ((4,), {})],
    "UpsamplingBilinear2d": [((), {"scale_factor": 2})],
    "UpsamplingNearest2d": [((3,), {})],
    "MultiheadAttention": [((4, 2, 0.1, False, True, True, 3, 5, True), {})],
    "LinearCrossEntropyLoss": [((4, 5), {"out_features": (2, 3), "bias": True})],
    "Unflatten": [((1, (2, 3)), {})],
    "Fold": [((4, 2), {})],
    "Unfold": [((2,), {})],
    "MaxUnpool2d": [((2, 3, 1), {})],
    "FractionalMaxPool3d": [((2,), {"output_ratio": 0.5})],
    "AlphaDropout": [((0.25,), {})],
    "GRUCell": [((3, 4, False), {})],
    "RNNCell": [((3, 4), {"nonlinearity": "relu"})],
}  # fmt: skip


def carried(value):
    """An argument for tocha: tensors by value, functions by name; raises LookupError for what has no counterpart."""
    if isinstance(value, torch.Tensor):
        return tocha.from_numpy(value.detach().numpy().copy())
    if isinstance(value, (tuple, list)):
        return type(value)(carried(v) for v in value)
    if isinstance(value, dict):
        return {k: carried(v) for k, v in value.items()}
    if isinstance(value, (torch.dtype, torch.device)):
        return getattr(tocha, str(value).split(".")[-1], None) or tocha.device(str(value))
    if isinstance(value, torch.nn.Module):
        raise LookupError
    return getattr(tocha.nn.functional, value.__name__) if callable(value) else value


def samples(name):
    """The constructor arguments of a layer, each once."""
    info, found = INFOS.get(name), {}
    if info is not None:
        inputs = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=True)
        for sample in inputs:
            c = sample.constructor_input
            found.setdefault(repr((c.args, c.kwargs)), (c.args, c.kwargs))
    return [*found.values(), *EXTRA.get(name, [])]


def built(lib, name, args, kwargs):
    lib.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(lib.nn, name)(*args, **kwargs)


def plain(text):
    return re.sub(r"0x[0-9a-f]+", "", str(text).replace("torch.", "tocha."))


def attributes(module):
    base = vars(torch.nn.Module())
    return {k: plain(v) for k, v in vars(module).items() if k not in base and k[0] != "_" and not callable(v)}


def compare_tensors(expected, found):
    if type(expected).__name__.startswith("Uninitialized"):
        assert type(found).__name__ == type(expected).__name__
        return
    assert plain(expected.dtype) == str(found.dtype)
    np.testing.assert_array_equal(found.detach().numpy(), expected.detach().numpy())


def compare_modules(expected, found):
    assert plain(found) == plain(expected)
    assert attributes(found) == attributes(expected)
    for registry in ("_parameters", "_buffers", "_modules"):
        assert list(getattr(found, registry)) == list(getattr(expected, registry))
    expected_state, found_state = expected.state_dict(), found.state_dict()
    assert list(found_state) == list(expected_state)
    assert found_state._metadata == expected_state._metadata
    for key, value in expected_state.items():
        compare_tensors(value, found_state[key])


def test_every_layer_exists():
    missing = [n for n in LAYERS if n not in TORCH_ONLY and not hasattr(tocha.nn, n)]
    assert not missing


@pytest.mark.parametrize("name", [n for n in LAYERS if n in INFOS or n in EXTRA])
def test_same_layer(name):
    checked = 0
    for args, kwargs in samples(name):
        try:
            own = carried(args), carried(kwargs)
        except LookupError:
            continue
        compare_modules(built(torch, name, args, kwargs), built(tocha, name, *own))
        assert float(tocha.rand(1)) == float(torch.rand(1)), "the layer drew more or fewer numbers"
        checked += 1
    assert checked or name in ("TransformerEncoder", "TransformerDecoder")


# These take *args in PyTorch, where the documented arguments stand here.
DOCUMENTED = {"GRU", "LSTM", "RNN", "RNNBase", "Module", "NLLLoss2d"}


@pytest.mark.parametrize("name", [n for n in LAYERS if n not in TORCH_ONLY | DOCUMENTED])
def test_same_signatures(name):
    expected, found = getattr(torch.nn, name), getattr(tocha.nn, name)
    for method in ("__init__", "forward"):
        theirs, ours = (inspect.signature(getattr(c, method)).parameters.values() for c in (expected, found))
        assert [(p.name, p.kind, plain(p.default)) for p in ours] == [
            (p.name, p.kind, plain(p.default)) for p in theirs
        ]
    assert found.__module__ == expected.__module__.replace("torch", "tocha")


# Constructions and calls that fail or warn before they reach a kernel.
REFUSED = """
nn.Hardtanh(2, 1)
nn.Hardtanh(min_value=-3, max_value=3)
nn.MultiheadAttention(4, 3)
nn.MultiheadAttention(0, 3)
nn.AdaptiveLogSoftmaxWithLoss(8, 20, [])
nn.AdaptiveLogSoftmaxWithLoss(8, 20, [10, 5])
nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 20])
nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5], 2)(zeros(3, 8), zeros(2).long())
nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5], 2)(zeros(3, 8), zeros(3).long() + 20)
nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5], 2)(zeros(3, 8), zeros(3, 1).long())
nn.Conv2d(4, 6, 3, stride=2, padding="same")
nn.Conv2d(4, 6, 3, groups=3)
nn.Conv2d(6, 4, 3, groups=3)
nn.Conv2d(6, 4, 3, groups=0)
nn.Conv2d(4, 0, 3)
nn.ConvTranspose2d(4, 6, 3, padding_mode="reflect")
nn.ConvTranspose2d(2, 3, 2)(zeros(1, 2, 4, 4), output_size=(6, 5))
nn.ConvTranspose2d(2, 3, 2)(zeros(1, 2, 4, 4), output_size=(6,))
nn.LazyConv2d(2, 1)(zeros(2, 3))
nn.LazyConvTranspose2d(4, 3, groups=2)(zeros(2, 3, 8, 8))
nn.Dropout(2)
nn.Unflatten(1, 2)
nn.Unflatten(1, [2, "a"])
nn.Bilinear(0, 3, 4)
nn.Linear(0, 3)
nn.CosineEmbeddingLoss(size_average=False)
nn.MultiMarginLoss(3)
nn.MultiMarginLoss(weight=zeros(2, 2))
nn.TripletMarginLoss(margin=0)
nn.TripletMarginWithDistanceLoss(margin=-1)
nn.LinearCrossEntropyOptions(chunking_method="sometimes")
nn.LinearCrossEntropyOptions(batch_chunk_size=0)
nn.LinearCrossEntropyOptions(acc_policy="x")
nn.GroupNorm(2, 5)
nn.CrossMapLRN2d(2)(zeros(2))
nn.BatchNorm1d(2)(zeros(2))
nn.BatchNorm2d(2)(zeros(2))
nn.BatchNorm3d(2)(zeros(2))
nn.SyncBatchNorm(2)(zeros(2))
nn.SyncBatchNorm(0)(zeros(2, 0))
nn.InstanceNorm1d(2)(zeros(2))
nn.InstanceNorm2d(2, affine=True)(zeros(2, 3, 4, 4))
nn.InstanceNorm2d(2).load_state_dict({"running_mean": zeros(2), "running_var": zeros(2)})
nn.CircularPad2d(1)(zeros(2))
nn.Softmax2d()(zeros(2))
nn.Softmax()(zeros(2, 2))
nn.Sigmoid(2)
nn.FractionalMaxPool2d(2)
nn.FractionalMaxPool2d(2, 3, 0.5)
nn.FractionalMaxPool3d(2, output_ratio=(0.5, 0.5, 1.5))
nn.GRU(2, 3, proj_size=1)
nn.GRU(2, 3, 1, True, False, 0.5)
nn.LSTM(2, 3, proj_size=3)
nn.LSTM(2, 3, proj_size=-1)
nn.LSTM(2, 3, dropout=2)
nn.LSTM(2, 3, dropout=True)
nn.LSTM(2, 0)
nn.LSTM(2.0, 2)
nn.LSTM(2, 2, 0)
nn.RNN(2, 3, 1, nonlinearity="foo")
nn.RNNBase("foo", 2, 3)
nn.RNN(2, 3)(zeros(2, 2, 2, 2))
nn.LSTM(2, 3)(zeros(5))
nn.RNN(2, 3)(zeros(5, 1))
nn.RNN(2, 3)(zeros(5, 2), zeros(1, 1, 3))
nn.RNN(2, 3)(zeros(5, 4, 2), zeros(1, 3))
nn.RNN(2, 3)(zeros(5, 4, 2), zeros(1, 3, 3))
nn.GRU(2, 3)(zeros(5, 4, 2).double())
nn.LSTM(2, 3)(zeros(5, 4, 2), (zeros(1, 3), zeros(1, 3)))
nn.LSTM(2, 3)(zeros(5, 2), (zeros(1, 1, 3), zeros(1, 1, 3)))
nn.LSTM(2, 3)(zeros(5, 4, 2), (zeros(1, 4, 3), zeros(1, 4, 2)))
nn.LSTMCell(2, 3)(zeros(2, 2, 2))
nn.LSTMCell(2, 3)(zeros(2), (zeros(1, 1, 3), zeros(2, 3)))
nn.GRUCell(2, 3)(zeros(2, 2), zeros(1, 1, 3))
nn.RNNCell(2, 3, nonlinearity="foo")(zeros(2, 2))
nn.Embedding(4, 2, 5)
nn.Embedding(4, 2, _weight=zeros(3, 2))
nn.Embedding.from_pretrained(zeros(4))
nn.EmbeddingBag(4, 2, padding_idx=-5)
nn.TransformerEncoderLayer(4, 2, 8, activation="foo")
nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2)
nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, norm_first=True), 2)
nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, bias=False), 2)
nn.TransformerEncoder(nn.TransformerEncoderLayer(3, 3, 8, batch_first=True), 2)
nn.TransformerEncoderLayer(4, 2, 8)(zeros(3, 2, 4), src_mask=zeros(3, 3).long())
nn.Transformer(4, 2, 1, 1, 8, batch_first=True)(zeros(3, 1, 4), zeros(2, 2, 4))
nn.Transformer(4, 2, 1, 1, 8, batch_first=True)(zeros(3, 1, 5), zeros(3, 1, 4))
nn.functional.assert_int_or_pair((1,), "kernel_size", "bad {}")
nn.functional.affine_grid(zeros(2, 3, 3), (2, 1, 3, 3), align_corners=False)
nn.functional.affine_grid(zeros(2, 2, 3), (2, 1, 3), align_corners=False)
nn.functional.affine_grid(zeros(2, 2, 3), (2, 1, 3, 3))
nn.functional.affine_grid(zeros(2, 2, 3), (2, 1, 1, 3), align_corners=True)
nn.functional.gumbel_softmax(zeros(2), eps=1.0)
nn.factory_kwargs({"a": 1})
nn.factory_kwargs({"dtype": 1, "factory_kwargs": {"dtype": 2}})
nn.attention.sdpa_kernel("MATH").__enter__()
nn.attention.bias.causal_upper_left(1)
nn.attention.bias.causal_lower_right(4, 2)
""".strip().splitlines()


def outcome(lib, expression):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            eval(expression, {"nn": lib.nn, "zeros": lib.zeros})
            raised = None
        except Exception as error:
            raised = type(error).__name__, plain(error)
    return raised, {plain(w.message) for w in caught}


@pytest.mark.parametrize("expression", REFUSED)
def test_same_complaint(expression):
    import torch.nn.attention.bias

    import tocha.nn.attention.bias

    expected = outcome(torch, expression)
    assert expected != (None, set())
    assert outcome(tocha, expression) == expected


def test_lazy_layers_draw_the_same_weights():
    for name, args, size in [("LazyLinear", (5,), (2, 3)), ("LazyLinear", (5, False), (2, 3))]:
        found = []
        for lib in (torch, tocha):
            layer = built(lib, name, args, {})
            lib.manual_seed(1)
            layer(lib.zeros(size))
            found.append(layer)
        compare_modules(*found)
        assert type(found[1]) is tocha.nn.Linear


def test_convert_sync_batchnorm():
    def converted(lib):
        inner = lib.nn.Sequential(lib.nn.BatchNorm2d(2, affine=False), lib.nn.InstanceNorm2d(3))
        return lib.nn.SyncBatchNorm.convert_sync_batchnorm(lib.nn.Sequential(lib.nn.BatchNorm1d(2, 1e-3), inner))

    compare_modules(converted(torch), converted(tocha))


@pytest.mark.parametrize("options", [{}, {"tau": 0.5}, {"hard": True}, {"hard": True, "dim": 0}], ids=str)
def test_gumbel_softmax(options):
    logits = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    found = []
    for lib in (torch, tocha):
        lib.manual_seed(3)
        found.append(lib.nn.functional.gumbel_softmax(lib.from_numpy(logits), **options).numpy())
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)


@pytest.mark.filterwarnings("ignore:Since version 1.3.0")
@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 1, 1, 3), (2, 1, 3, 4, 5)], ids=str)
def test_affine_grid(size, align):
    theta = np.random.default_rng(0).normal(size=(2, len(size) - 2, len(size) - 1)).astype(np.float32)
    expected = torch.nn.functional.affine_grid(torch.from_numpy(theta), size, align_corners=align)
    found = tocha.nn.functional.affine_grid(tocha.from_numpy(theta), size, align_corners=align)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-6)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 30])
def test_cross_map_lrn(size):
    """Values only: PyTorch's gradient of this layer is not the derivative of its output."""
    x = np.random.default_rng(0).normal(size=(2, 9, 2, 3)).astype(np.float32)
    layers = [lib.nn.CrossMapLRN2d(size, alpha=0.3, beta=0.6, k=2) for lib in (torch, tocha)]
    expected = layers[0](torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(layers[1](tocha.from_numpy(x)).numpy(), expected, rtol=2e-5, atol=1e-6)
