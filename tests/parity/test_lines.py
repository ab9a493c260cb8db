"""Single lines that random programs found answered otherwise than by PyTorch: layouts, edges, the order of refusals.

`m` is the library. A line's answer is what it prints, or the type of what it raises.
"""

from __future__ import annotations

import math
import re
import warnings
from typing import Any

import pytest
import torch

import tocha

CHANNELS_LAST = "m.ones(2, 3, 4, 5).contiguous(memory_format=m.channels_last)"
THIN = "m.ones(5, 3, 2, 1).contiguous(memory_format=m.channels_last)"
PERMUTED = "m.arange(24.).view(4, 3, 2).permute(2, 1, 0)"

LAYOUTS = (
    "m.exp(m.ones(3, 17, 3, 1).movedim(2, 1)).stride()",
    "m.add(m.ones(1, 7, 1, 33).permute(0, 3, 2, 1), m.ones(1, 7, 1, 33).permute(0, 3, 2, 1)).stride()",
    "m.cat([m.nn.functional.hardsigmoid(m.ones(3, 17, 3, 1).movedim(2, 1))] * 3, 2).stride()",
    f"m.einsum('...ij,...kj->...ik', {THIN}, {THIN}).stride()",
    "m.einsum('ijl,kjl->ik', m.ones(3, 1, 2), m.ones(4, 1, 2)).stride()",
    *(f"m.unique_consecutive({PERMUTED}, dim={d}).stride()" for d in range(3)),
    *(f"m.unique({PERMUTED}, dim={d}).stride()" for d in range(3)),
    *(f"m.nn.functional.pad({PERMUTED}, {p}).stride()" for p in ((-1, -1), (-1, 0), (0, 0), (1, -1), (0, 0, -1, 0))),
    *(f"{CHANNELS_LAST}.roll({s}, {d}).stride()" for s, d in ((1, 0), (1, 1), (2, 3), (0, 1), ((1, 1), (0, 2)))),
    *(f"m.stack([{CHANNELS_LAST}] * 2, {d}).stride()" for d in range(5)),
    *(f"m.stack([m.ones(2, 3, 4).permute(0, 2, 1)] * 2, {d}).stride()" for d in range(4)),
    "m.nn.functional.logsigmoid(m.ones(2, 5).t()).stride()",
    f"m.nn.functional.logsigmoid({CHANNELS_LAST}).stride()",
    "m.kron(m.ones(5, 7).t(), m.ones(5, 7).t()).stride()",
    "m.kron(m.ones(5, 7).t(), m.ones(())).stride()",
    f"m.kron({PERMUTED}, {PERMUTED}).stride()",
    "m.pow(2., m.ones(2, 3).t()).stride()",
    f"(0.5 ** {CHANNELS_LAST}).stride()",
    "m.float_power(2., m.ones(2, 3).t()).stride()",
    "(m.arange(30).as_strided((3, 1, 3), (2, 1, 0)) + m.ones(3, 1, 3).permute(2, 1, 0)).stride()",
    "(m.ones(30).as_strided((3, 1, 3), (2, 1, 0)) + m.ones(3, 1, 3).permute(2, 1, 0)).stride()",
)

