"""Attention against NumPy: masks, layouts, tiles, gradients, and heads around it."""

from __future__ import annotations

import numpy as np
import pytest

import tocha
import tocha.nn.functional as F
from tocha.autograd import gradcheck, gradgradcheck

rng = np.random.default_rng(0)


def normal(*shape):
    return rng.standard_normal(shape)


def reference(q, k, v, bias=0.0, scale=None):
    """Attention in float64; rows in which everything is masked are 0."""
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = np.nan_to_num(weights / weights.sum(-1, keepdims=True))
    return weights @ v


def causal_bias(rows, columns):
    return np.where(np.tri(rows, columns, dtype=bool), 0.0, -np.inf)


def attend(*arrays, dtype=tocha.float64, **options):
    return F.scaled_dot_product_attention(*(tocha.tensor(a).to(dtype) for a in arrays), **options)


@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize("rows,columns", [(1, 1), (5, 7), (70, 33), (40, 300)])
@pytest.mark.parametrize("causal", [False, True])
def test_values(lead, rows, columns, causal):
    q, k, v = normal(*lead, rows, 9), normal(*lead, columns, 9), normal(*lead, columns, 35)
    expected = reference(q, k, v, causal_bias(rows, columns) if causal else 0.0)
    np.testing.assert_allclose(attend(q, k, v, is_causal=causal).numpy(), expected, rtol=1e-10, atol=1e-12)
    single = attend(q, k, v, dtype=tocha.float32, is_causal=causal).numpy()
    np.testing.assert_allclose(single, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [-0.7, 0.0, 1e-3, 5.0])
@pytest.mark.parametrize("dtype,error", [(tocha.float64, 1e-9), (tocha.float32, 1e-4), (tocha.bfloat16, 5e-2)])
def test_a_scale_may_turn_the_order_of_scores_around(scale, dtype, error):
    q, k, v = (tocha.tensor(normal(2, 37, 8)).to(dtype) for _ in range(3))
    arrays = [t.double().numpy() for t in (q, k, v)]
    for t in (q, k, v):
        t.requires_grad_()
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
    expected = reference(*arrays, causal_bias(37, 37), scale)
    np.testing.assert_allclose(out.detach().double().numpy(), expected, atol=error)
    out.sum().backward()
    exact = [tocha.tensor(a, requires_grad=True) for a in arrays]
    scores = exact[0] @ exact[1].mT * scale + tocha.tensor(causal_bias(37, 37))
    (scores.softmax(-1) @ exact[2]).sum().backward()
    for t, e in zip((q, k, v), exact, strict=True):
        np.testing.assert_allclose(t.grad.double().numpy(), e.grad.numpy(), atol=10 * error)


@pytest.mark.parametrize("dtype,error", [(tocha.bfloat16, 3e-2), (tocha.float16, 4e-3)])
def test_half(dtype, error):
    q, k, v = normal(2, 3, 20, 16), normal(2, 3, 300, 16), normal(2, 3, 300, 8)
    out = attend(q, k, v, dtype=dtype)
    assert out.dtype == dtype
    np.testing.assert_allclose(out.float().numpy(), reference(q, k, v), atol=error)


@pytest.mark.parametrize("shape", [(5, 300), (1, 300), (3, 1, 300), (2, 1, 5, 300), (2, 3, 5, 1), (300,)])
@pytest.mark.parametrize("kind", ["bool", "float", "strided"])
def test_masks(shape, kind):
    q, k, v = normal(2, 3, 5, 4), normal(2, 3, 300, 4), normal(2, 3, 300, 4)
    allowed = rng.random(shape) < 0.6
    if kind == "bool":
        mask, bias = tocha.tensor(allowed), np.where(allowed, 0.0, -np.inf)
    else:
        bias = np.where(allowed, normal(*shape), -np.inf)
        mask = tocha.tensor(bias)
        if kind == "strided":
            mask = tocha.stack([mask, mask], -1)[..., 0]
    expected = reference(q, k, v, bias)
    np.testing.assert_allclose(attend(q, k, v, attn_mask=mask).numpy(), expected, rtol=1e-10, atol=1e-12)


def test_rows_that_see_nothing_are_zero_and_so_are_their_gradients():
    q, k, v = (tocha.tensor(normal(1, 4, 3)).requires_grad_() for _ in range(3))
    mask = tocha.ones(4, 4, dtype=tocha.bool)
    mask[1] = False
    out = F.scaled_dot_product_attention(q, k, v, mask)
    assert (out[0, 1] == 0).all() and (out[0, 0] != 0).all()
    out.sum().backward()
    assert (q.grad[0, 1] == 0).all() and not q.grad.isnan().any() and not k.grad.isnan().any()


