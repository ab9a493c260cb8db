"""Gradients of gradients and forward mode, operator by operator, against PyTorch.

Which results have a history, which gradients can be differentiated again, what that gives, and what tangents become. tocha must
not refuse what PyTorch gives; where PyTorch refuses and tocha knows the derivative, that is fine.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from test_saved_values_parity import MOST, OPERATORS, Call, leaves, ours

import tocha

# What differs (history, hangs, second, tangent), and why.
DIFFERENT = {
    "as_strided_scatter": ("second", "PyTorch's gradient of what is written over is not zero"),
    "cholesky_inverse|triangular_solve": ("tangent", "PyTorch's tangents are not the derivative"),
    "cholesky|linalg.cholesky.*": (
        "hangs|second|tangent",
        "tangents that are not symmetric; matrices without elements",
    ),
    "max_unpool": ("tangent", "places that are given twice"),
    "logcumsumexp": ("tangent", "PyTorch's has fewer digits"),
    "conv[123]d|conv_transpose[123]d|convolution": ("hangs", "PyTorch makes all gradients in one step"),
    "adaptive_avg_pool": ("hangs", "PyTorch takes the mean for one window"),
    ".*group_norm": ("hangs|second", "the gradient of the bias comes with that of the weight"),
    r".*cumprod|linalg.(det|slogdet|vander)|.*logdet|pdist|linalg.householder_product|ormqr|repeat|tile|(var|std)_mean": (
        "hangs|second",
        "tensors of one element or of none",
    ),
    "(index|scatter)_reduce/prod": ("hangs|tangent", "by what is not part of the product"),
    "multi_margin_loss": ("hangs", "has no second derivative in PyTorch"),
    "grid_sample|grid_sampler_2d": ("second", "zeros by an input that does not count"),
    "masked.prod": ("second", "products of what is no number"),
    "_chunk_cat": ("history", "has no derivative in PyTorch"),
    "native_layer_norm|normal|.*dropout.*|rrelu|scaled_dot_product_attention|svd.*|pca.*|linalg.(svd|eig|eigh|qr|lstsq)|qr|lobpcg": (
        "second|tangent",
        "random, or determined up to a sign",
    ),
}


# Calls that are not alike: bodies of their own in PyTorch's table, memory that NumPy does not carry over, other layouts.
LEFT_OUT = {
    "linear_cross_entropy/chunked",
    "linear_cross_entropy/chunked_none",
    "embedding_bag",
    "as_strided/partial_views",
    "to_sparse",
}


def is_expected(name: str, kind: str) -> bool:
    plain = name.removeprefix("nn.functional.")
    return any(re.match(f"({n})", plain) and re.fullmatch(k, kind) for n, (k, _) in DIFFERENT.items())


def numbers(shape: tuple, dtype: torch.dtype, seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).to(dtype)


class Side:
    """A call in one library, differentiated; values come out as PyTorch's."""

    def __init__(self, call: Call) -> None:
        self.call, self.library = call, call.library
        self.wanted = next(iter(call.wanting()), ())

    def into(self, t: torch.Tensor) -> Any:
        return t if self.library is torch else ours(t)

    def like(self, t: Any, seed: int) -> Any:
        dtype = getattr(torch, str(t.dtype).split(".")[-1])
        return self.into(numbers(tuple(t.shape), dtype, seed))

    def out(self, t: Any) -> torch.Tensor | None:
        if t is None or self.library is torch:
            return t if t is None else t.detach().resolve_conj().resolve_neg()
        return torch.from_numpy(np.array(t.detach().resolve_conj().resolve_neg().numpy()))

    def record(self) -> list:
        self.starts, _, results = self.call.run(self.wanted)
        self.results = [r for r in results if r.requires_grad]
        return [(r.requires_grad, r.grad_fn is None) for r in results]

    def gradients(self, arrived: list) -> list:
        found = self.library.autograd.grad(self.results, self.starts, arrived, create_graph=True, allow_unused=True)
        return [g if g is not None and g.layout == self.library.strided else None for g in found]

    def hangs(self) -> list[bool | None]:
        """Whether gradients of results can be differentiated where what arrives is constant."""
        found = self.gradients([self.like(r, i) for i, r in enumerate(self.results)])
        return [None if g is None else g.requires_grad for g in found]

    def second(self, chosen: list[int] | None = None) -> tuple[list[int], list]:
        """Which gradients can be differentiated, and what that gives of those that are chosen."""
        arrived = [self.like(r, i).requires_grad_() for i, r in enumerate(self.results)]
        grads = self.gradients(arrived)
        able = [i for i, g in enumerate(grads) if g is not None and g.requires_grad]
        used = able if chosen is None else [i for i in able if i in chosen]
        if not used:
            return able, []
        weights = [self.like(grads[i], 100 + i) for i in used]
        again = self.library.autograd.grad(
            [grads[i] for i in used], [*self.starts, *arrived], weights, allow_unused=True, retain_graph=True
        )
        return able, [self.out(g) for g in again]

    def tangents(self) -> list:
        fw = self.library.autograd.forward_ad
        duals = Call(self.library, self.call.f, self.call.args, self.call.kwargs)
        with fw.dual_level():
            pairs = [
                fw.make_dual(t, self.like(t, 50 + i)) if i in self.wanted else t for i, t in enumerate(duals.tensors)
            ]
            found = [fw.unpack_dual(t).tangent for t in duals.results_of(pairs)]
            return [self.out(t) for t in found]


