"""Products on the processor's matrix units, each in a process of its own; the emulation of AMX runs on every machine."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKS = Path(__file__).parent / "matrix_unit_checks.py"
NAMES = ("emulated", "amx", "avx512", "neon_products", "neon_dot")


def run(unit: str, *arguments: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "TOCHA_MATRIX_UNIT": unit, "TOCHA_NUM_THREADS": "3"}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)


@functools.cache
def chosen(unit: str) -> str:
    """What the processor has of that name, by dtype, as text."""
    done = run(unit, "-c", "from tocha import _C; print(_C._matrix_units())")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_units_are_chosen_by_name():
    assert chosen("emulated") == "{'bfloat16': 'emulated', 'int8': 'emulated'}"
    assert chosen("none") == "{'bfloat16': None, 'int8': None}"
    assert chosen("no such unit") == chosen("")
    assert "emulated" not in chosen("")


@pytest.mark.parametrize("check", ["products", "special_values", "convolutions", "attention", "bytes"])
@pytest.mark.parametrize("unit", [*NAMES, "none"])
def test_unit(unit, check):
    if unit != "none" and f"'{'int8' if check == 'bytes' else 'bfloat16'}': '{unit}'" not in chosen(unit):
        pytest.skip(f"this processor has no {unit} for it")
    done = run(unit, str(CHECKS), check)
    assert done.returncode == 0, done.stderr
