"""Layered graph layout: rows, order within rows, and coordinates.

Rows by longest path, order by barycentre sweeps, coordinates by isotonic regression, so that boxes
are below their operands and never overlap. An edge that crosses rows bends in each of them,
so that it runs beside the boxes; the edges of one box share their bends. Above a limit on bends,
long edges are drawn straight. All steps are iterative, deterministic and linear except sorting;
after Sugiyama, Tagawa and Toda (1981).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hloc.lazy_dataclass import dataclass

MOST_BENDS = 10
"""Maximum number of rows that a bent edge crosses once there are too many bends."""

MOST_ALL_BENDS = 2000
"""Number of bends, or eight per box, above which only short edges bend."""

_BENDS_PER_BOX = 8

_ORDER_SWEEPS = 8
_PLACE_SWEEPS = 8
_MANY = 2000
_BEND_WIDTH = 8.0
_BEND_WEIGHT = 4.0
_BEND_GAP = 6.0


@dataclass(frozen=True, slots=True)
class Layers:
    """Boxes 0 to `count`-1 and the bends after them, in rows from top to bottom.

    Attributes:
        rows: numbers of boxes and bends, from left to right.
        chains: one per edge: its box, the bends, its other box, from top to bottom. A
            straight edge across several rows is not among the links.
    """

    count: int
    rows: tuple[tuple[int, ...], ...]
    chains: tuple[tuple[int, ...], ...]

    def row_of(self) -> list[int]:
        """Return the row of every box and bend."""
        found = [0] * sum(map(len, self.rows))
        for number, row in enumerate(self.rows):
            for x in row:
                found[x] = number
        return found


def layers(count: int, edges: Sequence[tuple[int, int]]) -> Layers:
    """Return the layers of boxes 0 to `count`-1, which are given in a topological order.

    Args:
        count: number of boxes.
        edges: pairs of boxes. One against the order belongs to a cycle and is reversed.
    """
    down = sorted({(min(a, b), max(a, b)) for a, b in edges if a != b})
    rank = _ranks(count, down)
    chains = _chains(down, rank)
    total = len(rank)
    rows: list[list[int]] = [[] for _ in range(max(rank, default=-1) + 1)]
    for x in range(total):
        rows[rank[x]].append(x)
    links = _links(chains, rank)
    _reduce_crossings(rows, links, total)
    return Layers(count, tuple(map(tuple, rows)), tuple(chains))


def _ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the rows: below all operands, and near the first user if no edge gets longer by it."""
    rank = [0] * count
    operands = [0] * count
    users: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:  # sorted by `a`, so the rank of `a` is final
        rank[b] = max(rank[b], rank[a] + 1)
        operands[b] += 1
        users[a].append(b)
    for a in reversed(range(count)):
        if users[a] and operands[a] <= len(users[a]):
            rank[a] = min(rank[user] for user in users[a]) - 1
    return rank


def _chains(edges: Sequence[tuple[int, int]], rank: list[int]) -> list[tuple[int, ...]]:
    """Return the chain of every edge, and append the rows of the bends to `rank`."""
    most = max(MOST_ALL_BENDS, _BENDS_PER_BOX * len(rank)) + len(rank)
    bends: dict[int, list[int]] = {}  # of a box: one in every row below it
    found: dict[tuple[int, int], tuple[int, ...]] = {}
    for a, b in sorted(edges, key=lambda edge: rank[edge[1]] - rank[edge[0]]):
        between = rank[b] - rank[a] - 1
        own = bends.setdefault(a, [])
        if between > MOST_BENDS and len(rank) + between - len(own) > most:
            found[a, b] = (a, b)
            continue
        while len(own) < between:
            own.append(len(rank))
            rank.append(rank[a] + len(own))
        found[a, b] = (a, *own[:between], b)
    return [found[edge] for edge in edges]


def _links(
    chains: Sequence[tuple[int, ...]], rank: Sequence[int]
) -> tuple[list[list[int]], list[list[int]]]:
    """Return, for every box and bend, its neighbours in the row above and in the row below."""
    above: list[list[int]] = [[] for _ in rank]
    below: list[list[int]] = [[] for _ in rank]
    for a, b in dict.fromkeys(link for chain in chains for link in pairwise(chain)):
        if rank[b] - rank[a] == 1:
            above[b].append(a)
            below[a].append(b)
    return above, below


