"""Decompositions of kernels on tensors, also those of levels: their operators are called one by one."""

from __future__ import annotations

from typing import Any

from tocha._library.native_calls import Eager, held, released
from tocha.operators.interpreter import converter
from tocha.operators.record import Operator


def decompose(record: Operator, values: list[Any]) -> Any:
    """A kernel's results from its decomposition, given the record's arguments in order."""
    assert record.decomposition is not None
    arguments = [converter(a)(held(v)) for a, v in zip(record.schema.arguments, values, strict=False)]
    reader = Eager()
    with reader.inside(record):
        return released(record.decomposition(*arguments))
