"""Transforms of every differentiable operator, made from the records; none is named here.

vjp and jvp are held against autograd and forward mode, which finite differences hold; vmap against loops; then their compositions.
"""

from __future__ import annotations

import warnings

import pytest
import samples as s
from test_operator_gradients import TWICE, cases

import tocha
from tocha._functorch.batching import Loops
from tocha.func import jvp, vjp, vmap
from tocha.ir import dtypes as dt

REAL = [p for p in TWICE if p.values[1] is dt.float64]
# Their bodies read elements, or write to what is not of the batch; PyTorch's vmap refuses them too.
UNMAPPED = ("vmap:", "Batching rule not implemented", "data pointer of Tensor", "We could not generate a fallback")
UNMAPPED += ("Batch norm got a batched tensor as input", "vmap over torch.allclose")


def rows(values):
    return [tocha.stack([v.detach(), v.detach().flip(0) if v.ndim else v.detach() * 0.9]) for v in values]


def plain(values):
    return tuple(v.detach() for v in values)


def close(found, expected, what, rtol=1e-6):
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert tuple(a.shape) == tuple(b.shape), f"{what} {i}: {a.shape} for {b.shape}"
        a, b = (x.float() if x.is_floating_point() and x.itemsize == 1 else x for x in (a, b))
        # Casts to half types have few digits, and so has what is computed from them.
        assert bool(tocha.isclose(a, b, rtol=rtol, atol=rtol / 100, equal_nan=True).all()), f"{what} {i}: {a} for {b}"


def inner(a, b):
    """The real inner product, in which vjp and jvp are transposes of each other."""
    return sum(
        (x.conj() * y).to(tocha.complex128).sum().real if x.is_complex() else (x * y).sum()
        for x, y in zip(a, b, strict=True)
    ).double()


def cotangents(results):
    tocha.manual_seed(3)
    return tuple(tocha.randn(r.shape, dtype=r.dtype) for r in results)


@pytest.mark.parametrize(("o", "d"), REAL)
def test_vjp_is_autograds(o, d):
    for case in cases(o, d):
        results = case(*case.inputs)
        given = cotangents(results)
        expected = tocha.autograd.grad(results, case.inputs, given, allow_unused=True, materialize_grads=True)
        values, pull_back = vjp(lambda *xs, case=case: case(*xs), *plain(case.inputs))
        close(values, plain(results), "value")
        close(pull_back(given), expected, "gradient of input")


@pytest.mark.parametrize(("o", "d"), REAL)
def test_jvp_is_the_transpose_of_vjp(o, d):
    for case in cases(o, d):
        inputs = plain(case.inputs)
        tangents = cotangents(inputs)
        values, moved = jvp(lambda *xs, case=case: case(*xs), inputs, tangents)
        given = cotangents(values)
        _, pull_back = vjp(lambda *xs, case=case: case(*xs), *inputs)
        coarse = any(v.dtype not in (tocha.float64, tocha.complex128) for v in values)
        close([inner(moved, given)], [inner(tangents, pull_back(given))], "inner product", 0.05 if coarse else 1e-6)


def mapped_vjp(case, batched, given):
    """Gradients for two cotangents at two places each, by vmap and by a loop."""

    def one(inputs, cotangent):
        return vjp(lambda *xs: case(*xs), *inputs)[1](cotangent)

    loop = [one(tuple(b[i] for b in batched), tuple(g[i] for g in given)) for i in range(2)]
    expected = [tocha.stack(list(parts)) for parts in zip(*loop, strict=True)]
    return vmap(one)(tuple(batched), given), expected


@pytest.mark.parametrize(("o", "d"), [p for p in REAL if "memory_order" not in p.values[0].tags])
def test_vmap_of_vjp_is_a_loop(o, d):
    for case in cases(o, d):
        results = plain(case(*case.inputs))
        given = tuple(tocha.stack([g, g * 2]) for g in cotangents(results))
        batched = [tocha.stack([v.detach(), v.detach()]) for v in case.inputs]
        try:
            found, expected = mapped_vjp(case, batched, given)
        except RuntimeError as error:
            own_write = "more elements than `self`" in str(error)  # into what only an operator's own body holds
            if any(text in str(error) for text in UNMAPPED) and not own_write:
                pytest.skip(f"vmap refuses it: {str(error)[:80]}")
            raise
        close(found, expected, "gradient of input")


