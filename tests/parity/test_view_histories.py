"""Random programs of views and in-place writes, in the modes that record, do not record and infer, step by step on PyTorch
and tocha: what every tensor says of its history, its base and its memory must agree after each step, and gradients at the end."""

from __future__ import annotations

import random
import warnings
from contextlib import nullcontext
from itertools import zip_longest

import pytest
import torch

import tocha

LIBRARIES = (torch, tocha)
MODES = {
    "grad": lambda m: nullcontext(),
    "no_grad": lambda m: m.no_grad(),
    "inference": lambda m: m.inference_mode(),
}
MODE_WEIGHTS = {"grad": 6, "no_grad": 2, "inference": 1}

# Text of a step -> whether it serves a tensor of this rank and kind. `x` is the tensor, `m` the library.
VIEWS = {
    "x[0]": lambda x: x.dim() > 0 and x.shape[0] > 0,
    "x[:1]": lambda x: x.dim() > 0,
    "x[..., 1:]": lambda x: x.dim() > 0,
    "x[None]": lambda x: x.dim() < 4,
    "x[...]": lambda x: True,
    "x.view(-1)": lambda x: x.is_contiguous() and x.numel() > 0,
    "x.reshape(-1)": lambda x: x.numel() > 0,
    "x.transpose(0, -1)": lambda x: x.dim() > 0,
    "x.t()": lambda x: x.dim() <= 2,
    "x.mT": lambda x: x.dim() >= 2,
    "x.mH": lambda x: x.dim() >= 2,
    "x.permute(*range(x.dim())[::-1])": lambda x: True,
    "x.unsqueeze(-1)": lambda x: x.dim() < 4,
    "x.squeeze()": lambda x: True,
    "x.diagonal()": lambda x: x.dim() >= 2,
    "x.narrow(0, 0, 1)": lambda x: x.dim() > 0 and x.shape[0] > 0,
    "x.unfold(0, 1, 1)": lambda x: 0 < x.dim() < 4 and x.shape[0] > 0,
    "x.expand(2, *x.shape)": lambda x: x.dim() < 3,
    "x.chunk(2)[0]": lambda x: x.dim() > 0,
    "x.unbind(0)[0]": lambda x: x.dim() > 0 and x.shape[0] > 0,
    "x.split(1)[0]": lambda x: x.dim() > 0 and x.shape[0] > 0,
    "x.tensor_split(2)[0]": lambda x: x.dim() > 0,
    "x.tensor_split((1,))[0]": lambda x: x.dim() > 0,
    "x.hsplit([1])[0]": lambda x: x.dim() > 0,
    "x.as_strided((1,), (1,), x.storage_offset())": lambda x: x.numel() > 0,
    "x.real": lambda x: True,
    "x.imag": lambda x: x.is_complex(),
    "m.view_as_real(x)": lambda x: x.is_complex() and not x.is_conj() and x.dim() < 4,
    "m.view_as_complex(x)": lambda x: (
        x.dtype == torch.float32
        and x.dim() > 0
        and x.shape[-1] == 2
        and x.stride(-1) == 1
        and x.storage_offset() % 2 == 0
        and all(s % 2 == 0 for s in x.stride()[:-1])
    ),
    "x.conj()": lambda x: True,
    "m._neg_view(x)": lambda x: True,
    "x.resolve_conj()": lambda x: True,
    "x.detach()": lambda x: True,
    "x.view_as(x)": lambda x: True,
    "x.movedim(0, -1)": lambda x: x.dim() > 0,
    "x.view(x.dtype)": lambda x: not x.is_conj() and not x.is_neg(),
    "x.contiguous()": lambda x: True,
    "x.swapaxes(0, -1)": lambda x: x.dim() > 0,
    "x.flatten()": lambda x: True,
}
WRITES = {
    "x.mul_(2)": lambda x: True,
    "x.exp_()": lambda x: True,
    "x.sin_()": lambda x: True,
    "x.zero_()": lambda x: True,
    "x.fill_(0.5)": lambda x: True,
    "x.add_(g)": lambda x: True,
    "x.mul_(g)": lambda x: True,
    "x.copy_(g)": lambda x: True,
    "x.__setitem__(0, g)": lambda x: x.dim() > 0 and x.shape[0] > 0,
    "x.__setitem__(Ellipsis, 2)": lambda x: True,
    "x.t_()": lambda x: x.dim() <= 2,
    "x.transpose_(0, -1)": lambda x: x.dim() > 0,
    "x.swapdims_(0, -1)": lambda x: x.dim() > 0,
    "x.swapaxes_(0, -1)": lambda x: x.dim() > 0,
    "x.squeeze_()": lambda x: True,
    "x.squeeze_(0)": lambda x: x.dim() > 0,
    "x.unsqueeze_(0)": lambda x: x.dim() < 4,
    "x.as_strided_((1,), (1,))": lambda x: x.numel() > 0,
    "setattr(x, 'real', 0.25)": lambda x: True,
    "setattr(x, 'imag', g.real)": lambda x: x.is_complex(),
    "x.requires_grad_()": lambda x: True,
    "x.detach_()": lambda x: True,
}
NOT_LINEAR = ("x.sin_()", "x.exp_()", "x.mul_(g)")
GEOMETRIES = (
    "x.t_()",
    "x.transpose_(0, -1)",
    "x.swapdims_(0, -1)",
    "x.swapaxes_(0, -1)",
    "x.squeeze_()",
    "x.squeeze_(0)",
    "x.unsqueeze_(0)",
    "x.as_strided_((1,), (1,))",
)
STARTS = {
    "m.tensor([[0.5, -0.25], [0.75, 1.0]], dtype=m.complex64)": "complex",
    "m.arange(8.0).view(2, 4) / 8": "float",
    "m.arange(12.0).view(2, 3, 2) / 8": "float",
}


