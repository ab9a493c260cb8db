"""Gradients of every operator, made from the records; none is named here.

Each record's samples, in float64 and complex128, are held against finite differences: first and second derivatives,
the in-place form, and forward mode. What cannot be checked so says why on its record, by a tag or a constraint that
docs/inside/operators.md explains.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import samples as s

import tocha
from tocha._build.gradients import lacks_gradient
from tocha.autograd import forward_ad, gradcheck, gradgradcheck
from tocha.ir import dtypes as dt
from tocha.operators.derived import formulas, usable
from tocha.operators.record import Operator

DTYPES = (dt.float64, dt.complex128)
CALLABLE = [o for o in s.all_operators() if s.function_of(o) is not None]


def differentiable_inputs(o: Operator) -> set[str]:
    """The arguments that have gradients, as the record says it."""
    if o.tags & {"no_gradient", "factory"}:
        return set()
    tensors = [a.name for a in o.schema.arguments if a.is_tensor]
    if o.kind == "composite" and not o.gradients:
        return set(tensors) - set(o.constants)
    if o.kind == "view" and not o.gradients:
        return {tensors[0]}
    if o.kind != "pointwise":
        return {n for names in o.gradients for n in names}
    found = next((f for t in DTYPES if usable(o, t) and (f := formulas(o, t))), None) or ()
    return {n for n, formula in zip(tensors, found, strict=False) if formula is not None}


# What is true of an input, made true of whatever is given.
CONSTRAINTS: dict[str, Callable] = {
    "hermitian": lambda x, kwargs: (x + x.mH) / 2,
    "hermitian if asked": lambda x, kwargs: (x + x.mH) / 2 if kwargs.get("hermitian") else x,
    "triangular": lambda x, kwargs: x.triu() if kwargs.get("upper") else x.tril(),
    "factor": lambda x, kwargs: with_real_diagonal(x.triu() if kwargs.get("upper") else x.tril()),
    "log_probabilities": lambda x, kwargs: x.log_softmax(-1),
}


def with_real_diagonal(x: tocha.Tensor) -> tocha.Tensor:
    diagonal = x.diagonal(0, -2, -1)
    return x - tocha.diag_embed(diagonal - diagonal.real) if x.is_complex() else x


def is_differentiable(v: Any) -> bool:
    return isinstance(v, tocha.Tensor) and (v.is_floating_point() or v.is_complex())


@dataclass
class Case:
    """A call as a function of the tensors that have gradients."""

    o: Operator
    f: Callable  # the form that is called
    args: list
    kwargs: dict
    places: list = field(default_factory=list)  # of the inputs: (position or name, index in a list or None, constraint)
    inputs: list = field(default_factory=list)
    kept: list[int] | None = None  # which results have gradients; all until that is known

    def __call__(self, *inputs: tocha.Tensor) -> tuple:
        args, kwargs = list(self.args), dict(self.kwargs)
        for (at, index, constraint), given in zip(self.places, inputs, strict=True):
            value = CONSTRAINTS[constraint](given, kwargs) if constraint else given
            holder: Any = args if isinstance(at, int) else kwargs
            if index is not None:
                value = [*holder[at][:index], value, *holder[at][index + 1 :]]
            holder[at] = value
        tocha.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = [t for t in s.leaves(self.f(*args, **kwargs)) if is_differentiable(t)]
        if "phases" in self.o.tags:
            results = [t.abs() for t in results]
        return tuple(results if self.kept is None else [results[i] for i in self.kept])

    def tolerances(self) -> dict[str, float]:
        """Differences of results with few digits need great steps."""
        eps = max((tocha.finfo(t.dtype).eps for t in self(*self.inputs)), default=0.0)
        return {} if eps < 1e-10 else {"eps": 2.0**-4, "atol": 20 * eps, "rtol": 20 * eps}


def case_of(o: Operator, sample: s.Sample, f: Callable) -> Case:
    wanted = differentiable_inputs(o)
    names = [a.name for a in o.schema.arguments if not a.keyword_only]
    case = Case(o, f, list(sample.args), dict(sample.kwargs))
    for at, value in [*enumerate(sample.args), *sample.kwargs.items()]:
        name = names[min(at, len(names) - 1)] if isinstance(at, int) else at
        for index, item in enumerate(value) if isinstance(value, list | tuple) else [(None, value)]:
            if name in wanted and is_differentiable(item):
                case.places.append((at, index, o.constraints.get(name)))
                case.inputs.append(item.detach().clone().requires_grad_())
    return case


def writing_to_a_copy(f: Callable) -> Callable:
    """f changes its first argument, and a leaf must not be changed."""
    return lambda x, *args, **kwargs: f(x.clone(), *args, **kwargs)


def plain_form(o: Operator) -> Callable:
    f = s.function_of(o)
    return writing_to_a_copy(f) if o.name.endswith("_") else f


def is_refused(case: Case, results: tuple) -> bool:
    """The operator itself says that it has no gradient at this sample."""
    try:
        tocha.autograd.grad(results, case.inputs, [tocha.ones_like(r) for r in results], allow_unused=True)
    except RuntimeError as e:
        return "differentia" in str(e)
    return False


def cases(o: Operator, d: dt.DType, form: Callable | None = None) -> list[Case]:
    """The record's samples in dtype d of which something can be differentiated, inside the domain."""
    found = []
    for number, sample in enumerate(s.gradient_samples(o, d)):
        case = case_of(o, sample, form or plain_form(o))
        if not case.inputs:
            continue
        try:
            results = case(*case.inputs)
        except RuntimeError:
            if d.is_complex or form is not None:  # not every operator takes complex numbers; not every result fits
                continue
            raise
        assert not results or any(r.requires_grad for r in results), f"{o.full_name} has no gradient"
        if not all(bool(r.isfinite().all()) for r in results):
            assert number > 0, f"{o.full_name}: samples outside its domain"
            continue
        case.kept = [i for i, r in enumerate(results) if r.requires_grad]
        results = tuple(results[i] for i in case.kept)
        if results and not is_refused(case, results):
            found.append(case)
    return found


