"""The cheapest cut between two vertices of a directed network (Dinic's algorithm)."""

from __future__ import annotations

import math
from collections import deque

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
        for tail, head, c in ((a, b, capacity), (b, a, 0.0)):
            self.edges[tail].append(len(self.heads))
            self.heads.append(head)
            self.capacity.append(c)

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
        level = [-1] * len(self.edges)
        level[source] = 0
        queue = deque([source])
        while queue:
            v = queue.popleft()
            for e in self.edges[v]:
                w = self.heads[e]
                if level[w] < 0 and self.capacity[e] > 0:
                    level[w] = level[v] + 1
                    queue.append(w)
        return level

    def _fill(self, level: list[int], source: int, sink: int) -> None:
        """A blocking flow along edges that go one level up; depth first without recursion, since paths are long."""
        unused = [0] * len(self.edges)
        path: list[int] = []
        v = source
        while True:
            if v == sink:
                least = min(self.capacity[e] for e in path)
                if least == UNCUTTABLE:
                    raise ValueError("a path from source to sink cannot be cut")
                for e in path:
                    self.capacity[e] -= least
                    self.capacity[e ^ 1] += least
                full = next(i for i, e in enumerate(path) if self.capacity[e] <= 0)
                v = self.heads[path[full] ^ 1]
                del path[full:]
                continue
            e = self._next_edge(v, level, unused)
            if e >= 0:
                path.append(e)
                v = self.heads[e]
            elif v == source:
                return
            else:
                back = path.pop()
                v = self.heads[back ^ 1]
                unused[v] += 1

    def _next_edge(self, v: int, level: list[int], unused: list[int]) -> int:
        edges = self.edges[v]
        while unused[v] < len(edges):
            e = edges[unused[v]]
            if self.capacity[e] > 0 and level[self.heads[e]] == level[v] + 1:
                return e
            unused[v] += 1
        return -1