def program(seed: int) -> list[tuple[str, str, int]]:
    """(mode, kind and text, which tensor) per step; which steps serve is decided as the program runs."""
    r = random.Random(seed)
    steps: list[tuple[str, str, int]] = []
    for _ in range(r.randint(2, 7)):
        mode = r.choices(list(MODE_WEIGHTS), list(MODE_WEIGHTS.values()))[0]
        table = VIEWS if r.random() < 0.55 else WRITES
        steps.append((mode, r.choice(list(table)), r.randrange(100)))
    return steps


class Run:
    """One library's side of a program."""

    def __init__(self, m, start: str, how: str):
        self.m, self.how = m, how
        self.leaf = eval(start, {"m": m})
        if how != "plain":
            self.leaf.requires_grad_()
        self.g = m.tensor(1.5, requires_grad=True)
        if how == "inference":
            with m.inference_mode():
                self.pool = [self.leaf.detach().clone()]
        else:
            self.pool = [self.leaf if how == "leaf" else self.leaf * 1 if how == "result" else self.leaf.clone()]

    def step(self, mode: str, text: str, which: int) -> str | None:
        """The error, if it raised."""
        x = self.pool[which % len(self.pool)]
        try:
            with MODES[mode](self.m):
                made = eval(text, {"x": x, "m": self.m, "g": self.g})
        except Exception as e:
            return f"{type(e).__name__}: {e}"
        if made is not None and not any(made is t for t in self.pool):
            self.pool.append(made)
        return None

    def facts(self) -> list[dict]:
        return [self.facts_of(t) for t in self.pool]

    def facts_of(self, t) -> dict:
        base = t._base
        return {
            "shape": tuple(t.shape),
            "strides": tuple(0 if n == 1 else s for n, s in zip(t.shape, t.stride(), strict=True)) if t.numel() else (),
            "offset": t.storage_offset(),
            "requires_grad": attempt(lambda: t.requires_grad),
            "is_leaf": attempt(lambda: t.is_leaf),
            "grad_fn": attempt(lambda: type(t.grad_fn).__name__.replace("ReshapeAlias", "View")),
            "is_view": t._is_view(),
            "base": next((i for i, o in enumerate(self.pool) if o is base), None if base is None else "other"),
            "inference": t.is_inference(),
            "version": None if self.how == "inference" else attempt(lambda: t._version),
            "conj": t.is_conj(),
            "neg": t.is_neg(),
            "values": rounded(t),
        }

    def gradients(self, second: bool):
        with self.m.enable_grad():
            total = self.m.zeros(())
            for t in self.pool:
                if attempt(lambda t=t: t.requires_grad and t.grad_fn is not None) is True and not t.is_inference():
                    weights = self.m.arange(1.0, 1 + t.numel()).view(t.shape)
                    value = self.m.view_as_real(t.resolve_conj()).sum(-1) if t.is_complex() else t
                    total = total + (value * value.detach().cos() * weights).sum()
            if not total.requires_grad:
                return None
            inputs = [self.leaf, self.g] if self.leaf.requires_grad else [self.g]
            found = self.m.autograd.grad(total, inputs, create_graph=second, allow_unused=True)
            if second:
                square = sum(
                    (self.m.view_as_real(f).square().sum() if f.is_complex() else f.square().sum())
                    for f in found
                    if f is not None
                )
                if not isinstance(square, int) and square.requires_grad:
                    found += self.m.autograd.grad(square, inputs, allow_unused=True)
            return [None if f is None else rounded(f) for f in found]