def test_no_keys_and_no_queries():
    assert (attend(normal(2, 3, 4), normal(2, 0, 4), normal(2, 0, 5)) == tocha.zeros(2, 3, 5)).all()
    assert attend(normal(2, 0, 4), normal(2, 3, 4), normal(2, 3, 5)).shape == (2, 0, 5)


def test_grouped_heads_and_broadcast_batches():
    q, k, v = normal(2, 6, 5, 4), normal(2, 2, 7, 4), normal(2, 2, 7, 4)
    wide = [np.repeat(a, 3, 1) for a in (k, v)]
    np.testing.assert_allclose(attend(q, k, v, enable_gqa=True).numpy(), reference(q, *wide), rtol=1e-10)
    mask = normal(2, 6, 5, 7)
    got = attend(q, k, v, attn_mask=tocha.tensor(mask), enable_gqa=True)
    np.testing.assert_allclose(got.numpy(), reference(q, *wide, mask), rtol=1e-10)
    one = attend(q, k[:, :1], v[:1, :1])
    np.testing.assert_allclose(one.numpy(), reference(q, k[:, :1], v[:1, :1]), rtol=1e-10)


def test_views_of_one_projection_are_read_in_place_and_the_result_keeps_their_order():
    packed = tocha.tensor(normal(2, 5, 3 * 12))  # batch, tokens, and for q, k, v three heads of four
    q, k, v = (t.view(2, 5, 3, 4).transpose(1, 2) for t in packed.split(12, -1))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert out.transpose(1, 2).is_contiguous()
    expected = reference(q.numpy(), k.numpy(), v.numpy(), causal_bias(5, 5))
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-10)
    backwards = [t.flip(-1).transpose(-2, -1).contiguous().transpose(-2, -1) for t in (q, k, v)]
    np.testing.assert_allclose(
        F.scaled_dot_product_attention(*backwards, is_causal=True).numpy(), out.flip(-1).numpy(), rtol=1e-10
    )


@pytest.mark.parametrize(("causal", "masked"), [(False, False), (False, True), (True, False)])
def test_gradients_by_finite_differences(causal, masked):
    tensors = [tocha.tensor(a).requires_grad_() for a in (normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 3))]
    if masked:
        tensors.append(tocha.tensor(normal(3, 5)).requires_grad_())

    def f(q, k, v, mask=None):
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)

    assert gradcheck(f, tensors)
    assert gradgradcheck(f, tensors)


@pytest.mark.parametrize("heads", [1, 6])  # one: cut by rows and columns for the threads
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_over_several_tiles(heads, causal):
    """The kernel's gradients are those of the same calculation in operators."""
    arrays = [normal(heads, 150, 20), normal(heads, 530, 20), normal(heads, 530, 40), normal(heads, 150, 40)]
    q, k, v = (tocha.tensor(a).requires_grad_() for a in arrays[:3])
    grad = tocha.tensor(arrays[3])
    got = tocha.autograd.grad(F.scaled_dot_product_attention(q, k, v, is_causal=causal), [q, k, v], grad)
    scores = q @ k.transpose(1, 2) * 20**-0.5
    if causal:
        scores = scores + tocha.tensor(causal_bias(150, 530))
    expected = tocha.autograd.grad(tocha.softmax(scores, -1) @ v, [q, k, v], grad)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-11)


def test_dropout_keeps_the_mean_and_follows_the_seed():
    q, k, v = tocha.zeros(8, 64, 4), tocha.zeros(8, 64, 4), tocha.ones(8, 64, 4)
    tocha.manual_seed(0)
    out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25)
    tocha.manual_seed(0)
    assert (F.scaled_dot_product_attention(q, k, v, dropout_p=0.25) == out).all()
    assert out.mean().item() == pytest.approx(1, abs=0.05) and out.std().item() > 0.01


def test_refusals():
    x = tocha.ones(2, 3, 4)
    for bad in [
        lambda: F.scaled_dot_product_attention(x[0, 0], x, x),
        lambda: F.scaled_dot_product_attention(x, x.double(), x),
        lambda: F.scaled_dot_product_attention(x, x[..., :2], x),
        lambda: F.scaled_dot_product_attention(x, x, x[:, :2]),
        lambda: F.scaled_dot_product_attention(x, x, x, tocha.ones(3, 3, dtype=tocha.int64)),
        lambda: F.scaled_dot_product_attention(x, x, x, tocha.ones(2, 2)),
        lambda: F.scaled_dot_product_attention(x.long(), x.long(), x.long()),
        lambda: F.scaled_dot_product_attention(x, x, x, dropout_p=1.5),
        lambda: F.scaled_dot_product_attention(tocha.ones(3, 2, 4), x, x, enable_gqa=True),
    ]:
        with pytest.raises(RuntimeError):
            bad()


# -- heads -------------------------------------------------------------------------------------------


