"""What every operator keeps for its backward, made from the records; none is named here.

The gradients themselves are held against finite differences in test_operator_gradients.py. Here the same samples must give
the same first and second derivatives whatever became of the values that were kept: in the in-place forms, under
saved_tensors_hooks, through checkpoint. And a value that is written over after the fact is noticed, or was not needed.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import samples as s
from test_operator_gradients import KNOWN, TWICE, Case, cases, writing_to_a_copy

import tocha
from tocha._build.gradients import node_for
from tocha.autograd.graph import saved_tensors_hooks
from tocha.ir import dtypes as dt
from tocha.ir.derivative import saved
from tocha.operators.derived import formulas, usable
from tocha.operators.record import Operator
from tocha.utils.checkpoint import checkpoint


def slopes(t: tocha.Tensor, number: int) -> tocha.Tensor:
    """What arrives at a result: numbers of its shape, the same each time."""
    values = (tocha.arange(t.numel(), dtype=tocha.float64) * 0.37 + number).sin().view(t.shape)
    return values.to(t.dtype)


def first(results: tuple, inputs: list, **options: Any) -> list:
    grads = [slopes(r, i) for i, r in enumerate(results)]
    found = tocha.autograd.grad(results, inputs, grads, allow_unused=True, **options)
    return [tocha.zeros_like(x) if g is None else g for g, x in zip(found, inputs, strict=True)]


def derivatives(call: Callable, inputs: list, twice: bool) -> list:
    """The first derivatives of all results, and those of these."""
    grads = first(call(*inputs), inputs, create_graph=twice)
    again = tuple(g for g in grads if g.requires_grad)
    return [*grads, *(first(again, inputs) if again else [])]


def same(found: list, expected: list, what: str) -> None:
    for a, b in zip(found, expected, strict=True):
        assert tocha.allclose(a.detach(), b.detach(), rtol=1e-9, atol=1e-11, equal_nan=True), what


@contextlib.contextmanager
def nothing() -> Any:
    yield


def passing_through() -> saved_tensors_hooks:
    return saved_tensors_hooks(lambda t: t, lambda t: t)


def copying() -> saved_tensors_hooks:
    return saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t.clone())


@cache
def known_cases(o: Operator, d: Any) -> tuple[Case, ...]:
    return tuple(cases(o, d))


def is_second_order(o: Operator) -> bool:
    return "first_order" not in o.tags


@pytest.mark.parametrize(("o", "d"), KNOWN)
def test_hooks_and_checkpoints_change_no_derivative(o, d):
    for case in known_cases(o, d):

        def under(hooks: Callable, case: Case = case) -> Callable:
            def call(*inputs: tocha.Tensor) -> tuple:
                with hooks():
                    return case(*inputs)

            return call

        twice = is_second_order(o)
        expected = derivatives(case, case.inputs, twice)
        same(derivatives(under(passing_through), case.inputs, twice), expected, "hooks that give back what they get")
        same(derivatives(under(copying), case.inputs, twice), expected, "hooks that copy")
        again = derivatives(lambda *xs, f=case: checkpoint(f, *xs, use_reentrant=False), case.inputs, twice)
        same(again, expected, "checkpoint")


IN_PLACE = [p for p in TWICE if "inplace" in p.values[0].variants]


@pytest.mark.parametrize(("o", "d"), IN_PLACE)
def test_in_place_forms_have_the_same_second_derivatives(o, d):
    for form in s.inplace_forms(o):
        for case in cases(o, d, writing_to_a_copy(form)):
            plain = Case(o, s.function_of(o), case.args, case.kwargs, case.places, case.inputs, case.kept)
            expected = derivatives(plain, case.inputs, True)
            for hooks in (nothing, passing_through):
                with hooks():
                    found = derivatives(case, case.inputs, True)
                same(found, expected, f"{form.__name__} under {hooks.__name__}")


def is_refused(results: tuple, inputs: list, expected: list) -> bool:
    """Whether backward says that something it needs was written over; if not, its results are right."""
    try:
        found = first(results, inputs)
    except RuntimeError as e:
        assert re.search("modified (by an )?inplace", str(e)), e
        return True
    same(found, expected, "a value was read that had been written over")
    return False


def overwrite(t: tocha.Tensor) -> None:
    """Other numbers, which the history does not hear of."""
    t.detach().copy_(tocha.full_like(t, 7))


@pytest.mark.parametrize(("o", "d"), KNOWN)
def test_inputs_that_are_written_over_are_noticed_or_not_needed(o, d):
    for case in known_cases(o, d):
        expected = first(case(*case.inputs), case.inputs)
        for number in range(len(case.inputs)):
            copies = [x.clone() for x in case.inputs]
            results = case(*copies)
            overwrite(copies[number])
            is_refused(results, case.inputs, expected)


def keeps_result(o: Operator) -> bool | None:
    """Whether the node of an operator with one result keeps it, by what its gradients read; None if that depends."""
    if o.kind == "pointwise":
        dtypes = [t for t in (dt.float32, dt.float64, dt.complex64) if usable(o, t)]
        return any(saved([g]).outputs for t in dtypes for g in formulas(o, t) or () if g is not None)
    node = node_for(o, lambda f: None)
    if node is None:
        return None  # its parts decide
    kept = [k.elements for k in node.keeps.values() if k.kind == "output"]
    return None if any("true" not in tests for tests in kept) else bool(kept)


@pytest.mark.parametrize(("o", "d"), KNOWN)
def test_results_that_are_written_over_are_noticed_or_not_needed(o, d):
    """In place after the fact: allowed or refused by what the record's gradients read."""
    for case in known_cases(o, d):
        expected = first(case(*case.inputs), case.inputs)
        for number in range(len(case.kept)):
            results = case(*(x.clone() for x in case.inputs))
            if results[number]._base is not None:
                continue  # an input was written over
            overwrite(results[number])
            refused = is_refused(results, case.inputs, expected)
            if len(o.schema.returns) == 1 and o.schema.returns[0].type == "Tensor":
                assert keeps_result(o) in (refused, None)
