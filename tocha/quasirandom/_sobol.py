"""The Sobol sequence.

The sequence is linear over GF(2): the point of index i is the exclusive or of one column for every bit that is set in i, so
points of many indices are a table of their high bits combined with a table of their low bits.
"""

from __future__ import annotations

from operator import index
from typing import Any

from tocha._C import (
    Generator,
    Tensor,
    arange,
    cat,
    empty,
    float32,
    float64,
    from_numpy,
    get_default_dtype,
    int64,
    randint,
    zeros,
)
from tocha.quasirandom import _directions

__all__ = ["SobolEngine"]


def _whole(name: str, n: Any) -> int:
    try:
        return index(n)
    except TypeError:
        raise TypeError(f"[{name}] argument 'n' (position 2) must be int, not {type(n).__name__}") from None


def _point(columns: Tensor, index: int) -> Tensor:
    """The exclusive or of the columns of the bits that are set in index."""
    result = zeros(columns.shape[1], dtype=int64, device=columns.device)
    for bit in range(index.bit_length()):
        if index >> bit & 1:
            result ^= columns[bit]
    return result


def _points(columns: Tensor, start: int, count: int, shift: Tensor) -> Tensor:
    """The shifted points of the indices from start on, one to a row."""
    if count == 1:
        return (_point(columns, start) ^ shift).unsqueeze(0)
    bits = count.bit_length() // 2
    low = zeros(1, columns.shape[1], dtype=int64, device=columns.device)
    for bit in range(bits):
        low = cat([low, low ^ columns[bit]])
    first = start >> bits
    high = _points(columns[bits:], first, ((start + count - 1) >> bits) - first + 1, shift)
    skipped = start - (first << bits)
    return (high.unsqueeze(1) ^ low).flatten(0, 1)[skipped : skipped + count]


class SobolEngine:
    """Points of the Sobol sequence in [0, 1) of up to 21201 dimensions, with the direction numbers of Joe and Kuo (D(6)).

    `scramble=True` turns the sequence by a random lower-triangular matrix of bits and a random shift, which `seed` decides.

    >>> import tocha
    >>> tocha.quasirandom.SobolEngine(dimension=3).draw(3)
    tensor([[0.0000, 0.0000, 0.0000],
            [0.5000, 0.5000, 0.5000],
            [0.7500, 0.2500, 0.2500]])
    """

    __module__ = "tocha.quasirandom"

    MAXBIT = _directions.MAXBIT
    MAXDIM = _directions.MAXDIM

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(
                f"[SobolEngine] Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]: got {dimension}"
            )
        self.seed = seed
        self.scramble = scramble
        self.dimension = dimension
        self.sobolstate = from_numpy(_directions.direction_numbers(dimension))
        self.shift = zeros(dimension, dtype=int64, device="cpu")
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next n points, one to a row."""
        n = _whole("_sobol_engine_draw", n)
        if dtype is None:
            dtype = get_default_dtype()
        if self.num_generated == 0:
            result = self._first_point.to(dtype, copy=True)
            if n != 1:
                result = cat([result, self._next(n - 1, dtype)])
        else:
            result = self._next(n, dtype)
        self.num_generated += n
        if out is None:
            return result
        return out.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next 2**m points. The number of all points drawn has to stay a power of two, which keeps them balanced."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1) != 0:
            raise ValueError(
                "[draw_base2] The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: n={self.num_generated}+2**{m}={total}. "
                "If you still want to do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Begins the sequence again."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leaves n points out."""
        n = _whole("_sobol_engine_ff_", n)
        self._check_left("fast_forward", n)
        columns, last = self._columns(), max(self.num_generated - 1, 0)
        ahead = max(self.num_generated + n - 1, 0)
        self.quasi ^= _point(columns, last) ^ _point(columns, ahead)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        if self.scramble:
            parts.append("scramble=True")
        if self.seed is not None:
            parts.append(f"seed={self.seed}")
        return f"SobolEngine({', '.join(parts)})"

    def _columns(self) -> Tensor:
        """What bit b of a point's index contributes: points are in Gray code order, where bit b also flips bit b - 1."""
        state = self.sobolstate.t()
        return cat([state[:1], state[1:] ^ state[:-1]])

    def _check_left(self, name: str, n: int) -> None:
        """Past its last point PyTorch reads beyond the table."""
        if n < 0 or self.num_generated + n > 2**self.MAXBIT:
            raise ValueError(
                f"[{name}] n must not be negative, nor lead past the {2**self.MAXBIT} points of the sequence: "
                f"got n={n} after {self.num_generated} points"
            )

    def _next(self, n: int, dtype: Any) -> Tensor:
        """n points after the last one, which quasi holds."""
        if dtype not in (float32, float64):
            kind = empty(0, dtype=dtype, device="cpu").type().split(".")[-1].removesuffix("Tensor")
            raise NotImplementedError(f"[draw] \"_sobol_engine_draw\" not implemented for '{kind}'")
        if n <= 0:
            return empty(n, self.dimension, dtype=dtype, device="cpu")
        self._check_left("draw", n)
        last = max(self.num_generated - 1, 0)
        if n == 1:
            flipped = (last + 1 & -(last + 1)).bit_length() - 1
            points = (self.quasi ^ self.sobolstate[:, flipped]).unsqueeze(0)
        else:
            columns = self._columns()
            points = _points(columns, last + 1, n, self.quasi ^ _point(columns, last))
        self.quasi.copy_(points[-1])
        return points.to(dtype).mul_(2.0**-self.MAXBIT)

    def _scramble(self) -> None:
        generator = None
        if self.seed is not None:
            generator = Generator()
            generator.manual_seed(self.seed)
        bits = randint(2, (self.dimension, self.MAXBIT), device="cpu", generator=generator)
        self.shift = (bits << arange(self.MAXBIT, device="cpu")).sum(1)
        matrix = randint(2, (self.dimension, self.MAXBIT, self.MAXBIT), device="cpu", generator=generator).tril_()
        matrix.diagonal(dim1=-2, dim2=-1).fill_(1)
        # The matrix turns the bits of a number, most significant first: bit q of it adds column q of the matrix.
        places = arange(self.MAXBIT - 1, -1, -1, device="cpu")
        turns = (matrix << places.unsqueeze(1)).sum(1)
        turned = zeros(self.dimension, self.MAXBIT, dtype=int64, device="cpu")
        for q in range(self.MAXBIT):
            turned ^= (self.sobolstate >> (self.MAXBIT - 1 - q) & 1) * turns[:, q : q + 1]
        self.sobolstate = turned
