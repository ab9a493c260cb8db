"""Cuts of networks, against all of them tried one by one."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocha._functorch.max_flow import UNCUTTABLE, Network


def network_of(n: int, edges) -> Network:
    made = Network()
    for _ in range(n):
        made.vertex()
    for a, b, c in edges:
        made.connect(a, b, c)
    return made


def cost(side, edges) -> float:
    return sum(c for a, b, c in edges if a in side and b not in side)


def least(n: int, edges) -> float:
    inner = range(2, n)
    sides = (set(s) | {0} for k in range(n - 1) for s in itertools.combinations(inner, k))
    return min(cost(side, edges) for side in sides)


networks = st.integers(2, 7).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(
            st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.one_of(st.integers(0, 9), st.just(math.inf))),
            max_size=18,
        ),
    )
)


@given(networks)
def test_the_cut_is_the_cheapest(drawn):
    n, edges = drawn
    expected = least(n, edges)
    if expected == math.inf:
        with pytest.raises(ValueError, match="cannot be cut"):
            network_of(n, edges).source_side(0, 1)
        return
    side = network_of(n, edges).source_side(0, 1)
    assert 0 in side
    assert 1 not in side
    assert cost(side, edges) == expected


def test_a_long_chain_is_cut_where_it_is_thin():
    edges = [(0, 2, UNCUTTABLE), *((i, i + 1, 5 if i != 3000 else 1) for i in range(2, 6000)), (6000, 1, UNCUTTABLE)]
    side = network_of(6001, edges).source_side(0, 1)
    assert side == {0, *range(2, 3001)}