REFUSALS = (
    *(
        f"m.{f}(m.ones(2, 3, dtype=m.bool), dim=5)"
        for f in ("mean", "std", "var", "argmin", "argmax", "amax", "median")
    ),
    *(f"m.{f}(m.ones(2, 3, dtype=m.complex64), dim=5)" for f in ("argmin", "max", "nanmedian", "logsumexp")),
    "m.ones(5, 0, dtype=m.bool).argmin(1)",
    "m.sum(m.ones(()), dim=(-1, -2))",
    "m.sum(m.ones(2), dim=(-1, 0, 3))",
    "m.sum(m.ones(2), dim=(-1, 0))",
    "m.nn.functional.unfold(m.ones(3, 3, dtype=m.int64), 2)",
    "m.nn.functional.unfold(m.ones(3, 3, 3, 3, dtype=m.int64), 2)",
    *(f"m.nn.functional.glu(m.ones(2, 4, dtype=m.{d}))" for d in ("bool", "complex64")),
    *(f"m.ones(2, dtype=m.bool).clamp({a})" for a in ("None, True", "True", "True, True", "1")),
    "m.ones(2, dtype=m.complex64).clamp(1)",
    *(f"m.tensor([True, False]).clamp({a})" for a in ("m.tensor(True)", "None, m.tensor(False)", "m.tensor([True])")),
    "m.tensor([1, 2]).clamp(m.tensor(1.5), 2)",
    "m.nn.functional.cosine_similarity(m.ones(2, 2, dtype=m.complex64), m.ones(2, 2, dtype=m.complex64))",
    *(f"m.trapezoid(m.ones(1, 3, dtype=m.bool), {a}dim=4)" for a in ("", "dx=2, ", "m.ones(3), ")),
    *(f"m.nanmean(m.ones(1, 3, dtype=m.{d}), dim={i})" for d in ("complex64", "int64") for i in ("0", "(0, 2)")),
    *(f"put_into_itself(m.ones({s}), {i})" for s in ("1", "1, 1", "2, 2") for i in ("None", "(..., None)", "...")),
    "m.take_along_dim(m.ones(()), m.tensor(0), -1)",
    "m.ones(1).diff(n=0, dim=-2)",
    "m.lerp(m.ones(3), m.zeros(3), m.tensor(1 + 2j))",
    "m.lerp(m.ones(3), m.zeros(3), 1 + 2j)",
    "m.ones(3).lerp_(m.zeros(3), m.tensor(1 + 2j))",
    *(f"m.{f}(m.ones(3, requires_grad=True), 0, dtype=m.int8)" for f in ("sum", "prod", "nansum", "cumsum", "cumprod")),
    "m.sum(m.ones(3), 0, dtype=m.int8)",
)

WRITES = tuple(
    f"put({index}, {value})"
    for index in ("True", "False", "(True,)", "m.tensor(True)", "(0, True)", "(0, False, -2)", "(..., True)", "[1, 3]")
    for value in ("m.ones((), dtype=m.bfloat16)", "m.tensor(1 + 2j)", "m.ones(5, dtype=m.bfloat16)", "m.ones(5)", "7.5")
) + (
    "put((m.ones(4, dtype=m.bool), [1, 3]), m.tensor(1))",
    "put(([1, 3], [0, 1, 2]), m.tensor(1))",
    "put(([1, 3],), m.ones(7, dtype=m.int64))",
    "put(m.ones(4, dtype=m.bool), m.tensor(1))",
    "version(lambda x: x.resize_(2, 3))",
    "version(lambda x: x.resize_(3, 2))",
    "version(lambda x: x.resize_as_(m.ones(2, 3)))",
)

VALUES = (
    "m.linspace(.01, .99, 50).bfloat16().logit().tolist()",
    "m.linspace(.01, .99, 50).half().logit(eps=.1).tolist()",
    "m.sum(m.tensor([inf, 0.]), dtype=m.int32).item()",
    "m.prod(m.tensor([300.7, 2.]), dtype=m.int8).item()",
    *(
        f"m.zeros(0, dtype=m.{d}).{f}()"
        for d in ("uint8", "int32", "int64", "float32")
        for f in ("median", "nanmedian")
    ),
    "m.nn.functional.cosine_similarity(m.ones(2, 2, dtype=m.int64), m.ones(2, 2))",
    "m.einsum('ij,kj->ik', m.ones(3, 1, dtype=m.bool), m.ones(3, 1, dtype=m.bool))",
    "m.ones(2, 3).repeat_interleave(2, 0)._is_view()",
    "m.tensor([1., 2.]).clamp(m.tensor(1.5, requires_grad=True)).requires_grad",
    "m.tensor([1., 2.]).clamp(m.tensor(1.5, requires_grad=True), m.tensor(2.)).requires_grad",
    *(
        f"[f'{{v:.4g}}' for v in m.polygamma(1, m.tensor([-1., -2., 0.], dtype=m.{d})).tolist()]"
        for d in ("float32", "float64")
    ),
)

