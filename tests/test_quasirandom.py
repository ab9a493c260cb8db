"""Sobol sequences: the table of direction numbers, and the engine's state."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import tocha
from tocha.quasirandom import SobolEngine
from tocha.quasirandom._directions import direction_numbers, polynomial_count, read_rows


def is_primitive(polynomial: int) -> bool:
    """Whether x generates the field: its order is 2**degree - 1."""
    degree = polynomial.bit_length() - 1
    value, order = 1, 0
    while True:
        value <<= 1
        value ^= polynomial if value >> degree & 1 else 0
        order += 1
        if value == 1:
            return order == 2**degree - 1


def test_table_holds_every_primitive_polynomial():
    assert 1 + sum(polynomial_count(s) for s in range(1, 19)) == SobolEngine.MAXDIM
    for degree in range(1, 9):
        inner, initial = read_rows(degree)
        whole = [int("1" + "".join(map(str, row)) + "1", 2) for row in inner]
        assert len(set(whole)) == polynomial_count(degree)
        assert all(map(is_primitive, whole))
        assert (initial % 2 == 1).all() and (initial < 2 ** np.arange(1, degree + 1)).all()


def test_every_dimension_visits_every_interval_once():
    # The direction matrices have full rank, in the last dimensions too.
    numbers = direction_numbers(SobolEngine.MAXDIM)
    assert (numbers >> np.arange(29, -1, -1) & 1 == 1).all()
    points = SobolEngine(SobolEngine.MAXDIM).draw(32)
    assert tocha.equal(
        (points * 32).long().sort(0).values, tocha.arange(32).unsqueeze(1).expand(32, SobolEngine.MAXDIM)
    )


@pytest.mark.parametrize("scramble", [False, True])
def test_pieces_make_the_whole(scramble):
    whole = SobolEngine(5, scramble, seed=7).draw(1000)
    engine = SobolEngine(5, scramble, seed=7)
    pieces = [engine.draw(n) for n in (1, 1, 2, 3, 64, 1, 500, 428)]
    assert tocha.equal(tocha.cat(pieces), whole)
    for skipped in (0, 1, 2, 511, 999):
        assert tocha.equal(engine.reset().fast_forward(skipped).draw(1000 - skipped), whole[skipped:])
    assert tocha.equal(engine.reset().draw(3), whole[:3])
    engine.fast_forward(4)
    assert tocha.equal(engine.draw(2), whole[7:9])


def test_scrambled_points_stay_balanced():
    points = SobolEngine(8, scramble=True, seed=1).draw_base2(7, dtype=tocha.float64)
    assert tocha.equal((points * 128).long().sort(0).values, tocha.arange(128).unsqueeze(1).expand(128, 8))


def test_seed_decides():
    state = tocha.random.get_rng_state()
    a = SobolEngine(3, True, seed=5).draw(4)
    assert tocha.equal(state, tocha.random.get_rng_state())
    assert tocha.equal(a, SobolEngine(3, True, seed=5).draw(4))
    assert not tocha.equal(a, SobolEngine(3, True, seed=6).draw(4))
    tocha.manual_seed(0)
    b = SobolEngine(3, True).draw(4)
    tocha.manual_seed(0)
    assert tocha.equal(b, SobolEngine(3, True).draw(4))


def test_state_is_copied_and_saved():
    engine = SobolEngine(4, True, seed=2)
    engine.draw(5)
    other = copy.deepcopy(engine)
    file = io.BytesIO(pickle.dumps(engine))
    expected = engine.draw(6)
    assert tocha.equal(other.draw(6), expected)
    assert tocha.equal(pickle.load(file).draw(6), expected)


def test_out_and_dtype():
    out = tocha.empty(0, dtype=tocha.float64)
    assert SobolEngine(2).draw(3, out=out) is out
    assert out.shape == (3, 2) and out.dtype == tocha.float64
    assert SobolEngine(2).draw(3, dtype=tocha.float64).dtype == tocha.float64
    assert SobolEngine(2).draw(1, dtype=tocha.float16).dtype == tocha.float16


def test_last_points():
    engine = SobolEngine(2).fast_forward(2**30 - 2)
    assert engine.draw(2, dtype=tocha.float64).shape == (2, 2)
    state = engine.quasi.clone()
    with pytest.raises(ValueError, match="points of the sequence"):
        engine.draw(1)
    with pytest.raises(ValueError, match="points of the sequence"):
        engine.fast_forward(1)
    assert engine.num_generated == 2**30 and tocha.equal(engine.quasi, state)
