"""Operators that PyTorch has and tocha has not: under the alias they can be named, and refuse when they are called.

Packages use them as keys (`@implements(aten._pin_memory.default)`), or register kernels for their own tensors.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from pathlib import Path

from tocha._library.registry import definitions
from tocha.library import Library


@functools.cache
def _schemas() -> dict[str, list[str]]:
    """By name, the schemas of an operator's overloads."""
    found = defaultdict(list)
    for line in Path(__file__).with_name("pytorch_operators.txt").read_text().splitlines():
        found[line.partition("(")[0].partition(".")[0]].append(line)
    return dict(found)


@functools.cache
def _library() -> Library:
    return Library("aten", "FRAGMENT")


def define(namespace: str, name: str) -> None:
    """Defines a missing operator, or its missing overloads, without a kernel."""
    there = definitions.get(f"{namespace}::{name}", {})
    for schema in _schemas().get(name, ()) if namespace == "aten" else ():
        if schema.partition("(")[0].partition(".")[2] not in there:
            _library().define(schema)