def same(expected: list, found: list) -> str | None:
    """What is wrong with these values; nothing for zeros instead of none."""
    for i, (a, b) in enumerate(zip(expected, found, strict=True)):
        if a is None or b is None:
            there = a if b is None else b
            if there is not None and bool(there.any()):
                return f"{i}: {b}, expected {a}"
        elif a.layout == torch.strided:
            try:
                torch.testing.assert_close(b, a, rtol=1e-6, atol=1e-6, equal_nan=True)
            except AssertionError as e:
                return f"{i}: {e}"
    return None


ERRORS = (RuntimeError, IndexError, TypeError, ValueError)


def compare(name: str, theirs: Side, mine: Side) -> None:
    def check(kind: str, wrong: Any) -> None:
        assert not wrong or is_expected(name, kind), f"{name} {kind}: {wrong}"

    try:
        history = theirs.record()
    except ERRORS:
        return
    found = mine.record()
    if len(history) == len(found):  # else one gives indices that the other keeps to itself
        check("history", None if history == found else f"{found}, expected {history}")
    if len(theirs.results) != len(mine.results) or not theirs.results:
        return
    try:
        theirs.hangs(), theirs.second()
    except ERRORS:  # there is no such derivative
        return
    hangs, expected = mine.hangs(), theirs.hangs()
    check("hangs", None if hangs == expected else f"{hangs}, expected {expected}")
    able = [i for i in theirs.second()[0] if i in mine.second([])[0]]
    check("second", same(theirs.second(able)[1], mine.second(able)[1]))


def compare_tangents(name: str, theirs: Side, mine: Side) -> None:
    try:
        expected = theirs.tangents()
    except ERRORS:
        return
    found = mine.tangents()
    if len(found) == len(expected):
        wrong = same(expected, found)
        assert not wrong or is_expected(name, "tangent"), f"{name} tangent: {wrong}"


@pytest.mark.parametrize(
    ("o", "f", "g"), [pytest.param(o, f, g, id=f"{o.name}/{o.variant_test_name}") for o, f, g in OPERATORS]
)
def test_samples_of_pytorch(o: Any, f: Callable, g: Callable) -> None:
    warnings.simplefilter("ignore")
    name = f"{o.name}/{o.variant_test_name}".rstrip("/")
    if name.removeprefix("nn.functional.") in LEFT_OUT:
        pytest.skip("a call of its own")
    torch.manual_seed(0)
    every = list(o.sample_inputs("cpu", torch.float64))
    for sample in every[:: max(1, len(every) // MOST)][:MOST]:
        args, kwargs = [sample.input, *sample.args], sample.kwargs
        tensors = [t for t in leaves([*args, *kwargs.values()]) if isinstance(t, torch.Tensor)]
        if any(t.layout != torch.strided or t.numel() > 10_000 for t in tensors):
            continue
        mine = [ours(a) for a in args], {k: ours(v) for k, v in kwargs.items()}
        for check in (compare, compare_tangents):
            check(name, Side(Call(torch, g, args, kwargs)), Side(Call(tocha, f, *mine)))
