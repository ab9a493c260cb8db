"""What tests that put a record beside its PyTorch counterpart have in common."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

import tocha

sys.path.insert(0, str(Path(__file__).parents[1]))
from samples import all_operators, function_of

from tocha.operators.record import Operator

SPACES = {"": (torch, torch.nn.functional), "special": (torch.special,), "nn": (torch.nn.functional,)}

__all__ = [
    "Operator", "all_operators", "counterpart", "expressions", "function_of", "hold_told", "ours", "same_bits", "tensors_of", "theirs",
]  # fmt: skip


def counterpart(o: Operator) -> Any:
    """PyTorch's function of the same name, or None."""
    return next((getattr(m, o.public_name) for m in SPACES.get(o.namespace, ()) if hasattr(m, o.public_name)), None)


def tensors_of(o: Operator) -> list[str]:
    """The names of the tensors that a call needs."""
    return [a.name for a in o.schema.arguments if a.type in ("Tensor", "Operand") and a.default is None]


def ours(t: torch.Tensor) -> tocha.Tensor:
    t = t.detach().contiguous()
    if t.dtype == torch.bfloat16:
        return tocha.from_numpy(t.view(torch.int16).numpy().copy()).view(tocha.bfloat16)
    return tocha.from_numpy(t.numpy().copy())


def theirs(t: tocha.Tensor) -> torch.Tensor:
    t = t.detach().contiguous()
    if t.dtype == tocha.bfloat16:
        return torch.from_numpy(t.view(tocha.int16).numpy().copy()).view(torch.bfloat16)
    return torch.from_numpy(t.numpy().copy())


def same_bits(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Where elements are equal, NaN like NaN and zeros of either sign alike."""
    return (a == b) | ((a != a) & (b != b))


def expressions(text: str) -> list[str]:
    """Expressions between semicolons and lines."""
    return [e.strip() for line in text.strip().splitlines() for e in line.split(";")]


def hold_told(told: Any, phrase: Any, expression: str) -> None:
    """Both libraries tell the same of an expression: the text of its result, or an error of one type with PyTorch's phrase."""
    mine, wanted = told(tocha, expression), told(torch, expression)
    if isinstance(wanted, str):
        assert mine == wanted
    else:
        assert mine[0] == wanted[0] and phrase(wanted[1]) in mine[1]
