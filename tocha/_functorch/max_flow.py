"""The cheapest cut between two vertices of a directed network (Dinic's algorithm)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain

UNCUTTABLE = math.inf


class Network:
    """Vertices are numbered from 0 in the order they are asked for; capacities may be infinite."""

    def __init__(self) -> None:
        self.edges: list[list[int]] = []  # by vertex: its edges' numbers; an edge's partner, number ^ 1, goes back
        self.heads: list[int] = []
        self.capacity: list[float] = []

    def vertex(self) -> int:
        self.edges.append([])
        return len(self.edges) - 1

    def connect(self, a: int, b: int, capacity: float) -> None:
        number = len(self.heads)
        self.edges[a].append(number)
        self.edges[b].append(number + 1)
        self.heads += (b, a)
        self.capacity += (capacity, 0.0)

    def source_side(self, source: int, sink: int) -> set[int]:
        """What remains connected to the source when the cheapest cut is made, the one nearest to the source of several.

        Raises ValueError where a path cannot be cut.
        """
        while True:
            level = self._levels(source)
            if level[sink] < 0:
                return {v for v, d in enumerate(level) if d >= 0}
            self._fill(level, source, sink)

    def _levels(self, source: int) -> list[int]:
        heads, capacity = self.heads, self.capacity
        level = [-1] * len(self.edges)
        level[source] = 0
        queue = [source]
        for v in queue:
            above = level[v] + 1
            for e in self.edges[v]:
                w = heads[e]
                if level[w] < 0 and capacity[e] > 0:
                    level[w] = above
                    queue.append(w)
        return level

    def _fill(self, level: list[int], source: int, sink: int) -> None:
        """A blocking flow along edges that go one level up; depth first without recursion, since paths are long."""
        heads, capacity = self.heads, self.capacity
        left = [iter(edges) for edges in self.edges]  # of each vertex, the edges that were not tried yet
        path: list[int] = []
        v = source
        while True:
            above = level[v] + 1
            for e in left[v]:
                if level[heads[e]] == above and capacity[e] > 0:
                    break
            else:
                if v == source:
                    return
                v = heads[path.pop() ^ 1]
                continue
            path.append(e)
            v = heads[e]
            if v == sink:
                v = self._push(path, left)

    def _push(self, path: list[int], left: list[Iterator[int]]) -> int:
        """Sends along a path what it can take, and goes back to before its first edge that is full then."""
        capacity = self.capacity
        least = min([capacity[e] for e in path])
        if least == UNCUTTABLE:
            raise ValueError("a path from source to sink cannot be cut")
        for e in path:
            capacity[e] -= least
            capacity[e ^ 1] += least
        full = next(i for i, e in enumerate(path) if capacity[e] <= 0)
        for e in path[full + 1 :]:
            v = self.heads[e ^ 1]
            left[v] = chain((e,), left[v])  # it may take more from elsewhere
        v = self.heads[path[full] ^ 1]
        del path[full:]
        return v
