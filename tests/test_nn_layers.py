"""The layers of tocha.nn against formulas written in NumPy, and the contracts that need no other framework."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

import tocha
from tocha import _C, nn
from tocha.nn import functional as F

RNG = np.random.default_rng(0)


def needs(*names):
    """Skips a test while an operator that its layer calls is not in the build."""
    missing = [n for n in names if not hasattr(F, n) and not hasattr(_C, n)]
    return pytest.mark.skipif(bool(missing), reason=f"without {missing}")


def numbers(*size):
    return RNG.normal(size=size).astype(np.float32)


def tensor(array):
    return tocha.from_numpy(np.ascontiguousarray(array))


def close(found, expected, atol=1e-5):
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-4, atol=atol)


def arrays(module):
    return {name: value.detach().numpy() for name, value in module.state_dict().items()}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


# ---- linear -----------------------------------------------------------------------------------------------------


def test_linear():
    layer, x = nn.Linear(3, 2), numbers(4, 5, 3)
    close(layer(tensor(x)), x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy())


def test_first_weights_are_pytorchs():
    tocha.manual_seed(0)
    layer = nn.Linear(3, 2)
    expected = [[-0.004322517663240433, 0.3097158372402191, -0.4751853346824646], [-0.4248946011066437, -0.2223689705133438, 0.15482072532176971]]  # fmt: skip
    assert layer.weight.tolist() == expected
    assert layer.bias.tolist() == [-0.011439144611358643, 0.45777493715286255]


def test_bilinear():
    layer, a, b = nn.Bilinear(2, 3, 4), numbers(5, 2), numbers(5, 3)
    w = arrays(layer)
    close(layer(tensor(a), tensor(b)), np.einsum("ni,oij,nj->no", a, w["weight"], b) + w["bias"])


def test_lazy_linear_becomes_linear():
    layer = nn.LazyLinear(2)
    assert isinstance(layer.weight, nn.UninitializedParameter)
    assert layer(tocha.zeros(4, 3)).shape == (4, 2)
    assert type(layer) is nn.Linear and layer.in_features == 3 and layer.weight.shape == (2, 3)


# ---- activations ------------------------------------------------------------------------------------------------

X = np.linspace(-4, 7, 24, dtype=np.float32).reshape(2, 3, 4)
ACTIVATIONS = {
    "sigmoid": (nn.Sigmoid(), sigmoid),
    "tanh": (nn.Tanh(), np.tanh),
    "relu": (nn.ReLU(), lambda x: np.maximum(x, 0)),
    "relu6": (nn.ReLU6(), lambda x: np.clip(x, 0, 6)),
    "hardtanh": (nn.Hardtanh(-2, 3), lambda x: np.clip(x, -2, 3)),
    "elu": (nn.ELU(0.5), lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
    "celu": (nn.CELU(2.0), lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2))),
    "selu": (nn.SELU(), lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))),
    "silu": (nn.SiLU(), lambda x: x * sigmoid(x)),
    "mish": (nn.Mish(), lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    "leaky": (nn.LeakyReLU(0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    "prelu": (nn.PReLU(init=0.3), lambda x: np.where(x > 0, x, 0.3 * x)),
    "rrelu": (nn.RReLU(0.1, 0.3).eval(), lambda x: np.where(x > 0, x, 0.2 * x)),
    "threshold": (nn.Threshold(1.0, 20.0), lambda x: np.where(x > 1, x, 20)),
    "hardsigmoid": (nn.Hardsigmoid(), lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    "hardswish": (nn.Hardswish(), lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "hardshrink": (nn.Hardshrink(1.5), lambda x: np.where(np.abs(x) > 1.5, x, 0)),
    "softshrink": (nn.Softshrink(1.5), lambda x: np.sign(x) * np.maximum(np.abs(x) - 1.5, 0)),
    "softplus": (nn.Softplus(2.0, 10.0), lambda x: np.where(2 * x > 10, x, np.log1p(np.exp(2 * x)) / 2)),
    "softsign": (nn.Softsign(), lambda x: x / (1 + np.abs(x))),
    "tanhshrink": (nn.Tanhshrink(), lambda x: x - np.tanh(x)),
    "logsigmoid": (nn.LogSigmoid(), lambda x: np.log(sigmoid(x))),
    "glu": (nn.GLU(), lambda x: x[..., :2] * sigmoid(x[..., 2:])),
    "gelu": (nn.GELU("tanh"), lambda x: 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))),
    "softmax": (nn.Softmax(1), lambda x: softmax(x, 1)),
    "softmin": (nn.Softmin(1), lambda x: softmax(-x, 1)),
    "log softmax": (nn.LogSoftmax(2), lambda x: np.log(softmax(x, 2))),
    "softmax 2d": (nn.Softmax2d(), lambda x: softmax(x, 0)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name):
    layer, formula = ACTIVATIONS[name]
    close(layer(tensor(X)), formula(X))


@pytest.mark.parametrize("layer", [nn.ReLU(True), nn.ELU(inplace=True), nn.Hardtanh(inplace=True), nn.SiLU(True)])
def test_in_place(layer):
    x = tensor(X.copy())
    assert layer(x) is x
    assert "inplace=True" in repr(layer)


# ---- losses -----------------------------------------------------------------------------------------------------

A, B = numbers(4, 5), numbers(4, 5)
SIGNS = np.where(numbers(4, 5) > 0, 1, -1).astype(np.float32)
CLASSES = np.array([1, 0, 4, 2])
LOSSES = {
    "l1": (nn.L1Loss(), (A, B), lambda: np.abs(A - B).mean()),
    "mse sum": (nn.MSELoss(reduction="sum"), (A, B), lambda: ((A - B) ** 2).sum()),
    "mse none": (nn.MSELoss(reduction="none"), (A, B), lambda: (A - B) ** 2),
    "nll": (nn.NLLLoss(), (A, CLASSES), lambda: -A[np.arange(4), CLASSES].mean()),
    "cross entropy": (nn.CrossEntropyLoss(), (A, CLASSES), lambda: -np.log(softmax(A))[np.arange(4), CLASSES].mean()),
    "kl": (nn.KLDivLoss(reduction="batchmean"), (np.log(softmax(A)), softmax(B)), lambda: (softmax(B) * np.log(softmax(B) / softmax(A))).sum() / 4),
    "bce": (nn.BCELoss(), (sigmoid(A), sigmoid(B)), lambda: -(sigmoid(B) * np.log(sigmoid(A)) + (1 - sigmoid(B)) * np.log(1 - sigmoid(A))).mean()),
    "logits": (nn.BCEWithLogitsLoss(pos_weight=tensor(np.full(5, 2.0, np.float32))), (A, sigmoid(B)), lambda: -(2 * sigmoid(B) * np.log(sigmoid(A)) + (1 - sigmoid(B)) * np.log(1 - sigmoid(A))).mean()),
    "hinge": (nn.HingeEmbeddingLoss(2.0), (A, SIGNS), lambda: np.where(SIGNS > 0, A, np.maximum(0, 2 - A)).mean()),
    "soft margin": (nn.SoftMarginLoss(), (A, SIGNS), lambda: np.log1p(np.exp(-SIGNS * A)).mean()),
    "huber": (nn.HuberLoss(delta=0.5), (A, B), lambda: np.where(np.abs(A - B) < 0.5, 0.5 * (A - B) ** 2, 0.5 * (np.abs(A - B) - 0.25)).mean()),
    "smooth": (nn.SmoothL1Loss(beta=0.5), (A, B), lambda: np.where(np.abs(A - B) < 0.5, (A - B) ** 2, np.abs(A - B) - 0.25).mean()),
    "ranking": (nn.MarginRankingLoss(0.3), (A, B, SIGNS), lambda: np.maximum(0, -SIGNS * (A - B) + 0.3).mean()),
    "poisson": (nn.PoissonNLLLoss(), (A, np.abs(B)), lambda: (np.exp(A) - np.abs(B) * A).mean()),
    "gaussian": (nn.GaussianNLLLoss(), (A, B, np.abs(A) + 1), lambda: 0.5 * (np.log(np.abs(A) + 1) + (A - B) ** 2 / (np.abs(A) + 1)).mean()),
    "triplet": (nn.TripletMarginLoss(p=1.0), (A, B, SIGNS), lambda: np.maximum(0, np.abs(A - B + 1e-6).sum(1) - np.abs(A - SIGNS + 1e-6).sum(1) + 1).mean()),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_loss(name):
    layer, inputs, formula = LOSSES[name]
    close(layer(*(tensor(x) for x in inputs)), formula())


def test_weight_of_classes_is_a_buffer():
    layer = nn.CrossEntropyLoss(tocha.ones(5))
    assert list(layer.state_dict()) == ["weight"] and not list(layer.parameters())


def test_triplet_distance_of_ones_own():
    layer = nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs().amax(1), margin=2.0)
    expected = np.maximum(0, np.abs(A - B).max(1) - np.abs(A - SIGNS).max(1) + 2).mean()
    close(layer(tensor(A), tensor(B), tensor(SIGNS)), expected)


def test_linear_cross_entropy_with_dims():
    layer, x = nn.LinearCrossEntropyLoss(3, 4, out_features=(2,), bias=True), numbers(5, 3)
    target = RNG.integers(0, 4, (5, 2))
    w = arrays(layer)
    scores = (x @ w["linear.weight"].T + w["linear.bias"]).reshape(5, 4, 2)
    log = np.log(softmax(scores, 1))
    expected = -np.take_along_axis(log, target[:, None], 1).mean()
    close(layer(tensor(x), tensor(target)), expected)


def test_adaptive_log_softmax():
    layer, x = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0, head_bias=True), numbers(6, 8)
    w = arrays(layer)
    head = np.log(softmax(x @ w["head.weight"].T + w["head.bias"]))
    tails = [np.log(softmax(x @ w[f"tail.{i}.0.weight"].T @ w[f"tail.{i}.1.weight"].T)) for i in range(2)]
    full = np.concatenate([head[:, :3], *(head[:, 3 + i : 4 + i] + tails[i] for i in range(2))], 1)
    target = np.array([0, 2, 3, 6, 7, 11])
    close(layer.log_prob(tensor(x)), full)
    output, loss = layer(tensor(x), tensor(target))
    close(output, full[np.arange(6), target])
    close(loss, -full[np.arange(6), target].mean())
    loss.backward()
    assert all(p.grad is not None for p in layer.parameters())
    np.testing.assert_array_equal(layer.predict(tensor(x)).numpy(), full.argmax(1))
    one = layer(tensor(x[0]), tocha.tensor(7))
    assert one.output.dim() == 0 and float(one.output) == pytest.approx(full[0, 7], abs=1e-5)


# ---- normalization ----------------------------------------------------------------------------------------------


def normalized(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def test_layer_group_and_rms_norm():
    x = numbers(2, 4, 3)
    close(nn.LayerNorm((4, 3))(tensor(x)), normalized(x, (1, 2)))
    close(nn.GroupNorm(2, 4)(tensor(x)), normalized(x.reshape(2, 2, 2, 3), (2, 3)).reshape(2, 4, 3))
    close(nn.RMSNorm(3, eps=1e-3)(tensor(x)), x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3))


def test_cross_map_lrn():
    x = numbers(1, 7, 2, 2)
    layer = nn.CrossMapLRN2d(3, alpha=0.5, beta=0.7, k=2.0)
    expected = np.empty_like(x)
    for c in range(7):
        window = {0, *range(max(0, c - 1), min(7, c + 2))}
        total = sum(x[:, i] ** 2 for i in window)
        expected[:, c] = x[:, c] / (2.0 + 0.5 / 3 * total) ** 0.7
    close(layer(tensor(x)), expected)


@needs("batch_norm")
def test_batch_norm_trains_and_evaluates():
    layer, x = nn.BatchNorm2d(3, momentum=0.2), numbers(4, 3, 2, 2)
    close(layer(tensor(x)), normalized(x, (0, 2, 3)))
    mean, var = 0.2 * x.mean((0, 2, 3)), 0.8 + 0.2 * x.var((0, 2, 3), ddof=1)
    close(layer.running_mean, mean)
    close(layer.running_var, var)
    assert int(layer.num_batches_tracked) == 1
    shape = (1, 3, 1, 1)
    close(layer.eval()(tensor(x)), (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + 1e-5))


@needs("batch_norm")
def test_batch_norm_with_plain_mean_of_batches():
    layer, batches = nn.BatchNorm1d(3, momentum=None), [numbers(4, 3) for _ in range(3)]
    for x in batches:
        layer(tensor(x))
    close(layer.running_mean, np.mean([x.mean(0) for x in batches], 0))


@needs("batch_norm")
def test_lazy_batch_norm():
    layer = nn.LazyBatchNorm1d()
    layer(tensor(numbers(4, 3)))
    assert type(layer) is nn.BatchNorm1d and layer.num_features == 3 and layer.weight.shape == (3,)


@needs("instance_norm")
def test_instance_norm_without_batch():
    x = numbers(3, 4, 5)
    close(nn.InstanceNorm2d(3)(tensor(x)), normalized(x, (1, 2)))


def test_state_without_a_count_of_batches_loads():
    layer = nn.BatchNorm1d(2)
    layer.num_batches_tracked.fill_(7)
    state = {k: v for k, v in nn.BatchNorm1d(2).state_dict().items() if k != "num_batches_tracked"}
    layer.load_state_dict(dict(state))
    assert int(layer.num_batches_tracked) == 7


def test_convert_sync_batchnorm_keeps_tensors():
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Sequential(nn.BatchNorm2d(3), nn.ReLU()))
    inner, kept = model[1][0], model[1][1]
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert converted is model and converted[1][1] is kept
    assert type(model[1][0]) is nn.SyncBatchNorm and model[1][0].weight is inner.weight
    assert model[1][0].running_var is inner.running_var


# ---- shapes, distances, dropout, tables ----------------------------------------------------------------------------


def test_paddings():
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
    ends = ((0, 0), (0, 0), (2, 1), (1, 2))
    for layer, mode in [
        (nn.ReflectionPad2d((1, 2, 2, 1)), "reflect"),
        (nn.ReplicationPad2d((1, 2, 2, 1)), "edge"),
        (nn.CircularPad2d((1, 2, 2, 1)), "wrap"),
        (nn.ZeroPad2d((1, 2, 2, 1)), "constant"),
    ]:
        np.testing.assert_array_equal(layer(tensor(x)).numpy(), np.pad(x, ends, mode))
    padded = nn.ConstantPad2d((1, 2, 2, 1), 7.5)(tensor(x)).numpy()
    np.testing.assert_array_equal(padded, np.pad(x, ends, constant_values=7.5))


def test_flatten_shuffle_distance():
    x = numbers(2, 8, 3, 3)
    assert nn.Flatten()(tensor(x)).shape == (2, 72)
    assert nn.Unflatten(1, (2, 4))(tensor(x)).shape == (2, 2, 4, 3, 3)
    up = nn.PixelShuffle(2)(tensor(x))
    expected = x.reshape(2, 2, 2, 2, 3, 3).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 6, 6)
    np.testing.assert_array_equal(up.numpy(), expected)
    np.testing.assert_array_equal(nn.PixelUnshuffle(2)(up).numpy(), x)
    shuffled = x.reshape(2, 2, 4, 3, 3).swapaxes(1, 2).reshape(x.shape)
    np.testing.assert_array_equal(nn.ChannelShuffle(2)(tensor(x)).numpy(), shuffled)
    close(nn.PairwiseDistance(3.0)(tensor(A), tensor(B)), (np.abs(A - B + 1e-6) ** 3).sum(1) ** (1 / 3))
    cosine = (A * B).sum(1) / np.linalg.norm(A, axis=1) / np.linalg.norm(B, axis=1)
    close(nn.CosineSimilarity()(tensor(A), tensor(B)), cosine)


@pytest.mark.parametrize("kind", [nn.Dropout, nn.Dropout2d, nn.AlphaDropout, nn.FeatureAlphaDropout])
def test_dropout_only_while_training(kind):
    x, layer = tocha.ones(4, 8, 5, 5), kind(0.5)
    assert (layer(x) != x).any()
    assert (layer.eval()(x) == x).all()


def test_embedding():
    layer = nn.Embedding(5, 3, padding_idx=-1)
    assert layer.padding_idx == 4 and (layer.weight[4] == 0).all()
    layer(tocha.tensor([[0, 4], [0, 1]])).sum().backward()
    np.testing.assert_array_equal(layer.weight.grad.numpy(), np.array([2, 1, 0, 0, 0])[:, None] * np.ones(3))
    table = tensor(numbers(4, 2))
    frozen = nn.Embedding.from_pretrained(table)
    assert not frozen.weight.requires_grad and (frozen(tocha.tensor([2])) == table[2]).all()


@needs("embedding_bag")
def test_embedding_bag():
    layer, index = nn.EmbeddingBag(6, 3, mode="mean"), np.array([1, 2, 2, 5, 0])
    w = layer.weight.detach().numpy()
    expected = np.stack([w[index[:3]].mean(0), w[index[3:]].mean(0)])
    close(layer(tensor(index), tocha.tensor([0, 3])), expected)


# ---- convolution and pooling ---------------------------------------------------------------------------------------


def correlate(x, weight, stride=1, dilation=1):
    """(N, C, H, W) with (O, C, h, w), by its definition."""
    h, w = (dilation * (k - 1) + 1 for k in weight.shape[2:])
    windows = np.lib.stride_tricks.sliding_window_view(x, (h, w), (2, 3))
    windows = windows[:, :, ::stride, ::stride, ::dilation, ::dilation]
    return np.einsum("nchwij,ocij->nohw", windows, weight)


@needs("conv2d")
@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
def test_conv_padding_modes(mode):
    layer, x = nn.Conv2d(2, 3, (3, 2), padding=(1, 2), dilation=(1, 1), padding_mode=mode), numbers(1, 2, 5, 6)
    kind = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (2, 2)), kind)
    w = arrays(layer)
    close(layer(tensor(x)), correlate(padded, w["weight"]) + w["bias"].reshape(3, 1, 1))


@needs("conv2d")
def test_conv_same_keeps_size():
    layer, x = nn.Conv2d(2, 3, (4, 3), padding="same", dilation=1, bias=False), numbers(1, 2, 6, 7)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 2), (1, 1)))
    close(layer(tensor(x)), correlate(padded, layer.weight.detach().numpy()))


@needs("conv_transpose2d", "conv2d")
def test_conv_transpose_is_the_transpose():
    layer = nn.ConvTranspose2d(2, 3, 3, stride=2, bias=False)
    x, y = numbers(1, 2, 4, 4), numbers(1, 3, 10, 10)
    forward = layer(tensor(x), output_size=(10, 10))
    back = F.conv2d(tensor(y), layer.weight, stride=2)
    np.testing.assert_allclose((forward.detach().numpy() * y).sum(), (back.detach().numpy() * x).sum(), rtol=1e-4)


@needs("conv2d")
def test_lazy_conv():
    layer = nn.LazyConv2d(4, 3, groups=2)
    assert layer(tensor(numbers(1, 6, 5, 5))).shape == (1, 4, 3, 3)
    assert type(layer) is nn.Conv2d and layer.weight.shape == (4, 3, 3, 3)


@needs("conv2d")
def test_gradients_of_convolution_as_functions():
    x, w, g = numbers(1, 2, 5, 5), numbers(3, 2, 2, 2), numbers(1, 3, 4, 4)
    a, b = tensor(x).requires_grad_(), tensor(w).requires_grad_()
    F.conv2d(a, b).backward(tensor(g))
    close(nn.grad.conv2d_input((1, 2, 5, 5), tensor(w), tensor(g)), a.grad.numpy())
    close(nn.grad.conv2d_weight(tensor(x), (3, 2, 2, 2), tensor(g)), b.grad.numpy())


@needs("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "max_unpool2d")
def test_pools():
    x = numbers(1, 2, 4, 6)
    blocks = x.reshape(1, 2, 2, 2, 3, 2)
    close(nn.MaxPool2d(2)(tensor(x)), blocks.max((3, 5)))
    close(nn.AvgPool2d(2)(tensor(x)), blocks.mean((3, 5)))
    close(nn.LPPool2d(2, 2)(tensor(x)), np.sqrt((blocks**2).sum((3, 5))))
    close(nn.AdaptiveAvgPool2d((2, None))(tensor(x)), x.reshape(1, 2, 2, 2, 6).mean(3))
    pooled, where = nn.MaxPool2d(2, return_indices=True)(tensor(x))
    restored = nn.MaxUnpool2d(2)(pooled, where).numpy()
    np.testing.assert_array_equal(restored, np.where(restored != 0, x, 0))
    assert (restored != 0).sum() == 12


# ---- recurrence ----------------------------------------------------------------------------------------------------


def lstm_step(x, h, c, w, suffix=""):
    gates = (
        x @ w["weight_ih" + suffix].T + w["bias_ih" + suffix] + h @ w["weight_hh" + suffix].T + w["bias_hh" + suffix]
    )
    i, f, g, o = np.split(gates, 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    return (h @ w["weight_hr" + suffix].T if "weight_hr" + suffix in w else h), c


def gru_step(x, h, w, suffix=""):
    a = x @ w["weight_ih" + suffix].T + w["bias_ih" + suffix]
    b = h @ w["weight_hh" + suffix].T + w["bias_hh" + suffix]
    (ar, az, an), (br, bz, bn) = np.split(a, 3, -1), np.split(b, 3, -1)
    r, z = sigmoid(ar + br), sigmoid(az + bz)
    return (1 - z) * np.tanh(an + r * bn) + z * h


@needs("lstm")
@pytest.mark.parametrize("proj", [0, 2])
def test_lstm_in_two_directions(proj):
    layer, x = nn.LSTM(3, 4, bidirectional=True, proj_size=proj), numbers(5, 2, 3)
    w, width = arrays(layer), proj or 4
    outputs = []
    for suffix, order in (("_l0", range(5)), ("_l0_reverse", reversed(range(5)))):
        h, c, steps = np.zeros((2, width)), np.zeros((2, 4)), {}
        for t in order:
            h, c = lstm_step(x[t], h, c, w, suffix)
            steps[t] = h
        outputs.append((np.stack([steps[t] for t in range(5)]), h, c))
    output, (hidden, cell) = layer(tensor(x))
    close(output, np.concatenate([outputs[0][0], outputs[1][0]], -1))
    close(hidden, np.stack([outputs[0][1], outputs[1][1]]))
    close(cell, np.stack([outputs[0][2], outputs[1][2]]))


@needs("gru")
def test_gru_stack_without_batch():
    layer, x, h0 = nn.GRU(3, 4, num_layers=2), numbers(5, 3), numbers(2, 4)
    w, h, rows = arrays(layer), [h0[0], h0[1]], []
    for t in range(5):
        h[0] = gru_step(x[t], h[0], w, "_l0")
        h[1] = gru_step(h[0], h[1], w, "_l1")
        rows.append(h[1])
    output, hidden = layer(tensor(x), tensor(h0))
    close(output, np.stack(rows))
    close(hidden, np.stack(h))


@needs("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def test_cells():
    x, h, c = numbers(2, 3), numbers(2, 4), numbers(2, 4)
    lstm, gru, relu = nn.LSTMCell(3, 4), nn.GRUCell(3, 4), nn.RNNCell(3, 4, nonlinearity="relu")
    found = lstm(tensor(x), (tensor(h), tensor(c)))
    for a, b in zip(found, lstm_step(x, h, c, arrays(lstm)), strict=True):
        close(a, b)
    close(gru(tensor(x), tensor(h)), gru_step(x, h, arrays(gru)))
    close(gru(tensor(x[0])), gru_step(x[0], np.zeros(4), arrays(gru)))
    w = arrays(relu)
    expected = x @ w["weight_ih"].T + w["bias_ih"] + h @ w["weight_hh"].T + w["bias_hh"]
    close(relu(tensor(x), tensor(h)), np.maximum(expected, 0))


@needs("lstm", "rnn_tanh")
@pytest.mark.parametrize("kind", [nn.LSTM, nn.RNN])
def test_packed_sequences_give_what_each_gives_alone(kind):
    from tocha.nn.utils.rnn import pack_sequence, pad_packed_sequence

    layer = kind(3, 4, bidirectional=True)
    sequences = [tensor(numbers(n, 3)) for n in (2, 5, 3)]
    packed, hidden = layer(pack_sequence(sequences, enforce_sorted=False))
    padded, lengths = pad_packed_sequence(packed)
    last = hidden[0] if kind is nn.LSTM else hidden
    for i, sequence in enumerate(sequences):
        alone, state = layer(sequence)
        close(padded[: int(lengths[i]), i], alone.detach().numpy())
        close(last[:, i], (state[0] if kind is nn.LSTM else state).detach().numpy())


@needs("rnn_tanh")
def test_a_replaced_weight_is_used():
    layer, x = nn.RNN(2, 3), tensor(numbers(4, 1, 2))
    before = layer(x)[0]
    replaced = layer.weight_hh_l0.detach() * 0
    del layer.weight_hh_l0
    layer.weight_hh_l0 = replaced
    assert not tocha.equal(layer(x)[0], before)
    assert layer.all_weights[0][1] is replaced


# ---- attention and transformer -----------------------------------------------------------------------------------


def attend(q, k, v, layer, mask=None):
    """Multi-head attention of (L, E) sequences by its definition: output, weights averaged over heads."""
    w, e, n = arrays(layer), layer.embed_dim, layer.num_heads
    parts = np.split(w["in_proj_weight"], 3)
    biases = np.split(w["in_proj_bias"], 3)
    q, k, v = (x @ p.T + b for x, p, b in zip((q, k, v), parts, biases, strict=True))
    heads, weights = [], []
    for i in range(n):
        s = slice(i * e // n, (i + 1) * e // n)
        scores = q[:, s] @ k[:, s].T / np.sqrt(e // n)
        a = softmax(scores if mask is None else np.where(mask, -np.inf, scores))
        heads.append(a @ v[:, s])
        weights.append(a)
    return np.concatenate(heads, 1) @ w["out_proj.weight"].T + w["out_proj.bias"], np.mean(weights, 0)


@needs("multi_head_attention_forward")
def test_multihead_attention():
    layer = nn.MultiheadAttention(6, 2, batch_first=True)
    q, k, v = numbers(2, 3, 6), numbers(2, 4, 6), numbers(2, 4, 6)
    output, weights = layer(tensor(q), tensor(k), tensor(v))
    for i in range(2):
        expected = attend(q[i], k[i], v[i], layer)
        close(output[i], expected[0])
        close(weights[i], expected[1])
    assert layer(tensor(q), tensor(k), tensor(v), need_weights=False)[1] is None


@needs("multi_head_attention_forward")
@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layer(norm_first):
    layer = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, norm_first=norm_first, batch_first=True)
    x = numbers(1, 4, 6)
    w, causal = arrays(layer), np.triu(np.ones((4, 4), bool), 1)

    def network(y):
        return np.maximum(y @ w["linear1.weight"].T + w["linear1.bias"], 0) @ w["linear2.weight"].T + w["linear2.bias"]

    def look(y):
        return attend(y, y, y, layer.self_attn, causal)[0]

    y = x[0]
    if norm_first:
        y = y + look(normalized(y, -1))
        y = y + network(normalized(y, -1))
    else:
        y = normalized(y + look(y), -1)
        y = normalized(y + network(y), -1)
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    close(layer(tensor(x), src_mask=mask)[0], y)
    close(layer(tensor(x), src_mask=mask, is_causal=True)[0], y)
    close(layer(tensor(x), src_mask=tensor(causal))[0], y)


@needs("multi_head_attention_forward")
def test_encoder_clears_padding_in_inference_only():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), 2).eval()
    x, padding = tensor(numbers(2, 5, 4)), tocha.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]).bool()
    recorded = encoder(x, src_key_padding_mask=padding)
    with tocha.no_grad():
        plain = encoder(x, src_key_padding_mask=padding)
    assert (plain[0, 3:] == 0).all() and (recorded[0, 3:] != 0).any()
    close(plain[0, :3], recorded[0, :3].detach().numpy())
    close(plain[1], recorded[1].detach().numpy())


@needs("multi_head_attention_forward")
def test_transformer_trains():
    model = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, activation="gelu", batch_first=True)
    model(tensor(numbers(2, 5, 8)), tensor(numbers(2, 3, 8))).square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_stacks_are_copies():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2)
    first, second = encoder.layers
    assert first.linear1.weight is not second.linear1.weight
    assert tocha.equal(first.linear1.weight, second.linear1.weight)


def test_sdpa_kernel():
    from tocha.nn.attention import SDPBackend, _cur_sdpa_kernel_backends, sdpa_kernel

    assert len(_cur_sdpa_kernel_backends()) == 5
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
        assert _cur_sdpa_kernel_backends(with_priority=True) == [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            assert _cur_sdpa_kernel_backends() == [SDPBackend.CUDNN_ATTENTION]
            assert (tocha.ones(2) + 1).tolist() == [2, 2]
        assert len(_cur_sdpa_kernel_backends()) == 2
    assert len(_cur_sdpa_kernel_backends()) == 5


@needs("scaled_dot_product_attention")
def test_attention_refused_and_biased():
    from tocha.nn.attention import SDPBackend, sdpa_kernel
    from tocha.nn.attention.bias import causal_lower_right, causal_upper_left

    q, k = tensor(numbers(1, 2, 3, 4)), tensor(numbers(1, 2, 5, 4))
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION), pytest.raises(RuntimeError, match="No viable backend"):
        F.scaled_dot_product_attention(q, k, k)
    for bias, offset in ((causal_upper_left(3, 5), 0), (causal_lower_right(3, 5), 2)):
        mask = tensor(np.tril(np.ones((3, 5), bool), offset))
        expected = F.scaled_dot_product_attention(q, k, k, attn_mask=mask)
        close(F.scaled_dot_product_attention(q, k, k, attn_mask=bias), expected.numpy())


# ---- contracts of every layer ------------------------------------------------------------------------------------

BUILT = [
    nn.Linear(2, 3), nn.Conv2d(2, 3, 3, padding="same", padding_mode="reflect"), nn.ConvTranspose1d(2, 3, 2), nn.BatchNorm2d(3),
    nn.GroupNorm(1, 2), nn.LSTM(2, 3, 2, proj_size=1), nn.GRUCell(2, 3), nn.Embedding(3, 2, 0), nn.MultiheadAttention(4, 2, add_bias_kv=True),
    nn.TransformerDecoderLayer(4, 2, 8), nn.CrossEntropyLoss(tocha.ones(3)), nn.Upsample(scale_factor=2), nn.PReLU(),
    nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3]), nn.LazyConv1d(3, 2), nn.MaxPool2d(2), nn.Dropout(0.1), nn.CTCLoss(), nn.RMSNorm(4),
]  # fmt: skip


@pytest.mark.parametrize("layer", BUILT, ids=lambda m: type(m).__name__)
def test_pickle_and_copy(layer):
    for twin in (pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)):
        assert repr(twin) == repr(layer) and type(twin) is type(layer)
        assert list(twin.state_dict()) == list(layer.state_dict())
        if type(layer).__name__.startswith("Lazy"):
            continue
        for a, b in zip(twin.state_dict().values(), layer.state_dict().values(), strict=True):
            assert tocha.equal(a, b) and a is not b


@pytest.mark.parametrize("name", ["Linear", "Conv1d", "LSTM", "BatchNorm1d", "Embedding", "TransformerEncoderLayer"])
def test_dtype_and_device(name):
    sizes = {"Linear": (2, 3), "Conv1d": (2, 3, 2), "LSTM": (2, 3), "BatchNorm1d": (3,), "Embedding": (3, 2), "TransformerEncoderLayer": (4, 2, 8)}  # fmt: skip
    layer = getattr(nn, name)(*sizes[name], device="meta", dtype=tocha.float64)
    assert {p.dtype for p in layer.parameters()} == {tocha.float64}
    assert all(p.is_meta for p in layer.parameters())


def test_gumbel_samples_are_distributions():
    soft = F.gumbel_softmax(tensor(numbers(50, 6)), tau=0.7)
    close(soft.sum(-1), np.ones(50))
    logits = tensor(numbers(50, 6)).requires_grad_()
    hard = F.gumbel_softmax(logits, hard=True)
    assert ((hard.detach() > 0.5).sum(-1) == 1).all()
    (hard * tensor(numbers(50, 6))).sum().backward()
    assert (logits.grad != 0).any()


def test_grouped_products():
    ends, a, b = tocha.tensor([1, 4], dtype=tocha.int32), numbers(4, 3), numbers(2, 3, 5)
    expected = np.concatenate([a[:1] @ b[0], a[1:] @ b[1]])
    close(F.grouped_mm(tensor(a), tensor(b), offs=ends), expected)
    c = numbers(4, 2)
    close(F.grouped_mm(tensor(a.T), tensor(c), offs=ends), np.stack([a[:1].T @ c[:1], a[1:].T @ c[1:]]))
    d = numbers(2, 5, 3)
    expected = np.concatenate([d[0] @ a.T[:, :1], d[1] @ a.T[:, 1:]], 1)
    close(F.grouped_mm(tensor(d), tensor(a.T), offs=ends), expected)
    with pytest.raises(RuntimeError, match="offs"):
        F.grouped_mm(tensor(a), tensor(b))


def test_attention_in_inference_gives_contiguous_results():
    layer, x = nn.MultiheadAttention(8, 2, batch_first=True).eval(), tocha.ones(2, 5, 8)
    assert layer(x, x, x)[0].stride() == (8, 16, 1)  # gradients are wanted
    with tocha.no_grad():
        assert layer(x, x, x)[0].stride() == (40, 8, 1)
        assert layer(x, x, x.clone())[0].stride() == (8, 16, 1)
        assert layer.train()(x, x, x)[0].stride() == (8, 16, 1)