@pytest.mark.parametrize(("o", "d"), REAL)
def test_jvp_of_vjp_is_a_second_derivative(o, d):
    for case in cases(o, d):
        inputs = plain(case.inputs)
        results = case(*case.inputs)
        given = cotangents(results)
        tangents = cotangents(inputs)
        first = tocha.autograd.grad(
            results, case.inputs, given, create_graph=True, allow_unused=True, materialize_grads=True
        )

        def gradient(*xs, case=case, given=given):
            return vjp(lambda *ys: case(*ys), *xs)[1](given)

        try:
            _, moved = jvp(gradient, inputs, tangents)
        except RuntimeError as error:  # forward mode takes one derivative more than the record has
            if "is not implemented" not in str(error):
                raise
            pytest.skip(str(error)[:80])
        weights = cotangents(moved)
        roots = [(f, w) for f, w in zip(first, weights, strict=True) if f.requires_grad]
        backward = tocha.zeros((), dtype=tocha.float64)
        if roots:
            second = tocha.autograd.grad(
                [f for f, _ in roots], case.inputs, [w for _, w in roots], allow_unused=True, materialize_grads=True
            )
            backward = inner(tangents, second)
        close([inner(moved, weights)], [backward], "inner product")


MAPPED = [
    o for o in s.all_operators() if s.function_of(o) is not None and not o.tags & {"uninitialized", "random", "factory"}
]


def float_samples(o):
    d = dt.float32 if not o.dtypes or dt.float32 in o.dtypes else o.dtypes[0]
    return s.samples(o, d)


def tensors_of(sample):
    found = []

    def take(v):
        if isinstance(v, tocha.Tensor):
            found.append(v)
            return len(found) - 1, take
        return [take(x) for x in v] if isinstance(v, list | tuple) else v

    shape = [take(v) for v in sample.args], {k: take(v) for k, v in sample.kwargs.items()}
    return found, shape, take


def put(shape, marker, xs):
    if isinstance(shape, tuple) and len(shape) == 2 and shape[1] is marker:
        return xs[shape[0]]
    if isinstance(shape, list):
        return [put(v, marker, xs) for v in shape]
    return {k: put(v, marker, xs) for k, v in shape.items()} if isinstance(shape, dict) else shape


def run_mapped(o, sample):
    """(by vmap along different dims, by a loop), or None where the operator takes no tensors."""
    tensors, shape, marker = tensors_of(sample)
    if not tensors:
        return None
    f = s.function_of(o)

    def call(*xs):
        out = f(*put(shape[0], marker, xs), **put(shape[1], marker, xs))
        return tuple(t for t in s.leaves(out) if isinstance(t, tocha.Tensor))

    dims = tuple(i % (t.ndim + 1) for i, t in enumerate(tensors))
    batched = [tocha.stack([t, t], d) for t, d in zip(tensors, dims, strict=True)]
    expected = [tocha.stack([r, r]) for r in call(*(t.clone() for t in tensors))]
    return vmap(call, in_dims=dims)(*batched), expected


def test_operators_run_on_batches_without_a_loop():
    """Of the operators that take tensors at least nine in ten, counted here; all others as a loop gives, or refused in PyTorch's words."""
    Loops.seen.clear()
    refused, tried = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for o in MAPPED:
            if o.kind == "foreach" or o.name.endswith("_"):
                continue
            try:
                pair = next((p for sample in float_samples(o) if (p := run_mapped(o, sample)) is not None), None)
            except (RuntimeError, NotImplementedError, IndexError, TypeError) as error:
                refused.append((o.full_name, str(error)[:100]))
                tried += 1
                continue
            if pair is None:
                continue
            tried += 1
            if not o.tags & {"phases", "memory_order"}:
                for a, b in zip(*pair, strict=True):
                    s.same(a, b, 1e-4, 1e-5)
    slow = {*Loops.seen, *(name for name, _ in refused)}
    assert tried > 500
    assert len(slow) <= tried // 10, f"{len(slow)} of {tried}: {sorted(slow)}\n{refused}"
