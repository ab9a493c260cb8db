"""Fake against real, derived from the records: facts of the results, what is whose view, gradients and the names of nodes.

No operator is named here. Elements that decide the form of a result make the call raise what PyTorch's raises.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import facts_harness as h
import pytest
import samples as s

import tocha
from tocha._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from tocha.autograd.graph import saved_tensors_hooks
from tocha.ir import dtypes as dt

CALLABLE = [o for o in s.all_operators() if s.function_of(o) is not None]
UNKNOWABLE = (DataDependentOutputException, DynamicOutputShapeException)


def named(o) -> str:
    return o.full_name


def usual_dtype(o):
    return dt.float32 if not o.dtypes or dt.float32 in o.dtypes else o.dtypes[0]


def mapped(f, value: Any) -> Any:
    if isinstance(value, tocha.Tensor):
        return f(value)
    if isinstance(value, list | tuple):
        return type(value)([mapped(f, v) for v in value])
    return {k: mapped(f, v) for k, v in value.items()} if isinstance(value, dict) else value


def tensors(value: Any) -> list[tocha.Tensor]:
    found: list[tocha.Tensor] = []
    mapped(lambda t: found.append(t) or t, [*value] if isinstance(value, list | tuple) else [value])
    return found


def relations(results: Any, given: list[tocha.Tensor]) -> list[Any]:
    """Per result: which argument it is, whose memory it is on, and of which argument it is a view."""

    def place(found) -> int:
        return next((i for i, t in enumerate(given) if found(t)), -1)

    return [
        (
            place(lambda t, r=r: t is r),
            place(lambda t, r=r: t.untyped_storage()._cdata == r.untyped_storage()._cdata),
            place(lambda t, r=r: r._base is not None and (r._base is t or r._base is t._base)),
            r._is_view(),
        )
        for r in tensors(results)
    ]


def looks(value: Any) -> Any:
    return mapped(h.described, list(value) if isinstance(value, tuple) else value)


def call(f, sample) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f(*sample.args, **sample.kwargs)


def compare(o, f, sample) -> bool:
    mode = FakeTensorMode()
    fake = s.Sample(mapped(mode.from_tensor, sample.args), mapped(mode.from_tensor, sample.kwargs))
    given, fakes = tensors([*sample.args, *sample.kwargs.values()]), tensors([*fake.args, *fake.kwargs.values()])
    before = [t._version for t in given]
    real = call(f, sample)
    try:
        with mode:
            found = call(f, fake)
    except UNKNOWABLE as e:
        assert reads_elements(o) or mentions_reader(e), e
        return False
    assert all(isinstance(t, FakeTensor) for t in tensors(found))
    assert isinstance(real, tocha.Tensor) or type(found) is type(real)
    assert looks(found) == looks(real)
    assert relations(found, fakes) == relations(real, given)
    written = [t._version != version for t, version in zip(given, before, strict=True)]
    assert [t._version > 0 for t in fakes] == written
    return True


def reads_elements(o) -> bool:
    answers = bool(o.schema.returns) and o.schema.returns[0].type == "bool"
    return bool(o.kind == "foreach" or answers or o.tags & {"reads_values", "dynamic"})


def mentions_reader(e: Exception) -> bool:
    """Whether what stopped is an operator that reads elements, or reading one element itself."""
    name = str(e).split(".")[1]
    readers = [o for o in s.all_operators() if o.tags & {"reads_values", "dynamic"} or o.algorithm == "selection"]
    return name == "_local_scalar_dense" or any(o.name.lstrip("_").startswith(name) or name in o.name for o in readers)


@pytest.mark.parametrize("o", CALLABLE, ids=named)
def test_results_are_the_real_ones(o):
    for sample in s.samples(o, usual_dtype(o)):
        compare(o, s.function_of(o), sample)


@pytest.mark.parametrize("o", [o for o in CALLABLE if "inplace" in o.variants and o.kind != "foreach"], ids=named)
def test_in_place(o):
    for sample in s.samples(o, usual_dtype(o)):
        if not isinstance(sample.args[0], tocha.Tensor):
            continue
        try:
            compare(o, s.inplace_forms(o)[0], sample)
        except RuntimeError as e:
            fake = mapped(FakeTensorMode().from_tensor, [list(sample.args), sample.kwargs])
            with pytest.raises(type(e)):  # the native form refuses, so does this
                s.inplace_forms(o)[0](*fake[0], **fake[1])


def live(value: Any, o, name: str) -> Any:
    """The argument with tensors that want gradients, where the operator may have such."""

    def wanting(t: tocha.Tensor) -> tocha.Tensor:
        return t.detach().requires_grad_() if t.is_floating_point() or t.is_complex() else t

    return value if name in o.constants else mapped(wanting, value)


def wanting_and_fake(o, sample, mode: FakeTensorMode) -> tuple[tuple, dict, s.Sample]:
    """A sample's arguments with tensors that want gradients, and fakes of them."""
    names = [a.name for a in o.schema.arguments]
    args = tuple(live(a, o, n) for n, a in zip(names, sample.args, strict=False))
    kwargs = {k: live(v, o, k) for k, v in sample.kwargs.items()}
    return args, kwargs, s.Sample(mapped(mode.from_tensor, args), mapped(mode.from_tensor, kwargs))