def attempt(f):
    try:
        return f()
    except RuntimeError as e:
        return f"raises {phrase(str(e))}"


def phrase(message: str) -> str:
    """PyTorch's words at the beginning; ours stand after [op]."""
    message = message.replace("torch::autograd::", "")
    return (
        message.replace("tocha", "torch").partition("] ")[2][:60]
        if message.startswith("[")
        else message.replace("tocha", "torch")[:60]
    )


def rounded(t):
    t = t.detach().resolve_conj().resolve_neg()
    parts = t.tolist()

    def flat(v):
        return [y for x in v for y in flat(x)] if isinstance(v, list) else [v]

    return [complex(round(z.real, 3) + 0.0, round(z.imag, 3) + 0.0) for z in map(complex, flat(parts))]


def agree(a, b) -> bool:
    if isinstance(a, list) and isinstance(b, list) and a and isinstance(a[0], complex):
        return len(a) == len(b) and all(same_number(x, y) for x, y in zip(a, b, strict=True))
    return a == b


def same_number(x: complex, y: complex) -> bool:
    def close(p: float, q: float) -> bool:
        return p == q or (p != p and q != q) or abs(p - q) <= 2e-3 * (1 + abs(p) + abs(q))

    return close(x.real, y.real) and close(x.imag, y.imag)


def is_ambiguous(text: str, x, pool) -> bool:
    """Where PyTorch's own answer depends on how it happens to redo a view, or takes an inference tensor for a normal one."""
    if text == "x.detach_()":
        return any(t._base is x for t in pool)
    if text == "x.detach()":
        return x.is_inference()
    return text in GEOMETRIES and any(reads_otherwise(t) for t in pool)


def reads_otherwise(t) -> bool:
    return t._is_view() and (t.dtype, t.is_conj(), t.is_neg()) != (t._base.dtype, t._base.is_conj(), t._base.is_neg())


def differences(seed: int) -> str | None:
    """What the two libraries disagree on first, as a text with the program; None where they agree."""
    r = random.Random(seed * 7919)
    start, how = r.choice(list(STARTS)), r.choice(["leaf", "result", "result", "plain", "inference"])
    runs = [Run(m, start, how) for m in LIBRARIES]
    lines = [f"start {start} as {how}"]
    for mode, text, which in program(seed):
        pool = runs[0].pool
        if not {**VIEWS, **WRITES}[text](pool[which % len(pool)]) or is_ambiguous(text, pool[which % len(pool)], pool):
            continue
        lines.append(f"{mode}: x{which % len(runs[0].pool)}: {text}")
        errors = [run.step(mode, text, which) for run in runs]
        if errors[0] or errors[1]:
            if bool(errors[0]) != bool(errors[1]) or errors[0].partition(":")[0] != errors[1].partition(":")[0]:
                return "\n".join([*lines, f"raised: {errors[0]} | {errors[1]}"])
            if phrase(errors[0].partition(": ")[2]) != phrase(errors[1].partition(": ")[2]):
                return "\n".join([*lines, f"message: {errors[0]} | {errors[1]}"])
            break
        for i, (a, b) in enumerate(zip(runs[0].facts(), runs[1].facts(), strict=True)):
            for key in a:
                if not agree(a[key], b[key]):
                    return "\n".join([*lines, f"x{i}.{key}: {a[key]} | {b[key]}"])
    second = r.random() < 0.3 and not any(text in NOT_LINEAR for _, text, _ in program(seed))
    found = []
    for run in runs:
        try:
            found.append(run.gradients(second))
        except RuntimeError as e:
            found.append(f"raises {phrase(str(e))}")
    same = found[0] == found[1] or (isinstance(found[0], str) and str(found[1]).startswith(found[0]))
    if isinstance(found[0], list) and isinstance(found[1], list):
        # Second derivatives that are zero may also not be there.
        same = all(agree(a, b) or not any(a or b) for a, b in zip_longest(*found))
    if isinstance(found[0], str) and "isFloatingType" in found[0]:
        same = True  # PyTorch cannot sum the gradient of a real number that fills complex ones
    return None if same else "\n".join([*lines, f"gradients (second order: {second}): {found[0]} | {found[1]}"])


@pytest.mark.parametrize("block", range(20))
def test_programs_of_views_and_writes(block):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [d for seed in range(block * 100, block * 100 + 100) if (d := differences(seed))]
    assert not found, f"{len(found)} programs differ, the first:\n{found[0]}"