def _reduce_crossings(
    rows: list[list[int]], links: tuple[list[list[int]], list[list[int]]], total: int
) -> None:
    """Sort each row by the mean position of its neighbours, downwards and upwards in turn."""
    above, below = links
    place = [0.0] * total
    for row in rows:
        _number(row, place)
    best, fewest = [list(row) for row in rows], _crossings(rows, below)
    for sweep in range(_ORDER_SWEEPS if total <= _MANY else 3):
        neighbours, order = (above, rows) if sweep % 2 == 0 else (below, rows[::-1])
        for row in order:
            key = {x: _mean([place[y] for y in neighbours[x]], place[x]) for x in row}
            row.sort(key=key.__getitem__)
            _number(row, place)
        crossings = _crossings(rows, below)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
        if not fewest:
            break
    rows[:] = best


def _number(row: list[int], place: list[float]) -> None:
    """Set the positions in a row from 0 to 1, so that rows of different lengths compare."""
    for i, x in enumerate(row):
        place[x] = (i + 0.5) / len(row)


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _crossings(rows: list[list[int]], below: list[list[int]]) -> int:
    """Return the number of crossing pairs of links; uses a Fenwick tree per pair of rows."""
    total = 0
    for number, row in enumerate(rows[:-1]):
        where = {x: i for i, x in enumerate(rows[number + 1])}
        tree = [0] * (len(where) + 1)
        seen = 0
        for x in row:
            ends = sorted(where[y] for y in below[x])
            for end in ends:
                total += seen - _sum(tree, end + 1)
            for end in ends:
                _add(tree, end + 1)
            seen += len(ends)
    return total


def _sum(tree: list[int], i: int) -> int:
    total = 0
    while i:
        total += tree[i]
        i &= i - 1
    return total


def _add(tree: list[int], i: int) -> None:
    while i < len(tree):
        tree[i] += 1
        i += i & -i


# ---------------------------------------------------------------- places


def places(found: Layers, widths: Sequence[float], gap: float) -> list[float]:
    """Return the middle of every box and bend, from left to right, the leftmost edge at 0.

    Args:
        found: rows and order.
        widths: widths of the boxes; bends need little.
        gap: between a box and its neighbour in the row; bends are closer.
    """
    size = [*widths, *[_BEND_WIDTH] * (sum(map(len, found.rows)) - found.count)]
    above, below = _links(found.chains, found.row_of())

    def gaps(row: Sequence[int]) -> list[float]:
        return [gap if min(pair) < found.count else _BEND_GAP for pair in pairwise(row)]

    x = [0.0] * len(size)
    for row in found.rows:
        _set_row(row, [0.0] * len(row), [1.0] * len(row), size, gaps(row), x)
    sweeps = _PLACE_SWEEPS if len(size) <= _MANY else 4
    for sweep in range(sweeps):
        neighbours, rows = (above, found.rows) if sweep % 2 == 0 else (below, found.rows[::-1])
        for row in rows:
            ideal, weight = [], []
            for y in row:
                beside = neighbours[y]
                ideal.append(_median([x[z] for z in beside]) if beside else x[y])
                bends = y >= found.count
                weight.append(_BEND_WEIGHT if bends else 1.0 if beside else 0.1)
            _set_row(row, ideal, weight, size, gaps(row), x)
    left = min((x[y] - size[y] / 2 for y in range(len(size))), default=0.0)
    return [value - left for value in x]


def _median(values: list[float]) -> float:
    values.sort()
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def _set_row(
    row: Sequence[int],
    ideal: Sequence[float],
    weight: Sequence[float],
    size: Sequence[float],
    gaps: Sequence[float],
    x: list[float],
) -> None:
    """Place a row as close to `ideal` as its order and widths allow (pool adjacent violators)."""
    offset, offsets = 0.0, []
    pools: list[list[float]] = []  # mean, weight, count
    for i, y in enumerate(row):
        if i:
            offset += (size[row[i - 1]] + size[y]) / 2 + gaps[i - 1]
        offsets.append(offset)
        pools.append([ideal[i] - offset, weight[i], 1])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            mean, load, count = pools.pop()
            last = pools[-1]
            last[0] = (last[0] * last[1] + mean * load) / (last[1] + load)
            last[1] += load
            last[2] += count
    i = 0
    for mean, _, count in pools:
        for _ in range(int(count)):
            x[row[i]] = mean + offsets[i]
            i += 1
