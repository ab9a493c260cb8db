"""Direction numbers of the Sobol sequence, from the table of S. Joe and F. Y. Kuo (search criterion D(6), 21201 dimensions).

Dimension 0 is the van der Corput sequence. Each further one belongs to a primitive polynomial over GF(2), in order of degree: all
of the degrees 1 to 18. `joe_kuo_d6.bin` (made by tools/sobol_table.py) has one row of whole bytes for each, most significant bit first: the
inner coefficients of the polynomial, then the initial numbers m_1 ... m_s without their last bit, since they are odd and m_i < 2**i.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from pathlib import Path

import numpy as np

__all__ = ["MAXBIT", "MAXDIM", "direction_numbers"]

MAXBIT = 30
MAXDIM = 21201
_DEGREES = range(1, 19)
_TABLE = Path(__file__).with_name("joe_kuo_d6.bin")


def row_bytes(degree: int) -> int:
    """The length of a row of the table."""
    return (degree - 1 + degree * (degree - 1) // 2 + 7) // 8


@lru_cache
def polynomial_count(degree: int) -> int:
    """How many primitive polynomials of this degree there are: phi(2**degree - 1) / degree."""
    order = 2**degree - 1
    return sum(1 for i in range(1, order + 1) if gcd(i, order) == 1) // degree


def _numbers(bits: np.ndarray) -> np.ndarray:
    """The rows of bits, most significant first, as integers."""
    return bits.astype(np.int64) @ (1 << np.arange(bits.shape[1] - 1, -1, -1, dtype=np.int64))


def read_rows(degree: int) -> tuple[np.ndarray, np.ndarray]:
    """The inner coefficients (rows x degree - 1) and initial numbers (rows x degree) of the dimensions of one degree."""
    count = polynomial_count(degree)
    offset = sum(polynomial_count(s) * row_bytes(s) for s in range(1, degree))
    data = np.fromfile(_TABLE, np.uint8, count * row_bytes(degree), offset=offset)
    bits = np.unpackbits(data.reshape(count, row_bytes(degree)), axis=1)
    initial = np.empty((count, degree), np.int64)
    at = degree - 1
    for i in range(degree):
        initial[:, i] = 2 * _numbers(bits[:, at : at + i]) + 1
        at += i
    return bits[:, : degree - 1], initial


@lru_cache
def _directions_of(degree: int) -> np.ndarray:
    coefficients, initial = read_rows(degree)
    m = np.empty((len(initial), MAXBIT), np.int64)
    m[:, :degree] = initial
    for j in range(degree, MAXBIT):
        m[:, j] = m[:, j - degree] ^ (m[:, j - degree] << degree)
        for k in range(1, degree):
            m[:, j] ^= coefficients[:, k - 1] * (m[:, j - k] << k)
    return (m << np.arange(MAXBIT - 1, -1, -1)).astype(np.int32)


def direction_numbers(dimension: int) -> np.ndarray:
    """The direction numbers of the first dimensions, MAXBIT of MAXBIT bits for each."""
    result = np.empty((dimension, MAXBIT), np.int64)
    result[0] = 1 << np.arange(MAXBIT - 1, -1, -1)
    done = 1
    for degree in _DEGREES:
        if done == dimension:
            break
        rows = _directions_of(degree)[: dimension - done]
        result[done : done + len(rows)] = rows
        done += len(rows)
    return result
