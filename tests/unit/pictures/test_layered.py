"""Layers: every edge goes down, nothing overlaps, the same every time, fast for real graphs."""

import random
import time
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hloc.pictures.layered import MOST_BENDS, Layers, layers, places

EDGES = st.integers(1, 40).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=90),
    )
)


def check(found: Layers, count: int, edges: list[tuple[int, int]]) -> None:
    standing = [x for row in found.rows for x in row]
    assert sorted(standing) == list(range(len(standing)))
    assert len(standing) >= count
    row = found.row_of()
    chains = {(chain[0], chain[-1]) for chain in found.chains}
    assert chains == {(min(e), max(e)) for e in edges if e[0] != e[1]}
    for chain in found.chains:
        rows = [row[x] for x in chain]
        if len(chain) > 2 or rows[-1] - rows[0] == 1:
            assert rows == list(range(rows[0], rows[0] + len(rows)))
        else:
            assert rows[-1] - rows[0] > MOST_BENDS


@given(EDGES)
def test_edges_go_down_one_row_at_a_time(case: tuple[int, list[tuple[int, int]]]) -> None:
    count, edges = case
    found = layers(count, edges)
    check(found, count, edges)
    assert found == layers(count, list(reversed(edges)))


@given(EDGES, st.randoms(use_true_random=False))
def test_boxes_of_a_row_never_overlap(
    case: tuple[int, list[tuple[int, int]]], chance: random.Random
) -> None:
    count, edges = case
    found = layers(count, edges)
    widths = [chance.uniform(10, 400) for _ in range(count)]
    x = places(found, widths, 20.0)
    for row in found.rows:
        boxes = [(x[i] - widths[i] / 2, x[i] + widths[i] / 2) for i in row if i < count]
        assert boxes == sorted(boxes)
        assert all(b[0] - a[1] > 19.9 for a, b in pairwise(boxes))
    assert min((x[i] - widths[i] / 2 for i in range(count)), default=0.0) >= -1e-6


def test_a_chain_is_straight() -> None:
    found = layers(5, [(i, i + 1) for i in range(4)])
    x = places(found, [50.0, 120.0, 80.0, 60.0, 50.0], 20.0)
    assert len(found.rows) == 5
    assert max(x) - min(x) < 1e-6


def test_crossings_are_undone() -> None:
    """Two rows of a ladder that are given crosswise."""
    edges = [(0, 7), (1, 6), (2, 5), (3, 4)]
    found = layers(8, edges)
    above, below = found.rows
    pair = dict(edges)
    assert [pair[x] for x in above] == list(below)


def test_what_has_no_operand_stands_near_its_user() -> None:
    """The weight of the last layer is not drawn at the top."""
    edges = [(i, i + 1) for i in range(6)] + [(7, 8), (6, 8)]
    row = layers(9, edges).row_of()
    assert row[7] == row[8] - 1


def test_what_has_one_operand_and_one_user_stands_near_its_user() -> None:
    """The update of a weight is not drawn at the top, far from the gradient it waits for."""
    edges = [(i, i + 1) for i in range(20)] + [(21, 22), (22, 23), (20, 23)]
    row = layers(24, edges).row_of()
    assert [row[23] - row[x] for x in (20, 22, 21)] == [1, 1, 2]


def test_long_edges_of_one_box_share_their_bends() -> None:
    """A weight that thirty rows read is one line beside the boxes, not thirty lines behind them."""
    edges = [(i, i + 1) for i in range(30)] + [(0, i) for i in range(2, 31)]
    found = layers(31, edges)
    check(found, 31, edges)
    assert all(len(c) == c[-1] + 1 for c in found.chains if c[0] == 0), "one bend in every row"
    assert sum(map(len, found.rows)) == 31 + 29


def test_a_real_size_takes_less_than_seconds() -> None:
    """8,194 instructions, as the largest computation of a diffusion model has.

    It takes about a second, three where others use the same cores; quadratic work takes minutes.
    """
    chance = random.Random(0)
    edges = [(max(0, i - chance.choice([1, 1, 2, 5, 40, 900])), i) for i in range(1, 8194)]
    edges += [(max(0, i - chance.randrange(1, 60)), i) for i in range(1, 8194, 2)]
    started = time.process_time()
    found = layers(8194, edges)
    places(found, [120.0] * 8194, 20.0)
    assert time.process_time() - started < 12.0
    check(found, 8194, edges)
