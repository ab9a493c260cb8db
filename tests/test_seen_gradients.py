"""Gradients as those see them who take operators over, and as ahead-of-time differentiation writes them down: the values are
the usual ones, of real and of complex numbers. Made from the records; none is named but where an edge is its own.
"""

from __future__ import annotations

from typing import Any

import pytest
from test_operator_gradients import KNOWN, cases
from test_operator_saved import first, same

import tocha
from tocha._functorch.aot_autograd import aot_function
from tocha.utils._python_dispatch import TorchDispatchMode


class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


# What reads values to know its sizes is not traced.
TRACEABLE = [p for p in KNOWN if "reads_values" not in p.values[0].tags]


@pytest.mark.parametrize(("o", "d"), TRACEABLE)
def test_watched_and_traced_gradients_are_the_usual_ones(o, d):
    for case in cases(o, d):
        expected = first(case(*case.inputs), case.inputs)
        try:
            with Watching():
                watched = first(case(*case.inputs), case.inputs)
        except NotImplementedError:  # as PyTorch's convolution_backward has no complex numbers
            assert d.is_complex
            continue
        same(watched, expected, "watched")
        traced = aot_function(case, fw_compiler=lambda graph, inputs: graph)
        same(first(traced(*case.inputs), case.inputs), expected, "traced")


@pytest.mark.parametrize(
    ("base", "exponent"), [(0.0, 0.0), (0.0, 2.0), (0.0, -1.0), (2.0, 0.0), (-2.0, 2.0), (0j, 2 + 0j), (1 + 2j, 0j)]
)
def test_powers_at_their_edges(base, exponent):
    inputs = [tocha.tensor([v], requires_grad=True) for v in (base, exponent)]
    expected = first((tocha.pow(*inputs),), inputs)
    traced = aot_function(lambda x, y: (tocha.pow(x, y),), fw_compiler=lambda graph, inputs: graph)
    same(first(traced(*inputs), inputs), expected, "traced")
