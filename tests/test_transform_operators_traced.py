"""Transforms of every operator, traced: the graph gives what the transform gives. Made from the records; none is named here."""

from __future__ import annotations

import warnings

import pytest
import samples as s
import test_transform_operators as eager
from test_operator_gradients import cases

import tocha
from tocha.func import jvp, vjp, vmap
from tocha.fx.experimental.proxy_tensor import make_fx

# What no graph can have: numbers and sizes that depend on elements.
UNTRACED = (
    "DataDependentOutputException",
    "GuardOnDataDependentSymNode",
    "trying to get value out of a tracing tensor",
)
TRACED = [p for p in eager.REAL if not p.values[0].tags & {"random", "nondeterministic_seeded"}]


def check(f, args, mode):
    """Says what went wrong; None if nothing did, or if the transform itself refuses."""
    try:
        expected = f(*args)
    except (RuntimeError, NotImplementedError, IndexError, TypeError):
        return None
    try:
        found = make_fx(f, tracing_mode=mode, _allow_non_fake_inputs=True)(*args)(*args)
        eager.close(found, expected, "result", 1e-4)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        return None if any(t in text for t in UNTRACED) else text
    return None


def pulled(case, count):
    return lambda *xs: tuple(vjp(lambda *ys: case(*ys), *xs[:count])[1](tuple(xs[count:])))


def pushed(case, count):
    return lambda *xs: tuple(jvp(lambda *ys: case(*ys), xs[:count], xs[count:])[1])


def program(case, transform):
    """A function, and what it is called with."""
    inputs = list(eager.plain(case.inputs))
    if transform == "jvp":
        return pushed(case, len(inputs)), [*inputs, *eager.cotangents(inputs)]
    args = [*inputs, *eager.cotangents(eager.plain(case(*case.inputs)))]
    f = pulled(case, len(inputs))
    return (f, args) if transform == "vjp" else (vmap(f), [tocha.stack([a, a]) for a in args])


@pytest.mark.parametrize("transform", ["vjp", "jvp", "vmap of vjp"])
@pytest.mark.parametrize("part", range(8))
def test_derivatives_are_traced(part, transform):
    wrong = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for p in TRACED[part::8]:
            o, d = p.values
            case = next(iter(cases(o, d)), None)
            problem = None if case is None else check(*program(case, transform), "fake")
            if problem is not None:
                wrong[o.full_name] = problem[:200]
    assert not wrong


@pytest.mark.parametrize("mode", ["real", "fake"])
@pytest.mark.parametrize("part", range(8))
def test_batches_are_traced(part, mode):
    wrong = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for o in eager.MAPPED[part::8]:
            if o.kind == "foreach" or o.name.endswith("_") or o.tags & {"phases", "memory_order"}:
                continue
            for sample in eager.float_samples(o):
                tensors, shape, marker = eager.tensors_of(sample)
                if not tensors:
                    continue

                f = s.function_of(o)

                def call(*xs, f=f, shape=shape, marker=marker):
                    out = f(*eager.put(shape[0], marker, xs), **eager.put(shape[1], marker, xs))
                    return tuple(t for t in s.leaves(out) if isinstance(t, tocha.Tensor))

                dims = tuple(i % (t.ndim + 1) for i, t in enumerate(tensors))
                batched = [tocha.stack([t, t], d) for t, d in zip(tensors, dims, strict=True)]
                problem = check(vmap(call, in_dims=dims), batched, mode)
                if problem is not None:
                    wrong[o.full_name] = problem[:200]
                break
    assert not wrong