def heads_reference(q, k, v, weight, bias, out_weight, heads, mask=0.0):
    """[tokens, batch, width] through packed projections, in NumPy."""
    width = q.shape[-1]
    parts = [x @ w.T + b for x, w, b in zip((q, k, v), np.split(weight, 3), np.split(bias, 3), strict=True)]
    q, k, v = (x.reshape(*x.shape[:2], heads, width // heads).transpose(1, 2, 0, 3) for x in parts)
    out = reference(q, k, v, mask).transpose(2, 0, 1, 3)
    return out.reshape(*out.shape[:2], width) @ out_weight.T


def run_heads(q, k, v, weight, bias, out_weight, heads, **options):
    return F.multi_head_attention_forward(
        q, k, v, 8, heads, weight, bias, None, None, False, 0.0, out_weight, None, **options
    )


@pytest.mark.parametrize("inputs", [1, 2, 3])
@pytest.mark.parametrize("need_weights", [False, True])
def test_heads(inputs, need_weights):
    arrays = [normal(5, 2, 8), normal(7, 2, 8) if inputs > 1 else None, normal(7, 2, 8) if inputs > 2 else None]
    weight, bias, out_weight = normal(24, 8), normal(24), normal(8, 8)
    q = tocha.tensor(arrays[0])
    k = q if inputs == 1 else tocha.tensor(arrays[1])
    v = k if inputs < 3 else tocha.tensor(arrays[2])
    padding = rng.random((2, k.shape[0])) < 0.3
    mask = normal(5, k.shape[0])
    joined = mask + np.where(padding, -np.inf, 0.0)[:, None, None]
    parameters = [tocha.tensor(a) for a in (weight, bias, out_weight)]
    out, weights = run_heads(
        q, k, v, *parameters, 2, need_weights=need_weights, attn_mask=tocha.tensor(mask),
        key_padding_mask=tocha.zeros(2, k.shape[0], dtype=tocha.float64).masked_fill(tocha.tensor(padding), -np.inf),
    )  # fmt: skip
    expected = heads_reference(q.numpy(), k.numpy(), v.numpy(), weight, bias, out_weight, 2, joined)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-9, atol=1e-11)
    assert (weights is None) == (not need_weights)
    if weights is not None:
        np.testing.assert_allclose(weights.sum(-1).numpy(), np.ones((2, 5)))


def test_extra_keys_and_unbatched_inputs():
    """add_zero_attn, bias_k and bias_v each add a key; inputs without a batch dim give results without one."""
    x, w, o = tocha.tensor(normal(5, 8)), tocha.tensor(normal(24, 8)), tocha.tensor(normal(8, 8))
    extra = tocha.tensor(normal(1, 1, 8))
    call = F.multi_head_attention_forward
    out, weights = call(x, x, x, 8, 2, w, None, extra, extra, True, 0.0, o, None, average_attn_weights=False)
    assert out.shape == (5, 8) and weights.shape == (2, 5, 7)
    batch = x.unsqueeze(1)
    again, _ = call(batch, batch, batch, 8, 2, w, None, extra, extra, True, 0.0, o, None, need_weights=False)
    np.testing.assert_allclose(again.squeeze(1).numpy(), out.numpy(), rtol=1e-9)


def test_the_causal_hint_is_the_causal_mask():
    x, w, o = tocha.tensor(normal(6, 2, 8)), tocha.tensor(normal(24, 8)), tocha.tensor(normal(8, 8))
    mask = tocha.ones(6, 6, dtype=tocha.bool).triu(1)
    bias = tocha.zeros(24, dtype=tocha.float64)
    plain, _ = run_heads(x, x, x, w, bias, o, 2, attn_mask=mask)
    hinted, _ = run_heads(x, x, x, w, bias, o, 2, attn_mask=mask, is_causal=True, need_weights=False)
    np.testing.assert_allclose(hinted.numpy(), plain.numpy(), rtol=1e-9)
    with pytest.raises(RuntimeError):
        run_heads(x, x, x, w, bias, o, 2, is_causal=True)
    with pytest.raises(AssertionError):
        run_heads(x, x, x, w, bias, o, 3)


@pytest.mark.parametrize("shape", [(0, 3, 8), (3, 0, 8), (0, 0, 8)])
@pytest.mark.parametrize("batch_first", [False, True])
def test_layers_take_empty_batches_and_sequences(shape, batch_first):
    source = tocha.zeros(shape, requires_grad=True)
    network = tocha.nn.Transformer(8, 2, 1, 1, 16, batch_first=batch_first)
    result = network(source, tocha.zeros(shape))
    assert result.shape == shape
    result.sum().backward()
    assert source.grad.shape == shape
    assert all(p.grad.abs().sum() == 0 for p in network.encoder.layers.parameters())
