"""torchaudio's operators as the alias offers them, on cases whose answers are known without torchaudio."""

from __future__ import annotations

import itertools

import pytest

import tocha
from tocha._alias import torchaudio_ops as ops


def test_lfilter_feeds_its_output_back():
    signal, a = tocha.tensor([[[1.0, 0.0, 0.0, 2.0], [1.0, 1.0, 1.0, 1.0]]]), tocha.tensor([[0.5, 1.0], [-1.0, 1.0]])
    padded = tocha.zeros(1, 2, 5)
    assert tocha.ops.torchaudio._lfilter_core_loop(signal, a, padded) is padded
    assert padded[0].tolist() == [[0, 1, -0.5, 0.25, 1.875], [0, 1, 2, 3, 4]]
    with pytest.raises(RuntimeError, match="do not go together"):
        ops._lfilter_core_loop(signal, a, tocha.zeros(1, 2, 4))
    with pytest.raises(RuntimeError, match="Only float32 and float64"):
        ops._lfilter_core_loop(signal.half(), a.half(), padded.half())


def test_overdrive_leaves_its_state_behind():
    temp, wave = tocha.tensor([[1.0, 3.0, 2.0]]), tocha.tensor([[0.0, 1.0, 0.0]])
    last_in, last_out, out = tocha.zeros(1), tocha.ones(1), tocha.zeros(1, 3)
    ops._overdrive_core_loop(wave, temp, last_in, last_out, out)
    first = 1 + 0.995
    second = 2 + 0.995 * first
    third = -1 + 0.995 * second
    expected = tocha.tensor([[0.75 * first, 0.5 + 0.75 * second, 0.75 * third]])
    assert tocha.allclose(out, expected)
    assert last_in.item() == 2.0 and abs(last_out.item() - third) < 1e-6


def said(path, blank=0):
    return [c for c, _ in itertools.groupby(path) if c != blank]


def test_forced_align_finds_the_likeliest_way():
    tocha.manual_seed(0)
    frames = (tocha.randn(1, 6, 3) * 2).log_softmax(-1)
    target = [1, 2, 2]
    ways = [p for p in itertools.product(range(3), repeat=6) if said(p) == target]
    best = max(ways, key=lambda p: sum(frames[0, t, c].item() for t, c in enumerate(p)))
    found, scores = ops.forced_align(frames, tocha.tensor([target]), tocha.tensor([6]), tocha.tensor([3]), 0)
    assert tuple(found[0].tolist()) == best and scores is frames
    with pytest.raises(RuntimeError, match="too long for CTC"):
        ops.forced_align(frames[:, :3], tocha.tensor([target]), tocha.tensor([3]), tocha.tensor([3]), 0)


def test_transducer_loss_is_the_sum_over_all_ways():
    tocha.manual_seed(0)
    logits = tocha.randn(1, 3, 3, 4, dtype=tocha.float64)
    scores, target, total = logits[0].log_softmax(-1), [1, 2], 0.0
    for order in set(itertools.permutations("BBSS")):  # two blanks and two symbols in any order, then the last blank
        t = u = 0
        way = 0.0
        for step in order:
            way += scores[t, u, target[u] if step == "S" else 0].item()
            t, u = (t, u + 1) if step == "S" else (t + 1, u)
        total += tocha.tensor(way + scores[t, u, 0].item(), dtype=tocha.float64).exp().item()
    lengths = (tocha.tensor([target]), tocha.tensor([3]), tocha.tensor([2]))
    cost, grad = ops.rnnt_loss_forward(logits, *lengths, 0, -1.0, True)
    assert abs(cost.exp().reciprocal().item() - total) < 1e-12
    moved = logits.clone()
    moved[0, 1, 1, 2] += 1e-6
    difference = (ops.rnnt_loss_forward(moved, *lengths, 0, -1.0, True)[0] - cost).item() / 1e-6
    assert abs(difference - grad[0, 1, 1, 2].item()) < 1e-5
    assert ops.rnnt_loss_forward(logits, *lengths, 0, 0.01, True)[1].abs().max().item() == 0.01
