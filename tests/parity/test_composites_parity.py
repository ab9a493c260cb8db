"""Operators that are functions of others: their schemas are PyTorch's to the letter."""

from __future__ import annotations

import pytest
import torch

from tocha import ops
from tocha._library import composites


@pytest.mark.parametrize("space", ["aten", "prims"])
def test_schemas(space: str) -> None:
    theirs = {(s.name, s.overload_name): str(s) for s in torch._C._jit_get_all_schemas()}
    for name in composites.names(space):
        packet = getattr(getattr(ops, space), name)
        for overload in packet.overloads():
            schema = getattr(packet, overload)._schema
            # PyTorch's `prims` print a default as it was given: 1 for a float.
            assert str(schema).replace("=1.,", "=1,") == theirs[schema.name, schema.overload_name].replace(
                "=1.,", "=1,"
            )
