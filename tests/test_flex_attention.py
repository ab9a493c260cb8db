"""flex_attention and BlockMask against NumPy: masks in blocks, functions of scores, gradients, memory; varlen_attn too."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest

import tocha
from tocha.autograd import gradcheck
from tocha.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    noop_mask,
    or_masks,
)
from tocha.nn.attention.varlen import AuxRequest as VarlenRequest
from tocha.nn.attention.varlen import varlen_attn, varlen_attn_out

rng = np.random.default_rng(0)


def normal(*shape):
    return tocha.tensor(rng.standard_normal(shape))


def causal(b, h, q, k):
    return q >= k


def reference(q, k, v, bias=0.0):
    """Outputs and logarithms of sums in float64; rows in which everything is masked are 0."""
    q, k, v = (x.numpy() for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]) + bias
    with np.errstate(divide="ignore"):
        sums = np.log(np.exp(scores).sum(-1))
    weights = np.exp(scores - np.where(np.isinf(sums), 0, sums)[..., None])
    return weights @ v, sums


def assert_close(found, expected):
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-12)


MASKS = {
    "causal": causal,
    "window": lambda b, h, q, k: (q - k).abs() < 9,
    "by head": lambda b, h, q, k: (q + k + h) % 3 == 0,
    "by batch": lambda b, h, q, k: (q // 16 == k // 16) | (b == 1),
    "blind rows": lambda b, h, q, k: (q > 20) & (k > 8),
    "gaps": lambda b, h, q, k: (q // 8 + k // 8) % 3 == 0,
    "nothing": lambda b, h, q, k: q < 0,
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("aux", [False, True])
@pytest.mark.parametrize("heads", [2, 4])
def test_masks(name, aux, heads):
    q, k, v = normal(2, 4, 37, 5), normal(2, heads, 45, 5), normal(2, heads, 45, 3)
    mask = create_block_mask(MASKS[name], 2, 4, 37, 45, BLOCK_SIZE=8)
    dense = create_mask(MASKS[name], 2, 4, 37, 45).numpy()
    out, sums = reference(q, k, v, np.where(dense, 0, -np.inf))
    options = {"return_aux": AuxRequest(lse=True, max_scores=True)} if aux else {}
    found = flex_attention(q, k, v, block_mask=mask, enable_gqa=heads != 4, **options)
    assert_close(found[0] if aux else found, out)
    if aux:
        assert_close(found[1].lse, sums)
        assert (found[1].max_scores <= found[1].lse).all()


def test_blocks_decide_before_the_mask_mod():
    counts, columns = tocha.tensor([[[1]]]), tocha.tensor([[[[1, 0]]]])
    keys = tocha.arange(8.0).view(1, 1, 8, 1)
    mask = BlockMask.from_kv_blocks(counts, columns, BLOCK_SIZE=4)
    assert flex_attention(tocha.zeros(1, 1, 4, 1), keys, keys, block_mask=mask).flatten().tolist() == [5.5] * 4
    full = BlockMask.from_kv_blocks(
        tocha.zeros_like(counts), columns, counts, columns, BLOCK_SIZE=4, mask_mod=lambda b, h, q, k: q < 0
    )
    assert flex_attention(tocha.zeros(1, 1, 4, 1), keys, keys, block_mask=full).flatten().tolist() == [5.5] * 4


BIAS = normal(4, 50)
SCORE_MODS = {
    "alibi": (lambda s, b, h, q, k: s + (k - q) * 0.5 * (h + 1), lambda b, h, q, k: (k - q) * 0.5 * (h + 1)),
    "a table": (lambda s, b, h, q, k: s + BIAS[h, q - k + 20], lambda b, h, q, k: BIAS.numpy()[h, q - k + 20]),
    "row by row": (lambda s, b, h, q, k: s + BIAS[h][k], lambda b, h, q, k: BIAS.numpy()[h, k]),
    "one by one": (lambda s, b, h, q, k: s + BIAS[h, k].max(), lambda b, h, q, k: BIAS.numpy()[h, k]),
    "where": (
        lambda s, b, h, q, k: tocha.where(q >= k, s, -tocha.inf),
        lambda b, h, q, k: np.where(q >= k, 0, -np.inf),
    ),
}


@pytest.mark.parametrize("name", SCORE_MODS)
def test_score_mods(name):
    q, k, v = normal(2, 4, 6, 5), normal(2, 4, 7, 5), normal(2, 4, 7, 3)
    change, bias = SCORE_MODS[name]
    places = np.ix_(range(2), range(4), range(6), range(7))
    assert_close(flex_attention(q, k, v, change), reference(q, k, v, bias(*places))[0])


def test_functions_that_do_not_broadcast_mean_what_they_say_of_one_position():
    x = tocha.tensor([3, 1, 2])
    assert create_mask(lambda b, h, q, k: x[q].max() > x[k].min(), 1, 1, 3, 3).tolist() == [
        [[[a > b for b in (3, 1, 2)] for a in (3, 1, 2)]]
    ]
    with pytest.raises(RuntimeError, match="random"):
        flex_attention(*[tocha.zeros(1, 1, 3, 2)] * 3, lambda s, b, h, q, k: s + tocha.rand(()))


def test_gradients():
    q, k, v = (x.requires_grad_() for x in (normal(1, 4, 5, 2), normal(1, 2, 6, 2), normal(1, 2, 6, 3)))
    table = normal(4, 12).requires_grad_()
    mask = create_block_mask(lambda b, h, q, k: (q >= k) & (q > 0) & (k != h), None, 4, 5, 6, BLOCK_SIZE=2)

    def changed(q, k, v, table):
        out, aux = flex_attention(
            q,
            k,
            v,
            lambda s, b, h, i, j: s * table[h, i - j + 5],
            mask,
            enable_gqa=True,
            return_aux=AuxRequest(lse=True),
        )
        return out, aux.lse.masked_fill(aux.lse.isinf(), 0)

    assert gradcheck(changed, (q, k, v, table))
    assert gradcheck(lambda q, k, v: flex_attention(q, k, v, block_mask=mask, enable_gqa=True), (q, k, v))


def test_precision_and_layout():
    q, k = tocha.randn(1, 6, 2, 4).transpose(1, 2), tocha.randn(1, 2, 6, 4)
    out = flex_attention(q, k, k, lambda s, b, h, i, j: s)
    assert out.stride() == q.stride()
    half, aux = flex_attention(q.half(), k.half(), k.half(), return_aux=AuxRequest(lse=True))
    assert (half.dtype, aux.lse.dtype) == (tocha.float16, tocha.float32)
    np.testing.assert_allclose(half.float().numpy(), out.numpy(), atol=2e-3)
    with tocha.autocast("cpu"):
        assert flex_attention(q, k, k, lambda s, b, h, i, j: s).dtype == tocha.bfloat16


def test_more_batches_than_keys():
    q, k = normal(3, 1, 4, 2), normal(1, 1, 4, 2)
    mask = create_block_mask(causal, 3, None, 4, 4)
    out = flex_attention(q, k, k, block_mask=mask)
    expected = reference(
        q, k.expand(3, -1, -1, -1), k.expand(3, -1, -1, -1), np.where(np.tri(4, dtype=bool), 0, -np.inf)
    )
    assert_close(out, expected[0])


def test_return_lse_warns_once():
    code = """
