# ruff: noqa: UP006, UP007, UP035, UP045
"""torch.jit of eager programs: what does not need a compiled program behaves as PyTorch's."""

from __future__ import annotations

import inspect
from typing import Any, Dict, List, Optional, Tuple, Union

import pytest
import torch

import tocha

VALUES = [
    ([], List[int]), ([1, "a"], List[int]), ({}, Dict[str, int]), ({"a": "b"}, Dict[str, int]), ((1,), Tuple[int, str]), (1, Union[int, str]),
    (1.0, Union[int, str]), (1, (int, str)), ([1], (List[str], List[int])), ([[1]], List[List[int]]), ([1], list), ([1], List), (3, Optional[int]),
    (None, Optional[int]), ([1], list[int]), ({"a": [1]}, dict[str, list[int]]), ((1, "a"), tuple[int, str]), (1, int | str), (1, Any), ((1, 2), Tuple[int, ...]),
]  # fmt: skip


def outcome(call):
    try:
        return call()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_isinstance(number):
    value, kind = VALUES[number]
    assert outcome(lambda: tocha.jit.isinstance(value, kind)) == outcome(lambda: torch.jit.isinstance(value, kind))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", [lambda t: t.jit.script(3), lambda t: t.jit.trace(len)], ids=["script", "trace"])
def test_bad_calls(call):
    assert outcome(lambda: call(tocha)) == outcome(lambda: call(torch))


@pytest.mark.parametrize(
    ("module", "name"),
    [("jit", n) for n in ("trace", "trace_module", "run_frozen_optimizations", "freeze", "script", "save", "load")]
    + [("hub", n) for n in ("list", "help", "load", "load_state_dict_from_url", "download_url_to_file")],
)
def test_arguments(module, name):
    ours, theirs = (inspect.signature(getattr(getattr(t, module), name)).parameters.values() for t in (tocha, torch))
    assert [(p.name, p.kind) for p in ours] == [(p.name, p.kind) for p in theirs]


@pytest.mark.parametrize("name", ["MODULE_HUBCONF", "READ_DATA_CHUNK", "ENV_TORCH_HOME", "DEFAULT_CACHE_DIR"])
def test_constants_of_hub(name):
    assert getattr(tocha.hub, name) == getattr(torch.hub, name)
