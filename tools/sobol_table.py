"""Makes tocha/quasirandom/joe_kuo_d6.bin from the published table of direction numbers.

    python tools/sobol_table.py new-joe-kuo-6.21201

The text is at https://web.maths.unsw.edu.au/~fkuo/sobol/: a heading, then for every dimension from 2 on its number d, the degree s of its
polynomial, the inner coefficients a of that as one number, and m_1 ... m_s. `tocha/quasirandom/_directions.py` reads what is made.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tocha.quasirandom._directions import row_bytes

TABLE = Path(__file__).parents[1] / "tocha" / "quasirandom" / "joe_kuo_d6.bin"


def packed(degree: int, coefficients: int, initial: list[int]) -> bytes:
    """One row of the table."""
    bits = f"{coefficients:0{degree - 1}b}" if degree > 1 else ""
    for i, m in enumerate(initial):
        assert m % 2 == 1 and m < 2 ** (i + 1), (degree, initial)
        bits += f"{m >> 1:0{i}b}" if i else ""
    length = row_bytes(degree)
    return int(bits.ljust(8 * length, "0") or "0", 2).to_bytes(length, "big")


def main(text: str) -> None:
    rows = [[int(word) for word in line.split()] for line in Path(text).read_text().splitlines()[1:]]
    TABLE.write_bytes(b"".join(packed(s, a, initial) for _, s, a, *initial in rows))


if __name__ == "__main__":
    main(sys.argv[1])