import warnings, tocha
from tocha.nn.attention.flex_attention import flex_attention
x = tocha.zeros(1, 1, 2, 2)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for _ in range(2):
        out, lse = flex_attention(x, x, x, return_lse=True)
print([w.category.__name__ for w in seen], lse.flatten().tolist())
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found == "['FutureWarning'] [0.6931471824645996, 0.6931471824645996]\n"


def test_scores_come_in_rows_and_only_where_there_are_blocks():
    x = tocha.randn(1, 2, 2048, 8)
    sizes = []

    def change(score, b, h, q, k):
        if score.dim() and score.numel() > 16:  # smaller ones are the trial of the function
            sizes.append(score.numel())
        return score * 2

    with tocha.no_grad():
        flex_attention(x, x, x, change, create_block_mask(causal, None, None, 2048, 2048))
        assert max(sizes) <= 2 * 128 * 2048 and sum(sizes) == 2 * 128 * 128 * (16 * 17 // 2)
        sizes.clear()
        flex_attention(x, x, x, change, create_block_mask(lambda b, h, q, k: (q - k).abs() < 5, None, None, 2048, 2048))
        assert max(sizes) == 2 * 128 * 3 * 128 and sum(sizes) == 2 * 128 * 128 * (3 * 16 - 2)
        sizes.clear()
        flex_attention(*[tocha.randn(1, 2, 4096, 8)] * 3, change)
        assert max(sizes) == 2**22 and sum(sizes) == 2 * 4096 * 4096


def test_block_mask():
    mask = create_block_mask(causal, 2, None, 20, 24, BLOCK_SIZE=(4, 8))
    assert mask.shape == (2, 1, 20, 24)
    assert mask.kv_num_blocks[0, 0].tolist() == [1, 1, 1, 1, 1]
    assert mask.kv_indices[0, 0, :, 0].tolist() == [0, 0, 1, 1, 2]
    assert mask.full_kv_num_blocks[0, 0].tolist() == [0, 0, 1, 1, 2]
    assert mask.q_num_blocks[0, 0].tolist() == [2, 2, 1]
    assert mask.to_dense()[1, 0].tolist() == [[1, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 1, 1]]
    assert mask.numel() == 960 and mask.sparsity() == pytest.approx(40.0)
    assert mask.to_string(limit=1).splitlines()[:6] == ["(0, 0)", "██    ", "██    ", "████  ", "████  ", "██████"]
    assert mask.to_string(grid_size=2).splitlines()[1:3] == ["░░  ", "██░░"]
    joined = create_block_mask(causal, None, None, 20, 24, BLOCK_SIZE=(4, 8), separate_full_blocks=False)
    assert joined.full_kv_indices is None and joined.kv_num_blocks.tolist() == [[[1, 1, 2, 2, 3]]]


def test_block_mask_parts():
    mask = create_block_mask(causal, 3, 2, 32, 32, BLOCK_SIZE=8)
    assert mask[1].shape == (1, 2, 32, 32) and mask[-1, 0].shape == (1, 1, 32, 32)
    row = mask[:, :, 2]
    assert row.to_dense()[0, 0].tolist() == [[1, 1, 1, 0]]
    assert row.q_num_blocks.shape == (3, 2, 4)
    with pytest.raises(RuntimeError, match="sliced"):
        flex_attention(*[tocha.zeros(3, 2, 32, 4)] * 3, block_mask=mask[:])
    row.mask_mod, row.seq_lengths = lambda b, h, q, k: q + 16 >= k, (8, 32)
    x = normal(3, 2, 32, 4)
    whole = flex_attention(x, x, x, block_mask=mask)
    assert_close(flex_attention(x[:, :, 16:24], x, x, block_mask=row), whole[:, :, 16:24].numpy())
    corner = mask._adjust(12, 9)
    assert corner.shape == (3, 2, 12, 9) and corner.to_dense()[0, 0].tolist() == [[1, 0], [1, 1]]
    found = flex_attention(x[:, :, :12], x[:, :, :9], x[:, :, :9], block_mask=corner)
    assert_close(found[:, :, :9], whole[:, :, :9].numpy())


def test_write_order():
    mask = create_block_mask(causal, None, None, 24, 24, BLOCK_SIZE=8, compute_dq_write_order=True, dq_kv_order=False)
    assert mask.q_indices[0, 0].tolist() == [[0, 1, 2], [1, 0, 2], [2, 0, 1]]
    assert mask.dq_write_order[0, 0].tolist() == [[0, 0, 0], [1, 1, 1], [2, 1, 2]]
    assert mask[0, 0].dq_write_order.tolist() == mask.dq_write_order.tolist()


def test_combined_masks():
    near = and_masks(causal, lambda b, h, q, k: q - k < 2)
    assert create_mask(near, 1, 1, 3, 3).int().tolist() == [[[[1, 0, 0], [1, 1, 0], [0, 1, 1]]]]
    assert create_mask(or_masks(near, lambda b, h, q, k: k == 2), 1, 1, 3, 3).int().tolist() == [
        [[[1, 0, 1], [1, 1, 1], [0, 1, 1]]]
    ]
    assert create_mask(and_masks(), 1, 1, 1, 2).all() and not create_mask(or_masks(), 1, 1, 1, 2).any()
    assert create_block_mask(noop_mask, None, None, 8, 8, BLOCK_SIZE=4).full_kv_num_blocks.tolist() == [[[2, 2]]]


def window_reference(q, k, window):
    place = np.arange(q)[:, None] + k - q
    key = np.arange(k)
    left, right = window
    seen = (key >= place - left if left >= 0 else key >= 0) & (key <= place + right if right >= 0 else key >= 0)
    return np.where(seen, 0.0, -np.inf)


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (2, 0), (1, 1), (0, -1)])
@pytest.mark.parametrize("lse", [False, True])
def test_varlen(window, lse):
    q, k, v = normal(11, 4, 3), normal(12, 2, 3), normal(12, 2, 5)
    starts_q, starts_k = [0, 4, 4, 10], [0, 5, 7, 12]
    found = varlen_attn(
        q, k, v, tocha.tensor(starts_q), tocha.tensor(starts_k), 6, 5, window_size=window, enable_gqa=True,
        return_aux=VarlenRequest(lse=lse),
    )  # fmt: skip
    out, sums = found if lse else (found, None)
    for i in range(3):
        rows, keys = slice(*starts_q[i : i + 2]), slice(*starts_k[i : i + 2])
        parts = [x.transpose(0, 1).unsqueeze(0) for x in (q[rows], k[keys], v[keys])]
        bias = window_reference(parts[0].size(2), parts[1].size(2), window)
        expected, expected_sums = reference(*parts, bias)
        assert_close(out[rows], expected[0].swapaxes(0, 1))
        if lse:
            assert_close(sums[:, rows], expected_sums[0])
    assert (out[10] == 0).all()