DIFFERENTIABLE = [
    o for o in CALLABLE if "no_gradient" not in o.tags and not o.name.endswith("_") and o.kind != "foreach"
]


@pytest.mark.parametrize("o", DIFFERENTIABLE, ids=named)
def test_gradients_are_the_real_ones(o):
    """Which results have a history, what its node is called, and the facts of the gradients that come back."""
    if o.dtypes and dt.float64 not in o.dtypes:
        pytest.skip("has no gradient in float64")
    for sample in s.gradient_samples(o, dt.float64):
        mode = FakeTensorMode()
        args, kwargs, fake = wanting_and_fake(o, sample, mode)
        try:
            real = tensors(call(s.function_of(o), s.Sample(args, kwargs)))
        except RuntimeError as e:
            with pytest.raises(RuntimeError, match=str(e).split("]")[-1][1:20].strip() or None), mode:
                call(s.function_of(o), fake)
            continue
        try:
            with mode:
                found = tensors(call(s.function_of(o), fake))
        except UNKNOWABLE:
            continue
        assert [r.requires_grad for r in found] == [r.requires_grad for r in real]
        assert [title(r) for r in found] == [title(r) for r in real]
        compare_gradients(
            o, real, found, tensors([*args, *kwargs.values()]), tensors([*fake.args, *fake.kwargs.values()])
        )


def packed(f: Any, sample: Any) -> Counter:
    """What a call keeps for its backward, as saved_tensors_hooks see it."""
    seen: list = []
    with saved_tensors_hooks(lambda t: seen.append((tuple(t.shape), t.dtype)) or t, lambda t: t):
        call(f, sample)
    return Counter(seen)


# Composites keep values that they make themselves and nobody else can write to; those are no tensors here.
KEEPING = [o for o in DIFFERENTIABLE if o.kind != "composite" and (o.gradients or o.kind == "pointwise")]


@pytest.mark.parametrize("o", KEEPING, ids=named)
def test_as_much_is_kept_for_backward(o):
    d = dt.float64 if not o.dtypes or dt.float64 in o.dtypes else usual_dtype(o)
    for sample in s.gradient_samples(o, d):
        mode = FakeTensorMode()
        args, kwargs, fake = wanting_and_fake(o, sample, mode)
        try:
            expected = packed(s.function_of(o), s.Sample(args, kwargs))
        except RuntimeError:  # not with these inputs
            continue
        try:
            with mode:
                assert packed(s.function_of(o), fake) == expected
        except UNKNOWABLE:
            continue


def title(t: tocha.Tensor) -> str:
    return t.grad_fn.name().split(".")[-1] if t.grad_fn is not None else ""


def compare_gradients(o, real, found, inputs, fakes) -> None:
    def gradients(results, of):
        roots = [r for r in results if r.requires_grad]
        wanted = [t for t in of if t.requires_grad]
        if not roots or not wanted:
            return []
        return tocha.autograd.grad(roots, wanted, [tocha.ones_like(r) for r in roots], allow_unused=True)

    try:
        expected = gradients(real, inputs)
    except RuntimeError:
        if "phases" in o.tags:
            return  # refused for its elements, which fakes do not have
        with pytest.raises(RuntimeError):
            gradients(found, fakes)
        return
    try:
        got = gradients(found, fakes)
    except UNKNOWABLE:  # a mask, of which the elements decide what comes back
        return
    assert [None if g is None else shape(g) for g in got] == [None if g is None else shape(g) for g in expected]


def shape(g: tocha.Tensor) -> Any:
    return tuple(g.shape), g.dtype, str(g.device)
