"""Sobol sequences against PyTorch: direction numbers of all dimensions, points, scrambling, state and errors.

Needs torch beside tocha; run by `make parity`.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import tocha


def both(program):
    return program(tocha, tocha.quasirandom.SobolEngine), program(torch, torch.quasirandom.SobolEngine)


def same(a, b):
    assert a.numpy().dtype == b.numpy().dtype
    assert np.array_equal(a.numpy(), b.numpy())


def same_engine(a, b):
    for name in ("sobolstate", "shift", "quasi", "_first_point"):
        same(getattr(a, name), getattr(b, name))
    assert a.num_generated == int(b.num_generated)
    assert repr(a) == repr(b)


def test_every_dimension():
    a, b = both(lambda m, engine: engine(21201))
    same_engine(a, b)
    same(a.draw(70), b.draw(70))
    same_engine(a, b)


@pytest.mark.parametrize("seed", [None, 0, 1234])
@pytest.mark.parametrize("dimension", [1, 2, 5, 40, 300])
def test_scrambled(dimension, seed):
    def program(m, engine):
        m.manual_seed(3)
        return engine(dimension, scramble=True, seed=seed), m.rand(2)

    (a, a_rand), (b, b_rand) = both(program)
    same_engine(a, b)
    same(a.draw(100), b.draw(100))
    same_engine(a, b)
    same(a_rand, b_rand)


PROGRAMS = [
    lambda m, e: e.draw(),
    lambda m, e: e.draw(1000),
    lambda m, e: (e.draw(1), e.draw(1), e.draw(2), e.draw(0), e.draw(255), e.draw(1000)),
    lambda m, e: (e.draw_base2(3), e.draw_base2(3), e.draw_base2(4)),
    lambda m, e: (e.fast_forward(0).draw(2), e.fast_forward(1).draw(2), e.fast_forward(100).draw(3)),
    lambda m, e: (e.fast_forward(3), e.reset(), e.draw(5), e.reset().draw(2), e.fast_forward(2**16 - 4).draw(2)),
    lambda m, e: e.draw(3, dtype=m.float64),
    lambda m, e: (e.draw(1, dtype=m.float16), e.draw(2)),
    lambda m, e: e.draw(3, out=m.empty(0, dtype=m.float64)),
    lambda m, e: e.draw(3, out=m.empty(6), dtype=m.float64),
    lambda m, e: e.draw(n=m.tensor(3)),
    lambda m, e: e.draw_base2(2, m.empty(0), m.float32),
]


@pytest.mark.parametrize("scramble", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(program, scramble):
    def run(m, engine):
        e = engine(6, scramble, seed=11)
        return e, program(m, e)

    (a, x), (b, y) = both(run)
    same_engine(a, b)
    for p, q in zip(x, y) if isinstance(x, tuple) else [(x, y)]:
        if isinstance(q, torch.Tensor):
            same(p, q)


def test_default_dtype():
    def program(m, engine):
        first = engine(3, True, seed=1)
        m.set_default_dtype(m.float64)
        try:
            second = engine(3, True, seed=1)
            return first.draw(3), second.draw(3)
        finally:
            m.set_default_dtype(m.float32)

    for a, b in zip(*both(program)):
        same(a, b)


BAD = [
    lambda m, S: S(0),
    lambda m, S: S(21202),
    lambda m, S: S("a"),
    lambda m, S: S(2).draw(0),
    lambda m, S: S(2).draw(-1),
    lambda m, S: S(2).draw(2.0),
    lambda m, S: S(2).draw(2, dtype=m.float16),
    lambda m, S: S(2).draw(2, dtype=m.int64),
    lambda m, S: S(2).draw(2, dtype=m.complex64),
    lambda m, S: S(2).fast_forward(2.0),
    lambda m, S: (e := S(2), e.draw(3), e.draw_base2(3)),
]


@pytest.mark.parametrize("program", BAD)
def test_errors(program):
    with pytest.raises(Exception) as theirs:
        program(torch, torch.quasirandom.SobolEngine)
    with pytest.raises(theirs.type) as ours:
        program(tocha, tocha.quasirandom.SobolEngine)
    phrase = re.sub(r"^_sobol_engine_\w+\(\): ", "", str(theirs.value)).split(": [")[0]
    assert phrase in str(ours.value)
