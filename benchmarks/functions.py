"""Thirty functions of real code: tocha's eager, tocha compiled and torch.compile in one run, turn by turn.

python benchmarks/functions.py            # all
python benchmarks/functions.py softmax    # those whose name matches; --own: without PyTorch, --dynamic: sizes are symbols, --json: the times too

Each library is a process of its own; a row shows medians, and the ratios of eager and of torch.compile to tocha compiled.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import statistics
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import harness

ROUNDS = 15
SECONDS = 0.02  # of one turn
REST = 0.025  # between two: PyTorch's threads stay awake for some milliseconds after their work, on the same processors
DYNAMIC = "--dynamic" in sys.argv
CONTENDERS = ("tocha eager", "tocha compiled", "torch compiled")
FUNCTIONS: dict[str, Callable[[Any, Any], tuple[Callable[..., Any], tuple]]] = {}


def function(make: Callable[[Any, Any], tuple[Callable[..., Any], tuple]]) -> None:
    """A maker of a function of real code and its arguments, given the library and its functional module."""
    FUNCTIONS[make.__name__] = make


# ---- losses


@function
def cross_entropy_smoothed(T, F):
    def f(logits, target):
        logp = F.log_softmax(logits, dim=-1)
        picked = logp.gather(1, target.unsqueeze(1)).squeeze(1)
        return (-0.9 * picked - 0.1 * logp.mean(-1)).mean()

    return f, (T.randn(512, 1000), T.randint(0, 1000, (512,)))


@function
def focal_loss(T, F):
    def f(logits, target):
        ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        p = T.sigmoid(logits)
        pt = p * target + (1 - p) * (1 - target)
        alpha = 0.25 * target + 0.75 * (1 - target)
        return (alpha * (1 - pt) ** 2 * ce).mean()

    return f, (T.randn(128, 1024), T.rand(128, 1024).round())


@function
def dice_loss(T, F):
    def f(logits, target):
        p = logits.sigmoid().flatten(1)
        t = target.flatten(1)
        return (1 - (2 * (p * t).sum(1) + 1) / (p.sum(1) + t.sum(1) + 1)).mean()

    return f, (T.randn(8, 1, 128, 128), T.rand(8, 1, 128, 128).round())


@function
def distillation_loss(T, F):
    def f(student, teacher):
        return F.kl_div(F.log_softmax(student / 4, -1), F.softmax(teacher / 4, -1), reduction="batchmean") * 16

    return f, (T.randn(256, 1000), T.randn(256, 1000))


@function
def info_nce(T, F):
    def f(a, b):
        a, b = F.normalize(a, dim=1), F.normalize(b, dim=1)
        logits = a @ b.t() / 0.07
        return -(T.logsumexp(logits, 1) - logits.diagonal()).neg().mean()

    return f, (T.randn(256, 128), T.randn(256, 128))


@function
def smooth_l1_with_mask(T, F):
    def f(x, y, mask):
        loss = F.smooth_l1_loss(x, y, reduction="none", beta=0.5)
        return (loss * mask).sum() / mask.sum().clamp(min=1)

    return f, (T.randn(64, 4096), T.randn(64, 4096), (T.rand(64, 4096) > 0.5).float())


# ---- norms


@function
def layer_norm_gelu_softmax_gate(T, F):
    def f(x, w, b, gate):
        return F.softmax(F.gelu(F.layer_norm(x, (1024,), w, b)), -1) * T.sigmoid(gate)

    return f, (T.randn(1024, 1024), T.randn(1024), T.randn(1024), T.randn(1024, 1024))


@function
def softmax(T, F):
    return lambda x: F.softmax(x, -1), (T.randn(1024, 1024),)


@function
def layer_norm(T, F):
    return lambda x, w, b: F.layer_norm(x, (768,), w, b), (T.randn(1024, 768), T.randn(768), T.randn(768))


@function
def rms_norm(T, F):
    def f(x, w):
        return x * T.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w

    return f, (T.randn(8, 128, 768), T.randn(768))


@function
def batch_norm_relu_training(T, F):
    def f(x, w, b):
        mean = x.mean((0, 2, 3), keepdim=True)
        var = x.var((0, 2, 3), unbiased=False, keepdim=True)
        return F.relu((x - mean) * T.rsqrt(var + 1e-5) * w.view(1, -1, 1, 1) + b.view(1, -1, 1, 1))

    return f, (T.randn(16, 64, 28, 28), T.randn(64), T.randn(64))


@function
def group_norm_silu(T, F):
    return lambda x, w, b: F.silu(F.group_norm(x, 8, w, b)), (T.randn(8, 64, 32, 32), T.randn(64), T.randn(64))


# ---- transformers


@function
def rotary_embedding(T, F):
    def f(q, k, cos, sin):
        def turned(x):
            a, b = x.chunk(2, -1)
            return x * cos + T.cat((-b, a), -1) * sin

        return turned(q), turned(k)

    return f, (T.randn(4, 8, 128, 64), T.randn(4, 8, 128, 64), T.randn(128, 64), T.randn(128, 64))


@function
def rotary_interleaved(T, F):
    def f(x, cos, sin):
        a, b = x[..., 0::2], x[..., 1::2]
        return T.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)

    return f, (T.randn(4, 8, 128, 64), T.randn(128, 32), T.randn(128, 32))


@function
def causal_masked_softmax(T, F):
    def f(scores):
        n = scores.shape[-1]
        mask = T.ones(n, n, dtype=T.bool).tril()
        return F.softmax(scores.masked_fill(~mask, float("-inf")) / 8, -1)

    return f, (T.randn(4, 8, 128, 128),)


@function
def alibi_scores(T, F):
    def f(scores, slopes):
        n = scores.shape[-1]
        i = T.arange(n)
        distance = (i[None, :] - i[:, None]).clamp(max=0).float()
        return F.softmax(scores + slopes[:, None, None] * distance, -1)

    return f, (T.randn(4, 8, 128, 128), T.rand(8))


@function
def swiglu(T, F):
    def f(x):
        a, b = x.chunk(2, -1)
        return F.silu(a) * b

    return f, (T.randn(512, 2048),)


@function
def residual_dropout_free_block(T, F):
    def f(x, y, w, b):
        h = x + y
        return h, F.gelu(F.layer_norm(h, (512,), w, b), approximate="tanh")

    return f, (T.randn(512, 512), T.randn(512, 512), T.randn(512), T.randn(512))


@function
def embedding_with_positions(T, F):
    def f(tokens, table, positions, w, b):
        return F.layer_norm(F.embedding(tokens, table) + positions, (256,), w, b)

    return f, (T.randint(0, 5000, (16, 128)), T.randn(5000, 256), T.randn(128, 256), T.randn(256), T.randn(256))


# ---- augmentations


@function
def normalize_images(T, F):
    def f(images, mean, std):
        return (images.float() / 255 - mean[:, None, None]) / std[:, None, None]

    return f, (T.randint(0, 256, (16, 3, 128, 128), dtype=T.uint8), T.rand(3), T.rand(3) + 0.1)


@function
def flip_pad_jitter(T, F):
    def f(images):
        x = F.pad(images.flip(-1), (4, 4, 4, 4))
        return (x * 1.2 - 0.1).clamp(0, 1)

    return f, (T.rand(16, 3, 64, 64),)


@function
def mixup(T, F):
    def f(x, y):
        return 0.3 * x + 0.7 * x.roll(1, 0), 0.3 * y + 0.7 * y.roll(1, 0)

    return f, (T.randn(32, 3, 64, 64), T.rand(32, 100))


@function
def grayscale_contrast(T, F):
    def f(x):
        gray = 0.299 * x[:, 0] + 0.587 * x[:, 1] + 0.114 * x[:, 2]
        mean = gray.mean((1, 2), keepdim=True).unsqueeze(1)
        return ((x - mean) * 1.5 + mean).clamp(0, 1)

    return f, (T.rand(16, 3, 64, 64),)


@function
def channels_last_concat(T, F):
    def f(a, b, c):
        return T.cat((a.permute(0, 2, 3, 1), b.permute(0, 2, 3, 1), c.permute(0, 2, 3, 1)), -1)

    return f, (T.randn(8, 16, 32, 32), T.randn(8, 16, 32, 32), T.randn(8, 32, 32, 32))


# ---- optimizers


@function
def adam_update(T, F):
    def f(params, grads, ms, vs):
        out = []
        for p, g, m, v in zip(params, grads, ms, vs, strict=True):
            m = m * 0.9 + g * 0.1
            v = v * 0.999 + g * g * 0.001
            out.append((p - 1e-3 * m / (v.sqrt() + 1e-8), m, v))
        return out

    shapes = [(256, 256), (256,), (512, 256), (512,), (256, 512), (256,)] * 4
    return f, tuple([T.rand(*n) for n in shapes] for _ in range(4))


@function
def clip_gradients(T, F):
    def f(grads):
        norm = T.sqrt(sum((g * g).sum() for g in grads))
        scale = (1.0 / (norm + 1e-6)).clamp(max=1.0)
        return [g * scale for g in grads]

    return f, ([T.randn(*n) for n in [(256, 256), (256,), (512, 256), (512,), (256, 512), (256,)] * 4],)


# ---- detection, sampling, statistics


@function
def box_iou(T, F):
    def f(a, b):
        area_a = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])
        area_b = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
        low = T.max(a[:, None, :2], b[None, :, :2])
        high = T.min(a[:, None, 2:], b[None, :, 2:])
        side = (high - low).clamp(min=0)
        both = side[..., 0] * side[..., 1]
        return both / (area_a[:, None] + area_b - both)

    def boxes(n):
        corner = T.rand(n, 2)
        return T.cat((corner, corner + T.rand(n, 2)), 1)

    return f, (boxes(500), boxes(300))


@function
def top_k_sampling(T, F):
    def f(logits):
        values, _ = T.topk(logits, 50)
        kept = logits.masked_fill(logits < values[:, -1:], float("-inf"))
        return F.softmax(kept / 0.8, -1)

    return f, (T.randn(16, 8192),)


@function
def column_statistics(T, F):
    def f(x):
        mean = x.mean(0)
        d = x - mean
        std = d.pow(2).mean(0).sqrt()
        z = d / (std + 1e-6)
        return mean, std, z.pow(3).mean(0), z.pow(4).mean(0)

    return f, (T.randn(4096, 64),)


@function
def small_add_relu_mul(T, F):
    return lambda x, y: T.relu(x + y) * y, (T.randn(32, 128), T.randn(32, 128))


# ---- running


def serve(library: str) -> None:
    """Answers "kind name number" with the seconds per call over so many calls."""
    T, F = importlib.import_module(library), importlib.import_module(f"{library}.nn.functional")
    T.set_num_threads(2)
    calls: dict[tuple[str, str], Callable[[], object]] = {}
    for line in sys.stdin:
        kind, name, number = line.split()
        if (kind, name) not in calls:
            T.manual_seed(0)
            f, args = FUNCTIONS[name](T, F)
            f = T.compile(f, dynamic=DYNAMIC) if kind == "compiled" else f

            def call(f=f, args=args):
                return f(*args)

            with T.no_grad():
                call(), call()
            calls[kind, name] = call
        with T.no_grad():
            print(harness.per_call(calls[kind, name], int(number)), flush=True)


@cache
def process_of(library: str) -> harness.Remote:
    """One for a library's eager and compiled calls: the same code differs by tens of percent between processes."""
    return harness.Remote(__file__, "--serve", library, *(["--dynamic"] if DYNAMIC else []))