NAN_AND_INF = (
    *(f"slopes(lambda x: m.{f}(x), [nan, 1., 2.])" for f in ("amax", "amin", "max", "min")),
    "slopes(lambda x: m.aminmax(x, dim=0)[1], [nan, 1., 2.])",
    *(f"slopes(lambda x: m.lerp(x, x, {w}) * inf, [1., 2.])" for w in ("0", ".25", ".75", "m.tensor([.25, 1.])")),
    *(f"slopes(lambda x: m.linalg.vector_norm(x, {p}).sqrt(), [0., 0.])" for p in (0.5, 1.5, 2, 3, "inf")),
    "slopes(lambda x: m.dist(x, x).sqrt(), [1., 2.])",
    *(
        f"slopes(lambda x: m.nn.functional.gelu(x, approximate='{a}') * inf, [0., 1., -1., .5, -.5, -3.])"
        for a in ("none", "tanh")
    ),
    *(f"slopes(lambda x: m.{f}(x), [1., inf, 3.])" for f in ("var", "std")),
    "slopes(lambda x: m.var_mean(x, 0)[0], [1., inf, 3.])",
    "slopes(lambda x: m.std(x).sqrt(), [1., 1.])",
    *(f"slopes(lambda x: m.var(x, 0, correction={c}), [3.])" for c in (0, 1, 2)),
    *(f"slopes(lambda x: m.logcumsumexp(x, 0), [1., {v}, 3.])" for v in ("nan", "inf", "-inf")),
    "slopes(lambda x: m.nan_to_num(x) * inf, [nan, inf, -inf, 1.])",
    "curves(lambda x: m.addcdiv(m.ones(2), m.tensor([1., 0.]), x), [0., 0.])",
    "slopes(m.digamma, [-1., -2., -3., 0.])",
    *(
        f"slopes(m.nn.functional.{f}, [inf, -inf, nan, 0.])"
        for f in ("elu", "selu", "celu", "hardshrink", "softshrink")
    ),
    "slopes(lambda x: m.xlogy(x, m.tensor([nan, -1., 0.])) * 0, [0., 1., 2.])",
    "slopes(lambda x: m.special.xlog1py(x, m.tensor([nan, -2., -1.])) * 0, [0., 1., 2.])",
    *(f"curves(lambda x: m.linalg.vector_norm(x, {p}), [1., 0., -2.])" for p in (0.5, 1.5, 2, 3)),
    *(f"curves(lambda x: m.dist(x, m.tensor([1., 2.]), {p}), [1., 2.])" for p in (1.5, 2, 3)),
    *(f"slopes(lambda x: m.linalg.vector_norm(x, {p}), [nan, 1., 2.])" for p in ("inf", "-inf", "2")),
    "unused(lambda x: m.linalg.vector_norm(x, 0))",
    "later(lambda x: x[0])",
)


def names(m: Any) -> dict[str, Any]:
    def slopes(f: Any, at: list[float]) -> list[float]:
        x = m.tensor(at, requires_grad=True)
        return [float(f"{g:.4g}") for g in m.autograd.grad(f(x).sum(), x)[0].tolist()]

    def curves(f: Any, at: list[float]) -> list[float]:
        x = m.tensor(at, requires_grad=True)
        (g,) = m.autograd.grad(f(x).sum(), x, create_graph=True)
        return [float(f"{c:.4g}") for c in m.autograd.grad(g.square().sum(), x)[0].tolist()]

    def unused(f: Any) -> bool:
        x = m.ones(2, requires_grad=True)
        return m.autograd.grad(f(x), x, allow_unused=True)[0] is None

    def later(view: Any) -> tuple[bool, bool]:
        """A view that was there before its base required grad."""
        x = m.ones(2, 2)
        v = view(x)
        x.requires_grad_()
        return v.requires_grad, m.autograd.grad(x.sum(), [x, v], allow_unused=True)[1] is None

    def put(index: Any, value: Any) -> list:
        x = m.zeros(4, 5)
        x[index] = value
        return x.tolist()

    def put_into_itself(x: Any, index: Any) -> None:
        x[index] = x

    def version(f: Any) -> int:
        x = m.ones(2, 3)
        f(x)
        return x._version

    return {**locals(), "inf": math.inf, "nan": math.nan}


def answer(m: Any, line: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.sub("torch", "tocha", str(eval(line, names(m))))
    except Exception as e:
        return type(e).__name__


@pytest.mark.parametrize("line", [*LAYOUTS, *REFUSALS, *WRITES, *VALUES, *NAN_AND_INF])
def test_line(line: str) -> None:
    assert answer(tocha, line) == answer(torch, line)