def test_varlen_pages_and_out():
    q, pool = normal(5, 2, 3), normal(4, 2, 2, 3)
    table, used, ends = tocha.tensor([[3, 0], [1, 2]], dtype=tocha.int32), tocha.tensor([3, 2]), tocha.tensor([0, 2, 5])
    paged = varlen_attn(q, pool, pool, ends, None, 3, 3, seqused_k=used, block_table=table)
    keys = tocha.cat([pool[3], pool[0][:1], pool[1]])
    out = tocha.empty(5, 2, 3, dtype=tocha.float64)
    assert varlen_attn_out(out, q, keys, keys, ends, tocha.tensor([0, 3, 5]), 3, 3) is out
    assert_close(paged, out.numpy())
    with pytest.raises(RuntimeError, match="inference-only"):
        varlen_attn(q.requires_grad_(), keys, keys, ends, tocha.tensor([0, 3, 5]), 3, 3, seqused_k=used)
    with pytest.raises(ValueError, match="length 2"):
        varlen_attn(q, keys, keys, ends, ends, 3, 3, window_size=(1,))


def test_registry(caplog, monkeypatch):
    attention = tocha.nn.attention
    monkeypatch.setattr(attention._registry, "_known", {n: attention._registry._known[n] for n in ("FA3", "FA4")})
    calls = []

    class Handle:
        def remove(self):
            calls.append("removed")

    assert attention.list_flash_attention_impls() == ["FA3", "FA4"]
    attention.register_flash_attention_impl("mine", register_fn=Handle)
    attention.activate_flash_attention_impl("mine")
    assert attention.current_flash_attention_impl() == "mine"
    attention.activate_flash_attention_impl("mine")
    assert calls == ["removed"]
    with pytest.raises(ValueError, match="Unknown"):
        attention.activate_flash_attention_impl("none")
    with pytest.raises(ModuleNotFoundError, match="flash_attn_interface"):
        attention.activate_flash_attention_impl("FA3")
    assert attention.current_flash_attention_impl() is None and calls == ["removed"] * 2
    attention.restore_flash_attention_impl()
    assert "no custom impl was activated" in caplog.text


def test_import_stays_lazy():
    code = "import sys, tocha, tocha.nn.attention; print([m for m in sys.modules if 'flex' in m or 'nn.parallel' in m])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flex_attention(*[tocha.zeros(1, 1, 2, 2)] * 3, block_mask=create_block_mask(causal, None, None, 2, 2))