class Contender:
    def __init__(self, label: str):
        library, self.kind = label.split()
        self.remote = process_of(library)

    def per_call(self, name: str, number: int) -> float:
        process = self.remote.process
        assert process.stdin and process.stdout
        print(self.kind, name, number, file=process.stdin)
        answer = process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.remote.command} failed at {name}")
        return float(answer)

    def calls_for(self, name: str) -> int:
        number = 1
        while (elapsed := self.per_call(name, number) * number) < SECONDS / 4:
            number *= 4
        return max(1, int(number * SECONDS / elapsed))


def measured(contenders: dict[str, Contender], name: str) -> dict[str, float]:
    numbers = {label: c.calls_for(name) for label, c in contenders.items()}
    times: dict[str, list[float]] = {label: [] for label in contenders}
    for i in range(ROUNDS):
        order = list(contenders)[:: 1 if i % 2 else -1]
        for label in order:
            time.sleep(REST)
            times[label].append(contenders[label].per_call(name, numbers[label]))
    return {label: statistics.median(t) for label, t in times.items()}


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def main(pattern: str, labels: tuple[str, ...]) -> None:
    contenders = {label: Contender(label) for label in labels}
    found: dict[str, dict[str, float]] = {}
    print(f"{'':32s}" + "".join(f"{label:>18s}" for label in labels) + "".join(f"{x:>9s}" for x in ("eager", "torch")))
    for name in FUNCTIONS:
        if not re.search(pattern, name):
            continue
        found[name] = row = measured(contenders, name)
        ours = row["tocha compiled"]
        ratios = [row[o] / ours for o in ("tocha eager", "torch compiled") if o in row]
        low = "  <--" if ratios[0] < 0.95 else ""
        cells = "".join(f"{row[label] * 1e6:16.1f}us" for label in labels) + "".join(f"{r:8.2f}x" for r in ratios)
        print(f"{name:32s}{cells}{low}", flush=True)
    for other in ("tocha eager", "torch compiled"):
        if other in labels:
            mean = geometric_mean([r[other] / r["tocha compiled"] for r in found.values()])
            print(f"geometric mean against {other}: {mean:.2f}x")
    if "--json" in sys.argv:
        print(json.dumps(found), file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
    else:
        words = [a for a in sys.argv[1:] if not a.startswith("--")]
        main(words[0] if words else "", CONTENDERS[:2] if "--own" in sys.argv else CONTENDERS)
