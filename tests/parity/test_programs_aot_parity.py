"""Programs that write and alias (tests/functorch/{programs,shared_programs}.py) do in eager mode what they do in PyTorch."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from beside import theirs

import tocha

FOLDER = Path(__file__).parents[1] / "functorch"
sys.path.insert(0, str(FOLDER))
from observed import agree, observed, separate, views_of_one  # noqa: E402


def programs(library: str) -> Any:
    """The same text, about one library or the other."""
    made = ModuleType(f"programs_of_{library}")
    for file in ("programs.py", "shared_programs.py"):
        text = (FOLDER / file).read_text().replace("tocha", library)
        exec(compile(text, made.__name__, "exec"), made.__dict__)
    return made


TORCH, TOCHA = programs("torch"), programs("tocha")


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", [*TORCH.PROGRAMS, *TORCH.SHARED])
def test_eager_mode(name: str, grad: bool) -> None:
    if not grad and name == "inner_gradient":
        pytest.skip("asks for gradients itself")
    make = separate if name in TORCH.PROGRAMS else views_of_one
    expected = observed(torch, {**TORCH.PROGRAMS, **TORCH.SHARED}[name], grad, make)
    found = observed(tocha, {**TOCHA.PROGRAMS, **TOCHA.SHARED}[name], grad, make)
    agree(expected, found, lambda ours, reference: torch.testing.assert_close(theirs(ours), reference))