def pairs(*without: str) -> list:
    """Operators and dtypes to try; not those with a tag of these, which say why not."""
    return [
        pytest.param(o, d, id=f"{o.full_name}-{d.code}")
        for o in CALLABLE
        for d in DTYPES
        if (not o.dtypes or d in o.dtypes) and differentiable_inputs(o) and not o.tags & {"uninitialized", *without}
    ]


KNOWN = pairs("drawn", "no_derivative", "straight_through")
TWICE = pairs("drawn", "no_derivative", "straight_through", "first_order")


@pytest.mark.parametrize(("o", "d"), KNOWN)
def test_gradient_is_the_finite_difference(o, d):
    for case in cases(o, d):
        assert gradcheck(case, case.inputs, nondet_tol=math.inf, **case.tolerances())


@pytest.mark.parametrize(("o", "d"), TWICE)
def test_second_derivative_is_the_finite_difference(o, d):
    for case in cases(o, d):
        assert gradgradcheck(case, case.inputs, nondet_tol=math.inf, **case.tolerances())


@pytest.mark.parametrize(("o", "d"), TWICE)
def test_forward_mode_is_the_finite_difference(o, d):
    for case in cases(o, d):
        assert gradcheck(case, case.inputs, check_backward_ad=False, check_forward_ad=True, **case.tolerances())


FLAT = [p for p in TWICE if p.values[0].flat and p.values[1] is dt.float64]


@pytest.mark.parametrize(("o", "d"), FLAT)
def test_the_gradient_of_what_is_piecewise_linear_hangs_on_its_input(o, d):
    """By itself: what arrives wants no gradient of its own."""
    for case in cases(o, d):
        results = case(*case.inputs)
        grads = tocha.autograd.grad([r.sum() for r in results], case.inputs, create_graph=True)
        assert all(g.requires_grad for g in grads)
        again = tocha.autograd.grad([g.sum() for g in grads], case.inputs)
        assert all(bool(g.isfinite().all()) for g in again)


IN_PLACE = [p for p in KNOWN if "inplace" in p.values[0].variants]


@pytest.mark.parametrize(("o", "d"), IN_PLACE)
def test_in_place_gradient_is_the_finite_difference(o, d):
    for form in s.inplace_forms(o):
        for case in cases(o, d, writing_to_a_copy(form)):
            assert gradcheck(case, case.inputs, nondet_tol=math.inf, **case.tolerances())


@pytest.mark.parametrize("o", [o for o in CALLABLE if "drawn" in o.tags], ids=lambda o: o.full_name)
def test_random_draws_have_gradients(o):
    """No difference of draws, but numbers, and the same each time."""
    for case in cases(o, dt.float64):
        first, again = (
            tocha.autograd.grad([r.sum() for r in case(*case.inputs)], case.inputs, allow_unused=True) for _ in range(2)
        )
        for a, b in zip(first, again, strict=True):
            assert a is not None
            assert bool(a.isfinite().all())
            assert a.tolist() == b.tolist()


@pytest.mark.parametrize("o", [o for o in CALLABLE if "straight_through" in o.tags], ids=lambda o: o.full_name)
def test_straight_through_gradients_are_what_arrives_or_nothing(o):
    for sample in s.gradient_samples(o, dt.float64):
        x = sample.args[0].detach().requires_grad_()
        result = next(iter(s.leaves(s.function_of(o)(x, *sample.args[1:], **sample.kwargs))))
        (through,) = tocha.autograd.grad(result, x, tocha.full_like(result, 3.0))
        assert set(through.flatten().tolist()) <= {0.0, 3.0}


REFUSING = [o for o in CALLABLE if "no_derivative" in o.tags or (lacks_gradient(o) and not o.name.endswith("_"))]


@pytest.mark.parametrize("o", REFUSING, ids=lambda o: o.full_name)
def test_what_has_no_derivative_says_so(o):
    if o.dtypes and dt.float64 not in o.dtypes:
        return
    for sample in s.samples(o, dt.float64):
        wanted = [t.requires_grad_() for t in [*sample.args, *sample.kwargs.values()] if is_differentiable(t)]
        for r in s.leaves(s.function_of(o)(*sample.args, **sample.kwargs)):
            if is_differentiable(r) and wanted:
                with pytest.raises(RuntimeError, match="not implemented"):
                    r.sum().backward()


@pytest.mark.parametrize("o", REFUSING, ids=lambda o: o.full_name)
def test_what_has_no_derivative_carries_no_tangents(o):
    """Forward mode says so, too: a tangent that is lost would be a derivative of zero."""
    if o.dtypes and dt.float64 not in o.dtypes:
        return
    for sample in s.samples(o, dt.float64):
        plain = s.leaves(s.function_of(o)(*sample.args, **sample.kwargs))
        if not any(is_differentiable(t) for t in sample.args) or not any(is_differentiable(r) for r in plain):
            continue
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(t, tocha.ones_like(t)) if is_differentiable(t) else t for t in sample.args]
            with pytest.raises(NotImplementedError, match="forward AD"):
                s.function_of(o)(*duals, **sample.kwargs)
